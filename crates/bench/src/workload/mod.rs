//! What the clients do: mixes of operations, choice of records, keys and values.
//!
//! The core workloads A, B, C, D and F are YCSB's (`workloads/workload[a-f]`, `CoreWorkload.java`,
//! `ScrambledZipfianGenerator.java`, `SkewedLatestGenerator.java`). Two things differ and are said in every
//! report: a record is one value and not ten fields, so an update replaces all of it (YCSB's
//! `writeallfields=true`); and value bytes come from a seeded pattern, so that they can be checked.

mod choose;
mod inserts;
mod key;
mod stream;
mod value;
mod zipf;

use serde::{Deserialize, Serialize};

pub use choose::{Chooser, Distribution};
pub use inserts::Inserts;
pub use key::{KEY_BYTES_MAX, Key, KeyFormat, fnv_hash};
pub use stream::{Op, OpKind, Stream, StreamStart};
pub use value::{VARIANTS, Values};
pub use zipf::{YCSB_ITEMS, YCSB_THETA, YCSB_ZETAN, Zipf, zeta};

/// A mix of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// YCSB A, update heavy: 50 % read, 50 % update, Zipfian.
    A,
    /// YCSB B, read mostly: 95 % read, 5 % update, Zipfian.
    B,
    /// YCSB C, read only, Zipfian.
    C,
    /// YCSB D, read latest: 95 % read, 5 % insert, latest.
    D,
    /// YCSB F: 50 % read, 50 % read-modify-write, Zipfian.
    F,
    /// This many reads in a thousand operations, the others updates; uniform unless said otherwise.
    Reads(u32),
}

/// Shares of the kinds of operations; they add up to one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shares {
    /// Reads of an existing record.
    pub read: f64,
    /// Replacements of an existing record.
    pub update: f64,
    /// New records.
    pub insert: f64,
    /// Reads followed by an update of the same record.
    pub read_modify_write: f64,
}

impl Mix {
    /// Shares of the kinds of operations.
    pub fn shares(self) -> Shares {
        let none = Shares { read: 0.0, update: 0.0, insert: 0.0, read_modify_write: 0.0 };
        match self {
            Mix::A => Shares { read: 0.5, update: 0.5, ..none },
            Mix::B => Shares { read: 0.95, update: 0.05, ..none },
            Mix::C => Shares { read: 1.0, ..none },
            Mix::D => Shares { read: 0.95, insert: 0.05, ..none },
            Mix::F => Shares { read: 0.5, read_modify_write: 0.5, ..none },
            Mix::Reads(permille) => {
                let read = permille as f64 / 1000.0;
                Shares { read, update: 1.0 - read, ..none }
            }
        }
    }

    /// The distribution that belongs to the mix.
    pub fn distribution(self) -> Distribution {
        match self {
            Mix::A | Mix::B | Mix::C | Mix::F => Distribution::YCSB,
            Mix::D => Distribution::Latest,
            Mix::Reads(_) => Distribution::Uniform,
        }
    }

    /// Short name for tables.
    pub fn name(self) -> String {
        match self {
            Mix::A => "ycsb-a".into(),
            Mix::B => "ycsb-b".into(),
            Mix::C => "ycsb-c".into(),
            Mix::D => "ycsb-d".into(),
            Mix::F => "ycsb-f".into(),
            Mix::Reads(permille) => {
                let percent = permille as f64 / 10.0;
                format!("mix {percent}:{}", 100.0 - percent)
            }
        }
    }
}

impl std::str::FromStr for Mix {
    type Err = String;
    /// `a`, `ycsb-a`, ..., `get`, `put`, or a ratio of reads to writes such as `95:5`.
    fn from_str(text: &str) -> Result<Mix, String> {
        let name = text.to_ascii_lowercase();
        match name.strip_prefix("ycsb-").unwrap_or(&name) {
            "a" => return Ok(Mix::A),
            "b" => return Ok(Mix::B),
            "c" => return Ok(Mix::C),
            "d" => return Ok(Mix::D),
            "f" => return Ok(Mix::F),
            "get" => return Ok(Mix::Reads(1000)),
            "put" => return Ok(Mix::Reads(0)),
            "e" => return Err("YCSB E needs SCAN, which this version does not have".into()),
            _ => {}
        }
        let hint = || {
            format!("unknown workload '{text}': use a, b, c, d, f, get, put, or reads:writes such as 95:5")
        };
        let (reads, writes) = name.split_once(':').ok_or_else(hint)?;
        let part = |part: &str| part.parse::<u32>().ok().filter(|&n| n <= 1_000_000);
        let (reads, writes) = part(reads).zip(part(writes)).ok_or_else(hint)?;
        if reads + writes == 0 {
            return Err(format!("workload '{text}' has neither reads nor writes"));
        }
        Ok(Mix::Reads((reads as f64 * 1000.0 / (reads + writes) as f64).round() as u32))
    }
}

#[cfg(test)]
mod tests;
