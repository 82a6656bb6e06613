//! A follower's promise. Followers are passive: a follower that sees a heartbeat thereby promises (M6, L8).
//! In LoLKV 3.4 a heartbeat is a counter that followers READ; here the leader WRITEs it.
//!
//! (1) *Seen before answered.* Before it reports, a replica fences, flushes, and then looks at the heartbeat
//!     word: a renewal that completed at the leader landed before, and so is seen.
//! (2) *Not before D.* It reports only D after the last change that it saw. A change is dated when it is
//!     seen, which is not before it landed, which is not before it was sent.
//! (3) A replica that restarts does not know what it promised: it behaves as if it had just seen a heartbeat
//!     (rule BootWait of `docs/spec`).
//! (4) *Taken back.* A leader that hands over has ended its lease, and all that rests on it, before it takes
//!     promises back (rules ReleaseAfter and ReleaseOwn). Promises to older leaders are over by then, since
//!     this leader served; a promise to a younger leader stands.
//! (5) *Suspicion* ends no promise; it only has others asked. How long a leader may be silent follows from
//!     how long leaders that lived on were silent: on a busy machine that is longer than any configured time.
//!     A leader whose process is gone is suspected at once: its connections broke. Heartbeats that land after
//!     that were on their way.
//! (6) *Own absence* is not the leader's silence. A replica that was kept from its core could not have seen a
//!     heartbeat; if its whole machine stood still, there may have been none to see. It waits for so much
//!     longer, within the bound that any silence has.

use longarm_base::{Mutant, Nanos, ReplicaId, Term};

use crate::Timing;
use crate::page::Beat;

/// A leader is suspected when it has been silent for so many times its longest recent silence.
const SILENCES: u64 = 2;
/// Half of the longest silence is forgotten in this time.
const FADES: Nanos = Nanos::from_millis(300_000);
/// A look may be late by as long as it takes between two: only what is beyond counts as absence.
const USUAL_LOOKS: u64 = 2;

/// What a replica saw of its leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaderWatch {
    beat: Beat,
    changed: Nanos,
    /// When the replica last looked.
    looked: Nanos,
    /// For how long, since it last heard of the leader, it should have looked and did not.
    absent: Nanos,
    /// The highest term whose leader may hold a promise of this replica.
    to: Term,
    /// Whether that leader took the promise back.
    released: bool,
    /// The longest silence of a leader that lived on, and when it ended.
    silence: (Nanos, Nanos),
    /// The leader whose process seems to be gone.
    gone: Option<ReplicaId>,
}

impl LeaderWatch {
    /// The watch of a replica that starts at `now`, and had promised `promised` before.
    pub fn new(promised: Term, now: Nanos) -> LeaderWatch {
        let beat = Beat::default();
        LeaderWatch {
            beat,
            changed: now,
            looked: now,
            absent: Nanos(0),
            to: promised,
            released: false,
            silence: (Nanos(0), now),
            gone: None,
        }
    }

    /// Looks at the heartbeat word at `now`.
    pub fn observe(&mut self, beat: Beat, timing: &Timing, now: Nanos) {
        self.absent = self.absence(timing, now);
        self.looked = self.looked.max(now);
        if beat != self.beat {
            self.learn(beat, timing, now);
            self.beat = beat;
            self.touch(beat.term().unwrap_or_default(), now);
        }
    }

    /// Notes another sign of the leader of `term`; for a leader, that it sent a heartbeat itself.
    pub fn touch(&mut self, term: Term, now: Nanos) {
        self.changed = self.changed.max(now);
        (self.looked, self.absent) = (self.looked.max(now), Nanos(0));
        self.to = self.to.max(term);
        self.released = false;
    }

    /// Notes that the process of that replica ended, or that its way here was cut.
    pub fn lose(&mut self, replica: ReplicaId) {
        if self.to.leader() == replica {
            self.gone = Some(replica);
        }
    }

    /// Notes that the replica says something.
    pub fn find(&mut self, replica: ReplicaId) {
        self.gone = self.gone.filter(|gone| *gone != replica);
    }

    /// The heartbeat that was seen last.
    #[cfg(test)]
    pub fn beat(&self) -> Beat {
        self.beat
    }

    /// When the leader was last heard of.
    pub fn changed(&self) -> Nanos {
        self.changed
    }

    /// Whether no promise stands in the way of a report.
    pub fn is_free(&self, timing: &Timing, now: Nanos) -> bool {
        now >= self.free_at(timing) || Mutant::ReportInside.is_on()
    }

    /// The first moment at which no promise stands in the way of a report, if nothing more is heard.
    pub fn free_at(&self, timing: &Timing) -> Nanos {
        if self.released { self.changed } else { self.changed + timing.promise + Nanos(1) }
    }

