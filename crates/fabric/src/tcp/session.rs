//! One end of a connection as a value: bytes in, memory accesses and completions done, bytes out. No I/O, no
//! clock.
//!
//! Both ends are alike. A session executes the peer's requests on the regions lent to it, and matches the
//! peer's answers with our own requests.
//! (1) Requests are executed, and answers come, in the order of posting; `pending` holds ours that have no
//!     answer.
//! (2) Successful WRITEs and SENDs are answered in bulk: one ACK at the end of a batch if any of them was
//!     signalled, or when many silent ones are owed ([`ACK_EVERY`], [`ACK_BYTES`]). So silent requests never
//!     fill `pending` for good.
//! (3) `out` never overflows. Our own frames are bounded by windows and depth; a request of the peer is
//!     executed only if its answer fits. A peer within the READ window always finds room, so two peers that
//!     answer each other cannot wait in a circle; only a peer that exceeds it, or does not read, is left
//!     waiting.
//! (4) Once `broken` is set nothing is executed any more, and everything pending has been flushed.

use std::collections::VecDeque;

use longarm_base::limits::{QUEUE_DEPTH, READ_MAX};

use super::frame::{self, Frame, HEAD, TEXT_MAX, Why};
use super::inbox::Deliver;
use crate::buffer::Buffer;
use crate::execute::{self, Denied};
use crate::handshake::printable;
use crate::{Broken, Completion, Grant, Op, PostError, RECEIVES, Ticket, WRITE_MAX, WorkError};

/// Bytes of READs that may be outstanding at once.
pub const READ_WINDOW: usize = 1 << 20;
/// Bytes of WRITEs and SENDs that may be outstanding at once (one request may always be). With a socket
/// buffer of this size a doorbell hands everything to the kernel, even while the peer does not read.
pub const WRITE_WINDOW: usize = 256 << 10;
/// Most bytes of `out` that our own requests take: they are outstanding, so within window and depth.
const POSTS: usize = WRITE_WINDOW + QUEUE_DEPTH * 40;
/// Kept free for the answers that end a batch or the connection.
const SLACK: usize = 1024;
/// Most bytes of `out`: posts, answers to an honest peer's window, and the slack.
const OUT_MAX: usize = POSTS + READ_WINDOW + QUEUE_DEPTH * 16 + SLACK;
/// Silent requests, and their bytes, that are owed an answer at most.
const ACK_EVERY: u16 = 64;
const ACK_BYTES: usize = WRITE_WINDOW / 4;

const _: () = {
    assert!(READ_WINDOW >= READ_MAX as usize);
    assert!((ACK_EVERY as usize) < QUEUE_DEPTH);
    // What is owed and one longest WRITE more fit the window: a sender of silent requests is never stuck for
    // good.
    assert!(ACK_BYTES + WRITE_MAX <= WRITE_WINDOW);
    assert!(SLACK >= 2 * (HEAD + TEXT_MAX) + (RECEIVES + 1) * HEAD);
};

/// What kind of answer a pending request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wants {
    Data { into: u32, len: u32 },
    Word,
    Ack { len: usize },
}

#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    ticket: Ticket,
    wants: Wants,
}

/// How far [`TcpSession::feed`] came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fed {
    /// Bytes used up.
    pub used: usize,
    /// A whole frame is left because there is no room for its answer or its arrival.
    pub stuck: bool,
}

/// State of one end.
#[derive(Debug)]
pub struct TcpSession {
    /// Bytes for the peer.
    pub out: Buffer,
    grants: Vec<Grant>,
    /// Our requests without an answer, oldest first.
    pending: VecDeque<PendingRequest>,
    /// Seq of our next request.
    next: u16,
    /// Bytes of pending READs.
    reading: usize,
    /// Bytes of pending WRITEs and SENDs.
    writing: usize,
    /// Receive buffers of the peer that our SENDs use.
    sends: usize,
    /// Our receive buffers that the peer's SENDs use.
    receives: usize,
    /// Seq of the peer's next request.
    theirs: u16,
    /// Seq of the peer's first request without an answer.
    answered: u16,
    /// Bytes of the peer's WRITEs and SENDs without an answer.
    owed_bytes: usize,
    /// A request without an answer is signalled.
    prompt: bool,
    broken: Option<Broken>,
}

/// A request that an answer does not fit, or that does not fit the state.
type Foul = String;

