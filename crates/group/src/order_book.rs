//! What a replica tells its ordered index, as far as that follows from what its leader says.

use std::sync::Arc;

use longarm_base::Term;
use longarm_ordered::{Kept, Order, Orders};
use longarm_replica::{KeptMemory, Prepare};

/// The orders of a replica to its ordered index; none are given if it keeps none.
pub(crate) struct OrderBook<Q> {
    orders: Option<Arc<Orders<Q>>>,
    /// The term that the memory was made ready for last, and its streams.
    pub ready: (Term, usize),
}

impl<Q> OrderBook<Q> {
    pub fn new(orders: Option<Arc<Orders<Q>>>) -> OrderBook<Q> {
        OrderBook { orders, ready: (Term::ZERO, 0) }
    }

    /// Gives an order, if there is an index.
    pub fn give(&self, order: Order<Q>) {
        if let Some(orders) = &self.orders {
            orders.give(order);
        }
    }

    /// A leader is about to write the memory.
    pub fn prepare(&mut self, prepare: &Prepare) {
        self.ready = (prepare.term, usize::from(prepare.streams));
        let kept = match prepare.kept {
            KeptMemory::Term => Kept::Term,
            KeptMemory::Base => Kept::Base { base: prepare.base, cuts: prepare.cuts.clone() },
            KeptMemory::Other | KeptMemory::Nothing => Kept::Nothing,
        };
        self.give(Order::Prepare { kept });
    }

    /// The replica leads no more.
    pub fn rest(&self) {
        self.give(Order::Rest);
    }
}
