//! A run as people read it: faults, leaders and operations, in the order of the world's time.

use longarm_base::Nanos;
use longarm_history::{Invocation, Operation};
use longarm_server::Notice;

use crate::notes::Note;
use crate::plan::Plan;
use crate::run::{Report, watch};
use crate::scenario::Scenario;

/// A line of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The time of the world.
    pub time: Nanos,
    /// What happened.
    pub text: String,
}

/// Runs the plan that a seed drew, or a part of it. Returns a text for people, with what was drawn, what
/// happened and the verdict, and whether nothing was violated.
pub fn show(scenario: &Scenario, seed: u64, plan: &Plan, every: Nanos) -> (String, bool) {
    let (report, notes, operations) = watch(plan);
    let mut text = drawn(scenario, seed, plan) + "\n";
    for Line { time, text: what } in lines(&notes, &operations, every) {
        text.push_str(&format!("{:>14}  {what}\n", millis(time)));
    }
    text.push_str(&verdict(&report, &notes, &operations));
    text.push('\n');
    (text, report.violation.is_none())
}

/// What a seed drew, in a sentence.
fn drawn(scenario: &Scenario, seed: u64, plan: &Plan) -> String {
    let servers = match plan.servers {
        1 => "one server".to_string(),
        count => format!("{count} replicas"),
    };
    format!(
        "{} (seed {seed}): {servers} of {} workers, {} clients of {} operations on {} keys, {} faults drawn",
        scenario.name,
        plan.workers,
        plan.running(),
        plan.operations,
        plan.keys,
        plan.faults.len()
    )
}

/// All lines in order: notes, and after each interval what clients did in it.
pub fn lines(notes: &[(Nanos, Note)], operations: &[Operation], every: Nanos) -> Vec<Line> {
    let mut ends = ends(operations);
    ends.sort_unstable();
    let mut lines: Vec<Line> = notes.iter().filter_map(|(time, note)| line(*time, note, &ends)).collect();
    lines.extend(intervals(operations, every.max(Nanos(1))));
    // A stable sort: of one moment, notes first, in their order.
    lines.sort_by_key(|line| line.time);
    lines
}

/// The times at which operations were answered.
fn ends(operations: &[Operation]) -> Vec<Nanos> {
    operations.iter().filter(|operation| !operation.in_doubt()).map(|operation| operation.end).collect()
}

fn line(time: Nanos, note: &Note, ends: &[Nanos]) -> Option<Line> {
    let text = match note {
        Note::Fault(fault) => format!("fault: {fault}"),
        Note::Sprung(server, fault) => format!("fault: node {server}: {fault}"),
        Note::Up(server) => format!("node {server} is there again, without its memory"),
        Note::Healed => "no faults from now on: all must come to an end".into(),
        Note::Said(Notice::Leads, said) => format!("{said}{}", gap(time, ends)),
        Note::Said(Notice::Plain, _) => return None,
        Note::Said(_, said) => said.clone(),
    };
    Some(Line { time, text })
}

/// How long no client was answered around a moment.
fn gap(time: Nanos, ends: &[Nanos]) -> String {
    let next = ends.partition_point(|end| *end < time);
    match (next.checked_sub(1).map(|last| ends[last]), ends.get(next)) {
        (Some(before), Some(after)) => format!("; nobody was answered for {}", millis(after.since(before))),
        (None, Some(after)) => format!("; the first answer comes {} later", millis(after.since(time))),
        _ => String::new(),
    }
}

/// A time in milliseconds.
fn millis(time: Nanos) -> String {
    format!("{:.3} ms", time.0 as f64 / 1e6)
}

