//! The opening of a connection on every transport that has a stream: who speaks what, login, then what is
//! lent.
//!
//! ```text
//! client                                server
//! PREAMBLE magic, version          ->
//!                                  <-   PREAMBLE, CHALLENGE {login kind, server nonce}  (or REFUSE reason)
//! PROOF {client nonce, hmac}       ->
//!                                  <-   PROVED {hmac}                                   (or REFUSE reason)
//! HELLO {grants, bytes}            ->
//!                                  <-   WELCOME {grants, bytes}                         (or REFUSE reason)
//! ```
//! (1) Nothing of HELLO or WELCOME (names and sizes of regions, application bytes) travels before login is
//!     over.
//! (2) The secret never travels: each side shows HMAC-SHA-256 of both nonces under it, with a label of its
//!     own side, so neither proof can be replayed or reflected. The client proves itself first.
//! (3) A server may know two secrets: that of clients, and that of replicas and operators. Which of them the
//!     proof is made of says in which role the client comes. The second one may be shown also where the
//!     first is not asked for.
//! (4) Every length is checked against its limit before a byte of it is read. A side never reads past the
//!     message it expects, so descriptors or other bytes may follow on the same stream.
//! (5) Time is the stream's matter: use [`DeadlineSocket`](crate::deadline::DeadlineSocket).
//!
//! Numbers are little-endian. A frame is `kind u8, zero [u8; 3], length u32, body`. The body of REFUSE is
//! `text length u32, text, bytes`: words for people, and what a program is to act on.

use std::io::{ErrorKind, Read, Write};

use ::ring::hmac;
use ::ring::rand::{SecureRandom, SystemRandom};
use longarm_base::RegionId;

use crate::{Grant, Granted, HELLO_MAX, ListenOptions, Login, PeerRole, Reason, Rights, SetupError};

/// First bytes of both directions. The first byte begins no text protocol, so those are told apart at once.
pub const MAGIC: [u8; 8] = *b"\x89LONGARM";
/// Version of handshake and frames; both sides must have the same.
pub const VERSION: u16 = 3;
/// Regions one side may lend on one connection.
pub const GRANTS_MAX: usize = 64;
/// Longest text of a refusal.
pub const REASON_MAX: usize = 512;
/// Most bytes beside the text of a refusal.
pub const REASON_BYTES_MAX: usize = 2048;

const NONCE: usize = 32;
const PROOF: usize = 32;
const GRANT_BYTES: usize = 16;
const PREAMBLE: usize = 12;
const HEAD: usize = 8;
const OFFER_MAX: usize = 8 + GRANTS_MAX * GRANT_BYTES + HELLO_MAX;
const CLIENT_LABEL: &[u8] = b"longarm 1 client proves";
const PEER_LABEL: &[u8] = b"longarm 1 peer proves";
const SERVER_LABEL: &[u8] = b"longarm 1 server proves";

/// Frame kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum FrameKind {
    Challenge = 1,
    Proof = 2,
    Proved = 3,
    Hello = 4,
    Welcome = 5,
    Refuse = 6,
}

/// What one side lends and says: the content of HELLO and of WELCOME.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Regions lent to the other side.
    pub grants: Vec<Granted>,
    /// Application bytes, at most [`HELLO_MAX`].
    pub bytes: Vec<u8>,
}

impl Offer {
    /// What is said of the regions lent, and `bytes`.
    pub fn of(grants: &[Grant], bytes: &[u8]) -> Offer {
        Offer { grants: grants.iter().map(Grant::granted).collect(), bytes: bytes.to_vec() }
    }
}

/// The client's whole side: logs in, says `hello`, returns the welcome. `peer` names the other side in
/// errors.
pub fn connect(
    stream: &mut (impl Read + Write),
    peer: &str,
    login: &Login,
    hello: &Offer,
) -> Result<Offer, SetupError> {
    connect_with(stream, peer, login, hello, |_| Ok(()))
}

