//! What a NIC does to memory for a peer: rights and bounds first, then the one access.
//!
//! Every function checks that the region is lent to this peer, that the rights cover the access, and that it
//! lies inside; a refusal has changed nothing. Alignment is the caller's promise. The NICs of
//! `tcp` and `sim` work so.

use longarm_base::RegionId;
use longarm_memory::{OwnedWords, Words};

use crate::{Grant, Rights};

/// An access that was refused, in words for the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denied(pub String);

/// The grant that covers the access.
fn check(
    grants: &[Grant],
    region: RegionId,
    offset: u64,
    len: usize,
    rights: Rights,
) -> Result<&Grant, Denied> {
    let Some(grant) = grants.iter().find(|g| g.id == region) else {
        return Err(Denied(format!("region {} is not granted", region.0)));
    };
    if !grant.rights.allow(rights) {
        return Err(Denied(format!(
            "region {} is granted with rights {:#x}, the access needs {:#x}",
            region.0,
            grant.rights.bits(),
            rights.bits()
        )));
    }
    let size = grant.region.bytes();
    // Subtraction, not addition: offset + len may overflow.
    if offset > size || len as u64 > size - offset {
        return Err(Denied(format!(
            "bytes {offset:#x}+{len:#x} are outside region {} of {size:#x}",
            region.0
        )));
    }
    Ok(grant)
}

/// Whether a READ may be executed; split from [`read`] so that the answer's head is written only then.
pub fn may_read(grants: &[Grant], region: RegionId, offset: u64, len: usize) -> Result<&Grant, Denied> {
    check(grants, region, offset, len, Rights::READ)
}

/// READ: samples the words straight into the answer.
pub fn read(grant: &Grant, offset: u64, into: &mut [u8]) {
    grant.region.memory().copy_out(offset, into);
}

/// Whether a WRITE may be executed.
pub fn may_write(grants: &[Grant], region: RegionId, offset: u64, len: usize) -> Result<&Grant, Denied> {
    check(grants, region, offset, len, Rights::WRITE)
}

/// WRITE.
pub fn write(grants: &[Grant], region: RegionId, offset: u64, bytes: &[u8]) -> Result<(), Denied> {
    let grant = may_write(grants, region, offset, bytes.len())?;
    grant.region.memory().copy_in(offset, bytes);
    Ok(())
}

/// Compare-and-swap; returns the word before.
pub fn compare_swap(
    grants: &[Grant],
    region: RegionId,
    offset: u64,
    expected: u64,
    new: u64,
) -> Result<u64, Denied> {
    let grant = check(grants, region, offset, 8, Rights::ATOMIC)?;
    Ok(grant
        .region
        .memory()
        .compare_exchange(offset, expected, new)
        .map_or_else(|found| found, |()| expected))
}

/// Fetch-and-add; returns the word before.
pub fn fetch_add(grants: &[Grant], region: RegionId, offset: u64, add: u64) -> Result<u64, Denied> {
    let grant = check(grants, region, offset, 8, Rights::ATOMIC)?;
    Ok(grant.region.memory().fetch_add(offset, add))
}

#[cfg(test)]
mod tests;
