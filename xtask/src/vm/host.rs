//! What the host must have, and how its programs are called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const SETUP: &str = "scripts/setup-vm.sh";
pub const QEMU: &str = "qemu-system-x86_64";
/// Programs on the host, some of which the guest uses: its root is the host's.
const PROGRAMS: [&str; 9] = [QEMU, "busybox", "modprobe", "depmod", "ip", "rdma", "tc", "setpriv", "timeout"];
/// Where plain users have no `PATH` to, but `modprobe` is.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];
const LIBRARIES: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// `PATH` with the folders for the system's programs.
fn path() -> OsString {
    let user = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&user).chain(SYSTEM.iter().map(PathBuf::from));
    // A folder with a colon in its name cannot have come out of PATH.
    std::env::join_paths(folders).unwrap_or(user)
}

pub fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&path()).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A command that finds the system's programs and speaks English.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", path()).env("LC_ALL", "C");
    command
}

/// Standard output of a command that must go well, within a time.
pub fn output(seconds: u32, folder: &Path, words: &[&str]) -> Result<String, String> {
    let done = command("timeout").arg(seconds.to_string()).args(words).current_dir(folder).output();
    let done = done.map_err(|error| format!("timeout: {error}"))?;
    let errors = String::from_utf8_lossy(&done.stderr);
    match done.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        Some(124) => Err(format!("{} did not end within {seconds} s\n{errors}", words.join(" "))),
        _ => Err(format!("{}: {}\n{errors}", words.join(" "), done.status)),
    }
}

/// An error that names everything that is missing, and the script that installs it.
pub fn check() -> Result<(), String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the VM runs the host's own programs, so the host must be Linux on x86-64".into());
    }
    let mut missing: Vec<String> =
        PROGRAMS.iter().filter(|name| find(name).is_none()).map(|name| name.to_string()).collect();
    if let Some(busybox) = find("busybox") {
        let bytes = std::fs::read(&busybox).map_err(|error| format!("{}: {error}", busybox.display()))?;
        if !is_static(&bytes) {
            missing.push("a busybox without shared libraries".into());
        }
    }
    for library in ["libibverbs.so.1", "libibverbs/librxe-"] {
        if !LIBRARIES.iter().any(|folder| has(Path::new(folder), library)) {
            missing.push(library.trim_end_matches('-').into());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("missing on this machine: {}; {SETUP} installs it", missing.join(", ")))
}

/// Whether a file's path begins with this, under the folder.
fn has(folder: &Path, start: &str) -> bool {
    let start = folder.join(start);
    let (Some(parent), Some(name)) = (start.parent(), start.file_name()) else { return false };
    let mut entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with(&*name.to_string_lossy()))
}

/// Whether a 64-bit ELF program asks for no loader (a segment PT_INTERP).
fn is_static(elf: &[u8]) -> bool {
    const INTERPRETER: usize = 3;
    let number = |at: usize, len: usize| {
        let bytes = elf.get(at..at + len)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    // e_phoff, e_phentsize, e_phnum of the header.
    let (Some(first), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2)) else {
        return false;
    };
    elf.starts_with(b"\x7fELF")
        && (0..count).all(|i| {
            let at = size.saturating_mul(i).saturating_add(first).min(elf.len());
            number(at, 4).is_some_and(|kind| kind != INTERPRETER)
        })
}

/// Whether QEMU can use the CPU's own virtualisation: the device alone is not enough, some machines have it
/// in vain.
pub fn has_kvm() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let able = flags.split_whitespace().any(|word| word == "vmx" || word == "svm");
    able && std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok()
}

#[test]
fn a_program_with_a_loader_is_told_from_one_without() {
    let mut elf = vec![0u8; 64 + 2 * 56];
    elf[..4].copy_from_slice(b"\x7fELF");
    (elf[32], elf[54], elf[56]) = (64, 56, 2);
    (elf[64], elf[64 + 56]) = (6, 1);
    assert!(is_static(&elf));
    elf[64 + 56] = 3;
    assert!(!is_static(&elf));
    assert!(!is_static(&elf[..100]), "cut off");
    assert!(!is_static(b"#!/bin/sh\n"));
}

#[test]
fn a_failed_program_is_an_error_with_its_words() {
    let run = |script| output(10, Path::new("/"), &["sh", "-c", script]);
    assert_eq!(run("echo a"), Ok("a\n".into()));
    assert!(run("echo why >&2; exit 3").is_err_and(|error| error.contains("why") && error.contains('3')));
    assert!(output(1, Path::new("/"), &["sleep", "5"]).is_err_and(|error| error.contains("within 1 s")));
}
