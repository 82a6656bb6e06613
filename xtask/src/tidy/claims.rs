//! The pages of claims (`docs/papers`) and the code say the same: what a row has as done is cited where it is
//! done, what is cited has a row, and what is cited is not for later.
//!
//! A citation is the paper's name and its section, in a comment: `LoLKV 3.3.4`, or `LoLKV 3.1, 4.1` of two.

use super::finding::Finding;
use super::tree::{File, Tree};

/// Where the pages are.
const PAGES: &str = "docs/papers/";
/// Each paper's page, and the name by which text cites it.
const PAPERS: [(&str, &str); 5] = [
    ("cell.md", "Cell"),
    ("continuity-hashing.md", "continuity hashing"),
    ("histore.md", "HiStore"),
    ("lolkv.md", "LoLKV"),
    ("nosql-landscape.md", "NoSQL landscape"),
];
/// Where citations are looked for.
const KINDS: [&str; 2] = [".rs", ".tla"];
/// This file's examples are no citations.
const SELF: &str = "xtask/src/tidy/claims.rs";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (page, name) in PAPERS {
        let path = format!("{PAGES}{page}");
        let claims = tree.find(&path).map_or(Vec::new(), |page| rows(page, &mut findings));
        let cited: Vec<Cited<'_>> = tree
            .files
            .iter()
            .filter(|file| file.path != SELF && KINDS.iter().any(|kind| file.path.ends_with(kind)))
            .flat_map(|file| citations(file, name, &mut findings))
            .collect();
        findings.extend(claims.iter().filter_map(|claim| {
            let text = claim.broken(name, &claims, &cited)?;
            Some(Finding::new(&path, claim.line, text))
        }));
        let known = |cited: &&Cited<'_>| !claims.iter().any(|claim| claim.is_of(cited.section));
        findings.extend(cited.iter().filter(known).map(|cited| {
            let text = format!("{name} {} is cited, and {path} has no row of that section", cited.section);
            Finding::new(cited.file, cited.line, text)
        }));
    }
    findings
}

/// A section that a file names.
struct Cited<'a> {
    file: &'a str,
    line: usize,
    section: &'a str,
}

/// One claim: a row of the table of claims, and that of the table which says where each is kept.
struct Claim<'a> {
    /// Line of the second row.
    line: usize,
    sections: Vec<&'a str>,
    files: Vec<&'a str>,
    /// Done, or done otherwise.
    kept: bool,
}

impl Claim<'_> {
    fn is_of(&self, section: &str) -> bool {
        self.sections.contains(&section)
    }

    /// What is wrong with it.
    fn broken(&self, name: &str, all: &[Claim<'_>], cited: &[Cited<'_>]) -> Option<String> {
        let sections = self.sections.join(" or ");
        let here = |cited: &&Cited<'_>| self.files.contains(&cited.file) && self.is_of(cited.section);
        if self.kept {
            let text = format!("none of the files that it names cites ({name} {sections})");
            return cited.iter().find(here).is_none().then_some(text);
        }
        // Of a section with several claims a citation means those that are kept.
        let other = |section: &str| all.iter().any(|claim| claim.kept && claim.is_of(section));
        let early = cited.iter().find(|cited| self.is_of(cited.section) && !other(cited.section))?;
        Some(format!("is for later, but {}:{} cites ({name} {})", early.file, early.line, early.section))
    }
}

/// The claims of a page.
fn rows<'a>(page: &'a File, findings: &mut Vec<Finding>) -> Vec<Claim<'a>> {
    let mut sections: Vec<(&str, usize, Vec<&str>)> = Vec::new();
    let mut claims = Vec::new();
    let mut kept_in = false;
    for (i, line) in page.text.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", number, second, _, fourth, ""] = cells[..] else { continue };
        let mut found = |text: &str| findings.push(Finding::new(&page.path, i + 1, text));
        match number {
            "no." => kept_in = second == "implemented in",
            _ if !number.starts_with(|c: char| c.is_ascii_digit()) => {}
            _ if !kept_in => sections.push((number, i + 1, second.split(", ").collect())),
            _ => {
                let state = fourth.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
                if !["done", "differs", "later"].contains(&state) {
                    found("has no state: done, differs or later");
                }
                match sections.iter().position(|(of, ..)| *of == number) {
                    None => found("is no claim of this page"),
                    Some(at) => claims.push(Claim {
                        line: i + 1,
                        sections: sections.remove(at).2,
                        files: second.split('`').skip(1).step_by(2).collect(),
                        kept: state != "later",
                    }),
                }
            }
        }
    }
    let bare =
        sections.iter().map(|(_, line, _)| Finding::new(&page.path, *line, "is kept nowhere: add a row"));
    findings.extend(bare);
    claims
}