impl TcpSession {
    /// A fresh connection on which `grants` are lent to the peer.
    pub fn new(grants: Vec<Grant>) -> TcpSession {
        TcpSession {
            out: Buffer::new(OUT_MAX),
            grants,
            pending: VecDeque::new(),
            next: 0,
            reading: 0,
            writing: 0,
            sends: 0,
            receives: 0,
            theirs: 0,
            answered: 0,
            owed_bytes: 0,
            prompt: false,
            broken: None,
        }
    }

    /// Why the connection is over, if it is.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// Queues a request. `landing` is the size of the landing buffer; `waiting` counts our completions, and
    /// `held` the bytes of READs, that were not polled yet: they use up the queue and the window as pending
    /// ones do.
    pub fn post(
        &mut self,
        op: Op<'_>,
        ticket: Ticket,
        landing: usize,
        waiting: usize,
        held: usize,
    ) -> Result<(), PostError> {
        if self.broken.is_some() {
            return Err(PostError::Broken);
        }
        if !op.is_well_formed(landing) {
            return Err(PostError::Malformed);
        }
        let (frame, wants) = request(op, self.next, ticket);
        let (reading, writing) = match wants {
            Wants::Data { len, .. } => (len as usize, 0),
            Wants::Word => (0, 0),
            Wants::Ack { len } => (0, len),
        };
        let is_send = matches!(frame, Frame::Send { .. });
        let full = self.pending.len() + waiting >= QUEUE_DEPTH
            || (self.writing > 0 && self.writing + writing > WRITE_WINDOW)
            || self.out.room() < frame.size() + SLACK
            || (reading > 0 && self.reading + held + reading > READ_WINDOW)
            || (is_send && self.sends >= RECEIVES);
        if full {
            return Err(PostError::Full);
        }
        frame.encode(self.out.append(frame.size()));
        self.next = self.next.wrapping_add(1);
        self.reading += reading;
        self.writing += writing;
        self.sends += usize::from(is_send);
        self.pending.push_back(PendingRequest { ticket, wants });
        Ok(())
    }

    /// Takes bytes of the peer: executes whole requests, settles whole answers. Answers are appended to
    /// `out`.
    pub fn feed(&mut self, bytes: &[u8], deliver: &mut impl Deliver) -> Fed {
        let mut fed = Fed { used: 0, stuck: false };
        while self.broken.is_none() {
            let rest = &bytes[fed.used..];
            match frame::parse(rest) {
                Err(error) => self.foul(error.to_string(), deliver),
                Ok(None) => {
                    // Nobody collects bytes for an answer that was not asked for.
                    if let Some((seq, len)) = frame::peek_data(rest)
                        && let Err(foul) =
                            self.expects(seq, |w| matches!(w, Wants::Data { len: l, .. } if l == len))
                    {
                        self.foul(foul, deliver);
                    }
                    break;
                }
                Ok(Some((frame, _))) if !self.fits(&frame, deliver) => {
                    fed.stuck = true;
                    break;
                }
                Ok(Some((frame, len))) => {
                    fed.used += len;
                    if let Err(foul) = self.take(frame, deliver) {
                        self.foul(foul, deliver);
                    }
                }
            }
        }
        if self.broken.is_some() {
            return Fed { used: bytes.len(), stuck: false };
        }
        let owed = self.theirs.wrapping_sub(self.answered);
        if self.prompt || owed >= ACK_EVERY || self.owed_bytes >= ACK_BYTES {
            self.push(Frame::Ack { seq: self.theirs.wrapping_sub(1) });
            self.answer();
        }
        fed
    }

    /// A receive buffer was handed back: the peer may send again.
    pub fn release(&mut self) {
        self.receives -= 1;
        if self.broken.is_none() {
            self.push(Frame::Credit { count: 1 });
        }
    }

    /// Ends the connection in good order.
    pub fn close(&mut self, deliver: &mut impl Deliver) {
        if self.broken.is_none() && self.theirs != self.answered {
            self.push(Frame::Ack { seq: self.theirs.wrapping_sub(1) });
        }
        self.leave(Why::Closed, "", Broken::Closed, deliver);
    }

    /// Fences the peer off: nothing of it is executed from here on.
    pub fn revoke(&mut self, deliver: &mut impl Deliver) {
        self.leave(Why::Revoked, "", Broken::Revoked, deliver);
        self.broken = Some(Broken::Revoked);
        deliver.fence();
    }

    /// The stream ended, or failed, without a goodbye.
    pub fn lose(&mut self, why: &str, deliver: &mut impl Deliver) {
        self.break_off(Broken::PeerLost(why.to_string()), deliver);
    }

