//! The state of a stream between two writers: its position, and its open segments.

use std::sync::Arc;

use longarm_base::limits::SEGMENT_BYTES;

use crate::class::{CLASSES, stride_units};
use crate::object::Returns;

/// Segments that a lane may have open before entries share classes, in however small an arena.
const OPEN_MIN: u32 = 2;

/// A segment that a writer fills.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub segment: u32,
    pub generation: u32,
    pub stride: u32,
    /// Bytes handed out.
    pub tail: u32,
    /// Rooms of dropped drafts.
    pub spare: Vec<u64>,
}

impl OpenSegment {
    pub fn is_full(&self) -> bool {
        self.spare.is_empty() && (self.tail + self.stride) as u64 > SEGMENT_BYTES
    }
}

/// The open segments of one lane, by class.
#[derive(Debug)]
pub(crate) struct Opens {
    pub by_class: Vec<Option<OpenSegment>>,
    pub count: u32,
    pub allowed: u32,
}

impl Opens {
    fn new(allowed: u32) -> Opens {
        Opens { by_class: (0..CLASSES).map(|_| None).collect(), count: 0, allowed }
    }

    /// The nearest open class, from `class` on, whose rooms have at most `units_max` cache lines.
    pub fn nearest(&self, class: usize, units_max: u32) -> Option<usize> {
        (class..CLASSES).take_while(|&c| stride_units(c) <= units_max).find(|&c| self.by_class[c].is_some())
    }

    pub fn close(&mut self, class: usize) -> OpenSegment {
        self.count -= 1;
        self.by_class[class].take().expect("an open class")
    }
}

/// The state of a stream between two writers.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub next_position: u64,
    pub lanes: [Opens; 2],
    pub returns: Arc<Returns>,
}

impl StreamState {
    pub(crate) fn new(segments: u32, streams: u16) -> StreamState {
        let share = segments / (8 * streams as u32);
        StreamState {
            next_position: 0,
            lanes: [Opens::new(share.max(OPEN_MIN)), Opens::new((share / 2).max(OPEN_MIN / 2))],
            returns: Arc::default(),
        }
    }
}
