//! Bytes on their way: a linear buffer with a limit. Bytes enter at the end and leave at the start.
//!
//! It grows with what goes through it: most connections carry little, and what an allocator is given back in
//! large pieces by many that end at once it keeps for a long time.

/// The limit of a buffer that receives: the longest frame, and more to read at once.
pub const INPUT: usize = longarm_base::limits::READ_MAX as usize + (128 << 10);

/// Bytes at first: as many as a short request or answer has, as there may be ten thousand connections.
const FIRST: usize = 1 << 10;

/// A bounded byte queue whose content is one slice.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    limit: usize,
    start: usize,
    end: usize,
    /// What was free was filled to the last byte: there may have been more.
    tight: bool,
}

impl Buffer {
    /// An empty buffer for `limit` bytes.
    pub fn new(limit: usize) -> Buffer {
        Buffer { bytes: Vec::new(), limit, start: 0, end: 0, tight: false }
    }

    /// Bytes of memory that it takes.
    pub fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes inside.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether nothing is inside.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes that still fit.
    pub fn room(&self) -> usize {
        self.limit - self.len()
    }

    /// The content, oldest first.
    pub fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Forgets the oldest `n` bytes.
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.len(), "consumed {n} of {} bytes", self.len());
        self.start += n;
        if self.is_empty() {
            // Back to the first pages, which are warm.
            (self.start, self.end) = (0, 0);
        }
    }

    /// Appends `n` bytes and returns them to be filled. The caller checked [`room`](Self::room).
    pub fn append(&mut self, n: usize) -> &mut [u8] {
        assert!(n <= self.room(), "appended {n} bytes to a buffer with room for {}", self.room());
        self.reserve(n);
        let at = self.end;
        self.end += n;
        &mut self.bytes[at..at + n]
    }

    /// Free bytes at the end, at least `least` of them and at most `most`; follow with
    /// [`filled`](Self::filled).
    pub fn free(&mut self, least: usize, most: usize) -> &mut [u8] {
        let wanted = if self.tight { 2 * self.bytes.len() } else { 1 };
        self.tight = false;
        self.reserve(least.max(wanted).min(self.room()));
        let end = self.bytes.len().min(self.end + most);
        &mut self.bytes[self.end..end]
    }

    /// The first `n` free bytes were filled.
    pub fn filled(&mut self, n: usize) {
        assert!(n <= self.bytes.len() - self.end, "filled more than was free");
        self.end += n;
        self.tight = self.end == self.bytes.len();
    }

    fn reserve(&mut self, n: usize) {
        if self.bytes.len() - self.end < n {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() - self.end < n {
            let len = (self.end + n).next_power_of_two().max(FIRST).min(self.limit);
            self.bytes.resize(len, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_as_large_as_what_goes_through_it() {
        let mut buffer = Buffer::new(1 << 20);
        assert_eq!((buffer.held(), buffer.room()), (0, 1 << 20));
        for _ in 0..1000 {
            buffer.append(100);
            let free = buffer.free(1, 1 << 20).len();
            buffer.filled(free.min(100));
            buffer.consume(buffer.len());
        }
        assert_eq!(buffer.held(), FIRST);
        // A peer that sends as much as there is room for is soon given more.
        let reads = (1..).find(|_| {
            let free = buffer.free(1, 1 << 20).len();
            buffer.filled(free);
            let whole = free == 1 << 20;
            buffer.consume(buffer.len());
            whole
        });
        assert!(reads.is_some_and(|reads| reads < 12));
        buffer.append(1 << 20);
        assert_eq!((buffer.room(), buffer.free(1, 9).len()), (0, 0));
    }

    proptest! {
        /// Any series of appends, reads and consumptions is a queue of bytes.
        #[test]
        fn is_a_queue(steps in proptest::collection::vec((0u8..3, 0usize..40), 0..200)) {
            let mut buffer = Buffer::new(64);
            let mut model = VecDeque::new();
            let mut next = 0u8;
            for (step, n) in steps {
                match step {
                    0 => {
                        let n = n.min(buffer.room());
                        for byte in buffer.append(n) {
                            *byte = next;
                            model.push_back(next);
                            next = next.wrapping_add(1);
                        }
                    }
                    1 => {
                        let n = n.min(buffer.room());
                        let free = buffer.free(n, 40);
                        prop_assert!(free.len() >= n);
                        for byte in &mut free[..n] {
                            *byte = next;
                            model.push_back(next);
                            next = next.wrapping_add(1);
                        }
                        buffer.filled(n);
                    }
                    _ => {
                        let n = n.min(buffer.len());
                        buffer.consume(n);
                        model.drain(..n);
                    }
                }
                prop_assert!(buffer.content().iter().eq(model.iter()));
                prop_assert_eq!(buffer.room(), 64 - model.len());
            }
        }
    }
}
