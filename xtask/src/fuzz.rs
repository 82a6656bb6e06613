//! `cargo x fuzz`: builds the fuzz targets with nightly Rust and runs them for a time each. It does what
//! `cargo fuzz` does, without needing it: coverage by LLVM's own pass, libFuzzer, AddressSanitizer.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::builds::{as_from_shell, status};

/// Longest input: every target does a bounded amount of work with it.
const INPUT_MAX: &str = "-max_len=4096";
const SECONDS: u64 = 60;
const LINES_KEPT: usize = 40;

/// As cargo-fuzz sets them.
const RUSTFLAGS: &str = "--cfg fuzzing -Zsanitizer=address -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// What one run said of itself.
#[derive(Default, PartialEq, Debug)]
struct Outcome {
    executions: u64,
    coverage: u64,
    inputs: u64,
    good: bool,
}

/// Runs the target that `args` name, or all; `Ok(true)` if none crashed.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    let fuzz = root.join("fuzz");
    let manifest = fuzz.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).map_err(|e| format!("{}: {e}", manifest.display()))?;
    let all = targets(&text)?;
    let (chosen, seconds) = parse(args, &all)?;
    let host = nightly_host()?;
    let built = build(&fuzz, &host, &chosen)?;
    let mut table = format!("\n{:<14} {:>12} {:>9} {:>7}\n", "target", "executions", "coverage", "inputs");
    let mut good = true;
    for name in chosen {
        println!("== {name}: {seconds} s");
        let outcome = execute(&fuzz, &built.join(name), name, seconds)?;
        let verdict = if outcome.good { "" } else { "  CRASHED" };
        let Outcome { executions, coverage, inputs, .. } = outcome;
        table.push_str(&format!("{name:<14} {executions:>12} {coverage:>9} {inputs:>7}{verdict}\n"));
        good &= outcome.good;
    }
    print!("{table}");
    Ok(good)
}

/// Names of the binaries in the manifest.
fn targets(manifest: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = manifest.parse().map_err(|error| format!("fuzz/Cargo.toml: {error}"))?;
    let bins = table.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    let names = bins.filter_map(|bin| bin.get("name")?.as_str().map(str::to_string)).collect::<Vec<_>>();
    if names.is_empty() { Err("fuzz/Cargo.toml names no target".into()) } else { Ok(names) }
}

/// The targets to run, and the seconds for each.
fn parse<'a>(args: &[&str], all: &'a [String]) -> Result<(Vec<&'a str>, u64), String> {
    let (mut chosen, mut seconds) = (Vec::new(), SECONDS);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if *arg == "--seconds" {
            let number = args.next().and_then(|number| number.parse().ok()).filter(|&number| number > 0);
            seconds = number.ok_or("--seconds needs a number of at least 1")?;
            continue;
        }
        let known = all.iter().find(|name| name == arg);
        chosen.push(known.ok_or_else(|| format!("no target is called {arg}: {}", all.join(", ")))?.as_str());
    }
    if chosen.is_empty() {
        chosen = all.iter().map(String::as_str).collect();
    }
    Ok((chosen, seconds))
}

