//! How far a replica is that is to end.

/// Whether a replica is to end, and how far it is with that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Leave {
    /// The replica is to live on.
    #[default]
    Not,
    /// The replica is to end. If it leads, it is to hand over first.
    Wanted,
    /// The replica does not lead any more, or no other replica can.
    Done,
}
