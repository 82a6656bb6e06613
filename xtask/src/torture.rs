//! `cargo x torture`: real processes of groups, killed, stopped and cut off, while clients note what they
//! see (`longarm-chaos`, as it ships; in CI, as tests have it). `--seconds N` is how long; what else
//! follows goes to that program.
//! Over verbs it happens in a virtual machine with RDMA devices, at times that such a machine can keep.

use std::path::Path;
use std::process::Command;

use crate::builds::{Tests, programs};
use crate::rdma::in_machine;

/// What CI does. Relays between several groups, or five nodes, would want more than two cores. Little memory:
/// segments are collected all the time.
const CI: &[&str] = &[
    "--time 20s --transport shm --groups 3",
    "--time 12s --transport tcp",
    "--time 20s --transport tcp --nodes 5 --no-cuts --replica-memory 96MiB",
    // What comes back after all were killed.
    "--time 12s --transport shm --durability async --only kill-all --only kill-leader",
];
/// Times of a group in CI: whatever else runs there must not make a leader look lost.
const PATIENT: &str = "--suspect 400ms --election 2s";

/// What is different in an emulated machine, unless it is said otherwise.
const EMULATED: &[(&str, &str)] = &[
    ("--time", "60s"),
    ("--clients", "8"),
    ("--replica-memory", "64MiB"),
    ("--replica-workers", "1"),
    ("--lease", "1500ms"),
    ("--heartbeat", "100ms"),
    ("--suspect", "2500ms"),
    ("--election", "10s"),
    ("--replica-devices", "rxe1,rxe2,rxe3"),
];
/// Seconds that an emulated machine may take besides the faults: to begin, and to come to an end.
const MARGIN: u32 = 600;

/// Runs it; `Ok(true)` if every answer was explained. `--ci`: short ones over shm and tcp.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    if let ["--ci"] = args {
        let program = Tests::build(root)?.program("longarm-chaos");
        for words in CI {
            let words = words.split(' ').chain(PATIENT.split(' '));
            let words: Vec<String> = words.map(String::from).collect();
            if !torture(&program, &words)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    // It starts the other, which is to be beside it.
    let Some(folder) = programs(root, &["longarm", "longarm-chaos"])? else { return Ok(false) };
    let program = folder.join("longarm-chaos");
    let words = translated(args)?;
    if words.windows(2).any(|pair| pair == ["--transport", "verbs"]) {
        let (seconds, words) = emulated(words)?;
        let script = format!("LONGARM_VERBS_DEVICE=rxe0 exec '{}' {}", program.display(), words.join(" "));
        return Ok(in_machine(seconds + MARGIN, &script)?.success());
    }
    torture(&program, &words)
}

fn torture(program: &Path, words: &[String]) -> Result<bool, String> {
    let status = Command::new(program).args(words).status();
    Ok(status.map_err(|error| format!("cannot run longarm-chaos: {error}"))?.success())
}

/// What an emulated machine is to run, and how many seconds faults strike there.
fn emulated(mut words: Vec<String>) -> Result<(u32, Vec<String>), String> {
    for (option, value) in EMULATED {
        if !words.iter().any(|word| word == option) {
            words.extend([option.to_string(), value.to_string()]);
        }
    }
    let time =
        words.iter().skip_while(|word| *word != "--time").nth(1).and_then(|time| time.strip_suffix('s'));
    let seconds = time.and_then(|time| time.parse().ok());
    Ok((seconds.ok_or("over verbs, --time wants whole seconds, such as 600s")?, words))
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
    let (seconds, words) = emulated(words).expect("good words");
    assert_eq!((seconds, &words[4..6]), (600, &["--clients".to_string(), "8".to_string()][..]));
    assert!(emulated(vec!["--time".into(), "5m".into()]).is_err());
    assert!(translated(&["--seconds"]).is_err() && translated(&["--seconds", "soon"]).is_err());
}
