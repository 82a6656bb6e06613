//! The form of the file: TOML, numbers of 64 bits as hexadecimal text, since TOML's have 63.

use std::path::Path;
use std::time::Duration;

use longarm_base::{Nanos, NodeId};
use longarm_server::{Member, Timing};
use serde::Deserialize;
use toml::Spanned;

use super::Cluster;
use crate::config::units::{parse_duration, show_duration};

/// What this program reads and writes.
const FORMAT: u32 = 1;

const HEAD: &str = "\
# A group of replicas, made by `longarm cluster init`. All nodes and all clients have the same file.
# Keep it to yourself: whoever knows its keys can forge what the group stores.
";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: Spanned<u32>,
    id: Spanned<String>,
    sum_key: Spanned<String>,
    hash_key: Spanned<String>,
    timing: Times,
    node: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Times {
    lease: Spanned<String>,
    heartbeat: Spanned<String>,
    suspect: Spanned<String>,
    election: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    number: Spanned<i64>,
    address: Spanned<String>,
}

impl Cluster {
    /// Reads the text of a file; `path` is only named. An error names file, line and field.
    pub fn parse(path: &Path, text: &str) -> Result<Cluster, String> {
        let reader = Reader { path, text };
        let document: Document = toml::from_str(text).map_err(|error| reader.broken(&error))?;
        if *document.format.get_ref() != FORMAT {
            let found = document.format.get_ref();
            return Err(reader.wrong(
                "format",
                &document.format,
                &format!("{found} is not known; this program knows {FORMAT}, so use the one that made it"),
            ));
        }
        let times = &document.timing;
        let members = document.node.iter().map(|entry| reader.member(entry));
        let mut members = members.collect::<Result<Vec<_>, String>>()?;
        members.sort_by_key(|member| member.node);
        let cluster = Cluster {
            id: reader.word("id", &document.id)?,
            sum_key: reader.word("sum_key", &document.sum_key)?,
            hash_key: reader.word("hash_key", &document.hash_key)?,
            timing: Timing {
                heartbeat: reader.time("timing.heartbeat", &times.heartbeat)?,
                suspect: reader.time("timing.suspect", &times.suspect)?,
                promise: reader.time("timing.lease", &times.lease)?,
                election: reader.time("timing.election", &times.election)?,
            },
            members,
        };
        cluster.check().map_err(|fault| format!("{}: {fault}", path.display()))?;
        Ok(cluster)
    }

    /// The text of a file that reads back as the same.
    pub fn to_toml(&self) -> String {
        let time = |time: Nanos| show_duration(Duration::from_nanos(time.0));
        let timing = &self.timing;
        let mut text = format!(
            "{HEAD}format = {FORMAT}\nid = \"{:016x}\"\nsum_key = \"{:016x}\"\nhash_key = \"{:016x}\"\n",
            self.id, self.sum_key, self.hash_key
        );
        text.push_str(&format!(
            "\n[timing]\n\
             # How long a replica lets no other lead, since it heard the leader: clients trust it as long.\n\
             lease = \"{}\"\nheartbeat = \"{}\"\n\
             # Without a heartbeat for so long, the leader is suspected.\n\
             suspect = \"{}\"\n\
             # A candidate that does not lead by then starts over.\n\
             election = \"{}\"\n",
            time(timing.promise),
            time(timing.heartbeat),
            time(timing.suspect),
            time(timing.election)
        ));
        for member in &self.members {
            // A JSON string is a TOML string.
            let address = serde_json::Value::String(member.address.to_string());
            text.push_str(&format!("\n[[node]]\nnumber = {}\naddress = {address}\n", member.node));
        }
        text
    }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        1 + self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
    }

    fn wrong<T>(&self, field: &str, value: &Spanned<T>, fault: &str) -> String {
        format!("{}:{}: {field}: {fault}", self.path.display(), self.line(value.span().start))
    }

    /// The parser's words, with the field on whose line they are.
    fn broken(&self, error: &toml::de::Error) -> String {
        let at = error.span().map_or(0, |span| span.start);
        let line = self.line(at);
        let written = self.text.lines().nth(line - 1).unwrap_or("");
        let field =
            written.split_once('=').map(|(field, _)| format!("{}: ", field.trim())).unwrap_or_default();
        format!("{}:{line}: {field}{}", self.path.display(), error.message())
    }

    fn word(&self, field: &str, value: &Spanned<String>) -> Result<u64, String> {
        let text = value.get_ref();
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let word = if digits { u64::from_str_radix(text, 16).ok() } else { None };
        // The value is perhaps a key: it is not shown.
        word.ok_or_else(|| self.wrong(field, value, "expected 16 hexadecimal digits in quotes"))
    }

    fn time(&self, field: &str, value: &Spanned<String>) -> Result<Nanos, String> {
        let time = parse_duration(value.get_ref()).map_err(|fault| self.wrong(field, value, &fault))?;
        u64::try_from(time.as_nanos())
            .map(Nanos)
            .map_err(|_| self.wrong(field, value, "is longer than 584 years"))
    }

    fn member(&self, entry: &Entry) -> Result<Member, String> {
        let number = *entry.number.get_ref();
        let node = node(number).map_err(|fault| self.wrong("node.number", &entry.number, &fault))?;
        let address = entry.address.get_ref().parse();
        let address = address.map_err(|fault: String| self.wrong("node.address", &entry.address, &fault))?;
        Ok(Member { node, address })
    }
}

/// A node's name from its number.
pub(super) fn node(number: i64) -> Result<NodeId, String> {
    let node = u8::try_from(number).ok().map(NodeId).filter(|node| *node <= NodeId::MAX);
    node.ok_or_else(|| format!("{number} names no node; expected 0 to {}", NodeId::MAX))
}
