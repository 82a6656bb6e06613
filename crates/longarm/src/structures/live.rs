//! Checks the structures of a live server, or of the leaders of a cluster, by one-sided READs.

use longarm_client::{Client, Error};
use longarm_index::hash::Geometry;
use longarm_index::hash::layout::INDEX_REGION;
use longarm_wire::ARENA_REGION;

use super::check::{Findings, View, check};
use crate::config::Config;
use crate::connect;
use crate::output::{Exit, Failure};

/// Checks the memory of a live server, or of the leader of each group, and shows what was found. With a `key`
/// it checks only the group that has the key.
pub fn look(
    config: &Config,
    key: Option<&str>,
    mut show: impl FnMut(&str, &Findings, &Geometry, View<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut cluster = connect::connect(config, "longarm inspect")?;
    let wanted = key.map(|key| cluster.topology().group_of(key.as_bytes()));
    for group in 0..cluster.topology().groups().len() {
        if wanted.is_none_or(|wanted| wanted == group) {
            let client = cluster.group(group).map_err(|error| connect::failure(&error, config))?;
            look_at(client, config, &mut show)?;
        }
    }
    Ok(())
}

fn look_at(
    client: &mut Client,
    config: &Config,
    show: &mut impl FnMut(&str, &Findings, &Geometry, View<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |error: Error| connect::failure(&error, config);
    let of = format!("live server over {} (boot {:016x})", client.describe(), client.server_boot());
    let raw = client.raw().map_err(failed)?;
    let lacks = |what: &str| Failure::new(Exit::Refused, format!("the server does not lend its {what}"));
    let index = raw.region(INDEX_REGION).ok_or_else(|| lacks("index"))?;
    let arena = raw.region(ARENA_REGION).ok_or_else(|| lacks("arena"))?;
    let view = View { index: &index, arena: &arena, sums: raw.sums() };
    let findings = check(view, || raw.geometry()).map_err(failed)?;
    let geometry = raw.geometry().map_err(failed)?;
    // Over a broken connection the memory reads as zeroes, so nothing is reported of it.
    match raw.failure() {
        Some(error) => Err(failed(error)),
        // There is nothing to show.
        None if findings.unsettled => findings.sound(),
        None => {
            let reported = show(&of, &findings, &geometry, view);
            raw.failure().map_or(reported, |error| Err(failed(error)))
        }
    }
}

/// What a quick look at a live server counts.
#[derive(Clone, Copy, Debug)]
pub struct Soundness {
    /// Items in the index.
    pub items: u64,
    /// Hash tables.
    pub tables: usize,
    /// Live entries in the arena.
    pub entries: u64,
}

/// Walks and verifies the structures of a live server; anything broken is a failure.
pub fn soundness(config: &Config) -> Result<Soundness, Failure> {
    let mut found = Soundness { items: 0, tables: 0, entries: 0 };
    look(config, None, |_, findings, _, _| {
        found.items += findings.index.items;
        found.tables += findings.index.tables;
        found.entries += findings.store.total.live_entries;
        findings.sound()
    })?;
    Ok(found)
}
