//! The transition table: what each event does to a replica in each state. `docs/generated/replica.md` is the
//! table, and the test says when it is no longer true.

use longarm_base::{Nanos, ReplicaId, Term};
use longarm_wire::{Answer, Ask, Extent, Members, Recall, ReplicaReport, SyncState};

use super::{TIMING, member, members};

use crate::page::Beat;
use crate::{Action, Basis, ChangeRequest, ChangeStage, Event, KeptMemory, Machine, PersistentState, Role};

const ME: ReplicaId = ReplicaId(1);
/// A term before the one that is promised, or led.
const OLD: Term = Term::new(4, ReplicaId(0));
/// The term that a follower begins with; the base of later ones.
const BASE: Term = Term::new(5, ReplicaId(0));
const MINE: Term = Term::new(6, ME);
const HIGH: Term = Term::new(9, ReplicaId(2));

/// A machine and the time.
#[derive(Clone)]
struct Life {
    machine: Machine,
    now: Nanos,
}

impl Life {
    fn new(sync: Option<Term>) -> Life {
        let now = Nanos::from_millis(1_000);
        let state = PersistentState { members: three(), promised: BASE, sync, ..Default::default() };
        Life { machine: Machine::new(ME, state, TIMING, 3, now), now }
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        let mut todo = Vec::new();
        self.machine.handle(event, self.now, &mut todo);
        todo
    }

    /// Looks for so long, and is told then.
    fn after(mut self, ms: u64, events: impl IntoIterator<Item = Event>) -> Life {
        for _ in 0..ms {
            self.now = self.now + Nanos::from_millis(1);
            self.machine.handle(Event::Looked(self.machine.watch.beat()), self.now, &mut Vec::new());
        }
        for event in events {
            self.tell(event);
        }
        self
    }
}

fn three() -> Members {
    members(&[0, 1, 2])
}

/// The set that the leader of a term names: that of the term, or the next one.
fn told(term: Term, changed: bool) -> Members {
    Members { term, changed, list: if changed { members(&[0, 1, 2, 3]) } else { three() }.list }
}

fn sync(term: Term, base: Term) -> Ask {
    Ask::Sync { term, base, cuts: vec![8], streams: 1, members: three() }
}

fn asked(ask: Ask) -> Event {
    Event::Asked(ask.term().leader(), ask)
}

fn report(sync: Term) -> ReplicaReport {
    ReplicaReport { sync, reclaimed: 0, unix: 0, disk: None, streams: vec![Extent { floor: 0, len: 8 }] }
}

