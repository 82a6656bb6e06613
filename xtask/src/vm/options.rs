//! The words after `cargo x vm`.

use std::path::PathBuf;
use std::time::Duration;

/// Addresses are 10.9.0.1 to 10.9.0.254, but every device costs some 50 ms of set-up.
const DEVICES_MAX: u32 = 64;
const CPUS_MAX: u32 = 64;
/// The kernel, its RDMA modules and their buffers need this much before any command.
const MIB_MIN: u32 = 256;
const MIB_MAX: u32 = 1 << 20;
const SECONDS_MAX: u32 = 24 * 3600;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Soft-RoCE devices.
    pub devices: u32,
    pub cpus: u32,
    /// Memory; half of it is there for files.
    pub mib: u32,
    /// For everything, start-up included.
    pub limit: Duration,
    /// A folder of the host that the command may write.
    pub writable: Option<PathBuf>,
    /// `ulimit -l` for the command, which then runs without the right to exceed it.
    pub memlock_kib: Option<u32>,
    /// Never empty.
    pub command: Vec<String>,
}

/// What the user asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    Help,
    Run(Options),
}

/// Options end at `--` or at the first word that does not begin with a dash.
pub fn parse(args: &[&str]) -> Result<Asked, String> {
    let mut options = Options {
        devices: 2,
        cpus: 2,
        mib: 1024,
        limit: Duration::from_secs(300),
        writable: None,
        memlock_kib: None,
        command: Vec::new(),
    };
    let mut args = args.iter();
    while let Some(&word) = args.next() {
        let mut number = |least, most| number(word, args.next().copied(), least, most);
        match word {
            "-h" | "--help" => return Ok(Asked::Help),
            "-n" => options.devices = number(0, DEVICES_MAX)?,
            "-c" => options.cpus = number(1, CPUS_MAX)?,
            "-m" => options.mib = number(MIB_MIN, MIB_MAX)?,
            "-t" => options.limit = Duration::from_secs(number(1, SECONDS_MAX)?.into()),
            "--memlock" => options.memlock_kib = Some(number(0, u32::MAX)?),
            "-w" => options.writable = Some(args.next().ok_or("-w needs a folder")?.into()),
            "--" => {
                options.command = args.by_ref().map(|word| word.to_string()).collect();
            }
            _ if word.starts_with('-') => {
                return Err(format!("unknown option {word}; cargo x vm --help lists them"));
            }
            _ => {
                options.command = vec![word.to_string()];
                options.command.extend(args.by_ref().map(|word| word.to_string()));
            }
        }
    }
    if options.command.is_empty() {
        return Err("no command to run; cargo x vm --help tells more".into());
    }
    Ok(Asked::Run(options))
}

fn number(option: &str, word: Option<&str>, least: u32, most: u32) -> Result<u32, String> {
    let number = word.and_then(|word| word.parse().ok()).filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{option} needs a number from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> Options {
        match parse(args) {
            Ok(Asked::Run(options)) => options,
            other => panic!("{args:?}: {other:?}"),
        }
    }

    #[test]
    fn defaults_and_every_option() {
        let plain = run(&["true"]);
        assert_eq!((plain.devices, plain.cpus, plain.mib, plain.limit.as_secs()), (2, 2, 1024, 300));
        assert_eq!((plain.writable, plain.memlock_kib), (None, None));
        let all = run(&[
            "-n",
            "4",
            "-c",
            "3",
            "-m",
            "512",
            "-t",
            "9",
            "-w",
            "/x y",
            "--memlock",
            "64",
            "--",
            "a",
            "b c",
        ]);
        assert_eq!((all.devices, all.cpus, all.mib, all.limit.as_secs()), (4, 3, 512, 9));
        assert_eq!((all.writable, all.memlock_kib), (Some("/x y".into()), Some(64)));
        assert_eq!(all.command, ["a", "b c"]);
    }

    #[test]
    fn options_of_the_command_are_its_own() {
        assert_eq!(run(&["ls", "-n", "--help", "--"]).command, ["ls", "-n", "--help", "--"]);
        assert_eq!(run(&["--", "-n", "--"]).command, ["-n", "--"]);
    }

    #[test]
    fn help_is_asked_for_in_front_only() {
        assert_eq!(parse(&["--help"]), Ok(Asked::Help));
        assert_eq!(parse(&["-n", "1", "-h", "true"]), Ok(Asked::Help));
    }

    #[test]
    fn nonsense_is_named() {
        let error = |args: &[&str]| parse(args).expect_err("nonsense");
        assert!(error(&["-n", "many", "true"]).contains("-n needs a number from 0 to 64"));
        assert!(error(&["-c", "0", "true"]).contains("-c needs"));
        assert!(error(&["-m", "255", "true"]).contains("-m needs"));
        assert!(error(&["-t"]).contains("-t needs"));
        assert!(error(&["-w"]).contains("-w needs"));
        assert!(error(&["-x", "true"]).contains("unknown option -x"));
        assert!(error(&[]).contains("no command"));
        assert!(error(&["--"]).contains("no command"));
    }
}
