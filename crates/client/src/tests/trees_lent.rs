//! Every transport lends the tree: the client makes pages alone, and they are those that a server makes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_base::ReplicaId;
use longarm_fabric::Transport;
use longarm_fabric::hook::{Counted, CountsSeen, QueuePairCounts};

use super::group::{BOUND, Three, operator};
use super::scans::fixed;
use super::scans_of_leaders::alone;
use super::{Wrapping, counted, stop};
use crate::side::Side;
use crate::{Client, ClientCounters, Options, Scan};

/// The first of the ports of the group over RDMA.
const PORT: u16 = 7301;
/// Items of the pages that are counted: one leaf has them all.
const FEW: u32 = 12;

fn options() -> Options {
    Options {
        timeout: BOUND,
        connect_timeout: BOUND,
        hint_every: 0,
        scan_side: Some(Side::Client),
        ..Options::default()
    }
}

/// What one page took.
struct Cost {
    counts: CountsSeen,
    counters: ClientCounters,
}

impl Cost {
    /// Counts a page of all items, which are these.
    fn of<T: Transport>(
        client: &mut Client<T>,
        counts: &QueuePairCounts,
        wanted: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Cost {
        let (before, counters) = (counts.see(), client.counters());
        let page = client.scan_page(&Scan::all(), None).expect("a page");
        assert!(page.items.iter().map(|item| (&item.key, &item.value)).eq(wanted), "{page:?}");
        let (after, ended) = (counts.see(), client.counters());
        let counts = CountsSeen {
            reads: after.reads - before.reads,
            write_imms: after.write_imms - before.write_imms,
            ..CountsSeen::default()
        };
        let counters = ClientCounters {
            walks: ended.walks - counters.walks,
            pages: ended.pages - counters.pages,
            ..ClientCounters::default()
        };
        Cost { counts, counters }
    }

    /// Whether the client made the page alone, and asked nobody anything: its lease may have to be renewed
    /// just then. Each value was READ, a leaf, two copies of the header, and the leader's words.
    fn is_of_a_walk(&self) -> bool {
        let walked = self.counters.walks == 1 && self.counts.write_imms == 0;
        if walked {
            assert_eq!(self.counters.pages, 0);
            assert!(self.counts.reads >= u64::from(FEW) + 4, "{} READs say too little", self.counts.reads);
        }
        walked
    }
}

/// Puts few items, and has the client make pages of them alone; the READs of the cheapest. An orderer may not
/// have the last writes yet, and a heartbeat is READ now and then.
fn makes_pages_alone<T: Transport>(client: &mut Client<T>, counts: &QueuePairCounts) -> u64 {
    let mut wanted = BTreeMap::new();
    for number in 0..FEW {
        let value = vec![number as u8; 1 + 97 * number as usize];
        client.put(&fixed(number), &value).expect("put");
        wanted.insert(fixed(number), value);
    }
    let (mut least, mut walks, begun) = (u64::MAX, 0, Instant::now());
    while walks < 20 {
        assert!(begun.elapsed() < BOUND, "{walks} pages by the client: {:?}", client.counters());
        let cost = Cost::of(client, counts, &wanted);
        if cost.is_of_a_walk() {
            (least, walks) = (least.min(cost.counts.reads), walks + 1);
        }
    }
    least
}

/// Puts more items, some longer than what is READ at once, and looks at them by either side.
fn shows_the_same_by_either_side<T: Transport>(client: &mut Client<T>) {
    for number in 0..400u32 {
        let size = if number % 40 == 0 { 9_000 } else { number as usize };
        client.put(&fixed(number), &vec![number as u8; size]).expect("put");
    }
    let scans = [Scan::all(), Scan::all().reverse(), Scan::all().page(30), Scan::prefix("key 001").page(7)];
    for scan in scans {
        let mut all = |side| {
            client.options.scan_side = Some(side);
            let (before, begun) = (client.counters().walks, Instant::now());
            loop {
                let items: Result<Vec<_>, _> = client.scan(&scan).collect();
                if side == Side::Server || client.counters().walks > before {
                    return items.expect("scan");
                }
                assert!(begun.elapsed() < BOUND, "the client makes no page");
            }
        };
        let (asked, walked) = (all(Side::Server), all(Side::Client));
        assert!(!asked.is_empty() && asked == walked, "{} and {} items", asked.len(), walked.len());
    }
    client.options.scan_side = Some(Side::Client);
    for number in 0..400 {
        client.delete(&fixed(number)).expect("delete");
    }
}

#[test]
fn a_server_alone_lends_its_tree_over_each_transport() {
    let (server, ..) = alone(|options| options.lease = Duration::from_secs(1));
    let connect = |address| counted(address, options());
    for (mut client, counts) in server.addresses().iter().map(connect) {
        assert_eq!(makes_pages_alone(&mut client, &counts), u64::from(FEW) + 4);
    }
    for (mut client, _) in server.addresses().iter().map(connect) {
        shows_the_same_by_either_side(&mut client);
    }
    stop(server);
}

/// Followers lend their trees. A replica that begins to lead zeroes the memory of its own, and a device goes
/// on to know it: what is built there once it follows again is READ as before.
fn a_group_lends_its_trees(three: &Three) {
    let operator = operator(&three.addresses);
    for _ in 0..4 {
        let counts = Arc::new(QueuePairCounts::default());
        let shared = counts.clone();
        let transport = Wrapping(move |qp| Counted::new(qp, shared.clone()));
        let mut client = Client::connect_group_over(transport, &three.addresses, options()).expect("connect");
        // The leaves of what is deleted below may stay for a while.
        makes_pages_alone(&mut client, &counts);
        shows_the_same_by_either_side(&mut client);
        three.whole();
        let next = ReplicaId(((three.leader() + 1) % 3) as u8);
        assert_eq!(operator.move_leader(next, BOUND).expect("handed over").leader, next);
        three.whole();
    }
}

#[test]
fn a_group_lends_its_trees_over_shm() {
    a_group_lends_its_trees(&Three::ordered("trees-lent"));
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_group_lends_its_trees_over_rdma() {
    a_group_lends_its_trees(&Three::ordered_over_rdma(PORT));
}
