//! The arguments of `longarm bench`.

use std::path::PathBuf;

use longarm_bench::Style;
use longarm_client::side::Side;

use crate::config::flags::ServerSettings;
use crate::flags::{duration, size, up_to_256};

const MORE: &str = "\
Workloads: a to f are YCSB's; get, put, or reads:writes such as 95:5 choose keys uniformly; scan shows items \
in the order of keys, from a key that is chosen uniformly (e and scan need a group, whose servers get \
--ordered true if the run starts them); raw is the machine's own limit on the same kind of memory, and with \
a verbs address or --verbs-device that of its RDMA devices.

Without --address it starts a server of its own for each of --transports and ends it afterwards. One of \
--value-bytes, --clients, --depth, --limit and --rate may have several values, separated by commas: a \
sweep.";

/// How a server of our own is reached.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Shared memory
    Shm,
    /// TCP on the loopback
    Tcp,
    /// RDMA: at an address of --peer-device, else of --verbs-device, else of the first device that is ready
    Verbs,
}

impl Transport {
    /// The name of the transport in labels.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Tcp => "tcp",
            Transport::Verbs => "verbs",
        }
    }
}

/// Who does the work of scans and GETs.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SideArg {
    /// The server
    Server,
    /// The client
    Client,
    /// Whichever was sooner done of late
    Auto,
}

impl SideArg {
    /// The side, if it is fixed.
    pub fn fixed(self) -> Option<Side> {
        match self {
            SideArg::Server => Some(Side::Server),
            SideArg::Client => Some(Side::Client),
            SideArg::Auto => None,
        }
    }
}

/// The arguments of `longarm bench`.
#[derive(clap::Args, Debug)]
#[command(after_help = MORE)]
pub struct Args {
    /// What to run: a, b, c, d, e, f, get, put, scan, reads:writes, or raw
    #[arg(default_value = "c")]
    pub workload: String,

    /// Items loaded before the run; for raw: items of the tables whose size the mapping has
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub keys: Vec<u64>,

    /// Form of the keys: hex16 (16 bytes), ycsb, ycsb-ordered
    #[arg(long, value_name = "FORM", default_value = "hex16")]
    pub key_form: String,

    /// Bytes of a value
    #[arg(long, value_name = "SIZE", default_value = "32", value_delimiter = ',', value_parser = size)]
    pub value_bytes: Vec<u64>,

    /// Which keys are asked for, if not as the workload defines: uniform, zipfian, latest
    #[arg(long, value_name = "DISTRIBUTION")]
    pub distribution: Option<String>,

    /// Clients, each a thread with a connection of its own
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    pub clients: Vec<usize>,

    /// Connections that all clients share, whose operations go together; by default each client has its own.
    /// Not for scans, --depth and --compare
    #[arg(
        long,
        value_name = "N",
        value_parser = up_to_256(),
        conflicts_with_all = ["compare", "idle_clients"]
    )]
    pub connections: Option<u16>,

    /// Clients that are connected meanwhile and ask for nothing; the report says what they cost
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub idle_clients: usize,

    /// Operations under way at once on each connection
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    pub depth: Vec<usize>,

    /// Items that a scan asks for; of workload e the most, each number being as likely as any other [default:
    /// 100]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub limit: Vec<u32>,

    /// Scans show keys without values
    #[arg(long)]
    pub keys_only: bool,

    /// Places that each client remembers, so that a repeat GET is one READ; by default none on shm, 65,536
    /// elsewhere
    #[arg(long, value_name = "N")]
    pub cache: Option<usize>,

    /// Who does the work of scans and GETs: the server, asked by requests; the client, by READs; or auto,
    /// whichever was sooner done of late. By default auto for scans, the client for GETs
    #[arg(long, value_name = "SIDE")]
    pub side: Option<SideArg>,

    /// Open loop: operations a second over all clients; latency counts from the intended start
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub rate: Vec<f64>,

    /// Intervals of the open loop are exponential, not equal
    #[arg(long, requires = "rate")]
    pub poisson: bool,

    /// Seconds that each run is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub seconds: f64,

    /// How long each run warms up before that
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub warm_up: std::time::Duration,

    /// Runs of each target, interleaved with those of the others
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub runs: u32,

    /// Seed of keys, values and order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Compare one value in so many byte for byte; the length of every value is checked
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub verify_every: u32,

    /// Measure a store that holds items already; they and the benchmark's stay
    #[arg(long)]
    pub into_nonempty: bool,

    /// Transports of the servers that the run starts
    #[arg(long, value_name = "NAME", default_value = "shm", value_delimiter = ',')]
    pub transports: Vec<Transport>,

    /// Servers that the run starts are groups of so many replicas, over shm and tcp [default: 1; for scans 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub replicas: Option<u8>,

    /// Run the same against these: redis, memcached, redis-fsync (its log is on disk, under --data, before it
    /// answers a write), redis-group (a primary and two replicas, WAIT 1 after each PUT or batch),
    /// etcd-group (three, data in memory) and etcd-fsync (three, data under --data), which are started
    /// here; redis://host:port, with ?wait=N for WAIT N, memcached://host:port, etcd://host:port; the address
    /// of another Longarm; or floor, a map in the client's own process. Scans of Redis are ZRANGE BYLEX of a
    /// sorted set that has all keys, then MGET
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    pub compare: Vec<String>,

    /// RDMA device that answers the raw requests of verbs, and has the server of `--transports verbs`; by
    /// default the one that asks, over its loopback
    #[arg(long, value_name = "DEVICE")]
    pub peer_device: Option<String>,

    /// Measure the limit too: of the machine, on a mapping of the table's size, or of its RDMA devices, with
    /// requests of the same sizes between the runs
    #[arg(long)]
    pub with_raw: bool,

    /// Draw the results into this SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,

    /// Write the latency distributions into this directory (HdrHistogram's text form)
    #[arg(long, value_name = "DIR")]
    pub hgrm: Option<PathBuf>,

    /// Print Markdown tables
    #[arg(long)]
    pub markdown: bool,

    /// Settings of the servers that the run starts
    #[command(flatten)]
    pub settings: ServerSettings,
}

impl Args {
    /// The form of the tables.
    pub fn style(&self) -> Style {
        if self.markdown { Style::Markdown } else { Style::Plain }
    }
}
