//! The house rules: each is a small module with a function from the tree of files to findings, and a test
//! that it can fail. The whole is an ordinary test and `cargo x tidy`.

mod circles;
mod claims;
mod finding;
mod heads;
mod items;
mod labels;
mod law;
pub mod layout;
mod length;
mod links;
mod ordering;
mod parameters;
mod paths;
mod places;
mod source;
mod tree;
mod words;

use std::path::Path;

use finding::Finding;
use tree::Tree;

/// Every rule.
const RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    circles::check,
    claims::check,
    heads::check,
    labels::check,
    law::check,
    layout::check,
    length::check,
    links::check,
    ordering::check,
    parameters::check,
    paths::check,
    places::check,
    words::check,
];

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings
}

/// Checks the workspace and prints what it finds; `Ok(true)` if that is nothing.
pub fn run(root: &Path) -> Result<bool, String> {
    let tree = Tree::read(root)?;
    let findings = check(&tree);
    for Finding { path, line, text } in &findings {
        println!("{path}:{line}: {text}");
    }
    println!("tidy: {} files, {} findings", tree.files.len(), findings.len());
    Ok(findings.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let tree = Tree::read(&crate::root()).expect("the workspace is readable");
        assert!(tree.files.len() > 20, "the walk found the sources");
        let findings = check(&tree);
        let lines: Vec<String> =
            findings.iter().map(|found| format!("{}:{}: {}", found.path, found.line, found.text)).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }
}
