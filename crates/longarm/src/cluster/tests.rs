use std::os::unix::fs::PermissionsExt;

use std::time::Duration;

use longarm_base::limits::LOSS_WINDOW;
use longarm_base::{Nanos, ReplicaId};
use longarm_client::Topology;
use longarm_server::Timing;

use super::*;

fn timing() -> Timing {
    let ms = Nanos::from_millis;
    Timing { heartbeat: ms(5), suspect: ms(40), promise: ms(50), election: ms(500) }
}

fn nodes() -> Vec<NodeAt> {
    let nodes = ["3=shm:/tmp/\"odd\" c", "1=tcp://127.0.0.1:7101", "2=verbs://b:7102"];
    nodes.map(|text| parse_node(text).expect(text)).to_vec()
}

fn division(groups: usize, replicas: usize) -> Division {
    Division { groups, replicas, durability: Durability::Memory, loss_window: LOSS_WINDOW }
}

fn three() -> Cluster {
    draw(nodes(), division(2, 3), timing()).expect("a cluster")
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
    let mut extreme = Cluster { place_key: 1 << 63, ..cluster };
    let group = &mut extreme.groups[1];
    (group.id, group.sum_key, group.hash_key) = (u64::MAX, 0, 1);
    group.replicas.truncate(1);
    assert!(!extreme.to_toml().contains("durability"), "a file that says nothing of it is as before");
    extreme.durability = Durability::Sync;
    assert!(extreme.to_toml().contains("\ndurability = \"sync\"\n"));
    assert_eq!(parse(&extreme.to_toml()).expect("our own text"), extreme);
}

#[test]
fn what_a_cluster_keeps_is_in_its_file() {
    let mut cluster = three();
    for durability in Durability::ALL {
        cluster.durability = durability;
        assert_eq!(durability.name().parse(), Ok(durability));
        let text = cluster.to_toml();
        assert_eq!(text.contains("loss_window = \"100ms\"\n"), durability == Durability::Async, "{text}");
        assert_eq!(parse(&text).expect("our own text"), cluster);
    }
    cluster.durability = Durability::Async;
    for millis in [10, 1500, 60_000] {
        cluster.loss_window = Duration::from_millis(millis);
        assert_eq!(parse(&cluster.to_toml()).expect("our own text"), cluster);
    }
    for millis in [0, 9, 60_001] {
        cluster.loss_window = Duration::from_millis(millis);
        let fault = parse(&cluster.to_toml()).expect_err("of no use");
        assert!(fault.starts_with("g.toml: loss_window: ") && fault.contains("10ms to 1min"), "{fault}");
    }
    // A file that does not say it has the usual one.
    cluster.loss_window = LOSS_WINDOW;
    let (text, line) = (cluster.to_toml(), "loss_window = \"100ms\"");
    assert_eq!(parse(&text.replace(line, "")).expect("as usual"), cluster);
    let at = 1 + text.lines().position(|one| one == line).expect("written");
    let mode = "durability = \"async\"";
    for (from, to, field, fault) in [
        (
            mode,
            "durability = \"sync\"",
            "loss_window",
            "it is of durability \"async\", and here that is \"sync\"",
        ),
        (mode, "", "loss_window", "it is of durability \"async\", and here that is \"memory\""),
        (line, "loss_window = \"100\"", "loss_window", "\"100\" has no known unit"),
        (line, "durability = \"async\"", "durability", "duplicate key"),
        (line, "loss_window = 100", "loss_window", "invalid type"),
    ] {
        let found = parse(&text.replace(from, to)).expect_err(to);
        assert!(found.starts_with(&format!("g.toml:{at}: {field}: ")) && found.contains(fault), "{found}");
    }
    let text = text.replace(mode, "durability = \"paper\"");
    let fault = parse(&text).expect_err("unknown");
    assert!(
        fault.contains("durability: \"paper\" is not known; expected \"memory\", \"async\", \"sync\" or"),
        "{fault}"
    );
}

fn on(replica: u8, node: u32) -> ReplicaOn {
    ReplicaOn { replica: ReplicaId(replica), node: NodeId(node) }
}

