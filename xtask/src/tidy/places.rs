//! What may stand only in named places: `unsafe`, the clock and sleeping, TLS.

use super::finding::Finding;
use super::source::code_only;
use super::tree::Tree;

/// Where shared bytes and system calls meet; each block carries its proof (clippy asks for it).
const UNSAFE: &[&str] = &[
    "crates/memory/src/",
    "crates/ibverbs/src/",
    "crates/fabric/src/shm/",
    "crates/fabric/src/tcp/",
    "crates/fabric/src/verbs/",
    "crates/sim/src/world/task.rs",
];
/// Who may know how many cores the machine has that it runs on: a simulated one has its own.
const CORES: &[&str] = &[
    "crates/bench/src/",
    "crates/fabric/src/verbs/",
    "crates/host/src/",
    "crates/longarm/src/",
    "crates/sim/src/main.rs",
];
/// Who lives in real time. Protocol code takes time as an argument.
const CLOCK: &[&str] = &[
    "crates/bench/src/",
    "crates/chaos/src/",
    "crates/fabric/src/",
    "crates/host/src/",
    "crates/longarm/src/",
    "crates/group/src/clock.rs",
];
const CLOCK_WORDS: [&str; 4] = ["Instant::now", "SystemTime::now", "thread::sleep", "clock_gettime"];
/// Who starts threads and waits for them. Server and client do it through the host, so that a simulated one
/// can stand in.
const THREADS: &[&str] = &[
    "crates/bench/src/",
    "crates/chaos/src/",
    "crates/fabric/src/",
    "crates/host/src/",
    "crates/longarm/src/",
    "crates/store/src/sync.rs",
];
const THREAD_WORDS: [&str; 4] = ["thread::spawn", "thread::Builder", "yield_now", "park_timeout"];

struct Rule {
    words: &'static [&'static str],
    places: &'static [&'static str],
    text: &'static str,
    /// Whether tests must keep it, too; they live in real time.
    tests: bool,
}

const RULES: [Rule; 5] = [
    Rule {
        words: &["unsafe"],
        places: UNSAFE,
        text: "belongs in crates/memory, or where a transport really needs it",
        tests: true,
    },
    Rule {
        words: &CLOCK_WORDS,
        places: CLOCK,
        text: "belongs in host, fabric, bench and the program",
        tests: false,
    },
    Rule {
        words: &THREAD_WORDS,
        places: THREADS,
        text: "belongs in host, which can be simulated",
        tests: false,
    },
    Rule {
        words: &["available_parallelism"],
        places: CORES,
        text: "is asked of host, which can be simulated",
        tests: false,
    },
    Rule {
        words: &["rustls"],
        places: &["crates/fabric/src/"],
        text: "is the transports' business",
        tests: true,
    },
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.product() {
        let code = code_only(&file.text);
        let is_test = file.path.contains("/tests");
        let binds = |rule: &&Rule| {
            (rule.tests || !is_test) && !rule.places.iter().any(|place| file.path.starts_with(place))
        };
        for rule in RULES.iter().filter(binds) {
            for (i, line) in code.lines().enumerate() {
                for word in rule.words.iter().filter(|word| has_word(line, word)) {
                    findings.push(Finding::new(&file.path, i + 1, format!("`{word}` {}", rule.text)));
                }
            }
        }
    }
    findings
}

/// `unsafe` but not `unsafe_code`.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

#[test]
fn each_word_is_found_outside_its_places_only() {
    let count = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
    assert_eq!(count("crates/index/src/a.rs", "unsafe { x() }"), 1);
    assert_eq!(count("crates/index/src/a.rs", "#![forbid(unsafe_code)] // unsafe"), 0);
    assert_eq!(count("crates/memory/src/a.rs", "unsafe { x() }"), 0);
    assert_eq!(count("crates/fabric/src/ring.rs", "unsafe { x() }"), 1);
    assert_eq!(count("crates/store/src/a.rs", "let t = Instant::now();"), 1);
    assert_eq!(count("crates/store/src/a.rs", "std::thread::sleep(d);"), 1);
    assert_eq!(count("crates/server/src/a.rs", "let t = Instant::now();"), 1);
    assert_eq!(count("crates/server/src/tests/a.rs", "let t = Instant::now();"), 0);
    assert_eq!(count("crates/host/src/a.rs", "let t = Instant::now();"), 0);
    assert_eq!(count("crates/server/src/a.rs", "std::thread::spawn(body);"), 1);
    assert_eq!(count("crates/server/src/a.rs", "std::thread::available_parallelism()"), 1);
    assert_eq!(count("crates/client/src/a.rs", "use rustls::X;"), 1);
}
