//! The heartbeat of a server without followers: it vouches for the server's memory, every quarter of a lease,
//! as long as the workers make progress.

use std::sync::Arc;

use longarm_group::{Core, Liveness};
use longarm_host::Pause;

/// Beats in a lease: a client may miss some.
const BEATS_A_LEASE: u32 = 4;

/// Beats until stopped, for a server without followers.
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
