//! The program as its users meet it: real processes, exit codes, signals, garbage, kills.
//!
//! Every wait is bounded, and every process is ended by its guard, also when a test fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longest that one call of the program may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longarm"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LONGARM_") {
            command.env_remove(name);
        }
    }
    // Many tests share few cores: an operation may wait for its turn.
    command.env("LONGARM_TIMEOUT", "20s");
    command
}

/// Runs to the end, with a bound.
fn finish(mut command: Command, stdin: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("piped");
    let stdin = stdin.to_vec();
    // A program that reads nothing closes the pipe.
    let feeder = std::thread::spawn(move || drop(input.write_all(&stdin)));
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let read_out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let read_err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).map(|_| bytes)
    });
    let status = wait(&mut child);
    feeder.join().expect("fed");
    Output {
        status,
        stdout: read_out.join().expect("joined").expect("read"),
        stderr: read_err.join().expect("joined").expect("read"),
    }
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("our child") {
            return status;
        }
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the program did not end within {PATIENCE:?}");
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server in a directory of its own.
struct Server {
    directory: TempDir,
    child: Child,
    address: String,
}

impl Server {
    fn start(flags: &[&str]) -> Server {
        let directory = TempDir::new().expect("a directory");
        let address = format!("shm:{}", directory.path().join("s").display());
        Server::start_at(directory, address, flags)
    }

    fn start_at(directory: TempDir, address: String, flags: &[&str]) -> Server {
        let mut command = program();
        command.env("LONGARM_MEMORY", "64MiB").args(["server", "--address", &address]).args(flags);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut server = Server { directory, child: child.expect("the program runs"), address };
        server.learn_address();
        server
    }

