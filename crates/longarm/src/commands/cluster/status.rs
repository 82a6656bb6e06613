//! `longarm cluster status`: shows how every replica of every group stands, and why a group has no leader.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{self, Durability};
use crate::config::Config;
use crate::human;
use crate::ordered;
use crate::output::{Exit, Failure, Output};
use crate::standing::{Looked, Said, look_at_all};

/// Arguments of `status`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Ends with 3 if a group has no leader.")]
pub struct StatusArgs {
    /// The file of the cluster
    pub file: PathBuf,
}

/// Shows each replica of each group.
pub fn run(args: &StatusArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let cluster = cluster::read(&args.file)?;
    let looked = look_at_all(&cluster, config, true)?;
    show(&looked, output)?;
    let several = looked.len() > 1;
    let mut exit = Exit::Ok;
    for (number, looked) in looked.iter().enumerate().filter(|(_, looked)| looked.leader().is_none()) {
        let which = if several { format!("group {}: ", number + 1) } else { String::new() };
        output.note(&format!("{which}{}", nobody(&args.file, cluster.durability, &looked.said)));
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

/// Describes a change that was begun, or that ended in doubt, with the commands that go on with it or undo
/// it.
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

/// Prints one table of all replicas, or one object a group.
fn show(looked: &[Looked<'_>], output: &mut Output) -> Result<(), Failure> {
    if !output.json() {
        let rows: Vec<Vec<Value>> = looked.iter().map(Looked::rows).collect();
        output.write(table(&rows).as_bytes())?;
        return output.write(indexes(&rows).as_bytes());
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

/// Formats the rows of each group; if there are several groups, with the group's number.
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
            shown("node", &Value::to_string),
            shown("address", &text),
            shown("term", &text),
            shown("in_sync", &|value| if *value == true { "yes".into() } else { "no".into() }),
            shown("lag", &count),
            shown("lease_us", &|value| human::time(Duration::from_micros(value.as_u64().unwrap_or(0)))),
            role,
        ]);
    }
    laid_out(&lines, several)
}

/// Formats how the ordered indexes stand, if any replica keeps one.
fn indexes(groups: &[Vec<Value>]) -> String {
    let kept = |row: &Value| row["ordered"]["stage"].is_string();
    if !groups.iter().flatten().any(kept) {
        return String::new();
    }
    let titles = [
        "group",
        "node",
        "ordered index",
        "items",
        "bytes",
        "lag",
        "builds",
        "gaps",
        "pages",
        "again",
        "contended",
    ];
    let mut lines = vec![titles.map(String::from)];
    for (number, row) in
        groups.iter().enumerate().flat_map(|(at, rows)| rows.iter().map(move |row| (at + 1, row)))
    {
        let index = &row["ordered"];
        let figure = |name: &str| index[name].as_u64().map_or("-".into(), human::count);
        lines.push([
            number.to_string(),
            row["node"].to_string(),
            ordered::state(index, row["role"] == "leader"),
            figure("items"),
            index["bytes"].as_u64().map_or("-".into(), human::bytes),
            figure("lag"),
            figure("builds"),
            figure("gaps"),
            figure("pages"),
            figure("again"),
            figure("contended"),
        ]);
    }
    format!("\n{}", laid_out(&lines, groups.len() > 1))
}

/// Lays columns out; the first is left out unless there are several groups.
fn laid_out<const N: usize>(lines: &[[String; N]], several: bool) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).skip(usize::from(!several));
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Says why no node leads, as far as the answers tell.
fn nobody(path: &Path, durability: Durability, said: &[Said]) -> String {
    let alive = said.iter().filter(|said| !matches!(said, Said::Nothing(_))).count();
    let (all, most) = (said.len(), said.len() / 2 + 1);
    if alive < most {
        return format!(
            "no node leads: {alive} of {all} answer, and {most} are needed; start them with `longarm server \
             --cluster {} --node N`",
            path.display()
        );
    }
    if durability == Durability::Async && alive < all {
        return format!(
            "no node leads: {alive} of {all} answer. If most of the nodes were restarted, all are needed, \
             since any may have more on its disk than the others: start the missing ones. For one that will \
             never come back: `longarm cluster recover {} --accept-loss`",
            path.display()
        );
    }
    format!("no node leads, though {alive} of {all} answer: they are electing one, or their logs say why not")
}

#[cfg(test)]
mod tests {
    use longarm_client::{OrderedStage, OrderedStats};
    use longarm_server::Member;

