//! A server's start and end, and what it refuses.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::{Server, finish, program, text, wait};

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
fn an_index_that_is_updated_out_of_place_serves_and_is_named() {
    for address in [None, Some("tcp://127.0.0.1:0")] {
        let directory = TempDir::new().expect("a directory");
        let shm = format!("shm:{}", directory.path().join("s").display());
        let address = address.map_or(shm, str::to_string);
        let server = Server::start_at(directory, address, &["--index-updates", "out-of-place"]);
        let large = "l".repeat(1000);
        for value in ["one", "two", large.as_str(), "three"] {
            server.ok(&["put", "key", value]);
            assert_eq!(server.ok(&["get", "key"]).trim_end(), value);
        }
        server.ok(&["put", "other", &large]);
        server.ok(&["del", "key"]);
        assert_eq!(server.run(&["get", "key"]).1, 1);
        assert_eq!(server.ok(&["get", "other"]).trim_end(), large);
        let stats = server.ok(&["stats"]);
        let line = stats.lines().find(|line| line.starts_with("index_updates")).expect("a line");
        assert!(line.ends_with(" out-of-place"), "{line}");
        let found = server.ok(&["inspect"]);
        assert!(found.contains("updates out-of-place") && found.contains("sound"), "{found}");
    }
}

#[test]
fn what_an_index_out_of_place_does_not_go_with_is_said() {
    for (flag, value) in [("--data", "/no/such/dir"), ("--ordered", "true")] {
        let mut command = program();
        command.args(["server", "--index-updates", "out-of-place", "--address", "shm:/tmp/longarm-x.sock"]);
        command.args([flag, value]);
        let output = finish(command, b"");
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains("index_updates (flag --index-updates)") && err.contains(flag), "{err}");
    }
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

/// Sends garbage over many connections, as no client would: the servers go on.
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
