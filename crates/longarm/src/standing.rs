//! Finds how the groups of a cluster stand. It asks every replica of every group, all at once, and the
//! leaders about the others.

use longarm_client::{Client, Error, Options, refusal};
use longarm_fabric::{Address, Any};
use longarm_server::Member;
use longarm_wire::RefusalCode;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Group, NodeId};
use crate::config::Config;
use crate::connect;
use crate::ordered::{self, Index};
use crate::output::Failure;

/// The answer of one replica.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// The replica leads, and says this of itself and its followers.
    Leads(Value),
    /// The replica lives and does not lead; it names the leader, if it knows it.
    Follows(Option<String>),
    /// The replica gave no answer, for this reason.
    Nothing(String),
}

/// A group, and the answers of its replicas.
pub struct Looked<'a> {
    /// The group.
    pub group: &'a Group,
    /// The replicas of the group.
    pub members: Vec<Member>,
    /// The answer of each replica.
    pub said: Vec<Said>,
    /// What each says of its ordered index, if it was asked.
    pub indexes: Vec<Index>,
}

/// How a group stands.
pub struct Standing {
    /// The leader, and what it says of itself.
    pub leader: Option<(NodeId, Value)>,
    /// The replicas in sync, the leader among them.
    pub in_sync: Vec<NodeId>,
}

/// Finds how each group of a cluster stands.
pub fn look(cluster: &Cluster, config: &Config) -> Result<Vec<Standing>, Failure> {
    Ok(look_at_all(cluster, config, false)?.iter().map(Looked::standing).collect())
}

/// Asks all replicas of all groups; with `indexes` those that answer are asked for their ordered indexes,
/// too.
pub fn look_at_all<'a>(
    cluster: &'a Cluster,
    config: &Config,
    indexes: bool,
) -> Result<Vec<Looked<'a>>, Failure> {
    let options = Options { follow: false, ..connect::options(config, "longarm cluster status")? };
    let transport = connect::transport(config)?;
    let ask = |member: &Member, group: u64| {
        let options = Options { group, ..options.clone() };
        let said = ask(&transport, &member.address, options.clone(), group);
        let index = match &said {
            Said::Nothing(why) => Index::Unknown(why.clone()),
            _ if indexes => ordered::ask(&transport, &member.address, &options),
            _ => Index::NotKept,
        };
        (said, index)
    };
    Ok(std::thread::scope(|scope| {
        let asked: Vec<_> = (cluster.groups.iter())
            .map(|group| {
                let members = cluster.members_of(group);
                let ask = |member: &Member| {
                    let (member, id) = (member.clone(), group.id);
                    scope.spawn(move || ask(&member, id))
                };
                let threads: Vec<_> = members.iter().map(ask).collect();
                (group, members, threads)
            })
            .collect();
        let answers = |(group, members, threads): (_, _, Vec<std::thread::ScopedJoinHandle<'_, _>>)| {
            let said = threads.into_iter().map(|thread| thread.join().expect("asking does not panic"));
            let (said, indexes) = said.unzip();
            Looked { group, members, said, indexes }
        };
        asked.into_iter().map(answers).collect()
    }))
}

fn ask(transport: &Any, address: &Address, options: Options, group: u64) -> Said {
    match stats(transport, address, options, group) {
        Ok(stats) => stats,
        Err(Error::Connect(error)) => match refusal(&error) {
            Some(why) if why.code == RefusalCode::NotLeader => Said::Follows(why.leader),
            Some(why) => Said::Nothing(why.text),
            None => Said::Nothing(error.to_string()),
        },
        Err(error) => Said::Nothing(error.to_string()),
    }
}

fn stats(transport: &Any, address: &Address, options: Options, group: u64) -> Result<Said, Error> {
    let mut client = Client::connect_over(transport.clone(), address, options)?;
    if client.group() == 0 {
        return Ok(Said::Nothing("a server without a group answers there".into()));
    }
    if client.group() != group {
        return Ok(Said::Nothing("a server of another group answers there".into()));
    }
    let told = serde_json::from_str::<Value>(&client.stats()?).ok().and_then(|stats| {
        let group = stats.get("group")?;
        group.is_object().then(|| group.clone())
    });
    Ok(told.map_or_else(|| Said::Nothing("it says nothing of its group".into()), Said::Leads))
}

