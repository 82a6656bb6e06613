//! `longarm cluster status`: asks every replica of a group, all at once, and the leader about the others.

use std::path::Path;
use std::time::Duration;

use longarm_base::NodeId;
use longarm_client::{Client, Error, Options};
use longarm_fabric::{Address, Any, SetupError};
use longarm_server::Member;
use longarm_wire::is_elsewhere;
use serde_json::{Value, json};

use super::StatusArgs;
use crate::cluster::Cluster;
use crate::commands::connect;
use crate::config::Config;
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

/// Shows each replica.
pub fn run(args: &StatusArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let cluster = Cluster::read(&args.file)?;
    let options = Options { follow: false, ..connect::options(config, "longarm cluster status")? };
    let transport = connect::transport(config)?;
    let ask = |member: &Member| ask(&transport, &member.address, options.clone(), cluster.id);
    let said: Vec<Said> = std::thread::scope(|scope| {
        let asked: Vec<_> = cluster.members.iter().map(|member| scope.spawn(move || ask(member))).collect();
        asked.into_iter().map(|thread| thread.join().expect("asking does not panic")).collect()
    });
    let rows = rows(&cluster, &said);
    let leader = leader(&cluster, &said);
    if output.json() {
        let leader = leader.map(|(node, _)| node.0);
        output.value(&json!({ "group": format!("{:016x}", cluster.id), "leader": leader, "nodes": rows }))?;
    } else {
        output.write(table(&rows).as_bytes())?;
    }
    if leader.is_some() {
        return Ok(Exit::Ok);
    }
    output.note(&nobody(&args.file, &said));
    Ok(Exit::CannotConnect)
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

/// Whoever leads: of two, one of which was not told yet that it is over, the one of the later term.
fn leader<'a>(cluster: &Cluster, said: &'a [Said]) -> Option<(NodeId, &'a Value)> {
    let leads = cluster.members.iter().zip(said).filter_map(|(member, said)| match said {
        Said::Leads(stats) => Some((member.node, stats)),
        _ => None,
    });
    leads.max_by_key(|(_, stats)| term_of(stats))
}

/// One object a replica.
fn rows(cluster: &Cluster, said: &[Said]) -> Vec<Value> {
    let followers = leader(cluster, said).and_then(|(_, stats)| stats["followers"].as_array());
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
        if let Some(followers) = followers {
            // One that the leader does not know of is not attached, so not in sync.
            let known = followers.iter().find(|one| one["node"] == member.node.0);
            row["in_sync"] = known.is_some_and(|one| one["synced"] == true).into();
            row["lag"] = known.map_or(Value::Null, |one| one["lag"].clone());
        }
        row
    };
    cluster.members.iter().zip(said).map(row).collect()
}

fn table(rows: &[Value]) -> String {
    let mut lines =
        vec![["node", "address", "term", "in sync", "lag", "lease left", "role"].map(String::from)];
    for row in rows {
        let shown = |field: &str, show: &dyn Fn(&Value) -> String| match &row[field] {
            Value::Null => "-".to_string(),
            value => show(value),
        };
        let text = |value: &Value| value.as_str().unwrap_or("?").to_string();
        let number = |value: &Value| value.as_u64().map_or("?".into(), human::count);
        let role = match &row["why"] {
            Value::String(why) => format!("not reachable: {why}"),
            _ => text(&row["role"]),
        };
        lines.push([
            shown("node", &number),
            shown("address", &text),
            shown("term", &text),
            shown("in_sync", &|value| if *value == true { "yes".into() } else { "no".into() }),
            shown("lag", &number),
            shown("lease_us", &|value| human::time(Duration::from_micros(value.as_u64().unwrap_or(0)))),
            role,
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
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
    use longarm_base::Nanos;
    use longarm_server::Timing;

    use super::*;
    use crate::cluster::parse_member;

    fn three() -> Cluster {
        let ms = Nanos::from_millis;
        let timing = Timing { heartbeat: ms(5), suspect: ms(40), promise: ms(50), election: ms(500) };
        let members =
            ["1=tcp://a:1", "2=tcp://b:2", "3=tcp://c:3"].map(|text| parse_member(text).expect(text));
        Cluster::draw(members.to_vec(), timing).expect("a group")
    }

    #[test]
    fn the_leader_tells_of_the_others() {
        let stats = json!({ "term": "7.2", "lease_us": 41_000,
            "followers": [{ "node": 1, "synced": true, "lag": 12 }] });
        let said = [
            Said::Follows(Some("tcp://b:2".into())),
            Said::Leads(stats),
            Said::Nothing("nobody listens".into()),
        ];
        let rows = rows(&three(), &said);
        assert_eq!(rows[0]["in_sync"], true);
        assert_eq!(rows[2]["in_sync"], false, "the leader does not know of it");
        let expected = "\
node  address    term  in sync  lag  lease left  role
1     tcp://a:1  -     yes      12   -           follower
2     tcp://b:2  7.2   yes      -    41 ms       leader
3     tcp://c:3  -     no       -    -           not reachable: nobody listens
";
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn the_later_of_two_leaders_leads() {
        let leads = |term: &str| Said::Leads(json!({ "term": term, "followers": [] }));
        let said = [leads("9.1"), leads("10.2"), Said::Follows(None)];
        assert_eq!(leader(&three(), &said).map(|(node, _)| node), Some(NodeId(2)));
        assert_eq!(leader(&three(), &[Said::Follows(None), Said::Follows(None), Said::Follows(None)]), None);
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
