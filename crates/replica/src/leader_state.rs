//! Where a leader is in its term, from its start set to its end, by handing over or otherwise: one value for
//! all of its threads. It says what they may do; they do it.

use longarm_base::{Nanos, ReplicaId};

/// Turns of a worker, after which it has answered what was applied before.
const TURNS: u64 = 2;

/// A leader's term.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum LeaderState {
    /// The start set is here.
    #[default]
    Installed,
    /// Others catch up with it; clients are not served yet.
    Forming,
    /// Clients are served.
    Serving {
        /// Since when.
        since: Nanos,
    },
    /// Clients are served, and no lease of theirs is vouched for any more: they run out.
    WindingDown {
        /// Since when clients are served.
        since: Nanos,
        /// When the last lease is over, once that is known.
        over: Option<Nanos>,
    },
    /// No new write is taken: those that were are applied and answered, and the transferee gets them.
    Draining {
        /// Since when clients are served.
        since: Nanos,
        /// By worker, its turns when all that was written was applied.
        turns: Option<Vec<u64>>,
    },
    /// The leader's own lease ends; it beats no more, and takes back what followers promised.
    Releasing {
        /// Since when clients were served.
        since: Nanos,
        /// The replica that is waited for.
        to: ReplicaId,
    },
    /// The term is over.
    Over,
}

/// A worker, as a leader that drains looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turns {
    /// It has nothing to do.
    pub sleeps: bool,
    /// Turns that it has made.
    pub made: u64,
}

impl LeaderState {
    /// Followers are to catch up.
    pub fn form(&mut self) {
        if *self == LeaderState::Installed {
            *self = LeaderState::Forming;
        }
    }

    /// Clients are served.
    pub fn serve(&mut self, now: Nanos) {
        if matches!(self, LeaderState::Installed | LeaderState::Forming) {
            *self = LeaderState::Serving { since: now };
        }
    }

    /// Another is to lead: clients' leases run out, unless they did already.
    pub fn wind_down(&mut self) {
        if let LeaderState::Serving { since } = *self {
            *self = LeaderState::WindingDown { since, over: None };
        }
    }

    /// The last lease that was vouched for is over then.
    pub fn leases_end(&mut self, at: Nanos) {
        if let LeaderState::WindingDown { over, .. } = self {
            *over = Some(at);
        }
    }

    /// Begins to drain if the last lease is over at `now`; whether it does so now.
    pub fn drain(&mut self, now: Nanos) -> bool {
        let LeaderState::WindingDown { since, over: Some(over) } = *self else { return false };
        if now >= over {
            *self = LeaderState::Draining { since, turns: None };
        }
        now >= over
    }

    /// Whether all that was written is applied and answered. `applied`: all of it is applied now.
    pub fn is_drained(&mut self, applied: bool, workers: impl Iterator<Item = Turns> + Clone) -> bool {
        let LeaderState::Draining { turns, .. } = self else { return false };
        if !applied {
            *turns = None;
            return false;
        }
        let before = turns.get_or_insert_with(|| workers.clone().map(|worker| worker.made).collect());
        workers.zip(before).all(|(worker, before)| worker.sleeps || worker.made >= *before + TURNS)
    }

    /// Nobody is handed over to: clients are served as before.
    pub fn stay(&mut self) {
        if let LeaderState::WindingDown { since, .. } | LeaderState::Draining { since, .. } = *self {
            *self = LeaderState::Serving { since };
        }
    }

    /// The leader's own lease is to end, and promises are taken back; `to` is waited for.
    pub fn release(&mut self, to: ReplicaId) {
        if let Some(since) = self.served() {
            *self = LeaderState::Releasing { since, to };
        }
    }

    /// The term is over.
    pub fn end(&mut self) {
        *self = LeaderState::Over;
    }

    /// Since when clients are served, or were until the lease was ended to hand over.
    pub fn served(&self) -> Option<Nanos> {
        match *self {
            LeaderState::Installed | LeaderState::Forming | LeaderState::Over => None,
            LeaderState::Serving { since }
            | LeaderState::WindingDown { since, .. }
            | LeaderState::Draining { since, .. }
            | LeaderState::Releasing { since, .. } => Some(since),
        }
    }

