//! Where a server listens: `shm:/path/to.sock`, `tcp://host:port`, `verbs://host:port`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use longarm_base::ReplicaId;

/// Address of a listener, with its transport.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket on this host, over which memory files are passed.
    Shm(PathBuf),
    /// Host and port; the software NIC.
    Tcp(String),
    /// Host and port of the set-up connection of an RDMA device.
    Verbs(String),
    /// A name in a simulated network.
    Sim(String),
}

/// A replica of a group, and where it listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its id.
    pub replica: ReplicaId,
    /// Where the others, and clients, find it.
    pub address: Address,
}

impl Address {
    /// The transport's name.
    pub fn transport(&self) -> &'static str {
        match self {
            Address::Shm(_) => "shm",
            Address::Tcp(_) => "tcp",
            Address::Verbs(_) => "verbs",
            Address::Sim(_) => "sim",
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Shm(path) => write!(f, "shm:{}", path.display()),
            Address::Tcp(host) => write!(f, "tcp://{host}"),
            Address::Verbs(host) => write!(f, "verbs://{host}"),
            Address::Sim(name) => write!(f, "sim://{name}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let hint = "expected shm:/path/to.sock, tcp://host:port or verbs://host:port";
        let host = |rest: &str| -> Result<String, String> {
            match rest.rsplit_once(':') {
                Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok() => Ok(rest.to_string()),
                _ => Err(format!("address {text:?} lacks host and port; {hint}")),
            }
        };
        if let Some(path) = text.strip_prefix("shm:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            // sun_path holds 108 bytes with its end.
            if path.is_empty() || path.len() > 107 || path.contains('\0') {
                return Err(format!("address {text:?}: a socket path has 1 to 107 bytes; {hint}"));
            }
            return Ok(Address::Shm(PathBuf::from(path)));
        }
        if let Some(rest) = text.strip_prefix("tcp://") {
            return host(rest).map(Address::Tcp);
        }
        if let Some(rest) = text.strip_prefix("verbs://") {
            return host(rest).map(Address::Verbs);
        }
        // No hint names it: only the simulator has it, where replicas tell each other their addresses.
        if let Some(name) = text.strip_prefix("sim://").filter(|name| !name.is_empty()) {
            return Ok(Address::Sim(name.to_string()));
        }
        Err(format!("address {text:?} names no transport; {hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_addresses_come_back_as_they_were() {
        for text in
            ["shm:/run/a.sock", "tcp://127.0.0.1:7000", "tcp://[::1]:7000", "verbs://node1:0", "sim://a"]
        {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn bad_addresses_name_the_fault_and_the_form() {
        for text in
            ["", "redis://x:1", "tcp://x", "tcp://:1", "tcp://x:99999", "shm:", "sim://", "/run/a.sock"]
        {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.contains("expected shm:"), "{error}");
        }
    }
}
