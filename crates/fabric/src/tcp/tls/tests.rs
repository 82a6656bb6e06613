//! The suite through TLS, and certificates that do not hold.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{ClientConnection, ServerConnection};

use crate::conformance::Setup;
use crate::{
    Address, Broken, Channel, ConnectRequest, Incoming, ListenOptions, Listener, Login, SetupError,
    Transport, conformance,
};

use super::super::codec::Codec;
use super::super::inbox::Relay;
use super::super::session::TcpSession;
use super::super::{Tcp, TcpQp};
use super::*;
use crate::buffer::{Buffer, INPUT};

const TIME: Duration = Duration::from_secs(20);

/// A directory with PEM files beside the test binary, made by the first process that needs it.
struct Certificates {
    folder: PathBuf,
}

static CERTIFICATES: LazyLock<Certificates> = LazyLock::new(Certificates::find);

impl Certificates {
    fn find() -> Certificates {
        let beside = std::env::current_exe().expect("own path").with_file_name("longarm-test-certificates-1");
        if !beside.exists() {
            let fresh = Certificates { folder: beside.with_extension(std::process::id().to_string()) };
            fresh.make();
            // Whole or not at all; where another process was faster, its files are as good.
            if std::fs::rename(&fresh.folder, &beside).is_err() {
                std::fs::remove_dir_all(&fresh.folder).expect("remove our own files");
            }
        }
        Certificates { folder: beside }
    }

    fn make(&self) {
        std::fs::create_dir_all(&self.folder).expect("a folder");
        self.save("empty.pem", "nothing here");
        for ca in ["ca", "other-ca"] {
            let (params, key) = (self.authority(), KeyPair::generate().expect("key"));
            self.save(&format!("{ca}.pem"), &params.self_signed(&key).expect("CA").pem());
            let issuer = Issuer::new(params, key);
            for (name, usage) in [
                ("server", ExtendedKeyUsagePurpose::ServerAuth),
                ("client", ExtendedKeyUsagePurpose::ClientAuth),
            ] {
                let key = KeyPair::generate().expect("key");
                let mut params =
                    CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).expect("names");
                params.extended_key_usages = vec![usage];
                let certificate = params.signed_by(&key, &issuer).expect("certificate");
                self.save(&format!("{ca}-{name}.pem"), &certificate.pem());
                self.save(&format!("{ca}-{name}.key"), &key.serialize_pem());
            }
        }
    }

    fn authority(&self) -> CertificateParams {
        let mut params = CertificateParams::new(Vec::new()).expect("names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    fn save(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("write a PEM file");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn identity(&self, name: &str) -> Identity {
        Identity { certificate: self.path(&format!("{name}.pem")), key: self.path(&format!("{name}.key")) }
    }
}

fn server(client_ca: Option<&str>) -> Tcp {
    let ca = client_ca.map(|name| CERTIFICATES.path(name));
    Tcp::new().with_tls(
        Tls::default().with_server(&CERTIFICATES.identity("ca-server"), ca.as_deref()).expect("server"),
    )
}

fn client(ca: &str, own: Option<&str>, name: Option<&str>) -> Tcp {
    let own = own.map(|own| CERTIFICATES.identity(own));
    Tcp::new()
        .with_tls(Tls::default().with_client(&CERTIFICATES.path(ca), own.as_ref(), name).expect("client"))
}

/// Both ends' outcome.
fn meet(server: &Tcp, client: &Tcp) -> (Result<TcpQp, SetupError>, Vec<String>) {
    let address = Address::Tcp("127.0.0.1:0".into());
    let mut listener = server.listen(&address, ListenOptions::default()).expect("listen");
    let (address, channel) = (listener.address(), Channel::new().expect("channel"));
    let (connected, ours) = std::thread::scope(|scope| {
        let request =
            ConnectRequest { hello: b"", grants: vec![], landing: 0, login: Login::None, timeout: TIME };
        let connecting = scope.spawn(|| client.connect(&address, request).map(|c| c.qp));
        let mut ours = None;
        while ours.is_none() && !connecting.is_finished() {
            let incoming = listener.accept(Duration::from_millis(10)).expect("accept");
            ours = incoming.map(|incoming| incoming.accept(b"", vec![], 0, &channel));
        }
        (connecting.join().expect("the client's thread"), ours)
    });
    drop(ours);
    let mut failures = listener.failures();
    while connected.is_err() && failures.is_empty() {
        listener.accept(Duration::from_millis(5)).expect("accept");
        failures = listener.failures();
    }
    (connected, failures)
}

struct OverTls;

impl Setup for OverTls {
    type Transport = Tcp;
    const SUITE: &'static str = module_path!();

    fn transport() -> Tcp {
        let own = CERTIFICATES.identity("ca-server");
        let tls = Tls::default().with_server(&own, None).expect("server side");
        Tcp::new().with_tls(tls.with_client(&CERTIFICATES.path("ca.pem"), None, None).expect("client side"))
    }

    fn address() -> Address {
        Address::Tcp("127.0.0.1:0".into())
    }
}

conformance!(OverTls);

