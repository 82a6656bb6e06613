use clap::CommandFactory;

use super::*;

#[test]
fn the_flags_are_sound() {
    Cli::command().debug_assert();
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
        "the help changed; if that is meant: ACCEPT=1 cargo test -p longarm-chaos help_is_as_agreed"
    );
}

#[test]
fn every_flag_has_help() {
    for arg in Cli::command().get_arguments() {
        assert!(arg.get_help().is_some_and(|help| !help.to_string().is_empty()), "{}", arg.get_id());
    }
}

/// The calls of the program that the README has, in code or in the middle of a text.
fn readme_calls() -> Vec<String> {
    let readme = include_str!("../../../../README.md");
    let of_line = |line: &'static str| line.split('`').filter(|part| part.starts_with("longarm-chaos "));
    let words = |call: &str| call.split('#').next().unwrap_or("").trim().to_string();
    readme.lines().flat_map(of_line).map(words).collect()
}

#[test]
fn the_readme_speaks_the_language_of_the_program() {
    let calls = readme_calls();
    assert!(!calls.is_empty(), "the figures say how they were measured");
    for call in calls {
        if let Err(error) = Cli::try_parse_from(call.split_whitespace()) {
            panic!("README: `{call}` is not understood: {error}");
        }
    }
}

#[test]
fn what_is_not_said_has_the_usual_values() {
    let Cli { args, front } =
        Cli::try_parse_from(["longarm-chaos", "--json", "--timeout", "5s"]).expect("good");
    assert!(front.json && front.settings.given.len() == 1);
    assert_eq!((args.transport, args.replicas, args.groups), (Transport::Shm, 3, 1));
    assert_eq!((args.times, args.program), (Times::usual(), None));
    let five = Cli::try_parse_from(["longarm-chaos", "--replicas", "5"]).expect("as --nodes");
    assert_eq!(five.args.replicas, 5);
}