/// Each state: its name, how it comes about, and the events that it waits for before it handles any other.
fn states() -> Vec<(&'static str, Life, Vec<Event>)> {
    let tick = || Event::Tick(Beat::default());
    let yes = Event::Answered(ReplicaId(0), Answer::PreVote { term: MINE, yes: true });
    let candidate = Term::new(6, ReplicaId(2));
    let follower = || Life::new(Some(BASE));
    let learner = || Life::new(None);
    let promise = || asked(Ask::Promise { term: candidate, members: three() });
    let young = Term::new(6, ReplicaId(0));
    let synced_by = |base| [asked(sync(young, base)), Event::Promised(young)];
    let overwritten = || follower().after(1, synced_by(OLD));
    let owes = || follower().after(1, [promise(), Event::Promised(candidate)]);
    let pre_candidate = || follower().after(16, [tick()]);
    let standing = || pre_candidate().after(0, [yes.clone()]);
    let gathering = || standing().after(0, [Event::Promised(MINE)]);
    let own = || gathering().after(40, [tick(), Event::Surveyed(report(BASE))]);
    let theirs = Event::Answered(ReplicaId(0), Answer::Report { term: MINE, report: report(BASE) });
    let installing = || own().after(0, [theirs.clone()]);
    let forming = || installing().after(0, [Event::Installed(MINE)]);
    let synced = Event::Answered(ReplicaId(0), Answer::Synced { term: MINE });
    let leading = || forming().after(0, [synced.clone()]);
    let disk = |term| vec![Event::Promised(term), Event::Unpromised(term)];
    let drains = || leading().after(1, [Event::HandOver(ReplicaId(0))]);
    vec![
        ("follower", follower(), vec![]),
        ("follower, promises a candidate's term", follower().after(1, [promise()]), disk(candidate)),
        ("follower, owes a report", owes(), vec![]),
        ("follower, surveys for its report", owes().after(60, [tick()]), vec![Event::Surveyed(report(BASE))]),
        ("follower, promises a leader's term", follower().after(1, [asked(sync(young, BASE))]), disk(young)),
        ("follower, ready to be synced", follower().after(1, synced_by(BASE)), vec![]),
        ("follower, being overwritten", overwritten(), vec![]),
        (
            "follower, overwritten in part, asked by a leader of its base",
            overwritten().after(1, [asked(sync(Term::new(7, ReplicaId(0)), BASE))]),
            vec![Event::Promised(Term::new(7, ReplicaId(0)))],
        ),
        ("learner", learner(), vec![]),
        ("learner, promises a leader's term", learner().after(1, [asked(sync(young, BASE))]), disk(young)),
        ("learner, ready to be synced", learner().after(1, synced_by(BASE)), vec![]),
        ("canvassing", pre_candidate(), vec![]),
        ("candidate, promises its own term", standing(), disk(MINE)),
        ("candidate, without its own report", gathering(), vec![]),
        ("candidate, surveys", gathering().after(40, [tick()]), vec![Event::Surveyed(report(BASE))]),
        ("candidate, with its own report", own(), vec![]),
        ("installing", installing(), vec![]),
        ("forming", forming(), vec![]),
        ("leader", leading(), vec![]),
        ("leader, hands over", drains(), vec![]),
        ("leader, hands over and has released", drains().after(1, [Event::Drained(MINE)]), vec![]),
        (
            "leader, promises a candidate's term",
            leading().after(1, [asked(Ask::Promise { term: HIGH, members: three() })]),
            disk(HIGH),
        ),
    ]
}

/// All states, including those of changes.
fn all_states() -> Vec<(&'static str, Life, Vec<Event>)> {
    let all = states();
    let leads = |(name, ..): &&(&str, Life, Vec<Event>)| *name == "leader";
    let leader = all.iter().find(leads).expect("one of them").1.clone();
    all.into_iter().chain(recalls()).chain(changes(leader)).collect()
}

/// The states of a replica that lost its memory, in a group that elects from disks then.
fn recalls() -> Vec<(&'static str, Life, Vec<Event>)> {
    let learner = || {
        let Life { machine, now } = Life::new(None);
        Life { machine: machine.with_recall(true), now }
    };
    let tick = || Event::Tick(Beat::default());
    let candidate = Term::new(6, ReplicaId(2));
    let owes = || learner().after(1, [asked(recall(candidate, Recall::Promise)), Event::Promised(candidate)]);
    let canvasses = || learner().after(80, [tick()]);
    let yes = |replica| Event::Answered(ReplicaId(replica), Answer::PreVote { term: MINE, yes: true });
    let stands = || canvasses().after(0, [yes(0), yes(2)]);
    let gathers = || stands().after(0, [Event::Promised(MINE)]);
    vec![
        ("learner, with a disk", learner(), vec![]),
        ("learner, owes a report of its disk", owes(), vec![]),
        ("canvassing, from disks", canvasses(), vec![]),
        ("candidate from disks, without its own report", gathers(), vec![]),
    ]
}

fn recall(term: Term, recall: Recall) -> Ask {
    Ask::Recall { term, members: three(), recall }
}

