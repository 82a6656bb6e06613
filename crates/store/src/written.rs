//! The rooms of a segment that may have been written to.

use longarm_base::limits::LINE;
use longarm_memory::Words;

use crate::segment::layout::segment_at;

/// The bytes after which the system is asked again whether anything was written. Asking costs about as much
/// as looking at some rooms, and looking at a page that was never written takes a page.
const ASK_EVERY: u64 = 16 << 10;

/// The most entries of a segment that are looked at together, so that the visitor can have what it needs for
/// them fetched.
pub(crate) const TOGETHER: usize = 16;
/// The longest room of such entries.
const LONG: u64 = 1024;
/// How many rooms ahead an entry is fetched.
const AHEAD: u64 = 8;
/// The bytes of an entry that are fetched ahead; the rest follows in order.
const BEGINNING: u64 = 2 * LINE;

/// Memory that is reused from room to room.
#[derive(Clone, Debug, Default)]
pub struct Scratch(pub(crate) [Vec<u8>; TOGETHER]);

/// How many rooms of so many bytes to look at together. Long entries are looked at one by one: their cost is
/// not the look at an index.
pub(crate) fn together(room: u64) -> usize {
    if room <= LONG { TOGETHER } else { 1 }
}

/// Has the entry some rooms after the one at `offset` fetched, of rooms of `room` bytes: another core wrote
/// it.
pub(crate) fn fetch_ahead(memory: &dyn Words, offset: u64, room: u64) {
    if room <= LONG {
        let at = offset + AHEAD * room;
        (0..room.min(BEGINNING)).step_by(LINE as usize).for_each(|line| memory.prefetch(at + line));
    }
}

/// The numbers of the rooms from `from` on, of `rooms` of `room` bytes, except rooms whose first page was
/// never written: no entry lacks its header.
pub(crate) fn written(
    memory: &dyn Words,
    segment: u32,
    room: u64,
    rooms: u64,
    from: u64,
) -> impl Iterator<Item = u64> {
    let (base, end) = (segment_at(segment), segment_at(segment) + room * rooms);
    let (mut next, mut ask_at) = (from, 0);
    std::iter::from_fn(move || {
        let mut at = base + next * room;
        if at >= ask_at && at < end {
            next = memory.next_written(at).saturating_sub(base).div_ceil(room).max(next);
            at = base + next * room;
            ask_at = at + ASK_EVERY;
        }
        next += 1;
        (at < end).then_some(next - 1)
    })
}
