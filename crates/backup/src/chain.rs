//! A backup that is read: with the older ones that it rests on.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::BackupError;
use crate::frame::{Frame, HEAD};
use crate::manifest::{BYTES_MAX, Manifest, UseName};
use crate::parts::{MANIFEST, Parts, begin_stream};

/// The most backups that rest on each other.
const LENGTH_MAX: usize = 1000;

/// A backup in a directory.
#[derive(Clone, Debug)]
struct Opened {
    dir: PathBuf,
    manifest: Manifest,
}

/// A backup, and those that it rests on: the one to restore first.
#[derive(Debug)]
pub struct Chain {
    backups: Vec<Opened>,
}

/// What was found in a backup, or in several.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The manifest of the newest.
    pub manifest: Manifest,
    /// Backups that were read.
    pub backups: usize,
    /// Entries that count: of one key perhaps several.
    pub entries: u64,
    /// Those of them that are tombstones.
    pub tombstones: u64,
    /// Segments with entries, each of a run counted.
    pub segments: u64,
    /// Bytes of parts that were read.
    pub bytes: u64,
}

impl Chain {
    /// Opens the backup in a directory, with all that it rests on.
    pub fn open(dir: &Path) -> Result<Chain, BackupError> {
        let first = Opened::open(dir)?;
        Chain { backups: vec![first] }.complete()
    }

    /// The manifest of the newest.
    pub fn manifest(&self) -> &Manifest {
        &self.backups[0].manifest
    }

    fn complete(mut self) -> Result<Chain, BackupError> {
        while let Some(next) = self.backups.last().expect("one at least").parent()? {
            if self.backups.len() == LENGTH_MAX {
                let what = format!("more than {LENGTH_MAX} backups rest on each other");
                return Err(BackupError::Unrelated { path: next.dir, what });
            }
            self.backups.push(next);
        }
        Ok(self)
    }

    /// Shows every frame that counts, of the backup and of those that it rests on. What verifies of each
    /// backup is all that was written. Returns what was found.
    pub fn visit(
        &self,
        each: &mut dyn FnMut(&Frame) -> Result<(), BackupError>,
    ) -> Result<Checked, BackupError> {
        let mut checked = Checked::of(self.manifest().clone());
        let mut wanted = None;
        for Opened { dir, manifest } in &self.backups {
            let mut parts = Parts::Files { dir, parts: &manifest.parts, read: 0 };
            visit_parts(&mut parts, manifest.version, wanted.as_ref(), &mut checked, each)?;
            checked.backups += 1;
            wanted = Some(older(manifest, wanted));
        }
        Ok(checked)
    }

    /// The same of a backup that comes on a stream; its manifest is known at its end.
    pub fn visit_stream(
        name: &Path,
        from: &mut dyn Read,
        each: &mut dyn FnMut(&Frame) -> Result<(), BackupError>,
    ) -> Result<Checked, BackupError> {
        begin_stream(name, from)?;
        let mut parts = Parts::Stream { name, from, parts: Vec::new(), manifest: None };
        let mut checked = Checked::empty();
        let newest = visit_parts(&mut parts, u64::MAX, None, &mut checked, each)?;
        let Parts::Stream { parts, manifest, .. } = parts else { unreachable!("made above") };
        let manifest = Manifest::decode(name, &manifest.expect("it came last"))?;
        if manifest.parts != parts || newest > manifest.version {
            return Err(BackupError::damaged(name, "its manifest is of another backup"));
        }
        checked.backups = 1;
        checked.manifest = manifest.clone();
        let first = Opened { dir: name.into(), manifest };
        let mut wanted = older(&first.manifest, None);
        let chain = match first.parent()? {
            None => return Ok(checked),
            Some(next) => Chain { backups: vec![next] }.complete()?,
        };
        for Opened { dir, manifest } in &chain.backups {
            let mut parts = Parts::Files { dir, parts: &manifest.parts, read: 0 };
            visit_parts(&mut parts, manifest.version, Some(&wanted), &mut checked, each)?;
            checked.backups += 1;
            wanted = older(manifest, Some(wanted));
        }
        Ok(checked)
    }
}

/// Reads every byte of a backup, and of those that it rests on.
pub fn check(dir: &Path) -> Result<Checked, BackupError> {
    Chain::open(dir)?.visit(&mut |_| Ok(()))
}

/// What is wanted of the backup that one rests on: of those that are wanted of it, or all, what is not in it.
fn older(manifest: &Manifest, wanted: Option<BTreeSet<UseName>>) -> BTreeSet<UseName> {
    let elsewhere = manifest.segments.iter().filter(|it| !it.here).map(|it| it.name);
    elsewhere.filter(|name| wanted.as_ref().is_none_or(|wanted| wanted.contains(name))).collect()
}

impl Opened {
    fn open(dir: &Path) -> Result<Opened, BackupError> {
        let path = dir.join(MANIFEST);
        let file = std::fs::File::open(&path).map_err(|error| not_opened(dir, &path, error))?;
        let mut bytes = Vec::new();
        let read = file.take(BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| BackupError::io("read", &path, error))?;
        Ok(Opened { dir: dir.into(), manifest: Manifest::decode(&path, &bytes)? })
    }

