//! A page: what the caller gets, and how it is made of an answer.

use longarm_base::EntryRef;
use longarm_wire::{Bad, ScanAnswer, ScanItem as WireItem, ScanValue};

use super::items::{Items, ScanItem, ScanItemRef};
use super::made::Made;
use super::range::Rest;
use super::token::Token;

/// About how many bytes of its key an item shares with the one before, and does not bring.
const SHARED: usize = 8;

/// The items of a page, all of which were there at one instant, and no others between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The items, in the scan's order.
    pub items: Vec<ScanItem>,
    /// Where the scan goes on; `None` at the end of its range.
    pub next: Option<Token>,
}

/// The content of an answer. Some values may be missing yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Came {
    pub(crate) items: Items,
    /// Values to READ: the number of the item, and the entry that has it.
    pub(crate) far: Vec<FarValue>,
    /// Whether the range may have more.
    pub(crate) more: bool,
    /// Of what it was made.
    pub(crate) made: Option<Made>,
}

/// A value to READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FarValue {
    /// The number of its item in the page.
    pub(crate) number: usize,
    /// The entry that has it.
    pub(crate) entry: EntryRef,
}

impl Came {
    /// A page of nothing.
    pub(crate) fn nothing() -> Came {
        Came { items: Items::default(), far: Vec::new(), more: false, made: None }
    }

    /// Takes the items out of an answer, if it answers the request for the next page of `rest`.
    pub(crate) fn take(answer: &ScanAnswer<'_>, rest: &Rest) -> Result<Came, Bad> {
        let other = answer.is_count() || answer.stats.is_some();
        if other || answer.keys_only == rest.wants_values() || answer.count > rest.limit() {
            return Err(Bad("a page that nobody asked for"));
        }
        let room =
            Items::with_capacity(answer.count as usize, answer.bytes() + answer.count as usize * SHARED);
        let mut came = Came { items: room, more: answer.head.more, ..Came::nothing() };
        let mut items = answer.items().in_order(rest.order());
        while let Some(WireItem { key, csn, expiry, value }) = items.next()? {
            // What lies between the first and the last is in the range, too, as it is in order.
            let number = came.items.len() + 1;
            if (number == 1 || number == answer.count as usize) && !rest.has(key) {
                return Err(Bad("a key of a page out of its range"));
            }
            let value = match value {
                ScanValue::None => &[],
                ScanValue::Inline(value) => value,
                ScanValue::Far(entry) => {
                    came.far.push(FarValue { number: came.items.len(), entry });
                    &[]
                }
            };
            came.items.push(&ScanItemRef { key, value, csn, expiry });
        }
        Ok(came)
    }

    /// Ends the page before the item of this number: what is left is a page of a smaller range.
    pub(crate) fn cut(&mut self, number: usize) {
        self.items.truncate(number);
        self.far.retain(|far| far.number < number);
        self.more = true;
    }

    /// Takes what is shown off what is left of the scan; nothing is left if the range has no more.
    pub(crate) fn leave(&self, rest: Rest) -> Option<Rest> {
        let last = self.items.last().filter(|_| self.more)?;
        let mut rest = rest;
        rest.shown(self.items.len() as u64, last.key);
        Some(rest).filter(|rest| !rest.is_empty())
    }

    /// The page for a caller that goes on by tokens.
    pub(crate) fn into_page(self, reverse: bool) -> Page {
        let last = self.items.last().filter(|_| self.more);
        Page { next: last.map(|last| Token::behind(last.key, reverse)), items: self.items.to_vec() }
    }
}

/// The content of an answer to a count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    pub(crate) keys: u64,
    /// The last key counted, if the range may have more.
    pub(crate) last: Option<Vec<u8>>,
}

impl Counted {
    /// Takes the count out of an answer, if it answers the request for the next count of `rest`.
    pub(crate) fn take(answer: &ScanAnswer<'_>, rest: &Rest) -> Result<Counted, Bad> {
        let inside = answer.last.is_none_or(|last| rest.has(last));
        if !answer.is_count() || answer.count > rest.limit() || !inside {
            return Err(Bad("a count that nobody asked for"));
        }
        Ok(Counted { keys: u64::from(answer.count), last: answer.last.map(<[u8]>::to_vec) })
    }
}
