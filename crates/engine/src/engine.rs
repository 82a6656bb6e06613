//! The engine: index, store and csn counter, and what every operation on them shares.
//!
//! It executes under the lock of one pair at a time, takes time as an argument, and knows no connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Csn, EntryRef, Nanos, Term, UnixMillis};
use longarm_host::Pause;
use longarm_index::control::Control;
use longarm_index::hash::{Discipline, Found, LockedPair, NoRoom, Owner, Record, SlotKind};
use longarm_memory::{Budget, Hash, OwnedWords, SumKey};
use longarm_store::progress::ProgressWords;
use longarm_store::{CreateStoreError, Draft, Store, StoreOptions, Writer};

use crate::commit::{Commit, Replicated};
use crate::counts::EngineCounts;
use crate::entries::Arena;
use crate::index::{index_of, publisher};
use crate::options::{CreateEngineError, EngineOptions, Eviction};
use crate::outcome::Short;
use crate::persistent::root::Root;
use crate::reclaim::deletes::Deletes;
use crate::reclaim::marks::ClockBits;
use crate::shortage::Shortage;
use crate::stream::Stream;
use crate::timestamps::Timestamps;
use crate::worker_context::WorkerContext;

/// Tries of an operation. It starts again when another writer came between, or when the index made room. Each
/// try loses only to a change of the very same pair.
pub const ATTEMPTS: u32 = 64;

/// The part of the memory limit, and the most segments, whose pages stay with the process when they are free.
const POOL_SHARE: u64 = 32;
const POOL_MOST: u64 = 64;

pub type PairOf<'a, M> = LockedPair<'a, M, Arena<M>>;

/// Index, store and csn counter.
pub struct Engine<M: OwnedWords> {
    /// The index: the item of each key.
    pub index: Owner<M, Arena<M>>,
    /// The entries.
    pub store: Arc<Store<M>>,
    /// The same entries, as the index looks at them.
    pub arena: Arena<M>,
    /// The memory limit, of index and entries together.
    pub budget: Arc<Budget>,
    /// Clock bits, where eviction is on.
    pub marks: Option<ClockBits>,
    /// The counters.
    pub counts: EngineCounts,
    /// The options that it was made with.
    pub options: EngineOptions,
    /// Wakes the maintenance thread.
    pub relief: Arc<Pause>,
    /// When a write takes effect.
    pub commit: Commit,
    /// The last version drawn.
    pub csn: AtomicU64,
    /// Whether an item with a time to live was ever stored.
    pub ttl_used: AtomicBool,
    /// The highest expiry that a thread has found over, by its own times: it is over for all threads.
    over: AtomicU64,
    /// The shortage of memory, if there is one.
    pub shortage: Shortage,
    /// The root of its memory, if that is persistent.
    pub root: Option<Arc<Root<M>>>,
}

/// What is known of a key's record under the lock.
#[derive(Clone, Copy, Debug)]
pub struct Current {
    /// Its version.
    pub csn: Csn,
    /// When its time is over.
    pub expiry: UnixMillis,
    /// Its entry; outside a group an inline item has none.
    pub place: Option<EntryRef>,
    /// Whether its time is over: clients no longer see it.
    pub gone: bool,
}

impl<M: OwnedWords + Clone + 'static> Engine<M> {
    /// An empty index and an empty arena in zeroed memory; every geometry is published on the control page.
    pub fn create(
        index: M,
        arena: M,
        control: Control<M>,
        sums: SumKey,
        budget: Arc<Budget>,
        options: EngineOptions,
    ) -> Result<Engine<M>, CreateEngineError> {
        Engine::laid_out(None, index, arena, control, sums, budget, options)
    }

    /// The same; in persistent memory, with a root.
    pub(crate) fn laid_out(
        root: Option<Arc<Root<M>>>,
        index: M,
        arena: M,
        control: Control<M>,
        sums: SumKey,
        budget: Arc<Budget>,
        options: EngineOptions,
    ) -> Result<Engine<M>, CreateEngineError> {
        let store = store_of(arena, budget.clone(), sums.clone(), &options, root.is_some())?;
        let arena = Arena { memory: store.memory().clone() };
        let found_items = options.found_items.min(store.adopted_rooms());
        let room = EngineOptions { found_items, ..options.clone() };
        // An arena filled by another leader leaves an index its room.
        let charged = if options.term.is_some() { budget.used() } else { 0 };
        budget.give(charged);
        let publish = publisher(control, root.clone());
        let index = index_of(index, arena, publish, sums, budget.clone(), &room)?;
        budget.take_anyway(charged);
        Ok(Engine { root, ..Engine::over(index, store, budget, options) })
    }

    pub(crate) fn over(
        index: Owner<M, Arena<M>>,
        store: Store<M>,
        budget: Arc<Budget>,
        options: EngineOptions,
    ) -> Engine<M> {
        let arena = Arena { memory: store.memory().clone() };
        let commit = match options.term {
            Some(term) => {
                let progress = options.progress.as_ref().expect("a leader's streams say how far they are");
                Commit::Replicated(Box::new(Replicated::new(options.workers + 1, progress, term)))
            }
            None => Commit::Direct,
        };
        let marks = (options.eviction == Eviction::Lru).then(|| ClockBits::new(options.expected_items));
        Engine {
            index,
            store: Arc::new(store),
            arena,
            budget,
            marks,
            counts: EngineCounts::default(),
            options,
            relief: Arc::default(),
            commit,
            csn: AtomicU64::new(0),
            ttl_used: AtomicBool::new(false),
            over: AtomicU64::new(0),
            shortage: Shortage::default(),
            root: None,
        }
    }
}

