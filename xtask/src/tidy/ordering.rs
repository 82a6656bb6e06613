//! Every atomic ordering says with whom it pairs, or why it needs nobody: on its line, or within the three
//! before it.

use super::finding::Finding;
use super::source::code_only;
use super::tree::Tree;

const NAMES: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
const ABOVE: usize = 3;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.product() {
        let code = code_only(&file.text);
        let lines: Vec<&str> = file.text.lines().collect();
        for (i, line) in code.lines().enumerate() {
            let used = NAMES.iter().find(|name| line.contains(&format!("Ordering::{name}")));
            let near = &lines[i.saturating_sub(ABOVE)..=i];
            if let Some(name) = used
                && !near.iter().any(|line| explains(line))
            {
                let text = format!(
                    "Ordering::{name} without a comment that names its partner (\"pairs with ...\") or reason"
                );
                findings.push(Finding::new(&file.path, i + 1, text));
            }
        }
    }
    findings
}

fn explains(line: &str) -> bool {
    let Some((_, comment)) = line.split_once("//") else { return false };
    comment.contains("pairs with") || NAMES.iter().any(|name| comment.contains(&format!("{name}:")))
}

#[test]
fn an_unexplained_ordering_is_found_and_an_explained_one_is_not() {
    let count = |text: &str| check(&Tree::of(&[("crates/a/src/a.rs", text)])).len();
    assert_eq!(count("a.load(Ordering::Acquire);"), 1);
    assert_eq!(count("// Nice.\na.load(Ordering::Relaxed);"), 1);
    assert_eq!(count("// Acquire: pairs with b.rs.\n\n\n\na.load(Ordering::Acquire);"), 1, "too far away");
    assert_eq!(count("// Sees what b stored; pairs with its Release.\na.load(Ordering::Acquire);"), 0);
    assert_eq!(count("a.load(Ordering::Relaxed); // Relaxed: a counter."), 0);
    assert_eq!(count("a.cmp(b) == Ordering::Less"), 0, "another Ordering");
    assert_eq!(count("let a = \"Ordering::Acquire\";"), 0);
}
