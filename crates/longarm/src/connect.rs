//! Connects a client as the settings say, and tells the user what a client's errors mean.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longarm_client::{ClusterClient, Error, Login, Options, Reply, Topology, refusal};
use longarm_fabric::tcp::{Identity, Tcp, Tls};
use longarm_fabric::{Any, SetupError};
use longarm_wire::RefusalCode;

use crate::cluster;
use crate::config::{Config, Origin};
use crate::output::{Exit, Failure};

/// The least patience with a cluster, unless the user sets another: a group that elects a leader does not
/// answer.
const GROUP_PATIENCE: Duration = Duration::from_secs(5);

/// Connects to the server or cluster that the settings name; its `stats` show the client as `name`.
pub fn connect(config: &Config, name: &str) -> Result<ClusterClient, Failure> {
    connect_with(config, options(config, name)?)
}

/// Connects to the server or cluster that the settings name, with options of the caller.
pub fn connect_with(config: &Config, options: Options) -> Result<ClusterClient, Failure> {
    let topology = topology(config)?;
    let alone = topology.groups().len() == 1;
    let mut client = ClusterClient::over(transport(config)?, topology, options);
    // A client of several groups connects to a group when it needs it: the others need not have a leader.
    if alone {
        client.group(0).map_err(|error| failure(&error, config))?;
    }
    Ok(client)
}

/// The groups that the settings name: those of a cluster, or one server.
pub fn topology(config: &Config) -> Result<Topology, Failure> {
    match &config.cluster {
        Some(path) => Ok(Topology::from(&cluster::read(path)?)),
        None => Ok(Topology::of_one(vec![config.connect_address().clone()])),
    }
}

/// Makes the options of a client from the settings; a server's `stats` show the client as `name`.
pub fn options(config: &Config, name: &str) -> Result<Options, Failure> {
    let patient = config.cluster.is_some() && config.origin("timeout") == Origin::Default;
    let timeout = if patient { config.timeout.max(GROUP_PATIENCE) } else { config.timeout };
    Ok(Options {
        name: format!("{name} (pid {})", std::process::id()),
        timeout,
        connect_timeout: timeout,
        login: login(config)?,
        ..Options::default()
    })
}

/// Reads the secret that the settings name, if any. A line end at the end of its file is the editor's, and no
/// part of the secret.
pub fn login(config: &Config) -> Result<Login, Failure> {
    let secret = config.secret_file.as_deref().map(secret).transpose()?;
    Ok(secret.map_or(Login::None, Login::Secret))
}

/// Reads the secret of a cluster's nodes and operators, if they have one of their own.
pub fn peers(config: &Config) -> Result<Login, Failure> {
    let secret = config.peer_secret_file.as_deref().map(secret).transpose()?;
    Ok(secret.map_or(Login::None, Login::Peer))
}

fn secret(path: &Path) -> Result<Arc<[u8]>, Failure> {
    let mut secret =
        std::fs::read(path).map_err(|error| Failure::io("read the secret file", path, &error))?;
    if secret.last() == Some(&b'\n') {
        secret.pop();
    }
    Ok(secret.into())
}

/// Makes the transports, with the TLS settings of the client's side.
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

/// Turns a client's error into a failure that the user of the program understands.
pub fn failure(error: &Error, config: &Config) -> Failure {
    let place = match &config.cluster {
        Some(path) => format!("the cluster of {}", path.display()),
        None => config.connect_address().to_string(),
    };
    let message = match error {
        // Such an error names the transport and the reason, but not always the address.
        Error::Connect(_) if !error.to_string().contains(&place) => format!("{place}: {error}"),
        _ => error.to_string(),
    };
    let failure = |exit, hint: &str| Failure::new(exit, message.clone()).hint(hint);
    let start = match &config.cluster {
        Some(path) => format!(
            "do most of its nodes run? `longarm cluster status {0}` shows them, `longarm server --cluster \
             {0} --node N` starts one",
            path.display()
        ),
        None => format!(
            "is the server running? `longarm server --address {place}` starts one, --address (or \
             LONGARM_ADDRESS) names another"
        ),
    };
    match error {
        // A group whose nodes run elects a leader within the time that the client asked, so too few of them
        // may run.
        Error::Connect(error) if refusal(error).is_some_and(|why| why.code == RefusalCode::NotLeader) => {
            failure(Exit::CannotConnect, &start)
        }
        Error::Connect(SetupError::Login(_)) => {
            let hint = "secrets: --secret-file on both sides; certificates: --tls-server-ca is the authority \
                that signed the server's, --tls-cert and --tls-key are our own";
            failure(Exit::Refused, hint)
        }
        Error::Connect(SetupError::Refused(_)) => failure(Exit::Refused, refused(config)),
        Error::Connect(SetupError::Unsupported(_)) => failure(
            Exit::Usage,
            "shm:/path.sock and tcp://host:port need no such device; `longarm doctor` says more",
        ),
        Error::Connect(SetupError::Os(..) | SetupError::Region(_)) => {
            failure(Exit::System, "`longarm doctor` shows the limits of this machine")
        }
        // A program answers there, so a hint to start the server would mislead.
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
        Error::NotANumber | Error::Overflow | Error::Invalid(_) | Error::Crowded => {
            failure(Exit::Refused, "")
        }
        Error::Contended(_) => failure(Exit::Refused, "try again; --timeout tries longer"),
        error if is_of_scan(error) => of_scan(error, message),
        Error::Protocol(_) => failure(
            Exit::Corrupt,
            "client and server may be of different versions; `longarm inspect` checks the server's memory",
        ),
        _ => failure(Exit::Refused, ""),
    }
}

