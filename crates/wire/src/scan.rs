//! The messages of SCAN: a page of an ordered range, which a replica with an ordered index answers.
//!
//! A scan has a connection of its own, since a replica that does not lead answers it, and since it needs no
//! session: a page changes nothing, and may be asked for twice. Decision 30 says when a page may be answered,
//! and what the client must check afterwards.

mod answer;
mod hello;
mod limits;
mod request;
mod stats;

pub use answer::{
    SCAN_MESSAGE_MAX, ScanAnswer, ScanAnswerWriter, ScanHead, ScanItem, ScanItems, ScanStatus, ScanValue,
};
pub use hello::{ScanHello, ScanWelcome};
pub use limits::{COUNT_MAX, FAR_FROM, PAGE_BYTES_MAX, PAGE_ITEMS_MAX, page_time};
pub use request::{ScanKind, ScanRequest, TreeMoment};
pub use stats::{OrderedStage, OrderedStats};

#[cfg(test)]
mod tests;
