//! The queue page: what two processes tell each other about what they wrote.
//!
//! Two lanes, one for each direction. A lane has a **producer**, who posts, and a **consumer**, who polls:
//!
//! ```text
//! 0x0000  ring      1024 descriptors of 8 bytes      producer writes, consumer reads
//! 0x2000  consumed  count of descriptors taken       consumer writes, producer reads
//! 0x2008  released  one bit a receive buffer         consumer writes, producer reads
//! 0x2040  armed     1: ring the bell on the next,    consumer sets, producer clears
//!                   2: wake who sleeps on this word
//! 0x2080  busy      1: the producer is changing      producer writes, consumer reads   (if it heeds)
//! 0x20c0  revoked   1: the producer must not change  consumer writes, producer reads   (if it heeds)
//! 0x3000  buffers   16 receive buffers of 4096 bytes producer writes, consumer reads
//! ```
//! The layout belongs to the version of the handshake ([`VERSION`](crate::handshake::VERSION)): who passed
//! it, agrees.
//!
//! A descriptor: immediate (bits 0 to 31), length (32 to 51), buffer (52 to 57), kind (58 to 62), lap (63).
//!
//! (1) A descriptor becomes visible by one 8-byte store, after everything it announces.
//! (2) Its lap bit is 1 on odd laps of the ring and 0 on even ones (the first lap is odd, memory begins
//!     zeroed), so the consumer sees by the descriptor alone whether it is new: an idle poll loads one line.
//! (3) The producer overwrites a descriptor only after `consumed` passed it. One slot is kept for the
//!     farewell.
//! (4) A receive buffer is the producer's while its bits in `released` and in the producer's own count of
//!     SENDs (modulo 2) agree, else the consumer's. Each side flips only its own bit.
//! (5) Armed: the consumer stores 1, fences, looks at the ring once more, sleeps. The producer stores the
//!     descriptor, fences, loads `armed`, rings. Each stores before it loads what the other stores (Dekker),
//!     so with a SeqCst fence between at least one of them sees the other: no wake-up is lost.
//! (6) Both map the page writable, so either may scribble anywhere at any moment. Each side keeps its own
//!     positions in private memory, copies a word once, and checks it before use: the worst a scribbler does
//!     is break its own connection.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use longarm_memory::{Mapped, OwnedWords, Words};

use crate::{RECEIVES, SEND_MAX, WRITE_MAX};

const ARRIVALS: u64 = 1024;
const CONSUMED: u64 = 0x2000;
const RELEASED: u64 = 0x2008;
const ARMED: u64 = 0x2040;
const BUSY: u64 = 0x2080;
const REVOKED: u64 = 0x20c0;
const BUFFERS: u64 = 0x3000;
const LANE: u64 = BUFFERS + (RECEIVES * SEND_MAX) as u64;
/// Size of a queue page.
pub(super) const PAGE: u64 = 2 * LANE;

const _: () = {
    assert!(ARRIVALS.is_power_of_two() && ARRIVALS * 8 <= CONSUMED);
    assert!(WRITE_MAX < 1 << 20, "a length has 20 bits");
    assert!(SEND_MAX <= WRITE_MAX && SEND_MAX.is_multiple_of(8));
    assert!(RECEIVES <= 64, "a buffer has 6 bits, and one bit of `released`");
    assert!(PAGE.is_multiple_of(4096));
};

/// What a descriptor tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LaneEvent {
    /// A WRITE_WITH_IMM: immediate and length.
    Write(u32, u32),
    /// A SEND: buffer and length.
    Send(u16, u32),
    /// The producer went in good order.
    Closed,
    /// The producer revoked us.
    Revoked,
    /// The producer broke the connection after a request that was not allowed.
    Broke,
}

/// How a consumer sleeps: the value of `armed`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Armed {
    /// Somewhere else, where the bell is heard.
    Bell = 1,
    /// On the word itself (a futex), which is woken in half the time.
    Word = 2,
}

