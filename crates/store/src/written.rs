//! The rooms of a segment that somebody may have written to.

use longarm_memory::Words;

use crate::segment::layout::segment_at;

/// After so many bytes it is asked again whether anything was written: asking costs about as much as looking
/// at some rooms, and looking at a page that nobody wrote takes a page.
const ASK_EVERY: u64 = 16 << 10;

/// So many entries of a segment are looked at together at most, so that whoever sees them can have what it
/// needs fetched.
pub(crate) const TOGETHER: usize = 16;
/// The longest room of those.
const LONG: u64 = 1024;

/// Memory that is used again from room to room.
#[derive(Clone, Debug, Default)]
pub struct Scratch(pub(crate) [Vec<u8>; TOGETHER]);

/// How many rooms of so many bytes to look at together. Of long entries one: what they cost is not the look
/// at an index.
pub(crate) fn together(room: u64) -> usize {
    if room <= LONG { TOGETHER } else { 1 }
}

/// The numbers of the rooms from `from` on, of `rooms` of `room` bytes, but for those whose first page was
/// never written: there is no entry without its header.
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