    use super::*;
    use crate::cluster::{Group, NodeId};
    use crate::ordered::Index;

    fn group(id: u64) -> Group {
        let mut group = Group { id, sum_key: 1, hash_key: 2, replicas: Vec::new() };
        [2, 1, 3000].into_iter().for_each(|node| group.place(NodeId(node)));
        group
    }

    /// A group of nodes 2, 1 and 3000, of which node 2 is to lead first. Node 3000 has replica 0.
    fn looked(group: &Group, said: [Said; 3]) -> Looked<'_> {
        let at = |replica, text: &str| Member { replica, address: text.parse().expect(text) };
        let addresses = ["tcp://b:2", "tcp://a:1", "tcp://c:3"];
        let members = group.replicas.iter().zip(addresses).map(|(one, text)| at(one.replica, text));
        Looked { group, members: members.collect(), said: said.to_vec(), indexes: vec![Index::NotKept; 3] }
    }

    fn one_leads(group: &Group) -> Looked<'_> {
        let stats = json!({ "term": "7.2", "lease_us": 41_000,
            "followers": [{ "replica": 1, "synced": true, "lag": 12 }] });
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
3000  tcp://c:3  -     no       -    -           not reachable: nobody listens
";
        assert_eq!(table(&[rows]), expected);
    }

    #[test]
    fn ordered_indexes_have_a_table_of_their_own() {
        let group = group(7);
        assert_eq!(indexes(&[one_leads(&group).rows()]), "", "nobody keeps one");
        let kept = |stage| {
            let found =
                OrderedStats { stage, items: 49, bytes: 2048, lag: 3, pages: 7, ..OrderedStats::default() };
            Index::Kept(found)
        };
        let indexed = Looked {
            indexes: vec![
                kept(OrderedStage::Resting),
                kept(OrderedStage::Building(40)),
                Index::Unknown("nobody listens".into()),
            ],
            ..one_leads(&group)
        };
        let rows = indexed.rows();
        assert_eq!(
            (&rows[0]["ordered"]["stage"], &rows[0]["ordered"]["items"]),
            (&"building".into(), &49.into())
        );
        let text = indexes(&[rows]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).collect())
            .collect();
        let cells = |line: usize| lines[line].iter().map(|cell| cell.trim()).collect::<Vec<_>>();
        assert_eq!(cells(0)[..3], ["node", "ordered index", "items"]);
        assert_eq!(cells(1), ["1", "building, 40 %", "49", "2.0 KiB", "3", "0", "0", "7", "0", "0"]);
        assert_eq!(cells(2)[..2], ["2", "resting: it leads, and followers have one"]);
        assert_eq!(cells(3)[..3], ["3000", "not known: nobody listens", "-"]);
    }

    #[test]
    fn a_node_that_the_group_does_not_have_is_no_replica() {
        let group = group(7);
        for third in [Said::Nothing("nobody listens".into()), Said::Follows(None)] {
            let stats = json!({ "term": "7.2", "members": [1, 2],
                "followers": [{ "replica": 1, "synced": true, "lag": 12 }] });
            let looked = looked(&group, [Said::Leads(stats), Said::Follows(None), third]);
            let rows = looked.rows();
            let roles: Vec<_> = rows.iter().map(|row| row["role"].as_str().expect("a role")).collect();
            assert_eq!(roles, ["follower", "leader", "not added"]);
            assert_eq!(looked.standing().in_sync, [NodeId(1), NodeId(2)]);
            let note = not_added(Path::new("g.toml"), &rows[2], Some(2));
            assert!(note.contains("add-node g.toml 3000=tcp://c:3 --group 2` goes on"), "{note}");
            assert!(note.contains("remove-node g.toml 3000 --group 2` takes it out"), "{note}");
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
    fn too_few_and_undecided_are_told_apart() {
        let dead = || Said::Nothing("x".into());
        let nobody = |said: &[Said]| nobody(Path::new("g.toml"), Durability::Sync, said);
        let text = nobody(&[dead(), Said::Follows(None), dead()]);
        assert!(
            text.contains("1 of 3 answer, and 2 are needed") && text.contains("--cluster g.toml"),
            "{text}"
        );
        let two = [Said::Follows(None), Said::Follows(None), dead()];
        let text = nobody(&two);
        assert!(text.contains("2 of 3 answer: they are electing"), "{text}");
        let text = super::nobody(Path::new("g.toml"), Durability::Async, &two);
        assert!(text.contains("all are needed") && text.contains("recover g.toml --accept-loss"), "{text}");
    }
}
