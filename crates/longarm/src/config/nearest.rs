//! "Did you mean": the known word nearest to a mistyped one.

/// Finds the candidate with the fewest edits from `word`, if it is near enough to be what the user meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, best) = candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .min_by_key(|(d, _)| *d)?;
    let near_enough = distance <= 1 + best.len() / 4;
    near_enough.then_some(best)
}

/// Computes the Levenshtein distance, case aside. Words are cut at 64 bytes, for no setting is longer.
fn distance(a: &str, b: &str) -> usize {
    let cut = |text: &str| text.to_ascii_lowercase().bytes().take(64).collect::<Vec<u8>>();
    let (a, b) = (cut(a), cut(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let words = ["memory", "workers", "tls.client_ca"];
        assert_eq!(nearest("memmory", words), Some("memory"));
        assert_eq!(nearest("Worker", words), Some("workers"));
        assert_eq!(nearest("tls.clientca", words), Some("tls.client_ca"));
        assert_eq!(nearest("replicas", words), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn the_distance_counts_edits() {
        assert_eq!((distance("kitten", "sitting"), distance("", "abc"), distance("a", "a")), (3, 3, 0));
    }
}
