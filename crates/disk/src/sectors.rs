//! A medium in memory that can lose its power, or fail: for tests, and for simulated worlds.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longarm_base::limits::LINE;
use longarm_base::random::SplitMix64;
use longarm_memory::{Images, Persistence};

use crate::medium::Medium;

/// Bytes that are written whole or not at all.
pub const SECTOR: u64 = 512;

/// What fails the next time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A write.
    Write,
    /// A sync.
    Sync,
    /// A read.
    Read,
}

/// What a loss of power leaves in order, and whole.
#[derive(Clone, Copy)]
struct Grain {
    /// Bytes to which writes come in their order.
    unit: u64,
    /// Bytes of a unit that one write changes at once.
    piece: u64,
}

/// Of a disk: a sector, which is written whole.
const SECTORS: Grain = Grain { unit: SECTOR, piece: SECTOR };
/// Of persistent memory: a line, which is stored word by word, the last one first
/// ([`PersistentMedium`](crate::PersistentMedium)).
const LINES: Grain = Grain { unit: LINE, piece: 8 };

impl Grain {
    /// The pieces of a write; those of a unit in the order in which they are written.
    fn pieces<'a>(&self, at: u64, bytes: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
        let (Grain { unit, piece }, end) = (*self, at + bytes.len() as u64);
        (at / unit..end.div_ceil(unit)).flat_map(move |number| {
            (0..unit / piece).rev().map(move |of| number * unit + of * piece).filter_map(move |from| {
                let (from, until) = (from.max(at), end.min(from + piece));
                (from < until).then(|| (from, &bytes[(from - at) as usize..(until - at) as usize]))
            })
        })
    }
}

struct State {
    durable: Vec<u8>,
    /// Written since the last sync.
    pending: Vec<(u64, Vec<u8>)>,
    fault: Option<Fault>,
    /// Operations before all fail.
    left: Option<u32>,
    syncs: u64,
}

/// Sectors of a disk, or lines of persistent memory, in memory. Clones are of the same ones.
#[derive(Clone)]
pub struct SectorMedium {
    state: Arc<Mutex<State>>,
    grain: Grain,
    bytes: u64,
}

impl SectorMedium {
    /// Zeros.
    pub fn new(bytes: u64) -> SectorMedium {
        SectorMedium::of(vec![0; bytes as usize])
    }

    /// The same, of which a loss of power leaves no sectors but words, as persistent memory does.
    pub fn in_lines(self) -> SectorMedium {
        SectorMedium { grain: LINES, ..self }
    }

    /// These bytes.
    pub fn of(durable: Vec<u8>) -> SectorMedium {
        let bytes = durable.len() as u64;
        let state = State { durable, pending: Vec::new(), fault: None, left: None, syncs: 0 };
        SectorMedium { state: Arc::new(Mutex::new(state)), grain: SECTORS, bytes }
    }

    /// The next operation of this kind fails.
    pub fn fail(&self, fault: Fault) {
        self.lock().fault = Some(fault);
    }

    /// All operations fail after so many more.
    pub fn fail_after(&self, left: u32) {
        self.lock().left = Some(left);
    }

    /// Bits of a byte that was synced change by themselves. The byte that is there then.
    pub fn rot(&self, at: u64, bits: u8) -> u8 {
        let byte = &mut self.lock().durable[at as usize];
        *byte ^= bits;
        *byte
    }

    /// The first byte from a place on, among so many, that was synced and is not zero.
    pub fn find_synced(&self, from: u64, most: u64) -> Option<u64> {
        let state = self.lock();
        let until = (from + most).min(self.bytes);
        (from..until).find(|at| state.durable[*at as usize] != 0)
    }

    /// A byte as it was synced.
    pub fn synced(&self, at: u64) -> u8 {
        self.lock().durable[at as usize]
    }