/// The states of a change of replicas.
fn changes(leading: Life) -> Vec<(&'static str, Life, Vec<Event>)> {
    let young = Term::new(6, ReplicaId(0));
    let keep = asked(Ask::Members { members: told(young, true) });
    let told_to_keep = [asked(sync(young, BASE)), Event::Promised(young), keep];
    let kept = |members: Members| vec![Event::Kept(members), Event::Unkept];
    let joining = || leading.clone().after(1, [Event::ChangeMembers(ChangeRequest::Add(member(3)))]);
    let confirms = || joining().after(0, [Event::Answered(ReplicaId(3), Answer::Synced { term: MINE })]);
    let own_kept = || confirms().after(0, [Event::Kept(told(MINE, false))]);
    let agreed = |changed| Event::Answered(ReplicaId(0), Answer::Kept { term: MINE, changed });
    let proposes = || own_kept().after(0, [agreed(false)]);
    let next_kept = || proposes().after(0, [Event::Kept(told(MINE, true)), agreed(true)]);
    let last =
        || next_kept().after(0, [Event::Answered(ReplicaId(3), Answer::Kept { term: MINE, changed: true })]);
    vec![
        ("follower, keeps replicas", Life::new(Some(BASE)).after(1, told_to_keep), kept(told(young, true))),
        ("leader, syncs one more", joining(), vec![]),
        ("leader, keeps its replicas", confirms(), kept(told(MINE, false))),
        ("leader, waits for its replicas to be kept", own_kept(), vec![]),
        ("leader, keeps the next replicas", proposes(), kept(told(MINE, true))),
        ("leader, waits for the next replicas to be kept", next_kept(), vec![]),
        ("leader, ends its term for the next replicas", last(), vec![]),
    ]
}

/// Time that passes, and what is only noted.
fn noted(beat: Beat) -> Vec<(String, u64, Event)> {
    vec![
        ("heartbeat".to_string(), 1, Event::Tick(beat)),
        ("silence".into(), 16, Event::Tick(Beat::default())),
        ("long silence".into(), 10_000, Event::Tick(Beat::default())),
        ("heartbeat after the fence".into(), 1, Event::Looked(beat)),
        ("its heartbeat".into(), 1, Event::Beat(Nanos(1))),
        ("pushed".into(), 1, Event::Pushed(Nanos(1))),
    ]
}

/// What may come in any state that waits for nothing, with how long after the state came about.
fn events(promised: Term) -> Vec<(String, u64, Event)> {
    let mut all = noted(Beat::new(promised, 1));
    let mut add = |name: String, event| all.push((name, 1, event));
    let whose =
        [("older", OLD, ReplicaId(0)), ("higher", HIGH, ReplicaId(2)), ("not its own", HIGH, ReplicaId(0))];
    let promised_too = (promised.leader() != ME).then_some(("promised", promised, promised.leader()));
    for (which, term, from) in whose.into_iter().chain(promised_too) {
        for (what, ask) in [
            ("pre-vote", Ask::PreVote { term, members: three() }),
            ("promise", Ask::Promise { term, members: three() }),
            ("fetch", Ask::Fetch { term, stream: 0, from: 0 }),
            ("sync", sync(term, BASE)),
            ("sync of another base", sync(term, OLD)),
            ("adopt", Ask::Adopt { term, reclaimed: 0, floors: Vec::new() }),
            ("stand", Ask::Stand { term }),
            ("pre-vote from disks", recall(term, Recall::PreVote)),
            ("promise from disks", recall(term, Recall::Promise)),
            ("stand from disks", recall(term, Recall::Stand { lossy: false })),
            ("serves", Ask::Serves { term, since: Nanos(0) }),
            ("installs", Ask::Installs { term }),
            ("its replicas", Ask::Members { members: told(term, false) }),
            ("the next replicas", Ask::Members { members: told(term, true) }),
        ] {
            add(format!("{what} ({which})"), Event::Asked(from, ask));
        }
    }
    for (what, answer) in [
        ("yes", Answer::PreVote { term: MINE, yes: true }),
        ("yes (older)", Answer::PreVote { term: OLD, yes: true }),
        ("no", Answer::PreVote { term: MINE, yes: false }),
        ("report", Answer::Report { term: promised, report: report(BASE) }),
        ("report of a higher sync term", Answer::Report { term: promised, report: report(HIGH) }),
        ("report (older)", Answer::Report { term: OLD, report: report(BASE) }),
        ("places", Answer::Places { entries: vec![] }),
        ("ready", Answer::Ready { term: promised, held: SyncState::Nothing }),
        ("synced", Answer::Synced { term: promised }),
        ("synced (older)", Answer::Synced { term: OLD }),
        ("its replicas kept", Answer::Kept { term: promised, changed: false }),
        ("the next replicas kept", Answer::Kept { term: promised, changed: true }),
        ("newer replicas", Answer::Members { members: told(HIGH, true) }),
        ("refused", Answer::Refused { term: promised, promised: OLD }),
        ("refused for a higher promise", Answer::Refused { term: promised, promised: HIGH }),
    ] {
        add(format!("-> {what}"), Event::Answered(ReplicaId(2), answer));
    }
    for (which, term) in [("", promised), (" (older)", OLD)] {
        add(format!("installed{which}"), Event::Installed(term));
        add(format!("not installed{which}"), Event::NotInstalled(term));
        add(format!("released{which}"), Event::Released(term));
    }
    add("lost".into(), Event::Lost(ReplicaId(0)));
    add("recall (request)".into(), Event::Recall);
    [0, 2].into_iter().for_each(|replica| add(format!("{replica} is gone"), Event::Gone(ReplicaId(replica))));
    (0..4).for_each(|to| add(format!("to {to} (hand over)"), Event::HandOver(ReplicaId(to))));
    let ends = [("drained", Event::Drained as fn(Term) -> Event), ("release done", Event::ReleaseDone)];
    for (what, event) in ends {
        add(what.into(), event(promised));
        add(format!("{what} (older)"), event(OLD));
    }
    for (who, request) in [
        ("0 less", ChangeRequest::Remove(ReplicaId(0))),
        ("1 less", ChangeRequest::Remove(ME)),
        ("3 less", ChangeRequest::Remove(ReplicaId(3))),
        ("0 more", ChangeRequest::Add(member(0))),
        ("3 more", ChangeRequest::Add(member(3))),
    ] {
        add(format!("{who} (request)"), Event::ChangeMembers(request));
    }
    all
}

