//! `longarm bench raw` over RDMA, and `--with-raw` beside a workload: what the devices could reach at best
//! with requests of the same sizes.

use std::net::{IpAddr, Ipv4Addr};

use longarm_base::UnixMillis;
use longarm_bench::Plan;
use longarm_bench::raw::nic::{Nic, NicPlan, NicReport};
use longarm_fabric::Address;
use longarm_fabric::verbs::{BARE_MAX, way};
use longarm_index::hash::Record;
use longarm_index::hash::layout::PairShape;
use longarm_store::object::layout::{SESSION, entry_len};
use longarm_wire::{Request, RequestKind};

use super::args::{Args, Transport};
use crate::config::{Config, Slot};
use crate::output::{Exit, Failure};

/// No address in particular.
const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Whether the settings ask for RDMA.
pub fn wanted(args: &Args, config: &Config) -> bool {
    args.peer_device.is_some()
        || config.verbs.device.is_some()
        || matches!(config.connect_address(), Address::Verbs(_))
        || args.transports.contains(&Transport::Verbs)
}

/// Finds the address of this machine on the device that answers.
pub fn address(args: &Args, config: &Config) -> Result<IpAddr, Failure> {
    let said = |e: &dyn std::fmt::Display| failure(e.to_string());
    let choice = match (&args.peer_device, &config.verbs.device) {
        (Some(peer), _) => Some(peer.parse().map_err(|e| said(&e))?),
        (None, device) => device.clone(),
    };
    let gid = way(choice.as_ref(), ANY).map_err(|e| said(&e))?.gid;
    Ok(gid.ip())
}

/// Measures the limits of the devices that the settings name, without a workload.
pub fn measure(args: &Args, config: &Config) -> Result<NicReport, Failure> {
    longarm_bench::raw::nic::measure(&plan(args, config, None)?).map_err(failure)
}

/// Opens the devices, to be measured between the runs of a workload.
pub fn open(args: &Args, config: &Config, workload: &Plan) -> Result<Nic, Failure> {
    Nic::open(plan(args, config, Some(workload))?).map_err(failure)
}

pub fn failure(why: String) -> Failure {
    Failure::new(Exit::System, why).hint("`longarm doctor` says more of the devices of this machine")
}

fn plan(args: &Args, config: &Config, workload: Option<&Plan>) -> Result<NicPlan, Failure> {
    let near = match &config.verbs.device {
        Some(device) => device.to_string(),
        None => way(None, ANY).map_err(|why| failure(why.to_string()))?.device,
    };
    let Sizes { inline, pair, entry, request } = workload.map_or(USUAL, |plan| sizes(plan, config.slot));
    Ok(NicPlan {
        far: args.peer_device.clone().unwrap_or_else(|| near.clone()),
        near,
        inline,
        pair,
        entry,
        reads: vec![1024, 4096],
        request,
        batch: 32,
        seconds: args.seconds / 10.0,
        runs: args.runs,
    })
}

/// How much the operations of a workload move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Whether the items stand in the index.
    pub inline: bool,
    /// Bytes of the READ of an index pair, which is all of a GET whose item is inline.
    pub pair: u32,
    /// Bytes of an entry.
    pub entry: u32,
    /// Bytes of a PUT's request and of its reply, as they stand in the rings.
    pub request: (u32, u32),
}

/// The sizes without a workload: those of small items.
const USUAL: Sizes =
    Sizes { inline: true, pair: PairShape::INLINE.window_bytes(), entry: 256, request: (128, 64) };
/// Header of a message in a ring, and what a message is padded to.
const FRAME: usize = 16;

/// Computes the sizes for the plan's keys and values in a table of such slots. No size is greater than
/// `BARE_MAX`, up to which bare devices are measured.
pub fn sizes(workload: &Plan, slot: Slot) -> Sizes {
    let shape = match slot {
        Slot::Inline64 => PairShape::INLINE,
        Slot::Pointer16 => PairShape::POINTER,
    };
    let (key, value) = (workload.key.key(0).bytes().len(), workload.value_bytes);
    let bounded = |bytes: usize| bytes.min(BARE_MAX as usize) as u32;
    let frame = |bytes: usize| bounded((FRAME + bytes).next_multiple_of(FRAME));
    let request = Request::new(RequestKind::Put, 0).header().len() + key + value;
    Sizes {
        inline: Record::fits_inline(shape.kind, key, value, UnixMillis::NEVER),
        pair: shape.window_bytes(),
        entry: bounded(entry_len(SESSION, key, value)),
        request: (frame(request), USUAL.request.1),
    }
}