    /// The peer broke the rules; it is told which.
    pub fn foul(&mut self, what: String, deliver: &mut impl Deliver) {
        self.leave(Why::Protocol, &what, Broken::Protocol(format!("the peer sent {what}")), deliver);
    }

    fn leave(&mut self, why: Why, text: &str, broken: Broken, deliver: &mut impl Deliver) {
        if self.broken.is_none() {
            self.push(Frame::Goodbye { why, text: cut(text) });
            self.break_off(broken, deliver);
        }
    }

    fn break_off(&mut self, broken: Broken, deliver: &mut impl Deliver) {
        if self.broken.is_some() {
            return;
        }
        self.broken = Some(broken);
        for request in self.pending.drain(..) {
            deliver.done(Completion::Done(request.ticket, Err(WorkError::Flushed)));
        }
    }

    fn push(&mut self, frame: Frame<'_>) {
        frame.encode(self.out.append(frame.size()));
    }

    /// Whether there is room for what the frame entails.
    fn fits(&self, frame: &Frame<'_>, deliver: &impl Deliver) -> bool {
        let answer = match frame {
            Frame::Read { want, .. } => HEAD + *want as usize,
            Frame::Write { imm: Some(_), .. } if deliver.is_full() => return false,
            Frame::CompareSwap { .. } | Frame::FetchAdd { .. } => 2 * HEAD,
            Frame::Write { .. } | Frame::Send { .. } => HEAD,
            _ => return true,
        };
        self.out.room() >= answer + SLACK
    }

    fn take(&mut self, frame: Frame<'_>, deliver: &mut impl Deliver) -> Result<(), Foul> {
        match frame {
            Frame::Read { seq, .. }
            | Frame::Write { seq, .. }
            | Frame::Send { seq, .. }
            | Frame::CompareSwap { seq, .. }
            | Frame::FetchAdd { seq, .. } => {
                if seq != self.theirs {
                    return Err(format!("request {seq} where {} was next", self.theirs));
                }
                self.theirs = seq.wrapping_add(1);
                if let Err(Denied(text)) = self.execute(frame, deliver)? {
                    self.push(Frame::Fail { seq, text: cut(&text) });
                    self.break_off(
                        Broken::Protocol(format!("an access of the peer was refused: {text}")),
                        deliver,
                    );
                }
                Ok(())
            }
            Frame::Data { .. } | Frame::Word { .. } | Frame::Ack { .. } | Frame::Fail { .. } => {
                self.settle(frame, deliver)
            }
            Frame::Credit { count } => {
                self.sends = self.sends.checked_sub(count.into()).ok_or("credit for what was never sent")?;
                Ok(())
            }
            Frame::Goodbye { why, text } => {
                let broken = match why {
                    Why::Closed => Broken::Closed,
                    Why::Protocol => Broken::Protocol(format!("the peer complains of {}", printable(text))),
                    Why::Revoked => Broken::PeerLost("it revoked this connection".into()),
                };
                self.break_off(broken, deliver);
                Ok(())
            }
        }
    }

    /// Executes a request in turn. Outer error: the connection's rules are broken. Inner: the access is
    /// refused.
    fn execute(&mut self, frame: Frame<'_>, deliver: &mut impl Deliver) -> Result<Result<(), Denied>, Foul> {
        let done = match frame {
            Frame::Read { seq, region, offset, want } => {
                let read = execute::may_read(&self.grants, region, offset, want as usize).map(|grant| {
                    let answer = self.out.append(HEAD + want as usize);
                    answer[..HEAD].copy_from_slice(&frame::data_head(seq, want));
                    execute::read(grant, offset, &mut answer[HEAD..]);
                });
                if read.is_ok() {
                    self.answer();
                }
                read
            }
            Frame::Write { signalled, region, offset, imm, bytes, .. } => {
                self.prompt |= signalled;
                self.owed_bytes += bytes.len();
                execute::write(&self.grants, region, offset, bytes).map(|()| {
                    if let Some(imm) = imm {
                        deliver.arrived(imm, bytes.len() as u32);
                    }
                })
            }
            Frame::Send { signalled, bytes, .. } => {
                if self.receives >= RECEIVES {
                    return Err("a SEND without credit".into());
                }
                self.prompt |= signalled;
                self.owed_bytes += bytes.len();
                self.receives += 1;
                deliver.message(bytes);
                Ok(())
            }
            Frame::CompareSwap { seq, region, offset, expected, new } => {
                let word = execute::compare_swap(&self.grants, region, offset, expected, new);
                word.map(|word| self.answer_word(seq, word))
            }
            Frame::FetchAdd { seq, region, offset, add } => {
                let word = execute::fetch_add(&self.grants, region, offset, add);
                word.map(|word| self.answer_word(seq, word))
            }
            _ => unreachable!("take() passes requests only"),
        };
        Ok(done)
    }

