//! The keys of an engine, which an outsider cannot guess.

/// The keys of an engine's checksums and hashes.
#[derive(Clone, Copy)]
pub struct Keys {
    /// The key of the checksums.
    pub sum: u64,
    /// The key of the hashes.
    pub hash: u64,
}
