//! The limit on open files: a server has one or more for each client, a benchmark for each of its clients.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of this process to the hard one, as many servers and language runtimes do: the soft
/// one is kept low for programs that use `select`. Where that is refused, the limit stays as it is.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}
