//! The simulator as its users meet it. It is built with the faults of `longarm_base::Mutant`, of which one is
//! on if it is named.

use std::process::Command;

/// Runs the simulator with this fault; what it prints to stdout and stderr, and its exit code.
fn run(mutant: &str, args: &[&str]) -> (String, String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longarm-sim"));
    let output = command.args(args).env("LONGARM_MUTANT", mutant).output().expect("the simulator runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.code().expect("not killed"))
}

#[test]
fn a_seed_is_run_again_to_the_letter() {
    let args = ["--scenario", "group-crashes", "--seeds", "3..5"];
    let (first, err, code) = run("none", &args);
    assert_eq!((err.as_str(), code), ("", 0), "{first}");
    assert!(first.contains("2 seeds") && first.contains(": 0 violations"), "{first}");
    assert_eq!(run("none", &args).0, first);
}

#[test]
fn a_fault_is_found_and_made_smaller_and_how_to_see_it_again_is_said() {
    let args = ["--scenario", "calm", "--seeds", "0..2", "--stop", "--reduce", "4"];
    let (out, _, code) = run("TrustSuperseded", &args);
    assert_ne!(code, 0, "{out}");
    assert!(out.contains("VIOLATION calm seed 0: an older version than was seen before the call"), "{out}");
    let less = out.lines().find_map(|line| line.trim().strip_prefix("less: cargo x sim "));
    let less: Vec<_> = less.expect("a smaller run").split(' ').collect();
    let (out, _, code) = run("TrustSuperseded", &less);
    assert!(code != 0 && out.contains("VIOLATION calm seed 0: "), "{out}");
    assert_eq!(run("none", &less).2, 0, "without the fault it is sound");
}

#[test]
fn bad_arguments_are_refused_and_named() {
    for (args, said) in [
        (["--scenario", "weahter"], "invalid value 'weahter' for '--scenario <SCENARIO>': there are calm, "),
        (["--seeds", "5..5"], "there is no seed in 5..5"),
        (["--seeds", "one"], "invalid value 'one' for '--seeds <SEEDS>'"),
    ] {
        let (out, err, code) = run("none", &args);
        assert_eq!((out.as_str(), code), ("", 2), "{err}");
        assert!(err.contains(said), "{err}");
    }
}
