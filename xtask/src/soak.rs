//! `cargo x soak`: reader and writer processes are killed with SIGKILL at random while a server serves on.
//!
//! Afterwards the server must still answer, hold no more memory or descriptors than before the killing, know
//! no dead client, and a fresh `longarm inspect` must find every invariant in place.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::builds;

/// Client processes at once: half of them read, half of them also write.
const CLIENTS: usize = 4;
/// The first part of the run, after which memory must not grow.
const SETTLE: Duration = Duration::from_secs(15);
/// What memory may grow by after that: buffers of one more client, pages of the log.
const SLACK_KIB: u64 = 16 << 10;

/// What the server holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    rss_kib: u64,
    descriptors: usize,
}

/// Kills itself and its folder when dropped, whatever happened.
struct Server {
    child: Child,
    folder: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    let seconds = match args {
        [] => 60,
        ["--seconds", n] => n.parse::<u64>().map_err(|_| format!("{n} is no number of seconds"))?,
        _ => return Err("usage: cargo x soak [--seconds N]".into()),
    };
    let Some(program) = builds::longarm(root)? else { return Ok(false) };
    soak(&program, Duration::from_secs(seconds.max(20)))
}

fn soak(longarm: &Path, time: Duration) -> Result<bool, String> {
    let folder = std::env::temp_dir().join(format!("longarm-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let address = format!("shm:{}/s.sock", folder.display());
    let child = Command::new(longarm)
        .args(["server", "--memory", "256MiB", "--address", &address])
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("server: {e}"))?;
    let mut server = Server { child, folder };
    let pid = server.child.id();
    let start = Instant::now();
    let mut random = 0x9E37_79B9_7F4A_7C15u64 ^ u64::from(pid);
    let mut clients: Vec<Option<Child>> = (0..CLIENTS).map(|_| None).collect();
    let (mut killed, mut settled) = (0u64, None);
    wait_ready(longarm, &address)?;
    while start.elapsed() < time {
        for (i, client) in clients.iter_mut().enumerate() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if let Some(running) = client {
                // One in eight of these moments, which come every 50 ms: a life of some 0.4 s.
                if (random >> 40) & 7 == 0 {
                    running.kill().and_then(|()| running.wait()).map_err(|e| format!("kill: {e}"))?;
                    killed += 1;
                    *client = None;
                }
            } else {
                *client = Some(spawn_client(longarm, &address, i)?);
            }
        }
        if server.child.try_wait().map_err(|e| e.to_string())?.is_some() {
            return Err("the server died".into());
        }
        if settled.is_none() && start.elapsed() > SETTLE.min(time / 2) {
            settled = Some(held(pid)?);
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    for client in clients.iter_mut().flatten() {
        let _ = client.kill();
        let _ = client.wait();
    }
    judge(longarm, &address, pid, killed, settled.ok_or("the run was too short")?)
}

fn judge(longarm: &Path, address: &str, pid: u32, killed: u64, settled: Held) -> Result<bool, String> {
    // Deaths are noticed within two seconds.
    std::thread::park_timeout(Duration::from_secs(4));
    let end = held(pid)?;
    let stats = output(longarm, &["stats", "--json", "--address", address])?;
    let inspected = output(longarm, &["inspect", "--address", address]);
    println!("killed {killed} clients; settled {settled:?}; end {end:?}");
    let mut good = true;
    let mut check = |holds: bool, what: &str| {
        println!("{} {what}", if holds { "ok  " } else { "BAD " });
        good &= holds;
    };
    check(killed > 20, "clients were killed");
    check(end.rss_kib <= settled.rss_kib + SLACK_KIB, "the server's memory did not grow");
    check(end.descriptors <= settled.descriptors + 2, "nor did its descriptors");
    check(stats.matches("\"transport\"").count() <= 1, "it knows no dead client");
    check(inspected.is_ok(), "every invariant is in place (longarm inspect)");
    match inspected {
        Ok(text) => print!("{text}"),
        Err(text) => println!("{text}"),
    }
    Ok(good)
}

fn spawn_client(longarm: &Path, address: &str, i: usize) -> Result<Child, String> {
    let workload = if i.is_multiple_of(2) { "c" } else { "a" };
    let size = if i < 2 { "32B" } else { "700B" };
    Command::new(longarm)
        .args(["bench", workload, "--into-nonempty", "--keys", "20000", "--seconds", "600", "--runs", "1"])
        .args(["--warm-up", "0s", "--depth", "8", "--value-bytes", size, "--address", address])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("client: {e}"))
}

fn wait_ready(longarm: &Path, address: &str) -> Result<(), String> {
    let start = Instant::now();
    while let Err(why) = output(longarm, &["stats", "--address", address]) {
        if start.elapsed() > Duration::from_secs(10) {
            return Err(format!("the server does not answer: {why}"));
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    Ok(())
}

/// Standard output of a command that went well; else its error output.
fn output(longarm: &Path, args: &[&str]) -> Result<String, String> {
    let done = Command::new(longarm).args(args).output().map_err(|e| e.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stdout) + &text(&done.stderr)) }
}

fn held(pid: u32) -> Result<Held, String> {
    let status =
        std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|e| format!("server: {e}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let rss_kib = line.trim().trim_end_matches(" kB").trim().parse().map_err(|_| "VmRSS is no number")?;
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(|e| e.to_string())?.count();
    Ok(Held { rss_kib, descriptors })
}
