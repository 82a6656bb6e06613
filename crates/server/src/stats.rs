//! Statistics, as `longarm stats` shows them.

use std::sync::atomic::{AtomicU64, Ordering};

use longarm_group::{DiskStats, GroupStats, process_cpu};
use longarm_host::now;
use longarm_ordered::{OrderedStage, OrderedStats};
use longarm_wire::RequestKind;
use serde::Serialize;

use crate::shared::Shared;

/// One connected client.
#[derive(Clone, Debug, Serialize)]
pub struct ClientStats {
    /// The name that the client gave.
    pub name: String,
    /// Its address or process.
    pub peer: String,
    /// The transport that is really in use.
    pub transport: String,
    /// Requests answered; one-sided GETs are not among them.
    pub requests: u64,
    /// Bytes of memory that its connection takes in the server: the part of its ring that was used, queues
    /// and buffers; of a while ago while it is busy. What the system keeps for its socket is not counted.
    pub bytes: u64,
}

/// Requests answered, by kind.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RequestStats {
    /// Pings.
    pub ping: u64,
    /// Writes.
    pub put: u64,
    /// Deletes.
    pub delete: u64,
    /// Increments.
    pub increment: u64,
    /// Changes of expiry.
    pub touch: u64,
    /// Reads through the server.
    pub get: u64,
    /// Statistics.
    pub stats: u64,
    /// Messages of hints.
    pub hints: u64,
}

impl RequestStats {
    /// Those that write, unless a condition kept them from it.
    pub fn writes(&self) -> u64 {
        self.put + self.delete + self.increment + self.touch
    }
}

/// The entry store.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StoreStats {
    /// Entries that count.
    pub entries: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes of all segments in use.
    pub used_bytes: u64,
    /// Segments that may hold entries.
    pub segments: u32,
    /// Free segments.
    pub free: u32,
    /// Segments being filled.
    pub active: u32,
    /// Full segments.
    pub sealed: u32,
    /// Dead segments that wait until no READ can reach them.
    pub quarantined: u32,
    /// Entries that collection moved.
    pub moved: u64,
    /// Dead segments that are kept although memory is wanted, because they hold an unexplained entry: a fault
    /// of Longarm, which the log describes.
    pub held_back: u64,
}

/// The ordered index of a replica, or of a server of its own.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OrderedIndexStats {
    /// `resting`, `building`, `ready` or `full`.
    pub stage: &'static str,
    /// Hundredths of the arena that were looked at, while it is being built.
    pub built_percent: u8,
    /// The term whose leader it follows.
    pub term: String,
    /// Items.
    pub items: u64,
    /// Markers of deleted keys.
    pub markers: u64,
    /// Bytes of its nodes.
    pub bytes: u64,
    /// Levels.
    pub height: u8,
    /// Entries that the leader had applied at the last look, and that the index lacked.
    pub lag: u64,
    /// Entries taken from the leader's streams.
    pub entries: u64,
    /// Times that it was built.
    pub builds: u64,
    /// Entries that were reclaimed before it had taken them: it was built anew each time.
    pub gaps: u64,
    /// Pages of scans answered.
    pub pages: u64,
    /// Pages that were made again, since something in their range had changed.
    pub again: u64,
    /// Requests that found their range contended.
    pub contended: u64,
}

impl From<OrderedStats> for OrderedIndexStats {
    fn from(told: OrderedStats) -> OrderedIndexStats {
        let (stage, built_percent) = match told.stage {
            OrderedStage::Resting => ("resting", 0),
            OrderedStage::Building(percent) => ("building", percent),
            OrderedStage::Ready => ("ready", 100),
            OrderedStage::Full => ("full", 0),
        };
        let OrderedStats { items, markers, bytes, height, lag, entries, builds, gaps, .. } = told;
        let (term, pages) = (told.term.to_string(), told.pages);
        let (again, contended) = (told.again, told.contended);
        OrderedIndexStats {
            stage,
            built_percent,
            term,
            items,
            markers,
            bytes,
            height,
            lag,
            entries,
            builds,
            gaps,
            pages,
            again,
            contended,
        }
    }
}

