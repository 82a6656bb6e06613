//! `cargo x vm`: runs a command in a throw-away virtual machine whose kernel has the RDMA stack and Soft-RoCE
//! devices.
//!
//! Most machines have no RDMA device and may not load the modules that imitate one; a guest's kernel may. Its
//! root is the host's own, so programs just built are there at their paths, and what the command writes is
//! gone afterwards.

mod archive;
mod cache;
mod host;
mod job;
mod kernel;
mod machine;
mod options;
mod relay;

use std::process::ExitCode;
use std::time::Instant;

use machine::Ended;
use options::{Asked, Options};

const HELP: &str = "\
cargo x vm [OPTION]... [--] COMMAND [ARG]...

Runs COMMAND as root in the current directory of a throw-away virtual machine with Soft-RoCE devices, and
exits with its status. The machine's root is this one's, read-only, under a layer of RAM: the same files at
the same paths, but what COMMAND writes is gone afterwards. It has its own /dev, /dev/shm and /run, no
network but the wire, and of the variables only PATH, LD_LIBRARY_PATH, CARGO*, RUST* and LONGARM_*.

  -n DEVICES      devices rxe0, rxe1, .. on veth0, veth1, .. with addresses 10.9.0.1, 10.9.0.2, .. (2)
  -c CPUS         virtual CPUs (2)
  -m MIB          memory (1024); up to half of it for files, up to half for /dev/shm
  -t SECONDS      time for everything, the start included (300)
  -w DIR          DIR is the host's own inside, and writable
  --memlock KIB   `ulimit -l` for COMMAND, which then runs without CAP_IPC_LOCK (no limit)
  -h, --help      print this

The far ends of the veths, sw0, sw1, .., are ports of the bridge sw. Inside, `ip link set sw1 down` cuts
rxe1 off, and `tc qdisc add dev veth1 root netem loss 1%` makes it lose packets.

Exit status: COMMAND's; 124 if the time was over; 125 if the machine could not be started or broke down; 126
or 127 if COMMAND cannot be executed or found. The kernel is fetched once, into longarm-vm in the user's
cache.

As cargo's runner (the program, because `cargo x` would itself be run by the runner):

  cargo build -p xtask
  CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=\"$PWD/target/debug/xtask vm --\" cargo test
";
const LATE: u8 = 124;
const BROKEN: u8 = 125;

/// Does what `args` ask for; errors are printed.
pub fn run(args: &[&str]) -> ExitCode {
    let ended = match options::parse(args) {
        Ok(Asked::Help) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Asked::Run(options)) => execute(&options),
        Err(error) => Err(error),
    };
    match ended {
        Ok(Ended::Status(status)) => ExitCode::from(status),
        Ok(Ended::Late(error)) => {
            eprintln!("error: vm: {error}");
            ExitCode::from(LATE)
        }
        Err(error) => {
            eprintln!("error: vm: {error}");
            ExitCode::from(BROKEN)
        }
    }
}

fn execute(options: &Options) -> Result<Ended, String> {
    let deadline = Instant::now() + options.limit;
    host::check()?;
    machine::run(&cache::ready(deadline)?, options, deadline)
}
