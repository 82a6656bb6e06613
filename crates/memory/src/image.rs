//! What a loss of power leaves of journalled memory that is persistent, or of a file: each state that it can
//! be in, so that a recovery is tested on all of them and none is waited for.
//!
//! The rules are those of persistent memory behind caches (Continuity hashing III.C; the manuals of `clwb`
//! and
//! `sfence`). A line may be written back at any moment, by itself, so any prefix of its stores may be there:
//! stores to one line become persistent in order, those to different lines in any order. What was stored
//! before a [flush](crate::OwnedWords::flush) of its line, behind which a
//! [fence](crate::OwnedWords::fence) followed, is surely there. A file is the same with sectors for lines, a
//! write for the flush, and a sync for the fence.
//!
//! Just before a fence there are the most states: those of each moment since the fence before are among them.

use std::collections::BTreeMap;

use longarm_base::limits::LINE;
use longarm_base::random::SplitMix64;

use crate::Words;
use crate::journal::{Journal, JournalEvent, put_word};

/// The contents that a unit may have: those after each prefix of its stores that may be persistent.
struct Unit {
    at: u64,
    versions: Vec<Vec<u8>>,
}

/// The states that memory may be in after a loss of power at one moment.
pub struct Images {
    /// The memory without any store that may be lost.
    sure: Vec<u8>,
    /// Units with more than one content.
    open: Vec<Unit>,
}

impl Journal {
    /// The moments before each fence since `from`, and the present one: a loss of power at any other moment
    /// leaves nothing that one at the next of these cannot leave.
    pub fn before_fences(&self, from: usize) -> Vec<usize> {
        let events = self.events();
        let fences = events.iter().enumerate().skip(from);
        let mut moments: Vec<usize> =
            fences.filter(|(_, event)| matches!(event, JournalEvent::Fence)).map(|(at, _)| at).collect();
        moments.push(events.len());
        moments
    }

    /// The states after a loss of power at `moment`, where units of `unit` bytes become persistent together.
    /// Zeroed memory was persistent in the beginning.
    pub fn images(&self, moment: usize, unit: u64) -> Images {
        assert!(unit.is_multiple_of(LINE), "a unit is of whole lines");
        let events = self.events();
        let fenced = events[..moment].iter().rposition(|event| matches!(event, JournalEvent::Fence));
        let mut sure = self.at(0, 0, self.bytes() as usize);
        // By unit: the event before which all of its stores are persistent.
        let mut since = BTreeMap::<u64, usize>::new();
        for (i, event) in events[..fenced.unwrap_or(0)].iter().enumerate() {
            if let JournalEvent::Flush { at, len } = *event {
                let units = at / unit..(at + len).div_ceil(unit);
                units.for_each(|unit| _ = since.insert(unit, i));
            }
        }
        let mut lost = Vec::new();
        for (i, event) in events[..moment].iter().enumerate() {
            let JournalEvent::Store { at, old, new } = *event else { continue };
            if since.get(&(at / unit)).is_some_and(|&flushed| i < flushed) {
                put_word(&mut sure, 0, at, new);
            } else if old != new {
                lost.push((at, new.to_le_bytes()));
            }
        }
        Images::of_writes(sure, unit, lost.iter().map(|(at, word)| (*at, &word[..])))
    }
}

impl Images {
    /// The states of a file that holds `sure`, after writes that no sync followed: of each unit what it was
    /// after some of the writes to it.
    pub fn of_writes<'w>(
        sure: Vec<u8>,
        unit: u64,
        writes: impl IntoIterator<Item = (u64, &'w [u8])>,
    ) -> Images {
        let mut open = BTreeMap::<u64, Vec<Vec<u8>>>::new();
        for (at, bytes) in writes {
            let end = at + bytes.len() as u64;
            for of in at / unit..end.div_ceil(unit) {
                let start = of * unit;
                let whole = start as usize..((start + unit) as usize).min(sure.len());
                let versions = open.entry(of).or_insert_with(|| vec![sure[whole].to_vec()]);
                let mut next = versions.last().expect("one is sure").clone();
                let (from, to) = (at.max(start), end.min(start + unit));
                next[(from - start) as usize..(to - start) as usize]
                    .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
                versions.push(next);
            }
        }
        let open = open.into_iter().map(|(of, versions)| Unit { at: of * unit, versions }).collect();
        Images { sure, open }
    }

    /// How many there are; equal ones count each.
    pub fn count(&self) -> u128 {
        self.open.iter().fold(1, |count: u128, unit| count.saturating_mul(unit.versions.len() as u128))
    }

