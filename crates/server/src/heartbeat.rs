//! The heartbeat of a server that nobody replicates: vouches for its memory, every quarter of a lease, as
//! long as the workers make progress.

use std::sync::Arc;

use longarm_group::{Core, Liveness};
use longarm_host::Pause;

/// Beats in a lease: a client's clock may miss some.
const BEATS_A_LEASE: u32 = 4;

/// Beats until stopped, for a server that nobody replicates.
pub(crate) fn run(core: &Arc<Core>, pause: &Pause) {
    let every = core.options.lease / BEATS_A_LEASE;
    let mut liveness = Liveness::new(core);
    loop {
        let times = core.timestamps();
        if liveness.made(core, times.now) {
            core.vouch(times.now, times);
        }
        if !pause.sleep(every) {
            return;
        }
    }
}
