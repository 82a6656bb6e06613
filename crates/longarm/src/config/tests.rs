use std::path::{Path, PathBuf};

use super::*;
use crate::config::check::check;

fn host() -> Host {
    Host { uid: 1000, runtime_dir: Some("/run/user/1000".into()) }
}

fn env(pairs: &[(&str, &str)]) -> Vec<Given> {
    env::parse(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string()))).0
}

fn flag(key: &'static str, value: &str) -> Given {
    Given { key, values: vec![value.into()], origin: Origin::Flag(format!("--{key}")) }
}

fn file(text: &str) -> Result<Vec<Given>, Vec<String>> {
    file::parse(Path::new("longarm.toml"), text)
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let config = Config::defaults(&host());
    let text = config.to_toml();
    for line in [
        "address = [\"shm:/run/user/1000/longarm-1000.sock\"] # default",
        "memory = \"1GiB\" # default",
        "workers = \"auto\" # default",
        "lease = \"10ms\" # default",
        "slot = 64 # default",
        "index_updates = \"in-place\" # default",
        "hugepages = \"auto\" # default",
        "eviction = \"none\" # default",
        "standby_index = \"idle\" # default",
        "ring_bytes = \"256KiB\" # default",
        "spin_us = 50 # default",
        "# data is not set # default",
        "durability = \"async\" # default",
        "loss_window = \"100ms\" # default",
        "scrub_rate = \"10MiB\" # default",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert_eq!(check(&config), check::Report::default(), "the defaults are not even doubtful");
    let bare = Config::defaults(&Host { uid: 7, runtime_dir: None });
    assert_eq!(bare.connect_address().to_string(), "shm:/tmp/longarm-7.sock");
}

#[test]
fn later_layers_win_and_every_value_knows_its_layer() {
    let mut layers = file("workers = 2\nmemory = '2GiB'\nlease = '20ms'\n").expect("a good file");
    layers.extend(env(&[("LONGARM_MEMORY", "3GiB"), ("LONGARM_LEASE", "30ms"), ("PATH", "/bin")]));
    layers.push(flag("lease", "40ms"));
    let config = load(&host(), layers).expect("good layers");
    assert_eq!((config.workers, config.memory, config.lease.as_millis()), (Some(2), 3 << 30, 40));
    assert_eq!(config.origin("workers"), Origin::File("longarm.toml".into(), 1));
    assert_eq!(config.origin("memory"), Origin::Env("LONGARM_MEMORY".into()));
    assert_eq!(config.origin("lease"), Origin::Flag("--lease".into()));
    assert_eq!(config.origin("slot"), Origin::Default);
}

#[test]
fn what_is_printed_loads_to_the_same_values() {
    let text = "address = ['tcp://127.0.0.1:1', 'shm:/run/a b.sock']\nslot = 16\neviction = 'lru'\n\
                log = 'debug'\nspin_us = 0\n[tls]\ncert = '/c\"1'\nserver_ca = 'd'\n";
    let first = load(&host(), file(text).expect("a good file")).expect("good values");
    let second = load(&host(), file(&first.to_toml()).expect("what we print")).expect("good values");
    for setting in SETTINGS {
        assert_eq!((setting.show)(&first), (setting.show)(&second), "{}", setting.key);
    }
    assert_eq!(second.tls.cert, Some(PathBuf::from("/c\"1")));
    assert_eq!(second.address.len(), 2);
}

#[test]
fn every_setting_can_be_set_and_shown() {
    for setting in SETTINGS {
        let value = match setting.key {
            "address" => "tcp://127.0.0.1:9",
            "memory" | "ring_bytes" | "scrub_rate" => "512KiB",
            "lease" | "timeout" | "loss_window" => "77ms",
            "durability" => "pmem",
            "pmem" => "file",
            "slot" => "16",
            "index_updates" => "out-of-place",
            "hugepages" => "on",
            "eviction" => "lru",
            "standby_index" => "always",
            "ordered" => "true",
            "log" => "debug",
            "workers" | "max_clients" | "spin_us" | "verbs.timeout" | "verbs.retries" => "3",
            "verbs.receives" => "99",
            "verbs.device" => "rxe0:1:2",
            _ => "/some/path",
        };
        let config = load(&host(), [flag(setting.key, value)]).expect(setting.key);
        let shown = match (setting.show)(&config) {
            Value::String(text) => text,
            Value::Array(items) => items[0].as_str().expect("text").to_string(),
            other => other.to_string(),
        };
        assert_eq!(shown, value, "{}", setting.key);
        assert_ne!((setting.show)(&Config::defaults(&host())), (setting.show)(&config), "{}", setting.key);
    }
}

#[test]
fn unknown_keys_are_errors_that_suggest_the_nearest() {
    let faults =
        file("memry = '1GiB'\n[tls]\ncrt = 'x'\n[replicas]\nn = 3\n").expect_err("three unknown keys");
    assert_eq!(faults.len(), 3, "all of them are reported: {faults:?}");
    let all = faults.join("\n");
    assert!(all.contains("longarm.toml:1: unknown setting \"memry\"; did you mean \"memory\"?"), "{all}");
    assert!(all.contains("longarm.toml:3: unknown setting \"tls.crt\"; did you mean \"tls.cert\"?"), "{all}");
    assert!(all.contains("\"replicas\"; `longarm --print-config`"), "{all}");
    let gone = file("arena_dir = '/var/lib/longarm'\n").expect_err("it is gone").join("\n");
    assert!(gone.contains("unknown setting \"arena_dir\"; it is gone: `data` keeps"), "{gone}");
}

#[test]
fn bad_values_name_the_setting_its_layer_and_the_form() {
    let mut layers = file("memory = '1XiB'\nworkers = -1\n").expect("the file parses");
    layers.extend(env(&[("LONGARM_SLOT", "32"), ("LONGARM_ADDRESS", " , ")]));
    layers.push(flag("lease", "10"));
    let faults = load(&host(), layers).expect_err("all bad").join("\n");
    for part in [
        "memory (longarm.toml:1): \"1XiB\" has no known unit",
        "workers (longarm.toml:2): \"-1\" is not a whole number",
        "slot (environment LONGARM_SLOT): \"32\" is not one of 64, 16",
        "address (environment LONGARM_ADDRESS): has no value",
        "lease (flag --lease): \"10\" has no known unit",
    ] {
        assert!(faults.contains(part), "{part} is not in\n{faults}");
    }
}

#[test]
fn broken_files_are_errors_with_a_line() {
    for (text, part) in [
        ("workers = 1\nworkers = 2\n", "longarm.toml:2: "),
        ("a = [", "longarm.toml:1: "),
        ("workers = true\n", "workers (longarm.toml:1): expected a string or a number"),
        ("workers = [1]\n", "expected a string or a number"),
        ("address = [[1]]\n", "expected a string or a list of strings"),
        ("[memory]\nx = 1\n", "memory (longarm.toml:1): expected"),
    ] {
        let faults = file(text).expect_err(text).join("\n");
        assert!(faults.contains(part), "{text:?}: {faults}");
    }
}

#[test]
fn the_environment_warns_of_near_names_only() {
    let variables = [("LONGARM_WORKER", "1"), ("LONGARM_SERVICE_HOST", "10.0.0.1"), ("LONGARM_CONFIG", "x")];
    let (given, warnings) = env::parse(variables.map(|(name, value)| (name.to_string(), value.to_string())));
    assert!(given.is_empty());
    assert_eq!(warnings, ["environment LONGARM_WORKER is ignored; did you mean LONGARM_WORKERS?"]);
}

#[test]
fn lists_come_from_one_variable_by_commas() {
    let config =
        load(&host(), env(&[("LONGARM_ADDRESS", "shm:/a.sock, tcp://localhost:7")])).expect("two addresses");
    assert_eq!(config.address.len(), 2);
    assert_eq!(config.connect_address().to_string(), "shm:/a.sock");
}

#[test]
fn the_check_finds_what_single_values_cannot_know() {
    let bad = [
        ("memory", "1MiB", "memory (flag --memory): 1MiB is out of range"),
        ("workers", "0", "workers (flag --workers): 0 is out of range"),
        ("lease", "0", "lease (flag --lease): 0s is out of range"),
        ("max_clients", "1000000", "out of range; expected 1 to 65536"),
        ("ring_bytes", "100KiB", "expected a power of two"),
        ("spin_us", "9999999999", "spin_us (flag --spin_us)"),
        ("timeout", "0", "timeout (flag --timeout)"),
        ("verbs.timeout", "0", "expected 1 to 31"),
        ("verbs.retries", "7", "expected 0 to 6"),
        ("verbs.receives", "3", "expected 16 to 4096"),
        ("tls.cert", "/none", "tls.cert (flag --tls.cert) needs tls.key beside it"),
        ("tls.client_ca", "/none", "needs tls.cert and tls.key"),
        ("secret_file", "/none/secret", "secret_file (flag --secret_file): /none/secret: No such file"),
        (
            "peer_secret_file",
            "/none/secret",
            "peer_secret_file (flag --peer_secret_file): /none/secret: No such",
        ),
    ];
    for (key, value, part) in bad {
        let config = load(&host(), [flag(Setting::find(key).expect(key).key, value)]).expect(key);
        let errors = check(&config).errors.join("\n");
        assert!(errors.contains(part), "{key} = {value}: {part} is not in\n{errors}");
    }
}

#[test]
fn an_open_door_and_a_readable_secret_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let open = load(&host(), [flag("address", "tcp://0.0.0.0:7000")]).expect("an address");
    assert!(check(&open).warnings.join("\n").contains("lets in everybody"));
    let node = load(&host(), [flag("cluster", "g.toml")]).expect("a node");
    let node = node.listening_at("tcp://0.0.0.0:7000".parse().expect("an address"));
    let warnings = check(&node).warnings.join("\n");
    assert!(warnings.contains("pass for replicas") && warnings.contains("peer_secret_file"), "{warnings}");
    let home = load(&host(), [flag("address", "tcp://127.0.0.1:7000")]).expect("an address");
    assert_eq!(check(&home).warnings, [""; 0]);

    let path = std::env::temp_dir().join(format!("longarm-secret-{}", std::process::id()));
    std::fs::write(&path, "0123456789abcdef").expect("a file");
    let judge = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("chmod");
        let config = load(&host(), [flag("secret_file", path.to_str().expect("ascii"))]).expect("a path");
        check(&config)
    };
    assert!(judge(0o644).warnings.join("\n").contains("chmod 600"));
    assert_eq!(judge(0o600), check::Report::default());
    std::fs::write(&path, "short").expect("a file");
    assert!(judge(0o600).errors.join("\n").contains("has 5 bytes; a secret has 16 to 4096"));
    std::fs::remove_file(&path).expect("clean up");
}

