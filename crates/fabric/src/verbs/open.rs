//! A connection's own objects: made before the peer is known, connected when it is.

use std::sync::Arc;

use ring::rand::{SecureRandom, SystemRandom};

use longarm_base::limits::QUEUE_DEPTH;
use longarm_ibverbs as ib;

use super::adapter::{Adapter, Chosen};
use super::endpoint::{Endpoint, RemoteKey};
use super::failed::failed;
use super::pending::SLOTS;
use super::receives::Receives;
use super::register::Registered;
use super::settings::Verbs;
use super::staging::{self, Staging};
use crate::{Grant, SetupError};

/// Bytes that are sent inline where the device can: a header and a small record.
const INLINE: u32 = 188;
/// READs and atomics in flight each way, where both devices can.
const READS: u8 = 16;

/// The objects, not connected yet. Fields drop in this order: the queue pair before what it uses.
#[derive(Debug)]
pub(super) struct Opened {
    pub qp: ib::QueuePair,
    pub queue: Arc<ib::CompletionQueue>,
    pub channel: Arc<ib::CompletionChannel>,
    pub receives: Receives,
    pub staging: Staging,
    pub adapter: Arc<Adapter>,
    psn: u32,
}

impl Opened {
    /// Makes them, with receives posted.
    pub fn new(verbs: &Verbs, adapter: Arc<Adapter>) -> Result<Opened, SetupError> {
        let (context, domain) = (&adapter.device.context, &adapter.domain);
        let make = || {
            let channel = ib::CompletionChannel::new(context)?;
            let entries = SLOTS as u32 + u32::from(verbs.receives);
            let queue = ib::CompletionQueue::new(context, entries, Some(&channel))?;
            let receives = Receives::new(domain, verbs.receives)?;
            let staging = ib::Buffer::new(domain, staging::BYTES, ib::Access::LOCAL_WRITE)?;
            let capacity =
                ib::Capacity { send: SLOTS as u32, receive: verbs.receives.into(), inline: INLINE };
            let qp = ib::QueuePair::new(domain, ib::Kind::Rc, &queue, &queue, capacity)?;
            // The most that any peer may do; what it may do with which memory, the registrations say.
            let most = ib::Access::REMOTE_READ.and(ib::Access::REMOTE_WRITE).and(ib::Access::REMOTE_ATOMIC);
            qp.initialise(adapter.choice.port.number, most, 0)?;
            receives.post_all(&qp)?;
            Ok((qp, queue, channel, receives, Staging::new(staging)))
        };
        let (qp, queue, channel, receives, staging) = make().map_err(failed)?;
        Ok(Opened { qp, queue, channel, receives, staging, psn: psn()?, adapter })
    }

    /// The landing buffer for READs of the peer's memory.
    pub fn landing(&self, bytes: u32) -> Result<ib::Buffer, SetupError> {
        ib::Buffer::new(&self.adapter.domain, bytes as usize, ib::Access::LOCAL_WRITE).map_err(failed)
    }

    /// Registers what is lent to the peer.
    pub fn register(&self, grants: &[Grant]) -> Result<Vec<Arc<Registered>>, SetupError> {
        let Adapter { registrations, domain, .. } = &*self.adapter;
        grants.iter().map(|grant| registrations.get(domain, grant)).collect()
    }

    /// What the peer must know.
    pub fn endpoint(&self, lent: &[Arc<Registered>]) -> Endpoint {
        let Chosen { port, gid, .. } = &self.adapter.choice;
        let key = |lent: &Arc<Registered>| RemoteKey {
            address: lent.region.memory().address() as u64,
            key: lent.mr.remote_key(),
        };
        let credit = &self.receives.credit;
        Endpoint {
            number: self.qp.number(),
            psn: self.psn,
            gid: gid.bytes,
            lid: port.lid,
            mtu: port.mtu as u16,
            reads_served: self.reads_served(),
            global: port.ethernet,
            credit: RemoteKey { address: credit.address(0), key: credit.region().remote_key() },
            keys: lent.iter().map(key).collect(),
        }
    }

    fn reads_served(&self) -> u8 {
        self.adapter.device.attributes.reads_served.clamp(1, READS)
    }

    /// Connects to the peer's end. The kernel asks for the way there, which takes a second if nobody answers.
    pub fn connect(&self, verbs: &Verbs, theirs: &Endpoint) -> Result<(), SetupError> {
        let Chosen { port, gid, device } = &self.adapter.choice;
        if port.ethernet != theirs.global {
            return Err(SetupError::Unsupported(format!(
                "our RDMA device {device} is on {}, the peer's on the other kind of network",
                if port.ethernet { "Ethernet (RoCE)" } else { "InfiniBand" }
            )));
        }
        let path = ib::Path {
            port: port.number,
            gid_index: gid.index,
            gid: theirs.gid,
            lid: theirs.lid,
            global: theirs.global,
            mtu: port.mtu.min(theirs.mtu.into()),
            number: theirs.number,
            receive_psn: theirs.psn,
            send_psn: self.psn,
            reads_served: self.reads_served(),
            reads_posted: self
                .adapter
                .device
                .attributes
                .reads_posted
                .clamp(1, READS)
                .min(theirs.reads_served),
        };
        let their_gid = ib::Gid { bytes: theirs.gid, ..*gid };
        let connected = self.qp.ready_to_receive(&path, &verbs.reliability);
        connected.and_then(|()| self.qp.ready_to_send(&path, &verbs.reliability)).map_err(|error| {
            SetupError::Unsupported(format!(
                "{device} ({gid}) cannot reach the peer's device at {their_gid}: {error}{}; \
                 are both on one network, and does longarm doctor choose the right device?",
                self.adapter.device.ailment()
            ))
        })
    }

    /// `device address -> peer's address`, for people.
    pub fn describe(&self, theirs: &Endpoint) -> String {
        let Chosen { gid, device, .. } = &self.adapter.choice;
        format!("{device} {gid} -> {}", ib::Gid { bytes: theirs.gid, ..*gid })
    }
}

// One doorbell carries at most everything that may be posted.
const _: () = assert!(SLOTS > QUEUE_DEPTH);

/// A first packet's number that nobody guesses and that old packets do not have.
fn psn() -> Result<u32, SetupError> {
    let mut bytes = [0; 4];
    let no_entropy = |_| std::io::Error::other("the system gave no random bytes");
    SystemRandom::new().fill(&mut bytes).map_err(|e| SetupError::Os("draw a number", no_entropy(e)))?;
    Ok(u32::from_le_bytes(bytes) & 0xff_ffff)
}
