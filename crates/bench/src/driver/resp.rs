//! RESP2, the part a key-value client needs: commands as arrays of bulk strings, and four kinds of replies.

use super::socket::Socket;
use super::{Seen, TargetError};

/// A reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// `+text`
    Simple(&'a [u8]),
    /// `-text`
    Error(&'a [u8]),
    /// `:number`
    Number(i64),
    /// `$len` and bytes
    Bulk(&'a [u8]),
    /// `$-1`
    Nil,
    /// `*count`: so many replies follow, which are taken one by one.
    Array(usize),
}

/// Appends a command.
pub fn encode(output: &mut Vec<u8>, parts: &[&[u8]]) {
    push_header(output, b'*', parts.len());
    for part in parts {
        push_header(output, b'$', part.len());
        output.extend_from_slice(part);
        output.extend_from_slice(b"\r\n");
    }
}

fn push_header(output: &mut Vec<u8>, kind: u8, number: usize) {
    output.push(kind);
    push_decimal(output, number);
    output.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal, without the formatting machinery.
pub fn push_decimal(output: &mut Vec<u8>, mut number: usize) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    output.extend_from_slice(&digits[at..]);
}

/// Takes the next reply.
#[inline]
pub fn reply(socket: &mut Socket) -> Result<Reply<'_>, TargetError> {
    let line = socket.line()?;
    let text = socket.bytes(line.clone());
    match text {
        [b'$', rest @ ..] => match number(rest) {
            Some(-1) => Ok(Reply::Nil),
            Some(len) if len >= 0 => {
                let value = socket.block(len as usize)?;
                Ok(Reply::Bulk(socket.bytes(value)))
            }
            _ => Err(socket.unexpected("RESP2", text)),
        },
        [b'*', rest @ ..] => match number(rest).and_then(|count| usize::try_from(count).ok()) {
            Some(count) => Ok(Reply::Array(count)),
            None => Err(socket.unexpected("RESP2", text)),
        },
        [b'+', ..] => Ok(Reply::Simple(&socket.bytes(line)[1..])),
        [b'-', ..] => Ok(Reply::Error(&socket.bytes(line)[1..])),
        [b':', rest @ ..] => match number(rest) {
            Some(number) => Ok(Reply::Number(number)),
            None => Err(socket.unexpected("RESP2", text)),
        },
        _ => Err(socket.unexpected("RESP2", text)),
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The answer that a reply to GET or SET is.
pub fn seen<'a>(reply: Reply<'a>) -> Option<Seen<'a>> {
    match reply {
        Reply::Bulk(value) => Some(Seen::Hit(value)),
        Reply::Nil => Some(Seen::Miss),
        Reply::Simple(b"OK") => Some(Seen::Stored),
        Reply::Error(text) => Some(Seen::Refused(std::str::from_utf8(text).unwrap_or("an unreadable error"))),
        Reply::Simple(_) | Reply::Number(_) | Reply::Array(_) => None,
    }
}
