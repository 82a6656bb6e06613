//! Settings in layers: defaults < TOML file < `LONGARM_*` environment < flags. Each value remembers where it
//! came from.
//!
//! [`settings`] is the table of all settings, [`mod@file`], [`mod@env`] and [`flags`] read theirs into
//! [`Given`] values, [`load`] puts the layers together, and [`check`] judges the whole.

pub mod check;
pub mod env;
pub mod file;
pub mod flags;
pub mod nearest;
pub mod settings;
mod values;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use serde_json::{Value, json};

pub use longarm_cluster::units;

use settings::{SETTINGS, Setting};
pub use values::{
    Config, Durability, Eviction, Given, Host, HugePages, Log, Origin, Pmem, Rdma, Slot, Standby, Tls,
    Updates,
};

impl Config {
    /// All settings as a TOML document that loads to the same values; comments say where each came from.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for setting in SETTINGS {
            let origin = self.origin(setting.key);
            match (setting.show)(self) {
                Value::Null => text.push_str(&format!("# {} is not set # {origin}\n", setting.key)),
                // A JSON string, number, boolean or list of strings is a TOML value as it stands.
                value => text.push_str(&format!("{} = {value} # {origin}\n", setting.key)),
            }
        }
        text
    }

    /// All settings for a script: `{"memory": {"value": "1GiB", "from": "default"}, ...}`.
    pub fn to_json(&self) -> Value {
        let show = |setting: &Setting| {
            let from = self.origin(setting.key).to_string();
            (setting.key.to_string(), json!({ "value": (setting.show)(self), "from": from }))
        };
        Value::Object(SETTINGS.iter().map(show).collect())
    }
}

/// Puts layers over the defaults; a later layer goes over an earlier one. Reports all faults, not only the
/// first.
pub fn load(host: &Host, layers: impl IntoIterator<Item = Given>) -> Result<Config, Vec<String>> {
    let mut config = Config::defaults(host);
    let mut faults = Vec::new();
    for given in layers {
        let setting = Setting::find(given.key).expect("layers name settings of the table");
        let done = if given.values.is_empty() {
            Err("has no value".to_string())
        } else {
            (setting.set)(&mut config, &given.values)
        };
        match done {
            Ok(()) => {
                config.origins.insert(setting.key, given.origin);
            }
            Err(fault) => faults.push(format!("{} ({}): {fault}", given.key, given.origin)),
        }
    }
    faults.extend(choose_place(&mut config, host).err());
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}

/// Chooses between an address and a cluster, which both name the store: the setting of the later layer holds.
fn choose_place(config: &mut Config, host: &Host) -> Result<(), String> {
    let (address, cluster) = (config.origin("address"), config.origin("cluster"));
    if config.cluster.is_none() || address == Origin::Default {
        return Ok(());
    }
    match address.layer().cmp(&cluster.layer()) {
        Ordering::Greater => {
            config.cluster = None;
            config.origins.remove("cluster");
        }
        Ordering::Less => {
            config.address = Config::defaults(host).address;
            config.origins.remove("address");
        }
        Ordering::Equal => {
            return Err(format!(
                "address ({address}) and cluster ({cluster}) are both given: name one; the members of a \
                 group have their addresses from its file"
            ));
        }
    }
    Ok(())
}
