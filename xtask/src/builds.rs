//! How other programs are called that build: cargo above all.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program, called as a shell would: without what `cargo run` told us of our own package. Build scripts
/// look at that (`ring` does), so a build by us and one by hand would each undo the other.
pub fn as_from_shell(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let ours = |prefix: &&str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(ours) {
            command.env_remove(name);
        }
    }
    command
}

/// That, of cargo.
pub fn cargo() -> Command {
    as_from_shell("cargo")
}

/// Runs cargo; whether it was content.
pub fn status(cargo: &mut Command) -> Result<bool, String> {
    Ok(cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?.success())
}

/// Builds the program, optimised; where it is, if it builds.
pub fn longarm(root: &Path) -> Result<Option<PathBuf>, String> {
    Ok(programs(root, &["longarm"])?.map(|folder| folder.join("longarm")))
}

/// Builds the programs of these packages as they ship; the folder where they are, if they build.
pub fn programs(root: &Path, packages: &[&str]) -> Result<Option<PathBuf>, String> {
    let mut build = cargo();
    build.args(["build", "--release"]).args(packages.iter().flat_map(|package| ["-p", package]));
    if !status(build.current_dir(root))? {
        return Ok(None);
    }
    Ok(Some(target(root).join("release")))
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

/// All tests, and the programs that some of them run: as `cargo test` has them, since another choice would
/// have cargo build nearly everything anew. They are optimised, and can have faults built in
/// (`longarm_base::Mutant`).
pub struct Tests {
    root: PathBuf,
    /// What cargo said of them.
    said: String,
}

impl Tests {
    /// Builds them.
    pub fn build(root: &Path) -> Result<Tests, String> {
        let output = cargo()
            .args(["test", "--no-run", "--workspace"])
            .current_dir(root)
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            Ok(Tests { root: root.to_path_buf(), said })
        } else {
            Err(format!("the tests do not build:\n{said}"))
        }
    }

    /// The test program of this name.
    pub fn test(&self, program: &str) -> Result<PathBuf, String> {
        let path = executable(&self.said, program);
        path.map(|path| self.root.join(path))
            .ok_or(format!("{program} is not among the tests:\n{}", self.said))
    }

    /// The program of this name that tests run.
    pub fn program(&self, name: &str) -> PathBuf {
        target(&self.root).join("debug").join(name)
    }
}

/// The test program of this name that cargo says it made: `Executable tests/x.rs (target/debug/deps/x-0123)`.
fn executable<'a>(said: &'a str, program: &str) -> Option<&'a str> {
    let made = said.lines().filter(|line| line.trim_start().starts_with("Executable "));
    let mut paths = made.filter_map(|line| line.rsplit_once('(')?.1.strip_suffix(')'));
    paths.find(|path| {
        let file = path.rsplit_once('/').map_or(*path, |(_, file)| file);
        file.rsplit_once('-').is_some_and(|(name, _)| name == program)
    })
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
    fn others_do_not_see_our_package() {
        // Cargo told this test, too.
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
        let seen = as_from_shell("env").output().expect("env is there").stdout;
        let seen = String::from_utf8_lossy(&seen);
        let ours: Vec<_> = seen
            .lines()
            .filter(|line| line.contains("CARGO_PKG_") || line.contains("CARGO_MANIFEST_"))
            .collect();
        assert!(ours.is_empty(), "{ours:?}");
        assert!(seen.lines().any(|line| line.starts_with("PATH=")), "all else they see");
    }
}
