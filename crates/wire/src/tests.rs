//! Messages come back as they were sent; any other bytes are refused and never panic.

use longarm_base::limits::{KEY_MAX, VALUE_MAX};
use longarm_base::{Csn, Nanos, ReplicaId, Term, UnixMillis};
use proptest::prelude::*;

use crate::*;

fn terms() -> impl Strategy<Value = Term> {
    (any::<u32>(), 0..=ReplicaId::MAX.0).prop_map(|(counter, replica)| Term::new(counter, ReplicaId(replica)))
}

fn lists() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(any::<u64>(), 0..20)
}

fn members() -> impl Strategy<Value = Members> {
    let list = proptest::collection::btree_map(0..=ReplicaId::MAX.0, "[a-z:/.0-9]{0,40}", 0..=MEMBERS_MAX);
    (terms(), any::<bool>(), list).prop_map(|(term, changed, list)| {
        let list =
            list.into_iter().map(|(replica, address)| MemberAt { replica: ReplicaId(replica), address });
        Members { term, changed, list: list.collect() }
    })
}

fn hellos() -> impl Strategy<Value = PeerHello> {
    let purposes = prop_oneof![
        Just(Purpose::Talk),
        Just(Purpose::Memory),
        Just(Purpose::Operate),
        Just(Purpose::Order),
        Just(Purpose::Disk)
    ];
    (any::<[u64; 5]>(), 0..=ReplicaId::MAX.0, terms(), purposes).prop_map(
        |([group, ring_bytes, promise, keep, life], replica, term, purpose)| PeerHello {
            group,
            replica: ReplicaId(replica),
            term,
            purpose,
            ring_bytes,
            times: GroupTimes { promise: Nanos(promise), keep: Nanos(keep) },
            life,
        },
    )
}

fn asks() -> impl Strategy<Value = Ask> {
    let streams = STREAMS_MAX as u16;
    let fetch = (terms(), 0..streams, any::<u64>());
    prop_oneof![
        (terms(), members()).prop_map(|(term, members)| Ask::PreVote { term, members }),
        (terms(), members()).prop_map(|(term, members)| Ask::Promise { term, members }),
        members().prop_map(|members| Ask::Members { members }),
        fetch.prop_map(|(term, stream, from)| Ask::Fetch { term, stream, from }),
        (terms(), terms(), lists(), 0..=streams, members()).prop_map(
            |(term, base, cuts, streams, members)| Ask::Sync { term, base, cuts, streams, members }
        ),
        (terms(), any::<u64>(), lists()).prop_map(|(term, reclaimed, floors)| Ask::Adopt {
            term,
            reclaimed,
            floors
        }),
        terms().prop_map(|term| Ask::Stand { term }),
        (terms(), members(), recalls()).prop_map(|(term, members, recall)| Ask::Recall {
            term,
            members,
            recall
        }),
        terms().prop_map(|term| Ask::Installs { term }),
        (terms(), any::<u64>()).prop_map(|(term, since)| Ask::Serves { term, since: Nanos(since) }),
        any::<(u64, u64)>().prop_map(|(life, round)| Ask::Forgot { life, round }),
    ]
}

fn recalls() -> impl Strategy<Value = Recall> {
    let stand = any::<bool>().prop_map(|lossy| Recall::Stand { lossy });
    prop_oneof![Just(Recall::PreVote), Just(Recall::Promise), stand]
}

fn disk_reports() -> impl Strategy<Value = DiskReport> {
    (terms(), any::<[u64; 2]>(), any::<[bool; 3]>()).prop_map(
        |(term, [stable, ceiling], [mixed, ready, has_memory])| DiskReport {
            term,
            mixed,
            stable: Csn(stable),
            ceiling: Csn(ceiling),
            ready,
            has_memory,
        },
    )
}