    /// Reads "listening at ADDRESS"; a thread reads the rest, so that the server never waits for us.
    fn learn_address(&mut self) {
        let lines = BufReader::new(self.child.stderr.take().expect("piped"));
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                // Nobody listens once the address is known.
                let _ = sender.send(line);
            }
        });
        let mut said = Vec::new();
        while let Ok(line) = receiver.recv_timeout(PATIENCE) {
            if let Some(rest) = line.split("listening at ").nth(1) {
                self.address = rest.split(' ').next().expect("a word").to_string();
                return;
            }
            said.push(line);
        }
        panic!("the server did not come up: {said:?}");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.env("LONGARM_ADDRESS", &self.address).args(args);
        command
    }

    /// Runs a client command; stdout and the exit code.
    fn run(&self, args: &[&str]) -> (String, i32) {
        let (out, _, code) = self.run_with(args, b"");
        (out, code)
    }

    fn run_with(&self, args: &[&str], stdin: &[u8]) -> (String, String, i32) {
        let output = finish(self.command(args), stdin);
        (text(&output.stdout), text(&output.stderr), output.status.code().expect("not killed"))
    }

    /// Runs a command that must succeed.
    fn ok(&self, args: &[&str]) -> String {
        let (out, err, code) = self.run_with(args, b"");
        assert_eq!(code, 0, "{args:?}: {out} {err}");
        out
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our child");
    }

    /// Ends it in good order and keeps its directory.
    fn stop(mut self) -> TempDir {
        self.signal(Signal::TERM);
        let status = wait(&mut self.child);
        assert_eq!(status.code(), Some(0), "SIGTERM is a good end");
        std::mem::replace(&mut self.directory, TempDir::new().expect("a directory"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn values_are_stored_read_changed_and_removed() {
    let server = Server::start(&[]);
    let version: u64 = server.ok(&["put", "greeting", "hello"]).trim().parse().expect("a version");
    assert_eq!(server.ok(&["get", "greeting"]), "hello", "bytes as they are, no line end off a terminal");
    assert_eq!(server.ok(&["get", "--with-version", "greeting"]), format!("{version}\thello"));
    assert_eq!(server.run(&["get", "nothing"]), (String::new(), 1));
    assert_eq!(server.run_with(&["get", "nothing"], b"").1, "not found: nothing\n");
    assert_eq!(server.run(&["get", "--exists", "greeting"]), (String::new(), 0));
    assert_eq!(server.run(&["put", "greeting", "other", "--if-absent"]), (format!("{version}\n"), 1));
    assert_eq!(server.run(&["put", "new", "x", "--if-present"]).1, 1);
    assert_eq!(server.run(&["cas", "greeting", "999999", "x"]), (format!("{version}\n"), 1));
    let next: u64 = server.ok(&["cas", "greeting", &version.to_string(), "bye"]).trim().parse().expect("one");
    assert!(next > version);
    assert_eq!(server.ok(&["get", "greeting"]), "bye");
    assert_eq!(server.ok(&["cas", "fresh", "0", "made"]).trim().parse::<u64>().ok(), Some(next + 1));
    assert_eq!(server.run(&["cas", "fresh", "0", "again"]).1, 1);
    assert_eq!(server.ok(&["incr", "visits"]), "1\n");
    assert_eq!(server.ok(&["incr", "visits", "-5"]), "-4\n");
    let (_, err, code) = server.run_with(&["incr", "greeting"], b"");
    assert!(code == 4 && err.contains("not a decimal number"), "{err}");
    assert_eq!(server.run(&["del", "greeting", "nothing"]), ("1\n".into(), 1));
    assert_eq!(server.run(&["get", "greeting"]).1, 1);
    server.ok(&["put", "short", "life", "--ttl", "50ms"]);
    let began = Instant::now();
    while server.run(&["get", "short"]).1 == 0 {
        assert!(began.elapsed() < PATIENCE, "it never expires");
    }
    server.stop();
}

#[test]
fn values_come_from_stdin_and_files_and_json_tells_everything() {
    let server = Server::start(&[]);
    let bytes: Vec<u8> = (0..=255u8).cycle().take(300_000).collect();
    let put = finish(server.command(&["put", "big", "-"]), &bytes);
    assert_eq!(put.status.code(), Some(0), "{}", text(&put.stderr));
    assert_eq!(finish(server.command(&["get", "big"]), b"").stdout, bytes);
    let file = server.path("copy");
    server.ok(&["get", "big", "--output", &file.display().to_string()]);
    assert_eq!(std::fs::read(&file).expect("a file"), bytes);
    server.ok(&["put", "copy", "--file", &file.display().to_string()]);
    assert_eq!(finish(server.command(&["get", "copy"]), b"").stdout, bytes);
    server.ok(&["put", "bin", "--file", "/dev/null"]);
    let found: serde_json::Value = serde_json::from_str(&server.ok(&["get", "bin", "--json"])).expect("JSON");
    assert_eq!((&found["found"], &found["value"]), (&true.into(), &"".into()));
    let (out, _, code) = server.run_with(&["get", "none", "--json"], b"");
    assert_eq!((out.trim(), code), (r#"{"found":false,"key":"none"}"#, 1));
    let stats: serde_json::Value = serde_json::from_str(&server.ok(&["stats", "--json"])).expect("JSON");
    assert_eq!(stats["items"], 3);
    assert!(server.ok(&["stats"]).contains("memory_limit"));
    let (_, err, code) = server.run_with(&["put", "k", "--file", "/none/at/all"], b"");
    assert!(code == 7 && err.contains("/none/at/all"), "{err}");
    let long = "k".repeat(1025);
    let (_, err, code) = server.run_with(&["put", &long, "v"], b"");
    assert!(code == 2 && err.contains("1025"), "{err}");
    server.stop();
}

#[test]
fn without_a_server_the_hint_says_what_to_do() {
    let output = finish(
        {
            let mut command = program();
            command.args(["get", "x", "--address", "shm:/tmp/longarm-no-such.sock", "--timeout", "200ms"]);
            command
        },
        b"",
    );
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("/tmp/longarm-no-such.sock") && err.contains("`longarm server"), "{err}");
}

#[test]
fn a_server_refuses_what_it_cannot_be() {
    let server = Server::start(&[]);
    let refused = |flags: &[&str]| {
        let mut command = program();
        command.arg("server").args(flags);
        let output = finish(command, b"");
        (text(&output.stderr), output.status.code())
    };
    let (err, code) = refused(&["--address", &server.address]);
    assert!(code == Some(7) && err.contains(server.address.trim_start_matches("shm:")), "in use: {err}");
    let (err, code) = refused(&["--address", "shm:/tmp/longarm-x.sock", "--memory", "1MiB"]);
    assert!(code == Some(2) && err.contains("memory"), "{err}");
    let (err, code) = refused(&["--address", "shm:/no/such/dir/s.sock"]);
    assert!(code == Some(7) && err.contains("/no/such/dir"), "{err}");
    let (err, code) = refused(&["--address", "carrier-pigeon:7"]);
    assert!(code == Some(2) && err.contains("expected shm:"), "{err}");
    assert_eq!(server.run(&["put", "still", "here"]).1, 0, "the one that runs is not disturbed");
}

#[test]
fn signals_end_a_server_in_good_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(&[]);
        server.ok(&["put", "a", "b"]);
        let socket = PathBuf::from(server.address.trim_start_matches("shm:"));
        assert!(socket.exists());
        server.signal(signal);
        assert_eq!(wait(&mut server.child).code(), Some(0));
        assert!(!socket.exists(), "the socket is removed");
    }
}

#[test]
fn a_server_follows_its_starter() {
    let directory = TempDir::new().expect("a directory");
    let mut command = program();
    let address = format!("shm:{}", directory.path().join("s").display());
    command.args(["server", "--stop-with-stdin", "--memory", "32MiB", "--address", &address]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    drop(child.stdin.take());
    assert_eq!(wait(&mut child).code(), Some(0));
}

#[test]
fn after_a_kill_the_address_serves_again() {
    let mut server = Server::start(&[]);
    server.ok(&["put", "a", "b"]);
    server.signal(Signal::KILL);
    wait(&mut server.child);
    assert_eq!(server.run(&["get", "a", "--timeout", "200ms"]).1, 3);
    let directory = std::mem::replace(&mut server.directory, TempDir::new().expect("a directory"));
    let again = Server::start_at(directory, server.address.clone(), &[]);
    assert_eq!(again.run(&["get", "a"]).1, 1, "its memory is new");
    again.ok(&["put", "a", "c"]);
    again.stop();
}

#[test]
fn tcp_asks_for_the_secret() {
    let directory = TempDir::new().expect("a directory");
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "a secret of some length\n").expect("written");
    let secret = secret.display().to_string();
    let server = Server::start_at(directory, "tcp://127.0.0.1:0".into(), &["--secret-file", &secret]);
    server.ok(&["put", "a", "b", "--secret-file", &secret]);
    assert_eq!(server.ok(&["get", "a", "--secret-file", &secret]), "b");
    let (_, err, code) = server.run_with(&["get", "a"], b"");
    assert_eq!(code, 4, "{err}");
    assert_eq!(
        server.ok(&["inspect", "--secret-file", &secret]).lines().last().map(|l| &l[..6]),
        Some("sound:")
    );
    server.stop();
}

/// Garbage instead of a client: each connection gets some, the server goes on.
#[test]
fn garbage_harms_nobody() {
    let server = Server::start(&[]);
    server.ok(&["put", "a", "b"]);
    let tcp = Server::start_at(TempDir::new().expect("a directory"), "tcp://127.0.0.1:0".into(), &[]);
    let mut state = 7u64;
    for round in 0..20 {
        let garbage: Vec<u8> = (0..round * 97)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let path = server.address.trim_start_matches("shm:");
        let mut unix = std::os::unix::net::UnixStream::connect(path).expect("it listens");
        let _ = unix.write_all(&garbage);
        let mut stream =
            std::net::TcpStream::connect(tcp.address.trim_start_matches("tcp://")).expect("it listens");
        let _ = stream.write_all(&garbage);
    }
    assert_eq!(server.ok(&["get", "a"]), "b");
    tcp.ok(&["put", "a", "c"]);
    server.stop();
    tcp.stop();
}

/// A tree with everything that makes trees hard.
fn make_tree(root: &Path) {
    let file = |path: &[u8], bytes: &[u8]| {
        let path = root.join(std::ffi::OsStr::from_bytes(path));
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, bytes).expect("a file");
    };
    file(b"empty", b"");
    file(b"deep/er/text.txt", b"text\nand\tmore\\ \"quoted\", and, commas\r\n");
    file(b"binary", &(0..=255u8).collect::<Vec<_>>());
    file(b"name \xFF\xFE that is no text", b"\xFF\xFE\x00 no text either");
    file(b"large", &vec![0xA5; 3 << 20]);
    for i in 0..200 {
        file(format!("many/{}/{i}", i % 7).as_bytes(), format!("{i}").repeat(i).as_bytes());
    }
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).expect("a link");
}

