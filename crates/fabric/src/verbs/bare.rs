//! Bare devices: two queue pairs of this process, connected to each other, with nothing of the contract
//! between them and their user. What they reach is the limit of everything built on them (bench raw), and
//! that they work at all is what doctor wants to know.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use longarm_ibverbs as ib;

use super::adapter::{self, Adapter, Chosen, DeviceChoice};
use super::settings::RETRIES_MAX;

/// Bytes of each end's memory: the first half lands what is fetched, the second is what the other end
/// reaches.
const BYTES: usize = 128 << 10;
const LENT: usize = BYTES / 2;
/// Longest request.
pub const BARE_MAX: u32 = 32 << 10;
/// Most READs of a doorbell batch.
pub const BARE_BATCH_MAX: usize = 64;
/// Receives of each end.
const RECEIVES: u64 = 64;
/// Bound on one operation.
const TIME: Duration = Duration::from_secs(2);
/// So long a poll does not yield: most devices answer sooner, and one whose work the kernel does needs the
/// core.
const SPIN: Duration = Duration::from_micros(20);
/// As the transport's defaults.
const RELIABILITY: ib::Reliability =
    ib::Reliability { timeout: 14, retries: RETRIES_MAX, receive_retries: 7, receive_timer: 1 };
/// Marks the ids of receives.
const RECEIVE: u64 = 1 << 63;

/// An operation of bare devices, sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BareOp {
    /// READ.
    Read(u32),
    /// READ, and when it is over another.
    ReadTwice(u32, u32),
    /// So many READs by one doorbell.
    ReadBatch(u32, usize),
    /// WRITE.
    Write(u32),
    /// SEND.
    Send(u32),
    /// CAS of a word.
    CompareSwap,
    /// WRITE_WITH_IMM there, and when it arrived another back: what a request to a server must cost.
    RequestReply(u32, u32),
}

/// Two connected ends.
pub struct Bare {
    near: BareEnd,
    far: BareEnd,
}

/// One end. Fields drop in this order: the queue pair before the memory that the other end may still reach.
struct BareEnd {
    qp: ib::QueuePair,
    queue: Arc<ib::CompletionQueue>,
    memory: ib::Buffer,
    batch: ib::Batch,
    /// What the other end lends.
    theirs: ib::Remote,
    adapter: Adapter,
}

/// Says which step an error is of.
fn step<E: std::fmt::Display>(name: &str) -> impl Fn(E) -> String {
    move |error| format!("{name}: {error}")
}

impl Bare {
    /// Connects an end on device `near` with one on device `far`, which may be the same (`mlx5_0`;
    /// `mlx5_0:1:3` names port and GID too). An error says which step failed, and why.
    pub fn open(near: &str, far: &str) -> Result<Bare, String> {
        let (mut near, mut far) = (BareEnd::new(near)?, BareEnd::new(far)?);
        near.connect(&far)?;
        far.connect(&near)?;
        Ok(Bare { near, far })
    }

    /// Port and address of the near end.
    pub fn near(&self) -> (u8, ib::Gid) {
        (self.near.adapter.choice.port.number, self.near.adapter.choice.gid)
    }

    /// Stores bytes where the near end's READs find them.
    pub fn lend(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= BARE_MAX as usize, "{} bytes to lend", bytes.len());
        // SAFETY: nothing is under way between two calls, and no reference to the bytes is alive.
        unsafe { self.far.memory.fill(LENT, bytes) }
    }

    /// What the last READ fetched.
    pub fn fetched(&self, len: usize) -> &[u8] {
        // SAFETY: nothing is under way between two calls.
        unsafe { self.near.memory.bytes(0, len) }
    }

    /// Does it once; returns its nanoseconds, from before the doorbell to after the completion. A request is
    /// served by this thread.
    pub fn time(&mut self, op: BareOp) -> Result<u64, String> {
        let start = Instant::now();
        match op {
            BareOp::RequestReply(there, back) => {
                self.near.write_imm(there)?;
                self.far.arrival(start)?;
                self.far.write_imm(back)?;
                self.near.arrival(start)?;
            }
            BareOp::ReadTwice(first, second) => {
                self.near.one_sided(BareOp::Read(first), start)?;
                self.near.one_sided(BareOp::Read(second), start)?;
            }
            other => self.near.one_sided(other, start)?,
        }
        let time = nanos(start);
        if let BareOp::Send(_) = op {
            // It arrived before it was acknowledged; its receive is posted again.
            self.far.arrival(start)?;
        }
        Ok(time)
    }

    /// Does it again and again for `time`; returns the nanoseconds of each. Requests are served by a thread
    /// of their own, as a server would.
    pub fn times(&mut self, op: BareOp, time: Duration) -> Result<Vec<u64>, String> {
        let until = Instant::now() + time;
        let mut times = Vec::new();
        let BareOp::RequestReply(there, back) = op else {
            while times.is_empty() || Instant::now() < until {
                times.push(self.time(op)?);
            }
            return Ok(times);
        };
        let Bare { near, far } = self;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| far.serve(back, &over));
            let mut ask = || {
                while times.is_empty() || Instant::now() < until {
                    let start = Instant::now();
                    near.write_imm(there)?;
                    near.arrival(start)?;
                    times.push(nanos(start));
                }
                Ok::<_, String>(())
            };
            let asked = ask();
            // Relaxed: only ends the loop of the other thread.
            over.store(true, Ordering::Relaxed);
            asked.and(server.join().map_err(|_| "the serving thread panicked".to_string())?)
        })?;
        Ok(times)
    }
}

