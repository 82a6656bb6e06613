//! Which connections a worker gives to another one: those whose requests the kernel takes in on the core of
//! that other worker, as a value without clock or sockets (receive flow steering: decision 42).
//!
//! A wake-up of a thread on another core costs an interrupt of that core, in a virtual machine some
//! microseconds, and each request takes two: of the worker, and of the client. Where the client is on the
//! same machine, its core is the one on which its requests come in; elsewhere that is the core of the NIC's
//! queue, which has the bytes in its cache.
//!
//! (1) With no more active connections than cores nothing is moved: a client and its worker are quicker on a
//!     core each.
//! (2) A connection moves once it was seen at two looks in a row to belong elsewhere, and at one look an
//!     eighth of the connections at most: threads move, too.
//! (3) The other worker has no more active connections than this one. So all requests of a NIC with one queue
//!     do not end up with one worker.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use longarm_base::Nanos;

/// The time between two looks of a worker.
pub(crate) const EVERY: Nanos = Nanos::from_millis(20);
/// Connections that are looked at at once.
pub(crate) const LOOKS: usize = 256;
/// Looks in a row at which a connection belongs elsewhere before it moves.
const SURE: u8 = 2;
/// One active connection in so many moves at one look, but one at least.
const SHARE: usize = 8;
/// The core of a worker that has not looked yet.
const NOWHERE: u32 = u32::MAX;

/// Where a worker is, and how many active connections it has seen at its last look.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    core: AtomicU32,
    active: AtomicUsize,
}

impl Default for Whereabouts {
    fn default() -> Whereabouts {
        Whereabouts { core: AtomicU32::new(NOWHERE), active: AtomicUsize::new(0) }
    }
}

impl Whereabouts {
    /// Shows both.
    pub fn show(&self, core: u32, active: usize) {
        // Relaxed: hints, each by itself.
        self.core.store(core, Ordering::Relaxed);
        self.active.store(active, Ordering::Relaxed);
    }

    /// The worker has no connections any more, and looks no more. It will wake where it slept.
    pub fn rest(&self) {
        // Relaxed: as in `show`.
        self.active.store(0, Ordering::Relaxed);
    }

    /// Both, as they were shown last.
    pub fn seen(&self) -> Seat {
        // Relaxed: as in `show`.
        Seat { core: self.core.load(Ordering::Relaxed), active: self.active.load(Ordering::Relaxed) }
    }
}

/// A worker as others see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seat {
    /// The core on which it ran.
    pub core: u32,
    /// Connections on which something came since the look before.
    pub active: usize,
}

/// What was seen of one connection: to which worker it belongs, and at how many looks in a row.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Strayed {
    to: usize,
    looks: u8,
}

/// One look of a worker at its connections.
#[derive(Debug)]
pub(crate) struct Steering {
    own: usize,
    seats: Vec<Seat>,
    cores: usize,
    left: usize,
    /// All belong to the next worker.
    #[cfg(test)]
    pub wanders: bool,
}

impl Steering {
    /// A look of the worker of this number, on a machine of so many cores.
    pub fn new(own: usize, seats: Vec<Seat>, cores: usize) -> Steering {
        let left = (seats[own].active / SHARE).max(1);
        Steering {
            own,
            seats,
            cores,
            left,
            #[cfg(test)]
            wanders: false,
        }
    }

    /// A request of the connection came in on this core: the worker to which it moves now, if it does.
    pub fn judge(&mut self, strayed: &mut Strayed, core: u32) -> Option<usize> {
        let Some(to) = self.belongs_to(core) else {
            *strayed = Strayed::default();
            return None;
        };
        let looks = if strayed.to == to { strayed.looks.saturating_add(1) } else { 1 };
        *strayed = Strayed { to, looks };
        (looks >= SURE && self.left > 0).then_some(to)
    }

    /// The connection has moved there.
    pub fn moved(&mut self, to: usize) {
        self.left -= 1;
        self.seats[self.own].active = self.seats[self.own].active.saturating_sub(1);
        self.seats[to].active += 1;
    }

