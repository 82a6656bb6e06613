//! Checks index and arena together, from their bytes alone.

use longarm_base::{Csn, EntryRef};
use longarm_index::hash::{self, Geometry, Record, SlotKind};
use longarm_memory::{Hash, HashKey, SumKey, Words};
use longarm_store::{Entry, object};

use crate::human;
use crate::output::{Exit, Failure};

/// The number of looks at memory that changes: a problem is real if all looks see it.
const LOOKS: usize = 3;
/// The most looks, with those during which tables of the index came or went.
const LOOKS_MAX: usize = 12;
/// The most problems that a failure names; further ones are counted.
const NAMED_MAX: usize = 50;

/// The memory that is checked.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Hash tables.
    pub index: &'a dyn Words,
    /// Segments.
    pub arena: &'a dyn Words,
    /// Key of the record checksums.
    pub sums: &'a SumKey,
}

/// The outcome of a check.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The report on the hash tables.
    pub index: hash::IndexReport,
    /// The report on the segments.
    pub store: longarm_store::ArenaReport,
    /// All problems in words; at most some hundred.
    pub problems: Vec<String>,
    /// The number of all problems.
    pub problem_count: u64,
    /// Whether tables came or went in so many looks that nothing can be said of the index.
    pub unsettled: bool,
}

/// Names broken invariants, of which there are so many.
pub fn broken(problems: &[String], count: u64) -> String {
    let mut text = format!("{} invariants are broken:", human::count(count));
    for problem in problems.iter().take(NAMED_MAX) {
        text.push_str(&format!("\n  {problem}"));
    }
    let more = count.saturating_sub(NAMED_MAX as u64);
    if more > 0 {
        text.push_str(&format!("\n  and {} more", human::count(more)));
    }
    text
}

impl Findings {
    /// Fails, and names what is broken, if anything is.
    pub fn sound(&self) -> Result<(), Failure> {
        if self.problem_count > 0 {
            return Err(Failure::new(Exit::Corrupt, broken(&self.problems, self.problem_count))
                .hint("`longarm dump` writes out what still verifies; please report how this came about"));
        }
        if self.unsettled {
            let text = format!("tables of the index came or went during most of {LOOKS_MAX} looks at it");
            return Err(Failure::new(Exit::Refused, text)
                .hint("look again when the number of items no longer changes so fast"));
        }
        Ok(())
    }

    /// Whether there are more problems than are kept in words.
    fn is_cut(&self) -> bool {
        self.problem_count > self.problems.len() as u64
    }

    /// What this look and an earlier one may both have seen. A look with more problems than are kept in words
    /// may have seen each of those that the other one names.
    fn confirmed_by(mut self, earlier: Findings) -> Findings {
        match (self.is_cut(), earlier.is_cut()) {
            (false, false) => {
                self.problems.retain(|problem| earlier.problems.contains(problem));
                self.problem_count = self.problems.len() as u64;
            }
            (false, true) => {}
            (true, false) => (self.problems, self.problem_count) = (earlier.problems, earlier.problem_count),
            (true, true) => self.problem_count = self.problem_count.min(earlier.problem_count),
        }
        self
    }
}

/// Reads and verifies the entry that a slot names.
pub fn read_entry<'b>(
    view: View<'_>,
    csn: Csn,
    entry: EntryRef,
    bytes: &'b mut Vec<u8>,
) -> Result<Entry<'b>, String> {
    let fits = |len: u32| {
        let end = entry.offset.checked_add(u64::from(len));
        entry.offset.is_multiple_of(64) && end.is_some_and(|end| end <= view.arena.bytes())
    };
    let outside = || format!("names an entry at {:#x}, outside the arena", entry.offset);
    let wrong = |why: object::EntryError| format!("names an entry at {:#x}: {why}", entry.offset);
    let mut len = entry.len;
    if len == 0 {
        if !fits(64) {
            return Err(outside());
        }
        bytes.resize(64, 0);
        view.arena.copy_out(entry.offset, bytes);
        len = object::total_len(bytes).map_err(wrong)?;
    }
    if !fits(len) {
        return Err(outside());
    }
    bytes.resize(len as usize, 0);
    view.arena.copy_out(entry.offset, bytes);
    let read = object::read(bytes, entry.offset, view.sums).map_err(wrong)?;
    if read.csn != csn {
        return Err(format!(
            "names an entry at {:#x} that has version {}, not {}",
            entry.offset, read.csn.0, csn.0
        ));
    }
    Ok(read)
}

/// Looks at memory that a server may be changing, until a look finds no problem, or all looks find the same
/// problem. `geometry` gives the tables that are in use now.
pub fn check<F>(view: View<'_>, geometry: impl FnMut() -> Result<Geometry, F>) -> Result<Findings, F> {
    look_again(geometry, |tables| once(view, tables))
}

/// Looks at memory that changes, until a look finds nothing or enough looks agree.
fn look_again<F>(
    mut geometry: impl FnMut() -> Result<Geometry, F>,
    mut look: impl FnMut(&Geometry) -> Findings,
) -> Result<Findings, F> {
    let (mut found, mut looks): (Option<Findings>, usize) = (None, 0);
    for _ in 0..LOOKS_MAX {
        let before = geometry()?;
        let now = look(&before);
        // Tables came or went during the look, so what it says of the index means nothing.
        if geometry()?.epoch != before.epoch {
            continue;
        }
        let all = match found.take() {
            Some(earlier) => now.confirmed_by(earlier),
            None => now,
        };
        looks += 1;
        if all.problem_count == 0 || looks == LOOKS {
            return Ok(all);
        }
        found = Some(all);
    }
    Ok(Findings { unsettled: true, ..Findings::default() })
}

