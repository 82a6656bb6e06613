//! `cargo x wrap FILE...`: breaks comment lines over 110 columns, which rustfmt leaves alone. Words that do
//! not fit move to the front of the next line of their paragraph, or onto a new one. Tables and code fences
//! stay.

const WIDTH: usize = 110;

/// Wraps the named files in place; `Ok(true)` always.
pub fn run(files: &[&str]) -> Result<bool, String> {
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let wrapped = wrap(&text);
        if wrapped != text {
            std::fs::write(file, wrapped).map_err(|error| format!("{file}: {error}"))?;
            println!("{file}");
        }
    }
    Ok(true)
}

/// A comment line in its parts: what repeats on each line, the indent of its text, the text.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let code = line.len() - line.trim_start().len();
    let marker = ["//!", "///", "//"].into_iter().find(|marker| line[code..].starts_with(marker))?;
    let (prefix, rest) = line.split_at(code + marker.len());
    let indent = rest.len() - rest.trim_start().len();
    Some((prefix, &rest[..indent], &rest[indent..]))
}

/// Columns that `1. `, `- ` or `(1) ` takes at the start of a text.
fn item_width(text: &str) -> usize {
    let Some((first, _)) = text.split_once(' ') else { return 0 };
    let number = first.trim_matches(['(', ')', '.']);
    let numbered =
        number.len() < first.len() && number.len() <= 2 && number.chars().all(|c| c.is_ascii_digit());
    if matches!(first, "-" | "*") || (numbered && !number.is_empty()) { first.len() + 1 } else { 0 }
}

fn wrap(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    let mut at = 0;
    let mut fenced = false;
    while at < lines.len() {
        fenced ^= parts(&lines[at]).is_some_and(|(_, _, text)| text.starts_with("```"));
        if !fenced && lines[at].chars().count() > WIDTH {
            split(&mut lines, at);
        }
        at += 1;
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn split(lines: &mut Vec<String>, at: usize) {
    let line = lines[at].clone();
    let Some((prefix, indent, text)) = parts(&line) else { return };
    let start = prefix.len() + indent.len() + item_width(text);
    let fits = line.char_indices().nth(WIDTH).map_or(line.len(), |(at, _)| at);
    let Some(cut) = line[..=fits].rfind(' ').filter(|cut| *cut > start) else { return };
    if text.starts_with('|') || !line.is_ascii() {
        return;
    }
    let rest = line[cut + 1..].to_string();
    let hanging = format!("{indent}{}", " ".repeat(item_width(text)));
    lines[at].truncate(cut);
    let next = lines.get(at + 1).and_then(|next| parts(next));
    match next {
        Some((same, below, more)) if same == prefix && below == hanging && continues(more) => {
            lines[at + 1] = format!("{prefix}{hanging}{rest} {more}");
        }
        _ => lines.insert(at + 1, format!("{prefix}{hanging}{rest}")),
    }
}

/// Whether a line goes on with the paragraph above it.
fn continues(text: &str) -> bool {
    !text.is_empty() && item_width(text) == 0 && !text.starts_with(['#', '|', '`'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_do_not_fit_move_on() {
        let word = "word ".repeat(21);
        let text = format!("//! - {word}and more of it.\n//!   Next line.\n//!\n//! Other.\nlet a = 1;\n");
        let wrapped = wrap(&text);
        assert!(wrapped.lines().all(|line| line.len() <= WIDTH), "{wrapped}");
        assert!(wrapped.contains("\n//!   and more of it. Next line.\n//!\n//! Other.\n"), "{wrapped}");
        assert_eq!(wrap(&wrapped), wrapped);
    }

    #[test]
    fn code_tables_and_fences_stay() {
        let long = "x ".repeat(80);
        let text = format!("let a = \"{long}\";\n//! | {long}|\n/// ```\n/// {long}y\n/// ```\n");
        assert_eq!(wrap(&text), text);
    }

    #[test]
    fn a_lone_long_line_gets_a_new_one() {
        let text = format!("    /// {}end.\n    fn f() {{}}\n", "word ".repeat(22));
        let wrapped = wrap(&text);
        assert_eq!(wrapped.lines().count(), 3);
        assert!(wrapped.contains("\n    /// word word end.\n    fn f()"), "{wrapped}");
    }
}
