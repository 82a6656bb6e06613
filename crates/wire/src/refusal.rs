//! A server's refusal of a client, or of a replica of another node: a code for programs, a text for people.
//!
//! The fabric carries the text, and beside it the bytes
//! `[code u16 | 0 u16 | address length u32][placement epoch u64][address of the leader]`.

use crate::codec::{Bad, Fields, Out};
use crate::members::ADDRESS_MAX;

/// The reason of a refusal, by which the refused program acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusalCode {
    /// Another replica leads the group, or none does now: ask that one, or ask again.
    NotLeader,
    /// The server has no replica of the requested group.
    WrongGroup,
    /// The two speak no version of the protocol in common.
    Versions,
    /// A limit of the server is reached; there may be room later.
    Limit,
    /// The hello makes no sense, or differs in a value that both sides must agree on.
    Invalid,
    /// The server is stopping.
    Closing,
    /// The peer did not prove that it is a replica or an operator.
    Denied,
    /// The term in which a replica came is not, or no longer, the one that counts here.
    Fenced,
    /// The group keeps no ordered index, so none of its replicas answers scans.
    NotOrdered,
    /// A code that a newer program defines.
    Other(u16),
}

/// The codes that this version defines, with their numbers.
const CODES: [(RefusalCode, u16); 9] = [
    (RefusalCode::NotLeader, 1),
    (RefusalCode::WrongGroup, 2),
    (RefusalCode::Versions, 3),
    (RefusalCode::Limit, 4),
    (RefusalCode::Invalid, 5),
    (RefusalCode::Closing, 6),
    (RefusalCode::Denied, 7),
    (RefusalCode::Fenced, 8),
    (RefusalCode::NotOrdered, 9),
];

impl RefusalCode {
    fn number(self) -> u16 {
        let known = CODES.iter().find(|(code, _)| *code == self).map(|(_, number)| *number);
        match self {
            RefusalCode::Other(number) => number,
            _ => known.expect("a code that has its number"),
        }
    }

    fn of(number: u16) -> RefusalCode {
        CODES.iter().find(|(_, n)| *n == number).map_or(RefusalCode::Other(number), |(code, _)| *code)
    }
}

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The reason, by which the refused program acts.
    pub code: RefusalCode,
    /// With [`RefusalCode::NotLeader`]: the address of the leader, if it is known.
    pub leader: Option<String>,
    /// The epoch of the placement of keys on the server; zero while keys are placed by their hash alone.
    pub epoch: u64,
    /// The text for people.
    pub text: String,
}

impl Refusal {
    /// A refusal with this code and text.
    pub fn new(code: RefusalCode, text: impl Into<String>) -> Refusal {
        Refusal { code, leader: None, epoch: 0, text: text.into() }
    }

    /// The refusal of a replica that does not lead, and may know the leader.
    pub fn not_leader(leader: Option<String>) -> Refusal {
        let text = match &leader {
            Some(address) => format!("this replica is not the leader; it is at {address}"),
            None => "this replica is not the leader, and knows of none yet".into(),
        };
        Refusal { leader, ..Refusal::new(RefusalCode::NotLeader, text) }
    }

    /// The bytes that travel beside the text.
    pub fn encode(&self) -> Vec<u8> {
        let address = self.leader.as_deref().unwrap_or_default();
        let mut out = Out(Vec::with_capacity(16 + address.len()));
        out.u32(u32::from(self.code.number()));
        out.u32(address.len() as u32);
        out.u64(self.epoch);
        out.0.extend_from_slice(address.as_bytes());
        out.0
    }

    /// Decodes received bytes; `text` came with them.
    pub fn decode(text: &str, bytes: &[u8]) -> Result<Refusal, Bad> {
        let mut fields = Fields(bytes);
        let code = u16::try_from(fields.u32()?).map_err(|_| Bad("bits set that mean nothing"))?;
        let (len, epoch) = (fields.u32()? as usize, fields.u64()?);
        if len > ADDRESS_MAX {
            return Err(Bad("an address longer than allowed"));
        }
        let address =
            std::str::from_utf8(fields.bytes(len)?).map_err(|_| Bad("an address that is no text"))?;
        fields.end()?;
        let leader = (!address.is_empty()).then(|| address.to_string());
        Ok(Refusal { code: RefusalCode::of(code), leader, epoch, text: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_comes_back_whatever_its_text() {
        for code in CODES.map(|(code, _)| code).into_iter().chain([RefusalCode::Other(99)]) {
            let refusal = Refusal { epoch: 7, ..Refusal::new(code, "some words") };
            assert_eq!(Refusal::decode("some words", &refusal.encode()), Ok(refusal));
        }
        let elsewhere = Refusal::not_leader(Some("tcp://a:1".into()));
        let back = Refusal::decode("other words", &elsewhere.encode()).expect("it decodes");
        assert_eq!((back.code, back.leader.as_deref()), (RefusalCode::NotLeader, Some("tcp://a:1")));
        assert_eq!(back.text, "other words");
    }

    #[test]
    fn what_makes_no_refusal_is_said() {
        let bytes = Refusal::not_leader(Some("tcp://a:1".into())).encode();
        for len in 0..bytes.len() {
            assert!(Refusal::decode("", &bytes[..len]).is_err(), "{len} bytes");
        }
        let with = |at: usize, byte| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Refusal::decode("", &bytes).expect_err("refused").0
        };
        assert!(with(2, 1).contains("bits"));
        assert!(with(5, 0x80).contains("longer"));
        assert!(with(16, 0xff).contains("no text"));
    }

    #[test]
    fn codes_have_numbers_of_their_own() {
        let numbers = CODES.map(|(_, number)| number);
        assert!(numbers.iter().enumerate().all(|(i, n)| !numbers[..i].contains(n)));
    }
}
