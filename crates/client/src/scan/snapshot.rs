//! A scan of one instant of its group, in pages that come later (decision 36).
//!
//! (1) The client has a replica keep its ordered index as it is. Nothing in the range of the scan has changed
//!     at that moment by the rule by which a page is answered, and the leader leads: so the range was so at
//!     an instant within the call.
//! (2) Pages are of that moment, whatever is written meanwhile. They need no lease, as the instant is over.
//! (3) The replica gives the snapshot up some time after it was last asked, when too much was written, and
//!     when another leader leads. Then the scan ends with [`Error::SnapshotGone`].

use std::time::Duration;

use longarm_base::Term;
use longarm_fabric::Transport;
use longarm_host::now;
use longarm_wire::{ScanAnswer, ScanKind, ScanRequest, ScanStatus};

use super::ask::{Asked, LEFT, Miss, NOT_IN_TIME, foul, left};
use super::iter::SnapshotIter;
use super::made::{Made, Pinned};
use super::page::Came;
use super::range::{Rest, Scan};
use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Error;

/// How often a page is asked for again that the replica cannot make at the moment, and the pause before that.
const AGAIN: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

impl<T: Transport> Client<T> {
    /// The items of a scan as they were at one instant, in order, in pages that are fetched while items are
    /// consumed; writes go on meanwhile. The instant is within this call.
    ///
    /// A replica keeps what is overwritten for as long as the scan goes on: for ten seconds after it was last
    /// asked, and not more than an eighth of its ordered index's memory for all snapshots. A snapshot that is
    /// given up ends with [`Error::SnapshotGone`]; take another one. An item whose time to live was just over
    /// may be shown, for as long as a heartbeat is old.
    pub fn scan_snapshot(&mut self, scan: &Scan) -> Result<SnapshotIter<'_, T>, Error> {
        let pinned = self.pin(Rest::of(scan, None)?)?;
        Ok(SnapshotIter::new(self, pinned))
    }

    /// Takes a snapshot of a range; the pages of what is returned are of it.
    pub(crate) fn pin(&mut self, rest: Rest) -> Result<Rest, Error> {
        if rest.is_empty() {
            return Ok(rest);
        }
        let deadline = self.deadline();
        let send = |client: &mut Client<T>| {
            client.send_request(0, |operation, term, unix| {
                let request = rest.request(operation, term, unix);
                ScanRequest { kind: ScanKind::Snapshot, ..request }.encode()
            })
        };
        let pinned = self.until_answered(send, None, &deadline, |client, asked, arrived, deadline| {
            let answer = ScanAnswer::decode(&arrived.bytes).map_err(foul)?;
            client.check_led(asked, arrived.at, deadline)?;
            Ok(Pinned { made: client.made(asked, answer.head.made).ok_or(LEFT)?, unix: asked.unix })
        })?;
        Ok(rest.pinned(pinned))
    }

    /// The next page of a snapshot, which may have been asked for before.
    pub(super) fn snapshot_page(&mut self, rest: &Rest, mut asked: Option<Asked>) -> Result<Came, Error> {
        let deadline = self.deadline();
        for tried in 1.. {
            let asked = asked.take().map_or_else(|| self.send_snapshot_page(rest), Ok);
            match asked.and_then(|asked| self.await_snapshot_page(rest, asked, &deadline)) {
                Ok(came) => {
                    self.counters.pages += 1;
                    return Ok(came);
                }
                Err(Miss::Again(_)) if tried < AGAIN && !deadline.is_over(now()) => {
                    self.counters.pages_again += 1;
                    longarm_host::sleep(PAUSE);
                }
                Err(miss) => return Err(gone(miss)),
            }
        }
        unreachable!("the last try returns")
    }

    /// Asks the replica that keeps the snapshot for its next page, without waiting.
    pub(super) fn send_snapshot_page(&mut self, rest: &Rest) -> Result<Asked, Miss> {
        let Pinned { made, unix } = rest.snapshot().expect("pages of a snapshot").clone();
        self.send_to(&made, rest.limit(), |operation| rest.request(operation, Term::ZERO, unix).encode())?;
        Ok(Asked { operation: self.scans.operation, boot: made.boot, term: made.term, unix })
    }

    fn send_to(&mut self, made: &Made, items: u32, request: impl Fn(u64) -> Vec<u8>) -> Result<(), Miss> {
        if !self.scans.take_up(&made.replica) {
            return Err(LEFT);
        }
        self.scans.operation += 1;
        let operation = self.scans.operation;
        let link = self.scans.links.last_mut().ok_or(LEFT)?;
        link.send(operation, &request(operation), items).map_err(|error| left(error.to_string(), PAUSE))
    }

    fn await_snapshot_page(&mut self, rest: &Rest, asked: Asked, deadline: &Deadline) -> Result<Came, Miss> {
        let arrived = self.await_answer(asked, deadline)?;
        let answer = ScanAnswer::decode(&arrived.bytes).map_err(foul)?;
        match answer.head.status {
            ScanStatus::Ok => {}
            ScanStatus::Contended | ScanStatus::Behind => {
                return Err(Miss::Again("values that it names are not where it names them"));
            }
            ScanStatus::Gone => {
                let why = "nobody asked for it for ten seconds, or too much was written since it was taken";
                return Err(Miss::End(Error::SnapshotGone(why.into())));
            }
            // It may have lost its way to the leader for a moment.
            _ => {
                return Err(Miss::Again(
                    "the replica that kept it follows another leader, or builds its index anew",
                ));
            }
        }
        let mut came = Came::take(&answer, rest).map_err(foul)?;
        self.fetch_far(&mut came, deadline)?;
        Ok(came)
    }

    /// Tells the replica that the snapshot is not needed any more. If that does not come through, its time
    /// ends.
    pub(super) fn unpin(&mut self, pinned: &Pinned) {
        let Pinned { made, unix } = pinned;
        let _ = self.send_to(made, 0, |operation| {
            ScanRequest::new(operation, made.term, *unix).about(ScanKind::Close, made.moment).encode()
        });
    }
}

/// The end of a snapshot.
fn gone(miss: Miss) -> Error {
    match miss {
        Miss::End(error) => error,
        Miss::Unreached(why) | Miss::Left { why, .. } => Error::SnapshotGone(why),
        Miss::PassedOver { why, .. } | Miss::Again(why) => Error::SnapshotGone(why.into()),
        Miss::Late => Error::SnapshotGone(NOT_IN_TIME.into()),
        Miss::Leader(_) => Error::SnapshotGone("the leader is gone".into()),
    }
}
