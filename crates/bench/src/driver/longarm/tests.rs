//! Every kind of benchmark for a fraction of a second against a real server, over both transports.

use longarm_server::{Server, ServerOptions};

use super::*;
use crate::open::{TargetOptions, open};
use crate::workload::Mix;
use crate::{Pace, Plan, Sweep, run};

/// A server in this process, on both transports.
fn server(name: &str, memory: u64) -> Server {
    let socket = std::env::temp_dir().join(format!("longarm-bench-{name}-{}.sock", std::process::id()));
    let addresses = vec![Address::Shm(socket), Address::Tcp("127.0.0.1:0".into())];
    Server::start(ServerOptions { addresses, memory, ..ServerOptions::default() }).expect("a server")
}

fn targets(server: &Server) -> Vec<Box<dyn TargetFactory>> {
    let opened =
        |address: &Address| open(&address.to_string(), &TargetOptions::default()).expect("an address");
    server.addresses().iter().map(opened).collect()
}

fn quick() -> Plan {
    Plan { records: 2000, warmup_seconds: 0.01, seconds: 0.05, runs: 1, verify_every: 1, ..Plan::default() }
}

#[test]
fn every_mix_runs_in_every_loop_over_every_transport() {
    let server = server("mixes", 64 << 20);
    let targets = targets(&server);
    for mix in [Mix::A, Mix::B, Mix::C, Mix::D, Mix::F, Mix::Reads(0), Mix::Reads(1000)] {
        for (clients, depth, pace) in
            [(1, 1, Pace::Closed), (2, 32, Pace::Closed), (1, 4, Pace::Poisson(2000.0))]
        {
            let plan = Plan { mix, clients, depth, pace, ..quick() };
            let report = run(&plan, &targets).expect("a benchmark");
            assert!(report.is_clean(), "{mix:?} {pace:?}");
            for result in &report.points[0].results {
                assert!(result.summary.throughput.min > 0.0, "{mix:?} {pace:?} {}", result.target);
                assert_eq!(result.server.items, Some(2000), "{}", result.target);
                assert!(result.server.used_memory.is_some_and(|used| used > 2000 * 48));
                assert_eq!(result.server.pids, [std::process::id()]);
            }
        }
    }
    assert_eq!(targets[0].describe().expect("an answer").items, Some(0), "each run took its records away");
}

#[test]
fn clients_share_connections_where_the_plan_says_so() {
    let server = server("shared", 64 << 20);
    let sharing = |address: &Address| {
        LongarmFactory::plain(address.to_string(), address.clone(), Duration::from_secs(20)).sharing(Some(2))
    };
    let targets: Vec<_> = server.addresses().iter().map(sharing).collect();
    let mut connected: Vec<_> = (0..6).map(|client| targets[0].connect(client).expect("connects")).collect();
    // The server lists a client when it has welcomed it, and before it serves its first request.
    connected[5].remove(&[b"key"]).expect("nothing there is as good");
    assert_eq!(server.stats().clients.len(), 1, "clients of one thread have one connection");
    drop(connected);
    let targets: Vec<Box<dyn TargetFactory>> =
        targets.into_iter().map(|target| Box::new(target) as Box<dyn TargetFactory>).collect();
    for mix in [Mix::A, Mix::C, Mix::F, Mix::Reads(0)] {
        let plan = Plan { mix, clients: 6, connections: Some(2), ..quick() };
        let report = run(&plan, &targets).expect("a benchmark");
        assert!(report.is_clean(), "{mix:?}");
        for result in &report.points[0].results {
            assert!(result.summary.throughput.min > 0.0, "{mix:?} {}", result.target);
        }
        let table = report.table(crate::Style::Plain);
        assert!(table.contains("6 client(s) over 2 shared connection(s), depth 1"), "{table}");
    }
    for (wrong, named) in [
        (Plan { connections: Some(0), ..quick() }, "connections is 0"),
        (Plan { connections: Some(2), depth: 4, ..quick() }, "depth"),
        (Plan { connections: Some(2), mix: Mix::E, ..quick() }, "scan"),
    ] {
        let refused = wrong.check().expect_err(named);
        assert!(refused.contains(named), "{refused}");
    }
}

#[test]
fn values_of_every_size_are_read_back() {
    let server = server("sizes", 256 << 20);
    let sizes = vec![0, 1, 31, 32, 33, 1024, 4096, 100_000, 3 << 20];
    let plan = Plan { records: 20, depth: 8, mix: Mix::A, sweep: Some(Sweep::ValueBytes(sizes)), ..quick() };
    let report = run(&plan, &targets(&server)).expect("a benchmark");
    assert!(report.is_clean());
    assert!(report.points.iter().all(|point| point.results.iter().all(|r| r.summary.counts.checked > 0)));
}

#[test]
fn a_batch_answers_each_operation_once_and_misses_show() {
    let server = server("batch", 64 << 20);
    for target in targets(&server) {
        let mut client = target.connect(0).expect("a connection");
        client.put(b"here", b"value").expect("a put");
        let keys: Vec<String> = (0..300).map(|i| format!("new{i}")).collect();
        let get = |key| OpRef { verb: Verb::Get, key, value: &[] };
        let mut ops = vec![get(b"here"), get(b"nowhere")];
        ops.extend(keys.iter().map(|key| OpRef { verb: Verb::Put, key: key.as_bytes(), value: b"x" }));
        ops.push(get(b"here"));
        let mut seen = vec![0; ops.len()];
        let answered = client.batch(&ops, &mut |i, answer| {
            seen[i] += 1;
            let expected = match i {
                1 => Seen::Miss,
                0 | 302 => Seen::Hit(b"value"),
                _ => Seen::Stored,
            };
            assert_eq!(answer, expected, "operation {i}");
        });
        answered.expect("a batch");
        assert!(seen.iter().all(|&times| times == 1));
        assert_eq!(target.clear(), Ok(false), "a server may be somebody else's");
        let ours: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        client.remove(&ours).expect("removed");
        client.remove(&ours).expect("not there is as good");
        assert_eq!(target.describe().expect("an answer").items, Some(1));
        client.remove(&[b"here"]).expect("removed");
    }
}

#[test]
fn a_full_server_refuses_and_the_connection_goes_on() {
    let server = server("full", 16 << 20);
    let target = &targets(&server)[0];
    let mut client = target.connect(0).expect("a connection");
    let value = vec![7; 1 << 20];
    let refused = (0..64).find_map(|i| client.put(format!("k{i}").as_bytes(), &value).err());
    assert!(matches!(refused, Some(TargetError::Refused(_))), "{refused:?}");
    let mut found = Vec::new();
    assert_eq!(client.get(b"k0", &mut found), Ok(true));
    assert!(found == value);
}

#[test]
fn nobody_there_is_said_so() {
    let target = open("shm:/nowhere/longarm.sock", &TargetOptions::default()).expect("an address");
    let error = target.describe().expect_err("nobody listens").to_string();
    assert!(error.contains("is the server running"), "{error}");
}
