//! No parameter of a function is a tuple: what belongs together is a struct with names, and anything else a
//! parameter of its own. Closures may take tuples, since iterators hand them out.

use super::finding::Finding;
use super::source::code_only;
use super::tree::Tree;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let code = code_only(&file.text);
        for (at, _) in code.match_indices("fn ").filter(|(at, _)| !code[..*at].ends_with(is_word)) {
            let name_at = at + "fn ".len();
            let len = code[name_at..].find(|c| !is_word(c)).unwrap_or(0);
            let (name, rest) = code[name_at..].split_at(len);
            for tuple in tuples(after_generics(rest)) {
                let line = code[..at].matches('\n').count() + 1;
                let tuple = tuple.split_whitespace().collect::<Vec<_>>().join(" ");
                let text = format!("{name}: the parameter `{tuple}` is a tuple: name its parts");
                findings.push(Finding::new(&file.path, line, text));
            }
        }
    }
    findings
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// What follows `<...>`, if that is what comes first.
fn after_generics(text: &str) -> &str {
    if !text.starts_with('<') {
        return text;
    }
    text[closed(text)..].trim_start()
}

/// Where the bracket closes that a text begins with.
fn closed(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        depth = depth_after(depth, text, at, c);
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// How deep in brackets a text is after one of its letters.
fn depth_after(depth: usize, text: &str, at: usize, c: char) -> usize {
    match c {
        '(' | '[' | '{' | '<' => depth + 1,
        // Of an arrow.
        '>' if text[..at].ends_with(['-', '=']) => depth,
        ')' | ']' | '}' | '>' => depth.saturating_sub(1),
        _ => depth,
    }
}

/// The parameters that are tuples, by pattern or by type, of a list in brackets.
fn tuples(list: &str) -> Vec<&str> {
    if !list.starts_with('(') {
        return Vec::new();
    }
    let inside = &list[1..closed(list).max(2) - 1];
    // One without a colon is `self`, or draws from a strategy of proptest.
    let is_found = |parameter: &&str| {
        let halves = parts(parameter, ':');
        halves.len() > 1 && halves.into_iter().take(2).any(is_tuple)
    };
    parts(inside, ',').into_iter().map(str::trim).filter(is_found).collect()
}

/// A text cut at each such letter that stands in no brackets. A path's `::` is no colon.
fn parts(text: &str, at_letter: char) -> Vec<&str> {
    let (mut found, mut from, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        depth = depth_after(depth, text, at, c);
        let is_path = c == ':' && (text[..at].ends_with(':') || text[at + 1..].starts_with(':'));
        if c == at_letter && depth == 0 && !is_path {
            found.push(&text[from..at]);
            from = at + 1;
        }
    }
    found.push(&text[from..]);
    found
}

/// Whether a pattern or a type is a tuple, or a reference to one.
fn is_tuple(text: &str) -> bool {
    let mut text = text.trim();
    loop {
        let shorter = text.strip_prefix('&').or_else(|| text.strip_prefix("mut ")).unwrap_or(text);
        let shorter = match shorter.strip_prefix('\'') {
            Some(lifetime) => lifetime.trim_start_matches(is_word),
            None => shorter,
        };
        if shorter.len() == text.len() {
            break;
        }
        text = shorter.trim_start();
    }
    // Brackets alone hold a type together, as in `&(impl Read + Write)`.
    text.starts_with('(') && parts(&text[1..closed(text).max(2) - 1], ',').len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        check(&Tree::of(&[("crates/store/src/a.rs", text)])).into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn tuples_are_found_wherever_they_stand() {
        let found = ["a: the parameter `(b, c): (u8, u16)` is a tuple: name its parts"];
        assert_eq!(texts("fn a((b, c): (u8, u16)) {}"), found);
        assert_eq!(texts("fn a<F: Fn(u8) -> u8, const N: usize>(f: F, (b, c): (u8, u16)) {}"), found);
        assert_eq!(texts("fn a(\n    &self,\n    (b, c): (u8,\n        u16),\n);"), found);
        assert_eq!(texts("fn a(b: &'a mut (u8, [u8; 2])) {}").len(), 1, "by its type alone");
        assert_eq!(texts("fn a((b, c): Alias, (d, e): (u8, u8)) {}").len(), 2, "by its pattern alone");
    }

    #[test]
    fn what_is_no_tuple_is_not_found() {
        assert_eq!(texts("fn a(&self, b: u8, c: &(impl Read + Write), d: ()) -> (u8, u8) {}"), [""; 0]);
        assert_eq!(texts("fn a(b: &[(u8, u8)], c: Vec<(u8, u8)>, d: impl Fn((u8, u8)) -> u8) {}"), [""; 0]);
        assert_eq!(texts("fn a(Pair { b, c }: x::Pair<'_>, d: fn(u8, u8)) {}"), [""; 0]);
        assert_eq!(texts("let a = |(b, c): (u8, u8)| b + c;"), [""; 0], "closures may");
        assert_eq!(texts("fn a((b, c) in (0u8..9, 1u8..9), d: u8) {}"), [""; 0], "a test by strategies");
        assert_eq!(texts("// fn a((b, c): (u8, u8)) {}\nlet a = \"fn a((b, c): (u8, u8))\";"), [""; 0]);
    }

    #[test]
    fn all_crates_are_checked() {
        let count = |path: &str| check(&Tree::of(&[(path, "fn a((b, c): (u8, u8)) {}")])).len();
        assert_eq!(count("crates/index/src/hash/tests/a.rs"), 1);
        assert_eq!(count("fuzz/src/a.rs"), 1);
        assert_eq!(count("xtask/src/a.rs"), 1);
    }
}
