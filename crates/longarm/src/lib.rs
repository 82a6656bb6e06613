//! The command line of Longarm: one file a subcommand under [`commands`], settings under [`config`].
//!
//! Nothing here knows a byte of the store's structures: commands call the client, server and bench crates,
//! and `inspect` the `verify` functions of index and store.
#![forbid(unsafe_code)]

pub mod backups;
pub mod cli;
pub mod cluster;
pub mod commands;
pub mod conditional;
pub mod config;
pub mod connect;
pub mod directories;
pub mod doctor;
pub mod flags;
pub mod front;
pub mod human;
pub mod items;
pub mod open_files;
pub mod operator;
pub mod ordered;
pub mod output;
pub mod processes;
pub mod progress;
mod replaced;
pub mod standing;
pub mod structures;
pub mod times;

use std::ffi::OsString;

use output::Exit;

/// Parses `args` (the program's name first), runs the command, and reports its failure on stderr.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    open_files::raise_limit();
    front::run::<cli::Cli>(args)
}
