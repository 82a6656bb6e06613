//! The server's heartbeat, and what follows from it: the lease, the calendar and the geometry.

use longarm_base::{Nanos, limits};
use longarm_fabric::QueuePair;
use longarm_host::now;
use longarm_host::observe::{Observation, observe};
use longarm_index::control::{self, GEOMETRY_PLACE, HEARTBEAT_PLACE, Heartbeat, ServerState};
use longarm_index::hash::ReadGranularity;
use longarm_memory::HashKey;

use crate::deadline::Deadline;
use crate::link::{CONTROL_AT, Link, Trouble};

impl<Q: QueuePair> Link<Q> {
    /// READs the heartbeat, renews the lease by it, and follows a changed geometry.
    pub(crate) fn look_at_heartbeat(&mut self, deadline: &Deadline) -> Result<(), Trouble> {
        let begin = self.post_heartbeat(deadline)?;
        self.finish_reads(deadline)?;
        self.take_heartbeat(begin, now(), deadline)
    }

    /// Posts the READ of the heartbeat, so that it travels with READs that follow. When it began; once all of
    /// them are complete, [`take_heartbeat`](Self::take_heartbeat).
    pub(crate) fn post_heartbeat(&mut self, deadline: &Deadline) -> Result<Nanos, Trouble> {
        self.counters.renewals += 1;
        let begin = now();
        self.post_read(HEARTBEAT_PLACE, CONTROL_AT, deadline)?;
        Ok(begin)
    }

    /// Renews the lease by a heartbeat whose READ began and ended then, and follows a changed geometry.
    pub(crate) fn take_heartbeat(
        &mut self,
        begin: Nanos,
        end: Nanos,
        deadline: &Deadline,
    ) -> Result<(), Trouble> {
        let beat = Heartbeat::parse(self.qp.landing(CONTROL_AT, 64))
            .ok_or_else(|| Trouble::Broken("the control page is not one of this layout".into()))?;
        if beat.boot != self.welcome.boot {
            return Err(Trouble::Broken("the server is another one than we connected to".into()));
        }
        if beat.state == ServerState::Closed {
            self.lease.forget();
            return Err(Trouble::Broken("the server said goodbye".into()));
        }
        if beat.epoch != self.geometry.epoch {
            self.fetch_geometry(beat.epoch, deadline)?;
        }
        if !self.takes_too_long(begin, end) {
            self.lease.observe(beat.stamp, end);
            observe(|| Observation::Trusted { boot: beat.boot, end: self.lease.end() });
            self.calendar.observe(beat.unix, self.lease.earliest(beat.stamp, end), end);
        }
        Ok(())
    }

    /// Whether a heartbeat whose READ began and ended then renews no lease. Half of the bound: a table that
    /// was retired during this READ is kept for the other half and the lease.
    pub(crate) fn takes_too_long(&self, begin: Nanos, end: Nanos) -> bool {
        end.since(begin).0 > self.welcome.read_bound / 2
    }

    /// Whether READs that began and ended then, and that no lease covers, would be in vain again. Those that
    /// this thread makes itself only seem long, when it was stopped meanwhile.
    pub(crate) fn is_too_slow(&self, begin: Nanos, end: Nanos) -> bool {
        let posts = self.granularity == ReadGranularity::Window;
        self.takes_too_long(begin, end) || (posts && end.since(begin).0 > self.welcome.lease / 2)
    }

    /// Renews the lease by the heartbeat that was READ beside something else, if one was; whether the
    /// geometry is the one with which that was looked for.
    #[inline]
    pub(crate) fn take_beats(&mut self, began: Option<Nanos>, deadline: &Deadline) -> Result<bool, Trouble> {
        let Some(began) = began else { return Ok(true) };
        let (epoch, end) = (self.geometry.epoch, now());
        self.take_heartbeat(began, end, deadline)?;
        if self.has_lease(end) {
            self.fallback.counted();
        }
        Ok(self.geometry.epoch == epoch)
    }

    /// READs the geometry record until it verifies and is at least of this epoch.
    fn fetch_geometry(&mut self, epoch: u64, deadline: &Deadline) -> Result<(), Trouble> {
        for _ in 0..limits::RETRIES_MAX {
            self.counters.geometries += 1;
            self.post_read(GEOMETRY_PLACE, CONTROL_AT + 64, deadline)?;
            self.finish_reads(deadline)?;
            let bytes = self.qp.landing(CONTROL_AT + 64, GEOMETRY_PLACE.len);
            if let Some(geometry) = control::geometry(bytes, &self.sums, self.index_bytes)
                && geometry.epoch >= epoch
            {
                self.hasher = HashKey::new(geometry.hash_key);
                self.geometry = geometry;
                return Ok(());
            }
            self.wait_a_little(deadline)?;
        }
        Err(Trouble::Broken("the geometry record never verified".into()))
    }
}
