//! Lengths: a file 600 lines, unless the ratchet lists it, and never over 1,000; a function 70; a line 110.
//! What a program writes may be as long as it likes. `ratchet.txt` beside this file holds `path lines`: such
//! a file may shrink but not grow.

use super::finding::Finding;
use super::source::code_only;
use super::tree::{File, Tree};

const FILE_SOFT: usize = 600;
const FILE_HARD: usize = 1000;
const FUNCTION: usize = 70;
const LINE: usize = 110;
/// Rows of tables and drawings in comments cannot be broken; they may be a little wider.
const DRAWING: usize = 120;

/// Written by programs: nobody reads them from the top.
const GENERATED: [&str; 1] = ["crates/ibverbs/src/bindings.rs"];
const RATCHET: &str = "xtask/src/tidy/ratchet.txt";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let listed = ratchet(tree);
    let mut findings = Vec::new();
    for file in tree.rust() {
        if !GENERATED.contains(&file.path.as_str()) {
            files(file, &listed, &mut findings);
        }
        lines(file, &mut findings);
        functions(file, &mut findings);
    }
    for (path, _) in &listed {
        if tree.find(path).is_none_or(|file| file.text.lines().count() <= FILE_SOFT) {
            findings.push(Finding::new(
                RATCHET,
                1,
                format!("{path} is no longer too long: take it off the list"),
            ));
        }
    }
    findings
}

fn ratchet(tree: &Tree) -> Vec<(String, usize)> {
    let text = tree.find(RATCHET).map_or("", |file| &file.text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let entry = |line: &str| {
        let (path, lines) = line.rsplit_once(' ')?;
        Some((path.to_string(), lines.parse().ok()?))
    };
    lines.filter_map(entry).collect()
}

fn files(file: &File, listed: &[(String, usize)], findings: &mut Vec<Finding>) {
    let lines = file.text.lines().count();
    let allowed = listed.iter().find(|(path, _)| *path == file.path).map_or(FILE_SOFT, |(_, lines)| *lines);
    let allowed = allowed.min(FILE_HARD);
    if lines > allowed {
        findings.push(Finding::new(
            &file.path,
            allowed,
            format!("has {lines} lines, {allowed} allowed: split it"),
        ));
    }
}

fn lines(file: &File, findings: &mut Vec<Finding>) {
    let mut fenced = false;
    for (i, line) in file.text.lines().enumerate() {
        let comment =
            line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!', ' ']));
        fenced = comment.is_some() && fenced != comment.is_some_and(|text| text.starts_with("```"));
        let drawn = fenced || comment.is_some_and(|text| text.starts_with('|'));
        let allowed = if drawn { DRAWING } else { LINE };
        let width = line.chars().count();
        // An address cannot be broken.
        if width > allowed && !line.contains("https://") {
            findings.push(Finding::new(&file.path, i + 1, format!("{width} columns, {allowed} allowed")));
        }
    }
}

/// From the line with `fn` to the one with its last brace.
fn functions(file: &File, findings: &mut Vec<Finding>) {
    let code = code_only(&file.text);
    let lines: Vec<&str> = code.lines().collect();
    for (start, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|word| *word == "fn") else { continue };
        let Some(length) = body(&lines[start..]) else { continue };
        if length > FUNCTION {
            let name = words.get(at + 1).map_or("", |name| name.split(['(', '<']).next().unwrap_or(""));
            let text = format!("function {name} has {length} lines, {FUNCTION} allowed");
            findings.push(Finding::new(&file.path, start + 1, text));
        }
    }
}

/// Lines until the braces close; none for a declaration without a body.
fn body(lines: &[&str]) -> Option<usize> {
    let mut depth = 0usize;
    let mut brackets = 0usize;
    for (i, line) in lines.iter().enumerate() {
        for byte in line.bytes() {
            match byte {
                b'(' | b'[' => brackets += 1,
                b')' | b']' => brackets = brackets.saturating_sub(1),
                b'{' => depth += 1,
                b'}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(i + 1);
                    }
                }
                b';' if depth == 0 && brackets == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn long_lines_are_found() {
        assert_eq!(texts("a.rs", &"x".repeat(111)), ["111 columns, 110 allowed"]);
        assert_eq!(texts("a.rs", &"x".repeat(110)), [""; 0]);
        let wide = "x".repeat(106);
        assert_eq!(texts("a.rs", &format!("//! | {wide}\n/// ```\n/// {wide}x\n/// ```\n")), [""; 0]);
        assert_eq!(texts("a.rs", &format!("/// ```\n/// ```\n/// {wide}x\n")), ["111 columns, 110 allowed"]);
    }

    #[test]
    fn long_functions_are_found_and_named() {
        let long = format!(
            "impl A {{\n    fn much<T>(a: [u8; 4]) {{\n{}    }}\n}}\n",
            "        a(\"}\");\n".repeat(69)
        );
        assert_eq!(texts("a.rs", &long), ["function much has 71 lines, 70 allowed"]);
        assert_eq!(texts("a.rs", &long.replacen("        a(\"}\");\n", "", 1)), [""; 0]);
        assert_eq!(texts("a.rs", "trait T {\n    fn f(&self);\n}\n"), [""; 0], "a declaration has no length");
    }

    #[test]
    fn long_files_are_found_unless_listed_and_never_grow() {
        let text = "\n".repeat(700);
        assert_eq!(texts("a.rs", &text), ["has 700 lines, 600 allowed: split it"]);
        let with = |list: &str| check(&Tree::of(&[("a.rs", text.as_str()), (RATCHET, list)]));
        assert_eq!(with("# why\na.rs 700\n"), []);
        assert_eq!(with("a.rs 699\n").len(), 1);
        let huge = "\n".repeat(1001);
        assert_eq!(
            check(&Tree::of(&[("a.rs", huge.as_str()), (RATCHET, "a.rs 2000\n")])).len(),
            1,
            "hard limit"
        );
    }

    #[test]
    fn the_ratchet_forgets_nothing() {
        let tree = Tree::of(&[("a.rs", "//! Short.\n"), (RATCHET, "a.rs 700\ngone.rs 800\n")]);
        assert_eq!(check(&tree).len(), 2);
    }
}