    /// Whether clients' leases are vouched for.
    pub fn vouches(&self) -> bool {
        matches!(self, LeaderState::Installed | LeaderState::Forming | LeaderState::Serving { .. })
    }

    /// Whether others are to have the start set.
    pub fn is_formed(&self) -> bool {
        !matches!(self, LeaderState::Installed | LeaderState::Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every deed in every state. A deed that is of no use in a state changes nothing there.
    #[test]
    fn the_table_of_a_leaders_term_is_as_agreed() {
        let (since, to) = (Nanos(5), ReplicaId(2));
        let states = [
            LeaderState::Installed,
            LeaderState::Forming,
            LeaderState::Serving { since },
            LeaderState::WindingDown { since, over: None },
            LeaderState::WindingDown { since, over: Some(Nanos(9)) },
            LeaderState::Draining { since, turns: None },
            LeaderState::Releasing { since, to },
            LeaderState::Over,
        ];
        type Deed = (&'static str, fn(&mut LeaderState));
        let deeds: [Deed; 9] = [
            ("form", |state| state.form()),
            ("serve", |state| state.serve(Nanos(5))),
            ("wind down", |state| state.wind_down()),
            ("leases end", |state| state.leases_end(Nanos(9))),
            ("drain before that", |state| assert!(!state.drain(Nanos(8)))),
            ("drain", |state| _ = state.drain(Nanos(9))),
            ("stay", |state| state.stay()),
            ("release", |state| state.release(ReplicaId(2))),
            ("end", |state| state.end()),
        ];
        let mut text = String::from(
            "# A leader's term\n\nWritten by a test from `crates/replica/src/leader_state.rs`, which says \
             what each state is; `ACCEPT=1 cargo\ntest -p longarm-replica the_table`. *V*: clients' leases \
             are vouched for; *S*: clients are served.\n\n| state |  | ",
        );
        text += &deeds.map(|(what, _)| what).join(" | ");
        text += &format!(" |\n|---|---|{}\n", "---|".repeat(deeds.len()));
        let name = |state: &LeaderState| match state {
            LeaderState::WindingDown { over: None, .. } => "WindingDown".to_string(),
            LeaderState::WindingDown { .. } => "WindingDown, until known".to_string(),
            other => format!("{other:?}").split(' ').next().expect("a name").to_string(),
        };
        for state in states {
            let after = |(_, deed): Deed| {
                let mut next = state.clone();
                deed(&mut next);
                if next == state { String::new() } else { name(&next) }
            };
            let does = [state.vouches().then_some("V"), state.served().map(|_| "S")];
            let does: Vec<&str> = does.into_iter().flatten().collect();
            text +=
                &format!("| {} | {} | {} |\n", name(&state), does.join(" "), deeds.map(after).join(" | "));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/generated/leader_state.md");
        if std::env::var_os("ACCEPT").is_some() {
            std::fs::write(path, &text).expect("the sources are writable");
        }
        let agreed = std::fs::read_to_string(path).expect("the table is in the repository");
        assert!(text == agreed, "the table changed; if that is meant: ACCEPT=1 cargo test the_table");
    }

    #[test]
    fn it_is_drained_two_turns_after_all_was_applied() {
        let worker = |sleeps, made| Turns { sleeps, made };
        let mut state = LeaderState::Draining { since: Nanos(1), turns: None };
        assert!(!state.is_drained(false, [worker(true, 7)].into_iter()), "something is not applied");
        assert!(!state.is_drained(true, [worker(true, 7), worker(false, 4)].into_iter()));
        assert!(!state.is_drained(true, [worker(true, 7), worker(false, 5)].into_iter()));
        assert!(state.is_drained(true, [worker(true, 7), worker(false, 6)].into_iter()));
        assert!(!state.is_drained(false, [worker(false, 9)].into_iter()), "one more was written");
        assert!(!state.is_drained(true, [worker(false, 9)].into_iter()), "it is counted anew");
        assert!(!LeaderState::Forming.is_drained(true, [].into_iter()));
    }
}
