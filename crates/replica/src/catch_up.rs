//! How a follower catches up with the leader, as a value: what is to be done next, and when it begins to
//! count (LoLKV 3.5; M3; rule ResyncAll of `docs/spec`). A driver does the steps, and serves releases
//! between them: it moves bytes and decides nothing.
//!
//! The follower has promised the term, fenced, and said what it holds: its memory is lent to this leader
//! alone. It was joined to those that are asked before a segment is released, so that nothing that is pushed
//! to it can be of a use that is over there. Then, and why in this order:
//! (1) *Table* and *content* of older terms, and all of it has *landed* (not merely completed: streams write
//!     to the same lines, over connections of their own) before (2). A follower that counts is given what
//!     its own table says that it does not have, and only then the lines: were the connection to break in
//!     between, the next comparison would take the lines for the content. Before the content its table is
//!     told that the use which it has is over, as its bytes will be: its standby index goes by the table. One
//!     that holds another start set is given all.
//! (2) *Attach*: each stream sends to it from its present end on, claims first.
//! (3) *Push*: what a stream wrote before goes segment by segment. Nothing else sends the same entries. Lines
//!     go over both connections, and are the same to the byte for as long as a segment has one use.
//! (4) *Adopt*: it holds the start set and all of this term that it may ever be counted for. What it let go
//!     of meanwhile, or never had because it was reclaimed before, is missing. The question itself brings
//!     floors that say so, and is asked when they cover all of that (L6): at no moment does it count with a
//!     gap. Until then a follower whose memory counts goes on counting for what it held. What is pushed keeps
//!     that true: where it has an entry that an older term committed, the same bytes are written. One that
//!     holds the start set of this very term counts by name already. It is told the floors before the
//!     question: it answers when its disk follows, and the disk would wait for what was reclaimed.
//! (5) *Keep*: releases are asked of it, until it is let go.

use std::collections::BTreeMap;
use std::ops::Range;

use longarm_base::Mutant;
use longarm_wire::SyncState;

use crate::progress::{FollowerProgress, StreamProgress};
use crate::releases::raise;

/// What is to be done next for the follower.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CatchUpStep {
    /// WRITE [`left`](CatchUp::left) to its page, as floors: it counts, and what was reclaimed since it left
    /// must not look like a gap.
    KeepFloors,
    /// READ its table: which segments of older terms does it not have in the use that they are in here?
    Compare,
    /// WRITE of those segments that the uses in which it has them are over.
    Free,
    /// WRITE those segments, whole, and not their lines.
    Unknown,
    /// WRITE the header and all lines.
    Table,
    /// WRITE all segments of older terms.
    Older,
    /// WRITE the entries of the base's streams from [`lengths`](CatchUp::lengths) on.
    Base,
    /// Wait until all of that has landed.
    Land,
    /// Hand it to the streams, each with a connection of its own.
    Attach,
    /// Wait until each stream has said from where on it sends.
    AwaitStarts,
    /// WRITE the entries of this term's streams that are to be [pushed](CatchUp::pushed), as the arena has
    /// them.
    Push,
    /// Wait until all of that has landed.
    LandPushed,
    /// Have it let go of all that is asked of it. It lost its memory: what it had let go of before, it lets
    /// go of again.
    Release,
    /// Wait until it has acknowledged all that it [needs](CatchUp::needed) of what is sent.
    AwaitNeeded,
    /// WRITE of how many reclaimed segments it was told: it is in sync by name, and would not take this from
    /// the question.
    TellReclaimed,
    /// WRITE the floors, for the same reason. Its disk follows from them on once it was asked, and it answers
    /// when its disk does.
    TellFloors,
    /// Ask it to adopt the term, with its floors and of how many reclaimed segments it was told.
    Adopt,
    /// It is synced, and counts from now on; its page has the floors.
    Count,
    /// Serve releases until it is let go.
    Keep,
}

