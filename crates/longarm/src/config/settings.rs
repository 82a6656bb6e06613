//! The one table of settings. One entry states a setting's key in the file, its flag, its environment
//! variable and its help, and how the value is read and shown.

use std::path::PathBuf;
use std::str::FromStr;

use serde_json::{Value, json};

use super::units::{parse_duration, parse_size, show_duration, show_size};
use super::{Config, Durability, Eviction, HugePages, Log, Pmem, Slot, Standby, Updates};

/// The commands that take a setting as a flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Every command takes the flag.
    All,
    /// Commands that start a server take the flag.
    Server,
}

/// One setting.
pub struct Setting {
    /// Key in the file; a dot separates table and key.
    pub key: &'static str,
    /// Name of the value in help.
    pub form: &'static str,
    /// The line of the help about the setting.
    pub help: &'static str,
    /// The commands that take it as a flag.
    pub scope: Scope,
    /// Whether it has several values.
    pub list: bool,
    /// Reads the value; an error says what was wrong with the text.
    pub set: fn(&mut Config, &[String]) -> Result<(), String>,
    /// Shows the value in the form that `set` reads; gives `Null` if the value is not set.
    pub show: fn(&Config) -> Value,
}

impl Setting {
    /// The name of the flag without its dashes: `tls-client-ca` for `tls.client_ca`.
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }

    /// The name of the environment variable: `LONGARM_TLS_CLIENT_CA` for `tls.client_ca`.
    pub fn env(&self) -> String {
        format!("LONGARM_{}", self.key.replace('.', "_").to_ascii_uppercase())
    }

    /// Finds the setting with this key.
    pub fn find(key: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }
}

/// What to do in place of a setting that there was once.
pub fn retired(key: &str) -> Option<&'static str> {
    let advice =
        "it is gone: `data` keeps what a server holds, and `longarm inspect --data DIR` looks at that";
    (key == "arena_dir").then_some(advice)
}

