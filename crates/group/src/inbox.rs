//! Where other threads put connections and followers, which a thread takes up between two rounds.

use std::sync::atomic::{AtomicBool, Ordering};

use longarm_host::Mutex;

/// One thread's inbox. A look into an empty inbox takes no lock.
#[derive(Debug)]
pub struct Inbox<T> {
    /// What was put into the inbox; `None` once it is closed.
    new: Mutex<Option<Vec<T>>>,
    has_new: AtomicBool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        Inbox { new: Mutex::new(Some(Vec::new())), has_new: AtomicBool::new(false) }
    }
}

impl<T> Inbox<T> {
    /// Puts a thing into the inbox. Drops it if the inbox is closed, since the thread will not look again.
    pub fn put(&self, thing: T) {
        match &mut *self.new.lock() {
            Some(new) => new.push(thing),
            None => return drop(thing),
        }
        // Release: pairs with the Acquire of `take`; the lock orders the rest.
        self.has_new.store(true, Ordering::Release);
    }

    /// Takes all that was put into the inbox since the last call, in order.
    pub fn take(&self) -> Vec<T> {
        // Acquire: pairs with the Release of `put`.
        if !self.has_new.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut new = self.new.lock();
        // Relaxed: under the lock.
        self.has_new.store(false, Ordering::Relaxed);
        new.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Closes the inbox, since its thread takes nothing any more: what is in it, and all that comes, is
    /// dropped.
    pub fn close(&self) {
        let left = self.new.lock().take();
        drop(left);
    }
}
