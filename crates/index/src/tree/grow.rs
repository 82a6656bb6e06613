//! Room for a key that a node has none for: holes are closed, markers that nobody needs any more go, the node
//! becomes larger, or it is split.
//!
//! A split makes the right node, shortens the left one, which stays where it is, and then puts the separator
//! into the parent, which may be split in turn. A node that becomes larger moves: its parent and its left
//! neighbour name the new place, and the old one is given back.

use longarm_base::limits::TREE_HEIGHT_MAX;
use longarm_memory::OwnedWords;

use super::edit;
use super::encode::{Aim, Frame, Item, Split, encode, items, size, split};
use super::layout::{CLASSES, Pointer};
use super::lines::Lines;
use super::node::{NodeView, SplitKey};
use super::owner::{Owner, TreeFull, record_of};
use super::path::{Path, Target};
use super::record::Payload;
use super::rules::Ages;

/// How full the left node is, in hundredths, after a split for keys that come in ascending order.
const ASCENDING: usize = 90;
/// Nodes that one level may take for one key: it grows thrice and is split.
const TAKEN_MAX: u64 = CLASSES as u64;

/// A key on its way into a node.
struct New<'k> {
    key: &'k [u8],
    payload: &'k Payload,
}

impl<M: OwnedWords, A: Ages> Owner<M, A> {
    /// Whether there is room for all nodes that one key may take, whatever it does.
    pub(super) fn has_room(&self) -> Result<(), TreeFull> {
        let levels = u64::from(self.root.level) + 2;
        let bytes = self.cache.memory().bytes().min(self.options.bytes_max);
        if self.places.has(levels * TAKEN_MAX) { Ok(()) } else { Err(TreeFull { bytes }) }
    }

    /// Inserts a key, which is not there, into its leaf. Without room nothing has changed.
    pub(super) fn insert(&mut self, leaf: Pointer, key: &[u8], payload: &Payload) -> Result<(), TreeFull> {
        let new = New { key, payload };
        if self.fits(leaf, &new) {
            return Ok(());
        }
        self.has_room()?;
        let mut path = self.find(Target::Key(key), 0);
        debug_assert_eq!(path.end(), leaf);
        let last = path.last();
        self.make_room(&mut path, last, new);
        Ok(())
    }

    /// Inserts a key into a node, if it fits.
    fn fits(&mut self, pointer: Pointer, new: &New<'_>) -> bool {
        let at = self.cache.load(pointer);
        let i = self.cache.view(at).position(new.key).expect_err("the key is not there");
        self.cache.edit(at, |bytes| edit::insert(bytes, i, new.key, new.payload))
            || self.close_holes(pointer, new)
    }

    /// Writes the node anew with the key in it, if that fits.
    fn close_holes(&mut self, pointer: Pointer, new: &New<'_>) -> bool {
        let stable = self.stable;
        let at = self.cache.load(pointer);
        let old = self.cache.view(at).bytes().to_vec();
        let view = NodeView::of(&old);
        let mut dropped = 0;
        let items = with(&view, new, |view, i| {
            let record = (view.level() == 0).then(|| record_of(view, i));
            let needed = record.is_none_or(|record| !record.is_marker() || record.csn > stable);
            dropped += u64::from(!needed);
            needed
        });
        let frame = Frame::of(&view);
        if size(&frame, &items) > old.len() {
            return false;
        }
        self.cache.edit(at, |bytes| {
            encode(bytes, &frame, &items);
            Some(Lines::of(0..bytes.len()))
        });
        self.markers -= dropped;
        true
    }

    /// Inserts a key that the node at this depth of the way has no room for, and into its parents what that
    /// takes.
    fn make_room(&mut self, path: &mut Path, depth: usize, new: New<'_>) {
        loop {
            let pointer = path.node(depth);
            let at = self.cache.load(pointer);
            let i = self.cache.view(at).position(new.key).expect_err("the key is not there");
            let old = self.cache.view(at).bytes().to_vec();
            let view = NodeView::of(&old);
            let frame = Frame::of(&view);
            let items = with(&view, &new, |_, _| true);
            let small = items.len() < 2 * self.options.least_keys && pointer.class + 1 < CLASSES;
            let found = if small { None } else { split(&frame, &items, old.len(), aim(&frame, &items, i)) };
            if let Some(found) = found {
                return self.split_at(path, depth, &frame, &items, found);
            }
            self.enlarge(path, depth, &view);
            if self.fits(path.node(depth), &new) {
                return;
            }
        }
    }

