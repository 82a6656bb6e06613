//! Which segments followers, the leader's disk and a backup are asked to let go of, before a leader frees
//! them.

use std::collections::BTreeMap;

use longarm_base::{Csn, ReplicaId};

use crate::ReplicaSet;

/// Who is asked. The leader's disk goes by the leader's own id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Party {
    /// A replica.
    Replica(ReplicaId),
    /// The one backup that is under way.
    Backup,
}

impl From<ReplicaId> for Party {
    fn from(replica: ReplicaId) -> Party {
        Party::Replica(replica)
    }
}

/// A set of those who are asked.
#[derive(Clone, Copy, Debug, Default)]
struct Parties {
    replicas: ReplicaSet,
    backup: bool,
}

impl Parties {
    fn add(&mut self, party: Party) {
        match party {
            Party::Replica(replica) => {
                self.replicas.add(replica);
            }
            Party::Backup => self.backup = true,
        }
    }

    fn remove(&mut self, party: Party) {
        match party {
            Party::Replica(replica) => self.replicas.remove(replica),
            Party::Backup => self.backup = false,
        }
    }

    fn has(&self, party: Party) -> bool {
        match party {
            Party::Replica(replica) => self.replicas.has(replica),
            Party::Backup => self.backup,
        }
    }

    fn is_empty(&self) -> bool {
        self.replicas.count() == 0 && !self.backup
    }
}

/// Segments that are to be freed once everyone who joined has let go of them (M9).
#[derive(Clone, Debug, Default)]
pub struct Releases {
    joined: Parties,
    /// How many were ever asked for.
    count: u64,
    segments: BTreeMap<u32, Asked>,
}

#[derive(Clone, Debug)]
struct Asked {
    waiting: Parties,
    /// What the streams had written by then: all that the segment held, and all that made it needless.
    written: Vec<u64>,
    /// The highest version that was drawn by then.
    csn: Csn,
}

/// What a follower is to let go of.
#[derive(PartialEq, Eq, Debug)]
pub struct LetGo {
    /// By number.
    pub segments: Vec<u32>,
    /// By stream, what was written by then: all that they held, and all that made them needless.
    pub written: Vec<u64>,
    /// Of how many it was told in all, once it has let go of these.
    pub told: u64,
}

/// Each of `least` is at least as in `by`.
pub fn raise(least: &mut Vec<u64>, by: &[u64]) {
    least.resize(least.len().max(by.len()), 0);
    least.iter_mut().zip(by).for_each(|(least, by)| *least = (*least).max(*by));
}

impl Releases {
    /// From now on this one is asked: also for what others are being asked for, as the table that it is given
    /// next, or READs, still has that.
    pub fn join(&mut self, party: impl Into<Party>) {
        let party = party.into();
        self.joined.add(party);
        for asked in self.segments.values_mut() {
            asked.waiting.add(party);
        }
    }

    /// It is not asked any more: a follower comes back only by being synced anew.
    pub fn leave(&mut self, party: impl Into<Party>) {
        let party = party.into();
        self.joined.remove(party);
        self.segments.values_mut().for_each(|asked| asked.waiting.remove(party));
    }

    /// Asks for a segment, when the streams have written so much, and versions are drawn up to `csn`.
    pub fn ask(&mut self, segment: u32, written: Vec<u64>, csn: Csn) {
        let waiting = self.joined;
        self.count += 1;
        self.segments.insert(segment, Asked { waiting, written, csn });
    }

    /// How many were ever asked for.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What the follower is asked for, of what it has everything that was written and drawn until then, as
    /// `has` says.
    ///
    /// Followers let go in the order in which segments were asked for, as more is written with each: who was
    /// told of more let go of all that another did.
    pub fn asked(&self, party: impl Into<Party>, has: impl Fn(&[u64], Csn) -> bool) -> LetGo {
        let party = party.into();
        let mine = self.segments.iter().filter(|(_, asked)| asked.waiting.has(party));
        let (now, later): (Vec<_>, Vec<_>) = mine.partition(|(_, asked)| has(&asked.written, asked.csn));
        let mut written = Vec::new();
        now.iter().for_each(|(_, asked)| raise(&mut written, &asked.written));
        let segments = now.into_iter().map(|(segment, _)| *segment).collect();
        LetGo { segments, written, told: self.count - later.len() as u64 }
    }

    /// It has let go of them.
    pub fn let_go(&mut self, party: impl Into<Party>, segments: &[u32]) {
        let party = party.into();
        for segment in segments {
            if let Some(asked) = self.segments.get_mut(segment) {
                asked.waiting.remove(party);
            }
        }
    }

    /// Whether it has let go of all that it was asked for.
    pub fn is_done(&self, party: impl Into<Party>) -> bool {
        let party = party.into();
        self.segments.values().all(|asked| !asked.waiting.has(party))
    }

    /// Whether there are segments that somebody has still to let go of.
    pub fn is_waiting(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Frees those for which nobody is waited for: in one step, so that who joins is asked for a segment, or
    /// finds it free. Whether there were any.
    pub fn free(&mut self, mut free: impl FnMut(u32)) -> bool {
        let before = self.segments.len();
        self.segments.retain(|segment, asked| {
            let is_waited_for = !asked.waiting.is_empty();
            if !is_waited_for {
                free(*segment);
            }
            is_waited_for
        });
        self.segments.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freed(releases: &mut Releases) -> Vec<u32> {
        let mut freed = Vec::new();
        assert_eq!(releases.free(|segment| freed.push(segment)), !freed.is_empty());
        freed
    }

    #[test]
    fn a_follower_is_told_of_no_more_segments_than_it_let_go_of() {
        let (mut releases, near, far) = (Releases::default(), ReplicaId(1), ReplicaId(2));
        releases.join(near);
        releases.ask(9, vec![10], Csn(1));
        // The table that it is given has segment 9, as it is not free yet.
        releases.join(far);
        releases.ask(4, vec![20], Csn(2));
        releases.ask(7, vec![30], Csn(2));
        let until = |acked: u64| move |written: &[u64], _: Csn| written[0] <= acked;
        let asked = |segments, written, told| LetGo { segments, written, told };
        assert_eq!(releases.asked(near, until(20)), asked(vec![4, 9], vec![20], 2));
        releases.let_go(near, &[4, 9]);
        assert_eq!(releases.asked(far, until(0)), asked(vec![], vec![], 0));
        assert_eq!(freed(&mut releases), [0; 0]);
        assert_eq!(releases.asked(far, until(10)), asked(vec![9], vec![10], 1));
        releases.let_go(far, &[9]);
        assert_eq!(freed(&mut releases), [9]);
        assert_eq!(releases.asked(near, until(30)), asked(vec![7], vec![30], 3));
        releases.leave(far);
        assert_eq!(freed(&mut releases), [4]);
    }
    #[test]
    fn a_backup_is_waited_for_as_a_replica_is() {
        let mut releases = Releases::default();
        releases.ask(3, vec![], Csn(1));
        releases.join(Party::Backup);
        releases.ask(5, vec![], Csn(1));
        assert_eq!(freed(&mut releases), [0; 0], "it may still have to copy segment 3, too");
        assert_eq!(releases.asked(Party::Backup, |_, _| true).segments, [3, 5]);
        releases.let_go(Party::Backup, &[5]);
        assert!(!releases.is_done(Party::Backup) && releases.is_done(ReplicaId(0)));
        assert_eq!(freed(&mut releases), [5]);
        releases.leave(Party::Backup);
        assert_eq!(freed(&mut releases), [3]);
        releases.ask(7, vec![], Csn(2));
        assert_eq!(freed(&mut releases), [7]);
    }
}
