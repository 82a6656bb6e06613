//! The bounds that more than one crate rests on, with the relations between them checked by the compiler.
//!
//! A bound that one file alone needs is a constant beside its use.

use core::time::Duration;

/// Bytes of one cache line, the unit in which a one-sided READ may tear.
pub const LINE: u64 = 64;
/// Bytes of one word, the unit that never tears.
pub const WORD: u64 = 8;

/// Longest key, in bytes.
pub const KEY_MAX: usize = 1024;
/// Longest value, in bytes.
pub const VALUE_MAX: usize = 64 << 20;

/// Bytes of one segment of the entry store. Entries of a segment share one size class; a larger entry
/// takes a run of whole segments.
pub const SEGMENT_BYTES: u64 = 1 << 20;
/// Largest entry that shares a segment with others; anything larger takes a run of segments.
pub const ENTRY_SHARED_MAX: u64 = SEGMENT_BYTES / 2;
/// Largest number of segments in one arena: offsets in slots have 34 bits of cache lines (1 TiB).
pub const SEGMENTS_MAX: u64 = 1 << 20;

/// Bits of a commit sequence number that a slot can hold (2.2e15 writes: seven years at ten million a
/// second).
pub const CSN_BITS: u32 = 51;
/// Largest commit sequence number.
pub const CSN_MAX: u64 = (1 << CSN_BITS) - 1;

/// Slots of one segment pair, added shared buckets included: one indicator bit and one fingerprint byte each.
pub const PAIR_SLOTS_MAX: usize = 32;
/// Hash tables that may be live at once: one in use, and those a resize is moving pairs between.
pub const TABLES_MAX: usize = 4;

/// Levels of an ordered tree, the leaves' included: inner nodes have at least a dozen children where keys are
/// short, and at least three where all are as long as may be.
pub const TREE_HEIGHT_MAX: usize = 12;
/// Streams of one term whose applied positions a tree's header has room for.
pub const TREE_STREAMS_MAX: usize = 1024;

/// Longest READ that a client posts at once; larger values are fetched in pieces of this size.
pub const READ_MAX: u32 = 256 << 10;
/// Work requests a queue pair may have outstanding.
pub const QUEUE_DEPTH: usize = 256;
/// Bound on how far the numbers of a client's operations run ahead: a number that is used is above that of
/// the client's oldest operation without an answer by less than this. So a server keeps the outcomes of
/// operations that are less than this behind a session's newest, and runs none that is further behind (L17).
pub const OPERATIONS_AHEAD: u64 = 256;
/// Clients one server accepts at once, if it is told to.
pub const CLIENTS_MAX: usize = 65_536;
/// Clients one server accepts at once, if it is not told how many.
pub const CLIENTS: usize = 1024;
/// How far the rate of a clock may be from true, in millionths (X4): what crystals differ by, a
/// hundred times. All leases, promises and quarantines rest on it.
pub const DRIFT_PPM: u64 = 10_000;
/// The shortest loss window: in `async` mode a loss of power loses writes that were all taken within it.
pub const LOSS_WINDOW_MIN: Duration = Duration::from_millis(10);
/// The longest loss window.
pub const LOSS_WINDOW_MAX: Duration = Duration::from_secs(60);
/// The loss window of a server, or a cluster, that is told of none.
pub const LOSS_WINDOW: Duration = Duration::from_millis(100);
/// How often an operation is tried again within its deadline before the client says so.
pub const RETRIES_MAX: u32 = 1024;

const _: () = {
    assert!(LINE.is_multiple_of(WORD));
    assert!(SEGMENT_BYTES.is_multiple_of(LINE));
    assert!(SEGMENTS_MAX * SEGMENT_BYTES <= (1 << 34) * LINE, "a slot's offset reaches every segment");
    assert!(ENTRY_SHARED_MAX <= SEGMENT_BYTES);
    assert!((VALUE_MAX as u64) < SEGMENTS_MAX * SEGMENT_BYTES);
    assert!(CSN_BITS < 64);
    assert!(PAIR_SLOTS_MAX <= 32, "indicator bits share their word with the flags and the version count");
    assert!(READ_MAX as u64 <= SEGMENT_BYTES);
    assert!(LOSS_WINDOW_MIN.as_nanos() <= LOSS_WINDOW.as_nanos());
    assert!(LOSS_WINDOW.as_nanos() <= LOSS_WINDOW_MAX.as_nanos());
    assert!(READ_MAX as u64 >= LINE * (PAIR_SLOTS_MAX as u64 + 1), "one READ fetches a whole segment");
};
