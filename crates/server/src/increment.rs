//! INCREMENT: adds to a decimal value, from read to write under the lock.

use longarm_base::{Csn, UnixMillis};
use longarm_index::hash::Record;
use longarm_memory::OwnedWords;
use longarm_store::EntryPlace;
use longarm_wire::{Request, Status};

use crate::clock::Moment;
use crate::engine::{ATTEMPTS, Engine, Hand, Outcome, Short};

/// Longest decimal i64, its sign included.
pub(crate) const DIGITS_MAX: usize = 20;

impl<M: OwnedWords> Engine<M> {
    pub(crate) fn increment(
        &self,
        hand: &mut Hand<M>,
        moment: Moment,
        request: &Request<'_>,
    ) -> Result<Outcome, Short> {
        let hash = self.hash(request.key);
        for _ in 0..ATTEMPTS {
            let mut pair = self.index.lock(hash);
            let found = pair.find(request.key);
            let current = found.as_ref().map(|found| self.current(found, moment));
            let live = found.as_ref().zip(current.as_ref()).filter(|(_, current)| !current.gone);
            let before = match live.map(|(found, _)| self.number(hand, &found.record())) {
                None => 0,
                Some(Some(number)) => number,
                Some(None) => return Ok(Outcome::of(Status::NotANumber)),
            };
            let Some(after) = before.checked_add(request.argument as i64) else {
                return Ok(Outcome::of(Status::Overflow));
            };
            if pair.reserve(found.as_ref()).is_err() {
                drop(pair);
                self.make_room(hash, moment)?;
                continue;
            }
            let expiry = live.map_or(UnixMillis::NEVER, |(_, current)| current.expiry);
            let mut text = [0; DIGITS_MAX];
            let value = decimal(after, &mut text);
            // Twenty bytes: the copy is shorter than letting go of the lock and checking again.
            let item = match self.prepare(&mut hand.writer, moment, (request.key, value), hash, expiry) {
                Ok(item) => item,
                Err(refusal) => return refusal.outcome(),
            };
            let csn = self.switch(&mut hand.writer, &mut pair, found.as_ref().zip(current.as_ref()), item);
            drop(pair);
            self.mark(hash);
            return Ok(Outcome { number: after, ..Outcome::ok(csn) });
        }
        Err(Short::Wait)
    }

    /// The number that a record's value says.
    fn number(&self, hand: &mut Hand<M>, record: &Record<'_>) -> Option<i64> {
        match *record {
            Record::Inline { value, .. } => parse(value),
            Record::Entry { csn, entry, .. } if self.arena.value_len(entry, csn) > DIGITS_MAX => None,
            Record::Entry { csn, entry, .. } => self.entry_number(hand, self.arena.place(entry), csn),
        }
    }

    fn entry_number(&self, hand: &mut Hand<M>, place: EntryPlace, csn: Csn) -> Option<i64> {
        match self.store.read(place, csn, &mut hand.bytes) {
            Ok(entry) => parse(entry.value),
            Err(e) => panic!("a slot names {place:?} of csn {csn:?}: {e}"),
        }
    }
}

/// The canonical decimal number in `text`: what [`decimal`] writes, and nothing else.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let mut again = [0; DIGITS_MAX];
    (decimal(number, &mut again) == text).then_some(number)
}

/// Writes a number into the end of `text`.
pub(crate) fn decimal(number: i64, text: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut left = number.unsigned_abs();
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        text[at] = b'-';
    }
    &text[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_canonical_decimals() {
        for number in [0, 1, -1, 9, 10, -10, i64::MAX, i64::MIN] {
            let mut text = [0; DIGITS_MAX];
            assert_eq!(decimal(number, &mut text), number.to_string().as_bytes());
            assert_eq!(parse(number.to_string().as_bytes()), Some(number));
        }
        for text in ["", "+1", "01", "-0", "1 ", " 1", "9223372036854775808", "1.0", "x", "--1", "\u{ff}"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
