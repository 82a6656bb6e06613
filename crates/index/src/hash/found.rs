//! A record found under the lock of its pair, as its bytes were then.

use longarm_base::EntryRef;

use super::layout::SlotKind;
use super::slot::{Record, SlotView};

/// A record found under the lock.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub(super) slot: usize,
    pub(super) kind: SlotKind,
    pub(super) bytes: [u8; 64],
    pub(super) beside: Option<EntryRef>,
}

impl Found {
    /// The record.
    pub fn record(&self) -> Record<'_> {
        match view(self.kind, &self.bytes) {
            Some(Record::Inline { csn, key, value, expiry, .. }) => {
                Record::Inline { csn, key, value, expiry, entry: self.beside }
            }
            Some(record) => record,
            None => unreachable!("a found slot was parsed when it was found"),
        }
    }

    /// Where the item stands in the arena: the entry that the slot names, or that an inline item is too.
    pub fn entry(&self) -> Option<EntryRef> {
        match self.record() {
            Record::Inline { entry, .. } => entry,
            Record::Entry { entry, .. } => Some(entry),
        }
    }
}

/// Parses a slot that was verified, or needs no verification.
pub(super) fn view(kind: SlotKind, bytes: &[u8; 64]) -> Option<Record<'_>> {
    let parsed = match kind {
        SlotKind::Inline64 => SlotView::parse_verified(bytes),
        SlotKind::Pointer16 => SlotView::parse16(bytes[..16].try_into().expect("sixteen bytes")),
    };
    match parsed {
        SlotView::Record(record) => Some(record),
        _ => None,
    }
}
