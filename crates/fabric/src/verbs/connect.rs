//! Connecting: socket, device, handshake with both endpoints, queue pair.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::lifeline::Lifeline;
use super::open::Opened;
use super::qp::{VerbsParts, VerbsQp};
use super::settings::{STALL, Verbs};
use crate::deadline::DeadlineSocket;
use crate::handshake::{self, Offer};
use crate::{Address, ConnectRequest, Connected, SetupError, stream};

/// The transport's `connect`.
pub(super) fn connect(
    verbs: &Verbs,
    address: &Address,
    request: ConnectRequest<'_>,
) -> Result<Connected<VerbsQp>, SetupError> {
    let Address::Verbs(host) = address else {
        return Err(SetupError::Unsupported(format!("{address} is not an address of verbs")));
    };
    let until = Instant::now() + request.timeout;
    let peer = address.to_string();
    let socket = stream::reach(host, address, until)?;
    stream::prepare(&socket, STALL)?;
    let local = socket.local_addr().map_err(|e| SetupError::Os("ask for our own address", e))?;
    let opened = Opened::new(verbs, verbs.adapter(local.ip())?)?;
    let lent = opened.register(&request.grants)?;
    let landing = opened.landing(request.landing)?;
    let hello = Offer::of(&request.grants, request.hello);
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
    let mut stream = DeadlineSocket::new(socket, left);
    // Behind HELLO, so only after the login.
    let tell = |stream: &mut _| opened.endpoint(&lent).tell(stream, &peer);
    let welcome = handshake::connect_with(&mut stream, &peer, &request.login, &hello, tell)?;
    let theirs = Endpoint::hear(&mut stream, &peer, welcome.grants.len())?;
    opened.connect(verbs, &theirs)?;
    let name = format!("verbs {} ({host})", opened.describe(&theirs));
    let lifeline = Lifeline(Arc::new(stream.into_inner()));
    let qp = VerbsQp::new(VerbsParts {
        opened,
        lifeline,
        landing,
        lent,
        granted: welcome.grants,
        theirs,
        channel: None,
        yields: verbs.yields,
        slot: None,
        name,
    })?;
    Ok(Connected { qp, welcome: welcome.bytes })
}
