//! The network between processes on one machine, with cables that can be pulled.
//!
//! Every party reaches a node through a listener that hands on bytes as they come, once the kernel has said
//! which party connected ([`crate::who`]). So each direction between two parties can be cut for itself. A
//! relay holds bytes of a direction that is cut, and hands them on when the cut is mended, as TCP's
//! retransmission would; a reset drops them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use longarm::output::{Exit, Failure};
use longarm_host::Mutex;

use crate::who::{Party, Sockets};

/// The most bytes handed on at once.
const PIECE: usize = 64 << 10;
/// The time between two looks at a cut.
const LOOK: Duration = Duration::from_millis(1);
/// The bound on reaching the process behind a relay.
const CONNECT: Duration = Duration::from_secs(1);
/// The most connections of which it is not known yet which party made them; more wait to be accepted.
const UNKNOWN_MAX: usize = 1024;

/// All relays of a run.
pub struct Network {
    listening: Mutex<Vec<SocketAddr>>,
    arrivals: SyncSender<Arrival>,
    shared: Arc<Shared>,
}

/// A connection that was made to a relay.
struct Arrival {
    near: TcpStream,
    /// The party behind the relay.
    to: Party,
    /// The address at which that party listens.
    target: SocketAddr,
}

/// What one party says to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Direction {
    /// The party that sends.
    pub from: Party,
    /// The party that receives.
    pub to: Party,
}

impl Direction {
    /// What the receiver says to the sender.
    pub fn back(self) -> Direction {
        Direction { from: self.to, to: self.from }
    }
}

struct Shared {
    parties: usize,
    /// By direction: whether it is cut.
    cut: Vec<AtomicBool>,
    /// The processes of the nodes; all other processes are clients.
    processes: Mutex<BTreeMap<Party, u32>>,
    open: Mutex<BTreeMap<u64, Line>>,
    number: AtomicU64,
    ended: AtomicBool,
}

/// A connection through a relay.
struct Line {
    /// From the party that connected to the one behind the relay.
    there: Direction,
    near: TcpStream,
    far: TcpStream,
}

fn system(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::System, format!("a relay of the network cannot {what}: {error}"))
}

impl Network {
    /// A network of the nodes 1 to `nodes`, and of clients.
    pub fn new(nodes: u8) -> Result<Network, Failure> {
        let parties = usize::from(nodes) + 1;
        let cut = (0..parties * parties).map(|_| AtomicBool::new(false)).collect();
        let (number, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let (processes, open) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { parties, cut, processes, open, number, ended });
        let (arrivals, arrived) = sync_channel(UNKNOWN_MAX);
        let known = shared.clone();
        let thread = std::thread::Builder::new().name("relay-who".into());
        thread.spawn(move || known.serve(&arrived)).map_err(|error| system("have a thread", &error))?;
        Ok(Network { listening: Mutex::default(), arrivals, shared })
    }

    /// The highest number of a node.
    pub fn nodes(&self) -> Party {
        (self.shared.parties - 1) as Party
    }

    /// Notes that a node has this process now.
    pub fn learn(&self, node: Party, process: u32) {
        self.shared.processes.lock().insert(node, process);
    }

    /// Lays a way to a node that listens at `target`; returns where other parties connect.
    pub fn way(&self, to: Party, target: SocketAddr) -> Result<SocketAddr, Failure> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| system("listen", &error))?;
        let address = listener.local_addr().map_err(|error| system("say where it listens", &error))?;
        let (shared, arrivals) = (self.shared.clone(), self.arrivals.clone());
        let accept = move || {
            for near in listener.incoming() {
                // Acquire: pairs with the Release in `drop`.
                if shared.ended.load(Ordering::Acquire) {
                    return;
                }
                // The party whose connection fails makes it again.
                if let Ok(near) = near
                    && arrivals.send(Arrival { near, to, target }).is_err()
                {
                    return;
                }
            }
        };
        self.listening.lock().push(address);
        let thread = std::thread::Builder::new().name(format!("relay-{to}")).spawn(accept);
        thread.map(|_| address).map_err(|error| system("have a thread", &error))
    }

    /// Cuts a direction, or mends it.
    pub fn cut(&self, direction: Direction, cut: bool) {
        // Relaxed: a flag; bytes that are under way when it changes may be handed on or held.
        self.shared.cut[self.shared.index(direction)].store(cut, Ordering::Relaxed);
    }

    /// Mends everything.
    pub fn mend(&self) {
        // Relaxed: as in `cut`.
        self.shared.cut.iter().for_each(|cut| cut.store(false, Ordering::Relaxed));
    }

    /// Resets all connections of a party.
    pub fn reset(&self, party: Party) {
        self.shared.end(|direction| direction.from == party || direction.to == party);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `way`.
        self.shared.ended.store(true, Ordering::Release);
        self.mend();
        self.shared.end(|_| true);
        // Each thread that accepts wakes only for a connection.
        self.listening.lock().iter().for_each(|address| drop(TcpStream::connect(address)));
    }
}

impl Shared {
    /// The place of a direction's flag in `cut`.
    fn index(&self, direction: Direction) -> usize {
        direction.from as usize * self.parties + direction.to as usize
    }