    fn belongs_to(&self, core: u32) -> Option<usize> {
        #[cfg(test)]
        if self.wanders {
            return Some((self.own + 1) % self.seats.len());
        }
        let own = self.seats[self.own];
        let active: usize = self.seats.iter().map(|seat| seat.active).sum();
        if own.core == core || active <= self.cores {
            return None;
        }
        self.seats.iter().position(|seat| seat.core == core && seat.active <= own.active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks of workers that stay on their cores until nothing moves; the connections of each, by the core on
    /// which they come in, and the number of moves.
    fn settled(mut workers: Vec<Vec<u32>>, cores: usize) -> (Vec<Vec<u32>>, usize) {
        let mut strayed: Vec<Vec<Strayed>> =
            workers.iter().map(|of| vec![Strayed::default(); of.len()]).collect();
        let (mut moves, mut still) = (0, 0);
        while still < 2 * workers.len() {
            for own in 0..workers.len() {
                let seat = |(core, of): (usize, &Vec<u32>)| Seat { core: core as u32, active: of.len() };
                let seats = workers.iter().enumerate().map(seat).collect();
                let mut steering = Steering::new(own, seats, cores);
                let (mut at, before) = (0, moves);
                while at < workers[own].len() {
                    match steering.judge(&mut strayed[own][at], workers[own][at]) {
                        Some(to) => {
                            steering.moved(to);
                            let core = workers[own].swap_remove(at);
                            strayed[own].swap_remove(at);
                            workers[to].push(core);
                            strayed[to].push(Strayed::default());
                            moves += 1;
                        }
                        None => at += 1,
                    }
                }
                still = if moves == before { still + 1 } else { 0 };
            }
            assert!(moves < 10_000, "it comes to an end: {workers:?}");
        }
        (workers, moves)
    }

    #[test]
    fn connections_come_to_the_worker_of_their_core() {
        let (workers, moves) = settled(vec![vec![0, 1, 0, 1], vec![1, 0, 0, 1]], 2);
        assert!(workers[0].iter().all(|core| *core == 0) && workers[1].iter().all(|core| *core == 1));
        assert_eq!(moves, 4);
        let mixed = |n: u32| (0..n).map(|i| i * 7 / 3 % 4).collect::<Vec<_>>();
        let (workers, _) = settled(vec![mixed(100), mixed(101), mixed(99), mixed(103)], 4);
        let strays = (0..).zip(&workers).map(|(at, of)| of.iter().filter(|core| **core != at).count());
        assert!(strays.sum::<usize>() <= 8, "{workers:?}");
    }

    #[test]
    fn one_queue_of_a_nic_does_not_bring_all_to_one_worker() {
        let (workers, moves) = settled(vec![vec![0; 20], vec![0; 20]], 2);
        assert!(workers[0].len() <= 22 && moves <= 2, "{workers:?}");
    }

    #[test]
    fn few_clients_stay_where_they_are() {
        assert_eq!(settled(vec![vec![1], vec![0]], 2).1, 0);
        assert_eq!(settled(vec![vec![1, 1], vec![]], 2).1, 0);
    }

    #[test]
    fn who_comes_in_on_another_core_once_stays() {
        let seats = vec![Seat { core: 0, active: 9 }, Seat { core: 1, active: 9 }];
        let mut strayed = Strayed::default();
        for _ in 0..10 {
            let mut steering = Steering::new(0, seats.clone(), 2);
            assert_eq!(steering.judge(&mut strayed, 1), None);
            assert_eq!(steering.judge(&mut strayed, 0), None);
        }
        let mut steering = Steering::new(0, seats, 2);
        assert_eq!(steering.judge(&mut strayed, 7), None, "no worker is there");
        assert_eq!([1, 1].map(|core| steering.judge(&mut strayed, core)), [None, Some(1)]);
        steering.moved(1);
        let mut other = Strayed { to: 1, looks: 5 };
        assert_eq!(steering.judge(&mut other, 1), None, "one at a look, and the other one has more now");
    }
}
