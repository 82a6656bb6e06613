//! The tree of commands, and which file runs each.

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands;
use crate::config::{Config, Given};
use crate::front::{Front, Program};
use crate::output::{Exit, Failure, Output};

/// What the user typed.
#[derive(Parser, Debug)]
#[command(
    name = "longarm",
    version,
    about = "An in-memory key-value store whose clients reach into the server's memory",
    after_help = exit_help(),
    subcommand_required = false,
    arg_required_else_help = true,
    max_term_width = 110
)]
pub struct Cli {
    /// Flags that each command takes
    #[command(flatten)]
    pub front: Front,

    /// What to do
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// One variant a subcommand; its arguments and its `run` are in the file of its name.
#[derive(Subcommand, Debug)]
#[expect(missing_docs, reason = "each variant says what it does by the ABOUT of its file")]
pub enum Command {
    #[command(about = commands::server::ABOUT)]
    Server(commands::server::Args),
    #[command(about = commands::cluster::ABOUT)]
    Cluster(commands::cluster::Args),
    #[command(about = commands::get::ABOUT)]
    Get(commands::get::Args),
    #[command(about = commands::put::ABOUT)]
    Put(commands::put::Args),
    #[command(about = commands::del::ABOUT)]
    Del(commands::del::Args),
    #[command(about = commands::incr::ABOUT)]
    Incr(commands::incr::Args),
    #[command(about = commands::cas::ABOUT)]
    Cas(commands::cas::Args),
    #[command(about = commands::stats::ABOUT)]
    Stats(commands::stats::Args),
    #[command(about = commands::scan::ABOUT)]
    Scan(commands::scan::Args),
    #[command(about = commands::load::ABOUT)]
    Load(commands::load::Args),
    #[command(about = commands::dump::ABOUT)]
    Dump(commands::dump::Args),
    #[command(about = commands::backup::ABOUT)]
    Backup(commands::backup::Args),
    #[command(about = commands::restore::ABOUT)]
    Restore(commands::restore::Args),
    #[command(about = commands::check::ABOUT)]
    Check(commands::check::Args),
    #[command(about = commands::inspect::ABOUT)]
    Inspect(commands::inspect::Args),
    #[command(about = commands::doctor::ABOUT)]
    Doctor(commands::doctor::Args),
    #[command(about = commands::bench::ABOUT)]
    Bench(Box<commands::bench::Args>),
    #[command(about = commands::demo::ABOUT)]
    Demo(commands::demo::Args),
    #[command(about = commands::completions::ABOUT)]
    Completions(commands::completions::Args),
    #[command(about = commands::man::ABOUT)]
    Man(commands::man::Args),
}

impl Command {
    /// Settings that the command itself takes as flags.
    fn given(&self) -> Vec<Given> {
        match self {
            Command::Server(args) => args.settings.given.clone(),
            Command::Bench(args) => args.settings.given.clone(),
            _ => Vec::new(),
        }
    }

    fn run(self, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
        match self {
            Command::Server(args) => commands::server::run(args, config, output),
            Command::Cluster(args) => commands::cluster::run(args, config, output),
            Command::Get(args) => commands::get::run(args, config, output),
            Command::Put(args) => commands::put::run(args, config, output),
            Command::Del(args) => commands::del::run(args, config, output),
            Command::Incr(args) => commands::incr::run(args, config, output),
            Command::Cas(args) => commands::cas::run(args, config, output),
            Command::Stats(args) => commands::stats::run(args, config, output),
            Command::Scan(args) => commands::scan::run(args, config, output),
            Command::Load(args) => commands::load::run(args, config, output),
            Command::Dump(args) => commands::dump::run(args, config, output),
            Command::Backup(args) => commands::backup::run(args, config, output),
            Command::Restore(args) => commands::restore::run(args, config, output),
            Command::Check(args) => commands::check::run(args, output),
            Command::Inspect(args) => commands::inspect::run(args, config, output),
            Command::Doctor(args) => commands::doctor::run(args, config, output),
            Command::Bench(args) => commands::bench::run(*args, config, output),
            Command::Demo(args) => commands::demo::run(args, config, output),
            Command::Completions(args) => commands::completions::run(args, Cli::command(), output),
            Command::Man(args) => commands::man::run(args, Cli::command(), output),
        }
    }
}

impl Program for Cli {
    fn front(&self) -> &Front {
        &self.front
    }

    fn given(&self) -> Vec<Given> {
        self.command.iter().flat_map(Command::given).collect()
    }

    fn run(self, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
        match self.command {
            Some(command) => command.run(config, output),
            None => {
                Err(Failure::new(Exit::Usage, "no command given").hint("`longarm --help` lists the commands"))
            }
        }
    }
}

fn exit_help() -> String {
    let mut text = String::from("Exit codes:\n");
    for (exit, meaning) in Exit::ALL {
        text.push_str(&format!("  {}  {meaning}\n", exit.code()));
    }
    text
}

#[cfg(test)]
mod tests;
