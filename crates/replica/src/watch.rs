//! A follower's promise. Followers are passive: that a heartbeat was seen is the promise (VERIFY M6, L8).
//!
//! (1) *Seen before answered.* Before it reports, a replica fences, flushes, and then looks at the heartbeat
//!     word: a renewal that completed at the leader landed before, and so is seen.
//! (2) *Not before D.* It reports only D after the last change that it saw. A change is dated when it is
//!     seen, which is not before it landed, which is not before it was sent.
//! (3) A replica that restarts does not know what it promised: it behaves as if it had just seen a heartbeat
//!     (rule BootWait of `docs/spec`).

use longarm_base::{Mutant, Nanos};

use crate::Timing;
use crate::page::Beat;

/// What a replica saw of its leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    beat: Beat,
    changed: Nanos,
    /// A leader that hands over takes back what we promised it.
    released: bool,
}

impl Watch {
    /// A replica that starts at `now`.
    pub fn new(now: Nanos) -> Watch {
        Watch { beat: Beat::default(), changed: now, released: false }
    }

    /// What the heartbeat word says at `now`.
    pub fn look(&mut self, beat: Beat, now: Nanos) {
        if beat != self.beat {
            self.beat = beat;
            self.changed = self.changed.max(now);
            self.released = false;
        }
    }

    /// The leader was heard of in another way; a leader, that it sent a heartbeat itself.
    pub fn touch(&mut self, now: Nanos) {
        self.changed = self.changed.max(now);
        self.released = false;
    }

    /// When the leader was last heard of.
    pub fn changed(&self) -> Nanos {
        self.changed
    }

    /// Whether no promise stands in the way of a report.
    pub fn is_free(&self, timing: &Timing, now: Nanos) -> bool {
        self.released || now.since(self.changed) > timing.promise || Mutant::ReportInside.is_on()
    }

    /// Whether the leader may be gone.
    pub fn suspects(&self, timing: &Timing, now: Nanos) -> bool {
        self.released || now.since(self.changed) > timing.suspect
    }

    /// The leader has ended its lease and all that rests on it.
    pub fn release(&mut self) {
        self.released = true;
    }
}
