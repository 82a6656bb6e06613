//! One node, looked at: search, fences, records. Pure functions of its bytes, without allocation.
//!
//! [`NodeView::parse`] checks every place that the bytes name, so that nothing behind it can leave the node,
//! whoever wrote them. It does not check the order of keys: a search in foreign bytes ends, and finds
//! something or nothing (`verify.rs` checks orders).

use std::cmp::Ordering;

use longarm_base::bytes::common;

use super::layout::{Mark, Pointer, Shape, Slot, Span, Unit, head, node, unpack_fences};
use super::record::LeafRecord;

/// A key in two parts, as nodes have it.
#[derive(Clone, Copy, Debug)]
pub struct SplitKey<'a> {
    /// What all keys of the node begin with.
    pub prefix: &'a [u8],
    /// The rest.
    pub suffix: &'a [u8],
}

impl<'a> SplitKey<'a> {
    /// A key in one part.
    pub fn whole(key: &'a [u8]) -> SplitKey<'a> {
        SplitKey { prefix: &[], suffix: key }
    }

    /// Bytes of the key.
    pub fn len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Whether it is no key at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn bytes(&self) -> impl Iterator<Item = &'a u8> + use<'a> {
        self.prefix.iter().chain(self.suffix)
    }

    /// Bytes that both keys begin with.
    pub fn common(&self, other: &SplitKey<'_>) -> usize {
        if self.prefix == other.prefix {
            return self.prefix.len() + common(self.suffix, other.suffix);
        }
        self.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
    }

    /// The order of keys: that of their bytes.
    pub fn order(&self, other: &SplitKey<'_>) -> Ordering {
        if self.prefix == other.prefix {
            self.suffix.cmp(other.suffix)
        } else {
            self.bytes().cmp(other.bytes())
        }
    }

    /// The bytes from `from` on, in two parts.
    pub fn from(&self, from: usize) -> [&'a [u8]; 2] {
        let within = self.prefix.get(from..).unwrap_or(&[]);
        [within, &self.suffix[from.saturating_sub(self.prefix.len())..]]
    }

    /// The first `len` bytes, in two parts.
    pub fn first(&self, len: usize) -> [&'a [u8]; 2] {
        let within = len.min(self.prefix.len());
        [&self.prefix[..within], &self.suffix[..len - within]]
    }

    /// Appends the key.
    pub fn append_to(&self, key: &mut Vec<u8>) {
        key.extend_from_slice(self.prefix);
        key.extend_from_slice(self.suffix);
    }
}

/// A node's bytes.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    bytes: &'a [u8],
    shape: Shape,
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("a word within the node"))
}

impl<'a> NodeView<'a> {
    /// A node that we wrote ourselves.
    #[inline(always)]
    pub fn of(bytes: &'a [u8]) -> NodeView<'a> {
        NodeView { bytes, shape: Shape::unpack(word(bytes, node::SHAPE)) }
    }

    /// A node from foreign bytes, if all places that it names are within it and it has the length that it
    /// says.
    pub fn parse(bytes: &'a [u8], unit: Unit) -> Option<NodeView<'a>> {
        if bytes.len() < node::SLOTS {
            return None;
        }
        let view = NodeView::of(bytes);
        let Shape { class, count, heap, prefix, .. } = view.shape;
        let slots_end = node::SLOTS + node::SLOT * usize::from(count);
        let (heap, end) = (usize::from(heap), bytes.len());
        if end != unit.node_bytes(class) || slots_end > heap || heap + usize::from(prefix) > end {
            return None;
        }
        let within = |span: Span| span.len == 0 || (usize::from(span.at) >= heap && span.end() <= end);
        if !view.fences().into_iter().all(within) {
            return None;
        }
        (0..view.count()).all(|i| view.record_within(i, heap)).then_some(view)
    }

    /// Whether a record is within the heap, and its suffix as its head says.
    fn record_within(&self, i: usize, heap: usize) -> bool {
        let slot = self.slot(i);
        let at = usize::from(slot.at);
        if at < heap || at + 8 > self.bytes.len() {
            return false;
        }
        let suffix = at + self.payload_len(at);
        let end = suffix + usize::from(slot.suffix);
        end <= self.bytes.len() && head(&self.bytes[suffix..end]) == slot.head
    }

    /// All bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Level, leaves being 0.
    #[inline(always)]
    pub fn level(&self) -> u8 {
        self.shape.level
    }

    /// Class.
    pub fn class(&self) -> u8 {
        self.shape.class
    }

    /// Form.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Slots.
    #[inline(always)]
    pub fn count(&self) -> usize {
        usize::from(self.shape.count)
    }

    /// Checksum that the node bears.
    pub fn checksum(&self) -> u64 {
        word(self.bytes, node::CHECKSUM)
    }

    /// Use of the place, and step of the last change.
    pub fn mark(&self) -> Mark {
        Mark::unpack(word(self.bytes, node::MARK))
    }

    /// Right neighbour.
    pub fn right(&self) -> Option<Pointer> {
        Pointer::unpack(word(self.bytes, node::RIGHT))
    }

    fn fences(&self) -> [Span; 2] {
        unpack_fences(word(self.bytes, node::FENCES))
    }

    fn span(&self, span: Span) -> &'a [u8] {
        if span.len == 0 { &[] } else { &self.bytes[usize::from(span.at)..span.end()] }
    }

    /// The least key that the node may have; empty if there is no bound.
    pub fn low(&self) -> &'a [u8] {
        self.span(self.fences()[0])
    }

