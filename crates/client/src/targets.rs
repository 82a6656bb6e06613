//! The addresses to connect to: one server, or the replicas of a group, of which one leads.

use std::time::Duration;

use longarm_base::Nanos;
use longarm_fabric::{Address, SetupError};
use longarm_wire::RefusalCode;

use crate::error::refusal;

/// The number of named leaders in a row that do not lead, after which all addresses are tried in turn.
const HINTS_MAX: u32 = 3;
/// The most addresses that are tried beside those that were given: the leaders that were reached last. All
/// nodes of a group may have been replaced since the client connected.
const LEARNED_MAX: usize = 16;
/// The least bound on one try, if there are other addresses: a server that is stopped or cut off takes
/// connections and says nothing.
const TRY_MIN: Duration = Duration::from_millis(250);

/// The addresses of a server or a group, and which to try next.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    /// Those that were given, then those that were learned, the oldest first.
    all: Vec<Address>,
    given: usize,
    at: usize,
    hinted: Option<Address>,
    hints: u32,
    /// The bound on one try. It doubles with each try that it ended: a busy machine or a long way may need
    /// more, and clients that come again and again and never finish are no help.
    limit: Duration,
    /// What the next try is left in any case: the last one that succeeded took a quarter of it.
    least: Duration,
    most: Duration,
}

impl Targets {
    /// # Panics
    /// If there is no address.
    pub(crate) fn new(all: &[Address], most: Duration) -> Targets {
        assert!(!all.is_empty(), "a client needs an address");
        let limit = if all.len() > 1 { TRY_MIN.min(most) } else { most };
        Targets {
            all: all.to_vec(),
            given: all.len(),
            at: 0,
            hinted: None,
            hints: 0,
            limit,
            least: TRY_MIN.min(most),
            most,
        }
    }

    /// The bound on the next try.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// The bound on the next try for an operation that has so long left: no longer than that, but as long as
    /// connecting takes, or an operation of a short time could never connect.
    pub(crate) fn limit_within(&self, left: Duration) -> Duration {
        self.limit.min(left.max(self.least))
    }

    /// The address to try now.
    pub(crate) fn current(&self) -> &Address {
        self.hinted.as_ref().unwrap_or(&self.all[self.at])
    }

    /// All addresses that are known: those that were given, and leaders that were reached.
    pub(crate) fn all(&self) -> &[Address] {
        &self.all
    }

    /// Notes that a try failed; returns whether the next address is worth trying at once.
    pub(crate) fn failed(&mut self, error: &SetupError) -> bool {
        if matches!(error, SetupError::Timeout(_)) {
            self.limit = (self.limit * 2).min(self.most);
        }
        let named =
            refusal(error).filter(|why| why.code == RefusalCode::NotLeader).and_then(|why| why.leader);
        let known = |name: &str| self.all.iter().find(|address| address.to_string() == name).cloned();
        let named = named.and_then(|name| known(&name).or_else(|| name.parse().ok()));
        if let Some(named) = named
            && named != *self.current()
            && self.hints < HINTS_MAX
        {
            self.hints += 1;
            self.hinted = Some(named);
            return true;
        }
        self.hints = 0;
        self.hinted = None;
        self.at = (self.at + 1) % self.all.len();
        // All addresses were tried: let some time pass.
        self.at != 0
    }

    /// Leaves a server that does not answer: other replicas may know more.
    pub(crate) fn leave(&mut self) {
        let at = self.all.iter().position(|address| address == self.current()).unwrap_or(self.at);
        self.hinted = None;
        self.at = (at + 1) % self.all.len();
    }

    /// Notes that a try succeeded, and how long it took.
    pub(crate) fn reached(&mut self, took: Nanos) {
        // A replica that the group did not have before is one of the addresses to try, from now on.
        let new = self.hinted.clone().filter(|named| !self.all[..self.given].contains(named));
        if let Some(named) = new {
            let learned = self.all.iter().skip(self.given).position(|known| *known == named);
            let is_full = self.all.len() == self.given + LEARNED_MAX;
            if let Some(older) = learned.or(is_full.then_some(0)) {
                self.all.remove(self.given + older);
                self.at %= self.all.len();
            }
            self.all.push(named);
        }
        self.hints = 0;
        self.least = (Duration::from_nanos(took.0) * 4).max(TRY_MIN).min(self.most);
        if self.all.len() > 1 {
            self.limit = self.least;
        }
    }
}

#[cfg(test)]
mod tests {
    use longarm_fabric::Reason;
    use longarm_wire::Refusal;

    use super::*;

    fn elsewhere(leader: &str) -> SetupError {
        let refusal = Refusal::not_leader(Some(leader.into()));
        SetupError::Refused(Reason { text: "words that may change".into(), bytes: refusal.encode() })
    }

