//! What a whole write makes persistent where the index is out of place, beside table I of the paper
//! (continuity hashing V.B).

use std::sync::Arc;

use longarm_index::hash::{Discipline, SlotKind};
use longarm_memory::{Counted, Mapped};
use longarm_wire::{Request, RequestKind};

use crate::engine::Engine;
use crate::options::{EngineOptions, Eviction};
use crate::testing::{TIMES, build, execute, memory, options};

type Memory = Arc<Counted<Mapped>>;

const LIMIT: u64 = 16 << 20;

/// Insertion, update and deletion.
type Groups = [u64; 3];

struct Bed {
    regions: [Memory; 3],
    engine: Engine<Memory>,
}

impl Bed {
    fn new(slots: SlotKind) -> Bed {
        let regions = [4096, LIMIT, LIMIT + (1 << 20)].map(|bytes| Arc::new(Counted::new(memory(bytes))));
        let discipline = Discipline::OutOfPlace;
        let options = EngineOptions { discipline, ..options(slots, Eviction::None, None) };
        Bed { engine: build(regions.clone(), LIMIT, options), regions }
    }

    /// Lines that are written back and fenced together, over all memory, for each of these requests.
    fn groups(&self, value: &[u8]) -> Groups {
        let context = &mut self.engine.worker_context(0);
        let fences = || self.regions.iter().map(|memory| memory.take().fences).sum();
        [(RequestKind::Put, value), (RequestKind::Put, value), (RequestKind::Delete, &[])].map(
            |(kind, value)| {
                let _: u64 = fences();
                let request = Request { key: b"sixteen bytes ..", value, ..Request::new(kind, 0) };
                execute(&self.engine, context, TIMES, &request).expect("there is room");
                fences()
            },
        )
    }
}

/// "Continuity 2 2 1": of a pair of 16 and 15 bytes, as the paper has it. A longer one is an entry, which is
/// persistent before the slot that names it. The delete of an entry writes no tombstone on a server of its
/// own; in a group that would be one more.
#[test]
#[allow(clippy::print_stdout, reason = "the table stands beside the paper's")]
fn a_whole_write_of_an_inline_item_takes_what_the_paper_has() {
    let (inline, entries) = (Bed::new(SlotKind::Inline64), Bed::new(SlotKind::Pointer16));
    let table: [(&str, Groups); 4] = [
        ("the paper: 16 and 15 bytes", [2, 2, 1]),
        ("slots of 64 bytes, inline: 16 and 15 bytes", inline.groups(&[7; 15])),
        ("slots of 64 bytes, an entry: 16 and 100 bytes", inline.groups(&[7; 100])),
        ("slots of 16 bytes, an entry: 16 and 15 bytes", entries.groups(&[7; 15])),
    ];
    println!("{:48} insertion update deletion", "persistent writes");
    for (what, [insertion, update, deletion]) in &table {
        println!("{what:48} {insertion:9} {update:6} {deletion:8}");
    }
    assert_eq!(table.map(|(_, groups)| groups), [[2, 2, 1], [2, 2, 1], [3, 3, 1], [3, 3, 1]]);
}
