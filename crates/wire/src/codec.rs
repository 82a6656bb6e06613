//! Reading and writing of fixed-width fields.

use longarm_base::{ReplicaId, Term};

/// A message that does not parse; the text names the wrong part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bad(pub &'static str);

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed message: {}", self.0)
    }
}

impl std::error::Error for Bad {}

/// Takes fields off the front of a message.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Bad> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Bad("shorter than its fields"))?;
        self.0 = rest;
        Ok(taken)
    }
    pub fn u16(&mut self) -> Result<u16, Bad> {
        Ok(u16::from_le_bytes(self.bytes(2)?.try_into().expect("two bytes")))
    }
    pub fn u32(&mut self) -> Result<u32, Bad> {
        Ok(u32::from_le_bytes(self.bytes(4)?.try_into().expect("four bytes")))
    }
    pub fn u64(&mut self) -> Result<u64, Bad> {
        Ok(u64::from_le_bytes(self.bytes(8)?.try_into().expect("eight bytes")))
    }
    pub fn end(&self) -> Result<(), Bad> {
        if self.0.is_empty() { Ok(()) } else { Err(Bad("longer than its fields")) }
    }
}

/// A message being made.
pub(crate) struct Out(pub Vec<u8>);

impl Out {
    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    pub fn kind(&mut self, kind: u32) {
        self.u32(kind);
        self.u32(0);
    }
    pub fn list(&mut self, words: &[u64]) {
        self.u64(words.len() as u64);
        words.iter().for_each(|&word| self.u64(word));
    }
}

pub(crate) fn kind(fields: &mut Fields<'_>) -> Result<u32, Bad> {
    let kind = fields.u32()?;
    if fields.u32()? != 0 {
        return Err(Bad("bits set that mean nothing"));
    }
    Ok(kind)
}

pub(crate) fn take_term(fields: &mut Fields<'_>) -> Result<Term, Bad> {
    Term::from_bits(fields.u64()?).ok_or(Bad("a term out of range"))
}

pub(crate) fn replica(number: impl TryInto<u8>) -> Result<ReplicaId, Bad> {
    let replica = number.try_into().ok().map(ReplicaId).filter(|replica| *replica <= ReplicaId::MAX);
    replica.ok_or(Bad("a replica out of range"))
}

pub(crate) fn yes(fields: &mut Fields<'_>) -> Result<bool, Bad> {
    match fields.u64()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Bad("neither yes nor no")),
    }
}

pub(crate) fn count(fields: &mut Fields<'_>, most: usize) -> Result<usize, Bad> {
    let count = fields.u64()?;
    if count > most as u64 { Err(Bad("a list too long")) } else { Ok(count as usize) }
}
