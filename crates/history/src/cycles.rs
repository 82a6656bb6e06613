//! One order of all operations and pages of a group: the answers say what must be before what, and if that
//! goes round in a circle, no order explains them (I15e).
//!
//! Before each other are: what ended before another was called; the writes of a key, by their versions; a
//! write and who saw it; who saw a state of a key, and the write that ended that state. Where no such circle
//! is, any order that keeps to all of this explains all answers. So it finds what a look at each key alone,
//! or at each page alone, does not: four operations on two keys may each be in order with their neighbours,
//! and have no order together.
//!
//! It is quick, over every operation, and trusts the versions that the store names. Who found nothing names
//! no version: it saw one of those states without a value that were there in its time, and counts as far as
//! these follow each other. Operations in doubt may have taken effect at any time after their call, or
//! never; they did if somebody saw it.

use std::collections::BTreeMap;

use longarm_base::Csn;

use crate::chains::{Chain, Find, Placed, Sight};
use crate::graph::Graph;
use crate::violation::{Before, Who};
use crate::{History, Invocation, Item, Operation, OperationOutcome, Page, Value, Violation};

/// Judges all operations and pages of a group together. Says how many of them left open what they saw or
/// where they belong: if none did, the history has an order; otherwise it may have none for reasons that the
/// versions do not show.
pub fn judge(history: &History) -> Result<usize, Violation> {
    if let Some((page, rule)) = history.pages().iter().find_map(|page| Some((page, page.shape().err()?))) {
        return Err(Violation::by(rule, [Who::Page(page)]));
    }
    let deeds = history.by_call();
    let mut order = Order { deeds: &deeds, graph: Graph::of(&deeds), wrong: None, open: 0 };
    let chains = chains(&deeds)?;
    for (&key, chain) in &chains {
        order.chain(key, chain);
    }
    for (deed, who) in deeds.iter().enumerate() {
        match who {
            Who::Operation(operation) => {
                if let Some(chain) = chains.get(&operation.key) {
                    order.operation(deed, operation, chain);
                }
            }
            Who::Page(page) => order.page(deed, page, &chains),
        }
    }
    order.verdict()
}

/// What is known of each key that somebody may have written, or saw.
fn chains(deeds: &[Who<'_>]) -> Result<BTreeMap<u32, Chain>, Violation> {
    #[derive(Default)]
    struct Key {
        operations: Vec<usize>,
        finds: Vec<Find>,
    }
    let mut keys: BTreeMap<u32, Key> = BTreeMap::new();
    for (deed, who) in deeds.iter().enumerate() {
        match who {
            Who::Operation(operation) => {
                let key = keys.entry(operation.key).or_default();
                key.operations.push(deed);
                key.finds.extend(found(deed, operation));
            }
            Who::Page(page) => {
                for item in &page.items {
                    let find = Find { deed, value: item.value, version: item.version };
                    keys.entry(item.key).or_default().finds.push(find);
                }
            }
        }
    }
    keys.into_iter().map(|(key, of)| Ok((key, Chain::of(deeds, &of.operations, &of.finds)?))).collect()
}

/// What an operation found, if its answer names that.
fn found(deed: usize, operation: &Operation) -> Option<Find> {
    let version = operation.version;
    match operation.outcome {
        OperationOutcome::Found(value) => Some(Find { deed, value: Some(value), version }),
        // Who was refused may be told the version that is there instead.
        OperationOutcome::Refused => {
            version.filter(|&version| version != Csn::NONE)?;
            Some(Find { deed, value: None, version })
        }
        _ => None,
    }
}

/// What is said of a cycle.
const CYCLE: &str =
    "no order explains the answers: each of these is before the next, the last before the first";

/// What must be before what, as far as it is known.
struct Order<'a> {
    deeds: &'a [Who<'a>],
    graph: Graph,
    /// The first answer that nothing explains, whatever the order.
    wrong: Option<Violation>,
    open: usize,
}

impl<'a> Order<'a> {
    /// The writes of a key, and who saw which of them.
    fn chain(&mut self, key: u32, chain: &Chain) {
        for pair in chain.writes.windows(2) {
            self.graph.add(pair[0].deed, pair[1].deed, Before::Version(key));
        }
        for seen in &chain.seen {
            let (first, last) = (seen.state, seen.state);
            self.between(seen.deed, key, chain, Placed { first, last, whole: true });
        }
        for loose in &chain.loose {
            self.graph.add(loose.writer, loose.reader, Before::Seen(key));
        }
        self.open += chain.open;
    }

    /// Who saw one of some states is after the write that left the first, before the one that ended the last.
    fn between(&mut self, deed: usize, key: u32, chain: &Chain, placed: Placed) {
        if let Some(before) = chain.left_by(placed.first) {
            self.graph.add(before, deed, Before::Seen(key));
        }
        if let Some(after) = chain.ended_by(placed.last) {
            self.graph.add(deed, after, Before::Unseen(key));
        }
        self.open += usize::from(!placed.whole);
    }

    /// Of answers that nothing explains, the first counts.
    fn accuse(&mut self, rule: &'static str, guilty: impl IntoIterator<Item = Who<'a>>) {
        self.wrong.get_or_insert_with(|| Violation::by(rule, guilty));
    }

