//! One device on its own: two queue pairs of this process, connected to each other, and READs from one to
//! the other. It shows that library, driver, port and GID work before there is a peer (doctor).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_ibverbs as ib;

use super::RETRIES_MAX;
use super::adapter::{self, Adapter, Chosen, DeviceChoice};
use crate::SetupError;

/// Bytes of a READ: a line of an index.
const BYTES: usize = 64;
/// READs, of which the median counts.
const READS: usize = 64;
/// Time for all of them.
const TIME: Duration = Duration::from_secs(2);
/// So long a poll does not yield: most devices answer sooner.
const SPIN: Duration = Duration::from_micros(20);
/// As the transport's defaults.
const RELIABILITY: ib::Reliability =
    ib::Reliability { timeout: 14, retries: RETRIES_MAX, receive_retries: 7, receive_timer: 1 };

/// The way into the network that the transport takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The device's name.
    pub device: String,
    /// Its port.
    pub port: ib::Port,
    /// The address there.
    pub gid: ib::Gid,
}

/// What the transport takes for a connection from, or a listener at, our address `local`.
pub fn way(wanted: Option<&DeviceChoice>, local: IpAddr) -> Result<Way, SetupError> {
    let Chosen { device, port, gid } = adapter::choose(wanted, local)?;
    Ok(Way { device, port, gid })
}

/// READs that brought the right bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackReport {
    /// The port taken.
    pub port: u8,
    /// The address taken.
    pub gid: ib::Gid,
    /// Bytes of each READ.
    pub bytes: usize,
    /// Nanoseconds that a READ takes, doorbell to completion: the median.
    pub nanos: u64,
}

/// Tries READs on `device` (`mlx5_0`; `mlx5_0:1:3` names port and GID too). An error says which step failed,
/// and why.
pub fn loopback(device: &str) -> Result<LoopbackReport, String> {
    let wanted: DeviceChoice = device.parse()?;
    // With the device given, the address only prefers one of its GIDs: none here.
    let chosen = adapter::choose(Some(&wanted), Ipv4Addr::UNSPECIFIED.into());
    let adapter = chosen.and_then(Adapter::open).map_err(step("open the device"))?;
    let mut pair = Pair::new(&adapter)?;
    pair.connect(&adapter)?;
    let until = Instant::now() + TIME;
    let mut times = [0; READS];
    for (i, time) in times.iter_mut().enumerate() {
        *time = pair.read(i, until)?;
    }
    times.sort_unstable();
    let Chosen { port, gid, .. } = adapter.choice;
    Ok(LoopbackReport { port: port.number, gid, bytes: BYTES, nanos: times[READS / 2] })
}

/// Says which step an error is of.
fn step<E: std::fmt::Display>(name: &str) -> impl Fn(E) -> String {
    move |error| format!("{name}: {error}")
}

/// Two queue pairs, of which the first READs what the second lends. Fields drop in this order: the queue
/// pairs before the memory that a READ under way may still reach.
struct Pair {
    reader: ib::QueuePair,
    lender: ib::QueuePair,
    queue: Arc<ib::CompletionQueue>,
    landing: ib::Buffer,
    lent: ib::Buffer,
    batch: ib::Batch,
}

impl Pair {
    fn new(adapter: &Adapter) -> Result<Pair, String> {
        let (context, domain) = (&adapter.device.context, &adapter.domain);
        let queue = ib::CompletionQueue::new(context, 16, None).map_err(step("make a completion queue"))?;
        let capacity = ib::Capacity { send: 4, receive: 1, inline: 0 };
        let qp = |access| {
            let qp = ib::QueuePair::new(domain, ib::Kind::Rc, &queue, &queue, None, capacity)
                .map_err(step("make a queue pair"))?;
            qp.initialise(adapter.choice.port.number, access, 0).map_err(step("bind a queue pair"))?;
            Ok::<_, String>(qp)
        };
        let memory = |access| ib::Buffer::new(domain, BYTES, access).map_err(step("register memory"));
        Ok(Pair {
            reader: qp(ib::Access::LOCAL_READ)?,
            lender: qp(ib::Access::REMOTE_READ)?,
            landing: memory(ib::Access::LOCAL_WRITE)?,
            lent: memory(ib::Access::REMOTE_READ)?,
            batch: ib::Batch::new(1),
            queue,
        })
    }

    fn connect(&self, adapter: &Adapter) -> Result<(), String> {
        let Chosen { port, gid, .. } = &adapter.choice;
        for (own, other) in [(&self.reader, &self.lender), (&self.lender, &self.reader)] {
            let path = ib::Path {
                port: port.number,
                gid_index: gid.index,
                gid: gid.bytes,
                lid: port.lid,
                global: port.ethernet,
                mtu: port.mtu,
                number: other.number(),
                receive_psn: other.number(),
                send_psn: own.number(),
                reads_served: 1,
                reads_posted: 1,
            };
            own.ready_to_receive(&path, &RELIABILITY).map_err(step("find the way to itself"))?;
            own.ready_to_send(&path, &RELIABILITY).map_err(step("make a queue pair ready"))?;
        }
        Ok(())
    }

    /// READ number `i`, of bytes that no other has; returns its nanoseconds.
    fn read(&mut self, i: usize, until: Instant) -> Result<u64, String> {
        let bytes: [u8; BYTES] = std::array::from_fn(|at| (at ^ (i * 37 + 1)) as u8);
        // SAFETY: no READ is under way, and no reference to the bytes is alive.
        unsafe { self.lent.fill(0, &bytes) };
        let into = ib::Local {
            address: self.landing.address(0),
            bytes: BYTES as u32,
            key: self.landing.region().local_key(),
        };
        let from = ib::Remote { address: self.lent.address(0), key: self.lent.region().remote_key() };
        let flags = ib::Flags { signalled: true, ..ib::Flags::default() };
        self.batch.push(i as u64, ib::Request::Read(into, from), flags);
        let start = Instant::now();
        // SAFETY: both buffers outlive the queue pairs (the order of the fields), and references to the
        // landing bytes are made only when the READ is over.
        unsafe { self.batch.post(&self.reader) }.map_err(step("post a READ"))?;
        let done = self.completion(start, until)?;
        let time = start.elapsed();
        if done.status() != ib::Status::Success {
            return Err(format!("READ {} of {READS}: {}", i + 1, done.text()));
        }
        // SAFETY: the READ is over, and nobody else stores there.
        if unsafe { self.landing.bytes(0, BYTES) } != bytes {
            return Err(format!("READ {} of {READS}: success, but with other bytes than were there", i + 1));
        }
        Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    fn completion(&self, start: Instant, until: Instant) -> Result<ib::WorkCompletion, String> {
        let mut one = [ib::WorkCompletion::default()];
        loop {
            if self.queue.poll(&mut one).map_err(step("poll for the READ"))? > 0 {
                return Ok(one[0]);
            }
            let now = Instant::now();
            if now >= until {
                return Err(format!("READ: not over within {} s", TIME.as_secs()));
            }
            // Where the kernel does the device's work, it needs the core.
            if now - start > SPIN {
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
        let error = loopback("nothing7").expect_err("nobody has this");
        assert!(error.starts_with("open the device: "), "{error}");
        let error = loopback("a:0").expect_err("ports begin with 1");
        assert!(error.contains("NAME:PORT"), "{error}");
    }
}
