//! Memory that remembers every store, so that torn READs are enumerated and not waited for.
//!
//! A one-sided READ samples each cache line at its own moment, in any order, between its start and its end
//! (docs/protocol.md). [`Journal::cuts`] yields every distinct outcome of such a READ over stores,
//! together with the shortest interval of moments that can have produced it. An answer accepted from a cut
//! must be an answer that some *atomic* look within that interval would have given; that is what "no torn
//! READ is accepted" means, and the tests of every structure check exactly it.

use std::sync::Mutex;

use longarm_base::limits::LINE;

use crate::words::{OwnedWords, Words};

/// What happened to journalled memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JournalEvent {
    /// A store of the word at this place.
    Store { at: u64, old: u64, new: u64 },
    /// A flush of a range.
    Flush { at: u64, len: u64 },
    /// A fence.
    Fence,
}

struct JournalState {
    words: Vec<u64>,
    events: Vec<JournalEvent>,
}

/// Journalled memory. Moments are counted in events: moment `m` is the state after the first `m` events.
pub struct Journal {
    state: Mutex<JournalState>,
}

/// One outcome of a READ.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The bytes read.
    pub bytes: Vec<u8>,
    /// The READ's last sample was not before this moment.
    pub since: usize,
    /// The READ's first sample was not after this moment.
    pub until: usize,
}

impl Cut {
    /// The shortest interval of moments, both included, in which the READ can have happened.
    pub fn interval(&self) -> (usize, usize) {
        (self.since.min(self.until), self.since.max(self.until))
    }

    /// Joins the evidence of a READ that was posted after this one completed; `None` if no such pair exists.
    pub fn then(&self, later: &Cut) -> Option<Cut> {
        if later.until < self.since {
            return None;
        }
        Some(Cut {
            bytes: later.bytes.clone(),
            since: self.since.max(later.since),
            until: self.until.min(later.until),
        })
    }
}

impl Journal {
    /// Zeroed memory of `bytes` bytes.
    pub fn new(bytes: u64) -> Journal {
        let words = vec![0; bytes.div_ceil(8) as usize];
        Journal { state: Mutex::new(JournalState { words, events: Vec::new() }) }
    }

    /// Memory of these bytes, whole words of them.
    pub fn of(bytes: &[u8]) -> Journal {
        let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("whole words"));
        let words = bytes.chunks(8).map(word).collect();
        Journal { state: Mutex::new(JournalState { words, events: Vec::new() }) }
    }

    /// The present moment.
    pub fn now(&self) -> usize {
        self.state.lock().expect("journal").events.len()
    }

    /// What happened until now.
    pub(crate) fn events(&self) -> Vec<JournalEvent> {
        self.state.lock().expect("journal").events.clone()
    }

    /// What an atomic look at a range would have seen at `moment`.
    pub fn at(&self, moment: usize, at: u64, len: usize) -> Vec<u8> {
        let state = self.state.lock().expect("journal");
        let mut bytes = vec![0; len];
        copy_words(&state.words, at, &mut bytes);
        for event in state.events[moment..].iter().rev() {
            if let JournalEvent::Store { at: word, old, .. } = *event {
                put_word(&mut bytes, at, word, old);
            }
        }
        bytes
    }

    /// Every distinct outcome of one READ of `len` bytes at `at` whose samples fall into `from..=to`.
    /// The number of outcomes is the product over lines of one plus the stores that changed the line.
    pub fn cuts(&self, at: u64, len: usize, from: usize, to: usize) -> Vec<Cut> {
        let first = at / LINE * LINE;
        let end = (at + len as u64).next_multiple_of(LINE);
        let mut outcomes = vec![Cut { bytes: Vec::new(), since: from, until: to }];
        for line in (first..end).step_by(LINE as usize) {
            let versions = self.line_versions(line, from, to);
            let mut next = Vec::with_capacity(outcomes.len() * versions.len());
            for outcome in &outcomes {
                for (bytes, begin, last) in &versions {
                    let mut joined = outcome.bytes.clone();
                    joined.extend_from_slice(bytes);
                    next.push(Cut {
                        bytes: joined,
                        since: outcome.since.max(*begin),
                        until: outcome.until.min(*last),
                    });
                }
            }
            outcomes = next;
        }
        let skip = (at - first) as usize;
        for outcome in &mut outcomes {
            outcome.bytes = outcome.bytes[skip..skip + len].to_vec();
        }
        outcomes
    }

    /// Contents of a line over a window, with the first and last moment of each.
    fn line_versions(&self, line: u64, from: usize, to: usize) -> Vec<(Vec<u8>, usize, usize)> {
        let mut bytes = self.at(from, line, LINE as usize);
        let state = self.state.lock().expect("journal");
        let mut versions = Vec::new();
        let mut begin = from;
        for (i, event) in state.events.iter().enumerate().take(to).skip(from) {
            if let JournalEvent::Store { at, old, new } = *event
                && at / LINE == line / LINE
                && old != new
            {
                versions.push((bytes.clone(), begin, i));
                put_word(&mut bytes, line, at, new);
                begin = i + 1;
            }
        }
        versions.push((bytes, begin, to));
        versions
    }
}