fn contents(root: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a kind");
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                let below = entry.path().strip_prefix(root).expect("below").to_path_buf();
                files.insert(below, std::fs::read(entry.path()).expect("a file"));
            }
        }
    }
    files
}

#[test]
fn what_is_dumped_loads_again() {
    let first = Server::start(&[]);
    let tree = first.path("tree");
    make_tree(&tree);
    let said = first.ok(&["load", &tree.display().to_string(), "--verify", "--clients", "2"]);
    assert!(said.contains("loaded 205 items") && said.contains("every byte equal"), "{said}");
    first.ok(&["put", "with time", "x", "--ttl", "1h"]);
    for format in ["jsonl", "csv", "tsv"] {
        let file = first.path(&format!("dump.{format}")).display().to_string();
        first.ok(&["dump", "--format", format, "--output", &file]);
        let second = Server::start(&[]);
        let said = second.ok(&["load", &file, "--verify"]);
        assert!(said.contains("loaded 206 items"), "{format}: {said}");
        let located = second.ok(&["inspect", "--key", "with time", "--json"]);
        let located: serde_json::Value = serde_json::from_str(&located).expect("JSON");
        assert!(located["key"]["expiry_ms"].as_u64().is_some_and(|ms| ms > 0), "{format}: {located}");
        second.ok(&["del", "with time"]);
        let out = second.path("out").display().to_string();
        second.ok(&["dump", "--format", "tree", "--output", &out]);
        assert_eq!(contents(Path::new(&out)), contents(&tree), "{format}");
        let (_, err, code) = second.run_with(&["dump", "--format", "tree", "--output", &out], b"");
        assert!(code == 2 && err.contains("not empty"), "never over files: {err}");
        second.stop();
    }
    first.stop();
}

