//! What a server says of itself: lines for people, and what kind each is of for programs that look on. A
//! program goes by the kind; what people read may be worded anew.

use std::sync::Arc;

/// What a line is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// Anything that no program waits for.
    Plain,
    /// The start set of a term is here.
    StartSet,
    /// This replica leads.
    Leads,
    /// This replica is in sync with its leader.
    InSync,
    /// A follower of this leader is not in sync.
    NotInSync,
    /// Something of Longarm's own is wrong: a fault to be reported, after which the server goes on.
    Fault,
}

/// One line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogLine<'a> {
    /// What it is about.
    pub notice: Notice,
    /// For people, without a line's end.
    pub text: &'a str,
}

/// Where lines go.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&LogLine<'_>) + Send + Sync>);

impl Log {
    /// Lines go to `told`.
    pub fn new(told: impl Fn(&LogLine<'_>) + Send + Sync + 'static) -> Log {
        Log(Arc::new(told))
    }

    /// Lines go nowhere.
    pub fn silent() -> Log {
        Log::new(|_| {})
    }

    /// The same with `before` in front of each text.
    pub fn after(self, before: String) -> Log {
        Log::new(move |line| self.tell(line.notice, &format!("{before}{}", line.text)))
    }

    /// Says what no program waits for.
    pub fn say(&self, text: &str) {
        self.tell(Notice::Plain, text);
    }

    /// Says something of this kind.
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
