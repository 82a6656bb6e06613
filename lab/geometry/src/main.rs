//! Experiment: how many slots should a bucket, the shared buckets and an added group have?
//!
//! The paper reports "acceptable load factors of about 70%" for its counts (continuity hashing IV.B, V.B).
//! This experiment fills tables of every shape that a 64-byte header can describe with uniformly hashed keys
//! until the table would have to grow (a tenth of the pairs has added groups, or one pair is full), and
//! prints the load factor, the bytes of the READ, and the READs of a hit. It places keys as
//! `crates/index/src/hash/owner.rs` does, without the memory. It measures no time, so any machine gives the
//! same table: `cargo run --release -p lab-geometry`. Behind it stands figure 18 of the paper, the load each
//! time a table doubles (`doubling.rs`).

mod doubling;

use std::collections::BTreeMap;

use longarm_base::random::SplitMix64;
use longarm_index::hash::PairShape;
use longarm_index::hash::layout::{EXTENDED_SHARE, GROUP_SLOTS, GROUPS_MAX};

use doubling::{Workload, mean_loads};

/// A shape under test.
#[derive(Clone, Copy)]
struct Candidate {
    slot_bytes: usize,
    bucket: usize,
    shared: usize,
    group: usize,
    groups: usize,
}

/// What filling a table of a shape came to.
struct Outcome {
    candidate: Candidate,
    load: f64,
    read_bytes: usize,
    reads_per_hit: f64,
    full_pair: bool,
}

struct Pair {
    home: [u8; 2],
    shared: u8,
    added: u8,
    groups: u8,
}

fn fill(candidate: Candidate, pairs: usize, seed: u64) -> Outcome {
    let empty = || Pair { home: [0; 2], shared: 0, added: 0, groups: 0 };
    let mut table: Vec<Pair> = std::iter::repeat_with(empty).take(pairs).collect();
    let (mut hashes, mut items, mut in_groups, mut groups, mut extended) =
        (SplitMix64::new(seed), 0usize, 0usize, 0usize, 0usize);
    let full_pair = loop {
        let hash = hashes.draw();
        let bucket = ((u128::from(hash) * (pairs as u128 * 2)) >> 64) as usize;
        let pair = &mut table[bucket / 2];
        let home = &mut pair.home[bucket % 2];
        if usize::from(*home) < candidate.bucket {
            *home += 1;
        } else if usize::from(pair.shared) < candidate.shared {
            pair.shared += 1;
        } else {
            if usize::from(pair.added) == usize::from(pair.groups) * candidate.group {
                if usize::from(pair.groups) == candidate.groups {
                    break true;
                }
                if pair.groups == 0 && extended as u64 * EXTENDED_SHARE >= pairs as u64 {
                    break false;
                }
                extended += usize::from(pair.groups == 0);
                pair.groups += 1;
                groups += 1;
            }
            pair.added += 1;
            in_groups += 1;
        }
        items += 1;
    };
    let slots = pairs * (2 * candidate.bucket + candidate.shared) + groups * candidate.group;
    Outcome {
        candidate,
        load: items as f64 / slots as f64,
        read_bytes: (candidate.bucket + candidate.shared) * candidate.slot_bytes + 64,
        reads_per_hit: 1.0 + in_groups as f64 / items as f64,
        full_pair,
    }
}

/// Every shape whose bits fit, for one slot size; buckets and shared buckets are whole cache lines.
fn candidates(slot_bytes: usize) -> Vec<Candidate> {
    let step = 64 / slot_bytes;
    let mut all = Vec::new();
    for bucket in (step..=12).step_by(step).filter(|b| *b >= 2) {
        for shared in (step..=16).step_by(step) {
            for (group, groups) in [(8, 1), (16, 1), (8, 2), (4, 3), (GROUP_SLOTS, GROUPS_MAX)] {
                if 2 * bucket + shared + group * groups <= 32 {
                    all.push(Candidate { slot_bytes, bucket, shared, group, groups });
                }
            }
        }
    }
    all
}

