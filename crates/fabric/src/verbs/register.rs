//! Regions registered with a device: once for each set of rights, however many peers they are lent to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use longarm_ibverbs as ib;
use longarm_memory::Region;

use super::failed;
use crate::{Grant, Rights, SetupError};

/// A region that the device may access. Its pages stay where they are.
#[derive(Debug)]
pub(super) struct Registered {
    /// Gone before the region is: fields drop in this order.
    pub mr: ib::MemoryRegion,
    pub region: Arc<Region>,
}

/// What is registered, by the region's place in memory and the rights.
#[derive(Debug, Default)]
pub(super) struct Registrations(Mutex<HashMap<(usize, u8), Weak<Registered>>>);

impl Registrations {
    /// The region of a grant, registered with exactly its rights.
    pub fn get(
        &self,
        domain: &Arc<ib::ProtectionDomain>,
        grant: &Grant,
    ) -> Result<Arc<Registered>, SetupError> {
        let key = (grant.region.memory().address() as usize, grant.rights.bits());
        // Held while registering: two peers that come at once must not both pin the region.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(registered) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(registered);
        }
        known.retain(|_, registered| registered.strong_count() > 0);
        let memory = grant.region.memory();
        memory.pin();
        let bytes = grant.region.bytes() as usize;
        // SAFETY: the region is mapped as long as `Registered` holds it, and pinned: its pages are never
        // given back. No reference to its bytes exists anywhere (rule of the memory crate).
        let mr = unsafe { ib::MemoryRegion::register(domain, memory.address(), bytes, access(grant.rights)) };
        let registered = Arc::new(Registered { mr: mr.map_err(failed)?, region: grant.region.clone() });
        known.insert(key, Arc::downgrade(&registered));
        Ok(registered)
    }

    /// Later grants get new registrations, and so new keys.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The device's word for the rights.
pub(super) fn access(rights: Rights) -> ib::Access {
    let mut access = ib::Access::LOCAL_READ;
    for (right, more) in [
        (Rights::READ, ib::Access::REMOTE_READ),
        (Rights::WRITE, ib::Access::REMOTE_WRITE),
        (Rights::ATOMIC, ib::Access::REMOTE_ATOMIC),
    ] {
        if rights.allow(right) {
            access = access.and(more);
        }
    }
    access
}
