//! The `longarm` program. All of it is in the library beside this file, where it can be tested.

use std::process::ExitCode;

fn main() -> ExitCode {
    longarm::run(std::env::args_os()).into()
}
