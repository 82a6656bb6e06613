//! Hurting the wire of `cargo x vm`: device rxeN is on vethN, whose other end is port swN of the switch. One
//! test at a time may do so: run these with --test-threads=1.

use std::process::Command;

use crate::devices;

fn run(program: &str, args: &[&str]) {
    let status = Command::new(program).args(args).status().expect(program);
    assert!(status.success(), "{program} {args:?}: {status}");
}

/// The interface below the server's device.
fn interface() -> String {
    let file = format!("/sys/class/infiniband/{}/parent", devices().1);
    std::fs::read_to_string(file).expect("a Soft-RoCE device").trim().to_string()
}

/// The server's host is cut off as long as this lives.
pub struct Cut(String);

impl Cut {
    pub fn now() -> Cut {
        let port = interface().replace("veth", "sw");
        run("ip", &["link", "set", "dev", &port, "down"]);
        Cut(port)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        run("ip", &["link", "set", "dev", &self.0, "up"]);
    }
}

/// So many percent of the packets that the server's host sends are lost as long as this lives.
pub struct Loss(String);

impl Loss {
    pub fn of(percent: u32) -> Loss {
        let interface = interface();
        let loss = format!("{percent}%");
        run("tc", &["qdisc", "replace", "dev", &interface, "root", "netem", "loss", &loss]);
        let port = interface.replace("veth", "sw");
        // And of those sent to it.
        run("tc", &["qdisc", "replace", "dev", &port, "root", "netem", "loss", &loss]);
        Loss(interface)
    }
}

impl Drop for Loss {
    fn drop(&mut self) {
        for interface in [self.0.clone(), self.0.replace("veth", "sw")] {
            run("tc", &["qdisc", "del", "dev", &interface, "root"]);
        }
    }
}
