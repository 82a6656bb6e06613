//! One client thread: prepares operations, issues them, checks and records the answers.

use std::sync::Arc;

use super::sample::Sample;
use super::scans::{Findings, Scans};
use super::schedule::Schedule;
use super::window::{Window, wait_until};
use crate::driver::{OpRef, Seen, Target, TargetError, Verb};
use crate::plan::Plan;
use crate::record::Record;
use crate::workload::Values;
use crate::workload::{Distribution, Key, KeyFormat, Op, OpKind, Stream};

/// Operations prepared together in a closed loop without a pipeline, so that one reading of the clock ends
/// one operation and begins the next, and making keys is no part of a latency.
const AHEAD: usize = 16;

/// What a client hands back.
pub struct Finished {
    /// Latencies and counts of the window.
    pub record: Record,
    /// Seconds over which `record` was taken.
    pub seconds: f64,
}

/// A client.
pub struct Client<'a> {
    target: Box<dyn Target>,
    stream: Stream,
    values: &'a Values,
    key: KeyFormat,
    scans: Scans,
    depth: usize,
    ahead: usize,
    sample: Sample,
    quota: u64,
    prepared: Vec<(Op, Key)>,
    /// Prepared operations that were issued.
    issued: usize,
    value: Vec<u8>,
    record: Record,
    /// What the target had [remembered](Target::remembered) when measuring began.
    remembered: u64,
}

