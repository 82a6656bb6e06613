//! What a replica says of its ordered index, in a message of its own: the header of an answer, with the flag
//! of statistics, and 13 words.
//!
//! `[stage u8 | built percent u8 | height u8 | 0 u8 | 0 u32][term][items][markers][bytes][lag][steps]`
//! `[entries][builds][gaps][pages][again][contended]`

use longarm_base::Term;

use crate::codec::{Bad, Fields, take_term};

/// Where a replica is with its ordered index.
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

/// The figures of an ordered index.
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

impl OrderedStats {
    /// Appends the bytes that travel.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let (stage, percent) = match self.stage {
            OrderedStage::Resting => (0, 0),
            OrderedStage::Building(percent) => (1, percent),
            OrderedStage::Ready => (2, 0),
            OrderedStage::Full => (3, 0),
        };
        out.extend_from_slice(&[stage, percent, self.height, 0, 0, 0, 0, 0]);
        let words = [
            self.term.bits(),
            self.items,
            self.markers,
            self.bytes,
            self.lag,
            self.steps,
            self.entries,
            self.builds,
            self.gaps,
            self.pages,
            self.again,
            self.contended,
        ];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    /// Takes them.
    pub(super) fn take(fields: &mut Fields<'_>) -> Result<OrderedStats, Bad> {
        let first = fields.bytes(8)?;
        let stage = match first[..2] {
            [0, 0] => OrderedStage::Resting,
            [1, percent] if percent <= 100 => OrderedStage::Building(percent),
            [2, 0] => OrderedStage::Ready,
            [3, 0] => OrderedStage::Full,
            _ => return Err(Bad("unknown stage of an ordered index")),
        };
        if first[3..] != [0; 5] {
            return Err(Bad("bits set that mean nothing"));
        }
        let (height, term) = (first[2], take_term(fields)?);
        let mut words = [0; 11];
        for word in &mut words {
            *word = fields.u64()?;
        }
        let [items, markers, bytes, lag, steps, entries, builds, gaps, pages, again, contended] = words;
        Ok(OrderedStats {
            stage,
            term,
            items,
            markers,
            bytes,
            height,
            lag,
            steps,
            entries,
            builds,
            gaps,
            pages,
            again,
            contended,
        })
    }
}
