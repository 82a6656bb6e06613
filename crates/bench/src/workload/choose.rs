//! Which existing record an operation touches: uniform, scrambled Zipfian, latest; each as YCSB does it.

use longarm_base::random::SplitMix64;
use serde::{Deserialize, Serialize};

use super::inserts::Inserts;
use super::key::fnv_hash;
use super::zipf::{YCSB_THETA, Zipf};

/// Distribution of requests over the records.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Every record alike (`UniformLongGenerator` over the loaded records).
    Uniform,
    /// Scrambled Zipfian with this exponent; YCSB's is 0.99.
    Zipfian(f64),
    /// Zipfian from the newest record backwards, with exponent 0.99.
    Latest,
}

impl Distribution {
    /// YCSB's Zipfian.
    pub const YCSB: Distribution = Distribution::Zipfian(YCSB_THETA);

    /// Refuses an exponent that Gray's method cannot draw.
    pub fn check(self) -> Result<(), String> {
        match self {
            Distribution::Zipfian(theta) if !(theta > 0.0 && theta < 1.0) => {
                Err(format!("Zipf exponent {theta} is not between 0 and 1 (YCSB uses 0.99)"))
            }
            _ => Ok(()),
        }
    }

    /// Short text for tables.
    pub fn describe(self) -> String {
        match self {
            Distribution::Uniform => "uniform".into(),
            Distribution::Zipfian(theta) => format!("zipfian {theta} scrambled"),
            Distribution::Latest => "latest".into(),
        }
    }
}

impl std::str::FromStr for Distribution {
    type Err = String;
    fn from_str(text: &str) -> Result<Distribution, String> {
        let chosen = match text.split_once(':') {
            None if text == "uniform" => Distribution::Uniform,
            None if text == "latest" => Distribution::Latest,
            None if text == "zipfian" => Distribution::YCSB,
            Some(("zipfian", theta)) => Distribution::Zipfian(
                theta.parse().map_err(|_| format!("'{theta}' in '{text}' is not a number such as 0.99"))?,
            ),
            _ => {
                return Err(format!("unknown distribution '{text}': use uniform, zipfian[:THETA] or latest"));
            }
        };
        chosen.check().map(|()| chosen)
    }
}

/// Draws records for one client.
#[derive(Clone)]
pub enum Chooser {
    /// Uniform below the number of loaded records.
    Uniform {
        /// Records loaded before the run.
        records: u64,
    },
    /// Ranks of ten billion, scattered by FNV over `modulus` records.
    Scrambled {
        /// Draws the ranks.
        zipf: Zipf,
        /// Records there may ever be, plus one: YCSB's range includes its upper end.
        modulus: u64,
    },
    /// Distance from the newest record.
    Latest {
        /// Draws the distances.
        zipf: Zipf,
    },
}

impl Chooser {
    /// A chooser over `records` loaded records, of which there will be about `expected_new` more
    /// (YCSB fixes the modulus before the run, so that growth does not change which records are popular).
    pub fn new(distribution: Distribution, records: u64, expected_new: u64) -> Chooser {
        match distribution {
            Distribution::Uniform => Chooser::Uniform { records },
            Distribution::Zipfian(theta) => {
                Chooser::Scrambled { zipf: Zipf::ycsb(theta), modulus: records + expected_new + 1 }
            }
            // `basis.lastValue()` is the number of the last record, one below their count; one record at
            // least.
            Distribution::Latest => Chooser::Latest { zipf: Zipf::new((records - 1).max(1), YCSB_THETA) },
        }
    }

    /// The next record. One that does not exist yet is drawn again (`CoreWorkload.nextKeynum`); that ends,
    /// because most of the modulus exists.
    #[inline]
    pub fn next(&mut self, random: &mut SplitMix64, inserts: &Inserts) -> u64 {
        match self {
            Chooser::Uniform { records } => random.below(*records),
            Chooser::Scrambled { zipf, modulus } => loop {
                let record = fnv_hash(zipf.next(random)) % *modulus;
                if record < inserts.existing() {
                    return record;
                }
            },
            Chooser::Latest { zipf } => {
                let newest = inserts.existing() - 1;
                newest - zipf.next_of(random, newest.max(1)).min(newest)
            }
        }
    }
}
