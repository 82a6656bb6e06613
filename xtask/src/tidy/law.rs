//! The law of dependencies, read from the manifests: base < memory < store, index, disk, fabric; wire, host,
//! workload and history over base; engine, ordered < group < server, the engine without the fabric; ibverbs
//! under fabric and bench; the client uses readers alone; only the program depends on bench, only chaos on
//! the program and, with the simulator, on history, and nothing on those two; only transports know TLS.

use super::finding::Finding;
use super::source::code_only;
use super::tree::{File, Tree};

/// Who may depend on whom (`[dependencies]`, and for building), in groups. A crate that is not listed is an
/// error: say where it stands. Tests may use any crate that does not stand above the tested one.
const LAW: &[(&str, &[&[&str]])] = &[
    ("longarm-base", &[]),
    ("longarm-history", &[BASE]),
    ("longarm-host", &[BASE]),
    ("longarm-memory", &[BASE]),
    ("longarm-wire", &[BASE]),
    ("longarm-workload", &[BASE]),
    ("longarm-replica", &[BASE, &["longarm-wire"]]),
    ("longarm-store", &[BASE, &["longarm-memory"]]),
    ("longarm-disk", &[BASE, &["longarm-host", "longarm-memory"]]),
    ("longarm-index", &[BASE, &["longarm-host", "longarm-memory"]]),
    ("longarm-ibverbs", &[]),
    ("longarm-fabric", &[BASE, &["longarm-host", "longarm-memory", "longarm-ibverbs"]]),
    ("longarm-cluster", &[BASE, &["longarm-fabric", "longarm-replica"]]),
    ("longarm-client", &[BASE, PARTS, &["longarm-cluster"]]),
    ("longarm-engine", &[BASE, ENGINE]),
    ("longarm-group", &[BASE, PARTS, REPLICA]),
    ("longarm-backup", &[BASE, PARTS, &["longarm-client", "longarm-disk", "longarm-group"]]),
    ("longarm-ordered", &[BASE, PARTS, &["longarm-replica"]]),
    ("longarm-server", &[BASE, PARTS, REPLICA, &["longarm-group"]]),
    ("longarm-bench", &[BASE, PARTS, ENDS, LOAD]),
    ("longarm-sim", &[BASE, PARTS, ENDS, LOAD, &["longarm-backup", "longarm-disk", "longarm-history"]]),
    ("longarm", &[BASE, PARTS, ENDS, LOAD, &["longarm-backup", "longarm-bench", "longarm-cluster"]]),
    (
        "longarm-chaos",
        &[
            BASE,
            ENDS,
            LOAD,
            &["longarm", "longarm-bench", "longarm-fabric", "longarm-history", "longarm-host"],
        ],
    ),
    ("xtask", &[]),
];
const BASE: &[&str] = &["longarm-base"];
/// What both ends are made of.
const PARTS: &[&str] =
    &["longarm-host", "longarm-memory", "longarm-wire", "longarm-store", "longarm-index", "longarm-fabric"];
/// What executes requests: no fabric, no queue pair.
const ENGINE: &[&str] = &["longarm-host", "longarm-memory", "longarm-wire", "longarm-store", "longarm-index"];
/// What a replica is made of.
const REPLICA: &[&str] = &["longarm-disk", "longarm-engine", "longarm-ordered", "longarm-replica"];
const ENDS: &[&str] = &["longarm-client", "longarm-server"];
/// What whoever loads a store shares.
const LOAD: &[&str] = &["longarm-workload"];
/// On these nobody depends whom the law does not name, not even in tests.
const TOPS: [&str; 3] = ["longarm", "longarm-sim", "longarm-chaos"];
/// Crates that one crate alone may link.
const ONLY: &[(&str, &str)] = &[("rustls", "longarm-fabric"), ("longarm-ibverbs", "longarm-fabric")];
/// Folders whose packages may use the product, and which nothing uses.
const LEAVES: [&str; 2] = ["lab/", "fuzz/"];
/// `client` never changes a structure, the server's crates never search one from outside.
const MODULES: [(&str, &str); 4] =
    [("client", "owner::"), ("engine", "reader::"), ("group", "reader::"), ("server", "reader::")];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        manifest(file, &mut findings);
    }
    for file in tree.product() {
        let code = code_only(&file.text);
        for (name, module) in MODULES.iter().filter(|(name, _)| file.crate_name() == *name) {
            for (i, _) in code.lines().enumerate().filter(|(_, line)| line.contains(module)) {
                findings.push(Finding::new(&file.path, i + 1, format!("{name} may not use `{module}`")));
            }
        }
    }
    findings
}

fn manifest(file: &File, findings: &mut Vec<Finding>) {
    let table: toml::Table = match file.text.parse() {
        Ok(table) => table,
        Err(error) => return findings.push(Finding::new(&file.path, 1, format!("is no TOML: {error}"))),
    };
    let package = table.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
    let Some(package) = package else { return };
    if LEAVES.iter().any(|leaf| file.path.starts_with(leaf)) {
        return;
    }
    let allowed = LAW.iter().find(|(name, _)| *name == package).map(|(_, allowed)| *allowed);
    let Some(allowed) = allowed else {
        let text = format!("{package} has no place in the law of dependencies (xtask/src/tidy/law.rs)");
        return findings.push(Finding::new(&file.path, 1, text));
    };
    for (dependency, is_test) in dependencies(&table) {
        let ours = dependency == "longarm" || dependency.starts_with("longarm-");
        let below =
            |upper: &str, lower: &str| LAW.iter().any(|(name, list)| *name == upper && has(list, lower));
        let is_top = TOPS.contains(&dependency.as_str());
        let legal = has(allowed, &dependency) || (is_test && !is_top && !below(&dependency, package));
        if ours && !legal {
            findings.push(Finding::new(&file.path, 1, format!("{package} may not depend on {dependency}")));
        }
        for (external, owner) in ONLY.iter().filter(|(external, _)| *external == dependency) {
            if *owner != package {
                findings.push(Finding::new(&file.path, 1, format!("only {owner} may depend on {external}")));
            }
        }
    }
}

