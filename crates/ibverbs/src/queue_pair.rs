//! Queue pairs: RC, UC and UD, their states, and the way to the peer.

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bindings as b;
use crate::library::verb;
use crate::{Access, CompletionQueue, Error, ProtectionDomain, Receive};

/// Kind of connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reliable connection: everything.
    Rc,
    /// Unreliable connection: WRITE and SEND, without acknowledgement.
    Uc,
    /// Unreliable datagrams: SEND to anybody.
    Ud,
}

/// Sizes of the queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Requests outstanding.
    pub send: u32,
    /// Receives outstanding; 0 with a shared queue.
    pub receive: u32,
    /// Bytes that may be sent inline; the device may give more.
    pub inline: u32,
}

/// The way to the peer's queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Our port.
    pub port: u8,
    /// Our GID's place in the port's table.
    pub gid_index: u8,
    /// The peer's GID.
    pub gid: [u8; 16],
    /// The peer's LID (InfiniBand).
    pub lid: u16,
    /// Whether the GID is needed: on Ethernet always.
    pub global: bool,
    /// Bytes of payload of a packet, of which both ports are capable: 256, 512, .. 4096.
    pub mtu: u32,
    /// Number of the peer's queue pair.
    pub number: u32,
    /// Packet sequence number of the peer's first packet, 24 bits.
    pub receive_psn: u32,
    /// Packet sequence number of our first packet, 24 bits.
    pub send_psn: u32,
    /// READs and atomics of the peer that we serve at once.
    pub reads_served: u8,
    /// READs and atomics of ours that the peer serves at once.
    pub reads_posted: u8,
}

/// How long an RC queue pair tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reliability {
    /// An acknowledgement is waited for 4.096 us times 2 to this power; 0 to 31, 0 for ever.
    pub timeout: u8,
    /// Tries without an acknowledgement, 0 to 7. Soft-RoCE (Linux 6.1) takes 7 for "for ever".
    pub retries: u8,
    /// Tries while the peer has no receive, 0 to 7, 7 for ever.
    pub receive_retries: u8,
    /// How long a peer without a receive is asked to wait: the code of the specification, 0 to 31 (1 for
    /// 10 us, 12 for 640 us).
    pub receive_timer: u8,
}

/// State of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Fresh.
    Reset,
    /// Receives may be posted.
    Init,
    /// It receives.
    ReadyToReceive,
    /// It receives and sends.
    ReadyToSend,
    /// Everything is flushed.
    Error,
    /// Another, by its number in the header.
    Other(u32),
}

/// A queue pair. Dropped, it is destroyed: after that nothing of the peer takes effect any more.
#[derive(Debug)]
pub struct QueuePair {
    raw: *mut b::ibv_qp,
    kind: Kind,
    inline: u32,
    post_send: unsafe extern "C" fn(*mut b::ibv_qp, *mut b::ibv_send_wr, *mut *mut b::ibv_send_wr) -> i32,
    post_recv: unsafe extern "C" fn(*mut b::ibv_qp, *mut b::ibv_recv_wr, *mut *mut b::ibv_recv_wr) -> i32,
    domain: Arc<ProtectionDomain>,
    /// Held alive: they are used by the device until the queue pair is gone.
    _queues: [Arc<CompletionQueue>; 2],
}

// SAFETY: verbs may be called on one queue pair from every thread.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

/// Queue pairs of this process.
static ALIVE: AtomicU64 = AtomicU64::new(0);

/// How many queue pairs this process has.
pub fn queue_pairs() -> u64 {
    // Relaxed: a statistic.
    ALIVE.load(Ordering::Relaxed)
}

/// A structure of attributes with nothing set.
fn nothing() -> b::ibv_qp_attr {
    // SAFETY: all-zero is a value of this plain structure.
    unsafe { std::mem::zeroed() }
}

