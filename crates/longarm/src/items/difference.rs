//! Tells how a value that was read differs from the value that was stored.

/// Says how two values differ; `None` if they are equal.
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
