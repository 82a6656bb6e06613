//! Judges a request by the key's item, from values alone, in one way for a server of its own and for the
//! leader of a group.

use longarm_base::{Csn, UnixMillis};
use longarm_wire::{Condition, Request, RequestKind, Status};

use crate::outcome::Outcome;

/// The live item that a request is about.
#[derive(Clone, Copy, Debug)]
pub struct LiveItem {
    pub csn: Csn,
    pub expiry: UnixMillis,
    /// Its value as a number, if it is one. Only an INCREMENT asks for it.
    pub number: Option<i64>,
}

/// The judgement of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judged<'a> {
    /// Answers without writing.
    Answer(Outcome),
    /// Gives the key this value. The answer tells `number`.
    Store { value: NewValue<'a>, expiry: UnixMillis, number: i64 },
    /// Removes the key.
    Remove,
}

/// The value that a key gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewValue<'a> {
    /// The value of the request.
    Given(&'a [u8]),
    /// A number, in decimal.
    Decimal(i64),
    /// The value that the key has.
    Kept,
}

/// Judges a PUT, DELETE, INCREMENT or TOUCH. `expiry` is what the request's time to live gives: a time that
/// no clock reaches was refused before, whatever is stored.
pub fn judge<'a>(request: &Request<'a>, expiry: UnixMillis, live: Option<LiveItem>) -> Judged<'a> {
    let answer = |status| Judged::Answer(Outcome::of(status));
    let csn = live.map_or(Csn::NONE, |live| live.csn);
    let kept = live.map_or(UnixMillis::NEVER, |live| live.expiry);
    let holds = holds(request.condition, request.argument, csn);
    match request.kind {
        RequestKind::Put if !holds => Judged::Answer(Outcome::mismatch(csn)),
        RequestKind::Put => {
            let expiry = if request.keep_ttl { kept } else { expiry };
            Judged::Store { value: NewValue::Given(request.value), expiry, number: 0 }
        }
        RequestKind::Increment => match live.map_or(Some(0), |live| live.number) {
            None => answer(Status::NotANumber),
            Some(before) => match before.checked_add(request.argument as i64) {
                None => answer(Status::Overflow),
                Some(after) => Judged::Store { value: NewValue::Decimal(after), expiry: kept, number: after },
            },
        },
        // A version that was asked for is absent; with any other condition there is nothing to delete.
        RequestKind::Delete if live.is_none() => match request.condition {
            Condition::Version if request.argument != 0 => Judged::Answer(Outcome::mismatch(Csn::NONE)),
            _ => answer(Status::NotFound),
        },
        _ if live.is_none() => answer(Status::NotFound),
        _ if !holds => Judged::Answer(Outcome::mismatch(csn)),
        RequestKind::Delete => Judged::Remove,
        // A new version, because a client that cached the old one must see the new expiry.
        _ => Judged::Store { value: NewValue::Kept, expiry, number: 0 },
    }
}

/// Whether no stored item matters to the judgement of a request.
pub fn is_blind(request: &Request<'_>) -> bool {
    request.kind == RequestKind::Put && request.condition == Condition::Always && !request.keep_ttl
}

/// Whether a condition holds for a key with this version ([`Csn::NONE`]: the key is absent).
fn holds(condition: Condition, argument: u64, csn: Csn) -> bool {
    match condition {
        Condition::Always => true,
        Condition::Absent => csn == Csn::NONE,
        Condition::Present => csn != Csn::NONE,
        Condition::Version => csn.0 == argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: UnixMillis = UnixMillis(7);
    const LATER: UnixMillis = UnixMillis(9);

    fn live(number: Option<i64>) -> Option<LiveItem> {
        Some(LiveItem { csn: Csn(5), expiry: LATER, number })
    }

    fn request(kind: RequestKind, condition: Condition, argument: u64) -> Request<'static> {
        Request { key: b"k", value: b"v", condition, argument, ..Request::new(kind, 1) }
    }

    #[test]
    fn a_put_is_judged_by_its_condition_alone() {
        let cases = [
            (Condition::Always, 0, true, true),
            (Condition::Absent, 0, false, true),
            (Condition::Present, 0, true, false),
            (Condition::Version, 5, true, false),
            (Condition::Version, 4, false, false),
            (Condition::Version, 0, false, true),
        ];
        for (condition, argument, if_there, if_not) in cases {
            let put = request(RequestKind::Put, condition, argument);
            for (item, holds) in [(live(None), if_there), (None, if_not)] {
                let csn = item.map_or(Csn::NONE, |item| item.csn);
                let expected = match holds {
                    true => Judged::Store { value: NewValue::Given(b"v"), expiry: SOON, number: 0 },
                    false => Judged::Answer(Outcome::mismatch(csn)),
                };
                assert_eq!(judge(&put, SOON, item), expected, "{put:?} {item:?}");
            }
        }
    }

    #[test]
    fn a_put_that_keeps_the_time_takes_that_of_the_item() {
        let put = Request { keep_ttl: true, ..request(RequestKind::Put, Condition::Always, 0) };
        let expiry = |item| match judge(&put, SOON, item) {
            Judged::Store { expiry, .. } => expiry,
            other => panic!("{other:?}"),
        };
        assert_eq!((expiry(live(None)), expiry(None)), (LATER, UnixMillis::NEVER));
        assert!(!is_blind(&put) && is_blind(&request(RequestKind::Put, Condition::Always, 0)));
    }

    #[test]
    fn an_increment_adds_to_a_number_and_to_nothing() {
        let by = |by: i64| request(RequestKind::Increment, Condition::Always, by as u64);
        let stored = |number, expiry| Judged::Store { value: NewValue::Decimal(number), expiry, number };
        assert_eq!(judge(&by(3), SOON, live(Some(-1))), stored(2, LATER));
        assert_eq!(judge(&by(3), SOON, None), stored(3, UnixMillis::NEVER));
        let refused = |status| Judged::Answer(Outcome::of(status));
        assert_eq!(judge(&by(3), SOON, live(None)), refused(Status::NotANumber));
        assert_eq!(judge(&by(1), SOON, live(Some(i64::MAX))), refused(Status::Overflow));
    }

    #[test]
    fn a_delete_and_a_touch_want_an_item() {
        let not_found = Judged::Answer(Outcome::of(Status::NotFound));
        for kind in [RequestKind::Delete, RequestKind::Touch] {
            assert_eq!(judge(&request(kind, Condition::Always, 0), SOON, None), not_found);
            let stale = request(kind, Condition::Version, 4);
            assert_eq!(judge(&stale, SOON, live(None)), Judged::Answer(Outcome::mismatch(Csn(5))));
        }
        let delete = |argument| request(RequestKind::Delete, Condition::Version, argument);
        assert_eq!(judge(&delete(5), SOON, live(None)), Judged::Remove);
        assert_eq!(judge(&delete(0), SOON, None), not_found);
        assert_eq!(judge(&delete(5), SOON, None), Judged::Answer(Outcome::mismatch(Csn::NONE)));
        let touch = request(RequestKind::Touch, Condition::Always, 0);
        let kept = Judged::Store { value: NewValue::Kept, expiry: SOON, number: 0 };
        assert_eq!(judge(&touch, SOON, live(None)), kept);
    }
}
