//! Where a replica keeps what it promised: a promise that a crash forgets is none (VERIFY L2, M1).

use std::fs::{File, OpenOptions, rename};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use longarm_base::{Mutant, Term};
use longarm_memory::SumKey;
use longarm_wire::{ADDRESS_MAX, MEMBERS_MAX, Members};

/// What survives a crash of the process, and of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Promise {
    /// The term promised last.
    pub term: Term,
    /// How often the replica was started. Only at its very first start is its empty memory what it had
    /// before.
    pub boot: u64,
    /// Who the replicas of the group are, as it knew then; nobody, if it was never told.
    pub members: Members,
}

/// Keeps a promise.
pub trait Vault: Send + Sync {
    /// What is kept; `None` if nothing ever was.
    fn load(&self) -> std::io::Result<Option<Promise>>;

    /// Keeps a promise. When it returns, no crash forgets it.
    fn store(&self, promise: &Promise) -> std::io::Result<()>;
}

/// Key of the file's checksum: it guards against damage, not against people.
const SUM_KEY: u64 = 0x7072_6F6D_6973_6573;

/// Room for one copy of the line, in bytes: a whole number of blocks of any file system.
const COPY: usize = 32 << 10;
const _: () = assert!(COPY > 2 * MEMBERS_MAX * (ADDRESS_MAX + 32) + 256);

/// A file with the same line twice, each at the begin of 32 KiB: `longarm-promise 2 TERM BOOT MEMBERS
/// CHECKSUM`, the members as their bytes in hexadecimal. Without any it is `longarm-promise 1 TERM BOOT
/// CHECKSUM`. What follows a line is of no meaning.
///
/// A promise is what a group without a leader waits for, twice. So the file is made once, and then written in
/// place: no file system has to write more than these bytes, while to replace a file by another it waits for
/// its journal, and that for whatever else was written. Of a crash while one copy is written the other tells;
/// the first is the younger one.
#[derive(Debug)]
pub struct FileVault {
    path: PathBuf,
}

impl FileVault {
    /// The vault in a directory, which is made if it is not there.
    pub fn open(dir: &Path) -> std::io::Result<FileVault> {
        FileVault::named(dir, "promise")
    }

    /// One of several in a directory, each of another group.
    pub fn of_group(dir: &Path, group: u64) -> std::io::Result<FileVault> {
        FileVault::named(dir, &format!("promise-{group:016x}"))
    }

    fn named(dir: &Path, name: &str) -> std::io::Result<FileVault> {
        make_dir(dir)?;
        Ok(FileVault { path: dir.join(name) })
    }

    /// The whole file, which appears at once.
    fn make(&self, line: &str) -> std::io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut file = File::create(&fresh)?;
        // No holes: a block that is there already is written without the journal.
        let copy = format!("{line:\n<COPY$}");
        write(&mut file, copy.repeat(2).as_bytes(), 0)?;
        on_disk(&file)?;
        rename(&fresh, &self.path)?;
        // The rename itself is on disk only when the directory is.
        on_disk(&File::open(self.path.parent().unwrap_or(Path::new(".")))?)
    }

    fn line(promise: &Promise) -> String {
        let Promise { term, boot, members } = promise;
        let term = term.bits();
        let body = match members.list.is_empty() {
            true => format!("longarm-promise 1 {term} {boot}"),
            false => format!("longarm-promise 2 {term} {boot} {}", hex(&members.encode())),
        };
        let sum = SumKey::new(SUM_KEY).sum(0, body.as_bytes());
        format!("{body} {sum:016x}\n")
    }

    fn parse(text: &str) -> Option<Promise> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let (term, boot, members) = match words[..] {
            [_, "1", term, boot, _] => (term, boot, Members::default()),
            [_, "2", term, boot, members, _] => (term, boot, Members::decode(&unhex(members)?).ok()?),
            _ => return None,
        };
        let term = Term::from_bits(term.parse().ok()?)?;
        let promise = Promise { term, boot: boot.parse().ok()?, members };
        (FileVault::line(&promise) == text).then_some(promise)
    }
}

/// The directory, and those that it is in as far as they are not there. Each is on disk when its own
/// directory is.
fn make_dir(dir: &Path) -> std::io::Result<()> {
    let above = dir.parent().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    let Some(above) = above.filter(|_| !dir.is_dir()) else { return Ok(()) };
    make_dir(above)?;
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    on_disk(&File::open(above)?)
}

fn write(file: &mut File, bytes: &[u8], at: usize) -> std::io::Result<()> {
    #[cfg(test)]
    tests::note(format!("write at {at}"));
    file.write_all_at(bytes, at as u64)
}

/// What was written is on disk when this returns, and what a directory says of the file.
fn on_disk(file: &File) -> std::io::Result<()> {
    flush(file, File::sync_all)
}

/// The bytes that were written are on disk when this returns. The file's time need not be: it would be
/// written through the journal.
fn bytes_on_disk(file: &File) -> std::io::Result<()> {
    flush(file, File::sync_data)
}

fn flush(file: &File, sync: fn(&File) -> std::io::Result<()>) -> std::io::Result<()> {
    if Mutant::NoSync.is_on() {
        return Ok(());
    }
    sync(file)?;
    #[cfg(test)]
    tests::note("sync".into());
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = |at| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    (0..text.len()).step_by(2).map(digits).collect()
}

