//! Rust text with comments, strings and characters blanked, so that the rules do not stumble over words in
//! them.

/// The same text, byte for byte as long, with the inside of comments and literals replaced by spaces.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => find(bytes, at, b"\n").unwrap_or(bytes.len()),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                find(bytes, at, b"*/").map_or(bytes.len(), |end| end + 2)
            }
            b'r' if raw_hashes(bytes, at).is_some() => raw_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'\'' => char_end(bytes, at),
            _ => at,
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_string())
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    bytes[from..].windows(what.len()).position(|window| window == what).map(|at| from + at)
}

/// How many `#` a raw string has that starts at `at`, if one does.
fn raw_hashes(bytes: &[u8], at: usize) -> Option<usize> {
    let word_before = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    let is_bytes = at > 0 && bytes[at - 1] == b'b';
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let opens = bytes.get(at + 1 + hashes) == Some(&b'"');
    (opens && (!word_before || is_bytes)).then_some(hashes)
}

fn raw_end(bytes: &[u8], at: usize) -> usize {
    let hashes = raw_hashes(bytes, at).unwrap_or(0);
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    find(bytes, at + hashes + 2, &close).map_or(bytes.len(), |end| end + close.len())
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    (end + 1).min(bytes.len())
}

/// A character literal, not a lifetime.
fn char_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => find(bytes, at + 3, b"'").map_or(at, |end| end + 1),
        Some(_) if bytes.get(at + 2) == Some(&b'\'') => at + 3,
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_code_is_not() {
        let text = "let a = \"un\\\"safe\"; // unsafe\nlet b: &'a u8 = '{'; /* { */ r#\"{\"# '\\'' {";
        let code = code_only(text);
        assert_eq!(code.len(), text.len());
        assert!(!code.contains("safe"), "{code}");
        assert_eq!(code.matches('{').count(), 1, "{code}");
        assert!(code.contains("&'a u8"), "a lifetime is code: {code}");
        assert_eq!(code.lines().count(), 2);
    }
}
