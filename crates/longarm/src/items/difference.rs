//! How a value that was read differs from the one that was stored.

/// How two values differ.
pub fn difference(expected: &[u8], found: &[u8]) -> Option<String> {
    if expected == found {
        return None;
    }
    let at = expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(expected.len().min(found.len()));
    Some(format!(
        "{} bytes expected, {} found, the first difference at byte {at}",
        expected.len(),
        found.len()
    ))
}
