use std::ffi::OsString;

use clap::{Args, FromArgMatches};

use super::*;
use crate::config::Origin;
use crate::config::flags::{AllSettings, ServerSettings};
use crate::front::usage_failure;

fn parsed(words: &[&str]) -> Cli {
    Cli::try_parse_from(std::iter::once(&"longarm").chain(words)).expect("good words")
}

#[test]
fn the_tree_is_sound() {
    Cli::command().debug_assert();
    for (name, _, args) in commands::all() {
        args.name(name).debug_assert();
    }
}

#[test]
fn help_is_as_agreed() {
    let help = Cli::command().term_width(110).render_help().to_string();
    if std::env::var_os("ACCEPT").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/help.txt");
        std::fs::write(path, &help).expect("the sources are writable");
        return;
    }
    let snapshot = include_str!("help.txt");
    assert_eq!(
        help, snapshot,
        "the help changed; if that is meant: ACCEPT=1 cargo test -p longarm help_is_as_agreed"
    );
}

#[test]
fn every_listed_command_has_its_arguments_in_the_catalogue() {
    for listed in Cli::command().get_subcommands() {
        let (_, about, args) = commands::all()
            .into_iter()
            .find(|(name, _, _)| *name == listed.get_name())
            .unwrap_or_else(|| panic!("{} is not in commands::all()", listed.get_name()));
        assert_eq!(listed.get_about().map(ToString::to_string).as_deref(), Some(about));
        let ids = |command: &clap::Command| {
            command.get_arguments().map(|arg| arg.get_id().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(listed), ids(&args), "{about}");
    }
}

/// Lines of the README's shell blocks that call the program, without comment and `&`.
fn readme_lines() -> Vec<String> {
    let readme = include_str!("../../../../README.md");
    let calls = readme.lines().filter(|line| line.starts_with("longarm "));
    let words = |line: &str| line.split('#').next().unwrap_or("").trim().trim_end_matches('&').to_string();
    calls.map(words).collect()
}

#[test]
fn the_readme_speaks_the_language_of_the_program() {
    let mut tree = AllSettings::augment_args(clap::Command::new("longarm"));
    for (_, _, command) in commands::all() {
        tree = tree.subcommand(command);
    }
    let lines = readme_lines();
    assert!(lines.len() >= 10, "the tour is there: {lines:?}");
    for line in lines {
        let words: Vec<String> =
            line.split_whitespace().map(|word| word.trim_matches('"').to_string()).collect();
        if let Err(error) = tree.clone().try_get_matches_from(words) {
            panic!("README: `{line}` is not understood: {error}");
        }
    }
}

#[test]
fn the_readme_lists_the_exit_codes() {
    let readme = include_str!("../../../../README.md");
    for (exit, _) in Exit::ALL {
        assert!(readme.contains(&format!("\n| {} | ", exit.code())), "{exit:?}");
    }
}

#[test]
fn every_argument_of_every_command_has_help() {
    for (name, _, args) in commands::all() {
        for arg in args.get_arguments() {
            assert!(
                arg.get_help().is_some_and(|help| !help.to_string().is_empty()),
                "{name}: {}",
                arg.get_id()
            );
        }
    }
}

#[test]
fn settings_are_taken_before_and_after_the_command() {
    for words in [["--timeout", "5s", "doctor"], ["doctor", "--timeout", "5s"]] {
        let cli = parsed(&words);
        let origin = Origin::Flag("--timeout".into());
        assert_eq!(cli.front.settings.given, [Given { key: "timeout", values: vec!["5s".into()], origin }]);
    }
    let cli = parsed(&["--address", "shm:/a", "--address", "tcp://h:1", "doctor"]);
    assert_eq!(cli.front.settings.given[0].values, ["shm:/a", "tcp://h:1"]);
}

#[test]
fn a_server_takes_the_server_settings() {
    let command = ServerSettings::augment_args(clap::Command::new("server"));
    let matches = command.try_get_matches_from(["server", "--memory", "2GiB", "--tls-client-ca", "x"]);
    let settings = ServerSettings::from_arg_matches(&matches.expect("good words")).expect("settings");
    let keys: Vec<&str> = settings.given.iter().map(|given| given.key).collect();
    assert_eq!(keys, ["memory", "tls.client_ca"]);
}

#[test]
fn a_mistake_has_a_form_for_scripts() {
    let error = Cli::try_parse_from(["longarm", "--json", "nonsense"]).expect_err("no such command");
    let failure = usage_failure::<Cli>(&error);
    assert_eq!(failure.exit, Exit::Usage);
    assert_eq!(failure.message, "unrecognized subcommand 'nonsense'");
    assert_eq!(failure.hint, "`longarm --help` lists commands and flags");
}

/// Runs the program from its arguments to its exit code, in this process.
fn run(words: &[&str]) -> Exit {
    crate::run(std::iter::once(&"longarm").chain(words).map(OsString::from))
}

#[test]
fn exit_codes_of_the_command_line() {
    assert_eq!(run(&["--version"]), Exit::Ok);
    assert_eq!(run(&["--help"]), Exit::Ok);
    assert_eq!(run(&["no-such-command"]), Exit::Usage);
    assert_eq!(run(&["--no-such-flag"]), Exit::Usage);
    assert_eq!(run(&["--json"]), Exit::Usage, "no command");
    assert_eq!(run(&["--check-config"]), Exit::Ok);
    assert_eq!(run(&["--print-config", "--json"]), Exit::Ok);
    assert_eq!(run(&["--check-config", "--timeout", "0"]), Exit::Usage);
    assert_eq!(run(&["--check-config", "--timeout", "soon"]), Exit::Usage);
    assert_eq!(run(&["--check-config", "--config", "/none/longarm.toml"]), Exit::Usage);
    assert_eq!(run(&["man", "/proc/none"]), Exit::System);
}