/// A group knows 128 replicas by their ids; a cluster may have more nodes than that.
#[test]
fn a_replica_has_the_number_of_its_node_where_it_can() {
    let far = |number: u32| parse_node(&format!("{number}=tcp://n{number}:1")).expect("a node");
    let nodes: Vec<NodeAt> = [3, 127, 128, 70_000].map(far).to_vec();
    let mut cluster = draw(nodes, division(1, 4), timing()).expect("a cluster");
    let placed = [on(3, 3), on(127, 127), on(0, 128), on(1, 70_000)];
    assert_eq!(cluster.groups[0].replicas, placed);
    let text = cluster.to_toml();
    assert!(text.contains("replicas = [3, 127, \"0@128\", \"1@70000\"]\n"), "{text}");
    assert_eq!(parse(&text).expect("our own text"), cluster);
    let members = cluster.members_of(&cluster.groups[0]);
    let at_last = (members[3].replica, members[3].address.to_string());
    assert_eq!(at_last, (ReplicaId(1), "tcp://n70000:1".into()));
    // Node 1 comes, and the id 1 is taken.
    cluster.nodes.push(far(1));
    cluster.groups[0].place(NodeId(1));
    assert_eq!(cluster.groups[0].replicas[4], on(2, 1));
    assert_eq!(cluster.groups[0].node_of(ReplicaId(1)), Some(NodeId(70_000)));
    assert_eq!(cluster.groups[0].on(NodeId(2)), None);
    let wrong = [
        ("[3, 128]", "128 is no replica's id, which is 0 to 127: write \"R@128\" for replica R on that node"),
        ("[3, \"4@\"]", "\"4@\" is not of the form \"R@N\""),
        ("[3, \"128@127\"]", "128 is no replica's id"),
        ("[3, \"3@127\"]", "two replicas of a group have the id 3"),
        ("[3, \"4@3\"]", "two replicas on node 3"),
        ("[3, true]", "expected the number of a node, or \"R@N\" for replica R on node N"),
    ];
    for (replicas, fault) in wrong {
        let text = text.replace("[3, 127, \"0@128\", \"1@70000\"]", replicas);
        let found = parse(&text).expect_err(replicas);
        assert!(found.contains(fault) && found.contains("replicas"), "{found}");
    }
}

/// A file as it was written before a cluster could have several groups.
const FIRST: &str = "\
format = 1
id = \"00000000000000aa\"
sum_key = \"00000000000000bb\"
hash_key = \"00000000000000cc\"

[timing]
lease = \"100ms\"
heartbeat = \"5ms\"
suspect = \"200ms\"
election = \"1s\"

[[node]]
number = 2
address = \"tcp://b:2\"

[[node]]
number = 1
address = \"tcp://a:1\"
";

#[test]
fn the_first_format_is_one_group_on_all_nodes() {
    let cluster = parse(FIRST).expect("format 1");
    assert_eq!(cluster.numbers(), "1, 2");
    let replicas = [1, 2].map(|id| on(id, id.into())).to_vec();
    assert_eq!(cluster.groups, [Group { id: 0xaa, sum_key: 0xbb, hash_key: 0xcc, replicas }]);
    assert_eq!(parse(&cluster.to_toml()).expect("format 2"), cluster);
    let node = |number: u32| format!("\n[[node]]\nnumber = {number}\naddress = \"tcp://n{number}:1\"\n");
    let many: String = (3..200).map(node).collect();
    let fault = parse(&format!("{FIRST}{many}")).expect_err("more replicas than there are ids");
    assert!(fault.contains("a group has 1 to 9 replicas, this one 199"), "{fault}");
    let mixed = format!("{FIRST}\n[[group]]\nid = \"00000000000000aa\"\n");
    assert!(parse(&mixed).expect_err("of both").contains("unknown field `group`"));
}

#[test]
fn clients_find_groups_where_nodes_have_them() {
    let mut cluster = three();
    cluster.groups[0].replicas = vec![on(2, 2), on(1, 1)];
    let topology = Topology::from(&cluster);
    let found: Vec<_> = topology.groups().iter().map(|group| (group.id, group.addresses.len())).collect();
    assert_eq!(found, [(cluster.groups[0].id, 2), (cluster.groups[1].id, 3)]);
    assert_eq!(topology.groups()[0].addresses[0].to_string(), "verbs://b:7102");
    assert_eq!(cluster.groups_on(NodeId(3)).count(), 1);
}

#[test]
fn two_clusters_are_never_the_same() {
    let (a, b) = (three(), three());
    assert_ne!(a.place_key, b.place_key);
    for (a, b) in a.groups.iter().zip(&b.groups) {
        assert!(a.id != b.id && a.sum_key != b.sum_key && a.hash_key != b.hash_key);
    }
    assert_ne!(a.groups[0].sum_key, a.groups[1].sum_key);
    assert!(!format!("{a:?}").contains(&a.groups[0].sum_key.to_string()), "keys are not for logs");
}

