//! Every source file says at its head what it is for. Files of tests are named after what they test.

use super::finding::Finding;
use super::tree::Tree;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let bare = tree.rust().filter(|file| {
        let tests = file.path.ends_with("tests.rs") || file.path.contains("/tests/");
        let said = file
            .text
            .lines()
            .next()
            .is_some_and(|line| line.len() > "//! ".len() && line.starts_with("//! "));
        !tests && !said
    });
    bare.map(|file| {
        Finding::new(&file.path, 1, "starts without a `//!` comment that says what the file is for")
    })
    .collect()
}

#[test]
fn a_bare_file_is_found_and_others_are_not() {
    let tree = Tree::of(&[
        ("crates/a/src/bare.rs", "use x;\n"),
        ("crates/a/src/empty.rs", "//! \n"),
        ("crates/a/src/good.rs", "//! Says why.\n"),
        ("crates/a/src/tests.rs", "use x;\n"),
    ]);
    let paths: Vec<String> = check(&tree).into_iter().map(|found| found.path).collect();
    assert_eq!(paths, ["crates/a/src/bare.rs", "crates/a/src/empty.rs"]);
}