/// What a follower that is to catch up has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Has {
    /// Nothing that counts.
    Nothing,
    /// The start set that the leader began with.
    Base,
    /// The start set of this very term, and what it left with.
    Term,
}

const ALL: &[Has] = &[Has::Nothing, Has::Base, Has::Term];
const COUNTS: &[Has] = &[Has::Base, Has::Term];
const IN_TERM: &[Has] = &[Has::Term];

/// The steps in their order, and which followers take them.
const STEPS: [(CatchUpStep, &[Has]); 19] = [
    (CatchUpStep::KeepFloors, IN_TERM),
    (CatchUpStep::Compare, COUNTS),
    (CatchUpStep::Free, COUNTS),
    (CatchUpStep::Unknown, COUNTS),
    (CatchUpStep::Table, ALL),
    (CatchUpStep::Older, &[Has::Nothing]),
    (CatchUpStep::Base, &[Has::Base]),
    (CatchUpStep::Land, ALL),
    (CatchUpStep::Attach, ALL),
    (CatchUpStep::AwaitStarts, ALL),
    (CatchUpStep::Push, ALL),
    (CatchUpStep::LandPushed, ALL),
    (CatchUpStep::Release, &[Has::Nothing]),
    (CatchUpStep::AwaitNeeded, ALL),
    (CatchUpStep::TellReclaimed, IN_TERM),
    (CatchUpStep::TellFloors, IN_TERM),
    (CatchUpStep::Adopt, ALL),
    (CatchUpStep::Count, ALL),
    (CatchUpStep::Keep, ALL),
];

/// A follower that catches up.
#[derive(Clone, Debug)]
pub struct CatchUp {
    held: SyncState,
    left: Vec<u64>,
    at: usize,
    /// By stream, how much the follower must have of what is sent to it before it counts: it let go of
    /// segments that held this, or that this made needless.
    needed: Vec<u64>,
    /// Segments that it let go of, and the claim whose use is over there.
    over: BTreeMap<u32, u64>,
}

impl CatchUp {
    /// A follower that holds this. `left` are the floors that it left with, or was last asked to adopt the
    /// term with; who began anew with what its disk has says itself what that is. `None` if that cannot be:
    /// only who was asked to adopt the term holds its start set.
    pub fn new(held: SyncState, left: Option<Vec<u64>>) -> Option<CatchUp> {
        let left = match &held {
            SyncState::Term => left?,
            SyncState::Disk(lens) => lens.clone(),
            SyncState::Nothing | SyncState::Base(_) => Vec::new(),
        };
        let (needed, over) = Default::default();
        let mut it = CatchUp { held, left, at: 0, needed, over };
        it.skip();
        Some(it)
    }

    /// What is to be done now.
    pub fn step(&self) -> CatchUpStep {
        let lines_first = self.counts() && (Mutant::LinesFirst.is_on() || Mutant::LookMeanwhile.is_on());
        let floors_last = self.has() == Has::Term && Mutant::FloorsLast.is_on();
        match STEPS[self.at].0 {
            CatchUpStep::Unknown if lines_first => CatchUpStep::Table,
            CatchUpStep::Table if lines_first => CatchUpStep::Unknown,
            CatchUpStep::TellFloors if floors_last => CatchUpStep::Adopt,
            CatchUpStep::Adopt if floors_last => CatchUpStep::TellFloors,
            step => step,
        }
    }

    /// The step is done: the next one follows.
    pub fn done(&mut self) {
        self.at = (self.at + 1).min(STEPS.len() - 1);
        self.skip();
    }

    fn skip(&mut self) {
        let has = self.has();
        self.at += STEPS[self.at..].iter().take_while(|(step, who)| !takes(has, *step, who)).count();
    }

    fn has(&self) -> Has {
        match self.held {
            SyncState::Nothing => Has::Nothing,
            SyncState::Base(_) => Has::Base,
            SyncState::Term | SyncState::Disk(_) => Has::Term,
        }
    }

