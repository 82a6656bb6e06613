//! Reduces a run that violates a rule to a smaller one that still violates it: fewer faults, clients and
//! operations, a steady network (delta debugging; Zeller and Hildebrandt, TSE 2002, section 3).
//!
//! A [`Reduction`] says what is left of the plan that a seed drew. It is a word on a command line, so one
//! command reproduces the reduced run. The search is deterministic, and bounded by a number of runs.

use std::collections::BTreeSet;

use longarm_base::Nanos;
use longarm_fabric::sim::Weather;

use crate::plan::Plan;
use crate::run::{Report, play};
use crate::world::Drift;

/// What is left of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// Only these faults, by their number in the plan; `None`: all.
    pub faults: Option<BTreeSet<usize>>,
    /// Only these clients, by number; `None`: all.
    pub clients: Option<BTreeSet<u32>>,
    /// The number of operations of a client; `None`: as in the plan.
    pub operations: Option<u32>,
    /// Whether the network is made steady.
    pub fine: bool,
    /// Whether clocks are made to go right.
    pub true_clocks: bool,
}

impl Reduction {
    /// The part of a plan that is left.
    pub fn of(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        if let Some(kept) = &self.faults {
            let faults = std::mem::take(&mut plan.faults).into_iter().enumerate();
            plan.faults =
                faults.filter(|(number, _)| kept.contains(number)).map(|(_, fault)| fault).collect();
        }
        if let Some(kept) = &self.clients {
            plan.idle = (1..=plan.clients).filter(|number| !kept.contains(number)).collect();
        }
        plan.operations = self.operations.unwrap_or(plan.operations);
        if self.fine {
            plan.weather = Weather::FINE;
        }
        if self.true_clocks {
            plan.clocks = plan.clocks.iter().map(|clock| Drift { rate: 0, ..*clock }).collect();
        }
        plan
    }
}

impl std::fmt::Display for Reduction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn list<T: ToString>(name: &str, numbers: &Option<BTreeSet<T>>) -> Option<String> {
            let numbers: Vec<_> = numbers.as_ref()?.iter().map(ToString::to_string).collect();
            Some(format!("{name}={}", numbers.join("+")))
        }
        let operations = self.operations.map(|operations| format!("operations={operations}"));
        let words = [
            list("faults", &self.faults),
            list("clients", &self.clients),
            operations,
            self.fine.then(|| "fine".into()),
            self.true_clocks.then(|| "true-clocks".into()),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

impl std::str::FromStr for Reduction {
    type Err = String;

    fn from_str(text: &str) -> Result<Reduction, String> {
        fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
            text.parse().map_err(|_| format!("{text:?} is no number"))
        }
        fn list<T: std::str::FromStr + Ord>(text: &str) -> Result<Option<BTreeSet<T>>, String> {
            text.split('+').filter(|text| !text.is_empty()).map(number).collect::<Result<_, _>>().map(Some)
        }
        let mut reduction = Reduction::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word.split_once('=').unwrap_or((word, "")) {
                ("faults", numbers) => reduction.faults = list(numbers)?,
                ("clients", numbers) => reduction.clients = list(numbers)?,
                ("operations", text) => reduction.operations = Some(number(text)?),
                ("fine", "") => reduction.fine = true,
                ("true-clocks", "") => reduction.true_clocks = true,
                _ => {
                    return Err(format!(
                        "{word:?} is none of faults=1+2, clients=1+2, operations=9, fine, true-clocks"
                    ));
                }
            }
        }
        Ok(reduction)
    }
}

/// A reduced run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduced {
    /// What is left of the plan.
    pub left: Reduction,
    /// The report of the reduced run.
    pub report: Report,
    /// Runs that the search took.
    pub runs: u32,
}

/// The kind of violation that a text is of. A smaller run must not end with a violation of another kind.
fn kind(violation: &str) -> &str {
    let line = violation.lines().next().unwrap_or_default();
    let rule = line.split_once(':').map(|(rule, _)| rule);
    rule.unwrap_or_else(|| line.split(|c: char| c.is_ascii_digit()).next().unwrap_or(line))
}

/// Reduces a plan that violates a rule, in at most so many runs. `None` if the plan violates none.
pub fn reduce(plan: &Plan, runs: u32) -> Option<Reduced> {
    reduce_by(plan, runs, &play)
}

/// Reduces a plan by any way to run one.
fn reduce_by(plan: &Plan, runs: u32, play: &dyn Fn(&Plan) -> Report) -> Option<Reduced> {
    let report = play(plan);
    let kind = kind(report.violation.as_ref()?).to_string();
    let best = Reduced { left: Reduction::default(), report, runs: 1 };
    let mut search = Search { plan, play, kind, best, runs };
    search.run();
    Some(search.best)
}

struct Search<'a> {
    plan: &'a Plan,
    play: &'a dyn Fn(&Plan) -> Report,
    kind: String,
    best: Reduced,
    /// The most runs that the search may take.
    runs: u32,
}