/// An entry that the walk over the segments saw whole.
struct Seen {
    offset: u64,
    csn: Csn,
    hash: Hash,
}

fn once(view: View<'_>, geometry: &Geometry) -> Findings {
    let hasher = HashKey::new(geometry.hash_key);
    let inline = geometry.live().next().is_some_and(|table| table.shape.kind == SlotKind::Inline64);
    // Segments come first, in the order in which they lie: over a network that is a few long READs. The check
    // of the index then asks about entries that are known already.
    let mut seen: Vec<Seen> = Vec::new();
    let store = longarm_store::verify_with(view.arena, view.sums, &mut |place, entry| {
        seen.push(Seen { offset: place.offset, csn: entry.csn, hash: hasher.hash(entry.key) });
    });
    seen.sort_unstable_by_key(|entry| entry.offset);
    let mut bytes = Vec::new();
    let index = hash::verify(view.index, geometry, view.sums, 0, |record| {
        let (csn, entry, hash) = match *record {
            Record::Entry { csn, entry, hash, .. } => (csn, entry, hash),
            Record::Inline { key, .. } => return Ok(hasher.hash(key)),
        };
        let known = seen.binary_search_by_key(&entry.offset, |seen| seen.offset).ok().map(|at| &seen[at]);
        let real = match known.filter(|known| known.csn == csn) {
            Some(known) => known.hash,
            // The entry was written, or moved, after the look at the segments.
            None => hasher.hash(read_entry(view, csn, entry, &mut bytes)?.key),
        };
        if (inline && real != hash) || real.tag() != hash.tag() {
            return Err(format!("names an entry at {:#x} whose key has another hash", entry.offset));
        }
        Ok(real)
    });
    let mut findings =
        Findings { problem_count: index.problem_count + store.problem_count, ..Findings::default() };
    findings.problems.extend(index.problems.iter().map(|problem| format!("index: {problem}")));
    findings.problems.extend(store.problems.iter().map(|problem| format!("arena: {problem}")));
    (findings.index, findings.store) = (index, store);
    findings
}

#[cfg(test)]
mod tests {
    use longarm_base::limits::TABLES_MAX;

    use super::*;

    fn found(problems: &[&str], count: u64) -> Findings {
        let problems = problems.iter().map(|text| text.to_string()).collect();
        Findings { problems, problem_count: count, ..Findings::default() }
    }

    /// Looks that find this, one after the other, at tables whose number of changes is told before and after
    /// each: what is said in the end, and after how many looks.
    fn looked(finds: &[Findings], epochs: impl Fn(usize) -> u64) -> (Findings, usize) {
        let (mut told, mut looks) = (0, 0);
        let geometry = || {
            told += 1;
            let tables = [None; TABLES_MAX];
            Ok::<_, ()>(Geometry { epoch: epochs(told - 1), tables, hash_key: 0 })
        };
        let look = |_: &Geometry| {
            looks += 1;
            finds[(looks - 1) % finds.len()].clone()
        };
        let said = look_again(geometry, look).expect("the tables are known");
        (said, looks)
    }

    #[test]
    fn a_problem_is_real_if_all_looks_see_it() {
        let (both, one) = (found(&["a", "b"], 2), found(&["a", "c"], 2));
        let (said, looks) = looked(&[both.clone(), one, both.clone()], |_| 7);
        assert_eq!((said.problems, said.problem_count, looks), (vec!["a".to_string()], 1, LOOKS));
        let (said, looks) = looked(&[both.clone(), found(&["c"], 1)], |_| 7);
        assert_eq!((said.problem_count, looks), (0, 2));
        let (said, looks) = looked(&[found(&[], 0)], |_| 7);
        assert_eq!((said.problem_count, looks), (0, 1));
    }

    /// A table that grew during a look made that look see problems.
    #[test]
    fn a_look_during_which_tables_came_or_went_says_nothing() {
        let broken = found(&["a"], 1);
        // The tables change during the first two looks, and in the last but one.
        let (said, looks) =
            looked(std::slice::from_ref(&broken), |told| [0, 1, 1, 2].get(told).map_or(2, |it| *it));
        assert_eq!((said.problem_count, looks), (1, 2 + LOOKS), "three looks in peace agree");
        let (said, looks) = looked(&[broken.clone(), found(&[], 0)], |told| told.min(1) as u64);
        assert_eq!((said.problem_count, said.unsettled, looks), (0, false, 2));
        let (said, looks) = looked(&[broken], |told| told as u64);
        assert_eq!((said.problem_count, said.unsettled, looks), (0, true, LOOKS_MAX));
        assert!(said.sound().is_err(), "nothing can be said");
    }

    #[test]
    fn looks_that_kept_other_problems_in_words_do_not_call_it_sound() {
        let (one, other) = (found(&["a"], 500), found(&["b"], 400));
        let (said, _) = looked(&[one.clone(), other.clone()], |_| 7);
        assert_eq!((said.problem_count, said.problems.len()), (400, 1));
        // All problems of the second look are in words, and none of them is the first one's.
        let (said, _) = looked(&[one, found(&["b"], 1)], |_| 7);
        assert_eq!(said.problem_count, 1, "the first look may have seen it, and not kept it");
    }
}
