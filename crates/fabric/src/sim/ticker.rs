//! Events of a network that no world simulates: on threads, in real time. The conformance suite runs so.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use longarm_base::Nanos;
use longarm_host::{Mutex, Pause, now, spawn};

type TimedCall = Box<dyn FnOnce() + Send>;

/// Runs events when their time has come, on a thread of its own that ends with it.
#[derive(Debug, Default)]
pub(super) struct Ticker(Mutex<Option<Arc<TickerQueue>>>);

#[derive(Default)]
struct TickerQueue {
    events: Mutex<Events>,
    bed: Arc<Pause>,
}

#[derive(Default)]
struct Events {
    made: u64,
    order: BinaryHeap<Reverse<(Nanos, u64)>>,
    events: BTreeMap<u64, TimedCall>,
}

impl Ticker {
    pub fn at(&self, time: Nanos, event: TimedCall) {
        let inner = self.0.lock().get_or_insert_with(TickerQueue::start).clone();
        let mut events = inner.events.lock();
        events.made += 1;
        let number = events.made;
        events.order.push(Reverse((time, number)));
        events.events.insert(number, event);
        drop(events);
        inner.bed.poke();
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let Some(inner) = self.0.lock().take() {
            inner.bed.stop();
        }
    }
}

impl TickerQueue {
    fn start() -> Arc<TickerQueue> {
        let inner = Arc::new(TickerQueue::default());
        let (weak, bed) = (Arc::downgrade(&inner), inner.bed.clone());
        spawn("longarm-ticks", move || run(&weak, &bed)).expect("room for a thread");
        inner
    }

    /// Runs what is due; how long until more is.
    fn run_due(&self) -> Duration {
        loop {
            let event = {
                let mut events = self.events.lock();
                let Some(&Reverse((time, number))) = events.order.peek() else {
                    return Duration::from_secs(1);
                };
                let early = time.since(now());
                if early > Nanos(0) {
                    return Duration::from_nanos(early.0);
                }
                events.order.pop();
                events.events.remove(&number).expect("kept until it is due")
            };
            event();
        }
    }
}

fn run(inner: &Weak<TickerQueue>, bed: &Pause) {
    loop {
        let Some(wait) = inner.upgrade().map(|inner| inner.run_due()) else { return };
        if !bed.sleep(wait) {
            return;
        }
    }
}

impl std::fmt::Debug for TickerQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ticker")
    }
}
