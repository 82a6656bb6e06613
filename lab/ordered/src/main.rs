//! Experiment: what do keys in order cost? Time of an insert and bytes of a key in the ordered tree, for keys
//! of several kinds; time of a look for a key, and of a scan of a hundred, beside a `BTreeMap`.
//!
//! `cargo run --release -p lab-ordered [KEYS]`; a million keys where none are given. Times are CPU time of
//! one run on whatever machine this is: good to a third at most, and less where others use its caches.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::time::Instant;

use longarm_base::random::{SplitMix64, mix64};
use longarm_base::{Csn, EntryRef, Term, UnixMillis};
use longarm_index::tree::{
    Ages, Builder, EntryKind, LeafRecord, Owner, Standing, TreeEntry, TreeOptions, TreeRange,
};
use longarm_memory::{Backing, Mapped, Region, RegionOptions, SumKey};

/// Entries of one step.
const STEP: usize = 1000;
/// Looks and scans that are timed.
const LOOKS: u64 = 20_000;

/// No entry is ever copied here.
struct NoAges;

impl Ages for NoAges {
    fn age_of(&self, _: EntryRef, _: Csn) -> Option<u128> {
        None
    }
}

/// The key of a number.
type KeyOf = fn(u64) -> Vec<u8>;

fn random_16(i: u64) -> Vec<u8> {
    [mix64(i).to_le_bytes(), mix64(!i).to_le_bytes()].concat()
}

fn ascending(i: u64) -> Vec<u8> {
    format!("key-{i:012}").into_bytes()
}

fn session(i: u64) -> Vec<u8> {
    let (tenant, user) = (mix64(i) % 1000, mix64(i ^ 1) % 100_000);
    format!("tenant{tenant:04}:user{user:08}:session{:016x}", mix64(i ^ 2)).into_bytes()
}

fn region(bytes: u64) -> Mapped {
    let options = RegionOptions { name: "ordered".into(), bytes, backing: Backing::SmallPages };
    Region::create(&options).expect("memory").memory().clone()
}

/// A moment of the process, in nanoseconds of CPU time; of the clock, where the system does not say.
#[derive(Clone, Copy)]
struct Moment {
    cpu: Option<u64>,
    clock: Instant,
}

impl Moment {
    fn now() -> Moment {
        let said = std::fs::read_to_string("/proc/self/schedstat").ok();
        let cpu = said.and_then(|said| said.split(' ').next()?.parse().ok());
        Moment { cpu, clock: Instant::now() }
    }
}

/// Nanoseconds of each of so many.
fn each(since: Moment, count: u64) -> f64 {
    let now = Moment::now();
    let spent = match (since.cpu, now.cpu) {
        (Some(from), Some(to)) => to - from,
        _ => (now.clock - since.clock).as_nanos() as u64,
    };
    spent as f64 / count as f64
}

#[allow(clippy::print_stdout, reason = "the table is what an experiment is for")]
fn main() {
    let keys: u64 = std::env::args().nth(1).map_or(1_000_000, |keys| keys.parse().expect("a number of keys"));
    println!("{keys} keys, {STEP} a step; nanoseconds but for bytes");
    println!("keys        insert  again  bytes  nodes  look  scan 100 (a key)   built: load  bytes");
    let kinds: [(&str, KeyOf); 3] =
        [("random 16", random_16), ("ascending", ascending), ("session", session)];
    for (name, key_of) in kinds {
        println!("{name:10} {}", measure(keys, key_of));
    }
    println!("BTreeMap   {}", beside(keys));
}

fn measure(keys: u64, key_of: KeyOf) -> String {
    let all: Vec<Vec<u8>> = (0..keys).map(key_of).collect();
    let bytes = (64 << 20) + keys * 512;
    let options = TreeOptions::default();
    let sums = SumKey::new(1);
    let mut owner = Owner::create(region(bytes), NoAges, sums.clone(), 1, options).expect("room");
    let mut times = Vec::new();
    for round in 0..2 {
        let begun = Moment::now();
        for (at, chunk) in all.chunks(STEP).enumerate() {
            let mut step = owner.begin();
            let first = round * keys + (at * STEP) as u64 + 1;
            let mut order: Vec<(u64, &Vec<u8>)> = (first..).zip(chunk).collect();
            order.sort_unstable_by_key(|(_, key)| *key);
            for (csn, key) in order {
                let (csn, entry) = (Csn(csn), EntryRef { offset: csn * 64, len: 64 });
                let kind = EntryKind::Put;
                let put = TreeEntry { key, kind, csn, age: 0, entry, expiry: UnixMillis::NEVER };
                step.apply(&put).expect("room");
            }
            step.publish(&Standing { term: Term::ZERO, stable: Csn::NONE, applied: &[1] });
        }
        times.push(each(begun, keys));
    }
    let counts = owner.counts();
    let (look, scan) = looks(&mut owner, &all);
    let mut sorted = all;
    sorted.sort();
    let begun = Moment::now();
    let mut builder = Builder::new(region(bytes), NoAges, sums, 1, options).expect("room");
    for (i, key) in (1..).zip(&sorted) {
        let entry = Some(EntryRef { offset: i * 64, len: 64 });
        builder.push(key, &LeafRecord { csn: Csn(i), entry, expiry: UnixMillis::NEVER }).expect("room");
    }
    let standing = Standing { term: Term::ZERO, stable: Csn::NONE, applied: &[1] };
    let built = builder.finish(&standing).expect("room");
    let (load, built) = (each(begun, keys), built.counts().bytes as f64 / keys as f64);
    let per_key = counts.bytes as f64 / keys as f64;
    format!(
        "{:7.0} {:6.0} {per_key:6.1} {:6} {look:5.0} {scan:9.0}          {load:11.0} {built:6.1}",
        times[0], times[1], counts.nodes
    )
}

/// Times of a look for a key, and of each key of a scan of a hundred.
fn looks(owner: &mut Owner<Mapped, NoAges>, all: &[Vec<u8>]) -> (f64, f64) {
    let mut draw = SplitMix64::new(3);
    let begun = Moment::now();
    for _ in 0..LOOKS {
        let key = &all[draw.below(all.len() as u64) as usize];
        assert!(owner.get(key).is_some());
    }
    let look = each(begun, LOOKS);
    let (begun, mut shown) = (Moment::now(), 0);
    for _ in 0..LOOKS {
        let low = Bound::Included(all[draw.below(all.len() as u64) as usize].as_slice());
        let mut left = 100;
        let _ = owner.walk(&TreeRange { low, ..TreeRange::ALL }, |item| {
            shown += u64::from(!item.key.is_empty());
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    (look, each(begun, shown))
}

fn beside(keys: u64) -> String {
    let all: Vec<Vec<u8>> = (0..keys).map(random_16).collect();
    let mut map: BTreeMap<[u8; 16], [u64; 2]> = BTreeMap::new();
    let fixed = |key: &[u8]| <[u8; 16]>::try_from(key).expect("16 bytes");
    let begun = Moment::now();
    for (i, key) in (1..).zip(&all) {
        map.insert(fixed(key), [i, i]);
    }
    let insert = each(begun, keys);
    let mut draw = SplitMix64::new(3);
    let (begun, mut shown) = (Moment::now(), 0);
    for _ in 0..LOOKS {
        let low = fixed(&all[draw.below(keys) as usize]);
        shown += map.range(low..).take(100).filter(|(key, _)| key[0] != 1).count() as u64;
    }
    format!("{insert:7.0}      -      -      -     - {:9.0}   (keys of 16 random bytes)", each(begun, shown))
}