fn answers() -> impl Strategy<Value = Answer> {
    let extent = |(a, b): (u64, u64)| Extent { floor: a.min(b), len: a.max(b) };
    let extents = proptest::collection::vec(any::<(u64, u64)>().prop_map(extent), 0..20);
    let entry = |(position, offset, len): (u64, u64, u32)| EntryAt { position, offset, len };
    let entries = proptest::collection::vec(any::<(u64, u64, u32)>().prop_map(entry), 0..20);
    let held = prop_oneof![
        Just(SyncState::Nothing),
        lists().prop_map(SyncState::Base),
        Just(SyncState::Term),
        lists().prop_map(SyncState::Disk)
    ];
    prop_oneof![
        (terms(), any::<bool>()).prop_map(|(term, yes)| Answer::PreVote { term, yes }),
        (terms(), any::<bool>()).prop_map(|(term, changed)| Answer::Kept { term, changed }),
        members().prop_map(|members| Answer::Members { members }),
        (terms(), terms(), proptest::option::of(disk_reports()), extents).prop_map(
            |(term, sync, disk, streams)| Answer::Report {
                term,
                report: ReplicaReport { sync, reclaimed: 7, unix: 8, disk, streams }
            }
        ),
        entries.prop_map(|entries| Answer::Places { entries }),
        (terms(), held).prop_map(|(term, held)| Answer::Ready { term, held }),
        terms().prop_map(|term| Answer::Synced { term }),
        (terms(), terms()).prop_map(|(term, promised)| Answer::Refused { term, promised }),
        (any::<[u64; 3]>(), terms(), proptest::collection::vec((replicas(), any::<u64>()), 0..9), members())
            .prop_map(|([life, round, origin], promised, founders, members)| {
                Answer::Known { life, round, promised, origin, founders, members }
            }),
    ]
}

fn replicas() -> impl Strategy<Value = ReplicaId> {
    (0..=ReplicaId::MAX.0).prop_map(ReplicaId)
}

fn replies() -> impl Strategy<Value = OperatorReply> {
    let denies = [Deny::Busy, Deny::Member, Deny::Stranger, Deny::Last, Deny::Full, Deny::Behind, Deny::Late];
    let stays = [Stay::Leads, Stay::Stranger, Stay::Behind, Stay::Busy, Stay::Late];
    prop_oneof![
        (replicas(), terms(), any::<u64>()).prop_map(|(leader, term, gap)| OperatorReply::Moved {
            leader,
            term,
            gap: Nanos(gap)
        }),
        (0..stays.len()).prop_map(move |why| OperatorReply::Stays(stays[why])),
        proptest::option::of(replicas()).prop_map(|leader| OperatorReply::Elsewhere { leader }),
        Just(OperatorReply::Unheard),
        Just(OperatorReply::Recalls),
        (0..NoRecall::ALL.len()).prop_map(|why| OperatorReply::Rests(NoRecall::ALL[why])),
        (members(), replicas(), proptest::option::of(0..u64::MAX)).prop_map(|(members, leader, gap)| {
            OperatorReply::Changed { members, leader, gap: gap.map(Nanos) }
        }),
        (0..denies.len()).prop_map(move |why| OperatorReply::Denied(denies[why])),
    ]
}

fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![
        replicas().prop_map(|to| Order::MoveLeader { to }),
        (replicas(), "[a-z:/.0-9]{0,40}")
            .prop_map(|(replica, address)| Order::Add { member: MemberAt { replica, address } }),
        replicas().prop_map(|replica| Order::Remove { replica }),
        Just(Order::Recall),
    ]
}

