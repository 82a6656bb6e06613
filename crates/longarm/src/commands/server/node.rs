//! Makes a server a node of a cluster, by `--cluster` and `--node`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longarm_base::ReplicaId;
use longarm_fabric::Address;
use longarm_server::{
    Durability, Durable, FileVoteStore, GroupOptions, MediumKind, ReplicaDirectory, Scrubbing,
};

use super::args::Args;
use super::failure::start_failure;
use crate::cluster::{self, Cluster, Group, NodeAt, NodeId};
use crate::config::{Config, Origin};
use crate::output::{Exit, Failure, Output};

/// A node of a cluster, with its replicas.
pub struct Node {
    /// The cluster to which it belongs.
    pub cluster: Cluster,
    at: NodeAt,
    joins: bool,
    dir: PathBuf,
    /// Where its replicas keep what they promised, if not there.
    vault: Option<PathBuf>,
    /// What the files of its replicas are kept on.
    medium: MediumKind,
    /// How the files of its replicas are looked over.
    scrubbing: Scrubbing,
}

impl Node {
    /// Finds the node that the arguments name; gives none for a server without a cluster.
    pub fn of(args: &Args, config: &Config) -> Result<Option<Node>, Failure> {
        let wrong = |text: String| Failure::new(Exit::Usage, text);
        let Some(path) = &config.cluster else {
            let given = match args {
                Args { node: Some(_), .. } => "--node",
                Args { join: true, .. } => "--join",
                _ => return Ok(None),
            };
            return Err(wrong(format!("{given} is of a cluster's node, and no cluster is named"))
                .hint("name its file with --cluster FILE, and no --address"));
        };
        let cluster = cluster::read(path)?;
        let file = path.display();
        let Some(number) = args.node else {
            let text = format!("the cluster of {file} has nodes {}: which is this one?", cluster.numbers());
            return Err(wrong(text).hint(format!(
                "name it with --node N; for a server of its own, leave cluster ({}) out",
                config.origin("cluster")
            )));
        };
        let Some(at) = cluster.node(NodeId(number)).cloned() else {
            let text = format!("node {number} is not of the cluster of {file}: it has {}", cluster.numbers());
            return Err(wrong(text).hint("each node has the number that the file gives its address"));
        };
        if cluster.groups_on(at.node).next().is_none() {
            let text = format!("node {number} has no replica of any group of {file}");
            return Err(wrong(text).hint("it has nothing to do; `longarm cluster init` places the groups"));
        }
        let tcp = matches!(at.address, Address::Tcp(_));
        if tcp && config.tls.cert.is_some() && config.tls.server_ca.is_none() {
            return Err(wrong(
                "tls.cert is set and tls.server_ca is not: replicas connect to each other".into(),
            )
            .hint("--tls-server-ca names the authority that signed the certificates of the others"));
        }
        if args.accept_damage {
            let text = "--accept-damage is of a server alone: a replica would lead without what it lacks";
            return Err(wrong(text.into()).hint(
                "move the node's data directory away and start it: the others give it all that they have",
            ));
        }
        let dir = config.data.clone().unwrap_or_else(|| cluster::directory_beside(path, at.node));
        let scrubbing = Scrubbing::hourly(config.scrub_rate);
        let medium = config.pmem.medium(cluster.durability == cluster::Durability::Pmem);
        let vault = config.vault_dir.clone();
        Ok(Some(Node { cluster, at, joins: args.join, dir, vault, medium, scrubbing }))
    }

    /// Gives the settings with the node's address. Warns of a setting that is not for one server to say,
    /// since the cluster decides it.
    pub fn config(&self, config: &Config, output: &mut Output) -> Config {
        for key in ["lease", "durability", "loss_window"] {
            if config.origin(key) != Origin::Default {
                output.warn(&format!(
                    "{key} ({}) is not used: what holds for a cluster is in its file, and the same for all",
                    config.origin(key)
                ));
            }
        }
        config.listening_at(self.at.address.clone())
    }

    /// Makes the options of the groups of which the node has replicas; makes its directory if need be.
    pub fn groups(&self) -> Result<Vec<GroupOptions>, Failure> {
        self.cluster.groups_on(self.at.node).map(|group| self.group(group)).collect()
    }

    fn group(&self, group: &Group) -> Result<GroupOptions, Failure> {
        let replica = group.on(self.at.node).expect("the node has a replica of it");
        let vault = self.vault.as_deref();
        let vote_store = Arc::new(cluster::vote_store(&self.cluster, group, replica, &self.dir, vault)?);
        let durable = self.durable(group, replica, vote_store.clone())?;
        Ok(GroupOptions {
            id: group.id,
            replica,
            members: self.cluster.members_of(group),
            joins: self.joins,
            first: group.replicas.first().map(|one| one.replica),
            timing: self.cluster.timing,
            sum_key: group.sum_key,
            hash_key: group.hash_key,
            vote_store,
            durable,
            memory_parts: self.cluster.memory_parts(group),
        })
    }

    /// The disk of a replica, where the cluster keeps its data: its arena is beside what it promised; if the
    /// node has replicas of several groups, in a directory of each group.
    fn durable(
        &self,
        group: &Group,
        replica: ReplicaId,
        votes: Arc<FileVoteStore>,
    ) -> Result<Option<Durable>, Failure> {
        let dir = cluster::arena_directory(&self.cluster, group, &self.dir);
        let durability = match self.cluster.durability {
            cluster::Durability::Memory => return without_data(&dir).map(|()| None),
            cluster::Durability::Async => Durability::Async { window: self.cluster.loss_window },
            cluster::Durability::Sync | cluster::Durability::Pmem => Durability::Sync,
        };
        let disk = ReplicaDirectory::open(&dir, group.id, replica, votes, self.vault.is_some(), self.medium);
        let disk = Arc::new(disk.map_err(|error| start_failure(&error))?);
        Ok(Some(Durable { durability, disk, accept_damage: false, scrubbing: self.scrubbing }))
    }

    /// The number of groups of which the node has replicas.
    pub fn replicas(&self) -> usize {
        self.cluster.groups_on(self.at.node).count()
    }

    /// The node as messages name it: `node 2 of a group of 3`, `node 2 of 5, with replicas of 3 groups of 4`.
    pub fn name(&self) -> String {
        let node = self.at.node;
        match &self.cluster.groups[..] {
            [group] => format!("node {node} of a group of {}", group.replicas.len()),
            groups => format!(
                "node {node} of {}, with replicas of {} groups of {}",
                self.cluster.nodes.len(),
                self.replicas(),
                groups.len()
            ),
        }
    }

    /// The directory in which the node keeps what its replicas promised.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Refuses the directory of a replica that kept its data, where by its file the cluster keeps none.
fn without_data(dir: &Path) -> Result<(), Failure> {
    let arena = dir.join("arena");
    if !arena.exists() {
        return Ok(());
    }
    let text =
        format!("{} has data that this node kept, and by its file the cluster keeps none", arena.display());
    Err(Failure::new(Exit::Usage, text).hint(
        "put `durability = \"sync\"` back into the cluster's file, or \"async\" if it was that; or, to begin \
         without data, remove the data directory of each node",
    ))
}
