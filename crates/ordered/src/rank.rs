//! Entries in the order in which a tree takes them: that of keys and, of one key, of versions and ages.

use longarm_index::tree::SplitKey;
use longarm_memory::prefetch;

use crate::arena::Seen;

/// Entries between the one that is asked for and the one that is needed.
const AHEAD: usize = 8;

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

    /// Whether both are of one key; they are among these entries.
    pub fn is_of_key(self, other: Ranked, entries: &[Seen], keys: &[u8]) -> bool {
        let key = |ranked: Ranked| entries[ranked.number()].key(keys);
        self.head == other.head && key(self) == key(other)
    }
}

/// Puts the numbers of all entries into `ranks`, in order.
pub(crate) fn rank(entries: &[Seen], keys: &[u8], ranks: &mut Vec<Ranked>) {
    ranks.clear();
    let Some(first) = entries.first().map(|seen| seen.key(keys)) else { return };
    let shared = entries.iter().fold(first.len(), |shared, seen| {
        let key = seen.key(keys);
        let first = &first[..shared];
        if key.starts_with(first) { shared } else { SplitKey::whole(first).common(&SplitKey::whole(key)) }
    });
    let ranked = |(number, seen): (u32, &Seen)| Ranked { head: head(&seen.key(keys)[shared..]), number };
    ranks.extend((0..).zip(entries).map(ranked));
    ranks.sort_unstable_by(|a, b| {
        let rest = |of: &Ranked| {
            let seen = &entries[of.number()];
            (&seen.key(keys)[shared..], seen.csn, seen.age, of.number)
        };
        a.head.cmp(&b.head).then_with(|| rest(a).cmp(&rest(b)))
    });
}

/// The entries in this order. They lie in another one, so each is asked for before it is needed.
pub(crate) fn in_order<'s>(
    ranks: &'s [Ranked],
    entries: &'s [Seen],
) -> impl Iterator<Item = &'s Seen> + Clone + use<'s> {
    ranks.iter().enumerate().map(move |(at, ranked)| {
        if let Some(later) = ranks.get(at + AHEAD) {
            prefetch(&entries[later.number()]);
        }
        &entries[ranked.number()]
    })
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
                (proptest::collection::vec(0u8..3, 0..11), 1u64..4, 0u128..3), 0..60),
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
            prop_assert_eq!(ranks.iter().map(|rank| rank.number()).collect::<Vec<_>>(), wanted);
            for pair in ranks.windows(2) {
                let [a, b] = [pair[0], pair[1]].map(|ranked| entries[ranked.number()].key(&keys));
                prop_assert_eq!(pair[0].is_of_key(pair[1], &entries, &keys), a == b);
            }
        }
    }
}
