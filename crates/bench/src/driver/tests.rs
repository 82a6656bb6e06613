//! URLs, the two protocols against scripted servers, and against the real ones where they are installed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::time::Duration;

use super::*;
use crate::open::{TargetOptions, open};
use crate::peer::{PeerKind, PeerOptions};
use crate::url::{Protocol, Url};

#[test]
fn urls_are_read_printed_and_refused() {
    for text in [
        "redis://127.0.0.1:6379",
        "redis://[::1]:7000",
        "memcached://host:1",
        "redis+unix:///run/redis.sock",
        "memcached+unix:///tmp/m",
        "redis://127.0.0.1:6379?wait=1",
        "redis+unix:///run/redis.sock?wait=2",
        "etcd://127.0.0.1:2379",
    ] {
        assert_eq!(text.parse::<Url>().expect(text).to_string(), text);
    }
    assert_eq!("redis://localhost".parse::<Url>().unwrap().to_string(), "redis://localhost:6379");
    assert_eq!("memcached://localhost/".parse::<Url>().unwrap().to_string(), "memcached://localhost:11211");
    for text in [
        "redis",
        "http://x:1",
        "redis://",
        "redis://:1",
        "redis://x:0",
        "redis://x:99999",
        "redis://x:y",
        "redis://u:p@x:1",
        "redis://x:1/3",
        "redis://x:1?wait=0",
        "redis://x:1?wait=101",
        "redis://x:1?wait=one",
        "redis://x:1?db=1",
        "memcached://x:1?wait=1",
        "etcd+unix:///run/etcd",
        "etcd://u:p@x:1",
        "redis+unix://relative",
        "redis://[::1",
    ] {
        let error = text.parse::<Url>().expect_err(text);
        assert!(error.contains("redis://HOST:PORT"), "{error}");
    }
}

/// A server that reads something and answers `script`, once.
fn scripted(script: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        _ = stream.read(&mut request).unwrap();
        // In pieces, so that every reader meets an answer that is cut.
        for piece in script.chunks(3) {
            stream.write_all(piece).unwrap();
            stream.flush().unwrap();
        }
        // A close with a request that nobody read would reset the connection, and take the answer with it.
        stream.shutdown(Shutdown::Write).unwrap();
        while stream.read(&mut request).is_ok_and(|got| got > 0) {}
    });
    port
}

fn get(scheme: &str, script: &'static [u8]) -> Result<Option<Vec<u8>>, TargetError> {
    let url = format!("{scheme}://127.0.0.1:{}", scripted(script));
    let options = TargetOptions { timeout: Duration::from_millis(500), ..TargetOptions::default() };
    let mut target = open(&url, &options).unwrap().connect(0)?;
    let mut value = Vec::new();
    target.get(b"k", &mut value).map(|found| found.then_some(value))
}

#[test]
fn redis_answers_are_understood_and_nonsense_ends_the_connection() {
    assert_eq!(get("redis", b"$5\r\nhe\r\no\r\n"), Ok(Some(b"he\r\no".to_vec())));
    assert_eq!(get("redis", b"$0\r\n\r\n"), Ok(Some(vec![])));
    assert_eq!(get("redis", b"$-1\r\n"), Ok(None));
    assert_eq!(get("redis", b"-NOAUTH no\r\n"), Err(TargetError::Refused("NOAUTH no".into())));
    let nonsense: [&[u8]; 10] = [
        b"",
        b"\r\n",
        b"$",
        b"$-2\r\n",
        b"$x\r\n",
        b"$3\r\nabcdef\r\n",
        b"$99999999999\r\n",
        b"+OK\r\n",
        b":x\r\n",
        b"HTTP/1.1 400\r\n",
    ];
    for script in nonsense {
        let result = get("redis", script);
        assert!(matches!(result, Err(TargetError::Lost(_))), "{script:?} gave {result:?}");
    }
}

