//! An orderer over the arena of an engine that leads, in one thread: whatever is written, committed and
//! applied between the moments at which a page is made and looked over, a page that is shown is what readers
//! of the engine find.

mod held;
mod orders;
mod outcomes;
mod reused;
mod writing;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use longarm_base::{Csn, EntryRef, Nanos, ReplicaId, Term, UnixMillis};
use longarm_engine::testing::{TIMES, arena, build, memory, options, sums};
use longarm_engine::{Engine, Eviction, WorkerContext};
use longarm_fabric::AnyQp;
use longarm_index::hash::SlotKind;
use longarm_index::tree::{Owner, TreeOptions, Unit, newest_header};
use longarm_memory::{Mapped, OwnedWords};
use longarm_replica::page;
use longarm_store::progress::layout;
use longarm_store::segment::layout::{CLAIM, line_at, segment_of};
use longarm_wire::{Request, RequestKind, ScanAnswer, ScanKind, ScanRequest, TreeMoment};
use proptest::prelude::*;

use crate::arena::OwnArena;
use crate::build::{Build, Tree, Uses};
use crate::following::{Following, Look, Trouble};
use crate::page::{Made, NotMade, Sources, Wanted};
use crate::source::Source;

const TERM: Term = Term::new(3, ReplicaId(1));
const KEYS: u8 = 9;
const LIMIT: u64 = 8 << 20;
/// Why a look finds all.
const HERE: &str = "nothing is freed, and all is here";

/// What happens. The streams are the two of an engine with one worker.
#[derive(Clone, Debug)]
enum Act {
    Put {
        stream: usize,
        key: u8,
        len: usize,
    },
    Delete {
        stream: usize,
        key: u8,
    },
    /// So many more positions of a stream are committed.
    Commit {
        stream: usize,
        more: u64,
    },
    /// What is committed of a stream is applied.
    Apply {
        stream: usize,
    },
    /// The orderer takes what is new.
    Advance,
    /// The same while nobody scans: what is taken may wait.
    Glance,
    /// The orderer makes a page; so many acts later it looks whether the page may be shown.
    Page {
        from: u8,
        to: u8,
        reverse: bool,
        limit: u32,
        acts: usize,
    },
    /// The orderer is to keep a range as it is; so many acts later it looks whether that may be kept.
    Snapshot {
        from: u8,
        to: u8,
        acts: usize,
    },
    /// It makes a page of one of the snapshots that it keeps.
    SnapshotPage {
        number: usize,
        reverse: bool,
        limit: u32,
        count: bool,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let (stream, key) = (|| 0usize..2, || 0u8..KEYS);
    prop_oneof![
        6 => (stream(), key(), 0usize..200).prop_map(|(stream, key, len)| Act::Put { stream, key, len }),
        2 => (stream(), key()).prop_map(|(stream, key)| Act::Delete { stream, key }),
        4 => (stream(), 1u64..4).prop_map(|(stream, more)| Act::Commit { stream, more }),
        4 => stream().prop_map(|stream| Act::Apply { stream }),
        2 => Just(Act::Advance),
        2 => Just(Act::Glance),
        4 => (key(), key(), any::<bool>(), 1u32..6, 0usize..4).prop_map(|(a, b, reverse, limit, acts)| {
            Act::Page { from: a.min(b), to: a.max(b), reverse, limit, acts }
        }),
        2 => (key(), key(), 0usize..4)
            .prop_map(|(a, b, acts)| Act::Snapshot { from: a.min(b), to: a.max(b), acts }),
        4 => (0usize..9, any::<bool>(), 1u32..12, any::<bool>())
            .prop_map(|(number, reverse, limit, count)| Act::SnapshotPage { number, reverse, limit, count }),
    ]
}

fn name(key: u8) -> Vec<u8> {
    format!("key{key}").into_bytes()
}

/// A page that was made and not looked over yet.
struct Pending {
    made: Made,
    /// The bounds of the snapshot that is to be kept, if that is what it is.
    snapshot: Option<(u8, u8)>,
    acts: usize,
}

/// A snapshot that is kept, and what readers found when it was taken.
struct Taken {
    moment: TreeMoment,
    from: u8,
    to: u8,
    items: BTreeMap<Vec<u8>, Csn>,
}

/// A leader and its orderer.
struct World {
    engine: Arc<Engine<Mapped>>,
    contexts: Vec<WorkerContext<Mapped>>,
    progress: Mapped,
    entries: Mapped,
    following: Following<AnyQp>,
    tree: Option<Tree>,
    arena: OwnArena,
    drawn: u64,
    pending: Vec<Pending>,
    shown: usize,
    taken: Vec<Taken>,
}

impl World {
    fn new() -> World {
        let arena = arena(LIMIT);
        let options = options(SlotKind::Inline64, Eviction::None, Some((TERM, 0)));
        let progress = options.progress.clone().expect("a leader has it");
        let engine = build([memory(4096), memory(LIMIT), arena.clone()], LIMIT, options);
        let contexts = (0..2).map(|stream| engine.worker_context(stream)).collect();
        let engine = Arc::new(engine);
        let of = engine.clone();
        let source = Source::Own(Arc::new(move || of.stable_point()));
        let entries = arena.clone();
        let arena = OwnArena::new(arena, sums());
        let tree = TreeOptions { unit: Unit::Small, ..TreeOptions::default() };
        let tree = Owner::create(memory(4 << 20), arena.clone(), sums(), 1, tree).expect("room");
        World {
            engine,
            contexts,
            following: Following::new(TERM, 2, source).lead_by(progress.clone()),
            progress,
            entries,
            tree: Some(tree),
            arena,
            drawn: 1,
            pending: Vec::new(),
            shown: 0,
            taken: Vec::new(),
        }
    }

