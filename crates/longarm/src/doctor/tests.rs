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
        Invented { machine: Machine { root, cores: 8, lockable: None, files, page: 4096 } }
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
    machine.machine.lockable = Some(64 << 10);
    assert_eq!(machine.verdict("memlock", &config(&[])).verdict, Verdict::Warn);
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
fn rdma_devices_are_named_with_what_they_lack() {
    let port = "sys/class/infiniband/rxe0/ports/1";
    let machine = Invented::new(
        "rdma",
        &[(&format!("{port}/state"), "1: DOWN\n"), (&format!("{port}/rate"), "2.5 Gb/sec (1X SDR)\n")],
    );
    let finding = machine.verdict("rdma", &config(&[]));
    assert_eq!(finding.verdict, Verdict::Warn);
    assert!(finding.found.contains("rxe0/1 1: DOWN 2.5 Gb/sec"), "{finding:?}");
    for part in ["rxe0/1: bring the link up", "ib_uverbs", "rdma_ucm"] {
        assert!(finding.advice.contains(part), "{finding:?}");
    }
    let none = good("no-rdma").verdict("rdma", &config(&[]));
    assert_eq!(none.verdict, Verdict::Ok);
}

#[test]
fn a_finding_has_one_form_for_people_and_one_for_scripts() {
    let finding = Finding::warn("clock", "hpet", "use tsc");
    assert_eq!(finding.to_text(), "warn  clock        hpet\n                   -> use tsc\n");
    assert_eq!(finding.to_json()["verdict"], "warn");
}

#[test]
fn this_machine_can_be_examined() {
    assert_eq!(examine(&Machine::this(), &config(&[])).len(), 12);
}
