//! `longarm completions`: a script that teaches a shell the commands and flags.

use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Print shell completions";

/// The arguments of `longarm completions`.
#[derive(clap::Args, Debug)]
#[command(after_help = "bash: longarm completions bash > ~/.local/share/bash-completion/completions/longarm")]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Prints the script for this tree of commands.
pub fn run(args: Args, tree: clap::Command, output: &mut Output) -> Result<Exit, Failure> {
    output.write(&script(args.shell, tree))?;
    Ok(Exit::Ok)
}

fn script(shell: clap_complete::Shell, mut tree: clap::Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut tree, "longarm", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueEnum};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_shell_learns_every_command() {
        for shell in clap_complete::Shell::value_variants() {
            let script = String::from_utf8(script(*shell, Cli::command())).expect("text");
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
