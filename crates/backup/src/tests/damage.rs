//! Backups on disk and on a stream: what comes back, and what is refused, by name.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use longarm_base::{Csn, UnixMillis};
use longarm_group::Look;
use longarm_store::EntryKind;
use proptest::prelude::*;

use super::leader::{Act, Backup, Item, Leader, back_up};
use crate::frame::{Frame, HEAD};
use crate::manifest::{Manifest, Since};
use crate::{BackupError, Chain, Origin, Target, Whose, check, restore};

/// The memory of what is restored.
const MEMORY: u64 = 64 << 20;

fn put(key: u8, len: usize) -> Act {
    Act::Put { key, len, ttl_ms: 0 }
}

/// A leader with items of all sizes, deletes, and an item that expires.
fn leader() -> Leader {
    let mut leader = Leader::with(MEMORY / 2);
    (0..40).for_each(|key| leader.act(put(key, 100 * usize::from(key % 9))));
    (0..20).for_each(|key| leader.act(put(key, 50)));
    (5..9).for_each(|key| leader.act(Act::Delete { key }));
    leader.act(Act::Put { key: 77, len: 2_500_000, ttl_ms: 0 });
    leader.act(Act::Put { key: 78, len: 7, ttl_ms: 123_456 });
    leader
}

fn manifest(backup: &Backup, id: &str, since: Option<Since>) -> Manifest {
    let Backup { start, contents, .. } = backup;
    Manifest {
        id: id.into(),
        group: format!("{:016x}", start.group),
        version: start.csn.0,
        unix_ms: start.unix.0,
        segments: contents.clone(),
        since,
        ..Manifest::new()
    }
}

/// Writes a backup to a directory.
fn write(backup: &Backup, dir: &Path, id: &str, since: Option<Since>) {
    let mut target = Target::directory(dir).expect("a directory");
    backup.frames.iter().for_each(|frame| target.take(frame).expect("taken"));
    target.finish(manifest(backup, id, since)).expect("written");
}

/// A stream that is kept.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("kept").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The bytes of a backup on a stream.
fn stream(backup: &Backup) -> Vec<u8> {
    let kept = Kept::default();
    let mut target = Target::stream(Box::new(kept.clone())).expect("begun");
    backup.frames.iter().for_each(|frame| target.take(frame).expect("taken"));
    target.finish(manifest(backup, "1", None)).expect("written");
    let bytes = kept.0.lock().expect("kept");
    bytes.clone()
}

/// Of each key the newest version that a data directory has.
fn found(dir: &Path) -> BTreeMap<u8, Item> {
    let mut found = BTreeMap::<u8, Item>::new();
    let report = longarm_group::look(dir, Look::AtRest, &mut |at| {
        let value = (at.entry.kind != EntryKind::Tombstone).then(|| at.entry.value.to_vec());
        let item = Item { csn: at.entry.csn, value, expiry: at.entry.expiry };
        let known = found.entry(at.entry.key[1]).or_insert_with(|| item.clone());
        if known.csn < item.csn {
            *known = item;
        }
    });
    let report = report.expect("a data directory");
    assert!(report.is_sound() && report.dropped == 0, "{report:?}");
    let note = report.note.expect("there");
    assert!(note.ended && note.stable == note.ceiling && report.newest <= note.stable, "{note:?}");
    found.retain(|_, item| item.value.is_some());
    found
}

fn refused(made: Result<impl std::fmt::Debug, BackupError>) -> String {
    made.expect_err("it is refused").to_string()
}

#[test]
fn a_data_directory_has_what_the_leader_held() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let mut leader = leader();
    let backup = back_up(&mut leader, None).expect("a backup");
    let held = leader.at(backup.start.csn);
    assert_eq!(held[&77].value.as_ref().map(Vec::len), Some(2_500_000));
    assert_ne!(held[&78].expiry, UnixMillis::NEVER);
    write(&backup, &at("b"), "1", None);
    let checked = check(&at("b")).expect("sound");
    assert!(checked.entries as usize > held.len() && checked.tombstones == 4, "{checked:?}");
    restore(Origin::Directory(&at("b")), &at("from-files"), Whose::Alone, MEMORY).expect("restored");
    assert!(found(&at("from-files")) == held);
    let bytes = stream(&backup);
    restore(
        Origin::Stream(Path::new("s"), &mut Cursor::new(bytes)),
        &at("from-stream"),
        Whose::Alone,
        MEMORY,
    )
    .expect("restored");
    assert!(found(&at("from-stream")) == held);
    // Neither goes where something is.
    let full = refused(restore(Origin::Directory(&at("b")), &at("from-files"), Whose::Alone, MEMORY));
    assert!(full.contains("is not empty: it holds `"), "{full}");
    let small = refused(restore(Origin::Directory(&at("b")), &at("small"), Whose::Alone, 16 << 20));
    assert!(small.contains("raise --memory") && !at("small").exists(), "{small}");
}