    fn write(&mut self, stream: usize, request: &Request<'_>) {
        // A write of the same key may be under way.
        let _ = self.engine.write(&mut self.contexts[stream], TIMES, request, None);
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Put { stream, key, len } => {
                let (key, value) = (name(key), vec![7; len]);
                let put = Request { key: &key, value: &value, ..Request::new(RequestKind::Put, 0) };
                self.write(stream, &put);
            }
            Act::Delete { stream, key } => {
                let key = name(key);
                self.write(stream, &Request { key: &key, ..Request::new(RequestKind::Delete, 0) });
            }
            Act::Commit { stream, more } => {
                let stream = self.contexts[stream].stream.as_mut().expect("a leader's");
                stream.set_committed((stream.committed() + more).min(stream.written()));
            }
            Act::Apply { stream } => _ = self.engine.apply_committed(&mut self.contexts[stream], TIMES),
            Act::Advance => self.advance(),
            Act::Glance => _ = self.try_look(false).expect(HERE),
            Act::Page { from, to, reverse, limit, acts } => self.make(from, to, reverse, limit, acts),
            Act::Snapshot { from, to, acts } => self.make_snapshot(from, to, acts),
            Act::SnapshotPage { number, reverse, limit, count } => {
                self.check_snapshot(number, reverse, limit, count);
            }
        }
    }

    fn advance(&mut self) {
        self.try_advance().expect(HERE);
    }

    fn try_advance(&mut self) -> Result<u64, Trouble> {
        self.try_look(true)
    }

    /// A millisecond later than the last time.
    fn try_look(&mut self, wanted: bool) -> Result<u64, Trouble> {
        self.drawn += 1;
        let (drawn, now) = (self.drawn, Nanos::from_millis(self.drawn));
        let look = Look { now, wanted };
        self.following.advance(&mut self.tree, &mut self.arena, &mut || drawn, look)
    }

    /// Writes a key, which is there at once.
    fn put(&mut self, stream: usize, key: u8) {
        self.act(&Act::Put { stream, key, len: 10 });
        self.act(&Act::Commit { stream, more: 1 });
        self.act(&Act::Apply { stream });
    }

    /// The place of a key's entry.
    fn place(&self, key: u8) -> EntryRef {
        let (key, index) = (name(key), self.engine.index.read());
        let pair = index.lock(self.engine.hash(&key));
        pair.find(&key).and_then(|found| found.entry()).expect("a leader's items have entries")
    }

