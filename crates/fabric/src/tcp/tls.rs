//! TLS below the handshake: certificates from PEM files, and the secret login (if any) inside the encryption.
//!
//! A server shows its certificate; with a client CA it demands one of the client too (mTLS). A client checks
//! the server's certificate against its CA and the host name. rustls with ring; TLS 1.2 and 1.3.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, Connection, RootCertStore, ServerConfig};

use crate::SetupError;

/// A certificate chain and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The chain, own certificate first.
    pub certificate: PathBuf,
    /// The private key (PKCS#8, PKCS#1 or SEC1).
    pub key: PathBuf,
}

/// TLS settings of a transport: for listening, for connecting, or both.
#[derive(Clone, Default)]
pub struct Tls {
    server: Option<Arc<ServerConfig>>,
    client: Option<Arc<ClientConfig>>,
    name: Option<ServerName<'static>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls {{ server: {}, client: {} }}", self.server.is_some(), self.client.is_some())
    }
}

impl Tls {
    /// Adds what a listener needs. With `client_ca`, clients must show a certificate signed by it.
    pub fn with_server(mut self, own: &Identity, client_ca: Option<&Path>) -> Result<Tls, SetupError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|e| refused(format!("TLS versions: {e}")))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots(path)?.into(), provider())
                    .build()
                    .map_err(|e| refused(format!("client CA {}: {e}", path.display())))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder
            .with_single_cert(certificates(&own.certificate)?, key(&own.key)?)
            .map_err(|e| mismatch(own, &e))?;
        self.server = Some(Arc::new(config));
        Ok(self)
    }

    /// Adds what connecting needs: the CA that signed the server's certificate, our own identity where the
    /// server demands one, and the name to look for in the certificate where it is not the host's.
    pub fn with_client(
        mut self,
        ca: &Path,
        own: Option<&Identity>,
        server_name: Option<&str>,
    ) -> Result<Tls, SetupError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|e| refused(format!("TLS versions: {e}")))?
            .with_root_certificates(roots(ca)?);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => builder
                .with_client_auth_cert(certificates(&own.certificate)?, key(&own.key)?)
                .map_err(|e| mismatch(own, &e))?,
        };
        self.client = Some(Arc::new(config));
        self.name = server_name.map(parse_name).transpose()?;
        Ok(self)
    }

    pub(super) fn server_config(&self) -> Result<&Arc<ServerConfig>, SetupError> {
        let missing = || refused("listening with TLS needs a certificate and its key".into());
        self.server.as_ref().ok_or_else(missing)
    }

    pub(super) fn client_config(&self) -> Result<&Arc<ClientConfig>, SetupError> {
        let missing =
            || refused("connecting with TLS needs the CA that signed the server's certificate".into());
        self.client.as_ref().ok_or_else(missing)
    }

    /// The name that the server's certificate must have; `host` is `name:port` or `[v6]:port`.
    pub(super) fn server_name(&self, host: &str) -> Result<ServerName<'static>, SetupError> {
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => {
                let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
                parse_name(name.trim_start_matches('[').trim_end_matches(']'))
            }
        }
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn refused(text: String) -> SetupError {
    SetupError::Unsupported(text)
}

fn parse_name(name: &str) -> Result<ServerName<'static>, SetupError> {
    ServerName::try_from(name.to_string())
        .map_err(|_| refused(format!("{name:?} is no host name that a certificate could have")))
}

fn unreadable(what: &str, path: &Path, error: &rustls::pki_types::pem::Error) -> SetupError {
    refused(format!("{what} {}: {error:?}; expected a PEM file", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let bad = |e| unreadable("certificate", path, &e);
    let chain: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(bad)?.collect::<Result<_, _>>().map_err(bad)?;
    if chain.is_empty() {
        return Err(refused(format!("certificate {}: the file holds none in PEM form", path.display())));
    }
    Ok(chain)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, SetupError> {
    PrivateKeyDer::from_pem_file(path).map_err(|e| unreadable("private key", path, &e))
}

fn roots(path: &Path) -> Result<RootCertStore, SetupError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|e| refused(format!("CA {}: {e}", path.display())))?;
    }
    Ok(roots)
}

fn mismatch(own: &Identity, error: &rustls::Error) -> SetupError {
    refused(format!("certificate {} with key {}: {error}", own.certificate.display(), own.key.display()))
}

/// Runs a part of the handshake inside TLS, starting TLS if it has not, and says TLS faults in our words.
pub(super) fn over<S: Read + Write, T>(
    connection: &mut Connection,
    stream: &mut S,
    peer: &str,
    run: impl FnOnce(&mut Over<'_, S>) -> Result<T, SetupError>,
) -> Result<T, SetupError> {
    run(&mut Over { connection, stream }).map_err(|error| match error {
        SetupError::Os(step, error) => explain(step, peer, error),
        other => other,
    })
}

/// A blocking stream through TLS. Bytes written before TLS stands are kept by rustls and go once it does.
pub(super) struct Over<'a, S> {
    connection: &'a mut Connection,
    stream: &'a mut S,
}

impl<S: Read + Write> Over<'_, S> {
    fn write_out(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(self.stream)?;
        }
        Ok(())
    }
}

impl<S: Read + Write> Read for Over<'_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(into) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            self.write_out()?;
            if self.connection.read_tls(self.stream)? == 0 {
                return Ok(0);
            }
            let processed = self.connection.process_new_packets();
            // Also after a fault: the alert tells the peer why.
            let written = self.write_out();
            processed.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            written?;
        }
    }
}

impl<S: Read + Write> Write for Over<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.connection.writer().write(bytes)?;
        self.write_out()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_out()
    }
}

fn explain(step: &'static str, peer: &str, error: io::Error) -> SetupError {
    use rustls::{AlertDescription as Alert, Error};
    let Some(fault) = error.get_ref().and_then(|e| e.downcast_ref::<Error>()) else {
        return SetupError::Os(step, error);
    };
    match fault {
        Error::InvalidCertificate(_) | Error::NoCertificatesPresented => {
            SetupError::Login(format!("the certificate of {peer} does not hold: {fault}"))
        }
        Error::AlertReceived(
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateRequired
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::AccessDenied
            | Alert::DecryptError
            | Alert::HandshakeFailure,
        ) => SetupError::Login(format!("{peer} does not accept our certificate: {fault}")),
        Error::InvalidMessage(_) => {
            SetupError::Protocol(format!("{peer} does not speak TLS, and this side demands it"))
        }
        _ => SetupError::Protocol(format!("TLS with {peer} failed: {fault}")),
    }
}

#[cfg(test)]
mod tests;
