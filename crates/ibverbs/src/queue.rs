//! Completion queues, and the channels that tell of their news.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::null_mut;
use std::sync::Arc;

use crate::bindings as b;
use crate::context::not_blocking;
use crate::library::verb;
use crate::{Context, Error};

/// A descriptor that becomes readable when an armed completion queue has news.
#[derive(Debug)]
pub struct CompletionChannel {
    raw: *mut b::ibv_comp_channel,
    _context: Arc<Context>,
}

// SAFETY: verbs may be called on one channel from every thread.
unsafe impl Send for CompletionChannel {}
// SAFETY: as above.
unsafe impl Sync for CompletionChannel {}

impl CompletionChannel {
    /// A new channel.
    pub fn new(context: &Arc<Context>) -> Result<Arc<CompletionChannel>, Error> {
        // SAFETY: a live context.
        let raw = unsafe { verb!(create_comp_channel(context.raw)) };
        if raw.is_null() {
            return Err(Error::last("create_comp_channel", context.name()));
        }
        let channel = CompletionChannel { raw, _context: context.clone() };
        not_blocking(&channel, context.name())?;
        Ok(Arc::new(channel))
    }

    /// Forgets the events that are there; each stands for one arming. Returns how many there were.
    pub fn drain(&self) -> usize {
        let mut count = 0;
        let (mut queue, mut user) = (null_mut(), null_mut());
        // SAFETY: a live channel, whose descriptor does not block; an event names a live queue, because
        // destroying a queue waits for its events to be acknowledged, as they are here at once.
        unsafe {
            while verb!(get_cq_event(self.raw, &mut queue, &mut user)) == 0 {
                verb!(ack_cq_events(queue, 1));
                count += 1;
            }
        }
        count
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel's descriptor is open as long as the channel.
        unsafe { BorrowedFd::borrow_raw((*self.raw).fd) }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: ours, freed once; its queues hold it alive.
        unsafe { verb!(destroy_comp_channel(self.raw)) };
    }
}

/// A queue of what is over and what arrived.
#[derive(Debug)]
pub struct CompletionQueue {
    pub(crate) raw: *mut b::ibv_cq,
    channel: Option<Arc<CompletionChannel>>,
    context: Arc<Context>,
    poll: unsafe extern "C" fn(*mut b::ibv_cq, i32, *mut b::ibv_wc) -> i32,
    notify: unsafe extern "C" fn(*mut b::ibv_cq, i32) -> i32,
}

// SAFETY: verbs may be called on one queue from every thread.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// A queue of at least `entries`, which tells `channel` when armed.
    pub fn new(
        context: &Arc<Context>,
        entries: u32,
        channel: Option<&Arc<CompletionChannel>>,
    ) -> Result<Arc<CompletionQueue>, Error> {
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        // SAFETY: a live context and channel.
        let raw = unsafe {
            let channel = channel.map_or(null_mut(), |channel| channel.raw);
            verb!(create_cq(context.raw, entries, null_mut(), channel, 0))
        };
        if raw.is_null() {
            return Err(Error::last("create_cq", context.name()));
        }
        // SAFETY: a live context. Every provider has these two.
        let ops = unsafe { &(*context.raw).ops };
        Ok(Arc::new(CompletionQueue {
            raw,
            channel: channel.cloned(),
            context: context.clone(),
            poll: ops.poll_cq.expect("every provider has it"),
            notify: ops.req_notify_cq.expect("every provider has it"),
        }))
    }

    /// Moves what is there into `into`; returns how much. An error means that the queue is lost.
    #[inline]
    pub fn poll(&self, into: &mut [WorkCompletion]) -> Result<usize, Error> {
        // SAFETY: a live queue; WorkCompletion is transparent over the structure filled in.
        let count = unsafe { (self.poll)(self.raw, into.len() as i32, into.as_mut_ptr().cast()) };
        usize::try_from(count).map_err(|_| Error::last("poll_cq", self.context.name()))
    }

    /// The next entry becomes an event on the channel. What came before this call does not: poll again.
    pub fn arm(&self) -> Result<(), Error> {
        // SAFETY: a live queue.
        Error::check(unsafe { (self.notify)(self.raw, 0) }, "req_notify_cq", self.context.name())
    }

    /// Its channel.
    pub fn channel(&self) -> Option<&Arc<CompletionChannel>> {
        self.channel.as_ref()
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: ours, freed once; its queue pairs hold it alive, and every event was acknowledged at once.
        unsafe { verb!(destroy_cq(self.raw)) };
    }
}

/// An entry of a completion queue.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct WorkCompletion(b::ibv_wc);

/// What a [`WorkCompletion`] of success tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkKind {
    /// A request of ours.
    Sent,
    /// A SEND of the peer.
    Received,
    /// A WRITE_WITH_IMM of the peer.
    Written,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Well.
    Success,
    /// The peer's device refused: outside the memory, or beyond the rights, lent.
    RemoteAccess,
    /// Not done, because the queue pair failed before.
    Flushed,
    /// The peer did not answer.
    NoAnswer,
    /// The peer had no receive for it, for too long.
    NoReceive,
    /// Something else, by its number in the header.
    Failed(u32),
}

impl Default for WorkCompletion {
    fn default() -> WorkCompletion {
        // SAFETY: all-zero is a value of this plain structure.
        WorkCompletion(unsafe { std::mem::zeroed() })
    }
}

impl WorkCompletion {
    /// The poster's name for the request.
    #[inline]
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    /// How it ended.
    #[inline]
    pub fn status(&self) -> Status {
        match self.0.status {
            b::IBV_WC_SUCCESS => Status::Success,
            // Devices differ in what they call a refusal of misaligned or forbidden requests.
            b::IBV_WC_REM_ACCESS_ERR | b::IBV_WC_REM_INV_REQ_ERR | b::IBV_WC_REM_OP_ERR => {
                Status::RemoteAccess
            }
            b::IBV_WC_WR_FLUSH_ERR => Status::Flushed,
            b::IBV_WC_RETRY_EXC_ERR | b::IBV_WC_RESP_TIMEOUT_ERR => Status::NoAnswer,
            b::IBV_WC_RNR_RETRY_EXC_ERR => Status::NoReceive,
            other => Status::Failed(other),
        }
    }

    /// What it tells of; only for a success.
    #[inline]
    pub fn kind(&self) -> WorkKind {
        match self.0.opcode {
            b::IBV_WC_RECV => WorkKind::Received,
            b::IBV_WC_RECV_RDMA_WITH_IMM => WorkKind::Written,
            _ => WorkKind::Sent,
        }
    }

    /// Bytes received or written.
    #[inline]
    pub fn bytes(&self) -> u32 {
        self.0.byte_len
    }

    /// The immediate, where the peer sent one.
    #[inline]
    pub fn immediate(&self) -> Option<u32> {
        // SAFETY: both forms of the union are four bytes of anything.
        let raw = unsafe { self.0.__bindgen_anon_1.imm_data };
        (self.0.wc_flags & b::IBV_WC_WITH_IMM != 0).then(|| u32::from_be(raw))
    }

    /// The number of the peer's queue pair, of a datagram.
    pub fn source(&self) -> u32 {
        self.0.src_qp
    }

    /// The library's words for the status.
    pub fn text(&self) -> String {
        // SAFETY: any number has a text, which is static.
        unsafe { CStr::from_ptr(verb!(wc_status_str(self.0.status))) }.to_string_lossy().into_owned()
    }
}

impl std::fmt::Debug for WorkCompletion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WorkCompletion({:#x}, {:?}, {} bytes)", self.id(), self.status(), self.bytes())
    }
}
