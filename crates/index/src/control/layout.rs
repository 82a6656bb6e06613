//! Bytes of the control page.
//!
//! Line 0, the heartbeat: words that each stand for themselves, so it needs no checksum.
//! `[magic][boot][stamp][state][geometry epoch][unix ms][0][0]`. From byte 64, the geometry record, verified
//! by its checksum: `[checksum][epoch][hash key]` and four tables of five words `[id | kind << 32 |
//! discipline << 40][base] [pairs][groups][0]`.
//!
//! Writes: the server's heartbeat (line 0) and whoever changes the tables (the record, then the epoch in line
//! 0). Reads: every client, one-sidedly.
//! (1) The stamp is the server's monotonic clock in nanoseconds; it grows while the server makes progress,
//!     and only then.
//! (2) The epoch in line 0 is never newer than the record.
//! (3) The unix clock is the stamp's moment in milliseconds; it judges expiry.

use longarm_base::limits::TABLES_MAX;
use longarm_base::{Place, RegionId};

/// The region that is the control page.
pub const CONTROL_REGION: RegionId = RegionId(1);
/// Its size.
pub const BYTES: u64 = 4096;
/// First word: layout version in the low byte.
pub const MAGIC: u64 = u64::from_le_bytes(*b"LONGARM\x01");

/// Offsets of the words of line 0.
pub mod beat {
    /// [`super::MAGIC`].
    pub const MAGIC: u64 = 0;
    /// Drawn at random when the server started (X6).
    pub const BOOT: u64 = 8;
    /// Monotonic nanoseconds of the last heartbeat.
    pub const STAMP: u64 = 16;
    /// [`super::ServerState`].
    pub const STATE: u64 = 24;
    /// Epoch of the geometry record.
    pub const EPOCH: u64 = 32;
    /// Unix milliseconds of the last heartbeat.
    pub const UNIX: u64 = 40;
}

/// First byte of the geometry record.
pub const GEOMETRY: u64 = 64;
/// Words of the geometry record.
pub const GEOMETRY_WORDS: usize = 3 + 5 * TABLES_MAX;
/// Line 0.
pub const HEARTBEAT_PLACE: Place = Place::new(CONTROL_REGION, 0, 64);
/// The geometry record.
pub const GEOMETRY_PLACE: Place = Place::new(CONTROL_REGION, GEOMETRY, (GEOMETRY_WORDS * 8) as u32);

const _: () = assert!(GEOMETRY + GEOMETRY_WORDS as u64 * 8 <= BYTES);

/// What the server is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerState {
    /// Not serving yet.
    Starting,
    /// Serving.
    Serving,
    /// It said goodbye: nothing here is true any more.
    Closed,
}

impl ServerState {
    /// The word that says it.
    pub const fn word(self) -> u64 {
        match self {
            ServerState::Starting => 0,
            ServerState::Serving => 1,
            ServerState::Closed => 2,
        }
    }

    /// What a word says; `None` for words that say nothing.
    pub const fn from_word(word: u64) -> Option<ServerState> {
        match word {
            0 => Some(ServerState::Starting),
            1 => Some(ServerState::Serving),
            2 => Some(ServerState::Closed),
            _ => None,
        }
    }
}