    /// Whether what it holds counts already, in this term or an older one.
    pub fn counts(&self) -> bool {
        self.held != SyncState::Nothing
    }

    /// Whether releases are to be served while the step is under way. A follower that counts keeps what it
    /// has until it is synced.
    pub fn may_release(&self) -> bool {
        match self.step() {
            CatchUpStep::Older | CatchUpStep::Push | CatchUpStep::Release => !self.counts(),
            step => step == CatchUpStep::Keep,
        }
    }

    /// The floors that it left with, by stream; empty if it does not hold the start set of this term.
    pub fn left(&self) -> &[u64] {
        &self.left
    }

    /// How long the base's streams are that it holds; empty if it does not hold the base.
    pub fn lengths(&self) -> &[u64] {
        if let SyncState::Base(lengths) = &self.held { lengths } else { &[] }
    }

    /// Which positions of this term's streams it is to be given: those from where it left on, and before each
    /// stream's start. Nothing is given to it twice: from the start on the stream sends, and what it left
    /// with it has. Its standby index may have looked at an entry, and counts by the superseded bit that it
    /// then made of it. A WRITE of the same entry that lands after that look, as it may once it has
    /// completed, brings another bit.
    pub fn pushed(&self, progress: &FollowerProgress) -> Vec<Range<u64>> {
        let anew = self.has() != Has::Term || Mutant::PushAnew.is_on();
        let from = |stream: usize| if anew { 0 } else { self.left.get(stream).copied().unwrap_or(0) };
        let until = |at: &StreamProgress| at.start.filter(|_| !Mutant::PushTwice.is_on()).unwrap_or(u64::MAX);
        progress.streams.iter().enumerate().map(|(stream, at)| from(stream)..until(at)).collect()
    }

    /// By stream, what it must have before it counts.
    pub fn needed(&self) -> &[u64] {
        &self.needed
    }

    /// It let go of these segments, in the use that begins with this claim. By then the streams had written
    /// so much: all that those held, and all that made them needless.
    pub fn let_go(&mut self, segments: impl IntoIterator<Item = (u32, u64)>, written: &[u64]) {
        self.over.extend(segments);
        raise(&mut self.needed, written);
    }

    /// Whether it has let go of this use of a segment: nothing of it may be pushed any more. What is claimed
    /// anew since is another use.
    pub fn is_over(&self, segment: u32, claim: u64) -> bool {
        self.over.get(&segment) == Some(&claim) && !Mutant::PushOver.is_on()
    }
}