/// What is wrong with a word of the page.
pub(super) type Scribble = &'static str;

fn encode(news: LaneEvent, position: u64) -> u64 {
    let (kind, imm, len, buffer) = match news {
        LaneEvent::Write(imm, len) => (1, imm, len, 0),
        LaneEvent::Send(buffer, len) => (2, 0, len, buffer),
        LaneEvent::Closed => (3, 0, 0, 0),
        LaneEvent::Revoked => (4, 0, 0, 0),
        LaneEvent::Broke => (5, 0, 0, 0),
    };
    u64::from(imm) | u64::from(len) << 32 | u64::from(buffer) << 52 | kind << 58 | lap(position) << 63
}

fn decode(word: u64) -> Result<LaneEvent, Scribble> {
    let (imm, len, buffer) = (word as u32, (word >> 32) as u32 & 0xf_ffff, (word >> 52) as u16 & 0x3f);
    match (word >> 58) & 0x1f {
        1 if len as usize <= WRITE_MAX && len.is_multiple_of(8) => Ok(LaneEvent::Write(imm, len)),
        2 if len as usize <= SEND_MAX && usize::from(buffer) < RECEIVES => Ok(LaneEvent::Send(buffer, len)),
        3 => Ok(LaneEvent::Closed),
        4 => Ok(LaneEvent::Revoked),
        5 => Ok(LaneEvent::Broke),
        _ => Err("an arrival of no known kind, or longer than its kind allows"),
    }
}

#[inline(always)]
fn lap(position: u64) -> u64 {
    (position / ARRIVALS + 1) & 1
}

/// The producer's end of a lane.
pub(super) struct LaneProducer {
    page: Mapped,
    lane: u64,
    tail: u64,
    consumed: u64,
    sends: u64,
}

impl LaneProducer {
    /// The producer's end of lane 0 or 1 of a fresh page.
    pub(super) fn new(page: Mapped, lane: u64) -> LaneProducer {
        LaneProducer { page, lane: lane * LANE, tail: 0, consumed: 0, sends: 0 }
    }

    /// Whether one more descriptor fits, the one for the farewell aside.
    #[inline]
    pub(super) fn has_room(&mut self) -> Result<bool, Scribble> {
        if self.tail - self.consumed < ARRIVALS - 1 {
            return Ok(true);
        }
        let consumed = self.page.load(self.lane + CONSUMED);
        if consumed < self.consumed || consumed > self.tail {
            return Err("a count of arrivals taken that cannot be");
        }
        self.consumed = consumed;
        Ok(self.tail - consumed < ARRIVALS - 1)
    }

    /// A receive buffer that is ours to fill.
    pub(super) fn free_buffer(&self) -> Option<u16> {
        let free = !(self.page.load(self.lane + RELEASED) ^ self.sends);
        let first = free.trailing_zeros();
        (first < RECEIVES as u32).then_some(first as u16)
    }

    /// Fills a buffer that [`free_buffer`](Self::free_buffer) named. The caller announces it.
    pub(super) fn fill(&mut self, buffer: u16, bytes: &[u8]) {
        self.page.copy_in(self.lane + BUFFERS + u64::from(buffer) * SEND_MAX as u64, bytes);
        self.sends ^= 1 << buffer;
    }

    /// Announces. The caller has checked [`has_room`](Self::has_room); a farewell always has room.
    #[inline]
    pub(super) fn push(&mut self, news: LaneEvent) {
        let at = self.lane + self.tail % ARRIVALS * 8;
        self.page.store(at, encode(news, self.tail));
        self.tail += 1;
    }

