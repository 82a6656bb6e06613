//! The lines of a server's log. Each has a text for people, and a kind for programs that look on. Programs go
//! by the kind, so the text may be worded anew.

use std::sync::Arc;

/// The kind of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A line that no program waits for.
    Plain,
    /// This replica has installed the start set of a term.
    StartSet,
    /// This replica leads.
    Leads,
    /// This replica is in sync with its leader.
    InSync,
    /// A follower of this leader is not in sync.
    NotInSync,
    /// Longarm has found a fault of its own, which is to be reported. The server goes on.
    Fault,
}

/// A line of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogLine<'a> {
    /// Its kind.
    pub notice: Notice,
    /// Its text for people, without a line's end.
    pub text: &'a str,
}

/// Where lines go.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&LogLine<'_>) + Send + Sync>);

impl Log {
    /// A log whose lines go to `told`.
    pub fn new(told: impl Fn(&LogLine<'_>) + Send + Sync + 'static) -> Log {
        Log(Arc::new(told))
    }

    /// A log whose lines go nowhere.
    pub fn silent() -> Log {
        Log::new(|_| {})
    }

    /// The same log with `before` in front of each text.
    pub fn after(self, before: String) -> Log {
        Log::new(move |line| self.tell(line.notice, &format!("{before}{}", line.text)))
    }

    /// Logs a line that no program waits for.
    pub fn say(&self, text: &str) {
        self.tell(Notice::Plain, text);
    }

    /// Logs a line of this kind.
    pub fn tell(&self, notice: Notice, text: &str) {
        (self.0)(&LogLine { notice, text });
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_line_keeps_its_kind_whatever_stands_before_it() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let log =
            Log::new(move |line| kept.lock().expect("a list").push((line.notice, line.text.to_string())));
        log.clone().after("group 7: ".into()).tell(Notice::Fault, "it broke");
        log.say("well");
        let expected = [(Notice::Fault, "group 7: it broke".into()), (Notice::Plain, "well".into())];
        assert_eq!(*lines.lock().expect("a list"), expected);
    }
}
