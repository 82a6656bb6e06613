//! `cargo x`: the checks of the workspace in one program. `cargo x help` lists them.

mod bindings;
mod builds;
mod ci;
mod compare;
mod fuzz;
mod mutants;
mod rdma;
mod sim;
mod soak;
mod spec;
mod tidy;
mod torture;
mod vm;
mod wrap;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo x ci [--without STEP]...  run every check, with times
                                (fmt, tidy, clippy, tests, man, doc, spec, sim, mutants, torture, rdma)
cargo x compare [OPTION]...     measure a group of three beside Redis with replicas and three etcd; options
                                as of `longarm bench`; needs both (scripts/setup.sh peers group)
cargo x sim [--scenario S] [--seeds A..B]
                                run seeds of the simulator, and judge what its clients saw; --timeline
                                shows one run
cargo x soak [--seconds N]      kill reader and writer processes at random, then inspect the server
cargo x spec [NAME | --all]     model-check the TLA+ specifications of docs/spec: what CI has of them, one,
                                or all; needs Java
cargo x torture [--transport shm|tcp|verbs] [--seconds N] [OPTION]...
                                kill, stop and cut off the replicas of a group, and judge what its
                                clients saw (see longarm-chaos --help); over verbs, in such a machine
                                as cargo x vm makes
cargo x tidy                    check the house rules (also part of `cargo test -p xtask`)
cargo x fuzz [TARGET]... [--seconds N]
                                run fuzz targets (all; 60 s each), with nightly Rust
cargo x layout --accept         note the present files that docs/layout.md draws, once its drawings
                                are revised
cargo x bindings [--include DIR]
                                make crates/ibverbs/src/bindings.rs anew, with bindgen
cargo x rdma                    run the tests that want RDMA devices, in such a virtual machine
cargo x vm [OPTION]... COMMAND  run a command in a virtual machine with Soft-RoCE devices (see --help)
cargo x wrap FILE...            break comment lines over 110 columns
cargo x help                    print this
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root();
    if let ["vm", rest @ ..] = words.as_slice() {
        return vm::run(rest);
    }
    let done = match words.as_slice() {
        ["ci", rest @ ..] => ci::run(&root, rest),
        ["compare", rest @ ..] => compare::run(&root, rest),
        ["sim", rest @ ..] => sim::run(&root, rest),
        ["soak", rest @ ..] => soak::run(&root, rest),
        ["spec", rest @ ..] => spec::run(&root, rest),
        ["torture", rest @ ..] => torture::run(&root, rest),
        ["tidy"] => tidy::run(&root),
        ["fuzz", rest @ ..] => fuzz::run(&root, rest),
        ["rdma", rest @ ..] => rdma::run(&root, rest),
        ["bindings", rest @ ..] => bindings::run(&root, rest),
        ["wrap", files @ ..] if !files.is_empty() => wrap::run(files),
        ["layout", "--accept"] => tidy::layout::accept(&root),
        ["help" | "--help" | "-h"] | [] => {
            print!("{HELP}");
            Ok(true)
        }
        _ => Err(format!("unknown command: {}\n{HELP}", words.join(" "))),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// The workspace: this crate's parent.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is inside the workspace").to_path_buf()
}