fn nanos(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl BareEnd {
    fn new(device: &str) -> Result<BareEnd, String> {
        let wanted: DeviceChoice = device.parse()?;
        // With the device given, the address only prefers one of its GIDs: none here.
        let chosen = adapter::choose(Some(&wanted), Ipv4Addr::UNSPECIFIED.into());
        let adapter = chosen.and_then(Adapter::open).map_err(step("open the device"))?;
        let (context, domain) = (&adapter.device.context, &adapter.domain);
        let entries = RECEIVES as u32 + 2 * BARE_BATCH_MAX as u32;
        let queue =
            ib::CompletionQueue::new(context, entries, None).map_err(step("make a completion queue"))?;
        let capacity =
            ib::Capacity { send: 2 * BARE_BATCH_MAX as u32, receive: RECEIVES as u32, inline: 188 };
        let qp = ib::QueuePair::new(domain, ib::Kind::Rc, &queue, &queue, capacity)
            .map_err(step("make a queue pair"))?;
        let most = ib::Access::REMOTE_READ.and(ib::Access::REMOTE_WRITE).and(ib::Access::REMOTE_ATOMIC);
        qp.initialise(adapter.choice.port.number, most, 0).map_err(step("bind a queue pair"))?;
        let memory = ib::Buffer::new(domain, BYTES, most).map_err(step("register memory"))?;
        let batch = ib::Batch::new(BARE_BATCH_MAX);
        let theirs = ib::Remote { address: 0, key: 0 };
        let end = BareEnd { qp, queue, memory, batch, theirs, adapter };
        (0..RECEIVES).try_for_each(|id| end.receive(id))?;
        Ok(end)
    }

    fn connect(&mut self, other: &BareEnd) -> Result<(), String> {
        let (ours, theirs) = (&self.adapter, &other.adapter);
        let Chosen { port, gid, .. } = &ours.choice;
        let served = |adapter: &Adapter| adapter.device.attributes.reads_served.clamp(1, 16);
        let path = ib::Path {
            port: port.number,
            gid_index: gid.index,
            gid: theirs.choice.gid.bytes,
            lid: theirs.choice.port.lid,
            global: port.ethernet,
            mtu: port.mtu.min(theirs.choice.port.mtu),
            number: other.qp.number(),
            receive_psn: other.qp.number(),
            send_psn: self.qp.number(),
            reads_served: served(ours),
            reads_posted: ours.device.attributes.reads_posted.clamp(1, 16).min(served(theirs)),
        };
        self.qp.ready_to_receive(&path, &RELIABILITY).map_err(step("find the way to the other end"))?;
        self.qp.ready_to_send(&path, &RELIABILITY).map_err(step("make a queue pair ready"))?;
        let (address, key) = (other.memory.address(LENT), other.memory.region().remote_key());
        self.theirs = ib::Remote { address, key };
        Ok(())
    }

    fn receive(&self, id: u64) -> Result<(), String> {
        let into = ib::Local {
            address: self.memory.address(LENT),
            bytes: BARE_MAX,
            key: self.memory.region().local_key(),
        };
        // SAFETY: the memory outlives the queue pair (the order of the fields); what a SEND stores there is
        // never looked at.
        unsafe { self.qp.post_receive(&ib::Receive { id: RECEIVE | id, into: Some(into) }) }
            .map_err(step("post a receive"))
    }

    fn local(&self, bytes: u32) -> ib::Local {
        ib::Local { address: self.memory.address(0), bytes, key: self.memory.region().local_key() }
    }

    fn push(&mut self, request: ib::Request<'_>, bytes: u32, signalled: bool) {
        let is_store = matches!(request, ib::Request::Write(..) | ib::Request::Send(..));
        let inline = is_store && bytes <= self.qp.inline_max();
        self.batch.push(0, request, ib::Flags { signalled, inline, fence: false });
    }

    fn ring(&mut self) -> Result<(), String> {
        // SAFETY: both ends' memory outlives their queue pairs (the order of the fields), and references to
        // landing bytes are made only between two operations.
        unsafe { self.batch.post(&self.qp) }.map_err(step("post"))
    }

    /// One request, or a batch of them, and its completion.
    fn one_sided(&mut self, op: BareOp, start: Instant) -> Result<(), String> {
        let theirs = self.theirs;
        match op {
            BareOp::Read(bytes) => self.push(ib::Request::Read(self.local(bytes), theirs), bytes, true),
            BareOp::ReadBatch(bytes, count) => {
                for i in 1..=count {
                    self.push(ib::Request::Read(self.local(bytes), theirs), bytes, i == count);
                }
            }
            BareOp::Write(bytes) => {
                self.push(ib::Request::Write(self.local(bytes), theirs, None), bytes, true)
            }
            BareOp::Send(bytes) => self.push(ib::Request::Send(self.local(bytes), None), bytes, true),
            BareOp::CompareSwap => self.push(ib::Request::CompareSwap(self.local(8), theirs, 0, 0), 8, true),
            BareOp::ReadTwice(..) | BareOp::RequestReply(..) => unreachable!("made of others"),
        }
        self.ring()?;
        let done = self.completion(start, None)?.ok_or("a completion without end")?;
        match done.status() {
            ib::Status::Success => Ok(()),
            _ => Err(format!("{op:?}: {}", done.text())),
        }
    }

    /// A WRITE_WITH_IMM; its completion is passed over by whoever waits for an arrival.
    fn write_imm(&mut self, bytes: u32) -> Result<(), String> {
        self.push(ib::Request::Write(self.local(bytes), self.theirs, Some(1)), bytes, true);
        self.ring()
    }

    /// Waits for an arrival, and posts its receive again. Completions of our own are passed over.
    fn arrival(&self, start: Instant) -> Result<(), String> {
        self.arrival_unless(start, None).map(|_| ())
    }

    /// As [`arrival`](Self::arrival); `false` if it is over instead.
    fn arrival_unless(&self, start: Instant, over: Option<&AtomicBool>) -> Result<bool, String> {
        while let Some(done) = self.completion(start, over)? {
            if done.status() != ib::Status::Success {
                return Err(format!("a message: {}", done.text()));
            }
            if done.id() & RECEIVE != 0 {
                self.receive(done.id() & !RECEIVE)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Answers until it is over.
    fn serve(&mut self, back: u32, over: &AtomicBool) -> Result<(), String> {
        while self.arrival_unless(Instant::now(), Some(over))? {
            self.write_imm(back)?;
        }
        Ok(())
    }

    /// The next completion; `None` if it is over.
    fn completion(
        &self,
        start: Instant,
        over: Option<&AtomicBool>,
    ) -> Result<Option<ib::WorkCompletion>, String> {
        let mut one = [ib::WorkCompletion::default()];
        loop {
            if self.queue.poll(&mut one).map_err(step("poll"))? > 0 {
                return Ok(Some(one[0]));
            }
            // Relaxed: pairs with the store that ends the loop.
            if over.is_some_and(|over| over.load(Ordering::Relaxed)) {
                return Ok(None);
            }
            let spent = start.elapsed();
            if spent >= TIME && over.is_none() {
                return Err(format!("not over within {} s", TIME.as_secs()));
            }
            if spent > SPIN {
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_the_step() {
        let error = Bare::open("nothing7", "nothing7").map(|_| ()).expect_err("nobody has this");
        assert!(error.starts_with("open the device: "), "{error}");
        let error = Bare::open("a:0", "a").map(|_| ()).expect_err("ports begin with 1");
        assert!(error.contains("NAME:PORT"), "{error}");
    }
}