/// As [`connect`]; between HELLO and WELCOME, so after the login, `lend` may send what belongs to the hello
/// and is not bytes (shm: descriptors).
pub fn connect_with<S: Read + Write>(
    stream: &mut S,
    peer: &str,
    login: &Login,
    hello: &Offer,
    lend: impl FnOnce(&mut S) -> Result<(), SetupError>,
) -> Result<Offer, SetupError> {
    // Checked before a byte travels: a mistake of the caller is not the server's to find.
    let hello = encode_offer(hello)?;
    write(stream, peer, &preamble())?;
    read_preamble(stream, peer, PreambleSender::Server)?;
    let challenge: [u8; 1 + NONCE] =
        fixed(&read_frame(stream, peer, FrameKind::Challenge, 1 + NONCE)?, "CHALLENGE")?;
    let (wants, theirs) = (challenge[0], &challenge[1..]);
    let ours = nonce()?;
    match (wants, login) {
        (0, Login::None) => {
            write_frame(stream, peer, FrameKind::Proof, &[&ours, &[0; PROOF]])?;
            read_frame(stream, peer, FrameKind::Proved, PROOF)?;
        }
        (1, Login::Secret(secret)) | (0 | 1, Login::Peer(secret)) => {
            let (label, name) = match login {
                Login::Peer(_) => (PEER_LABEL, "replicas' secret"),
                _ => (CLIENT_LABEL, "shared secret"),
            };
            let proof = prove(secret, label, theirs, &ours);
            write_frame(stream, peer, FrameKind::Proof, &[&ours, proof.as_ref()])?;
            let answer = read_frame(stream, peer, FrameKind::Proved, PROOF)?;
            if !holds(secret, SERVER_LABEL, theirs, &ours, &answer) {
                return Err(SetupError::Login(format!("{peer} does not know the {name}")));
            }
        }
        (1, _) => {
            return Err(SetupError::Login(format!("{peer} asks for a shared secret and none was given")));
        }
        // Going on would trust a server that never proved it is the one meant.
        (0, _) => {
            return Err(SetupError::Login(format!(
                "{peer} asks for no secret, but one was given: not the server meant, or it lacks its secret"
            )));
        }
        (kind, _) => {
            return Err(SetupError::Protocol(format!("{peer} asks for login of unknown kind {kind}")));
        }
    }
    write_frame(stream, peer, FrameKind::Hello, &[&hello])?;
    lend(stream)?;
    decode_offer(&read_frame(stream, peer, FrameKind::Welcome, OFFER_MAX)?, "WELCOME")
}

/// A client that has logged in and said hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// What it says.
    pub hello: Offer,
    /// What it has proved to be.
    pub role: PeerRole,
}

/// The server's side up to the hello. On an error the peer has been told why, where it can understand; the
/// caller drops the connection. Next comes [`welcome`] or [`refuse`].
pub fn admit(
    stream: &mut (impl Read + Write),
    peer: &str,
    options: &ListenOptions,
) -> Result<Admitted, SetupError> {
    match read_preamble(stream, peer, PreambleSender::Client) {
        Ok(()) => {}
        Err(error) => {
            // A stranger gets one line it can show; one of us (of another version) gets a refusal it can
            // parse.
            let _ = match &error {
                SetupError::Refused(reason) => turn_away(stream, peer, reason),
                SetupError::Protocol(text) => write(stream, peer, format!("-ERR {text}\r\n").as_bytes()),
                _ => Ok(()),
            };
            return Err(error);
        }
    }
    write(stream, peer, &preamble())?;
    let ours = nonce()?;
    let wants = u8::from(!matches!(options.login, Login::None));
    write_frame(stream, peer, FrameKind::Challenge, &[&[wants], &ours])?;
    let result = admit_proved(stream, peer, options, &ours);
    if let Err(SetupError::Login(text) | SetupError::Protocol(text)) = &result {
        let _ = refuse(stream, peer, &text.as_str().into());
    }
    result
}