    /// The backup that this one rests on: where it was, or beside this one.
    fn parent(&self) -> Result<Option<Opened>, BackupError> {
        let Some(since) = &self.manifest.since else { return Ok(None) };
        let beside = since.path.file_name().zip(self.dir.parent()).map(|(name, dir)| dir.join(name));
        let mut found = Vec::new();
        for place in [Some(since.path.clone()), beside].into_iter().flatten() {
            match Opened::open(&place) {
                Ok(opened) if opened.manifest.id == since.id => found.push(opened),
                Err(error @ (BackupError::Damaged { .. } | BackupError::Version { .. })) => {
                    return Err(error);
                }
                _ => {}
            }
        }
        let missing =
            || BackupError::NoParent { path: self.dir.clone(), id: since.id.clone(), at: since.path.clone() };
        let parent = found.into_iter().next().ok_or_else(missing)?;
        let (ours, its) = (&self.manifest, &parent.manifest);
        let has = its.whole();
        let lacks = ours.segments.iter().find(|it| !it.here && !has.contains_key(&it.name));
        if ours.group != its.group || its.version > ours.version || lacks.is_some() {
            let what = "its manifest does not have what is to be in it".to_string();
            return Err(BackupError::Unrelated { path: parent.dir, what });
        }
        Ok(Some(parent))
    }
}

/// Why there is no manifest in a directory.
fn not_opened(dir: &Path, manifest: &Path, error: std::io::Error) -> BackupError {
    let path = dir.to_path_buf();
    match error.kind() {
        ErrorKind::NotFound if dir.join("identity").exists() => BackupError::OfServer { path },
        ErrorKind::NotFound if dir.is_dir() => BackupError::Incomplete { path },
        ErrorKind::NotFound => BackupError::Absent { path },
        ErrorKind::NotADirectory => BackupError::Stream { path },
        _ => BackupError::io("open", manifest, error),
    }
}

impl Checked {
    fn of(manifest: Manifest) -> Checked {
        Checked { manifest, backups: 0, entries: 0, tombstones: 0, segments: 0, bytes: 0 }
    }

    /// Until the manifest is known.
    fn empty() -> Checked {
        Checked::of(Manifest::default())
    }
}

/// Shows the frames of a backup, or those that are wanted. None may be above its version. The newest version.
fn visit_parts(
    parts: &mut Parts<'_>,
    version: u64,
    wanted: Option<&BTreeSet<UseName>>,
    checked: &mut Checked,
    each: &mut dyn FnMut(&Frame) -> Result<(), BackupError>,
) -> Result<u64, BackupError> {
    let mut bytes = Bytes { parts, buffer: Vec::new(), at: 0, read: 0 };
    let mut newest = 0;
    let mut head = [0; HEAD];
    while bytes.fill(&mut head)? {
        let (frame, len) = Frame::of_head(&head).map_err(|what| bytes.damaged(what))?;
        let mut body = vec![0; len];
        if !bytes.fill(&mut body)? {
            return Err(bytes.damaged("its last segment is cut off"));
        }
        let frame = frame.with_body(body).map_err(|what| bytes.damaged(what))?;
        let last = frame.iter().map(|entry| entry.csn.0).max().unwrap_or(0);
        if last > version {
            return Err(bytes.damaged(&format!("it has version {last}, and is of {version}")));
        }
        newest = newest.max(last);
        let name = UseName { segment: frame.segment, claim: frame.line.claim, term: frame.line.term.bits() };
        if wanted.is_some_and(|wanted| !wanted.contains(&name)) {
            continue;
        }
        checked.entries += u64::from(frame.entries);
        let is_delete = |entry: &crate::BackedEntry<'_>| entry.kind == longarm_store::EntryKind::Tombstone;
        checked.tombstones += frame.iter().filter(is_delete).count() as u64;
        checked.segments += u64::from(frame.line.run);
        each(&frame)?;
    }
    checked.bytes += bytes.read;
    Ok(newest)
}

/// The bytes of all parts, one after the other.
struct Bytes<'a, 'p> {
    parts: &'a mut Parts<'p>,
    buffer: Vec<u8>,
    at: usize,
    read: u64,
}

impl Bytes<'_, '_> {
    /// Fills all of `into`; `false` if there is no byte any more.
    fn fill(&mut self, into: &mut [u8]) -> Result<bool, BackupError> {
        let mut filled = 0;
        while filled < into.len() {
            if self.at == self.buffer.len() {
                let Some(next) = self.parts.next()? else { break };
                self.read += next.len() as u64;
                (self.buffer, self.at) = (next, 0);
            }
            let now = (into.len() - filled).min(self.buffer.len() - self.at);
            into[filled..filled + now].copy_from_slice(&self.buffer[self.at..self.at + now]);
            (filled, self.at) = (filled + now, self.at + now);
        }
        match filled {
            0 => Ok(into.is_empty()),
            filled if filled == into.len() => Ok(true),
            _ => Err(self.damaged("it ends in the middle of a segment")),
        }
    }

    fn damaged(&self, what: &str) -> BackupError {
        BackupError::damaged(self.parts.name(), what)
    }
}
