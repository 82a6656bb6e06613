//! `longarm scan`: items in the order of their keys, from a server or group that keeps an ordered index.

use std::ops::Bound;

use longarm_client::{ClusterClient, Error, Scan, ScanItem, UnixMillis};
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::connect;
use crate::items::escape::escape;
use crate::items::record;
use crate::output::{Exit, Failure, Output};

/// The line about the command in help texts.
pub const ABOUT: &str = "Print items in the order of their keys";

const AFTER: &str = "\
Each page is of one instant; a longer scan is a row of pages, each later than the one before, and of several
groups each has pages of its own. With --snapshot all items of a group are of one instant, however much is
written meanwhile; with --together all items of all groups, at most 65,536. An item is a line: key, tab,
value, with tabs, line ends and backslashes escaped. With --json it is an object, in which bytes that are no
Unicode text are base64 under key64 and value64. Ends with 0 also if there is no such item, with 4 where no
ordered index is kept.";

/// Bytes of lines that are written at once.
const WRITTEN_AT: usize = 64 << 10;

/// The arguments of `longarm scan`.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Begin with this key, or the next one that exists
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,

    /// End before this key
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,

    /// Only keys that begin so
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["from", "to"])]
    pub prefix: Option<String>,

    /// At most so many items
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,

    /// From the last key to the first
    #[arg(long)]
    pub reverse: bool,

    /// Print no values
    #[arg(long)]
    pub keys_only: bool,

    /// Print the number of keys, and nothing of them
    #[arg(long, conflicts_with_all = ["keys_only", "reverse", "page"])]
    pub count: bool,

    /// All items as they were at one instant, over all pages and groups: for ranges that are hardly written
    #[arg(long)]
    pub together: bool,

    /// All items of each group as they were at one instant: replicas keep what is written over for so long
    #[arg(long, conflicts_with = "together")]
    pub snapshot: bool,

    /// Fetch at most so many items at a time; a smaller page is less likely disturbed by writes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub page: Option<u32>,
}

impl Args {
    fn scan(&self) -> Scan {
        let mut scan = match &self.prefix {
            Some(prefix) => Scan::prefix(prefix),
            None => {
                let low = self.from.as_ref().map_or(Bound::Unbounded, Bound::Included);
                let high = self.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                Scan::range::<String>((low.cloned(), high.cloned()))
            }
        };
        if self.reverse {
            scan = scan.reverse();
        }
        if self.keys_only {
            scan = scan.keys_only();
        }
        if let Some(limit) = self.limit {
            scan = scan.limit(limit);
        }
        match self.page {
            Some(items) => scan.page(items),
            None => scan,
        }
    }
}

/// Prints the items, or their number.
pub fn run(args: Args, config: &Config, output: &mut Output) -> Result<Exit, Failure> {
    let mut client = connect::connect(config, "longarm scan")?;
    if args.count {
        let keys = count(&args, &mut client).map_err(|error| connect::failure(&error, config))?;
        let shown = if output.json() {
            output.value(&json!({ "count": keys }))
        } else {
            output.line(&keys.to_string())
        };
        return shown.map(|()| Exit::Ok);
    }
    let mut lines = Vec::new();
    let outcome = print(&args, &mut client, output, &mut lines, config);
    // What came before an error is shown before the error.
    output.write(&lines)?;
    outcome.map(|()| Exit::Ok)
}

/// The number of keys: of several moments, unless the scan is to be of one.
fn count(args: &Args, client: &mut ClusterClient) -> Result<u64, Error> {
    let scan = args.scan();
    if args.together {
        return Ok(client.scan_together(&scan.keys_only())?.len() as u64);
    }
    if !args.snapshot {
        return client.count(&scan);
    }
    let (mut items, mut keys) = (client.scan_snapshot(&scan.keys_only())?, 0);
    while let Some(item) = items.next_ref() {
        item?;
        keys += 1;
    }
    Ok(keys)
}

