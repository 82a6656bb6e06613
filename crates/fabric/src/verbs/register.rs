//! Regions registered with a device: once for each set of rights, however many peers they are lent to.
//!
//! (1) A registration, and so its key, ends with the last connection that it is lent to. What is lent to the
//!     connections of one term, and to those of the next when the former are gone, so has other keys there
//!     (M1).
//! (2) To register takes time that grows with the region, and a new leader is waited for. So what was made
//!     ready has a spare registration, which nobody has seen the key of; another thread makes the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use longarm_ibverbs as ib;
use longarm_memory::Region;

use super::failed::failed;
use crate::{Grant, Rights, SetupError};

/// A region that the device may access. Its pages stay where they are.
#[derive(Debug)]
pub(super) struct Registered {
    /// Gone before the region is: fields drop in this order.
    pub mr: ib::MemoryRegion,
    pub region: Arc<Region>,
}

impl Registered {
    fn new(domain: &Arc<ib::ProtectionDomain>, grant: &Grant) -> Result<Arc<Registered>, SetupError> {
        let memory = grant.region.memory();
        memory.pin();
        let bytes = grant.region.bytes() as usize;
        // SAFETY: the region is mapped as long as `Registered` holds it, and pinned: its pages are never
        // given back. No reference to its bytes exists anywhere (rule of the memory crate).
        let mr = unsafe { ib::MemoryRegion::register(domain, memory.address(), bytes, access(grant.rights)) };
        Ok(Arc::new(Registered { mr: mr.map_err(failed)?, region: grant.region.clone() }))
    }
}

/// A region's place in memory, and rights.
type RegionKey = (usize, u8);

/// What is registered.
#[derive(Debug, Default)]
struct RegisteredRegions {
    lent: HashMap<RegionKey, Weak<Registered>>,
    /// Of what was made ready: nobody knows its key; `None` while it is being made.
    spare: HashMap<RegionKey, Option<Arc<Registered>>>,
}

/// The registrations of a device.
#[derive(Clone, Debug, Default)]
pub(super) struct Registrations(Arc<Mutex<RegisteredRegions>>);

impl Registrations {
    fn known(&self) -> MutexGuard<'_, RegisteredRegions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The region of a grant, registered with exactly its rights.
    pub fn get(
        &self,
        domain: &Arc<ib::ProtectionDomain>,
        grant: &Grant,
    ) -> Result<Arc<Registered>, SetupError> {
        let key = key(grant);
        // Held while registering: two peers that come at once must not both pin the region.
        let mut known = self.known();
        if let Some(registered) = known.lent.get(&key).and_then(Weak::upgrade) {
            return Ok(registered);
        }
        known.lent.retain(|_, registered| registered.strong_count() > 0);
        let registered = match known.spare.get_mut(&key).and_then(Option::take) {
            Some(spare) => {
                self.replace(domain.clone(), grant.clone());
                spare
            }
            None => Registered::new(domain, grant)?,
        };
        known.lent.insert(key, Arc::downgrade(&registered));
        Ok(registered)
    }

    /// From now on the grant has a spare registration, as long as the guard lives.
    pub fn make_ready(&self, domain: &Arc<ib::ProtectionDomain>, grant: &Grant) -> Result<Ready, SetupError> {
        let spare = Registered::new(domain, grant)?;
        let key = key(grant);
        self.known().spare.insert(key, Some(spare));
        Ok(Ready { registrations: self.clone(), key })
    }

    /// Makes a new spare on a thread of its own. Without one, because the system refuses, what it stood for
    /// is registered when it is lent.
    fn replace(&self, domain: Arc<ib::ProtectionDomain>, grant: Grant) {
        let registrations = self.clone();
        let make = move || {
            let Ok(spare) = Registered::new(&domain, &grant) else { return };
            // Its guard may be gone meanwhile.
            if let Some(place) = registrations.known().spare.get_mut(&key(&grant)) {
                *place = Some(spare);
            }
        };
        let _ = std::thread::Builder::new().name("longarm-register".into()).spawn(make);
    }
}

/// Keeps a spare registration.
#[derive(Debug)]
pub(super) struct Ready {
    registrations: Registrations,
    key: RegionKey,
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.registrations.known().spare.remove(&self.key);
    }
}

fn key(grant: &Grant) -> RegionKey {
    (grant.region.memory().address() as usize, grant.rights.bits())
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
