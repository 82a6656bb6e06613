//! Where to connect: one server, or the replicas of a group, of which one leads.

use longarm_fabric::{Address, SetupError};
use longarm_wire::is_elsewhere;

/// Leaders named one after the other without one that leads: then all are tried in turn.
const HINTS_MAX: u32 = 3;

/// The addresses of a server or a group, and which to try next.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    all: Vec<Address>,
    at: usize,
    hinted: Option<Address>,
    hints: u32,
}

impl Targets {
    /// # Panics
    /// If there is no address.
    pub(crate) fn new(all: &[Address]) -> Targets {
        assert!(!all.is_empty(), "a client needs an address");
        Targets { all: all.to_vec(), at: 0, hinted: None, hints: 0 }
    }

    /// Where to try now.
    pub(crate) fn current(&self) -> &Address {
        self.hinted.as_ref().unwrap_or(&self.all[self.at])
    }

    /// A try failed. Whether the next is worth while at once.
    pub(crate) fn failed(&mut self, error: &SetupError) -> bool {
        let named = match error {
            SetupError::Refused(reason) => is_elsewhere(reason),
            _ => None,
        };
        let known = |name: &str| self.all.iter().find(|address| address.to_string() == name).cloned();
        let named = named.flatten().and_then(|name| known(name).or_else(|| name.parse().ok()));
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
        // All were tried: let some time pass.
        self.at != 0
    }

    /// A try succeeded.
    pub(crate) fn reached(&mut self) {
        self.hints = 0;
    }
}

#[cfg(test)]
mod tests {
    use longarm_wire::elsewhere;

    use super::*;

    #[test]
    fn a_named_leader_is_tried_first_and_not_for_ever() {
        let address = |n: u32| format!("tcp://h:{n}").parse::<Address>().expect("an address");
        let mut targets = Targets::new(&[address(1), address(2)]);
        let refused = |text: String| SetupError::Refused(text);
        assert!(targets.failed(&refused(elsewhere(Some("tcp://h:3")))));
        assert_eq!(*targets.current(), address(3));
        assert!(targets.failed(&refused(elsewhere(Some("tcp://h:4")))));
        assert!(targets.failed(&refused(elsewhere(Some("tcp://h:5")))));
        assert!(targets.failed(&refused(elsewhere(Some("tcp://h:6")))), "two are left");
        assert_eq!(*targets.current(), address(2));
        assert!(!targets.failed(&SetupError::Timeout("it".into())), "all were tried");
        assert_eq!(*targets.current(), address(1));
    }
}
