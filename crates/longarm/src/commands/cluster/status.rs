//! `longarm cluster status`: asks every replica of every group, all at once, and the leaders about the
//! others.

use std::path::Path;
use std::time::Duration;

use longarm_base::NodeId;
use longarm_client::{Client, Error, Options};
use longarm_fabric::{Address, Any, SetupError};
use longarm_server::Member;
use longarm_wire::is_elsewhere;
use serde_json::{Value, json};

use super::StatusArgs;
use crate::cluster::{self, Cluster, Group};
use crate::config::Config;
use crate::connect;
use crate::human;
use crate::output::{Exit, Failure, Output};

/// What one replica said.
#[derive(Clone, PartialEq, Debug)]
enum Said {
    /// It leads, and says so of itself and its followers.
    Leads(Value),
    /// It lives and does not lead; who does, if it knows.
    Follows(Option<String>),
    /// Why it said nothing.
    Nothing(String),
}

/// Shows each replica of each group.
pub fn run(args: &StatusArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let cluster = cluster::read(&args.file)?;
    let looked = look_at_all(&cluster, config)?;
    show(&looked, output)?;
    let several = looked.len() > 1;
    let mut exit = Exit::Ok;
    for (number, looked) in looked.iter().enumerate().filter(|(_, looked)| looked.leader().is_none()) {
        let which = if several { format!("group {}: ", number + 1) } else { String::new() };
        output.note(&format!("{which}{}", nobody(&args.file, &looked.said)));
        exit = Exit::CannotConnect;
    }
    for (number, row) in looked
        .iter()
        .enumerate()
        .flat_map(|(at, looked)| looked.rows().into_iter().map(move |row| (at + 1, row)))
    {
        if row["role"] == "not added" {
            output.note(&not_added(&args.file, &row, several.then_some(number)));
        }
    }
    Ok(exit)
}

/// A change that was begun, or ended here in doubt, and its way on and back.
fn not_added(file: &Path, row: &Value, group: Option<usize>) -> String {
    let (file, node) = (file.display(), &row["node"]);
    let group = group.map_or_else(String::new, |number| format!(" --group {number}"));
    format!(
        "node {node} is no replica{of}, though {file} names it: the group was not changed, or not yet; \
         `longarm cluster add-node {file} {node}={address}{group}` goes on, \
         `longarm cluster remove-node {file} {node}{group}` takes it out",
        of = if group.is_empty() { "" } else { " of that group" },
        address = row["address"].as_str().unwrap_or("?")
    )
}

/// A group, and what its replicas said.
struct Looked<'a> {
    group: &'a Group,
    members: Vec<Member>,
    said: Vec<Said>,
}

/// One table of all replicas, or one object a group.
fn show(looked: &[Looked<'_>], output: &mut Output) -> Result<(), Failure> {
    if !output.json() {
        let rows: Vec<Vec<Value>> = looked.iter().map(Looked::rows).collect();
        return output.write(table(&rows).as_bytes());
    }
    for looked in looked {
        output.value(&json!({
            "group": format!("{:016x}", looked.group.id),
            "leader": looked.leader().map(|(node, _)| node.0),
            "nodes": looked.rows(),
        }))?;
    }
    Ok(())
}

/// How a group stands.
pub struct Standing {
    /// Who leads, and what it says of itself.
    pub leader: Option<(NodeId, Value)>,
    /// Those in sync, the leader among them.
    pub in_sync: Vec<NodeId>,
}

/// Looks how each group of a cluster stands.
pub fn look(cluster: &Cluster, config: &Config) -> Result<Vec<Standing>, Failure> {
    Ok(look_at_all(cluster, config)?.iter().map(Looked::standing).collect())
}

fn look_at_all<'a>(cluster: &'a Cluster, config: &Config) -> Result<Vec<Looked<'a>>, Failure> {
    let options = Options { follow: false, ..connect::options(config, "longarm cluster status")? };
    let transport = connect::transport(config)?;
    let ask = |member: &Member, group: u64| {
        ask(&transport, &member.address, Options { group, ..options.clone() }, group)
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
        let answers = |(group, members, threads): (_, _, Vec<std::thread::ScopedJoinHandle<'_, Said>>)| {
            let said = threads.into_iter().map(|thread| thread.join().expect("asking does not panic"));
            Looked { group, members, said: said.collect() }
        };
        asked.into_iter().map(answers).collect()
    }))
}