#[test]
fn a_write_counts_when_the_replicas_have_it() {
    let connect = |script: &'static [u8]| {
        let url = format!("redis://127.0.0.1:{}?wait=2", scripted(script));
        let options = TargetOptions { timeout: Duration::from_millis(500), ..TargetOptions::default() };
        open(&url, &options).unwrap().connect(0).unwrap()
    };
    let put = |script| connect(script).put(b"k", b"v");
    assert_eq!(put(b"+OK\r\n:2\r\n"), Ok(()));
    let few = Err(TargetError::Refused("1 replicas have it, not 2".into()));
    assert_eq!(put(b"+OK\r\n:1\r\n"), few);
    assert_eq!(put(b"-OOM no\r\n:2\r\n"), Err(TargetError::Refused("OOM no".into())));
    assert!(matches!(put(b"+OK\r\n+OK\r\n"), Err(TargetError::Lost(_))));
    assert!(matches!(put(b"+OK\r\n"), Err(TargetError::Lost(_))), "no answer to WAIT");

    // In a batch one WAIT is for all, and what it says is for all writes and no read.
    let op = |verb| OpRef { verb, key: b"k", value: b"v" };
    let ops = [op(Verb::Put), op(Verb::Get), op(Verb::Put), op(Verb::Put)];
    let batch = |script| {
        let mut answers = Vec::new();
        connect(script).batch(&ops, &mut |i, seen| answers.push((i, format!("{seen:?}")))).unwrap();
        answers.sort();
        answers.into_iter().map(|(_, seen)| seen).collect::<Vec<_>>()
    };
    let refused = "Refused(\"0 replicas have it, not 2\")";
    assert_eq!(batch(b"+OK\r\n$-1\r\n+OK\r\n-no\r\n:3\r\n"), ["Stored", "Miss", "Stored", "Refused(\"no\")"]);
    assert_eq!(batch(b"+OK\r\n$-1\r\n+OK\r\n+OK\r\n:0\r\n"), [refused, "Miss", refused, refused]);
}

#[test]
fn a_scan_of_redis_names_keys_and_then_fetches_their_values() {
    let connect = |script: &'static [u8]| {
        let url = format!("redis://127.0.0.1:{}", scripted(script));
        let timeout = Duration::from_millis(500);
        let options = TargetOptions { timeout, ordered: true, ..TargetOptions::default() };
        open(&url, &options).expect("an address").connect(0).expect("a connection")
    };
    let put = |script| connect(script).put(b"k", b"v");
    assert_eq!(put(b"+OK\r\n:1\r\n"), Ok(()));
    assert_eq!(put(b"+OK\r\n-OOM no\r\n"), Err(TargetError::Refused("OOM no".into())));
    assert!(matches!(put(b"+OK\r\n"), Err(TargetError::Lost(_))), "no answer to ZADD");

    let scan = |script, keys_only| {
        let mut shown = Vec::new();
        let wanted = ScanRef { from: b"a", limit: 2, keys_only };
        connect(script).scan(&wanted, &mut |key, value| shown.push([key, value].map(<[u8]>::to_vec)))?;
        Ok(shown)
    };
    let item = |key: &[u8], value: &[u8]| [key, value].map(<[u8]>::to_vec);
    assert_eq!(scan(b"*1\r\n$1\r\na\r\n", true), Ok(vec![item(b"a", b"")]));
    assert_eq!(scan(b"*0\r\n", false), Ok(vec![]), "there is nothing to fetch");
    let two = b"*2\r\n$1\r\na\r\n$2\r\nbc\r\n*2\r\n$3\r\none\r\n$0\r\n\r\n";
    assert_eq!(scan(two, false), Ok(vec![item(b"a", b"one"), item(b"bc", b"")]));
    let gone = b"*1\r\n$1\r\na\r\n*1\r\n$-1\r\n";
    assert_eq!(scan(gone, false), Ok(vec![]), "removed between the two");
    assert_eq!(scan(b"-WRONGTYPE\r\n", true), Err(TargetError::Refused("WRONGTYPE".into())));
    let nonsense: [&[u8]; 5] =
        [b"*-1\r\n", b"+OK\r\n", b"*1\r\n:1\r\n", b"*1\r\n$1\r\na\r\n*2\r\n", b"*x\r\n"];
    for script in nonsense {
        assert!(matches!(scan(script, false), Err(TargetError::Lost(_))), "{script:?}");
    }
}

