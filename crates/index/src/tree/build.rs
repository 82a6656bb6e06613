//! A tree from keys that come in order: leaves are filled one after the other, and each node's separator goes
//! to the level above as soon as the node is full.
//!
//! Nothing of it is looked at before the header names the root, so nodes are written as they become full. A
//! node is written when the next of its level is full, too, as it names that one's place.

use longarm_base::bytes::common;
use longarm_memory::{OwnedWords, SumKey};

use super::edit;
use super::encode::{Frame, Item, encode, separator_len};
use super::layout::{CLASSES, Pointer, node};
use super::node::{NodeView, SplitKey};
use super::owner::{Owner, Standing, TreeFull, TreeOptions};
use super::record::{LeafRecord, Payload};
use super::rules::Ages;

/// How full nodes become, in hundredths: room for what comes between.
const FILL: usize = 85;

/// A key of the node being filled.
struct Held {
    from: usize,
    to: usize,
    payload: Payload,
}

/// The node of a level that is being filled, and the one before it.
struct Level {
    keys: Vec<u8>,
    held: Vec<Held>,
    /// Bytes of the records and slots, keys included.
    bytes: usize,
    low: Vec<u8>,
    first: Option<Pointer>,
    /// A full node that does not know its right neighbour.
    before: Option<Full>,
}

/// A node that lacks its right neighbour only.
struct Full {
    pointer: Pointer,
    bytes: Vec<u8>,
}

impl Level {
    fn begin(low: Vec<u8>, first: Option<Pointer>, before: Option<Full>) -> Level {
        Level { keys: Vec::new(), held: Vec::new(), bytes: 0, low, first, before }
    }

    fn key(&self, i: usize) -> &[u8] {
        &self.keys[self.held[i].from..self.held[i].to]
    }

    fn last(&self) -> Option<&[u8]> {
        self.held.len().checked_sub(1).map(|last| self.key(last))
    }

    fn push(&mut self, key: &[u8], payload: Payload) {
        let from = self.keys.len();
        self.keys.extend_from_slice(key);
        self.bytes += node::SLOT + payload.bytes().len() + key.len();
        self.held.push(Held { from, to: self.keys.len(), payload });
    }

    /// Bytes of the node with one more key, without its high fence.
    fn size_with(&self, key: &[u8], payload: &Payload) -> usize {
        let one = node::SLOT + payload.bytes().len() + key.len();
        let saved = if self.held.is_empty() { 0 } else { common(self.key(0), key) * self.held.len() };
        node::SLOTS + self.low.len() + self.bytes + one - saved
    }

    /// Bytes of the node with this high fence.
    fn size(&self, high: &[u8]) -> usize {
        let saved = match self.last() {
            Some(last) => common(self.key(0), last) * (self.held.len() - 1),
            None => 0,
        };
        node::SLOTS + self.low.len() + high.len() + self.bytes - saved
    }
}

/// A tree under way.
pub struct Builder<M: OwnedWords, A: Ages> {
    owner: Owner<M, A>,
    levels: Vec<Level>,
}

impl<M: OwnedWords, A: Ages> Builder<M, A> {
    /// A tree without keys in `memory`, which is zeroed.
    pub fn new(
        memory: M,
        ages: A,
        sums: SumKey,
        incarnation: u64,
        options: TreeOptions,
    ) -> Result<Builder<M, A>, TreeFull> {
        Ok(Builder::of(Owner::bare(memory, ages, sums, incarnation, options)?))
    }

    /// The same in the memory of a tree, of which nothing stays; steps go on.
    pub fn anew(mut owner: Owner<M, A>, incarnation: u64) -> Builder<M, A> {
        owner.clear(incarnation);
        Builder::of(owner)
    }

    fn of(owner: Owner<M, A>) -> Builder<M, A> {
        Builder { owner, levels: vec![Level::begin(Vec::new(), None, None)] }
    }

    /// Adds a key, which is above all before it, and what the tree says of it.
    pub fn push(&mut self, key: &[u8], record: &LeafRecord) -> Result<(), TreeFull> {
        let longest = self.owner.options.unit.key_max();
        assert!((1..=longest).contains(&key.len()), "a key of {} bytes", key.len());
        let last = self.levels[0].last();
        assert!(last.is_none_or(|last| last < key), "keys that do not ascend");
        self.add(0, key, record.pack())?;
        let count = if record.is_marker() { &mut self.owner.markers } else { &mut self.owner.items };
        *count += 1;
        Ok(())
    }

