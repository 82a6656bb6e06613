//! WRITEs that race: of two queue pairs to the same bytes, while neither poster knows that the other's WRITE
//! has completed. Which of them lands last is chance, and words of both may stay. That harms nobody only if
//! both bring the same bytes.
//!
//! A WRITE is under way from the moment at which it is posted. It is not any more once its completion has
//! come, or nothing of its queue pair can land: the far end revoked it, was told that it is closed, or is
//! lost. A race is told to the world's judge, whatever then lands.

use std::sync::Arc;

use longarm_host::Mutex;

use super::end::SimSide;

/// One end of a connection: names the poster of a WRITE.
pub(super) type Poster = (usize, SimSide);

/// The WRITEs that are under way.
#[derive(Debug, Default)]
pub(super) struct Races(Mutex<Vec<UnderWay>>);

/// A WRITE that is under way.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub poster: Poster,
    pub number: u64,
    /// Names the far memory.
    pub memory: usize,
    pub offset: u64,
    pub bytes: Arc<[u8]>,
}

impl UnderWay {
    /// The first offset at which both write, and not the same.
    fn differs(&self, other: &UnderWay) -> Option<u64> {
        let end = |it: &UnderWay| it.offset + it.bytes.len() as u64;
        let (from, to) = (self.offset.max(other.offset), end(self).min(end(other)));
        if self.memory != other.memory || self.poster == other.poster || from >= to {
            return None;
        }
        let of = |it: &UnderWay| (from - it.offset) as usize..(to - it.offset) as usize;
        let (ours, theirs) = (&self.bytes[of(self)], &other.bytes[of(other)]);
        let at = (ours != theirs).then(|| ours.iter().zip(theirs).take_while(|(a, b)| a == b).count());
        at.map(|at| from + at as u64)
    }
}

impl Races {
    /// A WRITE is posted. Returns an offset at which it races with another, if it does.
    pub fn posted(&self, write: UnderWay) -> Option<u64> {
        let mut under_way = self.0.lock();
        let raced = under_way.iter().find_map(|other| write.differs(other));
        under_way.push(write);
        raced
    }

    /// The poster of this WRITE learns of its completion.
    pub fn completed(&self, poster: Poster, number: u64) {
        self.0.lock().retain(|write| (write.poster, write.number) != (poster, number));
    }

    /// Nothing that this end posted can land any more.
    pub fn over(&self, poster: Poster) {
        self.0.lock().retain(|write| write.poster != poster);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(races: &Races, queue_pair: usize, number: u64, offset: u64, bytes: &[u8]) -> Option<u64> {
        races.posted(UnderWay { poster: (queue_pair, 0), number, memory: 1, offset, bytes: bytes.into() })
    }

    #[test]
    fn two_queue_pairs_that_write_other_bytes_to_one_place_race() {
        let races = Races::default();
        assert_eq!(post(&races, 1, 1, 64, &[1; 64]), None);
        assert_eq!(post(&races, 2, 1, 0, &[2; 64]), None, "beside it");
        assert_eq!(post(&races, 1, 2, 64, &[3; 64]), None, "one queue pair's are in order");
        assert_eq!(post(&races, 2, 2, 120, &[3; 16]), Some(120), "the first of them was another");
    }

    #[test]
    fn the_same_bytes_and_what_is_known_to_be_there_race_with_nothing() {
        let races = Races::default();
        assert_eq!(post(&races, 1, 1, 64, &[1; 64]), None);
        assert_eq!(post(&races, 2, 1, 64, &[1; 32]), None, "the same bytes");
        races.completed((1, 0), 1);
        races.over((2, 0));
        assert_eq!(post(&races, 3, 1, 64, &[2; 64]), None);
        assert_eq!(post(&races, 1, 3, 96, &[2, 3]), Some(97), "the first of them is the same");
    }
}
