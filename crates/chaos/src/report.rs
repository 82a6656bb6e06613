//! The outcome of a run: a line for each fault, gaps by kind, and what the judges say.

use std::collections::BTreeMap;
use std::time::Duration;

use longarm::cluster::NodeId;
use longarm::human;
use longarm_base::Nanos;
use longarm_history::counters::{self, Count};
use longarm_history::losses::{self, LossReport};
use longarm_history::{Evidence, History, HistoryReport, Operation};
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::kind::Kind;
use crate::looks::LOOKER;
use crate::names::Names;

/// The steps of the exhaustive search for a key. A key that it cannot decide in so many is left to the other
/// judges.
const SEARCH: u64 = 100_000;

/// The take-over of a group by another leader.
#[derive(Clone, Debug)]
pub struct Takeover {
    /// The number of the group, from 0 on; `None` if there is only one.
    pub group: Option<usize>,
    /// The new leader.
    pub node: NodeId,
    /// The steps in which it came to lead.
    pub how: Value,
}

/// `group 2, ` or nothing.
fn named(group: Option<usize>) -> String {
    group.map_or(String::new(), |group| format!("group {}, ", group + 1))
}

/// A fault that was overcome.
#[derive(Clone, Debug)]
pub struct Struck {
    /// The number of the group whose leader or follower was struck; `None` if there is only one.
    pub group: Option<usize>,
    /// The fault.
    pub fault: Fault,
    /// When it began, since the clients began.
    pub at: Nanos,
    /// How long the fault lasted.
    pub lasted: Nanos,
    /// The longest time without an answer to a client that PUTs, until all was well again.
    pub put: Nanos,
    /// The same for GETs.
    pub get: Nanos,
    /// The same for pages of scans, if some client scans.
    pub scan: Option<Nanos>,
    /// The time from the end of the fault until all replicas were in sync.
    pub in_sync: Nanos,
    /// The leaders that took over.
    pub takeovers: Vec<Takeover>,
}

fn ms(time: Nanos) -> String {
    format!("{:.1} ms", time.0 as f64 / 1e6)
}

impl Struck {
    /// The text for people.
    pub fn to_text(&self) -> String {
        let Fault { kind, leader, follower, .. } = &self.fault;
        let mut text = format!(
            "{:>6.1} s  {} ({}leader {leader}, follower {follower}",
            self.at.0 as f64 / 1e9,
            kind.what(),
            named(self.group)
        );
        if self.lasted > Nanos::from_millis(1) {
            text.push_str(&format!(", for {}", human::time(Duration::from_nanos(self.lasted.0))));
        }
        let (put, get, in_sync) = (ms(self.put), ms(self.get), ms(self.in_sync));
        text.push_str(&format!("): no PUT for {put}, no GET for {get}"));
        if let Some(scan) = self.scan {
            text.push_str(&format!(", no page for {}", ms(scan)));
        }
        text.push_str(&format!(", in sync {in_sync} after"));
        for Takeover { group, node, how } in &self.takeovers {
            text.push_str(&format!("; {}node {node} leads, {}", named(*group), steps(how)));
        }
        text
    }

    /// The value for scripts.
    pub fn to_json(&self) -> Value {
        let takeovers = self.takeovers.iter().map(|one| {
            let group = one.group.unwrap_or(0) + 1;
            json!({ "group": group, "leader": one.node.0, "steps": one.how })
        });
        json!({
            "fault": format!("{:?}", self.fault.kind), "at_us": self.at.0 / 1000,
            "group": self.group.unwrap_or(0) + 1,
            "leader": self.fault.leader.0, "follower": self.fault.follower.0,
            "lasted_us": self.lasted.0 / 1000, "put_gap_us": self.put.0 / 1000,
            "get_gap_us": self.get.0 / 1000, "page_gap_us": self.scan.map(|gap| gap.0 / 1000),
            "in_sync_us": self.in_sync.0 / 1000,
            "takeovers": takeovers.collect::<Vec<_>>(),
        })
    }
}

/// The steps of a take-over, in their order: their names in the statistics, and for people.
const STEPS: [(&str, &str); 7] = [
    ("silence_us", "silence"),
    ("canvass_us", "canvass"),
    ("promise_us", "fence"),
    ("lease_us", "old lease"),
    ("gather_us", "reports"),
    ("install_us", "install"),
    ("sync_us", "sync"),
];

fn steps(how: &Value) -> String {
    let step =
        |(name, text): (&str, &str)| format!("{text} {:.1}", how[name].as_u64().unwrap_or(0) as f64 / 1e3);
    STEPS.map(step).join(", ")
}

