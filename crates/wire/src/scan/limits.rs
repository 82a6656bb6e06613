//! The limits of one page.

/// The most items of a page.
pub const PAGE_ITEMS_MAX: u32 = 1024;
/// The most bytes of a page's items, as they travel.
pub const PAGE_BYTES_MAX: u32 = 128 << 10;
/// The most keys that one request counts.
pub const COUNT_MAX: u32 = 1 << 16;
/// A value of more bytes than this is far: the client READs it.
pub const FAR_FROM: usize = 4 << 10;