    /// How the consumer sleeps, if it must be woken; answers so once for each time it armed.
    #[inline]
    pub(super) fn take_armed(&self) -> Option<Armed> {
        // SeqCst: after the store of the descriptor in `push`, before the load of `armed`; pairs with the
        // fence of `LaneConsumer::arm` (invariant 5).
        fence(Ordering::SeqCst);
        let at = self.lane + ARMED;
        let armed = match self.page.load(at) {
            1 => Armed::Bell,
            2 => Armed::Word,
            _ => return None,
        };
        self.page.compare_exchange(at, armed as u64, 0).is_ok().then_some(armed)
    }

    /// Wakes a consumer that sleeps on the word.
    pub(super) fn wake(&self) {
        self.page.futex_wake(self.lane + ARMED);
    }

    /// Says that a change begins; `false` if it must not. For a peer whose fence waits for
    /// [`leave`](Self::leave): in the same process, or promised (`heed_fence`).
    pub(super) fn enter(&self) -> bool {
        self.page.store(self.lane + BUSY, 1);
        // SeqCst: after the store of `busy`, before the load of `revoked`; pairs with the fence of
        // `LaneConsumer::fence_off`.
        fence(Ordering::SeqCst);
        let allowed = self.page.load(self.lane + REVOKED) == 0;
        if !allowed {
            self.leave();
        }
        allowed
    }

    /// The change is over.
    pub(super) fn leave(&self) {
        self.page.store(self.lane + BUSY, 0);
    }
}

/// The consumer's end of a lane.
pub(super) struct LaneConsumer {
    page: Mapped,
    lane: u64,
    head: u64,
    released: u64,
    held: u64,
    armed: bool,
}

impl LaneConsumer {
    /// The consumer's end of lane 0 or 1 of a fresh page.
    pub(super) fn new(page: Mapped, lane: u64) -> LaneConsumer {
        LaneConsumer { page, lane: lane * LANE, head: 0, released: 0, held: 0, armed: false }
    }

    #[inline(always)]
    fn word(&self) -> Option<u64> {
        let word = self.page.load(self.lane + self.head % ARRIVALS * 8);
        (word >> 63 == lap(self.head)).then_some(word)
    }

    /// Whether there is something to take.
    #[inline(always)]
    pub(super) fn has_news(&self) -> bool {
        self.word().is_some()
    }

    /// The next piece of news. The caller says [`taken`](Self::taken) after the last one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Result<LaneEvent, Scribble>> {
        let word = self.word()?;
        self.head += 1;
        let news = decode(word);
        if let Ok(LaneEvent::Send(buffer, _)) = news {
            if self.held >> buffer & 1 == 1 {
                return Some(Err("a message in a receive buffer that was not handed back"));
            }
            self.held |= 1 << buffer;
        }
        Some(news)
    }

    /// Tells the producer how far we are.
    #[inline]
    pub(super) fn taken(&self) {
        self.page.store(self.lane + CONSUMED, self.head);
    }

    /// Copies a message out of its buffer.
    pub(super) fn copy_out(&self, buffer: u16, into: &mut [u8]) {
        self.page.copy_out(self.lane + BUFFERS + u64::from(buffer) * SEND_MAX as u64, into);
    }

    /// Hands a buffer back; `false` if it was not held.
    pub(super) fn release(&mut self, buffer: u16) -> bool {
        if usize::from(buffer) >= RECEIVES || self.held >> buffer & 1 == 0 {
            return false;
        }
        self.held &= !(1 << buffer);
        self.released ^= 1 << buffer;
        self.page.store(self.lane + RELEASED, self.released);
        true
    }

    /// Asks for the bell; `true`, and not armed, if there is news already.
    pub(super) fn arm(&mut self) -> bool {
        let news = self.arm_as(Armed::Bell);
        self.armed = true;
        news
    }

    /// Sleeps on the word until there is news, it is woken, or the time is over; whether there is news.
    pub(super) fn sleep(&mut self, timeout: Duration) -> bool {
        if self.arm_as(Armed::Word) {
            return true;
        }
        self.page.futex_wait(self.lane + ARMED, Armed::Word as u32, timeout);
        let _ = self.page.compare_exchange(self.lane + ARMED, Armed::Word as u64, 0);
        self.has_news()
    }

    fn arm_as(&mut self, armed: Armed) -> bool {
        self.page.store(self.lane + ARMED, armed as u64);
        // SeqCst: after the store of `armed`, before the load of the ring; pairs with the fence of
        // `LaneProducer::take_armed` (invariant 5).
        fence(Ordering::SeqCst);
        let news = self.has_news();
        if news {
            // The bell may have been rung in between: a byte too many, which is harmless.
            let _ = self.page.compare_exchange(self.lane + ARMED, armed as u64, 0);
        }
        news
    }

    /// Whether the bell may have rung since we armed; then its bytes are to be taken before the next sleep.
    pub(super) fn bell_rang(&mut self) -> bool {
        let rang = self.armed && self.page.load(self.lane + ARMED) != 1;
        if rang {
            self.armed = false;
        }
        rang
    }

    /// Forbids the producer to change anything from now on (one process only). Wait for [`idle`](Self::idle).
    pub(super) fn fence_off(&self) {
        self.page.store(self.lane + REVOKED, 1);
        // SeqCst: after the store of `revoked`, before the loads of `busy`; pairs with the fence of
        // `LaneProducer::enter`.
        fence(Ordering::SeqCst);
    }

    #[cfg(test)]
    pub(super) fn page(&self) -> &Mapped {
        &self.page
    }

    /// Whether no change of the producer is under way.
    pub(super) fn idle(&self) -> bool {
        self.page.load(self.lane + BUSY) == 0
    }
}

