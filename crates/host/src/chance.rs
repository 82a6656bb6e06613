//! Random numbers that cannot be guessed.

use std::fs::File;
use std::io::{self, Read};

use crate::world::entered;

/// Returns `N` random words of the operating system; in a world, of its seed.
pub fn random<const N: usize>() -> io::Result<[u64; N]> {
    if let Some(world) = entered() {
        return Ok([(); N].map(|()| world.draw()));
    }
    let mut file = File::open("/dev/urandom")?;
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    Ok(words)
}
