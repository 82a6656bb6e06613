//! The limits of RDMA devices: READ, WRITE, SEND, CAS and a request with its reply between two queue pairs of
//! this process, with nothing of the store between. A GET is one READ of an index pair at best, a PUT one
//! request and one reply.

use std::time::Duration;

use longarm_fabric::verbs::{BARE_BATCH_MAX, BARE_MAX, Bare, BareOp};
use serde::{Deserialize, Serialize};

use super::RawResult;
use crate::spread::Spread;

/// What to measure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NicPlan {
    /// The device that asks.
    pub near: String,
    /// The device that is asked; the same one is asked over its loopback.
    pub far: String,
    /// Whether a GET of the workload finds its item in the index; if not, it READs an entry too.
    pub inline: bool,
    /// Bytes of the READ of an index pair.
    pub pair: u32,
    /// Bytes of the READ of an entry, where the items are not inline.
    pub entry: u32,
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
    /// What was asked for; `runs` are those that were made.
    pub plan: NicPlan,
    /// The measurements: medians of each run, and their spread over the runs.
    pub results: Vec<RawResult>,
}

/// Name of the request with its reply.
pub const REQUEST: &str = "WRITE_WITH_IMM there and one back, polled by two threads";
/// Bytes of the READ of one slot of the index, whose place the client remembers.
const SLOT: u32 = 64;

fn read(bytes: u32) -> String {
    format!("READ {bytes} B")
}

/// An operation and its medians so far, in nanoseconds.
#[derive(Clone, Debug)]
struct Measured {
    name: String,
    op: BareOp,
    bytes: Option<u64>,
    at_once: f64,
    medians: Vec<f64>,
}

impl NicPlan {
    /// Refuses what cannot be measured.
    pub fn check(&self) -> Result<(), String> {
        let sizes = self.reads.iter().chain([&self.pair, &self.entry, &self.request.0, &self.request.1]);
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

    /// Name of the measurement that no GET can be faster than: of one whose place the client remembers, or of
    /// one that searches the index.
    pub fn limit_of_get(&self, remembered: bool) -> String {
        match (remembered, self.inline) {
            (true, true) => read(SLOT),
            (true, false) => read(self.entry),
            (false, true) => read(self.pair),
            (false, false) => self.twice(),
        }
    }

    fn twice(&self) -> String {
        format!("READ {} B, then READ {} B", self.pair, self.entry)
    }

    /// The operations.
    fn operations(&self) -> Vec<Measured> {
        let mut all: Vec<Measured> = Vec::new();
        let mut add = |name: String, op, bytes: Option<u32>, at_once| {
            if all.iter().all(|known| known.name != name) {
                let bytes = bytes.map(u64::from);
                all.push(Measured { name, op, bytes, at_once, medians: Vec::new() });
            }
        };
        let entry = (!self.inline).then_some(&self.entry);
        for &bytes in [&self.pair, &SLOT].into_iter().chain(entry).chain(&self.reads) {
            add(read(bytes), BareOp::Read(bytes), Some(bytes), 1.0);
        }
        let (pair, batch) = (self.pair, self.batch);
        let name = format!("READ {pair} B, {batch} by one doorbell");
        add(name, BareOp::ReadBatch(pair, batch), Some(pair), batch as f64);
        add(self.twice(), BareOp::ReadTwice(pair, self.entry), None, 1.0);
        for bytes in [64, 1024] {
            add(format!("WRITE {bytes} B"), BareOp::Write(bytes), Some(bytes), 1.0);
        }
        add("SEND 64 B".into(), BareOp::Send(64), Some(64), 1.0);
        add("CAS".into(), BareOp::CompareSwap, None, 1.0);
        add(REQUEST.into(), BareOp::RequestReply(self.request.0, self.request.1), None, 1.0);
        all
    }
}

/// Bare devices under measurement, a run at a time, so that other measurements may stand between.
pub struct Nic {
    plan: NicPlan,
    bare: Bare,
    operations: Vec<Measured>,
}

impl Nic {
    /// Connects the devices.
    pub fn open(plan: NicPlan) -> Result<Nic, String> {
        plan.check()?;
        let bare = Bare::open(&plan.near, &plan.far)?;
        let operations = plan.operations();
        Ok(Nic { plan, bare, operations })
    }

    /// Every operation for its seconds.
    pub fn run(&mut self) -> Result<(), String> {
        let time = Duration::from_secs_f64(self.plan.seconds);
        for Measured { name, op, at_once, medians, .. } in &mut self.operations {
            let mut times = self.bare.times(*op, time).map_err(|why| format!("{name}: {why}"))?;
            times.sort_unstable();
            medians.push(times[times.len() / 2] as f64 / *at_once);
        }
        Ok(())
    }

    /// What the runs so far found.
    pub fn report(self) -> NicReport {
        let runs = self.operations.first().map_or(0, |first| first.medians.len() as u32);
        let result = |Measured { name, bytes, medians, .. }: Measured| {
            let nanos = Spread::of(medians);
            RawResult { name, nanos, rate: 1e9 / nanos.median, bytes }
        };
        NicReport {
            plan: NicPlan { runs, ..self.plan },
            results: self.operations.into_iter().map(result).collect(),
        }
    }
}

/// Measures the runs of a plan.
pub fn measure(plan: &NicPlan) -> Result<NicReport, String> {
    let mut nic = Nic::open(plan.clone())?;
    (0..plan.runs).try_for_each(|_| nic.run())?;
    Ok(nic.report())
}

impl NicReport {
    /// The measurement called `name`.
    pub fn get(&self, name: &str) -> Option<&RawResult> {
        self.results.iter().find(|result| result.name == name)
    }
}
