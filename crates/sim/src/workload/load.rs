//! How clients load a run. Most seeds use few of the possible ways, so that most runs are cheap.

use std::sync::{Arc, OnceLock};

use longarm_base::limits::KEY_MAX;
use longarm_base::random::SplitMix64;
use longarm_memory::HashKey;

use crate::replicas::HASH_KEY;

/// The longest value of seeds that have long ones, which is more than a segment.
const LONG: u64 = 2 << 20;
/// The longest value of other seeds; three values of four are short enough for a slot.
pub(super) const SHORT: u64 = 4 << 10;
/// The number of items that the first table is made for if it is to grow.
const FEW: u64 = 1;
/// The fewest keys where clients write all of them first, so that the table grows twice.
pub const FILLED: u32 = 750;
/// Keys of one place in the index, more than it has slots for, and the bits of their hashes that are the
/// same.
const CROWD: usize = 64;
const CROWDED: u64 = 0xFF00_0000_0000_00FF;

/// What clients do beside gets and writes of single keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The most bytes of a value. Values of some kilobytes arrive whole, longer ones in pieces, and the
    /// longest have segments of their own.
    pub longest: u64,
    /// The most writes that a client has open.
    pub open: u32,
    /// The number of items that the first table is made for.
    pub expected: u64,
    /// Whether clients write all keys first, so that tables grow.
    pub fills: bool,
    /// Whether some keys are counters.
    pub counts: bool,
    /// Whether some keys expire.
    pub expires: bool,
    /// Whether a few keys are hot for a moment, and read again much later.
    pub moves_on: bool,
    /// Whether a client now and then does nothing for longer than its timeout.
    pub idles: bool,
    /// Whether conditions are mostly about values that are there no more.
    pub outdated: bool,
    /// Whether keys have names of one byte, the longest names, and names that crowd one place of the index.
    pub hostile: bool,
    /// Whether a single replica keeps an ordered index.
    pub lone: bool,
    /// Whether clients make backups, too. They scan.
    pub backs_up: bool,
    /// Whether servers evict: any value may be gone at any time.
    pub evicts: bool,
    /// Whether no write is refused for lack of memory.
    pub takes_all: bool,
    /// Where clients scan: the names of all keys, in their order. Keys are numbered by it.
    pub names: Option<Arc<[Vec<u8>]>>,
}

/// What clients may do with a key, and which judge it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Values.
    Plain,
    /// Values that may expire.
    Expiring,
    /// The same, where any value may be gone at any time.
    Evicted,
    /// A number, which clients increment.
    Counter,
}

impl Load {
    /// Draws a load. The table grows in a third of the seeds.
    pub fn draw(chance: &mut SplitMix64) -> Load {
        let fills = chance.once_in(3);
        Load {
            longest: if chance.once_in(5) { LONG } else { SHORT },
            open: if chance.once_in(3) { 2 + chance.below(30) as u32 } else { 1 },
            expected: if fills { FEW } else { 64 },
            fills,
            counts: chance.once_in(4),
            expires: chance.once_in(4),
            moves_on: chance.once_in(4),
            idles: chance.once_in(8),
            outdated: chance.once_in(6),
            hostile: chance.once_in(6),
            lone: false,
            backs_up: false,
            evicts: false,
            takes_all: false,
            names: None,
        }
    }

    /// Has clients scan so many keys, all of which keep their values.
    pub fn scan(&mut self, keys: u32) {
        (self.counts, self.expires) = (false, false);
        let mut names: Vec<Vec<u8>> = (0..keys).map(|key| self.name(key)).collect();
        names.sort_unstable();
        self.names = Some(names.into());
    }

    /// The key that has a name, where clients scan.
    pub fn key(&self, name: &[u8]) -> Option<u32> {
        let names = self.names.as_deref()?;
        names.binary_search_by(|known| known.as_slice().cmp(name)).ok().map(|key| key as u32)
    }

    /// The kind of a key.
    pub fn kind(&self, key: u32) -> Kind {
        match key % 4 {
            1 if self.counts && !self.evicts => Kind::Counter,
            2 if self.expires => Kind::Expiring,
            _ if self.evicts => Kind::Evicted,
            _ => Kind::Plain,
        }
    }

    /// The name of a key.
    pub fn name(&self, key: u32) -> Vec<u8> {
        if let Some(names) = &self.names {
            return names[key as usize].clone();
        }
        let (form, number) = (key % 5, key / 5);
        match form {
            0 if self.hostile && number < 256 => vec![number as u8],
            1 if self.hostile => format!("{key:0KEY_MAX$}").into_bytes(),
            2.. if self.hostile && (number as usize) < CROWD / 3 => {
                crowd()[(3 * number + form - 2) as usize].clone()
            }
            _ => format!("key-{key}").into_bytes(),
        }
    }
}

/// Names that the first group finds in one pair of slots, and must compare byte for byte to tell apart.
fn crowd() -> &'static [Vec<u8>] {
    static CROWDS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    CROWDS.get_or_init(|| {
        let hash = HashKey::new(HASH_KEY);
        let name = |number: u64| format!("crowd-{number}").into_bytes();
        let crowds = |name: &Vec<u8>| hash.hash(name).0 & CROWDED == 0;
        (0..).map(name).filter(crowds).take(CROWD).collect()
    })
}

#[test]
fn names_are_of_one_key_each() {
    let hostile = Load { hostile: true, ..Load::draw(&mut SplitMix64::new(1)) };
    let names: std::collections::BTreeSet<Vec<u8>> = (0..3000).map(|key| hostile.name(key)).collect();
    assert_eq!(names.len(), 3000);
    for len in [1, KEY_MAX] {
        assert!(names.iter().any(|name| name.len() == len), "{len}");
    }
}

#[test]
fn where_clients_scan_keys_are_in_the_order_of_their_names() {
    let mut load = Load { hostile: true, counts: true, ..Load::draw(&mut SplitMix64::new(1)) };
    load.scan(900);
    let names: Vec<Vec<u8>> = (0..900).map(|key| load.name(key)).collect();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    assert!((0..900).all(|key| load.key(&names[key as usize]) == Some(key) && load.kind(key) == Kind::Plain));
    assert_eq!(load.key(b"key-"), None);
}
