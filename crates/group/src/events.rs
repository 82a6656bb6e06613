//! The events that the other threads of a replica tell its own thread.

use std::collections::VecDeque;

use longarm_fabric::Channel;
use longarm_host::Mutex;
use longarm_replica::Event;

/// The events that wait for the replica's own thread.
pub(crate) struct Events {
    queue: Mutex<VecDeque<Event>>,
    channel: Channel,
}

impl Events {
    pub fn new(channel: Channel) -> Events {
        Events { queue: Mutex::default(), channel }
    }

    pub fn push(&self, event: Event) {
        self.queue.lock().push_back(event);
        self.channel.notify();
    }

    pub fn take(&self) -> Option<Event> {
        self.queue.lock().pop_front()
    }
}