    /// Whether the leader may be gone.
    pub fn suspects(&self, timing: &Timing, now: Nanos) -> bool {
        self.gone == Some(self.to.leader()) || now.since(self.changed) > self.patience(timing, now)
    }

    /// How long the leader may be silent before it is suspected.
    fn patience(&self, timing: &Timing, now: Nanos) -> Nanos {
        let learnt = Nanos(self.longest(now).0.saturating_mul(SILENCES)).max(timing.suspect);
        (learnt + self.absence(timing, now)).min(timing.patience()).max(timing.suspect)
    }

    /// For how long the replica did not look although it should have, since it last heard of the leader.
    fn absence(&self, timing: &Timing, now: Nanos) -> Nanos {
        if Mutant::BlameOwnAbsence.is_on() {
            return Nanos(0);
        }
        let usual = timing.looks().0.saturating_mul(USUAL_LOOKS);
        self.absent + Nanos(now.since(self.looked).0.saturating_sub(usual))
    }

    /// The longest recent silence.
    fn longest(&self, now: Nanos) -> Nanos {
        let (longest, ended) = self.silence;
        let halvings = now.since(ended).0 / FADES.0;
        Nanos(longest.0.checked_shr(halvings.min(u64::from(u32::MAX)) as u32).unwrap_or(0))
    }

    /// Learns from a heartbeat that is seen for the first time. Others may have come since the last look,
    /// which this replica made late: their times are not the leader's silence.
    fn learn(&mut self, beat: Beat, timing: &Timing, now: Nanos) {
        let Some(beats) = beat.since(self.beat) else { return };
        let unseen = timing.heartbeat.0.saturating_mul(beats - 1).max(self.absent.0);
        let silence = Nanos(now.since(self.changed).0.saturating_sub(unseen));
        if silence >= self.longest(now) {
            self.silence = (silence, now);
        }
    }

