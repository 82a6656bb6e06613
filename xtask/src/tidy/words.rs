//! Words and letters that are not kept: other letters than ASCII, leftovers of work in progress, addresses
//! that only one workplace knows.

use super::finding::Finding;
use super::source::code_only;
use super::tree::{File, Tree};

/// Put together here, so that this file does not find itself.
const LEFT_OVER: [&str; 5] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("HACK", ":"),
    concat!("place", "holder"),
];
const LEFT_OVER_CODE: [&str; 3] =
    [concat!("dbg", "!("), concat!("to", "do!("), concat!("unimple", "mented!(")];
const WORKPLACE: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("../sha", "red"), concat!("/tmp/", "target"), concat!("/ro", "ot/")];
/// Hosts that the text may name: what is outside the project is named by its well-known home.
const HOSTS: [&str; 13] = [
    "github.com",
    "docs.rs",
    "crates.io",
    "doi.org",
    "www.apache.org",
    "opensource.org",
    "keepachangelog.com",
    "semver.org",
    "doc.rust-lang.org",
    "www.kernel.org",
    "www.w3.org",
    "redis.io",
    "arxiv.org",
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != "LICENSE-APACHE") {
        let code = if file.path.ends_with(".rs") { code_only(&file.text) } else { String::new() };
        for (i, line) in file.text.lines().enumerate() {
            let mut found = |text: String| findings.push(Finding::new(&file.path, i + 1, text));
            if let Some(other) = line.chars().find(|c| !c.is_ascii() || (c.is_ascii_control() && *c != '\t'))
            {
                found(format!(
                    "U+{:04X} is not ASCII text (a dash is `-`, a colon or a comma)",
                    other as u32
                ));
            }
            if line.ends_with([' ', '\t']) {
                found("ends with blanks".into());
            }
            for word in LEFT_OVER.iter().filter(|word| line.contains(**word)) {
                found(format!("{word}: finish it, or write an issue"));
            }
            for word in WORKPLACE.iter().filter(|word| line.contains(**word)) {
                found(format!("{word} exists on one machine only"));
            }
            for host in hosts(file, line) {
                found(format!("{host} is not among the hosts the project names (xtask/src/tidy/words.rs)"));
            }
        }
        for (i, line) in code.lines().enumerate() {
            for word in LEFT_OVER_CODE.iter().filter(|word| line.contains(**word)) {
                findings.push(Finding::new(&file.path, i + 1, format!("{word} is not kept")));
            }
        }
    }
    findings
}

/// Hosts of web addresses on this line that are not known.
fn hosts<'a>(file: &File, line: &'a str) -> Vec<&'a str> {
    // The tests of address parsers invent hosts.
    if file.path.ends_with("tests.rs") {
        return Vec::new();
    }
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-');
    let starts = line
        .match_indices("://")
        .filter(|(at, _)| line[..*at].ends_with("http") || line[..*at].ends_with("https"));
    let named = starts.map(|(at, _)| line[at + 3..].split(ends).next().unwrap_or(""));
    let local = ["localhost", "127.0.0.1", ""];
    named.filter(|host| !HOSTS.contains(host) && !local.contains(host)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn other_letters_and_blanks_at_the_end_are_found() {
        assert_eq!(count("a.md", "a \u{2014} b"), 1);
        assert_eq!(count("a.rs", "// caf\u{e9}"), 1);
        assert_eq!(count("a.rs", "let a = 1; "), 1);
        assert_eq!(count("a.md", "a - b\n\tc"), 0);
    }

    #[test]
    fn leftovers_are_found() {
        assert_eq!(count("a.rs", &format!("// {}: later", LEFT_OVER[0])), 1);
        assert_eq!(count("a.md", &format!("{} later", LEFT_OVER[1])), 1);
        assert_eq!(count("a.rs", &format!("{}x);", LEFT_OVER_CODE[0])), 1);
        assert_eq!(count("a.rs", &format!("// {}x);", LEFT_OVER_CODE[0])), 0, "a comment may speak of it");
    }

    #[test]
    fn addresses_of_one_workplace_are_found() {
        assert_eq!(count("a.md", &format!("see {}main", WORKPLACE[0])), 1);
        assert_eq!(count("a.md", concat!("https", "://registry.corp.internal/x")), 1);
        assert_eq!(count("a.md", "https://github.com/x and http://localhost:1 and tcp://host:1"), 0);
    }
}
