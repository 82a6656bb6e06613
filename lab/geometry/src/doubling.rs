//! The load of a table each time it must double (Continuity hashing V.B, figure 18).
//!
//! The paper's table has buckets of four slots and twelve shared ones a pair, and begins with twenty buckets'
//! worth of slots, four pairs. A share of the pairs, none, 1/20 or 1/10, may get one group of twelve more
//! shared slots. It doubles when a key finds no slot. The paper runs YCSB-A, whose updates take a free slot
//! of the segment before the old one is free: so an update can make the table double, too.
//!
//! This places keys by counts of free slots: which of the free shared slots a key takes makes no difference
//! to those that come after it.

use longarm_base::random::SplitMix64;

const BUCKET: u8 = 4;
const SHARED: u8 = 12;
const GROUP: u8 = 12;
const FIRST_PAIRS: usize = 4;

/// How tables are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// New keys.
    Inserts,
    /// A new key, then an update of a key drawn at random, out of place.
    InsertsAndUpdates,
}

/// Where a key stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Home,
    Shared,
    Added,
}

#[derive(Clone, Copy, Default)]
struct Pair {
    home: [u8; 2],
    shared: u8,
    added: u8,
    extended: bool,
}

struct Item {
    hash: u64,
    place: Place,
}

struct Table {
    pairs: Vec<Pair>,
    extended: usize,
    /// One pair in so many may have a group.
    share: Option<usize>,
}

impl Table {
    fn new(pairs: usize, share: Option<usize>) -> Table {
        Table { pairs: vec![Pair::default(); pairs], extended: 0, share }
    }

    /// Pair and side of a hash. The high bits, so that a table twice as long parts neighbours.
    fn home(&self, hash: u64) -> (usize, usize) {
        let bucket = ((u128::from(hash) * (2 * self.pairs.len() as u128)) >> 64) as usize;
        (bucket / 2, bucket % 2)
    }

    /// Takes a slot for a key, if there is one.
    fn take(&mut self, hash: u64) -> Option<Place> {
        let (at, side) = self.home(hash);
        let may_extend = self.share.is_some_and(|share| self.extended * share < self.pairs.len());
        let pair = &mut self.pairs[at];
        if pair.home[side] < BUCKET {
            pair.home[side] += 1;
            return Some(Place::Home);
        }
        if pair.shared < SHARED {
            pair.shared += 1;
            return Some(Place::Shared);
        }
        if !pair.extended && may_extend {
            pair.extended = true;
            self.extended += 1;
        }
        (pair.extended && pair.added < GROUP).then(|| {
            pair.added += 1;
            Place::Added
        })
    }

    /// Frees the slot of a key.
    fn free(&mut self, hash: u64, place: Place) {
        let (at, side) = self.home(hash);
        let pair = &mut self.pairs[at];
        match place {
            Place::Home => pair.home[side] -= 1,
            Place::Shared => pair.shared -= 1,
            Place::Added => pair.added -= 1,
        }
    }

    fn slots(&self) -> usize {
        self.pairs.len() * usize::from(2 * BUCKET + SHARED) + self.extended * usize::from(GROUP)
    }

    /// The items in a table at least twice as long, in which all of them have a slot.
    fn doubled(&self, items: &mut [Item]) -> Table {
        let mut pairs = 2 * self.pairs.len();
        loop {
            let mut table = Table::new(pairs, self.share);
            let placed = items
                .iter_mut()
                .all(|item| table.take(item.hash).inspect(|place| item.place = *place).is_some());
            if placed {
                return table;
            }
            pairs *= 2;
        }
    }
}

/// The load of the table whenever it had to double, until it has so many pairs.
pub fn loads(share: Option<usize>, workload: Workload, pairs: usize, seed: u64) -> Vec<(usize, f64)> {
    let (mut table, mut items) = (Table::new(FIRST_PAIRS, share), Vec::<Item>::new());
    let (mut random, mut loads) = (SplitMix64::new(seed), Vec::new());
    let mut double = |table: &mut Table, items: &mut [Item]| {
        loads.push((table.pairs.len(), items.len() as f64 / table.slots() as f64));
        *table = table.doubled(items);
    };
    while table.pairs.len() <= pairs {
        let hash = random.draw();
        let place = loop {
            match table.take(hash) {
                Some(place) => break place,
                None => double(&mut table, &mut items),
            }
        };
        items.push(Item { hash, place });
        if workload == Workload::Inserts {
            continue;
        }
        let updated = random.below(items.len() as u64) as usize;
        loop {
            let Item { hash, place } = items[updated];
            if let Some(next) = table.take(hash) {
                table.free(hash, place);
                items[updated].place = next;
                break;
            }
            double(&mut table, &mut items);
        }
    }
    loads
}

/// The mean load over some seeds, by the number of pairs.
pub fn mean_loads(share: Option<usize>, workload: Workload, pairs: usize, seeds: u64) -> Vec<(usize, f64)> {
    let mut sums = std::collections::BTreeMap::<usize, (f64, u32)>::new();
    for (pairs, load) in (1..=seeds).flat_map(|seed| loads(share, workload, pairs, seed)) {
        let (sum, count) = sums.entry(pairs).or_default();
        (*sum, *count) = (*sum + load, *count + 1);
    }
    sums.into_iter().map(|(pairs, (sum, count))| (pairs, sum / f64::from(count))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean load of tables of 4,096 to 16,384 pairs, in percent.
    fn large(share: Option<usize>, workload: Workload) -> f64 {
        let loads = mean_loads(share, workload, 16_384, 3);
        let large: Vec<f64> =
            loads.iter().filter(|(pairs, _)| *pairs >= 4_096).map(|(_, load)| 100.0 * load).collect();
        large.iter().sum::<f64>() / large.len() as f64
    }

    /// "about 70 %" (Continuity hashing V.B, figure 18), and what updates cost of it.
    #[test]
    fn added_groups_keep_the_load_at_about_seventy_percent_and_updates_take_some_of_it() {
        let by = |workload| [None, Some(20), Some(10)].map(|share| large(share, workload));
        let [none, twentieth, tenth] = by(Workload::Inserts);
        assert!((37.0..45.0).contains(&none), "{none}");
        assert!((66.0..71.0).contains(&twentieth), "{twentieth}");
        assert!((69.0..74.0).contains(&tenth), "{tenth}");
        let [updated_none, updated_twentieth, updated_tenth] = by(Workload::InsertsAndUpdates);
        assert!((33.0..42.0).contains(&updated_none) && updated_none < none, "{updated_none}");
        assert!(
            (62.0..68.0).contains(&updated_twentieth) && updated_twentieth < twentieth,
            "{updated_twentieth}"
        );
        assert!((65.0..71.0).contains(&updated_tenth) && updated_tenth < tenth, "{updated_tenth}");
    }
}