    fn end(&self, which: impl Fn(Direction) -> bool) {
        for line in self.open.lock().values().filter(|line| which(line.there)) {
            for end in [&line.near, &line.far] {
                // A connection that is closed already needs no end.
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }

    /// Lays lines for connections until no more can come. It asks the kernel for all that have come at once.
    fn serve(self: &Arc<Shared>, arrived: &Receiver<Arrival>) {
        while let Ok(first) = arrived.recv() {
            let arrivals: Vec<Arrival> = std::iter::once(first).chain(arrived.try_iter()).collect();
            let processes = self.processes.lock().clone();
            let Ok(sockets) = Sockets::look(&processes) else { continue };
            for arrival in arrivals {
                let near = &arrival.near;
                let ports = near.peer_addr().and_then(|peer| Ok((peer.port(), near.local_addr()?.port())));
                let from = ports.ok().and_then(|(port, other)| sockets.party(port, other));
                let Some(from) = from else { continue };
                let shared = self.clone();
                let thread = std::thread::Builder::new().name("relay".into());
                // The party whose connection fails makes it again.
                let _ = thread.spawn(move || shared.join(from, arrival));
            }
        }
    }

    fn join(self: &Arc<Shared>, from: Party, arrival: Arrival) -> std::io::Result<()> {
        let Arrival { near, to, target } = arrival;
        let far = TcpStream::connect_timeout(&target, CONNECT)?;
        for end in [&near, &far] {
            end.set_nodelay(true)?;
        }
        // Relaxed: a number that no other line has.
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let there = Direction { from, to };
        let line = Line { there, near: near.try_clone()?, far: far.try_clone()? };
        self.open.lock().insert(number, line);
        let (shared, near_end, far_end) = (self.clone(), near.try_clone()?, far.try_clone()?);
        let thread = std::thread::Builder::new().name("relay".into());
        thread.spawn(move || shared.hand_on(number, there.back(), far_end, near_end))?;
        self.hand_on(number, there, near, far);
        Ok(())
    }

    /// Hands bytes on in one direction, until either end closes.
    fn hand_on(&self, number: u64, direction: Direction, mut from: TcpStream, mut to: TcpStream) {
        let (mut bytes, cut) = (vec![0; PIECE], self.index(direction));
        // Relaxed: as in `cut`.
        let hold = || {
            while self.cut[cut].load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed) {
                std::thread::park_timeout(LOOK);
            }
        };
        while let Ok(len @ 1..) = from.read(&mut bytes) {
            hold();
            if to.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        // The end of the stream, too, is not told while the way is cut.
        hold();
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
        self.open.lock().remove(&number);
    }
}

/// Ports of this machine that are free and beyond `after`, outside the range from which outgoing connections
/// take their ports.
pub fn free_ports(count: u8, after: Option<u16>) -> Result<Vec<u16>, Failure> {
    let own = || 10_000 + (std::process::id() % 1_500) as u16 * 12;
    let first = after.map_or_else(own, |after| after + 1);
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let ports: Vec<u16> = (first..32_000).filter(free).take(count.into()).collect();
    if ports.len() < usize::from(count) {
        return Err(Failure::new(Exit::System, format!("no {count} ports from {first} on are free")));
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// The longest that any step of a test may take.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A listener that echoes what it hears.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || {
                    let mut from = stream.try_clone().expect("a clone");
                    let _ = std::io::copy(&mut from, &mut { stream });
                });
            }
        });
        address
    }

    fn hear(stream: &mut TcpStream, limit: Duration) -> Option<u8> {
        stream.set_read_timeout(Some(limit)).expect("a limit");
        let mut byte = [0];
        stream.read_exact(&mut byte).ok().map(|()| byte[0])
    }

    #[test]
    fn who_is_no_node_is_a_client() {
        let network = Network::new(2).expect("a network");
        network.learn(1, 1);
        let way = network.way(2, echo()).expect("a way");
        let mut stream = TcpStream::connect(way).expect("connected");
        network.cut(Direction { from: 1, to: 2 }, true);
        stream.write_all(&[1]).expect("sent");
        assert_eq!(hear(&mut stream, PATIENCE), Some(1));
        network.cut(Direction { from: 0, to: 2 }, true);
        stream.write_all(&[2]).expect("sent");
        assert_eq!(hear(&mut stream, Duration::from_millis(30)), None);
    }

    #[test]
    fn what_is_cut_comes_later_and_what_is_reset_never() {
        let network = Network::new(2).expect("a network");
        network.learn(1, std::process::id());
        let way = network.way(2, echo()).expect("a way");
        let mut stream = TcpStream::connect(way).expect("connected");
        stream.write_all(&[1]).expect("sent");
        assert_eq!(hear(&mut stream, PATIENCE), Some(1));
        let there = Direction { from: 1, to: 2 };
        for direction in [there, there.back()] {
            network.cut(direction, true);
            stream.write_all(&[2]).expect("sent");
            assert_eq!(hear(&mut stream, Duration::from_millis(30)), None, "{direction:?}");
            network.mend();
            assert_eq!(hear(&mut stream, PATIENCE), Some(2), "{direction:?}");
        }
        network.cut(Direction { from: 0, to: 1 }, true);
        stream.write_all(&[3]).expect("sent");
        assert_eq!(hear(&mut stream, PATIENCE), Some(3), "that is between others");
        network.reset(2);
        let began = Instant::now();
        assert_eq!(hear(&mut stream, PATIENCE), None);
        assert!(began.elapsed() < PATIENCE, "it has ended, not timed out");
    }
}
