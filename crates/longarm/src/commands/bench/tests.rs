use clap::{Args as _, FromArgMatches};
use longarm_bench::workload::{Distribution, Mix};
use longarm_bench::{Pace, Sweep};

use super::*;
use crate::config::{Host, Slot};

fn args(words: &[&str]) -> Args {
    let command = Args::augment_args(clap::Command::new("bench"));
    let matches = command.try_get_matches_from(std::iter::once(&"bench").chain(words)).expect("good words");
    Args::from_arg_matches(&matches).expect("arguments")
}

fn plan(words: &[&str]) -> Result<Plan, Failure> {
    plan::of(&args(words))
}

#[test]
fn words_become_a_plan() {
    let usual = plan(&[]).expect("a plan");
    assert_eq!(usual, Plan { mix: Mix::C, ..Plan::default() });
    let words = [
        "95:5",
        "--keys",
        "4000000",
        "--value-bytes",
        "1KiB",
        "--depth",
        "32",
        "--clients",
        "2",
        "--seconds",
        "0.5",
        "--warm-up",
        "100ms",
        "--runs",
        "3",
        "--seed",
        "7",
        "--distribution",
        "zipfian",
        "--rate",
        "5000",
        "--poisson",
        "--key-form",
        "ycsb",
    ];
    let plan = plan(&words).expect("a plan");
    assert_eq!((plan.mix, plan.records, plan.value_bytes), (Mix::Reads(950), 4_000_000, 1024));
    assert_eq!((plan.depth, plan.clients, plan.runs, plan.seed), (32, 2, 3, 7));
    assert_eq!((plan.seconds, plan.warmup_seconds), (0.5, 0.1));
    assert_eq!(plan.pace, Pace::Poisson(5000.0));
    assert_eq!(plan.distribution, Some("zipfian".parse::<Distribution>().expect("a name")));
}

#[test]
fn shared_connections_are_of_a_longarm_alone() {
    assert_eq!(plan(&["--clients", "1,8", "--connections", "2"]).expect("a plan").connections, Some(2));
    assert_eq!(plan(&["--clients", "8"]).expect("a plan").connections, None);
    let command = Args::augment_args(clap::Command::new("bench"));
    let words = ["bench", "--connections", "2", "--compare", "redis"];
    let refused = command.try_get_matches_from(words).expect_err("Redis has no such client").to_string();
    assert!(refused.contains("--connections") && refused.contains("--compare"), "{refused}");
}

#[test]
fn several_values_are_a_sweep_of_one_setting() {
    let swept = |words: &[&str]| plan(words).expect("a plan").sweep;
    assert_eq!(swept(&["--clients", "1,2"]), Some(Sweep::Clients(vec![1, 2])));
    assert_eq!(swept(&["--value-bytes", "32,1KiB"]), Some(Sweep::ValueBytes(vec![32, 1024])));
    assert_eq!(swept(&["--depth", "1,32"]), Some(Sweep::Depth(vec![1, 32])));
    assert_eq!(swept(&["scan", "--limit", "10,100"]), Some(Sweep::Limit(vec![10, 100])));
    assert_eq!(swept(&["--rate", "10,20"]), Some(Sweep::Rate(vec![10.0, 20.0])));
    let both = plan(&["--clients", "1,2", "--depth", "1,2"]).expect_err("two sweeps");
    assert!(both.message.contains("--clients and --depth"), "{both:?}");
}

#[test]
fn nonsense_is_a_mistake_of_usage_that_names_the_flag() {
    for (words, named) in [
        (&["--distribution", "gauss"][..], "--distribution"),
        (&["get", "--limit", "10"], "limit"),
        (&["e", "--limit", "0"], "limit"),
        (&["scan", "--limit", "1,10", "--clients", "1,2"], "--limit"),
        (&["b", "--keys-only"], "keys only"),
        (&["scan", "--depth", "2"], "depth"),
        (&["e", "--into-nonempty"], "scans"),
        (&["--key-form", "md5"], "--key-form"),
        (&["--keys", "1,2"], "--keys"),
        (&["scan", "--connections", "2"], "connections"),
        (&["--depth", "1,2", "--connections", "2"], "connections"),
        (&["--keys", "0"], "records"),
        (&["--seconds", "nan"], "seconds"),
    ] {
        let failure = plan(words).expect_err(named);
        assert!(failure.exit == Exit::Usage && failure.message.contains(named), "{failure:?}");
    }
}

