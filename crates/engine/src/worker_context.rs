//! What a thread that calls the engine has of its own: its writer, buffers, and stream.

use std::ops::Range;

use longarm_memory::OwnedWords;
use longarm_store::Writer;

use crate::stream::Stream;

/// What one thread has of its own: its writer, and buffers it reuses.
pub struct WorkerContext<M: OwnedWords> {
    /// Writes entries into segments of its own.
    pub writer: Writer<M>,
    /// Holds the entry that was read last.
    pub bytes: Vec<u8>,
    /// Where in `bytes` the value of a GET stands.
    pub value: Range<usize>,
    /// In a group: what it wrote and did not apply yet.
    pub stream: Option<Stream>,
}

/// Buffers beyond this size are given back once they were used.
const BYTES_KEPT: usize = 1 << 20;

impl<M: OwnedWords> WorkerContext<M> {
    /// One that has read and written nothing.
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
