//! The options of a client: how it connects and how long it tries.

use std::time::Duration;

use longarm_fabric::Login;

use crate::side::Side;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name that the server's `stats` shows.
    pub name: String,
    /// Bound on one operation, retries and reconnects included.
    pub timeout: Duration,
    /// Bound on connecting.
    pub connect_timeout: Duration,
    /// Proof of identity.
    pub login: Login,
    /// Bytes of the ring for the server's answers.
    pub ring_bytes: u64,
    /// The number of remembered places, so that a repeat GET is one READ. `None` chooses: none on shared
    /// memory, 65,536 elsewhere.
    pub cache: Option<usize>,
    /// How long to poll before sleeping for an answer.
    pub spin: Duration,
    /// One GET in so many is reported to the server, for eviction; 0 for none.
    pub hint_every: u32,
    /// Who makes the pages of scans: the replica that is asked, or the client, by READs of the replica's
    /// memory. `None`: the one that was sooner done of late. While the range is written, the replica makes
    /// them anyway.
    pub scan_side: Option<Side>,
    /// Who looks up the key of a GET: the client, by READs, which cost the server's CPU nothing; or the
    /// server, by a request. `None`: the one that was sooner done of late. Batches (`multi_get`) are READ in
    /// any case.
    pub get_side: Option<Side>,
    /// The group to ask for, on a node with several; zero takes the node's only group.
    pub group: u64,
    /// Whether to connect to the leader, if a replica answers that does not lead.
    pub follow: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            name: String::new(),
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            login: Login::None,
            ring_bytes: 256 << 10,
            cache: None,
            spin: Duration::from_micros(50),
            hint_every: 64,
            scan_side: None,
            get_side: Some(Side::Client),
            group: 0,
            follow: true,
        }
    }
}
