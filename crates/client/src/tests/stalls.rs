//! A server that is away for a while, as its clients see it: no READ completes and no message arrives. Or it
//! lets its connections go without a word, so that a client finds out by what it posts, and by nothing else.

use std::sync::atomic::AtomicBool;

use longarm_fabric::{Broken, Completion, Completions, Granted, Op, PostError, Ticket, WorkError};

use super::*;

/// Whether the server is away now; all connections share this.
#[derive(Clone, Default)]
pub struct Stalls {
    away: Arc<AtomicBool>,
    /// How often the server has let all connections go.
    gone: Arc<AtomicU64>,
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

    /// The server lets all connections go without a word, and is there for new ones.
    pub fn let_go(&self) {
        // Relaxed: as above.
        self.gone.fetch_add(1, Ordering::Relaxed);
        self.end();
    }

    fn gone(&self) -> u64 {
        // Relaxed: as above.
        self.gone.load(Ordering::Relaxed)
    }

    fn away(&self) -> bool {
        // Relaxed: as above.
        self.away.load(Ordering::Relaxed)
    }

    /// A client whose server is away as this flag says.
    pub fn connect(&self, address: &Address, options: Options) -> Client<impl Transport + use<>> {
        let stalls = self.clone();
        let transport = Wrapping(move |inner| {
            let born = stalls.gone();
            Stalled { inner, stalls: stalls.clone(), born, lost: Lost::Unknown }
        });
        Client::connect_over(transport, address, options).expect("connects")
    }
}

/// A queue pair that says nothing while its server is away.
struct Stalled {
    inner: AnyQp,
    stalls: Stalls,
    /// How often the server had let connections go before this one.
    born: u64,
    lost: Lost,
}

/// What the client knows of a connection that the server let go.
#[derive(PartialEq, Eq)]
enum Lost {
    Unknown,
    /// This request was sent since then, in vain.
    Sent(Ticket),
    Known,
}

impl Stalled {
    fn is_gone(&self) -> bool {
        self.stalls.gone() > self.born
    }

    fn is_silent(&self) -> bool {
        self.stalls.away() || self.is_gone()
    }
}

impl QueuePair for Stalled {
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        if self.is_gone() {
            self.lost = Lost::Sent(ticket);
            return Ok(());
        }
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
        match self.lost {
            Lost::Sent(ticket) => {
                self.lost = Lost::Known;
                done.push(Completion::Done(ticket, Err(WorkError::Flushed)));
                1
            }
            _ if self.is_silent() => 0,
            _ => self.inner.poll(done),
        }
    }
    fn attend(&mut self, channel: &Channel) -> Result<(), SetupError> {
        self.inner.attend(channel)
    }
    fn ready(&mut self) -> bool {
        !self.is_silent() && self.inner.ready()
    }
    fn wait(&mut self, timeout: Duration) {
        if self.is_silent() { longarm_host::sleep(timeout) } else { self.inner.wait(timeout) }
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
        match self.lost {
            Lost::Known => Err(Broken::PeerLost("nothing comes back".into())),
            _ => self.inner.state(),
        }
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
