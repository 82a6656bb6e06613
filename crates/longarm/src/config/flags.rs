//! The settings as flags of the command line, made from the table.

use clap::{ArgAction, ArgMatches, Args, FromArgMatches};

use super::settings::{SETTINGS, Scope, Setting};
use super::{Given, Origin};

/// Flags of [`Scope::All`], made from the table of settings.
#[derive(Clone, Default, Debug)]
pub struct AllSettings {
    /// Settings that the user stated by these flags.
    pub given: Vec<Given>,
}

/// Flags of [`Scope::Server`], for commands that start a server.
#[derive(Clone, Default, Debug)]
pub struct ServerSettings {
    /// Settings that the user stated by these flags.
    pub given: Vec<Given>,
}

fn augment(command: clap::Command, scope: Scope) -> clap::Command {
    let heading = if scope == Scope::All { "Settings for every command" } else { "Settings of the server" };
    SETTINGS.iter().filter(|setting| setting.scope == scope).fold(command, |command, setting| {
        let arg = clap::Arg::new(setting.key)
            .long(setting.flag())
            .value_name(setting.form)
            .help(setting.help)
            .help_heading(heading)
            .global(scope == Scope::All)
            .action(if setting.list { ArgAction::Append } else { ArgAction::Set });
        command.arg(arg)
    })
}

fn collect(matches: &ArgMatches, scope: Scope) -> Vec<Given> {
    let stated = |setting: &'static Setting| {
        let values = matches.get_many::<String>(setting.key)?.cloned().collect();
        Some(Given { key: setting.key, values, origin: Origin::Flag(format!("--{}", setting.flag())) })
    };
    SETTINGS.iter().filter(|setting| setting.scope == scope).filter_map(stated).collect()
}

/// Implements the flags of one scope; flags of another scope differ in nothing else.
macro_rules! setting_flags {
    ($type:ident, $scope:expr) => {
        impl Args for $type {
            fn augment_args(command: clap::Command) -> clap::Command {
                augment(command, $scope)
            }
            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                augment(command, $scope)
            }
        }
        impl FromArgMatches for $type {
            fn from_arg_matches(matches: &ArgMatches) -> Result<$type, clap::Error> {
                Ok($type { given: collect(matches, $scope) })
            }
            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                self.given = collect(matches, $scope);
                Ok(())
            }
        }
    };
}

setting_flags!(AllSettings, Scope::All);
setting_flags!(ServerSettings, Scope::Server);
