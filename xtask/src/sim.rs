//! `cargo x sim`: runs seeds of the simulator, optimised. What follows goes to it: `--seeds 0..1000
//! --scenario pauses`. `--mutants` builds faults in (`mutants.rs`).

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::builds::{cargo, status};
use crate::mutants::{self, By, Finders};

/// Seeds of each scenario that CI always runs, and how many new ones: about a minute and a half on two cores.
const FIXED: &str = "0..12";
const FRESH: u64 = 6;

/// Runs the simulator; `Ok(true)` if nothing was violated. `--ci`: the seeds of CI, and the mutants that the
/// simulator finds; none of it keeps time. `--mutants --by-tests`: the others.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    match args {
        ["--ci"] => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            let fresh = format!("{}..{}", now << 10, (now << 10) + FRESH);
            // One build for all, and mutants say nothing if the program that has none is not sound.
            let finders = Finders::build(root, &[])?;
            let sound = |seeds| status(finders.simulator("none").args(["--seeds", seeds]));
            Ok(sound(FIXED)? && sound(&fresh)? && mutants::run(&finders, &[By::Simulator])?)
        }
        ["--mutants", "--by-tests"] => mutants::run(&Finders::build(root, &[])?, &[By::Tests]),
        ["--mutants", only @ ..] => {
            let finders = Finders::build(root, only)?;
            let sound = || status(finders.simulator("none").args(["--seeds", "0..5"]));
            Ok((!only.is_empty() || sound()?) && mutants::run(&finders, &[By::Simulator, By::Tests])?)
        }
        args => {
            let mut simulator = cargo();
            simulator.args(["run", "--quiet", "--release", "--package", "longarm-sim", "--"]);
            status(simulator.args(args).current_dir(root))
        }
    }
}

/// Features of the whole workspace are unified where all of it is built at once; what ships is built alone.
#[test]
fn what_ships_has_nothing_of_the_lab() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the workspace");
    let features = |package: &str| {
        let mut cargo = std::process::Command::new(env!("CARGO"));
        let args = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p} [{f}]"];
        let output = cargo.args(args).args(["--package", package]).current_dir(root).output();
        let output = output.expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let line = |tree: &str, package: &str| {
        tree.lines().find(|line| line.split(' ').next() == Some(package)).map(str::to_string)
    };
    let program = features("longarm");
    for package in ["longarm-sim", "corosensei", "longarm-chaos", "longarm-history"] {
        assert_eq!(line(&program, package), None, "{program}");
    }
    let without = |package, feature| line(&program, package).is_some_and(|line| !line.contains(feature));
    assert!(without("longarm-host", "observe") && without("longarm-memory", "simulated"), "{program}");
    assert!(!program.contains("mutants"), "{program}");
    let simulator = features("longarm-sim");
    let with = |package, feature| line(&simulator, package).is_some_and(|line| line.contains(feature));
    assert!(with("longarm-host", "observe") && with("longarm-memory", "simulated"), "{simulator}");
    assert!(line(&simulator, "corosensei").is_some(), "{simulator}");
}
