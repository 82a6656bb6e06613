//! The leader of which a backup is made, over a client's connection.

use longarm_base::Term;
use longarm_client::{Client, Error};
use longarm_fabric::{Any, Transport};
use longarm_memory::{SumKey, Words};
use longarm_wire::ARENA_REGION;

use crate::copying::{Source, Start};

/// A leader.
pub struct Leader<'c, T: Transport = Any> {
    client: &'c mut Client<T>,
    sums: SumKey,
    bytes: u64,
}

impl<'c, T: Transport> Leader<'c, T> {
    /// The leader that this client is connected to.
    pub fn of(client: &'c mut Client<T>) -> Result<Leader<'c, T>, Error> {
        let raw = client.raw()?;
        let sums = raw.sums().clone();
        let bytes = raw.region(ARENA_REGION).map(|arena| arena.bytes());
        let bytes = bytes.ok_or(Error::NoBackup("the server does not lend its arena"))?;
        Ok(Leader { client, sums, bytes })
    }
}

impl<T: Transport> Source for Leader<'_, T> {
    type Error = Error;

    fn begin(&mut self) -> Result<Start, Error> {
        let begun = self.client.begin_backup()?;
        let term = Term::from_bits(begun.term).ok_or(Error::Protocol("a term out of range".into()))?;
        Ok(Start { csn: begun.csn, claims: begun.claims, unix: begun.unix, term, group: begun.group })
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let raw = self.client.raw()?;
        let arena = raw.region(ARENA_REGION).filter(|arena| arena.bytes() == self.bytes);
        // Another server than at the beginning: the next step would say so, too.
        let arena = arena.ok_or(Error::BackupOver("another server answers than at the beginning"))?;
        arena.copy_out(offset, into);
        raw.failure().map_or(Ok(()), Err)
    }

    fn let_go(&mut self, segments: &[u32]) -> Result<u64, Error> {
        self.client.let_go(segments)
    }

    fn end(&mut self) -> Result<(), Error> {
        self.client.end_backup()
    }

    fn sums(&self) -> SumKey {
        self.sums.clone()
    }
}