    /// How often it was synced.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// The power is lost: of what was written since the last sync `seed` draws what is there.
    pub fn lose_power(&self, seed: u64) {
        let (mut state, mut random) = (self.lock(), SplitMix64::new(seed));
        let State { durable, pending, .. } = &mut *state;
        // By unit: where the pieces of writes to it go, in their order, and their bytes.
        let mut units: BTreeMap<u64, Vec<(u64, &[u8])>> = BTreeMap::new();
        for (at, bytes) in pending.iter().flat_map(|(at, bytes)| self.grain.pieces(*at, bytes)) {
            units.entry(at / self.grain.unit).or_default().push((at, bytes));
        }
        for pieces in units.values() {
            let there = random.below(pieces.len() as u64 + 1) as usize;
            for (at, bytes) in &pieces[..there] {
                durable[*at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        pending.clear();
    }

    /// The states in which a loss of power may leave it now.
    pub fn images(&self) -> Images {
        let state = self.lock();
        let writes = state.pending.iter().flat_map(|(at, bytes)| self.grain.pieces(*at, bytes));
        Images::of_writes(state.durable.clone(), self.grain.unit, writes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn attempt(&mut self, what: Fault) -> io::Result<()> {
        let is_over = self.left == Some(0);
        self.left = self.left.map(|left| left.saturating_sub(1));
        match self.fault.take_if(|fault| *fault == what) {
            None if !is_over => Ok(()),
            _ => Err(io::Error::other("the disk fails")),
        }
    }
}

impl Medium for SectorMedium {
    fn path(&self) -> &Path {
        Path::new("sectors")
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        assert!(at + bytes.len() as u64 <= self.bytes, "{} bytes at {at} of {}", bytes.len(), self.bytes);
        let outcome = state.attempt(Fault::Write);
        // A write that fails, or is cut off, may be there, or parts of it.
        state.pending.push((at, bytes.to_vec()));
        outcome
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.lock();
        state.attempt(Fault::Sync)?;
        state.syncs += 1;
        for (at, bytes) in std::mem::take(&mut state.pending) {
            state.durable[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn persistence(&self) -> Option<Persistence> {
        (self.grain.unit == LINE).then_some(Persistence::Power)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let mut state = self.lock();
        state.attempt(Fault::Read)?;
        into.copy_from_slice(&state.durable[at as usize..][..into.len()]);
        for (start, bytes) in &state.pending {
            let (from, to) = ((*start).max(at), (start + bytes.len() as u64).min(at + into.len() as u64));
            if from < to {
                let len = (to - from) as usize;
                into[(from - at) as usize..][..len].copy_from_slice(&bytes[(from - start) as usize..][..len]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_may_be_lost_until_it_is_synced() {
        let mut medium = SectorMedium::new(2048);
        medium.write(510, b"abcd").expect("written");
        let mut bytes = [0; 6];
        medium.read(509, &mut bytes).expect("read");
        assert_eq!(&bytes, b"\0abcd\0");
        let seen = |medium: &SectorMedium| {
            let mut all = BTreeSet::new();
            medium.images().visit(100, 100, 1, |bytes| _ = all.insert(bytes[510..514].to_vec()));
            all
        };
        // Two sectors, each with or without its part.
        let all = [&b"abcd"[..], b"ab\0\0", b"\0\0cd", b"\0\0\0\0"].map(<[u8]>::to_vec);
        assert_eq!(seen(&medium), BTreeSet::from(all));
        let mut left = BTreeSet::new();
        for seed in 0..100 {
            let one = SectorMedium::new(2048);
            one.clone().write(510, b"abcd").expect("written");
            one.lose_power(seed);
            let mut bytes = [0; 4];
            one.read(510, &mut bytes).expect("read");
            left.insert(bytes.to_vec());
            assert_eq!(one.images().count(), 1);
        }
        assert_eq!(left, seen(&medium), "what is left is drawn from the same");
        medium.sync().expect("synced");
        assert_eq!((seen(&medium), medium.syncs()), (BTreeSet::from([b"abcd".to_vec()]), 1));
        medium.fail(Fault::Sync);
        medium.write(0, b"x").expect("written");
        assert!(medium.sync().is_err());
        assert_eq!(medium.images().count(), 2, "nothing is known of it");
    }

    #[test]
    fn of_persistent_memory_words_are_whole_and_the_last_of_a_line_come_first() {
        let mut medium = SectorMedium::new(128).in_lines();
        medium.write(48, b"aaaaaaaabbbbbbbbcccccccc").expect("written");
        let mut all = BTreeSet::new();
        medium.images().visit(100, 100, 1, |bytes| _ = all.insert(bytes[48..72].to_vec()));
        let (none, a) = (&b"\0\0\0\0\0\0\0\0"[..], &b"aaaaaaaa"[..]);
        let (b, c) = (&b"bbbbbbbb"[..], &b"cccccccc"[..]);
        // Two words of one line, one of the next.
        let expected = [[none, none], [none, b], [a, b]]
            .into_iter()
            .flat_map(|[first, second]| [none, c].map(|third| [first, second, third].concat()));
        assert_eq!(all, expected.collect());
        for seed in 0..40 {
            let one = SectorMedium::new(128).in_lines();
            one.clone().write(48, b"aaaaaaaabbbbbbbbcccccccc").expect("written");
            one.lose_power(seed);
            let mut left = [0; 24];
            one.read(48, &mut left).expect("read");
            assert!(all.remove(left.as_slice()) || all.len() < 6, "what is left is drawn from the same");
        }
        assert!(all.is_empty(), "all of them are drawn");
    }
}
