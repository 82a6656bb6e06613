//! `cargo x rdma`: every test that wants RDMA devices, in one virtual machine that has four of them.
//!
//! They are built with all other tests, and ignored where nobody asks for them: so nobody takes a test that
//! was skipped for one that passed. A machine that cannot start is a failure with its reason.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use crate::builds::Tests;

/// Packages with such tests, and which of their tests those are (the rest runs everywhere).
const SUITES: &[Suite] = &[
    Suite { package: "longarm-ibverbs", program: "device", filter: "" },
    Suite { package: "longarm-fabric", program: "verbs", filter: "" },
    Suite {
        package: "longarm-client",
        program: "longarm_client",
        filter: "tests::reads tests::packets tests::operations tests::trees_lent outgrew_its_memory",
    },
    Suite { package: "longarm-group", program: "longarm_group", filter: "over_rdma" },
    Suite { package: "longarm-bench", program: "nic", filter: "" },
    Suite { package: "longarm", program: "rdma", filter: "" },
];
/// Bound on the machine, in seconds: an emulated machine on a busy host is slow, and groups of processes are
/// slowest there.
const LIMIT: u32 = 1_500;

struct Suite {
    package: &'static str,
    /// As cargo calls it: of a test, or of the unit tests of a library.
    program: &'static str,
    filter: &'static str,
}

/// Builds the tests and runs them; `Ok(true)` if all passed.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    if !args.is_empty() {
        return Err("cargo x rdma takes no arguments: it runs all RDMA tests".into());
    }
    // The tests know the devices by variables.
    let mut script =
        "bad=0; export LONGARM_VERBS_DEVICES=rxe0,rxe1 LONGARM_VERBS_NODES=rxe1,rxe2,rxe3\n".to_string();
    let tests = Tests::build(root)?;
    for suite in SUITES {
        let program = tests.test(suite.program)?;
        // The tests of a crate expect to be where cargo would start them; one at a time, because some cut the
        // wire.
        let folder = root.join("crates").join(suite.package.trim_start_matches("longarm-"));
        script.push_str(&format!(
            "cd '{}' && '{}' --include-ignored --test-threads=1 {} || bad=1\n",
            folder.display(),
            program.display(),
            suite.filter
        ));
    }
    script.push_str("exit $bad\n");
    let start = Instant::now();
    let status = in_machine(LIMIT, &script)?;
    println!("cargo x rdma: {} in {:.0} s", verdict(status), start.elapsed().as_secs_f64());
    Ok(status.success())
}

fn verdict(status: ExitStatus) -> String {
    match status.code() {
        Some(0) => "all passed".into(),
        Some(1) => "tests failed".into(),
        _ => format!("the machine ended with {status}: see above"),
    }
}

/// Runs a script in a machine with four devices, rxe0 to rxe3, for so many seconds at most.
pub fn in_machine(limit: u32, script: &str) -> Result<ExitStatus, String> {
    let ourselves = std::env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
    Command::new(ourselves)
        .args(["vm", "-n", "4", "-m", "2560", "-t", &limit.to_string(), "--", "sh", "-c", script])
        .status()
        .map_err(|error| format!("cannot run cargo x vm: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_is_of_a_package_that_stands_where_the_script_looks() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        for suite in SUITES {
            let folder = root.join("crates").join(suite.package.trim_start_matches("longarm-"));
            assert!(folder.join("Cargo.toml").is_file(), "{}", folder.display());
        }
    }
}