/// Whether only scans end with it.
fn is_of_scan(error: &Error) -> bool {
    matches!(error, Error::NotOrdered | Error::NoPage(_) | Error::SnapshotGone(_) | Error::Token(_))
}

/// The failure of a scan.
fn of_scan(error: &Error, message: String) -> Failure {
    let (exit, hint) = match error {
        Error::NotOrdered => (
            Exit::Refused,
            "it is kept if the server, or each node of the group, is started with --ordered true; \
             `longarm dump` needs none",
        ),
        Error::NoPage(_) => (
            Exit::Refused,
            "try again; --timeout tries longer, and a smaller --page is less likely disturbed by writes",
        ),
        Error::SnapshotGone(_) => {
            (Exit::Refused, "what was printed is of the snapshot; take another one, of a smaller range")
        }
        _ => (Exit::Usage, ""),
    };
    Failure::new(exit, message).hint(hint)
}

/// The hint for a client that a server has refused.
fn refused(config: &Config) -> &'static str {
    match &config.cluster {
        Some(_) => "all nodes and clients need the same file; `longarm cluster status` shows who is where",
        None => "the server's own log on its stderr says more",
    }
}

/// The failure for an answer that the request cannot have.
pub fn unexpected(reply: &Reply) -> Failure {
    Failure::new(Exit::Corrupt, format!("the server gave an answer of another kind: {reply:?}"))
        .hint("client and server may be of different versions")
}

#[cfg(test)]
mod tests {
    use longarm_fabric::Address;

    use super::*;

    fn config() -> (Config, Address) {
        let address: Address = "shm:/tmp/x.sock".parse().expect("an address");
        let host = crate::config::Host { uid: 0, runtime_dir: None };
        let mut config = Config::defaults(&host);
        config.address = vec![address.clone()];
        (config, address)
    }

    #[test]
    fn every_kind_of_error_has_its_exit_code() {
        let (config, address) = config();
        let exits = [
            (Error::Lost { address: address.to_string(), reason: "gone".into() }, Exit::CannotConnect),
            (Error::InDoubt("no answer".into()), Exit::InDoubt),
            (Error::OutOfMemory, Exit::Refused),
            (Error::Crowded, Exit::Refused),
            (Error::KeyLength(0), Exit::Usage),
            (Error::NotOrdered, Exit::Refused),
            (Error::NoPage("x".into()), Exit::Refused),
            (Error::SnapshotGone("x".into()), Exit::Refused),
            (Error::Connect(SetupError::Login("wrong secret".into())), Exit::Refused),
            (Error::Connect(SetupError::Timeout("x".into())), Exit::CannotConnect),
            (Error::Protocol("x".into()), Exit::Corrupt),
        ];
        for (error, exit) in exits {
            assert_eq!(failure(&error, &config).exit, exit, "{error}");
        }
    }

    #[test]
    fn an_unreachable_server_is_named_with_what_to_do() {
        let (config, _) = config();
        let silent = failure(&Error::Connect(SetupError::Timeout("it".into())), &config);
        assert!(silent.message.contains("shm:/tmp/x.sock"), "{silent:?}");
        assert!(silent.hint.contains("longarm server"), "{silent:?}");
        // A program that answers runs; only its way to speak differs.
        let strange = failure(&Error::Connect(SetupError::Protocol("strange".into())), &config);
        assert!(strange.message.contains("shm:/tmp/x.sock"), "{strange:?}");
        assert!(strange.hint.contains("--tls-server-ca"), "{strange:?}");
    }

    #[test]
    fn a_group_without_a_leader_is_named_with_what_to_do() {
        let (mut config, _) = config();
        config.cluster = Some("g.toml".into());
        let none = longarm_wire::Refusal::not_leader(None);
        let none = longarm_fabric::Reason { text: none.text.clone(), bytes: none.encode() };
        let none = Error::Connect(SetupError::Refused(none));
        let failure = failure(&none, &config);
        assert_eq!(failure.exit, Exit::CannotConnect);
        assert!(failure.message.contains("the cluster of g.toml"), "{failure:?}");
        assert!(failure.hint.contains("longarm cluster status g.toml"), "{failure:?}");
    }
}
