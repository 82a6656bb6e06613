//! The front of a program: it reads the flags that each command takes and the settings in layers, and reports
//! mistakes in either. `longarm` is one such program; others of the workspace take the same flags from here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use crate::config::flags::AllSettings;
use crate::config::{self, Config, Given, Host};
use crate::output::{Exit, Failure, Output};

/// A program that has this front.
pub trait Program: Parser {
    /// The flags that each command takes.
    fn front(&self) -> &Front;

    /// Settings that a command takes as flags of its own.
    fn given(&self) -> Vec<Given> {
        Vec::new()
    }

    /// Does the program's own work.
    fn run(self, config: &Config, output: &mut Output) -> Result<Exit, Failure>;
}

/// Flags that each command takes.
#[derive(clap::Args, Debug)]
pub struct Front {
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
}

/// Parses `args` (the program's name first), does the program's work, and reports its failure on stderr.
pub fn run<P: Program>(args: impl IntoIterator<Item = OsString>) -> Exit {
    let program: P = match parse(args) {
        Ok(program) => program,
        Err(exit) => return exit,
    };
    let mut output = Output::new(program.front().json);
    match execute(program, &mut output) {
        Ok(exit) => exit,
        Err(failure) => output.fail(&failure),
    }
}

/// Parses the arguments. Help and version go to stdout and end with 0; a mistake goes to stderr and ends with
/// 2.
fn parse<P: Program>(args: impl IntoIterator<Item = OsString>) -> Result<P, Exit> {
    let args: Vec<OsString> = args.into_iter().collect();
    P::try_parse_from(&args).map_err(|error| {
        if error.exit_code() == 0 {
            // If stdout is closed, nothing can be said.
            let _ = error.print();
            return Exit::Ok;
        }
        // A script that asks for JSON gets it, even if other arguments are wrong.
        if args.iter().any(|arg| arg == "--json") {
            return Output::new(true).fail(&usage_failure::<P>(&error));
        }
        let _ = error.print();
        Exit::Usage
    })
}

/// The parser's first line as the message; the rest of what it says is for people.
pub(crate) fn usage_failure<P: Program>(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let message = text.lines().next().unwrap_or("").trim_start_matches("error: ");
    let program = P::command();
    let what = if program.has_subcommands() { "commands and flags" } else { "its flags" };
    Failure::new(Exit::Usage, message).hint(format!("`{} --help` lists {what}", program.get_name()))
}

/// Puts the configuration together. Shows or checks it, if the user asks for that, and does the program's
/// work otherwise.
fn execute<P: Program>(program: P, output: &mut Output) -> Result<Exit, Failure> {
    let front = program.front();
    let config = configure(front, program.given(), output)?;
    if front.print_config {
        if output.json() {
            output.value(&config.to_json())?;
        } else {
            output.write(config.to_toml().as_bytes())?;
        }
    }
    if front.check_config {
        return check(&config, output);
    }
    if front.print_config {
        return Ok(Exit::Ok);
    }
    program.run(&config, output)
}

fn configure(front: &Front, given: Vec<Given>, output: &mut Output) -> Result<Config, Failure> {
    let wrong = |faults: Vec<String>| {
        Failure::new(Exit::Usage, faults.join("\nerror: "))
            .hint("`longarm --print-config` shows every setting, its form and where its value comes from")
    };
    let mut layers = Vec::new();
    if let Some(path) = &front.config {
        let text = std::fs::read_to_string(path).map_err(|error| Failure {
            exit: Exit::Usage,
            ..Failure::io("read the configuration", path, &error)
        })?;
        layers.extend(config::file::parse(path, &text).map_err(wrong)?);
    }
    // All settings are Unicode text, so variables that are not are left out.
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let text = variables.filter_map(|(name, value)| Some((name, value.into_string().ok()?)));
    let (from_env, warnings) = config::env::parse(text);
    layers.extend(from_env);
    for warning in warnings {
        output.warn(&warning);
    }
    layers.extend(front.settings.given.clone());
    layers.extend(given);
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