fn role(machine: &Machine) -> String {
    let kind = machine.kind();
    match machine.role() {
        Role::Following { owes: true, .. } => format!("{kind}, owes"),
        Role::PreCandidate { yes, .. } => format!("{kind} {yes:?}"),
        Role::Gathering { own, reports, .. } => {
            let own = own.iter().map(|_| ME.0);
            let all: Vec<u8> = own.chain(reports.iter().map(|(replica, _)| replica.0)).collect();
            format!("{kind} {all:?}")
        }
        Role::Leading { synced, transfer: Some(transfer) } => {
            let how = if transfer.released { "has released" } else { "drains for" };
            format!("{kind} {synced:?}, {how} {}", transfer.to)
        }
        Role::Forming { synced, .. } | Role::Leading { synced, .. } => format!("{kind} {synced:?}"),
        Role::Following { .. } | Role::Installing { .. } => kind.to_string(),
    }
}

/// The state after the event, as far as it differs.
fn becomes(before: &Machine, after: &Machine, now: Nanos) -> String {
    let mut words = Vec::new();
    if role(before) != role(after) {
        words.push(role(after));
    }
    if before.promised != after.promised {
        words.push(format!("promised {}", after.promised));
    }
    let terms = [("sync", before.sync, after.sync), ("ready", before.ready, after.ready)];
    for (name, was, is) in terms {
        if was != is {
            words.push(format!("{name} {}", is.map_or("none".into(), |term| term.to_string())));
        }
    }
    if before.mixed != after.mixed {
        words.push(if after.mixed { "mixed" } else { "not mixed" }.into());
    }
    if before.members != after.members {
        words.push(format!("knows {}", list(&after.members)));
    }
    match (&before.change, &after.change) {
        (None, Some(change)) => words.push(format!("wants {}", list(&change.next))),
        (Some(_), None) => words.push("wants no other replicas".into()),
        _ => {}
    }
    let stage = |machine: &Machine| machine.change.as_ref().map(|change| change.stage);
    if let Some(is) = stage(after).filter(|is| stage(before) != Some(*is)) {
        words.push(match is {
            ChangeStage::Joining => "joining".into(),
            ChangeStage::Confirming(by) => format!("its own kept by {by:?}"),
            ChangeStage::Proposing(by) => format!("the next kept by {by:?}"),
            ChangeStage::Agreed(_) => "agreed".into(),
        });
    }
    if before.heard != after.heard && after.heard != after.promised {
        words.push(format!("heard {}", after.heard));
    }
    let free = |machine: &Machine| machine.watch.is_free(&TIMING, now);
    let suspects = |machine: &Machine| machine.watch.suspects(&TIMING, now);
    if !suspects(before) && suspects(after) {
        words.push("suspects its leader".into());
    }
    let promises = |machine: &Machine| machine.watch.free_at(&TIMING);
    match (promises(before) != promises(after), free(after)) {
        (true, true) => words.push("free".into()),
        (true, false) => words.push("promises anew".into()),
        (false, _) => {}
    }
    if let Role::Following { backoff_until, .. } = after.role
        && before.role != after.role
        && backoff_until > now
    {
        words.push("backs off".into());
    }
    words.join("; ")
}