    /// What is above each key that the node may have; `None` if there is no bound.
    pub fn high(&self) -> Option<&'a [u8]> {
        let high = self.fences()[1];
        (high.len != 0).then(|| self.span(high))
    }

    /// Whether the node has this key if the tree does.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        self.low() <= key && self.is_below_high(key)
    }

    /// Whether a key is below the high fence, if there is one.
    #[inline]
    pub fn is_below_high(&self, key: &[u8]) -> bool {
        self.high().is_none_or(|high| key < high)
    }

    /// What all keys begin with.
    #[inline(always)]
    pub fn prefix(&self) -> &'a [u8] {
        &self.bytes[self.bytes.len() - usize::from(self.shape.prefix)..]
    }

    /// A slot.
    #[inline(always)]
    pub fn slot(&self, i: usize) -> Slot {
        Slot::unpack(word(self.bytes, node::SLOTS + node::SLOT * i))
    }

    /// All slots, as their bytes.
    #[inline(always)]
    fn slots(&self) -> &'a [[u8; node::SLOT]] {
        self.bytes[node::SLOTS..node::SLOTS + node::SLOT * self.count()].as_chunks().0
    }

    #[inline(always)]
    fn payload_len(&self, at: usize) -> usize {
        if self.shape.level == 0 { LeafRecord::len(word(self.bytes, at)) } else { 8 }
    }

    /// Bytes of a record without its suffix.
    #[inline(always)]
    pub fn payload(&self, i: usize) -> &'a [u8] {
        let at = usize::from(self.slot(i).at);
        &self.bytes[at..at + self.payload_len(at)]
    }

    /// The rest of a key behind the prefix.
    #[inline(always)]
    pub fn suffix(&self, i: usize) -> &'a [u8] {
        let slot = self.slot(i);
        let at = usize::from(slot.at);
        let from = at + self.payload_len(at);
        &self.bytes[from..from + usize::from(slot.suffix)]
    }

    /// A key.
    #[inline]
    pub fn key(&self, i: usize) -> SplitKey<'a> {
        SplitKey { prefix: self.prefix(), suffix: self.suffix(i) }
    }

    /// What a leaf says of its key; `None` in foreign bytes that are no record.
    pub fn record(&self, i: usize) -> Option<LeafRecord> {
        LeafRecord::unpack(self.payload(i))
    }

    /// An inner node's child: 0 is the first, which has the keys below all separators.
    #[inline]
    pub fn child(&self, i: usize) -> Option<Pointer> {
        match i.checked_sub(1) {
            None => Pointer::unpack(word(self.bytes, node::FIRST)),
            Some(i) => NodeView::child_in(self.payload(i)),
        }
    }

    /// The word of the first child, as a record of an inner node.
    pub fn first_child_bytes(&self) -> &'a [u8] {
        &self.bytes[node::FIRST..node::FIRST + 8]
    }

    /// The child of an inner node's record.
    pub fn child_in(payload: &[u8]) -> Option<Pointer> {
        Pointer::unpack(word(payload, 0))
    }

    /// The slot that has this key, or the one that it would get.
    #[inline]
    pub fn position(&self, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        let within = key.len().min(prefix.len());
        match key[..within].cmp(&prefix[..within]) {
            Ordering::Less => return Err(0),
            Ordering::Greater => return Err(self.count()),
            Ordering::Equal if within < prefix.len() => return Err(0),
            Ordering::Equal => {}
        }
        let suffix = &key[within..];
        let wanted = head(suffix);
        let slots = self.slots();
        let head_of = |slot: &[u8; node::SLOT]| Slot::unpack(u64::from_le_bytes(*slot)).head;
        let from = slots.partition_point(|slot| head_of(slot) < wanted);
        if slots.get(from).is_none_or(|slot| head_of(slot) != wanted) {
            return Err(from);
        }
        let (mut from, mut to) = (from, from + slots[from..].partition_point(|slot| head_of(slot) == wanted));
        while from < to {
            let middle = (from + to) / 2;
            match self.suffix(middle).cmp(suffix) {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(from)
    }

    /// The child of an inner node that covers this key, as [`NodeView::child`] counts.
    #[inline]
    pub fn child_of(&self, key: &[u8]) -> usize {
        self.position(key).map_or_else(|at| at, |at| at + 1)
    }

    /// The child that has the greatest keys below this one.
    pub fn child_below(&self, key: &[u8]) -> usize {
        self.position(key).unwrap_or_else(|at| at)
    }

    /// Bytes that nobody wrote between slots and heap.
    pub fn gap(&self) -> usize {
        usize::from(self.shape.heap) - node::SLOTS - node::SLOT * self.count()
    }

    /// Bytes in use, first line included: what the node would take without its holes.
    pub fn used(&self) -> usize {
        let [low, high] = self.fences();
        let records = (0..self.count())
            .map(|i| node::SLOT + self.payload(i).len() + usize::from(self.slot(i).suffix))
            .sum::<usize>();
        let fences = usize::from(low.len) + usize::from(high.len);
        node::SLOTS + records + fences + usize::from(self.shape.prefix)
    }
}
