//! The store in which a replica keeps its promise: a promise that a crash forgets is none (L2, M1).

use std::fs::{File, OpenOptions, rename};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use longarm_base::{Mutant, ReplicaId, Term};
use longarm_memory::SumKey;
use longarm_wire::{ADDRESS_MAX, MEMBERS_MAX, Members};

/// A replica's promise, and what else survives a crash of the process and of the machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Promise {
    /// The term that the replica promised last.
    pub term: Term,
    /// How often the replica was started. Only at the very first start has the replica lost nothing, though
    /// its memory is empty.
    pub boot: u64,
    /// The members of the group, as the replica knew them then; none, if it was never told.
    pub members: Members,
    /// The number that was drawn when the store was made; 0 if an earlier version made it.
    pub origin: u64,
    /// If the replica has founded the group, and keeps no later start set: who may found it, each with its
    /// origin.
    pub founders: Vec<(ReplicaId, u64)>,
}

/// Where a replica's promise is kept.
pub trait VoteStore: Send + Sync {
    /// The promise that is kept; `None` if none ever was.
    fn load(&self) -> std::io::Result<Option<Promise>>;

    /// Keeps a promise. When this returns, no crash forgets the promise.
    fn store(&self, promise: &Promise) -> std::io::Result<()>;
}

/// The key of the file's checksums, which guard against damage, not against people.
const SUM_KEY: u64 = 0x7072_6F6D_6973_6573;

/// The room for one copy of the line, in bytes: a whole number of blocks of any file system.
const COPY: usize = 32 << 10;
/// The number of copies of the line, each in a place of its own.
const COPIES: usize = 2;
const _: () = assert!(COPY > 2 * MEMBERS_MAX * (ADDRESS_MAX + 32) + MEMBERS_MAX * (5 + 17) + 256);

/// A file with two copies of one line, each at the beginning of 32 KiB: `longarm-promise 4 NUMBER TERM BOOT
/// MEMBERS ORIGIN FOUNDERS CHECKSUM`. The number goes up with each promise. The members are their bytes in
/// hexadecimal, or `-` for none. The founders are `REPLICA:ORIGIN,...`, or `-` for none; origins are 16
/// hexadecimal digits. What follows a line has no meaning. Files of earlier versions are read, too:
/// `longarm-promise 3 NUMBER TERM BOOT MEMBERS CHECKSUM`, before that `longarm-promise 2 TERM BOOT MEMBERS
/// CHECKSUM`, and without members `longarm-promise 1 TERM BOOT CHECKSUM`.
///
/// A group without a leader waits for promises twice: the candidate keeps one, and then each voter does. So
/// the file is made once, and then written in place: the file system has to write no more than these bytes.
/// To replace one file by another, it would wait for its journal, and the journal for all else that was
/// written.
///
/// The store waits for the disk once a promise: the line is on disk in one place when [`VoteStore::store`]
/// returns. The kernel writes the line to the other place whenever it likes; that copy guards against a block
/// that is damaged later. The place that the store writes first, and waits for, is the one that is not
/// needed: if a crash damages it, the other one still has the promise before.
#[derive(Debug)]
pub struct FileVoteStore {
    path: PathBuf,
}

impl FileVoteStore {
    /// The store in a directory, which is made if it is not there.
    pub fn open(dir: &Path) -> std::io::Result<FileVoteStore> {
        FileVoteStore::named(dir, "promise")
    }

    /// The store of this name in a directory, which is made if it is not there.
    pub(crate) fn named(dir: &Path, name: &str) -> std::io::Result<FileVoteStore> {
        make_dir(dir)?;
        Ok(FileVoteStore { path: dir.join(name) })
    }

    /// Makes the whole file, which appears at once.
    fn make(&self, line: &str) -> std::io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut file = File::create(&fresh)?;
        // The file has no holes: a block that is there already is written without the journal.
        let copy = format!("{line:\n<COPY$}");
        write(&mut file, copy.repeat(COPIES).as_bytes(), 0)?;
        appear(&file, &fresh, &self.path)
    }
}

/// The line, as it is in one copy.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Line {
    /// The number of the promise, higher than that of the promise before; 0 in a file of a version without
    /// numbers.
    number: u64,
    promise: Promise,
}