    /// Once to begin, once to wait for its floors, and some to look at the arena.
    fn be_ready(&mut self) {
        (0..10).for_each(|_| self.advance());
        assert!(self.following.is_ready());
    }

    fn make(&mut self, from: u8, to: u8, reverse: bool, limit: u32, acts: usize) {
        let (low, high) = (name(from), name(to));
        let (low, high) = (Bound::Included(low.as_slice()), Bound::Included(high.as_slice()));
        let all = ScanRequest::new(1, TERM, UnixMillis(1_000_000));
        self.advance_and_make(&ScanRequest { reverse, low, high, limit, ..all }, None, acts);
    }

    fn make_snapshot(&mut self, from: u8, to: u8, acts: usize) {
        let (low, high) = (name(from), name(to));
        let (low, high) = (Bound::Included(low.as_slice()), Bound::Included(high.as_slice()));
        let all = ScanRequest::new(1, TERM, UnixMillis(1_000_000));
        let request = ScanRequest { kind: ScanKind::Snapshot, low, high, ..all };
        self.advance_and_make(&request, Some((from, to)), acts);
    }

    fn advance_and_make(&mut self, request: &ScanRequest<'_>, snapshot: Option<(u8, u8)>, acts: usize) {
        self.advance();
        if !self.following.is_ready() {
            return;
        }
        if let Ok(made) = self.made(request) {
            self.pending.push(Pending { made, snapshot, acts });
        }
    }

    fn made(&mut self, request: &ScanRequest<'_>) -> Result<Made, NotMade> {
        let (arena, now) = (&self.arena, Nanos::from_millis(self.drawn));
        let (tree, snapshots) = (self.tree.as_mut().expect("a tree"), &mut self.following.snapshots);
        Wanted::of(request).make(Sources { tree, arena, snapshots, lag_us: 0, now, room: &mut Vec::new() })
    }

    /// Looks over the pages whose time has come.
    fn look_over(&mut self) {
        for mut pending in std::mem::take(&mut self.pending) {
            if pending.acts > 0 {
                pending.acts -= 1;
                self.pending.push(pending);
                continue;
            }
            let conflicts = self.following.conflicts(&mut self.arena, Nanos(0)).expect("all is here");
            // The vector may have moved since this page was made: then another page would be made.
            let Pending { made, snapshot, .. } = pending;
            if conflicts.any(|key| made.speaks_of(key)) || made.moment.step != self.step() {
                continue;
            }
            match snapshot {
                Some((from, to)) => self.take(made.moment, from, to),
                None => {
                    self.shown += 1;
                    self.check(made);
                }
            }
        }
    }

    fn take(&mut self, moment: TreeMoment, from: u8, to: u8) {
        if self.following.snapshots.take(moment, Nanos::from_millis(self.drawn)) {
            let there = |key| Some((name(key), self.visible(&name(key))?));
            let items = (from..=to).filter_map(there).collect();
            self.taken.push(Taken { moment, from, to, items });
        }
    }

    /// A page of a snapshot shows what readers found when that was taken.
    fn check_snapshot(&mut self, number: usize, reverse: bool, limit: u32, count: bool) {
        let Some(taken) = self.taken.len().checked_sub(1).map(|last| &self.taken[number.min(last)]) else {
            return;
        };
        let (low, high) = (name(taken.from), name(taken.to));
        let request = ScanRequest {
            reverse,
            count,
            low: Bound::Included(&low),
            high: Bound::Included(&high),
            limit,
            ..ScanRequest::new(1, TERM, UnixMillis(1_000_000)).about(ScanKind::SnapshotPage, taken.moment)
        };
        let mut wanted: Vec<_> = taken.items.clone().into_iter().collect();
        if reverse {
            wanted.reverse();
        }
        let more = wanted.len() > limit as usize;
        wanted.truncate(limit as usize);
        let answer = self.made(&request).expect("it is kept").answer();
        let answer = ScanAnswer::decode(&answer).expect("an answer");
        assert_eq!((answer.count as usize, answer.head.more), (wanted.len(), more));
        let (mut items, mut shown) = (answer.items(), Vec::new());
        while let Some(item) = items.next().expect("an item").filter(|_| !count) {
            shown.push((item.key.to_vec(), item.csn));
        }
        assert!(count || shown == wanted, "{shown:?} is not {wanted:?}");
    }

