//! What the clients do: mixes of operations, choice of records, keys and values.
//!
//! The core workloads A to F are YCSB's (`workloads/workload[a-f]`, `CoreWorkload.java`,
//! `ScrambledZipfianGenerator.java`, `SkewedLatestGenerator.java`). Two things differ and are said in every
//! report: a record is one value and not ten fields, so an update replaces all of it (YCSB's
//! `writeallfields=true`); and value bytes come from a seeded pattern, so that they can be checked.

mod choose;
mod inserts;
mod key;
mod stream;
mod value;
mod zipf;

use longarm_base::random::SplitMix64;
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
    /// YCSB E, short ranges: 95 % scan from a Zipfian record on, of a uniform length, 5 % insert.
    E,
    /// YCSB F: 50 % read, 50 % read-modify-write, Zipfian.
    F,
    /// This many reads in a thousand operations, the others updates; uniform unless said otherwise.
    Reads(u32),
    /// Scans of one length; from a uniform record on unless said otherwise.
    Scans,
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
    /// Scans from an existing record on.
    pub scan: f64,
    /// Reads followed by an update of the same record.
    pub read_modify_write: f64,
}

/// How many items a scan shows, if the store has so many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lengths {
    /// So many.
    Exactly(u32),
    /// One to so many, each as often as any other (YCSB's `scanlengthdistribution=uniform`).
    UpTo(u32),
}

impl Lengths {
    /// Draws the length of a scan.
    #[inline]
    pub fn draw(self, random: &mut SplitMix64) -> u32 {
        match self {
            Lengths::Exactly(items) => items,
            Lengths::UpTo(most) => 1 + random.below(u64::from(most)) as u32,
        }
    }
}

impl Mix {
    /// Shares of the kinds of operations.
    pub fn shares(self) -> Shares {
        let none = Shares { read: 0.0, update: 0.0, insert: 0.0, scan: 0.0, read_modify_write: 0.0 };
        match self {
            Mix::A => Shares { read: 0.5, update: 0.5, ..none },
            Mix::B => Shares { read: 0.95, update: 0.05, ..none },
            Mix::C => Shares { read: 1.0, ..none },
            Mix::D => Shares { read: 0.95, insert: 0.05, ..none },
            Mix::E => Shares { scan: 0.95, insert: 0.05, ..none },
            Mix::Scans => Shares { scan: 1.0, ..none },
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
            Mix::A | Mix::B | Mix::C | Mix::E | Mix::F => Distribution::YCSB,
            Mix::D => Distribution::Latest,
            Mix::Reads(_) | Mix::Scans => Distribution::Uniform,
        }
    }

    /// How many items its scans show; `None` if it has no scans. `limit` is the most of them.
    pub fn lengths(self, limit: u32) -> Option<Lengths> {
        match self {
            Mix::E => Some(Lengths::UpTo(limit)),
            Mix::Scans => Some(Lengths::Exactly(limit)),
            _ => None,
        }
    }

    /// Short name for tables.
    pub fn name(self) -> String {
        match self {
            Mix::A => "ycsb-a".into(),
            Mix::B => "ycsb-b".into(),
            Mix::C => "ycsb-c".into(),
            Mix::D => "ycsb-d".into(),
            Mix::E => "ycsb-e".into(),
            Mix::F => "ycsb-f".into(),
            Mix::Scans => "scan".into(),
            Mix::Reads(permille) => {
                let percent = permille as f64 / 10.0;
                format!("mix {percent}:{}", 100.0 - percent)
            }
        }
    }
}

impl std::str::FromStr for Mix {
    type Err = String;
    /// `a`, `ycsb-a`, ..., `get`, `put`, `scan`, or a ratio of reads to writes such as `95:5`.
    fn from_str(text: &str) -> Result<Mix, String> {
        let name = text.to_ascii_lowercase();
        match name.strip_prefix("ycsb-").unwrap_or(&name) {
            "a" => return Ok(Mix::A),
            "b" => return Ok(Mix::B),
            "c" => return Ok(Mix::C),
            "d" => return Ok(Mix::D),
            "e" => return Ok(Mix::E),
            "f" => return Ok(Mix::F),
            "scan" => return Ok(Mix::Scans),
            "get" => return Ok(Mix::Reads(1000)),
            "put" => return Ok(Mix::Reads(0)),
            _ => {}
        }
        let hint =
            || format!("unknown workload '{text}': use a to f, get, put, scan, or reads:writes such as 95:5");
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
