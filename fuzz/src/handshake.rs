//! The handshake, both sides, over streams in memory.
//!
//! Oracles: nobody is let in without the secret; a byte changed before the login is over is noticed by the
//! client; what is accepted encodes to the bytes it came from; a side reads no byte past the message it
//! expects, says a bounded amount, and its errors are fit for a terminal.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Result, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use longarm_base::RegionId;
use longarm_fabric::handshake::{
    Admitted, GRANTS_MAX, MAGIC, Offer, VERSION, admit, connect, connect_with, printable, refuse, turn_away,
    welcome,
};
use longarm_fabric::{Granted, HELLO_MAX, ListenOptions, Login, PeerRole, Rights, SetupError};

use crate::Input;

const PREAMBLE: usize = 12;
/// Bytes up to the end of CHALLENGE, PROOF and PROVED in their directions.
const TO_CLIENT_LOGIN: u64 = 12 + 8 + 33 + 8 + 32;
const TO_SERVER_LOGIN: u64 = 12 + 8 + 64;
const SAID_MAX: usize = 2048 + HELLO_MAX + GRANTS_MAX * 16;

/// One input: a switch and what a peer says.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let how = input.u8();
    match how % 8 {
        0 | 1 => server_alone(how, input),
        2 => server_led(how, input),
        3 | 4 => client_alone(how, input),
        5 => client_led(how, input),
        6 => both(input),
        _ => texts(input),
    }
}

/// What replicas have.
fn replicas() -> Login {
    Login::Peer(Arc::from(&b"few know it"[..]))
}

fn secret() -> Login {
    Login::Secret(Arc::from(&b"correct horse"[..]))
}

/// Reads what a peer said, a few bytes at a time; keeps what it is told.
struct Script<'a> {
    says: &'a [u8],
    at: usize,
    step: usize,
    told: Vec<u8>,
}

impl<'a> Script<'a> {
    fn new(says: &'a [u8], step: usize) -> Script<'a> {
        Script { says, at: 0, step: step.max(1), told: Vec::new() }
    }
}

impl Read for Script<'_> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let n = into.len().min(self.step).min(self.says.len() - self.at);
        into[..n].copy_from_slice(&self.says[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

impl Write for Script<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.told.extend_from_slice(bytes);
        assert!(self.told.len() <= SAID_MAX, "says {} bytes to a stranger", self.told.len());
        Ok(bytes.len())
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0][..], &(body.len() as u32).to_le_bytes(), body].concat()
}

fn preamble() -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes(), &[0, 0]].concat()
}

/// The bytes of a hello or welcome, written a second time.
fn offer_bytes(offer: &Offer) -> Vec<u8> {
    let mut body = (offer.grants.len() as u32).to_le_bytes().to_vec();
    body.extend_from_slice(&(offer.bytes.len() as u32).to_le_bytes());
    for grant in &offer.grants {
        body.extend_from_slice(&grant.id.0.to_le_bytes());
        body.extend_from_slice(&[grant.rights.bits(), 0, 0, 0]);
        body.extend_from_slice(&grant.bytes.to_le_bytes());
    }
    body.extend_from_slice(&offer.bytes);
    body
}

fn some_offer(input: &mut Input<'_>) -> Offer {
    let mut offer = Offer::default();
    for id in 0..input.below(4) as u32 {
        let rights = Rights::from_bits(input.u8() & 7).expect("three bits");
        let bytes = (u64::from(input.u32()) + 1) * 8;
        offer.grants.push(Granted { id: RegionId(id), bytes, rights });
    }
    offer.bytes = input.counted().to_vec();
    offer.bytes.truncate(HELLO_MAX);
    offer
}

/// The bytes of some offer; one of them changed, if the switch is odd there.
fn damaged(how: u8, input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = offer_bytes(&some_offer(input));
    let at = input.below(bytes.len() as u64) as usize;
    bytes[at] ^= if how & 16 != 0 { 1 << (input.u8() % 8) } else { 0 };
    bytes
}

fn check_error(error: &SetupError) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.len() < 4096, "{} bytes of error", text.len());
    // Debug texts escape; what a peer sent must not reach a terminal as it is.
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

/// A server and whatever bytes come.
fn server_alone(how: u8, mut input: Input<'_>) {
    let login = if how & 8 != 0 { secret() } else { Login::None };
    let mut stream = Script::new(&[], usize::from(input.u8()));
    stream.says = input.0;
    admitted(&mut stream, login);
}

