//! A full check of a hash table from its bytes alone, and a walk over its items.
//!
//! Used by tests, the simulator and `longarm inspect`. On a live table a pair may be changing while it is
//! copied: the walk copies it until two looks at its indicator agree, a bounded number of times. A server
//! that was cut off leaves pairs half changed, at most one a thread: a slot whose bit is set and whose record
//! is not whole, a MOVED pair whose slots are not wiped, a record on its way within its pair.

use longarm_memory::{Hash, SumKey, Words};

use super::layout::{Discipline, Geometry, Header, SlotKind, Table, header, indicator};
use super::slot::{Record, SlotView, seed};

/// How often a pair that keeps changing is copied again before it counts as a problem.
const TRIES: usize = 1000;
/// Problems described in full; further ones are only counted.
const PROBLEMS_SHOWN: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct IndexReport {
    /// Tables in the geometry.
    pub tables: usize,
    /// How they replace records.
    pub discipline: Option<Discipline>,
    /// Pairs, over all tables.
    pub pairs: u64,
    /// Pairs whose records are in a later table.
    pub moved: u64,
    /// Pairs with added groups.
    pub extended: u64,
    /// Pairs of which items may stand beside the table, where this does not see them.
    pub spilled: u64,
    /// Slots, added ones included.
    pub slots: u64,
    /// Items.
    pub items: u64,
    /// Items that are inline.
    pub inline: u64,
    /// Pairs that are half changed, if they are no more than may be.
    pub half: u64,
    /// The first of them in words.
    half_changed: Vec<String>,
    /// Broken invariants, the first of them in words.
    pub problems: Vec<String>,
    /// Number of broken invariants.
    pub problem_count: u64,
}

impl IndexReport {
    fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_SHOWN {
            self.problems.push(text);
        }
    }

    /// Notes what changes under way may have left of a pair. There is one at a time, under its lock.
    fn half_changed(&mut self, texts: Vec<String>) {
        let mut texts = texts.into_iter();
        if let Some(text) = texts.next() {
            self.half += 1;
            if self.half_changed.len() < PROBLEMS_SHOWN {
                self.half_changed.push(text);
            }
        }
        texts.for_each(|text| self.problem(text));
    }

    /// Takes all that is half changed for broken.
    fn blame_half(&mut self) {
        let in_words = std::mem::take(&mut self.half_changed);
        self.problem_count += std::mem::take(&mut self.half) - in_words.len() as u64;
        in_words.into_iter().for_each(|text| self.problem(text));
    }
}

/// One pair, copied while its indicator stood still.
struct Copied {
    header: Header,
    /// The records in its slots: slot, place and bytes.
    slots: Vec<(usize, u64, [u8; 64])>,
    /// Occupied slots that did not verify in any look.
    torn: Vec<usize>,
    /// It is MOVED, and a slot was not wiped in any look.
    leftover: bool,
}

fn copy_pair(
    words: &(impl Words + ?Sized),
    table: &Table,
    pair: u64,
    sums: &SumKey,
) -> Result<Copied, String> {
    let mut line = [0; 64];
    let mut last = None;
    for _ in 0..TRIES {
        words.copy_out(table.header_at(pair), &mut line);
        let before = Header::parse(&line);
        let (mut slots, mut torn) = (Vec::new(), Vec::new());
        for slot in (0..32).filter(|slot| before.occupied() & 1 << slot != 0) {
            let at = table
                .slot_at(pair, slot, &before.groups)
                .filter(|at| at + table.shape.slot_bytes() <= words.bytes())
                .ok_or_else(|| format!("pair {pair} of table {}: slot {slot} has no place", table.id))?;
            let mut bytes = [0; 64];
            words.copy_out(at, &mut bytes[..table.shape.slot_bytes() as usize]);
            match view(table, at, &bytes, sums) {
                SlotView::Record(_) => slots.push((slot, at, bytes)),
                SlotView::Torn | SlotView::Empty => torn.push(slot),
            }
        }
        // A record replaced in place leaves the header as it is: every record must verify too. Slots of a
        // pair that has moved are wiped just after.
        let leftover = before.moved() && !is_wiped(words, table, pair, &before);
        words.copy_out(table.header_at(pair), &mut line);
        let after = Header::parse(&line);
        if (before.indicator, before.groups, before.fingerprints)
            == (after.indicator, after.groups, after.fingerprints)
        {
            let is_whole = torn.is_empty() && !leftover;
            let copied = Copied { header: before, slots, torn, leftover };
            if is_whole {
                return Ok(copied);
            }
            last = Some(copied);
        }
    }
    last.ok_or_else(|| format!("pair {pair} of table {} did not stand still, in {TRIES} looks", table.id))
}

/// Whether no slot of a pair holds anything.
fn is_wiped(words: &(impl Words + ?Sized), table: &Table, pair: u64, header: &Header) -> bool {
    let existing = header.existing(&table.shape);
    let mut slots = (0..32).filter(|slot| existing & 1 << slot != 0);
    slots.all(|slot| {
        let place = table.slot_at(pair, slot, &header.groups);
        place.filter(|at| at + table.shape.slot_bytes() <= words.bytes()).is_some_and(|at| {
            let mut bytes = [0; 64];
            let bytes = &mut bytes[..table.shape.slot_bytes() as usize];
            words.copy_out(at, bytes);
            bytes.iter().all(|byte| *byte == 0)
        })
    })
}