/// Reads a term in the order of terms: its counter, then its leader.
fn term_of(stats: &Value) -> (u64, u64) {
    let text = stats["term"].as_str().unwrap_or("");
    let (counter, leader) = text.split_once('.').unwrap_or((text, ""));
    (counter.parse().unwrap_or(0), leader.parse().unwrap_or(0))
}

impl Looked<'_> {
    /// The leader. Of two replicas that lead, one was not told yet that its term is over: the replica of the
    /// later term leads.
    pub fn leader(&self) -> Option<(NodeId, &Value)> {
        let leads = self.members.iter().zip(&self.said).filter_map(|(member, said)| match said {
            Said::Leads(stats) => Some((self.group.node_of(member.replica)?, stats)),
            _ => None,
        });
        leads.max_by_key(|(_, stats)| term_of(stats))
    }

    /// How the group stands.
    pub fn standing(&self) -> Standing {
        let rows = self.rows();
        let synced = rows.iter().filter(|row| row["in_sync"] == true);
        Standing {
            in_sync: synced.filter_map(|row| row["node"].as_u64()).map(|node| NodeId(node as u32)).collect(),
            leader: self.leader().map(|(node, stats)| (node, stats.clone())),
        }
    }

    /// Makes one object a replica, in the order of the nodes.
    pub fn rows(&self) -> Vec<Value> {
        let followers = self.leader().and_then(|(_, stats)| stats["followers"].as_array());
        let members = self.leader().and_then(|(_, stats)| stats["members"].as_array());
        let row = |((member, said), index): ((&Member, &Said), &Index)| {
            let (replica, node) = (member.replica.0, self.group.node_of(member.replica).map(|node| node.0));
            let mut row = json!({ "node": node, "replica": replica, "address": member.address.to_string() });
            row["ordered"] = index.to_json();
            match said {
                Said::Leads(stats) => {
                    row["role"] = "leader".into();
                    row["term"] = stats["term"].clone();
                    row["in_sync"] = true.into();
                    row["lease_us"] = stats["lease_us"].clone();
                    return row;
                }
                Said::Follows(leader) => {
                    row["role"] = "follower".into();
                    row["leader"] = leader.clone().into();
                }
                Said::Nothing(why) => {
                    row["role"] = "unreachable".into();
                    row["why"] = why.clone().into();
                }
            }
            if members.is_some_and(|members| members.iter().all(|one| *one != replica)) {
                // The file names the node, but the group does not have it.
                row["role"] = "not added".into();
            }
            if let Some(followers) = followers {
                // A replica that the leader does not know is not attached, so it is not in sync.
                let known = followers.iter().find(|one| one["replica"] == replica);
                row["in_sync"] = known.is_some_and(|one| one["synced"] == true).into();
                row["lag"] = known.map_or(Value::Null, |one| one["lag"].clone());
            }
            row
        };
        let mut rows: Vec<Value> = self.members.iter().zip(&self.said).zip(&self.indexes).map(row).collect();
        rows.sort_by_key(|row| row["node"].as_u64());
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_two_leaders_leads() {
        let leads = |term: &str| Said::Leads(json!({ "term": term, "followers": [] }));
        let mut group = Group { id: 7, sum_key: 1, hash_key: 2, replicas: Vec::new() };
        [2, 1, 3].into_iter().for_each(|node| group.place(NodeId(node)));
        let address: Address = "tcp://a:1".parse().expect("an address");
        let looked = |said: [Said; 3]| {
            let replicas = group.replicas.iter().map(|one| one.replica);
            let members = replicas.map(|replica| Member { replica, address: address.clone() }).collect();
            Looked { group: &group, members, said: said.to_vec(), indexes: vec![Index::NotKept; 3] }
        };
        let two = looked([leads("9.1"), leads("10.2"), Said::Follows(None)]);
        assert_eq!(two.leader().map(|(node, _)| node), Some(NodeId(1)));
        let none = looked([Said::Follows(None), Said::Follows(None), Said::Follows(None)]);
        assert_eq!(none.leader(), None);
    }
}
