//! When GETs are asked of the server at once, as READs of late did not complete within a lease.
//!
//! A GET whose READs do not count has made one round trip in vain, or several, before the server is asked.
//! Where a round trip takes about a lease, as with many more clients than cores, most of them would. So after
//! such a GET the server is asked at once by some, and one tries READs again: the more of these tries are in
//! vain, the fewer there are.

/// GETs that ask at once between two that try READs: at first, and at most.
const ASK: u32 = 4;
const ASK_MAX: u32 = 256;

/// What a connection knows of its GETs by READs.
#[derive(Debug)]
pub(crate) struct Fallback {
    /// GETs that ask at once before one tries READs.
    left: u32,
    next: u32,
}

impl Fallback {
    /// READs are tried.
    pub fn new() -> Fallback {
        Fallback { left: 0, next: ASK }
    }

    /// Whether the GET that begins asks at once.
    #[inline(always)]
    pub fn asks(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        true
    }

    /// READs took too long for their lease.
    pub fn in_vain(&mut self) {
        self.left = self.next;
        self.next = (2 * self.next).min(ASK_MAX);
    }

    /// READs were complete within a lease that they renewed themselves.
    pub fn counted(&mut self) {
        self.next = (self.next / 2).max(ASK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_never_count_are_hardly_tried() {
        let mut fallback = Fallback::new();
        let mut tried = 0;
        for _ in 0..10_000 {
            if !fallback.asks() {
                fallback.in_vain();
                tried += 1;
            }
        }
        assert!((30..60).contains(&tried), "{tried}");
    }

    #[test]
    fn reads_that_count_again_are_soon_tried_by_all() {
        let mut fallback = Fallback::new();
        assert!(!fallback.asks(), "nothing was in vain");
        (0..20).for_each(|_| fallback.in_vain());
        assert_eq!(fallback.left, ASK_MAX);
        let asked = (0..1000).filter(|_| fallback.asks()).count();
        assert_eq!(asked, ASK_MAX as usize, "then all of them try");
        (0..10).for_each(|_| fallback.counted());
        fallback.in_vain();
        assert_eq!(fallback.left, ASK, "one that is late by chance costs little");
    }
}
