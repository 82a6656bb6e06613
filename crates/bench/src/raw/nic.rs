//! The limits of RDMA devices: READ, WRITE, SEND, CAS and a request with its reply between two queue pairs of
//! this process, with nothing of the store between. A GET is one READ of an index pair at best, a PUT one
//! request and one reply.

use std::time::Duration;

use longarm_fabric::verbs::{BARE_BATCH_MAX, BARE_MAX, Bare, BareOp};
use serde::{Deserialize, Serialize};

use super::RawResult;
use crate::report::Spread;

/// What to measure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NicPlan {
    /// The device that asks.
    pub near: String,
    /// The device that is asked; the same one is asked over its loopback.
    pub far: String,
    /// Bytes of the READ that finds an inline item: an index pair.
    pub pair: u32,
    /// Bytes of other READs.
    pub reads: Vec<u32>,
    /// Bytes of a request, and of its reply.
    pub request: (u32, u32),
    /// READs of a doorbell batch.
    pub batch: usize,
    /// Seconds of each measurement.
    pub seconds: f64,
    /// Repetitions of each measurement, interleaved with those of the others.
    pub runs: u32,
}

/// What was found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NicReport {
    /// What was asked for.
    pub plan: NicPlan,
    /// The measurements: medians of each run, and their spread over the runs.
    pub results: Vec<RawResult>,
}

/// Name of the READ that finds an inline item.
pub fn pair_read(plan: &NicPlan) -> String {
    read(plan.pair)
}

/// Name of the request with its reply.
pub const REQUEST: &str = "WRITE_WITH_IMM there and one back, polled by two threads";

fn read(bytes: u32) -> String {
    format!("READ {bytes} B")
}

impl NicPlan {
    /// Refuses what cannot be measured.
    pub fn check(&self) -> Result<(), String> {
        let sizes = self.reads.iter().chain([&self.pair, &self.request.0, &self.request.1]);
        if let Some(size) = sizes.into_iter().find(|&&size| !(8..=BARE_MAX).contains(&size)) {
            return Err(format!("requests of {size} bytes: give 8 to {BARE_MAX}"));
        }
        if !(1..=BARE_BATCH_MAX).contains(&self.batch) || !(1..=1000).contains(&self.runs) {
            return Err(format!("a batch has 1 to {BARE_BATCH_MAX} READs, and there are 1 to 1000 runs"));
        }
        if !(1e-4..=600.0).contains(&self.seconds) {
            return Err(format!("{} seconds a measurement: give 0.0001 to 600", self.seconds));
        }
        Ok(())
    }

    /// The operations: name, bytes moved, how many at once.
    fn operations(&self) -> Vec<(String, BareOp, Option<u64>, f64)> {
        let mut all = Vec::new();
        for &bytes in [self.pair].iter().chain(&self.reads) {
            all.push((read(bytes), BareOp::Read(bytes), Some(bytes.into()), 1.0));
        }
        let batch = format!("READ {} B, {} by one doorbell", self.pair, self.batch);
        all.push((
            batch,
            BareOp::ReadBatch(self.pair, self.batch),
            Some(self.pair.into()),
            self.batch as f64,
        ));
        let twice = format!("READ {} B, then READ 1024 B", self.pair);
        all.push((twice, BareOp::ReadTwice(self.pair, 1024), None, 1.0));
        for bytes in [64, 1024] {
            all.push((format!("WRITE {bytes} B"), BareOp::Write(bytes), Some(bytes.into()), 1.0));
        }
        all.push(("SEND 64 B".into(), BareOp::Send(64), Some(64), 1.0));
        all.push(("CAS".into(), BareOp::CompareSwap, None, 1.0));
        all.push((REQUEST.into(), BareOp::RequestReply(self.request.0, self.request.1), None, 1.0));
        all
    }
}

/// Measures.
pub fn measure(plan: &NicPlan) -> Result<NicReport, String> {
    plan.check()?;
    let mut bare = Bare::open(&plan.near, &plan.far)?;
    let operations = plan.operations();
    let mut medians = vec![Vec::new(); operations.len()];
    for _ in 0..plan.runs {
        for ((name, op, _, at_once), medians) in operations.iter().zip(&mut medians) {
            let times = bare.times(*op, Duration::from_secs_f64(plan.seconds));
            let mut times = times.map_err(|why| format!("{name}: {why}"))?;
            times.sort_unstable();
            medians.push(times[times.len() / 2] as f64 / at_once);
        }
    }
    let result = |((name, _, bytes, _), medians): ((String, _, _, _), Vec<f64>)| {
        let nanos = Spread::of(medians);
        RawResult { name, nanos, rate: 1e9 / nanos.median, bytes }
    };
    Ok(NicReport { plan: plan.clone(), results: operations.into_iter().zip(medians).map(result).collect() })
}

impl NicReport {
    /// The median of the measurement called `name`, in nanoseconds.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.results.iter().find(|result| result.name == name).map(|result| result.nanos.median)
    }
}
