//! Memory that is used again: a thread that runs one simulated world after the other makes and loses
//! thousands of regions a second. Half of its time would be the system's, which maps, clears and unmaps
//! pages.
//!
//! (1) Only a thread inside [`recycling`] takes part; what it creates there is its own, and comes back to it
//!     when the last user is gone.
//! (2) Memory that is used again is zero, as fresh memory is. So it is known which pages were written, and
//!     only those are zeroed; the same marks say which were never written ([`Words::next_written`]).
//! (3) What a user can see does not depend on whether memory is fresh: a run is the same either way.
//!
//! [`Words::next_written`]: crate::Words::next_written

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::Mapping;
use crate::marks::WrittenPages;

/// Mappings of one size that a thread keeps at most.
const KEPT: usize = 64;

thread_local! {
    static KEPT_HERE: RefCell<Option<BTreeMap<usize, Vec<Mapping>>>> = const { RefCell::new(None) };
}

/// Does something on whose account regions with memory files of ordinary pages are used again. What is kept
/// goes back to the system at its end.
pub fn recycling<R>(act: impl FnOnce() -> R) -> R {
    /// Also when the thread panics.
    struct Outermost(bool);
    impl Drop for Outermost {
        fn drop(&mut self) {
            if self.0 {
                let _ = KEPT_HERE.try_with(RefCell::take);
            }
        }
    }
    let first = KEPT_HERE.with_borrow_mut(|kept| {
        let first = kept.is_none();
        kept.get_or_insert_default();
        first
    });
    let _outermost = Outermost(first);
    keep_the_heap();
    act()
}

/// What the process allocated stays with it, however long it was: a value of a megabyte is not mapped and
/// unmapped each time that it is copied.
fn keep_the_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets two numbers of the allocator, which it looks at under its own locks.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

/// A mapping of this size that is zero; `None` if none is kept.
pub(crate) fn take(len: u64) -> Option<Mapping> {
    KEPT_HERE.with_borrow_mut(|kept| kept.as_mut()?.get_mut(&(len as usize))?.pop())
}

/// Marks for a new mapping, where it is to be used again.
pub(crate) fn marks(len: u64) -> Option<WrittenPages> {
    KEPT_HERE.with_borrow(|kept| kept.is_some().then(|| WrittenPages::new(len)))
}

impl Mapping {
    /// Zeroes itself and has itself kept for a later region; `false` if nobody wants it.
    pub(super) fn is_kept(&mut self) -> bool {
        let (base, len, page) = (self.base, self.len, self.page);
        keep(len, || {
            self.discard(0, len as u64);
            // SAFETY: `self` is being dropped and does not unmap it now: the mapping is this one's alone.
            let mut kept = unsafe { Mapping::new(base, len, page, false) };
            (kept.file, kept.marks) = (self.file.take(), self.marks.take());
            kept
        })
    }
}

/// Keeps a mapping that nobody uses any more, perhaps while the thread ends. `false`: it is to be unmapped.
fn keep(len: usize, mapping: impl FnOnce() -> Mapping) -> bool {
    let kept = KEPT_HERE.try_with(|kept| {
        // Whoever is dropping what is kept does not keep it.
        let Ok(mut kept) = kept.try_borrow_mut() else { return false };
        let Some(kept) = kept.as_mut() else { return false };
        let of_size = kept.entry(len).or_default();
        if of_size.len() >= KEPT {
            return false;
        }
        of_size.push(mapping());
        true
    });
    kept.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::marks::PAGE;
    use crate::{Backing, OwnedWords, Region, RegionOptions, Words};

    const BYTES: u64 = 5 * PAGE;

    fn region() -> Region {
        let options = RegionOptions { name: "again".into(), bytes: BYTES, backing: Backing::Memory };
        Region::create(&options).expect("a memory file")
    }

    fn all(region: &Region) -> Vec<u8> {
        let mut bytes = vec![0; BYTES as usize];
        region.memory().copy_out(0, &mut bytes);
        bytes
    }

    /// What is done to memory: a place in words, how many, and what.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Store(u64),
        Add(u64),
        Swap(u64),
        Copy(u64, usize),
        Discard(u64, u64),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let at = || 0..BYTES / 8;
        let act = prop_oneof![
            at().prop_map(Act::Store),
            at().prop_map(Act::Add),
            at().prop_map(Act::Swap),
            (at(), 0usize..2000).prop_map(|(at, len)| Act::Copy(at, len)),
            (at(), 0u64..1500).prop_map(|(at, len)| Act::Discard(at, len)),
        ];
        proptest::collection::vec(act, 0..12)
    }

    fn act(memory: &crate::Mapped, acts: &[Act]) {
        for &act in acts {
            match act {
                Act::Store(at) => memory.store(at * 8, u64::MAX),
                Act::Add(at) => _ = memory.fetch_add(at * 8, 7),
                Act::Swap(at) => _ = memory.compare_exchange(at * 8, 0, 9),
                Act::Copy(at, len) => {
                    memory.copy_in(at * 8, &vec![5; len.min((BYTES - at * 8) as usize)]);
                }
                Act::Discard(at, len) => memory.discard(at * 8, (len * 8).min(BYTES - at * 8)),
            }
        }
    }

    proptest! {
        #[test]
        fn memory_that_is_used_again_is_as_fresh_memory(lives in proptest::collection::vec(acts(), 1..5)) {
            // Nobody recycles yet.
            let all_fresh: Vec<Region> = lives.iter().map(|_| region()).collect();
            recycling(|| {
                for (acts, fresh) in lives.into_iter().zip(all_fresh) {
                    let again = region();
                    prop_assert_eq!(all(&again), vec![0; BYTES as usize]);
                    act(again.memory(), &acts);
                    act(fresh.memory(), &acts);
                    prop_assert_eq!(all(&again), all(&fresh));
                    let bytes = all(&again);
                    for at in (0..=BYTES).step_by(512) {
                        let next = again.memory().next_written(at);
                        prop_assert!(next >= at && next <= BYTES);
                        prop_assert!(bytes[at as usize..next as usize].iter().all(|&byte| byte == 0));
                    }
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn memory_is_used_again_by_its_thread_while_it_recycles() {
        let address = |region: &Region| region.memory().address() as usize;
        recycling(|| {
            let first = region();
            let (one, other) = (address(&first), region());
            drop(first);
            assert_eq!(address(&region()), one, "it came back");
            assert_ne!(address(&other), one);
            assert_eq!(other.memory().next_written(0), BYTES, "nobody wrote there");
        });
        KEPT_HERE.with_borrow(|kept| assert!(kept.is_none()));
        let late = recycling(region);
        // Nobody recycles any more: it goes back to the system.
        drop(late);
        KEPT_HERE.with_borrow(|kept| assert!(kept.is_none()));
    }

    #[test]
    fn no_more_is_kept_than_is_allowed() {
        recycling(|| {
            drop((0..KEPT + 3).map(|_| region()).collect::<Vec<_>>());
            let kept = |kept: &Option<BTreeMap<usize, Vec<Mapping>>>| {
                kept.as_ref().map(|kept| kept[&(BYTES as usize)].len())
            };
            assert_eq!(KEPT_HERE.with_borrow(kept), Some(KEPT));
        });
    }
}