#[test]
fn faults_name_file_line_and_field() {
    let good = three().to_toml();
    let first = |field: &str| good.lines().find(|line| line.starts_with(field)).expect(field).to_string();
    let (id, replicas, place) = (first("id"), first("replicas"), first("place_key"));
    for (from, to, part) in [
        ("format = 2", "format = 3", "g.toml:3: format: 3 is not known; this program knows 1 and 2"),
        ("format = 2", "format = 1", "unknown field `"),
        (place.as_str(), "", "missing field `place_key`"),
        (place.as_str(), "place_key = 7", "g.toml:5: place_key: invalid type"),
        (id.as_str(), "", "missing field `id`"),
        (id.as_str(), "id = \"+00000000000000f\"", "group.id: expected 16 hexadecimal digits"),
        (replicas.as_str(), "replicas = []", "replicas: a group has 1 to 9 replicas, this one 0"),
        (replicas.as_str(), "replicas = [1, 2, 1]", "replicas: a group has two replicas on node 1"),
        (replicas.as_str(), "replicas = [1, 2, 4]", "replicas: node 4 is not of the cluster: it has 1, 2, 3"),
        (replicas.as_str(), "replicas = [300]", "group.replicas: 300 is no replica's id"),
        ("lease = \"50ms\"", "lease = \"50\"", "timing.lease: \"50\" has no known unit"),
        ("lease = \"50ms\"", "leese = \"50ms\"", "leese: unknown field `leese`"),
        (
            "heartbeat = \"5ms\"",
            "heartbeat = \"50ms\"",
            "g.toml: timing: a leader is to be suspected after two",
        ),
        ("number = 2", "number = 4294967296", "4294967296 names no node; expected 0 to 4294967295"),
        ("number = 2", "number = -1", "node.number: -1 names no node"),
        ("number = 2", "number = 1", "g.toml: node: node 1 is named twice"),
        ("verbs://b:7102", "carrier-pigeon", "node.address: address \"carrier-pigeon\" names no transport"),
        ("verbs://b:7102", "tcp://127.0.0.1:7101", "address: nodes 1 and 2 are both at tcp://127.0.0.1:7101"),
        ("verbs://b:7102", "tcp://b:0", "address: tcp://b:0 of node 2 has no port"),
        ("[timing]", "[timing", "g.toml:7: "),
    ] {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from}");
        let fault = parse(&text).expect_err(to);
        assert!(fault.contains(part), "{from} to {to}: {part} is not in\n{fault}");
    }
    assert!(parse("").expect_err("empty").contains("missing field `format`"));
}

#[test]
fn a_cluster_has_a_possible_size() {
    let refused = |count: usize, groups, replicas| {
        let member = |i: usize| parse_node(&format!("{i}=tcp://h:{}", 7000 + i)).expect("a member");
        let drawn = draw((0..count).map(member).collect(), division(groups, replicas), timing());
        drawn.err().map(|failure| failure.message)
    };
    assert_eq!(refused(1, 1, 1), None);
    assert_eq!(refused(9, 1, 9), None);
    assert_eq!(refused(12, 64, 3), None);
    for (count, groups, replicas, part) in [
        (0, 1, 1, "and there are 0 nodes"),
        (2, 1, 3, "--replicas 3: a group has 1 to 9, each on another node, and there are 2 nodes"),
        (12, 1, 10, "--replicas 10"),
        (3, 65, 3, "--groups 65: a cluster has 1 to 64"),
        (3, 0, 3, "--groups 0"),
    ] {
        let fault = refused(count, groups, replicas).expect(part);
        assert!(fault.contains(part), "{fault}");
    }
}

#[test]
fn nodes_are_a_number_and_an_address() {
    for (text, part) in [
        ("tcp://h:1", "such as 1=tcp://host:7411"),
        ("x=tcp://h:1", "\"x\" is no number of a node"),
        ("-1=tcp://h:1", "expected 0 to 4294967295"),
        ("1=h:1", "expected shm:"),
    ] {
        let fault = parse_node(text).expect_err(text);
        assert!(fault.contains(part), "{text}: {fault}");
    }
    assert_eq!(parse_node("4294967295=tcp://h:1").expect("the last").node, NodeId(u32::MAX));
}

#[test]
fn a_file_is_its_owners_and_is_never_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("g.toml");
    let cluster = three();
    create(&cluster, &path).expect("written");
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let refused = create(&three(), &path).expect_err("it is there");
    assert!(refused.exit == Exit::System && refused.hint.contains("name another file"), "{refused:?}");
    assert_eq!(read(&path).expect("the first"), cluster);
    let missing = read(&dir.path().join("no.toml")).expect_err("not there");
    assert!(missing.exit == Exit::Usage && missing.hint.contains("longarm cluster init"), "{missing:?}");
}

proptest::proptest! {
    #[test]
    fn no_file_panics(text in "[a-z_.=\\[\\]\"'0-9\n #{},]{0,200}") {
        let _ = parse(&text);
    }
}
