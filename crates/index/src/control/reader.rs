//! Copies of the control page, taken apart by a reader.

use longarm_base::limits::TABLES_MAX;
use longarm_base::{Nanos, UnixMillis};
use longarm_memory::SumKey;

use super::layout::{GEOMETRY, GEOMETRY_WORDS, MAGIC, ServerState, beat};
use crate::hash::{Discipline, Geometry, PairShape, SlotKind, Table};

/// The heartbeat line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heartbeat {
    /// The server's boot.
    pub boot: u64,
    /// Its monotonic clock when it last made progress.
    pub stamp: Nanos,
    /// What it is doing.
    pub state: ServerState,
    /// Epoch of the geometry in force.
    pub epoch: u64,
    /// Its unix clock at the stamp.
    pub unix: UnixMillis,
}

impl Heartbeat {
    /// Takes a copied line apart; `None` if it is no control page of this layout.
    pub fn parse(line: &[u8]) -> Option<Heartbeat> {
        if line.len() < 64 || word(line, beat::MAGIC) != MAGIC {
            return None;
        }
        Some(Heartbeat {
            boot: word(line, beat::BOOT),
            stamp: Nanos(word(line, beat::STAMP)),
            state: ServerState::from_word(word(line, beat::STATE))?,
            epoch: word(line, beat::EPOCH),
            unix: UnixMillis(word(line, beat::UNIX)),
        })
    }
}

fn word(bytes: &[u8], at: u64) -> u64 {
    let at = at as usize;
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Takes a copied geometry record apart; `None` if it is torn, or names tables outside an index of
/// `index_bytes`.
pub fn geometry(bytes: &[u8], sums: &SumKey, index_bytes: u64) -> Option<Geometry> {
    if bytes.len() != GEOMETRY_WORDS * 8 || word(bytes, 0) != sums.sum(GEOMETRY, &bytes[8..]) {
        return None;
    }
    let mut tables = [None; TABLES_MAX];
    for (i, place) in tables.iter_mut().enumerate() {
        let at = (3 + 5 * i) as u64 * 8;
        let (meta, base) = (word(bytes, at), word(bytes, at + 8));
        let (pairs, groups) = (word(bytes, at + 16), word(bytes, at + 24));
        let id = meta as u32;
        if id == 0 {
            break;
        }
        let kind = if meta >> 32 & 1 == 1 { SlotKind::Pointer16 } else { SlotKind::Inline64 };
        let discipline = if meta >> 40 & 1 == 1 { Discipline::OutOfPlace } else { Discipline::InPlace };
        let shape = PairShape::of(kind);
        let fits =
            pairs > 0 && pairs < 1 << 40 && base.is_multiple_of(64) && groups == Table::groups_for(pairs);
        if !fits || base.checked_add(Table::bytes_for(shape, pairs))? > index_bytes {
            return None;
        }
        *place = Some(Table { id, shape, discipline, base, pairs, groups });
    }
    tables[0]?;
    Some(Geometry { epoch: word(bytes, 8), tables, hash_key: word(bytes, 16) })
}
