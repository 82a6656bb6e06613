//! A server on real threads, over shared memory and tcp, asked by a raw client that only knows rings and
//! messages; and the engine alone against a model.

mod ahead;
mod alone;
mod crowd;
mod cuts;
mod exactly_once;
mod gone;
mod harness;
mod life;
mod memory;
pub(crate) mod model;
mod moves;
mod operations;
mod relief;
mod stalled;
mod storm;
mod terms;
