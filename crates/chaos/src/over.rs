//! How processes reach each other, and what can be cut between them.

use std::net::SocketAddr;

use longarm::cluster::{Cluster, NodeAt};
use longarm::output::Failure;
use longarm::processes::{Plan, Replicas};
use longarm_client::Topology;
use longarm_fabric::Address;

use crate::bridge::Bridge;
use crate::fault::Cables;
use crate::relay::{Network, free_ports};

/// How processes reach each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Over {
    /// Over shared memory.
    Shm,
    /// Over TCP.
    Tcp,
    /// Over TCP, through relays that can be cut.
    Relays,
    /// Over RDMA: the device of each replica, and where the replica listens.
    Verbs(Vec<(String, Address)>),
}

impl Over {
    /// Where another node can listen, beside these; `None` if the node has a socket where all nodes have
    /// theirs.
    pub fn place(&self, nodes: &[NodeAt]) -> Result<Option<Address>, Failure> {
        if *self != Over::Tcp {
            return Ok(None);
        }
        let port = |member: &NodeAt| match &member.address {
            Address::Tcp(host) => host.rsplit_once(':')?.1.parse().ok(),
            _ => None,
        };
        let last: Option<u16> = nodes.iter().filter_map(port).max();
        Ok(local(&free_ports(1, last)?).pop())
    }

    /// The transport's name for people.
    pub fn name(&self) -> &'static str {
        match self {
            Over::Shm => "shm",
            Over::Tcp => "tcp",
            Over::Relays => "tcp, through relays",
            Over::Verbs(_) => "verbs",
        }
    }
}

/// Draws the replicas that are to be started, the cables between them, and where clients reach them.
pub fn connected(over: &Over, mut plan: Plan) -> Result<(Replicas, Cables, Topology), Failure> {
    match over {
        Over::Shm | Over::Tcp => {
            if *over == Over::Tcp {
                plan.listen = Some(local(&free_ports(plan.count, None)?));
            }
            let replicas = Replicas::draw(plan)?;
            let topology = Topology::from(replicas.cluster());
            Ok((replicas, Cables::None, topology))
        }
        Over::Relays => {
            let ports = free_ports(plan.count, None)?;
            plan.listen = Some(local(&ports));
            let network = Network::new(plan.count)?;
            let mut replicas = Replicas::draw(plan)?;
            let topology = lay(&network, &mut replicas, &ports)?;
            Ok((replicas, Cables::Relays(network), topology))
        }
        Over::Verbs(devices) => {
            let (names, addresses): (Vec<_>, Vec<_>) = devices.iter().cloned().unzip();
            let bridge = Bridge::of(&names)?;
            bridge.mend()?;
            (plan.listen, plan.devices) = (Some(addresses), names);
            let replicas = Replicas::draw(plan)?;
            let topology = Topology::from(replicas.cluster());
            Ok((replicas, Cables::Bridge(bridge), topology))
        }
    }
}

/// Addresses of this machine alone.
fn local(ports: &[u16]) -> Vec<Address> {
    ports.iter().map(|port| Address::Tcp(format!("127.0.0.1:{port}"))).collect()
}

/// Lays a way to each replica through the relays. Returns the groups as all others are to find them.
fn lay(network: &Network, replicas: &mut Replicas, ports: &[u16]) -> Result<Topology, Failure> {
    let own = replicas.cluster().nodes.clone();
    let way = |(member, port): (&NodeAt, &u16)| {
        let at = network.way(member.node.0, SocketAddr::from(([127, 0, 0, 1], *port)))?;
        Ok(NodeAt { address: Address::Tcp(at.to_string()), ..member.clone() })
    };
    let seen: Vec<NodeAt> = own.iter().zip(ports).map(way).collect::<Result<_, Failure>>()?;
    for (at, member) in own.iter().enumerate() {
        let mut members = seen.clone();
        // The replica itself listens behind its relay.
        members[at] = member.clone();
        replicas.see_others_at(member.node, members)?;
    }
    Ok(Topology::from(&Cluster { nodes: seen, ..replicas.cluster().clone() }))
}
