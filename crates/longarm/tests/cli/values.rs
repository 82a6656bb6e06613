//! Single values: stored, read, changed, removed.

use std::time::Instant;

use crate::harness::{PATIENCE, Server, finish, text};

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
