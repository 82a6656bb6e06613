//! Remembers the last requests and completions, to be shown when something went wrong.

use std::collections::VecDeque;
use std::fmt::Write;

use super::pass_through;
use crate::{Completion, Completions, Op, PostError, QueuePair, Ticket};

/// The last events of a queue pair, oldest first.
#[derive(Debug)]
pub struct Trace {
    events: VecDeque<(u64, TraceEvent)>,
    limit: usize,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
enum TraceEvent {
    Post(RequestShape, Ticket, Result<(), PostError>),
    Ring,
    Done(Completion),
}

/// A request without its bytes: name, region, offset, length.
#[derive(Clone, Copy, Debug)]
struct RequestShape(&'static str, u32, u64, usize);

impl Trace {
    fn push(&mut self, event: TraceEvent) {
        if self.events.len() == self.limit {
            self.events.pop_front();
        }
        self.events.push_back((self.count, event));
        self.count += 1;
    }

    /// The events as text, one a line, each with its number since the start.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        for (number, event) in &self.events {
            let result = match event {
                TraceEvent::Post(RequestShape(name, region, offset, len), ticket, result) => {
                    let ticket = match *ticket {
                        Ticket::SILENT => "silent".to_string(),
                        Ticket(ticket) => ticket.to_string(),
                    };
                    let refused = result.err().map_or(String::new(), |e| format!(" refused: {e}"));
                    writeln!(text, "{number} post {name} {region}:{offset:#x}+{len} ticket {ticket}{refused}")
                }
                TraceEvent::Ring => writeln!(text, "{number} ring"),
                TraceEvent::Done(Completion::Done(ticket, Ok(word))) => {
                    writeln!(text, "{number} done ticket {} result {word:#x}", ticket.0)
                }
                TraceEvent::Done(Completion::Done(ticket, Err(error))) => {
                    writeln!(text, "{number} done ticket {} failed: {error}", ticket.0)
                }
                TraceEvent::Done(Completion::Arrived { imm, len }) => {
                    writeln!(text, "{number} arrived imm {imm:#x} len {len}")
                }
                TraceEvent::Done(Completion::Message { buffer, len }) => {
                    writeln!(text, "{number} message buffer {buffer} len {len}")
                }
            };
            result.expect("a string takes any text");
        }
        text
    }
}

/// A queue pair that remembers.
#[derive(Debug)]
pub struct Traced<Q> {
    inner: Q,
    trace: Trace,
}

impl<Q: QueuePair> Traced<Q> {
    /// Remembers the last `limit` events of `inner`.
    pub fn new(inner: Q, limit: usize) -> Traced<Q> {
        let limit = limit.max(1);
        Traced { inner, trace: Trace { events: VecDeque::with_capacity(limit), limit, count: 0 } }
    }

    /// What happened.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

fn shape(op: &Op<'_>) -> RequestShape {
    match *op {
        Op::Read { from, .. } => RequestShape("READ", from.region.0, from.offset, from.len as usize),
        Op::Write { region, offset, bytes } => RequestShape("WRITE", region.0, offset, bytes.len()),
        Op::WriteImm { region, offset, bytes, .. } => {
            RequestShape("WRITE_WITH_IMM", region.0, offset, bytes.len())
        }
        Op::Send { bytes } => RequestShape("SEND", 0, 0, bytes.len()),
        Op::CompareSwap { region, offset, .. } => RequestShape("CAS", region.0, offset, 8),
        Op::FetchAdd { region, offset, .. } => RequestShape("FAA", region.0, offset, 8),
    }
}

impl<Q: QueuePair> QueuePair for Traced<Q> {
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        let result = self.inner.post(op, ticket);
        self.trace.push(TraceEvent::Post(shape(&op), ticket, result));
        result
    }

    fn ring(&mut self) {
        self.trace.push(TraceEvent::Ring);
        self.inner.ring()
    }

    fn poll(&mut self, done: &mut Completions) -> usize {
        let before = done.as_slice().len();
        let count = self.inner.poll(done);
        done.as_slice()[before..]
            .iter()
            .for_each(|completion| self.trace.push(TraceEvent::Done(*completion)));
        count
    }

    pass_through!(landing message release arm wait state granted revoke fence);

    fn describe(&self) -> String {
        format!("traced {}", self.inner.describe())
    }
}
