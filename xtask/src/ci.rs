//! `cargo x ci`: the steps of CI, one after another, with their times; ends with "N passed, N failed".

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::builds::as_from_shell;

/// One named check.
struct Step {
    name: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    /// More of them.
    more: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// Whether the step runs beside all others, when they leave a core idle: those that keep time, and wait
    /// for it, leave a third.
    beside: bool,
}

const fn cargo(name: &'static str, args: &'static [&'static str]) -> Step {
    Step { name, program: "cargo", args, more: &[], env: &[], beside: false }
}

const fn xtask(name: &'static str, args: &'static [&'static str]) -> Step {
    Step { more: args, ..cargo(name, &["run", "--quiet", "--package", "xtask", "--"]) }
}

/// The order is: what fails fastest first. What `cargo test` builds, all that run programs use.
const STEPS: &[Step] = &[
    cargo("fmt", &["fmt", "--all", "--check"]),
    xtask("tidy", &["tidy"]),
    cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    cargo("tests", &["test", "--workspace", "--no-fail-fast"]),
    // The program as the tests had it: to have cargo run it would build it once more.
    Step { program: "target/debug/longarm", ..cargo("man", &["man", "target/man"]) },
    Step {
        // The pages are for those who work on the code: links to private items lead somewhere.
        env: &[("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")],
        ..cargo("doc", &["doc", "--workspace", "--no-deps", "--all-features", "--document-private-items"])
    },
    // What CI has of the specifications: all mutants, and instances that take seconds.
    Step { beside: true, ..xtask("spec", &["spec"]) },
    // In its worlds nothing depends on what else runs.
    Step { beside: true, ..xtask("sim", &["sim", "--ci"]) },
    xtask("mutants", &["sim", "--mutants", "--by-tests"]),
    xtask("torture", &["torture", "--ci"]),
    xtask("rdma", &["rdma"]),
];

/// What became of a step.
struct Outcome {
    name: &'static str,
    good: bool,
    time: Duration,
    passed: u64,
    failed: u64,
    /// The last lines that it printed.
    last: VecDeque<String>,
}

/// Lines of a failed step that are shown again after the table, where a reader of a long log looks first.
const LAST: usize = 25;

/// Runs the steps that `args` do not leave out; `Ok(true)` if all were good.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    let without = without(args)?;
    let chosen = || STEPS.iter().filter(|step| !without.contains(&step.name));
    let outcomes = std::thread::scope(|scope| {
        let start = |step| scope.spawn(move || execute_beside(root, step));
        let beside: Vec<_> = chosen().filter(|step| step.beside).map(start).collect();
        let mut outcomes = Vec::new();
        for step in chosen().filter(|step| !step.beside) {
            println!("{}", title(step));
            outcomes.push(execute(root, step, as_from_shell(step.program), &mut std::io::stdout())?);
        }
        for step in beside {
            let (outcome, shown) = step.join().expect("a step does not panic")?;
            print!("{shown}");
            outcomes.push(outcome);
        }
        Ok::<_, String>(outcomes)
    })?;
    print!("{}", summary(&outcomes));
    Ok(outcomes.iter().all(|outcome| outcome.good))
}

fn title(step: &Step) -> String {
    format!("== {}: {} {} {}", step.name, step.program, step.args.join(" "), step.more.join(" "))
}

fn without<'a>(args: &[&'a str]) -> Result<Vec<&'a str>, String> {
    let mut names = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (*arg, args.next()) {
            ("--without", Some(name)) if STEPS.iter().any(|step| step.name == *name) => names.push(*name),
            ("--without", Some(name)) => return Err(format!("no step is called {name}")),
            ("--without", None) => return Err("--without names a step".into()),
            (other, _) => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(names)
}

/// Runs one step at the lowest priority; gives what it shows, too.
fn execute_beside(root: &Path, step: &Step) -> Result<(Outcome, String), String> {
    let mut shown = format!("{}\n", title(step)).into_bytes();
    let mut command = as_from_shell("nice");
    command.args(["-n", "19", step.program]);
    let outcome = execute(root, step, command, &mut shown)?;
    Ok((outcome, String::from_utf8_lossy(&shown).into_owned()))
}

