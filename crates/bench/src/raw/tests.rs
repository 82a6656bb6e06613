//! Every measurement for a few milliseconds, on both kinds of memory.

use longarm_memory::{Journal, Region, RegionOptions};

use super::*;

fn quick() -> RawPlan {
    RawPlan { bytes: 1 << 20, copies: vec![64, 100, 1 << 16], seconds: 0.002, runs: 2, ..RawPlan::default() }
}

#[test]
fn every_measurement_runs_on_a_fresh_region() {
    let report = on_fresh_region(&quick()).expect("a megabyte can be had");
    let names = [name::CHASE, name::PAIR, name::FAR, name::PAIR_SUM, name::BATCH];
    for name in names {
        let result = report.get(name).expect(name);
        assert!(result.nanos.min > 0.0 && result.nanos.min <= result.nanos.median);
        assert!((result.rate * result.nanos.median - 1e9).abs() < 1.0, "{name}");
    }
    assert_eq!(report.results.len(), names.len() + 3);
    assert!(report.get(&format!("{}, 65536 B", name::COPY)).is_some_and(|copy| copy.bytes == Some(65536)));
}

#[test]
fn a_mapping_that_is_in_use_is_not_changed() {
    let options = RegionOptions { name: "raw-test".into(), bytes: 1 << 16, backing: Backing::Memory };
    let region = Region::create(&options).expect("64 KiB can be had");
    for at in (0..1 << 16).step_by(8) {
        region.memory().store(at, at * 7);
    }
    let view = region.memory().read_only();
    run(&RawPlan { copies: vec![64], ..quick() }, &view, None).expect("the plan fits");
    assert!((0..1u64 << 16).step_by(8).all(|at| view.load(at) == at * 7));
}

#[test]
fn walks_stay_inside_and_touch_every_part() {
    // Counts loads per pair: each walk must spread over all of them.
    struct Counting(Vec<std::sync::atomic::AtomicU32>);
    impl Words for Counting {
        fn bytes(&self) -> u64 {
            self.0.len() as u64 * LINE
        }
        fn load(&self, at: u64) -> u64 {
            // Relaxed: a counter of one thread.
            self.0[(at / LINE) as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            longarm_base::random::mix64(at)
        }
        fn copy_out(&self, at: u64, into: &mut [u8]) {
            into.fill(self.load(at) as u8);
        }
    }
    let words = Counting((0..256).map(|_| Default::default()).collect());
    let walk = loads::Walk::new(&words, 8, 5);
    let sum = SumKey::new(1);
    let touched = |step: &dyn Fn()| {
        step();
        // Relaxed: counts of this thread alone.
        let counts = words.0.iter().map(|n| n.swap(0, std::sync::atomic::Ordering::Relaxed));
        counts.filter(|&n| n > 0).count()
    };
    assert!(touched(&|| walk.chase(4096)) > 200);
    assert_eq!(touched(&|| walk.pair(8192)), 256);
    assert!(touched(&|| walk.far(8192)) > 200);
    assert_eq!(touched(&|| walk.pair_sum(8192, &sum)), 256);
    assert_eq!(touched(&|| walk.batch(256, &sum, &mut [0; 32])), 256);
}

#[test]
fn what_does_not_fit_is_refused() {
    let words = Journal::new(4096);
    for plan in [
        RawPlan { copies: vec![5000], ..quick() },
        RawPlan { copies: vec![0], ..quick() },
        RawPlan { pair_lines: 100, ..quick() },
        RawPlan { pair_lines: 1, ..quick() },
        RawPlan { batch: 0, ..quick() },
        RawPlan { seconds: f64::NAN, ..quick() },
        RawPlan { runs: 0, ..quick() },
    ] {
        assert!(run(&plan, &words, None).is_err(), "{plan:?}");
    }
}

#[test]
fn a_plan_for_devices_is_checked() {
    let plan = nic::NicPlan {
        near: "nothing7".into(),
        far: "nothing7".into(),
        inline: true,
        pair: 704,
        entry: 256,
        reads: vec![64, 4096],
        request: (128, 64),
        batch: 32,
        seconds: 0.01,
        runs: 1,
    };
    let error = nic::measure(&plan).expect_err("nobody has this device");
    assert!(error.starts_with("open the device"), "{error}");
    let mut long = plan.clone();
    long.reads.push(1 << 20);
    assert!(long.check().expect_err("too long").contains("1048576 bytes"));
    let mut many = plan.clone();
    many.batch = 1000;
    assert!(many.check().expect_err("too many").contains("1 to 64 READs"));
    let limits = |plan: &nic::NicPlan| [plan.limit_of_get(false), plan.limit_of_get(true)];
    assert_eq!(limits(&plan), ["READ 704 B", "READ 64 B"]);
    let entries = nic::NicPlan { inline: false, ..plan };
    assert_eq!(limits(&entries), ["READ 704 B, then READ 256 B", "READ 256 B"]);
}
