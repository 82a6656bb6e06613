//! How a replica came to lead: how long each step took, from the last sign of its predecessor to its service.

use longarm_base::Nanos;

use crate::stats::TakeoverStats;

/// The ends of the steps to a replica's lead, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The predecessor was last heard.
    Heard,
    /// The replica suspected the predecessor.
    Suspected,
    /// A majority suspected the predecessor, too.
    Wanted,
    /// The replica promised the new term: it is on disk, and no WRITE of an older term lands any more.
    Promised,
    /// The replica's promise to the predecessor ran out.
    Free,
    /// A majority had reported.
    Gathered,
    /// The replica had the start set, and a server over it.
    Installed,
    /// A majority was synced, and the replica led.
    Synced,
}

/// The moments at which the steps of one attempt ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Takeover([Nanos; Step::Synced as usize + 1]);

impl Takeover {
    /// Notes that a step ended at `now`. In this attempt no later step has ended.
    pub fn note(&mut self, step: Step, now: Nanos) {
        let now = now.max(self.0[(step as usize).saturating_sub(1)]);
        self.0[step as usize..].fill(now);
    }

    /// How long each step took.
    pub fn stats(&self) -> TakeoverStats {
        let took = |step: Step| self.0[step as usize].since(self.0[step as usize - 1]).0 / 1000;
        TakeoverStats {
            silence_us: took(Step::Suspected),
            canvass_us: took(Step::Wanted),
            promise_us: took(Step::Promised),
            lease_us: took(Step::Free),
            gather_us: took(Step::Gathered),
            install_us: took(Step::Installed),
            sync_us: took(Step::Synced),
        }
    }
}

impl std::fmt::Display for TakeoverStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |us: u64| us as f64 / 1000.0;
        write!(f, "{:.1} ms after its predecessor was last heard: ", ms(self.total_us()))?;
        write!(f, "silence {:.1}, canvass {:.1}, ", ms(self.silence_us), ms(self.canvass_us))?;
        write!(f, "promise and fence {:.1}, old lease {:.1}, ", ms(self.promise_us), ms(self.lease_us))?;
        write!(f, "reports {:.1}, install {:.1}, ", ms(self.gather_us), ms(self.install_us))?;
        write!(f, "sync {:.1}", ms(self.sync_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_share_and_all_are_the_whole() {
        let ms = Nanos::from_millis;
        let mut takeover = Takeover::default();
        takeover.note(Step::Heard, ms(100));
        takeover.note(Step::Suspected, ms(140));
        // An attempt that comes to nothing, and another; the predecessor was not heard meanwhile.
        takeover.note(Step::Wanted, ms(141));
        takeover.note(Step::Suspected, ms(150));
        takeover.note(Step::Wanted, ms(151));
        takeover.note(Step::Promised, ms(153));
        takeover.note(Step::Free, ms(160));
        takeover.note(Step::Gathered, ms(161));
        takeover.note(Step::Installed, ms(171));
        takeover.note(Step::Synced, ms(175));
        let stats = takeover.stats();
        let steps = [
            stats.silence_us,
            stats.canvass_us,
            stats.promise_us,
            stats.lease_us,
            stats.gather_us,
            stats.install_us,
            stats.sync_us,
        ];
        assert_eq!(steps, [50_000, 1000, 2000, 7000, 1000, 10_000, 4000]);
        assert_eq!(stats.total_us(), 75_000);
        let text = "75.0 ms after its predecessor was last heard: silence 50.0, canvass 1.0, promise and \
                    fence 2.0, old lease 7.0, reports 1.0, install 10.0, sync 4.0";
        assert_eq!(stats.to_string(), text);
    }

    #[test]
    fn a_step_that_was_left_out_took_no_time() {
        let mut takeover = Takeover::default();
        takeover.note(Step::Heard, Nanos(5_000));
        // A transferee that is asked to stand asks no other replica.
        takeover.note(Step::Promised, Nanos(9_000));
        let stats = takeover.stats();
        assert_eq!((stats.silence_us, stats.canvass_us, stats.promise_us), (0, 0, 4));
    }
}