    #[test]
    fn a_named_leader_is_tried_first_and_not_for_ever() {
        let address = |n: u32| format!("tcp://h:{n}").parse::<Address>().expect("an address");
        let mut targets = Targets::new(&[address(1), address(2)], Duration::from_secs(5));
        assert!(targets.failed(&elsewhere("tcp://h:3")));
        assert_eq!(*targets.current(), address(3));
        assert!(targets.failed(&elsewhere("tcp://h:4")));
        assert!(targets.failed(&elsewhere("tcp://h:5")));
        assert!(targets.failed(&elsewhere("tcp://h:6")), "two are left");
        assert_eq!(*targets.current(), address(2));
        assert!(!targets.failed(&SetupError::Timeout("it".into())), "all were tried");
        assert_eq!(*targets.current(), address(1));
        targets.leave();
        assert_eq!(*targets.current(), address(2));
        targets.failed(&elsewhere("tcp://h:1"));
        assert_eq!(*targets.current(), address(1));
        targets.leave();
        assert_eq!(*targets.current(), address(2), "the one after the one that was named");
    }

    #[test]
    fn a_replica_that_was_named_and_reached_is_one_of_those_to_try() {
        let address = |n: u32| format!("tcp://h:{n}").parse::<Address>().expect("an address");
        let mut targets = Targets::new(&[address(1)], Duration::from_secs(5));
        targets.failed(&elsewhere("tcp://h:2"));
        targets.reached(Nanos(1));
        targets.leave();
        assert_eq!(*targets.current(), address(1));
        targets.failed(&SetupError::Timeout("it".into()));
        assert_eq!(*targets.current(), address(2));
    }

    #[test]
    fn a_try_has_longer_after_each_that_was_too_short() {
        let address = |n: u32| format!("tcp://h:{n}").parse::<Address>().expect("an address");
        let (second, late) = (Duration::from_secs(1), SetupError::Timeout("it".into()));
        let mut alone = Targets::new(&[address(1)], second);
        assert_eq!(alone.limit(), second, "there is nobody else");
        alone.reached(Nanos(1));
        assert_eq!(alone.limit(), second);
        assert_eq!(alone.limit_within(Duration::from_millis(600)), Duration::from_millis(600));
        assert_eq!(alone.limit_within(Duration::from_millis(1)), TRY_MIN, "it must be able to connect");
        alone.reached(Nanos::from_millis(100));
        assert_eq!(alone.limit_within(Duration::from_millis(1)), Duration::from_millis(400));
        let mut many = Targets::new(&[address(1), address(2)], second);
        assert_eq!(many.limit(), TRY_MIN);
        many.failed(&SetupError::Refused("no".into()));
        assert_eq!(many.limit(), TRY_MIN, "that was no matter of time");
        many.failed(&late);
        assert_eq!(many.limit(), 2 * TRY_MIN);
        for _ in 0..9 {
            many.failed(&late);
        }
        assert_eq!(many.limit(), second);
        many.reached(Nanos::from_millis(100));
        assert_eq!(many.limit(), Duration::from_millis(400));
        many.reached(Nanos(1));
        assert_eq!(many.limit(), TRY_MIN);
    }

    /// A client that lives for long sees nodes come and go: it knows the last ones, not the first.
    #[test]
    fn the_leaders_that_were_reached_last_are_known_however_many_there_were() {
        let address = |n: u32| format!("tcp://h:{n}").parse::<Address>().expect("an address");
        let mut targets = Targets::new(&[address(1), address(2)], Duration::from_secs(5));
        for leader in 3..100 {
            targets.failed(&elsewhere(&format!("tcp://h:{leader}")));
            assert_eq!(*targets.current(), address(leader));
            targets.reached(Nanos(1));
            targets.leave();
            let tried: Vec<_> = (0..2 + LEARNED_MAX)
                .map(|_| {
                    targets.failed(&SetupError::Timeout("it".into()));
                    targets.current().clone()
                })
                .collect();
            assert!((leader.saturating_sub(5).max(1)..=leader).all(|last| tried.contains(&address(last))));
            assert!(tried.contains(&address(1)) && tried.contains(&address(2)));
        }
    }

    #[test]
    fn a_given_address_that_was_named_and_reached_takes_the_place_of_none() {
        let address = |n: usize| format!("tcp://h:{n}").parse::<Address>().expect("an address");
        let mut targets = Targets::new(&[address(0), address(1)], Duration::from_secs(5));
        for leader in (2..2 + LEARNED_MAX).chain([1]) {
            targets.failed(&elsewhere(&format!("tcp://h:{leader}")));
            assert_eq!(*targets.current(), address(leader));
            targets.reached(Nanos(1));
            targets.leave();
        }
        assert_eq!(targets.all, (0..2 + LEARNED_MAX).map(address).collect::<Vec<_>>());
    }
}