#[test]
fn what_is_not_etcd_is_noticed() {
    let options = TargetOptions { timeout: Duration::from_millis(300), ..TargetOptions::default() };
    let connect = |port: u16| open(&format!("etcd://127.0.0.1:{port}"), &options).unwrap().connect(0);
    for script in [&b""[..], b"-ERR unknown command\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0; 64]] {
        let Err(TargetError::Lost(why)) = connect(scripted(script)) else { panic!("{script:?} is etcd") };
        assert!(why.contains("etcd://127.0.0.1:"), "{why}");
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Err(TargetError::Lost(why)) = connect(free) else { panic!("connected to a closed port") };
    assert!(why.contains("is the server running"), "{why}");
}

#[test]
fn memcached_answers_are_understood_and_nonsense_ends_the_connection() {
    assert_eq!(get("memcached", b"VALUE k 0 3\r\na\nb\r\nEND\r\n"), Ok(Some(b"a\nb".to_vec())));
    assert_eq!(get("memcached", b"VALUE k 0 0 77\r\n\r\nEND\r\n"), Ok(Some(vec![])));
    assert_eq!(get("memcached", b"END\r\n"), Ok(None));
    assert!(matches!(get("memcached", b"SERVER_ERROR oom\r\n"), Err(TargetError::Refused(_))));
    let nonsense: [&[u8]; 8] = [
        b"",
        b"VALUE j 0 3\r\nabc\r\nEND\r\n",
        b"VALUE k 0\r\n",
        b"VALUE k 0 x\r\n",
        b"VALUE k 0 3\r\nabcdef\r\n",
        b"VALUE k 0 3\r\nabc\r\nVALUE j 0 3\r\n",
        b"ERROR\r\n",
        b"STORED\r\n",
    ];
    for script in nonsense {
        let result = get("memcached", script);
        assert!(matches!(result, Err(TargetError::Lost(_))), "{script:?} gave {result:?}");
    }
}

#[test]
fn a_silent_or_missing_server_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = TargetOptions { timeout: Duration::from_millis(50), ..TargetOptions::default() };
    let mut target = open(&format!("redis://127.0.0.1:{port}"), &options).unwrap().connect(0).unwrap();
    let error = target.get(b"k", &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("nothing moved for 50ms"), "{error}");
    drop(listener);
    let Err(error) = open(&format!("memcached://127.0.0.1:{port}"), &options).unwrap().connect(0) else {
        panic!("connected to a closed port");
    };
    assert!(error.to_string().contains("is the server running"), "{error}");
    assert!(open("mysql", &options).is_err());
}

/// For small servers that take large values.
pub fn options() -> TargetOptions {
    let peer = PeerOptions { memory: 256 << 20, value_max: 4 << 20, ..PeerOptions::default() };
    TargetOptions { peer, ..TargetOptions::default() }
}

/// Starts a real server, or says that the test was skipped.
pub fn real(kind: PeerKind) -> Option<Box<dyn TargetFactory>> {
    if let Err(hint) = kind.find() {
        eprintln!("SKIPPED: {hint}");
        return None;
    }
    Some(open(kind.name(), &options()).expect("an installed server starts"))
}

