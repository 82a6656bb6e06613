//! A server that keeps its data: one life after the other on the same directory, and disks that fail.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longarm_base::{Nanos, ReplicaId};
use longarm_disk::layout::file_bytes;
use longarm_disk::{ArenaDisk, DiskError, Found, Medium, MediumKind, SectorMedium, Shape};
use longarm_fabric::Member;
use longarm_group::{
    DataOptions, DiskSource, Durability, Durable, GroupOptions, Promise, ReplicaDisk, Scrubbing, VoteStore,
};
use longarm_host::Mutex;
use longarm_index::hash::Discipline;
use longarm_replica::Timing;
use longarm_wire::{Request, RequestKind, Status};

use super::harness::{Raw, options, shm_address, start, until};
use crate::{Server, ServerOptions, StartError};

const WINDOW: Durability = Durability::Async { window: Duration::from_millis(100) };

fn data(dir: &Path, durability: Durability) -> Option<DataOptions> {
    let (dir, medium, scrubbing) = (dir.into(), MediumKind::Disk, Scrubbing::NONE);
    Some(DataOptions { dir, vault: None, durability, medium, accept_damage: false, scrubbing })
}

/// A server with this directory.
fn on(dir: &Path, durability: Durability) -> (Server, Raw) {
    with(data(dir, durability))
}

fn with(data: Option<DataOptions>) -> (Server, Raw) {
    with_updates(data, Discipline::InPlace)
}

fn with_updates(data: Option<DataOptions>, discipline: Discipline) -> (Server, Raw) {
    let (server, _) = start(|options| {
        (options.addresses, options.data, options.discipline) = (vec![shm_address()], data, discipline);
    });
    let raw = Raw::connect(&server.addresses()[0]);
    (server, raw)
}

fn stop(server: Server) {
    let report = server.stop(Duration::from_secs(5));
    assert!(report.drained && report.panicked == 0, "{report:?}");
}

#[test]
fn what_a_server_held_is_there_in_its_next_lives() {
    let memory = MediumKind::PersistentMemory { or_file: true };
    let kinds = [
        (WINDOW, MediumKind::Disk, Discipline::InPlace, "async"),
        (Durability::Sync, MediumKind::Disk, Discipline::InPlace, "sync"),
        (Durability::Sync, memory, Discipline::InPlace, "pmem"),
        (Durability::Sync, memory, Discipline::OutOfPlace, "pmem"),
    ];
    for (durability, medium, discipline, name) in kinds {
        let dir = tempfile::tempdir().expect("a directory");
        let options = data(dir.path(), durability).map(|data| DataOptions { medium, ..data });
        let value = |key: u32, life: u32| vec![(key * 7 + life) as u8; (key as usize * 977) % 30_000];
        let mut csn = 0;
        for life in 1..=4 {
            let (server, mut raw) = with_updates(options.clone(), discipline);
            for key in 0..60u32 {
                let found = raw.get(&key.to_le_bytes());
                match life {
                    1 => assert_eq!(found.status, Status::NotFound),
                    _ if key % 5 == life - 1 => assert_eq!(found.status, Status::NotFound, "{key} is back"),
                    _ => assert_eq!(found.value, value(key, life - 1), "key {key} in life {life}"),
                }
            }
            for key in 0..60u32 {
                let put = raw.put(&key.to_le_bytes(), &value(key, life));
                assert!(put.status == Status::Ok && put.csn > csn, "versions go on: {put:?} after {csn}");
                csn = put.csn;
            }
            for key in (life..60).step_by(5) {
                assert_eq!(raw.delete(&key.to_le_bytes()).status, Status::Ok);
            }
            let disk = server.stats().disk.expect("it has one");
            assert_eq!((disk.durability, disk.failed), (name, None));
            stop(server);
        }
    }
}

#[test]
fn a_directory_is_of_one_server_with_the_memory_that_it_had() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, mut raw) = on(dir.path(), WINDOW);
    raw.put(b"k", b"v");
    let again = |memory| {
        let (options, _) = options();
        let data = data(dir.path(), WINDOW);
        Server::start(ServerOptions { data, memory, ..options }).map(|_| ()).expect_err("refused").to_string()
    };
    assert!(again(64 << 20).contains("in use by another process"));
    stop(server);
    let other = again(128 << 20);
    assert!(other.contains("start it with the memory that it had"), "{other}");
    let (server, mut raw) = on(dir.path(), WINDOW);
    assert_eq!(raw.get(b"k").value, b"v");
    stop(server);
}

/// A disk of sectors that outlives its servers, and can be made to stand still or fail.
#[derive(Clone)]
struct Bad {
    sectors: SectorMedium,
    stands: Arc<AtomicBool>,
    fails: Arc<AtomicBool>,
    /// What its replica promised.
    votes: Arc<Kept>,
}

impl Bad {
    fn new(shape: Shape) -> Bad {
        let sectors = SectorMedium::new(file_bytes(shape.segments.into(), shape.table.into()));
        ArenaDisk::create(sectors.clone(), shape, 1).expect("made");
        Bad { sectors, stands: Arc::default(), fails: Arc::default(), votes: Arc::default() }
    }
}

impl Medium for Bad {
    fn path(&self) -> &Path {
        Path::new("a bad disk")
    }

