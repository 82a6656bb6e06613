//! The way to a leader's progress: READs over a connection, or a look at the own region of a replica that
//! leads itself.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use longarm_base::{Nanos, Place};
use longarm_fabric::{Completion, Completions, Op, QueuePair, SetupError, Ticket};
use longarm_host::now;
use longarm_memory::{Mapped, Words};

/// Bytes of the landing buffer of the connection, and so of the longest READ.
pub const LANDING: u32 = 64 << 10;
/// How long a READ may take before the connection counts as lost.
const PATIENCE: Nanos = Nanos::from_millis(100);
/// The longest sleep between two looks at whether a READ is complete.
const NAP: Duration = Duration::from_millis(1);

/// Makes a connection to the leader, with a landing buffer of [`LANDING`] bytes.
pub type Connector<Q> = Box<dyn FnMut() -> Result<Q, SetupError> + Send>;

/// The connection to the leader is gone: make another one.
#[derive(Debug)]
pub(crate) struct Gone;

/// Where the words of the leader are.
pub(crate) enum Leader<Q> {
    /// At the other end of a connection.
    Far { qp: Q, done: Completions },
    /// Here: this replica leads.
    Own(Mapped),
}

impl<Q: QueuePair> Leader<Q> {
    /// The leader at the other end of this connection.
    pub fn far(qp: Q) -> Leader<Q> {
        Leader::Far { qp, done: Completions::new(4) }
    }

    /// READs `from` into `into`. Complete on return: a following call samples later moments only.
    pub fn read(&mut self, from: Place, into: &mut Vec<u8>) -> Result<(), Gone> {
        into.clear();
        match self {
            Leader::Own(memory) => {
                into.resize(from.len as usize, 0);
                memory.copy_out(from.offset, into);
                // Acquire: what is read next is of a later moment than this; pairs with the Release of
                // OwnedWords::store.
                fence(Ordering::Acquire);
            }
            Leader::Far { qp, done } => {
                if !qp.read_now(from, 0) {
                    wait(qp, done, from)?;
                }
                into.extend_from_slice(qp.landing(0, from.len));
            }
        }
        Ok(())
    }
}

/// Posts a READ and waits for it.
fn wait<Q: QueuePair>(qp: &mut Q, done: &mut Completions, from: Place) -> Result<(), Gone> {
    qp.post(Op::Read { from, into: 0 }, Ticket(1)).map_err(|_| Gone)?;
    qp.ring();
    let until = now() + PATIENCE;
    loop {
        if qp.poll(done) > 0 {
            let is_done = matches!(done.drain().next(), Some(Completion::Done(_, Ok(_))));
            return if is_done { Ok(()) } else { Err(Gone) };
        }
        if qp.state().is_err() || now() >= until {
            return Err(Gone);
        }
        qp.wait(NAP);
    }
}
