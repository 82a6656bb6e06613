//! The disk of a replica in the terms that it leads.

use longarm_base::Term;
use longarm_fabric::Transport;

use super::Node;
use crate::common::Core;
use crate::durable::scribe::{self, Begun};

impl<T: Transport> Node<T> {
    /// Has the disk ready for a term, if the replica has one.
    pub(super) fn begin_disk(&mut self, term: Term, core: &Core) -> Result<Option<Begun>, String> {
        let Some(durable) = &self.group_options.durable else { return Ok(None) };
        let disk = self.disk.take().ok_or("its disk has failed")?;
        scribe::begin(disk, durable.durability, term, core).map(Some).map_err(|error| error.to_string())
    }
}