/// All settings, in the order they are shown.
pub static SETTINGS: &[Setting] = &[
    Setting {
        list: true,
        set: |config, values| {
            config.address = values.iter().map(|text| text.parse()).collect::<Result<_, String>>()?;
            Ok(())
        },
        show: |config| match config.cluster {
            Some(_) => Value::Null,
            None => config.address.iter().map(|address| address.to_string()).collect(),
        },
        ..all(
            "address",
            "ADDRESS",
            "Where the server listens and clients connect (the first): shm:/path.sock, \
             tcp://host:port, verbs://host:port; repeatable",
        )
    },
    Setting {
        set: |c, v| one(v, |text| path(text).map(|p| c.cluster = p)),
        show: |c| show_path(&c.cluster),
        ..all(
            "cluster",
            "FILE",
            "File of a cluster, in place of an address: clients connect to the leaders of its groups, a \
             server is the node that --node names",
        )
    },
    Setting {
        set: |c, v| one(v, |text| parse_size(text).map(|bytes| c.memory = bytes)),
        show: |c| json!(show_size(c.memory)),
        ..server("memory", "SIZE", "Memory for items and index; writes beyond it are refused or evict")
    },
    Setting {
        set: |c, v| {
            one(v, |text| {
                c.workers = if text.trim() == "auto" { None } else { Some(number(text)?) };
                Ok(())
            })
        },
        show: |c| c.workers.map_or(json!("auto"), |workers| json!(workers)),
        ..server(
            "workers",
            "N|auto",
            "Threads that execute what clients ask, and serve their sockets; auto: one a core, at most 4, \
             and 1 in a cluster or with an ordered index",
        )
    },
    Setting {
        set: |c, v| one(v, |text| parse_duration(text).map(|d| c.lease = d)),
        show: |c| json!(show_duration(c.lease)),
        ..server("lease", "DURATION", "How long a client may trust what it reads without a sign of life")
    },
    Setting {
        set: |c, v| one(v, |text| text.parse().map(|slot| c.slot = slot)),
        show: |c| json!(c.slot.bytes()),
        ..server(
            "slot",
            "64|16",
            "Bytes of an index slot: 64 holds small items inline, 16 always points to an entry",
        )
    },
    Setting {
        set: |c, v| one(v, |text| text.parse().map(|updates| c.index_updates = updates)),
        show: |c| json!(c.index_updates.name()),
        ..server(
            "index_updates",
            "in-place|out-of-place",
            "How the index replaces a record: in its slot, or in a free slot and by one store, in the order \
             that persistent memory wants; of a server alone, without --ordered. With --data and durability \
             pmem the server then serves from that memory itself, and a restart builds no index",
        )
    },
    Setting {
        set: |c, v| one(v, |text| text.parse().map(|pages| c.hugepages = pages)),
        show: |c| json!(c.hugepages.name()),
        ..server(
            "hugepages",
            "auto|on|off",
            "2 MiB pages from the reserved pool: use if there, insist, or never",
        )
    },
    Setting {
        set: |c, v| one(v, |text| text.parse().map(|eviction| c.eviction = eviction)),
        show: |c| json!(c.eviction.name()),
        ..server("eviction", "none|lru", "What a full memory does to a write: refuse it, or evict old items")
    },
    Setting {
        set: |c, v| one(v, |text| text.parse().map(|standby| c.standby = standby)),
        show: |c| json!(c.standby.name()),
        ..server(
            "standby_index",
            "idle|always",
            "Of a cluster: followers keep the index to lead with up to date while a core is idle, or \
             always: short failovers, and slower writes where all cores are busy",
        )
    },
    Setting {
        set: |c, v| {
            one(v, |text| text.parse().map(|ordered| c.ordered = ordered).map_err(|_| yes_or_no(text)))
        },
        show: |c| json!(c.ordered),
        ..server(
            "ordered",
            YES_OR_NO,
            "Keep an ordered index, which answers scans; in a group followers keep it",
        )
    },
    Setting {
        set: |c, v| one(v, |text| number(text).map(|n| c.max_clients = n)),
        show: |c| json!(c.max_clients),
        ..server("max_clients", "N", "Clients connected at once; more are refused with a reason")
    },
    Setting {
        set: |c, v| one(v, |text| parse_size(text).map(|bytes| c.ring_bytes = bytes)),
        show: |c| json!(show_size(c.ring_bytes)),
        ..server("ring_bytes", "SIZE", "Size of each client's request ring; a power of two")
    },
    Setting {
        set: |c, v| one(v, |text| number(text).map(|n| c.spin_us = n)),
        show: |c| json!(c.spin_us),
        ..server("spin_us", "MICROSECONDS", "The longest time that an idle thread polls before it sleeps")
    },
    Setting {
        set: |c, v| one(v, |text| path(text).map(|p| c.data = p)),
        show: |c| show_path(&c.data),
        ..server(
            "data",
            "DIR",
            "Keep the data in this directory, and go on from it when started anew; of a cluster's node: \
             what its replicas promised, and their data if the cluster keeps it; by default FILE.node-N \
             beside the cluster's file",
        )
    },
    Setting {
        set: |c, v| one(v, |text| path(text).map(|p| c.vault_dir = p)),
        show: |c| show_path(&c.vault_dir),
        ..server(
            "vault_dir",
            "DIR",
            "Keep what a server or its replicas promise in this directory, on another disk than the data: \
             a change of the leader waits for promises, and a busy disk lets them wait",
        )
    },
    Setting {
        set: |c, v| one(v, |text| text.parse().map(|durability| c.durability = durability)),
        show: |c| json!(c.durability.name()),
        ..server(
            "durability",
            "async|sync|pmem",
            "With --data: acknowledge a write when it is in memory, on disk, or in persistent memory",
        )
    },
    Setting {
        set: |c, v| one(v, |text| text.parse().map(|pmem| c.pmem = pmem)),
        show: |c| json!(c.pmem.name()),
        ..server(
            "pmem",
            "dax|file",
            "With durability pmem: keep the data on a file system mounted with dax; or let ordinary files \
             stand for that, to try it: they outlive the server's process and no loss of power",
        )
    },
    Setting {
        set: |c, v| one(v, |text| parse_duration(text).map(|d| c.loss_window = d)),
        show: |c| json!(show_duration(c.loss_window)),
        ..server(
            "loss_window",
            "DURATION",
            "With --data and async: a loss of power loses the writes of this time at most; while the disk \
             is further behind, no write is taken",
        )
    },
    Setting {
        set: |c, v| one(v, |text| parse_size(text).map(|bytes| c.scrub_rate = bytes)),
        show: |c| json!(show_size(c.scrub_rate)),
        ..server(
            "scrub_rate",
            "SIZE",
            "With --data: read back so many bytes a second of what is kept, a pass an hour at most, and \
             write again what the disk has lost; 0: never",
        )
    },
    Setting {
        set: |c, v| one(v, |text| path(text).map(|p| c.secret_file = p)),
        show: |c| show_path(&c.secret_file),
        ..all(
            "secret_file",
            "FILE",
            "File with the shared secret both sides must prove before any memory is lent",
        )
    },
    Setting {
        set: |c, v| one(v, |text| path(text).map(|p| c.peer_secret_file = p)),
        show: |c| show_path(&c.peer_secret_file),
        ..all(
            "peer_secret_file",
            "FILE",
            "Of a cluster: file with the secret of its nodes and operators, which clients do not have",
        )
    },
    Setting {
        set: |c, v| one(v, |text| path(text).map(|p| c.tls.cert = p)),
        show: |c| show_path(&c.tls.cert),
        ..all("tls.cert", "FILE", "PEM certificate chain of this side; on a server it turns TLS on for tcp")
    },
    Setting {
        set: |c, v| one(v, |text| path(text).map(|p| c.tls.key = p)),
        show: |c| show_path(&c.tls.key),
        ..all("tls.key", "FILE", "PEM private key of this side's certificate")
    },
    Setting {
        set: |c, v| one(v, |text| path(text).map(|p| c.tls.client_ca = p)),
        show: |c| show_path(&c.tls.client_ca),
        ..server(
            "tls.client_ca",
            "FILE",
            "PEM authorities; clients must show a certificate one of them signed",
        )
    },
    Setting {
        set: |c, v| one(v, |text| path(text).map(|p| c.tls.server_ca = p)),
        show: |c| show_path(&c.tls.server_ca),
        ..all(
            "tls.server_ca",
            "FILE",
            "PEM authorities a client trusts to sign its server; turns TLS on for tcp",
        )
    },
    Setting {
        set: |c, v| one(v, |text| text.parse().map(|device| c.verbs.device = Some(device))),
        show: |c| c.verbs.device.as_ref().map_or(Value::Null, |device| json!(device.to_string())),
        ..all(
            "verbs.device",
            "DEVICE[:PORT[:GID]]",
            "RDMA device for verbs addresses; by default the one that has the address",
        )
    },
    Setting {
        set: |c, v| one(v, |text| number(text).map(|n| c.verbs.timeout = n)),
        show: |c| json!(c.verbs.timeout),
        ..all(
            "verbs.timeout",
            "EXPONENT",
            "The NIC waits 4.096 us times 2 to this power for an acknowledgement (14: 67 ms)",
        )
    },
    Setting {
        set: |c, v| one(v, |text| number(text).map(|n| c.verbs.retries = n)),
        show: |c| json!(c.verbs.retries),
        ..all("verbs.retries", "N", "Tries of the NIC before a peer that does not acknowledge is lost")
    },
    Setting {
        set: |c, v| one(v, |text| number(text).map(|n| c.verbs.receives = n)),
        show: |c| json!(c.verbs.receives),
        ..all("verbs.receives", "N", "Arrivals of one verbs connection that may wait; 4 KiB locked for each")
    },
    Setting {
        set: |c, v| one(v, |text| parse_duration(text).map(|d| c.timeout = d)),
        show: |c| json!(show_duration(c.timeout)),
        ..all("timeout", "DURATION", "Bound on connecting and on each operation of a client")
    },
    Setting {
        set: |c, v| one(v, |text| text.parse().map(|log| c.log = log)),
        show: |c| json!(c.log.name()),
        ..all("log", "error|warn|info|debug", "How much is said on stderr")
    },
];

