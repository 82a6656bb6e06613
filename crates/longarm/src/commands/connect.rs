//! From settings to a connected client, and from a client's errors to what the program says and returns.

use longarm_client::{Client, Error, Login, Options};
use longarm_fabric::tcp::{Identity, Tcp, Tls};
use longarm_fabric::{Address, Any, SetupError};

use crate::config::Config;
use crate::output::{Exit, Failure};

/// A client of the server that the settings name; `name` is shown by its `stats`.
pub fn connect(config: &Config, name: &str) -> Result<Client, Failure> {
    let address = config.connect_address();
    Client::connect_over(transport(config)?, address, options(config, name)?)
        .map_err(|error| failure(&error, address))
}

/// How a client connects.
pub fn options(config: &Config, name: &str) -> Result<Options, Failure> {
    Ok(Options {
        name: format!("{name} (pid {})", std::process::id()),
        timeout: config.timeout,
        connect_timeout: config.timeout,
        login: login(config)?,
        ..Options::default()
    })
}

/// The secret of the settings, if any. One line end at its end is the editor's, not the secret's.
pub fn login(config: &Config) -> Result<Login, Failure> {
    let Some(path) = &config.secret_file else { return Ok(Login::None) };
    let mut secret =
        std::fs::read(path).map_err(|error| Failure::io("read the secret file", path, &error))?;
    if secret.last() == Some(&b'\n') {
        secret.pop();
    }
    Ok(Login::Secret(secret.into()))
}

/// The transports with the TLS settings of the client's side.
pub fn transport(config: &Config) -> Result<Any, Failure> {
    let tls = &config.tls;
    let verbs = config.verbs.transport();
    let Some(ca) = &tls.server_ca else { return Ok(Any { verbs, ..Any::default() }) };
    let own = tls.cert.clone().zip(tls.key.clone()).map(|(certificate, key)| Identity { certificate, key });
    let tls = Tls::default()
        .with_client(ca, own.as_ref(), None)
        .map_err(|error| Failure::new(Exit::Usage, format!("TLS settings: {error}")))?;
    Ok(Any { tcp: Tcp::new().with_tls(tls), verbs })
}

/// What a client's error means to the user of the program.
pub fn failure(error: &Error, address: &Address) -> Failure {
    let message = match error {
        // These say "tcp" or "shm" and the reason, but not always where.
        Error::Connect(_) if !error.to_string().contains(&address.to_string()) => {
            format!("{address}: {error}")
        }
        _ => error.to_string(),
    };
    let failure = |exit, hint: &str| Failure::new(exit, message.clone()).hint(hint);
    let start = format!(
        "is the server running? `longarm server --address {address}` starts one, --address (or \
         LONGARM_ADDRESS) names another"
    );
    match error {
        Error::Connect(SetupError::Login(_)) => {
            let hint = "secrets: --secret-file on both sides; certificates: --tls-server-ca is the authority \
                that signed the server's, --tls-cert and --tls-key are our own";
            failure(Exit::Refused, hint)
        }
        Error::Connect(SetupError::Refused(_)) => {
            failure(Exit::Refused, "the server's own log on its stderr says more")
        }
        Error::Connect(SetupError::Unsupported(_)) => failure(
            Exit::Usage,
            "shm:/path.sock and tcp://host:port need no such device; `longarm doctor` says more",
        ),
        Error::Connect(SetupError::Os(..) | SetupError::Region(_)) => {
            failure(Exit::System, "`longarm doctor` shows the limits of this machine")
        }
        // Somebody is there, and speaks: to ask whether the server runs would mislead.
        Error::Connect(SetupError::Protocol(_)) => failure(
            Exit::CannotConnect,
            "client and server must agree on TLS (--tls-server-ca turns it on) and be of one version",
        ),
        Error::Connect(_) | Error::Lost { .. } => failure(Exit::CannotConnect, &start),
        Error::Unresponsive { .. } => failure(
            Exit::CannotConnect,
            "it may be stopped, or its machine overloaded; --timeout makes a client more patient",
        ),
        Error::Closing => failure(Exit::CannotConnect, &start),
        Error::InDoubt(_) => failure(Exit::InDoubt, "read the key to see which; --timeout waits longer"),
        Error::OutOfMemory => {
            failure(Exit::Refused, "`longarm stats` shows what uses the memory; start it with more --memory")
        }
        Error::KeyLength(_) | Error::ValueLength(_) => failure(Exit::Usage, ""),
        Error::NotANumber | Error::Overflow | Error::Invalid(_) => failure(Exit::Refused, ""),
        Error::Contended(_) => failure(Exit::Refused, "try again; --timeout tries longer"),
        Error::Protocol(_) => failure(
            Exit::Corrupt,
            "client and server may be of different versions; `longarm inspect` checks the server's memory",
        ),
        _ => failure(Exit::Refused, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_exit_code() {
        let address: Address = "shm:/tmp/x.sock".parse().expect("an address");
        let exits = [
            (Error::Lost { address: address.to_string(), reason: "gone".into() }, Exit::CannotConnect),
            (Error::InDoubt("no answer".into()), Exit::InDoubt),
            (Error::OutOfMemory, Exit::Refused),
            (Error::KeyLength(0), Exit::Usage),
            (Error::Connect(SetupError::Login("wrong secret".into())), Exit::Refused),
            (Error::Connect(SetupError::Timeout("x".into())), Exit::CannotConnect),
            (Error::Protocol("x".into()), Exit::Corrupt),
        ];
        for (error, exit) in exits {
            assert_eq!(failure(&error, &address).exit, exit, "{error}");
        }
    }

    #[test]
    fn an_unreachable_server_is_named_with_what_to_do() {
        let address: Address = "shm:/tmp/x.sock".parse().expect("an address");
        let silent = failure(&Error::Connect(SetupError::Timeout("it".into())), &address);
        assert!(silent.message.contains("shm:/tmp/x.sock"), "{silent:?}");
        assert!(silent.hint.contains("longarm server"), "{silent:?}");
        // One that speaks is there: what differs is how.
        let strange = failure(&Error::Connect(SetupError::Protocol("strange".into())), &address);
        assert!(strange.message.contains("shm:/tmp/x.sock"), "{strange:?}");
        assert!(strange.hint.contains("--tls-server-ca"), "{strange:?}");
    }
}
