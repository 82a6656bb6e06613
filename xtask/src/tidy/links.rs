//! Relative links in Markdown lead somewhere.

use super::finding::Finding;
use super::tree::Tree;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let dir = file.path.rsplit_once('/').map_or("", |(dir, _)| dir);
        for (i, line) in file.text.lines().enumerate() {
            for target in targets(line) {
                let path = target.split('#').next().unwrap_or("");
                let outside = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
                if !outside && !resolve(dir, path).is_some_and(|path| tree.has(&path)) {
                    findings.push(Finding::new(
                        &file.path,
                        i + 1,
                        format!("the link to {target} leads nowhere"),
                    ));
                }
            }
        }
    }
    findings
}

/// What `](...)` names on this line.
fn targets(line: &str) -> Vec<&str> {
    let ends = line.match_indices("](").map(|(at, _)| &line[at + 2..]);
    ends.filter_map(|rest| rest.split_once(')').map(|(target, _)| target)).collect()
}

/// The path from the workspace; nothing if it leaves it.
fn resolve(dir: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[test]
fn a_link_to_nowhere_is_found_and_others_are_not() {
    let count =
        |text: &str| check(&Tree::of(&[("docs/a.md", text), ("README.md", ""), ("docs/b/c.md", "")])).len();
    assert_eq!(count("[x](gone.md)"), 1);
    assert_eq!(count("[x](../../README.md)"), 1, "outside the workspace");
    assert_eq!(count("[x](../README.md#top) [y](b/c.md) [z](b) [w](#here) [v](https://docs.rs/x)"), 0);
}
