//! Documents name files that exist, and functions (`file: function`) that those have.

use super::finding::Finding;
use super::tree::Tree;

/// The pages that guide through the sources.
const PAGES: [&str; 6] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/layout.md",
    "docs/mechanisms.md",
    "docs/paths.md",
    "docs/protocol.md",
];
/// First parts of a path that make a word in backticks one of ours.
const ROOTS: [&str; 7] = ["crates/", "docs/", "xtask/", "fuzz/", "lab/", "scripts/", ".ci/"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pages = tree.files.iter().filter(|file| PAGES.contains(&file.path.as_str()) || is_claims(&file.path));
    for file in pages {
        for (i, line) in file.text.lines().enumerate() {
            for word in named(line) {
                let (path, function) = word.split_once(": ").unwrap_or((word, ""));
                if !exists(tree, path) {
                    findings.push(Finding::new(&file.path, i + 1, format!("{path} does not exist")));
                } else if !function.is_empty() && !has_function(tree, path, function) {
                    findings.push(Finding::new(&file.path, i + 1, format!("{path} has no fn {function}")));
                }
            }
        }
    }
    findings
}

fn is_claims(path: &str) -> bool {
    path.starts_with("docs/papers/") && path.ends_with(".md")
}

/// A star stands for any one name: `crates/*/Cargo.toml`.
fn exists(tree: &Tree, path: &str) -> bool {
    match path.split_once('*') {
        None => tree.has(path),
        Some((before, after)) => tree.files.iter().any(|file| {
            let rest = file.path.strip_prefix(before);
            rest.is_some_and(|rest| {
                after.is_empty() || rest.split_once('/').is_some_and(|(_, rest)| after[1..] == *rest)
            })
        }),
    }
}

fn has_function(tree: &Tree, path: &str, name: &str) -> bool {
    let heads = [format!("fn {name}("), format!("fn {name}<")];
    tree.find(path).is_some_and(|file| heads.iter().any(|head| file.text.contains(head)))
}

/// Words in backticks that look like paths of ours, perhaps with a function.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|word| {
        let path = word.split_once(": ").map_or(*word, |(path, _)| path);
        ROOTS.iter().any(|root| path.starts_with(root)) && !path.contains(['{', ' ', '<'])
    })
}

#[test]
fn a_path_that_is_gone_is_found() {
    let code = "fn get() {}\nfn get_with<R>() {}\nfn getter() {}\n";
    let tree = |text: &str| Tree::of(&[("docs/paths.md", text), ("crates/a/src/get.rs", code)]);
    let count = |text: &str| check(&tree(text)).len();
    assert_eq!(count("then `crates/a/src/put.rs`"), 1);
    assert_eq!(count("then `crates/a/src/get.rs` in `crates/a`, `fn get`, `crates/*/src/get.rs`"), 0);
    assert_eq!(count("`crates/*/src/put.rs`"), 1);
    assert_eq!(count("crates/not/quoted.rs"), 0);
    assert_eq!(count("`crates/a/src/get.rs: get`, `crates/a/src/get.rs: get_with`"), 0);
    assert_eq!(count("`crates/a/src/get.rs: gett`, `crates/a/src/put.rs: get`, `crates/a: get`"), 3);
}