    fn answer_word(&mut self, seq: u16, word: u64) {
        self.push(Frame::Word { seq, word });
        self.answer();
    }

    /// Everything executed so far has its answer in `out`.
    fn answer(&mut self) {
        self.answered = self.theirs;
        self.owed_bytes = 0;
        self.prompt = false;
    }

    /// The index in `pending` that an answer with `seq` may settle.
    fn expects(&self, seq: u16, kind: impl Fn(Wants) -> bool) -> Result<usize, Foul> {
        let oldest = self.next.wrapping_sub(self.pending.len() as u16);
        let index = usize::from(seq.wrapping_sub(oldest));
        let skipped = |p: &PendingRequest| matches!(p.wants, Wants::Ack { .. });
        match self.pending.get(index) {
            Some(p) if kind(p.wants) && self.pending.iter().take(index).all(skipped) => Ok(index),
            _ => Err(format!("an answer {seq} that no request waits for")),
        }
    }

    fn settle(&mut self, frame: Frame<'_>, deliver: &mut impl Deliver) -> Result<(), Foul> {
        let index = match frame {
            Frame::Data { seq, bytes } => {
                self.expects(seq, |w| matches!(w, Wants::Data { len, .. } if len as usize == bytes.len()))
            }
            Frame::Word { seq, .. } => self.expects(seq, |w| w == Wants::Word),
            Frame::Ack { seq } => self.expects(seq, |w| matches!(w, Wants::Ack { .. })),
            Frame::Fail { seq, .. } => self.expects(seq, |_| true),
            _ => unreachable!("take() passes answers only"),
        }?;
        for earlier in self.pending.drain(..index) {
            if let Wants::Ack { len } = earlier.wants {
                self.writing -= len;
            }
            succeed(earlier.ticket, 0, deliver);
        }
        let PendingRequest { ticket, wants } = self.pending.pop_front().expect("expects() found it");
        match wants {
            Wants::Data { into, len } => {
                self.reading -= len as usize;
                if let Frame::Data { bytes, .. } = frame {
                    deliver.landed(into, bytes);
                }
            }
            Wants::Ack { len } => self.writing -= len,
            Wants::Word => {}
        }
        match frame {
            Frame::Fail { text, .. } => {
                deliver.done(Completion::Done(ticket, Err(WorkError::Access)));
                self.break_off(Broken::Protocol(format!("the peer refused: {}", printable(text))), deliver);
            }
            Frame::Word { word, .. } => succeed(ticket, word, deliver),
            _ => succeed(ticket, 0, deliver),
        }
        Ok(())
    }
}

fn succeed(ticket: Ticket, word: u64, deliver: &mut impl Deliver) {
    if ticket != Ticket::SILENT {
        deliver.done(Completion::Done(ticket, Ok(word)));
    }
}

/// At most [`TEXT_MAX`] bytes, whole characters.
fn cut(text: &str) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(TEXT_MAX)]
}

/// The frame of a request and what it waits for.
fn request(op: Op<'_>, seq: u16, ticket: Ticket) -> (Frame<'_>, Wants) {
    let signalled = ticket != Ticket::SILENT;
    match op {
        Op::Read { from, into } => {
            let frame = Frame::Read { seq, region: from.region, offset: from.offset, want: from.len };
            (frame, Wants::Data { into, len: from.len })
        }
        Op::Write { region, offset, bytes } => {
            let frame = Frame::Write { seq, signalled, region, offset, imm: None, bytes };
            (frame, Wants::Ack { len: bytes.len() })
        }
        Op::WriteImm { region, offset, bytes, imm } => {
            let frame = Frame::Write { seq, signalled, region, offset, imm: Some(imm), bytes };
            (frame, Wants::Ack { len: bytes.len() })
        }
        Op::Send { bytes } => (Frame::Send { seq, signalled, bytes }, Wants::Ack { len: bytes.len() }),
        Op::CompareSwap { region, offset, expected, new } => {
            (Frame::CompareSwap { seq, region, offset, expected, new }, Wants::Word)
        }
        Op::FetchAdd { region, offset, add } => (Frame::FetchAdd { seq, region, offset, add }, Wants::Word),
    }
}

#[cfg(test)]
mod tests;