fn admit_proved(
    stream: &mut (impl Read + Write),
    peer: &str,
    options: &ListenOptions,
    ours: &[u8; NONCE],
) -> Result<Admitted, SetupError> {
    let body = read_frame(stream, peer, FrameKind::Proof, NONCE + PROOF)?;
    let proof: [u8; NONCE + PROOF] = fixed(&body, "PROOF")?;
    let (theirs, shown) = proof.split_at(NONCE);
    let proved = [&options.login, &options.peers].into_iter().find_map(|login| {
        let (secret, label, role) = match login {
            Login::None => return None,
            Login::Secret(secret) => (secret, CLIENT_LABEL, PeerRole::Client),
            Login::Peer(secret) => (secret, PEER_LABEL, PeerRole::Peer),
        };
        holds(secret, label, ours, theirs, shown).then_some((secret, role))
    });
    let role = match (proved, &options.login) {
        (Some((secret, role)), _) => {
            let answer = prove(secret, SERVER_LABEL, ours, theirs);
            write_frame(stream, peer, FrameKind::Proved, &[answer.as_ref()])?;
            role
        }
        (None, Login::None) if shown == [0; PROOF] => {
            write_frame(stream, peer, FrameKind::Proved, &[&[0; PROOF]])?;
            PeerRole::Client
        }
        (None, Login::None) => return Err(SetupError::Login("wrong secret of replicas".into())),
        (None, _) => return Err(SetupError::Login("wrong shared secret".into())),
    };
    let hello = decode_offer(&read_frame(stream, peer, FrameKind::Hello, OFFER_MAX)?, "HELLO")?;
    Ok(Admitted { hello, role })
}

/// Lets the peer in: the last message of the handshake.
pub fn welcome(stream: &mut impl Write, peer: &str, offer: &Offer) -> Result<(), SetupError> {
    let body = encode_offer(offer)?;
    write_frame(stream, peer, FrameKind::Welcome, &[&body])
}

/// Sends the peer away with a reason. The text is cut at [`REASON_MAX`] bytes; more than [`REASON_BYTES_MAX`]
/// beside it are left out.
pub fn refuse(stream: &mut impl Write, peer: &str, reason: &Reason) -> Result<(), SetupError> {
    let mut end = reason.text.len().min(REASON_MAX);
    while !reason.text.is_char_boundary(end) {
        end -= 1;
    }
    let bytes = if reason.bytes.len() <= REASON_BYTES_MAX { &reason.bytes[..] } else { &[] };
    let text = &reason.text.as_bytes()[..end];
    write_frame(stream, peer, FrameKind::Refuse, &[&(end as u32).to_le_bytes(), text, bytes])
}

/// Sends a peer away before the handshake began, with a reason it can parse.
pub fn turn_away(stream: &mut impl Write, peer: &str, reason: &Reason) -> Result<(), SetupError> {
    write(stream, peer, &preamble())?;
    refuse(stream, peer, reason)
}

/// A text of the peer as it may be shown on a terminal: one line, nothing invisible, at most [`REASON_MAX`]
/// bytes.
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(REASON_MAX)]);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_string()
}