#[test]
fn no_key_leaves_the_tree() {
    let server = Server::start(&[]);
    for key in ["../escape", "/tmp/longarm-escape", "a/../../b", "fine"] {
        server.ok(&["put", key, "x"]);
    }
    let out = server.path("out");
    let (_, err, code) =
        server.run_with(&["dump", "--format", "tree", "--output", &out.display().to_string()], b"");
    assert_eq!(code, 4, "{err}");
    assert!(
        err.contains("../escape") && err.contains("/tmp/longarm-escape") && err.contains("3 keys"),
        "{err}"
    );
    assert_eq!(contents(&out).len(), 1);
    assert!(!server.path("escape").exists() && !Path::new("/tmp/longarm-escape").exists());
}

#[test]
fn bad_records_are_named_and_passed_over() {
    let server = Server::start(&[]);
    let file = server.path("mixed.jsonl");
    let long = "k".repeat(2000);
    let lines = format!(
        "{{\"key\":\"a\",\"value\":\"1\"}}\nno json\n\n[1]\n{{\"key\":\"{long}\",\"value\":\"\"}}\n{{\"value\":\"x\"}}\n\
         {{\"key\":\"b\",\"value64\":\"***\"}}\n{{\"key\":\"c\",\"value\":\"3\",\"ttl_ms\":-1}}\n{{\"key\":\"z\",\"value\":26}}\n"
    );
    std::fs::write(&file, lines).expect("written");
    let (out, err, code) = server.run_with(&["load", &file.display().to_string(), "--verify"], b"");
    assert_eq!(code, 4, "{out} {err}");
    assert!(out.contains("loaded 2 items"), "{out}");
    for line in [2, 4, 5, 6, 7, 8] {
        assert!(err.contains(&format!("line {line}: ")), "line {line}: {err}");
    }
    assert!(err.contains("6 records were skipped"), "{err}");
    assert_eq!(server.ok(&["get", "z"]), "26");
    let table = server.path("t.csv");
    std::fs::write(&table, "id,name\n1,one\n2,\"two, too\"\n").expect("written");
    let table = table.display().to_string();
    let (_, err, code) = server.run_with(&["load", &table], b"");
    assert!(code == 2 && err.contains("\"key\"") && err.contains("id, name"), "{err}");
    server.ok(&["load", &table, "--key", "id", "--value", "2", "--prefix", "t/"]);
    assert_eq!(server.ok(&["get", "t/2"]), "two, too");
    let (out, _, code) = server.run_with(&["load", "-", "--format", "tsv", "--no-header"], b"k\ta\\tb\n");
    assert_eq!(code, 0, "{out}");
    assert_eq!(server.ok(&["get", "k"]), "a\tb");
    assert_eq!(server.run_with(&["load", "-"], b"").2, 2, "stdin has no name to tell the format by");
}

