//! Fields of tab-separated values: `\t`, `\n`, `\r` and `\\` stand for what a field cannot hold as it is.

/// Appends a field to a line.
pub fn escape(field: &[u8], line: &mut Vec<u8>) {
    for &byte in field {
        match byte {
            b'\t' => line.extend_from_slice(b"\\t"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\\' => line.extend_from_slice(b"\\\\"),
            _ => line.push(byte),
        }
    }
}

/// Reads a field that [`escape`] wrote.
pub fn unescape(field: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match (byte, byte == b'\\') {
            (byte, false) => byte,
            _ => match rest.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b'\\') => b'\\',
                _ => return Err("has a backslash that is not \\t, \\n, \\r or \\\\".into()),
            },
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_field_comes_back_and_keeps_to_its_line(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut line = Vec::new();
            escape(&bytes, &mut line);
            prop_assert!(!line.iter().any(|byte| matches!(byte, b'\t' | b'\n' | b'\r')));
            prop_assert_eq!(unescape(&line), Ok(bytes));
        }
    }

    #[test]
    fn a_lone_backslash_is_refused() {
        assert!(unescape(b"a\\").is_err());
        assert!(unescape(b"a\\x").is_err());
    }
}
