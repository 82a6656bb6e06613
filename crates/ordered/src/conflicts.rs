//! What may have changed since the moment of the tree, when a page of it is about to be shown.

/// The keys that may have changed since the tree's vector.
pub(crate) enum Conflicts {
    /// An entry is not here: it may be of any key.
    Any,
    /// These: ranges of a buffer.
    Keys { keys: Vec<u8>, changed: Vec<(usize, usize)> },
}

impl Conflicts {
    /// Whether one of the keys is among those of which `speaks_of` is true.
    pub fn any(&self, speaks_of: impl Fn(&[u8]) -> bool) -> bool {
        match self {
            Conflicts::Any => true,
            Conflicts::Keys { keys, changed } => {
                changed.iter().any(|&(at, len)| speaks_of(&keys[at..at + len]))
            }
        }
    }
}
