//! A group of three bears any number of deletes, however little of its memory is written otherwise.

use std::ops::Range;

use super::group::{BOUND, Three};
use crate::{Client, Error, Options, Write};

/// Long keys: tombstones have them, too, so a few of them fill the memory of 64 MiB.
fn key(kind: char, number: u32) -> Vec<u8> {
    format!("{kind}{number:01000}").into_bytes()
}

/// Puts or deletes these keys, pipelined; each of them must succeed.
fn write(client: &mut Client, kind: char, numbers: Range<u32>, comes: impl Fn(u32) -> bool) {
    let (mut sent, mut done) = (numbers.start, numbers.start);
    while done < numbers.end {
        while sent < numbers.end {
            let key = key(kind, sent / 2);
            let write = if comes(sent) { Write::put(&key, b"value") } else { Write::delete(&key) };
            match client.submit(&write) {
                Ok(_) => sent += 1,
                Err(Error::Full) => break,
                Err(error) => panic!("write {sent}: {error}"),
            }
        }
        while let Some((_, outcome)) = client.poll() {
            outcome.unwrap_or_else(|error| panic!("of {done} writes one was refused: {error}"));
            done += 1;
        }
    }
}

/// Found by a client that put and deleted a million keys beside a hundred thousand that it left alone: the
/// tombstones filled the memory, and all that came next was refused for good.
#[test]
fn tombstones_do_not_fill_the_memory_beside_items_that_stay() {
    let mut three = Three::over_shm("deletes");
    let options = Options { timeout: BOUND, connect_timeout: BOUND, ..Options::default() };
    let mut client = Client::connect_group(&three.addresses, options).expect("connect");
    write(&mut client, 's', 0..8_000, |_| true);
    // One entry of its kind, whose segment nobody fills, and one that has segments of its own.
    client.put(b"long", &[1; 20_000]).expect("put");
    client.put(b"longest", &[1; 2 << 20]).expect("put");
    write(&mut client, 'c', 0..160_000, |number| number % 2 == 0);
    three.whole();
    let leader = three.leader();
    let stats = three.servers[leader].as_ref().expect("it leads").stats();
    assert_eq!((stats.items, stats.out_of_memory), (4_002, 0));
    // The next leader finds what the tombstones leave.
    drop(three.servers[leader].take());
    for number in 0..4_000 {
        assert_eq!(client.get(&key('s', number)).expect("get").as_deref(), Some(&b"value"[..]), "{number}");
    }
    for number in (0..80_000).step_by(97) {
        assert_eq!(client.get(&key('c', number)).expect("get"), None, "{number} was deleted");
    }
    assert_eq!(client.get(b"longest").expect("get").map(|value| value.len()), Some(2 << 20));
}