/// The options of the store of an engine with these options.
pub(crate) fn store_options(budget: &Budget, options: &EngineOptions, persistent: bool) -> StoreOptions {
    let pool = (budget.limit() / SEGMENT_BYTES / POOL_SHARE).min(POOL_MOST) as u32;
    let (usual, records) = (StoreOptions::default(), u32::from(options.term.is_some()));
    StoreOptions {
        streams: options.workers + 1,
        quarantine: options.quarantine,
        term: options.term.unwrap_or(Term::ZERO),
        ask_release: options.term.is_some(),
        reserve: usual.reserve + records,
        records,
        pool: usual.pool.max(pool),
        persistent,
        evicts: options.eviction != Eviction::None,
    }
}

/// The store of an engine with these options: empty, or in a term over what the arena holds.
pub(crate) fn store_of<M: OwnedWords>(
    arena: M,
    budget: Arc<Budget>,
    sums: SumKey,
    options: &EngineOptions,
    persistent: bool,
) -> Result<Store<M>, CreateStoreError> {
    let store_options = store_options(&budget, options, persistent);
    match options.term {
        None => Store::create(arena, budget, store_options, sums),
        Some(_) => Store::adopt(arena, budget, store_options, sums),
    }
}

impl<M: OwnedWords> Engine<M> {
    /// The context of a stream's thread. Each worker has one, the maintenance thread has the last.
    pub fn worker_context(&self, stream: u16) -> WorkerContext<M> {
        let mut context = WorkerContext::new(self.store.writer(stream));
        let progress = self.progress().get(stream as usize);
        context.stream = progress.map(|progress| Stream::new(stream, progress.clone()));
        context
    }

    /// How far each stream is; empty where writes take effect at once.
    pub fn progress(&self) -> &[Arc<ProgressWords>] {
        match &self.commit {
            Commit::Direct => &[],
            Commit::Replicated(group) => &group.progress,
        }
    }

    /// The known deletes, where deletes are entries.
    pub fn deletes(&self) -> Option<&Deletes> {
        match &self.commit {
            Commit::Direct => None,
            Commit::Replicated(group) => Some(&group.deletes),
        }
    }

    /// Whether what was seen here before `now` was the newest there is, and may be told: no other replica
    /// leads.
    #[inline]
    pub fn leads(&self, now: impl FnOnce() -> Nanos) -> bool {
        match &self.commit {
            Commit::Direct => true,
            Commit::Replicated(group) => group.leads(now()),
        }
    }

    /// When the leader's lease ends, as far as it was renewed.
    pub fn lease(&self) -> Nanos {
        match &self.commit {
            Commit::Direct => Nanos(0),
            Commit::Replicated(group) => group.lease(),
        }
    }

    /// Sets the end of the leader's lease.
    pub fn set_lease(&self, end: Nanos) {
        if let Commit::Replicated(group) = &self.commit {
            group.set_lease(end);
        }
    }

    /// The last csn drawn.
    pub fn csn(&self) -> Csn {
        // Acquire: a thread that sees a draw sees what was announced before it (`Stream::announce`).
        Csn(self.csn.load(Ordering::Acquire))
    }

