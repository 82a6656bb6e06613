//! Asks for a page until there is one: which replica is asked, and which answers count.
//!
//! (1) The request names the term of the leader that the client is connected to. After the answer came the
//!     client looks whether its lease on that very leader covers this moment: then the leader led when the
//!     replica looked for the last time, and the page is what GETs could see (decision 30, point 3).
//! (2) An item whose time may be over, by the leader's calendar, is asked about at the leader, as a GET does.
//! (3) A large value is READ from the arena of the replica that answered. Its checksum and its version say
//!     that it is the one.

use std::time::Duration;

use longarm_base::{Csn, Nanos, Term, UnixMillis};
use longarm_fabric::{Address, SetupError, Transport};
use longarm_host::now;
use longarm_wire::{Bad, RefusalCode, ScanAnswer, ScanKind, ScanStatus, TreeMoment};

use super::link::{ScanArrived, ScanLink, ScanWanted};
use super::made::Made;
use super::page::{Came, Counted};
use super::range::Rest;
use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::{Error, refusal};
use crate::link::Trouble;
use crate::side::{Side, Size};

/// The bytes of large values after which a page ends: the caller has all of a page in memory.
const FAR_BYTES_MAX: u64 = 4 << 20;
/// How long a replica is not asked that was behind, or whose page was disturbed.
const SHUN_BRIEFLY: Duration = Duration::from_millis(100);
/// How long a replica is not asked that has no ordered index now, or cannot be reached.
const SHUN_LONG: Duration = Duration::from_secs(1);
/// The pause after all replicas were tried: least, most, and as a share of the time that went by.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
const PAUSE_SHARE: u64 = 8;

/// A page that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub(super) operation: u64,
    /// The leader on which the client had its lease, and the term that the request named.
    pub(super) boot: u64,
    pub(super) term: Term,
    /// The leader's calendar when it was asked for, or a little earlier.
    pub(super) unix: UnixMillis,
}

/// Who is to make a page that is wanted soon, and what was done for it.
pub(crate) struct Ahead {
    side: Side,
    asked: Option<Asked>,
    /// How long that took.
    took: Nanos,
}