    /// Publishes the tree as the next step.
    pub fn finish(mut self, standing: &Standing<'_>) -> Result<Owner<M, A>, TreeFull> {
        let (mut level, step) = (0, self.owner.step + 1);
        // Closing a level may begin the next.
        while level < self.levels.len() {
            let pointer = self.close(level, &[])?;
            let Level { before, .. } = &mut self.levels[level];
            let mut only = before.take().expect("the node just closed");
            self.owner.cache.write_through(pointer, &mut only.bytes, step);
            self.owner.root = pointer;
            level += 1;
        }
        self.owner.publish(standing);
        Ok(self.owner)
    }

    fn add(&mut self, level: usize, key: &[u8], payload: Payload) -> Result<(), TreeFull> {
        let now = &self.levels[level];
        if now.size_with(key, &payload) <= self.room(level) {
            self.levels[level].push(key, payload);
            return Ok(());
        }
        let (separator, first) = match level {
            0 => {
                let last = SplitKey::whole(now.last().expect("a node has room for a key"));
                (key[..separator_len(&last, &SplitKey::whole(key))].to_vec(), None)
            }
            _ => (key.to_vec(), NodeView::child_in(payload.bytes())),
        };
        self.close(level, &separator)?;
        let before = self.levels[level].before.take();
        self.levels[level] = Level::begin(separator, first, before);
        if level == 0 {
            self.levels[level].push(key, payload);
        }
        Ok(())
    }

    /// Bytes that the node being filled may take without its high fence: as many as there are if it has few
    /// keys, so that it will be of a larger class.
    fn room(&self, level: usize) -> usize {
        let unit = self.owner.options.unit;
        if self.levels[level].held.len() < self.owner.options.least_keys {
            // The fence may be as long as a key.
            unit.node_bytes(CLASSES - 1) - unit.key_max()
        } else {
            unit.node_bytes(self.class(level, &[])) * FILL / 100
        }
    }

    /// The class that the node being filled needs.
    fn class(&self, level: usize, high: &[u8]) -> u8 {
        let size = self.levels[level].size(high);
        let fits = |class: &u8| size <= self.owner.options.unit.node_bytes(*class);
        (0..CLASSES).find(fits).expect("keys that were let in fit")
    }

    /// Ends the node being filled, which has the keys below `high`, or all; where it is.
    fn close(&mut self, level: usize, high: &[u8]) -> Result<Pointer, TreeFull> {
        let class = self.class(level, high);
        let (options, step) = (&self.owner.options, self.owner.step + 1);
        let bytes_max = self.owner.cache.memory().bytes().min(options.bytes_max);
        let mut bytes = vec![0; options.unit.node_bytes(class)];
        let taken = self.owner.places.take(class, level as u8);
        let pointer = taken.ok_or(TreeFull { bytes: bytes_max })?;
        self.owner.populate();
        let now = &mut self.levels[level];
        let frame = Frame {
            level: level as u8,
            class,
            right: None,
            low: SplitKey::whole(&now.low),
            high: SplitKey::whole(high),
            first: now.first,
        };
        let items: Vec<Item<'_>> =
            (0..now.held.len()).map(|i| Item::new(now.key(i), &now.held[i].payload)).collect();
        encode(&mut bytes, &frame, &items);
        let (low, is_first) = (now.low.clone(), now.before.is_none());
        if let Some(mut before) = now.before.replace(Full { pointer, bytes }) {
            edit::set_right(&mut before.bytes, Some(pointer));
            self.owner.cache.write_through(before.pointer, &mut before.bytes, step);
        }
        match self.levels.get(level + 1) {
            // The first of a level that goes on: the level above begins with it.
            None if is_first && high.is_empty() => {}
            None => self.levels.push(Level::begin(Vec::new(), Some(pointer), None)),
            Some(_) => self.add(level + 1, &low, Payload::child(pointer))?,
        }
        Ok(pointer)
    }
}