/// A server and a client that does right up to its hello.
fn server_led(how: u8, mut input: Input<'_>) {
    let login = if how & 8 != 0 { secret() } else { Login::None };
    let step = usize::from(input.u8());
    // A nonce, and the proof of one who knows no secret.
    let proof = frame(2, &[[7; 32], [0; 32]].concat());
    let says = match how >> 4 {
        0 => [preamble(), input.0.to_vec()].concat(),
        1 => [preamble(), proof, input.0.to_vec()].concat(),
        2 => [preamble(), proof, frame(4, input.0), b"after".to_vec()].concat(),
        _ => {
            let hello = frame(4, &damaged(how, &mut input));
            [preamble(), proof, hello, input.0.to_vec()].concat()
        }
    };
    admitted(&mut Script::new(&says, step), login);
}

fn admitted(stream: &mut Script<'_>, login: Login) {
    let options = ListenOptions { login, peers: replicas(), ..ListenOptions::default() };
    match admit(stream, "peer", &options) {
        Err(error) => check_error(&error),
        Ok(Admitted { hello: offer, role }) => {
            assert!(matches!(options.login, Login::None), "let in without the secret");
            assert_eq!(role, PeerRole::Client, "let in as a replica without the secret");
            assert!(offer.bytes.len() <= HELLO_MAX && offer.grants.len() <= GRANTS_MAX);
            let hello = frame(4, &offer_bytes(&offer));
            let start = PREAMBLE + 8 + 64;
            assert_eq!(&stream.says[start..stream.at], hello, "{offer:?}");
            let mut answer = Vec::new();
            welcome(&mut answer, "peer", &offer).expect("what was accepted can be said");
            assert_eq!(&answer[8..], &hello[8..]);
        }
    }
}

/// A client and whatever bytes come.
fn client_alone(how: u8, mut input: Input<'_>) {
    let login = if how & 8 != 0 { secret() } else { Login::None };
    let hello = some_offer(&mut input);
    let mut stream = Script::new(&[], usize::from(input.u8()));
    stream.says = input.0;
    connected(&mut stream, &login, &hello);
}

/// A client and a server that does right up to its welcome.
fn client_led(how: u8, mut input: Input<'_>) {
    let login = if how & 8 != 0 { secret() } else { Login::None };
    let hello = some_offer(&mut input);
    let step = usize::from(input.u8());
    let mut challenge = vec![how >> 3 & 1];
    challenge.extend_from_slice(&[5; 32]);
    let before = [preamble(), frame(1, &challenge)].concat();
    let proved = frame(3, &[0; 32]);
    let says = match how >> 4 {
        0 => [before, input.0.to_vec()].concat(),
        1 => [before, proved, input.0.to_vec()].concat(),
        2 => [before, frame(6, input.0)].concat(),
        3 => [before, proved, frame(5, input.0)].concat(),
        _ => {
            let welcome = frame(5, &damaged(how, &mut input));
            [before, proved, welcome, input.0.to_vec()].concat()
        }
    };
    connected(&mut Script::new(&says, step), &login, &hello);
}

fn connected(stream: &mut Script<'_>, login: &Login, hello: &Offer) {
    let mut lent = false;
    let result = connect_with(stream, "server", login, hello, |stream| {
        lent = true;
        assert!(stream.told.ends_with(&offer_bytes(hello)));
        Ok(())
    });
    match result {
        Err(error) => check_error(&error),
        Ok(offer) => {
            assert!(matches!(login, Login::None) && lent, "a server was believed without the secret");
            let welcome = frame(5, &offer_bytes(&offer));
            assert!(stream.says[..stream.at].ends_with(&welcome), "{offer:?}");
        }
    }
    assert!(lent || !stream.told.ends_with(&frame(4, &offer_bytes(hello))), "hello before the login");
}

/// One direction of a connection between two threads, one byte of which somebody changes on its way.
#[derive(Default)]
struct Pipe {
    state: Mutex<(VecDeque<u8>, u64, bool)>,
    moved: Condvar,
    flip: Option<(u64, u8)>,
}

impl Pipe {
    fn close(&self) {
        self.state.lock().expect("a pipe").2 = true;
        self.moved.notify_all();
    }
}

struct End<'a> {
    from: &'a Pipe,
    to: &'a Pipe,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.from.close();
        self.to.close();
    }
}

