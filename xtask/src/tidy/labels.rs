//! Labels (`L1`, `M9`, `I13`) stand in `docs/mechanisms.md`, and what that page names exists. So do decisions
//! and pages that any text names.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::tree::Tree;

/// The page that says what each label means.
const PAGE: &str = "docs/mechanisms.md";
/// Where labels are looked for.
const KINDS: [&str; 4] = [".rs", ".md", ".tla", ".cfg"];
/// Digits of a label, at most.
const DIGITS: usize = 2;
/// Names of pages that this project does not have; put together here, so that this file does not find itself.
const ABSENT: [&str; 2] = [concat!("VERI", "FY"), concat!("DESI", "GN")];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let defined: BTreeSet<&str> = page(tree).lines().filter_map(defined).collect();
    for file in tree.files.iter().filter(|file| KINDS.iter().any(|kind| file.path.ends_with(kind))) {
        for (i, line) in file.text.lines().enumerate() {
            let mut found = |text: String| findings.push(Finding::new(&file.path, i + 1, text));
            for label in words(line).filter(|word| is_label(word)) {
                if !defined.contains(label) {
                    found(format!("{label} is no label of {PAGE}: say it in words, or define it there"));
                }
            }
            for name in words(line).filter(|word| ABSENT.contains(word)) {
                found(format!("{name} is no page of this project"));
            }
            for number in decisions(line).filter(|number| !has_decision(tree, *number)) {
                found(format!("there is no decision {number} in docs/decisions"));
            }
            for name in pages(line).filter(|name| !has_page(tree, &file.path, name)) {
                found(format!("{name} is no page of this project"));
            }
        }
    }
    findings.extend(claims(tree));
    findings
}

/// What the page names as showing that a rule is kept: tests, mutants of the code, those of specifications.
fn claims(tree: &Tree) -> Vec<Finding> {
    let mutants = tree.find("crates/base/src/mutant.rs").map_or("", |file| &file.text);
    let mut findings = Vec::new();
    // The columns of invariants name judges.
    let rules = page(tree)
        .lines()
        .enumerate()
        .filter(|(_, line)| defined(line).is_some_and(|of| !of.starts_with('I')));
    for (i, line) in rules {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let shown = cells.get(4).copied().unwrap_or("");
        let tests = shown.split('`').skip(1).step_by(2).filter(|name| !name.contains('/'));
        for test in tests.filter(|test| !has_test(tree, test)) {
            findings.push(Finding::new(PAGE, i + 1, format!("there is no test {test}")));
        }
        for name in shown.split(", ").filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())) {
            let known = match name.split_once(": ") {
                Some((of, mutant)) => tree.has(&format!("docs/spec/{of}.mutant-{mutant}.cfg")),
                None => mutants.lines().any(|line| line.trim() == format!("{name},")),
            };
            if !known {
                findings.push(Finding::new(PAGE, i + 1, format!("there is no mutant {name}")));
            }
        }
    }
    findings
}

/// What the page says; without it no label has a meaning.
fn page(tree: &Tree) -> &str {
    tree.find(PAGE).map_or("", |page| &page.text)
}

fn has_test(tree: &Tree, name: &str) -> bool {
    let head = format!("fn {name}(");
    tree.rust().any(|file| file.text.contains(&head))
}

/// The label that a row of the page defines.
fn defined(line: &str) -> Option<&str> {
    let label = line.strip_prefix("| ")?.split(' ').next()?;
    is_label(label).then_some(label)
}

/// Runs of letters, digits, `_` and `::`: a version in the name of a Rust item is no label.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .map(|word| word.strip_suffix(':').unwrap_or(word))
}

fn is_label(word: &str) -> bool {
    let digits = word.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or("");
    (1..=DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Numbers of decisions that a line names: `decision 16`.
fn decisions(line: &str) -> impl Iterator<Item = u32> {
    let after = line.match_indices("decision ").map(|(at, word)| &line[at + word.len()..]);
    after.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
}

fn has_decision(tree: &Tree, number: u32) -> bool {
    let start = format!("docs/decisions/{number:04}-");
    tree.files.iter().any(|file| file.path.starts_with(&start))
}

/// Names of Markdown files that a line names.
fn pages(line: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "_-./*{}<>".contains(c));
    let words = line.split(ends).map(|word| word.trim_end_matches('.'));
    words.filter(|word| word.strip_suffix(".md").is_some_and(|stem| !stem.is_empty()))
}

/// Whether it is a file from the workspace's folder, from that of the file that names it, or anywhere.
fn has_page(tree: &Tree, of: &str, name: &str) -> bool {
    let name = name.trim_start_matches(['.', '/']);
    let dir = of.rsplit_once('/').map_or("", |(dir, _)| dir);
    let invented = name.contains(['*', '{', '<']) || of.starts_with("xtask/src/tidy/");
    let end = format!("/{name}");
    invented
        || tree.has(name)
        || tree.has(&format!("{dir}/{name}"))
        || tree.files.iter().any(|file| file.path.ends_with(&end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "| L1 | says | `crates/a.rs` | NoFence, Spec: Gone, `it_works` |\n\
                        | I9 | says | `leases.rs` | clients are done | twin |\n";

    fn texts(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (PAGE, ROWS),
            (path, text),
            ("crates/base/src/mutant.rs", "    NoFence,\n"),
            ("docs/spec/Spec.mutant-Gone.cfg", ""),
            ("crates/b.rs", "fn it_works() {}"),
            ("docs/decisions/0016-x.md", ""),
        ]);
        check(&tree).into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn a_label_that_nobody_defines_is_found() {
        assert_eq!(texts("a.rs", "// (L1, I9): V4x, IpAddr::V4, L123, aL2"), [""; 0]);
        assert_eq!(texts("a.rs", "// (L2)").len(), 1);
        assert_eq!(texts("a.tla", "\\* I10: what").len(), 1);
        assert_eq!(texts("Cargo.lock", "L2"), [""; 0]);
        assert_eq!(check(&Tree::of(&[("a.rs", "// (L1)")])).len(), 1, "the page is gone");
    }

    #[test]
    fn a_page_or_a_decision_that_is_nowhere_is_found() {
        let named = format!("// see {} 5.1", ABSENT[0]);
        assert_eq!(texts("a.rs", &named), [format!("{} is no page of this project", ABSENT[0])]);
        assert_eq!(texts("a.rs", "// decision 16, decisions of others, 0016-x.md, mechanisms.md."), [""; 0]);
        assert_eq!(texts("a.rs", "// decision 17").len(), 1);
        assert_eq!(texts("a.md", "as GONE.md says").len(), 1);
    }

    #[test]
    fn a_test_or_a_mutant_that_is_gone_is_found() {
        let tree = Tree::of(&[(PAGE, ROWS)]);
        let found: Vec<String> = check(&tree).into_iter().map(|found| found.text).collect();
        assert_eq!(
            found,
            ["there is no test it_works", "there is no mutant NoFence", "there is no mutant Spec: Gone"]
        );
    }
}
