//! Two ends and the wire between them: a reliable connection (RC) as `contract.rs` has it.
//!
//! (1) Requests of one end reach the far memory in posting order; nothing is ordered across queue pairs.
//! (2) Completions come in posting order, once each.
//! (3) When an end breaks, each of its requests that was under way may still take effect, unseen (a ghost),
//!     unless the far end revoked it.
//!
//! How READs and WRITEs meet the memory is in `land`.

use std::collections::VecDeque;
use std::sync::Arc;

use longarm_base::Nanos;
use longarm_base::limits::QUEUE_DEPTH;
use longarm_host::Mutex;
use longarm_host::observe::{Observation, observe};

use super::end::{InFlightRequest, Landed, OpenRequest, Owned, SimEnd, SimEvent, SimSide};
use super::net::Net;
use super::races::{Poster, UnderWay};
use crate::execute::{self, Denied};
use crate::{Broken, PostError, RECEIVES, Ticket, WorkError};

/// A connection.
#[derive(Debug)]
pub(super) struct SimConnection {
    pub net: Arc<Net>,
    pub(super) ends: Mutex<[SimEnd; 2]>,
}

impl SimConnection {
    pub fn new(net: Arc<Net>, ends: [SimEnd; 2]) -> Arc<SimConnection> {
        Arc::new(SimConnection { net, ends: Mutex::new(ends) })
    }

    pub fn with<R>(&self, side: SimSide, act: impl FnOnce(&mut SimEnd) -> R) -> R {
        act(&mut self.ends.lock()[side])
    }

    pub fn post(&self, side: SimSide, op: Owned, ticket: Ticket) -> Result<(), PostError> {
        let time = self.net.time();
        let mut ends = self.ends.lock();
        let end = &mut ends[side];
        if end.broken.is_some() {
            return Err(PostError::Broken);
        }
        let full = match &op {
            Owned::Send { .. } => end.messages >= RECEIVES,
            Owned::Write { imm: Some(_), .. } => end.arrivals >= QUEUE_DEPTH,
            _ => false,
        };
        if full || end.open.len() + end.unpolled >= QUEUE_DEPTH {
            return Err(PostError::Full);
        }
        end.messages += usize::from(matches!(op, Owned::Send { .. }));
        end.arrivals += usize::from(matches!(op, Owned::Write { imm: Some(_), .. }));
        end.posted += 1;
        let number = end.posted;
        self.look_for_races(&ends, side, number, &op);
        let end = &mut ends[side];
        let landing = match &op {
            Owned::Read { from, into } => Some((*into, vec![0; from.len as usize])),
            _ => None,
        };
        end.open.push_back(OpenRequest { number, ticket, landing, result: None });
        end.staged.push_back(InFlightRequest { number, op, posted: time, ready: time });
        Ok(())
    }

    /// Names an end of this connection, for as long as it lasts.
    fn poster(&self, side: SimSide) -> Poster {
        (std::ptr::from_ref(self).addr(), side)
    }

    /// Tells the world if a WRITE that is posted races with another. Nothing lands at an end that is broken.
    fn look_for_races(&self, ends: &[SimEnd; 2], side: SimSide, number: u64, op: &Owned) {
        let Owned::Write { region, offset, bytes, .. } = op else { return };
        let (region, offset) = (*region, *offset);
        let far = &ends[1 - side];
        let grant = execute::may_write(&far.grants, region, offset, bytes.len());
        let Some(grant) = grant.ok().filter(|_| far.broken.is_none()) else { return };
        let memory = std::ptr::from_ref(&*grant.region).addr();
        let write = UnderWay { poster: self.poster(side), number, memory, offset, bytes: bytes.clone() };
        if let Some(offset) = self.net.races.posted(write) {
            observe(|| Observation::Raced { from: ends[side].machine, into: far.machine, region, offset });
        }
    }

    /// Sends what was posted, and a farewell if it is the last.
    pub fn ring(self: &Arc<SimConnection>, side: SimSide, farewell: bool) {
        let time = self.net.time();
        let mut ends = self.ends.lock();
        let to = ends[1 - side].machine;
        let end = &mut ends[side];
        if farewell && end.broken.is_none() {
            let op = Owned::Farewell;
            end.staged.push_back(InFlightRequest { number: u64::MAX, op, posted: time, ready: time });
        }
        while let Some(mut flight) = end.staged.pop_front() {
            let weather = self.net.weather();
            let lost = weather.loss > 0 && self.net.draw(weather.loss - 1) == 0;
            let late = if lost { weather.resend } else { Nanos(0) };
            flight.ready = (time + self.net.delay(end.machine, to) + late).max(end.sent_until + Nanos(1));
            end.sent_until = flight.ready;
            self.deliver_at(side, flight.ready);
            end.wire.push_back(flight);
        }
    }

    fn deliver_at(self: &Arc<SimConnection>, side: SimSide, time: Nanos) {
        let pair = self.clone();
        self.net.at(time, move || pair.deliver(side));
    }

