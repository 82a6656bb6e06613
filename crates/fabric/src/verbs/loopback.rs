//! One device on its own: READs from it to itself. It shows that library, driver, port and GID work before
//! there is a peer (doctor).

use std::net::IpAddr;

use longarm_ibverbs as ib;

use super::adapter::{self, Chosen, DeviceChoice};
use super::bare::{Bare, BareOp};
use crate::SetupError;

/// Bytes of a READ: a line of an index.
const BYTES: usize = 64;
/// READs, of which the median counts.
const READS: usize = 64;

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
    let mut bare = Bare::open(device, device)?;
    let mut times = [0; READS];
    for (i, time) in times.iter_mut().enumerate() {
        // Bytes that no other READ brings.
        let bytes: [u8; BYTES] = std::array::from_fn(|at| (at ^ (i * 37 + 1)) as u8);
        bare.lend(&bytes);
        *time = bare
            .time(BareOp::Read(BYTES as u32))
            .map_err(|why| format!("READ {} of {READS}: {why}", i + 1))?;
        if bare.fetched(BYTES) != bytes {
            return Err(format!("READ {} of {READS}: success, but with other bytes than were there", i + 1));
        }
    }
    times.sort_unstable();
    let (port, gid) = bare.near();
    Ok(LoopbackReport { port, gid, bytes: BYTES, nanos: times[READS / 2] })
}