fn key(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

fn transcript(label: &[u8], server: &[u8], client: &[u8]) -> Vec<u8> {
    // Labels differ, nonces have one length: no two transcripts have the same bytes.
    [label, server, client].concat()
}

fn prove(secret: &[u8], label: &[u8], server: &[u8], client: &[u8]) -> hmac::Tag {
    hmac::sign(&key(secret), &transcript(label, server, client))
}

/// Compares in constant time (`ring::hmac::verify`).
fn holds(secret: &[u8], label: &[u8], server: &[u8], client: &[u8], shown: &[u8]) -> bool {
    hmac::verify(&key(secret), &transcript(label, server, client), shown).is_ok()
}

fn nonce() -> Result<[u8; NONCE], SetupError> {
    let mut nonce = [0; NONCE];
    let no_entropy = |_| std::io::Error::other("the system gave no random bytes");
    SystemRandom::new().fill(&mut nonce).map_err(|e| SetupError::Os("draw a nonce", no_entropy(e)))?;
    Ok(nonce)
}

fn preamble() -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Whose preamble is read.
#[derive(Clone, Copy, PartialEq)]
enum PreambleSender {
    Client,
    Server,
}

/// Errors: `Protocol` for a stranger, `Refused` for one of us with another version.
fn read_preamble(stream: &mut impl Read, peer: &str, from: PreambleSender) -> Result<(), SetupError> {
    let mut bytes = [0u8; PREAMBLE];
    let mut have = 0;
    while have < PREAMBLE {
        have += match stream.read(&mut bytes[have..]) {
            Ok(0) if have == 0 => return Err(left(peer)),
            Ok(0) => return Err(SetupError::Protocol(stranger(&bytes[..have], from))),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::Interrupted => 0,
            Err(e) => return Err(io_error(peer, e)),
        };
        let seen = have.min(MAGIC.len());
        // At the first strange byte: a stranger may send fewer bytes than our preamble has, and wait.
        if bytes[..seen] != MAGIC[..seen] {
            return Err(SetupError::Protocol(stranger(&bytes[..have], from)));
        }
    }
    let version = u16::from_le_bytes([bytes[8], bytes[9]]);
    if version != VERSION || bytes[10..] != [0, 0] {
        let (server, client) =
            if from == PreambleSender::Client { (VERSION, version) } else { (version, VERSION) };
        let text = format!(
            "the server speaks version {server} of the handshake, the client version {client}: upgrade the \
             older one"
        );
        return Err(SetupError::Refused(text.into()));
    }
    Ok(())
}

/// Names a foreign protocol by its first bytes.
fn stranger(bytes: &[u8], from: PreambleSender) -> String {
    let starts =
        |words: &[&str]| words.iter().any(|w| bytes.starts_with(&w.as_bytes()[..w.len().min(bytes.len())]));
    let what = match bytes.first() {
        Some(0x15 | 0x16) => "TLS",
        Some(b'*' | b'-' | b'+' | b'$') => "RESP (Redis)",
        _ if starts(&["GET /", "POST /", "PUT /", "HEAD /", "OPTIONS ", "PRI * ", "CONNECT ", "HTTP/"]) => {
            "HTTP"
        }
        _ if starts(&["PING", "INFO", "AUTH ", "HELLO "]) => "RESP (Redis)",
        _ if starts(&["get ", "set ", "mg ", "ms ", "stats", "version"]) => "memcached",
        _ if starts(&["SSH-"]) => "SSH",
        _ => "an unknown protocol",
    };
    match (from, what) {
        (PreambleSender::Client, "TLS") => {
            "this is a longarm port without TLS, and the client speaks TLS".into()
        }
        (PreambleSender::Server, "TLS") => "the server asks for TLS: connect with a CA certificate".into(),
        (PreambleSender::Client, _) => {
            format!("this is a longarm port, and the client speaks {what}: use a longarm client")
        }
        (PreambleSender::Server, _) => {
            format!("the server speaks {what}, not longarm (it began with {:?})", printable(bytes))
        }
    }
}

fn write_frame(
    stream: &mut impl Write,
    peer: &str,
    kind: FrameKind,
    parts: &[&[u8]],
) -> Result<(), SetupError> {
    let len: usize = parts.iter().map(|p| p.len()).sum();
    let mut frame = Vec::with_capacity(HEAD + len);
    frame.extend_from_slice(&[kind as u8, 0, 0, 0]);
    frame.extend_from_slice(&(len as u32).to_le_bytes());
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    write(stream, peer, &frame)
}

fn read_frame(
    stream: &mut impl Read,
    peer: &str,
    wanted: FrameKind,
    limit: usize,
) -> Result<Vec<u8>, SetupError> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).map_err(|e| io_error(peer, e))?;
    let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let refusal = head[0] == FrameKind::Refuse as u8;
    if head[1..4] != [0; 3] || !(refusal || head[0] == wanted as u8) {
        return Err(SetupError::Protocol(format!("expected {wanted:?}, got a frame of kind {}", head[0])));
    }
    let limit = if refusal { 4 + REASON_MAX + REASON_BYTES_MAX } else { limit };
    if len > limit {
        return Err(SetupError::Protocol(format!(
            "a {wanted:?} of {len} bytes, at most {limit} are allowed"
        )));
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body).map_err(|e| io_error(peer, e))?;
    match refusal {
        false => Ok(body),
        true if wanted == FrameKind::Proved => Err(SetupError::Login(decode_reason(&body)?.text)),
        true => Err(SetupError::Refused(decode_reason(&body)?)),
    }
}