fn ask(transport: &Any, address: &Address, options: Options, group: u64) -> Said {
    match stats(transport, address, options, group) {
        Ok(stats) => stats,
        Err(Error::Connect(SetupError::Refused(why))) => match is_elsewhere(&why) {
            Some(leader) => Said::Follows(leader.map(Into::into)),
            None => Said::Nothing(why),
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

/// A term as it is ordered: its counter, then its node.
fn term_of(stats: &Value) -> (u64, u64) {
    let text = stats["term"].as_str().unwrap_or("");
    let (counter, node) = text.split_once('.').unwrap_or((text, ""));
    (counter.parse().unwrap_or(0), node.parse().unwrap_or(0))
}

impl Looked<'_> {
    /// Whoever leads: of two, one of which was not told yet that it is over, the one of the later term.
    fn leader(&self) -> Option<(NodeId, &Value)> {
        let leads = self.members.iter().zip(&self.said).filter_map(|(member, said)| match said {
            Said::Leads(stats) => Some((member.node, stats)),
            _ => None,
        });
        leads.max_by_key(|(_, stats)| term_of(stats))
    }

    fn standing(&self) -> Standing {
        let rows = self.rows();
        let synced = rows.iter().filter(|row| row["in_sync"] == true);
        Standing {
            in_sync: synced.filter_map(|row| row["node"].as_u64()).map(|node| NodeId(node as u8)).collect(),
            leader: self.leader().map(|(node, stats)| (node, stats.clone())),
        }
    }

    /// One object a replica, in the order of the nodes.
    fn rows(&self) -> Vec<Value> {
        let followers = self.leader().and_then(|(_, stats)| stats["followers"].as_array());
        let members = self.leader().and_then(|(_, stats)| stats["members"].as_array());
        let row = |(member, said): (&Member, &Said)| {
            let mut row = json!({ "node": member.node.0, "address": member.address.to_string() });
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
            if members.is_some_and(|members| members.iter().all(|one| *one != member.node.0)) {
                // The file names it, and the group does not have it.
                row["role"] = "not added".into();
            }
            if let Some(followers) = followers {
                // One that the leader does not know of is not attached, so not in sync.
                let known = followers.iter().find(|one| one["node"] == member.node.0);
                row["in_sync"] = known.is_some_and(|one| one["synced"] == true).into();
                row["lag"] = known.map_or(Value::Null, |one| one["lag"].clone());
            }
            row
        };
        let mut rows: Vec<Value> = self.members.iter().zip(&self.said).map(row).collect();
        rows.sort_by_key(|row| row["node"].as_u64());
        rows
    }
}

/// The rows of each group; of several, with the group's number.
fn table(groups: &[Vec<Value>]) -> String {
    let several = groups.len() > 1;
    let mut lines =
        vec![["group", "node", "address", "term", "in sync", "lag", "lease left", "role"].map(String::from)];
    for (number, row) in
        groups.iter().enumerate().flat_map(|(at, rows)| rows.iter().map(move |row| (at + 1, row)))
    {
        let shown = |field: &str, show: &dyn Fn(&Value) -> String| match &row[field] {
            Value::Null => "-".to_string(),
            value => show(value),
        };
        let text = |value: &Value| value.as_str().unwrap_or("?").to_string();
        let count = |value: &Value| value.as_u64().map_or("?".into(), human::count);
        let role = match &row["why"] {
            Value::String(why) if row["role"] == "unreachable" => format!("not reachable: {why}"),
            Value::String(why) => format!("{}; not reachable: {why}", text(&row["role"])),
            _ => text(&row["role"]),
        };
        lines.push([
            number.to_string(),
            shown("node", &count),
            shown("address", &text),
            shown("term", &text),
            shown("in_sync", &|value| if *value == true { "yes".into() } else { "no".into() }),
            shown("lag", &count),
            shown("lease_us", &|value| human::time(Duration::from_micros(value.as_u64().unwrap_or(0)))),
            role,
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).skip(usize::from(!several));
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Why nobody leads, as far as it can be told from here.
fn nobody(path: &Path, said: &[Said]) -> String {
    let alive = said.iter().filter(|said| !matches!(said, Said::Nothing(_))).count();
    let (all, most) = (said.len(), said.len() / 2 + 1);
    if alive < most {
        return format!(
            "no node leads: {alive} of {all} answer, and {most} are needed; start them with `longarm server \
             --cluster {} --node N`",
            path.display()
        );
    }
    format!("no node leads, though {alive} of {all} answer: they are electing one, or their logs say why not")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::parse_member;

    fn group(id: u64) -> Group {
        Group { id, sum_key: 1, hash_key: 2, replicas: [2, 1, 3].map(NodeId).to_vec() }
    }

    /// Of nodes 2, 1 and 3, the first of which leads first.
    fn looked(group: &Group, said: [Said; 3]) -> Looked<'_> {
        let members = ["2=tcp://b:2", "1=tcp://a:1", "3=tcp://c:3"];
        let members = members.map(|text| parse_member(text).expect(text)).to_vec();
        Looked { group, members, said: said.to_vec() }
    }

    fn one_leads(group: &Group) -> Looked<'_> {
        let stats = json!({ "term": "7.2", "lease_us": 41_000,
            "followers": [{ "node": 1, "synced": true, "lag": 12 }] });
        let follows = Said::Follows(Some("tcp://b:2".into()));
        looked(group, [Said::Leads(stats), follows, Said::Nothing("nobody listens".into())])
    }

    #[test]
    fn the_leader_tells_of_the_others() {
        let group = group(7);
        let rows = one_leads(&group).rows();
        assert_eq!(rows[0]["in_sync"], true);
        assert_eq!(rows[2]["in_sync"], false, "the leader does not know of it");
        let expected = "\
node  address    term  in sync  lag  lease left  role
1     tcp://a:1  -     yes      12   -           follower
2     tcp://b:2  7.2   yes      -    41 ms       leader
3     tcp://c:3  -     no       -    -           not reachable: nobody listens
";
        assert_eq!(table(&[rows]), expected);
    }

    #[test]
    fn a_node_that_the_group_does_not_have_is_no_replica() {
        let group = group(7);
        for third in [Said::Nothing("nobody listens".into()), Said::Follows(None)] {
            let stats = json!({ "term": "7.2", "members": [1, 2],
                "followers": [{ "node": 1, "synced": true, "lag": 12 }] });
            let looked = looked(&group, [Said::Leads(stats), Said::Follows(None), third]);
            let rows = looked.rows();
            let roles: Vec<_> = rows.iter().map(|row| row["role"].as_str().expect("a role")).collect();
            assert_eq!(roles, ["follower", "leader", "not added"]);
            assert_eq!(looked.standing().in_sync, [NodeId(1), NodeId(2)]);
            let note = not_added(Path::new("g.toml"), &rows[2], Some(2));
            assert!(note.contains("add-node g.toml 3=tcp://c:3 --group 2` goes on"), "{note}");
            assert!(note.contains("remove-node g.toml 3 --group 2` takes it out"), "{note}");
        }
    }

    #[test]
    fn of_several_groups_each_is_named() {
        let (first, second) = (group(7), group(8));
        let nobody = looked(&second, [Said::Follows(None), Said::Follows(None), Said::Follows(None)]);
        let text = table(&[one_leads(&first).rows(), nobody.rows()]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 7, "{text}");
        assert!(lines[0].starts_with("group  node  address"), "{text}");
        assert!(lines[2].starts_with("1      2     tcp://b:2  7.2"), "{text}");
        assert!(lines[4].starts_with("2      1     tcp://a:1  -     -"), "{text}");
    }

    #[test]
    fn the_later_of_two_leaders_leads() {
        let leads = |term: &str| Said::Leads(json!({ "term": term, "followers": [] }));
        let group = group(7);
        let two = looked(&group, [leads("9.1"), leads("10.2"), Said::Follows(None)]);
        assert_eq!(two.leader().map(|(node, _)| node), Some(NodeId(1)));
        let none = looked(&group, [Said::Follows(None), Said::Follows(None), Said::Follows(None)]);
        assert_eq!(none.leader(), None);
    }

    #[test]
    fn too_few_and_undecided_are_told_apart() {
        let dead = || Said::Nothing("x".into());
        let text = nobody(Path::new("g.toml"), &[dead(), Said::Follows(None), dead()]);
        assert!(
            text.contains("1 of 3 answer, and 2 are needed") && text.contains("--cluster g.toml"),
            "{text}"
        );
        let text = nobody(Path::new("g.toml"), &[Said::Follows(None), Said::Follows(None), dead()]);
        assert!(text.contains("2 of 3 answer: they are electing"), "{text}");
    }
}