impl QueuePair {
    /// A queue pair in [`State::Reset`].
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        kind: Kind,
        send: &Arc<CompletionQueue>,
        receive: &Arc<CompletionQueue>,
        capacity: Capacity,
    ) -> Result<QueuePair, Error> {
        let mut init = b::ibv_qp_init_attr {
            qp_context: null_mut(),
            send_cq: send.raw,
            recv_cq: receive.raw,
            srq: null_mut(),
            cap: b::ibv_qp_cap {
                max_send_wr: capacity.send,
                max_recv_wr: capacity.receive,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: capacity.inline,
            },
            qp_type: match kind {
                Kind::Rc => b::IBV_QPT_RC,
                Kind::Uc => b::IBV_QPT_UC,
                Kind::Ud => b::IBV_QPT_UD,
            },
            sq_sig_all: 0,
        };
        // SAFETY: a live domain and a filled structure.
        let raw = unsafe { verb!(create_qp(domain.raw, &mut init)) };
        if raw.is_null() {
            return Err(Error::last("create_qp", domain.context().name()));
        }
        // Relaxed: a statistic.
        ALIVE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: a live context. Every provider has these two.
        let ops = unsafe { &(*domain.context().raw).ops };
        Ok(QueuePair {
            raw,
            kind,
            inline: init.cap.max_inline_data,
            post_send: ops.post_send.expect("every provider has it"),
            post_recv: ops.post_recv.expect("every provider has it"),
            domain: domain.clone(),
            _queues: [send.clone(), receive.clone()],
        })
    }

    /// Its number, by which the peer's device knows it.
    pub fn number(&self) -> u32 {
        // SAFETY: alive, and never changed.
        unsafe { (*self.raw).qp_num }
    }

    /// Bytes that may be sent inline.
    pub fn inline_max(&self) -> u32 {
        self.inline
    }

    fn modify(&self, mut attributes: b::ibv_qp_attr, mask: u32, verb: &'static str) -> Result<(), Error> {
        // SAFETY: a live queue pair; the mask names what is set.
        let code = unsafe { verb!(modify_qp(self.raw, &mut attributes, mask as i32)) };
        Error::check(code, verb, self.domain.context().name())
    }

    /// RESET to INIT. `access` is the most that the peer may ever do; registrations say the rest.
    /// `key` is a datagram queue pair's.
    pub fn initialise(&self, port: u8, access: Access, key: u32) -> Result<(), Error> {
        let mut attributes = nothing();
        attributes.qp_state = b::IBV_QPS_INIT;
        attributes.port_num = port;
        let mut mask = b::IBV_QP_STATE | b::IBV_QP_PKEY_INDEX | b::IBV_QP_PORT;
        match self.kind {
            Kind::Ud => {
                attributes.qkey = key;
                mask |= b::IBV_QP_QKEY;
            }
            Kind::Rc | Kind::Uc => {
                attributes.qp_access_flags = access.remote();
                mask |= b::IBV_QP_ACCESS_FLAGS;
            }
        }
        self.modify(attributes, mask, "modify_qp to INIT")
    }

    /// INIT to RTR. The kernel resolves the peer's address: a second, where it does not answer. A datagram
    /// queue pair has no peer.
    pub fn ready_to_receive(&self, path: &Path, reliability: &Reliability) -> Result<(), Error> {
        let mut attributes = nothing();
        attributes.qp_state = b::IBV_QPS_RTR;
        let mut mask = b::IBV_QP_STATE;
        if self.kind != Kind::Ud {
            attributes.path_mtu = path.mtu.clamp(256, 4096).ilog2() - 7;
            attributes.dest_qp_num = path.number;
            attributes.rq_psn = path.receive_psn & 0xff_ffff;
            attributes.ah_attr = address(path);
            mask |= b::IBV_QP_AV | b::IBV_QP_PATH_MTU | b::IBV_QP_DEST_QPN | b::IBV_QP_RQ_PSN;
        }
        if self.kind == Kind::Rc {
            attributes.max_dest_rd_atomic = path.reads_served;
            attributes.min_rnr_timer = reliability.receive_timer;
            mask |= b::IBV_QP_MAX_DEST_RD_ATOMIC | b::IBV_QP_MIN_RNR_TIMER;
        }
        self.modify(attributes, mask, "modify_qp to RTR")
    }

    /// RTR to RTS.
    pub fn ready_to_send(&self, path: &Path, reliability: &Reliability) -> Result<(), Error> {
        let mut attributes = nothing();
        attributes.qp_state = b::IBV_QPS_RTS;
        attributes.sq_psn = path.send_psn & 0xff_ffff;
        let mut mask = b::IBV_QP_STATE | b::IBV_QP_SQ_PSN;
        if self.kind == Kind::Rc {
            attributes.timeout = reliability.timeout;
            attributes.retry_cnt = reliability.retries;
            attributes.rnr_retry = reliability.receive_retries;
            attributes.max_rd_atomic = path.reads_posted;
            mask |=
                b::IBV_QP_TIMEOUT | b::IBV_QP_RETRY_CNT | b::IBV_QP_RNR_RETRY | b::IBV_QP_MAX_QP_RD_ATOMIC;
        }
        self.modify(attributes, mask, "modify_qp to RTS")
    }

    /// Any state to ERR: everything outstanding is flushed. A request of the peer that is under way may still
    /// take effect after this returns (measured on Soft-RoCE); the flush of a receive comes after it.
    pub fn fail(&self) -> Result<(), Error> {
        let mut attributes = nothing();
        attributes.qp_state = b::IBV_QPS_ERR;
        self.modify(attributes, b::IBV_QP_STATE, "modify_qp to ERR")
    }

    /// The state, asked of the device.
    pub fn state(&self) -> Result<State, Error> {
        let mut attributes = nothing();
        // SAFETY: all-zero is a value of this plain structure.
        let mut init: b::ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        // SAFETY: a live queue pair and places for the answers.
        let code = unsafe { verb!(query_qp(self.raw, &mut attributes, b::IBV_QP_STATE as i32, &mut init)) };
        Error::check(code, "query_qp", self.domain.context().name())?;
        Ok(match attributes.qp_state {
            b::IBV_QPS_RESET => State::Reset,
            b::IBV_QPS_INIT => State::Init,
            b::IBV_QPS_RTR => State::ReadyToReceive,
            b::IBV_QPS_RTS => State::ReadyToSend,
            b::IBV_QPS_ERR => State::Error,
            other => State::Other(other),
        })
    }

    /// Posts a receive.
    ///
    /// # Safety
    /// The memory stays registered, and no reference to it is alive, until the receive completes or the queue
    /// pair is gone.
    #[inline]
    pub unsafe fn post_receive(&self, receive: &Receive) -> Result<(), Error> {
        let code = receive.with(|raw| {
            let mut bad = null_mut();
            // SAFETY: a live queue pair and a filled request; the memory by the caller's promise.
            unsafe { (self.post_recv)(self.raw, raw, &mut bad) }
        });
        Error::check(code, "post_recv", self.domain.context().name())
    }

    /// # Safety
    /// As [`Batch::post`](crate::Batch::post); the chain ends.
    #[inline]
    pub(crate) unsafe fn post_chain(&self, first: *mut b::ibv_send_wr) -> Result<(), Error> {
        let mut bad = null_mut();
        // SAFETY: the caller's promise, on a live queue pair.
        let code = unsafe { (self.post_send)(self.raw, first, &mut bad) };
        Error::check(code, "post_send", self.domain.context().name())
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // Relaxed: a statistic.
        ALIVE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: ours, freed once.
        unsafe { verb!(destroy_qp(self.raw)) };
    }
}