    /// Notes that the leader of `term` has ended its lease and all that rests on it; returns whether that is
    /// news.
    pub fn release(&mut self, term: Term) -> bool {
        let news = !self.released && term >= self.to;
        self.released |= news;
        news
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::ReplicaId;

    use super::*;

    #[test]
    fn a_leader_takes_back_what_it_and_older_ones_were_promised() {
        let timing =
            Timing { heartbeat: Nanos(1), suspect: Nanos(3), promise: Nanos(10), election: Nanos(20) };
        let term = |counter| Term::new(counter, ReplicaId(1));
        let mut watch = LeaderWatch::new(term(2), Nanos(100));
        watch.observe(Beat::new(term(3), 1), &timing, Nanos(101));
        watch.release(term(2));
        assert!(!watch.is_free(&timing, Nanos(102)), "an older leader's word");
        watch.release(term(3));
        assert!(watch.is_free(&timing, Nanos(102)) && !watch.suspects(&timing, Nanos(102)));
        watch.observe(Beat::new(term(3), 1), &timing, Nanos(103));
        assert!(watch.is_free(&timing, Nanos(103)), "nothing new");
        watch.observe(Beat::new(term(3), 2), &timing, Nanos(103));
        assert!(!watch.is_free(&timing, Nanos(103)), "a heartbeat that was on its way");
        watch.release(term(3));
        watch.touch(term(4), Nanos(104));
        watch.release(term(3));
        assert!(!watch.is_free(&timing, Nanos(105)), "a younger leader was heard of");
        assert_eq!(patience(&watch, &timing, Nanos(104), Nanos(1)), Nanos(5));
        assert!(watch.is_free(&timing, Nanos(115)));
    }

    /// Looks every `every` from `from` on, and says after which silence `watch` suspects its leader.
    fn patience(watch: &LeaderWatch, timing: &Timing, from: Nanos, every: Nanos) -> Nanos {
        let (mut watch, mut now) = (*watch, from);
        while !watch.suspects(timing, now) {
            assert!(now < from + timing.election, "no leader is waited for without a bound");
            now = now + every;
            watch.observe(watch.beat(), timing, now);
        }
        now.since(watch.changed)
    }

    #[test]
    fn own_absence_is_not_the_leaders_silence() {
        let ms = Nanos::from_millis;
        let timing = Timing { heartbeat: ms(5), suspect: ms(30), promise: ms(40), election: ms(1_000) };
        let beat = |number| Beat::new(Term::new(3, ReplicaId(1)), number);
        let mut watch = LeaderWatch::new(Term::new(3, ReplicaId(1)), ms(0));
        watch.observe(beat(1), &timing, ms(1_000));
        assert_eq!(patience(&watch, &timing, ms(1_000), ms(5)), ms(35), "one look after the time");
        // All stood still; the leader speaks when it can.
        let mut late = watch;
        assert!(!late.suspects(&timing, ms(1_100)), "asked by another replica before it looked itself");
        late.observe(beat(1), &timing, ms(1_100));
        assert!(!late.suspects(&timing, ms(1_100)));
        assert_eq!(patience(&late, &timing, ms(1_100), ms(5)), ms(125), "90 ms of absence and 30");
        late.observe(beat(2), &timing, ms(1_110));
        assert_eq!(late.longest(ms(1_110)), ms(20), "nothing is learnt of the 90");
        assert_eq!(patience(&late, &timing, ms(1_110), ms(5)), ms(45), "twice of that");
        // A replica that is late at each look still finds a lost leader.
        assert_eq!(patience(&watch, &timing, ms(1_000), ms(50)), ms(200), "one look after five times");
        assert_eq!(patience(&watch, &timing, ms(1_000), ms(13)), ms(52), "12 of absence and 30");
    }

    #[test]
    fn a_leader_whose_process_is_gone_is_suspected_at_once() {
        let timing =
            Timing { heartbeat: Nanos(1), suspect: Nanos(30), promise: Nanos(40), election: Nanos(70) };
        let mut watch = LeaderWatch::new(Term::new(2, ReplicaId(0)), Nanos(0));
        let mut number = 0;
        let mut beat = |watch: &mut LeaderWatch, replica, at| {
            number += 1;
            watch.observe(Beat::new(Term::new(3, ReplicaId(replica)), number), &timing, Nanos(at));
        };
        beat(&mut watch, 1, 100);
        watch.lose(ReplicaId(2));
        assert!(!watch.suspects(&timing, Nanos(101)), "another one's");
        watch.lose(ReplicaId(1));
        assert!(watch.suspects(&timing, Nanos(101)));
        assert!(!watch.is_free(&timing, Nanos(140)), "what was promised still is");
        beat(&mut watch, 1, 102);
        assert!(watch.suspects(&timing, Nanos(102)), "it was on its way");
        watch.find(ReplicaId(2));
        assert!(watch.suspects(&timing, Nanos(102)), "another one says something");
        let mut restarted = watch;
        restarted.find(ReplicaId(1));
        assert!(!restarted.suspects(&timing, Nanos(103)), "it is there again");
        beat(&mut watch, 2, 103);
        assert!(!watch.suspects(&timing, Nanos(104)), "another one leads");
        assert_eq!(patience(&watch, &timing, Nanos(103), Nanos(1)), Nanos(31), "and is silent");
    }

    #[test]
    fn a_leader_may_be_silent_for_longer_where_leaders_are() {
        let ms = Nanos::from_millis;
        let timing = Timing { heartbeat: ms(5), suspect: ms(30), promise: ms(40), election: ms(1_000) };
        let term = Term::new(3, ReplicaId(1));
        let (mut watch, mut number, mut now) = (LeaderWatch::new(term, ms(0)), 1, ms(0));
        let mut beats = |watch: &mut LeaderWatch, more: u64, silence: u64| {
            // A replica that was late did not look meanwhile.
            for _ in (1..silence).filter(|_| more == 1) {
                now = now + ms(1);
                watch.observe(watch.beat(), &timing, now);
            }
            now = now + ms(if more == 1 { 1 } else { silence });
            number += more;
            watch.observe(Beat::new(term, number), &timing, now);
            now
        };
        let patience = |watch: &LeaderWatch, now| patience(watch, &timing, now, ms(1)).0 / 1_000_000 - 1;
        beats(&mut watch, 1, 5);
        let mut seen = beats(&mut watch, 1, 5);
        assert_eq!(patience(&watch, seen), 30);
        seen = beats(&mut watch, 1, 25);
        assert_eq!(patience(&watch, seen), 50);
        // This replica was late: eleven heartbeats came.
        seen = beats(&mut watch, 11, 60);
        assert_eq!(patience(&watch, seen), 50);
        // The leader was suspected, and lived on.
        seen = beats(&mut watch, 1, 60);
        assert_eq!(patience(&watch, seen), 120);
        seen = beats(&mut watch, 1, 700);
        assert_eq!(patience(&watch, seen), 150, "there is a bound");
        // A younger leader was not silent: it did not lead yet.
        watch.observe(Beat::new(Term::new(4, ReplicaId(2)), 1), &timing, seen + ms(5_000));
        assert_eq!(watch.longest(seen + ms(299_999)), ms(700));
        assert_eq!(watch.longest(seen + ms(300_000)), ms(350));
        assert_eq!(watch.longest(seen + ms(100_000_000)), Nanos(0));
    }
}
