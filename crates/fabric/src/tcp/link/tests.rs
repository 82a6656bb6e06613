use std::mem::MaybeUninit;
use std::net::TcpListener;

use rustix::event::Timespec;

use super::*;
use crate::buffer::INPUT;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

fn pair() -> (TcpStream, Arc<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let peer = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    let ours = listener.accept().expect("accept").0;
    ours.set_nonblocking(true).expect("non-blocking");
    (peer, Arc::new(ours))
}

/// One look of a NIC that has this link alone: how many events there were.
fn look(poller: &Poller, link: &TcpLink, raw: &mut Buffer) -> usize {
    let mut room = [MaybeUninit::uninit(); 4];
    let events = poller.wait(&mut room, Some(&NOW));
    for event in events {
        assert_eq!(event.data.u64(), link.token());
        assert_ne!(link.serve(raw, event.flags), NicTurn::Forget);
    }
    events.len()
}

/// A link that stays writable in epoll's eyes while nobody waits for that keeps the NIC's thread awake for as
/// long as the connection lives.
#[test]
fn a_link_whose_user_rang_before_the_nic_took_it_in_lets_the_nic_sleep() {
    let channel = Channel::new().expect("channel");
    let poller = Arc::new(Poller::new().expect("epoll"));
    let (_peer, socket) = pair();
    let link = TcpLink::new(&poller, socket, Codec::Plain, TcpSession::new(Vec::new()), &channel, false);
    let mut raw = Buffer::new(INPUT);
    link.ring();
    link.take_in().expect("epoll");
    assert_eq!(look(&poller, &link, &mut raw), 1, "a new link is looked at once");
    assert_eq!(look(&poller, &link, &mut raw), 0, "and nothing moves then");
}
