//! A new group: its keys are drawn, its file is written once and never over another.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use longarm_base::NodeId;
use longarm_server::{Member, Timing};

use super::{Cluster, file};
use crate::output::{Exit, Failure};

impl Cluster {
    /// A group that never was.
    pub fn draw(mut members: Vec<Member>, timing: Timing) -> Result<Cluster, Failure> {
        members.sort_by_key(|member| member.node);
        let drawn = longarm_host::random()
            .map_err(|error| Failure::new(Exit::System, format!("cannot draw random numbers: {error}")))?;
        let [id, sum_key, hash_key] = drawn;
        // Zero is a server without a group.
        let cluster = Cluster { id: id.max(1), sum_key, hash_key, timing, members };
        cluster.check().map_err(|fault| {
            Failure::new(Exit::Usage, fault)
                .hint("`longarm cluster init --help` shows the form, and the times that go together")
        })?;
        Ok(cluster)
    }

    /// Writes the file, which must not be there yet; only its owner may read it.
    pub fn create(&self, path: &Path) -> Result<(), Failure> {
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
                let failure = Failure::io("create", path, &error);
                if error.kind() == ErrorKind::AlreadyExists {
                    return failure.hint(
                        "a group's keys are drawn once: name another file, or remove this one if its group \
                         is no more",
                    );
                }
                failure
            })?;
        file.write_all(self.to_toml().as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|error| Failure::io("write", path, &error))
    }
}

/// For clap: `1=tcp://host:port`.
pub(super) fn member(text: &str) -> Result<Member, String> {
    let (number, address) =
        text.split_once('=').ok_or("expected a number and an address, such as 1=tcp://host:7411")?;
    let number: i64 = number
        .trim()
        .parse()
        .map_err(|_| format!("{number:?} is no number of a node; expected 0 to {}", NodeId::MAX))?;
    Ok(Member { node: file::node(number)?, address: address.trim().parse()? })
}