/// Makes a setting of the fields that every setting states; `set` and `show` always stand beside them.
const fn all(key: &'static str, form: &'static str, help: &'static str) -> Setting {
    Setting { key, form, help, scope: Scope::All, list: false, set: |_, _| Ok(()), show: |_| Value::Null }
}

const fn server(key: &'static str, form: &'static str, help: &'static str) -> Setting {
    Setting { key, form, help, scope: Scope::Server, list: false, set: |_, _| Ok(()), show: |_| Value::Null }
}

fn one(values: &[String], read: impl FnOnce(&str) -> Result<(), String>) -> Result<(), String> {
    match values {
        [value] => read(value),
        _ => Err(format!("has {} values, expected one", values.len())),
    }
}

/// The form of a setting that is on or off.
pub const YES_OR_NO: &str = "true|false";

fn yes_or_no(text: &str) -> String {
    format!("{text:?} is not one of true, false")
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a whole number"))
}

fn path(text: &str) -> Result<Option<PathBuf>, String> {
    if text.is_empty() {
        Err("the path is empty; leave the setting out instead".into())
    } else {
        Ok(Some(text.into()))
    }
}

fn show_path(path: &Option<PathBuf>) -> Value {
    path.as_ref().map_or(Value::Null, |path| json!(path.display().to_string()))
}

/// Implements a type whose values are a few words.
macro_rules! choice {
    ($type:ident, $($word:literal => $variant:ident),+) => {
        impl $type {
            /// The word for it in the configuration.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $word),+ }
            }
        }
        impl FromStr for $type {
            type Err = String;
            fn from_str(text: &str) -> Result<$type, String> {
                match text {
                    $($word => Ok($type::$variant),)+
                    _ => Err(format!("{text:?} is not one of {}", [$($word),+].join(", "))),
                }
            }
        }
    };
}

choice!(HugePages, "auto" => Auto, "on" => On, "off" => Off);
choice!(Eviction, "none" => None, "lru" => Lru);
choice!(Log, "error" => Error, "warn" => Warn, "info" => Info, "debug" => Debug);
choice!(Durability, "async" => Async, "sync" => Sync, "pmem" => Pmem);
choice!(Pmem, "dax" => Dax, "file" => File);
choice!(Standby, "idle" => Idle, "always" => Always);
choice!(Slot, "64" => Inline64, "16" => Pointer16);
choice!(Updates, "in-place" => InPlace, "out-of-place" => OutOfPlace);
