//! What one side tells the other behind HELLO and WELCOME: its queue pair, and where what it lends is.
//!
//! Little-endian:
//! ```text
//! 0  number of the queue pair u32      24 LID u16              36 address of the credit word u64
//! 4  first packet's number u32         26 MTU u16              44 its key u32
//! 8  GID [u8; 16]                      28 READs served u8, 1 with a GID u8, zero [u8; 6], 34 zero u16
//! 48 for each region lent, in the order of the offer: address u64, key u32, zero u32
//! ```

use std::io::{Read, Write};

use crate::SetupError;

const FIXED: usize = 48;
const KEY: usize = 16;

/// Memory of the other side: where, and under which key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RemoteKey {
    pub address: u64,
    pub key: u32,
}

/// One side's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Endpoint {
    pub number: u32,
    pub psn: u32,
    pub gid: [u8; 16],
    pub lid: u16,
    pub mtu: u16,
    pub reads_served: u8,
    /// The GID is needed to reach it: Ethernet.
    pub global: bool,
    /// Where the peer tells how many of our SENDs it released.
    pub credit: RemoteKey,
    /// Of the regions lent.
    pub keys: Vec<RemoteKey>,
}

impl Endpoint {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + self.keys.len() * KEY);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.psn.to_le_bytes());
        bytes.extend_from_slice(&self.gid);
        bytes.extend_from_slice(&self.lid.to_le_bytes());
        bytes.extend_from_slice(&self.mtu.to_le_bytes());
        bytes.extend_from_slice(&[self.reads_served, self.global.into(), 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&self.credit.address.to_le_bytes());
        bytes.extend_from_slice(&self.credit.key.to_le_bytes());
        for key in &self.keys {
            bytes.extend_from_slice(&key.address.to_le_bytes());
            bytes.extend_from_slice(&key.key.to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
        }
        bytes
    }

    /// Says it on the stream.
    pub fn tell(&self, stream: &mut impl Write, peer: &str) -> Result<(), SetupError> {
        stream.write_all(&self.encode()).map_err(|e| lost(peer, e))
    }

    /// Hears the other side's, which lent `regions` regions.
    pub fn hear(stream: &mut impl Read, peer: &str, regions: usize) -> Result<Endpoint, SetupError> {
        let mut bytes = vec![0; FIXED + regions * KEY];
        stream.read_exact(&mut bytes).map_err(|e| lost(peer, e))?;
        decode(&bytes).map_err(|what| SetupError::Protocol(format!("{peer} sent an endpoint with {what}")))
    }
}

fn lost(peer: &str, error: std::io::Error) -> SetupError {
    match error.kind() {
        std::io::ErrorKind::TimedOut => SetupError::Timeout(peer.into()),
        std::io::ErrorKind::UnexpectedEof => {
            SetupError::Protocol(format!("{peer} left in the middle of the handshake"))
        }
        _ => SetupError::Os("exchange endpoints", error),
    }
}

fn decode(bytes: &[u8]) -> Result<Endpoint, &'static str> {
    let (fixed, keys) = bytes.split_at(FIXED);
    let word = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
    let half = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
    let key = |bytes: &[u8]| RemoteKey {
        address: u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")),
        key: u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes")),
    };
    let endpoint = Endpoint {
        number: word(0),
        psn: word(4),
        gid: fixed[8..24].try_into().expect("sixteen bytes"),
        lid: half(24),
        mtu: half(26),
        reads_served: fixed[28],
        global: fixed[29] != 0,
        credit: key(&fixed[36..48]),
        keys: keys.chunks_exact(KEY).map(key).collect(),
    };
    if endpoint.number > 0xff_ffff || endpoint.psn > 0xff_ffff {
        return Err("a number of more than 24 bits");
    }
    if ![256, 512, 1024, 2048, 4096].contains(&endpoint.mtu) {
        return Err("an MTU that no device has");
    }
    if endpoint.reads_served == 0 {
        return Err("no READ allowed at all");
    }
    if fixed[29] > 1 || fixed[30..36] != [0; 6] || keys.chunks_exact(KEY).any(|key| key[12..] != [0; 4]) {
        return Err("bytes that should be zero");
    }
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint {
            number: 0x12_3456,
            psn: 0xff_ffff,
            gid: *b"sixteen bytes...",
            lid: 7,
            mtu: 1024,
            reads_served: 16,
            global: true,
            credit: RemoteKey { address: 0x7fff_0000_1000, key: 9 },
            keys: vec![RemoteKey { address: 1 << 40, key: u32::MAX }, RemoteKey { address: 8, key: 0 }],
        }
    }

    #[test]
    fn it_comes_back_as_it_was() {
        let mut stream = Vec::new();
        endpoint().tell(&mut stream, "x").expect("written");
        assert_eq!(stream.len(), 48 + 2 * 16);
        assert_eq!(Endpoint::hear(&mut &stream[..], "x", 2).expect("read"), endpoint());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = endpoint().encode();
        for (at, byte, what) in [
            (3, 1, "24 bits"),
            (7, 1, "24 bits"),
            (26, 1, "MTU"),
            (28, 0, "no READ"),
            (29, 2, "zero"),
            (35, 1, "zero"),
            (63, 1, "zero"),
        ] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            let error = Endpoint::hear(&mut &bytes[..], "peer", 2).expect_err("refused").to_string();
            assert!(error.contains(what) && error.contains("peer"), "{error}");
        }
        let error = Endpoint::hear(&mut &good[..50], "peer", 2).expect_err("cut").to_string();
        assert!(error.contains("left in the middle"), "{error}");
    }
}