/// The outcome of a run.
pub struct Report {
    /// The faults.
    pub struck: Vec<Struck>,
    /// What failed, beside the histories.
    pub failures: Vec<String>,
    /// What the judges of histories say, and what they accuse.
    pub judged: Judged,
    /// The number of operations without an effect and without an answer.
    pub refused: u64,
    /// The number of pages of scans among the operations.
    pub pages: u32,
    /// The number of these that a client made alone.
    pub walks: u32,
    /// The number of replicas that others took for lost and killed.
    pub fenced: u64,
    /// What the processes held at most.
    pub held: String,
    /// The replicas that led while the last look read all keys there, in this order.
    pub looks: Vec<NodeId>,
    /// Replicas of the group.
    pub replicas: u8,
}

/// When all were killed at once, and may have lost their last writes.
pub struct Losses {
    /// The moment of each loss.
    pub at: Vec<Nanos>,
    /// All that one of them takes was taken within so much time.
    pub window: Nanos,
    /// The number of groups, each of which goes on by itself.
    pub groups: usize,
    /// Which group has a key.
    pub names: Names,
}

/// What is known to be lost.
struct Lost {
    losses: usize,
    writes: usize,
    /// The longest time from when one of them had taken effect to when the last write was called.
    longest: Nanos,
}

/// The verdicts of the judges.
pub struct Judged {
    /// The verdict on values.
    values: HistoryReport,
    /// What is lost, if all were killed at once and may lose something.
    lost: Option<Lost>,
    /// The number of operations on counters.
    counted: usize,
    /// The first violation on counters.
    miscount: Option<counters::Miscount>,
}

impl Judged {
    /// The text for people.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "values: {}\ncounters: {} operations: {}\n",
            self.values,
            human::count(self.counted as u64),
            self.miscount.as_ref().map_or("legal".into(), ToString::to_string),
        );
        if let Some(Lost { losses, writes, longest }) = &self.lost {
            let (writes, longest) = (human::count(*writes as u64), ms(*longest));
            text.push_str(&format!(
                "losses: all were killed at once {losses} times; {writes} writes that were acknowledged or \
                 seen are known to be lost, of the last {longest}\n"
            ));
        }
        text
    }
}

/// Asks the judges.
pub fn judge(history: &History, left: &[Operation], counts: &[Count], losses: &Losses) -> Judged {
    let counted = counts.len();
    if losses.at.is_empty() {
        let values = Evidence { history, answers: &[], left, steps: SEARCH }.judge();
        return Judged { values, lost: None, counted, miscount: counters::judge(counts).err() };
    }
    let all = (0..losses.groups).map(|group| judge_group(history, left, counts, losses, group));
    let LossReport { history: values, miscount, lost: writes, longest } =
        all.reduce(together).expect("there is a group");
    Judged { values, lost: Some(Lost { losses: losses.at.len(), writes, longest }), counted, miscount }
}

/// Asks the judges about one of the groups. Groups have no moment in common, so each loses what it loses.
fn judge_group(
    history: &History,
    left: &[Operation],
    counts: &[Count],
    losses: &Losses,
    group: usize,
) -> LossReport {
    let is_of = |operation: &&Operation| losses.groups == 1 || losses.names.group_of(operation.key) == group;
    let mut own = History::default();
    history.operations().iter().filter(is_of).for_each(|operation| own.push(operation.clone()));
    history.pages().iter().for_each(|page| own.push_page(page.clone()));
    let left: Vec<Operation> = left.iter().filter(is_of).cloned().collect();
    let counted = counts.iter().filter(|count| losses.names.group_of_counter(count.key) == group);
    let counts: Vec<Count> = counted.copied().collect();
    let evidence = Evidence { history: &own, answers: &[], left: &left, steps: SEARCH };
    losses::judge(&evidence, &counts, losses::Losses { at: &losses.at, window: losses.window })
}

/// The verdict on two groups, or more.
fn together(one: LossReport, other: LossReport) -> LossReport {
    let (history, more) = (one.history, other.history);
    LossReport {
        history: HistoryReport {
            operations: history.operations + more.operations,
            in_doubt: history.in_doubt + more.in_doubt,
            keys: history.keys + more.keys,
            most_at_once: history.most_at_once.max(more.most_at_once),
            undecided: history.undecided + more.undecided,
            violation: history.violation.or(more.violation),
        },
        miscount: one.miscount.or(other.miscount),
        lost: one.lost + other.lost,
        longest: one.longest.max(other.longest),
    }
}

/// A percentile by nearest rank.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