    fn bytes(&self) -> u64 {
        self.sectors.bytes()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.sectors.write(at, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        // Relaxed: flags that a test sets, and the scribe sees sooner or later.
        while self.stands.load(Ordering::Relaxed) {
            longarm_host::relax();
        }
        // Relaxed: as above.
        match self.fails.load(Ordering::Relaxed) {
            true => Err(io::Error::other("it burns")),
            false => self.sectors.sync(),
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.sectors.read(at, into)
    }
}

impl DiskSource for Bad {
    fn open(&self, shape: Shape) -> Result<(ReplicaDisk, Found), DiskError> {
        ArenaDisk::open(self.clone(), shape).map(|(disk, found)| (disk.boxed(), found))
    }
}

#[derive(Default)]
struct Kept(Mutex<Option<Promise>>);

impl VoteStore for Kept {
    fn load(&self) -> io::Result<Option<Promise>> {
        Ok(self.0.lock().clone())
    }

    fn store(&self, promise: &Promise) -> io::Result<()> {
        *self.0.lock() = Some(promise.clone());
        Ok(())
    }
}

const SHAPE: Shape = Shape { group: 3, segments: 65, table: 1 };

fn on_bad(disk: &Bad, durability: Durability) -> (Server, Raw) {
    let address = shm_address();
    let group = GroupOptions {
        id: 3,
        replica: ReplicaId(0),
        members: vec![Member { replica: ReplicaId(0), address: address.clone() }],
        joins: false,
        first: None,
        timing: Timing {
            heartbeat: Nanos::from_millis(5),
            suspect: Nanos::from_millis(20),
            promise: Nanos::from_millis(100),
            election: Nanos::from_millis(500),
        },
        sum_key: 5,
        hash_key: 6,
        vote_store: disk.votes.clone(),
        durable: Some(Durable {
            durability,
            disk: Arc::new(disk.clone()),
            accept_damage: false,
            scrubbing: Scrubbing::NONE,
        }),
        memory_parts: 1,
    };
    let (server, _) = start(|options| (options.addresses, options.groups) = (vec![address], vec![group]));
    let mut raw = None;
    until("it serves", || {
        raw = Raw::try_connect(&server.addresses()[0], super::harness::unique() | 1 << 40, 64 << 10).ok();
        raw.is_some()
    });
    (server, raw.expect("connected"))
}

#[test]
fn after_a_failure_of_its_disk_a_server_takes_no_write_and_goes_on_to_read() {
    for durability in [WINDOW, Durability::Sync] {
        let disk = Bad::new(SHAPE);
        let (server, mut raw) = on_bad(&disk, durability);
        assert_eq!(raw.put(b"k", b"v").status, Status::Ok);
        // Relaxed: as in `sync`.
        disk.fails.store(true, Ordering::Relaxed);
        if durability == WINDOW {
            raw.put(b"lost", b"v");
        } else {
            // Nobody hears of it: it is not on disk.
            raw.send(&Request { key: b"lost", value: b"v", ..Request::new(RequestKind::Put, 0) });
        }
        until("the failure is known", || server.stats().disk.is_some_and(|disk| disk.failed.is_some()));
        let failed = server.stats().disk.and_then(|disk| disk.failed).expect("it failed");
        assert!(failed.contains("cannot sync a bad disk: it burns"), "{failed}");
        if durability == WINDOW {
            assert_eq!(raw.put(b"l", b"w").status, Status::NoDisk);
            assert_eq!(raw.get(b"k").value, b"v");
        }
        drop(raw);
        drop(server);
        // The disk is well again: what was acknowledged before is there.
        // Relaxed: as in `sync`.
        disk.fails.store(false, Ordering::Relaxed);
        let (server, mut raw) = on_bad(&disk, durability);
        if durability == Durability::Sync {
            assert_eq!(raw.get(b"k").value, b"v");
        }
        assert_eq!(raw.put(b"m", b"x").status, Status::Ok);
        stop(server);
    }
}

#[test]
fn while_its_disk_stands_still_a_server_takes_writes_of_one_window_and_no_more() {
    let disk = Bad::new(SHAPE);
    let (server, mut raw) = on_bad(&disk, Durability::Async { window: Duration::from_millis(50) });
    assert_eq!(raw.put(b"k", b"v").status, Status::Ok);
    // Relaxed: as in `sync`.
    disk.stands.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let free = scope.spawn(|| {
            longarm_host::sleep(Duration::from_millis(400));
            // Relaxed: as in `sync`.
            disk.stands.store(false, Ordering::Relaxed);
        });
        let begun = std::time::Instant::now();
        let mut longest = Duration::ZERO;
        while !free.is_finished() {
            let asked = std::time::Instant::now();
            assert_eq!(raw.put(b"k", b"w").status, Status::Ok);
            longest = longest.max(asked.elapsed());
        }
        assert!(longest > Duration::from_millis(150), "{longest:?} of {:?}", begun.elapsed());
    });
    stop(server);
}

#[test]
fn a_server_with_data_is_no_cache_and_no_replica() {
    let wrong = |change: &dyn Fn(&mut ServerOptions)| {
        let (mut options, _) = options();
        options.data = data(&PathBuf::from("/nonexistent/d"), WINDOW);
        change(&mut options);
        Server::start(options).map(|_| ()).expect_err("refused").to_string()
    };
    assert!(wrong(&|o| o.eviction = crate::Eviction::Lru).contains("with `data`, items stay"));
    let short = Durability::Async { window: Duration::from_millis(1) };
    assert!(wrong(&|o| o.data = data(Path::new("d"), short)).starts_with("option loss_window: 1ms"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    let error = wrong(&|o| o.data = data(file.path(), WINDOW));
    assert!(error.contains("cannot"), "{error}");
    let (mut options, _) = options();
    options.data = data(file.path(), WINDOW);
    assert!(matches!(Server::start(options), Err(StartError::Directory { .. })));
}
