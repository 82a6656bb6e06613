//! Known properties of YCSB's distributions, and determinism.

use std::collections::HashMap;
use std::sync::Arc;

use longarm_workload::random::stream as random;

use super::*;

fn stream(mix: Mix, distribution: Distribution, records: u64, seed: u64, client: u64) -> Stream {
    let (chooser, lengths) = (Chooser::new(distribution, records, 0), mix.lengths(100));
    let start = StreamStart { shares: mix.shares(), lengths, chooser, seed };
    Stream::new(&start, client, Arc::new(Inserts::new(records)))
}

fn draw(stream: &mut Stream, count: usize) -> Vec<Op> {
    let mut next = || {
        let op = stream.draw();
        stream.answered(&op);
        op
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn zeta_by_integral_equals_the_sum_and_the_constant_of_ycsb() {
    for (n, theta) in [(5_000, 0.99), (2_000_000, 0.99), (300_000, 0.5), (4096, 0.9), (1, 0.99)] {
        let sum: f64 = (1..=n).rev().map(|i| (i as f64).powf(-theta)).sum();
        assert!((zeta(n, theta) - sum).abs() < 1e-10 * sum, "zeta({n}, {theta}) {} {sum}", zeta(n, theta));
    }
    assert!((zeta(YCSB_ITEMS, YCSB_THETA) - YCSB_ZETAN).abs() < 1e-6, "{}", zeta(YCSB_ITEMS, YCSB_THETA));
}

#[test]
fn the_top_ranks_have_their_theoretical_share() {
    const DRAWS: u64 = 400_000;
    let items = 1000;
    let mut zipf = Zipf::new(items, 0.99);
    let mut random = random(11, 0);
    let mut counts = vec![0u64; items as usize];
    for _ in 0..DRAWS {
        counts[zipf.next(&mut random) as usize] += 1;
    }
    let zetan = zeta(items, 0.99);
    // Ranks 0 and 1 are exact in Gray's method: within five standard deviations.
    for (rank, &count) in counts.iter().enumerate().take(2) {
        let share = (rank as f64 + 1.0).powf(-0.99) / zetan;
        let deviation = (DRAWS as f64 * share * (1.0 - share)).sqrt();
        let expected = DRAWS as f64 * share;
        assert!((count as f64 - expected).abs() < 5.0 * deviation, "rank {rank}: {count}");
    }
    // Further ranks follow Gray's continuous curve: items * (eta u - eta + 1)^(1 / (1 - theta)) < top. It
    // gives the ranks just after the second a few percent more than Zipf's law does; so does YCSB.
    let eta = (1.0 - (2.0 / items as f64).powf(0.01)) / (1.0 - zeta(2, 0.99) / zetan);
    for top in [3u64, 10, 100, 500] {
        let found = counts[..top as usize].iter().sum::<u64>() as f64 / DRAWS as f64;
        let curve = ((top as f64 / items as f64).powf(0.01) - 1.0 + eta) / eta;
        let deviation = (curve * (1.0 - curve) / DRAWS as f64).sqrt();
        assert!((found - curve).abs() < 5.0 * deviation, "top {top}: {found} for {curve}");
        let law = zeta(top, 0.99) / zetan;
        assert!((found / law - 1.0).abs() < 0.08, "top {top}: {found} for {law}");
    }
    assert!((zipf.top_share() - 1.0 / zetan).abs() < 1e-12);
}

#[test]
fn scrambling_keeps_the_skew_and_spreads_the_hot_records() {
    const DRAWS: usize = 300_000;
    let records = 10_000;
    let mut stream = stream(Mix::C, Distribution::YCSB, records, 5, 0);
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for op in draw(&mut stream, DRAWS) {
        assert!(op.kind == OpKind::Read && op.record < records);
        *counts.entry(op.record).or_default() += 1;
    }
    // The hottest records are where FNV puts ranks 0 and 1 of ten billion, with shares 1 / zetan and
    // 0.5^0.99 / zetan plus their part of the others' ranks.
    for (rank, share) in [(0, 1.0 / YCSB_ZETAN), (1, 0.5f64.powf(0.99) / YCSB_ZETAN)] {
        let record = fnv_hash(rank) % (records + 1);
        let found = counts[&record] as f64 / DRAWS as f64;
        assert!((share * 0.97..share * 1.03 + 3e-4).contains(&found), "rank {rank}: {found} for {share}");
    }
    assert_eq!(counts.iter().max_by_key(|&(_, count)| count).unwrap().0, &(fnv_hash(0) % (records + 1)));
    // Ten billion ranks fold onto ten thousand records: nearly all of them are touched.
    assert!(counts.len() > 9_900, "{} records touched", counts.len());
}

#[test]
fn latest_prefers_the_newest_and_follows_growth() {
    let records = 1000;
    let mut stream = stream(Mix::D, Distribution::Latest, records, 3, 0);
    let (mut newest, mut reads, mut at_newest, mut in_newest_tenth) = (records - 1, 0u64, 0u64, 0u64);
    for _ in 0..200_000 {
        let op = stream.draw();
        if op.kind == OpKind::Insert {
            assert_eq!(op.record, newest + 1, "new records are numbered without gaps");
            newest = op.record;
            stream.answered(&op);
            continue;
        }
        assert!(op.record <= newest);
        reads += 1;
        at_newest += (op.record == newest) as u64;
        in_newest_tenth += (op.record > newest - newest / 10) as u64;
    }
    assert!(newest > records + 9_000, "about 10,000 inserts, so {newest}");
    // The share of distance 0 falls from 1 / zeta(999) to 1 / zeta(11,000) as records are added.
    let share = at_newest as f64 / reads as f64;
    assert!((1.0 / zeta(11_100, 0.99)..1.0 / zeta(999, 0.99)).contains(&share), "{share}");
    assert!(in_newest_tenth as f64 / reads as f64 > 0.65);
}

#[test]
fn mixes_have_their_ratios() {
    const DRAWS: usize = 100_000;
    let ycsb = [Mix::A, Mix::B, Mix::C, Mix::D, Mix::E, Mix::F];
    for mix in ycsb.into_iter().chain([Mix::Scans, Mix::Reads(700), Mix::Reads(0), Mix::Reads(1000)]) {
        let mut stream = stream(mix, mix.distribution(), 1000, 9, 4);
        let mut counts: HashMap<OpKind, usize> = HashMap::new();
        draw(&mut stream, DRAWS).iter().for_each(|op| *counts.entry(op.kind).or_default() += 1);
        let shares = mix.shares();
        let wanted = [shares.read, shares.update, shares.insert, shares.scan, shares.read_modify_write];
        assert!((wanted.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for (kind, share) in OpKind::ALL.into_iter().zip(wanted) {
            let found = counts.get(&kind).copied().unwrap_or(0) as f64 / DRAWS as f64;
            let exact = share == 0.0 || share == 1.0;
            assert!((found - share).abs() <= if exact { 0.0 } else { 0.008 }, "{mix:?} {kind:?} {found}");
        }
    }
}

#[test]
fn scans_are_as_long_as_they_are_said_to_be() {
    let mut ops = draw(&mut stream(Mix::E, Distribution::YCSB, 1000, 2, 0), 200_000);
    ops.retain(|op| op.kind == OpKind::Scan);
    let mut counts = [0u32; 101];
    ops.iter().for_each(|op| counts[op.length as usize] += 1);
    assert_eq!(counts[0], 0);
    assert!(counts[1..].iter().all(|count| count.abs_diff(1900) < 250), "{counts:?}");
    let other = draw(&mut stream(Mix::Scans, Distribution::Uniform, 1000, 2, 0), 100);
    assert!(other.iter().all(|op| op.length == 100 && op.kind == OpKind::Scan));
    let reads = draw(&mut stream(Mix::A, Distribution::YCSB, 1000, 2, 0), 100);
    assert!(reads.iter().all(|op| op.length == 0));
}

#[test]
fn keys_say_of_which_record_they_are() {
    for record in [0, 1, 77, 999_999, u64::MAX] {
        for format in [KeyFormat::Hex16, KeyFormat::YcsbOrdered] {
            let key = format.key(record);
            assert_eq!(format.record(key.bytes()), Some(record), "{format:?}");
            assert_eq!(Key::of(key.bytes()), Some(key));
        }
        assert_eq!(KeyFormat::Ycsb.record(KeyFormat::Ycsb.key(record).bytes()), None, "a hash");
    }
    let others = [&b"user1"[..], b"", b"0123", b"+123456789abcdef", b"ABCDEF0123456789", &[0xff; 16]];
    for other in others {
        assert_eq!(KeyFormat::Hex16.record(other), None, "{other:?}");
        assert_eq!(KeyFormat::YcsbOrdered.record(other), None, "{other:?}");
    }
    assert_eq!(Key::of(&[0; 25]), None);
}

#[test]
fn uniform_touches_all_records_alike() {
    let mut stream = stream(Mix::Reads(500), Distribution::Uniform, 16, 1, 0);
    let mut counts = [0u32; 16];
    draw(&mut stream, 160_000).iter().for_each(|op| counts[op.record as usize] += 1);
    assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
}

#[test]
fn a_seed_determines_the_stream_of_a_client() {
    for (mix, distribution) in [(Mix::D, Distribution::Latest), (Mix::A, Distribution::YCSB)] {
        let ops = |seed, client| draw(&mut stream(mix, distribution, 5000, seed, client), 2000);
        assert_eq!(ops(1, 0), ops(1, 0));
        assert_ne!(ops(1, 0), ops(1, 1));
        assert_ne!(ops(1, 0), ops(2, 0));
    }
}

#[test]
fn one_record_is_enough_for_every_distribution() {
    for distribution in [Distribution::Uniform, Distribution::YCSB, Distribution::Latest] {
        let ops = draw(&mut stream(Mix::C, distribution, 1, 1, 0), 100);
        assert!(ops.iter().all(|op| op.record == 0), "{distribution:?}");
    }
}

#[test]
fn inserts_count_only_what_has_no_gap() {
    let mut inserts = Inserts::new(10);
    assert_eq!((inserts.take(), inserts.take(), inserts.take()), (10, 11, 12));
    inserts.acknowledge(12);
    inserts.acknowledge(11);
    assert_eq!(inserts.existing(), 10);
    inserts.acknowledge(10);
    assert_eq!(inserts.existing(), 13);
    assert_eq!(inserts.take(), 13);
    inserts.settle();
    assert_eq!(inserts.take(), 13, "a number that was never acknowledged is used again");
}

#[test]
fn keys_are_what_ycsb_makes_or_sixteen_bytes() {
    // FNV-1a of eight zero octets, and of octet 1 then seven zeros, computed by hand from the definition.
    let by_definition = |first: u64| {
        let mut hash = 0xCBF2_9CE4_8422_2325u64;
        for octet in [first, 0, 0, 0, 0, 0, 0, 0] {
            hash = (hash ^ octet).wrapping_mul(0x100_0000_01B3);
        }
        (hash as i64).unsigned_abs()
    };
    assert_eq!(fnv_hash(0), by_definition(0));
    assert_eq!(fnv_hash(1), by_definition(1));
    // The first key of every YCSB load with hashed inserts.
    assert_eq!(KeyFormat::Ycsb.key(0).bytes(), b"user6284781860667377211");
    assert_eq!(KeyFormat::YcsbOrdered.key(42).bytes(), b"user00000000000000000042");
    assert_eq!(KeyFormat::YcsbOrdered.key(u64::MAX).bytes(), b"user18446744073709551615");
    for record in 0..1000 {
        let written = format!("{:016x}", longarm_base::random::mix64(record));
        assert_eq!(KeyFormat::Hex16.key(record).bytes(), written.as_bytes());
    }
    let keys: std::collections::HashSet<Vec<u8>> =
        (0..10_000).map(|record| KeyFormat::Hex16.key(record).bytes().to_vec()).collect();
    assert!(keys.len() == 10_000 && keys.iter().all(|key| key.len() == 16));
}

#[test]
fn values_prove_themselves() {
    for bytes in [0, 1, 7, 8, 32, 1000, 70_000] {
        let values = Values::new(bytes, 3);
        for record in 0..50 {
            let value = values.value(record, record * 3).to_vec();
            assert!(value.len() == bytes && values.is_valid(record, &value));
            assert!(!values.is_valid(record, &[&value[..], b"x"].concat()), "a longer value is wrong");
            if bytes >= 8 {
                assert!((1..VARIANTS).all(|more| values.value(record, record * 3 + more) != value));
                let mut broken = value.clone();
                broken[bytes - 1] ^= 1;
                assert!(!values.is_valid(record, &broken) && !values.is_valid(record, &value[1..]));
            }
        }
        if bytes >= 8 {
            let others = (1..1000).filter(|&other| values.is_valid(other, values.value(0, 0))).count();
            assert!(others < 10, "{others} other records take the value of record 0 for theirs");
        }
    }
}

#[test]
fn names_are_read_back_and_nonsense_is_refused() {
    let good = [
        ("a", Mix::A),
        ("YCSB-F", Mix::F),
        ("e", Mix::E),
        ("scan", Mix::Scans),
        ("get", Mix::Reads(1000)),
        ("95:5", Mix::Reads(950)),
    ];
    for (text, mix) in good {
        assert_eq!(text.parse::<Mix>(), Ok(mix));
    }
    for text in ["g", "ycsb-z", "0:0", "1:-1", ":", ""] {
        assert!(text.parse::<Mix>().is_err(), "{text}");
    }
    assert_eq!("zipfian:0.5".parse(), Ok(Distribution::Zipfian(0.5)));
    for text in ["zipfian:1", "zipfian:x", "zipfian:NaN", "gauss", "uniform:1"] {
        assert!(text.parse::<Distribution>().is_err(), "{text}");
    }
    assert!("ycsb".parse::<KeyFormat>().is_ok() && "md5".parse::<KeyFormat>().is_err());
}
