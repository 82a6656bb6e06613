//! Locates one key: its table, pair, slot and entry.

use longarm_index::hash::{Geometry, ReadGranularity, Record, Search, SearchStep, SlotKind, items};
use longarm_memory::HashKey;
use serde_json::{Value, json};

use crate::structures::check::{View, read_entry};

/// The most steps of a search whose pair changes meanwhile.
const LOOKS: usize = 1000;

/// Describes the place of a key; gives `None` if the key is not there.
pub fn locate(key: &[u8], geometry: &Geometry, view: View<'_>) -> Result<Option<Value>, String> {
    let hash = HashKey::new(geometry.hash_key).hash(key);
    let mut bytes = Vec::new();
    for table in geometry.live() {
        let (pair, odd) = table.home(hash);
        let mut found = None;
        let mut entries = Vec::new();
        let looked = items(view.index, table, pair, view.sums, |record| match *record {
            Record::Inline { csn, key: have, value, expiry, .. } if have == key => {
                found = Some(json!({ "version": csn.0, "inline": true, "value_bytes": value.len(),
                        "expiry_ms": expiry.0 }))
            }
            Record::Inline { .. } => {}
            Record::Entry { csn, entry, .. } => entries.push((csn, entry)),
        })?;
        for (csn, entry) in entries {
            // A live server may replace an entry during the look, so an entry that does not verify is passed
            // over.
            let Ok(read) = read_entry(view, csn, entry, &mut bytes) else { continue };
            if read.key == key {
                found = Some(json!({
                    "version": csn.0, "inline": false, "value_bytes": read.value.len(),
                    "expiry_ms": read.expiry.0,
                    "entry": format!("{:#x}", entry.offset), "entry_bytes": entry.len, "stream": read.stream,
                    "position": read.position, "superseded": read.superseded, "moved": read.moved,
                    "segment": entry.offset / longarm_base::limits::SEGMENT_BYTES,
                }));
            }
        }
        if let Some(mut found) = found {
            let members = found.as_object_mut().expect("an object");
            members.insert("table".into(), table.id.into());
            members.insert("pair".into(), pair.into());
            members.insert("bucket".into(), if odd { "odd" } else { "even" }.into());
            members.insert("pair_at".into(), format!("{:#x}", table.pair_at(pair)).into());
            members.insert("fingerprint".into(), format!("{:#04x}", hash.fingerprint()).into());
            if let Some(at) = slot(key, geometry, view) {
                members.insert("slot_at".into(), format!("{at:#x}").into());
            }
            return Ok(Some(found));
        }
        if looked.torn > 0 {
            return Err(format!("a slot of pair {pair} of table {} does not verify", table.id));
        }
        if !looked.moved {
            return Ok(None);
        }
    }
    Ok(None)
}

/// Finds the slot of an inline item by the search that clients use; gives its offset.
fn slot(key: &[u8], geometry: &Geometry, view: View<'_>) -> Option<u64> {
    let inline = geometry.live().all(|table| table.shape.kind == SlotKind::Inline64);
    let hash = HashKey::new(geometry.hash_key).hash(key);
    let (mut search, mut step) = Search::start(hash, geometry, ReadGranularity::Lines);
    let mut bytes = Vec::new();
    for _ in 0..LOOKS {
        match step {
            SearchStep::Read if inline => {
                let place = search.place();
                bytes.resize(place.len as usize, 0);
                view.index.copy_out(place.offset, &mut bytes);
                step = search.feed(key, &bytes, geometry, view.sums);
            }
            SearchStep::Found => return Some(search.item().slot.offset),
            _ => return None,
        }
    }
    None
}
