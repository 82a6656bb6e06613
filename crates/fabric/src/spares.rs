//! Threads for short jobs: one that is done takes the next job, and ends if there is none for a while. A
//! thread of its own for each job would cost a client's way in as much as its handshake.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

type Job = Box<dyn FnOnce() + Send>;

/// For how long a thread rests before it ends.
const REST: Duration = Duration::from_millis(500);

#[derive(Default)]
struct State {
    /// Jobs that resting threads are about to take: never more than rest.
    jobs: VecDeque<Job>,
    resting: usize,
    closed: bool,
}

/// Threads of one name, as many as there are jobs at a time.
pub(crate) struct Spares {
    name: &'static str,
    state: Mutex<State>,
    changed: Condvar,
}

impl Spares {
    /// None yet.
    pub fn new(name: &'static str) -> Arc<Spares> {
        Arc::new(Spares { name, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Has `job` done at once, by a thread that rests or by a new one, if the system gives one.
    pub fn start(self: &Arc<Spares>, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let job: Job = Box::new(job);
        let mut state = self.lock();
        if state.resting > state.jobs.len() {
            state.jobs.push_back(job);
            self.changed.notify_one();
            return Ok(());
        }
        drop(state);
        let spares = Arc::clone(self);
        thread::Builder::new().name(self.name.into()).spawn(move || spares.work(job)).map(|_| ())
    }

    /// Threads end once they have nothing to do.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn work(&self, first: Job) {
        let mut next = Some(first);
        while let Some(job) = next {
            job();
            next = self.rest();
        }
    }

    /// The next job, if one comes soon.
    fn rest(&self) -> Option<Job> {
        let until = Instant::now() + REST;
        let mut state = self.lock();
        state.resting += 1;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // A job that came with the end of the rest has nobody else.
            let job = state.jobs.pop_front();
            if job.is_some() || left.is_zero() || state.closed {
                state.resting -= 1;
                return job;
            }
            let waited = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::ThreadId;

    use super::*;

    const BOUND: Duration = Duration::from_secs(10);

    fn until_resting(spares: &Spares, count: usize) {
        let begun = Instant::now();
        while spares.lock().resting != count {
            assert!(begun.elapsed() < BOUND, "{} rest, not {count}", spares.lock().resting);
            longarm_host::sleep(Duration::from_millis(1));
        }
    }

    fn tell(spares: &Arc<Spares>, to: &Sender<ThreadId>) {
        let to = to.clone();
        spares.start(move || to.send(thread::current().id()).expect("heard")).expect("a thread");
    }

    #[test]
    fn a_thread_that_rests_takes_the_next_job_and_ends_when_there_is_none() {
        let (spares, (told, hears)) = (Spares::new("spare"), channel());
        let mut threads = HashSet::new();
        for _ in 0..20 {
            tell(&spares, &told);
            threads.insert(hears.recv_timeout(BOUND).expect("done"));
            until_resting(&spares, 1);
        }
        // On a machine that stands still for so long a thread may have ended meanwhile.
        assert!(threads.len() < 4, "{} threads", threads.len());
        until_resting(&spares, 0);
        tell(&spares, &told);
        assert!(threads.insert(hears.recv_timeout(BOUND).expect("done")), "a new thread");
    }

    #[test]
    fn jobs_at_a_time_have_a_thread_each_and_none_waits_for_another() {
        let (spares, (told, hears)) = (Spares::new("spare"), channel());
        for round in 0..50 {
            let (opens, opened) = channel::<()>();
            let opened = Arc::new(Mutex::new(opened));
            for _ in 0..8 {
                let (told, opened) = (told.clone(), Arc::clone(&opened));
                let job = move || {
                    told.send(thread::current().id()).expect("heard");
                    let _ = opened.lock().map(|opened| opened.recv());
                };
                spares.start(job).expect("a thread");
            }
            let begun: HashSet<_> = (0..8).map(|_| hears.recv_timeout(BOUND).expect("begun")).collect();
            assert_eq!(begun.len(), 8, "round {round}");
            drop(opens);
        }
        spares.close();
        until_resting(&spares, 0);
    }
}
