//! Entries that change no key: outcomes that are saved for clients that may ask for them.

use longarm_engine::WorkerContext;
use longarm_engine::stream::{IndexChange, Written};
use longarm_index::tree::newest_header;
use longarm_store::object::OperationId;
use longarm_store::{EntryKind, EntryMeta};

use super::{Act, World, sums};

/// Found by scans in an emulated machine: after an outcome was saved clients made no page until the next
/// write, since the tree was not shown to have all that was committed.
#[test]
fn a_saved_outcome_is_shown_as_applied() {
    let mut world = World::new();
    world.put(0, 1);
    let (from, csn) = (world.place(1), world.visible(&super::name(1)).expect("it was put"));
    world.put(0, 1);
    world.be_ready();
    let applied = |world: &World| {
        let tree = world.tree.as_ref().expect("a tree");
        newest_header(tree.memory(), &sums()).expect("it is ready").applied
    };
    assert_eq!(applied(&world), [2, 0]);
    let WorkerContext { writer, stream, .. } = &mut world.contexts[1];
    let meta = EntryMeta::of(EntryKind::Noop).by(OperationId { id: 1, operation: 1 });
    let draft = writer.draft_record(&[], meta).expect("room");
    let place = writer.finish(draft, csn);
    let change = IndexChange::Replace { from, csn };
    stream.as_mut().expect("a leader's").push(Written { place, csn, change });
    world.act(&Act::Commit { stream: 1, more: 1 });
    world.act(&Act::Apply { stream: 1 });
    world.advance();
    assert_eq!(applied(&world), [2, 1]);
}
