//! One node, changed in place: pure functions of its bytes. What has no room as it is gets none here; the
//! caller writes the node anew (`encode.rs`).

use super::layout::{Pointer, Shape, Slot, head, node};
use super::node::NodeView;
use super::record::Payload;

fn put_word(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

fn put_shape(bytes: &mut [u8], shape: Shape) {
    put_word(bytes, node::SHAPE, shape.pack());
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

/// Inserts a key, which is not there, at its position. `false`, and nothing changed, if the key does not have
/// the node's prefix or the gap no room.
pub fn insert(bytes: &mut [u8], i: usize, key: &[u8], payload: &Payload) -> bool {
    let view = NodeView::of(bytes);
    let mut shape = view.shape();
    let Some(suffix) = key.strip_prefix(view.prefix()) else { return false };
    if view.gap() < node::SLOT + payload.bytes().len() + suffix.len() {
        return false;
    }
    let (at, end) = (slot_at(i), slot_at(view.count()));
    let slot = push(bytes, &mut shape, suffix, payload);
    bytes.copy_within(at..end, at + node::SLOT);
    put_word(bytes, at, slot.pack());
    shape.count += 1;
    put_shape(bytes, shape);
    true
}

/// Gives a slot another record. `false`, and nothing changed, if that is longer and the gap has no room.
pub fn replace(bytes: &mut [u8], i: usize, payload: &Payload) -> bool {
    let view = NodeView::of(bytes);
    let (slot, old) = (view.slot(i), view.payload(i).len());
    let (at, new) = (usize::from(slot.at), payload.bytes().len());
    if new == old {
        bytes[at..at + new].copy_from_slice(payload.bytes());
        return true;
    }
    let mut shape = view.shape();
    let suffix = at + old..at + old + usize::from(slot.suffix);
    if new < old {
        // The suffix stays where it is, and the record begins later.
        let from = at + old - new;
        bytes[from..from + new].copy_from_slice(payload.bytes());
        put_word(bytes, slot_at(i), Slot { at: from as u16, ..slot }.pack());
        return true;
    }
    if view.gap() < new + suffix.len() {
        return false;
    }
    let end = usize::from(shape.heap);
    bytes.copy_within(suffix.clone(), end - suffix.len());
    let from = end - suffix.len() - new;
    bytes[from..from + new].copy_from_slice(payload.bytes());
    shape.heap = from as u16;
    put_word(bytes, slot_at(i), Slot { at: from as u16, ..slot }.pack());
    put_shape(bytes, shape);
    true
}

/// Removes a slot. Its record leaves a hole, unless it is the heap's first.
pub fn remove(bytes: &mut [u8], i: usize) {
    let view = NodeView::of(bytes);
    let mut shape = view.shape();
    let (slot, len) = (view.slot(i), view.payload(i).len() + usize::from(view.slot(i).suffix));
    let end = slot_at(view.count());
    if slot.at == shape.heap {
        shape.heap += len as u16;
    }
    bytes.copy_within(slot_at(i + 1)..end, slot_at(i));
    shape.count -= 1;
    put_shape(bytes, shape);
}

/// Names another right neighbour.
pub fn set_right(bytes: &mut [u8], right: Option<Pointer>) {
    put_word(bytes, node::RIGHT, right.map_or(0, Pointer::pack));
}

/// Names another child, as [`NodeView::child`] counts.
pub fn set_child(bytes: &mut [u8], i: usize, child: Pointer) {
    match i.checked_sub(1) {
        None => put_word(bytes, node::FIRST, child.pack()),
        Some(i) => {
            let done = replace(bytes, i, &Payload::child(child));
            debug_assert!(done, "pointers have one length");
        }
    }
}