    /// What has reached the far memory takes effect.
    pub(super) fn deliver(self: &Arc<SimConnection>, side: SimSide) {
        let time = self.net.time();
        let mut ends = self.ends.lock();
        loop {
            let (from, to) = (ends[side].machine, ends[1 - side].machine);
            let deaf = ends[1 - side].deaf;
            let end = &mut ends[side];
            let Some(flight) = end.wire.front_mut().filter(|flight| flight.ready <= time) else { return };
            if end.landing.is_some() {
                return;
            }
            if deaf || self.net.is_down(to) && end.broken.is_some() {
                end.wire.pop_front();
                continue;
            }
            let weather = self.net.weather();
            if self.net.is_cut(from, to) || self.net.is_cut(to, from) {
                if end.broken.is_none() && time.since(flight.posted) > weather.give_up {
                    // It is not known what came through before: ghosts stay on the wire.
                    end.break_off(Broken::PeerLost("no answer, the request was sent again in vain".into()));
                } else if end.broken.is_some()
                    && time.since(flight.posted) > weather.give_up + weather.give_up
                {
                    end.wire.pop_front();
                    continue;
                }
                flight_later(&mut ends[side], time + weather.resend);
                self.deliver_at(side, time + weather.resend);
                return;
            }
            let flight = end.wire.pop_front().expect("looked at above");
            if end.broken.is_some() && self.net.draw(1) == 0 {
                continue;
            }
            self.execute(&mut ends, side, flight);
        }
    }

    fn execute(self: &Arc<SimConnection>, ends: &mut [SimEnd; 2], side: SimSide, flight: InFlightRequest) {
        let InFlightRequest { number, op, .. } = flight;
        let grants = &ends[1 - side].grants;
        let outcome = match op {
            Owned::Farewell => {
                self.net.races.over(self.poster(side));
                return ends[1 - side].break_off(Broken::Closed);
            }
            _ if ends[1 - side].broken.is_some() => return self.lose(ends, side),
            Owned::Read { from, .. } => {
                match execute::may_read(grants, from.region, from.offset, from.len as usize) {
                    Ok(grant) => return self.sample(grant.region.memory().clone(), side, number, from),
                    Err(denied) => Err(denied),
                }
            }
            Owned::Write { region, offset, bytes, imm } => {
                match execute::may_write(grants, region, offset, bytes.len()) {
                    Ok(grant) => {
                        let memory = grant.region.clone();
                        let parts = VecDeque::new();
                        let write = Landed { number, imm, region, memory, offset, bytes, parts };
                        return self.land(ends, side, write);
                    }
                    Err(denied) => Err(denied),
                }
            }
            Owned::Send { bytes } => {
                ends[1 - side].tell(SimEvent::Message(bytes));
                Ok(0)
            }
            Owned::CompareSwap { region, offset, expected, new } => {
                execute::compare_swap(grants, region, offset, expected, new)
            }
            Owned::FetchAdd { region, offset, add } => execute::fetch_add(grants, region, offset, add),
        };
        match outcome {
            Ok(word) => self.answer(ends, side, number, Ok(word)),
            Err(Denied(text)) => {
                ends[side].wire.clear();
                self.answer(ends, side, number, Err(WorkError::Access));
                ends[1 - side].break_off(Broken::Protocol(format!("remote access error: {text}")));
            }
        }
    }

    /// The answer to a request goes back.
    pub(super) fn answer(
        self: &Arc<SimConnection>,
        ends: &mut [SimEnd; 2],
        side: SimSide,
        number: u64,
        result: Result<u64, WorkError>,
    ) {
        let delay = self.net.delay(ends[1 - side].machine, ends[side].machine);
        let end = &mut ends[side];
        let back = (self.net.time() + delay).max(end.told_until + Nanos(1));
        end.told_until = back;
        let pair = self.clone();
        self.net.at(back, move || {
            let mut ends = pair.ends.lock();
            let end = &mut ends[side];
            let Some(open) = end.open.iter_mut().find(|open| open.number == number) else { return };
            open.result = Some(result);
            pair.net.races.completed(pair.poster(side), number);
            if !end.report() {
                end.break_off(Broken::Protocol("remote access error".into()));
            }
        });
    }

    /// The peer is gone, as far as this end can tell; it notices a little later.
    fn lose(self: &Arc<SimConnection>, ends: &[SimEnd; 2], side: SimSide) {
        let delay = self.net.delay(ends[1 - side].machine, ends[side].machine);
        self.break_later(side, delay, "the connection was reset");
    }

    fn break_later(self: &Arc<SimConnection>, side: SimSide, after: Nanos, why: &'static str) {
        let pair = self.clone();
        self.net.at(self.net.time() + after, move || {
            pair.with(side, |end| end.break_off(Broken::PeerLost(why.into())));
        });
    }

    /// Fences the peer off: when this returns nothing of it takes effect any more. A WRITE that is landing
    /// may have been acknowledged: it is there, whole.
    pub fn revoke(self: &Arc<SimConnection>, side: SimSide) {
        self.land_at_once(1 - side);
        let mut ends = self.ends.lock();
        let end = &mut ends[side];
        end.deaf = true;
        self.net.races.over(self.poster(1 - side));
        end.break_off(Broken::Revoked);
        end.news.retain(|news| matches!(news, SimEvent::Done { .. }));
        end.broken = Some(Broken::Revoked);
        self.lose(&ends, 1 - side);
    }

    /// A machine at one end went down: that end does nothing more, the other notices some time.
    pub fn machine_down(self: &Arc<SimConnection>, machine: u32) {
        for side in 0..2 {
            if self.with(side, |end| end.machine) != machine {
                continue;
            }
            self.with(side, |end| end.break_off(Broken::Closed));
            self.net.races.over(self.poster(1 - side));
            let notice = Nanos(self.net.draw(self.net.weather().give_up.0));
            self.break_later(1 - side, notice, "its machine is down");
        }
    }
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        (0..2).for_each(|side| self.net.races.over(self.poster(side)));
    }
}

fn flight_later(end: &mut SimEnd, ready: Nanos) {
    if let Some(flight) = end.wire.front_mut() {
        flight.ready = ready;
    }
}
