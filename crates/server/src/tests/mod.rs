//! A server on real threads, over shared memory and tcp, driven by a raw client that only knows rings and
//! messages.

mod crowd;
mod data;
mod exactly_once;
mod harness;
mod life;
mod memory;
mod operations;
mod stalled;