/// The best load for each size of READ, ascending.
fn best_by_read(slot_bytes: usize, pairs: usize, seed: u64) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> =
        candidates(slot_bytes).into_iter().map(|candidate| fill(candidate, pairs, seed)).collect();
    outcomes.sort_by(|a, b| a.read_bytes.cmp(&b.read_bytes).then(b.load.total_cmp(&a.load)));
    outcomes.dedup_by_key(|outcome| outcome.read_bytes);
    outcomes
}

fn chosen(shape: PairShape) -> Candidate {
    let (group, groups) = (GROUP_SLOTS, GROUPS_MAX);
    Candidate {
        slot_bytes: shape.slot_bytes() as usize,
        bucket: shape.bucket,
        shared: shape.shared,
        group,
        groups,
    }
}

#[allow(clippy::print_stdout, reason = "the table is what an experiment is for")]
fn main() {
    let pairs = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(350_000);
    println!("Load factor when the table must grow, {pairs} pairs, seed 1. The paper reports about 70 %.\n");
    for shape in [PairShape::INLINE, PairShape::POINTER] {
        println!("| slot | bucket | shared | groups | READ bytes | load | READs/hit | grows because |");
        println!("|---|---|---|---|---|---|---|---|");
        let mut rows = best_by_read(shape.slot_bytes() as usize, pairs, 1);
        let mine = fill(chosen(shape), pairs, 1);
        rows.retain(|row| row.read_bytes != mine.read_bytes);
        rows.push(mine);
        rows.sort_by_key(|row| row.read_bytes);
        for row in rows {
            let c = row.candidate;
            let same = (c.bucket, c.shared, c.group, c.groups)
                == (shape.bucket, shape.shared, GROUP_SLOTS, GROUPS_MAX);
            let why = if row.full_pair { "a pair is full" } else { "a tenth has groups" };
            println!(
                "| {} | {} | {} | {}x{} | {} | {:.1} %{} | {:.3} | {why} |",
                c.slot_bytes,
                c.bucket,
                c.shared,
                c.groups,
                c.group,
                row.read_bytes,
                row.load * 100.0,
                if same { " (chosen)" } else { "" },
                row.reads_per_hit
            );
        }
        println!();
    }
    println!(
        "A miss is one READ and a second look at the header (64 bytes), and one READ a matching added slot.\n"
    );
    print_doublings();
}

/// Figure 18 of the paper, with its table.
#[allow(clippy::print_stdout, reason = "as in `main`")]
fn print_doublings() {
    const MOST: usize = 1 << 17;
    let added = [("none", None), ("1/20", Some(20)), ("1/10", Some(10))];
    println!(
        "Load in % when a table of 20 slots a pair doubles, mean of 5 seeds, by pairs and added groups.\n"
    );
    println!(
        "| workload | added | {} |",
        (2..=17).map(|log| format!("2^{log}")).collect::<Vec<_>>().join(" | ")
    );
    println!("|---|---|{}", "---|".repeat(16));
    for (name, workload) in [("inserts", Workload::Inserts), ("and updates", Workload::InsertsAndUpdates)] {
        for (label, share) in added {
            let loads: BTreeMap<usize, f64> = mean_loads(share, workload, MOST, 5).into_iter().collect();
            let cell = |log: u32| {
                loads.get(&(1 << log)).map_or("-".to_string(), |load| format!("{:.0}", 100.0 * load))
            };
            println!("| {name} | {label} | {} |", (2..=17).map(cell).collect::<Vec<_>>().join(" | "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shapes of the product are those that the experiment chooses: no smaller READ reaches 70 %.
    #[test]
    fn the_chosen_shapes_have_the_smallest_read_that_fills_seventy_percent() {
        for shape in [PairShape::INLINE, PairShape::POINTER] {
            let mine = fill(chosen(shape), 60_000, 2);
            assert!(mine.load >= 0.70, "{:.3}", mine.load);
            let smaller = best_by_read(shape.slot_bytes() as usize, 60_000, 2);
            let better = smaller.iter().find(|row| row.load >= 0.70).expect("ours is among them");
            assert_eq!(better.read_bytes, mine.read_bytes);
        }
    }
}
