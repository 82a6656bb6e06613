//! The fence against a connection to the memory that is being accepted while its term ends.

use std::sync::mpsc::{Receiver, Sender, channel};

use longarm_fabric::{PeerInfo, Reason};

use super::*;

/// A queue pair that perhaps cannot be revoked.
struct Stubborn {
    ends: bool,
}

impl QueuePair for Stubborn {
    fn post(&mut self, _: Op<'_>, _: Ticket) -> Result<(), longarm_fabric::PostError> {
        Ok(())
    }
    fn ring(&mut self) {}
    fn poll(&mut self, _: &mut Completions) -> usize {
        0
    }
    fn landing(&self, _: u32, _: u32) -> &[u8] {
        &[]
    }
    fn message(&self, _: u16, _: u32) -> &[u8] {
        &[]
    }
    fn release(&mut self, _: u16) {}
    fn arm(&mut self) -> bool {
        false
    }
    fn ready(&mut self) -> bool {
        false
    }
    fn attend(&mut self, _: &Channel) -> Result<(), SetupError> {
        Ok(())
    }
    fn wait(&mut self, _: Duration) {}
    fn state(&self) -> Result<(), Broken> {
        Ok(())
    }
    fn granted(&self) -> &[Granted] {
        &[]
    }
    fn revoke(&mut self) -> Result<(), SetupError> {
        if self.ends { Ok(()) } else { Err(SetupError::Timeout("a change that is under way".into())) }
    }
    fn describe(&self) -> String {
        "stubborn".into()
    }
}

/// A visitor whose acceptance takes until the test ends it.
struct Slow {
    begun: Sender<()>,
    end: Receiver<()>,
    ends: bool,
}

impl Incoming for Slow {
    type Qp = Stubborn;

    fn hello(&self) -> &[u8] {
        &[]
    }
    fn peer(&self) -> PeerInfo {
        PeerInfo { role: PeerRole::Client, name: "one who is slow".into(), pid: None, uid: None }
    }
    fn accept(self, _: &[u8], _: Vec<Grant>, _: u32, _: &Channel) -> Result<Stubborn, SetupError> {
        self.begun.send(()).expect("the test waits");
        self.end.recv().expect("the test says so");
        Ok(Stubborn { ends: self.ends })
    }
    fn reject(self, reason: Reason) {
        panic!("refused: {reason}");
    }
}

/// The term that is open when a connection begins to be accepted, and its leader's.
const TERM: Term = Term::new(1, ReplicaId(2));
/// The term after that, another leader's.
const NEXT: Term = Term::new(2, ReplicaId(3));

/// Ends all connections while one is being accepted, which can be ended or not. Returns whether `end_all` had
/// returned before the connection was accepted, what it returned, and what it returns when it is called
/// again.
fn meanwhile(
    ends: bool,
    end_all: impl Fn(&Inbound<Stubborn>) -> Result<(), SetupError> + Sync,
) -> (bool, Result<(), SetupError>, Result<(), SetupError>) {
    let memory = ReplicaMemory { arena: region(ARENA_BYTES), page: region(PAGE_BYTES) };
    let inbound = inbound_of::<Stubborn>(memory, PeerRole::Client);
    let term = TERM;
    inbound.fence(term).expect("nobody is there yet");
    let (begun, has_begun) = channel();
    let (end, ended) = channel();
    let hello = PeerHello {
        group: 7,
        replica: term.leader(),
        term,
        purpose: Purpose::Memory,
        ring_bytes: 0,
        times: TIMES,
        life: 1,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| inbound.admit(Slow { begun, end: ended, ends }, &hello));
        has_begun.recv().expect("it is being accepted");
        let fence = scope.spawn(|| end_all(&inbound));
        sleep(Duration::from_millis(200));
        let early = fence.is_finished();
        end.send(()).expect("it waits");
        let said = fence.join().expect("it does not panic");
        let again = end_all(&inbound);
        assert_eq!(inbound.state.lock().memory.is_empty(), again.is_ok());
        (early, said, again)
    })
}

#[test]
fn a_fence_waits_for_who_is_being_let_in() {
    let (early, said, again) = meanwhile(true, |inbound| inbound.fence(NEXT));
    assert!(!early, "it returned while a connection of an older term was being made");
    said.expect("it was ended");
    again.expect("the term is open");
}

#[test]
fn one_that_was_let_in_and_cannot_be_ended_fails_the_fence() {
    let (early, said, again) = meanwhile(false, |inbound| inbound.fence(NEXT));
    assert!(!early, "it returned while a connection of an older term was being made");
    said.expect_err("it could not be ended");
    again.expect_err("nor can it now");
}

/// A leader began anew while it wrote on a connection that was still being accepted: what it wrote there
/// could land over what it pushed next.
#[test]
fn a_leader_that_begins_anew_has_no_writer_that_was_being_let_in() {
    let (early, said, again) = meanwhile(true, Inbound::clear);
    assert!(!early, "it returned while a connection of before was being made");
    said.expect("it was ended");
    again.expect("there is none");
    meanwhile(false, Inbound::clear).1.expect_err("it could not be ended");
}
