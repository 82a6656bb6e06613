//! The first words of a client that scans, and the replica's answer.
//!
//! Hello: `[mark u32][versions u64][group][ring bytes][name length u32 | 0][name]`. The mark tells it from
//! the hello of any other client, and from a peer's.
//!
//! Welcome: `[version u32 | features u32][sum key][ring bytes][group][replica u32 | 0]`.

use longarm_base::ReplicaId;

use crate::codec::{Bad, Fields, Out, kind, replica};
use crate::hello::{put_name, take_name};
use crate::versions::{Agreed, SCAN_MARK, VERSIONS, Versions};

/// The hello of a client that wants to scan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanHello {
    /// The group whose keys it scans; zero takes the only group that the node has.
    pub group: u64,
    /// Bytes of the ring that the client lends for answers.
    pub ring_bytes: u64,
    /// The client's name for `stats` and logs, at most 64 bytes.
    pub name: String,
}

impl ScanHello {
    /// Whether these bytes are the hello of a client that scans, and of nobody else.
    pub fn is(bytes: &[u8]) -> bool {
        bytes.starts_with(&SCAN_MARK.to_le_bytes())
    }

    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(40 + self.name.len()));
        out.u32(SCAN_MARK);
        VERSIONS.put(&mut out);
        out.u64(self.group);
        out.u64(self.ring_bytes);
        put_name(&self.name, &mut out);
        out.0
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<ScanHello, Bad> {
        let mut fields = Fields(bytes);
        if fields.u32()? != SCAN_MARK {
            return Err(Bad("not the hello of a client that scans"));
        }
        if VERSIONS.meet(Versions::take(&mut fields)?).is_err() {
            return Err(Bad("client and replica speak different versions of the protocol"));
        }
        let (group, ring_bytes) = (fields.u64()?, fields.u64()?);
        let name = take_name(&mut fields)?;
        fields.end()?;
        Ok(ScanHello { group, ring_bytes, name })
    }
}

/// The replica's answer to the hello of a client that scans.
///
/// The replica lends the ring for requests, and its arena for READ: large values are READ there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanWelcome {
    /// The version and features that the replica uses with this client: the newest that both have.
    pub agreed: Agreed,
    /// Key of the record checksums in the replica's arena.
    pub sum_key: u64,
    /// Bytes of the ring that the replica lends for requests.
    pub ring_bytes: u64,
    /// The replica's group; zero for a server of its own.
    pub group: u64,
    /// The replica's id in the group.
    pub replica: ReplicaId,
}

impl ScanWelcome {
    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(40));
        self.agreed.put(&mut out);
        for word in [self.sum_key, self.ring_bytes, self.group] {
            out.u64(word);
        }
        out.kind(u32::from(self.replica.0));
        out.0
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<ScanWelcome, Bad> {
        let mut fields = Fields(bytes);
        let agreed = Agreed::take(&mut fields)?;
        let (sum_key, ring_bytes, group) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let replica = replica(kind(&mut fields)?)?;
        fields.end()?;
        Ok(ScanWelcome { agreed, sum_key, ring_bytes, group, replica })
    }
}
