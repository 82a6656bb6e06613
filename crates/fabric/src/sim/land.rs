//! How READs and WRITEs meet the far memory.
//!
//! (1) A WRITE lands in parts of whole words, at moments of their own; what is posted after it waits for the
//!     last. It may complete before that: who then reads the memory locally may miss it (the acknowledgement
//!     window), a later READ of the same queue pair does not, nor does who revoked the sender.
//! (2) A READ samples each line at a moment of its own; what is posted after it does not wait. If the far
//!     machine is lost before the last sample, no answer comes.

use std::sync::Arc;

use longarm_base::limits::LINE;
use longarm_base::{Nanos, Place, RegionId};
use longarm_host::observe::{Observation, observe};
use longarm_memory::{Mapped, OwnedWords, Words};

use super::end::{Landed, SimEnd, SimEvent, SimSide};
use super::net::Landing;
use super::pair::SimConnection;
use crate::Broken;

impl SimConnection {
    /// The samples of a READ.
    pub(super) fn sample(self: &Arc<SimConnection>, memory: Mapped, side: SimSide, number: u64, from: Place) {
        let (time, spread) = (self.net.time(), self.net.weather().spread.0);
        let moments = if spread == 0 { 1 } else { 1 + self.net.draw(2) };
        let mut parts: Vec<(Nanos, Vec<(u64, u32)>)> =
            (0..moments).map(|_| (time + Nanos(self.net.draw(spread)), Vec::new())).collect();
        parts.sort_by_key(|part| part.0);
        let end = from.offset + u64::from(from.len);
        let mut at = from.offset;
        while at < end {
            let next = (at / LINE + 1) * LINE;
            let part = self.net.draw(moments - 1) as usize;
            parts[part].1.push((at, (next.min(end) - at) as u32));
            at = next;
        }
        for (moment, lines) in parts {
            let (pair, memory) = (self.clone(), memory.clone());
            self.net.at(moment, move || pair.sample_now(side, number, &memory, from.offset, &lines));
        }
        let last = time + Nanos(spread);
        let pair = self.clone();
        self.net.at(last, move || {
            let mut ends = pair.ends.lock();
            if !pair.is_lost(&ends, 1 - side) {
                pair.answer(&mut ends, side, number, Ok(0));
            }
        });
    }

    /// Whether the machine at that end is down, or was since the connection was made.
    fn is_lost(&self, ends: &[SimEnd; 2], side: SimSide) -> bool {
        self.net.is_down(ends[side].machine) || ends[side].broken == Some(Broken::Closed)
    }

    fn sample_now(&self, side: SimSide, number: u64, memory: &Mapped, base: u64, lines: &[(u64, u32)]) {
        let mut ends = self.ends.lock();
        if self.is_lost(&ends, 1 - side) {
            return;
        }
        let open = ends[side].open.iter_mut().find(|open| open.number == number);
        if let Some((_, bytes)) = open.and_then(|open| open.landing.as_mut()) {
            for &(at, len) in lines {
                let start = (at - base) as usize;
                memory.copy_out(at, &mut bytes[start..start + len as usize]);
            }
        }
    }

    /// The parts of a WRITE.
    pub(super) fn land(self: &Arc<SimConnection>, ends: &mut [SimEnd; 2], side: SimSide, write: Landed) {
        let (time, weather) = (self.net.time(), self.net.weather());
        let words = (write.bytes.len() / 8) as u64;
        let parts =
            if weather.spread == Nanos(0) || words < 2 { 1 } else { 1 + self.net.draw(2).min(words - 1) };
        if parts == 1 {
            write.memory.memory().copy_in(write.offset, &write.bytes);
            tell(ends, side, write.region);
            self.landed(ends, side, &write);
            return self.answer(ends, side, write.number, Ok(0));
        }
        let mut cuts: Vec<usize> = (1..parts).map(|_| 8 * self.net.draw(words) as usize).collect();
        cuts.extend([0, write.bytes.len()]);
        cuts.sort_unstable();
        let mut ranges: Vec<_> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
        if weather.landing == Landing::Any {
            let by = self.net.draw(ranges.len() as u64 - 1) as usize;
            ranges.rotate_left(by);
        }
        let mut moments: Vec<_> =
            ranges.iter().map(|_| time + Nanos(self.net.draw(weather.spread.0))).collect();
        moments.sort_unstable();
        let number = write.number;
        ends[side].landing = Some(Landed { parts: ranges.into(), ..write });
        // Before the last part has landed, perhaps: the acknowledgement window.
        self.answer(ends, side, number, Ok(0));
        for moment in moments {
            let pair = self.clone();
            self.net.at(moment, move || pair.land_part(side, number));
        }
    }

    /// The next part of a WRITE lands, unless all of it was hastened.
    fn land_part(self: &Arc<SimConnection>, side: SimSide, number: u64) {
        let mut ends = self.ends.lock();
        let awaited = ends[side].landing.as_ref().is_some_and(|write| write.number == number);
        if awaited && self.land_next(&mut ends, side) {
            drop(ends);
            self.deliver(side);
        }
    }

    /// What is landing lands now.
    pub(super) fn land_at_once(&self, side: SimSide) {
        let mut ends = self.ends.lock();
        while ends[side].landing.is_some() {
            self.land_next(&mut ends, side);
        }
    }

    /// Whether that was the last part.
    fn land_next(&self, ends: &mut [SimEnd; 2], side: SimSide) -> bool {
        let Some(mut write) = ends[side].landing.take() else { return true };
        let part = write.parts.pop_front();
        if let Some(part) = part.filter(|_| !self.net.is_down(ends[1 - side].machine)) {
            write.memory.memory().copy_in(write.offset + part.start as u64, &write.bytes[part]);
            tell(ends, side, write.region);
        }
        if !write.parts.is_empty() {
            ends[side].landing = Some(write);
            return false;
        }
        self.landed(ends, side, &write);
        true
    }

    /// A WRITE is there: whoever it is for learns of it, if it says so.
    fn landed(&self, ends: &mut [SimEnd; 2], side: SimSide, write: &Landed) {
        let far = &mut ends[1 - side];
        if let Some(imm) = write.imm
            && far.broken.is_none()
        {
            far.tell(SimEvent::Arrived { imm, len: write.bytes.len() as u32 });
        }
    }
}

/// Tells the world whose bytes landed where. An end that closed is of a machine that was started again: its
/// memory is nobody's any more.
fn tell(ends: &[SimEnd; 2], side: SimSide, region: RegionId) {
    let (from, into) = (&ends[side], &ends[1 - side]);
    if into.broken != Some(Broken::Closed) {
        observe(|| Observation::Landed { from: from.machine, into: into.machine, region });
    }
}
