//! How many versions were drawn when: from that follows which moment the notes of disks cover.

use std::collections::VecDeque;
use std::time::Duration;

use longarm_base::{Csn, Nanos};

/// The looks in a window that are remembered, about.
const IN_WINDOW: u64 = 64;
/// The looks that are remembered: those of two windows.
const KEPT: usize = 2 * IN_WINDOW as usize;

/// Looks at the version that was drawn last.
#[derive(Debug)]
pub(crate) struct Looks {
    spacing: Nanos,
    /// Times and versions, both ascending.
    looks: VecDeque<(Nanos, Csn)>,
}

impl Looks {
    /// No looks yet; a note that covers none of the last two windows covers nothing that counts.
    pub fn new(window: Duration) -> Looks {
        Looks { spacing: Nanos(window.as_nanos() as u64 / IN_WINDOW), looks: VecDeque::new() }
    }

    /// No version above this one had been drawn at that time.
    pub fn add(&mut self, at: Nanos, drawn: Csn) {
        if let Some((last, known)) = self.looks.back_mut().filter(|(_, known)| *known >= drawn) {
            // Two threads look: the one that comes second may have looked first.
            if *known == drawn {
                *last = at.max(*last);
            }
            return;
        }
        let mut newest = self.looks.iter().rev().map(|(at, _)| *at);
        if let (Some(last), Some(before)) = (newest.next(), newest.next())
            && last.since(before) < self.spacing
        {
            self.looks.pop_back();
        }
        if self.looks.len() == KEPT {
            self.looks.pop_front();
        }
        self.looks.push_back((at, drawn));
    }

    /// The last time at which no version above this one had been drawn: all that was acknowledged by then is
    /// not above it.
    pub fn covered(&self, stable: Csn) -> Option<Nanos> {
        self.looks.iter().rev().find(|(_, drawn)| *drawn <= stable).map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_covered_once_all_that_was_drawn_by_then_is_stable() {
        let mut looks = Looks::new(Duration::from_nanos(640));
        assert_eq!(looks.covered(Csn(9)), None, "nobody looked");
        for (at, drawn) in [(100, 5), (110, 9), (120, 9), (130, 14)] {
            looks.add(Nanos(at), Csn(drawn));
        }
        let covered = [4, 5, 8, 9, 13, 14, 99].map(|stable| looks.covered(Csn(stable)).map(|at| at.0));
        assert_eq!(covered, [None, Some(100), Some(100), Some(120), Some(120), Some(130), Some(130)]);
        // A look that comes late says nothing new.
        looks.add(Nanos(125), Csn(12));
        assert_eq!(looks.covered(Csn(13)), Some(Nanos(120)));
    }

    #[test]
    fn the_last_look_is_known_and_the_older_ones_are_spaced_and_of_two_windows() {
        let mut looks = Looks::new(Duration::from_nanos(6_400));
        for at in 0..100_000 {
            looks.add(Nanos(at), Csn(at));
            assert_eq!(looks.covered(Csn(at)), Some(Nanos(at)));
        }
        assert_eq!(looks.looks.len(), KEPT);
        let covered = looks.covered(Csn(100_000 - 6_400)).expect("of this window");
        assert!((100_000 - 6_600..=100_000 - 6_400).contains(&covered.0), "{covered:?}");
        assert_eq!(looks.covered(Csn(100_000 - 20_000)), None);
    }
}
