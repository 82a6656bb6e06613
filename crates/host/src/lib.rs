//! Clocks, threads, sleep, locks and random numbers: those of this machine, or those of a world that
//! simulates many machines.
//!
//! Servers and clients take all five from here and from nowhere else (tidy checks it), so the code that ships
//! is the code that the simulator runs. On an ordinary thread the operating system provides them, after one
//! look at a thread-local flag. On a thread that has [`enter`](world::enter)ed a [`World`], the world does:
//! its virtual time, its tasks, its seed.
//!
//! The crate has no sockets, and reads only one file, of the kernel ([`mod@idle`]). Moving bytes is the work
//! of a transport.
#![forbid(unsafe_code)]

mod chance;
mod clock;
mod event;
mod idle;
mod lock;
pub mod observe;
mod offers;
mod pause;
mod rest;
mod signal;
mod spin;
mod thread;
pub mod world;

#[cfg(test)]
mod tests;

pub use chance::random;
pub use clock::{now, unix};
pub use idle::{core, cores, idle};
pub use lock::Mutex;
pub use observe::observe;
pub use offers::Offers;
pub use pause::Pause;
pub use signal::Signal;
pub use spin::AdaptiveSpin;
pub use thread::{Panicked, Thread, at_once, relax, sleep, spawn, spend};
pub use world::World;
