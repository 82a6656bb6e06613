//! What a file does: bytes are written, and are surely there once a sync says so.

use std::io;
use std::path::Path;

use longarm_memory::Persistence;

/// A file, or what stands for one. Its size never changes.
pub trait Medium: Send + Sync {
    /// What to call it.
    fn path(&self) -> &Path;

    /// Bytes that it has.
    fn bytes(&self) -> u64;

    /// Writes all of these bytes. A loss of power before the next sync leaves of each sector what it was
    /// after some of the writes to it, in their order.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// From now on what is written next begins there, mostly, and is waited for: a medium that has a way to
    /// make that cheaper does so meanwhile.
    fn prepare(&mut self, _from: u64) {}

    /// Waits until all that was written is there, whatever happens. After an error nothing is known of it.
    fn sync(&mut self) -> io::Result<()>;

    /// Reads all of these bytes.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// Reads all of these bytes from where they outlive a loss of power, not from what memory has of them.
    fn read_back(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read(at, into)
    }

    /// Of memory: what it outlives.
    fn persistence(&self) -> Option<Persistence> {
        None
    }
}

impl<M: Medium + ?Sized> Medium for Box<M> {
    fn path(&self) -> &Path {
        (**self).path()
    }

    fn bytes(&self) -> u64 {
        (**self).bytes()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        (**self).write(at, bytes)
    }

    fn prepare(&mut self, from: u64) {
        (**self).prepare(from)
    }

    fn sync(&mut self) -> io::Result<()> {
        (**self).sync()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        (**self).read(at, into)
    }

    fn read_back(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        (**self).read_back(at, into)
    }

    fn persistence(&self) -> Option<Persistence> {
        (**self).persistence()
    }
}
