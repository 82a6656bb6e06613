//! Packets of a replicated PUT, as the devices count them: requests, answers and acknowledgements together. A
//! round trip to two followers inside one to the leader makes 8. FUSEE needs 25 for an update, SWARM-KV 22.

use std::io::Write as _;
use std::time::{Duration, Instant};

use longarm_client::{Client, Error, Options, Write};
use longarm_fabric::verbs::Verbs;
use longarm_fabric::{Address, Any};

use crate::cluster::{self, PORT};
use crate::{address_on, devices, nodes};

/// The PUTs of a run.
#[derive(Clone, Copy)]
struct Puts {
    count: u64,
    /// How many of them are under way at once.
    depth: u64,
}

const RUNS: [Puts; 2] = [Puts { count: 500, depth: 1 }, Puts { count: 2000, depth: 32 }];
/// The times of the group: heartbeats are so far apart that they hardly count.
const TIMES: [&str; 4] = ["--lease=2s", "--heartbeat=250ms", "--suspect=1500ms", "--election=6s"];
/// How long the packets of an idle group are counted: heartbeats and their acknowledgements.
const IDLE: Duration = Duration::from_secs(3);

/// Packets that all devices of the machine have sent.
fn sent() -> u64 {
    let devices = std::fs::read_dir("/sys/class/infiniband").expect("devices");
    let counter = |device: std::io::Result<std::fs::DirEntry>| {
        let file = device.expect("a device").path().join("ports/1/hw_counters/sent_pkts");
        std::fs::read_to_string(file).expect("a counter").trim().parse::<u64>().expect("a number")
    };
    devices.map(counter).sum()
}

/// Counts the packets and the seconds of `work`.
fn counted(work: impl FnOnce()) -> (f64, f64) {
    let (before, began) = (sent(), Instant::now());
    work();
    ((sent() - before) as f64, began.elapsed().as_secs_f64())
}

fn key(number: u64) -> [u8; 16] {
    std::array::from_fn(|i| if i < 8 { b'k' } else { (number % 1000).to_le_bytes()[i - 8] })
}

fn put(client: &mut Client, puts: Puts) {
    let Puts { count, depth } = puts;
    let (mut submitted, mut done) = (0, 0);
    while done < count {
        while submitted < count && submitted - done < depth {
            let (key, value) = (key(submitted), [submitted as u8; 32]);
            match client.submit(&Write::put(&key, &value)) {
                Ok(_) => submitted += 1,
                Err(Error::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        while let Some((_, outcome)) = client.poll() {
            outcome.expect("put");
            done += 1;
        }
    }
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_replicated_put_takes_no_more_packets_than_it_must() {
    let mut group = cluster::group(PORT + 2, TIMES);
    group.start_all();
    let addresses = nodes().map(|node| address_on(&node, PORT + 2).parse::<Address>().expect("an address"));
    let verbs = Verbs::new().with_device(devices().0.parse().expect("a device"));
    let any = Any { verbs, ..Any::default() };
    let mut client = Client::connect_group_over(any, &addresses, Options::default()).expect("connects");
    put(&mut client, Puts { count: 50, depth: 1 });
    let (idle, seconds) = counted(|| std::thread::park_timeout(IDLE));
    let background = idle / seconds;
    let mut report = format!("packets: {background:.0} a second in a group at rest");
    let mut of_each = Vec::new();
    for puts in RUNS {
        let (packets, seconds) = counted(|| put(&mut client, puts));
        let Puts { count, depth } = puts;
        let (all, own) = (packets / count as f64, (packets - background * seconds) / count as f64);
        of_each.push(own);
        report.push_str(&format!(
            "; depth {depth}: {own:.2} a PUT, {all:.2} with the group's own, {:.0} PUTs a second",
            count as f64 / seconds
        ));
    }
    // The report goes past the harness, which keeps to itself what tests print.
    let _ = writeln!(std::io::stderr(), "{report}");
    assert!(of_each[0] <= 8.2 && of_each[1] < of_each[0], "{report}\n{}", group.logs());
}
