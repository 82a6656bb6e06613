//! The engine alone, without threads and clock, against models.

mod alone;
mod cuts;
mod gone;
mod lives;
mod model;
mod moves;
mod persistent_writes;
mod recovered;
mod relief;
mod standby;
mod storm;
mod terms;