impl Vault for FileVault {
    fn load(&self) -> std::io::Result<Option<Promise>> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let line = |copy: &[u8]| {
            let end = copy.iter().position(|&byte| byte == b'\n')?;
            FileVault::parse(std::str::from_utf8(&copy[..=end]).ok()?)
        };
        let damaged = || {
            let text = format!(
                "{} is damaged: this replica no longer knows what it promised. Remove the node from its \
                 group and add it anew",
                self.path.display()
            );
            Error::new(ErrorKind::InvalidData, text)
        };
        // One copy alone is how it once was.
        bytes.chunks(COPY).find_map(line).map(Some).ok_or_else(damaged)
    }

    fn store(&self, promise: &Promise) -> std::io::Result<()> {
        let line = FileVault::line(promise);
        match OpenOptions::new().write(true).open(&self.path) {
            Ok(mut file) if file.metadata()?.len() == 2 * COPY as u64 => {
                // The second when the first is surely there.
                [0, COPY].into_iter().try_for_each(|at| {
                    write(&mut file, line.as_bytes(), at)?;
                    bytes_on_disk(&file)
                })
            }
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => self.make(&line),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use longarm_base::NodeId;
    use longarm_wire::MemberAt;

    use super::*;

    thread_local! {
        static NOTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    /// Something was done to a file by this thread.
    pub(super) fn note(what: String) {
        NOTED.with_borrow_mut(|noted| noted.push(what));
    }

    fn noted() -> Vec<String> {
        NOTED.with_borrow_mut(std::mem::take)
    }

    /// A power cut may come when `store` has returned.
    #[test]
    fn what_is_kept_is_on_disk_when_it_is_said_to_be() {
        let dir = tempfile::tempdir().expect("a directory");
        noted();
        let vault = FileVault::open(&dir.path().join("a").join("b")).expect("a vault");
        assert_eq!(noted(), ["sync", "sync"], "each directory is in the one above it");
        vault.store(&Promise::default()).expect("stored");
        assert_eq!(noted(), ["write at 0", "sync", "sync"], "the file, and that it is there");
        vault.store(&Promise { boot: 2, ..Promise::default() }).expect("stored");
        let second = format!("write at {COPY}");
        assert_eq!(noted(), ["write at 0", "sync", &second, "sync"], "one copy after the other");
        FileVault::open(&dir.path().join("a").join("b")).expect("a vault");
        assert_eq!(noted(), [] as [&str; 0], "it is there");
    }

    fn told() -> Members {
        let member = MemberAt { node: NodeId(3), address: "tcp://h\u{f6}st:1 2".into() };
        Members { term: Term::new(2, NodeId(1)), changed: true, list: vec![member] }
    }

    #[test]
    fn a_promise_is_found_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let vault = FileVault::open(&dir.path().join("node")).expect("a vault");
        assert_eq!(vault.load().expect("empty"), None);
        let told = told();
        for (counter, members) in [(1, &told), (7, &Members::default()), (u32::MAX, &told)] {
            let promise = Promise { term: Term::new(counter, NodeId(3)), boot: 12, members: members.clone() };
            vault.store(&promise).expect("stored");
            assert_eq!(vault.load().expect("there"), Some(promise));
        }
        let of_group = |group| FileVault::of_group(&dir.path().join("node"), group).expect("a vault");
        of_group(7).store(&Promise { boot: 3, ..Promise::default() }).expect("stored");
        assert_eq!(of_group(8).load().expect("empty"), None, "each group has its own");
        assert_eq!(of_group(7).load().expect("there").map(|promise| promise.boot), Some(3));
    }

    #[test]
    fn a_copy_that_is_damaged_is_made_up_for_by_the_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let vault = FileVault::open(dir.path()).expect("a vault");
        let path = dir.path().join("promise");
        let promise = |boot| Promise { term: Term::new(2, NodeId(3)), boot, ..Promise::default() };
        let (old, new) = (FileVault::line(&promise(12)), FileVault::line(&promise(13)));
        let write = |at: usize, text: &str| {
            let file = OpenOptions::new().write(true).open(&path).expect("the file");
            file.write_all_at(text.as_bytes(), at as u64).expect("written");
        };
        vault.store(&promise(12)).expect("stored");
        // A crash while it is written: the first copy, or the second.
        for cut in 0..=new.len() {
            write(0, &old);
            write(0, &new[..cut]);
            let found = vault.load().expect("there").expect("a promise");
            assert!(found.boot == 12 || cut > 0 && found.boot == 13, "{cut} bytes");
        }
        for cut in 0..new.len() {
            write(COPY, &old);
            write(COPY, &new[..cut]);
            assert_eq!(vault.load().expect("there"), Some(promise(13)), "{cut} bytes");
        }
        write(0, &new.replace(" 13 ", " 14 "));
        write(COPY, &old);
        assert_eq!(vault.load().expect("the other"), Some(promise(12)));
        write(COPY, &old.replace(" 12 ", " 14 "));
        assert!(vault.load().expect_err("damaged").to_string().contains("damaged"));
        // And is whole again.
        vault.store(&promise(15)).expect("stored");
        assert_eq!(vault.load().expect("there"), Some(promise(15)));
    }

    #[test]
    fn a_file_with_one_line_is_read_and_a_part_of_it_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let vault = FileVault::open(dir.path()).expect("a vault");
        let path = dir.path().join("promise");
        let promise = Promise { boot: 12, members: told(), ..Promise::default() };
        let text = FileVault::line(&promise);
        std::fs::write(&path, &text).expect("written");
        assert_eq!(vault.load().expect("there"), Some(promise.clone()));
        vault.store(&promise).expect("stored");
        assert_eq!(std::fs::metadata(&path).expect("the file").len(), 2 * COPY as u64);
        assert_eq!(vault.load().expect("there"), Some(promise));
        for cut in 0..text.len() {
            std::fs::write(&path, &text[..cut]).expect("written");
            assert!(vault.load().is_err(), "{cut} bytes");
        }
        std::fs::write(&path, text.replace(" 12 ", " 13 ")).expect("written");
        assert!(vault.load().expect_err("damaged").to_string().contains("damaged"));
    }
}