#[test]
fn what_is_not_what_was_written_is_refused_and_leaves_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let backup = back_up(&mut leader(), None).expect("a backup");
    write(&backup, &at("b"), "1", None);
    let attempt = |what: &str, named: &str| {
        for error in [
            refused(check(&at("b"))),
            refused(restore(Origin::Directory(&at("b")), &at("d"), Whose::Alone, MEMORY)),
        ] {
            assert!(error.contains(named), "{what}: {error}");
            assert!(!at("d").exists(), "{what}: something is left");
        }
    };
    let change = |name: &str, how: &dyn Fn(&mut Vec<u8>)| {
        let whole = std::fs::read(at("b").join(name)).expect("read");
        let mut bytes = whole.clone();
        how(&mut bytes);
        std::fs::write(at("b").join(name), bytes).expect("written");
        whole
    };
    let back = |name: &str, whole: Vec<u8>| std::fs::write(at("b").join(name), whole).expect("written");
    let part = "part-000000";
    let whole = change(part, &|bytes| bytes[5000] ^= 1);
    attempt("a flipped bit", "part-000000 is damaged: its sum");
    back(part, whole);
    let whole = change(part, &|bytes| bytes.truncate(9000));
    attempt("cut off", "part-000000 is damaged: it has 9000 bytes");
    back(part, whole);
    let whole = change(part, &|bytes| bytes.clear());
    std::fs::remove_file(at("b").join(part)).expect("removed");
    attempt("a part that is gone", "part-000000 is damaged: it is missing");
    back(part, whole);
    let whole = change("manifest", &|bytes| bytes[30] ^= 1);
    attempt("a flipped bit of the manifest", "manifest is damaged: its sum");
    back("manifest", whole.clone());
    std::fs::remove_file(at("b").join("manifest")).expect("removed");
    attempt("no manifest", "has no manifest: it is no backup, or one that was not completed");
    back("manifest", whole);
    check(&at("b")).expect("whole again");
    let later = Manifest { format: 2, ..manifest(&backup, "1", None) };
    back("manifest", later.encode());
    attempt("of a later program", "has format 2 of backups, and this program knows 1");
}

/// Each place of a stream that is cut off or flipped, but for those that only say the same in other words.
#[test]
fn a_stream_that_is_cut_off_or_flipped_anywhere_is_refused() {
    let mut leader = Leader::new();
    (0..5).for_each(|key| leader.act(put(key, 20)));
    let bytes = stream(&back_up(&mut leader, None).expect("a backup"));
    let read = |bytes: &[u8]| {
        Chain::visit_stream(Path::new("s"), &mut Cursor::new(bytes), &mut |_| Ok(())).map(|it| it.entries)
    };
    assert_eq!(read(&bytes).expect("whole"), 5);
    for end in 0..bytes.len() {
        assert!(refused(read(&bytes[..end])).contains("s is damaged"), "cut off at {end}");
        let mut flipped = bytes.clone();
        flipped[end] ^= 0x20;
        assert!(refused(read(&flipped)).contains("s is damaged"), "flipped at {end}");
    }
}

