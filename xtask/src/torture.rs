//! `cargo x torture`: real processes of a group, killed, stopped and cut off, while clients note what they
//! see (`longarm torture`, optimised). `--seconds N` is how long; what else follows goes to that program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How long CI does it, over each transport.
const CI: &str = "20s";
/// Times of a group in CI: whatever else runs there must not make a leader look lost.
const PATIENT: &[&str] = &["--suspect", "400ms", "--election", "2s"];

/// Runs it; `Ok(true)` if every answer was explained. `--ci`: a short one over each transport.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    let built =
        Command::new("cargo").args(["build", "--release", "-p", "longarm"]).current_dir(root).status();
    if !built.map_err(|error| format!("cannot run cargo: {error}"))?.success() {
        return Ok(false);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let torture = |args: &[String]| -> Result<bool, String> {
        let status = Command::new(target.join("release/longarm")).arg("torture").args(args).status();
        Ok(status.map_err(|error| format!("cannot run longarm: {error}"))?.success())
    };
    if let ["--ci"] = args {
        let over = |transport: &str| {
            let words = [&["--time", CI, "--transport", transport], PATIENT].concat();
            torture(&words.into_iter().map(String::from).collect::<Vec<_>>())
        };
        return Ok(over("shm")? && over("tcp")?);
    }
    torture(&translated(args)?)
}

/// `--seconds N` is `--time Ns`.
fn translated(args: &[&str]) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        if arg != "--seconds" {
            words.push(arg.to_string());
            continue;
        }
        let seconds = args.next().filter(|text| text.parse::<u32>().is_ok());
        let seconds = seconds.ok_or("--seconds wants a number")?;
        words.extend(["--time".to_string(), format!("{seconds}s")]);
    }
    Ok(words)
}

#[test]
fn seconds_are_a_time() {
    let words = translated(&["--transport", "tcp", "--seconds", "600"]).expect("good words");
    assert_eq!(words, ["--transport", "tcp", "--time", "600s"]);
    assert!(translated(&["--seconds"]).is_err() && translated(&["--seconds", "soon"]).is_err());
}