/// What a file cites of one paper. Lines of a comment are one text.
fn citations<'a>(file: &'a File, name: &str, findings: &mut Vec<Finding>) -> Vec<Cited<'a>> {
    let lines = file.text.lines().enumerate();
    let words: Vec<(usize, &str)> = lines
        .flat_map(|(i, line)| line.split_whitespace().map(move |word| (i + 1, word)))
        .filter(|(_, word)| !["//!", "///", "//", "(*", "*)"].contains(word))
        .collect();
    let name: Vec<&str> = name.split(' ').collect();
    // A sentence may begin with it; a cell is not the paper.
    let is_part = |word: &str, part: &str| {
        let word = word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        word == part
            || (part.bytes().all(|byte| byte.is_ascii_lowercase()) && word.eq_ignore_ascii_case(part))
    };
    let is_name = |at: &[(usize, &str)]| at.iter().zip(&name).all(|((_, word), part)| is_part(word, part));
    let mut cited = Vec::new();
    for at in (0..words.len()).filter(|at| words[*at..].len() > name.len() && is_name(&words[*at..])) {
        let rest = &words[at + name.len()..];
        if rest[0].1.trim_start_matches('(') == "section" {
            let text = format!("is cited as ({} 1.2), without the word section", name.join(" "));
            findings.push(Finding::new(&file.path, rest[0].0, text));
        }
        for (line, word) in rest {
            let section = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            if !is_section(section) {
                break;
            }
            cited.push(Cited { file: &file.path, line: *line, section });
            if &word[section.len()..] != "," {
                break;
            }
        }
    }
    cited
}

/// `3`, `3.3.4`, `III.A`.
fn is_section(word: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let roman = |part: &str| !part.is_empty() && part.chars().all(|c| "IVX".contains(c));
    let letter = |part: &str| part.len() == 1 && part.bytes().all(|byte| byte.is_ascii_uppercase());
    match word.split_once('.') {
        Some((chapter, part)) if roman(chapter) => letter(part),
        _ => word.split('.').all(digits) || roman(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| no. | section | claim, in our words | quote |\n|---|---|---|---|\n\
                        | 1 | 3.1, 4.1 | says | \"quote\" |\n| 2 | 3.5 | says | \"quote\" |\n\n\
                        | no. | implemented in | tested in | state and deviation |\n|---|---|---|---|\n\
                        | 1 | `crates/a.rs`, `crates/b.rs` | none | done: so |\n\
                        | 2 | none | none | later |\n\n\
                        | other | table | of | measures |\n";

    fn texts(page: &str, code: &str) -> Vec<String> {
        let tree = Tree::of(&[("docs/papers/lolkv.md", page), ("crates/b.rs", code)]);
        check(&tree)
            .into_iter()
            .map(|found| format!("{}:{}: {}", found.path, found.line, found.text))
            .collect()
    }

    #[test]
    fn what_is_done_is_cited_where_the_row_says() {
        assert_eq!(texts(PAGE, "/// Says (LoLKV 4.1; L4)."), [""; 0]);
        assert_eq!(texts(PAGE, "//! Says (LoLKV\n//! 4.1,\n//! 3.1)."), [""; 0]);
        let none = "docs/papers/lolkv.md:8: none of the files that it names cites (LoLKV 3.1 or 4.1)";
        assert_eq!(texts(PAGE, "/// Says what a LoLKV is, by HiStore, 4.1."), [none]);
        let elsewhere = PAGE.replace("crates/b.rs", "crates/c.rs");
        assert_eq!(texts(&elsewhere, "/// Says (LoLKV 4.1)."), [none]);
        assert_eq!(texts(&PAGE.replace("done", "differs"), "").len(), 1);
    }

    #[test]
    fn what_is_for_later_is_cited_nowhere() {
        let early = "docs/papers/lolkv.md:9: is for later, but crates/b.rs:1 cites (LoLKV 3.5)";
        assert_eq!(texts(PAGE, "// (LoLKV 3.1, 3.5)"), [early]);
        let both = PAGE.replace("3.1, 4.1", "3.1, 3.5");
        assert_eq!(texts(&both, "// (LoLKV 3.5)"), [""; 0], "another claim of the section is kept");
    }

    #[test]
    fn a_citation_of_a_section_without_a_row_is_found() {
        let found = texts(PAGE, "// (LoLKV 4.1)\n// (LoLKV 4,\n// 3.1)");
        assert_eq!(
            found,
            ["crates/b.rs:2: LoLKV 4 is cited, and docs/papers/lolkv.md has no row of that section"]
        );
        assert_eq!(texts("", "// (LoLKV 3.1)").len(), 1, "the page is gone");
        let others = "// (LoLKV 3.1), a cell 4, (Cell 4), Continuity hashing III.A";
        assert_eq!(texts(PAGE, others).len(), 2, "of each paper");
        assert_eq!(texts(PAGE, "// (LoLKV 3.1), and LoLKV section 4.1").len(), 1, "another form");
    }

    #[test]
    fn a_row_without_its_other_half_or_a_state_is_found() {
        let half = PAGE.replace("| 2 | none | none | later |\n", "");
        assert_eq!(texts(&half, "// (LoLKV 3.1)"), ["docs/papers/lolkv.md:4: is kept nowhere: add a row"]);
        let other = PAGE.replace("| 2 | 3.5 |", "| 3 | 3.5 |");
        assert_eq!(texts(&other, "// (LoLKV 3.1)").len(), 2);
        let stateless = PAGE.replace("| later", "| somehow");
        assert!(texts(&stateless, "// (LoLKV 3.1)")[0].ends_with("has no state: done, differs or later"));
    }

    #[test]
    fn sections_are_numbers_or_roman_with_a_letter() {
        for good in ["3", "3.3.4", "IV", "III.A", "10.2"] {
            assert!(is_section(good), "{good}");
        }
        for bad in ["", "3.", "III.", "III.AB", "v2", "VB", "3-4", "IVa"] {
            assert!(!is_section(bad), "{bad}");
        }
    }
}