/// Checks every pair of every table: ids, homes, fingerprints, checksums, no key twice, MOVED pairs empty.
/// `hash_of` sees every record and gives the hash of its key, or says why its entry is not sound. Up to
/// `allowed` pairs may be half changed.
pub fn verify(
    words: &(impl Words + ?Sized),
    geometry: &Geometry,
    sums: &SumKey,
    allowed: u64,
    mut hash_of: impl FnMut(&Record<'_>) -> Result<Hash, String>,
) -> IndexReport {
    let mut report = IndexReport::default();
    let live: Vec<Table> = geometry.live().copied().collect();
    report.tables = live.len();
    report.discipline = live.last().map(|table| table.discipline);
    for (at, table) in live.iter().enumerate() {
        if table.base + table.bytes() > words.bytes() {
            report.problem(format!("table {} ends past the region", table.id));
            continue;
        }
        for pair in 0..table.pairs {
            report.pairs += 1;
            match copy_pair(words, table, pair, sums) {
                Ok(copied) => {
                    let newest = at + 1 == live.len();
                    check_pair(&mut report, table, pair, &copied, newest, sums, &mut hash_of)
                }
                Err(problem) => report.problem(problem),
            }
        }
    }
    if report.half > allowed {
        report.blame_half();
    }
    report
}

fn check_pair(
    report: &mut IndexReport,
    table: &Table,
    pair: u64,
    copied: &Copied,
    newest: bool,
    sums: &SumKey,
    hash_of: &mut impl FnMut(&Record<'_>) -> Result<Hash, String>,
) {
    let header = &copied.header;
    let here = format!("pair {pair} of table {}", table.id);
    if header.table != table.id && (header.table != 0 || header.indicator != 0) {
        return report.problem(format!("{here} says it is of table {}", header.table));
    }
    let existing = header.existing(&table.shape);
    report.slots += u64::from(existing.count_ones());
    report.moved += u64::from(header.moved());
    report.spilled += u64::from(header.spilled() && !header.moved());
    report.extended += u64::from(header.indicator & indicator::EXTENDED != 0);
    if header.moved() && (newest || header.occupied() != 0) {
        report.problem(format!("{here} is MOVED but {}", if newest { "newest" } else { "not empty" }));
    }
    if header.occupied() & !existing != 0 {
        report.problem(format!("{here} has bits of slots that do not exist"));
    }
    // What one change may leave behind.
    let mut half = Vec::new();
    if copied.leftover {
        half.push(format!("{here} is MOVED, and has a slot that is not wiped, in {TRIES} looks"));
    }
    let torn = |slot: &usize| format!("{here}: slot {slot} does not verify, in {TRIES} looks");
    half.extend(copied.torn.iter().map(torn));
    let mut seen = Vec::new();
    for (slot, at, bytes) in &copied.slots {
        let SlotView::Record(record) = view(table, *at, bytes, sums) else {
            unreachable!("a copied slot was verified")
        };
        report.items += 1;
        report.inline += u64::from(matches!(record, Record::Inline { .. }));
        let hash = match hash_of(&record) {
            Ok(hash) => hash,
            Err(why) => {
                let why = format!("{here}: slot {slot}: {why}");
                // Its two words change one after the other.
                match (table.shape.kind, table.discipline) {
                    (SlotKind::Pointer16, Discipline::InPlace) => half.push(why),
                    _ => report.problem(why),
                }
                continue;
            }
        };
        let (home, odd) = table.home(hash);
        let fits = home == pair && table.shape.home_mask(odd) & 1 << slot != 0;
        let byte = (header.fingerprints[slot / 8] >> (8 * (slot % 8))) as u8;
        if !fits || byte != hash.fingerprint() {
            report.problem(format!("{here}: slot {slot} holds a key of another home or fingerprint"));
        }
        let twin = seen.iter().find(|(of, _)| *of == hash).map(|(_, csn)| *csn == record.csn());
        let twice = || format!("{here}: a key stands in two slots");
        match twin {
            None => {}
            // On its way within the pair.
            Some(true) => half.push(twice()),
            Some(false) => report.problem(twice()),
        }
        seen.push((hash, record.csn()));
    }
    report.half_changed(half);
}

fn view<'b>(table: &Table, at: u64, bytes: &'b [u8; 64], sums: &SumKey) -> SlotView<'b> {
    match table.shape.kind {
        SlotKind::Inline64 => SlotView::parse64(bytes, sums, seed(table.id, at)),
        SlotKind::Pointer16 => SlotView::parse16(bytes[..16].try_into().expect("sixteen bytes")),
    }
}

/// What a look at a pair found beside its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookedAt {
    /// Its records are in a later table.
    pub moved: bool,
    /// Occupied slots that do not verify.
    pub torn: usize,
}

/// Calls `each` with every record of one pair that verifies, looked at one-sidedly; used by dumps. Or says
/// why nothing of the pair can be read.
pub fn items(
    words: &(impl Words + ?Sized),
    table: &Table,
    pair: u64,
    sums: &SumKey,
    mut each: impl FnMut(&Record<'_>),
) -> Result<LookedAt, String> {
    let copied = copy_pair(words, table, pair, sums)?;
    for (_, at, bytes) in &copied.slots {
        if let SlotView::Record(record) = view(table, *at, bytes, sums) {
            each(&record);
        }
    }
    Ok(LookedAt { moved: copied.header.moved(), torn: copied.torn.len() })
}

/// Whether a record in the `at`-th oldest table is the item of a key with this hash, and not the copy of a
/// move under way: where the key belongs in older tables, the pairs have MOVED.
pub fn has_moved(words: &(impl Words + ?Sized), geometry: &Geometry, at: usize, hash: Hash) -> bool {
    geometry.live().take(at).all(|table| {
        let mut line = [0; 64];
        words.copy_out(table.header_at(table.home(hash).0), &mut line);
        Header::parse(&line).moved()
    })
}

const _: () = assert!(header::BYTES == 64);
