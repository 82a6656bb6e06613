use std::os::unix::fs::PermissionsExt;

use longarm_base::{Nanos, NodeId};

use super::*;

fn timing() -> Timing {
    let ms = Nanos::from_millis;
    Timing { heartbeat: ms(5), suspect: ms(40), promise: ms(50), election: ms(500) }
}

fn three() -> Cluster {
    let members = ["3=shm:/tmp/\"odd\" c", "1=tcp://127.0.0.1:7101", "2=verbs://b:7102"];
    let members = members.map(|text| parse_member(text).expect(text)).to_vec();
    Cluster::draw(members, timing()).expect("a group")
}

fn parse(text: &str) -> Result<Cluster, String> {
    Cluster::parse(Path::new("g.toml"), text)
}

#[test]
fn what_is_written_reads_back() {
    let cluster = three();
    assert_eq!(cluster.numbers(), "1, 2, 3");
    let again = parse(&cluster.to_toml()).expect("our own text");
    assert_eq!(again, cluster);
    let extreme = Cluster { id: u64::MAX, sum_key: 0, hash_key: 1 << 63, ..cluster };
    assert_eq!(parse(&extreme.to_toml()).expect("our own text"), extreme);
}

#[test]
fn two_groups_are_never_the_same() {
    let (a, b) = (three(), three());
    assert!(a.id != b.id && a.sum_key != b.sum_key && a.hash_key != b.hash_key);
    assert!(!format!("{a:?}").contains(&a.sum_key.to_string()), "keys are not for logs");
}

#[test]
fn faults_name_file_line_and_field() {
    let good = three().to_toml();
    let id = good.lines().find(|line| line.starts_with("id")).expect("an id").to_string();
    for (from, to, part) in [
        ("format = 1", "format = 2", "g.toml:3: format: 2 is not known"),
        (id.as_str(), "", "missing field `id`"),
        (id.as_str(), "id = 7", "g.toml:4: id: invalid type"),
        (id.as_str(), "id = \"+00000000000000f\"", "g.toml:4: id: expected 16 hexadecimal digits"),
        ("lease = \"50ms\"", "lease = \"50\"", "timing.lease: \"50\" has no known unit"),
        ("lease = \"50ms\"", "leese = \"50ms\"", "leese: unknown field `leese`"),
        (
            "heartbeat = \"5ms\"",
            "heartbeat = \"50ms\"",
            "g.toml: timing: a leader is to be suspected after two",
        ),
        ("number = 2", "number = 128", "node.number: 128 names no node; expected 0 to 127"),
        ("number = 2", "number = -1", "node.number: -1 names no node"),
        ("number = 2", "number = 1", "g.toml: node: node 1 is named twice"),
        ("verbs://b:7102", "carrier-pigeon", "node.address: address \"carrier-pigeon\" names no transport"),
        ("verbs://b:7102", "tcp://127.0.0.1:7101", "address: nodes 1 and 2 are both at tcp://127.0.0.1:7101"),
        ("verbs://b:7102", "tcp://b:0", "address: tcp://b:0 of node 2 has no port"),
        ("[timing]", "[timing", "g.toml:8: "),
    ] {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from}");
        let fault = parse(&text).expect_err(to);
        assert!(fault.contains(part), "{from} to {to}: {part} is not in\n{fault}");
    }
    assert!(parse("").expect_err("empty").contains("missing field `format`"));
}

#[test]
fn a_group_has_a_possible_size() {
    let refused = |count: usize| {
        let member = |i: usize| parse_member(&format!("{i}=tcp://h:{}", 7000 + i)).expect("a member");
        Cluster::draw((0..count).map(member).collect(), timing()).err().map(|failure| failure.message)
    };
    assert_eq!(refused(1), None);
    assert_eq!(refused(9), None);
    assert!(refused(0).expect("none").contains("1 to 9 nodes, this one 0"));
    assert!(refused(10).expect("many").contains("1 to 9 nodes, this one 10"));
}

#[test]
fn members_are_a_number_and_an_address() {
    for (text, part) in [
        ("tcp://h:1", "such as 1=tcp://host:7411"),
        ("x=tcp://h:1", "\"x\" is no number of a node"),
        ("200=tcp://h:1", "expected 0 to 127"),
        ("1=h:1", "expected shm:"),
    ] {
        let fault = parse_member(text).expect_err(text);
        assert!(fault.contains(part), "{text}: {fault}");
    }
    assert_eq!(parse_member("127=tcp://h:1").expect("the last").node, NodeId(127));
}

#[test]
fn a_file_is_its_owners_and_is_never_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("g.toml");
    let cluster = three();
    cluster.create(&path).expect("written");
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let refused = three().create(&path).expect_err("it is there");
    assert!(refused.exit == Exit::System && refused.hint.contains("name another file"), "{refused:?}");
    assert_eq!(Cluster::read(&path).expect("the first"), cluster);
    let missing = Cluster::read(&dir.path().join("no.toml")).expect_err("not there");
    assert!(missing.exit == Exit::Usage && missing.hint.contains("longarm cluster init"), "{missing:?}");
}

proptest::proptest! {
    #[test]
    fn no_file_panics(text in "[a-z_.=\\[\\]\"'0-9\n #{},]{0,200}") {
        let _ = parse(&text);
    }
}
