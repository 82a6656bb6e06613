//! Experiment: what do keys in order cost? The ordered tree with nodes of several sizes, HiStore's skiplist
//! and a `BTreeMap`, with keys of 16 bytes to a KiB: time of an insert and of an overwrite, bytes of a key,
//! time of a look, of a seek and of scans.
//!
//! `cargo run --release -p lab-ordered [KEYS [KIND [STRUCTURE]]]`: all rows, those of one kind of keys, or
//! one row; a million keys where none are given, fewer of long ones. With 2000 keys it only shows that it
//! works. Each row is a process of its own, so that one's memory is not another's. Times are CPU time of one
//! run on whatever machine this is: good to a third at most, and less where others use its caches.
//!
//! `reads` are the places in memory that a look for a key goes through, one after the other: what HiStore
//! counts of its indexes, as one-sided READs would need so many round trips (HiStore 2.3). `bytes` are those
//! that a structure knows of, `resident` what the process has more of than before: of a tree with its owner's
//! copies of nodes. `again` is measured last: scans see what was put in once. `tree` and `built` have nodes
//! as the product does, `tree-4` those of 4 KiB where keys allow it; `node` is the mean.
//!
//! `cargo run --release -p lab-ordered reads [KEYS]` counts the READs of a search instead, see `reads.rs`.

mod btreemap;
mod keys;
mod measure;
mod ordered;
mod process;
mod reads;
mod skiplist;
mod tree;

use std::process::Command;

use keys::Kind;
use measure::{HEAD, Structure, measure};

#[allow(clippy::print_stdout, reason = "the table is what an experiment is for")]
fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let counts_reads = args.first().is_some_and(|first| first == "reads");
    if counts_reads {
        args.remove(0);
    }
    let keys: u64 = args.first().map_or(1_000_000, |keys| keys.parse().expect("a number of keys"));
    if counts_reads {
        return reads::table(keys);
    }
    let kind = args.get(1).map(|name| Kind::named(name).expect("a kind of keys, such as random-16"));
    if let (Some(kind), Some(name)) = (kind, args.get(2)) {
        let structure = Structure::named(name).expect("a structure, such as tree-1 or skiplist-4");
        assert!(structure.takes(kind), "{name} takes keys of 16 bytes only");
        return println!("{}", measure(structure, kind, keys));
    }
    println!("nanoseconds, but for keys, bytes and reads\n{:23}{HEAD}", "");
    for kind in Kind::ALL.into_iter().filter(|of| kind.is_none_or(|kind| *of == kind)) {
        for structure in Structure::ALL.into_iter().filter(|structure| structure.takes(kind)) {
            print!("{:11} {:11} {}", kind.name(), structure.name(), row(keys, kind, structure));
        }
    }
}

/// A row, of a process of its own.
fn row(keys: u64, kind: Kind, structure: Structure) -> String {
    let program = std::env::current_exe().expect("this program");
    let args = [keys.to_string(), kind.name(), structure.name()];
    let output = Command::new(program).args(args).output().expect("another process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a row")
}

#[cfg(test)]
mod tests;
