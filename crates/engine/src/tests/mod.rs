//! The engine alone, without threads and clock, against models.

mod ahead;
mod alone;
mod cuts;
mod gone;
mod model;
mod moves;
mod relief;
mod storm;
mod terms;
