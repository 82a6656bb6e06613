//! The network between simulated machines: how long things take, who reaches whom.

use std::collections::{BTreeMap, BTreeSet};

use longarm_base::Nanos;
use longarm_host::Mutex;
use longarm_host::world::entered;

use super::races::Races;
use super::ticker::Ticker;

/// In which order the parts of one WRITE become visible (`land.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// Ascending addresses.
    Ascending,
    /// Any: relaxed ordering, packets placed out of order.
    Any,
}

/// How the network behaves. Times are drawn evenly between their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// One way, at least and at most.
    pub delay: (Nanos, Nanos),
    /// How long the words of one READ or WRITE may take at the far memory, at most. If it is longer than the
    /// way back, a WRITE may complete before it is visible (the acknowledgement window).
    pub spread: Nanos,
    /// Order of the parts of a WRITE.
    pub landing: Landing,
    /// One request in so many is lost and sent again after `resend`; zero: none.
    pub loss: u64,
    /// How long a request waits before it is sent again.
    pub resend: Nanos,
    /// How long a request is sent again and again before its queue pair breaks.
    pub give_up: Nanos,
}

impl Weather {
    /// A quick and steady network: nothing tears, nothing is lost.
    pub const FINE: Weather = Weather {
        delay: (Nanos(1_000), Nanos(2_000)),
        spread: Nanos(0),
        landing: Landing::Ascending,
        loss: 0,
        resend: Nanos(100_000),
        give_up: Nanos::from_millis(20),
    };
}

/// The network. Everything in it is of one world, or of one process of threads.
#[derive(Debug)]
pub(super) struct Net {
    state: Mutex<NetState>,
    ticker: Ticker,
    /// The WRITEs that are under way.
    pub races: Races,
}

#[derive(Debug)]
struct NetState {
    weather: Weather,
    /// From whom to whom things take so much longer.
    slow: BTreeMap<(u32, u32), Nanos>,
    /// From whom to whom nothing comes through.
    cuts: BTreeSet<(u32, u32)>,
    down: BTreeSet<u32>,
    /// For threads, which have no world's seed.
    chance: u64,
}

impl Net {
    pub fn new(weather: Weather) -> Net {
        let state = NetState {
            weather,
            slow: BTreeMap::new(),
            cuts: BTreeSet::new(),
            down: BTreeSet::new(),
            chance: 1,
        };
        Net { state: Mutex::new(state), ticker: Ticker::default(), races: Races::default() }
    }

    pub fn weather(&self) -> Weather {
        self.state.lock().weather
    }

    pub fn set_weather(&self, weather: Weather) {
        self.state.lock().weather = weather;
    }

    /// The time that is nobody's clock.
    pub fn time(&self) -> Nanos {
        entered().map_or_else(longarm_host::now, |world| world.time())
    }

    /// Something that the network does later.
    pub fn at(&self, time: Nanos, event: impl FnOnce() + Send + 'static) {
        match entered() {
            Some(world) => world.at(time, Box::new(event)),
            None => self.ticker.at(time, Box::new(event)),
        }
    }

    /// A number up to and with `most`.
    pub fn draw(&self, most: u64) -> u64 {
        let word = entered().map_or_else(
            || {
                let mut state = self.state.lock();
                // Any spread will do: Knuth's linear congruential generator.
                state.chance =
                    state.chance.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                state.chance >> 16
            },
            |world| world.draw(),
        );
        if most == u64::MAX { word } else { word % (most + 1) }
    }

    /// How long something is under way.
    pub fn delay(&self, from: u32, to: u32) -> Nanos {
        let Weather { delay: (least, most), .. } = self.weather();
        let slow = self.state.lock().slow.get(&(from, to)).copied().unwrap_or(Nanos(0));
        least + Nanos(self.draw(most.since(least).0)) + slow
    }

    pub fn slow(&self, from: u32, to: u32, by: Nanos) {
        let mut state = self.state.lock();
        match by {
            Nanos(0) => state.slow.remove(&(from, to)),
            by => state.slow.insert((from, to), by),
        };
    }

    pub fn is_cut(&self, from: u32, to: u32) -> bool {
        let state = self.state.lock();
        state.cuts.contains(&(from, to)) || state.down.contains(&from) || state.down.contains(&to)
    }

    pub fn is_down(&self, machine: u32) -> bool {
        self.state.lock().down.contains(&machine)
    }

    pub fn cut(&self, from: u32, to: u32, cut: bool) {
        let mut state = self.state.lock();
        if cut {
            state.cuts.insert((from, to))
        } else {
            state.cuts.remove(&(from, to))
        };
    }

    pub fn set_down(&self, machine: u32, down: bool) {
        let mut state = self.state.lock();
        if down {
            state.down.insert(machine)
        } else {
            state.down.remove(&machine)
        };
    }
}

/// Where the caller is; threads are all of one machine.
pub(super) fn machine() -> u32 {
    entered().map_or(0, |world| world.machine())
}
