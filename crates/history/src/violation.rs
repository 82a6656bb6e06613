//! What a judge says of operations that no store could have shown.

use crate::Operation;

/// Two operations that no order explains, or one: in words, with both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which judge says so, and by which rule.
    pub rule: &'static str,
    /// The guilty ones.
    pub guilty: Vec<Operation>,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.rule)?;
        self.guilty.iter().try_for_each(|operation| write!(f, "\n  {operation}"))
    }
}
