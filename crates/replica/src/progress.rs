//! What a leader knows of a follower's progress, and what that allows (L3, L6; M9). A value of one moment:
//! all that is in it only ever grows, so an older one allows no more than a newer one.

use longarm_base::Mutant;

/// How far one stream is at one follower.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamProgress {
    /// From this position on the stream sends to the follower; catching up pushes all before. `None`: the
    /// stream has not taken the follower up yet.
    pub start: Option<u64>,
    /// The follower surely has all positions below this, once it is synced.
    pub acked: u64,
    /// All below this has landed, and does not only count as received: a later WRITE of the stream, or a READ
    /// behind it, has completed (the acknowledgement window: L6).
    pub landed: u64,
    /// The floor that the follower's page surely has.
    pub floor: u64,
}

impl StreamProgress {
    /// Whether nothing of the stream below `position` is on its way, or will be: the stream sends from there
    /// on only, or all that it sent has landed. A WRITE that has only completed may land later, over what
    /// another stream sends for the next use of the segment.
    fn has_nothing_below(&self, position: u64) -> bool {
        let landed = if Mutant::TrustCompletion.is_on() { self.acked } else { self.landed };
        self.start.is_none_or(|start| start >= position) || landed >= position
    }

    /// The floor that the follower's page may have by now: never less than it has.
    fn next_floor(&self) -> u64 {
        self.floor.max(self.acked)
    }
}

/// How far a follower is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FollowerProgress {
    /// It has said that it is synced: what it acknowledges counts.
    pub synced: bool,
    /// By stream.
    pub streams: Vec<StreamProgress>,
}

impl FollowerProgress {
    /// Floors that its page may have by now.
    pub fn next_floors(&self) -> Vec<u64> {
        self.streams.iter().map(StreamProgress::next_floor).collect()
    }

    /// The floors with which it may begin to count, once they cover what it `needed` to have: so much of each
    /// stream was written when it let go of segments (L6).
    pub fn first_floors(&self, needed: &[u64]) -> Option<Vec<u64>> {
        let floors = self.next_floors();
        let cover = floors.iter().zip(needed).all(|(floor, needed)| floor >= needed);
        (cover || Mutant::AdoptEarly.is_on()).then_some(floors)
    }

    /// The floors that a heartbeat tells it. Floors are positions of the leader's term: before it is synced,
    /// its memory is of an older one, of which they would claim entries that are not there.
    pub fn told_floors(&self) -> Vec<u64> {
        let tells = self.synced || Mutant::RaiseFloors.is_on();
        if tells { self.next_floors() } else { Vec::new() }
    }

    /// Whether it may let go of a segment that was asked for when the streams had written so much. If it
    /// counts, its page must say that it has all of that, which made the segment needless: a survey of it
    /// would find a gap where the segment was, and end there. In any case nothing of that may be on its way
    /// there: each stream has a connection of its own, and what one sent for this use of the segment might
    /// land after what another sends for the next.
    pub fn may_let_go(&self, written: &[u64]) -> bool {
        let may = |(&written, stream): (&u64, &StreamProgress)| {
            stream.has_nothing_below(written) && (!self.synced || stream.floor >= written)
        };
        written.iter().zip(&self.streams).all(may) || Mutant::ReleaseEarly.is_on()
    }

    /// Positions that were written, and that it has not acknowledged.
    pub fn lag(&self, written: impl IntoIterator<Item = u64>) -> u64 {
        written.into_iter().zip(&self.streams).map(|(written, at)| written.saturating_sub(at.acked)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synced(floors: &[u64]) -> FollowerProgress {
        let at = |&floor| StreamProgress { start: Some(0), acked: floor, landed: floor, floor };
        FollowerProgress { synced: true, streams: floors.iter().map(at).collect() }
    }

    #[test]
    fn a_follower_is_told_no_floors_before_it_is_synced() {
        let counts = synced(&[3, 4]);
        assert!(FollowerProgress { synced: false, ..counts.clone() }.told_floors().is_empty());
        assert_eq!(counts.told_floors(), [3, 4]);
    }

    #[test]
    fn a_follower_begins_to_count_with_floors_that_cover_what_it_let_go_of() {
        let streams = vec![StreamProgress { acked: 3, ..StreamProgress::default() }; 2];
        let mut follower = FollowerProgress { synced: false, streams };
        assert_eq!(follower.first_floors(&[]), Some(vec![3, 3]), "it lacks nothing");
        assert_eq!(follower.first_floors(&[3, 5]), None);
        follower.streams[1].acked = 7;
        assert_eq!(follower.first_floors(&[3, 5]), Some(vec![3, 7]));
    }

    #[test]
    fn a_follower_that_counts_lets_go_of_nothing_that_its_floors_do_not_cover() {
        assert!(!synced(&[5, 4]).may_let_go(&[5, 5]));
        assert!(synced(&[5, 5]).may_let_go(&[5, 5]));
        let acked = StreamProgress { start: Some(0), acked: 9, landed: 9, floor: 4 };
        let behind = FollowerProgress { synced: true, streams: vec![acked] };
        assert!(!behind.may_let_go(&[5]), "it has it, and its page does not say so yet");
        let landing = StreamProgress { landed: 4, floor: 9, ..acked };
        let landing = FollowerProgress { synced: true, streams: vec![landing] };
        assert!(!landing.may_let_go(&[5]), "what it acknowledged may still land");
        assert!(landing.may_let_go(&[4]));
    }

    #[test]
    fn a_follower_that_is_being_synced_lets_go_of_nothing_that_is_on_its_way() {
        let mut follower = FollowerProgress { synced: false, streams: vec![StreamProgress::default(); 2] };
        assert!(follower.may_let_go(&[5, 5]), "nobody relies on it, and nothing is sent to it");
        follower.streams[0].start = Some(5);
        assert!(follower.may_let_go(&[5, 5]), "all of that is pushed, and nothing sent");
        assert!(!follower.may_let_go(&[6, 5]), "what it sends has not arrived");
        follower.streams[0].acked = 6;
        assert!(!follower.may_let_go(&[6, 5]), "it has arrived, and may still land");
        follower.streams[0].landed = 6;
        assert!(follower.may_let_go(&[6, 5]));
        follower.streams[1].start = Some(2);
        assert!(!follower.may_let_go(&[6, 5]));
        (follower.streams[1].acked, follower.streams[1].landed) = (5, 5);
        assert!(follower.may_let_go(&[6, 5]));
        assert_eq!(follower.lag([8, 5]), 2);
    }
}
