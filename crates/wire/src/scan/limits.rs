//! The limits of one page.

use longarm_base::Nanos;

/// The most items of a page.
pub const PAGE_ITEMS_MAX: u32 = 1024;
/// The most bytes of a page's items, as they travel.
pub const PAGE_BYTES_MAX: u32 = 128 << 10;
/// The most keys that one request counts.
pub const COUNT_MAX: u32 = 1 << 16;
/// A value of more bytes than this is far: the client READs it.
pub const FAR_FROM: usize = 4 << 10;

/// About how long a replica works on an item of a page that it makes, and a client on one that it takes: who
/// waits for the other side polls for so much longer before it sleeps.
const ITEM: Nanos = Nanos(100);

/// About how long either side works on a page of so many items.
pub fn page_time(items: u32) -> Nanos {
    Nanos(ITEM.0 * u64::from(items.min(PAGE_ITEMS_MAX)))
}