#[cfg(test)]
mod tests {
    use longarm_memory::{Backing, Region, RegionOptions};

    use super::*;

    fn lane() -> (LaneProducer, LaneConsumer, Mapped) {
        let options = RegionOptions { name: "queue".into(), bytes: PAGE, backing: Backing::Memory };
        let page = Region::create(&options).expect("memfd").memory().clone();
        (LaneProducer::new(page.clone(), 1), LaneConsumer::new(page.clone(), 1), page)
    }

    #[test]
    fn news_comes_in_order_through_many_laps() {
        let (mut out, mut inbox, _) = lane();
        let (mut sent, mut got) = (0u32, 0u32);
        for burst in 0..3000u32 {
            for _ in 0..burst % 700 {
                if out.has_room().expect("honest") {
                    out.push(LaneEvent::Write(sent, sent % 8192 * 8));
                    sent += 1;
                }
            }
            for _ in 0..burst % 613 {
                let Some(news) = inbox.take() else { break };
                assert_eq!(news, Ok(LaneEvent::Write(got, got % 8192 * 8)));
                got += 1;
            }
            inbox.taken();
        }
        assert!(sent > 100_000 && sent - got < ARRIVALS as u32, "{sent} {got}");
    }

    #[test]
    fn a_full_ring_says_so_and_keeps_a_slot_for_the_farewell() {
        let (mut out, mut inbox, _) = lane();
        let mut pushed = 0;
        while out.has_room().expect("honest") {
            out.push(LaneEvent::Write(pushed, 0));
            pushed += 1;
        }
        assert_eq!(u64::from(pushed), ARRIVALS - 1);
        out.push(LaneEvent::Closed);
        for i in 0..pushed {
            assert_eq!(inbox.take(), Some(Ok(LaneEvent::Write(i, 0))));
        }
        assert_eq!(inbox.take(), Some(Ok(LaneEvent::Closed)));
        assert_eq!(inbox.take(), None);
    }

