//! What a Rust file declares and what it names, as far as its words tell: modules, items, imports and paths.
//! Tests are left out. No macro is looked into.

use std::collections::BTreeSet;

use super::source::code_only;

/// Words before the name of an item.
const KINDS: [&str; 9] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod"];

/// The parts of `a::b::c`, and where it stands.
pub struct Path {
    pub line: usize,
    pub parts: Vec<String>,
}

/// One name of a `use`; of `use a::*` it is `*`.
pub struct Import {
    pub name: String,
    pub path: Path,
    /// `pub use`.
    pub exported: bool,
}

/// A file's own text without that of the modules it declares.
#[derive(Default)]
pub struct Items {
    /// Those of `mod a;`.
    pub modules: Vec<String>,
    pub defined: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// Everything named outside of imports, single words, too.
    pub paths: Vec<Path>,
}

pub fn read(text: &str) -> Items {
    let code = code_only(text);
    let words = words(&code);
    let mut reader = Reader { words: &words, at: 0, items: Items::default() };
    let mut depth = 0_usize;
    // Depths at which modules within the file began: their `super` is the file.
    let mut within = Vec::new();
    while reader.at < words.len() {
        if reader.skips_test() {
            continue;
        }
        let at = reader.at;
        match reader.word(at) {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                within.pop_if(|begun| *begun == depth);
            }
            "use" if reader.word(at + 1) != "<" => {
                let exported = matches!(reader.before(1), "pub" | ")");
                reader.at += 1;
                reader.import(&[], exported, within.len());
                continue;
            }
            "mod" if reader.word(at + 2) == ";" => reader.items.modules.push(reader.word(at + 1).into()),
            kind if KINDS.contains(&kind) && depth == 0 && reader.before(1) != "'" => {
                reader.items.defined.insert(reader.word(at + 1).into());
            }
            _ => {}
        }
        if reader.word(at) == "mod" && reader.word(at + 2) == "{" {
            within.push(depth);
        }
        reader.path(within.len());
    }
    reader.items
}

/// Words, `::`, and single other letters, with their lines.
fn words(code: &str) -> Vec<(usize, &str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = Vec::new();
    for (i, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let len = match first {
                _ if part(first) => rest.find(|c| !part(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            words.push((i + 1, &rest[..len]));
            rest = rest[len..].trim_start();
        }
    }
    words
}

struct Reader<'a> {
    words: &'a [(usize, &'a str)],
    at: usize,
    items: Items,
}

impl<'a> Reader<'a> {
    fn word(&self, at: usize) -> &'a str {
        self.words.get(at).map_or("", |(_, word)| word)
    }

    fn before(&self, words: usize) -> &'a str {
        self.at.checked_sub(words).map_or("", |at| self.word(at))
    }

    /// Skips `#[cfg(test)]` or `#[test]` with its item.
    fn skips_test(&mut self) -> bool {
        let starts = |what: &[&str]| what.iter().enumerate().all(|(i, word)| self.word(self.at + i) == *word);
        if !starts(&["#", "[", "cfg", "(", "test", ")", "]"]) && !starts(&["#", "[", "test", "]"]) {
            return false;
        }
        let mut depth = 0_i32;
        while self.at < self.words.len() && depth >= 0 {
            let word = self.word(self.at);
            depth += i32::from(matches!(word, "{" | "(" | "["));
            depth -= i32::from(matches!(word, "}" | ")" | "]"));
            // The brace that closes what the item stands in is not the item's.
            self.at += usize::from(depth >= 0);
            if depth == 0 && matches!(word, "}" | ";") {
                break;
            }
        }
        true
    }

    /// What follows `use` or a prefix, up to and without the `;`, `,` or `}` after it.
    fn import(&mut self, prefix: &[String], exported: bool, within: usize) {
        let mut parts = prefix.to_vec();
        loop {
            let (line, word) = self.words.get(self.at).copied().unwrap_or_default();
            match word {
                "{" => {
                    while !matches!(self.word(self.at), "}" | "") {
                        self.at += 1;
                        if self.word(self.at) != "}" {
                            self.import(&parts, exported, within);
                        }
                    }
                    self.at += 1;
                    return;
                }
                "::" => self.at += 1,
                ";" | "," | "}" | "as" | "" => {
                    if parts.len() > 1 && parts.last().is_some_and(|last| last == "self") {
                        parts.pop();
                    }
                    let named = if word == "as" {
                        Some(self.word(self.at + 1).into())
                    } else {
                        parts.last().cloned()
                    };
                    self.at += if word == "as" { 2 } else { 0 };
                    let path = Path { line, parts: outside(parts, within) };
                    self.items.imports.extend(named.map(|name| Import { name, path, exported }));
                    return;
                }
                _ => {
                    parts.push(word.to_string());
                    self.at += 1;
                }
            }
        }
    }

    /// A path that begins here, or one word.
    fn path(&mut self, within: usize) {
        let (line, first) = self.words[self.at];
        let begins = first.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && !matches!(self.before(1), "." | "'" | "::");
        // `pub(in a::b)` names nothing that is used.
        let limits = self.before(1) == "in" && self.before(2) == "(" && self.before(3) == "pub";
        let mut parts = vec![first.to_string()];
        self.at += 1;
        while self.word(self.at) == "::"
            && self.word(self.at + 1).starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        {
            parts.push(self.word(self.at + 1).to_string());
            self.at += 2;
        }
        if begins && !limits {
            self.items.paths.push(Path { line, parts: outside(parts, within) });
        }
    }
}

/// The path as the file itself would write it that has the modules in which it stands.
fn outside(mut parts: Vec<String>, within: usize) -> Vec<String> {
    let up = parts.iter().take_while(|part| *part == "super").count().min(within);
    if up > 0 {
        parts.drain(..up);
        parts.insert(0, "self".into());
    }
    parts
}
