//! Peers in processes of their own, to be killed: this test binary once more, told by its environment what to
//! be.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::Setup;
use super::harness::*;
use crate::{Address, Channel, Completions, Grant, Op, QueuePair, Ticket};

const ROLE: &str = "LONGARM_CONFORMANCE_ROLE";
const ADDRESS: &str = "LONGARM_CONFORMANCE_ADDRESS";
const READY: &str = "conformance-child-ready ";

/// A child process; killed when dropped.
pub struct Process(Child);

impl Process {
    /// Starts this binary's `child` test in a role, and waits until it says it is ready; returns what it
    /// said.
    pub fn start<S: Setup>(role: &str, address: &Address) -> (Process, String) {
        let module = S::SUITE.split_once("::").expect("a module of a crate").1;
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", &format!("{module}::child"), "--include-ignored"])
            .args(["--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(ADDRESS, address.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a child");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let process = Process(child);
        for line in lines.map_while(Result::ok) {
            // The test harness may have written its own words before ours on the line.
            if let Some((_, said)) = line.split_once(READY) {
                return (process, said.to_string());
            }
        }
        panic!("the child in role {role} ended without being ready: is there a test {module}::child?");
    }

    /// Waits for its end; whether it came to one by itself.
    pub fn ends(&mut self) -> bool {
        self.0.wait().expect("wait").success()
    }

    /// SIGKILL, and wait until it is gone.
    pub fn kill(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[allow(clippy::print_stdout, reason = "it is how the parent learns that we are ready")]
fn ready(said: &str) {
    println!("{READY}{said}");
}

/// What the test `child` does: nothing, unless this process was started as a peer.
pub fn enter<S: Setup>() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let address: Address = std::env::var(ADDRESS).expect("an address").parse().expect("an address");
    match role.as_str() {
        "client" => client::<S>(&address, false),
        "heeding client" => client::<S>(&address, true),
        "server" => server::<S>(),
        other => panic!("no such role: {other}"),
    }
    // The parent reads no more: the harness's own last words would end in a broken pipe, and a complaint.
    std::process::exit(0);
}

/// Writes into the server's memory until it is killed or cut off.
fn client<S: Setup>(address: &Address, heeds: bool) {
    let grant = Grant { id: BACK, region: region("back"), rights: everything() };
    let mut qp = connect::<S>(address, vec![grant]).expect("connect").qp;
    let pause = Channel::new().expect("channel");
    if heeds {
        qp.heed_fence();
    }
    ready("");
    let mut completions = Completions::new(64);
    for i in 1..u64::MAX {
        let word = i.to_le_bytes();
        // Full is no matter: the next round posts again.
        let _ = qp.post(Op::Write { region: ALL, offset: i % 64 * 8, bytes: &word }, Ticket::SILENT);
        qp.ring();
        qp.poll(&mut completions);
        completions.clear();
        if qp.state().is_err() {
            return;
        }
        if heeds {
            // Seldom in the middle of a change, where a busy machine could hold it up.
            pause.wait(std::time::Duration::from_micros(50));
        }
    }
}

/// Lets one peer in and serves until it is killed.
fn server<S: Setup>() {
    let mut server = TestServer::<S>::new();
    ready(&server.address.to_string());
    let mut qp = server.accept();
    let mut completions = Completions::new(64);
    while qp.state().is_ok() {
        qp.poll(&mut completions);
        completions.clear();
        qp.wait(SOON);
    }
}