/// Why there is no page yet.
pub(super) enum Miss {
    /// No connection to a replica could be made.
    Unreached(String),
    /// The connection to the replica is of no use any more: for so long others are asked.
    Left { why: String, shun: Duration },
    /// The replica has no page now: for so long others are asked.
    PassedOver { why: &'static str, shun: Duration },
    /// The operation's time was over before the replica answered.
    Late,
    /// The leader is in trouble.
    Leader(Trouble),
    /// The page does not count: ask again.
    Again(&'static str),
    /// Nothing that is tried again will help.
    End(Error),
}

/// The tries for one page.
#[derive(Default)]
pub(super) struct Tries {
    began: Option<Nanos>,
    /// Replicas that failed in a row.
    failed: usize,
    /// Whether one of them said that its group keeps no ordered index.
    unordered: bool,
    /// Whether one of them takes scans.
    reached: bool,
    /// Why the last one had no page that said so.
    said: Option<&'static str>,
}

impl<T: Transport> Client<T> {
    /// The next page of a scan, which may have been asked for before.
    pub(crate) fn next_page(&mut self, rest: &Rest, ahead: Option<Ahead>) -> Result<Came, Error> {
        if rest.snapshot().is_some() {
            return self.snapshot_page(rest, ahead.and_then(|ahead| ahead.asked));
        }
        let (deadline, size, began) = (&self.deadline(), Size::of_limit(rest.limit().into()), now());
        let Ahead { side, asked, took } = match ahead {
            Some(ahead) => ahead,
            None => Ahead { side: self.scan_side(rest), asked: None, took: Nanos(0) },
        };
        let walked = if side == Side::Client { self.walked_page(rest, deadline)? } else { None };
        let came = match walked {
            Some(came) => Ok(came),
            None => self.asked_page(rest, asked, deadline),
        };
        // What a walk took in vain is part of its time. What the client did between the request and its
        // answer is no part of the request's.
        let ended = now();
        self.scans.selector.ended(ended, size, side, took + ended.since(began));
        came
    }

    /// Who is to make the next page.
    fn scan_side(&mut self, rest: &Rest) -> Side {
        let size = Size::of_limit(rest.limit().into());
        self.options.scan_side.unwrap_or_else(|| self.scans.selector.choose(now(), size, 1))
    }

    fn asked_page(&mut self, rest: &Rest, asked: Option<Asked>, deadline: &Deadline) -> Result<Came, Error> {
        let send = |client: &mut Client<T>| client.send_scan(rest);
        self.until_answered(send, asked, deadline, |client, asked, arrived, deadline| {
            let answer = decode(arrived)?;
            let mut came = Came::take(&answer, rest).map_err(foul)?;
            came.made = client.made(asked, answer.head.made);
            client.check_led(asked, arrived.at, deadline)?;
            client.check_time(&came, arrived.at, deadline)?;
            client.fetch_far(&mut came, deadline)?;
            Ok(came)
        })
    }

    /// What a page that was just answered was made of.
    pub(super) fn made(&self, asked: Asked, moment: TreeMoment) -> Option<Made> {
        let Asked { boot, term, .. } = asked;
        self.scans.links.last().map(|link| Made { moment, replica: link.address.clone(), boot, term })
    }

    /// The next part of a count.
    pub(crate) fn next_count(&mut self, rest: &Rest) -> Result<Counted, Error> {
        let (send, deadline) = (|client: &mut Client<T>| client.send_scan(rest), self.deadline());
        self.until_answered(send, None, &deadline, |client, asked, arrived, deadline| {
            let counted = Counted::take(&decode(arrived)?, rest).map_err(foul)?;
            client.check_led(asked, arrived.at, deadline)?;
            Ok(counted)
        })
    }

    /// Asks for a page without waiting for anything, if that is possible now, unless the client is to make
    /// it.
    pub(crate) fn ask_ahead(&mut self, rest: &Rest) -> Ahead {
        if rest.snapshot().is_some() {
            let asked = self.send_snapshot_page(rest).ok();
            return Ahead { side: Side::Server, asked, took: Nanos(0) };
        }
        self.ask_by(rest, |client| client.send_scan(rest).ok())
    }

    /// The same, but waits for a lease and for a connection, if there are none.
    pub(crate) fn ask_soon(&mut self, rest: &Rest) -> Ahead {
        if rest.snapshot().is_some() {
            return self.ask_ahead(rest);
        }
        self.ask_by(rest, |client| {
            let deadline = client.deadline();
            let mut tries = Tries::default();
            client.reach_replica(&mut tries, &deadline).and_then(|()| client.send_scan(rest)).ok()
        })
    }

    fn ask_by(&mut self, rest: &Rest, ask: impl FnOnce(&mut Client<T>) -> Option<Asked>) -> Ahead {
        let (began, side) = (now(), self.scan_side(rest));
        let asked = if side == Side::Server { ask(self) } else { None };
        Ahead { side, asked, took: now().since(began) }
    }

    /// Has `send` ask until `take` finds what came good.
    pub(super) fn until_answered<R>(
        &mut self,
        send: impl Fn(&mut Client<T>) -> Result<Asked, Miss>,
        mut ahead: Option<Asked>,
        deadline: &Deadline,
        mut take: impl FnMut(&mut Client<T>, Asked, &ScanArrived, &Deadline) -> Result<R, Miss>,
    ) -> Result<R, Error> {
        let mut tries = Tries::default();
        loop {
            let asked = match ahead.take() {
                Some(asked) => Ok(asked),
                None => self.reach_replica(&mut tries, deadline).and_then(|()| send(self)),
            };
            let outcome = asked.and_then(|asked| {
                let arrived = self.await_page(asked, deadline)?;
                take(self, asked, &arrived, deadline)
            });
            match outcome {
                Ok(result) => {
                    self.counters.pages += 1;
                    return Ok(result);
                }
                Err(miss) => {
                    self.counters.pages_again += 1;
                    self.missed(miss, &mut tries, deadline)?;
                }
            }
        }
    }

    /// Has a lease on the leader, and a connection to a replica: the last of the list.
    pub(super) fn reach_replica(&mut self, tries: &mut Tries, deadline: &Deadline) -> Result<(), Miss> {
        self.ensure_lease(deadline).map_err(Miss::Leader)?;
        let begun = now();
        let address = self.scans.replicas.choose(self.known(), self.address(), begun);
        if !self.scans.take_up(&address) {
            let limit = self.connect_limit(deadline.left(begun));
            match ScanLink::connect(&self.transport, &address, &self.options, limit) {
                Ok(link) => self.scans.links.push(link),
                Err(error) => return Err(self.unreached(&address, error, tries)),
            }
        }
        tries.reached = true;
        Ok(())
    }

    /// Notes that a replica could not be connected to.
    fn unreached(&mut self, address: &Address, error: SetupError, tries: &mut Tries) -> Miss {
        self.scans.replicas.shun(address, now(), SHUN_LONG);
        tries.unordered |= refusal(&error).is_some_and(|why| why.code == RefusalCode::NotOrdered);
        let all = tries.failed + 1 >= self.known().len();
        if tries.unordered && !tries.reached && all {
            return Miss::End(Error::NotOrdered);
        }
        match error {
            SetupError::Login(_) | SetupError::Unsupported(_) => Miss::End(Error::Connect(error)),
            error => Miss::Unreached(format!("{address}: {error}")),
        }
    }

    fn send_scan(&mut self, rest: &Rest) -> Result<Asked, Miss> {
        self.send_request(rest.limit(), |operation, term, unix| rest.request(operation, term, unix).encode())
    }

    /// Sends a request for up to so many items to the replica that was taken up last.
    pub(super) fn send_request(
        &mut self,
        items: u32,
        request: impl Fn(u64, Term, UnixMillis) -> Vec<u8>,
    ) -> Result<Asked, Miss> {
        let leader = self.link.as_ref();
        let leader = leader.ok_or_else(|| Miss::Leader(Trouble::Broken("not connected".into())))?;
        let link = self.scans.links.last_mut().ok_or(LEFT)?;
        let term = Term::from_bits(leader.welcome.term).unwrap_or_default();
        let (boot, unix) = (leader.welcome.boot, leader.unix_now(now()));
        self.scans.operation += 1;
        let operation = self.scans.operation;
        match link.send(operation, &request(operation, term, unix), items) {
            Ok(()) => Ok(Asked { operation, boot, term, unix }),
            Err(error) => Err(left(error.to_string(), SHUN_BRIEFLY)),
        }
    }

    /// Asks the replica that was taken up last whether nothing in a range has changed since then.
    pub(super) fn send_recheck(&mut self, range: &Rest, made: TreeMoment) -> Result<Asked, Miss> {
        self.send_request(0, |operation, term, unix| {
            range.request(operation, term, unix).about(ScanKind::Recheck, made).encode()
        })
    }

    fn await_page(&mut self, asked: Asked, deadline: &Deadline) -> Result<ScanArrived, Miss> {
        let arrived = self.await_answer(asked, deadline)?;
        let head = decode(&arrived)?.head;
        let (why, shun) = match head.status {
            ScanStatus::Changed | ScanStatus::Gone => {
                return Err(foul(Bad("the answer to another request")));
            }
            ScanStatus::Ok if head.term == asked.term => return Ok(arrived),
            ScanStatus::Ok => return Err(foul(Bad("a page of another term"))),
            ScanStatus::Invalid => {
                return Err(Miss::End(Error::Invalid("the scan makes no sense to the replica")));
            }
            ScanStatus::Contended => ("its keys are written all the time", SHUN_BRIEFLY),
            ScanStatus::Behind => ("the replica lacks what the leader has applied", SHUN_BRIEFLY),
            ScanStatus::Elsewhere => {
                ("the replica is of another term, or has no ordered index now", SHUN_BRIEFLY)
            }
            ScanStatus::Closing => ("the replica is shutting down", SHUN_LONG),
            ScanStatus::Crowded => ("it keeps as many snapshots as it may", SHUN_BRIEFLY),
            ScanStatus::Full => ("the replica has no memory for its ordered index", SHUN_LONG),
        };
        Err(Miss::PassedOver { why, shun })
    }

    pub(super) fn await_answer(&mut self, asked: Asked, deadline: &Deadline) -> Result<ScanArrived, Miss> {
        let link = self.scans.links.last_mut().ok_or(LEFT)?;
        link.wait(asked.operation, deadline).map_err(of_replica)
    }

    /// Checks that the leader of the page's term led at `at`, after the answer came.
    pub(super) fn check_led(&mut self, asked: Asked, at: Nanos, deadline: &Deadline) -> Result<(), Miss> {
        let mut looked = false;
        loop {
            let link = self.connected().map_err(Miss::Leader)?;
            if link.welcome.boot != asked.boot || link.welcome.term != asked.term.bits() {
                return Err(Miss::Again("another leader leads"));
            }
            if link.led_at(at) {
                return Ok(());
            }
            if looked {
                return Err(Miss::Again("the leader has no lease"));
            }
            link.look_at_heartbeat(deadline).map_err(Miss::Leader)?;
            looked = true;
        }
    }

    /// Checks that no item of the page was gone when the page was made. An item that is surely in time at
    /// `at` is; of another one the leader knows. If it still has this version, the item was there before.
    pub(super) fn check_time(&mut self, came: &Came, at: Nanos, deadline: &Deadline) -> Result<(), Miss> {
        for item in came.items.that_end() {
            let link = self.connected().map_err(Miss::Leader)?;
            if link.is_in_time(item.expiry, at) {
                continue;
            }
            let mut show = Some(|_: &[u8], csn: Csn| csn);
            let found = self.get_served(item.key, deadline, &mut show).map_err(Miss::End)?;
            if found != Some(item.csn) {
                let link = self.connected().map_err(Miss::Leader)?;
                link.look_at_heartbeat(deadline).map_err(Miss::Leader)?;
                return Err(Miss::Again("an item was gone meanwhile"));
            }
        }
        Ok(())
    }

    /// READs the values that did not come with the page. The page ends where one cannot be had, or where they
    /// are too many: it is then a page of a smaller range.
    pub(super) fn fetch_far(&mut self, came: &mut Came, deadline: &Deadline) -> Result<(), Miss> {
        let mut fetched = 0;
        for far in std::mem::take(&mut came.far) {
            let item = came.items.get(far.number).expect("an item of the page");
            fetched += u64::from(far.entry.len);
            if fetched > FAR_BYTES_MAX && far.number > 0 {
                came.cut(far.number);
                return Ok(());
            }
            let link = self.scans.links.last_mut().ok_or(LEFT)?;
            let wanted = ScanWanted { key: item.key, csn: item.csn };
            match link.value(far.entry, &wanted, deadline) {
                Ok(Some(value)) => came.items.set_value(far.number, &value),
                Ok(None) if far.number == 0 => return Err(Miss::Again("a value moved")),
                Err(trouble) if far.number == 0 => return Err(of_replica(trouble)),
                Ok(None) => {
                    came.cut(far.number);
                    return Ok(());
                }
                Err(_) => {
                    self.leave_replica(SHUN_BRIEFLY);
                    came.cut(far.number);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Leaves the replica that was asked last, and asks others for a while.
    fn leave_replica(&mut self, shun: Duration) {
        if let Some(link) = self.scans.links.pop() {
            self.scans.replicas.shun(&link.address, now(), shun);
        }
    }

    /// Deals with what kept a page away; an error if it is too late to try again.
    #[cold]
    pub(super) fn missed(&mut self, miss: Miss, tries: &mut Tries, deadline: &Deadline) -> Result<(), Error> {
        let of_replica = !matches!(miss, Miss::Leader(_) | Miss::Again(_));
        let why = match miss {
            Miss::End(error) => return Err(error),
            Miss::Leader(Trouble::NoLease) => "the leader has no lease".into(),
            Miss::Leader(trouble) => return self.recover(trouble, deadline),
            Miss::Again(why) => {
                longarm_host::sleep(PAUSE_MIN);
                why.into()
            }
            Miss::Unreached(why) => why,
            Miss::Left { why, shun } => {
                self.leave_replica(shun);
                why
            }
            Miss::Late => {
                self.leave_replica(SHUN_LONG);
                tries.said.unwrap_or(NOT_IN_TIME).into()
            }
            Miss::PassedOver { why, shun } => {
                tries.said = Some(why);
                if let Some(link) = self.scans.links.last() {
                    self.scans.replicas.shun(&link.address, now(), shun);
                }
                why.into()
            }
        };
        let time = now();
        if deadline.is_over(time) {
            return Err(Error::NoPage(why));
        }
        let began = *tries.began.get_or_insert(time);
        tries.failed += usize::from(of_replica);
        if tries.failed >= self.known().len() {
            tries.failed = 0;
            let pause = Duration::from_nanos(time.since(began).0 / PAUSE_SHARE);
            longarm_host::sleep(pause.clamp(PAUSE_MIN, PAUSE_MAX));
        }
        Ok(())
    }
}

/// What is said of a replica that kept silent.
pub(super) const NOT_IN_TIME: &str = "the replica did not answer in time";

/// The connection over which the page was asked for is gone.
pub(super) const LEFT: Miss = Miss::Again("the connection to the replica was left");

fn decode(arrived: &ScanArrived) -> Result<ScanAnswer<'_>, Miss> {
    ScanAnswer::decode(&arrived.bytes).map_err(foul)
}

/// The replica sent what makes no sense.
pub(super) fn foul(bad: Bad) -> Miss {
    left(bad.to_string(), SHUN_LONG)
}

pub(super) fn left(why: String, shun: Duration) -> Miss {
    Miss::Left { why, shun }
}

/// Trouble on the connection to a replica.
pub(super) fn of_replica(trouble: Trouble) -> Miss {
    match trouble {
        Trouble::Broken(why) | Trouble::Lost(why) => left(why, SHUN_BRIEFLY),
        Trouble::Late => Miss::Late,
        _ => left(NOT_IN_TIME.into(), SHUN_LONG),
    }
}
