//! The door of a listener: where peers knock that have logged in, and wait for an answer.

use std::collections::VecDeque;
use std::sync::Arc;

use longarm_host::{Mutex, Pause};

use super::pair::SimConnection;
use crate::failures::Failures;
use crate::{Grant, Granted, Login, PeerRole, SetupError};

/// Where peers knock.
#[derive(Debug)]
pub(super) struct SimAcceptor {
    pub machine: u32,
    pub login: Login,
    pub peers: Login,
    pub pending: usize,
    pub knocks: Mutex<VecDeque<Knock>>,
    pub bed: Pause,
    pub failures: Failures,
}

/// A peer that has logged in.
#[derive(Debug)]
pub(super) struct Knock {
    pub machine: u32,
    pub role: PeerRole,
    pub hello: Vec<u8>,
    pub grants: Vec<Grant>,
    pub reply: Arc<ConnectReply>,
}

/// What a peer waits for.
#[derive(Debug, Default)]
pub(super) struct ConnectReply {
    pub answer: Mutex<Option<Result<Accepted, SetupError>>>,
    pub bed: Pause,
}

/// A connection, for the side that asked for it.
#[derive(Debug)]
pub(super) struct Accepted {
    pub pair: Arc<SimConnection>,
    pub welcome: Vec<u8>,
    pub granted: Vec<Granted>,
}

impl SimAcceptor {
    /// A peer stands there; it is turned away if too many do.
    pub fn knock(&self, knock: Knock) {
        let mut knocks = self.knocks.lock();
        if knocks.len() >= self.pending {
            knock.reply.give(Err(SetupError::Refused("too many handshakes at once: try again".into())));
            return;
        }
        knocks.push_back(knock);
        drop(knocks);
        self.bed.poke();
    }
}

impl ConnectReply {
    pub fn give(&self, answer: Result<Accepted, SetupError>) {
        *self.answer.lock() = Some(answer);
        self.bed.poke();
    }
}