    #[test]
    fn scribbled_words_are_errors_and_never_indexes() {
        for (imm_len_kind, what) in [
            (6u64 << 58, "unknown kind"),
            (1 << 58 | 0xf_fff8 << 32, "WRITE too long"),
            (1 << 58 | 4 << 32, "WRITE of half a word"),
            (2 << 58 | 4097 << 32, "SEND too long"),
            (2 << 58 | 16 << 52, "no such buffer"),
        ] {
            let (_, mut inbox, page) = lane();
            page.store(LANE, imm_len_kind | 1 << 63);
            assert!(matches!(inbox.take(), Some(Err(_))), "{what}");
        }
        let (mut out, _, page) = lane();
        for _ in 0..ARRIVALS - 1 {
            out.push(LaneEvent::Write(0, 0));
        }
        for consumed in [ARRIVALS, u64::MAX] {
            page.store(LANE + CONSUMED, consumed);
            assert!(out.has_room().is_err(), "{consumed:#x}");
        }
    }

    #[test]
    fn a_message_into_a_held_buffer_is_an_error() {
        let (mut out, mut inbox, _) = lane();
        out.push(LaneEvent::Send(3, 8));
        out.push(LaneEvent::Send(3, 8));
        assert_eq!(inbox.take(), Some(Ok(LaneEvent::Send(3, 8))));
        assert!(matches!(inbox.take(), Some(Err(_))));
        assert!(inbox.release(3));
        assert!(!inbox.release(3), "only once");
        assert!(!inbox.release(99));
    }

    #[test]
    fn buffers_go_round() {
        let (mut out, mut inbox, _) = lane();
        for round in 0..100u8 {
            let mut used = Vec::new();
            while let Some(buffer) = out.free_buffer() {
                out.fill(buffer, &[round; 9]);
                out.push(LaneEvent::Send(buffer, 9));
                used.push(buffer);
            }
            assert_eq!(used.len(), RECEIVES);
            for _ in 0..RECEIVES {
                let Some(Ok(LaneEvent::Send(buffer, 9))) = inbox.take() else { panic!("a message") };
                let mut bytes = [0; 9];
                inbox.copy_out(buffer, &mut bytes);
                assert_eq!(bytes, [round; 9]);
                assert!(inbox.release(buffer));
            }
            inbox.taken();
        }
    }

    #[test]
    fn the_bell_is_asked_for_once() {
        let (mut out, mut inbox, _) = lane();
        assert_eq!(out.take_armed(), None, "nobody armed");
        assert!(!inbox.arm());
        out.push(LaneEvent::Write(1, 0));
        assert_eq!(out.take_armed(), Some(Armed::Bell));
        assert_eq!(out.take_armed(), None, "once");
        assert!(inbox.bell_rang());
        assert!(inbox.arm(), "there is news");
        assert_eq!(out.take_armed(), None, "so it did not arm");
        assert!(inbox.sleep(Duration::from_secs(60)), "nor does it sleep");
        assert_eq!(out.take_armed(), None);
    }

    #[test]
    fn who_sleeps_on_the_word_is_woken_by_each_piece_of_news() {
        let (mut out, mut inbox, page) = lane();
        assert!(!inbox.sleep(Duration::from_millis(1)), "nothing came");
        assert_eq!((out.take_armed(), page.load(LANE + ARMED)), (None, 0), "nobody sleeps any more");
        const PIECES: u32 = 20_000;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for piece in 0..PIECES {
                    while !out.has_room().expect("honest") {
                        std::thread::yield_now();
                    }
                    out.push(LaneEvent::Write(piece, 0));
                    match out.take_armed() {
                        Some(Armed::Word) => out.wake(),
                        Some(Armed::Bell) => panic!("nobody listens to the bell"),
                        None => {}
                    }
                    if piece % 7 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let began = std::time::Instant::now();
            for piece in 0..PIECES {
                while !inbox.has_news() {
                    // A wake-up that is lost would take a minute.
                    inbox.sleep(Duration::from_secs(60));
                }
                assert_eq!(inbox.take(), Some(Ok(LaneEvent::Write(piece, 0))));
                inbox.taken();
            }
            assert!(began.elapsed() < Duration::from_secs(50), "a wake-up was lost");
        });
    }
}