fn copy_words(words: &[u64], at: u64, into: &mut [u8]) {
    for (i, byte) in into.iter_mut().enumerate() {
        let offset = at as usize + i;
        *byte = words[offset / 8].to_le_bytes()[offset % 8];
    }
}

/// Overwrites the part of `bytes` (which start at `base`) that the word at `word` covers.
pub(crate) fn put_word(bytes: &mut [u8], base: u64, word: u64, value: u64) {
    for (i, byte) in value.to_le_bytes().iter().enumerate() {
        let offset = word + i as u64;
        if offset >= base && offset < base + bytes.len() as u64 {
            bytes[(offset - base) as usize] = *byte;
        }
    }
}

impl Words for Journal {
    fn bytes(&self) -> u64 {
        self.state.lock().expect("journal").words.len() as u64 * 8
    }

    fn load(&self, at: u64) -> u64 {
        assert!(at.is_multiple_of(8));
        self.state.lock().expect("journal").words[(at / 8) as usize]
    }

    fn copy_out(&self, at: u64, into: &mut [u8]) {
        assert!(at.is_multiple_of(8));
        copy_words(&self.state.lock().expect("journal").words, at, into);
    }
}

impl OwnedWords for Journal {
    fn store(&self, at: u64, word: u64) {
        assert!(at.is_multiple_of(8));
        let mut state = self.state.lock().expect("journal");
        let old = std::mem::replace(&mut state.words[(at / 8) as usize], word);
        state.events.push(JournalEvent::Store { at, old, new: word });
    }

    fn compare_exchange(&self, at: u64, expected: u64, new: u64) -> Result<(), u64> {
        let mut state = self.state.lock().expect("journal");
        let word = &mut state.words[(at / 8) as usize];
        if *word != expected {
            return Err(*word);
        }
        *word = new;
        state.events.push(JournalEvent::Store { at, old: expected, new });
        Ok(())
    }

    fn fetch_add(&self, at: u64, more: u64) -> u64 {
        let mut state = self.state.lock().expect("journal");
        let old = state.words[(at / 8) as usize];
        let new = old.wrapping_add(more);
        state.words[(at / 8) as usize] = new;
        state.events.push(JournalEvent::Store { at, old, new });
        old
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        assert!(at.is_multiple_of(8));
        for (i, chunk) in bytes.chunks(8).enumerate() {
            let offset = at + i as u64 * 8;
            let mut word = self.load(offset).to_le_bytes();
            word[..chunk.len()].copy_from_slice(chunk);
            self.store(offset, u64::from_le_bytes(word));
        }
    }

    fn discard(&self, at: u64, len: u64) {
        assert!(at.is_multiple_of(8) && len.is_multiple_of(8));
        for word in (at..at + len).step_by(8) {
            self.store(word, 0);
        }
    }

    fn flush(&self, at: u64, len: u64) {
        self.state.lock().expect("journal").events.push(JournalEvent::Flush { at, len });
    }

    fn fence(&self) {
        self.state.lock().expect("journal").events.push(JournalEvent::Fence);
    }
}
