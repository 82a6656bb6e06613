//! The program as its users meet it: real processes, exit codes, signals, garbage, kills.
//!
//! Every wait is bounded, and every process is ended by its guard, also when a test fails.

mod backup;
mod bench;
mod cluster;
mod data;
mod demo;
mod group;
mod group_data;
mod harness;
mod lanes;
mod load;
mod scan;
mod server;
mod values;