fn has(groups: &[&[&str]], name: &str) -> bool {
    groups.iter().any(|group| group.contains(&name))
}

/// Names, and whether only tests use them; also those of one target.
fn dependencies(table: &toml::Table) -> Vec<(String, bool)> {
    let targets =
        table.get("target").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::values);
    let tables = std::iter::once(table).chain(targets.filter_map(toml::Value::as_table));
    let mut names = Vec::new();
    for table in tables {
        for (section, is_test) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            let section = table.get(section).and_then(toml::Value::as_table).into_iter().flatten();
            for (name, how) in section {
                // A renamed dependency is known by its package.
                let package = how.get("package").and_then(toml::Value::as_str).unwrap_or(name);
                names.push((package.to_string(), is_test));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(package: &str, rest: &str) -> Vec<String> {
        let text = format!("[package]\nname = \"{package}\"\n{rest}");
        check(&Tree::of(&[("crates/x/Cargo.toml", &text)])).into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn lawful_manifests_pass() {
        assert_eq!(texts("longarm-memory", "[dependencies]\nlongarm-base = {}\nlibc = \"0.2\"\n"), [""; 0]);
        assert_eq!(texts("longarm-fabric", "[dependencies]\nrustls = \"0.23\"\n"), [""; 0]);
        assert_eq!(texts("longarm-client", "[dev-dependencies]\nlongarm-server = {}\n"), [""; 0]);
    }

    #[test]
    fn each_breach_is_found() {
        for (package, rest, text) in [
            (
                "longarm-base",
                "[dependencies]\nlongarm-memory = {}\n",
                "longarm-base may not depend on longarm-memory",
            ),
            (
                "longarm-wire",
                "[dependencies]\nlongarm-fabric = {}\n",
                "longarm-wire may not depend on longarm-fabric",
            ),
            (
                "longarm-store",
                "[dependencies]\nlongarm-index = {}\n",
                "longarm-store may not depend on longarm-index",
            ),
            ("longarm-client", "[dependencies]\nlongarm-server = {}\n", "may not depend on longarm-server"),
            (
                "longarm-server",
                "[build-dependencies]\nlongarm-bench = {}\n",
                "may not depend on longarm-bench",
            ),
            ("longarm-bench", "[dependencies]\nlongarm = {}\n", "longarm-bench may not depend on longarm"),
            (
                "longarm-bench",
                "[dev-dependencies]\nlongarm = {}\n",
                "longarm-bench may not depend on longarm",
            ),
            ("longarm", "[dependencies]\nlongarm-sim = {}\n", "longarm may not depend on longarm-sim"),
            (
                "longarm",
                "[dependencies]\nlongarm-history = {}\n",
                "longarm may not depend on longarm-history",
            ),
            ("longarm", "[dependencies]\nlongarm-chaos = {}\n", "longarm may not depend on longarm-chaos"),
            ("longarm-sim", "[dev-dependencies]\nlongarm-chaos = {}\n", "may not depend on longarm-chaos"),
            ("longarm-bench", "[dev-dependencies]\nlongarm-sim = {}\n", "may not depend on longarm-sim"),
            ("longarm-memory", "[dev-dependencies]\nlongarm-store = {}\n", "may not depend on longarm-store"),
            (
                "longarm-client",
                "[dependencies]\nrustls = \"0\"\n",
                "only longarm-fabric may depend on rustls",
            ),
            ("longarm-client", "[dependencies]\ntls = { package = \"rustls\" }\n", "only longarm-fabric may"),
            (
                "longarm-base",
                "[target.'cfg(unix)'.dependencies]\nlongarm-wire = {}\n",
                "may not depend on longarm-wire",
            ),
            ("longarm-new", "", "longarm-new has no place in the law"),
        ] {
            let found = texts(package, rest);
            assert!(found.len() == 1 && found[0].contains(text), "{package} {rest}: {found:?}");
        }
    }

    #[test]
    fn client_and_server_keep_to_their_side_of_a_structure() {
        let count = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
        assert_eq!(count("crates/client/src/get.rs", "use longarm_index::hash::owner::Owner;"), 1);
        assert_eq!(
            count("crates/client/src/get.rs", "use longarm_index::hash::reader::Search; // owner::"),
            0
        );
        assert_eq!(count("crates/engine/src/get.rs", "use longarm_index::hash::reader::Search;"), 1);
    }

    #[test]
    fn leaves_may_use_anything() {
        let text = "[package]\nname = \"longarm-lab\"\n[dependencies]\nlongarm-server = {}\n";
        assert_eq!(check(&Tree::of(&[("lab/x/Cargo.toml", text)])), []);
    }
}
