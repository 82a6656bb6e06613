//! A worker that is in the middle of its turn when a follower is let go, and one that has nothing to send.

use std::time::Duration;

use longarm_base::ReplicaId;
use longarm_fabric::{Broken, Granted, SetupError};
use longarm_host::Pause;

use super::*;
use crate::follower::Follower;

const FOLLOWER: ReplicaId = ReplicaId(2);

/// A queue pair that completes what was sent up to a position. Just before that, the thread that attends to
/// the follower lets the follower go, and notes what it leaves with. READs complete when they are polled for.
struct Late {
    follower: Arc<Follower>,
    completes: Option<u64>,
    left: Vec<u64>,
    reads: Vec<Ticket>,
}

impl QueuePair for Late {
    fn post(&mut self, op: Op<'_>, ticket: Ticket) -> Result<(), PostError> {
        assert!(matches!(op, Op::Read { .. }), "nothing is sent to a follower that was let go");
        self.reads.push(ticket);
        Ok(())
    }
    fn ring(&mut self) {}
    fn poll(&mut self, done: &mut Completions) -> usize {
        let Some(until) = self.completes.take() else {
            let read = self.reads.drain(..).map(|ticket| Completion::Done(ticket, Ok(0)));
            return read.map(|completion| done.push(completion)).count();
        };
        self.left = self.follower.leave();
        done.push(Completion::Done(Ticket(until), Ok(0)));
        1
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
        Ok(())
    }
    fn describe(&self) -> String {
        "late".into()
    }
}

fn outgoing(follower: &Arc<Follower>, attachment: Attachment, completes: Option<u64>) -> Outgoing<Late> {
    let qp = Late { follower: follower.clone(), completes, left: Vec::new(), reads: Vec::new() };
    Outgoing { qp, attachment, sender: Sender::new(0, 1, 64), synced: false, told: 0, behind: None }
}

/// Were it counted, the follower would have been counted for more than it left with. What was freed while it
/// was away would then be a gap in its report, and hide a write that was answered.
#[test]
fn what_a_follower_acknowledges_while_it_is_let_go_is_not_counted() {
    let follower = Arc::new(Follower::new(FOLLOWER, 1, Arc::<Pause>::default()));
    follower.set_synced();
    let attachment = Attachment::new(&follower, 0);
    attachment.set_start(0);
    attachment.ack(3);
    let group = Group::new(ReplicaId(1), &[1, 2, 3].map(ReplicaId)).expect("a group");
    let mut gate = Gate::new(group);
    let mut outgoing = outgoing(&follower, attachment, Some(5));
    let (mut done, mut moved) = (Completions::new(POLL), false);
    assert!(outgoing.poll(&mut done, &mut moved), "the connection stands");
    outgoing.tell(&mut gate);
    assert_eq!((&outgoing.qp.left[..], outgoing.attachment.acked()), (&[3][..], 5));
    assert!(gate.acked(FOLLOWER) <= outgoing.qp.left[0], "{} were counted", gate.acked(FOLLOWER));
}

/// A WRITE may land after it has completed, and a stream that sends nothing more never learns of it: a
/// segment that the follower is to let go of would never be released.
#[test]
fn a_stream_finds_out_what_has_landed_when_the_leader_waits_for_that() {
    let follower = Arc::new(Follower::new(FOLLOWER, 1, Arc::<Pause>::default()));
    let attachment = Attachment::new(&follower, 0);
    attachment.set_start(0);
    attachment.ack(3);
    let mut outgoing = outgoing(&follower, attachment, None);
    let (mut done, mut moved) = (Completions::new(POLL), false);
    assert!(outgoing.read_behind(&mut moved) && outgoing.qp.reads.is_empty(), "nobody waits for that");
    assert!(follower.want_landed());
    for _ in 0..2 {
        assert!(outgoing.read_behind(&mut moved) && moved);
        assert_eq!(outgoing.qp.reads, [Ticket(LANDED)], "one READ is enough");
    }
    outgoing.attachment.ack(4);
    assert!(outgoing.poll(&mut done, &mut moved), "the connection stands");
    assert_eq!(follower.progress().streams[0].landed, 3, "the READ was behind these");
    assert!(follower.want_landed() && outgoing.read_behind(&mut moved));
    outgoing.poll(&mut done, &mut moved);
    assert_eq!(follower.progress().streams[0].landed, 4);
    assert!(!follower.want_landed());
}
