//! A leader without followers, threads and clock, which a backup is made of while it goes on.

use std::collections::{BTreeMap, VecDeque};

use longarm_base::{Csn, Nanos, ReplicaId, Term, UnixMillis};
use longarm_engine::session::Sessions;
use longarm_engine::testing::{QUARANTINE, SUM_KEY, TIMES, apply, arena, engine_of, execute};
use longarm_engine::{Engine, Timestamps, WorkerContext, reclaim::Relocated};
use longarm_index::hash::SlotKind;
use longarm_memory::{Mapped, SumKey, Words};
use longarm_replica::{Party, Releases};
use longarm_store::{Collector, EntryKind, Work};
use longarm_wire::{Request, RequestKind, Status};

use crate::copying::{CopyError, Copying, Source, Start};
use crate::frame::Frame;
use crate::manifest::{Contents, Manifest};

/// The memory of the leader: a few segments, each of which is used several times.
const LIMIT: u64 = 16 << 20;
const TERM: Term = Term::new(3, ReplicaId(0));
/// The live share below which segments are collected, in percent.
const WORTH: u32 = 60;
/// The group of the leader.
pub const GROUP: u64 = 0xAB;

/// Something that happens beside a backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// A key is written, with a value of so many bytes; with a time to live, or for ever.
    Put { key: u8, len: usize, ttl_ms: u64 },
    /// A key is deleted.
    Delete { key: u8 },
    /// What is nearly dead is moved, and what is dead is to be freed, once it was let go of.
    Collect,
    /// The same, and the oldest segments are emptied, however much of them is alive.
    Empty,
    /// Time passes.
    Wait,
}

/// What a key is from a version on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    pub csn: Csn,
    pub value: Option<Vec<u8>>,
    pub expiry: UnixMillis,
}

/// The leader.
pub struct Leader {
    arena: Mapped,
    engine: Engine<Mapped>,
    context: WorkerContext<Mapped>,
    maintenance: WorkerContext<Mapped>,
    collector: Collector<Mapped>,
    sessions: Sessions,
    pub releases: Releases,
    now: Nanos,
    /// All that was written, by key.
    pub log: BTreeMap<u8, Vec<Item>>,
    /// What happens at the next calls of the backup, one after the other.
    pub script: VecDeque<Vec<Act>>,
    /// Calls of the backup so far.
    pub calls: usize,
    /// Segments that were freed.
    pub freed: u64,
}

impl Leader {
    pub fn new() -> Leader {
        Leader::with(LIMIT)
    }

    /// A leader with so much memory.
    pub fn with(limit: u64) -> Leader {
        let arena = arena(limit);
        let engine = engine_of(TERM, 0, SlotKind::Inline64, limit, &arena);
        let (context, maintenance) = (engine.worker_context(0), engine.worker_context(1));
        let collector = Collector::new(engine.store.clone());
        Leader {
            arena,
            engine,
            context,
            maintenance,
            collector,
            sessions: Sessions::new(16, Nanos(u64::MAX)),
            releases: Releases::default(),
            now: TIMES.now,
            log: BTreeMap::new(),
            script: VecDeque::new(),
            calls: 0,
            freed: 0,
        }
    }

    fn times(&self) -> Timestamps {
        Timestamps { now: self.now, ..TIMES }
    }

    pub fn act(&mut self, act: Act) {
        let times = self.times();
        match act {
            Act::Put { key, len, ttl_ms } => {
                let count = self.log.get(&key).map_or(0, Vec::len);
                let value: Vec<u8> = (0..len).map(|i| (i as u8) ^ key ^ (count as u8)).collect();
                let name = [b'k', key];
                let put = Request { key: &name, value: &value, ttl_ms, ..Request::new(RequestKind::Put, 0) };
                // A full memory refuses, which is as if nothing had been asked.
                let Ok(done) = execute(&self.engine, &mut self.context, times, &put) else { return };
                assert_eq!(done.status, Status::Ok);
                let expiry = if ttl_ms == 0 { UnixMillis::NEVER } else { UnixMillis(times.unix.0 + ttl_ms) };
                self.log.entry(key).or_default().push(Item { csn: done.csn, value: Some(value), expiry });
            }
            Act::Delete { key } => {
                let name = [b'k', key];
                let delete = Request { key: &name, ..Request::new(RequestKind::Delete, 0) };
                let Ok(done) = execute(&self.engine, &mut self.context, times, &delete) else { return };
                if done.status == Status::Ok {
                    let gone = Item { csn: done.csn, value: None, expiry: UnixMillis::NEVER };
                    self.log.entry(key).or_default().push(gone);
                }
            }
            Act::Collect => self.collect(false),
            Act::Empty => self.collect(true),
            Act::Wait => self.now = self.now + QUARANTINE + Nanos(1),
        }
    }

