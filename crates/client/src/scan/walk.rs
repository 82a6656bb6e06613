//! A page by the client alone: READs of a replica's tree and arena, and of the leader's committed words. No
//! server's thread has a part in it (Cell 2.3, 2.4; decision 32; `docs/spec/ScanClient.tla`).
//!
//! (1) The client READs the tree's header: it is of the term of the leader on which the client has its lease.
//!     Then it READs the leaves, none of which a later step has changed: they are the tree at that step.
//! (2) It READs the values at their places in the replica's arena. Version and checksum say that they are the
//!     ones; a moved one is not found.
//! (3) It READs how far the leader's streams are committed. If the tree had all of that, no write that a GET
//!     could have shown by then is missing: the page is of that moment. Else the client READs the header
//!     until the tree has it, and then the marks of the leaves: if none has changed, no such write touched
//!     them.
//! (4) The lease on the leader covers the moment of (3). The replica needs none: if it stands still, or leads
//!     astray, its tree does not come to have what the leader committed.
//!
//! All of it is tried once. Whatever keeps the page away, the replica is asked for it by a request.

use std::collections::VecDeque;
use std::sync::Arc;

use longarm_base::{EntryRef, Mutant, Place, Term};
use longarm_fabric::{QueuePair, Transport};
use longarm_host::now;
use longarm_index::tree::layout::{NODES_AT, header_places};
use longarm_index::tree::{
    Header, NodeView, Pointer, Sight, SplitKey, TreeRange, TreeStep, TreeWalk, is_node,
};
use longarm_store::object;
use longarm_store::progress::StreamMarks;
use longarm_store::progress::layout::line_at;
use longarm_wire::{ARENA_REGION, STREAMS_MAX, TreeMoment};

use super::ask::{Asked, Miss, Tries, of_replica};
use super::items::Items;
use super::link::ScanLink;
use super::made::Made;
use super::page::{Came, FarValue};
use super::range::Rest;
use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::link::Trouble;

/// How often the same is READ again that was torn, and how often a way is gone again that led astray.
const AGAIN: u32 = 8;
/// Leaves that are READ at once.
const LEAVES: usize = 16;
/// Values, or marks, that are READ at once.
pub(super) const VALUES: usize = 64;
/// Values longer than this are READ one by one, as those that a server names.
pub(super) const NEAR_MAX: u32 = 4096;
/// Items for which a page has room at once, if it may have so many, and the bytes of an item.
const ROOM: usize = 1024;
const ROOM_EACH: usize = 64;
/// Steps to the right on one level from which on the node that led there is forgotten.
const RIGHTS: u32 = 2;

/// The tree changed while it was READ, or is not there.
const DISTURBED: Miss = Miss::Again("the tree changed meanwhile");

/// The leaves of a page, and what stands in them.
#[derive(Default)]
struct Leaves {
    items: Items,
    /// The place of each item.
    entries: Vec<EntryRef>,
    more: bool,
    used: Vec<Pointer>,
}