/// Runs one step by its program, or by a `command` that calls that. What it prints is shown, and searched for
/// the test harness's result lines.
fn execute(root: &Path, step: &Step, mut command: Command, shown: &mut dyn Write) -> Result<Outcome, String> {
    let start = Instant::now();
    let mut child = command
        .args(step.args)
        .args(step.more)
        .envs(step.env.iter().copied())
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", step.program))?;
    let (mut passed, mut failed, mut last) = (0, 0, VecDeque::new());
    for line in BufReader::new(child.stdout.take().expect("piped")).split(b'\n') {
        let line = line
            .map(|line| String::from_utf8_lossy(&line).into_owned())
            .map_err(|error| format!("cannot read the output of {}: {error}", step.name))?;
        if let Some((more_passed, more_failed)) = counts(&line) {
            passed += more_passed;
            failed += more_failed;
        }
        writeln!(shown, "{line}").map_err(|error| format!("cannot show what {} says: {error}", step.name))?;
        last.push_back(line);
        if last.len() > LAST {
            last.pop_front();
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for {}: {error}", step.name))?;
    // A step that fails without naming a test is one failure; one that has no tests is one check.
    let good = status.success();
    match (good, passed + failed) {
        (true, 0) => passed = 1,
        (false, _) if failed == 0 => failed = 1,
        _ => {}
    }
    Ok(Outcome { name: step.name, good, time: start.elapsed(), passed, failed, last })
}

/// The numbers of a line such as `test result: ok. 5 passed; 0 failed; ...`.
fn counts(line: &str) -> Option<(u64, u64)> {
    let rest = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut parts = rest.split("; ");
    let passed = parts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = parts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

fn summary(outcomes: &[Outcome]) -> String {
    let mut text = format!("\n{:<10} {:>6} {:>9} {:>7} {:>7}\n", "step", "", "seconds", "passed", "failed");
    for outcome in outcomes {
        let verdict = if outcome.good { "ok" } else { "FAILED" };
        let seconds = outcome.time.as_secs_f64();
        text.push_str(&format!(
            "{:<10} {verdict:>6} {seconds:>9.1} {:>7} {:>7}\n",
            outcome.name, outcome.passed, outcome.failed
        ));
    }
    for outcome in outcomes.iter().filter(|outcome| !outcome.good) {
        text.push_str(&format!("\nthe end of {}:\n", outcome.name));
        // Not as the harness says it: lines of it are counted.
        for line in &outcome.last {
            text.extend("| ".chars().chain(line.chars().take(400)));
            text.push('\n');
        }
    }
    let passed: u64 = outcomes.iter().map(|outcome| outcome.passed).sum();
    let failed: u64 = outcomes.iter().map(|outcome| outcome.failed).sum();
    text.push_str(&format!("{passed} passed, {failed} failed\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_counted_and_others_are_not() {
        let line = "test result: FAILED. 41 passed; 1 failed; 0 ignored; 0 measured";
        assert_eq!(counts(line), Some((41, 1)));
        assert_eq!(counts("test result_of_something ... ok"), None);
        assert_eq!(counts("running 5 tests"), None);
    }

    #[test]
    fn the_summary_ends_with_the_plain_line() {
        let outcome = |good, passed, failed| {
            let last = VecDeque::from(["why".to_string()]);
            Outcome { name: "x", good, time: Duration::ZERO, passed, failed, last }
        };
        let text = summary(&[outcome(true, 3, 0), outcome(false, 4, 2)]);
        assert!(text.ends_with("\nthe end of x:\n| why\n7 passed, 2 failed\n"), "{text}");
        assert!(text.contains("FAILED"));
    }

    #[test]
    fn steps_can_be_left_out_by_their_names_only() {
        assert_eq!(without(&["--without", "tests", "--without", "doc"]), Ok(vec!["tests", "doc"]));
        assert!(without(&["--without", "nonsense"]).is_err());
        assert!(without(&["--without"]).is_err());
        assert!(without(&["tests"]).is_err());
    }

    #[test]
    fn what_runs_beside_is_shown_with_its_name() {
        let step = Step { program: "sh", beside: true, ..cargo("aside", &["-c", "nice; echo a; exit 1"]) };
        let (outcome, shown) = execute_beside(Path::new("/"), &step).expect("it runs");
        assert_eq!((outcome.good, shown.as_str()), (false, "== aside: sh -c nice; echo a; exit 1 \n19\na\n"));
    }

    #[test]
    fn a_failing_step_counts_as_a_failure() {
        let step = Step { program: "sh", ..cargo("bad", &["-c", "exit 3"]) };
        let outcome = execute(Path::new("/"), &step, as_from_shell("sh"), &mut Vec::new()).expect("it runs");
        assert_eq!((outcome.good, outcome.passed, outcome.failed), (false, 0, 1));
    }
}
