//! Groups of replicas as processes, struck by one fault after the other, while clients note what they see.
//!
//! [`cli`] is what the user may say, [`program`] what the processes run. [`kind`] is what can happen,
//! [`fault`] the steps of it; [`torture`] strikes, and gives orders to the groups; [`over`] is how processes
//! reach each other: [`relay`] a network whose cables can be pulled, [`bridge`] one of RDMA devices; [`who`]
//! made a connection the kernel says. [`client`] is who notes, [`names`] of which keys, [`values`] what is in
//! them, [`map`] where they are, and [`looks`] is what was seen of them at the end; [`stage`] is what the
//! threads share, [`held`] what processes hold, [`report`] what came of it. Every process has a replica of
//! every group.
#![forbid(unsafe_code)]

mod bridge;
mod cli;
mod client;
mod fault;
mod held;
mod kind;
mod looks;
mod map;
mod names;
mod over;
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
/// program for them. Nobody else is told of it.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    match args.get(1) {
        Some(word) if word == "server" => longarm::run(args),
        _ => front::run::<cli::Cli>(args),
    }
}