impl Read for End<'_> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut state = self.from.state.lock().expect("a pipe");
        while state.0.is_empty() && !state.2 {
            let (next, timeout) =
                self.from.moved.wait_timeout(state, Duration::from_secs(5)).expect("a pipe");
            assert!(!timeout.timed_out(), "two sides wait for each other");
            state = next;
        }
        let n = into.len().min(state.0.len());
        for (byte, got) in into.iter_mut().zip(state.0.drain(..n)) {
            *byte = got;
        }
        Ok(n)
    }
}

impl Write for End<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut state = self.to.state.lock().expect("a pipe");
        if state.2 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        for &byte in bytes {
            let at = state.1;
            let change = self.to.flip.filter(|(flip, _)| *flip == at).map_or(0, |(_, bits)| bits);
            state.0.push_back(byte ^ change);
            state.1 += 1;
        }
        self.to.moved.notify_all();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Two honest sides, and somebody between them.
fn both(mut input: Input<'_>) {
    let switch = input.u8();
    let (client_login, server_login) = match switch & 3 {
        0 => (Login::None, Login::None),
        1 => (secret(), Login::Secret(Arc::from(&b"another"[..]))),
        2 => (secret(), secret()),
        _ => (Login::None, secret()),
    };
    // One who shows what replicas have comes in where clients may not.
    let (client_login, role) = match (switch & 32 != 0, switch & 3) {
        (false, _) => (client_login, PeerRole::Client),
        (true, 1 | 3) => (Login::Peer(Arc::from(&b"another"[..])), PeerRole::Peer),
        (true, _) => (replicas(), PeerRole::Peer),
    };
    let options = ListenOptions { login: server_login, peers: replicas(), ..ListenOptions::default() };
    let honest = matches!(switch & 3, 0 | 2);
    let (hello, answer) = (some_offer(&mut input), some_offer(&mut input));
    let limit = if switch & 4 != 0 { TO_CLIENT_LOGIN } else { TO_SERVER_LOGIN };
    let flip = (switch & 24 != 0).then(|| (input.near(limit), input.u8().max(1)));
    let (mut to_client, mut to_server) = (Pipe::default(), Pipe::default());
    if switch & 4 != 0 { &mut to_client } else { &mut to_server }.flip = flip;
    // Whether clients prove something is nothing to one who shows what replicas have.
    let asks = switch & 4 != 0 && flip.is_some_and(|(at, _)| at == PREAMBLE as u64 + 8);
    let is_noticed = if role == PeerRole::Peer { !asks } else { switch & 3 == 2 };
    let (to_client, to_server) = (&to_client, &to_server);
    let (client, server) = std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut end = End { from: to_server, to: to_client };
            let admitted = admit(&mut end, "client", &options)?;
            welcome(&mut end, "client", &answer)?;
            Ok::<Admitted, SetupError>(admitted)
        });
        let mut end = End { from: to_client, to: to_server };
        let client = connect(&mut end, "server", &client_login, &hello);
        drop(end);
        (client, serving.join().expect("the server's side does not panic"))
    });
    [client.as_ref().err(), server.as_ref().err()].into_iter().flatten().for_each(check_error);
    if !honest {
        assert!(client.is_err() && server.is_err(), "without the same secret");
    } else if flip.is_none() {
        assert_eq!(client.expect("an honest server"), answer);
        assert_eq!(server.expect("an honest client"), Admitted { hello, role });
    } else if flip.is_some_and(|(at, _)| at < limit) && is_noticed {
        assert!(client.is_err(), "{flip:?} of the login went unnoticed");
    }
}

/// Texts of a peer, and refusals cut at a length.
fn texts(mut input: Input<'_>) {
    let shown = printable(input.0);
    assert!(shown.len() <= 3 * 512 && !shown.chars().any(char::is_control));
    let cut = usize::from(input.u16());
    let reason = String::from_utf8_lossy(input.0).into_owned().repeat(1 + cut % 8);
    let mut said = Vec::new();
    refuse(&mut said, "peer", &reason.as_str().into()).expect("memory takes everything");
    let body = std::str::from_utf8(&said[12..]).expect("whole characters");
    assert!(body.len() <= 512 && reason.starts_with(body));
    assert!(body.len() == reason.len() || body.len() > 508);
    let mut said = Vec::new();
    turn_away(&mut said, "peer", &reason.as_str().into()).expect("memory takes everything");
    let mut stream = Script::new(&said, 7);
    let error = connect(&mut stream, "server", &Login::None, &Offer::default()).expect_err("turned away");
    assert!(matches!(error, SetupError::Refused(_)), "{error}");
    check_error(&error);
}
