//! Says why nobody leads, where most replicas of the group may have lost what was in their memory.

use longarm_base::Nanos;
use longarm_fabric::Transport;
use longarm_host::now;
use longarm_replica::RoleKind;

use super::Node;

/// How long a replica that was restarted waits for a leader before it says so.
const IN_VAIN: Nanos = Nanos::from_millis(5_000);

impl<T: Transport> Node<T> {
    /// Says once that this replica has nothing and waits in vain for a leader that brings it up to date. Such
    /// replicas do not stand, so a group most of whose replicas were restarted at once has no leader ever
    /// again, and only its operator knows whether they were.
    pub(super) fn say_if_lost(&mut self) {
        let machine = &self.machine;
        let waits = machine.kind() == RoleKind::Learner
            && machine.awaits().is_none()
            && machine.members().has(machine.group().me());
        if self.said_lost || !waits || now().since(machine.heard_leader()) < IN_VAIN {
            return;
        }
        self.said_lost = true;
        if let Some(missing) = machine.awaits_disks() {
            let missing: Vec<_> = missing.iter().map(|replica| replica.to_string()).collect();
            let missing = if missing.is_empty() { "none".into() } else { missing.join(", ") };
            return self.log(&format!(
                "replica {}: it was restarted, and for {} s there was no leader. Any disk may have more than \
                 the others, so it waits until all replicas were heard; not heard: {missing}. Start these. \
                 If one will never come back, `longarm cluster recover FILE --accept-loss` has the others go \
                 on without what only that one has",
                self.group().me(),
                IN_VAIN.0 / 1_000_000_000
            ));
        }
        self.log(&format!(
            "replica {}: it was restarted, so it has no data, and for {} s there was no leader that could \
             bring it up to date. If most replicas of the group were restarted together, what was in their \
             memory is lost: stop all nodes, remove the directory of each (--data), and start them again; \
             the group then begins anew, without data",
            self.group().me(),
            IN_VAIN.0 / 1_000_000_000
        ));
    }
}