#[test]
fn verification_finds_what_differs() {
    let server = Server::start(&[]);
    let file = server.path("two.jsonl");
    // The last record of a key counts: this is no difference.
    std::fs::write(&file, "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"a\",\"value\":\"2\"}\n")
        .expect("written");
    server.ok(&["load", &file.display().to_string(), "--verify"]);
    let resume = server.path("state").display().to_string();
    server.ok(&["load", &file.display().to_string(), "--resume", &resume]);
    server.ok(&["put", "a", "other"]);
    // Everything was loaded before, so that only the comparison is left to do.
    let (out, err, code) =
        server.run_with(&["load", &file.display().to_string(), "--resume", &resume, "--verify"], b"");
    assert_eq!(code, 6, "{out} {err}");
    assert!(err.contains("line 2") && err.contains("FAILED"), "{err}");
}

#[test]
fn a_killed_load_goes_on_where_it_was() {
    let server = Server::start(&["--memory", "256MiB"]);
    let file = server.path("many.tsv");
    let mut lines = String::from("key\tvalue\n");
    for i in 0..400_000 {
        lines.push_str(&format!("key-{i}\tvalue of {i}\n"));
    }
    std::fs::write(&file, &lines).expect("written");
    let (source, state) = (file.display().to_string(), server.path("state").display().to_string());
    let args = ["load", &source, "--resume", &state, "--pipeline", "4"];
    let done = || -> u64 {
        let text = std::fs::read_to_string(&state).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|v| v["done"].as_u64()).unwrap_or(0)
    };
    let mut child =
        server.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let began = Instant::now();
    while done() == 0 && began.elapsed() < PATIENCE && child.try_wait().expect("our child").is_none() {
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    let before = done();
    assert!(before > 0, "some of it was noted");
    let (out, err, code) = server.run_with(&[&args[..], &["--verify", "--json"]].concat(), b"");
    assert_eq!(code, 0, "{out} {err}");
    let loaded: serde_json::Value = serde_json::from_str(out.lines().next().expect("a line")).expect("JSON");
    assert_eq!(loaded["loaded"].as_u64(), Some(400_000 - before), "only the rest");
    let verified: serde_json::Value =
        serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
    assert_eq!(verified["verified"], 400_000, "but everything is compared");
    // A changed source, and a server with an empty memory, are noticed.
    std::fs::write(&file, lines + "one\tmore\n").expect("written");
    let (_, err, code) = server.run_with(&args, b"");
    assert!(code == 2 && err.contains("changed"), "{err}");
    std::fs::write(&state, "nonsense").expect("written");
    assert_eq!(server.run(&args).1, 2);
    server.stop();
}

#[test]
fn a_full_server_says_so_and_names_the_record() {
    let server = Server::start(&["--memory", "16MiB"]);
    let tree = server.path("tree");
    std::fs::create_dir(&tree).expect("a directory");
    for i in 0..20 {
        std::fs::write(tree.join(format!("{i:02}")), vec![i; 2 << 20]).expect("a file");
    }
    let (_, err, code) = server.run_with(&["load", &tree.display().to_string()], b"");
    assert!(code == 4 && err.contains("out of memory") && err.contains("key \""), "{err}");
    assert_eq!(finish(server.command(&["get", "00"]), b"").stdout.len(), 2 << 20, "reads go on");
    server.ok(&["del", "00"]);
}

/// Fills an arena that is kept in files, and gives its directory and the server's.
fn saved_arena(kill: bool) -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("a directory");
    let arena = directory.path().join("arena");
    std::fs::create_dir(&arena).expect("a directory");
    let address = format!("shm:{}", directory.path().join("s").display());
    let mut server = Server::start_at(directory, address, &["--arena-dir", &arena.display().to_string()]);
    let tree = server.path("tree");
    make_tree(&tree);
    server.ok(&["load", &tree.display().to_string()]);
    for i in 0..50 {
        server.ok(&["put", &format!("small {}", i % 10), &format!("{i}")]);
    }
    let live = server.ok(&["inspect", "--segments"]);
    assert!(
        live.contains("live server over shm") && live.contains("215:") && live.contains("sound"),
        "{live}"
    );
    if kill {
        server.signal(Signal::KILL);
        wait(&mut server.child);
        let directory = std::mem::replace(&mut server.directory, TempDir::new().expect("a directory"));
        return (directory, arena);
    }
    (server.stop(), arena)
}

