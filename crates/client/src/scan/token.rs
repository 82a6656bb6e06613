//! Where a scan goes on: what a page hands out, and the next one takes.
//!
//! Bytes: `[b'L' | version u8 | direction u8][key]`. The text form is base64 for URLs, without padding. A
//! token names no replica, term or instant, so it is good at any replica, in any term, for ever.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longarm_base::limits::KEY_MAX;

use crate::error::Error;

const MARK: u8 = b'L';
const VERSION: u8 = 1;
const HEADER: usize = 3;

/// Where a scan goes on after a page. Its bytes and its text may be kept anywhere, and given to any client of
/// the same cluster; what they mean is this library's affair.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token {
    reverse: bool,
    /// The last key that was shown.
    key: Vec<u8>,
}

impl Token {
    /// The place behind this key.
    pub(crate) fn behind(key: &[u8], reverse: bool) -> Token {
        Token { reverse, key: key.to_vec() }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn is_reverse(&self) -> bool {
        self.reverse
    }

    /// The token as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&[MARK, VERSION, u8::from(self.reverse)][..], &self.key].concat()
    }

    /// The token of these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Token, Error> {
        let Some(([mark, version, direction], key)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(Error::Token("it is too short"));
        };
        if *mark != MARK {
            return Err(Error::Token("it does not begin as a token does"));
        }
        if *version != VERSION {
            return Err(Error::Token("it is of another version"));
        }
        if *direction > 1 {
            return Err(Error::Token("it has no direction"));
        }
        if key.is_empty() || key.len() > KEY_MAX {
            return Err(Error::Token("it has a key of an impossible length"));
        }
        Ok(Token { reverse: *direction == 1, key: key.to_vec() })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.to_bytes()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Token, Error> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Error::Token("it is no base64 for URLs"))?;
        Token::from_bytes(&bytes)
    }
}
