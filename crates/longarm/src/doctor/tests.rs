use std::net::IpAddr;

use longarm_fabric::verbs::{Attributes, DeviceInfo, Gid, GidKind, LoopbackReport, Port, Way};

use super::probe::{Device, Probe, Route};
use super::*;
use crate::config::{Config, Given, Host, Origin, load};

/// An invented machine: files below a directory of its own, removed with it.
struct Invented {
    machine: Machine,
}

impl Invented {
    fn new(name: &str, files: &[(&str, &str)]) -> Invented {
        let root = std::env::temp_dir().join(format!("longarm-doctor-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a file has a parent")).expect("directory");
            std::fs::write(path, text).expect("file");
        }
        let files = (Some(65_536), Some(65_536));
        Invented {
            machine: Machine { root, cores: 8, lockable: None, files, page: 4096, probe: no_library() },
        }
    }

    fn with(mut self, probe: Probe) -> Invented {
        self.machine.probe = probe;
        self
    }

    fn verdict(&self, name: &str, config: &Config) -> Finding {
        let found = examine(&self.machine, config);
        found
            .into_iter()
            .find(|finding| finding.name == name)
            .unwrap_or_else(|| panic!("nothing said of {name}"))
    }
}

impl Drop for Invented {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.machine.root);
    }
}