fn inspect(arena: &Path, more: &[&str]) -> (String, String, Option<i32>) {
    let mut command = program();
    command.arg("inspect").arg("--arena").arg(arena).args(more);
    let output = finish(command, b"");
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn a_saved_arena_is_sound_and_can_be_dumped() {
    for kill in [false, true] {
        let (directory, arena) = saved_arena(kill);
        let (out, err, code) = inspect(&arena, &["--key", "large"]);
        assert_eq!(code, Some(0), "{out} {err}");
        assert!(out.contains("sound") && out.contains("value_bytes 3145728"), "{out}");
        assert_eq!(out.contains("said goodbye"), !kill, "{out}");
        assert_eq!(inspect(&arena, &["--key", "nothing"]).2, Some(1));
        let out = directory.path().join("out");
        let mut command = program();
        command.args(["dump", "--format", "tree", "--prefix", "many/"]).arg("--arena").arg(&arena);
        command.arg("--output").arg(&out);
        assert_eq!(finish(command, b"").status.code(), Some(0));
        assert_eq!(contents(&out), contents(&directory.path().join("tree/many")));
    }
}

#[test]
fn inspect_finds_a_flipped_byte() {
    let (_directory, arena) = saved_arena(false);
    let flip = |file: &str, needle: &[u8]| {
        let path = arena.join(file);
        let bytes = std::fs::read(&path).expect("a file");
        let at = bytes.windows(needle.len()).rposition(|window| window == needle).expect("it is there");
        let mut changed = bytes.clone();
        changed[at + needle.len() / 2] ^= 0x10;
        std::fs::write(&path, changed).expect("written");
        let found = inspect(&arena, &[]);
        let json = inspect(&arena, &["--json"]);
        std::fs::write(&path, bytes).expect("written");
        let report: serde_json::Value = serde_json::from_str(&json.0).expect("JSON");
        assert_eq!((json.2, &report["sound"]), (Some(6), &false.into()), "{}", json.0);
        found
    };
    let (out, err, code) = flip("segments.arena", "quoted".as_bytes());
    assert!(code == Some(6) && err.contains("arena: segment") && err.contains("checksum"), "{out} {err}");
    let (out, err, code) = flip("index.arena", b"small 3");
    assert!(code == Some(6) && err.contains("index: pair") && err.contains("does not verify"), "{out} {err}");
    assert_eq!(inspect(&arena, &[]).2, Some(0), "sound again");
    // What is no arena, or is not whole, is said in words.
    let path = arena.join("index.arena");
    let whole = std::fs::metadata(&path).expect("a file").len();
    std::fs::OpenOptions::new().write(true).open(&path).and_then(|f| f.set_len(whole / 2)).expect("cut");
    let (_, err, code) = inspect(&arena, &[]);
    assert!(code == Some(6) && err.contains("index.arena"), "{err}");
    assert_eq!(inspect(Path::new("/"), &[]).2, Some(7));
}

#[test]
fn a_demo_passes_and_leaves_nothing_behind() {
    let directory = TempDir::new().expect("a directory");
    let tree = directory.path().join("tree");
    make_tree(&tree);
    let demo = |tree: &Path, time: &str| {
        let mut command = program();
        command.args(["demo", "--items", "20000"]).args(["--time", time]).arg("--tree").arg(tree);
        command.env("TMPDIR", directory.path());
        command
    };
    let output = finish(demo(&tree, "1s"), b"");
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out} {}", text(&output.stderr));
    assert!(out.contains("PASSED") && out.contains("transport shm") && out.contains("205 files"), "{out}");
    let left = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory.path()).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| *path != tree).collect()
    };
    assert_eq!(left(), Vec::<PathBuf>::new());
    let pid = |out: &str| -> i32 {
        let word = out.split("pid ").nth(1).and_then(|rest| rest.split(',').next()).expect("a pid");
        word.parse().expect("a number")
    };
    let gone = |pid: i32| {
        let began = Instant::now();
        while Path::new(&format!("/proc/{pid}")).exists() {
            assert!(began.elapsed() < PATIENCE, "process {pid} is still there");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    };
    gone(pid(&out));
    // Interrupted in the middle: the same.
    let mut child = demo(&tree, "50s").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let child = child.as_mut().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let first = lines.next().expect("a line").expect("text");
    kill_process(Pid::from_child(child), Signal::INT).expect("our child");
    let rest = lines.map_while(Result::ok).count();
    assert_eq!(wait(child).code(), Some(7), "interrupted, after {rest} more lines");
    gone(pid(&first));
    assert_eq!(left(), Vec::<PathBuf>::new());
}
