//! Both ends of one lane of a queue page, for the fuzz targets (feature `fuzzing`).

use longarm_memory::Mapped;

use super::queue::{self, LaneConsumer, LaneEvent, LaneProducer};

/// Size of a queue page.
pub const PAGE: u64 = queue::PAGE;

/// What a descriptor tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "as `News` of `queue.rs`")]
pub enum Said {
    Write { imm: u32, len: u32 },
    Send { buffer: u16, len: u32 },
    Closed,
    Revoked,
    Broke,
}

/// The producer's end.
pub struct Producer(LaneProducer);

impl Producer {
    /// Of lane 0 or 1 of a fresh page.
    pub fn new(page: Mapped, lane: u64) -> Producer {
        Producer(LaneProducer::new(page, lane))
    }

    /// Announces a WRITE if there is room; `Err` where the consumer's words cannot be.
    pub fn write(&mut self, imm: u32, len: u32) -> Result<bool, &'static str> {
        let room = self.0.has_room()?;
        if room {
            self.0.push(LaneEvent::Write(imm, len));
        }
        Ok(room)
    }

    /// Sends a message if there is room and a buffer; which buffer.
    pub fn send(&mut self, bytes: &[u8]) -> Result<Option<u16>, &'static str> {
        let buffer = if self.0.has_room()? { self.0.free_buffer() } else { None };
        if let Some(buffer) = buffer {
            self.0.fill(buffer, bytes);
            self.0.push(LaneEvent::Send(buffer, bytes.len() as u32));
        }
        Ok(buffer)
    }

    /// The farewell, once.
    pub fn close(mut self) {
        self.0.push(LaneEvent::Closed);
    }

    /// Whether the consumer is to be woken.
    pub fn take_armed(&self) -> bool {
        self.0.take_armed().is_some()
    }
}

/// The consumer's end.
pub struct Consumer(LaneConsumer);

impl Consumer {
    /// Of lane 0 or 1 of a fresh page.
    pub fn new(page: Mapped, lane: u64) -> Consumer {
        Consumer(LaneConsumer::new(page, lane))
    }

    /// The next piece of news, if there is one; inner `Err` where it cannot be.
    pub fn take(&mut self) -> Option<Result<Said, &'static str>> {
        let news = self.0.take()?;
        self.0.taken();
        Some(news.map(|news| match news {
            LaneEvent::Write(imm, len) => Said::Write { imm, len },
            LaneEvent::Send(buffer, len) => Said::Send { buffer, len },
            LaneEvent::Closed => Said::Closed,
            LaneEvent::Revoked => Said::Revoked,
            LaneEvent::Broke => Said::Broke,
        }))
    }

    /// Copies a message out of its buffer.
    pub fn copy_out(&self, buffer: u16, into: &mut [u8]) {
        self.0.copy_out(buffer, into);
    }

    /// Hands a buffer back; `false` if it was not held.
    pub fn release(&mut self, buffer: u16) -> bool {
        self.0.release(buffer)
    }

    /// Asks for the bell; `true` if there is news already.
    pub fn arm(&mut self) -> bool {
        self.0.arm()
    }

    /// Whether the bell may have rung.
    pub fn bell_rang(&mut self) -> bool {
        self.0.bell_rang()
    }
}