fn config(settings: &[(&'static str, &str)]) -> Config {
    let given = settings.iter().map(|(key, value)| Given {
        key,
        values: vec![value.to_string()],
        origin: Origin::Flag(format!("--{key}")),
    });
    load(&Host { uid: 0, runtime_dir: None }, given).expect("good settings")
}

const HUGE: &str = "sys/kernel/mm/hugepages/hugepages-2048kB";
const THP: &str = "sys/kernel/mm/transparent_hugepage/shmem_enabled";

fn good(name: &str) -> Invented {
    Invented::new(
        name,
        &[
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("proc/cpuinfo", "processor: 0\nflags\t\t: sse2 avx2 bmi2 clwb constant_tsc\n"),
            ("proc/meminfo", "MemTotal: 64000000 kB\nMemAvailable:   60000000 kB\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            (&format!("{HUGE}/nr_hugepages"), "2048"),
            (&format!("{HUGE}/free_hugepages"), "1024"),
            (THP, "always within_size [advise] never deny force\n"),
            ("sys/class/net/eth0/operstate", "up"),
            ("sys/class/net/eth0/speed", "25000"),
        ],
    )
}

#[test]
fn a_good_machine_has_nothing_to_do() {
    for finding in examine(&good("good").machine, &config(&[])) {
        assert_eq!((finding.verdict, finding.advice.as_str()), (Verdict::Ok, ""), "{finding:?}");
    }
}

#[test]
fn an_empty_machine_is_doubtful_but_does_not_fail() {
    let empty = Invented::new("empty", &[]);
    let findings = examine(&empty.machine, &config(&[]));
    assert!(findings.iter().all(|finding| finding.verdict != Verdict::Bad), "{findings:?}");
    let warned = findings.iter().filter(|finding| finding.verdict == Verdict::Warn).count();
    assert!(warned >= 6, "{findings:?}");
    assert!(
        findings.iter().all(|f| f.verdict == Verdict::Ok || !f.advice.is_empty()),
        "advice for each: {findings:?}"
    );
}

#[test]
fn an_old_kernel_is_bad() {
    let old = Invented::new("old", &[("proc/sys/kernel/osrelease", "4.19.0")]);
    assert_eq!(old.verdict("kernel", &config(&[])).verdict, Verdict::Bad);
    let odd = Invented::new("odd", &[("proc/sys/kernel/osrelease", "plan9")]);
    assert_eq!(odd.verdict("kernel", &config(&[])).verdict, Verdict::Warn);
}

#[test]
fn how_the_index_replaces_records_is_said_and_by_which_instruction() {
    let machine = good("updates");
    assert_eq!(machine.verdict("index", &config(&[])).found, "updates in-place");
    let out_of_place = config(&[("index_updates", "out-of-place")]);
    let found = machine.verdict("index", &out_of_place).found;
    assert_eq!(found, "updates out-of-place, lines written back by clwb; the memory itself is volatile");
    let served = config(&[("index_updates", "out-of-place"), ("data", "/d"), ("durability", "pmem")]);
    let found = machine.verdict("index", &served).found;
    assert!(found.ends_with("; a server serves from persistent memory"), "{found}");
}

#[test]
fn memory_is_compared_with_the_settings() {
    let machine = good("memory");
    assert_eq!(machine.verdict("memory", &config(&[("memory", "100GiB")])).verdict, Verdict::Bad);
    assert_eq!(machine.verdict("memory", &config(&[("memory", "56GiB")])).verdict, Verdict::Warn);
    let huge = machine.verdict("hugepages", &config(&[("memory", "4GiB")]));
    assert_eq!(huge.verdict, Verdict::Warn);
    assert!(
        huge.advice.contains("echo 3072 > /sys/kernel/mm/hugepages"),
        "1024 in use + 2048 more: {huge:?}"
    );
    let insist = config(&[("memory", "4GiB"), ("hugepages", "on")]);
    assert_eq!(machine.verdict("hugepages", &insist).verdict, Verdict::Bad);
    let never = config(&[("memory", "4GiB"), ("hugepages", "off")]);
    assert_eq!(machine.verdict("hugepages", &never).verdict, Verdict::Ok);
}

#[test]
fn small_limits_are_warned_of_with_the_number_to_set() {
    let mut machine = good("limits");
    machine.machine.files = (Some(1024), Some(1_048_576));
    let files = machine.verdict("files", &config(&[("max_clients", "1000")]));
    assert!(files.advice.contains("ulimit -n 5064, or set max_clients = 192"), "{files:?}");
    machine.machine.files = (Some(1024), Some(1024));
    assert!(machine.verdict("files", &config(&[])).advice.contains("LimitNOFILE="));
    machine.machine.cores = 1;
    assert!(machine.verdict("cores", &config(&[])).advice.contains("spin_us = 0"));
    assert!(machine.verdict("cores", &config(&[("workers", "2")])).advice.contains("at most 1"));
    machine.machine.page = 65_536;
    assert_eq!(machine.verdict("pages", &config(&[])).verdict, Verdict::Bad);
}

#[test]
fn a_slow_clock_and_small_shared_pages_are_warned_of() {
    let dir = "sys/devices/system/clocksource/clocksource0";
    let machine = Invented::new(
        "slow",
        &[
            (&format!("{dir}/current_clocksource"), "hpet"),
            (&format!("{dir}/available_clocksource"), "tsc hpet acpi_pm"),
            (THP, "always within_size advise [never] deny force"),
        ],
    );
    assert!(machine.verdict("clock", &config(&[])).advice.contains("echo tsc > /sys/devices"));
    assert!(machine.verdict("shmem-thp", &config(&[])).advice.contains("echo advise"));
}

#[test]
fn locked_memory_is_what_a_verbs_server_registers() {
    let mut machine = good("memlock");
    let verbs = config(&[("memory", "64MiB"), ("max_clients", "4"), ("address", VERBS)]);
    machine.machine.lockable = Some(129 << 20);
    let finding = machine.verdict("memlock", &verbs);
    // Twice the memory, 4 KiB of table and 2 MiB of rounding; and 4 times 256 KiB for the ring, 192 to send
    // from, 32 * 4 to receive, and what counts the receives.
    assert_eq!(finding.verdict, Verdict::Warn);
    assert!(finding.found.contains("locks up to 132MiB"), "{finding:?}");
    for part in ["ulimit -l 135", "LimitMEMLOCK=infinity"] {
        assert!(finding.advice.contains(part), "{finding:?}");
    }
    let shm = config(&[("memory", "64MiB"), ("max_clients", "4")]);
    let finding = machine.verdict("memlock", &shm);
    assert_eq!((finding.verdict, finding.advice.as_str()), (Verdict::Ok, ""), "nobody asks for a NIC");
    machine.machine.lockable = Some(133 << 20);
    assert_eq!(machine.verdict("memlock", &verbs).verdict, Verdict::Ok);
}

#[test]
fn the_memory_of_an_ordered_index_is_locked_too() {
    let mut machine = good("memlock-ordered");
    let verbs =
        |memory| config(&[("memory", memory), ("max_clients", "4"), ("address", VERBS), ("ordered", "true")]);
    machine.machine.lockable = Some(133 << 20);
    let finding = machine.verdict("memlock", &verbs("64MiB"));
    // Half of 64 MiB beside what is locked without it; and for each of 4 that scan 16 KiB for the ring, 192
    // to send from, and 32 * 4 to receive.
    assert_eq!(finding.verdict, Verdict::Warn);
    for part in ["locks up to 165MiB", "half of it for the ordered index"] {
        assert!(finding.found.contains(part), "{finding:?}");
    }
    machine.machine.lockable = Some(167 << 20);
    assert_eq!(machine.verdict("memlock", &verbs("64MiB")).verdict, Verdict::Ok);
    let finding = machine.verdict("memory", &verbs("24GiB"));
    assert_eq!(finding.verdict, Verdict::Bad);
    assert!(finding.found.contains("twice that and again half of it"), "{finding:?}");
    assert!(finding.advice.contains("less than 23437MiB"), "{finding:?}");
}

#[test]
fn a_capability_lifts_the_limit_but_not_in_a_container_without_privileges() {
    let verdict = |name: &str, files: &[(&str, &str)]| {
        let mut machine = Invented::new(name, files);
        machine.machine.lockable = Some(64 << 10);
        machine.verdict("memlock", &config(&[("address", VERBS)])).verdict
    };
    let with = ("proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
    assert_eq!(verdict("cap", &[with]), Verdict::Ok);
    assert_eq!(verdict("first", &[with, ("proc/self/uid_map", "  0   0 4294967295\n")]), Verdict::Ok);
    assert_eq!(verdict("other", &[with, ("proc/self/uid_map", "  0   1000 1\n")]), Verdict::Warn);
    assert_eq!(verdict("no-cap", &[("proc/self/status", "CapEff:\tffffffffffffbfff\n")]), Verdict::Warn);
    assert_eq!(verdict("odd-cap", &[("proc/self/status", "CapEff: what\n")]), Verdict::Warn);
}

#[test]
fn a_verbs_server_needs_its_memory_twice() {
    let machine = good("twice");
    let verbs = |memory| config(&[("memory", memory), ("address", VERBS)]);
    assert_eq!(machine.verdict("memory", &verbs("27GiB")).verdict, Verdict::Warn);
    let finding = machine.verdict("memory", &verbs("30GiB"));
    assert_eq!(finding.verdict, Verdict::Bad);
    assert!(finding.advice.contains("less than 29296MiB"), "{finding:?}");
}

const VERBS: &str = "verbs://10.9.0.1:7000";

fn no_library() -> Probe {
    Probe::NoLibrary("libibverbs cannot be used: not found; install it".into())
}

fn gid(index: u8, address: &str, kind: GidKind) -> Gid {
    let bytes = match address.parse().expect("an address") {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    Gid { index, bytes, kind }
}

/// An active Ethernet device with a READ that works over its last GID.
fn device(name: &str, gids: &[Gid]) -> Device {
    let attributes = Attributes {
        ports: 1,
        queue_pairs: 300,
        work_requests: 1024,
        completions: 1024,
        reads_served: 16,
        reads_posted: 16,
        registration: 1 << 40,
        atomics: true,
    };
    let port = Port { number: 1, active: true, ethernet: true, mtu: 1024, lid: 0, gids: 4 };
    let way = gids.last().map(|gid| Way { device: name.into(), port, gid: *gid });
    let read = gids.last().map(|gid| Ok(LoopbackReport { port: 1, gid: *gid, bytes: 64, nanos: 12_345 }));
    let survey = DeviceInfo { device: name.into(), attributes, ports: vec![(port, gids.to_vec())] };
    Device { survey, way, read }
}

fn two_gids() -> Device {
    let v2 = GidKind::RoceV2;
    device("rxe0", &[gid(0, "fe80::1", GidKind::IbOrRoceV1), gid(1, "10.9.0.1", v2)])
}

fn down() -> Device {
    let mut device = device("rxe1", &[gid(0, "10.9.0.2", GidKind::RoceV2)]);
    device.survey.ports[0].0.active = false;
    Device { way: None, read: None, ..device }
}

fn route(local: &str, way: Result<Way, String>) -> Route {
    Route { address: VERBS.into(), local: local.parse().ok(), way: Some(way) }
}

/// The files that the kernel shows for a device whose library part works.
const DEVICE: [(&str, &str); 3] = [
    ("sys/class/infiniband/rxe0/node_type", "1: CA"),
    ("sys/class/infiniband_verbs/uverbs0/ibdev", "rxe0\n"),
    ("dev/infiniband/uverbs0", ""),
];

#[test]
fn no_library_and_no_device_are_no_fault_unless_verbs_is_wanted() {
    let verbs = config(&[("address", VERBS)]);
    let none = Probe::Known(Vec::new(), Vec::new());
    for (name, probe, part) in [("no-library", no_library(), "install"), ("no-device", none, "rdma link add")]
    {
        let machine = good(name).with(probe);
        let finding = machine.verdict("rdma", &config(&[]));
        assert_eq!((finding.verdict, finding.advice.as_str()), (Verdict::Ok, ""), "{finding:?}");
        assert!(finding.found.contains(part) && finding.found.contains("shm and tcp serve"), "{finding:?}");
        let finding = machine.verdict("rdma", &verbs);
        assert_eq!(finding.verdict, Verdict::Bad, "{finding:?}");
        assert!(finding.advice.contains(part) && finding.advice.contains("tcp://"), "{finding:?}");
    }
}

#[test]
fn a_device_that_cannot_be_reached_is_said_with_its_file() {
    let advice = |name: &str, files: &[(&str, &str)], probe: Probe| {
        let finding = Invented::new(name, files).with(probe).verdict("rdma", &config(&[]));
        assert_eq!(finding.verdict, Verdict::Warn, "{finding:?}");
        assert!(finding.found.contains("rxe0"), "{finding:?}");
        finding.advice
    };
    let failed = || Probe::Failed("open_device on rxe0: Permission denied".into());
    let nothing = || Probe::Known(Vec::new(), Vec::new());
    assert!(advice("no-uverbs", &DEVICE[..1], nothing()).contains("modprobe ib_uverbs"));
    assert!(
        advice("no-file", &DEVICE[..2], nothing()).contains("/dev/infiniband/uverbs0, which is not there")
    );
    assert!(advice("no-provider", &DEVICE, nothing()).contains("ibverbs-providers"));
    assert!(advice("refused", &DEVICE, failed()).contains("container"));
    assert!(advice("without", &DEVICE, no_library()).contains("install libibverbs"));
    // Opening a file below a file fails for another reason than that the file is missing.
    let odd = [DEVICE[0], DEVICE[1], ("dev/infiniband", "")];
    assert!(advice("odd-file", &odd, failed()).contains("may not read and write /dev/infiniband/uverbs0"));
}

#[test]
fn devices_are_shown_with_ports_gids_and_a_read() {
    let way = two_gids().way.expect("ready");
    let probe = Probe::Known(vec![two_gids()], vec![route("10.9.0.1", Ok(way))]);
    let machine = Invented::new("devices", &DEVICE).with(probe);
    let verbs = config(&[("address", VERBS), ("max_clients", "300")]);
    for (name, found) in [
        ("rdma", "rxe0 with room for 300 queue pairs"),
        ("rdma-ports", "rxe0/1 active, Ethernet, MTU 1024"),
        ("rdma-gids", "rxe0/1: 0 fe80::1 RoCE v1, 1 10.9.0.1 RoCE v2 (chosen)"),
        ("rdma-read", "rxe0 to itself at 10.9.0.1: 64 bytes in 12.3 us"),
        ("rdma-address", "verbs://10.9.0.1:7000 takes rxe0/1, GID 1 10.9.0.1 RoCE v2"),
    ] {
        assert_eq!(machine.verdict(name, &verbs), Finding::ok(name, found));
    }
    let many = config(&[("address", VERBS), ("max_clients", "1000")]);
    assert!(machine.verdict("rdma", &many).advice.contains("max_clients to at most 300"));
    let scanned = config(&[("address", VERBS), ("max_clients", "300"), ("ordered", "true")]);
    assert!(machine.verdict("rdma", &scanned).advice.contains("max_clients to at most 150"));
}

#[test]
fn what_keeps_a_device_from_working_comes_with_advice() {
    let mut silent = two_gids();
    silent.read = Some(Err("READ 1 of 64: transport retry counter exceeded".into()));
    let machine = good("silent").with(Probe::Known(vec![silent, down()], Vec::new()));
    let advised = |machine: &Invented, name: &str, part: &str| {
        let finding = machine.verdict(name, &config(&[]));
        assert_eq!(finding.verdict, Verdict::Warn);
        assert!(finding.advice.contains(part), "{finding:?}");
    };
    advised(&machine, "rdma-read", "UDP port 4791");
    advised(&machine, "rdma-ports", "rxe1/1: bring its network interface up");
    let old = device("mlx0", &[gid(0, "10.9.0.1", GidKind::IbOrRoceV1)]);
    advised(&good("old-roce").with(Probe::Known(vec![old], Vec::new())), "rdma-gids", "no RoCE v2 GID");
    advised(&good("down").with(Probe::Known(vec![down()], Vec::new())), "rdma-read", "active first");
}

#[test]
fn a_verbs_address_without_its_device_is_told() {
    let verdict = |name: &str, route: Route| {
        let machine = good(name).with(Probe::Known(vec![two_gids()], vec![route]));
        machine.verdict("rdma-address", &config(&[("address", VERBS)]))
    };
    let way = || Ok(two_gids().way.expect("ready"));
    assert_eq!(verdict("nowhere", route("10.9.0.1", Err("no port".into()))).verdict, Verdict::Bad);
    let finding = verdict("elsewhere", route("192.0.2.1", way()));
    assert!(finding.advice.contains("peers must reach 10.9.0.1"), "{finding:?}");
    assert_eq!(verdict("local", route("127.0.0.1", way())).verdict, Verdict::Ok);
    let named = Route { address: "verbs://host:7000".into(), local: None, way: None };
    assert_eq!(verdict("named", named).verdict, Verdict::Ok);
}

#[test]
fn a_finding_has_one_form_for_people_and_one_for_scripts() {
    let finding = Finding::warn("clock", "hpet", "use tsc");
    assert_eq!(finding.to_text(), "warn  clock        hpet\n                   -> use tsc\n");
    assert_eq!(finding.to_json()["verdict"], "warn");
}

#[test]
fn this_machine_can_be_examined() {
    for config in [config(&[]), config(&[("address", "verbs://127.0.0.1:0")])] {
        let findings = examine(&Machine::this(&config), &config);
        assert!(findings.len() >= 12, "{findings:?}");
    }
}
