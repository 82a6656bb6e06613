//! One node, changed in place: pure functions of its bytes, which return the lines that they changed. What
//! has no room as it is gets none here; the caller writes the node anew (`encode.rs`).

use super::layout::{Pointer, Shape, Slot, head, node};
use super::lines::Lines;
use super::node::NodeView;
use super::record::Payload;

fn put_word(bytes: &mut [u8], at: usize, word: u64) -> Lines {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    Lines::of(at..at + 8)
}

fn put_shape(bytes: &mut [u8], shape: Shape) -> Lines {
    put_word(bytes, node::SHAPE, shape.pack())
}

fn slot_at(i: usize) -> usize {
    node::SLOTS + node::SLOT * i
}

/// Puts a record into the heap, and returns its slot. The caller has seen that the gap has room.
fn push(bytes: &mut [u8], shape: &mut Shape, suffix: &[u8], payload: &Payload) -> Slot {
    let payload = payload.bytes();
    let end = usize::from(shape.heap);
    let at = end - payload.len() - suffix.len();
    bytes[at..at + payload.len()].copy_from_slice(payload);
    bytes[at + payload.len()..end].copy_from_slice(suffix);
    shape.heap = at as u16;
    Slot { at: at as u16, suffix: suffix.len() as u16, head: head(suffix) }
}

/// Inserts a key, which is not there, at its position. `None`, and nothing changed, if the key does not have
/// the node's prefix or the gap no room.
pub fn insert(bytes: &mut [u8], i: usize, key: &[u8], payload: &Payload) -> Option<Lines> {
    let view = NodeView::of(bytes);
    let mut shape = view.shape();
    let suffix = key.strip_prefix(view.prefix())?;
    if view.gap() < node::SLOT + payload.bytes().len() + suffix.len() {
        return None;
    }
    let (at, end) = (slot_at(i), slot_at(view.count()));
    let heap = usize::from(shape.heap);
    let slot = push(bytes, &mut shape, suffix, payload);
    bytes.copy_within(at..end, at + node::SLOT);
    put_word(bytes, at, slot.pack());
    shape.count += 1;
    let record = Lines::of(usize::from(slot.at)..heap);
    Some(put_shape(bytes, shape) | record | Lines::of(at..end + node::SLOT))
}

/// Gives a slot another record. `None`, and nothing changed, if that is longer and the gap has no room.
pub fn replace(bytes: &mut [u8], i: usize, payload: &Payload) -> Option<Lines> {
    let view = NodeView::of(bytes);
    let (slot, old) = (view.slot(i), view.payload(i).len());
    let (at, new) = (usize::from(slot.at), payload.bytes().len());
    if new <= old {
        // The suffix stays where it is, and a shorter record begins later.
        let from = at + old - new;
        bytes[from..from + new].copy_from_slice(payload.bytes());
        let record = Lines::of(from..from + new);
        if new == old {
            return Some(record);
        }
        return Some(record | put_word(bytes, slot_at(i), Slot { at: from as u16, ..slot }.pack()));
    }
    let mut shape = view.shape();
    let suffix = at + old..at + old + usize::from(slot.suffix);
    if view.gap() < new + suffix.len() {
        return None;
    }
    let end = usize::from(shape.heap);
    bytes.copy_within(suffix.clone(), end - suffix.len());
    let from = end - suffix.len() - new;
    bytes[from..from + new].copy_from_slice(payload.bytes());
    shape.heap = from as u16;
    let slot = put_word(bytes, slot_at(i), Slot { at: from as u16, ..slot }.pack());
    Some(slot | put_shape(bytes, shape) | Lines::of(from..end))
}

/// Removes a slot. Its record leaves a hole, unless it is the heap's first.
pub fn remove(bytes: &mut [u8], i: usize) -> Lines {
    let view = NodeView::of(bytes);
    let mut shape = view.shape();
    let (slot, len) = (view.slot(i), view.payload(i).len() + usize::from(view.slot(i).suffix));
    let end = slot_at(view.count());
    if slot.at == shape.heap {
        shape.heap += len as u16;
    }
    bytes.copy_within(slot_at(i + 1)..end, slot_at(i));
    shape.count -= 1;
    put_shape(bytes, shape) | Lines::of(slot_at(i)..end)
}

/// Names another right neighbour.
pub fn set_right(bytes: &mut [u8], right: Option<Pointer>) -> Lines {
    put_word(bytes, node::RIGHT, right.map_or(0, Pointer::pack))
}

/// Names another child, as [`NodeView::child`] counts.
pub fn set_child(bytes: &mut [u8], i: usize, child: Pointer) -> Lines {
    match i.checked_sub(1) {
        None => put_word(bytes, node::FIRST, child.pack()),
        Some(i) => replace(bytes, i, &Payload::child(child)).expect("pointers have one length"),
    }
}
