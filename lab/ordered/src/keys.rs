//! Keys of several kinds, all at hand before anything is timed.

use longarm_base::random::mix64;

/// Bytes of all keys at most: there are fewer of long ones.
const BYTES_MAX: u64 = 256 << 20;

/// A kind of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// So many random bytes.
    Random(usize),
    /// A name and a number that grows: 16 bytes.
    Ascending,
    /// Tenant, user and session: 47 bytes, of which many are common.
    Session,
}

impl Kind {
    /// All that the table has.
    pub const ALL: [Kind; 7] = [
        Kind::Random(16),
        Kind::Ascending,
        Kind::Session,
        Kind::Random(32),
        Kind::Random(64),
        Kind::Random(256),
        Kind::Random(1024),
    ];

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub fn name(self) -> String {
        match self {
            Kind::Random(len) => format!("random-{len}"),
            Kind::Ascending => "ascending".into(),
            Kind::Session => "session".into(),
        }
    }

    /// Bytes of a key.
    pub fn len(self) -> usize {
        match self {
            Kind::Random(len) => len,
            Kind::Ascending => 16,
            Kind::Session => 47,
        }
    }

    fn write(self, i: u64, key: &mut [u8]) {
        match self {
            Kind::Random(_) => {
                for (word, bytes) in (0..).zip(key.chunks_mut(8)) {
                    bytes.copy_from_slice(&mix64(i ^ mix64(word)).to_le_bytes()[..bytes.len()]);
                }
            }
            Kind::Ascending => key.copy_from_slice(format!("key-{i:012}").as_bytes()),
            Kind::Session => {
                let (tenant, user) = (mix64(i) % 1000, mix64(i ^ 1) % 100_000);
                let text = format!("tenant{tenant:04}:user{user:08}:session{:016x}", mix64(i ^ 2));
                key.copy_from_slice(text.as_bytes());
            }
        }
    }
}

/// Keys of one kind.
pub struct Keys {
    bytes: Vec<u8>,
    len: usize,
}

impl Keys {
    /// So many, or as many as there is memory for.
    pub fn new(kind: Kind, count: u64) -> Keys {
        let len = kind.len();
        let count = count.min(BYTES_MAX / len as u64);
        let mut bytes = vec![0; count as usize * len];
        (0..).zip(bytes.chunks_mut(len)).for_each(|(i, key)| kind.write(i, key));
        Keys { bytes, len }
    }

    pub fn count(&self) -> usize {
        self.bytes.len() / self.len
    }

    pub fn get(&self, i: usize) -> &[u8] {
        &self.bytes[i * self.len..][..self.len]
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.len)
    }
}

#[test]
fn keys_of_all_kinds_are_different_and_as_long_as_said() {
    for kind in Kind::ALL {
        assert_eq!(Kind::named(&kind.name()), Some(kind));
        let keys = Keys::new(kind, 5000);
        let mut sorted: Vec<&[u8]> = keys.iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 5000, "{kind:?}");
        assert!(sorted.iter().all(|key| key.len() == kind.len()));
        assert_eq!(keys.get(7), keys.iter().nth(7).expect("a key"));
    }
    assert_eq!(Keys::new(Kind::Random(1024), 1 << 20).count(), 256 << 10);
}
