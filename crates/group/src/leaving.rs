//! Whether a replica is to end.

/// Whether a replica is to end, and how far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Leave {
    /// It is to live.
    #[default]
    Not,
    /// It is to end; if it leads, another is to lead before.
    Wanted,
    /// It does not lead any more, or nobody else can.
    Done,
}
