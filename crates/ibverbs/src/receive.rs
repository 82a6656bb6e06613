//! Receives: a place for a SEND, and a turn for a WRITE_WITH_IMM.

use std::ptr::null_mut;
use std::sync::Arc;

use crate::bindings as b;
use crate::library::verb;
use crate::{Error, Local, ProtectionDomain};

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

/// Receives that several queue pairs share.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    pub(crate) raw: *mut b::ibv_srq,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: verbs may be called on one queue from every thread.
unsafe impl Send for SharedReceiveQueue {}
// SAFETY: as above.
unsafe impl Sync for SharedReceiveQueue {}

impl SharedReceiveQueue {
    /// A queue of at least `entries`.
    pub fn new(domain: &Arc<ProtectionDomain>, entries: u32) -> Result<Arc<SharedReceiveQueue>, Error> {
        let attr = b::ibv_srq_attr { max_wr: entries, max_sge: 1, srq_limit: 0 };
        let mut init = b::ibv_srq_init_attr { srq_context: null_mut(), attr };
        // SAFETY: a live domain and a filled structure.
        let raw = unsafe { verb!(create_srq(domain.raw, &mut init)) };
        if raw.is_null() {
            return Err(Error::last("create_srq", domain.context().name()));
        }
        Ok(Arc::new(SharedReceiveQueue { raw, domain: domain.clone() }))
    }

    /// Posts a receive.
    ///
    /// # Safety
    /// The memory stays registered, and no reference to it is alive, until the receive completes or the queue
    /// is gone.
    pub unsafe fn post(&self, receive: &Receive) -> Result<(), Error> {
        let code = receive.with(|raw| {
            let mut bad = null_mut();
            // SAFETY: a live queue and a filled request; the memory by the caller's promise.
            unsafe {
                let post = (*self.domain.context().raw).ops.post_srq_recv.expect("every provider has it");
                post(self.raw, raw, &mut bad)
            }
        });
        Error::check(code, "post_srq_recv", self.domain.context().name())
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        // SAFETY: ours, freed once; its queue pairs hold it alive.
        unsafe { verb!(destroy_srq(self.raw)) };
    }
}
