//! `longarm man`: one manual page for the program and one for each subcommand.

use std::path::{Path, PathBuf};

use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Write manual pages into a directory";

/// The arguments of `longarm man`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Read one with: man -l DIR/longarm.1")]
pub struct Args {
    /// Directory for longarm.1 and one longarm-COMMAND.1 each; it is made if need be
    pub dir: PathBuf,
}

/// Writes the pages of this tree of commands.
pub fn run(args: Args, tree: clap::Command, output: &mut Output) -> Result<Exit, Failure> {
    std::fs::create_dir_all(&args.dir)
        .map_err(|error| Failure::io("make the directory", &args.dir, &error))?;
    for (name, page) in pages(tree) {
        let path = args.dir.join(name);
        std::fs::write(&path, page).map_err(|error| Failure::io("write", &path, &error))?;
        announce(&path, output)?;
    }
    Ok(Exit::Ok)
}

fn announce(path: &Path, output: &mut Output) -> Result<(), Failure> {
    if output.json() {
        output.value(&serde_json::json!({ "page": path.display().to_string() }))
    } else {
        output.line(&path.display().to_string())
    }
}

/// Makes the pages: their file names and contents.
fn pages(mut root: clap::Command) -> Vec<(String, Vec<u8>)> {
    root.build();
    let mut pages = vec![page("longarm".to_string(), root.clone())];
    for command in root.get_subcommands().filter(|command| command.get_name() != "help") {
        pages.push(page(format!("longarm-{}", command.get_name()), command.clone()));
    }
    pages
}

fn page(title: String, command: clap::Command) -> (String, Vec<u8>) {
    let file = format!("{title}.1");
    let mut page = Vec::new();
    let page_of = clap_mangen::Man::new(command.name(title));
    page_of.render(&mut page).expect("writing to memory does not fail");
    (file, page)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn there_is_a_page_for_the_program_and_each_command() {
        let pages = pages(Cli::command());
        assert_eq!(pages.len(), 1 + Cli::command().get_subcommands().count());
        for (file, page) in &pages {
            let text = String::from_utf8(page.clone()).expect("text");
            assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{file}");
        }
        let names: Vec<&str> = pages.iter().map(|(file, _)| file.as_str()).collect();
        assert!(names.contains(&"longarm.1") && names.contains(&"longarm-doctor.1"), "{names:?}");
    }

    #[test]
    fn pages_are_written_where_asked() {
        let dir = std::env::temp_dir().join(format!("longarm-man-{}", std::process::id()));
        let done = run(Args { dir: dir.join("new") }, Cli::command(), &mut Output::new(true));
        assert_eq!(done, Ok(Exit::Ok));
        assert!(dir.join("new/longarm.1").is_file());
        std::fs::remove_dir_all(&dir).expect("clean up");
    }
}
