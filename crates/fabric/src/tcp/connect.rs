//! Connecting: name, socket, TLS, handshake, queue pair.

use std::sync::Arc;
use std::time::Instant;

use rustls::{ClientConfig, ClientConnection, Connection};

use super::alone::Alone;
use super::codec::Codec;
use super::session::{TcpSession, WRITE_WINDOW};
use super::socket;
use super::tls::{self, Tls};
use super::{Tcp, TcpQp};
use crate::deadline::DeadlineSocket;
use crate::handshake::{self, Offer};
use crate::{Address, ConnectRequest, Connected, SetupError, stream};

/// The transport's `connect`.
pub fn connect(
    tcp: &Tcp,
    address: &Address,
    request: ConnectRequest<'_>,
) -> Result<Connected<TcpQp>, SetupError> {
    let Address::Tcp(host) = address else {
        return Err(SetupError::Unsupported(format!("{address} is not an address of tcp")));
    };
    let until = Instant::now() + request.timeout;
    let socket = stream::reach(host, address, until)?;
    stream::prepare(&socket, tcp.stall)?;
    // Best effort: without it a doorbell may leave bytes for the next call.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, 2 * WRITE_WINDOW);
    let hello = Offer::of(&request.grants, request.hello);
    let peer = address.to_string();
    let mut stream = DeadlineSocket::new(socket, until.saturating_duration_since(Instant::now()));
    let (codec, welcome) = match &tcp.tls {
        None => (Codec::Plain, handshake::connect(&mut stream, &peer, &request.login, &hello)?),
        Some(tls) => {
            let mut connection = tls_connection(tls, host)?;
            let welcome = tls::over(&mut connection, &mut stream, &peer, |stream| {
                handshake::connect(stream, &peer, &request.login, &hello)
            })?;
            (Codec::tls(connection), welcome)
        }
    };
    let Offer { grants: granted, bytes: welcome } = welcome;
    let session = TcpSession::new(request.grants);
    socket::let_wait(stream.get()).map_err(|e| SetupError::Os("prepare the socket", e))?;
    let alone = Alone::new(stream.into_inner(), codec, session, request.landing);
    let name = format!("{} {host}", if tcp.tls.is_some() { "tls" } else { "tcp" });
    Ok(Connected { qp: TcpQp::alone(alone, granted, name), welcome })
}

fn tls_connection(tls: &Tls, host: &str) -> Result<Connection, SetupError> {
    let config: &Arc<ClientConfig> = tls.client_config()?;
    let name = tls.server_name(host)?;
    let connection = ClientConnection::new(config.clone(), name)
        .map_err(|e| SetupError::Protocol(format!("TLS cannot start: {e}")))?;
    Ok(Connection::Client(connection))
}
