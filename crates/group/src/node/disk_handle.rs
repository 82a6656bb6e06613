//! The disk of a replica, as the replica's own thread has it.

use std::sync::Arc;

use longarm_base::{ReplicaId, Term};
use longarm_host::now;

use crate::durable::follow::FollowHandle;
use crate::durable::options::{Durability, Durable};
use crate::durable::scrub::Scrubbing;
use crate::durable::settle::KeptDisk;
use crate::durable::slot::DiskSlot;
use crate::options::GroupOptions;
use crate::peer::PATIENCE;

/// The disk of a replica.
pub(super) struct DiskHandle {
    pub slot: Arc<DiskSlot>,
    /// What an acknowledged write outlives.
    pub durability: Durability,
    /// How the file is looked over.
    pub scrubbing: Scrubbing,
    /// The memory is what the file has: no leader, this replica included, has written to it since it was
    /// read, or trimmed to that.
    pub is_loaded: bool,
    /// The scribe of the term that is followed, or was.
    pub follows: Option<FollowHandle>,
    /// Who is to hear that this replica is in sync, once its disk is.
    pub waits: Option<(ReplicaId, Term)>,
    /// The term that the replica began with from its disk, and whose leader knows of more.
    pub began: Option<Term>,
}

impl DiskHandle {
    /// The disk of a replica that starts with this file, if it has one; `began` is the term that it read.
    pub fn of(options: &GroupOptions, kept: Option<KeptDisk>, began: Option<Term>) -> Option<DiskHandle> {
        let &Durable { durability, scrubbing, .. } = options.durable.as_ref()?;
        let slot = Arc::new(DiskSlot::new(kept));
        Some(DiskHandle { slot, durability, scrubbing, is_loaded: true, follows: None, waits: None, began })
    }

    /// Takes the file from where it is while no thread has it, while that is `worth` waiting for.
    pub fn take(&self, worth: impl Fn() -> bool) -> Result<KeptDisk, String> {
        self.slot.take(now() + PATIENCE, worth).ok_or_else(|| "its disk has failed".to_string())
    }
}
