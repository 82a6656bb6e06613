//! How other programs are called that build: cargo above all.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Optimised builds for checks, nearly as fast as those that ship, are made in half the time when cargo is
/// told this.
pub const QUICKLY_BUILT: &[(&str, &str)] =
    &[("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")];

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
    Ok(programs(root, &["longarm"], &[])?.map(|folder| folder.join("longarm")))
}

/// Builds the programs of these packages, optimised, with these variables; the folder where they are, if they
/// build.
pub fn programs(root: &Path, packages: &[&str], env: &[(&str, &str)]) -> Result<Option<PathBuf>, String> {
    let mut build = cargo();
    build.args(["build", "--release"]).args(packages.iter().flat_map(|package| ["-p", package]));
    if !status(build.envs(env.iter().copied()).current_dir(root))? {
        return Ok(None);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(Some(target.join("release")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