/// `rustup run nightly`: a plain `+nightly` is only known to rustup's own cargo.
fn nightly(program: &str) -> Command {
    let mut command = as_from_shell("rustup");
    command.args(["run", "nightly", program]).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

fn nightly_host() -> Result<String, String> {
    let missing = "fuzzing needs nightly Rust: rustup toolchain install nightly --profile minimal";
    let output =
        nightly("rustc").arg("-vV").output().map_err(|error| format!("{missing} (rustup: {error})"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    match host {
        Some(host) if output.status.success() => Ok(host.to_string()),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{missing} ({})", said.lines().next().unwrap_or("rustc said nothing").trim()))
        }
    }
}

/// Builds the targets; where their binaries are.
fn build(fuzz: &Path, host: &str, chosen: &[&str]) -> Result<PathBuf, String> {
    let dir = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| fuzz.join("target"), PathBuf::from);
    let mut command = nightly("cargo");
    command.args(["build", "--release", "--target", host, "--target-dir"]).arg(&dir).current_dir(fuzz);
    for name in chosen {
        command.args(["--bin", name]);
    }
    command.env("RUSTFLAGS", RUSTFLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS");
    if !status(&mut command)? {
        return Err("the fuzz targets do not build (they need a C++ compiler for libFuzzer)".into());
    }
    // A relative directory is one below the folder that cargo ran in.
    Ok(fuzz.join(dir).join(host).join("release"))
}

fn prefixed(prefix: &str, path: &Path) -> OsString {
    let mut text = OsString::from(prefix);
    text.push(path);
    text.push("/");
    text
}

fn execute(fuzz: &Path, binary: &Path, name: &str, seconds: u64) -> Result<Outcome, String> {
    let (corpus, seeds) = (fuzz.join("corpus").join(name), fuzz.join("seeds").join(name));
    let artifacts = fuzz.join("artifacts").join(name);
    for dir in [&corpus, &artifacts] {
        std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    let mut command = Command::new(binary);
    command
        .arg(&corpus)
        .args(seeds.is_dir().then_some(&seeds))
        .arg(prefixed("-artifact_prefix=", &artifacts))
        .args([
            INPUT_MAX,
            "-len_control=10",
            // Of the wall clock: a busy machine must not look like an endless loop.
            "-timeout=60",
            "-rss_limit_mb=2048",
            "-malloc_limit_mb=256",
            "-print_final_stats=1",
            &format!("-max_total_time={seconds}"),
        ]);
    // Leaks are no matter of memory safety, and finding them needs rights that containers do not give.
    let child = command.env("ASAN_OPTIONS", "detect_leaks=0").stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    let (mut outcome, mut tail) = (Outcome::default(), Vec::new());
    for line in BufReader::new(child.stderr.take().expect("piped")).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read the output of {name}: {error}"))?;
        let line = String::from_utf8_lossy(&line).into_owned();
        if !note(&line, &mut outcome) {
            if tail.len() == LINES_KEPT {
                tail.remove(0);
            }
            tail.push(line);
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for {name}: {error}"))?;
    outcome.good = status.success();
    if !outcome.good {
        println!("{}\n{name} failed; its input is in {}", tail.join("\n"), artifacts.display());
        println!("again: {} INPUT", binary.display());
    }
    Ok(outcome)
}

/// Takes numbers from a line of libFuzzer; `true` if it is a mere report of progress.
fn note(line: &str, outcome: &mut Outcome) -> bool {
    if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
        outcome.executions = number.trim().parse().unwrap_or(0);
        return true;
    }
    let number_after = |word: &str| {
        let rest = line.split_once(word)?.1.trim_start();
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    if !line.starts_with('#') {
        return line.starts_with("stat::") || line.contains("# Uses:");
    }
    outcome.coverage = number_after(" cov:").unwrap_or(outcome.coverage);
    outcome.inputs = number_after(" corp:").unwrap_or(outcome.inputs);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<String> {
        targets("[[bin]]\nname = \"a\"\n[[bin]]\nname = \"b\"\npath = \"x\"\n").expect("two")
    }

    #[test]
    fn targets_come_from_the_manifest() {
        assert_eq!(all(), ["a", "b"]);
        assert!(targets("[package]\nname = \"x\"\n").is_err());
        assert!(targets("[[bin").is_err());
    }

    #[test]
    fn arguments_are_targets_and_seconds() {
        let all = all();
        assert_eq!(parse(&[], &all), Ok((vec!["a", "b"], SECONDS)));
        assert_eq!(parse(&["b", "--seconds", "5"], &all), Ok((vec!["b"], 5)));
        for bad in [&["c"][..], &["--seconds"], &["--seconds", "0"], &["--seconds", "x"]] {
            assert!(parse(bad, &all).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_numbers_of_a_run_are_read() {
        let mut outcome = Outcome::default();
        assert!(note(
            "#524288\tpulse  cov: 294 ft: 498 corp: 41/2098b lim: 4096 exec/s: 65536",
            &mut outcome
        ));
        assert!(note("stat::number_of_executed_units: 683388", &mut outcome));
        assert_eq!(outcome, Outcome { executions: 683388, coverage: 294, inputs: 41, good: false });
        assert!(!note("==1== ERROR: libFuzzer: deadly signal", &mut outcome));
        assert!(!note("thread panicked at src/ring.rs:1:1:", &mut outcome));
    }
}