fn decode_reason(body: &[u8]) -> Result<Reason, SetupError> {
    let cut = || SetupError::Protocol("a refusal whose text is cut short".into());
    let (len, rest) = body.split_first_chunk().ok_or_else(cut)?;
    let (text, bytes) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or_else(cut)?;
    Ok(Reason { text: printable(text), bytes: bytes.to_vec() })
}

fn fixed<const N: usize>(body: &[u8], name: &str) -> Result<[u8; N], SetupError> {
    body.try_into().map_err(|_| SetupError::Protocol(format!("a {name} of {} bytes, not {N}", body.len())))
}

fn encode_offer(offer: &Offer) -> Result<Vec<u8>, SetupError> {
    if offer.bytes.len() > HELLO_MAX || offer.grants.len() > GRANTS_MAX {
        return Err(SetupError::Protocol(format!(
            "{} bytes and {} regions to offer, at most {HELLO_MAX} and {GRANTS_MAX} are allowed",
            offer.bytes.len(),
            offer.grants.len()
        )));
    }
    let mut body = Vec::with_capacity(OFFER_MAX);
    body.extend_from_slice(&(offer.grants.len() as u32).to_le_bytes());
    body.extend_from_slice(&(offer.bytes.len() as u32).to_le_bytes());
    for (i, grant) in offer.grants.iter().enumerate() {
        if offer.grants[..i].iter().any(|g| g.id == grant.id) {
            return Err(SetupError::Protocol(format!("region {} is offered twice", grant.id.0)));
        }
        body.extend_from_slice(&grant.id.0.to_le_bytes());
        body.extend_from_slice(&[grant.rights.bits(), 0, 0, 0]);
        body.extend_from_slice(&grant.bytes.to_le_bytes());
    }
    body.extend_from_slice(&offer.bytes);
    Ok(body)
}

fn decode_offer(body: &[u8], name: &str) -> Result<Offer, SetupError> {
    let bad = |what: &str| SetupError::Protocol(format!("a {name} whose {what}"));
    let u32_at = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
    if body.len() < 8 {
        return Err(bad("head is cut short"));
    }
    let (grants, bytes) = (u32_at(0) as usize, u32_at(4) as usize);
    if grants > GRANTS_MAX || bytes > HELLO_MAX || body.len() != 8 + grants * GRANT_BYTES + bytes {
        return Err(bad("counts do not fit its length"));
    }
    let mut offer = Offer { grants: Vec::with_capacity(grants), bytes: body[body.len() - bytes..].to_vec() };
    for at in (8..8 + grants * GRANT_BYTES).step_by(GRANT_BYTES) {
        let id = RegionId(u32_at(at));
        let rights = Rights::from_bits(body[at + 4]).ok_or_else(|| bad("rights are unknown"))?;
        let size = u64::from_le_bytes(body[at + 8..at + 16].try_into().expect("eight bytes"));
        if body[at + 5..at + 8] != [0; 3] || size == 0 || !size.is_multiple_of(8) {
            return Err(bad("region is malformed"));
        }
        if offer.grants.iter().any(|g| g.id == id) {
            return Err(bad("regions repeat an id"));
        }
        offer.grants.push(Granted { id, bytes: size, rights });
    }
    Ok(offer)
}

fn write(stream: &mut impl Write, peer: &str, bytes: &[u8]) -> Result<(), SetupError> {
    stream.write_all(bytes).and_then(|()| stream.flush()).map_err(|e| io_error(peer, e))
}

fn left(peer: &str) -> SetupError {
    SetupError::Protocol(format!("{peer} left in the middle of the handshake"))
}

fn io_error(peer: &str, error: std::io::Error) -> SetupError {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => SetupError::Timeout(peer.to_string()),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => left(peer),
        _ => SetupError::Os("handshake", error),
    }
}

#[cfg(test)]
mod tests;