impl<'a> Client<'a> {
    /// A client that issues at most `quota` measured operations.
    pub fn new(shared: &Shared<'a>, target: Box<dyn Target>, stream: Stream, quota: u64) -> Client<'a> {
        let plan = shared.plan;
        // Reading the latest records must see the inserts before it: nothing is drawn ahead of them.
        let ahead = if plan.distribution() == Distribution::Latest { 1 } else { AHEAD };
        Client {
            target,
            stream,
            values: shared.values,
            key: plan.key,
            scans: Scans::new(plan, shared.greatest),
            depth: plan.depth,
            ahead: ahead.max(plan.depth),
            sample: Sample::every(plan.verify_every),
            quota,
            prepared: Vec::with_capacity(ahead.max(plan.depth)),
            issued: 0,
            value: Vec::new(),
            record: Record::new(),
            remembered: 0,
        }
    }

    /// The warm-up is over.
    fn reset(&mut self) {
        self.record.reset();
        self.remembered = self.target.remembered();
    }

    fn finished(mut self, seconds: f64) -> Finished {
        self.record.counts.remembered = self.target.remembered().saturating_sub(self.remembered);
        Finished { record: self.record, seconds }
    }

    /// Issues as fast as answers come, until the window closes.
    pub fn closed(mut self, window: &Window) -> Result<Finished, TargetError> {
        let mut is_measured = false;
        let mut begin;
        loop {
            self.prepare();
            begin = window.now();
            while self.issued < self.prepared.len() {
                if !is_measured && begin >= window.start {
                    self.reset();
                    is_measured = true;
                }
                let left = self.quota - if is_measured { self.record.counts.operations } else { 0 };
                let count = self.depth.min(self.prepared.len() - self.issued).min(left as usize);
                let middle = self.execute(count, window)?;
                let end = window.now();
                self.finish(count, begin, middle, end);
                self.issued += count;
                if is_measured && (end >= window.stop || self.left(true) == 0) {
                    // The whole window counts: an operation that began before it may have taken most of it,
                    // and the client would seem quick by the few that followed.
                    return Ok(self.finished((end - window.start) as f64 * 1e-9));
                }
                begin = end;
            }
        }
    }

    /// Issues when `schedule` says so, late ones at once; latency counts from when they were due.
    pub fn open(mut self, window: &Window, mut schedule: Schedule) -> Result<Finished, TargetError> {
        let mut measuring = false;
        let mut due: Vec<u64> = Vec::with_capacity(self.depth);
        let mut last = window.start;
        while schedule.next() < window.stop && self.left(measuring) > 0 {
            if !measuring && schedule.next() >= window.start {
                self.reset();
                measuring = true;
            }
            self.prepare();
            let now = wait_until(window, schedule.next());
            if now > window.stop + window.grace {
                break;
            }
            due.clear();
            let most = self.depth.min(self.prepared.len() - self.issued).min(self.left(measuring) as usize);
            // A batch does not straddle the end of the warm-up.
            let limit = if measuring { window.stop } else { window.start };
            while due.len() < most && schedule.next() <= now && schedule.next() < limit {
                due.push(schedule.next());
                schedule.advance();
            }
            let middle = self.execute(due.len(), window)?;
            last = window.now();
            for (i, &intended) in due.iter().enumerate() {
                let at = self.issued + i;
                let middle = middle.map(|middle| middle.max(intended));
                self.finish_one(at, intended, middle, last);
                self.record.service(last - now);
            }
            self.issued += due.len();
        }
        while measuring && schedule.next() < window.stop && self.left(measuring) > 0 {
            self.prepare();
            let kind = self.prepared[self.issued].0.kind;
            self.issued += 1;
            self.record.unsent(kind, last.max(window.stop) - schedule.next());
            schedule.advance();
        }
        if !measuring {
            self.reset();
        }
        let until = if self.left(measuring) > 0 { last.max(window.stop) } else { last };
        Ok(self.finished(until.saturating_sub(window.start).max(1) as f64 * 1e-9))
    }

    /// Operations that may still be measured; the warm-up has no limit.
    #[inline]
    fn left(&self, measuring: bool) -> u64 {
        let counts = &self.record.counts;
        if measuring { self.quota.saturating_sub(counts.operations + counts.unsent) } else { u64::MAX }
    }

    /// Draws the next operations when none is left.
    fn prepare(&mut self) {
        if self.issued < self.prepared.len() {
            return;
        }
        self.prepared.clear();
        self.issued = 0;
        for _ in 0..self.ahead {
            let op = self.stream.draw();
            self.prepared.push((op, self.key.key(op.record)));
        }
    }

    /// Records the next `count` operations, which began and ended together.
    #[inline]
    fn finish(&mut self, count: usize, begin: u64, middle: Option<u64>, end: u64) {
        if count == 1 {
            return self.finish_one(self.issued, begin, middle, end);
        }
        // A histogram counts equal latencies at once, so that recording is no part of what is measured.
        let mut kinds = [0; OpKind::ALL.len()];
        for at in self.issued..self.issued + count {
            let op = self.prepared[at].0;
            self.stream.answered(&op);
            kinds[op.kind as usize] += 1;
        }
        for (kind, &count) in OpKind::ALL.into_iter().zip(&kinds).filter(|(_, count)| **count > 0) {
            self.record.operations(kind, end - begin, count);
            if kind == OpKind::ReadModifyWrite {
                let middle = middle.unwrap_or(begin);
                self.record.halves(middle - begin, end - middle, count);
            }
        }
    }

    #[inline]
    fn finish_one(&mut self, at: usize, begin: u64, middle: Option<u64>, end: u64) {
        let op = self.prepared[at].0;
        self.stream.answered(&op);
        self.record.operations(op.kind, end - begin, 1);
        if op.kind == OpKind::ReadModifyWrite {
            let middle = middle.unwrap_or(begin);
            self.record.halves(middle - begin, end - middle, 1);
        }
    }

    /// Issues the next `count` prepared operations together. `Some` is when the reads of read-modify-writes
    /// were done.
    fn execute(&mut self, count: usize, window: &Window) -> Result<Option<u64>, TargetError> {
        if count == 1 {
            return self.execute_one(window);
        }
        let modifies = self.execute_batch(count, false)?;
        if !modifies {
            return Ok(None);
        }
        let middle = window.now();
        self.execute_batch(count, true)?;
        Ok(Some(middle))
    }

    #[inline]
    fn execute_one(&mut self, window: &Window) -> Result<Option<u64>, TargetError> {
        let (op, key) = self.prepared[self.issued];
        if op.kind == OpKind::Scan {
            let Client { target, scans, record, values, sample, .. } = self;
            scans.run(target.as_mut(), &op, &key, Findings { record, values, sample })?;
            return Ok(None);
        }
        let mut middle = None;
        if matches!(op.kind, OpKind::Read | OpKind::ReadModifyWrite) {
            match self.target.get(key.bytes(), &mut self.value) {
                Ok(true) => {
                    let value = std::mem::take(&mut self.value);
                    self.check(op.record, &value);
                    self.value = value;
                }
                Ok(false) => self.record.counts.misses += 1,
                Err(TargetError::Refused(_)) => self.record.counts.refused += 1,
                Err(lost) => return Err(lost),
            }
            if op.kind == OpKind::Read {
                return Ok(None);
            }
            middle = Some(window.now());
        }
        match self.target.put(key.bytes(), self.values.value(op.record, op.variant)) {
            Ok(()) => {}
            Err(TargetError::Refused(_)) => self.record.counts.refused += 1,
            Err(lost) => return Err(lost),
        }
        Ok(middle)
    }

    /// One half of a batch: everything but the writes of read-modify-writes, or (`second`) those. Says
    /// whether there is a second half.
    fn execute_batch(&mut self, count: usize, second: bool) -> Result<bool, TargetError> {
        let prepared = &self.prepared[self.issued..self.issued + count];
        let mut ops = Vec::with_capacity(count);
        let mut modifies = false;
        for (op, key) in prepared {
            let modify = op.kind == OpKind::ReadModifyWrite;
            modifies |= modify;
            if second && !modify {
                continue;
            }
            let get = !second && matches!(op.kind, OpKind::Read | OpKind::ReadModifyWrite);
            let verb = if get { Verb::Get } else { Verb::Put };
            let value = if get { &[][..] } else { self.values.value(op.record, op.variant) };
            ops.push(OpRef { verb, key: key.bytes(), value });
        }
        let mut answers = 0;
        let Client { target, record, values, sample, .. } = self;
        target.batch(&ops, &mut |i, seen| {
            answers += 1;
            match seen {
                Seen::Hit(value) => {
                    // Only the first half reads, and all of it was sent.
                    check(record, values, sample, prepared[i].0.record, value)
                }
                Seen::Miss => record.counts.misses += 1,
                Seen::Stored => {}
                Seen::Refused(_) => record.counts.refused += 1,
            }
        })?;
        if answers != ops.len() {
            let asked = ops.len();
            return Err(TargetError::Lost(format!("{answers} answers to a batch of {asked} operations")));
        }
        Ok(modifies)
    }

    #[inline]
    fn check(&mut self, record: u64, value: &[u8]) {
        check(&mut self.record, self.values, &mut self.sample, record, value);
    }
}

/// Checks the length of every value, and the bytes of those of the sample.
#[inline]
fn check(into: &mut Record, values: &Values, sample: &mut Sample, record: u64, value: &[u8]) {
    into.counts.hits += 1;
    let good = if sample.is_next() {
        into.counts.checked += 1;
        values.is_valid(record, value)
    } else {
        value.len() == values.bytes()
    };
    into.counts.wrong += !good as u64;
}

/// Shared by the clients of a run.
pub struct Shared<'a> {
    /// The plan of this point.
    pub plan: &'a Plan,
    /// Values of this point.
    pub values: &'a Values,
    /// First state of the streams.
    pub start: &'a crate::workload::StreamStart,
    /// The greatest key that was loaded, if there are scans.
    pub greatest: Option<Key>,
    /// Numbers of new records of this target.
    pub inserts: Arc<crate::workload::Inserts>,
}
