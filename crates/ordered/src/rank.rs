//! Entries in the order in which a tree takes them: that of keys and, of one key, of versions and ages.

use std::cmp::Ordering;

use longarm_base::bytes::common;
use longarm_memory::prefetch;

use crate::arena::Seen;

/// Entries between one whose key is asked for and the one that is needed; as many are between the key and the
/// entry itself.
const AHEAD: usize = 8;
/// Entries with the same head from which on it pays to take heads further behind.
const FEW: usize = 32;

/// An entry by its number, and the first bytes of its key behind what all keys begin with: most pairs of
/// entries are in order by that alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked {
    head: u64,
    number: u32,
}

impl Ranked {
    /// Which of the entries it is.
    pub fn number(self) -> usize {
        self.number as usize
    }

    /// Whether both are of one key; they are among these entries. Heads do not tell: of two that were put in
    /// order apart they may be of different parts of the key.
    pub fn is_of_key(self, other: Ranked, entries: &[Seen], keys: &[u8]) -> bool {
        let key = |ranked: Ranked| entries[ranked.number()].key(keys);
        key(self) == key(other)
    }
}

/// Puts the numbers of all entries into `ranks`, in order.
pub(crate) fn rank(entries: &[Seen], keys: &[u8], ranks: &mut Vec<Ranked>) {
    number(entries, keys, ranks);
    sort_by_heads(ranks, entries, keys, true);
}

/// Puts the numbers of all entries into `ranks`, in no order yet.
pub(crate) fn number(entries: &[Seen], keys: &[u8], ranks: &mut Vec<Ranked>) {
    ranks.clear();
    ranks.extend((0..).take(entries.len()).map(|number| Ranked { head: 0, number }));
    // They lie in this order: memory brings them without being asked.
    set_heads(ranks, entries, keys);
}

/// Takes the heads behind what the keys of all these entries begin with; whether the keys are not all one.
fn set_heads(ranks: &mut [Ranked], entries: &[Seen], keys: &[u8]) -> bool {
    let Some(first) = ranks.first().map(|ranked| entries[ranked.number()].key(keys)) else { return false };
    let (mut shared, mut differ) = (first.len(), false);
    for ranked in &*ranks {
        let key = entries[ranked.number()].key(keys);
        differ |= key.len() != first.len();
        if !key.starts_with(&first[..shared]) {
            (shared, differ) = (common(&first[..shared], key), true);
        }
    }
    ranks.iter_mut().for_each(|ranked| ranked.head = head(&entries[ranked.number()].key(keys)[shared..]));
    differ
}

/// Puts entries in order whose heads were taken together, perhaps with others.
pub(crate) fn sort(ranks: &mut [Ranked], entries: &[Seen], keys: &[u8]) {
    sort_by_heads(ranks, entries, keys, false);
}

/// The same. Heads alone are compared without branches; what has the same head is one key, or begins alike.
/// `own`: heads are behind what just these keys begin with.
fn sort_by_heads(ranks: &mut [Ranked], entries: &[Seen], keys: &[u8], own: bool) {
    ranks.sort_unstable_by_key(|ranked| ranked.head);
    let (all, mut from) = (ranks.len(), 0);
    while from < all {
        let head = ranks[from].head;
        let alike = ranks[from..].iter().take_while(|ranked| ranked.head == head).count();
        // Only those with the same head as another are looked at.
        let is_alike = |at: usize| matches!(ranks.get(at..at + 2), Some([a, b]) if a.head == b.head);
        for at in (from..from + alike).filter(|at| is_alike(at + AHEAD) || is_alike(at + 2 * AHEAD)) {
            ask(ranks, at, entries, keys);
        }
        let part = &mut ranks[from..from + alike];
        from += alike;
        // It comes to an end: each time there are fewer, or heads are taken further behind.
        let is_less = alike < all || !own;
        if alike >= FEW && is_less && set_heads(part, entries, keys) {
            sort_by_heads(part, entries, keys, true);
        } else if alike > 1 {
            part.sort_unstable_by(|a, b| by_entries(a, b, entries, keys));
        }
    }
}

/// Which of two entries is the first, whatever their heads.
fn by_entries(a: &Ranked, b: &Ranked, entries: &[Seen], keys: &[u8]) -> Ordering {
    let of = |ranked: &Ranked| {
        let seen = &entries[ranked.number()];
        (seen.key(keys), seen.csn, seen.age, ranked.number)
    };
    of(a).cmp(&of(b))
}

