//! A follower's promise. Followers are passive: that a heartbeat was seen is the promise (VERIFY M6, L8).
//!
//! (1) *Seen before answered.* Before it reports, a replica fences, flushes, and then looks at the heartbeat
//!     word: a renewal that completed at the leader landed before, and so is seen.
//! (2) *Not before D.* It reports only D after the last change that it saw. A change is dated when it is
//!     seen, which is not before it landed, which is not before it was sent.
//! (3) A replica that restarts does not know what it promised: it behaves as if it had just seen a heartbeat
//!     (rule BootWait of `docs/spec`).
//! (4) *Taken back.* A leader that hands over has ended its lease, and all that rests on it, before it takes
//!     back what it was promised (rules ReleaseAfter and ReleaseOwn). What older leaders were promised is
//!     over by then, since it served; a younger one's promise stands.

use longarm_base::{Mutant, Nanos, Term};

use crate::Timing;
use crate::page::Beat;

/// What a replica saw of its leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    beat: Beat,
    changed: Nanos,
    /// The highest term whose leader may have been promised something.
    to: Term,
    /// That was taken back.
    released: bool,
}

impl Watch {
    /// A replica that starts at `now`, and had promised `promised` before.
    pub fn new(promised: Term, now: Nanos) -> Watch {
        Watch { beat: Beat::default(), changed: now, to: promised, released: false }
    }

    /// What the heartbeat word says at `now`.
    pub fn look(&mut self, beat: Beat, now: Nanos) {
        if beat != self.beat {
            self.beat = beat;
            self.touch(beat.term().unwrap_or_default(), now);
        }
    }

    /// The leader of `term` was heard of in another way; a leader, that it sent a heartbeat itself.
    pub fn touch(&mut self, term: Term, now: Nanos) {
        self.changed = self.changed.max(now);
        self.to = self.to.max(term);
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
        now.since(self.changed) > timing.suspect
    }

    /// The leader of `term` has ended its lease and all that rests on it. Whether that is news.
    pub fn release(&mut self, term: Term) -> bool {
        let news = !self.released && term >= self.to;
        self.released |= news;
        news
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::NodeId;

    use super::*;

    #[test]
    fn a_leader_takes_back_what_it_and_older_ones_were_promised() {
        let timing =
            Timing { heartbeat: Nanos(1), suspect: Nanos(3), promise: Nanos(10), election: Nanos(20) };
        let term = |counter| Term::new(counter, NodeId(1));
        let mut watch = Watch::new(term(2), Nanos(100));
        watch.look(Beat::new(term(3), 1), Nanos(101));
        watch.release(term(2));
        assert!(!watch.is_free(&timing, Nanos(102)), "an older leader's word");
        watch.release(term(3));
        assert!(watch.is_free(&timing, Nanos(102)) && !watch.suspects(&timing, Nanos(102)));
        watch.look(Beat::new(term(3), 1), Nanos(103));
        assert!(watch.is_free(&timing, Nanos(103)), "nothing new");
        watch.look(Beat::new(term(3), 2), Nanos(103));
        assert!(!watch.is_free(&timing, Nanos(103)), "a heartbeat that was on its way");
        watch.release(term(3));
        watch.touch(term(4), Nanos(104));
        watch.release(term(3));
        assert!(!watch.is_free(&timing, Nanos(105)), "a younger leader was heard of");
        assert!(watch.suspects(&timing, Nanos(108)) && watch.is_free(&timing, Nanos(115)));
    }
}