fn takes(has: Has, step: CatchUpStep, who: &[Has]) -> bool {
    let unflushed = step == CatchUpStep::LandPushed && Mutant::AdoptUnflushed.is_on();
    let unkept = step == CatchUpStep::KeepFloors && Mutant::SkipFloors.is_on();
    let unfreed = step == CatchUpStep::Free && Mutant::ContentUnderLine.is_on();
    who.contains(&has) && !unflushed && !unkept && !unfreed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(mut follower: CatchUp) -> Vec<CatchUpStep> {
        let mut steps = vec![follower.step()];
        while follower.step() != CatchUpStep::Keep {
            follower.done();
            steps.push(follower.step());
        }
        steps
    }

    /// The table of `docs/generated/catch_up.md`.
    #[test]
    fn the_table_of_catching_up_is_as_agreed() {
        let followers = [
            ("nothing that counts", SyncState::Nothing),
            ("the start set that the leader began with", SyncState::Base(vec![3, 4])),
            ("the start set of this term", SyncState::Term),
        ]
        .map(|(what, held)| (what, CatchUp::new(held, Some(vec![5, 6])).expect("it left")));
        let mut text = String::from(
            "# How a follower catches up\n\nWritten by a test from `crates/replica/src/catch_up.rs`, which \
             says what each step is and why they come in this order;\n`ACCEPT=1 cargo test -p \
             longarm-replica the_table`. *R*: releases are served meanwhile.\n\n| step | follower holds ",
        );
        text += &followers.iter().map(|(what, _)| *what).collect::<Vec<_>>().join(" | ");
        text += &format!(" |\n|---|{}\n", "---|".repeat(followers.len()));
        for (step, _) in STEPS {
            let mut cells = Vec::new();
            for (_, follower) in &followers {
                let mut follower = follower.clone();
                while follower.step() < step {
                    follower.done();
                }
                let takes = follower.step() == step;
                cells.push(if takes && follower.may_release() {
                    "x R"
                } else if takes {
                    "x"
                } else {
                    ""
                });
            }
            text += &format!("| {step:?} | {} |\n", cells.join(" | "));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/generated/catch_up.md");
        if std::env::var_os("ACCEPT").is_some() {
            std::fs::write(path, &text).expect("the sources are writable");
        }
        let agreed = std::fs::read_to_string(path).expect("the table is in the repository");
        assert!(text == agreed, "the table changed; if that is meant: ACCEPT=1 cargo test the_table");
    }

    #[test]
    fn a_follower_counts_after_all_that_it_needs_has_landed_whatever_it_held() {
        for held in [SyncState::Nothing, SyncState::Base(vec![0]), SyncState::Term] {
            let steps = steps(CatchUp::new(held.clone(), Some(vec![1])).expect("it left"));
            assert!(steps.is_sorted(), "{steps:?}");
            let at = |step| steps.iter().position(|it| *it == step).expect("each takes this step");
            // A comparison after a sync that was broken off must not find lines without content.
            let anew = [CatchUpStep::Free, CatchUpStep::Unknown, CatchUpStep::Table];
            assert!(held == SyncState::Nothing || anew.iter().map(|step| at(*step)).is_sorted());
            let order = [CatchUpStep::Table, CatchUpStep::Land, CatchUpStep::Attach, CatchUpStep::Push];
            let then = [CatchUpStep::LandPushed, CatchUpStep::AwaitNeeded, CatchUpStep::Adopt];
            assert!(order.iter().chain(&then).map(|step| at(*step)).is_sorted());
            assert!(at(CatchUpStep::Adopt) < at(CatchUpStep::Count));
        }
    }

    /// What a follower had when it was let go says nothing of another start set.
    #[test]
    fn what_was_left_counts_in_the_same_term_only() {
        let at = |start| StreamProgress { start: Some(start), ..StreamProgress::default() };
        let progress = FollowerProgress { synced: false, streams: vec![at(12), at(4)] };
        let base = CatchUp::new(SyncState::Base(vec![7]), Some(vec![9])).expect("it never adopted");
        assert_eq!((base.left(), base.pushed(&progress)), (&[][..], vec![0..12, 0..4]));
        assert_eq!(base.lengths(), [7]);
        let term = CatchUp::new(SyncState::Term, Some(vec![9])).expect("it left");
        assert_eq!((term.left(), term.pushed(&progress)), (&[9][..], vec![9..12, 0..4]));
        assert!(term.lengths().is_empty());
        assert!(CatchUp::new(SyncState::Term, None).is_none(), "nobody asked it to adopt the term");
        assert!(CatchUp::new(SyncState::Nothing, None).is_some());
        let disk = CatchUp::new(SyncState::Disk(vec![3]), Some(vec![9])).expect("it says what it has");
        assert_eq!((disk.left(), disk.pushed(&progress)), (&[3][..], vec![3..12, 0..4]));
    }

    /// What is pushed into a use that is over there could land over the next one.
    #[test]
    fn nothing_is_pushed_into_a_use_that_a_follower_has_let_go_of() {
        let mut follower = CatchUp::new(SyncState::Nothing, None).expect("it never adopted");
        follower.let_go([(4, 9)], &[2, 5]);
        assert!(follower.is_over(4, 9));
        assert!(!follower.is_over(4, 10), "claimed anew since");
        assert!(!follower.is_over(5, 9));
        follower.let_go([(6, 1)], &[3, 4]);
        assert_eq!(follower.needed(), [3, 5]);
    }
}