/// Parts entries whose heads were taken together in two: none of the first part is behind one of the other.
/// Where the other begins.
pub(crate) fn halve(ranks: &mut [Ranked], entries: &[Seen], keys: &[u8]) -> usize {
    let middle = ranks.len() / 2;
    ranks.select_nth_unstable_by(middle, |a, b| {
        a.head.cmp(&b.head).then_with(|| by_entries(a, b, entries, keys))
    });
    middle
}

/// Entries one after the other. They and their keys lie in another order, so each is asked for before it is
/// needed.
pub(crate) fn in_order<'s>(
    ranks: &'s [Ranked],
    entries: &'s [Seen],
    keys: &'s [u8],
) -> impl Iterator<Item = Ranked> + Clone + use<'s> {
    ranks.iter().enumerate().map(move |(at, ranked)| {
        ask(ranks, at, entries, keys);
        *ranked
    })
}

/// Asks for entries that are needed soon after the one at `at`, and for the key of one of them.
#[inline(always)]
fn ask(ranks: &[Ranked], at: usize, entries: &[Seen], keys: &[u8]) {
    let of = |at: usize| ranks.get(at).map(|later| &entries[later.number()]);
    if let Some(seen) = of(at + 2 * AHEAD) {
        prefetch(seen);
    }
    if let Some(key) = of(at + AHEAD).and_then(|seen| keys.get(seen.key.0)) {
        prefetch(key);
    }
}

/// The first eight bytes as a number that is ordered as they are; zeroes behind a shorter key.
fn head(key: &[u8]) -> u64 {
    let first = key.first_chunk::<8>().copied().unwrap_or_else(|| {
        let mut first = [0; 8];
        first[..key.len()].copy_from_slice(key);
        first
    });
    u64::from_le_bytes(first).swap_bytes()
}

#[cfg(test)]
mod tests {
    use longarm_base::{Csn, EntryRef, UnixMillis};
    use longarm_index::tree::EntryKind;
    use proptest::prelude::*;

    use super::*;

    const SEEN: Seen = Seen {
        key: (0, 0),
        kind: EntryKind::Put,
        csn: Csn::NONE,
        age: 0,
        place: EntryRef { offset: 64, len: 64 },
        expiry: UnixMillis::NEVER,
        copy: false,
    };

    proptest! {
        #[test]
        fn ranks_are_the_order_of_keys_versions_and_ages(
            shared in proptest::collection::vec(0u8..3, 0..12),
            drawn in proptest::collection::vec(
                (proptest::collection::vec(0u8..2, 0..21), 1u64..4, 0u128..3), 0..300),
        ) {
            let (mut keys, mut entries) = (Vec::new(), Vec::new());
            for (rest, csn, age) in &drawn {
                let key = [shared.as_slice(), rest].concat();
                entries.push(Seen { key: (keys.len(), key.len()), csn: Csn(*csn), age: *age, ..SEEN });
                keys.extend(key);
            }
            let mut ranks = Vec::new();
            rank(&entries, &keys, &mut ranks);
            let mut wanted: Vec<usize> = (0..entries.len()).collect();
            wanted.sort_by_key(|number| {
                let seen = &entries[*number];
                (seen.key(&keys), seen.csn, seen.age)
            });
            let numbers = |ranks: &[Ranked]| ranks.iter().map(|rank| rank.number()).collect::<Vec<_>>();
            prop_assert_eq!(numbers(&ranks), wanted.clone());
            let mut parts = Vec::new();
            number(&entries, &keys, &mut parts);
            if !parts.is_empty() {
                let middle = halve(&mut parts, &entries, &keys);
                let (first, second) = parts.split_at_mut(middle);
                sort(first, &entries, &keys);
                sort(second, &entries, &keys);
            }
            prop_assert_eq!(numbers(&parts), wanted);
            // Also of two that were put in order apart, whose heads were taken apart.
            for pair in ranks.windows(2).chain(parts.windows(2)) {
                let [a, b] = [pair[0], pair[1]].map(|ranked| entries[ranked.number()].key(&keys));
                prop_assert_eq!(pair[0].is_of_key(pair[1], &entries, &keys), a == b);
            }
        }
    }
}