#[test]
fn both_certificates_hold_or_nobody_gets_in() {
    let mutual = server(Some("ca.pem"));
    let (connected, _) = meet(&mutual, &client("ca.pem", Some("ca-client"), None));
    assert!(connected.is_ok(), "{connected:?}");
    assert!(crate::QueuePair::describe(&connected.expect("just checked")).starts_with("tls "));
    for own in [None, Some("other-ca-client")] {
        let (connected, failures) = meet(&mutual, &client("ca.pem", own, None));
        let error = connected.expect_err("not a client of ours");
        assert!(matches!(error, SetupError::Login(_)), "{error}");
        assert!(failures[0].contains("certificate"), "{failures:?}");
    }
}

#[test]
fn a_client_knows_a_false_server() {
    for client in [client("other-ca.pem", None, None), client("ca.pem", None, Some("elsewhere.example"))] {
        let (connected, failures) = meet(&server(None), &client);
        let error = connected.expect_err("not the server meant");
        assert!(matches!(&error, SetupError::Login(text) if text.contains("does not hold")), "{error}");
        assert_eq!(failures.len(), 1);
    }
    let (connected, _) = meet(&server(None), &client("ca.pem", None, Some("localhost")));
    assert!(connected.is_ok(), "{connected:?}");
}

#[test]
fn tls_on_one_side_only_is_said() {
    let (connected, failures) = meet(&server(None), &Tcp::new());
    let error = connected.expect_err("plain client").to_string();
    assert!(error.contains("connect with a CA certificate"), "{error}");
    assert!(failures[0].contains("does not speak TLS"), "{failures:?}");
    let (connected, failures) = meet(&Tcp::new(), &client("ca.pem", None, None));
    let error = connected.expect_err("plain server").to_string();
    assert!(error.contains("does not speak TLS"), "{error}");
    assert!(failures[0].contains("without TLS"), "{failures:?}");
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let text = |result: Result<Tls, SetupError>| result.expect_err("bad files").to_string();
    let (own, empty) = (CERTIFICATES.identity("ca-server"), CERTIFICATES.path("empty.pem"));
    let swapped = Identity { certificate: own.certificate.clone(), key: CERTIFICATES.path("ca-client.key") };
    assert!(text(Tls::default().with_server(&swapped, None)).contains("ca-client.key"));
    let missing = Identity { certificate: CERTIFICATES.path("missing.pem"), key: own.key.clone() };
    assert!(text(Tls::default().with_server(&missing, None)).contains("missing.pem"));
    let keyless = Identity { certificate: own.certificate.clone(), key: empty.clone() };
    assert!(text(Tls::default().with_server(&keyless, None)).contains("empty.pem"));
    assert!(text(Tls::default().with_client(&empty, None, None)).contains("empty.pem"));
    assert!(text(Tls::default().with_client(&empty, None, Some("no name!"))).contains("empty.pem"));
    let address = Address::Tcp("127.0.0.1:0".into());
    let error =
        Tcp::new().with_tls(Tls::default()).listen(&address, ListenOptions::default()).expect_err("no key");
    assert!(error.to_string().contains("needs a certificate"), "{error}");
}

/// A peer says that it sends no more, and sends more. The NIC must neither wait for it nor look at what comes
/// for ever: there is never room for it.
#[test]
fn a_peer_that_closes_tls_and_goes_on_sending_is_gone() {
    let tls = Tls::default().with_server(&CERTIFICATES.identity("ca-server"), None).expect("server");
    let tls = tls.with_client(&CERTIFICATES.path("ca.pem"), None, None).expect("client");
    let name = parse_name("localhost").expect("a name");
    let mut client = ClientConnection::new(tls.client_config().expect("set").clone(), name).expect("client");
    let mut server = ServerConnection::new(tls.server_config().expect("set").clone()).expect("server");
    while client.is_handshaking() || server.is_handshaking() {
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        client.write_tls(&mut to_server).expect("a vector");
        server.read_tls(&mut &to_server[..]).expect("a slice");
        server.process_new_packets().expect("TLS");
        server.write_tls(&mut to_client).expect("a vector");
        client.read_tls(&mut &to_client[..]).expect("a slice");
        client.process_new_packets().expect("TLS");
    }
    let mut wire = Vec::new();
    client.send_close_notify();
    client.write_tls(&mut wire).expect("a vector");
    wire.resize(wire.len() + 2 * INPUT, 23);
    let mut codec = Codec::tls(server.into());
    let (mut raw, mut session, mut relay) =
        (Buffer::new(INPUT), TcpSession::new(Vec::new()), Relay::default());
    for bytes in wire.chunks(8 << 10) {
        let free = raw.free(bytes.len(), INPUT);
        free[..bytes.len()].copy_from_slice(bytes);
        raw.filled(bytes.len());
        codec.intake(&mut raw, &mut session, &mut relay);
        assert_eq!(raw.len(), 0, "what nobody will read is not kept");
    }
    assert!(matches!(session.broken(), Some(Broken::PeerLost(_))), "{:?}", session.broken());
}
