//! A scan of one instant, over any number of pages and groups: a double collect (decision 34).
//!
//! (1) The client takes all pages, one after the other, each of which was the table at some moment. Then, at
//!     one instant, it has all of them.
//! (2) After that instant it asks each replica that has made a page whether anything has changed in the
//!     page's range since. The replica looks at the marks of its leaves, and answers by the rule by which it
//!     answers pages: so the range was the same from the page's moment on until after the instant.
//! (3) If any range has changed, all begins anew. So it is for ranges that are narrow, or hardly written.
//!
//! Items whose time to live ends are looked at as those of a page are, as of the instant.

use longarm_base::{Mutant, Nanos};
use longarm_fabric::Transport;
use longarm_host::now;
use longarm_wire::{ScanAnswer, ScanStatus};

use super::ask::{Miss, Tries, foul};
use super::items::{Items, ScanItem};
use super::made::Made;
use super::merge::{Merge, MergeStep};
use super::page::Came;
use super::range::{Rest, Scan};
use crate::client::Client;
use crate::deadline::Deadline;
use crate::error::Error;

/// The most items of a scan of one instant: they are all in memory at once.
const TOGETHER_MAX: usize = 1 << 16;
const TOO_MANY: Error = Error::Invalid("a scan of more than 65,536 items at one instant: give it a limit");

/// A page that is to be looked at again.
struct Held {
    /// The range of which it speaks.
    range: Rest,
    made: Made,
    came: Came,
}

/// Takes a scan of one instant from `groups` groups, of which `client` gives the clients.
pub(crate) fn together<C, T: Transport>(
    of: &mut C,
    groups: usize,
    client: impl for<'c> Fn(&'c mut C, usize) -> Result<&'c mut Client<T>, Error>,
    scan: &Scan,
) -> Result<Vec<ScanItem>, Error> {
    let deadline = client(of, 0)?.deadline();
    loop {
        let mut parts = Vec::with_capacity(groups);
        for group in 0..groups {
            parts.push(client(of, group)?.hold(scan)?);
        }
        let count: usize = parts.iter().flatten().map(|held: &Held| held.came.items.len()).sum();
        let most = scan.most().map_or(count, |most| count.min(usize::try_from(most).unwrap_or(usize::MAX)));
        if most > TOGETHER_MAX {
            return Err(TOO_MANY);
        }
        let at = now();
        let mut stands = true;
        for (group, held) in parts.iter().enumerate() {
            stands = stands && client(of, group)?.still_holds(held, at, &deadline)?;
        }
        if stands {
            return Ok(merged(parts, most, scan.is_reverse()));
        }
        if deadline.is_over(now()) {
            let why = "keys of its range are written all the time, so its pages do not hold together";
            return Err(Error::NoPage(why.into()));
        }
    }
}

/// The first items of all groups, in order.
fn merged(parts: Vec<Vec<Held>>, most: usize, reverse: bool) -> Vec<ScanItem> {
    let mut merge = Merge::new(parts.len(), reverse);
    let mut pages: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    let mut items = Vec::with_capacity(most);
    while items.len() < most {
        match merge.step() {
            MergeStep::Item(group) => items.push(merge.show(group).to_item()),
            MergeStep::Fetch(group) => {
                let page = pages[group].next();
                let more = page.is_some();
                merge.feed(group, page.map_or_else(Items::default, |held| held.came.items), more);
            }
            MergeStep::End => break,
        }
    }
    items
}

impl<T: Transport> Client<T> {
    /// All items of a scan, as they were at one instant, however many pages they take. Keys of the range that
    /// are written meanwhile make it begin anew: it is for ranges that are narrow, or hardly written, and
    /// fails with [`Error::NoPage`] where that does not end within the timeout. At most 65,536 items: give
    /// larger ranges a limit.
    pub fn scan_together(&mut self, scan: &Scan) -> Result<Vec<ScanItem>, Error> {
        together(self, 1, |client, _| Ok(client), scan)
    }

    /// Takes the pages of a scan, with what it takes to look at them again.
    fn hold(&mut self, scan: &Scan) -> Result<Vec<Held>, Error> {
        let (mut all, mut count) = (Vec::new(), 0);
        let mut rest = Some(Rest::of(scan, None)?).filter(|rest| !rest.is_empty());
        while let Some(of) = rest.take() {
            let came = self.next_page(&of, None)?;
            count += came.items.len();
            if count > TOGETHER_MAX {
                return Err(TOO_MANY);
            }
            let range = match came.items.last().filter(|_| came.more) {
                Some(last) => of.clone().until(last.key),
                None => of.clone(),
            };
            rest = came.leave(of);
            let made = came.made.clone().expect("each page was made of a tree");
            all.push(Held { range, made, came });
        }
        Ok(all)
    }

    /// Whether all pages show what was there at an instant that has passed since they came.
    fn still_holds(&mut self, pages: &[Held], at: Nanos, deadline: &Deadline) -> Result<bool, Error> {
        for held in pages {
            match self.recheck(held, at, deadline) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(miss) => return self.missed(miss, &mut Tries::default(), deadline).map(|()| false),
            }
        }
        Ok(true)
    }

    fn recheck(&mut self, held: &Held, at: Nanos, deadline: &Deadline) -> Result<bool, Miss> {
        if Mutant::TogetherUnchecked.is_on() {
            return Ok(true);
        }
        self.ensure_lease(deadline).map_err(Miss::Leader)?;
        let Held { range, made, came } = held;
        if !self.scans.take_up(&made.replica) {
            return Ok(false);
        }
        let asked = self.send_recheck(range, made.moment)?;
        if (asked.boot, asked.term) != (made.boot, made.term) {
            return Ok(false);
        }
        let arrived = self.await_answer(asked, deadline)?;
        let answer = ScanAnswer::decode(&arrived.bytes).map_err(foul)?;
        if answer.head.status != ScanStatus::Ok {
            return Ok(false);
        }
        self.check_led(asked, arrived.at, deadline)?;
        self.check_time(came, at, deadline)?;
        Ok(true)
    }
}
