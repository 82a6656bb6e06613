//! `cargo x compare`: PUTs to a group of three, beside Redis with two replicas and three etcd, in one run,
//! all started for it and ended after it, all in memory. What follows goes to `longarm bench`.

use std::path::Path;

use crate::builds::{cargo, status};

/// With what speaks to etcd, which the program that ships has not.
const BUILD: &[&str] = &["run", "--quiet", "--release", "--package", "longarm", "--features", "etcd", "--"];
/// One outstanding PUT, and as many as a batch has.
const BENCH: &[&str] = &[
    "bench",
    "put",
    "--replicas",
    "3",
    "--keys",
    "100000",
    "--depth",
    "1,32",
    "--compare",
    "redis-group,etcd-group",
];

/// Measures; `Ok(true)` if every answer was right.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    status(cargo().args(BUILD).args(BENCH).args(args).current_dir(root))
}
