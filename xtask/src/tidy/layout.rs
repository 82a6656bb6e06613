//! docs/layout.md draws the bytes of every `layout.rs`. Each section carries the hash of its file, so that
//! neither changes without the other: revise the drawing, then run `cargo x layout --accept`.

use std::path::Path;

use super::finding::Finding;
use super::tree::Tree;

const PAGE: &str = "docs/layout.md";
const OPEN: &str = "<!-- layout: ";

/// One mark in the page: `<!-- layout: crates/x/src/layout.rs sha: 0123456789ab -->`.
fn mark(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix(OPEN)?.strip_suffix(" -->")?.split_once(" sha: ")
}

pub fn check(tree: &Tree) -> Vec<Finding> {
    let page = tree.find(PAGE).map_or("", |file| &file.text);
    let marks: Vec<(usize, &str, &str)> = page
        .lines()
        .enumerate()
        .filter_map(|(i, line)| mark(line).map(|(path, hash)| (i + 1, path, hash)))
        .collect();
    let mut findings = Vec::new();
    for (line, path, noted) in &marks {
        match tree.find(path) {
            None => findings.push(Finding::new(PAGE, *line, format!("{path} does not exist"))),
            Some(file) if hash(file.text.as_bytes()) != *noted => findings.push(Finding::new(
                PAGE,
                *line,
                format!("{path} changed: revise this drawing, then run `cargo x layout --accept`"),
            )),
            Some(_) => {}
        }
    }
    for file in tree.product().filter(|file| file.path.ends_with("/layout.rs")) {
        if !marks.iter().any(|(_, path, _)| *path == file.path) {
            findings.push(Finding::new(
                &file.path,
                1,
                format!("has no drawing: add a section to {PAGE} with a mark"),
            ));
        }
    }
    findings
}

/// Rewrites the hashes in the page.
pub fn accept(root: &Path) -> Result<bool, String> {
    let tree = Tree::read(root)?;
    let page = tree.find(PAGE).ok_or_else(|| format!("there is no {PAGE}"))?;
    let text = accepted(&tree, &page.text)?;
    std::fs::write(root.join(PAGE), text).map_err(|error| format!("{PAGE}: {error}"))?;
    Ok(true)
}

fn accepted(tree: &Tree, page: &str) -> Result<String, String> {
    let mut text = String::new();
    for line in page.lines() {
        match mark(line) {
            Some((path, _)) => {
                let file =
                    tree.find(path).ok_or_else(|| format!("{PAGE} draws {path}, which does not exist"))?;
                text.push_str(&format!("{OPEN}{path} sha: {} -->\n", hash(file.text.as_bytes())));
            }
            None => text.push_str(&format!("{line}\n")),
        }
    }
    Ok(text)
}

/// FNV-1a, 48 bits of it: it guards against forgetting, not against forging.
fn hash(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{:012x}", hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "crates/a/src/layout.rs";

    fn page(path: &str, hash: &str) -> String {
        format!("# A\n\n{OPEN}{path} sha: {hash} -->\n| 0 | word |\n")
    }

    #[test]
    fn a_changed_layout_a_lost_one_and_an_undrawn_one_are_found() {
        let good = page(SOURCE, &hash(b"bytes"));
        let count = |page: &str, text: &str| check(&Tree::of(&[(PAGE, page), (SOURCE, text)])).len();
        assert_eq!(count(&good, "bytes"), 0);
        assert_eq!(count(&good, "other bytes"), 1);
        assert_eq!(count("# Nothing\n", "bytes"), 1);
        assert_eq!(count(&format!("{good}{}", page("crates/gone/src/layout.rs", "0")), "bytes"), 1);
    }

    #[test]
    fn accepting_notes_the_present_bytes_and_changes_nothing_else() {
        let old = page(SOURCE, "000000000000");
        let tree = Tree::of(&[(PAGE, &old), (SOURCE, "bytes")]);
        let new = accepted(&tree, &old).expect("the file exists");
        assert_eq!(new, page(SOURCE, &hash(b"bytes")));
        assert!(accepted(&Tree::of(&[]), &old).is_err());
    }
}