/// Checks that a message can be neither shorter nor longer.
fn is_whole<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, Bad>) -> bool {
    let longer = [bytes, &[0; 8]].concat();
    (0..bytes.len()).all(|cut| decode(&bytes[..cut]).is_err()) && decode(&longer).is_err()
}

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
        let value = if request.kind == RequestKind::Put { &value[..] } else { &[] };
        (request.key, request.value) = (&key, value);
        let message = [&request.header()[..], &key, value].concat();
        prop_assert_eq!(Request::decode(&message), Ok(request));
        for cut in 0..message.len() {
            prop_assert!(Request::decode(&message[..cut]).is_err());
            let seen = (cut >= request.header().len() + key.len()).then_some(&key[..]);
            prop_assert_eq!(Request::peek_key(&message[..cut]), seen);
        }
    }

    #[test]
    fn what_a_leader_and_a_disk_say_comes_back(
        words: [u64; 7], hurry: bool, mixes: bool, failed: bool, written in lists(),
        freed in proptest::collection::vec(any::<u32>(), 0..9),
    ) {
        let [number, stable, noted, ceiling, unix, items, told] = words;
        let [stable, noted, ceiling] = [stable, noted, ceiling].map(Csn);
        let mark =
            DiskMark { number, stable, noted, ceiling, unix, items, told, hurry, mixes, written, freed };
        prop_assert_eq!(DiskMark::decode(&mark.encode()), Ok(mark.clone()));
        prop_assert!(is_whole(&mark.encode(), DiskMark::decode));
        let reply = DiskReply { kept: number, noted: told, failed };
        prop_assert_eq!(DiskReply::decode(&reply.encode()), Ok(reply));
        prop_assert!(is_whole(&reply.encode(), DiskReply::decode));
        prop_assert!(DiskReply::decode(&mark.encode()).is_err());
    }

    #[test]
    fn lists_of_keys_come_back(
        keys in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 1..100), any::<u64>()), 0..9),
    ) {
        let keys: Vec<_> =
            keys.iter().map(|(key, at)| SpilledKey { key, expiry: UnixMillis(*at) }).collect();
        let mut list = Vec::new();
        keys.iter().for_each(|key| key.encode(&mut list));
        prop_assert_eq!(SpilledKey::decode_all(&list), Ok(keys.clone()));
        for cut in 1..list.len() {
            prop_assert_ne!(SpilledKey::decode_all(&list[..cut]), Ok(keys.clone()));
        }
    }

    #[test]
    fn responses_come_back(status in 0u8..10, operation: u64, csn: u64, number: i64, stamp: u64, unix: u64,
        value in proptest::collection::vec(any::<u8>(), 0..300)) {
        let statuses = [Status::Ok, Status::NotFound, Status::Mismatch, Status::NotANumber, Status::Overflow,
            Status::OutOfMemory, Status::Closing, Status::Forgotten, Status::Invalid,
            Status::Crowded];
        let response = Response { status: statuses[status as usize], operation, csn: Csn(csn), number,
            stamp: Nanos(stamp), unix: UnixMillis(unix), value: &value };
        let message = [&response.header()[..], &value].concat();
        prop_assert_eq!(Response::decode(&message), Ok(response));
        for cut in 0..message.len() {
            prop_assert!(Response::decode(&message[..cut]).is_err());
        }
    }

    #[test]
    fn greetings_come_back(words: [u64; 11], term in terms(), name in "[a-z]{0,64}") {
        let hello = Hello { session: words[0], ring_bytes: words[1], group: words[2], fresh: words[3],
            since: words[4], name };
        prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        let agreed = VERSIONS.meet(VERSIONS).expect("one side");
        let welcome = Welcome { agreed, boot: words[0], sum_key: words[1], stamp: words[2], lease: words[3],
            read_bound: words[4], ring_bytes: words[5], pid: words[6], wants_hints: words[7],
            group: words[8], csn: words[9], keep_sessions: words[10], term: term.bits() };
        prop_assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
    }

    #[test]
    fn what_replicas_say_comes_back(hello in hellos(), ask in asks(), answer in answers()) {
        let bytes = hello.encode();
        prop_assert!(PeerHello::is(&bytes) && is_whole(&bytes, PeerHello::decode));
        prop_assert!(Hello::decode(&bytes).is_err(), "no client says so");
        prop_assert_eq!(PeerHello::decode(&bytes), Ok(hello));
        let bytes = ask.encode();
        prop_assert!(is_whole(&bytes, Ask::decode));
        prop_assert_eq!(Ask::decode(&bytes), Ok(ask));
        let bytes = answer.encode();
        prop_assert!(is_whole(&bytes, Answer::decode));
        prop_assert_eq!(Answer::decode(&bytes), Ok(answer));
    }

    #[test]
    fn what_operators_say_comes_back(order in orders(), reply in replies()) {
        prop_assert!(is_whole(&order.encode(), Order::decode));
        prop_assert_eq!(Order::decode(&order.encode()), Ok(order));
        prop_assert!(is_whole(&reply.encode(), OperatorReply::decode));
        prop_assert_eq!(OperatorReply::decode(&reply.encode()), Ok(reply));
    }

    /// Bytes that decode are the encoding of the result: a message has no other form, and no list takes more
    /// memory than its message.
    #[test]
    fn garbage_of_replicas_is_an_error_or_a_whole_message(
        kind in 0u32..9, words in proptest::collection::vec(prop_oneof![0u64..4, any::<u64>()], 0..12),
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let _ = (PeerHello::decode(&bytes), Ask::decode(&bytes), Answer::decode(&bytes));
        let mut message = u64::from(kind).to_le_bytes().to_vec();
        words.iter().for_each(|word| message.extend_from_slice(&word.to_le_bytes()));
        if let Ok(ask) = Ask::decode(&message) {
            prop_assert_eq!(ask.encode(), &message[..]);
        }
        if let Ok(answer) = Answer::decode(&message) {
            prop_assert_eq!(answer.encode(), &message[..]);
        }
        if let Ok(order) = Order::decode(&message) {
            prop_assert_eq!(order.encode(), &message[..]);
        }
        if let Ok(reply) = OperatorReply::decode(&message) {
            prop_assert_eq!(reply.encode(), message);
        }
    }

    #[test]
    fn garbage_is_an_error_or_a_whole_message(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        prop_assert!(Request::peek_key(&bytes).is_none_or(|key| !key.is_empty()));
        let _ = (Hello::decode(&bytes), Welcome::decode(&bytes), Response::decode(&bytes));
        if let Ok(request) = Request::decode(&bytes) {
            prop_assert_eq!([&request.header()[..], request.key, request.value].concat().len(), bytes.len());
        }
    }
}

