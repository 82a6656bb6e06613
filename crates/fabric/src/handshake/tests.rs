//! The handshake over in-memory streams and socket pairs: every fault is named, none is a panic.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::deadline::DeadlineSocket;

fn secret(text: &str) -> Login {
    Login::Secret(Arc::from(text.as_bytes()))
}

fn offer(text: &[u8]) -> Offer {
    let lent = |id, bytes| Granted { id: RegionId(id), bytes, rights: Rights::READ };
    Offer { grants: vec![lent(1, 4096), lent(7, 8)], bytes: text.to_vec() }
}

/// What a server asks for that has one secret, or none.
fn asks(login: Login) -> ListenOptions {
    ListenOptions { login, ..ListenOptions::default() }
}

type Ends = (Result<Offer, SetupError>, Result<Offer, SetupError>);

/// Both sides over a socket pair; returns what the client and the server ended with.
fn meet(client: Login, server: Login) -> Ends {
    let (a, b) = UnixStream::pair().expect("socket pair");
    let time = Duration::from_secs(5);
    let there = std::thread::spawn(move || {
        let mut stream = DeadlineSocket::new(b, time);
        let Admitted { hello, role } = admit(&mut stream, "client", &asks(server))?;
        assert_eq!(role, PeerRole::Client);
        welcome(&mut stream, "client", &offer(b"welcome"))?;
        Ok(hello)
    });
    let mut stream = DeadlineSocket::new(a, time);
    let here = connect(&mut stream, "server", &client, &offer(b"hello"));
    drop(stream);
    (here, there.join().expect("server side"))
}

#[test]
fn offers_are_exchanged_with_and_without_a_secret() {
    for login in [Login::None, secret("a long shared secret")] {
        let (client, server) = meet(login.clone(), login);
        assert_eq!(client.expect("client"), offer(b"welcome"));
        assert_eq!(server.expect("server"), offer(b"hello"));
    }
}

#[test]
fn a_login_that_fails_says_why_at_both_ends() {
    let (client, server) = meet(secret("wrong"), secret("right"));
    assert!(matches!(&client, Err(SetupError::Login(t)) if t.contains("wrong shared secret")), "{client:?}");
    assert!(matches!(&server, Err(SetupError::Login(_))), "{server:?}");
    let (client, server) = meet(Login::None, secret("right"));
    assert!(matches!(&client, Err(SetupError::Login(t)) if t.contains("none was given")), "{client:?}");
    assert!(matches!(&server, Err(SetupError::Protocol(_))), "{server:?}");
    let (client, server) = meet(secret("given"), Login::None);
    assert!(matches!(&client, Err(SetupError::Login(t)) if t.contains("asks for no secret")), "{client:?}");
    assert!(server.is_err());
}

/// What the peer sends, and what was written to it. The peer's bytes end in EOF.
struct Script {
    input: std::io::Cursor<Vec<u8>>,
    output: Vec<u8>,
    /// Bytes of one read at most.
    dribble: usize,
}

impl Script {
    fn new(input: &[u8], dribble: usize) -> Script {
        Script { input: std::io::Cursor::new(input.to_vec()), output: Vec::new(), dribble }
    }
}

impl Read for Script {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = into.len().min(self.dribble);
        self.input.read(&mut into[..n])
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Everything a client without a secret sends, whatever the server's nonce.
fn good_client() -> Vec<u8> {
    let mut bytes = preamble().to_vec();
    write_frame(&mut bytes, "", FrameKind::Proof, &[&[7; NONCE], &[0; PROOF]]).expect("vec");
    let hello = encode_offer(&offer(b"hello")).expect("fits");
    write_frame(&mut bytes, "", FrameKind::Hello, &[&hello]).expect("vec");
    bytes
}

#[test]
fn dribbled_byte_by_byte_is_the_same_and_nothing_past_the_hello_is_read() {
    for dribble in [1, 3, 4096] {
        let mut bytes = good_client();
        bytes.extend_from_slice(b"next");
        let mut script = Script::new(&bytes, dribble);
        assert_eq!(admit(&mut script, "peer", &asks(Login::None)).expect("admitted").hello, offer(b"hello"));
        assert_eq!(script.input.position() as usize, bytes.len() - 4);
    }
}

#[test]
fn cut_at_every_byte_is_an_error_that_says_so() {
    let bytes = good_client();
    for cut in 0..bytes.len() {
        let error =
            admit(&mut Script::new(&bytes[..cut], 4096), "peer", &asks(Login::None)).expect_err("cut short");
        assert!(matches!(error, SetupError::Protocol(_)), "cut at {cut}: {error}");
    }
}

#[test]
fn strangers_get_one_line_naming_what_they_speak() {
    let strangers: [(&[u8], &str); 6] = [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"*1\r\n$4\r\nPING\r\n", "RESP"),
        (b"PING\r\n", "RESP"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"get k\r\n", "memcached"),
        (b"\xff", "unknown"),
    ];
    for (bytes, name) in strangers {
        for dribble in [1, 4096] {
            let mut script = Script::new(bytes, dribble);
            let error = admit(&mut script, "peer", &asks(Login::None)).expect_err("a stranger");
            assert!(matches!(error, SetupError::Protocol(_)));
            let said = String::from_utf8(script.output).expect("text");
            assert!(said.starts_with("-ERR this is a longarm port") && said.ends_with("\r\n"), "{said:?}");
            assert_eq!(said.matches('\n').count(), 1);
            assert!(dribble == 1 || said.contains(name), "{said:?} names {name}");
        }
    }
    let error = connect(&mut Script::new(b"-ERR unknown command\r\n", 99), "peer", &Login::None, &offer(b""))
        .expect_err("redis");
    assert!(error.to_string().contains("RESP"), "{error}");
}

