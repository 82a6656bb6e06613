//! The fence against a leader at work, whose streams of entries and heartbeats have queue pairs of their own.
//! The fence cuts them off in the middle; after that no memory changes any more.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use longarm_base::RegionId;
use longarm_fabric::sim::{Landing, Sim, Weather};
use longarm_fabric::tcp::Tcp;
use longarm_fabric::{Address, ListenOptions, Listener, Login, Member, Op, PeerRole, Ticket, Transport};
use longarm_memory::{Mapped, Words};
use longarm_replica::page::{BYTES as PAGE_BYTES, FLOORS};

use super::super::peer_channel::{Bulk, PeerAddress};
use super::super::vote_store::{FileVoteStore, VoteStore};
use super::*;

mod entering;
mod fetching;

const ARENA_BYTES: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(20);
/// The number of a leader's connections: one for heartbeats, the others for streams.
const QUEUE_PAIRS: usize = 3;
/// The number of WRITEs that are posted on each connection before the fence.
const AT_LEAST: u64 = 50;

/// Tells the host to stop, even when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        // Relaxed: pairs with the load in `House::host`.
        self.0.store(true, Ordering::Relaxed);
    }
}

fn region(bytes: u64) -> Arc<Region> {
    let options = RegionOptions { name: "fenced".into(), bytes, backing: Backing::Memory };
    Arc::new(Region::create(&options).expect("memory"))
}

/// Replica 1 of a group, with the address at which other replicas find it.
struct House<T: Transport> {
    inbound: Inbound<T::Qp>,
    memory: ReplicaMemory,
    address: Address,
    group: u64,
}

/// What all replicas of the group have alike.
const TIMES: GroupTimes = GroupTimes { promise: Nanos::from_millis(50), keep: Nanos::from_millis(60_000) };

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// The door of replica 1.
fn inbound_of<Q: QueuePair>(memory: ReplicaMemory, role: PeerRole) -> Inbound<Q> {
    let address = Address::Sim("house".into());
    let member = |replica| Member { replica: ReplicaId(replica), address: address.clone() };
    let dir = tempfile::tempdir().expect("a directory");
    let vote_store: Arc<dyn VoteStore> = Arc::new(FileVoteStore::open(dir.path()).expect("a vote store"));
    let options = GroupOptions {
        id: 7,
        replica: ReplicaId(1),
        members: vec![member(1), member(2), member(3)],
        timing: longarm_replica::Timing {
            heartbeat: ms(5),
            suspect: ms(40),
            promise: ms(50),
            election: ms(500),
        },
        joins: false,
        first: None,
        sum_key: 1,
        hash_key: 2,
        vote_store,
        durable: None,
        memory_parts: 1,
    };
    Inbound::new(options, TIMES, role, memory, Channel::new().expect("a channel"), Log::silent())
}

impl<T: Transport> House<T> {
    fn new(address: Address) -> House<T> {
        House::that_asks(address, PeerRole::Client)
    }

    /// A house whose door lets in a visitor that has proved at least this role.
    fn that_asks(address: Address, role: PeerRole) -> House<T> {
        let memory = ReplicaMemory { arena: region(ARENA_BYTES), page: region(PAGE_BYTES) };
        let inbound = inbound_of(memory.clone(), role);
        let group = inbound.group();
        House { inbound, memory, address, group }
    }

    /// Lets visitors in until told to stop.
    fn host(&self, mut listener: T::Listener, stop: &AtomicBool) {
        // Relaxed: a wish, seen sooner or later.
        while !stop.load(Ordering::Relaxed) {
            if let Some(incoming) = listener.accept(Duration::from_millis(10)).expect("accept") {
                let hello = PeerHello::decode(incoming.hello()).expect("only replicas come by here");
                self.inbound.admit(incoming, &hello);
            }
        }
    }