    /// Who saw a key without its version.
    fn look(&mut self, deed: usize, key: u32, chain: &Chain, sight: Sight) {
        let who = self.deeds[deed];
        match chain.place(sight, who.call(), who.end()) {
            Some(placed) => self.between(deed, key, chain, placed),
            None => {
                let rule = match sight {
                    Sight::Nothing => "a key is absent that was there all the time",
                    Sight::Something => "a key is there that was absent all the time",
                    Sight::Not(_) => "a condition did not hold that held all the time",
                };
                let mut guilty: Vec<usize> = chain.last_before(who.call()).into_iter().flatten().collect();
                guilty.push(deed);
                guilty.dedup();
                self.accuse(rule, guilty.into_iter().map(|deed| self.deeds[deed]).collect::<Vec<_>>());
            }
        }
    }

    /// What a page saw of the keys that it covers, besides what it names.
    fn page(&mut self, deed: usize, page: &Page, chains: &BTreeMap<u32, Chain>) {
        let mut shown: Vec<&Item> = page.items.iter().collect();
        shown.sort_unstable_by_key(|item| item.key);
        for (key, chain) in page.among(chains) {
            match shown.binary_search_by_key(&key, |item| item.key).map(|at| shown[at]) {
                Err(_) => self.look(deed, key, chain, Sight::Nothing),
                Ok(Item { value: None, version: None, .. }) => {
                    self.look(deed, key, chain, Sight::Something);
                }
                // What it names is in the chain.
                Ok(_) => {}
            }
        }
    }

    /// What an operation saw of its key, besides what its answer names.
    fn operation(&mut self, deed: usize, operation: &Operation, chain: &Chain) {
        let (key, doubt) = (operation.key, operation.in_doubt());
        let refused = operation.outcome == OperationOutcome::Refused;
        let none = refused && operation.version == Some(Csn::NONE);
        let absent = operation.outcome == OperationOutcome::Absent || none;
        match operation.action {
            Invocation::Expire(value) => self.expiry(deed, key, chain, value),
            Invocation::Replace { expected, .. }
                if refused && chain.is_under(expected, operation.version) =>
            {
                self.accuse("refused, and its condition held", [self.deeds[deed]]);
            }
            // The place of whoever was told a version is known.
            _ if refused && !absent && operation.version.is_some() => {}
            Invocation::Replace { expected, .. } if refused => {
                let sight = if absent { Sight::Nothing } else { Sight::Not(chain.state_of(expected)) };
                self.look(deed, key, chain, sight);
            }
            Invocation::PutIfAbsent(_) if refused => self.look(deed, key, chain, Sight::Something),
            Invocation::Get | Invocation::Delete if absent => self.look(deed, key, chain, Sight::Nothing),
            Invocation::Replace { expected, .. } => self.replaced(deed, operation, chain, expected),
            Invocation::PutIfAbsent(_) => self.condition(deed, operation, chain, Sight::Nothing),
            Invocation::Delete if !doubt => self.condition(deed, operation, chain, Sight::Something),
            Invocation::Get | Invocation::Put(_) | Invocation::Delete => {}
        }
    }

    /// Nobody sees a value after its time; who wrote or saw it is before that.
    fn expiry(&mut self, deed: usize, key: u32, chain: &Chain, value: Value) {
        if let Some(writer) = chain.writer_of(value) {
            self.graph.add(writer, deed, Before::Over(key));
        }
        for seen in chain.state_of(value).map_or(&[][..], |state| chain.seen_in(state)) {
            self.graph.add(seen.deed, deed, Before::Over(key));
        }
    }

    /// A write whose condition held. One in doubt that nobody saw may not have happened.
    fn condition(&mut self, deed: usize, operation: &Operation, chain: &Chain, sight: Sight) {
        let Some(state) = chain.found_by(operation) else {
            if !operation.in_doubt() {
                self.look(deed, operation.key, chain, sight);
            }
            return;
        };
        match chain.holds(sight, state) {
            Some(certain) => self.open += usize::from(!certain),
            None => {
                let rule = match sight {
                    Sight::Nothing => "written as if nothing was there, and something was",
                    _ => "removed, and nothing was there",
                };
                let guilty = chain.left_by(state).into_iter().chain([deed]).map(|deed| self.deeds[deed]);
                self.accuse(rule, guilty.collect::<Vec<_>>());
            }
        }
    }

    /// A write that replaced a value, and so saw it.
    fn replaced(&mut self, deed: usize, operation: &Operation, chain: &Chain, expected: Value) {
        let written = chain.found_by(operation);
        if operation.in_doubt() && written.is_none() {
            return;
        }
        // Nobody finds the value that only he is about to write.
        let writer = chain.writer_of(expected).filter(|&writer| writer != deed);
        match (chain.state_of(expected).filter(|_| writer.is_some()), writer) {
            (Some(state), _) => {
                self.between(deed, operation.key, chain, Placed { first: state, last: state, whole: true });
            }
            (None, Some(writer)) => {
                self.graph.add(writer, deed, Before::Seen(operation.key));
                self.open += 1;
            }
            (None, None) => {
                let who = self.deeds[deed];
                self.accuse("a value was replaced that nobody wrote", [who]);
            }
        }
    }

    fn verdict(self) -> Result<usize, Violation> {
        if let Some(steps) = self.graph.cycle() {
            let before = steps.iter().map(|step| step.why).collect();
            let guilty = steps.iter().map(|step| self.deeds[step.deed]);
            return Err(Violation { before, ..Violation::by(CYCLE, guilty) });
        }
        self.wrong.map_or(Ok(self.open), Err)
    }
}
