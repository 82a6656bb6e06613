//! What is made once and kept: the kernel with its modules, and the initramfs. A lock lets one process make
//! it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::archive::Archive;
use super::{host, kernel};

const INIT: &str = include_str!("guest/init.sh");
/// Folders that the guest's init mounts something on.
const MOUNTS: [&str; 6] = ["dev", "proc", "sys", "lower", "upper", "new"];
/// Another checkout may be about to start from an initramfs that is younger.
const KEPT: Duration = Duration::from_secs(3600);

/// What a machine starts from.
pub struct Ready {
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
}

/// Makes what is missing, and waits for another process that does, until the deadline.
pub fn ready(deadline: Instant) -> Result<Ready, String> {
    let folder = folder()?;
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let _lock = lock(&folder.join("lock"), deadline)?;
    let kernel = kernel::ready(&folder)?;
    let initramfs = initramfs(&folder, &kernel.modules)?;
    Ok(Ready { kernel: kernel.image, initramfs })
}

fn folder() -> Result<PathBuf, String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(cache.ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("longarm-vm"))
}

/// Held until the file is dropped, also by death.
fn lock(path: &Path, deadline: Instant) -> Result<File, String> {
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = File::create(path).map_err(said)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(said(error)),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                return Err(format!("{}: another process has held it for all of the time", path.display()));
            }
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(Duration::from_millis(50)),
        }
    }
}

/// The archive is named after the hash of its bytes, so it is there or it is not.
fn initramfs(folder: &Path, modules: &[PathBuf]) -> Result<PathBuf, String> {
    let busybox = host::find("busybox").ok_or("busybox is missing")?;
    let bytes = pack(&busybox, modules)?;
    let path = folder.join(format!("initramfs-{:016x}", hash(&bytes)));
    if !path.exists() {
        remove_old(folder);
        let new = folder.join("new");
        std::fs::write(&new, bytes)
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(path)
}

fn pack(busybox: &Path, modules: &[PathBuf]) -> Result<Vec<u8>, String> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut archive = Archive::new();
    for name in MOUNTS {
        archive.directory(name);
    }
    // The kernel opens it as the first output of init.
    archive.device("dev/console", 5, 1);
    archive.program("busybox", &read(busybox)?);
    archive.program("init", INIT.as_bytes());
    archive.directory("modules");
    for module in modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        archive.program(&format!("modules/{name}"), &read(module)?);
    }
    Ok(archive.finish())
}

fn remove_old(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with("initramfs-");
        let made = entry.metadata().and_then(|meta| meta.modified()).unwrap_or_else(|_| SystemTime::now());
        if ours && made.elapsed().is_ok_and(|age| age > KEPT) {
            // It is only room: what cannot be removed now is removed next time.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// FNV-1a over words of eight bytes: two versions of our own files must differ, no more.
fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01B3).rotate_left(29);
    words.fold(0xCBF2_9CE4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_in_the_hash() {
        let bytes: Vec<u8> = (0..100).collect();
        for i in 0..bytes.len() {
            let mut other = bytes.clone();
            other[i] ^= 1;
            assert_ne!(hash(&bytes), hash(&other), "byte {i}");
        }
    }

    #[test]
    fn a_lock_that_another_holds_is_waited_for_and_no_longer() {
        let path = std::env::temp_dir().join(format!("longarm-vm-lock-{}", std::process::id()));
        let first = lock(&path, Instant::now()).expect("it is free");
        let soon = Instant::now() + Duration::from_millis(120);
        assert!(lock(&path, soon).is_err_and(|error| error.contains("another process")));
        assert!(Instant::now() > soon);
        drop(first);
        // Not at once: a program that another test is about to start has the file for as long as fork needs.
        lock(&path, Instant::now() + Duration::from_secs(10)).expect("nobody holds it");
        std::fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn init_is_a_shell_script_without_mistakes_of_grammar() {
        for script in [INIT, super::super::machine::WIRE] {
            let done = std::process::Command::new("sh").args(["-n", "-c", script]).output().expect("a shell");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
}
