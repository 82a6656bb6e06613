//! `cargo x rdma`: every test that wants RDMA devices, in one virtual machine that has four of them.
//!
//! They are built with all other tests, and ignored where nobody asks for them: so nobody takes a test that
//! was skipped for one that passed. A machine that cannot start is a failure with its reason.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use crate::builds::cargo;

/// Packages with such tests, and which of their tests those are (the rest runs everywhere).
const SUITES: &[Suite] = &[
    Suite { package: "longarm-ibverbs", program: "device", filter: "" },
    Suite { package: "longarm-fabric", program: "verbs", filter: "" },
    Suite {
        package: "longarm-client",
        program: "longarm_client",
        filter: "tests::reads tests::packets tests::operations",
    },
    Suite { package: "longarm-group", program: "longarm_group", filter: "over_rdma" },
    Suite { package: "longarm-bench", program: "nic", filter: "" },
    Suite { package: "longarm", program: "rdma", filter: "" },
];
/// Bound on the machine, in seconds: an emulated machine on a busy host is slow, and groups of processes are
/// slowest there.
const LIMIT: u32 = 900;

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
    let said = build(root)?;
    for suite in SUITES {
        let binary = executable(&said, suite.program)
            .ok_or_else(|| format!("the tests of {} were not built:\n{said}", suite.package))?;
        // The tests of a crate expect to be where cargo would start them; one at a time, because some cut the
        // wire.
        let folder = root.join("crates").join(suite.package.trim_start_matches("longarm-"));
        script.push_str(&format!(
            "cd '{}' && '{}' --include-ignored --test-threads=1 {} || bad=1\n",
            folder.display(),
            root.join(binary).display(),
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

/// Builds all tests, as `cargo test` does: another choice would have cargo build nearly everything anew. What
/// cargo says of it.
fn build(root: &Path) -> Result<String, String> {
    let output = cargo()
        .args(["test", "--no-run", "--workspace"])
        .current_dir(root)
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("the tests do not build:\n{said}")) }
}

/// The program of this name that cargo says it made: `Executable tests/x.rs (target/debug/deps/x-0123)`.
fn executable<'a>(said: &'a str, program: &str) -> Option<&'a str> {
    let made = said.lines().filter(|line| line.trim_start().starts_with("Executable "));
    let mut paths = made.filter_map(|line| line.rsplit_once('(')?.1.strip_suffix(')'));
    paths.find(|path| {
        let file = path.rsplit_once('/').map_or(*path, |(_, file)| file);
        file.rsplit_once('-').is_some_and(|(name, _)| name == program)
    })
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
    fn the_program_is_found_in_what_cargo_says() {
        let said = "   Compiling a v0.1.0\n    Finished `test` profile\n  \
                    Executable unittests src/lib.rs (target/debug/deps/longarm_verbs-1f)\n  \
                    Executable tests/verbs/main.rs (target/debug/deps/verbs-f0ca)\n";
        assert_eq!(executable(said, "verbs"), Some("target/debug/deps/verbs-f0ca"));
        assert_eq!(executable(said, "longarm_verbs"), Some("target/debug/deps/longarm_verbs-1f"));
        assert_eq!(executable(said, "v"), None);
        assert_eq!(executable("error: no such package", "verbs"), None);
    }

    #[test]
    fn every_suite_is_of_a_package_that_stands_where_the_script_looks() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        for suite in SUITES {
            let folder = root.join("crates").join(suite.package.trim_start_matches("longarm-"));
            assert!(folder.join("Cargo.toml").is_file(), "{}", folder.display());
        }
    }
}