impl Line {
    fn text(&self) -> String {
        let Line { number, promise: Promise { term, boot, members, origin, founders } } = self;
        let members = match members.list.is_empty() {
            true => "-".into(),
            false => hex(&members.encode()),
        };
        let founders = match founders.is_empty() {
            true => "-".into(),
            false => {
                let text = founders.iter().map(|(replica, origin)| format!("{replica}:{origin:016x}"));
                text.collect::<Vec<_>>().join(",")
            }
        };
        let term = term.bits();
        let body = format!("longarm-promise 4 {number} {term} {boot} {members} {origin:016x} {founders}");
        signed(SUM_KEY, body)
    }

    fn parse(text: &str) -> Option<Line> {
        let (body, _) = text.rsplit_once(' ')?;
        if signed(SUM_KEY, body.into()) != text {
            return None;
        }
        let words: Vec<_> = body.split(' ').collect();
        let (number, term, boot, members, [origin, founders]) = match words[..] {
            [_, "1", term, boot] => ("0", term, boot, "-", ["0", "-"]),
            [_, "2", term, boot, members] => ("0", term, boot, members, ["0", "-"]),
            [_, "3", number, term, boot, members] => (number, term, boot, members, ["0", "-"]),
            [_, "4", number, term, boot, members, origin, founders] => {
                (number, term, boot, members, [origin, founders])
            }
            _ => return None,
        };
        let members = match members {
            "-" => Members::default(),
            bytes => Members::decode(&unhex(bytes)?).ok()?,
        };
        let term = Term::from_bits(term.parse().ok()?)?;
        let origin = u64::from_str_radix(origin, 16).ok()?;
        let founders = match founders {
            "-" => Vec::new(),
            list => list.split(',').map(founder).collect::<Option<_>>()?,
        };
        let promise = Promise { term, boot: boot.parse().ok()?, members, origin, founders };
        Some(Line { number: number.parse().ok()?, promise })
    }

    /// The newest copy in a file, and its place. Of two copies that are alike it is the one for which the
    /// store waited, which is in another place with each number. In a file without numbers it is the first
    /// one.
    fn newest(file: &[u8]) -> Option<(usize, Line)> {
        let line = |copy: &[u8]| {
            let end = copy.iter().position(|&byte| byte == b'\n')?;
            Line::parse(std::str::from_utf8(&copy[..=end]).ok()?)
        };
        let copies = file.chunks(COPY).map(line).enumerate().take(COPIES);
        let there = copies.filter_map(|(place, line)| Some((place, line?)));
        there.max_by_key(|(place, line)| (line.number, *place == place_of(line.number)))
    }
}

/// A founder and its origin.
fn founder(text: &str) -> Option<(ReplicaId, u64)> {
    let (replica, origin) = text.split_once(':')?;
    Some((ReplicaId(replica.parse().ok()?), u64::from_str_radix(origin, 16).ok()?))
}

/// The place for which the store waits when it keeps a line of this number.
fn place_of(number: u64) -> usize {
    (number % COPIES as u64) as usize
}

/// The line with this text and its checksum, under a key that is no secret.
pub(crate) fn signed(key: u64, body: String) -> String {
    let sum = SumKey::new(key).sum(0, body.as_bytes());
    format!("{body} {sum:016x}\n")
}

/// Gives a file that is complete its name, which it has from now on whatever happens.
pub(crate) fn appear(file: &File, fresh: &Path, path: &Path) -> std::io::Result<()> {
    on_disk(file)?;
    rename(fresh, path)?;
    // The rename itself is on disk only when the directory is.
    on_disk(&File::open(path.parent().unwrap_or(Path::new(".")))?)
}