fn spread(mut values: Vec<u64>) -> [u64; 3] {
    values.sort_unstable();
    [percentile(&values, 50), percentile(&values, 99), values.last().copied().unwrap_or(0)]
}

impl Report {
    /// Everything that is wrong, in words.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = self.failures.clone();
        wrong.extend(self.judged.values.violation.as_ref().map(ToString::to_string));
        wrong.extend(self.judged.miscount.as_ref().map(ToString::to_string));
        wrong
    }

    /// What is said of a run with which nothing is wrong.
    pub fn passed(&self) -> &'static str {
        match &self.judged.lost {
            None => "PASSED: every answer is explained, and no acknowledged write is lost",
            Some(_) => {
                "PASSED: every answer is explained, and no acknowledged write is lost but the last when all \
                 were killed"
            }
        }
    }

    fn by_kind(&self) -> BTreeMap<Kind, Vec<&Struck>> {
        let mut kinds: BTreeMap<Kind, Vec<&Struck>> = BTreeMap::new();
        self.struck.iter().for_each(|struck| kinds.entry(struck.fault.kind).or_default().push(struck));
        kinds
    }

    /// The text for people.
    pub fn to_text(&self) -> String {
        let scans = self.struck.iter().any(|struck| struck.scan.is_some());
        let gaps: &[&str] = if scans { &["PUT", "GET", "page"] } else { &["PUT", "GET"] };
        let [mut head, mut units] = [format!("{:52}", ""), format!("{:<46} {:>5}", "fault", "times")];
        for what in gaps {
            head.push_str(&format!("  {:>23}", format!("no {what} for, ms")));
            units.push_str(&format!("  {:>23}", "p50    p99    max"));
        }
        let mut text = format!("{head}  {:>15}\n{units}  {:>15}\n", "in sync, ms", "p50    max");
        for (kind, struck) in self.by_kind() {
            let of =
                |value: &dyn Fn(&Struck) -> Nanos| spread(struck.iter().map(|one| value(one).0).collect());
            let of_gaps = [of(&|one| one.put), of(&|one| one.get), of(&|one| one.scan.unwrap_or(Nanos(0)))];
            text.push_str(&format!("{:<46} {:>5}", kind.what(), struck.len()));
            for [p50, p99, max] in of_gaps.into_iter().take(gaps.len()) {
                let ms = |ns: u64| ns as f64 / 1e6;
                text.push_str(&format!("  {:>7.1} {:>7.1} {:>7.1}", ms(p50), ms(p99), ms(max)));
            }
            let [half, _, max] = of(&|one| one.in_sync).map(|ns| ns / 1_000_000);
            text.push_str(&format!("  {half:>7} {max:>7}\n"));
        }
        text.push_str(&self.takeovers());
        text.push_str(&format!(
            "{} faults; {} replicas were taken for lost and killed by others; {}\n",
            self.struck.len(),
            self.fenced,
            self.held
        ));
        text.push_str(&self.judged.to_text());
        let looks: Vec<String> = self.looks.iter().map(NodeId::to_string).collect();
        text.push_str(&format!(
            "at the end all was read while nodes {} led, in turn (by client {LOOKER} + number)\n",
            looks.join(", ")
        ));
        text.push_str(&format!(
            "{} of the operations were pages of scans, {} of these by clients alone\n",
            human::count(self.pages.into()),
            human::count(self.walks.into())
        ));
        text.push_str(&format!("{} operations had no answer and no effect\n", human::count(self.refused)));
        text
    }

    /// The times of the steps of take-overs after the loss of a leader.
    fn takeovers(&self) -> String {
        let killed = |struck: &&Struck| struck.fault.kind == Kind::KillLeader;
        let how: Vec<&Value> = self
            .struck
            .iter()
            .filter(killed)
            .flat_map(|struck| struck.takeovers.iter().map(|takeover| &takeover.how))
            .collect();
        if how.is_empty() {
            return String::new();
        }
        let mut text = format!("{} take-overs from killed leaders, ms (p50, p99, max):\n", how.len());
        for (name, shown) in STEPS {
            let spread = spread(how.iter().map(|how| how[name].as_u64().unwrap_or(0)).collect());
            let [p50, p99, max] = spread.map(|us| us as f64 / 1e3);
            text.push_str(&format!("  {shown:<10} {p50:>7.1} {p99:>7.1} {max:>7.1}\n"));
        }
        text
    }

    /// The value for scripts.
    pub fn to_json(&self) -> Value {
        let kinds = self.by_kind().into_iter().map(|(kind, struck)| {
            let of = |value: &dyn Fn(&Struck) -> Nanos| {
                let us = spread(struck.iter().map(|one| value(one).0 / 1000).collect());
                json!({ "p50": us[0], "p99": us[1], "max": us[2] })
            };
            json!({
                "fault": format!("{kind:?}"), "times": struck.len(), "put_gap_us": of(&|one| one.put),
                "get_gap_us": of(&|one| one.get), "page_gap_us": of(&|one| one.scan.unwrap_or(Nanos(0))),
                "in_sync_us": of(&|one| one.in_sync),
            })
        });
        json!({
            "faults": kinds.collect::<Vec<_>>(), "replicas": self.replicas, "fenced": self.fenced,
            "operations": self.judged.values.operations, "in_doubt": self.judged.values.in_doubt,
            "not_searched": self.judged.values.undecided, "counted": self.judged.counted,
            "looked_at": self.looks.iter().map(|node| node.0).collect::<Vec<_>>(),
            "losses": self.judged.lost.as_ref().map_or(0, |lost| lost.losses),
            "lost": self.judged.lost.as_ref().map_or(0, |lost| lost.writes),
            "refused": self.refused, "pages": self.pages,
            "walks": self.walks, "wrong": self.wrong(),
        })
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::Csn;
    use longarm_client::{GroupAt, Topology};
    use longarm_history::{Invocation, OperationOutcome, Value};

    use super::*;

    fn put(value: u64, at: u64) -> Operation {
        let (call, end, version) = (Nanos(at), Nanos(at + 5), Some(Csn(value)));
        let (action, outcome) = (Invocation::Put(Value(value)), OperationOutcome::Done);
        Operation { client: 1, key: 7, action, outcome, call, end, version }
    }

    fn look(node: u32, found: Option<u64>, at: u64) -> Operation {
        let outcome = found.map_or(OperationOutcome::Absent, |value| OperationOutcome::Found(Value(value)));
        let (call, end, version) = (Nanos(at), Nanos(at + 5), found.map(Csn));
        Operation { client: LOOKER + node, key: 7, action: Invocation::Get, outcome, call, end, version }
    }

    /// The violation that the judges find if two nodes show these values.
    fn wrong(first: Option<u64>, second: Option<u64>) -> Option<String> {
        let left = [look(1, first, 100), look(2, second, 200)];
        let mut history = History::default();
        [put(1, 10), put(2, 20)].into_iter().chain(left.clone()).for_each(|one| history.push(one));
        judged(&history, &left, &[]).values.violation.map(|violation| violation.to_string())
    }

    /// With losses at these times, and a window of 100.
    fn judged(history: &History, left: &[Operation], at: &[u64]) -> Judged {
        let addresses = vec!["tcp://h:1".parse().expect("an address")];
        let groups = [1, 2].map(|id| GroupAt { id, addresses: addresses.clone() });
        let names = Names::new(Topology::new(7, groups.to_vec()));
        let at = at.iter().map(|at| Nanos(*at)).collect();
        judge(history, left, &[], &Losses { at, window: Nanos(100), groups: 2, names })
    }

    #[test]
    fn the_last_writes_of_each_group_may_be_lost_when_all_are_killed() {
        let mut history = History::default();
        let left = [look(1, Some(1), 1_000)];
        [put(1, 10), put(2, 900), put(3, 950)]
            .into_iter()
            .chain(left.clone())
            .for_each(|one| history.push(one));
        let judged_at = |at: &[u64]| judged(&history, &left, at);
        assert!(judged_at(&[]).values.violation.is_some());
        let kept = judged_at(&[990]);
        let lost = kept.lost.as_ref().map(|lost| (lost.losses, lost.writes, lost.longest));
        assert_eq!((kept.values.violation.as_ref(), lost), (None, Some((1, 2, Nanos(45)))));
        assert_eq!(kept.values.operations, 4);
        assert!(kept.to_text().contains("all were killed at once 1 times; 2 writes"), "{}", kept.to_text());
        assert!(judged_at(&[990, 2_000]).values.violation.is_none());
        assert!(judged_at(&[800]).values.violation.is_some(), "they are later");
    }

    #[test]
    fn what_was_acknowledged_must_be_at_each_replica() {
        assert_eq!(wrong(Some(2), Some(2)), None);
        for (first, second, node) in
            [(Some(2), None, 2), (Some(2), Some(1), 2), (None, Some(2), 1), (Some(1), Some(2), 1)]
        {
            let text = wrong(first, second).expect("one lacks it");
            assert!(text.contains(&format!("client {}", LOOKER + node)), "{first:?} {second:?}: {text}");
        }
    }
}
