//! `longarm cluster add-node` and `remove-node`: one replica more or less, in a group and in the file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use longarm_host::sleep;
use longarm_server::{Changed, Deny, Member, OrderError};
use serde_json::json;

use crate::cluster::{self, Cluster, Group, NodeAt, NodeId, named, numbers, parse_node};
use crate::config::Config;
use crate::flags::duration;
use crate::operator;
use crate::output::{Exit, Failure, Output};

/// The number of elections that a change may take: other nodes keep it twice, and it ends in a hand-over.
const ELECTIONS: u64 = 8;
/// The pause before an order is given again.
const ROUND: Duration = Duration::from_millis(50);

/// Arguments of `add-node`.
#[derive(clap::Args, Debug)]
#[command(after_help = "The node is written into the file, and is to be started with it: `longarm server \
                  --cluster FILE --node N --join`. The leader brings it in line while all goes on, and a \
                  new term begins with it. Ends with 4 if the replicas stay as they are, with 5 if that is \
                  not known.")]
pub struct AddNodeArgs {
    /// The file of the cluster
    pub file: PathBuf,

    /// The node: its number, and where the others and clients find it
    #[arg(value_name = "N=ADDRESS", value_parser = parse_node)]
    pub node: NodeAt,

    /// Which group, counted from 1; only where there are several
    #[arg(long, value_name = "G")]
    pub group: Option<usize>,

    /// How long to wait for the node to be started and to be in sync
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub wait: Duration,
}

/// Arguments of `remove-node`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "A majority of the others must be in sync. If it leads, another will. Then its server can \
                  be stopped. Ends with 4 if the replicas stay as they are, with 5 if that is not known."
)]
pub struct RemoveNodeArgs {
    /// The file of the cluster
    pub file: PathBuf,

    /// The number of the node
    #[arg(value_name = "N")]
    pub node: u32,

    /// Which group, counted from 1; only where there are several
    #[arg(long, value_name = "G")]
    pub group: Option<usize>,
}

/// Writes the node into the file, and has the group take it. The group waits until the node is started.
pub fn add(args: &AddNodeArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let (file, added) = (&args.file, &args.node);
    let before = cluster::read(file)?;
    let at = operator::chosen(&before, file, args.group)?;
    let after = with(&before, at, added).map_err(|text| Failure::new(Exit::Usage, text))?;
    if after != before {
        cluster::replace(&after, file)?;
        output.note(&format!(
            "wrote node {node} into {shown}: copy it to its machine, and start it there:\n  \
             longarm server --cluster {shown} --node {node} --join",
            node = added.node,
            shown = file.display()
        ));
    }
    let operator = operator::operator(&before, at, config)?;
    let patience = operator::patience(&before, ELECTIONS, config);
    // The leader waits for an election's time without progress, and then says that the node is late. How long
    // the node may take to be there is for the user to say.
    let is_late = |error: &OrderError| matches!(error, OrderError::Denied(_, Deny::Late));
    let group = &after.groups[at];
    let replica = group.on(added.node).expect("it was placed");
    let member = Member { replica, address: added.address.clone() };
    match insist(args.wait, || operator.add(&member, patience), is_late) {
        Ok(changed) => say(file, group, at, &changed, output),
        // The same command added the node before, and did not hear of it.
        Err(OrderError::Denied(_, Deny::Member)) => {
            output.line(&format!("node {} has a replica of the group already", added.node))?;
            Ok(Exit::Ok)
        }
        Err(error) => {
            let hint = "the file names it already: when it runs, the same command adds it";
            Err(operator::failure(&error).hint(hint))
        }
    }
}

/// Gives an order until its outcome is known, or until `wait` is over. An order whose outcome is not known
/// may be under way, or done: the leader tells so when it gets the same order again. `again` names other
/// errors after which the order is given again.
fn insist(
    wait: Duration,
    mut order: impl FnMut() -> Result<Changed, OrderError>,
    again: impl Fn(&OrderError) -> bool,
) -> Result<Changed, OrderError> {
    let until = Instant::now() + wait;
    let mut doubt: Option<OrderError> = None;
    loop {
        let error = match (order(), &doubt) {
            (Err(error), _) if again(&error) && Instant::now() < until => continue,
            (Err(error @ OrderError::InDoubt(..)), _) => error,
            // The group is busy, perhaps with this very order.
            (Err(OrderError::Denied(_, Deny::Busy)), Some(error)) => error.clone(),
            (known, _) => return known,
        };
        if Instant::now() >= until {
            return Err(error);
        }
        doubt = Some(error);
        sleep(ROUND);
    }
}

/// Has the group do without the node, and takes it out of the file.
pub fn remove(args: &RemoveNodeArgs, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let (file, node) = (&args.file, NodeId(args.node));
    let before = cluster::read(file)?;
    let at = operator::chosen(&before, file, args.group)?;
    let group = &before.groups[at];
    let Some(replica) = group.on(node) else {
        let text = format!("node {node} has no replica of that group of {}", file.display());
        return Err(Failure::new(Exit::Usage, text).hint(format!("nodes {} have", numbers(group.nodes()))));
    };
    let operator = operator::operator(&before, at, config)?;
    let patience = operator::patience(&before, ELECTIONS, config);
    let changed = match insist(patience, || operator.remove(replica, patience), |_| false) {
        Ok(changed) => changed,
        // The node was removed before, but the file was not written, or the command did not hear of the
        // removal.
        Err(OrderError::Denied(_, Deny::Stranger)) => {
            cluster::replace(&without(&before, at, node), file)?;
            output.line(&format!("node {node} was no replica any more; {} says so now", file.display()))?;
            return Ok(Exit::Ok);
        }
        Err(error) => return Err(operator::failure(&error)),
    };
    cluster::replace(&without(&before, at, node), file)?;
    say(file, group, at, &changed, output)
}

/// Says which nodes have the replicas of a group now, and who leads.
fn say(
    file: &Path,
    group: &Group,
    at: usize,
    changed: &Changed,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let nodes = changed.members.iter().filter_map(|member| group.node_of(member.replica));
    let leader = group.node_of(changed.leader);
    if output.json() {
        let nodes: Vec<_> = nodes.map(|node| node.0).collect();
        let (leader, gap) = (leader.map(|node| node.0), changed.gap.map(|gap| gap.as_micros() as u64));
        output.value(&json!({ "group": at + 1, "replicas": nodes, "leader": leader, "gap_us": gap }))?;
        return Ok(Exit::Ok);
    }
    let (nodes, leader) = (numbers(nodes), named(leader, changed.leader));
    let how = match changed.gap {
        Some(gap) => format!("leads; writes waited for {:.1} ms", gap.as_secs_f64() * 1e3),
        None => "is to lead".into(),
    };
    output.line(&format!("the replicas are {nodes}; {leader} {how}"))?;
    output.note(&format!("clients and nodes may have the old file; {} is the new one", file.display()));
    Ok(Exit::Ok)
}

/// Adds a replica to a group, which may have it already.
fn with(cluster: &Cluster, at: usize, added: &NodeAt) -> Result<Cluster, String> {
    let mut after = cluster.clone();
    match cluster.node(added.node) {
        Some(known) if known.address != added.address => {
            return Err(format!(
                "node {} is at {} already: one number, one address",
                known.node, known.address
            ));
        }
        Some(_) => {}
        None => after.nodes.push(added.clone()),
    }
    after.nodes.sort_by_key(|node| node.node);
    let group = &mut after.groups[at];
    if group.on(added.node).is_none() {
        group.place(added.node);
    }
    after.check()?;
    Ok(after)
}

/// Takes a replica out of a group, and its node out of the cluster if that has no other replica.
fn without(cluster: &Cluster, at: usize, node: NodeId) -> Cluster {
    let mut after = cluster.clone();
    after.groups[at].replicas.retain(|one| one.node != node);
    if after.groups_on(node).next().is_none() {
        after.nodes.retain(|known| known.node != node);
    }
    after
}

#[cfg(test)]
mod tests {
    use longarm_base::ReplicaId;
    use longarm_base::limits::LOSS_WINDOW;

    use super::*;
    use crate::cluster::{Division, Durability, parse_node};
    use crate::times::Times;

    fn three() -> Cluster {
        let nodes = ["1=tcp://a:1", "2=tcp://b:1", "3=tcp://c:1"].map(|text| parse_node(text).expect("one"));
        let division =
            Division { groups: 1, replicas: 3, durability: Durability::Memory, loss_window: LOSS_WINDOW };
        cluster::draw(nodes.to_vec(), division, Times::usual().timing()).expect("a cluster")
    }

    #[test]
    fn an_order_is_given_until_it_is_known_what_came_of_it() {
        let leader = ReplicaId(1);
        let doubt = || Err(OrderError::InDoubt(leader, "the connection broke".into()));
        let denied = |why| Err(OrderError::Denied(leader, why));
        let wait = Duration::from_millis(500);
        let given = |wait, replies: Vec<Result<Changed, OrderError>>| {
            let mut replies = replies.into_iter();
            let is_late = |error: &OrderError| matches!(error, OrderError::Denied(_, Deny::Late));
            let came = insist(wait, || replies.next().expect("no more is asked"), is_late);
            assert_eq!(replies.next(), None, "all of it is asked");
            came
        };
        let changed = Changed { members: Vec::new(), leader, gap: None };
        let soon = vec![denied(Deny::Late), doubt(), denied(Deny::Busy), Ok(changed.clone())];
        assert_eq!(given(wait, soon), Ok(changed));
        assert_eq!(given(wait, vec![doubt(), doubt(), denied(Deny::Member)]), denied(Deny::Member));
        // The group is busy with an order of another operator.
        assert_eq!(given(wait, vec![denied(Deny::Busy)]), denied(Deny::Busy));
        assert_eq!(given(Duration::ZERO, vec![doubt()]), doubt());
        assert_eq!(given(Duration::ZERO, vec![denied(Deny::Late)]), denied(Deny::Late));
        let mut busy = 0;
        let order = || {
            busy += 1;
            if busy == 1 { doubt() } else { denied(Deny::Busy) }
        };
        assert_eq!(insist(4 * ROUND, order, |_| false), doubt(), "that is still all that is known");
    }

    #[test]
    fn a_node_is_added_once_and_taken_out() {
        let before = three();
        let fourth = parse_node("4=tcp://d:1").expect("one");
        let after = with(&before, 0, &fourth).expect("four");
        assert_eq!((after.numbers().as_str(), after.groups[0].replicas.len()), ("1, 2, 3, 4", 4));
        assert_eq!(with(&after, 0, &fourth), Ok(after.clone()), "the same command again");
        assert_eq!(without(&after, 0, NodeId(4)), before);
        let moved = parse_node("4=tcp://e:1").expect("one");
        assert!(with(&after, 0, &moved).expect_err("elsewhere").contains("one number, one address"));
        let taken = parse_node("5=tcp://a:1").expect("one");
        assert!(with(&after, 0, &taken).expect_err("taken").contains("both at"));
    }
}