/// Makes a directory, and those above it that are not there. A directory is on disk when the one above it is.
pub(crate) fn make_dir(dir: &Path) -> std::io::Result<()> {
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

/// Waits until what was written to a file or a directory is on disk, and what the file system notes about it.
fn on_disk(file: &File) -> std::io::Result<()> {
    flush(file, File::sync_all)
}

/// Waits until the bytes that were written are on disk. The time of the file need not be: it would be written
/// through the journal.
fn bytes_on_disk(file: &File) -> std::io::Result<()> {
    flush(file, File::sync_data)
}

fn flush(file: &File, sync: fn(&File) -> std::io::Result<()>) -> std::io::Result<()> {
    if Mutant::NoSync.is_on() {
        return Ok(());
    }
    #[cfg(test)]
    tests::note_sync()?;
    sync(file)?;
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = |at| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    (0..text.len()).step_by(2).map(digits).collect()
}

impl VoteStore for FileVoteStore {
    fn load(&self) -> std::io::Result<Option<Promise>> {
        let damaged = || {
            let text = format!(
                "{} is damaged: this replica no longer knows what it promised. Remove the node from its \
                 group and add it anew",
                self.path.display()
            );
            Error::new(ErrorKind::InvalidData, text)
        };
        let mut file = match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // A process that was killed while it kept a promise may leave a line that can be read and is not on
        // disk. The next promise will overwrite the line before that one.
        bytes_on_disk(&file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Line::newest(&bytes).map(|(_, line)| Some(line.promise)).ok_or_else(damaged)
    }

    fn store(&self, promise: &Promise) -> std::io::Result<()> {
        let line = |number| Line { number, promise: promise.clone() }.text();
        let mut file = match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) if file.metadata()?.len() == (COPIES * COPY) as u64 => file,
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => return self.make(&line(0)),
        };
        let mut bytes = vec![0; COPIES * COPY];
        file.read_exact_at(&mut bytes, 0)?;
        let next = match Line::newest(&bytes) {
            Some((newest, line)) => line.number + 1 + u64::from(place_of(line.number + 1) == newest),
            None => 0,
        };
        let line = line(next);
        let place = place_of(next);
        write(&mut file, line.as_bytes(), place * COPY)?;
        if let Err(error) = bytes_on_disk(&file) {
            // Whether the line is on disk is not known. The next promise is to be written to this place
            // again, and not over the line that is on disk.
            let was = &bytes[place * COPY..][..COPY];
            write(&mut file, was, place * COPY)?;
            return Err(error);
        }
        write(&mut file, line.as_bytes(), (COPIES - 1 - place) * COPY)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use longarm_wire::MemberAt;

    use super::*;

    thread_local! {
        static NOTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
        static DISK_FAILS: Cell<bool> = const { Cell::new(false) };
    }

    /// Notes what this thread did to a file.
    pub(super) fn note(what: String) {
        NOTED.with_borrow_mut(|noted| noted.push(what));
    }

    /// Notes that this thread waits for the disk; an error if the disk fails in this test.
    pub(super) fn note_sync() -> std::io::Result<()> {
        if DISK_FAILS.get() {
            return Err(Error::other("the disk fails"));
        }
        note("sync".into());
        Ok(())
    }

    fn noted() -> Vec<String> {
        NOTED.with_borrow_mut(std::mem::take)
    }

    /// A power cut may come when `store` has returned.
    #[test]
    fn what_is_kept_is_on_disk_when_it_is_said_to_be() {
        let dir = tempfile::tempdir().expect("a directory");
        noted();
        let vote_store = FileVoteStore::open(&dir.path().join("a").join("b")).expect("a vote store");
        assert_eq!(noted(), ["sync", "sync"], "each directory is in the one above it");
        vote_store.store(&Promise::default()).expect("stored");
        assert_eq!(noted(), ["write at 0", "sync", "sync"], "the file, and that it is there");
        vote_store.store(&Promise { boot: 2, ..Promise::default() }).expect("stored");
        let second = format!("write at {COPY}");
        assert_eq!(noted(), [&second, "sync", "write at 0"], "one copy is waited for");
        vote_store.store(&Promise { boot: 3, ..Promise::default() }).expect("stored");
        assert_eq!(noted(), ["write at 0", "sync", &second], "and the other one the next time");
        FileVoteStore::open(&dir.path().join("a").join("b")).expect("a vote store");
        assert_eq!(noted(), [] as [&str; 0], "it is there");
        vote_store.load().expect("there");
        assert_eq!(noted(), ["sync"], "what it says may have been written by a process that was killed then");
    }

    /// The disk may fail for a moment: as long as it does, the promise before is left alone.
    #[test]
    fn a_promise_that_could_not_be_kept_is_taken_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let (vote_store, _) = vote_store(dir.path());
        vote_store.store(&promise(1)).expect("stored");
        for boot in 2..6 {
            vote_store.store(&promise(boot)).expect("stored");
            let kept = std::fs::read(dir.path().join("promise")).expect("the file");
            for refused in 0..3 {
                DISK_FAILS.set(true);
                vote_store.store(&promise(boot + 10 + refused)).expect_err("the disk fails");
                DISK_FAILS.set(false);
                assert_eq!(std::fs::read(dir.path().join("promise")).expect("the file"), kept);
            }
            assert_eq!(vote_store.load().expect("there"), Some(promise(boot)));
        }
    }

    fn told() -> Members {
        let member = MemberAt { replica: ReplicaId(3), address: "tcp://h\u{f6}st:1 2".into() };
        Members { term: Term::new(2, ReplicaId(1)), changed: true, list: vec![member] }
    }

    #[test]
    fn a_promise_is_found_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let vote_store = FileVoteStore::open(&dir.path().join("node")).expect("a vote store");
        assert_eq!(vote_store.load().expect("empty"), None);
        let told = told();
        for (counter, members) in [(1, &told), (7, &Members::default()), (u32::MAX, &told)] {
            let promise =
                Promise { term: Term::new(counter, ReplicaId(3)), members: members.clone(), ..promise(12) };
            vote_store.store(&promise).expect("stored");
            assert_eq!(vote_store.load().expect("there"), Some(promise));
        }
        let of_group = |group| {
            let name = format!("promise-{group}");
            FileVoteStore::named(&dir.path().join("node"), &name).expect("a vote store")
        };
        of_group(7).store(&Promise { boot: 3, ..Promise::default() }).expect("stored");
        assert_eq!(of_group(8).load().expect("empty"), None, "each group has its own");
        assert_eq!(of_group(7).load().expect("there").map(|promise| promise.boot), Some(3));
    }

    fn promise(boot: u64) -> Promise {
        let founders = vec![(ReplicaId(0), 9), (ReplicaId(255), u64::MAX)];
        Promise { term: Term::new(2, ReplicaId(3)), boot, members: told(), origin: 9, founders }
    }

    /// A line as it is in a file of a version without numbers.
    fn line_of_before(promise: &Promise) -> String {
        let Promise { term, boot, members, .. } = promise;
        signed(
            SUM_KEY,
            match members.list.is_empty() {
                true => format!("longarm-promise 1 {} {boot}", term.bits()),
                false => format!("longarm-promise 2 {} {boot} {}", term.bits(), hex(&members.encode())),
            },
        )
    }

    /// The same, of a version without origins.
    fn without_origin(boot: u64) -> Promise {
        Promise { origin: 0, founders: Vec::new(), ..promise(boot) }
    }

    /// A line of the last version without origins.
    #[test]
    fn a_file_without_an_origin_is_read() {
        let (term, members) = (Term::new(2, ReplicaId(3)), hex(&told().encode()));
        let text = signed(SUM_KEY, format!("longarm-promise 3 8 {} 12 {members}", term.bits()));
        let line = Line::parse(&text).expect("a line");
        assert_eq!(line, Line { number: 8, promise: without_origin(12) });
    }

    /// A store in a directory, and what writes into its file from outside.
    fn vote_store(dir: &Path) -> (FileVoteStore, impl Fn(usize, &str)) {
        let vote_store = FileVoteStore::open(dir).expect("a vote store");
        let path = dir.join("promise");
        let write = move |at: usize, text: &str| {
            let file = OpenOptions::new().write(true).open(&path).expect("the file");
            file.write_all_at(text.as_bytes(), at as u64).expect("written");
        };
        (vote_store, write)
    }

    /// A crash may come while a promise is kept: any part of what the store had not waited for may be on
    /// disk.
    #[test]
    fn a_crash_takes_no_promise_that_was_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let (vote_store, write) = vote_store(dir.path());
        let path = dir.path().join("promise");
        for boot in 1..6 {
            vote_store.store(&promise(boot)).expect("stored");
            let kept = std::fs::read(&path).expect("the file");
            vote_store.store(&promise(boot + 1)).expect("stored");
            let (place, line) = Line::newest(&std::fs::read(&path).expect("the file")).expect("a line");
            let (text, first, second) = (line.text(), place * COPY, (1 - place) * COPY);
            for cut in 0..=text.len() {
                // The promise was not yet said to be kept. The line of the one before may be cut nowhere.
                std::fs::write(&path, &kept).expect("written");
                write(first, &text[..cut]);
                let found = vote_store.load().expect("there").expect("a promise");
                assert!(found == promise(boot) || cut > 0 && found == promise(boot + 1), "{cut} bytes");
                // The promise was kept.
                write(first, &text);
                write(second, &text[..cut]);
                assert_eq!(vote_store.load().expect("there"), Some(promise(boot + 1)), "{cut} bytes");
            }
        }
    }

    /// However often one crash follows another, the place that is written is never the only one with a
    /// promise.
    #[test]
    fn what_was_not_on_disk_yet_is_not_needed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (vote_store, write) = vote_store(dir.path());
        let path = dir.path().join("promise");
        vote_store.store(&promise(1)).expect("stored");
        for boot in 2..12 {
            let before = std::fs::read(&path).expect("the file");
            vote_store.store(&promise(boot)).expect("stored");
            let (place, _) = Line::newest(&std::fs::read(&path).expect("the file")).expect("a line");
            // The write to the other place is lost, or damages that place.
            let (other, text) = ((1 - place) * COPY, String::from_utf8(before).expect("text"));
            write(other, if boot % 3 == 0 { "longarm" } else { &text[other..other + COPY] });
            assert_eq!(vote_store.load().expect("there"), Some(promise(boot)), "{boot}");
        }
    }

    #[test]
    fn a_copy_that_is_damaged_is_made_up_for_by_the_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let (vote_store, write) = vote_store(dir.path());
        let path = dir.path().join("promise");
        for boot in 1..5 {
            vote_store.store(&promise(boot)).expect("stored");
            let whole = std::fs::read(&path).expect("the file");
            for place in [0, COPY] {
                std::fs::write(&path, &whole).expect("written");
                write(place, "longarm-promise 3 9");
                assert_eq!(vote_store.load().expect("the other"), Some(promise(boot)));
            }
        }
        let text = std::fs::read_to_string(&path).expect("the file").replace(" 4 ", " 5 ");
        std::fs::write(&path, text).expect("written");
        assert!(vote_store.load().expect_err("damaged").to_string().contains("damaged"));
        vote_store.store(&promise(15)).expect("stored");
        assert_eq!(vote_store.load().expect("there"), Some(promise(15)), "and is whole again");
    }

    #[test]
    fn a_file_of_before_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let (vote_store, write) = vote_store(dir.path());
        let path = dir.path().join("promise");
        // A file with one line.
        let text = line_of_before(&promise(12));
        std::fs::write(&path, &text).expect("written");
        assert_eq!(vote_store.load().expect("there"), Some(without_origin(12)));
        vote_store.store(&promise(12)).expect("stored");
        assert_eq!(std::fs::metadata(&path).expect("the file").len(), 2 * COPY as u64);
        assert_eq!(vote_store.load().expect("there"), Some(promise(12)));
        for cut in 0..text.len() {
            std::fs::write(&path, &text[..cut]).expect("written");
            assert!(vote_store.load().is_err(), "{cut} bytes");
        }
        std::fs::write(&path, text.replace(" 12 ", " 13 ")).expect("written");
        assert!(vote_store.load().expect_err("damaged").to_string().contains("damaged"));
        // A file with two lines, of which the first was written first.
        let nobody = Promise { members: Members::default(), ..without_origin(14) };
        std::fs::write(&path, vec![b' '; 2 * COPY]).expect("written");
        write(0, &line_of_before(&nobody));
        write(COPY, &line_of_before(&promise(12)));
        assert_eq!(vote_store.load().expect("there"), Some(nobody.clone()));
        noted();
        vote_store.store(&promise(15)).expect("stored");
        assert_eq!(noted()[0], format!("write at {COPY}"), "the one that tells is left alone");
        assert_eq!(vote_store.load().expect("there"), Some(promise(15)));
    }
}
