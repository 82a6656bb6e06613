//! What an orderer says of itself.

use longarm_base::Term;

/// Where an orderer is with its tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OrderedStage {
    /// It follows nobody.
    #[default]
    Resting,
    /// It builds its tree, of which so many hundredths of the segments were looked at.
    Building(u8),
    /// It answers scans.
    Ready,
    /// The tree outgrew its memory.
    Full,
}

/// The figures of an orderer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OrderedStats {
    /// Where it is.
    pub stage: OrderedStage,
    /// The term that it follows.
    pub term: Term,
    /// Items in the tree.
    pub items: u64,
    /// Markers of deleted keys.
    pub markers: u64,
    /// Bytes of its nodes.
    pub bytes: u64,
    /// Levels.
    pub height: u8,
    /// Entries that the leader had applied at the last look, and that the tree did not have.
    pub lag: u64,
    /// Steps published.
    pub steps: u64,
    /// Entries taken from streams.
    pub entries: u64,
    /// Trees that were built.
    pub builds: u64,
    /// Gaps that were found.
    pub gaps: u64,
    /// Pages answered.
    pub pages: u64,
    /// Pages that were made again because something in their range had changed.
    pub again: u64,
    /// Requests that were told that their range is contended.
    pub contended: u64,
}
