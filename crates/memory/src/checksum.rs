//! Keyed 64-bit checksums and the hash that places keys.
//!
//! Nothing orders a READ and the owner's stores, so a record shows by its checksum that it is whole (Cell
//! 2.3; NoSQL landscape 3.2, of Pilaf).
//!
//! Both are rapidhash v3, whose output its authors keep stable and portable, in its protected form. The key
//! of a group is drawn when the group is made and handed to authenticated clients with the region keys. A
//! torn or reused record passes with probability 2^-64 (L4, L5, X5: CRC32 is not enough at 10^7
//! READs/s).

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

/// Key of the record checksums of one group.
#[derive(Clone)]
pub struct SumKey {
    key: u64,
    secrets: RapidSecrets,
}

impl SumKey {
    /// The key named by its 64 bits; reader and owner use the same.
    pub fn new(key: u64) -> SumKey {
        SumKey { key, secrets: RapidSecrets::seed(key) }
    }

    /// The bits to hand to a reader.
    pub fn bits(&self) -> u64 {
        self.key
    }

    /// Checksum of `bytes`, seeded with where (and in which generation) they stand.
    #[inline(always)]
    pub fn sum(&self, place: u64, bytes: &[u8]) -> u64 {
        let hash = rapidhash_v3_inline::<true, false, true>(bytes, &self.secrets);
        // Not the key itself: multiplied by 0 or 1, whatever was hashed would come to the same.
        mix(hash ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15), self.secrets.secrets[6])
    }
}

impl core::fmt::Debug for SumKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SumKey(..)")
    }
}

/// Key of the hash that places keys in one table.
#[derive(Clone)]
pub struct HashKey {
    key: u64,
    secrets: RapidSecrets,
}

/// Hash of a key: its high bits choose the bucket, its low bits the fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Hash(pub u64);

impl HashKey {
    /// The hash named by its 64 bits; drawn at random so that keys do not collide which were chosen without
    /// it. Clients know it: what bounds the harm that they can do is in decision 17.
    pub fn new(key: u64) -> HashKey {
        HashKey { key, secrets: RapidSecrets::seed(key) }
    }

    /// The bits to hand to a reader.
    pub fn bits(&self) -> u64 {
        self.key
    }

    /// Hash of `key`.
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> Hash {
        Hash(rapidhash_v3_inline::<true, false, true>(key, &self.secrets))
    }
}

impl core::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HashKey(..)")
    }
}

impl Hash {
    /// Uniform index below `n` from the high bits (Lemire's multiply-shift: no division on a GET).
    #[inline(always)]
    pub fn below(self, n: u64) -> u64 {
        ((self.0 as u128 * n as u128) >> 64) as u64
    }

    /// One byte that tells keys of the same pair apart; the low bits, which `below` hardly uses.
    #[inline(always)]
    pub fn fingerprint(self) -> u8 {
        self.0 as u8
    }

    /// Sixteen more bits for slots that have room, independent of [`fingerprint`](Self::fingerprint).
    #[inline(always)]
    pub fn tag(self) -> u16 {
        (self.0 >> 8) as u16
    }
}

#[inline(always)]
fn mix(a: u64, b: u64) -> u64 {
    let r = a as u128 * b as u128;
    a ^ b ^ (r as u64) ^ ((r >> 64) as u64)
}
