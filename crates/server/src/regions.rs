//! The regions that a server lends: control page, index, arena. Index and arena are as large as either may
//! become; pages cost memory when first touched, and the budget bounds both together.

use std::path::Path;
use std::sync::Arc;

use longarm_base::limits::{LINE, SEGMENT_BYTES, SEGMENTS_MAX};
use longarm_index::control::layout::BYTES as CONTROL_BYTES;
use longarm_memory::{Backing, Region, RegionError, RegionOptions};

use crate::options::{Pages, ServerOptions, StartError};
use crate::saved::Saved;
use crate::shared::Lent;

/// Largest index: where every item is small, tables old and new stand beside each other while it grows.
const INDEX_TIMES: u64 = 2;

/// Creates all three.
pub(crate) fn create(options: &ServerOptions, sum_key: u64) -> Result<Lent, StartError> {
    let arena_bytes = arena_bytes(options.memory);
    if let Some(dir) = &options.arena_dir {
        return in_files(dir, (options.memory * INDEX_TIMES, arena_bytes), sum_key);
    }
    let region = |name: &str, bytes, backing| create_one(name, bytes, backing);
    let (index, arena) = match options.pages {
        Pages::Ordinary => ordinary(options.memory, arena_bytes, Backing::SmallPages)?,
        // The pool's pages are reserved in full, so the index gets no more than the limit.
        Pages::Huge => (
            region("longarm-index", options.memory, Backing::HugePages)?,
            region("longarm-arena", arena_bytes, Backing::HugePages)?,
        ),
        Pages::HugeIfAvailable => {
            let huge = region("longarm-index", options.memory, Backing::HugePages)
                .and_then(|index| Ok((index, region("longarm-arena", arena_bytes, Backing::HugePages)?)));
            match huge {
                Ok(regions) => regions,
                Err(_) => ordinary(options.memory, arena_bytes, Backing::Memory)?,
            }
        }
    };
    Ok(Lent { control: region("longarm-control", CONTROL_BYTES, Backing::Memory)?, index, arena })
}

fn ordinary(
    memory: u64,
    arena_bytes: u64,
    backing: Backing,
) -> Result<(Arc<Region>, Arc<Region>), RegionError> {
    Ok((
        create_one("longarm-index", memory * INDEX_TIMES, backing.clone())?,
        create_one("longarm-arena", arena_bytes, backing)?,
    ))
}

fn create_one(name: &str, bytes: u64, backing: Backing) -> Result<Arc<Region>, RegionError> {
    Region::create(&RegionOptions { name: name.into(), bytes, backing }).map(Arc::new)
}

/// Whole segments for the limit, and those of the table.
fn arena_bytes(memory: u64) -> u64 {
    let segments = memory.div_ceil(SEGMENT_BYTES);
    let table = (segments * LINE).div_ceil(SEGMENT_BYTES);
    (segments + table).min(SEGMENTS_MAX) * SEGMENT_BYTES
}

fn in_files(dir: &Path, (index_bytes, arena_bytes): (u64, u64), sum_key: u64) -> Result<Lent, StartError> {
    let saved =
        Saved { layout: Saved::LAYOUT, sum_key, control_bytes: CONTROL_BYTES, index_bytes, arena_bytes };
    saved.create(dir)?;
    let create = || -> Result<Lent, StartError> {
        let file = |path, bytes| {
            // A file that was left there would be taken for fresh memory.
            match std::fs::exists(&path) {
                Ok(false) => Ok(create_one("longarm-file", bytes, Backing::File(path))?),
                _ => Err(StartError::Directory {
                    dir: dir.display().to_string(),
                    text: format!("{} is there already: remove it first", path.display()),
                }),
            }
        };
        Ok(Lent {
            control: file(Saved::control_path(dir), CONTROL_BYTES)?,
            index: file(Saved::index_path(dir), index_bytes)?,
            arena: file(Saved::segments_path(dir), arena_bytes)?,
        })
    };
    create().inspect_err(|error| {
        // What was there before us stays there.
        if !matches!(error, StartError::Directory { .. }) {
            Saved::remove(dir);
        } else {
            let _ = std::fs::remove_file(dir.join(Saved::FILE));
        }
    })
}
