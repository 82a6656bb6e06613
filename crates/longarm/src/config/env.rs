//! The environment layer: turns `LONGARM_*` variables into [`Given`] values.

use super::nearest::nearest;
use super::settings::{SETTINGS, retired};
use super::{Given, Origin};

/// The variable that names the configuration file.
pub const CONFIG: &str = "LONGARM_CONFIG";

/// Reads the settings that the variables state, and warns about names that look like a mistyped setting.
/// Other names with the prefix are left alone: a container platform injects `LONGARM_PORT` and the like for a
/// service of that name.
pub fn parse(variables: impl IntoIterator<Item = (String, String)>) -> (Vec<Given>, Vec<String>) {
    let names: Vec<String> = SETTINGS.iter().map(|setting| setting.env()).collect();
    let mut given = Vec::new();
    let mut warnings = Vec::new();
    for (name, value) in variables {
        if !name.starts_with("LONGARM_") || name == CONFIG {
            continue;
        }
        match names.iter().position(|known| *known == name) {
            Some(i) => {
                let setting = &SETTINGS[i];
                let values = if setting.list {
                    value
                        .split(',')
                        .map(|part| part.trim().to_string())
                        .filter(|part| !part.is_empty())
                        .collect()
                } else {
                    vec![value]
                };
                given.push(Given { key: setting.key, values, origin: Origin::Env(name) });
            }
            None if name == "LONGARM_ARENA_DIR" => {
                let advice = retired("arena_dir").expect("it was a setting");
                warnings.push(format!("environment {name} is ignored; {advice}"));
            }
            None => {
                // All names have the same prefix, so only the rest is compared.
                let rests = names.iter().map(|known| &known["LONGARM_".len()..]);
                if let Some(known) = nearest(&name["LONGARM_".len()..], rests) {
                    warnings.push(format!("environment {name} is ignored; did you mean LONGARM_{known}?"));
                }
            }
        }
    }
    given.sort_by_key(|one| SETTINGS.iter().position(|setting| setting.key == one.key));
    (given, warnings)
}
