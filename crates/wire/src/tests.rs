//! Messages come back as they were; anything else is refused and never panics.

use longarm_base::{Csn, Nanos, UnixMillis};
use proptest::prelude::*;

use crate::*;

proptest! {
    #[test]
    fn requests_come_back(
        kind in 1u8..6, condition in 0u8..4, keep_ttl: bool, operation: u64, argument: u64, ttl_ms: u64,
        key in proptest::collection::vec(any::<u8>(), 1..100),
            value in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut request = Request::new(RequestKind::Put, operation);
        request.kind = [RequestKind::Put, RequestKind::Delete, RequestKind::Increment, RequestKind::Touch,
            RequestKind::Get][kind as usize - 1];
        request.condition =
            [Condition::Always, Condition::Absent, Condition::Present,
                Condition::Version][condition as usize];
        (request.keep_ttl, request.argument, request.ttl_ms) = (keep_ttl, argument, ttl_ms);
        (request.key, request.value) = (&key, &value);
        let message = [&request.header()[..], &key, &value].concat();
        prop_assert_eq!(Request::decode(&message), Ok(request));
        for cut in 0..message.len() {
            prop_assert!(Request::decode(&message[..cut]).is_err());
        }
    }

    #[test]
    fn responses_come_back(status in 0u8..9, operation: u64, csn: u64, number: i64, stamp: u64, unix: u64,
        value in proptest::collection::vec(any::<u8>(), 0..300)) {
        let statuses = [Status::Ok, Status::NotFound, Status::Mismatch, Status::NotANumber, Status::Overflow,
            Status::OutOfMemory, Status::Closing, Status::Forgotten, Status::Invalid];
        let response = Response { status: statuses[status as usize], operation, csn: Csn(csn), number,
            stamp: Nanos(stamp), unix: UnixMillis(unix), value: &value };
        let message = [&response.header()[..], &value].concat();
        prop_assert_eq!(Response::decode(&message), Ok(response));
        for cut in 0..message.len() {
            prop_assert!(Response::decode(&message[..cut]).is_err());
        }
    }

    #[test]
    fn greetings_come_back(words: [u64; 8], name in "[a-z]{0,64}") {
        let hello = Hello { session: words[0], ring_bytes: words[1], name };
        prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        let welcome = Welcome { boot: words[0], sum_key: words[1], stamp: words[2], lease: words[3],
            read_bound: words[4], ring_bytes: words[5], pid: words[6], wants_hints: words[7] };
        prop_assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
    }

    #[test]
    fn garbage_is_an_error_or_a_whole_message(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = (Hello::decode(&bytes), Welcome::decode(&bytes), Response::decode(&bytes));
        if let Ok(request) = Request::decode(&bytes) {
            prop_assert_eq!([&request.header()[..], request.key, request.value].concat().len(), bytes.len());
        }
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = Hello { session: 1, ring_bytes: 2, name: "n".into() }.encode();
    bytes[0] ^= 0xFF;
    assert!(Hello::decode(&bytes).expect_err("version").0.contains("versions"));
}
