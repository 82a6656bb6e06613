//! `longarm completions`: a script that teaches a shell the commands and flags.

use clap::CommandFactory;

use crate::cli::Cli;
use crate::config::Config;
use crate::output::{Exit, Failure, Output};

/// What it does.
pub const ABOUT: &str = "Print shell completions";

/// Its arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "bash: longarm completions bash > ~/.local/share/bash-completion/completions/longarm")]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Prints the script.
pub fn run(args: Args, _config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    output.write(&script(args.shell))?;
    Ok(Exit::Ok)
}

fn script(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "longarm", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_learns_every_command() {
        for shell in clap_complete::Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).expect("text");
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