fn exercise(kind: PeerKind) {
    let Some(factory) = real(kind) else { return };
    let info = factory.describe().unwrap();
    let name = kind.name().split('-').next().expect("a name");
    assert!(info.version.starts_with(name) && info.version.len() > name.len() + 2, "{info:?}");
    assert!(info.items == Some(0) && info.used_memory.is_some(), "{info:?}");
    assert!(info.pids.len() == kind.processes(), "{info:?}");
    let setting = |wanted: &str| info.settings.iter().find(|(name, _)| name == wanted).map(|(_, text)| text);
    assert!(kind == PeerKind::Memcached || setting("durability").is_some(), "{info:?}");
    // What names it, before any remark.
    let url = setting("transport").and_then(|text| text.split(' ').next()).unwrap();

    let mut target = factory.connect(0).unwrap();
    let mut value = b"rubbish".to_vec();
    assert_eq!(target.get(b"absent", &mut value), Ok(false));
    assert!(value.is_empty());
    // Larger than every buffer, and with the bytes that frame answers.
    let large: Vec<u8> = (0..3 << 20).map(|i| b"\r\nEND\r\n$-1\r\n"[i % 12]).collect();
    for written in [&b""[..], b"\r\n", &large] {
        assert_eq!(target.put(b"key", written), Ok(()));
        assert_eq!(target.get(b"key", &mut value), Ok(true));
        assert!(value == written);
    }
    // A batch of large and small, puts and gets: far more bytes both ways than sockets hold.
    let keys: Vec<String> = (0..200).map(|i| format!("key{i}")).collect();
    let medium = &large[..30_000];
    // Gets in long and short runs, of the same key twice, with absent ones at both ends of a run.
    target.put(b"a", b"A").unwrap();
    let asked: Vec<&[u8]> = (0..300).map(|i| [&b"absent"[..], b"a", b"a", b"absent"][i % 4]).collect();
    let ops: Vec<OpRef<'_>> = asked.iter().map(|key| OpRef { verb: Verb::Get, key, value: &[] }).collect();
    let mut hits = Vec::new();
    target.batch(&ops, &mut |i, seen| hits.push((i, seen == Seen::Hit(b"A")))).unwrap();
    hits.sort();
    assert!(
        hits.len() == 300
            && hits.iter().enumerate().all(|(n, &(i, hit))| i == n && hit == (asked[n] == b"a"))
    );
    let ops: Vec<OpRef<'_>> = (0..600)
        .map(|i| match i % 3 {
            0 => OpRef { verb: Verb::Put, key: keys[i / 3].as_bytes(), value: medium },
            1 => OpRef { verb: Verb::Get, key: keys[i / 3].as_bytes(), value: &[] },
            _ => OpRef { verb: Verb::Get, key: b"absent", value: &[] },
        })
        .collect();
    let mut seen = vec![0; ops.len()];
    let show = &mut |i: usize, answer: Seen<'_>| {
        seen[i] += 1;
        match i % 3 {
            0 => assert_eq!(answer, Seen::Stored),
            // Requests of one batch are concurrent to etcd, in order to the others.
            1 if kind.protocol() == Protocol::Etcd && answer == Seen::Miss => {}
            1 => assert!(answer == Seen::Hit(medium)),
            _ => assert_eq!(answer, Seen::Miss),
        }
    };
    target.batch(&ops, show).unwrap();
    assert!(seen.iter().all(|&times| times == 1));
    assert_eq!(factory.describe().unwrap().items, Some(202));
    target.remove(&[b"key", b"absent"]).unwrap();
    assert_eq!(target.get(b"key", &mut value), Ok(false));
    assert_eq!(factory.describe().unwrap().items, Some(201));
    assert_eq!(factory.clear(), Ok(true), "a server of our own");
    assert_eq!(target.get(b"a", &mut value), Ok(false));
    let not_ours = open(url, &TargetOptions::default()).unwrap();
    assert_eq!(not_ours.clear(), Ok(false));
    assert_eq!(not_ours.describe().unwrap().pids, info.pids, "found by who listens there");
    drop((target, factory));
    assert!(info.pids.iter().all(|&pid| crate::cpu::seconds_of(&[pid]).is_none()), "they are gone");
}

#[test]
fn the_real_redis_is_driven() {
    exercise(PeerKind::Redis);
}

#[test]
fn a_real_redis_with_replicas_is_driven() {
    exercise(PeerKind::RedisGroup);
}

#[test]
fn three_real_etcd_are_driven() {
    exercise(PeerKind::EtcdGroup);
    exercise(PeerKind::EtcdFsync);
}

#[test]
fn the_real_memcached_is_driven() {
    exercise(PeerKind::Memcached);
}