fn address(path: &Path) -> b::ibv_ah_attr {
    b::ibv_ah_attr {
        grh: b::ibv_global_route {
            dgid: b::ibv_gid { raw: path.gid },
            flow_label: 0,
            sgid_index: path.gid_index,
            hop_limit: 64,
            traffic_class: 0,
        },
        dlid: path.lid,
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: path.global.into(),
        port_num: path.port,
    }
}

/// Where datagrams go.
#[derive(Debug)]
pub struct AddressHandle {
    pub(crate) raw: *mut b::ibv_ah,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: verbs may be called on one handle from every thread.
unsafe impl Send for AddressHandle {}
// SAFETY: as above.
unsafe impl Sync for AddressHandle {}

impl AddressHandle {
    /// A handle for the peer's port (the queue pair's number of `path` is not used).
    pub fn new(domain: &Arc<ProtectionDomain>, path: &Path) -> Result<AddressHandle, Error> {
        let mut attributes = address(path);
        // SAFETY: a live domain and a filled structure.
        let raw = unsafe { verb!(create_ah(domain.raw, &mut attributes)) };
        if raw.is_null() {
            return Err(Error::last("create_ah", domain.context().name()));
        }
        Ok(AddressHandle { raw, _domain: domain.clone() })
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: ours, freed once.
        unsafe { verb!(destroy_ah(self.raw)) };
    }
}
