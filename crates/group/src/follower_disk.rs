//! What a leader knows of the disk of a follower: which of the term's entries are in its file, and which
//! segments it is to free there before they are used again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use longarm_base::{Csn, Mutant};
use longarm_disk::covers;
use longarm_host::Mutex;

/// Segments that a follower let go of in its memory, for its disk to let go of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Freeing {
    /// By number.
    pub segments: Vec<u32>,
    /// Of how many the follower was told by then.
    pub told: u64,
}

/// The disk of a follower, as the threads of the leader's term share it.
#[derive(Debug)]
pub(crate) struct FollowerDisk {
    /// Only what is on disk counts.
    sync: bool,
    /// By stream: all positions below are in its file.
    floors: Vec<AtomicU64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The disk failed, or the follower has none: it keeps nothing, and is asked for nothing.
    failed: bool,
    /// What its last note covers: positions by stream, and versions.
    noted: Option<(Vec<u64>, Csn)>,
    /// What the desk is to tell it to free.
    freeing: Freeing,
    /// Those, and what it was told and has not said to be done.
    asked: BTreeSet<u32>,
}

impl FollowerDisk {
    /// A disk that has nothing of the term yet.
    pub fn new(sync: bool, streams: usize) -> FollowerDisk {
        let floors = (0..streams).map(|_| AtomicU64::new(0)).collect();
        FollowerDisk { sync, floors, state: Mutex::default() }
    }

    /// The position of a stream below which the disk lets the follower's entries count.
    pub fn counted(&self, stream: usize) -> u64 {
        if !self.sync || Mutant::AckFromMemory.is_on() {
            return u64::MAX;
        }
        // Acquire: pairs with `keep`.
        self.floors[stream].load(Ordering::Acquire)
    }

    /// All positions below these are in its file.
    pub fn keep(&self, floors: &[u64]) {
        for (cell, floor) in self.floors.iter().zip(floors) {
            // Release: they are on disk; pairs with `counted`.
            cell.fetch_max(*floor, Ordering::Release);
        }
    }

    /// A note covers all that was written, and all versions that were drawn, by some moment.
    pub fn note(&self, written: Vec<u64>, csn: Csn) {
        self.state.lock().noted = Some((written, csn));
    }

    /// It keeps nothing any more, and nothing is waited for. What it was being asked to free.
    pub fn fail(&self) -> Vec<u32> {
        let state = &mut *self.state.lock();
        let before = std::mem::replace(state, State { failed: true, ..State::default() });
        before.asked.into_iter().collect()
    }

    /// Whether it failed.
    pub fn has_failed(&self) -> bool {
        self.state.lock().failed
    }

    /// Whether it may let go of a segment that was asked for when the streams had written so much, and
    /// versions up to `csn` were drawn (D5).
    pub fn may_let_go(&self, written: &[u64], csn: Csn) -> bool {
        let state = self.state.lock();
        let covers = |(floors, stable): &(Vec<u64>, Csn)| *stable >= csn && covers(floors, written);
        state.failed || state.noted.as_ref().is_some_and(covers) || Mutant::FreeUncovered.is_on()
    }

    /// Those of the segments that it is not being asked to free already.
    pub fn not_asked(&self, segments: Vec<u32>) -> Vec<u32> {
        let state = self.state.lock();
        segments.into_iter().filter(|segment| !state.asked.contains(segment)).collect()
    }

    /// Has it free these segments. Whether it does; else there is nothing to wait for.
    pub fn free(&self, segments: &[u32], told: u64) -> bool {
        let state = &mut *self.state.lock();
        if state.failed || Mutant::FreeInMemory.is_on() {
            return false;
        }
        state.asked.extend(segments);
        state.freeing.segments.extend(segments);
        state.freeing.told = state.freeing.told.max(told);
        true
    }

    /// What the desk is to tell it to free, at most so many segments at once.
    pub fn take_freeing(&self, most: usize) -> Freeing {
        let state = &mut *self.state.lock();
        let count = most.min(state.freeing.segments.len());
        let segments: Vec<u32> = state.freeing.segments.drain(..count).collect();
        let told = if state.freeing.segments.is_empty() { state.freeing.told } else { 0 };
        Freeing { segments, told }
    }

    /// What it was told and has not done is to be told again: the connection is gone.
    pub fn ask_again(&self) {
        let state = &mut *self.state.lock();
        state.freeing.segments = state.asked.iter().copied().collect();
    }

    /// Its file has these segments as free.
    pub fn freed(&self, segments: &[u32]) {
        let state = &mut *self.state.lock();
        segments.iter().for_each(|segment| _ = state.asked.remove(segment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_disk_counts_only_where_that_is_asked_for() {
        let (sync, loose) = (FollowerDisk::new(true, 2), FollowerDisk::new(false, 2));
        assert_eq!((sync.counted(1), loose.counted(1)), (0, u64::MAX));
        sync.keep(&[3, 7]);
        sync.keep(&[2, 6]);
        assert_eq!((sync.counted(0), sync.counted(1)), (3, 7), "never back");
    }

    #[test]
    fn a_segment_goes_when_a_note_covers_what_made_it_needless() {
        let disk = FollowerDisk::new(true, 2);
        assert!(!disk.may_let_go(&[0, 0], Csn(0)), "the file has nothing of the term");
        disk.note(vec![5, 6], Csn(9));
        assert!(disk.may_let_go(&[5, 6], Csn(9)));
        assert!(!disk.may_let_go(&[6, 6], Csn(9)) && !disk.may_let_go(&[5, 6], Csn(10)));
        assert!(disk.free(&[4, 9], 2) && disk.free(&[7], 3));
        assert_eq!(disk.not_asked(vec![4, 5]), [5]);
        assert_eq!(disk.take_freeing(2), Freeing { segments: vec![4, 9], told: 0 });
        assert_eq!(disk.take_freeing(2), Freeing { segments: vec![7], told: 3 });
        disk.freed(&[4]);
        disk.ask_again();
        assert_eq!(disk.take_freeing(9), Freeing { segments: vec![7, 9], told: 3 });
        disk.freed(&[7]);
        assert_eq!(disk.not_asked(vec![7]), [7]);
        assert_eq!(disk.fail(), [9]);
        assert!(disk.may_let_go(&[99, 99], Csn(99)) && !disk.free(&[1], 4), "nothing is waited for");
    }
}
