//! Packets of an operation, requests, answers and acknowledgements together, as the devices count them: free
//! of the noise of clocks. FUSEE needs 5.6 to 6.6 for a search, SWARM-KV 3.6 for a GET.

use std::time::Instant;

use super::group::BOUND;
use super::rdma::packets_sent;
use super::scans::fixed;
use super::scans_of_leaders::alone;
use super::*;
use crate::Scan;
use crate::side::Side;

const ROUNDS: u64 = 64;
/// Items of a page.
const ITEMS: u32 = 10;

fn verbs(server: &Server) -> &Address {
    let is_verbs = |address: &&Address| matches!(address, Address::Verbs(_));
    server.addresses().iter().find(is_verbs).expect("one of them")
}

/// The packets of one call: the least of three counts, since a slow machine sends some packets again.
fn packets(mut each: impl FnMut(u64)) -> f64 {
    each(0);
    let mut count = || {
        let before = settled();
        (1..=ROUNDS).for_each(&mut each);
        settled() - before
    };
    let least = (0..3).map(|_| count()).min().expect("three counts");
    least as f64 / ROUNDS as f64
}

/// The counter once the last acknowledgements are sent.
fn settled() -> u64 {
    let mut last = packets_sent();
    loop {
        // No event comes on this channel: the wait lets time pass.
        Channel::new().expect("channel").wait(Duration::from_millis(20));
        let now = packets_sent();
        if now == last {
            return now;
        }
        last = now;
    }
}

#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn an_operation_takes_no_more_packets_than_it_must() {
    // The server's housekeeping sends nothing; leases are long, so no heartbeat is read meanwhile.
    let (server, ..) = serve(|_| {});
    let options = || Options { hint_every: 0, ..Options::default() };
    let connect = |options| Client::connect_over(transports(), verbs(&server), options).expect("connects");
    let mut client = connect(Options { cache: Some(0), ..options() });
    client.put(b"small", b"value").expect("put");
    client.put(b"large", &[7; 900]).expect("put");
    let inline = packets(|_| assert!(client.get(b"small").expect("get").is_some()));
    let large = packets(|_| assert!(client.get(b"large").expect("get").is_some()));
    let miss = packets(|_| assert!(client.get(b"absent").expect("get").is_none()));
    let put = packets(|i| {
        client.put(b"small", &i.to_le_bytes()).expect("put");
    });
    let mut caching = connect(options());
    let cached = packets(|_| assert!(caching.get(b"large").expect("get").is_some()));
    let found = [("inline", inline), ("large", large), ("miss", miss), ("put", put), ("cached", cached)];
    assert_eq!((inline, large, miss, cached), (2.0, 4.0, 4.0, 2.0), "{found:?}");
    assert!(put <= 4.0, "{found:?}");
    drop((client, caching));
    stop(server);
}

/// What each side takes for a lookup by the order of keys, and for a page: the READs of the client, or a
/// request and its answer.
#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn a_page_takes_no_more_packets_than_it_must() {
    // The lease is long, so no heartbeat is read meanwhile.
    let (server, ..) = alone(|options| options.lease = Duration::from_secs(4));
    let options = Options { hint_every: 0, ..Options::default() };
    let mut client = Client::connect_over(transports(), verbs(&server), options).expect("connects");
    for number in 0..ITEMS {
        client.put(&fixed(number), b"value").expect("put");
    }
    let mut costs = |side| {
        client.options.scan_side = Some(side);
        let begun = Instant::now();
        // The orderer may not have the last writes yet.
        while side == Side::Client && client.counters().walks == 0 {
            client.first().expect("a lookup");
            assert!(begun.elapsed() < BOUND, "the client makes no page");
        }
        let one = packets(|_| assert!(client.floor(&fixed(7)).expect("a lookup").is_some()));
        let page = packets(|_| {
            let page = client.scan_page(&Scan::all(), None).expect("a page");
            assert_eq!(page.items.len(), ITEMS as usize);
        });
        (one, page)
    };
    // Two copies of the header, a leaf, the values, and the leader's words.
    let reads = |values: u32| f64::from(4 + values);
    assert_eq!(costs(Side::Client), (2.0 * reads(1), 2.0 * reads(ITEMS)));
    let (one, page) = costs(Side::Server);
    assert!(one <= 4.0 && page <= 4.0, "{one} for a lookup, {page} for a page");
    stop(server);
}
