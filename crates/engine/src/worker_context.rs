//! The context of a thread that calls the engine: its writer, buffers, and stream.

use std::ops::Range;

use longarm_memory::OwnedWords;
use longarm_store::Writer;

use crate::stream::Stream;

/// The context of one thread: its writer, its stream, and buffers that it reuses.
pub struct WorkerContext<M: OwnedWords> {
    /// Writes entries into segments of its own.
    pub writer: Writer<M>,
    /// Holds the entry that was read last.
    pub bytes: Vec<u8>,
    /// The range of the value of a GET in `bytes`.
    pub value: Range<usize>,
    /// In a group: the entries that this thread wrote and did not apply yet.
    pub stream: Option<Stream>,
}

/// Buffers beyond this size are given back after use.
const BYTES_KEPT: usize = 1 << 20;

impl<M: OwnedWords> WorkerContext<M> {
    /// The context of a thread that has read and written nothing.
    pub fn new(writer: Writer<M>) -> WorkerContext<M> {
        WorkerContext { writer, bytes: Vec::new(), value: 0..0, stream: None }
    }

    /// The value of the last GET.
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.value.clone()]
    }

    /// Gives a large buffer back.
    pub fn shrink(&mut self) {
        if self.bytes.capacity() > BYTES_KEPT {
            self.bytes = Vec::new();
            self.value = 0..0;
        }
    }
}
