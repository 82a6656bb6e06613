//! Decides who may write a key while a write of it is on its way to the followers (M5, L18).
//!
//! A blind write needs no judgement, so many may be under way; the highest csn wins. A conditional write, or
//! any write whose answer tells the previous state, is judged when no write on its stripe is under way. It
//! keeps all others away until it is applied: no write with a lower csn is unapplied when it is judged, and
//! none with a higher csn is applied before it.

use std::sync::atomic::{AtomicU32, Ordering};

use longarm_memory::Hash;

/// Stripes: many more than writes that can be under way.
const STRIPES: usize = 1 << 14;
/// The mark of a conditional write under way.
const EXCLUSIVE: u32 = u32::MAX;

/// All stripes of a group's keys.
#[derive(Debug)]
pub struct Stripes(Box<[AtomicU32]>);

/// A stripe that a write holds from its judgement until it is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stripe(u32);

impl Default for Stripes {
    fn default() -> Stripes {
        Stripes((0..STRIPES).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Stripes {
    /// Takes the stripe of a key; `None` while others are in the way.
    pub fn enter(&self, hash: Hash, exclusive: bool) -> Option<Stripe> {
        let at = (hash.0 >> 16) as usize % STRIPES;
        let next = |held: u32| match exclusive {
            true => (held == 0).then_some(EXCLUSIVE),
            false => (held < EXCLUSIVE - 1).then(|| held + 1),
        };
        // AcqRel: each holder sees what the last one applied; pairs with `leave`.
        let entered = self.0[at].fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        entered.ok().map(|_| Stripe(at as u32))
    }

    /// Whether a conditional write is under way on the stripe of a key.
    pub fn is_held_alone(&self, hash: Hash) -> bool {
        // Acquire: as in `enter`.
        self.0[(hash.0 >> 16) as usize % STRIPES].load(Ordering::Acquire) == EXCLUSIVE
    }

    /// Leaves the stripe: the write is applied, or was not made after all.
    pub fn leave(&self, stripe: Stripe) {
        let next = |held: u32| match held {
            EXCLUSIVE => Some(0),
            _ => held.checked_sub(1),
        };
        // AcqRel: as in `enter`.
        let left = self.0[stripe.0 as usize].fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        assert!(left.is_ok(), "{stripe:?} is left by a write that does not hold it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conditional_write_is_alone_on_its_stripe() {
        let stripes = Stripes::default();
        let (hash, other) = (Hash(7 << 16), Hash(8 << 16));
        let first = stripes.enter(hash, false).expect("nobody is there");
        let second = stripes.enter(hash, false).expect("blind writes do not mind each other");
        assert_eq!(stripes.enter(hash, true), None);
        assert!(stripes.enter(other, true).is_some());
        stripes.leave(first);
        assert_eq!(stripes.enter(hash, true), None);
        stripes.leave(second);
        let alone = stripes.enter(hash, true).expect("all have left");
        assert_eq!((stripes.enter(hash, true), stripes.enter(hash, false)), (None, None));
        stripes.leave(alone);
        assert!(stripes.enter(hash, false).is_some());
    }
}
