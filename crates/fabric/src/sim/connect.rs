//! The connecting side.

use std::sync::Arc;

use longarm_base::Nanos;

use super::door::{Accepted, ConnectReply, Knock, SimAcceptor};
use super::net::{Net, machine};
use super::qp::SimQp;
use super::registry::Registry;
use crate::{Address, ConnectRequest, Connected, HELLO_MAX, Login, PeerRole, SetupError};

pub(super) fn connect(
    net: &Arc<Net>,
    registry: &Arc<Registry>,
    address: &Address,
    request: ConnectRequest<'_>,
) -> Result<Connected<SimQp>, SetupError> {
    let Address::Sim(name) = address else {
        return Err(SetupError::Unsupported(format!("{address} is no address of a simulated network")));
    };
    if request.hello.len() > HELLO_MAX {
        let text = format!("a hello of {} bytes: at most {HELLO_MAX}", request.hello.len());
        return Err(SetupError::Protocol(text));
    }
    let until = longarm_host::now() + Nanos(request.timeout.as_nanos() as u64);
    let unreachable = || SetupError::Unreachable {
        address: address.to_string(),
        source: std::io::ErrorKind::ConnectionRefused.into(),
    };
    let door = registry.door(name).ok_or_else(unreachable)?;
    let (from, reply) = (machine(), Arc::new(ConnectReply::default()));
    let Some(role) = role(&door, &request.login) else {
        door.failures.add(format!("machine {from}: it does not know the secret"));
        return Err(SetupError::Login("the secrets of the two sides differ".into()));
    };
    let server = door.machine;
    let knock = Knock {
        machine: from,
        role,
        hello: request.hello.into(),
        grants: request.grants,
        reply: reply.clone(),
    };
    drop(door);
    let (reached, registry, name) = (net.clone(), registry.clone(), name.clone());
    net.at(net.time() + net.delay(from, server), move || {
        if reached.is_cut(from, server) || reached.is_cut(server, from) {
            return;
        }
        match registry.door(&name) {
            Some(door) => door.knock(knock),
            None => knock.reply.give(Err(SetupError::Protocol("the listener is gone".into()))),
        }
    });
    let answer = reply.bed.wait_for(until, || reply.answer.lock().take());
    let Accepted { pair, welcome, granted } =
        answer.unwrap_or_else(|| Err(SetupError::Timeout(address.to_string())))?;
    let qp = SimQp::new(pair, 1, request.landing, granted, format!("sim machine {server}"));
    Ok(Connected { qp, welcome })
}

/// In which role somebody comes in who shows this; in none if nobody is let in by it. The proof itself
/// (challenge and answer) is the other transports'; here both sides are in one process.
fn role(door: &SimAcceptor, shown: &Login) -> Option<PeerRole> {
    [&door.login, &door.peers].into_iter().find_map(|wanted| match (wanted, shown) {
        (Login::Secret(wanted), Login::Secret(shown)) if wanted == shown => Some(PeerRole::Client),
        (Login::Peer(wanted), Login::Peer(shown)) if wanted == shown => Some(PeerRole::Peer),
        (Login::None, Login::None) if matches!(door.login, Login::None) => Some(PeerRole::Client),
        _ => None,
    })
}
