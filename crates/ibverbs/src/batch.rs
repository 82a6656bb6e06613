//! Requests gathered without allocation, and handed to the device by one doorbell.

use std::ptr::null_mut;

use crate::bindings as b;
use crate::{AddressHandle, Error, Local, QueuePair, Remote};

/// A request.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// READ.
    Read(Local, Remote),
    /// WRITE, or WRITE_WITH_IMM.
    Write(Local, Remote, Option<u32>),
    /// SEND, or SEND with an immediate.
    Send(Local, Option<u32>),
    /// SEND of a datagram to a queue pair by number and key.
    Datagram(Local, &'a AddressHandle, u32, u32),
    /// CAS of a word: where the old one goes, the word, the old and the new.
    CompareSwap(Local, Remote, u64, u64),
    /// FAA of a word: where the old one goes, the word, what is added.
    FetchAdd(Local, Remote, u64),
}

/// How a request is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Success makes an entry in the completion queue (failure always does).
    pub signalled: bool,
    /// The bytes are copied at the doorbell.
    pub inline: bool,
    /// Only after all READs and atomics before it.
    pub fence: bool,
}

/// Requests for one doorbell, in order.
pub struct Batch {
    requests: Box<[b::ibv_send_wr]>,
    locals: Box<[b::ibv_sge]>,
    len: usize,
}

// SAFETY: the pointers inside lead into the boxes of the same value, and are set when posting.
unsafe impl Send for Batch {}

impl Batch {
    /// Room for `capacity` requests.
    pub fn new(capacity: usize) -> Batch {
        // SAFETY: all-zero is a value of these plain structures.
        let (request, local) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Batch {
            requests: vec![request; capacity].into_boxed_slice(),
            locals: vec![local; capacity].into_boxed_slice(),
            len: 0,
        }
    }

    /// Requests gathered.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is gathered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no more fit.
    pub fn is_full(&self) -> bool {
        self.len == self.requests.len()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a request; the batch is not full.
    pub fn push(&mut self, id: u64, request: Request<'_>, flags: Flags) {
        let raw = &mut self.requests[self.len];
        raw.wr_id = id;
        raw.num_sge = 1;
        raw.send_flags = 0;
        for (set, flag) in [
            (flags.signalled, b::IBV_SEND_SIGNALED),
            (flags.inline, b::IBV_SEND_INLINE),
            (flags.fence, b::IBV_SEND_FENCE),
        ] {
            raw.send_flags |= if set { flag } else { 0 };
        }
        let local = &mut self.locals[self.len];
        let mut with = |opcode, from: Local| {
            raw.opcode = opcode;
            *local = from.raw();
        };
        let rdma =
            |to: Remote| b::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 { remote_addr: to.address, rkey: to.key };
        let atomic = |to: Remote, compare_add, swap| b::ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
            remote_addr: to.address,
            compare_add,
            swap,
            rkey: to.key,
        };
        let pick = |imm: Option<u32>, plain, with| if imm.is_some() { with } else { plain };
        match request {
            Request::Read(into, from) => {
                with(b::IBV_WR_RDMA_READ, into);
                raw.wr.rdma = rdma(from);
            }
            Request::Write(from, to, imm) => {
                with(pick(imm, b::IBV_WR_RDMA_WRITE, b::IBV_WR_RDMA_WRITE_WITH_IMM), from);
                raw.__bindgen_anon_1.imm_data = imm.unwrap_or(0).to_be();
                raw.wr.rdma = rdma(to);
            }
            Request::Send(from, imm) => {
                with(pick(imm, b::IBV_WR_SEND, b::IBV_WR_SEND_WITH_IMM), from);
                raw.__bindgen_anon_1.imm_data = imm.unwrap_or(0).to_be();
            }
            Request::Datagram(from, to, number, key) => {
                with(b::IBV_WR_SEND, from);
                raw.wr.ud = b::ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
                    ah: to.raw,
                    remote_qpn: number,
                    remote_qkey: key,
                };
            }
            Request::CompareSwap(into, at, old, new) => {
                with(b::IBV_WR_ATOMIC_CMP_AND_SWP, into);
                raw.wr.atomic = atomic(at, old, new);
            }
            Request::FetchAdd(into, at, more) => {
                with(b::IBV_WR_ATOMIC_FETCH_AND_ADD, into);
                raw.wr.atomic = atomic(at, more, 0);
            }
        }
        self.len += 1;
    }

    /// The doorbell: hands all to the device, in order, and is empty. On an error some may have been handed
    /// over; the queue pair is then not to be used any more.
    ///
    /// # Safety
    /// Memory named by the requests stays registered until they complete or the queue pair is gone, and no
    /// reference to bytes that the device stores into is alive; address handles live as long.
    pub unsafe fn post(&mut self, qp: &QueuePair) -> Result<(), Error> {
        let len = std::mem::take(&mut self.len);
        if len == 0 {
            return Ok(());
        }
        let first = self.requests.as_mut_ptr();
        let locals = self.locals.as_mut_ptr();
        for i in 0..len {
            // SAFETY: below the length of both boxes.
            unsafe {
                let request = &mut *first.add(i);
                request.sg_list = locals.add(i);
                request.next = if i + 1 < len { first.add(i + 1) } else { null_mut() };
            }
        }
        // SAFETY: a chain that ends; the memory by the caller's promise.
        unsafe { qp.post_chain(first) }
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batch({} of {})", self.len, self.requests.len())
    }
}
