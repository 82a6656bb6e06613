//! The segment table of the file, as its writer has it: the lines of each page, and which copy counts.

use std::collections::BTreeSet;

use longarm_base::limits::LINE;
use longarm_memory::SumKey;

use crate::layout::{COPIES, PAGE_BYTES, PAGE_HEADER, PAGE_LINES, SUM_KEY, page, page_at};
use crate::sequence::Sequence;

/// The line of a segment.
pub type Line = [u8; LINE as usize];

/// A page.
#[derive(Clone)]
struct Page {
    sequence: Sequence,
    bytes: Vec<u8>,
}

/// All pages.
pub struct TablePages {
    pages: Vec<Page>,
    changed: BTreeSet<u64>,
    /// Written since the last sync.
    written: BTreeSet<u64>,
}

impl TablePages {
    /// Pages of lines that are zero, none of which was written.
    pub fn new(pages: u64) -> TablePages {
        let page = Page { sequence: Sequence::default(), bytes: vec![0; PAGE_BYTES as usize] };
        TablePages { pages: vec![page; pages as usize], changed: BTreeSet::new(), written: BTreeSet::new() }
    }

    /// All pages are to be written.
    pub fn change_all(&mut self) {
        self.changed = (0..self.pages.len() as u64).collect();
    }

    /// Takes what is in the copies of a page; which of them are whole, if any is.
    pub fn take(&mut self, number: u64, copies: [&[u8]; COPIES as usize]) -> Option<[bool; COPIES as usize]> {
        let found = [0, 1].map(|copy| decode(number, copy as u64, copies[copy]));
        let whole = found.each_ref().map(Option::is_some);
        self.pages[number as usize] = found.into_iter().flatten().max_by_key(|page| page.sequence.written)?;
        Some(whole)
    }

    /// The line of a segment.
    pub fn line(&self, segment: u32) -> Line {
        let (page, at) = place(segment);
        self.pages[page].bytes[at..at + LINE as usize].try_into().expect("a line")
    }

    /// Changes the line of a segment.
    pub fn set_line(&mut self, segment: u32, line: &Line) {
        let (page, at) = place(segment);
        let old = &mut self.pages[page].bytes[at..at + LINE as usize];
        if old != line {
            old.copy_from_slice(line);
            self.changed.insert(page as u64);
        }
    }

    /// Whether some page changed since it was written.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Whether all pages are there as they are.
    pub fn is_synced(&self) -> bool {
        self.changed.is_empty() && self.written.is_empty()
    }

    /// The pages that changed since they were written: where each goes, and its bytes. It goes where the copy
    /// is not that counts.
    pub fn take_changed(&mut self) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        for number in std::mem::take(&mut self.changed) {
            let page = &mut self.pages[number as usize];
            let copy = page.sequence.write() % COPIES;
            all.push((page_at(number, copy), encode(number, page)));
            self.written.insert(number);
        }
        all
    }

    /// The page that has the line of a segment: where the copy is that counts, if it is what the page says
    /// now.
    pub fn counts(&self, segment: u32) -> Option<(u64, u64)> {
        let number = place(segment).0 as u64;
        let copy = self.pages[number as usize].sequence.synced() % COPIES;
        let is_there = !self.changed.contains(&number) && !self.written.contains(&number);
        is_there.then(|| (number, page_at(number, copy)))
    }

    /// Whether this is the copy of a page that counts.
    pub fn is_copy(&self, number: u64, bytes: &[u8]) -> bool {
        let page = &self.pages[number as usize];
        bytes == encode(number, page)
    }

    /// A page is to be written.
    pub fn change(&mut self, number: u64) {
        self.changed.insert(number);
    }

    /// What was written is there.
    pub fn synced(&mut self) {
        for number in std::mem::take(&mut self.written) {
            self.pages[number as usize].sequence.sync();
        }
    }
}

fn place(segment: u32) -> (usize, usize) {
    let (page, line) = (u64::from(segment) / PAGE_LINES, u64::from(segment) % PAGE_LINES);
    (page as usize, (PAGE_HEADER + line * LINE) as usize)
}

fn encode(number: u64, page: &Page) -> Vec<u8> {
    let mut bytes = page.bytes.clone();
    let mut put =
        |word: usize, value: u64| bytes[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
    put(page::SEQUENCE, page.sequence.written);
    put(page::NUMBER, number);
    let sum = SumKey::new(SUM_KEY).sum(page_at(number, page.sequence.written % COPIES), &bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode(number: u64, copy: u64, bytes: &[u8]) -> Option<Page> {
    let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes"));
    let sequence = word(page::SEQUENCE);
    let sum = SumKey::new(SUM_KEY).sum(page_at(number, copy), &bytes[8..]);
    let is_whole = word(page::SUM) == sum && word(page::NUMBER) == number && sequence % COPIES == copy;
    is_whole.then(|| Page { sequence: Sequence::of(sequence), bytes: bytes.to_vec() })
}