    /// Draws a csn. Where writes apply at once the caller holds the lock of the key, so a key's versions
    /// ascend.
    pub fn next_csn(&self) -> Csn {
        // AcqRel: as in `csn`.
        let csn = Csn(self.csn.fetch_add(1, Ordering::AcqRel) + 1);
        if let Some(root) = &self.root {
            root.allow(csn);
        }
        csn
    }

    /// The hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> Hash {
        self.index.hasher().hash(key)
    }

    /// The moment at which an item with this time to live is gone; `None` if no clock reaches so far.
    pub fn expiry_in(&self, ttl_ms: u64, times: Timestamps) -> Option<UnixMillis> {
        if ttl_ms == 0 {
            return Some(UnixMillis::NEVER);
        }
        if !self.uses_ttl() {
            // Relaxed: the pair's lock carries the item, this only spares work while there is none.
            self.ttl_used.store(true, Ordering::Relaxed);
        }
        times.unix.0.checked_add(ttl_ms).map(UnixMillis)
    }

    /// Whether any item may expire.
    pub fn uses_ttl(&self) -> bool {
        // Relaxed: as in `expiry_in`.
        self.ttl_used.load(Ordering::Relaxed)
    }

    /// The version, expiry and place that a found record states.
    #[inline]
    pub fn current(&self, found: &Found, times: Timestamps) -> Current {
        let (csn, expiry, place) = match found.record() {
            Record::Inline { csn, expiry, entry, .. } => {
                (csn, expiry, entry.map(|entry| self.arena.with_len(entry)))
            }
            Record::Entry { csn, entry, expiry, .. } => {
                // A 16-byte slot has no expiry: the entry says it.
                let silent = self.options.slots == SlotKind::Pointer16 && self.uses_ttl();
                let expiry = if silent { self.arena.expiry(entry, csn) } else { expiry };
                (csn, expiry, Some(self.arena.with_len(entry)))
            }
        };
        Current { csn, expiry, place, gone: self.is_over(expiry, times) }
    }

    /// Whether an item with this expiry is gone. Threads look at the clock before they look at items, and may
    /// be kept from their core in between. So an expiry that one thread has found over is over for threads
    /// with earlier times, too. The caller holds the lock of the item's pair.
    #[inline]
    fn is_over(&self, expiry: UnixMillis, times: Timestamps) -> bool {
        if expiry == UnixMillis::NEVER {
            return false;
        }
        // Relaxed: the lock of the pair orders the threads that ask for one item.
        if expiry.0 <= self.over.load(Ordering::Relaxed) {
            return true;
        }
        let over = expiry.expired(times.unix);
        if over {
            // Relaxed: as above.
            self.over.fetch_max(expiry.0, Ordering::Relaxed);
        }
        over
    }

    /// Takes a found record away: its entry is superseded before the slot forgets it.
    pub fn remove(&self, pair: &mut PairOf<'_, M>, found: &Found) {
        if let Some(entry) = found.entry() {
            self.store.supersede(self.arena.with_len(entry), found.record().csn());
        }
        pair.remove(found);
        self.shortage.hope();
    }

    /// Completes an entry. Out of place it is persistent then: the slot that names it will be.
    #[inline]
    pub fn finish(&self, writer: &mut Writer<M>, draft: Draft, csn: Csn) -> EntryRef {
        let entry = writer.finish(draft, csn);
        if self.options.discipline == Discipline::OutOfPlace {
            self.arena.memory.flush(entry.offset, u64::from(entry.len));
            self.arena.memory.fence();
        }
        entry
    }

    /// Makes room in the index for one more key of this hash.
    pub fn make_room(&self, hash: Hash, times: Timestamps) -> Result<(), Short> {
        // The growth begins moves that the maintenance thread finishes.
        self.relief.poke();
        match self.index.make_room(hash) {
            Ok(()) => Ok(()),
            Err(_) if self.evict_near(hash) => Ok(()),
            Err(NoRoom::Pair) => Err(Short::Crowded),
            Err(NoRoom::Table) => Err(self.short(times)),
        }
    }

    /// Says whether a write that found no memory waits or is refused. If it waits, maintenance is woken.
    #[cold]
    pub fn short(&self, times: Timestamps) -> Short {
        let short = self.shortage.meet(times.now);
        if short == Short::Wait {
            self.relief.poke();
        }
        short
    }

    /// Sets the clock bit of a key.
    #[inline]
    pub fn mark(&self, hash: Hash) {
        if let Some(marks) = &self.marks {
            marks.set(hash);
        }
    }
}
