//! Optimised builds for checks: nearly as fast as those that ship, and made in half the time.

use std::process::Command;

/// What cargo is told.
pub const QUICKLY_BUILT: &[(&str, &str)] =
    &[("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")];

/// Tells this cargo.
pub fn quickly_built(command: &mut Command) -> &mut Command {
    command.envs(QUICKLY_BUILT.iter().copied())
}
