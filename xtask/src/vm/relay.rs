//! The guest's output as it comes. QEMU writes it to a file, and a thread follows the file: a console of QEMU
//! drops what a pipe or socket does not take at once, and a file takes everything.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const POLL: Duration = Duration::from_millis(10);

/// A thread that carries what is appended to a file to one of our outputs.
pub struct Relay {
    /// Nothing is appended any more.
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Relay {
    /// Creates the file.
    pub fn new(path: &Path, to: impl Write + Send + 'static) -> Result<Relay, String> {
        let said = |error: std::io::Error| format!("{}: {error}", path.display());
        File::create(path).map_err(said)?;
        let from = File::open(path).map_err(said)?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        Ok(Relay { over, thread: std::thread::spawn(move || follow(from, to, &seen)) })
    }

    /// Carries the rest; the writer of the file has ended.
    pub fn finish(self) {
        // Release, for the Acquire in `follow`: whoever sees it finds the file whole.
        self.over.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // A panic in it has been printed, and the output ended there.
        let _ = self.thread.join();
    }
}

fn follow(mut from: File, mut to: impl Write, over: &AtomicBool) {
    let mut bytes = [0; 1 << 14];
    loop {
        // Asked before the reading: what was written before the end is still read.
        // Acquire, for the Release in `finish`.
        let last = over.load(Ordering::Acquire);
        while let Ok(len @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..len]).and_then(|()| to.flush()).is_err() {
                // Nobody listens any more; the command still runs to its end.
                return;
            }
        }
        if last {
            return;
        }
        std::thread::park_timeout(POLL);
    }
}

#[test]
fn what_is_appended_arrives_and_nothing_is_left() {
    let path = std::env::temp_dir().join(format!("longarm-vm-relay-{}", std::process::id()));
    let (mut here, there) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    let relay = Relay::new(&path, there).expect("a temporary file");
    let mut file = File::options().append(true).open(&path).expect("the relay made it");
    file.write_all(b"one").expect("room");
    let mut bytes = [0; 3];
    here.read_exact(&mut bytes).expect("it comes while the file grows");
    assert_eq!(&bytes, b"one");
    file.write_all(b"two").expect("room");
    relay.finish();
    let mut rest = String::new();
    here.read_to_string(&mut rest).expect("the relay has closed its end");
    assert_eq!(rest, "two");
    std::fs::remove_file(&path).expect("it is ours");
}
