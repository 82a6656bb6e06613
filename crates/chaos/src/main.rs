//! The `longarm-chaos` program. All of it is in the library beside this file, where it can be tested.

use std::process::ExitCode;

fn main() -> ExitCode {
    longarm_chaos::run(std::env::args_os()).into()
}
