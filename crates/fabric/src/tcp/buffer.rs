//! Bytes on their way: a linear buffer of fixed size. Bytes enter at the end and leave at the start; it never
//! grows.
//!
//! Its pages cost memory only once they were used (zeroed memory from the system is mapped when first
//! touched).

/// A bounded byte queue whose content is one slice.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// An empty buffer for `limit` bytes.
    pub fn new(limit: usize) -> Buffer {
        Buffer { bytes: vec![0; limit].into_boxed_slice(), start: 0, end: 0 }
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
        self.bytes.len() - self.len()
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
        self.reserve(least.min(self.room()));
        let end = self.bytes.len().min(self.end + most);
        &mut self.bytes[self.end..end]
    }

    /// The first `n` free bytes were filled.
    pub fn filled(&mut self, n: usize) {
        assert!(n <= self.bytes.len() - self.end, "filled more than was free");
        self.end += n;
    }

    fn reserve(&mut self, n: usize) {
        if self.bytes.len() - self.end < n {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

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