/// The statistics of a server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// The boot number, drawn when it started.
    pub boot: u64,
    /// Its process.
    pub pid: u32,
    /// The addresses that it listens on.
    pub addresses: Vec<String>,
    /// The connected clients.
    pub clients: Vec<ClientStats>,
    /// The number of remembered sessions.
    pub sessions: usize,
    /// Requests answered.
    pub requests: RequestStats,
    /// Items.
    pub items: u64,
    /// Hash tables in use: more than one while the index grows.
    pub tables: usize,
    /// How often the list of tables changed.
    pub geometry_epoch: u64,
    /// Bytes of the hash tables in use.
    pub index_bytes: u64,
    /// The part of them in huge pages.
    pub index_huge_bytes: u64,
    /// How the index replaces records.
    pub index_updates: &'static str,
    /// For a replica: its part in the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupStats>,
    /// The ordered index, if one is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered: Option<OrderedIndexStats>,
    /// The disk behind the memory, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskStats>,
    /// The entry store.
    pub store: StoreStats,
    /// Bytes used of the memory limit.
    pub memory_used: u64,
    /// The memory limit.
    pub memory_limit: u64,
    /// RDMA queue pairs of the process.
    pub rdma_queue_pairs: u64,
    /// Bytes registered with RDMA devices, and so locked: index, arena and rings, the memory of an ordered
    /// index, and the buffers of each connection.
    pub rdma_registered_bytes: u64,
    /// The last version drawn: writes so far, of a server that keeps no data.
    pub csn: u64,
    /// Items evicted.
    pub evicted: u64,
    /// Items found expired.
    pub expired: u64,
    /// Writes refused for want of memory.
    pub out_of_memory: u64,
    /// Writes refused because too many keys belong to one pair of the index (decision 17).
    pub crowded: u64,
    /// Items beside the index, since their pair was full when a replica took over: only the server finds
    /// them.
    pub beside_index: u64,
    /// Heartbeats.
    pub heartbeats: u64,
    /// Heartbeats withheld because a worker made no progress.
    pub heartbeats_withheld: u64,
    /// CPU seconds of the process.
    pub cpu_seconds: f64,
}

impl Stats {
    /// The statistics as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings become JSON")
    }
}

fn read(counter: &AtomicU64) -> u64 {
    // Relaxed: a counter that publishes nothing else.
    counter.load(Ordering::Relaxed)
}

impl Shared {
    /// Collects the statistics. Its numbers are of slightly different moments.
    pub(crate) fn stats(&self) -> Stats {
        let core = &self.core;
        let engine = &core.engine;
        let geometry = engine.index.geometry();
        let counts = &engine.counts;
        let rdma = longarm_fabric::verbs::usage();
        let clients = self.clients();
        let client = |client: &std::sync::Arc<crate::shared::ConnectedClient>| ClientStats {
            name: client.name.clone(),
            peer: client.peer.clone(),
            transport: client.transport.clone(),
            requests: read(&client.requests),
            bytes: read(&client.bytes),
        };
        Stats {
            uptime_ms: now().since(core.started()).0 / 1_000_000,
            boot: core.boot,
            pid: std::process::id(),
            addresses: self
                .addresses
                .get()
                .into_iter()
                .flatten()
                .map(|address| address.to_string())
                .collect(),
            clients: clients.iter().map(client).collect(),
            sessions: core.sessions.count(),
            requests: self.request_stats(),
            items: engine.index.items(),
            tables: geometry.live().count(),
            geometry_epoch: geometry.epoch,
            index_bytes: geometry.live().map(|table| table.bytes()).sum(),
            index_huge_bytes: engine.index.huge_bytes(),
            index_updates: engine.options.discipline.name(),
            group: self.standing().map(|standing| standing.stats()),
            ordered: self.ordered().map(OrderedIndexStats::from),
            disk: core.disk_stats(),
            store: self.store_stats(),
            memory_used: engine.budget.used(),
            memory_limit: engine.budget.limit(),
            rdma_queue_pairs: rdma.queue_pairs,
            rdma_registered_bytes: rdma.registered_bytes,
            csn: engine.csn().0,
            evicted: read(&counts.evicted),
            expired: read(&counts.expired),
            out_of_memory: read(&counts.refused),
            crowded: read(&counts.crowded),
            beside_index: engine.index.spilled() as u64,
            heartbeats: read(&core.beats),
            heartbeats_withheld: read(&core.withheld),
            cpu_seconds: process_cpu().0 as f64 / 1e9,
        }
    }

    fn request_stats(&self) -> RequestStats {
        let sum = |kind| self.core.pulses.iter().map(|pulse| pulse.counted(kind)).sum();
        RequestStats {
            ping: sum(RequestKind::Ping),
            put: sum(RequestKind::Put),
            delete: sum(RequestKind::Delete),
            increment: sum(RequestKind::Increment),
            touch: sum(RequestKind::Touch),
            get: sum(RequestKind::Get),
            stats: sum(RequestKind::Stats),
            hints: sum(RequestKind::Hints),
        }
    }

    fn store_stats(&self) -> StoreStats {
        let counters = self.core.engine.store.counters();
        StoreStats {
            entries: counters.entries,
            live_bytes: counters.live_bytes,
            used_bytes: counters.used_bytes,
            segments: counters.segments,
            free: counters.free,
            active: counters.active,
            sealed: counters.sealed,
            quarantined: counters.quarantined,
            moved: read(&self.core.engine.counts.moved),
            held_back: read(&self.core.engine.counts.held_back),
        }
    }
}
