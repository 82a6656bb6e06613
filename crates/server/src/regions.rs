//! The regions that a server lends: control page, index, arena. Index and arena are as large as either may
//! become; pages cost memory when first touched, and the budget bounds both together.
//!
//! A NIC must know every page at once. With a NIC both regions are locked from the start, and the index is no
//! larger than the limit. So is the memory of the tree, where an ordered index is kept.

use std::sync::Arc;

use longarm_base::RegionId;
use longarm_fabric::{Grant, Rights};
use longarm_index::control::CONTROL_REGION;
use longarm_index::control::layout::BYTES as CONTROL_BYTES;
use longarm_index::hash::layout::INDEX_REGION;
use longarm_memory::{Backing, OwnedWords, Region, RegionError, RegionOptions};
use longarm_store::progress::layout::{self as progress, PROGRESS_REGION};
use longarm_store::segment::layout::arena_bytes;
use longarm_wire::ARENA_REGION;

use crate::options::{Pages, ServerOptions};
use longarm_group::{Lent, PersistentData, StartError};

/// The largest index, in memory limits: if every item is small, old and new tables exist side by side while
/// it grows.
const INDEX_TIMES: u64 = 2;

/// The part of the memory limit that a tree may take, beside index and arena: one in so many.
const TREE_SHARE: u64 = 2;

/// Creates all three regions.
pub(crate) fn create(options: &ServerOptions) -> Result<Lent, StartError> {
    let lent = sized(options)?;
    [&lent.control, &lent.index, &lent.arena].into_iter().for_each(|region| keep_pages(options, region));
    Ok(lent)
}

/// The regions of a server that serves from persistent memory.
pub(crate) fn persistent(data: &PersistentData) -> Result<Lent, StartError> {
    let control = create_one("longarm-control", CONTROL_BYTES, Backing::Memory)?;
    Ok(Lent { control, index: data.index.clone(), arena: data.arena.clone(), progress: None })
}

/// Where a NIC will know a region, its pages stay from now on. No other thread has it yet.
fn keep_pages(options: &ServerOptions, region: &Region) {
    if options.registers() {
        // Huge pages, where there are any, must come before the NIC knows the small ones.
        region.memory().populate(0, region.bytes());
        region.memory().pin();
    }
}

/// The regions that are lent to every client, for READ. A replica's says how far its streams are, too.
pub(crate) fn lend(lent: &Lent) -> Vec<Grant> {
    let regions = [(CONTROL_REGION, &lent.control), (INDEX_REGION, &lent.index), (ARENA_REGION, &lent.arena)];
    let progress = lent.progress.as_ref().map(|region| (PROGRESS_REGION, region));
    let grant =
        |(id, region): (RegionId, &Arc<Region>)| Grant { id, region: region.clone(), rights: Rights::READ };
    regions.into_iter().chain(progress).map(grant).collect()
}

/// The page of a replica, which its leader writes.
pub(crate) fn create_page(options: &ServerOptions) -> Result<Arc<Region>, StartError> {
    of_replica(options, "longarm-page", longarm_replica::page::BYTES)
}

/// The regions of a replica: all of these, and the one in which its streams say how far they are while it
/// leads.
pub(crate) fn create_of_replica(options: &ServerOptions) -> Result<Lent, StartError> {
    let bytes = progress::bytes(options.workers + 1);
    let progress = Some(of_replica(options, "longarm-progress", bytes)?);
    Ok(Lent { progress, ..create(options)? })
}

/// The memory of a replica's ordered index. The thread that owns it discards parts of it at any time.
pub(crate) fn create_tree(options: &ServerOptions) -> Result<Arc<Region>, StartError> {
    let bytes = (options.memory / TREE_SHARE).next_multiple_of(1 << 20);
    let backing = match options.pages {
        Pages::Ordinary => Backing::SmallPages,
        Pages::HugeIfAvailable | Pages::Huge => Backing::Memory,
    };
    let region = create_one("longarm-tree", bytes, backing)?;
    keep_pages(options, &region);
    Ok(region)
}

/// A small region that other replicas WRITE or READ.
fn of_replica(options: &ServerOptions, name: &str, bytes: u64) -> Result<Arc<Region>, StartError> {
    let region = create_one(name, bytes, Backing::SmallPages)?;
    keep_pages(options, &region);
    Ok(region)
}

fn sized(options: &ServerOptions) -> Result<Lent, StartError> {
    let arena_bytes = arena_bytes(options.memory);
    let index_bytes = options.memory * if options.registers() { 1 } else { INDEX_TIMES };
    let region = |name: &str, bytes, backing| create_one(name, bytes, backing);
    let (index, arena) = match options.pages {
        Pages::Ordinary => ordinary(index_bytes, arena_bytes, Backing::SmallPages)?,
        // Pages of the pool are reserved in full, so the index gets no more than the limit.
        Pages::Huge => (
            region("longarm-index", options.memory, Backing::HugePages)?,
            region("longarm-arena", arena_bytes, Backing::HugePages)?,
        ),
        Pages::HugeIfAvailable => {
            let huge = region("longarm-index", options.memory, Backing::HugePages)
                .and_then(|index| Ok((index, region("longarm-arena", arena_bytes, Backing::HugePages)?)));
            match huge {
                Ok(regions) => regions,
                Err(_) => ordinary(index_bytes, arena_bytes, Backing::Memory)?,
            }
        }
    };
    let control = region("longarm-control", CONTROL_BYTES, Backing::Memory)?;
    Ok(Lent { control, index, arena, progress: None })
}

fn ordinary(
    index_bytes: u64,
    arena_bytes: u64,
    backing: Backing,
) -> Result<(Arc<Region>, Arc<Region>), RegionError> {
    Ok((
        create_one("longarm-index", index_bytes, backing.clone())?,
        create_one("longarm-arena", arena_bytes, backing)?,
    ))
}

fn create_one(name: &str, bytes: u64, backing: Backing) -> Result<Arc<Region>, RegionError> {
    Region::create(&RegionOptions { name: name.into(), bytes, backing }).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use longarm_memory::Words;

    use super::*;

    #[test]
    fn a_tree_keeps_the_pages_that_a_nic_will_know() {
        for (address, stay) in [("tcp://127.0.0.1:0", false), ("verbs://127.0.0.1:0", true)] {
            let addresses = vec![address.parse().expect("an address")];
            let options = ServerOptions { addresses, memory: 16 << 20, ..ServerOptions::default() };
            let tree = create_tree(&options).expect("a region");
            assert_eq!(tree.bytes(), 8 << 20);
            tree.memory().store(8, 1);
            tree.memory().discard(0, 4096);
            assert_eq!(tree.memory().next_written(0) == 0, stay, "{address}");
            assert_eq!(tree.memory().load(8), 0);
        }
    }
}
