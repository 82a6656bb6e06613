//! One server on the second device, clients on the first.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use crate::{LONGARM, address, devices};

fn client(address: &str, words: &[&str]) -> Output {
    let mut command = Command::new(LONGARM);
    command.args(words).args(["--address", address, "--verbs-device", &devices().0, "--timeout", "20s"]);
    command.output().expect("run")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A server; killed when dropped.
struct Server(Child);

impl Server {
    fn start(address: &str) -> Server {
        let mut child = Command::new(LONGARM)
            .args(["server", "--address", address, "--memory", "64MiB"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("start a server");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let server = Server(child);
        let mut all = String::new();
        for line in lines.map_while(Result::ok) {
            if line.contains("listening at") {
                assert!(line.contains("RDMA"), "it says what serves: {line}");
                return server;
            }
            all.push_str(&line);
        }
        panic!("it ended without listening: {all}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn clients_put_get_and_see_their_transport() {
    let address = address(7101);
    let server = Server::start(&address);
    assert!(client(&address, &["put", "greeting", "hello"]).status.success());
    assert_eq!(client(&address, &["get", "greeting"]).stdout, b"hello");
    assert_eq!(client(&address, &["get", "absent"]).status.code(), Some(1));
    assert_eq!(client(&address, &["incr", "counter"]).stdout, b"1\n");
    let stats = said(&client(&address, &["stats"]));
    for part in [&format!("verbs {}", devices().1)[..], "rdma_queue_pairs", "rdma_registered_bytes"] {
        assert!(stats.contains(part), "{part} is not in {stats}");
    }
    let inspected = said(&client(&address, &["inspect"]));
    assert!(inspected.contains("sound"), "{inspected}");
    drop(server);
    let gone = client(&address, &["get", "greeting"]);
    assert_eq!(gone.status.code(), Some(3), "{}", said(&gone));
}

/// Real files and small items, read back byte for byte while a writer updates others. They are few: between
/// two devices an emulated machine with all these threads on two cores does some hundred GETs a second.
#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn the_demo_compares_real_files_over_rdma() {
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/demo");
    let words = ["demo", "--tree", tree, "--items", "100", "--writers", "1", "--time", "2s"];
    let output = client(&address(7102), &words);
    let said = said(&output);
    assert!(output.status.success() && said.contains("PASSED"), "{said}");
    assert!(said.contains("verbs") && said.contains("no difference"), "{said}");
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_server_that_may_not_lock_its_memory_says_the_remedy() {
    let script = "ulimit -l 8192 && exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \"$@\"";
    let output = Command::new("bash")
        .args(["-c", script, "bash", LONGARM, "server", "--address", &address(7103), "--memory", "64MiB"])
        .output()
        .expect("run");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    for part in ["may lock 8192 KiB", "ulimit -l", "longarm doctor"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn doctor_knows_the_devices() {
    let said = said(&client(&address(7104), &["doctor"]));
    for part in [&devices().0[..], "MTU", "RoCE v2", "memlock", "to itself"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

/// The server that the benchmark starts is on the device that answers the raw requests.
#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn raw_requests_are_measured_beside_gets() {
    let (near, far) = devices();
    let output = Command::new(LONGARM)
        .args(["bench", "get", "--keys", "200", "--seconds", "1", "--runs", "1", "--with-raw"])
        .args(["--transports", "verbs", "--verbs-device", &near, "--peer-device", &far])
        .output()
        .expect("run");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    for part in ["longarm-verbs", "READ 704 B", "CAS", "SEND 64 B", "median GET is"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}