    /// Makes a pass of the maintenance thread.
    fn collect(&mut self, empties: bool) {
        let times = self.times();
        self.maintenance.writer.seal_old();
        self.collector.empty_before(empties.then(|| self.engine.csn()));
        self.collector.review();
        for _ in 0..10_000 {
            match self.collector.next_work(times.now, WORTH) {
                Work::Move { place, csn } => {
                    let Leader { engine, maintenance, sessions, .. } = self;
                    if engine.relocate(maintenance, times, place, csn, sessions) == Relocated::Full {
                        self.collector.starved(times.now);
                        break;
                    }
                    apply(engine, maintenance, times);
                }
                Work::Again => {}
                Work::Review { place, csn } => {
                    let Leader { engine, maintenance, sessions, .. } = self;
                    engine.review(maintenance, place, csn, sessions);
                    apply(engine, maintenance, times);
                }
                Work::Release { segment, .. } => {
                    let Leader { engine, maintenance, sessions, .. } = self;
                    assert_eq!(engine.save_records(maintenance, segment, 0, sessions), None);
                    apply(engine, maintenance, times);
                    self.releases.ask(segment, Vec::new(), self.engine.csn());
                }
                Work::Idle(_) => break,
            }
        }
        self.free();
    }

    fn free(&mut self) {
        let store = &self.engine.store;
        let mut freed = 0;
        self.releases.free(|segment| {
            store.released(segment);
            freed += 1;
        });
        self.freed += freed;
    }

    /// What the leader held at a version, by key.
    pub fn at(&self, version: Csn) -> BTreeMap<u8, Item> {
        let newest = |items: &Vec<Item>| items.iter().rfind(|item| item.csn <= version).cloned();
        let held = self.log.iter().filter_map(|(key, items)| Some((*key, newest(items)?)));
        held.filter(|(_, item)| item.value.is_some()).collect()
    }

    /// Has happen what is to happen before this call.
    fn happen(&mut self) {
        self.calls += 1;
        for act in self.script.pop_front().unwrap_or_default() {
            self.act(act);
        }
    }
}

impl Source for &mut Leader {
    type Error = String;

    fn begin(&mut self) -> Result<Start, String> {
        self.happen();
        self.releases.join(Party::Backup);
        let (csn, claims) = (self.engine.stable_point(), self.engine.store.claims());
        Ok(Start { csn, claims, unix: TIMES.unix, term: TERM, group: GROUP })
    }

    fn bytes(&self) -> u64 {
        self.arena.bytes()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        self.happen();
        self.arena.copy_out(offset, into);
        Ok(())
    }

    fn let_go(&mut self, segments: &[u32]) -> Result<u64, String> {
        self.happen();
        self.releases.let_go(Party::Backup, segments);
        self.free();
        Ok(self.releases.asked(Party::Backup, |_, _| true).segments.len() as u64)
    }

    fn end(&mut self) -> Result<(), String> {
        self.happen();
        self.releases.leave(Party::Backup);
        self.free();
        Ok(())
    }

    fn sums(&self) -> SumKey {
        SumKey::new(SUM_KEY)
    }
}

/// A backup in memory.
#[derive(Clone, Debug)]
pub struct Backup {
    pub start: Start,
    pub frames: Vec<Frame>,
    pub contents: Vec<Contents>,
}

impl Backup {
    /// What it would be as an older one.
    pub fn manifest(&self) -> Manifest {
        let group = format!("{GROUP:016x}");
        Manifest { group, version: self.start.csn.0, segments: self.contents.clone(), ..Manifest::default() }
    }
}

/// Makes a backup of the leader, which goes on by its script.
pub fn back_up(leader: &mut Leader, since: Option<&Manifest>) -> Result<Backup, CopyError<String>> {
    let mut copying = Copying::begin(&mut *leader, since)?;
    let (start, mut frames) = (copying.start(), Vec::new());
    while let Some(step) = copying.step()? {
        frames.extend(step.frame);
        copying.tell()?;
    }
    let contents = copying.end()?;
    Ok(Backup { start, frames, contents })
}

/// Of each key the newest version in these frames.
pub fn newest<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> BTreeMap<u8, Item> {
    let mut found = BTreeMap::<u8, Item>::new();
    for frame in frames {
        for entry in frame.iter() {
            let value = (entry.kind != EntryKind::Tombstone).then(|| entry.value.to_vec());
            let item = Item { csn: entry.csn, value, expiry: entry.expiry };
            let known = found.entry(entry.key[1]).or_insert_with(|| item.clone());
            if known.csn < item.csn {
                *known = item;
            }
        }
    }
    found.retain(|_, item| item.value.is_some());
    found
}
