//! A node written anew from its keys, in order: prefix and fences, what it would take, and where to split.
//! Pure functions.

use super::layout::{Pointer, Shape, Slot, Span, head, node, pack_fences};
use super::node::{NodeView, SplitKey};
use super::record::Payload;

/// A key and its record.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The key.
    pub key: SplitKey<'a>,
    /// The record without the suffix.
    pub payload: &'a [u8],
}

impl<'a> Item<'a> {
    /// A new key with its record.
    pub fn new(key: &'a [u8], payload: &'a Payload) -> Item<'a> {
        Item { key: SplitKey::whole(key), payload: payload.bytes() }
    }

    /// Bytes that it takes in a node without a prefix.
    fn bytes(&self) -> usize {
        node::SLOT + self.payload.len() + self.key.len()
    }
}

/// A node's items, those that `keep` does not refuse.
pub fn items<'a>(view: &NodeView<'a>, mut keep: impl FnMut(&NodeView<'a>, usize) -> bool) -> Vec<Item<'a>> {
    let kept = (0..view.count()).filter(|i| keep(view, *i));
    // One more is what most callers add.
    let mut items = Vec::with_capacity(view.count() + 1);
    items.extend(kept.map(|i| Item { key: view.key(i), payload: view.payload(i) }));
    items
}

/// What a node has beside its items.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Level, leaves being 0.
    pub level: u8,
    /// Class.
    pub class: u8,
    /// Right neighbour.
    pub right: Option<Pointer>,
    /// Least key that it may have; empty for none.
    pub low: SplitKey<'a>,
    /// What is above each of its keys; empty for none.
    pub high: SplitKey<'a>,
    /// First child of an inner node.
    pub first: Option<Pointer>,
}

impl<'a> Frame<'a> {
    /// That of a node.
    pub fn of(view: &NodeView<'a>) -> Frame<'a> {
        Frame {
            level: view.level(),
            class: view.class(),
            right: view.right(),
            low: SplitKey::whole(view.low()),
            high: SplitKey::whole(view.high().unwrap_or(&[])),
            first: if view.level() > 0 { view.child(0) } else { None },
        }
    }
}

/// Bytes that all these keys, which are in order, begin with.
fn prefix_of(items: &[Item<'_>]) -> usize {
    match items {
        [first, .., last] => first.key.common(&last.key),
        [only] => only.key.len(),
        [] => 0,
    }
}

/// Bytes of a node with these items, whose own bytes are `bytes` together, and these fences.
fn size_with(items: &[Item<'_>], bytes: usize, fences: usize) -> usize {
    let saved = prefix_of(items) * items.len().saturating_sub(1);
    node::SLOTS + bytes + fences - saved
}

/// Bytes of a node with these items.
pub fn size(frame: &Frame<'_>, items: &[Item<'_>]) -> usize {
    let bytes = items.iter().map(Item::bytes).sum();
    size_with(items, bytes, frame.low.len() + frame.high.len())
}

/// Bytes of the shortest key above `left` and not above `right`, which is the greater of the two: the first
/// of so many bytes of `right`.
pub fn separator_len(left: &SplitKey<'_>, right: &SplitKey<'_>) -> usize {
    left.common(right) + 1
}

/// Writes heap and slots of a node from its end and its start on.
struct Writer<'b> {
    bytes: &'b mut [u8],
    heap: usize,
}

impl Writer<'_> {
    fn push(&mut self, parts: [&[u8]; 2]) -> Span {
        let len = parts[0].len() + parts[1].len();
        self.heap -= len;
        let (first, second) = self.bytes[self.heap..self.heap + len].split_at_mut(parts[0].len());
        first.copy_from_slice(parts[0]);
        second.copy_from_slice(parts[1]);
        Span { at: self.heap as u16, len: len as u16 }
    }

    fn put(&mut self, at: usize, word: u64) {
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
}

/// Writes a node; mark and checksum are left zero. Its size must fit into `bytes`.
pub fn encode(bytes: &mut [u8], frame: &Frame<'_>, items: &[Item<'_>]) {
    assert!(size(frame, items) <= bytes.len(), "a node that does not fit into its bytes");
    bytes.fill(0);
    let heap = bytes.len();
    let mut writer = Writer { bytes, heap };
    // Alone, a key is all prefix.
    let prefix = prefix_of(items);
    if let Some(first) = items.first() {
        writer.push(first.key.first(prefix));
    }
    let fences = [frame.low, frame.high].map(|fence| match fence.is_empty() {
        true => Span::default(),
        false => writer.push([fence.prefix, fence.suffix]),
    });
    for (i, item) in items.iter().enumerate() {
        let suffix = writer.push(item.key.from(prefix));
        let start = usize::from(suffix.at);
        let first = head(&writer.bytes[start..suffix.end()]);
        let at = writer.push([item.payload, &[]]).at;
        let slot = Slot { at, suffix: suffix.len, head: first };
        writer.put(node::SLOTS + node::SLOT * i, slot.pack());
    }
    let (count, heap) = (items.len() as u16, writer.heap as u16);
    let shape = Shape { level: frame.level, class: frame.class, count, heap, prefix: prefix as u16 };
    writer.put(node::SHAPE, shape.pack());
    writer.put(node::RIGHT, frame.right.map_or(0, Pointer::pack));
    writer.put(node::FENCES, pack_fences(fences[0], fences[1]));
    writer.put(node::FIRST, frame.first.map_or(0, Pointer::pack));
}

/// Where a node that is too full is split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// Into halves.
    Middle,
    /// So that the left node is this full, in hundredths: keys come in ascending order.
    Left(usize),
    /// So that the right node is, as far as it goes: keys come in descending order.
    Right(usize),
}

/// A split: the left node gets the items before `at`. A leaf's right node gets the others; an inner node's
/// item at `at` moves up, its child becomes the right node's first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split {
    /// First item that the left node does not get.
    pub at: usize,
    /// Bytes of the separator, which are the first of that item's key.
    pub separator: usize,
}

/// Finds a split whose two nodes fit into `room` bytes each and come next to the aim; `None` if there is
/// none.
pub fn split(frame: &Frame<'_>, items: &[Item<'_>], room: usize, aim: Aim) -> Option<Split> {
    let total: usize = items.iter().map(Item::bytes).sum();
    let is_leaf = frame.level == 0;
    let mut best: Option<(usize, Split)> = None;
    let mut before = 0;
    for at in 0..items.len() {
        let own = items[at].bytes();
        // Neither leaf may be empty; an inner node has a child though it has no separator.
        if at > 0 || !is_leaf {
            let (left, mut right) = (&items[..at], &items[at..]);
            let mut behind = total - before;
            let mut separator = items[at].key.len();
            if is_leaf {
                separator = separator_len(&items[at - 1].key, &items[at].key);
            } else {
                (right, behind) = (&right[1..], behind - own);
            }
            let left = size_with(left, before, frame.low.len() + separator);
            let right = size_with(right, behind, frame.high.len() + separator);
            if left <= room && right <= room {
                let miss = match aim {
                    Aim::Middle => left.abs_diff(right),
                    Aim::Left(full) => left.abs_diff(room * full / 100),
                    Aim::Right(full) => right.abs_diff(room * full / 100),
                };
                if best.is_none_or(|(least, _)| miss < least) {
                    best = Some((miss, Split { at, separator }));
                }
            }
        }
        before += own;
    }
    best.map(|(_, split)| split)
}