    /// Calls `of` while the house lets visitors in, and its first term, replica 2's, is open.
    fn open(&self, listener: T::Listener, of: impl FnOnce(Term)) {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| self.host(listener, &stop));
            let _stop = Stop(&stop);
            let term = Term::new(1, ReplicaId(2));
            self.inbound.fence(term).expect("nobody is there yet");
            of(term);
        });
    }

    fn address(&self, transport: &Arc<T>, replica: ReplicaId) -> PeerAddress<T> {
        PeerAddress {
            transport: transport.clone(),
            group: self.group,
            me: replica,
            address: self.address.clone(),
            login: Login::None,
            own: (TIMES, u64::from(replica.0)),
            timeout: SOON,
        }
    }

    /// Cuts a leader at work off by the next term. Returns whether no memory changes after that.
    fn round(&self, address: &PeerAddress<T>, term: Term, next: Term) -> bool {
        let (posted, over) = ([const { AtomicU64::new(0) }; QUEUE_PAIRS], AtomicBool::new(false));
        let is_idle = |posted: &AtomicU64| {
            // Relaxed: pairs with the store in `lead`.
            posted.load(Ordering::Relaxed) < AT_LEAST
        };
        let still = std::thread::scope(|leader| {
            for (which, posted) in (0..).zip(&posted) {
                let qp = address.memory(term, 0).expect("its term is open");
                let over = &over;
                leader.spawn(move || lead(qp, which, posted, over));
            }
            let until = now() + Nanos(SOON.as_nanos() as u64);
            while posted.iter().any(is_idle) && now() < until {
                std::thread::yield_now();
            }
            self.inbound.fence(next).expect("fence");
            let image = self.image();
            let still = [0, 1, 10].into_iter().all(|wait| {
                sleep(Duration::from_millis(wait));
                self.image() == image
            });
            // Relaxed: pairs with the load in `lead`.
            over.store(true, Ordering::Relaxed);
            still
        });
        assert!(!posted.iter().any(is_idle), "the leader was not at work");
        let refused = address.memory(term, 0).map(|_| ()).expect_err("its term is over").to_string();
        assert!(refused.contains("is not open here"), "{refused}");
        still
    }

    fn image(&self) -> Vec<u8> {
        let copy = |memory: &Mapped| {
            let mut bytes = vec![0; memory.bytes() as usize];
            memory.copy_out(0, &mut bytes);
            bytes
        };
        [copy(self.memory.arena.memory()), copy(self.memory.page.memory())].concat()
    }
}

/// Posts what a leader sends on its connection `which` as number `i`.
fn send<Q: QueuePair>(qp: &mut Q, which: u64, i: u64) -> Result<(), longarm_fabric::PostError> {
    let write = |region: RegionId, offset, len: u64| {
        let bytes: Vec<u8> = i.to_le_bytes().into_iter().cycle().take(len as usize).collect();
        (region, offset, bytes)
    };
    let (region, offset, bytes) = match (which, i % 8) {
        (0, _) => write(PAGE_REGION, 0, FLOORS + 16),
        // A stream has small entries, and now and then many neighbours in one WRITE.
        (_, 0) => write(ARENA_REGION, which * (64 << 10), 16 << 10),
        _ => write(ARENA_REGION, which * (256 << 10) + i % 512 * 128, 112),
    };
    qp.post(Op::Write { region, offset, bytes: &bytes }, Ticket(i))
}

/// Sends until the connection breaks, or the round is over.
fn lead<Q: QueuePair>(mut qp: Q, which: u64, posted: &AtomicU64, over: &AtomicBool) {
    let mut done = Completions::new(64);
    let mut i = 0;
    // Relaxed: a wish, seen sooner or later.
    while qp.state().is_ok() && !over.load(Ordering::Relaxed) {
        if send(&mut qp, which, i + 1).is_ok() {
            i += 1;
            // Relaxed: says only that it is at work.
            posted.store(i, Ordering::Relaxed);
        }
        qp.ring();
        qp.poll(&mut done);
        done.clear();
    }
}

fn fenced<T: Transport>(ours: T, theirs: T, address: &Address, rounds: u32) {
    let listener = ours.listen(address, ListenOptions::default()).expect("listen");
    let house = House::<T>::new(listener.address());
    let theirs = Arc::new(theirs);
    house.open(listener, |mut term| {
        let changed = (0..rounds).find(|round| {
            let next = term.next_of(ReplicaId(if round % 2 == 0 { 3 } else { 2 })).expect("a term");
            let still = house.round(&house.address(&theirs, term.leader()), term, next);
            term = next;
            !still
        });
        assert_eq!(changed, None, "the round in which memory changed after the fence returned");
    });
}