#[test]
fn another_version_is_told_apart_from_a_stranger() {
    let mut bytes = good_client();
    bytes[8] = 9;
    let mut script = Script::new(&bytes, 4096);
    let error = admit(&mut script, "peer", &asks(Login::None)).expect_err("version 9");
    assert!(error.to_string().contains("client version 9"), "{error}");
    assert!(printable(&script.output).contains("upgrade the older one"), "the peer is told as well");
    let error =
        connect(&mut Script::new(&bytes, 4096), "peer", &Login::None, &offer(b"")).expect_err("version 9");
    assert!(error.to_string().contains("server speaks version 9 of the handshake"), "{error}");
}

#[test]
fn oversized_lengths_are_refused_before_their_bytes_are_read() {
    let mut bytes = good_client();
    let at = PREAMBLE + 4;
    bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut script = Script::new(&bytes, 4096);
    let error = admit(&mut script, "peer", &asks(Login::None)).expect_err("too long");
    assert!(error.to_string().contains("at most 64"), "{error}");
    assert_eq!(script.input.position() as usize, PREAMBLE + HEAD);
    let long = Offer { grants: vec![], bytes: vec![0; HELLO_MAX + 1] };
    assert!(connect(&mut Script::new(b"", 1), "peer", &Login::None, &long).is_err());
}

#[test]
fn a_silent_peer_ends_at_the_deadline() {
    let (a, _b) = UnixStream::pair().expect("socket pair");
    let mut stream = DeadlineSocket::new(a, Duration::from_millis(20));
    let error = admit(&mut stream, "sleeper", &asks(Login::None)).expect_err("silence");
    assert!(matches!(error, SetupError::Timeout(_)), "{error}");
}

#[test]
fn a_refusal_is_cut_and_cleaned() {
    let mut bytes = preamble().to_vec();
    let text = format!("\u{1b}[31mno\n{}", "\u{e9}".repeat(REASON_MAX));
    refuse(&mut bytes, "", &Reason { text, bytes: vec![1; REASON_BYTES_MAX + 1] }).expect("vec");
    let error =
        connect(&mut Script::new(&bytes, 4096), "peer", &Login::None, &offer(b"")).expect_err("refused");
    let text = error.to_string();
    assert!(matches!(&error, SetupError::Refused(reason) if reason.bytes.is_empty()), "{text}");
    assert!(text.contains("[31mno"), "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..200) {
        let mut sent = good_client();
        let at = at.min(sent.len());
        sent.splice(at.., bytes);
        let _ = admit(&mut Script::new(&sent, 4096), "peer", &asks(Login::None));
        let _ = admit(&mut Script::new(&sent, 4096), "peer", &asks(secret("s")));
        let _ = connect(&mut Script::new(&sent, 4096), "peer", &Login::None, &offer(b"x"));
    }

    #[test]
    fn offers_come_back(ids in proptest::collection::btree_set(any::<u32>(), 0..GRANTS_MAX),
                        bytes in proptest::collection::vec(any::<u8>(), 0..HELLO_MAX)) {
        let lent = |id| Granted { id: RegionId(id), bytes: 4096, rights: Rights::READ.and(Rights::WRITE) };
        let offer = Offer { grants: ids.into_iter().map(lent).collect(), bytes };
        let body = encode_offer(&offer).expect("within limits");
        prop_assert_eq!(decode_offer(&body, "HELLO").expect("our own bytes"), offer);
    }

    #[test]
    fn any_bytes_are_an_offer_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_offer(&body, "HELLO");
    }
}