    fn step(&self) -> u64 {
        self.tree.as_ref().expect("a tree was built").step()
    }

    fn visible(&self, key: &[u8]) -> Option<Csn> {
        let index = self.engine.index.read();
        let pair = index.lock(self.engine.hash(key));
        pair.find(key).map(|found| found.record().csn())
    }

    /// A page that is shown has exactly what readers find.
    fn check(&self, made: Made) {
        let keys: Vec<Vec<u8>> = (0..KEYS).map(name).filter(|key| made.speaks_of(key)).collect();
        let answer = made.answer();
        let answer = ScanAnswer::decode(&answer).expect("an answer");
        let (mut items, mut shown) = (answer.items(), BTreeMap::new());
        while let Some(item) = items.next().expect("an item") {
            assert_eq!(shown.insert(item.key.to_vec(), item.csn), None, "a key twice");
        }
        for key in &keys {
            let text = String::from_utf8_lossy(key);
            assert_eq!(shown.remove(key), self.visible(key), "{text}");
        }
        assert!(shown.is_empty(), "keys of which the page does not speak: {shown:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_page_that_is_shown_is_what_readers_find(acts in proptest::collection::vec(act(), 1..80)) {
        let mut world = World::new();
        for act in &acts {
            world.act(act);
            world.look_over();
        }
        // At rest all is shown, and the tree has what the index has.
        for stream in 0..2 {
            world.act(&Act::Commit { stream, more: u64::MAX >> 1 });
            world.act(&Act::Apply { stream });
        }
        let before = world.shown;
        world.be_ready();
        world.pending.clear();
        for reverse in [false, true] {
            world.make(0, KEYS - 1, reverse, 100, 0);
            world.look_over();
        }
        prop_assert_eq!(world.shown, before + 2);
        let visible = (0..KEYS).filter(|&key| world.visible(&name(key)).is_some()).count();
        prop_assert_eq!(world.tree.as_ref().expect("a tree").counts().items, visible as u64);
    }
}

/// The next term's start set has what was committed and had not been taken, or not even applied.
#[test]
fn a_tree_goes_on_with_what_its_term_had_last() {
    let mut world = World::new();
    world.be_ready();
    let put = |stream, key| Act::Put { stream, key, len: 10 };
    let commit = |stream| Act::Commit { stream, more: 1 };
    let acts = [put(0, 1), commit(0), Act::Apply { stream: 0 }, Act::Advance, put(1, 2), commit(1)];
    let later = [Act::Apply { stream: 1 }, put(0, 3), commit(0), put(0, 4), put(1, 5)];
    acts.iter().chain(&later).for_each(|act| world.act(act));
    let items = |world: &mut World| {
        let tree = world.tree.as_mut().expect("a tree");
        (0..KEYS).filter(|&key| tree.get(&name(key)).is_some()).collect::<Vec<_>>()
    };
    assert_eq!(items(&mut world), [1]);
    let next = |world: &World| {
        let of = world.engine.clone();
        let source = Source::Own(Arc::new(move || of.stable_point()));
        Following::new(Term::new(4, ReplicaId(2)), 3, source)
    };
    let (instead, next) = (next(&world), next(&world));
    let older = std::mem::replace(&mut world.following, instead);
    let tree = world.tree.as_mut().expect("a tree");
    // The cuts: what is only written is not in the start set.
    let on = older.go_on(next, &[2, 1], tree, &mut world.arena);
    assert!(on.is_ready() && on.term == Term::new(4, ReplicaId(2)));
    assert_eq!(items(&mut world), [1, 2, 3]);
}

/// An entry that the leader applied, and that was reclaimed before the tree took it, is not passed over.
#[test]
fn an_entry_that_was_reclaimed_before_it_was_taken_is_a_gap() {
    let mut world = World::new();
    world.be_ready();
    world.put(0, 1);
    let (place, memory) = (world.place(1), world.engine.store.memory());
    (0..u64::from(place.len) / 8).for_each(|word| memory.store(place.offset + 8 * word, 0));
    world.put(0, 2);
    let tries: Vec<_> = (0..40).map(|_| world.try_advance()).collect();
    assert!(matches!(tries[0], Ok(0)), "it may have yet to land");
    assert!(tries.iter().any(|tried| matches!(tried, Err(Trouble::Gap(gap)) if gap.position == 0)));
    let tree = world.tree.as_mut().expect("a tree");
    assert!(tree.get(&name(2)).is_none(), "nothing behind it is taken");
}

/// What replaced the entries of a segment that was reused meanwhile may not be in the tree yet.
#[test]
fn a_tree_of_segments_that_are_reused_meanwhile_is_right_after_a_later_sample() {
    for reused in [false, true] {
        let mut world = World::new();
        world.put(0, 1);
        // It notes the segments; then all that was applied by that is here.
        world.advance();
        world.advance();
        if reused {
            let segment = segment_of(world.place(1).offset);
            world.engine.store.memory().store(line_at(segment) + CLAIM, u64::MAX);
        }
        world.put(1, 2);
        assert!(world.following.is_busy());
        while world.following.is_busy() {
            world.advance();
        }
        assert_eq!(world.following.is_ready(), !reused);
        world.advance();
        assert!(world.following.is_ready());
    }
}

/// What the feed brings while the arena is looked at comes later, and no header speaks of it before.
#[test]
fn a_tree_that_was_built_stands_where_the_feed_goes_on() {
    let mut world = World::new();
    let put = |world: &mut World, key| {
        let put = Act::Put { stream: 0, key, len: 10 };
        [put, Act::Commit { stream: 0, more: 1 }, Act::Apply { stream: 0 }]
            .iter()
            .for_each(|act| world.act(act));
    };
    put(&mut world, 1);
    let mut build = Build::new(TERM, vec![1, 0], Uses::now(&mut world.arena));
    put(&mut world, 2);
    while !build.look(&world.arena) {}
    let mut writing = build.write(world.tree.take().expect("a tree"), 9);
    while !writing.go_on().expect("room") {}
    let (tree, right_at) = writing.finish().expect("room");
    let header = newest_header(tree.memory(), &sums()).expect("a header");
    assert_eq!((header.applied, header.items, right_at), (vec![1, 0], 1, vec![1, 0]));
}

/// The leader's words are not READ again and again while there is nothing.
/// An orderer that got no core for long is further behind than the directory reaches. It finds the places in
/// its own arena, and goes on; the tree stays.
#[test]
fn an_orderer_goes_on_that_is_further_behind_than_the_directory() {
    let mut world = World::new();
    world.act(&Act::Put { stream: 0, key: 1, len: 3 });
    world.act(&Act::Commit { stream: 0, more: 1 });
    world.act(&Act::Apply { stream: 0 });
    world.be_ready();
    for position in 0..layout::DIRECTORY + 9 {
        world.act(&Act::Put { stream: 0, key: (position % 7) as u8, len: 1 });
        world.act(&Act::Commit { stream: 0, more: 1 });
        world.act(&Act::Apply { stream: 0 });
    }
    world.act(&Act::Put { stream: 1, key: 8, len: 1 });
    world.act(&Act::Commit { stream: 1, more: 1 });
    world.act(&Act::Apply { stream: 1 });
    world.be_ready();
    assert_eq!(world.following.lag(), 0);
    world.make(0, 8, false, 9, 0);
    world.look_over();
    assert_eq!(world.shown, 1);
}

#[test]
fn nothing_is_looked_for_while_heartbeats_tell_of_nothing() {
    let mut world = World::new();
    let page = memory(page::floor_at(2).next_multiple_of(4096));
    let follower = Following::new(TERM, 2, Source::Page(page.clone()));
    world.following = follower.lead_by(world.progress.clone());
    (0..40).for_each(|_| world.advance());
    let still = |world: &World, later| world.following.is_still(Nanos::from_millis(world.drawn + later));
    assert!(world.following.is_ready() && still(&world, 0));
    assert!(still(&world, 249) && !still(&world, 250), "it is looked at some time");
    world.act(&Act::Put { stream: 0, key: 1, len: 10 });
    page.store(page::floor_at(0), 1);
    assert!(!still(&world, 0), "an entry came");
    world.advance();
    assert!(!still(&world, 0), "it is written, and will be applied");
    world.act(&Act::Commit { stream: 0, more: 1 });
    world.act(&Act::Apply { stream: 0 });
    page.store(page::STABLE, 1);
    world.advance();
    assert!(still(&world, 0));
    page.store(page::STABLE, 2);
    assert!(!still(&world, 0), "something was applied that did not come here");
}

#[test]
fn a_page_waits_for_what_is_committed_and_not_applied() {
    let mut world = World::new();
    let page = Act::Page { from: 0, to: 3, reverse: false, limit: 10, acts: 0 };
    let put = |key| Act::Put { stream: 0, key, len: 10 };
    world.be_ready();
    let shows = |world: &mut World, acts: &[Act]| {
        acts.iter().for_each(|act| world.act(act));
        let before = world.shown;
        world.act(&page);
        world.look_over();
        world.shown > before
    };
    assert!(shows(&mut world, &[put(1)]), "what is only written is seen by nobody");
    assert!(!shows(&mut world, &[Act::Commit { stream: 0, more: 1 }]), "a GET may find it by now");
    assert!(shows(&mut world, &[Act::Apply { stream: 0 }]));
    assert!(shows(&mut world, &[put(7), Act::Commit { stream: 0, more: 1 }]), "a key of no page");
    assert_eq!(layout::line_at(1), 64);
}

/// What a snapshot cannot keep ends it; what it keeps is bounded, and it is kept for a while only.
#[test]
fn snapshots_have_their_bounds() {
    let mut world = World::new();
    world.put(0, 1);
    world.be_ready();
    let begun = Nanos::from_millis(world.drawn);
    let of = |step| TreeMoment { tree: 1, step };
    let snapshots = &mut world.following.snapshots;
    assert!((0..16).all(|step| snapshots.take(of(step), begun)) && !snapshots.take(of(16), begun));
    assert!(snapshots.take(of(3), begun), "two clients of one moment");
    (0..2).for_each(|_| {
        assert!(snapshots.find(of(3), begun).is_some());
        snapshots.close(of(3));
    });
    assert!(snapshots.find(of(3), begun).is_none() && snapshots.take(of(16), begun));
    snapshots.find(of(5), begun + Nanos::from_millis(1));
    snapshots.expire(begun + Nanos::from_millis(10_000));
    assert!(snapshots.find(of(5), begun).is_some() && snapshots.find(of(4), begun).is_none());
    snapshots.expire(begun + Nanos::from_millis(20_000));
    assert!(snapshots.is_empty());

    // The tree has 4 MiB, so half a MiB may be kept.
    let overwrite = |world: &mut World, key| {
        world.act(&Act::Put { stream: 0, key, len: 4_000 });
        world.act(&Act::Commit { stream: 0, more: 1 });
        world.act(&Act::Apply { stream: 0 });
        world.advance();
    };
    (0..200).for_each(|key| overwrite(&mut world, key));
    assert!(world.following.snapshots.take(of(1), Nanos::from_millis(world.drawn)));
    let kept = (0..200).take_while(|&key| {
        overwrite(&mut world, key);
        !world.following.snapshots.is_empty()
    });
    assert!((120..130).contains(&kept.count()));
}

/// While a tree is built anew the one before is hidden: what it names may be gone.
#[test]
fn a_tree_is_hidden_while_the_next_is_built() {
    let mut world = World::new();
    world.put(0, 1);
    world.be_ready();
    let shown = |world: &World| newest_header(world.tree.as_ref().expect("a tree").memory(), &sums());
    let before = shown(&world).expect("it is ready");
    world.following.begin_anew();
    world.advance();
    assert_eq!(shown(&world), None);
    world.be_ready();
    let after = shown(&world).expect("it is ready again");
    assert!(after.incarnation != before.incarnation && after.step > before.step);
}