#[test]
fn nothing_of_an_older_term_lands_after_the_fence() {
    fenced(Tcp::new(), Tcp::new(), &"tcp://127.0.0.1:0".parse().expect("an address"), 10);
}

/// A leader pushed a table to a follower. The WRITE completed before it landed. Meanwhile a stream claimed a
/// segment there, over another connection, and the table then landed over that claim. `Mutant::NoDrain` does
/// so again.
#[test]
fn what_is_pushed_has_landed_once_it_is_flushed() {
    let late = Weather { spread: Nanos::from_millis(100), landing: Landing::Any, ..Weather::FINE };
    let sim = Sim::new(late);
    let address = Address::Sim("house".into());
    let listener = sim.listen(&address, ListenOptions::default()).expect("listen");
    let house = House::<Sim>::new(address);
    house.open(listener, |term| {
        let qp =
            house.address(&Arc::new(sim.clone()), term.leader()).memory(term, 64).expect("its term is open");
        let mut bulk = Bulk::new(qp, &|| true);
        let until = now() + Nanos(SOON.as_nanos() as u64);
        let landed: Vec<bool> = (1..=4)
            .map(|i| {
                bulk.write(ARENA_REGION, 0, &[i; 512], until).expect("room");
                bulk.flush(until).expect("it completes");
                house.image()[..512] == [i; 512]
            })
            .collect();
        assert_eq!(landed, [true; 4]);
    });
}

/// Visits a house over tcp whose first term is open.
fn visits(of: impl FnOnce(&House<Tcp>, &dyn Fn(ReplicaId) -> PeerAddress<Tcp>, Term)) {
    visits_to(ListenOptions::default(), PeerRole::Client, of);
}

/// Visits a house over tcp that listens with these options, and lets in a visitor that has proved this role.
fn visits_to(
    options: ListenOptions,
    role: PeerRole,
    of: impl FnOnce(&House<Tcp>, &dyn Fn(ReplicaId) -> PeerAddress<Tcp>, Term),
) {
    let listener = Tcp::new().listen(&"tcp://127.0.0.1:0".parse().expect("an address"), options);
    let listener = listener.expect("listen");
    let house = House::<Tcp>::that_asks(listener.address(), role);
    let transport = Arc::new(Tcp::new());
    house.open(listener, |term| of(&house, &|replica| house.address(&transport, replica), term));
}

/// A WRITE of an older connection could land over what the leader pushes anew.
#[test]
fn a_leader_that_begins_anew_has_no_older_writers() {
    visits(|house, address, term| {
        let mut older = address(term.leader()).memory(term, 0).expect("its term is open");
        house.inbound.clear().expect("ended");
        let younger = address(term.leader()).memory(term, 0).expect("its term is open");
        let until = now() + Nanos(SOON.as_nanos() as u64 / 4);
        let mut done = Completions::new(16);
        let mut i = 0;
        while older.state().is_ok() && now() < until {
            i += u64::from(send(&mut older, 1, i + 1).is_ok());
            older.ring();
            older.poll(&mut done);
            done.clear();
            sleep(Duration::from_millis(1));
        }
        assert!(older.state().is_err(), "it writes on");
        assert!(younger.state().is_ok());
    });
}

#[test]
fn others_whose_leases_last_longer_are_not_let_in() {
    visits(|_, address, term| {
        let other = |times| PeerAddress { own: (times, 2), ..address(term.leader()) };
        let others = [(49, 60_000), (500, 60_000), (50, 59_999)];
        for (promise, keep) in others {
            let times = GroupTimes { promise: ms(promise), keep: ms(keep) };
            let refused = other(times).memory(term, 0).map(|_| ()).expect_err("refused").to_string();
            let both = [(promise, keep), (50, 60_000)];
            let both = both
                .map(|(promise, keep)| format!("last {promise}000 us, and outcomes are kept for {keep} ms"));
            assert!(both.iter().all(|one| refused.contains(one)), "{refused}");
            assert!(other(times).channel().is_err());
        }
        other(TIMES).memory(term, 0).expect("its term is open");
        // An operator has no times, so its numbers have no meaning.
        let operator = PeerAddress { own: Default::default(), ..address(ReplicaId(1)) };
        operator.channel_for(Purpose::Operate).expect("he is let in");
    });
}

