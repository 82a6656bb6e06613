//! The bridge between RDMA devices of one machine, as `cargo x vm` lays it: each device is on an interface
//! whose other end is a port of the bridge. A port that is down cuts its device off. TCP still carries what
//! it carries between processes of one machine. So only RDMA shows that a device is cut off.

use std::path::Path;
use std::process::{Command, Stdio};

use longarm::cluster::NodeId;
use longarm::output::{Exit, Failure};

/// The ports of the bridge, by number of the node, from 1 on.
pub struct Bridge {
    ports: Vec<String>,
}

impl Bridge {
    /// The ports of these devices.
    pub fn of(devices: &[String]) -> Result<Bridge, Failure> {
        Ok(Bridge { ports: devices.iter().map(|device| port(device)).collect::<Result<_, _>>()? })
    }

    /// Cuts a node's device off.
    pub fn cut(&self, node: NodeId) -> Result<(), Failure> {
        set(&self.ports[node.0 as usize - 1], "down")
    }

    /// Mends all ports.
    pub fn mend(&self) -> Result<(), Failure> {
        self.ports.iter().try_for_each(|port| set(port, "up"))
    }
}

/// The bridge's port to the interface that a device is on. Interface and port are the two ends of a virtual
/// pair.
fn port(device: &str) -> Result<String, Failure> {
    let read = |path: String| {
        let text = std::fs::read_to_string(&path);
        text.map_err(|error| {
            let hint = "only Soft-RoCE devices as `cargo x vm` makes them can be cut off";
            Failure::io("read", Path::new(&path), &error).hint(hint)
        })
    };
    let interface = read(format!("/sys/class/infiniband/{device}/parent"))?;
    let peer = read(format!("/sys/class/net/{}/iflink", interface.trim()))?;
    let all = std::fs::read_dir("/sys/class/net")
        .map_err(|error| Failure::io("read", Path::new("/sys/class/net"), &error))?;
    for one in all.flatten() {
        let name = one.file_name().to_string_lossy().into_owned();
        if read(format!("/sys/class/net/{name}/ifindex"))? == peer {
            return Ok(name);
        }
    }
    let text = format!("{device} is on {}, whose other end is not to be seen here", interface.trim());
    Err(Failure::new(Exit::System, text))
}

fn set(port: &str, state: &str) -> Result<(), Failure> {
    let done = Command::new("ip").args(["link", "set", "dev", port, state]).stdin(Stdio::null()).output();
    let why = match done {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_string(),
        Err(error) => error.to_string(),
    };
    let text = format!("cannot run `ip link set dev {port} {state}`: {why}");
    Err(Failure::new(Exit::System, text).hint("root may, in the machine of `cargo x vm`"))
}
