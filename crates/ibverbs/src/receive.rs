//! Receives: a place for a SEND, and a turn for a WRITE_WITH_IMM.

use std::ptr::null_mut;

use crate::Local;
use crate::bindings as b;

/// A receive to post.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    /// The poster's name for it.
    pub id: u64,
    /// Where a SEND lands; nowhere, where only WRITE_WITH_IMM come.
    pub into: Option<Local>,
}

impl Receive {
    /// Calls `post` with the structure of the library.
    pub(crate) fn with<R>(&self, post: impl FnOnce(*mut b::ibv_recv_wr) -> R) -> R {
        let mut sge = self.into.map(Local::raw);
        let mut raw = b::ibv_recv_wr {
            wr_id: self.id,
            next: null_mut(),
            num_sge: i32::from(sge.is_some()),
            sg_list: sge.as_mut().map_or(null_mut(), |sge| sge),
        };
        post(&mut raw)
    }
}