/// A client knows the group's number (it is told when it connects) and may know where its replicas are.
#[test]
fn a_client_is_no_replica_and_no_operator() {
    let secret = |text: &str| Arc::<[u8]>::from(text.as_bytes());
    let (client, peer) = (Login::Secret(secret("of clients")), Login::Peer(secret("of replicas")));
    let options = ListenOptions { login: client.clone(), peers: peer.clone(), ..ListenOptions::default() };
    visits_to(options, PeerRole::Peer, |_, address, term| {
        let address = |login: &Login, replica| PeerAddress { login: login.clone(), ..address(replica) };
        let refusals = [
            address(&client, ReplicaId(2)).channel().map(|_| ()).expect_err("a channel"),
            address(&client, ReplicaId(2)).memory(term, 0).map(|_| ()).expect_err("the memory"),
            address(&client, ReplicaId(1)).channel_for(Purpose::Operate).map(|_| ()).expect_err("orders"),
        ];
        for refused in refusals {
            assert!(refused.to_string().contains("peer_secret_file"), "{refused}");
        }
        address(&peer, ReplicaId(2)).channel().expect("a replica's channel");
        address(&peer, ReplicaId(2)).memory(term, 0).expect("its memory");
        address(&peer, ReplicaId(1)).channel_for(Purpose::Operate).expect("an operator's");
    });
}

/// A machine was copied, and both are started: they have one name, one disk, and stand for the same terms.
#[test]
fn of_two_processes_with_one_name_one_has_the_term() {
    visits(|house, address, term| {
        let replica = term.leader();
        assert!(house.inbound.is_owner(term, replica, 5));
        assert!(!house.inbound.is_owner(term, replica, 6), "the other one");
        let of = |life| PeerAddress { own: (TIMES, life), ..address(replica) };
        of(5).memory(term, 0).expect("its term is open");
        let refused = of(6).memory(term, 0).map(|_| ()).expect_err("refused").to_string();
        assert!(refused.contains("two processes say that they are replica 2"), "{refused}");
        let next = term.next_of(replica).expect("a term");
        assert!(house.inbound.is_owner(next, replica, 6), "it was started anew, and stood again");
        assert!(
            house.inbound.is_owner(term, replica, 5),
            "of an older term the machine says what is to be said"
        );
    });
}

#[test]
fn talks_that_the_replica_has_taken_over_count() {
    visits(|house, address, _| {
        let (mut channels, mut taken) = (Vec::new(), Vec::new());
        let until = now() + Nanos(SOON.as_nanos() as u64);
        for _ in 0..CHANNELS_MAX {
            channels.push(address(ReplicaId(2)).channel().expect("there is room"));
            // The visitor may know that it is connected before the replica has the connection.
            while taken.len() < channels.len() && now() < until {
                taken.extend(house.inbound.new_requests(taken.len()));
            }
        }
        assert_eq!(taken.len(), CHANNELS_MAX);
        assert!(address(ReplicaId(2)).channel().is_err(), "no room for one more");
        house.inbound.new_requests(0);
        address(ReplicaId(2)).channel().expect("there is room again");
    });
}

/// The fence between the devices of LONGARM_VERBS_DEVICES, with the leader on the first one.
#[test]
#[ignore = "wants RDMA devices: cargo x rdma"]
fn nothing_of_an_older_term_lands_after_the_fence_over_rdma() {
    use longarm_fabric::verbs::{Verbs, survey};
    let text = std::env::var("LONGARM_VERBS_DEVICES").expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE");
    let (near, device) = text.split_once(',').expect("LONGARM_VERBS_DEVICES=DEVICE,DEVICE");
    let survey = survey().expect("devices").into_iter().find(|survey| survey.device == device);
    let ports = survey.expect("the second device").ports;
    let ip = ports.iter().flat_map(|(_, gids)| gids).find_map(|gid| gid.ipv4()).expect("an IPv4 GID");
    let leader = Verbs::new().with_device(near.parse().expect("a device"));
    fenced(Verbs::new(), leader, &Address::Verbs(format!("{ip}:0")), 40);
}
