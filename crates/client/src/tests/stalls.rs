//! A server that is away for a while, as its clients see it: no READ completes and no message arrives.

use std::sync::atomic::AtomicBool;

use longarm_fabric::{Broken, Completions, Granted, Op, PostError, Ticket};

use super::*;

/// Whether the server is away now; all connections share this.
#[derive(Clone, Default)]
pub struct Stalls {
    away: Arc<AtomicBool>,
    /// How long the client is off its core after each send.
    slow: Duration,
}

impl Stalls {
    /// A server that is never away, and clients that are off their core for so long behind each send.
    pub fn behind_sends(slow: Duration) -> Stalls {
        Stalls { slow, ..Stalls::default() }
    }

    /// From now on nothing reaches clients.
    pub fn begin(&self) {
        // Relaxed: a flag that publishes nothing else, as below.
        self.away.store(true, Ordering::Relaxed);
    }

    /// Brings the server back, with all that it did meanwhile.
    pub fn end(&self) {
        // Relaxed: as above.
        self.away.store(false, Ordering::Relaxed);
    }

    fn away(&self) -> bool {
        // Relaxed: as above.
        self.away.load(Ordering::Relaxed)
    }

    /// A client whose server is away as this flag says.
    pub fn connect(&self, address: &Address, options: Options) -> Client<impl Transport + use<>> {
        let stalls = self.clone();
        let transport = Wrapping(move |inner| Stalled { inner, stalls: stalls.clone() });
        Client::connect_over(transport, address, options).expect("connects")
    }
}

/// A queue pair that says nothing while its server is away.
struct Stalled {
    inner: AnyQp,
    stalls: Stalls,
}

impl QueuePair for Stalled {
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        let sends = matches!(op, Op::WriteImm { .. });
        self.inner.post(op, ticket)?;
        if sends && !self.stalls.slow.is_zero() {
            self.inner.ring();
            longarm_host::sleep(self.stalls.slow);
        }
        Ok(())
    }
    fn ring(&mut self) {
        self.inner.ring();
    }
    fn poll(&mut self, done: &mut Completions) -> usize {
        if self.stalls.away() { 0 } else { self.inner.poll(done) }
    }
    fn attend(&mut self, channel: &Channel) -> Result<(), SetupError> {
        self.inner.attend(channel)
    }
    fn ready(&mut self) -> bool {
        !self.stalls.away() && self.inner.ready()
    }
    fn wait(&mut self, timeout: Duration) {
        if self.stalls.away() { longarm_host::sleep(timeout) } else { self.inner.wait(timeout) }
    }
    fn landing(&self, at: u32, len: u32) -> &[u8] {
        self.inner.landing(at, len)
    }
    fn message(&self, buffer: u16, len: u32) -> &[u8] {
        self.inner.message(buffer, len)
    }
    fn release(&mut self, buffer: u16) {
        self.inner.release(buffer);
    }
    fn arm(&mut self) -> bool {
        self.inner.arm()
    }
    fn state(&self) -> Result<(), Broken> {
        self.inner.state()
    }
    fn granted(&self) -> &[Granted] {
        self.inner.granted()
    }
    fn revoke(&mut self) -> Result<(), SetupError> {
        self.inner.revoke()
    }
    fn describe(&self) -> String {
        format!("now and then {}", self.inner.describe())
    }
}