    /// Splits a node.
    fn split_at(
        &mut self,
        path: &mut Path,
        depth: usize,
        frame: &Frame<'_>,
        items: &[Item<'_>],
        split: Split,
    ) {
        let left = path.node(depth);
        let right = self.places.take(left.class, left.level).expect("room, as was seen before");
        let [prefix, suffix] = items[split.at].key.first(split.separator);
        let separator = SplitKey { prefix, suffix };
        let (mut first, mut behind) = (None, &items[split.at..]);
        if left.level > 0 {
            first = NodeView::child_in(behind[0].payload);
            behind = &behind[1..];
        }
        let at = self.cache.fresh(right);
        encode(self.cache.change(at), &Frame { low: separator, first, ..*frame }, behind);
        let at = self.cache.load(left);
        let shortened = Frame { high: separator, right: Some(right), ..*frame };
        encode(self.cache.change(at), &shortened, &items[..split.at]);
        let mut key = Vec::with_capacity(split.separator);
        separator.append_to(&mut key);
        let payload = Payload::child(right);
        match depth.checked_sub(1) {
            Some(parent) => {
                let new = New { key: &key, payload: &payload };
                if !self.fits(path.node(parent), &new) {
                    self.make_room(path, parent, new);
                }
            }
            None => self.add_root(left, &Item::new(&key, &payload)),
        }
    }

    /// A root over the old one and its new right neighbour.
    fn add_root(&mut self, left: Pointer, right: &Item<'_>) {
        let level = left.level + 1;
        assert!(usize::from(level) < TREE_HEIGHT_MAX, "a tree of {level} levels");
        let none = SplitKey::whole(&[]);
        let mut frame = Frame { level, class: 0, right: None, low: none, high: none, first: Some(left) };
        while size(&frame, &[*right]) > self.options.unit.node_bytes(frame.class) {
            frame.class += 1;
        }
        let root = self.places.take(frame.class, level).expect("room, as was seen before");
        let at = self.cache.fresh(root);
        encode(self.cache.change(at), &frame, &[*right]);
        self.root = root;
    }

    /// Moves a node to a place of the next class.
    fn enlarge(&mut self, path: &mut Path, depth: usize, view: &NodeView<'_>) {
        let old = path.node(depth);
        let class = old.class + 1;
        assert!(class < CLASSES, "the largest node can be split");
        let new = self.places.take(class, old.level).expect("room, as was seen before");
        let at = self.cache.fresh(new);
        let items = items(view, |_, _| true);
        encode(self.cache.change(at), &Frame { class, ..Frame::of(view) }, &items);
        match depth.checked_sub(1) {
            Some(parent) => {
                let at = self.cache.load(path.node(parent));
                self.cache.edit(at, |bytes| Some(edit::set_child(bytes, path.child(parent), new)));
            }
            None => self.root = new,
        }
        if !view.low().is_empty() {
            let left = self.find(Target::Below(view.low()), old.level).end();
            let at = self.cache.load(left);
            debug_assert_eq!(self.cache.view(at).right(), Some(old));
            edit::set_right(self.cache.change(at), Some(new));
        }
        path.replace(depth, new);
        self.release(old);
    }

    /// A node is no longer part of the tree.
    pub(super) fn release(&mut self, node: Pointer) {
        let generation = self.places.give_back(node);
        self.cache.forget(node, generation);
        self.forget_ways();
    }
}

/// A node's items that are kept, with a new one at its place.
fn with<'a>(
    view: &NodeView<'a>,
    new: &New<'a>,
    keep: impl FnMut(&NodeView<'a>, usize) -> bool,
) -> Vec<Item<'a>> {
    let mut items = items(view, keep);
    let item = Item::new(new.key, new.payload);
    let at = items.partition_point(|other| other.key.order(&item.key).is_lt());
    items.insert(at, item);
    items
}

/// Where to split for a key that came in at this position.
fn aim(frame: &Frame<'_>, items: &[Item<'_>], position: usize) -> Aim {
    if frame.right.is_none() && position + 1 == items.len() {
        Aim::Left(ASCENDING)
    } else if frame.low.is_empty() && position == 0 {
        Aim::Right(ASCENDING)
    } else {
        Aim::Middle
    }
}