/// A server keeps requests that wait, many of one client: only a PUT may be long.
#[test]
fn a_request_carries_no_more_than_its_kind_needs() {
    use RequestKind::*;
    let told = |kind, len: usize| {
        let keyless = matches!(kind, Ping | Stats | Hints | Spilled | Backup);
        let (key, value) = (if keyless { &b""[..] } else { b"k" }, vec![1; len]);
        let request = Request { key, value: &value, ..Request::new(kind, 1) };
        let message = [&request.header()[..], key, &value].concat();
        Request::decode(&message).map(|request| request.value.len()).map_err(|bad| bad.0)
    };
    let cases = [
        (Put, VALUE_MAX, "longer than allowed"),
        (Hints, HINTS_MAX * 8, "more hints"),
        (Spilled, KEY_MAX, "after a key longer"),
        (Ping, 0, "a value where none"),
        (Delete, 0, "a value where none"),
        (Increment, 0, "a value where none"),
        (Touch, 0, "a value where none"),
        (Get, 0, "a value where none"),
        (Stats, 0, "a value where none"),
    ];
    for (kind, most, bad) in cases {
        assert_eq!(told(kind, most), Ok(most), "{kind:?}");
        let refused = told(kind, most + 8).expect_err("too long");
        assert!(refused.contains(bad), "{kind:?}: {refused}");
    }
    let step = |step: u64, value: &[u8]| {
        let request = Request { argument: step, value, ..Request::new(Backup, 1) };
        Request::decode(&[&request.header()[..], value].concat()).map(|_| ()).map_err(|bad| bad.0)
    };
    assert_eq!(step(BackupStep::LetGo as u64, &[0; LET_GO_MAX * 4]), Ok(()));
    assert!(step(1, &[0; LET_GO_MAX * 4 + 4]).expect_err("too long").contains("more segments"));
    assert!(step(1, &[0; 6]).expect_err("no segments").contains("four bytes each"));
    assert!(step(0, &[0; 4]).expect_err("none belong there").contains("belong elsewhere"));
    assert!(step(3, &[0; 4]).expect_err("none belong there").contains("belong elsewhere"));
    assert!(step(4, &[]).expect_err("no step").contains("unknown step"));
    assert!(told(Hints, 12).expect_err("no hashes").contains("eight bytes each"));
}

