//! The listening side.

use std::sync::Arc;
use std::time::Duration;

use longarm_host::{Mutex, Pause};

use super::door::{Accepted, Knock, SimAcceptor};
use super::end::SimEnd;
use super::net::{Net, machine};
use super::pair::SimConnection;
use super::qp::SimQp;
use super::registry::Registry;
use crate::failures::Failures;
use crate::{
    Address, Channel, Grant, HELLO_MAX, Incoming, ListenOptions, Listener, PeerInfo, Reason, SetupError,
};

/// A listener of a simulated machine.
#[derive(Debug)]
pub struct SimListener {
    net: Arc<Net>,
    registry: Arc<Registry>,
    name: String,
    door: Arc<SimAcceptor>,
}

pub(super) fn listen(
    net: &Arc<Net>,
    registry: &Arc<Registry>,
    address: &Address,
    options: ListenOptions,
) -> Result<SimListener, SetupError> {
    let Address::Sim(name) = address else {
        return Err(SetupError::Unsupported(format!("{address} is no address of a simulated network")));
    };
    let door = Arc::new(SimAcceptor {
        machine: machine(),
        login: options.login,
        peers: options.peers,
        pending: options.pending,
        knocks: Mutex::default(),
        bed: Pause::default(),
        failures: Failures::default(),
    });
    if !registry.open(name, &door) {
        let taken = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        return Err(SetupError::Os("listen on the address", taken));
    }
    Ok(SimListener { net: net.clone(), registry: registry.clone(), name: name.clone(), door })
}

impl Listener for SimListener {
    type Qp = SimQp;
    type Incoming = SimIncoming;

    fn accept(&mut self, timeout: Duration) -> Result<Option<SimIncoming>, SetupError> {
        let until = longarm_host::now() + longarm_base::Nanos(timeout.as_nanos() as u64);
        let knock = self.door.bed.wait_for(until, || self.door.knocks.lock().pop_front());
        let machine = self.door.machine;
        Ok(knock.map(|knock| SimIncoming {
            net: self.net.clone(),
            registry: self.registry.clone(),
            machine,
            knock: Some(knock),
        }))
    }

    fn address(&self) -> Address {
        Address::Sim(self.name.clone())
    }

    fn failures(&mut self) -> Vec<String> {
        self.door.failures.take()
    }
}

/// A peer that waits to be let in.
#[derive(Debug)]
pub struct SimIncoming {
    net: Arc<Net>,
    registry: Arc<Registry>,
    machine: u32,
    /// Until it is answered.
    knock: Option<Knock>,
}

impl SimIncoming {
    fn knock(&self) -> &Knock {
        self.knock.as_ref().expect("answered once, and then consumed")
    }

    /// Answers, as long as the network takes.
    fn answer(&mut self, answer: impl FnOnce(Knock) -> Result<Accepted, SetupError>) {
        let knock = self.knock.take().expect("answered once");
        let (reply, delay) = (knock.reply.clone(), self.net.delay(self.machine, knock.machine));
        let answer = answer(knock);
        self.net.at(self.net.time() + delay, move || reply.give(answer));
    }
}

impl Incoming for SimIncoming {
    type Qp = SimQp;

    fn hello(&self) -> &[u8] {
        &self.knock().hello
    }

    fn peer(&self) -> PeerInfo {
        let Knock { machine, role, .. } = self.knock();
        PeerInfo { role: *role, name: format!("machine {machine}"), pid: None, uid: None }
    }

    fn accept(
        mut self,
        welcome: &[u8],
        grants: Vec<Grant>,
        landing: u32,
        channel: &Channel,
    ) -> Result<SimQp, SetupError> {
        if welcome.len() > HELLO_MAX {
            let text = format!("a welcome of {} bytes: at most {HELLO_MAX}", welcome.len());
            return Err(SetupError::Protocol(text));
        }
        let of = |grants: &[Grant]| grants.iter().map(Grant::granted).collect::<Vec<_>>();
        let (lent, knock) = (of(&grants), self.knock());
        let (borrowed, theirs) = (of(&knock.grants), knock.machine);
        let ours = SimEnd::new(self.machine, grants, Some(channel.clone()));
        let pair =
            SimConnection::new(self.net.clone(), [ours, SimEnd::new(theirs, knock.grants.clone(), None)]);
        self.registry.add_pair(&pair);
        let qp = SimQp::new(pair.clone(), 0, landing, borrowed, format!("sim machine {theirs}"));
        self.answer(|_| Ok(Accepted { pair, welcome: welcome.into(), granted: lent }));
        Ok(qp)
    }

    fn reject(mut self, reason: Reason) {
        let refused = SetupError::Refused(reason);
        self.answer(|_| Err(refused));
    }
}

impl Drop for SimIncoming {
    fn drop(&mut self) {
        if self.knock.is_some() {
            self.answer(|_| Err(SetupError::Protocol("the listener gave the connection up".into())));
        }
    }
}