#[test]
fn flags_and_variables_have_unique_names() {
    let mut names: Vec<String> = SETTINGS.iter().flat_map(|s| [s.flag(), s.env()]).collect();
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    assert_eq!(Setting::find("tls.client_ca").expect("known").flag(), "tls-client-ca");
    assert_eq!(Setting::find("tls.client_ca").expect("known").env(), "LONGARM_TLS_CLIENT_CA");
}

proptest::proptest! {
    #[test]
    fn no_file_panics(text in "[a-z_.=\\[\\]\"'0-9\n #{},]{0,200}") {
        let _ = file(&text);
    }
}

#[test]
fn a_group_and_an_address_are_one_question() {
    let group = || flag("cluster", "g.toml");
    let from_env = || env(&[("LONGARM_ADDRESS", "shm:/a.sock")]);
    let config = load(&host(), from_env().into_iter().chain([group()])).expect("the flag holds");
    assert!(config.cluster.is_some() && config.origin("address") == Origin::Default);
    let again = load(&host(), file(&config.to_toml()).expect("our own text")).expect("one of them");
    assert_eq!(again.cluster, config.cluster, "the address is not stated beside it");
    let from_env = env(&[("LONGARM_CLUSTER", "g.toml")]);
    let config =
        load(&host(), from_env.into_iter().chain([flag("address", "shm:/a.sock")])).expect("the flag");
    assert!(config.cluster.is_none() && config.connect_address().to_string() == "shm:/a.sock");
    let both = load(&host(), [group(), flag("address", "shm:/a.sock")]).expect_err("two flags").join("\n");
    assert!(both.contains("address (flag --address) and cluster (flag --cluster) are both given"), "{both}");
}

#[test]
fn there_is_a_worker_a_core_up_to_a_few() {
    let alone = load(&host(), []).expect("defaults");
    assert_eq!([1, 2, 4, 64].map(|cores| alone.workers_of(cores)), [1, 2, 4, 4]);
    let small = load(&host(), [flag("memory", "100MiB")]).expect("a small one");
    assert_eq!(small.workers_of(64), 1);
    let tiny = load(&host(), [flag("memory", "16MiB")]).expect("a tiny one");
    assert_eq!(tiny.workers_of(64), 1);
    let node = load(&host(), [flag("cluster", "/some/cluster.toml")]).expect("a node");
    assert_eq!(node.workers_of(64), 1);
    let set = load(&host(), [flag("cluster", "/some/cluster.toml"), flag("workers", "7")]).expect("set");
    assert_eq!(set.workers_of(2), 7);
    let auto = load(&host(), [flag("workers", "auto")]).expect("auto");
    assert_eq!(auto.workers_of(2), 2);
}