#[test]
fn another_version_is_named() {
    let mut bytes =
        Hello { session: 1, ring_bytes: 2, group: 0, fresh: 1, since: 0, name: "n".into() }.encode();
    bytes[..4].copy_from_slice(&[9, 0, 9, 0]);
    assert!(Hello::decode(&bytes).expect_err("version").0.contains("versions"));
    assert_eq!(Versions::of_hello(&bytes), Ok(Versions { least: 9, most: 9, features: BACKUP }));
}

#[test]
fn what_is_out_of_range_is_named() {
    let hello = PeerHello {
        group: 1,
        replica: ReplicaId(2),
        term: Term::ZERO,
        purpose: Purpose::Talk,
        ring_bytes: 3,
        times: GroupTimes { promise: Nanos(4), keep: Nanos(6) },
        life: 5,
    };
    let with = |bytes: Vec<u8>, at: usize, word: u64| {
        let mut bytes = bytes;
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        bytes
    };
    let hello = |at, word| PeerHello::decode(&with(hello.encode(), at, word)).expect_err("refused").0;
    assert!(hello(0, 0x7265_6570 | (9 | 9 << 16) << 32).contains("versions"));
    assert!(hello(0, 0x7265_6570 | 9 << 32).contains("range"));
    assert!(hello(20, 128 | 1 << 32).contains("replica") && hello(20, 2 | 6 << 32).contains("purpose"));
    assert!(hello(28, 1 << Term::BITS).contains("term"));
    let ask = |ask: Ask, at, word| Ask::decode(&with(ask.encode(), at, word)).expect_err("refused").0;
    let term = Term::ZERO;
    let list = [1, 2].map(|replica| MemberAt { replica: ReplicaId(replica), address: "a".into() }).to_vec();
    let members = Members { term, changed: false, list };
    let sync = Ask::Sync { term, base: term, cuts: vec![1], streams: 1, members: members.clone() };
    assert!(ask(Ask::Stand { term }, 0, 80).contains("unknown"));
    assert!(ask(Ask::Stand { term }, 0, 1 | 1 << 32).contains("bits"));
    assert!(ask(Ask::Fetch { term, stream: 0, from: 0 }, 16, 1 << 10).contains("stream"));
    assert!(ask(sync.clone(), 24, 1025).contains("streams") && ask(sync, 32, 1025).contains("list"));
    let told = |at, word| ask(Ask::Members { members: members.clone() }, at, word);
    assert!(told(16, 7 << 8).contains("another term") && told(24, 2).contains("neither"));
    assert!(told(32, 10).contains("more members") && told(40, 200).contains("replica"));
    assert!(told(40, 3 | 2000 << 32).contains("address") && told(48, 0xFF).contains("text"));
    let twice = Members { list: [members.list[0].clone(), members.list[0].clone()].to_vec(), ..members };
    assert!(Members::decode(&twice.encode()).expect_err("refused").0.contains("twice"));
    let answer =
        |answer: Answer, at, word| Answer::decode(&with(answer.encode(), at, word)).expect_err("refused").0;
    let streams = vec![Extent { floor: 1, len: 2 }];
    assert!(
        answer(
            Answer::Report {
                term,
                report: ReplicaReport { sync: term, reclaimed: 0, unix: 0, disk: None, streams }
            },
            48,
            3
        )
        .contains("floor")
    );
    assert!(answer(Answer::PreVote { term, yes: true }, 16, 2).contains("neither"));
    assert!(answer(Answer::Ready { term, held: SyncState::Term }, 16, 4).contains("memory"));
    let entries = vec![EntryAt { position: 1, offset: 2, len: 3 }];
    assert!(answer(Answer::Places { entries: entries.clone() }, 32, 1 << 32).contains("long"));
    assert!(answer(Answer::Places { entries }, 8, 1 + PLACES_MAX as u64).contains("list"));
}
