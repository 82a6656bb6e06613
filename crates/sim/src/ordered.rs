//! Which servers of a run keep an ordered index.

/// Which servers keep an ordered index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// None: clients do not scan.
    None,
    /// This one.
    Only(u32),
    /// Each.
    All,
}

impl Ordered {
    /// Whether clients scan.
    pub fn any(self) -> bool {
        self != Ordered::None
    }

    /// Whether this server keeps an index.
    pub fn has(self, server: u32) -> bool {
        match self {
            Ordered::None => false,
            Ordered::Only(only) => only == server,
            Ordered::All => true,
        }
    }
}
