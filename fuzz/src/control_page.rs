//! The control page: any bytes, and any tables under a checksum that holds.
//!
//! Oracles: a geometry is accepted only under its checksum; its tables lie in the index; what was accepted
//! and is published again reads as itself; a heartbeat says what the page says.

use std::sync::Arc;

use longarm_base::{Nanos, UnixMillis};
use longarm_index::control::layout::{BYTES, GEOMETRY, GEOMETRY_WORDS, MAGIC, ServerState};
use longarm_index::control::{Control, GEOMETRY_PLACE, Heartbeat, geometry};
use longarm_index::hash::{Geometry, Table};
use longarm_memory::{SumKey, Words};

use crate::{Flat, Input};

/// One input: a switch, the size of the index, then the bytes of a record.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let how = input.u8();
    let index_bytes = if how & 4 != 0 { input.u64() } else { input.near(1 << 22) };
    let _ = Heartbeat::parse(input.0);
    heartbeat(input);
    let sums = SumKey::new(3);
    let Some(record) = sealed_record(&mut input, how, &sums) else {
        assert_eq!(geometry(input.0, &sums, index_bytes), None, "no checksum holds by chance");
        return;
    };
    if let Some(found) = geometry(&record, &sums, index_bytes) {
        sound(&found, index_bytes);
        comes_back(&found, &sums, index_bytes);
        let mut flipped = record;
        let bit = input.below(GEOMETRY_WORDS as u64 * 64) as usize;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(geometry(&flipped, &sums, index_bytes), None, "bit {bit}");
    }
}

/// A record whose checksum holds, with as many sensible tables as the switch says; none for raw bytes.
fn sealed_record(input: &mut Input<'_>, how: u8, sums: &SumKey) -> Option<Vec<u8>> {
    if how & 3 == 0 {
        return None;
    }
    let mut words = [0u64; GEOMETRY_WORDS];
    words.iter_mut().for_each(|word| *word = if how & 3 == 1 { input.u64() } else { 0 });
    if how & 3 > 1 {
        (words[1], words[2]) = (input.u64(), input.u64());
        for table in words[3..].chunks_exact_mut(5) {
            let pairs = input.near(2000);
            table[0] = input.near(4) | u64::from(input.u8() & 1) << 32 | u64::from(input.u8() & 1) << 40;
            table[1] = input.near(1 << 16).wrapping_mul(64) ^ u64::from(input.u8() & 0x88 == 0x88) << 3;
            table[2] = pairs;
            table[3] = if how & 8 != 0 { input.u64() } else { Table::groups_for(pairs) };
        }
    }
    let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let sum = sums.sum(GEOMETRY, &record[8..]);
    record[..8].copy_from_slice(&sum.to_le_bytes());
    Some(record)
}

/// What every reader relies on.
pub fn sound(found: &Geometry, index_bytes: u64) {
    assert!(found.tables[0].is_some(), "a geometry has a table");
    for table in found.live() {
        assert!(table.id != 0 && table.pairs > 0 && table.base.is_multiple_of(64), "{table:?}");
        let end = u128::from(table.base) + u128::from(table.bytes());
        assert!(end <= u128::from(index_bytes), "{table:?} ends past {index_bytes:#x}");
    }
}

fn comes_back(found: &Geometry, sums: &SumKey, index_bytes: u64) {
    let memory = Arc::new(Flat::new(BYTES));
    Control::create(memory.clone(), 1, sums.clone()).publish(found);
    let again = memory.copy(GEOMETRY_PLACE.offset, GEOMETRY_PLACE.len as usize);
    assert_eq!(geometry(&again, sums, index_bytes).as_ref(), Some(found));
}

fn heartbeat(mut input: Input<'_>) {
    let memory = Arc::new(Flat::new(BYTES));
    let boot = input.u64();
    let control = Control::create(memory.clone(), boot, SumKey::new(3));
    let (now, unix) = (Nanos(input.u64()), UnixMillis(input.u64()));
    control.beat(now, unix);
    let state = input.u64();
    let known = ServerState::from_word(state);
    if let Some(state) = known {
        control.set_state(state);
    }
    let line = memory.copy(0, 64);
    let beat = Heartbeat::parse(&line).expect("what the owner wrote");
    assert_eq!((beat.boot, beat.stamp, beat.unix), (boot, now, unix));
    assert_eq!(beat.state, known.unwrap_or(ServerState::Starting));
    assert_eq!(memory.load(0), MAGIC);
}
