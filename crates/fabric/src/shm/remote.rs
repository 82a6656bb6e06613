//! The peer's regions, as the queue pair that READs and WRITEs them finds them.

use longarm_base::limits::{LINE, READ_MAX};
use longarm_base::{Place, RegionId};
use longarm_memory::{Mapped, ReadOnly, Words};

use super::fds::Lent;
use crate::{Granted, Rights};

/// Lines prefetched by one READ; the copy of a longer one is a stream that the CPU itself runs ahead of.
const PREFETCH_LINES: u64 = 16;
/// Ids below this are found by index.
const DIRECT: usize = 64;
const NONE: u8 = u8::MAX;

/// The peer's regions, found without hashing.
pub(super) struct Remotes {
    all: Vec<Remote>,
    direct: [u8; DIRECT],
}

/// One region of the peer.
pub(super) struct Remote {
    pub(super) granted: Granted,
    pub(super) look: ReadOnly,
    pub(super) change: Option<Mapped>,
}

impl Remotes {
    pub(super) fn new(lent: Vec<(Granted, Lent)>) -> Remotes {
        assert!(lent.len() < usize::from(NONE), "{} regions, the handshake allows fewer", lent.len());
        let mut direct = [NONE; DIRECT];
        for (i, (granted, _)) in lent.iter().enumerate() {
            if let Some(slot) = direct.get_mut(granted.id.0 as usize) {
                *slot = i as u8;
            }
        }
        let all =
            lent.into_iter().map(|(granted, l)| Remote { granted, look: l.look, change: l.change }).collect();
        Remotes { all, direct }
    }

    /// The region of that name and its index.
    #[inline(always)]
    pub(super) fn find(&self, id: RegionId) -> Option<(u8, &Remote)> {
        match self.direct.get(id.0 as usize) {
            Some(&at) => self.all.get(usize::from(at)).map(|remote| (at, remote)),
            None => {
                let at = self.all.iter().position(|remote| remote.granted.id == id)?;
                Some((at as u8, &self.all[at]))
            }
        }
    }

    #[inline(always)]
    pub(super) fn at(&self, index: u8) -> &Remote {
        &self.all[usize::from(index)]
    }
}

impl Remote {
    /// Whether the bytes are inside the region and the rights allow what is wanted.
    #[inline(always)]
    pub(super) fn allows(&self, offset: u64, len: u64, wanted: Rights) -> bool {
        self.granted.rights.allow(wanted)
            && offset <= self.granted.bytes
            && len <= self.granted.bytes - offset
    }

    /// Asks the CPU for the first lines of a READ.
    #[inline(always)]
    pub(super) fn prefetch(&self, from: Place) {
        let mut line = from.offset & !(LINE - 1);
        if u64::from(from.len) <= LINE - (from.offset - line) {
            return self.look.prefetch(line);
        }
        let end = from.offset.saturating_add(u64::from(from.len)).min(line + PREFETCH_LINES * LINE);
        while line < end {
            self.look.prefetch(line);
            line += LINE;
        }
    }
}

impl Remotes {
    /// The region of a READ that is aligned, short enough and allowed.
    #[inline(always)]
    pub(super) fn readable(&self, from: Place) -> Option<(u8, &Remote)> {
        let sound = from.offset.is_multiple_of(8) && from.len <= READ_MAX;
        let found = if sound { self.find(from.region) } else { None };
        found.filter(|(_, remote)| remote.allows(from.offset, u64::from(from.len), Rights::READ))
    }
}
