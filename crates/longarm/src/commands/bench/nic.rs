//! `longarm bench raw` over RDMA: what the devices could reach at best.

use longarm_bench::raw::nic::{NicPlan, NicReport};
use longarm_fabric::Address;
use longarm_fabric::verbs::way;
use longarm_index::hash::layout::Shape;

use super::Args;
use crate::config::Config;
use crate::output::{Exit, Failure};

/// Bytes of the READ that finds an inline item.
const PAIR: u32 = Shape::INLINE.segment_bytes();

/// Whether the settings are those of RDMA.
pub fn wanted(args: &Args, config: &Config) -> bool {
    args.peer_device.is_some()
        || config.verbs.device.is_some()
        || matches!(config.connect_address(), Address::Verbs(_))
}

/// The limits of the devices of the settings.
pub fn measure(args: &Args, config: &Config) -> Result<NicReport, Failure> {
    let near = match &config.verbs.device {
        Some(device) => device.to_string(),
        None => {
            let any = std::net::Ipv4Addr::UNSPECIFIED.into();
            way(None, any).map_err(|why| Failure::new(Exit::System, why.to_string()))?.device
        }
    };
    let plan = NicPlan {
        far: args.peer_device.clone().unwrap_or_else(|| near.clone()),
        near,
        pair: PAIR,
        reads: vec![64, 1024, 4096],
        request: (128, 64),
        batch: 32,
        seconds: args.seconds / 10.0,
        runs: args.runs,
    };
    longarm_bench::raw::nic::measure(&plan).map_err(|why| {
        Failure::new(Exit::System, why).hint("`longarm doctor` says more of the devices of this machine")
    })
}