fn list(members: &Members) -> String {
    let replicas: Vec<String> = members.list.iter().map(|member| member.replica.to_string()).collect();
    let when = if members.changed { "after" } else { "in" };
    format!("[{}] {when} {}", replicas.join(", "), members.term)
}

fn does(action: &Action) -> String {
    match action {
        Action::Promise(term) => format!("promise {term}"),
        Action::Survey(Basis::Memory) => "survey".into(),
        Action::Survey(Basis::Disks { .. }) => "survey the disk".into(),
        Action::Ask(to, Ask::PreVote { term, .. }) => format!("ask {to} for a pre-vote for {term}"),
        Action::Ask(to, Ask::Promise { term, .. }) => format!("ask {to} to promise {term}"),
        Action::Ask(to, Ask::Recall { term, recall, .. }) => {
            format!("ask {to} for {term}, from disks: {recall:?}").to_lowercase()
        }
        Action::Ask(to, Ask::Members { members }) => format!("ask {to} to keep {}", list(members)),
        Action::Ask(to, ask) => format!("ask {to}: {ask:?}"),
        Action::Answer(_, Answer::PreVote { yes, .. }) => if *yes { "yes" } else { "no" }.into(),
        Action::Answer(_, Answer::Report { report, .. }) => format!("report: {}", report.sync),
        Action::Answer(_, Answer::Refused { .. }) => "refuse".into(),
        Action::Answer(_, Answer::Synced { .. }) => "say synced".into(),
        Action::Answer(_, Answer::Kept { .. }) => "say kept".into(),
        Action::Answer(_, Answer::Members { members }) => format!("say {}", list(members)),
        Action::Answer(to, answer) => format!("answer {to}: {answer:?}"),
        Action::Prepare(prepare) => match prepare.kept {
            KeptMemory::Term => "prepare: the term is here",
            KeptMemory::Base => "prepare: the base is here",
            KeptMemory::Other => "prepare to be overwritten",
            KeptMemory::Nothing => "prepare: nothing is here",
        }
        .into(),
        Action::Adopt { term, .. } => format!("adopt {term}"),
        Action::CaughtUp(term) => format!("caught up in {term}"),
        Action::Install(start) => format!("install {} from {}", start.term, start.base),
        Action::Form(term) => format!("form {term}"),
        Action::Serve(term) => format!("serve {term}"),
        Action::Drain(term, to) => format!("drain {term} for {to}"),
        Action::Decline(why) => format!("decline: {why:?}").to_lowercase(),
        Action::Resume(why) => format!("resume: {why:?}").to_lowercase(),
        Action::Release(term, to) => format!("release {term} for {to}"),
        Action::Keep(members) => format!("keep {}", list(members)),
        Action::Enlist(member) => format!("enlist {}", member.replica),
        Action::Dismiss(replica) => format!("dismiss {replica}"),
        Action::Deny(why) => format!("deny: {why:?}").to_lowercase(),
        Action::Agreed(members) => format!("agreed: {}", list(members)),
        Action::StepDown(term) => format!("step down from {term}"),
    }
}

/// What each event does to one state; events with the same effect are in one row.
fn rows(life: &Life, awaited: Vec<Event>) -> Vec<(Vec<String>, String, String)> {
    let named =
        |event: Event| (format!("{event:?}").split('(').next().unwrap_or("").to_lowercase(), 0, event);
    let events: Vec<_> = match awaited.is_empty() {
        true => events(life.machine.promised()),
        false => awaited.into_iter().map(named).collect(),
    };
    let mut rows: Vec<(Vec<String>, String, String)> = Vec::new();
    for (name, ms, event) in events {
        let before = life.clone().after(ms, []);
        let mut after = before.clone();
        let todo: Vec<String> = after.tell(event).iter().map(does).collect();
        let (state, todo) = (becomes(&before.machine, &after.machine, after.now), todo.join("; "));
        match rows.iter_mut().find(|(_, other, does)| (other, does) == (&state, &todo)) {
            Some((names, ..)) => names.push(name),
            None => rows.push((vec![name], state, todo)),
        }
    }
    rows
}

