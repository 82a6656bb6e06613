//! `longarm inspect --tree`: walks and verifies the ordered index of each replica that keeps one.

use longarm_client::{Error, Options, OrderedInspection, OrderedReport, inspect_ordered, refusal};
use longarm_wire::RefusalCode;
use serde_json::{Value, json};

use crate::config::Config;
use crate::connect;
use crate::human;
use crate::output::{Exit, Failure, Output};
use crate::structures::check;

/// Looks at the replicas of every group, one after the other; fails if anything is wrong with an index, if
/// one cannot be looked at, or if there is none.
pub fn run(config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let (topology, transport) = (connect::topology(config)?, connect::transport(config)?);
    let (mut seen, mut kept, mut worst) = (0, 0, None);
    for group in topology.groups() {
        let options = Options { group: group.id, ..connect::options(config, "longarm inspect")? };
        for address in &group.addresses {
            let of = format!("ordered index of {address}");
            match inspect_ordered(&transport, address, &options) {
                Ok(OrderedInspection::Report(report)) => {
                    show(&of, &report, output)?;
                    worst = worse(worst, broken(&of, &report));
                    seen += 1;
                }
                Ok(OrderedInspection::NoTree) => {
                    output.note(&format!("{of}: there is no tree now: it leads, or builds one"));
                    kept += 1;
                }
                Ok(OrderedInspection::Unsettled) => {
                    let failure = Failure::new(Exit::Refused, format!("{of}: it changed during each look"));
                    worst = worse(worst, Some(failure.hint("look again when there are fewer writes")));
                }
                Err(Error::Connect(error))
                    if refusal(&error).is_some_and(|why| why.code == RefusalCode::NotOrdered) => {}
                Err(error) => worst = worse(worst, Some(unseen(&of, &error, config))),
            }
        }
    }
    match worst {
        Some(failure) => Err(failure),
        None if seen > 0 => Ok(Exit::Ok),
        None if kept > 0 => Err(Failure::new(Exit::Refused, "no replica has a tree now").hint("look again")),
        None => Err(connect::failure(&Error::NotOrdered, config)),
    }
}

/// The failure for an index that could not be looked at.
fn unseen(of: &str, error: &Error, config: &Config) -> Failure {
    let mut failure = match error {
        Error::NoPage(why) => Failure::new(Exit::Refused, why.clone()),
        error => connect::failure(error, config),
    };
    failure.message = format!("{of}: {}", failure.message);
    failure
}

/// The first failure stays, unless a later one is of a broken structure.
fn worse(first: Option<Failure>, next: Option<Failure>) -> Option<Failure> {
    match (first, next) {
        (Some(first), Some(next)) if next.exit == Exit::Corrupt && first.exit != Exit::Corrupt => Some(next),
        (first, next) => first.or(next),
    }
}

fn broken(of: &str, report: &OrderedReport) -> Option<Failure> {
    let tree = &report.tree;
    if tree.problem_count == 0 {
        return None;
    }
    let text = format!("{of}: {}", check::broken(&tree.problems, tree.problem_count));
    Some(
        Failure::new(Exit::Corrupt, text).hint("please report how this came about; a restart builds it anew"),
    )
}

fn show(of: &str, report: &OrderedReport, output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        output.value(&to_json(of, report))
    } else {
        output.write(to_text(of, report).as_bytes())
    }
}

fn to_json(of: &str, report: &OrderedReport) -> Value {
    let OrderedReport { header, tree, entries } = report;
    json!({
        "of": of,
        "sound": tree.problem_count == 0,
        "problems": tree.problem_count,
        "problem": tree.problems,
        "term": header.term.to_string(),
        "step": header.step,
        "levels": tree.levels,
        "items": tree.items,
        "markers": tree.markers,
        "nodes": tree.nodes(),
        "node_bytes": tree.units * header.unit.bytes(),
        "used_bytes": tree.used,
        "entries": entries,
    })
}

fn to_text(of: &str, report: &OrderedReport) -> String {
    let OrderedReport { header, tree, entries } = report;
    let n = human::count;
    let bytes = tree.units * header.unit.bytes();
    let levels: Vec<String> = tree.levels.iter().rev().map(|nodes| n(*nodes)).collect();
    let mut text = format!("{of} (term {}, step {})\n", header.term, header.step);
    text.push_str(&format!("levels      {}, from the root down: {}\n", levels.len(), levels.join(", ")));
    text.push_str(&format!("items       {}, and {} marks of deletes\n", n(tree.items), n(tree.markers)));
    text.push_str(&format!(
        "nodes       {} in {}, {} % of which are in use\n",
        n(tree.nodes()),
        human::bytes(bytes),
        (tree.used * 100).checked_div(bytes).unwrap_or(0),
    ));
    text.push_str(&format!("entries     {} are in the replica's arena\n", n(*entries)));
    if tree.problem_count == 0 {
        text.push_str("sound: every node verifies, and so does the entry of each item\n");
    }
    text
}
