//! One stream's way to one follower: what is sent next, and what its completions say (LoLKV 3.3.2; L3).
//!
//! (1) Entries go in order of position, a run of neighbours in one WRITE, a long one in several.
//! (2) The line that claims a segment goes first, and no entry of the segment before that WRITE completed:
//!     data never lies in a segment that its stream has not claimed there (L3).
//! (3) Of the WRITEs of a long entry the last one's completion counts: WRITEs take effect in order.

use crate::run::Run;

/// What is to be sent next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Send {
    /// The line, or lines, of this segment, which is claimed by this number here.
    Claim {
        /// Of the segment.
        segment: u32,
        /// By which it is claimed.
        claim: u64,
    },
    /// The whole run in one WRITE; its completion acknowledges all positions below `until`.
    Run {
        /// Behind its last position.
        until: u64,
    },
    /// A piece of the run's one entry.
    Piece {
        /// Offset in the arena.
        from: u64,
        /// Bytes.
        len: u64,
        /// No other follows: its completion acknowledges the entry.
        last: bool,
    },
}

/// How far a stream is on its way to a follower.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Positions below this were sent.
    sent: u64,
    /// Bytes of the entry at `sent` that were sent already, of one that takes several WRITEs.
    within: u64,
    /// By segment: the claim that is known to be there.
    claimed: Vec<u64>,
    /// The claim whose WRITE has not completed.
    claiming: Option<(u32, u64)>,
    /// Longest WRITE.
    most: u64,
}

impl Sender {
    /// Sends from `start` on, into an arena of so many segments, `most` bytes at once.
    pub fn new(start: u64, segments: usize, most: u64) -> Sender {
        Sender { sent: start, within: 0, claimed: vec![0; segments], claiming: None, most }
    }

    /// Positions below this were sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether nothing may be sent before a claim has completed.
    pub fn awaits_claim(&self) -> bool {
        self.claiming.is_some()
    }

    /// What is to be sent of the run that begins at [`sent`](Self::sent), whose segment has this claim here.
    pub fn next(&self, run: &Run, claim: u64) -> Send {
        let segment = run.segment();
        if self.claimed[segment as usize] != claim {
            return Send::Claim { segment, claim };
        }
        if run.bytes() <= self.most {
            return Send::Run { until: run.until };
        }
        let len = (run.bytes() - self.within).min(self.most);
        Send::Piece { from: run.from + self.within, len, last: self.within + len == run.bytes() }
    }

    /// That was posted.
    pub fn posted(&mut self, send: Send) {
        match send {
            Send::Claim { segment, claim } => self.claiming = Some((segment, claim)),
            Send::Run { until } => self.sent = until,
            Send::Piece { last: true, .. } => (self.sent, self.within) = (self.sent + 1, 0),
            Send::Piece { len, .. } => self.within += len,
        }
    }

    /// The WRITE of the claim completed.
    pub fn claimed(&mut self) {
        if let Some((segment, claim)) = self.claiming.take() {
            self.claimed[segment as usize] = claim;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use longarm_base::limits::SEGMENT_BYTES;
    use proptest::prelude::*;

    use super::*;

    const MOST: u64 = 300;

    /// What a follower over a reliable connection has: WRITEs take effect, and complete, in order.
    #[derive(Default)]
    struct Peer {
        on_the_way: VecDeque<Send>,
        claimed: BTreeSet<(u32, u64)>,
        bytes: BTreeSet<u64>,
    }

    proptest! {
        /// Entries of any length in any segments, which are used again; queues of any depth: all that is
        /// acknowledged is there, in segments that were claimed for it before, and nothing is sent twice.
        #[test]
        fn what_is_acknowledged_is_there_and_lies_in_segments_that_were_claimed(
            start in 0u64..3,
            entries in proptest::collection::vec((0u32..3, 0u64..9, 1u32..900), 1..40),
            steps in proptest::collection::vec(any::<bool>(), 1..400),
        ) {
            // Each use of a segment begins where the last entry there does not fit any more.
            let mut next = [0u64; 3];
            let mut claims = [1u64; 3];
            let placed: Vec<(u64, u32, u64)> = entries
                .iter()
                .map(|&(segment, gap, len)| {
                    let (i, base) = (segment as usize, u64::from(segment) * SEGMENT_BYTES);
                    if next[i] > 6_000 {
                        (next[i], claims[i]) = (0, claims[i] + 1);
                    }
                    let at = base + next[i] + gap * 64;
                    next[i] = (at - base + u64::from(len)).next_multiple_of(64);
                    (at, len, claims[i])
                })
                .collect();
            let start = start.min(placed.len() as u64);
            // A run ends where the next use of its segment begins, as it lies further back.
            let entry = |position: u64| placed.get(position as usize).map(|&(at, len, _)| (at, len));
            let (mut sender, mut peer) = (Sender::new(start, 3, MOST), Peer::default());
            let mut acked = start;
            let turns = steps.iter().copied().chain([true, false].into_iter().cycle().take(3_000));
            for (i, sends) in turns.enumerate() {
                if sends {
                    let Some(run) = Run::at(sender.sent(), MOST, entry) else { continue };
                    if sender.awaits_claim() {
                        continue;
                    }
                    let send = sender.next(&run, placed[run.first as usize].2);
                    peer.on_the_way.push_back(send);
                    sender.posted(send);
                    continue;
                }
                let Some(landed) = peer.on_the_way.pop_front() else { continue };
                match landed {
                    Send::Claim { segment, claim } => {
                        // A new use: nothing of the one before counts as there.
                        let of = u64::from(segment) * SEGMENT_BYTES..u64::from(segment + 1) * SEGMENT_BYTES;
                        peer.bytes.retain(|at| !of.contains(at));
                        peer.claimed.insert((segment, claim));
                        sender.claimed();
                    }
                    Send::Run { until } => {
                        for position in acked..until {
                            let (at, len, claim) = placed[position as usize];
                            prop_assert!(peer.claimed.contains(&((at / SEGMENT_BYTES) as u32, claim)));
                            peer.bytes.extend(at..at + u64::from(len));
                        }
                        acked = until;
                    }
                    Send::Piece { from, len, last } => {
                        let (at, whole, claim) = placed[acked as usize];
                        prop_assert!(peer.claimed.contains(&((at / SEGMENT_BYTES) as u32, claim)));
                        prop_assert!(len <= MOST && from >= at, "a piece of the next entry, {i}");
                        peer.bytes.extend(from..from + len);
                        if last {
                            let all = (at..at + u64::from(whole)).all(|at| peer.bytes.contains(&at));
                            prop_assert!(all, "acknowledged, and a piece is missing");
                            acked += 1;
                        }
                    }
                }
            }
            prop_assert_eq!(acked, placed.len() as u64, "it comes to its end");
            prop_assert_eq!(sender.sent(), acked);
        }
    }
}
