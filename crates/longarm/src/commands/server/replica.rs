//! What a server must be to be a replica of a group: `--cluster` and `--node`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longarm_base::NodeId;
use longarm_fabric::Address;
use longarm_server::{FileVault, GroupOptions, Member};

use super::Args;
use crate::cluster::Cluster;
use crate::config::{Config, Origin};
use crate::output::{Exit, Failure, Output};

/// A replica of a group.
pub struct Replica {
    /// Its group.
    pub cluster: Cluster,
    member: Member,
    dir: PathBuf,
}

impl Replica {
    /// The one that the arguments name; none for a server of its own.
    pub fn of(args: &Args, config: &Config) -> Result<Option<Replica>, Failure> {
        let wrong = |text: String| Failure::new(Exit::Usage, text);
        let Some(path) = &config.cluster else {
            let given = if args.node.is_some() { "--node" } else { "--data" };
            if args.node.is_none() && args.data.is_none() {
                return Ok(None);
            }
            return Err(wrong(format!("{given} is of a replica, and no group is named"))
                .hint("name its file with --cluster FILE, and no --address"));
        };
        let cluster = Cluster::read(path)?;
        let file = path.display();
        let Some(number) = args.node else {
            let text = format!("the group of {file} has nodes {}: which is this one?", cluster.numbers());
            return Err(wrong(text).hint(format!(
                "name it with --node N; for a server without a group, leave cluster ({}) out",
                config.origin("cluster")
            )));
        };
        let Some(member) = cluster.member(NodeId(number)).cloned() else {
            let text = format!("node {number} is not of the group of {file}: it has {}", cluster.numbers());
            return Err(wrong(text).hint("each node has the number that the file gives its address"));
        };
        let tcp = matches!(member.address, Address::Tcp(_));
        if tcp && config.tls.cert.is_some() && config.tls.server_ca.is_none() {
            return Err(wrong(
                "tls.cert is set and tls.server_ca is not: replicas connect to each other".into(),
            )
            .hint("--tls-server-ca names the authority that signed the certificates of the others"));
        }
        let dir = args.data.clone().unwrap_or_else(|| beside(path, number));
        Ok(Some(Replica { cluster, member, dir }))
    }

    /// The settings with the place where it listens. What a group decides is not for one server to say.
    pub fn config(&self, config: &Config, output: &mut Output) -> Config {
        if config.origin("lease") != Origin::Default {
            output.warn(&format!(
                "lease ({}) is not used: a group's is in its file, and the same for all",
                config.origin("lease")
            ));
        }
        config.listening_at(self.member.address.clone())
    }

    /// What the server must know of the group. Its directory is made if need be.
    pub fn group(&self) -> Result<GroupOptions, Failure> {
        let vault = FileVault::open(&self.dir)
            .map_err(|error| Failure::io("make the directory", &self.dir, &error))
            .map_err(|failure| {
                failure.hint("--data names another; a replica needs what it promised again")
            })?;
        Ok(GroupOptions {
            id: self.cluster.id,
            node: self.member.node,
            members: self.cluster.members.clone(),
            timing: self.cluster.timing,
            sum_key: self.cluster.sum_key,
            hash_key: self.cluster.hash_key,
            vault: Arc::new(vault),
        })
    }

    /// `node 2 of a group of 3`.
    pub fn name(&self) -> String {
        format!("node {} of a group of {}", self.member.node, self.cluster.members.len())
    }

    /// Where it keeps what it promised.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// `FILE.node-N`, beside the group's file.
fn beside(path: &Path, number: u8) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".node-{number}"));
    name.into()
}
