//! One file a subcommand: its arguments and its `run`. No command imports another: what several of them need
//! stands beside this folder.

pub mod backup;
pub mod bench;
pub mod cas;
pub mod check;
pub mod cluster;
pub mod completions;
pub mod del;
pub mod demo;
pub mod doctor;
pub mod dump;
pub mod get;
pub mod incr;
pub mod inspect;
pub mod load;
pub mod man;
pub mod put;
pub mod restore;
pub mod scan;
pub mod server;
pub mod stats;

use clap::{Args, Command};

/// Every subcommand: its name, what it does, and its arguments.
pub fn all() -> Vec<(&'static str, &'static str, Command)> {
    fn one<A: Args>(name: &'static str, about: &'static str) -> (&'static str, &'static str, Command) {
        (name, about, A::augment_args(Command::new(name).about(about)))
    }
    vec![
        one::<server::Args>("server", server::ABOUT),
        one::<cluster::Args>("cluster", cluster::ABOUT),
        one::<get::Args>("get", get::ABOUT),
        one::<put::Args>("put", put::ABOUT),
        one::<del::Args>("del", del::ABOUT),
        one::<incr::Args>("incr", incr::ABOUT),
        one::<cas::Args>("cas", cas::ABOUT),
        one::<stats::Args>("stats", stats::ABOUT),
        one::<scan::Args>("scan", scan::ABOUT),
        one::<load::Args>("load", load::ABOUT),
        one::<dump::Args>("dump", dump::ABOUT),
        one::<backup::Args>("backup", backup::ABOUT),
        one::<restore::Args>("restore", restore::ABOUT),
        one::<check::Args>("check", check::ABOUT),
        one::<inspect::Args>("inspect", inspect::ABOUT),
        one::<doctor::Args>("doctor", doctor::ABOUT),
        one::<bench::Args>("bench", bench::ABOUT),
        one::<demo::Args>("demo", demo::ABOUT),
        one::<completions::Args>("completions", completions::ABOUT),
        one::<man::Args>("man", man::ABOUT),
    ]
}
