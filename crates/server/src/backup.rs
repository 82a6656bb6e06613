//! The hold of a backup: what a leader keeps until it is copied (decision 49).
//!
//! The client of a backup copies segments by READs. The leader only does not use any again before that client
//! has let go of it, as with followers (M9).
//!
//! (1) It joins before the stable point is taken: so each entry up to that version is in a segment that is in
//!     use when the client next READs the segment table (M16).
//! (2) One connection has it at a time, and it ends with the connection, or with the term.
//! (3) A segment waits for it for a bounded time. Then the hold is over, and the client is told so at its
//!     next step: what it READ before that step was kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use longarm_base::{Mutant, Nanos};
use longarm_group::SharedReleases;
use longarm_host::Mutex;
use longarm_replica::Party;

/// How long a segment waits for a backup.
const WAIT_MAX: Nanos = Nanos::from_millis(30_000);
/// The same while memory is short: less than a write waits for memory.
const WAIT_SHORT: Nanos = Nanos::from_millis(2_000);

/// The hold that a backup of this term may have.
pub(crate) struct Backups {
    /// None of a server without followers, disk and ordered index: its deletes leave no trace, so what it
    /// held at a moment cannot be told from its entries.
    releases: Option<Arc<SharedReleases>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of the newest hold.
    number: u64,
    held: bool,
    /// Segments that wait for the backup, and since when.
    waiting: BTreeMap<u32, Nanos>,
}

impl Backups {
    pub fn new(releases: Option<Arc<SharedReleases>>) -> Arc<Backups> {
        Arc::new(Backups { releases, state: Mutex::default() })
    }

    /// Who is to let go of a segment, if a backup of this server can be made.
    pub fn releases(&self) -> Option<&SharedReleases> {
        self.releases.as_deref()
    }

    /// Begins a hold, unless another connection has it.
    pub fn begin(self: &Arc<Backups>, releases: &SharedReleases) -> Option<Hold> {
        let mut state = self.state.lock();
        if state.held {
            return None;
        }
        *state = State { number: state.number + 1, held: true, waiting: BTreeMap::new() };
        releases.lock().join(Party::Backup);
        Some(Hold { backups: self.clone(), number: state.number })
    }

    /// Ends the hold if a segment has waited for too long. Whether it did.
    pub fn end_if_late(&self, now: Nanos, is_short: bool) -> bool {
        let mut state = self.state.lock();
        let Some(releases) = self.releases.as_ref().filter(|_| state.held) else { return false };
        let mut releases = releases.lock();
        let asked = releases.asked(Party::Backup, |_, _| true).segments;
        let before = std::mem::take(&mut state.waiting);
        state.waiting = asked.iter().map(|it| (*it, before.get(it).copied().unwrap_or(now))).collect();
        let limit = if is_short { WAIT_SHORT } else { WAIT_MAX };
        let late = state.waiting.values().any(|since| now.since(*since) >= limit);
        if late && !Mutant::HoldForever.is_on() {
            state.held = false;
            releases.leave(Party::Backup);
        }
        late
    }
}

/// The hold of a connection; it ends when this is dropped.
pub(crate) struct Hold {
    backups: Arc<Backups>,
    number: u64,
}

impl Hold {
    /// Lets go of segments; how many wait. `None` if the hold is over.
    pub fn let_go(&self, segments: &[u32]) -> Option<usize> {
        let state = self.backups.state.lock();
        let releases =
            self.backups.releases.as_ref().filter(|_| state.held && state.number == self.number)?;
        let mut releases = releases.lock();
        releases.let_go(Party::Backup, segments);
        Some(releases.asked(Party::Backup, |_, _| true).segments.len())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(mut state) = self.backups.state.lock_to_drop() else { return };
        if state.held && state.number == self.number {
            state.held = false;
            if let Some(mut releases) = self.backups.releases().and_then(|releases| releases.lock_to_drop()) {
                releases.leave(Party::Backup);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::Csn;

    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// Whether a segment that is asked for now would be free at once.
    fn is_free(releases: &SharedReleases) -> bool {
        let mut releases = releases.lock();
        releases.ask(9, Vec::new(), Csn(1));
        releases.free(|_| {})
    }

    #[test]
    fn one_connection_has_the_hold_and_it_ends_with_it() {
        let releases = Arc::<SharedReleases>::default();
        let backups = Backups::new(Some(releases.clone()));
        let hold = backups.begin(&releases).expect("the first");
        assert!(backups.begin(&releases).is_none(), "another connection");
        assert!(!is_free(&releases));
        assert_eq!(hold.let_go(&[9]), Some(0));
        assert!(releases.lock().free(|_| {}));
        drop(hold);
        assert!(is_free(&releases));
        assert!(backups.begin(&releases).is_some());
    }

    #[test]
    fn a_segment_waits_for_a_backup_no_longer_than_it_may() {
        for (is_short, limit) in [(false, WAIT_MAX), (true, WAIT_SHORT)] {
            let releases = Arc::<SharedReleases>::default();
            let backups = Backups::new(Some(releases.clone()));
            let hold = backups.begin(&releases).expect("a hold");
            assert!(!backups.end_if_late(MS(1), is_short), "nothing waits");
            releases.lock().ask(4, Vec::new(), Csn(1));
            assert!(!backups.end_if_late(MS(2), is_short));
            // Another one that waits later does not make the first one's time begin anew.
            releases.lock().ask(5, Vec::new(), Csn(1));
            assert!(!backups.end_if_late(MS(1) + limit, is_short));
            assert!(backups.end_if_late(MS(2) + limit, is_short));
            assert!(releases.lock().free(|_| {}), "both are free");
            assert_eq!(hold.let_go(&[4]), None, "the client is told");
            let next = backups.begin(&releases).expect("a hold");
            drop(hold);
            assert!(!is_free(&releases), "the hold of the next one stays");
            drop(next);
        }
    }
}