impl Search<'_> {
    fn run(&mut self) {
        // Only faults that struck before the violation was noticed can have caused it.
        let struck = (0..self.best.report.faults as usize).collect();
        self.attempt(|left| left.faults = Some(struck));
        self.shorten();
        self.fewer_faults();
        self.fewer_clients();
        self.shorten();
        self.attempt(|left| left.fine = true);
        self.attempt(|left| left.true_clocks = true);
        self.fewer_faults();
    }

    /// Takes a change if the same kind of violation is still there.
    fn attempt(&mut self, change: impl FnOnce(&mut Reduction)) -> bool {
        let mut left = self.best.left.clone();
        change(&mut left);
        if left == self.best.left || self.best.runs >= self.runs {
            return false;
        }
        self.best.runs += 1;
        let report = (self.play)(&left.of(self.plan));
        let same = report.violation.as_ref().is_some_and(|violation| kind(violation) == self.kind);
        if same {
            (self.best.left, self.best.report) = (left, report);
        }
        same
    }

    /// Leaves each client fewer operations: half of them, then a quarter less, and so on.
    fn shorten(&mut self) {
        let mut step = self.plan.operations / 2;
        while step > 0 {
            let now = self.best.left.operations.unwrap_or(self.plan.operations);
            let shorter = now > step && self.attempt(|left| left.operations = Some(now - step));
            if !shorter {
                step /= 2;
            }
        }
    }

    /// Leaves out ever smaller parts of the faults.
    fn fewer_faults(&mut self) {
        let count = |search: &Self| search.best.left.faults.as_ref().map_or(0, BTreeSet::len);
        let mut size = count(self).div_ceil(2);
        while size > 0 && self.best.runs < self.runs {
            let mut at = 0;
            while at < count(self) {
                let kept: Vec<usize> = self.best.left.faults.iter().flatten().copied().collect();
                let (before, after) = (&kept[..at], &kept[(at + size).min(kept.len())..]);
                let fewer = before.iter().chain(after).copied().collect();
                if !self.attempt(|left| left.faults = Some(fewer)) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    fn fewer_clients(&mut self) {
        for number in 1..=self.plan.clients {
            let all = || (1..=self.plan.clients).collect::<BTreeSet<_>>();
            let mut clients = self.best.left.clients.clone().unwrap_or_else(all);
            if clients.len() > 1 && clients.remove(&number) {
                self.attempt(|left| left.clients = Some(clients));
            }
        }
    }
}

/// The reduced run in words: what is left of it, and the faults one by one.
pub fn describe(plan: &Plan, reduced: &Reduced) -> String {
    let left = reduced.left.of(plan);
    let mut text = format!(
        "{} of {} faults, {} of {} clients, {} of {} operations each, after {} runs",
        left.faults.len(),
        plan.faults.len(),
        left.running(),
        plan.clients,
        left.operations,
        plan.operations,
        reduced.runs
    );
    for fault in &left.faults {
        let Nanos(at) = fault.at;
        text.push_str(&format!("\n  {:>12.6} ms {fault}", at as f64 / 1e6));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Fault;
    use crate::scenario::Scenario;

    fn plan() -> Plan {
        let scenario = Scenario::named("group-all").expect("there is one");
        (0..).map(|seed| Plan::of(scenario, seed)).find(|plan| plan.faults.len() > 300).expect("some seed")
    }

    /// A world that breaks if two certain faults strike, and a client does at least 37 operations.
    fn breaks(guilty: [&Fault; 2], plan: &Plan) -> Report {
        let struck = guilty.iter().all(|fault| plan.faults.contains(fault));
        let broken = struck && plan.operations >= 37 && plan.running() > 0;
        let violation = broken.then(|| format!("I2: lost after {} faults", plan.faults.len()));
        let faults = plan.faults.len() as u64;
        Report {
            operations: 0,
            in_doubt: 0,
            pages: 0,
            no_page: 0,
            walks: 0,
            backups: 0,
            faults,
            steps: 0,
            events: 0,
            violation,
            gaps: Vec::new(),
        }
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        let plan = plan();
        let guilty = [&plan.faults[71], &plan.faults[230]];
        let reduced = reduce_by(&plan, 400, &|plan| breaks(guilty, plan)).expect("it breaks");
        assert_eq!(reduced.left.faults, Some([71, 230].into()));
        assert_eq!(reduced.left.operations, Some(37));
        assert_eq!(reduced.left.clients.as_ref().map(BTreeSet::len), Some(1));
        assert!(reduced.left.fine && reduced.left.true_clocks);
        assert_eq!(
            reduce_by(&plan, 400, &|plan| breaks(guilty, plan)),
            Some(reduced),
            "once more is the same"
        );
        let few = reduce_by(&plan, 9, &|plan| breaks(guilty, plan)).expect("it breaks");
        assert!(few.runs <= 9 && few.report.violation.is_some(), "bounded, and what it has is a violation");
        assert_eq!(reduce_by(&plan, 9, &|plan| Report { violation: None, ..breaks(guilty, plan) }), None);
    }

    #[test]
    fn another_violation_is_not_taken_for_it() {
        let plan = plan();
        let other = |plan: &Plan| match plan.faults.is_empty() {
            true => Report { violation: Some("I9: of another kind".into()), ..breaks([&FAULT; 2], plan) },
            false => Report { violation: Some("I2: the one".into()), ..breaks([&FAULT; 2], plan) },
        };
        let reduced = reduce_by(&plan, 400, &other).expect("it breaks");
        assert_eq!(reduced.left.faults.map(|faults| faults.len()), Some(1));
        assert_eq!(
            kind("nothing is there, and nobody removed what was\n  client 1"),
            kind("nothing is there, and nobody removed what was\n  client 2")
        );
        assert_eq!(kind("healed, and yet 3 of 5 clients"), kind("healed, and yet 4 of 5 clients"));
        assert_ne!(kind("I9: a"), kind("I2: a"));
    }

    const FAULT: Fault = Fault { at: Nanos(0), what: crate::faults::What::Pause { whom: 0, time: Nanos(0) } };

    #[test]
    fn a_reduction_is_a_word_that_says_all() {
        for text in ["", "faults=1+22", "clients=3", "faults=,fine", "operations=7,fine,true-clocks"] {
            let reduction: Reduction = text.parse().expect("well-formed");
            assert_eq!(reduction.to_string(), text);
        }
        for text in ["faults=a", "operations=", "fine=1", "else"] {
            assert!(text.parse::<Reduction>().is_err(), "{text}");
        }
    }
}
