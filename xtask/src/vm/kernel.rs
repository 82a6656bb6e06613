//! The guest's kernel: Debian's, with the modules that the guest needs, numbered in the order of loading.

use std::path::{Path, PathBuf};

use super::host;

/// What the guest's init and the wire use. Soft-RoCE asks for crc32 by name, so no dependency brings it.
const MODULES: [&str; 12] = [
    "virtio_pci",
    "virtio_console",
    "9pnet_virtio",
    "9p",
    "overlay",
    "crc32_generic",
    "rdma_rxe",
    "rdma_ucm",
    "ib_uverbs",
    "veth",
    "bridge",
    "sch_netem",
];
/// The package whose one dependency is the present kernel.
const NEWEST: &str = "linux-image-amd64";
const FETCH_SECONDS: u32 = 240;
const UNPACK_SECONDS: u32 = 180;

/// The kernel in the cache.
pub struct Kernel {
    pub image: PathBuf,
    /// In the order of loading.
    pub modules: Vec<PathBuf>,
}

/// The kernel, fetched if the cache has none with these modules. The cache is locked.
pub fn ready(cache: &Path) -> Result<Kernel, String> {
    let kept = cache.join("kernel");
    let list = MODULES.join(" ");
    // Written last, before the folder gets its name: what has it is whole.
    if std::fs::read_to_string(kept.join("list")).is_ok_and(|text| text == list) {
        return open(&kept);
    }
    let work = cache.join("unpacking");
    let wipe = |folder: &Path| match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    };
    wipe(&work)?;
    let made = make(&work, &list).map_err(|error| format!("the guest's kernel: {error}"));
    let made = made.and_then(|new| {
        wipe(&kept)?;
        std::fs::rename(&new, &kept).map_err(|error| format!("{}: {error}", kept.display()))
    });
    wipe(&work)?;
    made?;
    open(&kept)
}

fn open(folder: &Path) -> Result<Kernel, String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut modules = Vec::new();
    for entry in std::fs::read_dir(folder.join("modules")).map_err(said)? {
        modules.push(entry.map_err(said)?.path());
    }
    modules.sort();
    Ok(Kernel { image: folder.join("vmlinuz"), modules })
}

/// A folder inside `work` with `vmlinuz`, `modules/` and `list`.
fn make(work: &Path, list: &str) -> Result<PathBuf, String> {
    let said = |error: std::io::Error| format!("{}: {error}", work.display());
    std::fs::create_dir_all(work).map_err(said)?;
    let depends = host::output(60, work, &["apt-cache", "depends", NEWEST])?;
    let package = kernel_of(&depends)
        .ok_or(format!("apt knows no kernel behind {NEWEST}; {} brings its lists up to date", host::SETUP))?;
    eprintln!("vm: fetching {package}, once");
    host::output(FETCH_SECONDS, work, &["apt-get", "-qq", "download", package])
        .map_err(|error| format!("{error}{} brings apt's lists up to date", host::SETUP))?;
    // The drivers left out are most of the package.
    let unpack = "set -e; dpkg-deb --fsys-tarfile ./*.deb > data.tar; \
        tar -xf data.tar --exclude='*/gpu' --exclude='*/media' --exclude='*/sound' --exclude='*/wireless' \
        --wildcards './boot/vmlinuz-*' './lib/modules/*'; rm data.tar ./*.deb";
    host::output(UNPACK_SECONDS, work, &["sh", "-c", unpack])?;
    let release = only(&work.join("lib/modules"))?;
    let base = work.to_str().ok_or("the cache's path is not UTF-8")?;
    host::output(UNPACK_SECONDS, work, &["depmod", "-b", base, &release])?;
    let new = work.join("new");
    std::fs::create_dir_all(new.join("modules")).map_err(said)?;
    let mut files: Vec<String> = Vec::new();
    for module in MODULES {
        let words = ["modprobe", "-d", base, "-S", &release, "--show-depends", module];
        let shown = host::output(60, work, &words)?;
        files.extend(
            paths(&shown).map(str::to_string).filter(|path| !files.contains(path)).collect::<Vec<_>>(),
        );
    }
    for (i, file) in files.iter().enumerate() {
        let name = file.rsplit('/').next().unwrap_or(file);
        let to = new.join("modules").join(format!("{i:03}-{name}"));
        std::fs::copy(file, &to).map_err(|error| format!("{file}: {error}"))?;
        // Newer Debians compress them; the guest's busybox need not be able to.
        if name.ends_with(".xz") {
            host::output(60, &new.join("modules"), &["xz", "-d", &to.to_string_lossy()])?;
        }
    }
    let image = work.join("boot").join(only(&work.join("boot"))?);
    std::fs::rename(&image, new.join("vmlinuz")).map_err(said)?;
    std::fs::write(new.join("list"), list).map_err(said)?;
    Ok(new)
}

/// The package that `apt-cache depends` names.
fn kernel_of(depends: &str) -> Option<&str> {
    let named = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    named.map(str::trim).find(|name| name.starts_with("linux-image-"))
}

/// Files of `modprobe --show-depends`: lines `insmod PATH`, and `builtin NAME` for what the kernel has
/// inside.
fn paths(shown: &str) -> impl Iterator<Item = &str> {
    shown.lines().filter_map(|line| line.strip_prefix("insmod ")).map(str::trim)
}

/// The name of the one entry of a folder.
fn only(folder: &Path) -> Result<String, String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(said)? {
        names.push(entry.map_err(said)?.file_name().to_string_lossy().into_owned());
    }
    match names.pop() {
        Some(name) if names.is_empty() => Ok(name),
        _ => Err(format!("{} should hold one entry", folder.display())),
    }
}

#[test]
fn what_the_tools_print_is_understood() {
    let depends = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n    extra\n";
    assert_eq!(kernel_of(depends), Some("linux-image-6.1.0-56-amd64"));
    assert_eq!(kernel_of("linux-image-amd64\n"), None);
    let shown = "builtin crc16\ninsmod /a/kernel/crc32.ko \ninsmod /a/rxe.ko.xz\n";
    assert_eq!(paths(shown).collect::<Vec<_>>(), ["/a/kernel/crc32.ko", "/a/rxe.ko.xz"]);
}