fn print(
    args: &Args,
    client: &mut ClusterClient,
    output: &mut Output,
    lines: &mut Vec<u8>,
    config: &Config,
) -> Result<(), Failure> {
    let failed = |error: Error| connect::failure(&error, config);
    let scan = args.scan();
    if args.together {
        let items = client.scan_together(&scan).map_err(failed)?;
        return show(args, items.into_iter().map(Ok), output, lines);
    }
    if args.snapshot {
        let items = client.scan_snapshot(&scan).map_err(failed)?;
        return show(args, items.map(|item| item.map_err(failed)), output, lines);
    }
    show(args, client.scan(&scan).map(|item| item.map_err(failed)), output, lines)
}

fn show(
    args: &Args,
    items: impl Iterator<Item = Result<ScanItem, Failure>>,
    output: &mut Output,
    lines: &mut Vec<u8>,
) -> Result<(), Failure> {
    for item in items {
        let item = item?;
        if output.json() {
            lines.extend_from_slice(object(&item, args.keys_only).to_string().as_bytes());
        } else {
            line(&item, args.keys_only, lines);
        }
        lines.push(b'\n');
        if lines.len() >= WRITTEN_AT {
            output.write(lines)?;
            lines.clear();
        }
    }
    Ok(())
}

fn line(item: &ScanItem, keys_only: bool, line: &mut Vec<u8>) {
    escape(&item.key, line);
    if !keys_only {
        line.push(b'\t');
        escape(&item.value, line);
    }
}

fn object(item: &ScanItem, keys_only: bool) -> Value {
    let mut object = Map::new();
    record::set(&mut object, "key", &item.key);
    if !keys_only {
        record::set(&mut object, "value", &item.value);
    }
    object.insert("version".into(), item.csn.0.into());
    if item.expiry != UnixMillis::NEVER {
        object.insert("expires_ms".into(), item.expiry.0.into());
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use longarm_client::Csn;

    use super::*;

    fn item(key: &[u8], value: &[u8], expiry: u64) -> ScanItem {
        ScanItem { key: key.into(), value: value.into(), csn: Csn(7), expiry: UnixMillis(expiry) }
    }

    #[test]
    fn an_item_is_one_line_whatever_is_in_it() {
        let shown = |keys_only| {
            let mut bytes = Vec::new();
            line(&item(b"a\tb", b"x\ny\\\xff", 0), keys_only, &mut bytes);
            bytes
        };
        assert_eq!(shown(false), b"a\\tb\tx\\ny\\\\\xff");
        assert_eq!(shown(true), b"a\\tb");
    }

    #[test]
    fn an_item_is_an_object_with_its_version() {
        let plain = object(&item(b"k", b"v", 0), false);
        assert_eq!(plain, json!({ "key": "k", "value": "v", "version": 7 }));
        let binary = object(&item(b"\xff", b"\xfe", 9), false);
        assert_eq!(binary, json!({ "key64": "/w==", "value64": "/g==", "version": 7, "expires_ms": 9 }));
        assert_eq!(object(&item(b"k", b"", 0), true), json!({ "key": "k", "version": 7 }));
    }

    #[test]
    fn the_arguments_make_the_scan() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let scan = |words: &[&str]| {
            let words = std::iter::once(&"scan").chain(words);
            <Line as clap::Parser>::try_parse_from(words).map(|line| line.args.scan())
        };
        let all = scan(&[]).expect("good words");
        assert_eq!(all, Scan::all());
        let some = ["--from", "a", "--to", "b", "--limit", "3", "--reverse", "--keys-only", "--page", "9"];
        let wanted = Scan::range("a".."b").limit(3).reverse().keys_only().page(9);
        assert_eq!(scan(&some).expect("good words"), wanted);
        assert_eq!(scan(&["--prefix", "user:"]).expect("good words"), Scan::prefix("user:"));
        for one_moment in ["--snapshot", "--together"] {
            assert!(scan(&["--count", one_moment]).is_ok());
        }
        for wrong in [
            &["--prefix", "a", "--to", "b"][..],
            &["--page", "0"],
            &["--count", "--keys-only"],
            &["--snapshot", "--together"],
        ] {
            assert!(scan(wrong).is_err(), "{wrong:?}");
        }
    }
}