#[test]
fn a_server_gets_the_memory_that_the_plan_needs() {
    let memory = |words: &[&str]| own::memory_for(&plan(words).expect("a plan"), Transport::Shm, 1);
    assert_eq!(memory(&["--keys", "1000"]), 1 << 30);
    assert!(memory(&["--keys", "10000000"]) >= 10_000_000 * 200);
    let large = memory(&["--keys", "1000000", "--value-bytes", "32,4KiB"]);
    assert!(large >= 1_000_000 * 4096 * 3 / 2, "the largest of a sweep counts: {large}");
}

#[test]
fn groups_are_started_where_they_can_be() {
    let check = |words: &[&str], change: &dyn Fn(&mut Config)| {
        let mut config = Config::defaults(&Host { uid: 0, runtime_dir: None });
        change(&mut config);
        plan::check_replicas(&args(words), &plan(words).expect("a plan"), &config)
    };
    let message = |result: Result<(), Failure>| result.expect_err("an error").message;
    assert_eq!(check(&["--replicas", "3", "--transports", "shm,tcp"], &|_| {}), Ok(()));
    assert!(message(check(&["--replicas", "3", "--transports", "verbs"], &|_| {})).contains("verbs"));
    let named = |config: &mut Config| config.cluster = Some("g.toml".into());
    assert!(message(check(&["--replicas", "3"], &named)).contains("--cluster"));
    assert_eq!(check(&[], &named), Ok(()));
    assert_eq!(check(&["scan"], &named), Ok(()));
    assert!(message(check(&["e", "--replicas", "1"], &|_| {})).contains("--replicas 1"));
    assert!(message(check(&["e", "--transports", "verbs"], &|_| {})).contains("verbs"));
    let replicas = |words: &[&str]| plan::replicas(&args(words), &plan(words).expect("a plan"));
    assert_eq!([replicas(&["c"]), replicas(&["e"]), replicas(&["scan", "--replicas", "5"])], [1, 3, 5]);
    let memory = |replicas| {
        let small = plan(&["--keys", "10000000", "--value-bytes", "8"]).expect("a plan");
        own::memory_for(&small, Transport::Shm, replicas)
    };
    assert!(memory(3) > memory(1), "every item of a group is an entry");
}

#[test]
fn the_limits_of_the_machine_are_measured_in_a_moment() {
    let args = args(&["raw", "--seconds", "0.01", "--runs", "1"]);
    let report = raw::measure(&args, 20_000).expect("two megabytes can be had");
    assert!(report.results.iter().all(|result| result.nanos.median > 0.0) && report.results.len() > 5);
    assert!(report.bytes >= 20_000 * 64, "a table of 64-byte slots, not full");
    assert_eq!(raw::measure(&args, 0).expect_err("no table").exit, Exit::Usage);
    let huge = raw::measure(&args, 1 << 36).expect_err("seven terabytes");
    assert!(huge.exit == Exit::System && huge.hint.contains("--keys"), "{huge:?}");
}

#[test]
fn bare_devices_are_asked_for_what_the_workload_moves() {
    let sizes = |words: &[&str]| nic::sizes(&plan(words).expect("a plan"), Slot::Inline64);
    let small = sizes(&["put"]);
    assert!(small.inline, "16 and 32 bytes stand in a slot");
    assert_eq!(small.request, (112, 64), "headers of 16 and 40 bytes, the item, padded");
    let pointers = nic::sizes(&plan(&["put"]).expect("a plan"), Slot::Pointer16);
    assert!(!pointers.inline && pointers.pair < small.pair, "{pointers:?}");
    let long = sizes(&["get", "--value-bytes", "200"]);
    assert!(!long.inline && (200 + 16 + 40..320).contains(&long.entry), "{long:?}");
    let huge = sizes(&["get", "--value-bytes", "1MiB"]);
    assert_eq!((huge.entry, huge.request.0), (32 << 10, 32 << 10), "no more than bare devices are asked for");
}

#[test]
fn devices_are_measured_where_they_are_asked_for() {
    let wanted = |words: &[&str], change: &dyn Fn(&mut Config)| {
        let mut config = Config::defaults(&Host { uid: 0, runtime_dir: None });
        change(&mut config);
        nic::wanted(&args(words), &config)
    };
    let address = |text: &str| vec![text.parse().expect("an address")];
    assert!(!wanted(&["raw"], &|_| {}));
    assert!(!wanted(&["raw"], &|config| config.address = address("tcp://10.9.0.2:7000")));
    assert!(wanted(&["raw"], &|config| config.address = address("verbs://10.9.0.2:7000")));
    assert!(wanted(&["raw", "--peer-device", "mlx5_1"], &|_| {}));
    assert!(wanted(&["raw"], &|config| config.verbs.device = "mlx5_0".parse().ok()));
}