fn intervals(operations: &[Operation], every: Nanos) -> Vec<Line> {
    let begun = |operation: &Operation| operation.call.0 / every.0;
    let ended = |operation: &Operation| operation.end.0 / every.0;
    let answered = || operations.iter().filter(|operation| !operation.in_doubt());
    let last = answered().map(ended).chain(operations.iter().map(begun)).max();
    let count = last.map_or(0, |last| last as usize + 1);
    let mut sums = vec![(0, 0, 0); count];
    for operation in answered() {
        let sum = &mut sums[ended(operation) as usize];
        match operation.action {
            Invocation::Get => sum.0 += 1,
            _ => sum.1 += 1,
        }
    }
    for operation in operations.iter().filter(|operation| operation.in_doubt()) {
        sums[begun(operation) as usize].2 += 1;
    }
    let line = |(number, (gets, writes, doubts)): (usize, (u32, u32, u32))| {
        let doubt = if doubts > 0 { format!(", {doubts} begun that stay in doubt") } else { String::new() };
        let text = format!("{gets} gets and {writes} writes answered{doubt}");
        Line { time: Nanos((number as u64 + 1) * every.0), text }
    };
    sums.into_iter().enumerate().map(line).collect()
}

/// The outcome of the run, in a sentence.
pub fn verdict(report: &Report, notes: &[(Nanos, Note)], operations: &[Operation]) -> String {
    let leaders = notes.iter().filter(|(_, note)| matches!(note, Note::Said(Notice::Leads, _)));
    let leaders = match leaders.count() {
        0 => String::new(),
        count => format!(", {count} times a leader began to serve"),
    };
    let mut ends = ends(operations);
    ends.sort_unstable();
    let longest = ends.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or_default();
    let found = match &report.violation {
        None => "nothing was violated".into(),
        Some(violation) => format!("VIOLATED: {violation}"),
    };
    format!(
        "{} operations judged, {} in doubt; {} faults{leaders}; nobody was answered for at most {}: {found}",
        report.operations,
        report.in_doubt,
        report.faults,
        millis(longest)
    )
}

#[cfg(test)]
mod tests {
    use longarm_history::{OperationOutcome, Value};

    use super::*;

    fn put(call: u64, end: u64, outcome: OperationOutcome) -> Operation {
        let (client, key, action) = (1, 0, Invocation::Put(Value(call)));
        Operation { client, key, action, outcome, call: Nanos(call), end: Nanos(end), version: None }
    }

    #[test]
    fn a_run_is_shown_from_what_was_drawn_to_what_it_came_to() {
        let scenario = Scenario::named("calm").expect("there is one");
        let (text, sound) = show(scenario, 1, &Plan::of(scenario, 1), Nanos::from_millis(50));
        let lines: Vec<&str> = text.lines().collect();
        assert!(sound && text.ends_with(": nothing was violated\n"), "{text}");
        assert!(lines[0].starts_with("calm (seed 1): one server of "), "{text}");
        assert!(lines[1].starts_with("     20.000 ms  no faults from now on"), "{text}");
        assert!(lines[2].starts_with("     50.000 ms  ") && lines[2].contains(" gets and "), "{text}");
    }

    #[test]
    fn notes_and_intervals_stand_in_order() {
        let notes = [
            (Nanos(5_000_000), Note::Said(Notice::Leads, "node 1 leads in term 2.1".into())),
            (Nanos(5_000_001), Note::Said(Notice::Plain, "node 1: follower is canvassing (term 0.0)".into())),
            (Nanos(20_000_000), Note::Healed),
        ];
        let (done, doubt) = (OperationOutcome::Done, OperationOutcome::InDoubt);
        let operations = [
            put(1_000_000, 2_000_000, done),
            put(3_000_000, u64::MAX, doubt),
            put(4_000_000, 9_000_000, done),
        ];
        let lines: Vec<_> =
            lines(&notes, &operations, Nanos(10_000_000)).into_iter().map(|line| line.text).collect();
        assert_eq!(
            lines,
            [
                "node 1 leads in term 2.1; nobody was answered for 7.000 ms",
                "0 gets and 2 writes answered, 1 begun that stay in doubt",
                "no faults from now on: all must come to an end",
            ]
        );
    }
}
