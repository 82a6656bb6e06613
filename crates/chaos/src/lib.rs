//! Groups of replicas as processes, struck by one fault after the other, while clients note what they see.
//!
//! [`cli`] has the flags, and [`program`] finds the program that the processes run. [`kind`] names the kinds
//! of faults, and [`fault`] draws their steps. [`torture`] strikes, and gives orders to the groups. [`over`]
//! says how processes reach each other: [`relay`] is a network whose cables can be pulled, and [`bridge`] is
//! that of RDMA devices. [`who`] asks the kernel which process made a connection. [`client`] is a client that
//! notes what it sees, [`names`] names the keys, [`values`] makes their values, [`map`] says where the groups
//! are, [`looks`] has what the last look saw, and [`cold`] when all were killed at once. [`stage`] is what
//! the threads share, [`held`] what processes hold, and [`report`] the outcome. Every process has a replica
//! of every group.
#![forbid(unsafe_code)]

mod bridge;
mod cli;
mod client;
mod cold;
mod fault;
mod held;
mod kind;
mod looks;
mod map;
mod names;
mod over;
mod pages;
mod program;
mod relay;
mod report;
mod stage;
mod torture;
mod values;
mod who;

use std::ffi::OsString;

use longarm::front;
use longarm::output::Exit;

/// Does what `args` say, the program's name first.
///
/// `longarm-chaos server` is `longarm server`: tests have it for their nodes, as cargo builds no other
/// program for them. The help does not mention it.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    match args.get(1) {
        Some(word) if word == "server" => longarm::run(args),
        _ => front::run::<cli::Cli>(args),
    }
}