/// Joins the names; those with the same remark in brackets are together, with the remark once.
fn joined(names: &[String]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for name in names {
        let (name, remark) = name.split_once(" (").unwrap_or((name, ""));
        match groups.iter_mut().find(|(known, _)| *known == remark) {
            Some((_, names)) => names.push(name),
            None => groups.push((remark, vec![name])),
        }
    }
    let group = |(remark, names): (&str, Vec<&str>)| match remark {
        "" => names.join(", "),
        _ => format!("{} ({remark}", names.join(", ")),
    };
    groups.into_iter().map(group).collect::<Vec<_>>().join("; ")
}

fn document() -> String {
    let source = include_str!("../mod.rs");
    let drawing = source.split("//! ```").nth(1).expect("a drawing");
    let drawing = drawing.lines().skip(1).map(|line| line.trim_start_matches("//!").replacen(' ', "", 1));
    let drawing: String = drawing.filter(|line| !line.is_empty()).map(|line| line + "\n").collect();
    let mut text = format!("{HEAD}\n```text\n{drawing}```\n\n{LEGEND}");
    for (name, life, awaited) in all_states() {
        let machine = &life.machine;
        let sync = machine.sync().map_or("nothing".into(), |sync| sync.to_string());
        text += &format!("\n## {name}\n\nPromised {}, holds {sync}.\n\n", machine.promised());
        text += "| event | becomes | does |\n|---|---|---|\n";
        let (quiet, rows): (Vec<_>, Vec<_>) = rows(&life, awaited)
            .into_iter()
            .partition(|(_, state, todo)| state.is_empty() && todo.is_empty());
        for (names, state, todo) in rows {
            text += &format!("| {} | {state} | {todo} |\n", joined(&names));
        }
        for (names, ..) in quiet {
            text += &format!("\nNothing: {}.\n", joined(&names));
        }
    }
    text
}

const HEAD: &str = "\
# What a replica does

A state machine without I/O decides who leads a group: `crates/replica/src/machine/mod.rs`. This page is all
of it: what each event does to a replica in each state. `crates/replica/src/machine/tests/table.rs` writes and
compares it. To accept an intended change, run `ACCEPT=1 cargo test -p longarm-replica the_table`.
";

const LEGEND: &str = "\
Replica 1 of 0, 1 and 2 is meant. A term is `counter.replica`.

- *Heartbeat*, *silence* and *long silence* are ticks: with a new heartbeat on the page; after so long without
  one that the replica suspects its leader; when all times are over.
- In brackets is the term that a question names: an older term (4.0); the promised term, of its leader; a
  higher term of its leader (9.2); a term that is not the asker's own (9.2, asked by replica 0).
- `->` is an answer, of replica 2.
- *Holds* is the sync term. *Mixed*: the memory may hold part of that start set and part of others.
- *Promises anew*: the replica heard of a leader, and gives no report for the time of a promise.
- *Rests*: the replica does not stand for some time.
- *Heard*: its own next term will be higher.
- *To 0 (hand over)*: an operator wants replica 0 to lead; *drained* and *parted* are the ends of its two
  steps.
- *0 is gone*: the process of replica 0 is gone.
- *3 more (wish)*: an operator wants replica 3 to be one more replica; *0 less*: replica 0 is to be none.
- Replicas are listed as of a term: *in* it, or as its leader wants them *after* it.
- An empty field: as before.

In a state that waits for its disk or for a survey, no other event is handled.
";

#[test]
fn the_table_is_as_agreed() {
    let text = document();
    if std::env::var_os("ACCEPT").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/generated/replica.md");
        std::fs::write(path, &text).expect("the sources are writable");
        return;
    }
    let agreed = include_str!("../../../../../docs/generated/replica.md");
    let differ = text.lines().zip(agreed.lines()).find(|(is, was)| is != was);
    assert!(
        text == agreed,
        "the table changed: {differ:?}; if that is meant: ACCEPT=1 cargo test -p longarm-replica the_table"
    );
}
