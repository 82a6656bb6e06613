//! The talk of a leader with the disk of a follower: how far the leader's streams are, and how much of that
//! is in the follower's file.
//!
//! A message is `kind u32 | 0 u32`, then words; lists begin with their length. The leader numbers its marks
//! from one on over each connection. Marks come in order, and a follower may take several of them for the
//! last.

use longarm_base::Csn;

use crate::STREAMS_MAX;
use crate::codec::{Bad, Fields, Out, count, kind, yes};

/// The most segments that one mark names.
pub const FREED_MAX: usize = 1 << 16;

/// A moment of a leader: first its stable point was looked at, then how far each stream was written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DiskMark {
    /// Its number on this connection.
    pub number: u64,
    /// All entries up to this version are written.
    pub stable: Csn,
    /// All entries up to this version are in the leader's own file, as a note in it says.
    pub noted: Csn,
    /// No version beyond this one is drawn before a later mark is noted.
    pub ceiling: Csn,
    /// The leader's calendar, in unix milliseconds.
    pub unix: u64,
    /// Items in its index, about.
    pub items: u64,
    /// Of how many freed segments the follower was told, those of this mark included.
    pub told: u64,
    /// The leader waits for a note that covers this mark.
    pub hurry: bool,
    /// The file may become a mixture, to be given the start set: those of few enough others are mixtures now.
    pub mixes: bool,
    /// By stream: all positions below are written.
    pub written: Vec<u64>,
    /// Segments whose lines in the follower's memory say that they are free: its file is to say so, too.
    pub freed: Vec<u32>,
}

/// How much of a term is in the file of a follower.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskReply {
    /// All that the mark of this number and those before say is in the file; zero if none.
    pub kept: u64,
    /// A note in the file covers the mark of this number; zero if none.
    pub noted: u64,
    /// The file is lost: nothing is kept any more.
    pub failed: bool,
}

impl DiskMark {
    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(96 + 8 * (self.written.len() + self.freed.len())));
        out.kind(1);
        let versions = [self.stable, self.noted, self.ceiling].map(|csn| csn.0);
        out.u64(self.number);
        versions.iter().for_each(|&version| out.u64(version));
        let words = [self.unix, self.items, self.told];
        words.iter().for_each(|&word| out.u64(word));
        [self.hurry, self.mixes].into_iter().for_each(|flag| out.u64(u64::from(flag)));
        out.list(&self.written);
        out.u64(self.freed.len() as u64);
        self.freed.iter().for_each(|&segment| out.u32(segment));
        out.0
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<DiskMark, Bad> {
        let mut fields = Fields(bytes);
        if kind(&mut fields)? != 1 {
            return Err(Bad("not a mark of a leader"));
        }
        let (number, stable) = (fields.u64()?, Csn(fields.u64()?));
        let (noted, ceiling) = (Csn(fields.u64()?), Csn(fields.u64()?));
        let (unix, items, told) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (hurry, mixes) = (yes(&mut fields)?, yes(&mut fields)?);
        let streams = count(&mut fields, STREAMS_MAX)?;
        let written = (0..streams).map(|_| fields.u64()).collect::<Result<_, _>>()?;
        let segments = count(&mut fields, FREED_MAX)?;
        let freed = (0..segments).map(|_| fields.u32()).collect::<Result<_, _>>()?;
        fields.end()?;
        Ok(DiskMark { number, stable, noted, ceiling, unix, items, told, hurry, mixes, written, freed })
    }
}

impl DiskReply {
    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out(Vec::with_capacity(32));
        out.kind(2);
        out.u64(self.kept);
        out.u64(self.noted);
        out.u64(u64::from(self.failed));
        out.0
    }

    /// Decodes received bytes.
    pub fn decode(bytes: &[u8]) -> Result<DiskReply, Bad> {
        let mut fields = Fields(bytes);
        if kind(&mut fields)? != 2 {
            return Err(Bad("not the reply of a disk"));
        }
        let (kept, noted) = (fields.u64()?, fields.u64()?);
        let failed = yes(&mut fields)?;
        fields.end()?;
        Ok(DiskReply { kept, noted, failed })
    }
}