    /// Shows all of them if they are no more than `all`; else the one with all stores, the one without any
    /// that may be lost, and others drawn by `seed`, `drawn` in all.
    pub fn visit(&self, all: usize, drawn: usize, seed: u64, mut visit: impl FnMut(&[u8])) {
        let mut bytes = self.sure.clone();
        let mut show = |choice: &mut dyn FnMut(usize, usize) -> usize| {
            for (i, Unit { at, versions }) in self.open.iter().enumerate() {
                let version = &versions[choice(i, versions.len())];
                bytes[*at as usize..*at as usize + version.len()].copy_from_slice(version);
            }
            visit(&bytes);
        };
        if self.count() > all as u128 {
            let mut random = SplitMix64::new(seed);
            show(&mut |_, _| 0);
            show(&mut |_, versions| versions - 1);
            (2..drawn).for_each(|_| show(&mut |_, versions| random.below(versions as u64) as usize));
            return;
        }
        let mut chosen = vec![0; self.open.len()];
        loop {
            show(&mut |i, _| chosen[i]);
            // Counts in a number whose digits have as many values as the units have contents.
            let Some(digit) =
                chosen.iter().zip(&self.open).position(|(at, unit)| at + 1 < unit.versions.len())
            else {
                return;
            };
            chosen[digit] += 1;
            chosen[..digit].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::OwnedWords;

    /// The distinct images of the present moment, of the words at these places.
    fn seen(journal: &Journal, places: &[u64]) -> BTreeSet<Vec<u64>> {
        let mut all = BTreeSet::new();
        let word = |bytes: &[u8], at: u64| {
            u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().expect("eight bytes"))
        };
        let images = journal.images(journal.now(), LINE);
        images.visit(1 << 16, 1 << 16, 1, |bytes| {
            _ = all.insert(places.iter().map(|at| word(bytes, *at)).collect())
        });
        all
    }

    fn set(rows: &[&[u64]]) -> BTreeSet<Vec<u64>> {
        rows.iter().map(|row| row.to_vec()).collect()
    }

    #[test]
    fn stores_to_one_line_are_lost_from_the_last_on_and_those_to_two_lines_in_any_order() {
        let journal = Journal::new(256);
        journal.store(0, 1);
        journal.store(8, 2);
        assert_eq!(seen(&journal, &[0, 8]), set(&[&[0, 0], &[1, 0], &[1, 2]]));
        journal.store(64, 3);
        assert_eq!(journal.images(journal.now(), LINE).count(), 6);
        assert!(seen(&journal, &[0, 8, 64]).contains(&vec![0, 0, 3]));
        // In sectors they are of one unit.
        assert_eq!(journal.images(journal.now(), 512).count(), 4);
    }

    #[test]
    fn only_what_was_flushed_before_a_fence_is_surely_there() {
        let journal = Journal::new(256);
        journal.store(0, 1);
        journal.flush(0, 8);
        assert_eq!(seen(&journal, &[0]), set(&[&[0], &[1]]), "flushed, and not fenced");
        journal.store(8, 2);
        journal.store(64, 3);
        journal.fence();
        assert_eq!(seen(&journal, &[0, 8]), set(&[&[1, 0], &[1, 2]]), "stored behind the flush");
        assert_eq!(seen(&journal, &[64]), set(&[&[0], &[3]]), "not flushed");
        journal.flush(0, 128);
        journal.fence();
        assert_eq!(seen(&journal, &[0, 8, 64]), set(&[&[1, 2, 3]]));
        journal.fence();
        assert_eq!(journal.before_fences(0).len(), 4);
        assert_eq!(journal.before_fences(journal.now()), [journal.now()]);
    }

    #[test]
    fn too_many_are_drawn_with_both_ends_among_them() {
        let journal = Journal::new(64 * 40);
        (0..40).for_each(|line| journal.store(line * 64, 1));
        let images = journal.images(journal.now(), LINE);
        assert_eq!(images.count(), 1 << 40);
        let mut ones = Vec::new();
        images.visit(1000, 1000, 7, |bytes| ones.push(bytes.iter().filter(|byte| **byte == 1).count()));
        assert_eq!((ones.len(), ones[0], ones[1]), (1000, 0, 40));
        assert!(ones[2..].iter().all(|ones| (3..37).contains(ones)));
        assert_eq!(journal.load(0), 1, "the memory itself stays");
    }
}
