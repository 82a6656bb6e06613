//! The tree of commands and global flags, and the way from words to a running command.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands;
use crate::config::flags::AllSettings;
use crate::config::{self, Config, Given, Host};
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
    /// TOML file with settings; the environment (LONGARM_*) and flags go over it
    #[arg(long, global = true, value_name = "FILE", env = config::env::CONFIG, hide_env_values = true)]
    pub config: Option<PathBuf>,

    /// Results, warnings and errors as JSON, one value a line
    #[arg(long, global = true)]
    pub json: bool,

    /// Check the configuration, say what is wrong with it, and do nothing else
    #[arg(long, global = true)]
    pub check_config: bool,

    /// Show every setting and where its value comes from, and do nothing else
    #[arg(long, global = true)]
    pub print_config: bool,

    /// Settings that every command takes
    #[command(flatten)]
    pub settings: AllSettings,

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
    #[command(about = commands::load::ABOUT)]
    Load(commands::load::Args),
    #[command(about = commands::dump::ABOUT)]
    Dump(commands::dump::Args),
    #[command(about = commands::inspect::ABOUT)]
    Inspect(commands::inspect::Args),
    #[command(about = commands::doctor::ABOUT)]
    Doctor(commands::doctor::Args),
    #[command(about = commands::bench::ABOUT)]
    Bench(Box<commands::bench::Args>),
    #[command(about = commands::demo::ABOUT)]
    Demo(commands::demo::Args),
    #[command(about = commands::torture::ABOUT)]
    Torture(commands::torture::Args),
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
            Command::Load(args) => commands::load::run(args, config, output),
            Command::Dump(args) => commands::dump::run(args, config, output),
            Command::Inspect(args) => commands::inspect::run(args, config, output),
            Command::Doctor(args) => commands::doctor::run(args, config, output),
            Command::Bench(args) => commands::bench::run(*args, config, output),
            Command::Demo(args) => commands::demo::run(args, config, output),
            Command::Torture(args) => commands::torture::run(args, config, output),
            Command::Completions(args) => commands::completions::run(args, Cli::command(), output),
            Command::Man(args) => commands::man::run(args, Cli::command(), output),
        }
    }
}

/// Parses the command line. Help and version go to stdout and end with 0; a mistake goes to stderr and ends
/// with 2.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Exit> {
    let args: Vec<OsString> = args.into_iter().collect();
    Cli::try_parse_from(&args).map_err(|error| {
        if error.exit_code() == 0 {
            // Nothing can be said where stdout is closed.
            let _ = error.print();
            return Exit::Ok;
        }
        // Whoever asked for JSON gets it, also where the words around it are wrong.
        if args.iter().any(|arg| arg == "--json") {
            return Output::new(true).fail(&usage_failure(&error));
        }
        let _ = error.print();
        Exit::Usage
    })
}

/// The parser's first line as the message; the rest of what it says is for people.
fn usage_failure(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let message = text.lines().next().unwrap_or("").trim_start_matches("error: ");
    Failure::new(Exit::Usage, message).hint("`longarm --help` lists commands and flags")
}

/// Puts the configuration together and runs the command.
pub fn execute(cli: Cli, output: &mut Output) -> Result<Exit, Failure> {
    let config = configure(&cli, output)?;
    if cli.print_config {
        if output.json() {
            output.value(&config.to_json())?;
        } else {
            output.write(config.to_toml().as_bytes())?;
        }
    }
    if cli.check_config {
        return check(&config, output);
    }
    match cli.command {
        _ if cli.print_config => Ok(Exit::Ok),
        Some(command) => command.run(&config, output),
        None => {
            Err(Failure::new(Exit::Usage, "no command given").hint("`longarm --help` lists the commands"))
        }
    }
}

fn configure(cli: &Cli, output: &mut Output) -> Result<Config, Failure> {
    let wrong = |faults: Vec<String>| {
        Failure::new(Exit::Usage, faults.join("\nerror: "))
            .hint("`longarm --print-config` shows every setting, its form and where its value comes from")
    };
    let mut layers = Vec::new();
    if let Some(path) = &cli.config {
        let text = std::fs::read_to_string(path).map_err(|error| Failure {
            exit: Exit::Usage,
            ..Failure::io("read the configuration", path, &error)
        })?;
        layers.extend(config::file::parse(path, &text).map_err(wrong)?);
    }
    // A value that is not Unicode cannot be one of ours.
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let text = variables.filter_map(|(name, value)| Some((name, value.into_string().ok()?)));
    let (given, warnings) = config::env::parse(text);
    layers.extend(given);
    for warning in warnings {
        output.warn(&warning);
    }
    layers.extend(cli.settings.given.clone());
    layers.extend(cli.command.iter().flat_map(Command::given));
    config::load(&Host::of_this_process(), layers).map_err(wrong)
}

fn check(config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let report = config::check::check(config);
    for warning in &report.warnings {
        output.warn(warning);
    }
    if !report.errors.is_empty() {
        return Err(Failure::new(Exit::Usage, report.errors.join("\nerror: ")));
    }
    if output.json() {
        output.value(&serde_json::json!({ "ok": true, "warnings": report.warnings.len() }))?;
    } else {
        output.line("the configuration is good")?;
    }
    Ok(Exit::Ok)
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
