//! The orderer's thread, as orders come: what it shows of a tree.

use std::sync::Arc;
use std::time::Duration;

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_engine::testing::{SUM_KEY, memory, sums};
use longarm_fabric::{AnyQp, Channel};
use longarm_host::now;
use longarm_index::tree::{TreeOptions, Unit, newest_header};
use longarm_memory::Mapped;

use super::{TERM, World};
use crate::door::Door;
use crate::order::{Kept, Order, Orders, StableOf};
use crate::orderer::{Orderer, OrdererOptions};

/// Gives an order, and says whether the tree's header comes to be there.
fn shows(orders: &Orders<AnyQp>, order: Order<AnyQp>, tree: &Mapped, wanted: bool) -> bool {
    orders.give(order);
    let begun = now();
    loop {
        let shown = newest_header(tree, &sums()).is_some();
        if shown == wanted || now().since(begun) > Nanos::from_millis(5_000) {
            return shown;
        }
        longarm_host::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_tree_that_is_not_kept_is_not_shown() {
    let mut world = World::new();
    world.put(0, 1);
    let tree = memory(4 << 20);
    let channel = Channel::new().expect("an event counter");
    let (orders, door) = (Arc::new(Orders::new(channel.clone())), Arc::new(Door::new(channel)));
    let options = OrdererOptions {
        arena: world.entries.clone(),
        page: memory(4096),
        tree: tree.clone(),
        sum_key: SUM_KEY,
        options: TreeOptions { unit: Unit::Small, ..TreeOptions::default() },
        spin: Duration::ZERO,
        log: Arc::new(|_| ()),
    };
    let orderer = Orderer::new(options, orders.clone(), door);
    let engine = world.engine.clone();
    let stable: StableOf = Arc::new(move || engine.stable_point());
    let lead = |term, followed| Order::Lead {
        term,
        streams: 2,
        progress: world.progress.clone(),
        stable: stable.clone(),
        followed,
    };
    let later = Term::new(4, ReplicaId(1));
    let shown = std::thread::scope(|threads| {
        threads.spawn(|| orderer.run());
        let shown = [lead(later, true), Order::Prepare { kept: Kept::Nothing }, Order::Rest]
            .map(|order| [(lead(TERM, false), true), (order, false)])
            .map(|pair| pair.map(|(order, wanted)| shows(&orders, order, &tree, wanted)));
        orders.give(Order::Stop);
        shown
    });
    assert_eq!(shown, [[true, false]; 3]);
}
