//! Every kind of benchmark for a fraction of a second, on a map and on the real servers; and every way in
//! which a store may misbehave must show.

use std::time::{Duration, Instant};

use super::*;
use crate::driver::tests::real;
use crate::peer::PeerKind;
use crate::plan::{Pace, Sweep};
use crate::report::Style;
use crate::testing::{Fault, Memory};
use crate::workload::{Mix, OpKind};

fn quick() -> Plan {
    Plan { records: 500, warmup_seconds: 0.01, seconds: 0.05, runs: 2, verify_every: 2, ..Plan::default() }
}

fn one(plan: &Plan, fault: Fault) -> Result<Report, BenchError> {
    run(plan, &[Memory::boxed("map", fault).0])
}

fn kinds(report: &Report) -> Vec<&str> {
    report.points[0].results[0].runs[0].kinds.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn every_mix_runs_in_every_loop() {
    let expected: [(Mix, &[&str]); 8] = [
        (Mix::A, &["read", "update"]),
        (Mix::B, &["read", "update"]),
        (Mix::C, &["read"]),
        (Mix::D, &["read", "insert"]),
        (Mix::E, &["insert", "scan"]),
        (Mix::Scans, &["scan"]),
        (Mix::F, &["read", "update", "read-modify-write"]),
        (Mix::Reads(0), &["update"]),
    ];
    for (mix, expected) in expected {
        for (depth, pace) in
            [(1, Pace::Closed), (8, Pace::Closed), (1, Pace::Fixed(20_000.0)), (4, Pace::Poisson(20_000.0))]
        {
            if mix.lengths(1).is_some() && depth > 1 {
                continue;
            }
            let plan = Plan { mix, depth, pace, clients: 2, runs: 1, seconds: 0.02, ..quick() };
            let report = one(&plan, Fault::None).unwrap();
            let result = &report.points[0].results[0];
            assert_eq!(kinds(&report), expected, "{mix:?} {pace:?}");
            assert!(report.is_clean() && result.summary.throughput.min > 0.0, "{mix:?} {pace:?}");
            let counts = result.summary.counts;
            let of = |kind| result.record.of(kind).len();
            let reads = of(OpKind::Read) + of(OpKind::Scan);
            assert_eq!(counts.items > 0, of(OpKind::Scan) > 0);
            assert_eq!(
                counts.hits, reads,
                "every read was answered and counted once: {mix:?} {pace:?} {depth}"
            );
            assert_eq!(result.record.all().len(), counts.operations + counts.unsent);
            assert_eq!(result.runs[0].service.is_some(), pace != Pace::Closed);
            assert!(counts.hits < 10 || counts.checked > counts.hits / 4, "{counts:?}");
        }
    }
}

#[test]
fn one_client_does_the_same_operations_each_time() {
    let written = |seed| {
        let (factory, map) = Memory::boxed("map", Fault::None);
        let plan =
            Plan { mix: Mix::D, seed, operations: Some(3000), warmup_seconds: 0.0, runs: 1, ..quick() };
        // Not empty when it begins, so that what was written stays to be looked at.
        map.lock().unwrap().insert(b"other".to_vec(), vec![]);
        let report = run(&Plan { seconds: 20.0, into_nonempty: true, ..plan }, &[factory]).unwrap();
        let counts = report.points[0].results[0].summary.counts;
        let stored: Vec<_> = map.lock().unwrap().clone().into_iter().collect();
        (counts.operations, counts.hits, stored)
    };
    let first = written(1);
    assert_eq!(first.0, 3000);
    assert!(first == written(1), "one seed, one run");
    assert!(first.2 != written(2).2);
}

#[test]
fn what_others_wrote_meanwhile_stays_and_nothing_of_ours_does() {
    // Inserts, and a stop in the middle, so that some numbers were handed out and never answered.
    let (factory, map) = Memory::boxed("map", Fault::None);
    let plan = Plan { mix: Mix::D, clients: 2, depth: 3, ..quick() };
    let other = std::sync::Once::new();
    let progress = |_: &str| {
        other.call_once(|| drop(map.lock().unwrap().insert(b"other".to_vec(), vec![])));
    };
    let around = &mut Around { progress: &progress, between: &mut || Ok(()) };
    let report = run_with(&plan, &[factory], around);
    report.expect("a report");
    let left: Vec<_> = map.lock().unwrap().keys().cloned().collect();
    assert_eq!(left, [b"other".to_vec()]);
}

#[test]
fn something_else_is_measured_around_each_round_of_runs() {
    let plan = Plan { runs: 3, sweep: Some(Sweep::Depth(vec![1, 2])), ..quick() };
    let targets = [Memory::boxed("map", Fault::None).0, Memory::boxed("other", Fault::None).0];
    let mut calls = 0;
    let mut between = || {
        calls += 1;
        Ok(())
    };
    run_with(&plan, &targets, &mut Around { progress: &|_| {}, between: &mut between }).expect("a report");
    assert_eq!(calls, 2 * (3 + 1), "before each round of a point, and after its last");
    let mut fails = || Err("the device is gone".into());
    let failed = run_with(&plan, &targets, &mut Around { progress: &|_| {}, between: &mut fails });
    let error = failed.err().expect("no report without it");
    assert!(matches!(&error, BenchError::Between(_)) && error.to_string() == "the device is gone");
}

#[test]
fn operations_end_a_run_exactly() {
    for pace in [Pace::Closed, Pace::Fixed(1e6)] {
        for (clients, depth) in [(1, 1), (3, 1), (3, 7)] {
            let plan =
                Plan { clients, depth, pace, operations: Some(100), seconds: 20.0, runs: 1, ..quick() };
            let report = one(&plan, Fault::None).unwrap();
            let counts = report.points[0].results[0].summary.counts;
            assert_eq!(counts.operations, 100, "{plan:?} {counts:?}");
        }
    }
}

#[test]
fn a_wrong_store_is_not_measured_as_a_fast_one() {
    for (fault, depth) in
        [(Fault::WrongValue, 1), (Fault::Short, 1), (Fault::WrongValue, 4), (Fault::Short, 4)]
    {
        let report = one(&Plan { depth, ..quick() }, fault).unwrap();
        assert!(!report.is_clean() && report.points[0].results[0].summary.counts.wrong > 0);
        assert!(report.table(Style::Plain).contains("WRONG VALUES"));
    }
}

#[test]
fn scans_that_are_not_what_was_asked_for_are_noticed() {
    let plan = Plan { mix: Mix::Scans, scan_limit: 20, verify_every: 1, ..quick() };
    let counts = |plan: &Plan, fault| one(plan, fault).expect("a report").points[0].results[0].summary.counts;
    let good = counts(&plan, Fault::None);
    assert!((good.wrong, good.misses) == (0, 0) && good.checked == good.items, "{good:?}");
    assert!(good.items > 10 * good.operations && good.hits == good.operations, "{good:?}");
    for fault in [Fault::Gap, Fault::Stops, Fault::Reversed, Fault::Short, Fault::Behind] {
        for keys_only in [false, true] {
            let found = counts(&Plan { keys_only, ..plan.clone() }, fault);
            let harmless = keys_only && fault == Fault::Short;
            assert_eq!(found.wrong + found.misses == 0, harmless, "{fault:?} {keys_only} {found:?}");
        }
    }
    // The whole store and more: the scans end where it ends.
    let all = counts(&Plan { scan_limit: 600, ..plan.clone() }, Fault::None);
    assert!((all.wrong, all.misses) == (0, 0), "{all:?}");
    let keys = one(&Plan { mix: Mix::E, keys_only: true, ..quick() }, Fault::None).expect("a report");
    assert!(keys.is_clean() && keys.points[0].results[0].summary.counts.checked == 0);
    assert!(keys.table(Style::Plain).contains("scans of 1 to 100 items, keys only"));
    assert!(keys.table(Style::Plain).contains("items a scan, "));
    crate::report::tests::check_forms(&keys);
}

#[test]
fn who_keeps_no_order_is_asked_for_no_scan() {
    let url = "memcached://127.0.0.1:1";
    let target = crate::open(url, &crate::TargetOptions::default()).expect("an address");
    let error = run(&Plan { mix: Mix::E, ..quick() }, &[target]).err().expect("an error").to_string();
    assert!(error.contains(url) && error.contains("no scans"), "{error}");
}

#[test]
fn the_floor_is_a_store_like_others() {
    let floor = || crate::open("floor", &crate::TargetOptions::default()).expect("a map");
    for (mix, depth) in [(Mix::A, 1), (Mix::F, 8), (Mix::D, 2), (Mix::E, 1)] {
        let report = run(&Plan { mix, depth, clients: 2, ..quick() }, &[floor()]).expect("a report");
        assert!(report.is_clean(), "{}", report.table(Style::Plain));
    }
    let target = floor();
    let mut client = target.connect(0).expect("a client");
    for value in [&b"one"[..], b"two", b"three"] {
        client.put(b"key", value).expect("stored");
        let mut found = Vec::new();
        assert_eq!(client.get(b"key", &mut found), Ok(true));
        assert_eq!(found, value);
    }
    assert_eq!(target.describe().expect("an answer").items, Some(1));
    client.remove(&[b"key", b"other"]).expect("removed");
    assert_eq!(client.get(b"key", &mut Vec::new()), Ok(false));
    assert!(matches!(client.put(&[b'k'; 99], b"v"), Err(TargetError::Refused(_))));
}

#[test]
fn a_store_that_loses_refuses_or_dies_says_so() {
    let error = |plan: Plan, fault| one(&plan, fault).err().expect("an error").to_string();
    assert!(error(quick(), Fault::Forgets(100)).contains("kept only 100 of 500 records"));
    assert!(error(quick(), Fault::Full(100)).contains("map: loading: refused: out of memory"));
    assert!(error(quick(), Fault::Dies).contains("map: running: the test server died"));
    assert!(error(Plan { clients: 3, ..quick() }, Fault::Deaf).contains("nobody listens"));
    // Room for the records, none for the inserts.
    let report = one(&Plan { mix: Mix::D, ..quick() }, Fault::Full(500)).unwrap();
    let counts = report.points[0].results[0].summary.counts;
    assert!(counts.refused > 0 && counts.misses > 0 && !report.is_clean(), "{counts:?}");
}

#[test]
fn a_slow_store_is_charged_for_what_it_delays() {
    // Two milliseconds an operation, one due each half: a closed loop sees 2 ms, an open one the queue.
    let slow = Fault::Slow(Duration::from_millis(2));
    let plan = Plan { seconds: 0.1, runs: 1, records: 10, warmup_seconds: 0.0, ..Plan::default() };
    let closed = one(&plan, slow).unwrap();
    let open = one(&Plan { pace: Pace::Fixed(2000.0), ..plan.clone() }, slow).unwrap();
    let latency = |report: &Report| report.points[0].results[0].runs[0].latency;
    let service = open.points[0].results[0].runs[0].service.unwrap();
    assert!(latency(&closed).p50 < 20_000_000, "{:?}", latency(&closed));
    assert!(latency(&open).max > 60_000_000 && latency(&open).max > 3 * service.p50, "{:?}", latency(&open));
    let counts = open.points[0].results[0].summary.counts;
    assert_eq!(counts.operations + counts.unsent, 200, "every due operation is in the histogram: {counts:?}");
    assert!(open.table(Style::Plain).contains("never sent"));
}

#[test]
fn a_store_in_use_is_left_alone() {
    let (factory, map) = Memory::boxed("map", Fault::None);
    map.lock().unwrap().insert(b"precious".to_vec(), b"data".to_vec());
    let factories = [factory];
    let error = run(&quick(), &factories).err().unwrap().to_string();
    assert!(error.contains("holds 1 items already"), "{error}");
    assert_eq!(map.lock().unwrap().len(), 1);
    run(&Plan { into_nonempty: true, ..quick() }, &factories).unwrap();
    assert_eq!(map.lock().unwrap().get(&b"precious"[..]).map(Vec::as_slice), Some(&b"data"[..]));
    // What was empty is empty again.
    let (factory, map) = Memory::boxed("map", Fault::None);
    run(&quick(), &[factory]).unwrap();
    assert!(map.lock().unwrap().is_empty());
}

#[test]
fn sweeps_make_points() {
    for (sweep, points) in [
        (Sweep::ValueBytes(vec![8, 100, 5000]), 3),
        (Sweep::Clients(vec![1, 2]), 2),
        (Sweep::Depth(vec![1, 16]), 2),
        (Sweep::Rate(vec![1000.0, 5000.0]), 2),
        (Sweep::Limit(vec![1, 10]), 2),
    ] {
        let mix = if matches!(sweep, Sweep::Limit(_)) { Mix::Scans } else { Mix::C };
        let plan = Plan { mix, runs: 1, sweep: Some(sweep), ..quick() };
        let report = one(&plan, Fault::None).unwrap();
        assert_eq!(report.points.len(), points);
        assert!(report.is_clean());
        crate::report::tests::check_forms(&report);
    }
}

#[test]
fn plans_that_cannot_be_run_are_refused() {
    for (plan, word) in [
        (Plan { records: 0, ..quick() }, "records"),
        (Plan { clients: 0, ..quick() }, "clients"),
        (Plan { depth: 1 << 20, ..quick() }, "depth"),
        (Plan { seconds: f64::NAN, ..quick() }, "seconds"),
        (Plan { pace: Pace::Fixed(0.0), ..quick() }, "rate"),
        (Plan { pace: Pace::Poisson(f64::INFINITY), ..quick() }, "rate"),
        (Plan { runs: 0, ..quick() }, "runs"),
        (Plan { sweep: Some(Sweep::Clients(vec![])), ..quick() }, "sweep"),
        (Plan { sweep: Some(Sweep::Clients(vec![0])), ..quick() }, "clients"),
        (Plan { verify_every: 0, ..quick() }, "verify"),
    ] {
        let error = one(&plan, Fault::None).err().expect(word).to_string();
        assert!(error.contains(word), "{error}");
    }
    let twice = [Memory::boxed("same", Fault::None).0, Memory::boxed("same", Fault::None).0];
    assert!(run(&quick(), &twice).is_err() && run(&quick(), &[]).is_err());
    let plan: Plan = serde_json::from_str(r#"{"mix": "f", "pace": {"poisson": 1000}}"#).unwrap();
    assert_eq!(plan, Plan { mix: Mix::F, pace: Pace::Poisson(1000.0), ..Plan::default() });
    assert!(serde_json::from_str::<Plan>(r#"{"recordss": 1}"#).is_err());
}

/// Uses the CPU until this process has used so many seconds.
fn use_cpu(seconds: f64) {
    let begun = Instant::now();
    while cpu::own_seconds() < seconds {
        assert!(begun.elapsed() < Duration::from_secs(10), "a busy loop uses CPU time");
    }
}

#[test]
fn cpu_time_is_counted() {
    let pid = [std::process::id()];
    let (own, server) = (cpu::own_seconds(), cpu::seconds_of(&pid).unwrap());
    use_cpu(own + 0.05);
    let counted = cpu::seconds_of(&pid).unwrap() - server;
    assert!((0.02..5.0).contains(&counted), "{counted}");
    assert!(cpu::resident_of(&pid).unwrap() > 1 << 20);
    let (ends, ended) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        use_cpu(cpu::own_seconds() + 0.05);
        ended.recv()
    });
    use_cpu(cpu::own_seconds() + 0.05);
    let before = cpu::Threads::of(&pid).unwrap();
    use_cpu(cpu::own_seconds() + 0.05);
    drop(ends);
    let _ = other.join();
    // What a thread had that is gone is not taken away from the others.
    assert!(cpu::Threads::of(&pid).unwrap().seconds_since(&before) > 0.01);
    assert!(cpu::Threads::of(&[]).is_none() && cpu::Threads::of(&[u32::MAX]).is_none());
    assert_eq!((cpu::seconds_of(&[]), cpu::seconds_of(&[u32::MAX])), (None, None));
}

#[test]
fn the_listener_is_found() {
    use crate::url::Address;
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    assert_eq!(cpu::listener(&Address::Tcp("127.0.0.1".into(), port)), Some(std::process::id()));
    // TEST-NET-1: no address of ours, so nobody here listens on it.
    assert_eq!(cpu::listener(&Address::Tcp("192.0.2.1".into(), port)), None);
    let path = std::env::temp_dir().join(format!("longarm-bench-{}.sock", std::process::id()));
    let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert_eq!(cpu::listener(&Address::Unix(path.clone())), Some(std::process::id()));
    drop((tcp, unix));
    std::fs::remove_file(path).unwrap();
    assert_eq!(cpu::listener(&Address::Tcp("127.0.0.1".into(), port)), None);
}

#[test]
fn real_servers_are_compared_in_one_run() {
    let factories: Vec<_> = [PeerKind::Redis, PeerKind::Memcached].into_iter().filter_map(real).collect();
    if factories.is_empty() {
        return;
    }
    for (mix, depth) in [(Mix::A, 1), (Mix::F, 16)] {
        let report = run(&Plan { mix, depth, clients: 2, value_bytes: 1000, ..quick() }, &factories).unwrap();
        assert!(report.is_clean(), "{}", report.table(Style::Plain));
        for result in &report.points[0].results {
            assert!(result.summary.server_cpu.is_some() && result.resident.is_some(), "{}", result.target);
            assert!(result.summary.counts.operations > 20, "{}", result.target);
        }
        crate::report::tests::check_forms(&report);
    }
}

#[test]
fn a_real_redis_is_scanned() {
    if real(PeerKind::Redis).is_none() {
        return;
    }
    let options = crate::TargetOptions { ordered: true, ..crate::TargetOptions::default() };
    let target = || crate::open("redis", &options).expect("an installed server starts");
    for (mix, keys_only) in [(Mix::E, false), (Mix::Scans, true)] {
        let plan = Plan { mix, keys_only, clients: 2, ..quick() };
        let report = run(&plan, &[target(), crate::open("floor", &options).expect("a map")]);
        let report = report.expect("a report");
        assert!(report.is_clean(), "{}", report.table(Style::Plain));
        assert_eq!(report.points[0].results[0].server.items, Some(500), "the set is no item");
    }
}

#[test]
fn a_driver_that_panics_does_not_hang_the_run() {
    struct Panics;
    impl TargetFactory for Panics {
        fn label(&self) -> String {
            "panics".into()
        }
        fn connect(&self, client: usize) -> Result<Box<dyn crate::Target>, TargetError> {
            match client {
                2 => panic!("on purpose, in a test"),
                _ => Memory::boxed("map", Fault::None).0.connect(client),
            }
        }
        fn describe(&self) -> Result<ServerInfo, TargetError> {
            Ok(ServerInfo::default())
        }
    }
    let plan = Plan { clients: 4, load: false, ..quick() };
    let error = run(&plan, &[Box::new(Panics)]).err().unwrap().to_string();
    assert!(error.contains("panics: running: the driver panicked while connecting"), "{error}");
}

#[test]
fn how_alike_clients_fared_is_told_of_several() {
    for (clients, told) in [(1, false), (3, true)] {
        let report = one(&Plan { clients, ..quick() }, Fault::None).expect("a report");
        let runs = &report.points[0].results[0].runs;
        assert!(runs.iter().all(|run| run.uniformity.is_some_and(|ratio| ratio >= 1.0)));
        let text = report.table(Style::Plain);
        assert_eq!(text.contains("times what the slowest did"), told, "{text}");
    }
}

/// Idle clients are connected before the runs, kept through all of them, and counted in the report.
#[test]
fn idle_clients_stay_connected_and_are_told_of() {
    let plan = Plan { idle_clients: 7, clients: 2, ..quick() };
    let report = one(&plan, Fault::None).expect("a report");
    let idle = report.points[0].results[0].idle.as_ref().expect("idle clients");
    assert_eq!(idle.clients, 7);
    let text = report.table(Style::Plain);
    assert!(text.contains("beside 7 idle one(s)") && text.contains("7 idle clients connected in"), "{text}");
    let without = one(&quick(), Fault::None).expect("a report");
    assert!(without.points[0].results[0].idle.is_none());
}
