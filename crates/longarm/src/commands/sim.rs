//! `longarm sim`: a whole group, its clients and its faults in one thread, in a time of their own.

use std::time::Duration;

use longarm_base::Nanos;
use longarm_sim::reduce::Reduction;
use longarm_sim::run::watch;
use longarm_sim::scenario::{Plan, SCENARIOS, Scenario};
use longarm_sim::timeline;
use serde_json::json;

use crate::config::Config;
use crate::flags::duration;
use crate::output::{Exit, Failure, Output};

/// What it does.
pub const ABOUT: &str = "Watch servers and clients in a simulated world with faults";

/// Its arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = after_help())]
pub struct Args {
    /// What may go wrong: one of the scenarios below
    #[arg(long, value_name = "NAME", default_value = "group-crashes", value_parser = scenario)]
    pub scenario: &'static Scenario,

    /// What the run is drawn from: the same seed shows the same run, to the letter
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Of the world's time: how often to say what clients did
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "50ms")]
    pub every: Duration,

    /// Run a part of what the seed drew, as `cargo x sim` prints it where it found a violation
    #[arg(long, value_name = "PART", default_value_t)]
    pub only: Reduction,
}

fn scenario(text: &str) -> Result<&'static Scenario, String> {
    Scenario::named(text).ok_or_else(|| format!("there are {}", Scenario::names().join(", ")))
}

fn after_help() -> String {
    let mut text = String::from("Scenarios:\n");
    for scenario in SCENARIOS {
        text.push_str(&format!("  {:14} {}\n", scenario.name, scenario.about));
    }
    text.push_str("\nEnds with 6 if what clients saw, or what replicas hold, cannot be.");
    text
}

/// Runs the seed, then shows what happened.
pub fn run(args: Args, _: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let plan = args.only.of(&Plan::of(args.scenario, args.seed));
    let (report, notes, operations) = watch(&plan);
    let every = Nanos(u64::try_from(args.every.as_nanos()).unwrap_or(u64::MAX));
    let lines = timeline::lines(&notes, &operations, every);
    let verdict = timeline::verdict(&report, &notes, &operations);
    if output.json() {
        for line in &lines {
            output.value(&json!({ "nanos": line.time.0, "text": line.text }))?;
        }
        output.value(&json!({
            "scenario": args.scenario.name,
            "seed": args.seed,
            "operations": report.operations,
            "in_doubt": report.in_doubt,
            "faults": report.faults,
            "violation": report.violation,
        }))?;
    } else {
        output.line(&timeline::drawn(args.scenario, args.seed, &plan))?;
        for line in &lines {
            output.line(&format!("{:>14}  {}", timeline::millis(line.time), line.text))?;
        }
        output.line(&verdict)?;
    }
    Ok(if report.violation.is_none() { Exit::Ok } else { Exit::Corrupt })
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches};

    use super::*;

    fn parsed(words: &[&str]) -> Result<Args, clap::Error> {
        let command = Args::augment_args(Command::new("sim"));
        Args::from_arg_matches(&command.try_get_matches_from(std::iter::once(&"sim").chain(words))?)
    }

    #[test]
    fn a_scenario_that_is_none_is_answered_with_those_there_are() {
        let error = parsed(&["--scenario", "nope"]).expect_err("there is no such").to_string();
        assert!(error.contains("there are calm, weather") && error.contains("group-all"), "{error}");
        let error = parsed(&["--only", "faults=x"]).expect_err("no number").to_string();
        assert!(error.contains("\"x\" is no number"), "{error}");
        let args = parsed(&["--scenario", "cuts", "--seed", "7", "--every", "5ms"]).expect("good words");
        assert_eq!((args.scenario.name, args.seed, args.every), ("cuts", 7, Duration::from_millis(5)));
    }
}