/// Three backups, each of which rests on the one before.
fn chain(home: &Path) -> (Leader, Vec<PathBuf>) {
    let mut leader = leader();
    let (mut places, mut older) = (Vec::new(), None::<Manifest>);
    for round in 0..3 {
        let backup = back_up(&mut leader, older.as_ref()).expect("a backup");
        let place = home.join(format!("b{round}"));
        let since =
            places.last().map(|path: &PathBuf| Since { id: format!("{}", round - 1), path: path.clone() });
        write(&backup, &place, &format!("{round}"), since);
        older = Some(manifest(&backup, &format!("{round}"), None));
        places.push(place);
        let reused = backup.contents.iter().any(|it| !it.here);
        assert_eq!(reused, round > 0, "round {round}");
        (0..6).for_each(|key| leader.act(put(key, 1000 + 10 * round)));
    }
    (leader, places)
}

#[test]
fn a_backup_that_rests_on_others_needs_them_all() {
    let home = tempfile::tempdir().expect("a directory");
    let (leader, places) = chain(home.path());
    let last = |to: &str| restore(Origin::Directory(&places[2]), &home.path().join(to), Whose::Alone, MEMORY);
    let restored = last("d0").expect("restored");
    assert_eq!(restored.backup.backups, 3);
    let version = Csn(restored.backup.manifest.version);
    assert!(found(&home.path().join("d0")) == leader.at(version));
    // All of them were moved together.
    let moved = home.path().join("moved");
    std::fs::create_dir(&moved).expect("a directory");
    for place in &places {
        std::fs::rename(place, moved.join(place.file_name().expect("a name"))).expect("moved");
    }
    restore(Origin::Directory(&moved.join("b2")), &home.path().join("d1"), Whose::Alone, MEMORY)
        .expect("restored");
    // The oldest is gone.
    std::fs::rename(moved.join("b0"), home.path().join("elsewhere")).expect("moved");
    let gone = refused(check(&moved.join("b2")));
    assert!(gone.contains("b1 rests on the backup 0") && gone.contains("put it back"), "{gone}");
    // Another one has its name.
    let mut other = Leader::new();
    other.act(put(1, 10));
    write(&back_up(&mut other, None).expect("a backup"), &moved.join("b0"), "other", None);
    assert!(refused(check(&moved.join("b2"))).contains("rests on the backup 0"));
    std::fs::remove_dir_all(moved.join("b0")).expect("removed");
    std::fs::rename(home.path().join("elsewhere"), moved.join("b0")).expect("moved");
    let part = moved.join("b0").join("part-000000");
    let mut bytes = std::fs::read(&part).expect("read");
    bytes[100] ^= 1;
    std::fs::write(&part, bytes).expect("written");
    assert!(refused(check(&moved.join("b2"))).contains("b0/part-000000 is damaged"));
}

#[test]
fn a_backup_rests_on_none_of_another_group_or_a_later_version() {
    let mut leader = leader();
    let backup = back_up(&mut leader, None).expect("a backup");
    let of = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = manifest(&backup, "1", None);
        change(&mut manifest);
        let mut again = super::damage::leader();
        match back_up(&mut again, Some(&manifest)) {
            Err(crate::CopyError::Unrelated(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert!(of(&|it| it.group = "cd".into()).contains("it is of group cd"));
    assert!(of(&|it| it.version += 1_000_000).contains("and this server at"));
}

#[test]
fn a_target_that_is_given_up_leaves_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let backup = back_up(&mut leader(), None).expect("a backup");
    let (made, there) = (home.path().join("made"), home.path().join("there"));
    std::fs::create_dir(&there).expect("a directory");
    for dir in [&made, &there] {
        let mut target = Target::directory(dir).expect("a directory");
        (0..6).for_each(|_| backup.frames.iter().for_each(|frame| target.take(frame).expect("taken")));
        assert!(dir.join("part-000000").exists());
        target.abandon();
    }
    assert!(!made.exists() && there.read_dir().expect("there").next().is_none());
}

proptest! {
    /// Bytes that nobody wrote are refused, or are frames that say the same when they are written again.
    #[test]
    fn garbage_is_refused_or_a_frame(
        words in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..300], 8),
        body in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0)], 0..200),
    ) {
        let mut head = [0; HEAD];
        for (chunk, word) in head.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        head[..4].copy_from_slice(b"SEGM");
        if let Ok((frame, _)) = Frame::of_head(&head)
            && let Ok(frame) = frame.with_body(body.clone())
        {
            prop_assert_eq!(frame.body(), &body[..]);
            prop_assert_eq!(frame.iter().count(), frame.entries as usize);
        }
    }
}