impl Leaves {
    /// Takes what a leaf has of a range; whether the page is full.
    fn take(&mut self, leaf: &NodeView<'_>, range: &TreeRange<'_>, limit: usize) -> Result<bool, Miss> {
        let slots = range.slots(leaf);
        let (first, count) = (slots.start, slots.len());
        for i in (0..count).map(|i| first + if range.reverse { count - 1 - i } else { i }) {
            let record = leaf.record(i).ok_or(DISTURBED)?;
            let Some(entry) = record.entry else { continue };
            let SplitKey { prefix, suffix } = leaf.key(i);
            self.items.push_key([prefix, suffix], record.csn, record.expiry);
            self.entries.push(entry);
            if self.items.len() >= limit {
                self.more = true;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<T: Transport> Client<T> {
    /// The next page of a scan by READs alone; `None` if it cannot be had so.
    pub(crate) fn walked_page(&mut self, rest: &Rest, deadline: &Deadline) -> Result<Option<Came>, Error> {
        let reached = self.reach_replica(&mut Tries::default(), deadline);
        let walked = reached.and_then(|()| self.walk_page(rest, deadline));
        match walked {
            Ok(came) => {
                self.counters.walks += 1;
                Ok(Some(came))
            }
            Err(Miss::End(error)) => Err(error),
            Err(_) => {
                self.counters.walks_left += 1;
                Ok(None)
            }
        }
    }

    fn walk_page(&mut self, rest: &Rest, deadline: &Deadline) -> Result<Came, Miss> {
        let leader = self.connected().map_err(Miss::Leader)?;
        let term = Term::from_bits(leader.welcome.term).unwrap_or_default();
        let unix = leader.unix_now(now());
        let asked = Asked { operation: 0, boot: leader.welcome.boot, term, unix };
        let link = self.scans.links.last_mut().ok_or(DISTURBED)?;
        let header = link.tree_header(deadline).map_err(of_replica)?.ok_or(DISTURBED)?;
        if header.term != term {
            return Err(Miss::Again("the tree is of another term"));
        }
        let Leaves { items, entries, more, used } = link.leaves(&header, rest, deadline)?;
        let moment = TreeMoment { tree: header.incarnation, step: header.step };
        let replica = link.address.clone();
        let made = Made { moment, replica, boot: asked.boot, term };
        let mut came = Came { items, more, made: Some(made), ..Came::nothing() };
        if rest.wants_values() {
            link.near_values(&entries, &mut came, deadline)?;
        }
        let committed = self.committed(&header, deadline)?;
        let at = now();
        let link = self.scans.links.last_mut().ok_or(DISTURBED)?;
        link.check_unchanged(&header, &committed, &used, deadline)?;
        self.check_led(asked, at, deadline)?;
        self.check_time(&came, at, deadline)?;
        self.fetch_far(&mut came, deadline)?;
        Ok(came)
    }

    /// How far each stream of the leader is committed.
    fn committed(&mut self, header: &Header, deadline: &Deadline) -> Result<Vec<u64>, Miss> {
        if Mutant::WalkNoBound.is_on() {
            return Ok(Vec::new());
        }
        let link = self.connected().map_err(Miss::Leader)?;
        let streams = header.applied.len();
        let bytes = link.progress(StreamMarks::place(streams), deadline).map_err(Miss::Leader)?;
        let bytes = bytes.ok_or(Miss::Again("the leader does not lend its progress"))?;
        let of = |stream| StreamMarks::parse(&bytes[line_at(stream) as usize..], header.term);
        let committed = (0..streams).map(|stream| of(stream).map(|marks| marks.committed));
        committed.collect::<Option<_>>().ok_or(Miss::Again("the leader's words are of another term"))
    }
}

impl<Q: QueuePair> ScanLink<Q> {
    /// READs the header of the replica's tree; `None` if there is no tree, or none of it verified.
    pub(super) fn tree_header(&mut self, deadline: &Deadline) -> Result<Option<Header>, Trouble> {
        if self.tree_bytes < NODES_AT {
            return Ok(None);
        }
        for _ in 0..AGAIN {
            self.read_all(&header_places(self.streams), deadline)?;
            let copies = [self.landed(0), self.landed(1)];
            if let Some(header) = Header::newest(copies, &self.sums) {
                self.streams = header.applied.len();
                self.nodes.turn_to(header.incarnation);
                return Ok(Some(header));
            }
            if Header::is_absent(copies) {
                return Ok(None);
            }
            // Perhaps there are more streams than were asked for.
            self.streams = STREAMS_MAX;
        }
        Ok(None)
    }

    /// Walks over the leaves of a page.
    fn leaves(&mut self, header: &Header, rest: &Rest, deadline: &Deadline) -> Result<Leaves, Miss> {
        let (sums, bytes) = (self.sums.clone(), self.tree_bytes);
        let sight = Sight { header, sums: &sums, bytes };
        let (here, guesses, path) = Default::default();
        let values = rest.wants_values();
        let walker = Walker { link: self, sight, deadline, values, here, guesses, path, rights: 0, again: 0 };
        walker.run(&rest.range(), rest.limit() as usize)
    }

    /// READs the values of a page's items at their places.
    fn near_values(
        &mut self,
        entries: &[EntryRef],
        came: &mut Came,
        deadline: &Deadline,
    ) -> Result<(), Miss> {
        let (mut near, mut places) = (Vec::with_capacity(VALUES), Vec::with_capacity(VALUES));
        for (number, &entry) in entries.iter().enumerate() {
            // The tree does not say how long the longest are; who asks the replica is told.
            if entry.len == 0 {
                return Err(Miss::Again("a value is longer than a place in the tree can say"));
            }
            self.check_place(entry).map_err(of_replica)?;
            if entry.len > NEAR_MAX {
                came.far.push(FarValue { number, entry });
            } else {
                near.push(number);
                places.push(Place::new(ARENA_REGION, entry.offset, entry.len));
            }
            if near.len() == VALUES {
                self.take_values(&near, &places, came, deadline)?;
                near.clear();
                places.clear();
            }
        }
        self.take_values(&near, &places, came, deadline)
    }

    /// READs the values of the items of these numbers.
    fn take_values(
        &mut self,
        near: &[usize],
        places: &[Place],
        came: &mut Came,
        deadline: &Deadline,
    ) -> Result<(), Miss> {
        self.read_all(places, deadline).map_err(of_replica)?;
        for (i, (&number, place)) in near.iter().zip(places).enumerate() {
            let item = came.items.get(number).expect("an item of the page");
            match object::read(self.landed(i), place.offset, &self.sums) {
                Ok(found) if found.csn == item.csn && found.key == item.key => {
                    came.items.set_value(number, found.value);
                }
                _ => return Err(Miss::Again("a value moved")),
            }
        }
        Ok(())
    }

    /// Checks that no write up to these positions of the leader's streams is missing in the leaves that were
    /// used: none is behind the header, or the tree has got it since, and it was not in these leaves.
    fn check_unchanged(
        &mut self,
        header: &Header,
        committed: &[u64],
        used: &[Pointer],
        deadline: &Deadline,
    ) -> Result<(), Miss> {
        let lacks = |header: &Header| committed.iter().zip(&header.applied).any(|(all, has)| all > has);
        if !lacks(header) {
            return Ok(());
        }
        for _ in 0..AGAIN {
            let later = self.tree_header(deadline).map_err(of_replica)?.ok_or(DISTURBED)?;
            if (later.incarnation, later.term) != (header.incarnation, header.term) {
                return Err(DISTURBED);
            }
            if lacks(&later) {
                continue;
            }
            for used in used.chunks(VALUES).filter(|_| !Mutant::WalkNoMarks.is_on()) {
                let places: Vec<Place> = used.iter().map(|leaf| leaf.mark_place(header.unit)).collect();
                self.read_all(&places, deadline).map_err(of_replica)?;
                let mark = |i| u64::from_le_bytes(self.landed(i).try_into().expect("a word"));
                if used.iter().enumerate().any(|(i, leaf)| !header.still_has(*leaf, mark(i))) {
                    return Err(DISTURBED);
                }
            }
            return Ok(());
        }
        Err(Miss::Again("the tree lacks what the leader has committed"))
    }
}

/// Where the bytes of a node are.
enum Node {
    /// An inner node that is remembered, and was whole when it was READ.
    Remembered(Arc<[u8]>),
    /// It was READ as number so many of those that were made together last.
    Landed(usize),
}

/// A walk under way, with its READs.
struct Walker<'a, Q> {
    link: &'a mut ScanLink<Q>,
    sight: Sight<'a>,
    deadline: &'a Deadline,
    /// Whether the values are READ when all leaves are here.
    values: bool,
    /// Leaves that were READ ahead, and as which number; of no use after any other READ.
    here: Vec<(Pointer, usize)>,
    /// Leaves that likely come next, in order.
    guesses: VecDeque<Pointer>,
    /// Inner nodes on the way down, which may be remembered ones.
    path: Vec<Pointer>,
    /// Steps to the right on the way down.
    rights: u32,
    /// What was torn or led astray so far.
    again: u32,
}

impl<Q: QueuePair> Walker<'_, Q> {
    fn run(mut self, range: &TreeRange<'_>, limit: usize) -> Result<Leaves, Miss> {
        let room = limit.min(ROOM);
        let items = Items::with_capacity(room, room * ROOM_EACH);
        let mut leaves = Leaves { items, entries: Vec::with_capacity(room), ..Leaves::default() };
        let (mut walk, first) = TreeWalk::start(range, None, &self.sight);
        let mut next = Next::of(&first);
        let per_leaf = (self.sight.header.items / self.sight.header.nodes.max(1)).max(1) as usize;
        let mut last = self.sight.header.root;
        loop {
            let pointer = match next {
                Next::Read(pointer) => pointer,
                Next::End => return Ok(leaves),
                Next::Torn => {
                    self.once_more()?;
                    self.link.nodes.forget(last);
                    last
                }
                Next::Stale => {
                    self.once_more()?;
                    self.forget_path();
                    next = Next::of(&walk.again(&self.sight));
                    continue;
                }
                Next::Later => return Err(DISTURBED),
            };
            let most = 1 + (limit - leaves.items.len()) / per_leaf;
            let node = self.node(pointer, most.min(LEAVES))?;
            last = pointer;
            let (bytes, step) = match &node {
                Node::Remembered(bytes) => (&**bytes, walk.feed_known(bytes, &self.sight)),
                Node::Landed(number) => {
                    let bytes = self.link.landed(*number);
                    (bytes, walk.feed(pointer, bytes, &self.sight))
                }
            };
            if let (1, TreeStep::Read(_)) = (pointer.level, &step) {
                let parent = NodeView::parse(bytes, self.sight.header.unit).ok_or(DISTURBED)?;
                self.guesses = walk.guesses(&parent).collect();
            }
            next = match step {
                TreeStep::Leaf(leaf) => {
                    leaves.used.push(pointer);
                    let (before, is_full) = (leaves.entries.len(), leaves.take(&leaf, range, limit)?);
                    if self.values {
                        self.link.expect(&leaves.entries[before..]);
                    }
                    if is_full {
                        return Ok(leaves);
                    }
                    self.begin_way();
                    // The next leaf is known. But a way down tells those behind it, too, to be READ at once.
                    let alone = self.here.is_empty() && self.guesses.is_empty();
                    match walk.go_on(range, &self.sight) {
                        TreeStep::Read(_) if alone && most > 1 => Next::of(&walk.again(&self.sight)),
                        step => Next::of(&step),
                    }
                }
                step => Next::of(&step),
            };
            self.note_way(pointer, next);
        }
    }

    /// Something is READ once more.
    fn once_more(&mut self) -> Result<(), Miss> {
        self.again += 1;
        if self.again > AGAIN { Err(DISTURBED) } else { Ok(()) }
    }

    /// The node of a pointer: remembered, READ ahead, or READ now, with some that likely come next.
    fn node(&mut self, pointer: Pointer, most: usize) -> Result<Node, Miss> {
        if pointer.level > 0 {
            if let Some(node) = self.link.nodes.get(pointer) {
                return Ok(Node::Remembered(node));
            }
            self.here.clear();
            self.read(&[pointer])?;
            let bytes = self.link.landed(0);
            if is_node(pointer, bytes, &self.sight) {
                let bytes = Arc::from(bytes);
                self.link.nodes.keep(pointer, bytes);
            }
            return Ok(Node::Landed(0));
        }
        if let Some(at) = self.here.iter().position(|(leaf, _)| *leaf == pointer) {
            return Ok(Node::Landed(self.here.swap_remove(at).1));
        }
        if let Some(at) = self.guesses.iter().position(|guess| *guess == pointer) {
            self.guesses.drain(..=at);
        }
        let ahead = (most - 1).min(self.guesses.len());
        // A guess outside of the region is none; the walk asks for nothing else that is.
        let Sight { header, bytes, .. } = self.sight;
        let guesses = self.guesses.drain(..ahead).filter(|guess| guess.place(header.unit, bytes).is_some());
        let wanted: Vec<Pointer> = [pointer].into_iter().chain(guesses).collect();
        self.read(&wanted)?;
        self.here.clear();
        self.here.extend(wanted.into_iter().zip(0..).skip(1));
        Ok(Node::Landed(0))
    }

    /// READs nodes, all of which are within the region.
    fn read(&mut self, nodes: &[Pointer]) -> Result<(), Miss> {
        let Sight { header, bytes, .. } = self.sight;
        let places: Vec<Place> = nodes.iter().filter_map(|node| node.place(header.unit, bytes)).collect();
        self.link.read_all(&places, self.deadline).map_err(of_replica)
    }

    /// A way down begins.
    fn begin_way(&mut self) {
        self.path.clear();
        self.rights = 0;
    }

    /// Notes what was passed on the way. Where it took many steps to the right, what is remembered is old.
    fn note_way(&mut self, pointer: Pointer, next: Next) {
        if pointer.level > 0 {
            self.path.push(pointer);
        }
        if matches!(next, Next::Read(next) if next.level == pointer.level && next.level > 0) {
            self.rights += 1;
            if self.rights > RIGHTS {
                self.forget_path();
            }
        }
    }

    fn forget_path(&mut self) {
        self.path.drain(..).for_each(|node| self.link.nodes.forget(node));
        self.rights = 0;
    }
}

/// What a walk wants next.
#[derive(Clone, Copy)]
enum Next {
    Read(Pointer),
    End,
    Torn,
    Stale,
    Later,
}

impl Next {
    fn of(step: &TreeStep<'_>) -> Next {
        match step {
            TreeStep::Read(pointer) => Next::Read(*pointer),
            TreeStep::Torn => Next::Torn,
            TreeStep::Later => Next::Later,
            TreeStep::End => Next::End,
            TreeStep::Stale | TreeStep::Leaf(_) => Next::Stale,
        }
    }
}
