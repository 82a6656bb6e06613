//! Reading and writing of fixed-width fields.

/// A message that does not parse, and which part of it.
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
