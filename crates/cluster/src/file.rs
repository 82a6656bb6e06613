//! The form of the file: TOML, numbers of 64 bits as hexadecimal text, since TOML's have 63.

use std::path::Path;
use std::time::Duration;

use longarm_base::limits::LOSS_WINDOW;
use longarm_base::{Nanos, ReplicaId};
use longarm_replica::Timing;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;

use crate::units::{parse_duration, show_duration};
use crate::{Cluster, Durability, Group, NodeAt, NodeId, ReplicaOn, numbers};

/// What this program writes. It reads format 1, too: one group, whose keys stand at the top and whose
/// replicas are all nodes.
const FORMAT: u32 = 2;

const HEAD: &str = "\
# A cluster, made by `longarm cluster init`. All nodes and all clients have the same file.
# Keep it to yourself: whoever knows its keys can forge what is stored.
";

#[derive(Deserialize)]
struct Any {
    format: Spanned<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    #[serde(rename = "format")]
    _format: u32,
    id: Spanned<String>,
    sum_key: Spanned<String>,
    hash_key: Spanned<String>,
    timing: Times,
    node: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Second {
    #[serde(rename = "format")]
    _format: u32,
    place_key: Spanned<String>,
    durability: Option<Spanned<String>>,
    loss_window: Option<Spanned<String>>,
    timing: Times,
    node: Vec<Entry>,
    group: Vec<Replicated>,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replicated {
    id: Spanned<String>,
    sum_key: Spanned<String>,
    hash_key: Spanned<String>,
    replicas: Spanned<Vec<Written>>,
}

/// How a replica is written: as the number of its node, which is its id, too; or `"4@130"`, replica 4 on node
/// 130.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the number of a node, or \"R@N\" for replica R on node N")]
enum Written {
    Number(i64),
    Placed(String),
}

impl Cluster {
    /// Reads the text of a file; `path` is only named. An error names file, line and field.
    pub fn parse(path: &Path, text: &str) -> Result<Cluster, String> {
        let reader = Reader { path, text };
        let any: Any = reader.document()?;
        let cluster = match *any.format.get_ref() {
            1 => reader.first(&reader.document()?)?,
            FORMAT => reader.second(&reader.document()?)?,
            found => {
                return Err(reader.wrong(
                    "format",
                    &any.format,
                    &format!(
                        "{found} is not known; this program knows 1 and {FORMAT}, so use the one that made it"
                    ),
                ));
            }
        };
        cluster.check().map_err(|fault| format!("{}: {fault}", path.display()))?;
        Ok(cluster)
    }

    /// The text of a file that reads back as the same.
    pub fn to_toml(&self) -> String {
        let time = |time: Nanos| show_duration(Duration::from_nanos(time.0));
        let timing = &self.timing;
        let mut text = format!(
            "{HEAD}format = {FORMAT}\n\
             # Chooses the group of a key, with the order of the groups below: neither may ever change.\n\
             place_key = \"{:016x}\"\n",
            self.place_key
        );
        if self.durability != Durability::Memory {
            text.push_str(&format!(
                "# What an acknowledged write outlives: \"memory\" the loss of a minority of nodes,\n\
                 # \"sync\" that of the power of all, \"pmem\" too, on persistent memory, and\n\
                 # \"async\" too, except for the last writes.\n\
                 # It stays as it is, as long as the nodes have data.\n\
                 durability = \"{}\"\n",
                self.durability.name()
            ));
        }
        if self.durability == Durability::Async {
            text.push_str(&format!(
                "# A loss of the power of all loses the writes of this time at most.\n\
                 loss_window = \"{}\"\n",
                show_duration(self.loss_window)
            ));
        }
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
        for node in &self.nodes {
            // A JSON string is a TOML string.
            let address = serde_json::Value::String(node.address.to_string());
            text.push_str(&format!("\n[[node]]\nnumber = {}\naddress = {address}\n", node.node));
        }
        for group in &self.groups {
            text.push_str(&format!(
                "\n[[group]]\nid = \"{:016x}\"\nsum_key = \"{:016x}\"\nhash_key = \"{:016x}\"\n\
                 # The first is to lead first.\n\
                 replicas = [{}]\n",
                group.id,
                group.sum_key,
                group.hash_key,
                numbers(group.replicas.iter().map(written))
            ));
        }
        text
    }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn document<D: DeserializeOwned>(&self) -> Result<D, String> {
        toml::from_str(self.text).map_err(|error| self.broken(&error))
    }

    fn first(&self, document: &First) -> Result<Cluster, String> {
        let nodes = self.nodes(&document.node)?;
        let mut group = Group {
            id: self.word("id", &document.id)?,
            sum_key: self.word("sum_key", &document.sum_key)?,
            hash_key: self.word("hash_key", &document.hash_key)?,
            replicas: Vec::new(),
        };
        nodes.iter().for_each(|at| group.place(at.node));
        // Of one group no key is placed.
        Ok(Cluster {
            place_key: 0,
            durability: Durability::Memory,
            loss_window: LOSS_WINDOW,
            timing: self.timing(&document.timing)?,
            nodes,
            groups: vec![group],
        })
    }

    fn second(&self, document: &Second) -> Result<Cluster, String> {
        let groups = document.group.iter().map(|group| self.group(group));
        let durability = self.durability(document.durability.as_ref())?;
        Ok(Cluster {
            place_key: self.word("place_key", &document.place_key)?,
            durability,
            loss_window: self.loss_window(durability, document.loss_window.as_ref())?,
            timing: self.timing(&document.timing)?,
            nodes: self.nodes(&document.node)?,
            groups: groups.collect::<Result<_, _>>()?,
        })
    }

    fn durability(&self, written: Option<&Spanned<String>>) -> Result<Durability, String> {
        let Some(written) = written else { return Ok(Durability::Memory) };
        written.get_ref().parse().map_err(|fault: String| self.wrong("durability", written, &fault))
    }

    fn loss_window(
        &self,
        durability: Durability,
        written: Option<&Spanned<String>>,
    ) -> Result<Duration, String> {
        let Some(written) = written else { return Ok(LOSS_WINDOW) };
        if durability != Durability::Async {
            let [own, of] = [durability, Durability::Async].map(Durability::name);
            let fault = format!("it is of durability {of:?}, and here that is {own:?}");
            return Err(self.wrong("loss_window", written, &fault));
        }
        parse_duration(written.get_ref()).map_err(|fault| self.wrong("loss_window", written, &fault))
    }

    fn group(&self, group: &Replicated) -> Result<Group, String> {
        let replicas = group.replicas.get_ref().iter().map(replica);
        let replicas = replicas.collect::<Result<_, _>>();
        Ok(Group {
            id: self.word("group.id", &group.id)?,
            sum_key: self.word("group.sum_key", &group.sum_key)?,
            hash_key: self.word("group.hash_key", &group.hash_key)?,
            replicas: replicas.map_err(|fault| self.wrong("group.replicas", &group.replicas, &fault))?,
        })
    }

    fn nodes(&self, entries: &[Entry]) -> Result<Vec<NodeAt>, String> {
        let mut nodes = entries.iter().map(|entry| self.node(entry)).collect::<Result<Vec<_>, _>>()?;
        nodes.sort_by_key(|node| node.node);
        Ok(nodes)
    }

    fn timing(&self, times: &Times) -> Result<Timing, String> {
        Ok(Timing {
            heartbeat: self.time("timing.heartbeat", &times.heartbeat)?,
            suspect: self.time("timing.suspect", &times.suspect)?,
            promise: self.time("timing.lease", &times.lease)?,
            election: self.time("timing.election", &times.election)?,
        })
    }

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

    fn node(&self, entry: &Entry) -> Result<NodeAt, String> {
        let number = *entry.number.get_ref();
        let node = node(number).map_err(|fault| self.wrong("node.number", &entry.number, &fault))?;
        let address = entry.address.get_ref().parse();
        let address = address.map_err(|fault: String| self.wrong("node.address", &entry.address, &fault))?;
        Ok(NodeAt { node, address })
    }
}

/// `1=tcp://host:port`.
pub fn parse_node(text: &str) -> Result<NodeAt, String> {
    let (number, address) =
        text.split_once('=').ok_or("expected a number and an address, such as 1=tcp://host:7411")?;
    let number: i64 = number
        .trim()
        .parse()
        .map_err(|_| format!("{number:?} is no number of a node; expected 0 to {}", u32::MAX))?;
    Ok(NodeAt { node: node(number)?, address: address.trim().parse()? })
}

/// A node from its number.
fn node(number: i64) -> Result<NodeId, String> {
    let node = u32::try_from(number).map(NodeId);
    node.map_err(|_| format!("{number} names no node; expected 0 to {}", u32::MAX))
}

/// A replica's id from its number.
fn id(number: i64) -> Result<ReplicaId, String> {
    let id = u8::try_from(number).ok().map(ReplicaId).filter(|id| *id <= ReplicaId::MAX);
    id.ok_or_else(|| format!("{number} is no replica's id, which is 0 to {}", ReplicaId::MAX))
}

/// A replica as it is written.
fn replica(written: &Written) -> Result<ReplicaOn, String> {
    match written {
        Written::Number(number) => {
            let hint = |fault| format!("{fault}: write \"R@{number}\" for replica R on that node");
            Ok(ReplicaOn { node: node(*number)?, replica: id(*number).map_err(hint)? })
        }
        Written::Placed(text) => {
            let parts =
                text.split_once('@').and_then(|(id, node)| Some((id.parse().ok()?, node.parse().ok()?)));
            let (replica, on) =
                parts.ok_or_else(|| format!("{text:?} is not of the form \"R@N\": replica R on node N"))?;
            Ok(ReplicaOn { replica: id(replica)?, node: node(on)? })
        }
    }
}

/// How a replica is written.
fn written(one: &ReplicaOn) -> String {
    let ReplicaOn { replica, node } = one;
    if u32::from(replica.0) == node.0 { node.to_string() } else { format!("\"{replica}@{node}\"") }
}
