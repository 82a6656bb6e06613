//! A leader's arena, and followers whose connections deliver when they like: all that counts of a follower is
//! there, whatever is written, reclaimed, lost and caught up meanwhile. The values of this crate decide; the
//! world around them moves bytes, as the threads of a replica do.

mod memory;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use longarm_base::limits::SEGMENT_BYTES;
use longarm_base::{Csn, Mutant, ReplicaId};
use longarm_wire::SyncState;
use proptest::prelude::*;

use self::memory::{Entry, Line, Memory, Tells, Write};
use crate::{
    CatchUp, CatchUpStep, FollowerProgress, Gate, Group, Releases, Run, Send, Sender, StreamProgress,
};

const SEGMENTS: usize = 6;
const CELLS: usize = 3;
const CELL: u64 = 64;
const STREAMS: usize = 2;
const KEYS: u64 = 3;
/// Longest WRITE: two cells.
const MOST: u64 = 2 * CELL;

/// Segments and claims that are being let go of, and what the streams had written by then.
type Leaving = (Vec<(u32, u64)>, Vec<u64>);

/// A follower that the leader attends to. Connections: bulk, heart, then one a stream.
struct Attended {
    machine: CatchUp,
    progress: FollowerProgress,
    senders: [Option<Sender>; STREAMS],
    attached: bool,
    queues: [VecDeque<(Write, Tells)>; 2 + STREAMS],
    /// The segment that is pushed next.
    cursor: usize,
    floors: Vec<u64>,
    /// The floors of this step were written.
    told: bool,
    leaving: Option<Leaving>,
    /// Stream and position of what was written to it since it came.
    given: BTreeSet<(usize, u64)>,
    /// It was let go. Workers may be in the middle of their turns, and learn more of it.
    gone: bool,
}

struct World {
    lines: [Line; SEGMENTS],
    cells: [[Option<Entry>; CELLS]; SEGMENTS],
    /// By stream: segment, and cells used.
    open: [Option<(usize, usize)>; STREAMS],
    claims: u64,
    /// By stream: where the entry at each position stood, and the claim there.
    streams: [Vec<(usize, usize, u64, u64)>; STREAMS],
    applied: [u64; STREAMS],
    gates: [Gate; STREAMS],
    index: BTreeMap<u64, (usize, u64)>,
    asked: BTreeSet<u64>,
    releases: Releases,
    left: BTreeMap<usize, Vec<u64>>,
    /// By stream, the positions for which each follower was counted.
    counted: [[u64; STREAMS]; 2],
    memory: [Memory; 2],
    /// Whether the memory holds the start set of this term.
    holds: [bool; 2],
    attended: [Option<Attended>; 2],
}

fn replica(follower: usize) -> ReplicaId {
    ReplicaId(follower as u8 + 2)
}

impl World {
    fn new() -> World {
        let group = Group::new(ReplicaId(1), &[1, 2, 3].map(ReplicaId)).expect("a group");
        World {
            lines: Default::default(),
            cells: Default::default(),
            open: Default::default(),
            claims: 0,
            streams: Default::default(),
            applied: Default::default(),
            gates: [Gate::new(group), Gate::new(group)],
            index: BTreeMap::new(),
            asked: BTreeSet::new(),
            releases: Releases::default(),
            left: BTreeMap::new(),
            counted: Default::default(),
            memory: Default::default(),
            holds: [false; 2],
            attended: [None, None],
        }
    }

    fn written(&self) -> Vec<u64> {
        self.streams.iter().map(|stream| stream.len() as u64).collect()
    }

    /// A worker writes an entry, if it has a segment to write it to.
    fn write(&mut self, stream: usize, key: u64) {
        if self.open[stream].is_none_or(|(_, used)| used == CELLS) {
            let free = |line: &Line| matches!(line, Line::Free | Line::Freed(_));
            let Some(segment) = self.lines.iter().position(free) else { return };
            self.claims += 1;
            self.lines[segment] = Line::Claimed(self.claims);
            self.cells[segment] = Default::default();
            self.open[stream] = Some((segment, 0));
        }
        let Some((segment, used)) = &mut self.open[stream] else { unreachable!("it was opened") };
        let Line::Claimed(claim) = self.lines[*segment] else { unreachable!("it was claimed") };
        let position = self.streams[stream].len() as u64;
        self.cells[*segment][*used] = Some((stream, position, key));
        self.streams[stream].push((*segment, *used, claim, key));
        *used += 1;
    }

    /// A worker takes followers up, sends, and applies what is committed.
    fn pump(&mut self, stream: usize) {
        let written = self.streams[stream].len() as u64;
        for follower in 0..2 {
            let Some(attended) = &mut self.attended[follower] else { continue };
            if attended.attached && attended.senders[stream].is_none() {
                attended.progress.streams[stream].start = Some(written);
                attended.senders[stream] = Some(Sender::new(written, SEGMENTS, MOST));
            }
            let entries = &self.streams[stream];
            let place = |position: u64| {
                let (segment, cell, ..) = *entries.get(position as usize)?;
                Some((segment as u64 * SEGMENT_BYTES + cell as u64 * CELL, CELL as u32))
            };
            let Some(sender) = &mut attended.senders[stream] else { continue };
            let may_send = !sender.awaits_claim() && !attended.gone;
            if let Some(run) = Run::at(sender.sent(), MOST, place).filter(|_| may_send) {
                let (segment, cell) = (run.segment() as usize, (run.from % SEGMENT_BYTES / CELL) as usize);
                let Line::Claimed(claim) = self.lines[segment] else { unreachable!("it has what is sent") };
                let send = sender.next(&run, claim);
                let write = match send {
                    Send::Claim { claim, .. } => {
                        (Write::Line(segment, Line::Claimed(claim)), Tells::Claim(stream))
                    }
                    Send::Run { until } => {
                        let cells = self.cells[segment][cell..cell + (run.bytes() / CELL) as usize].to_vec();
                        (Write::Cells(segment, cell, cells), Tells::Acked(stream, until))
                    }
                    Send::Piece { .. } => unreachable!("an entry is shorter than a WRITE"),
                };
                attended.queues[2 + stream].push_back(write);
                sender.posted(send);
            }
            let (synced, acked) = (attended.progress.synced, attended.progress.streams[stream].acked);
            if !attended.gone || Mutant::CountLeaving.is_on() {
                self.gates[stream].set_synced(replica(follower), synced);
                self.gates[stream].ack(replica(follower), acked);
                self.counted[follower][stream] = if synced { acked } else { self.counted[follower][stream] };
            }
        }
        let committed = self.gates[stream].committed(written);
        for position in self.applied[stream]..committed {
            let key = self.streams[stream][position as usize].3;
            self.index.insert(key, (stream, position));
        }
        self.applied[stream] = committed;
    }

    /// The maintenance thread asks for a segment that nothing is needed of, and frees those that all
    /// followers have let go of.
    fn reclaim(&mut self, segment: usize) {
        let (Line::Claimed(claim), written) = (self.lines[segment], self.written()) else { return };
        let is_open = self.open.iter().flatten().any(|(open, used)| *open == segment && *used < CELLS);
        let is_dead = |(stream, position, key): &Entry| {
            *position < self.applied[*stream] && self.index.get(key) != Some(&(*stream, *position))
        };
        if !is_open && self.cells[segment].iter().flatten().all(is_dead) && self.asked.insert(claim) {
            self.releases.ask(segment as u32, written, Csn::NONE);
        }
        let lines = &mut self.lines;
        self.releases.free(|segment| {
            if let Line::Claimed(claim) = lines[segment as usize] {
                lines[segment as usize] = Line::Freed(claim);
            }
        });
        for open in &mut self.open {
            *open = open.filter(|(segment, _)| matches!(self.lines[*segment], Line::Claimed(_)));
        }
    }

    /// The leader begins to attend to a follower.
    fn attend(&mut self, follower: usize) {
        if self.attended[follower].is_some() {
            return;
        }
        let held = if self.holds[follower] { SyncState::Term } else { SyncState::Nothing };
        let machine = CatchUp::new(held, self.left.get(&follower).cloned());
        self.releases.join(replica(follower));
        self.attended[follower] = Some(Attended {
            machine: machine.expect("it was asked to adopt the term"),
            progress: FollowerProgress { synced: false, streams: vec![StreamProgress::default(); STREAMS] },
            senders: [None, None],
            attached: false,
            queues: Default::default(),
            cursor: 0,
            floors: Vec::new(),
            told: false,
            leaving: None,
            given: BTreeSet::new(),
            gone: false,
        });
    }

    /// The thread that attends to a follower lets it go, and notes what it leaves with.
    fn let_go(&mut self, follower: usize) {
        let Some(attended) = self.attended[follower].as_mut().filter(|it| !it.gone) else { return };
        attended.gone = true;
        self.releases.leave(replica(follower));
        if attended.progress.synced {
            self.left.insert(follower, attended.progress.next_floors());
        }
    }

    /// The connections to a follower break: what is on its way is lost. Perhaps its memory is, too.
    fn lose(&mut self, follower: usize, memory: bool) {
        self.let_go(follower);
        self.memory[follower] = self.landed(follower);
        if self.attended[follower].take().is_some() {
            self.gates.iter_mut().for_each(|gate| gate.set_synced(replica(follower), false));
        }
        // No more than one of three loses its memory.
        if memory && follower == 0 {
            self.memory[follower] = Memory::default();
            self.holds[follower] = false;
            self.counted[follower] = Default::default();
        }
    }

    /// The WRITE that was posted first on one of a follower's connections lands. No entry is given to the
    /// follower twice, nor is what it left with: it may have looked at that, and made a superseded bit of its
    /// own of it.
    fn deliver(&mut self, follower: usize, queue: usize) -> Result<(), TestCaseError> {
        let Some(attended) = &mut self.attended[follower] else { return Ok(()) };
        let Some((write, tells)) = attended.queues[queue].pop_front() else { return Ok(()) };
        self.memory[follower].land(&write);
        let cells = if let Write::Cells(_, _, cells) = write { cells } else { Vec::new() };
        for (stream, position, _) in cells.into_iter().flatten() {
            let left = attended.machine.left().get(stream).copied().unwrap_or(0);
            let is_new = attended.given.insert((stream, position)) && position >= left;
            prop_assert!(is_new, "follower {follower} is given {stream}:{position} once more");
        }
        match tells {
            Tells::Nothing => {}
            Tells::Claim(stream) => attended.senders[stream].as_mut().expect("it sent it").claimed(),
            Tells::Acked(stream, until) => {
                let at = &mut attended.progress.streams[stream];
                (at.acked, at.landed) = (at.acked.max(until), at.landed.max(until));
            }
            // A READ behind it tells so.
            Tells::Landed(stream, until) => {
                let landed = &mut attended.progress.streams[stream].landed;
                *landed = (*landed).max(until);
            }
            Tells::Floors(floors) => attended.set_floors(&floors),
        }
        Ok(())
    }

    /// The first WRITE of entries of a stream that has not completed completes before it lands.
    fn complete(&mut self, follower: usize, stream: usize) {
        let Some(attended) = &mut self.attended[follower] else { return };
        let is_open = |(_, tells): &&mut (Write, Tells)| !matches!(tells, Tells::Landed(..));
        if let Some((_, tells)) = attended.queues[2 + stream].iter_mut().find(is_open)
            && let Tells::Acked(stream, until) = *tells
        {
            let acked = &mut attended.progress.streams[stream].acked;
            (*acked, *tells) = ((*acked).max(until), Tells::Landed(stream, until));
        }
    }

    /// A follower's memory once all that has completed has landed, as a fence has it.
    fn landed(&self, follower: usize) -> Memory {
        let mut memory = self.memory[follower].clone();
        let queues = self.attended[follower].iter().flat_map(|attended| &attended.queues);
        let completed = |(_, tells): &&(Write, Tells)| matches!(tells, Tells::Landed(..));
        queues.flat_map(|queue| queue.iter().take_while(completed)).for_each(|(write, _)| memory.land(write));
        memory
    }

    fn heartbeat(&mut self, follower: usize) {
        let Some(attended) = self.attended[follower].as_mut().filter(|it| !it.gone) else { return };
        let floors = attended.progress.told_floors();
        if !floors.is_empty() {
            attended.queues[1].push_back((Write::Floors(floors.clone()), Tells::Floors(floors)));
        }
    }

    /// The thread that catches a follower up takes one turn.
    fn catch_up(&mut self, follower: usize) {
        let Some(mut attended) = self.attended[follower].take() else { return };
        if !attended.gone {
            self.turn(follower, &mut attended);
        }
        self.attended[follower] = Some(attended);
    }

    fn turn(&mut self, follower: usize, attended: &mut Attended) {
        let landed = attended.queues[0].is_empty();
        if let Some((segments, written)) = attended.leaving.take() {
            if !landed {
                attended.leaving = Some((segments, written));
                return;
            }
            let names: Vec<u32> = segments.iter().map(|(segment, _)| *segment).collect();
            attended.machine.let_go(segments, &written);
            self.releases.let_go(replica(follower), &names);
        }
        let progress = &attended.progress;
        match attended.machine.step() {
            CatchUpStep::KeepFloors if !attended.told => {
                return attended.tell_floors(attended.machine.left().to_vec());
            }
            CatchUpStep::TellFloors if !attended.told => {
                // Noted before it is told: the connection may break, and floors never go back.
                self.left.insert(follower, attended.floors.clone());
                return attended.tell_floors(attended.floors.clone());
            }
            CatchUpStep::KeepFloors | CatchUpStep::TellFloors if !landed => return,
            CatchUpStep::KeepFloors => {
                let left = attended.machine.left().to_vec();
                attended.set_floors(&left);
            }
            CatchUpStep::Table => {
                let lines = self.lines.iter().copied().enumerate();
                let writes = lines.map(|(segment, line)| (Write::Line(segment, line), Tells::Nothing));
                attended.queues[0].extend(writes);
            }
            CatchUpStep::Land | CatchUpStep::LandPushed if !landed => return,
            CatchUpStep::Attach => attended.attached = true,
            CatchUpStep::AwaitStarts if progress.streams.iter().any(|at| at.start.is_none()) => return,
            CatchUpStep::Push if attended.cursor < SEGMENTS => {
                self.push(attended);
                return self.serve_releases(follower, attended);
            }
            CatchUpStep::Release => self.serve_releases(follower, attended),
            CatchUpStep::AwaitNeeded => {
                for at in &mut attended.progress.streams {
                    let start = at.start.unwrap_or(0);
                    (at.acked, at.landed) = (at.acked.max(start), at.landed.max(start));
                }
                let Some(floors) = attended.progress.first_floors(attended.machine.needed()) else { return };
                attended.floors = floors;
            }
            CatchUpStep::Adopt => {
                // Noted before it is asked: its answer may be lost.
                self.left.insert(follower, attended.floors.clone());
                if !self.holds[follower] {
                    self.memory[follower].floors = attended.floors.clone();
                    self.holds[follower] = true;
                }
            }
            CatchUpStep::Count => {
                attended.set_floors(&attended.floors.clone());
                attended.progress.synced = true;
            }
            CatchUpStep::Keep => return self.serve_releases(follower, attended),
            _ => {}
        }
        attended.told = false;
        attended.machine.done();
    }

    /// Pushes what the next segment has of this term.
    fn push(&self, attended: &mut Attended) {
        let segment = attended.cursor;
        attended.cursor += 1;
        let Line::Claimed(claim) = self.lines[segment] else { return };
        let pushed = attended.machine.pushed(&attended.progress);
        let wanted =
            |entry: &Option<Entry>| entry.is_some_and(|(stream, at, _)| pushed[stream].contains(&at));
        if attended.machine.is_over(segment as u32, claim) || !self.cells[segment].iter().any(wanted) {
            return;
        }
        attended.queues[0].push_back((Write::Line(segment, Line::Claimed(claim)), Tells::Nothing));
        for (cell, entry) in self.cells[segment].iter().enumerate().filter(|(_, entry)| wanted(entry)) {
            attended.queues[0].push_back((Write::Cells(segment, cell, vec![*entry]), Tells::Nothing));
        }
    }

    fn serve_releases(&self, follower: usize, attended: &mut Attended) {
        if !attended.machine.may_release() {
            return;
        }
        let let_go =
            self.releases.asked(replica(follower), |written, _| attended.progress.may_let_go(written));
        if let_go.segments.is_empty() {
            return;
        }
        let claim = |segment: u32| match self.lines[segment as usize] {
            Line::Claimed(claim) | Line::Freed(claim) => claim,
            Line::Free => unreachable!("it was asked for"),
        };
        let segments: Vec<_> = let_go.segments.iter().map(|&segment| (segment, claim(segment))).collect();
        for &(segment, claim) in &segments {
            attended.queues[0].push_back((Write::Line(segment as usize, Line::Freed(claim)), Tells::Nothing));
        }
        attended.leaving = Some((segments, let_go.written));
    }

    /// A follower is attended to, and everything that is sent to it lands.
    fn calm(&mut self, follower: usize) -> Result<(), TestCaseError> {
        if self.attended[follower].as_ref().is_some_and(|it| it.gone) {
            self.lose(follower, false);
        }
        self.attend(follower);
        for _ in 0..30 {
            self.catch_up(follower);
            (0..STREAMS).for_each(|stream| self.pump(stream));
            (0..2 + STREAMS).try_for_each(|queue| self.deliver(follower, queue))?;
            self.heartbeat(follower);
            self.check(follower)?;
        }
        Ok(())
    }

    /// Whether a follower's memory has the entry at this position.
    fn has(&self, memory: &Memory, stream: usize, position: u64) -> bool {
        let Some(&(segment, cell, claim, key)) = self.streams[stream].get(position as usize) else {
            return false;
        };
        memory.lines[segment] == Line::Claimed(claim)
            && memory.cells[segment][cell] == Some((stream, position, key))
    }

    /// What a follower would report, were the leader lost now, has all that it was counted for. Whether it is
    /// attended to does not matter.
    fn check_report(&self, follower: usize) -> Result<(), TestCaseError> {
        if !self.holds[follower] {
            return Ok(());
        }
        let memory = self.landed(follower);
        for (stream, &counted) in self.counted[follower].iter().enumerate() {
            let mut reported = memory.floors.get(stream).copied().unwrap_or(0);
            while self.has(&memory, stream, reported) {
                reported += 1;
            }
            prop_assert!(
                reported >= counted,
                "follower {follower} reports {reported} positions of stream {stream}, and was counted for \
                 {counted}: {memory:?}"
            );
        }
        Ok(())
    }

    /// All that a follower counts for is there, or below its floors and needless.
    fn check(&self, follower: usize) -> Result<(), TestCaseError> {
        self.check_report(follower)?;
        let Some(attended) = self.attended[follower].as_ref().filter(|it| it.progress.synced) else {
            return Ok(());
        };
        let memory = &self.landed(follower);
        for (stream, at) in attended.progress.streams.iter().enumerate() {
            let floor = memory.floors.get(stream).copied().unwrap_or(0);
            for position in 0..at.acked {
                let (segment, _, _, key) = self.streams[stream][position as usize];
                let is_here = self.has(memory, stream, position);
                let is_needed = self.index.get(&key) == Some(&(stream, position));
                prop_assert!(
                    is_here || (position < floor && !is_needed),
                    "follower {follower} lacks {stream}:{position} in segment {segment}, floor {floor}, \
                     needed {is_needed}: {memory:?}"
                );
            }
        }
        Ok(())
    }
}

impl Attended {
    fn set_floors(&mut self, floors: &[u64]) {
        self.progress.streams.iter_mut().zip(floors).for_each(|(at, floor)| at.floor = *floor);
    }

    fn tell_floors(&mut self, floors: Vec<u64>) {
        self.told = true;
        self.queues[0].push_back((Write::Floors(floors), Tells::Nothing));
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Write(usize, u64),
    Pump(usize),
    Reclaim,
    Attend(usize),
    CatchUp(usize),
    Deliver(usize, usize),
    Complete(usize, usize),
    Heartbeat(usize),
    LetGo(usize),
    Lose(usize, bool),
    /// All goes well for a while.
    Calm(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => (0..STREAMS, 0..KEYS).prop_map(|(stream, key)| Happens::Write(stream, key)),
        8 => (0..STREAMS).prop_map(Happens::Pump),
        3 => Just(Happens::Reclaim),
        1 => (0..2usize).prop_map(Happens::Attend),
        10 => (0..2usize).prop_map(Happens::CatchUp),
        14 => (0..2usize, 0..2 + STREAMS).prop_map(|(follower, queue)| Happens::Deliver(follower, queue)),
        4 => (0..2usize, 0..STREAMS).prop_map(|(follower, stream)| Happens::Complete(follower, stream)),
        2 => (0..2usize).prop_map(Happens::Heartbeat),
        1 => (0..2usize).prop_map(Happens::LetGo),
        1 => (0..2usize, any::<bool>()).prop_map(|(follower, memory)| Happens::Lose(follower, memory)),
        1 => (0..2usize).prop_map(Happens::Calm),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn all_that_a_follower_counts_for_is_there(
        seldom in 1usize..40,
        steps in proptest::collection::vec(happens(), 50..800),
    ) {
        let mut world = World::new();
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Happens::Write(stream, key) => world.write(stream, key),
                Happens::Pump(stream) => world.pump(stream),
                Happens::Reclaim => (0..SEGMENTS).for_each(|segment| world.reclaim(segment)),
                Happens::Attend(follower) => world.attend(follower),
                Happens::CatchUp(follower) => world.catch_up(follower),
                Happens::Deliver(follower, queue) => world.deliver(follower, queue)?,
                Happens::Complete(follower, stream) => world.complete(follower, stream),
                Happens::Heartbeat(follower) => world.heartbeat(follower),
                Happens::LetGo(follower) if i % seldom == 0 => world.let_go(follower),
                Happens::Lose(follower, memory) if i % seldom == 0 => world.lose(follower, memory),
                Happens::LetGo(_) | Happens::Lose(..) => {}
                Happens::Calm(follower) => world.calm(follower)?,
            }
            world.check(0)?;
            world.check(1)?;
        }
    }
}

/// A follower is let go while a worker is in the middle of its turn: the worker had looked whether the
/// follower is gone, and takes acknowledgements then. Were they counted, the follower would have been counted
/// for more than it left with; what was freed meanwhile would be a gap in what it reports.
#[test]
fn what_is_counted_while_a_follower_is_let_go_is_among_what_it_left_with() {
    let mut world = World::new();
    world.calm(0).expect("it is synced");
    (0..CELLS).for_each(|_| world.write(0, 0));
    world.write(1, 0);
    let acked = |world: &World, stream: usize| {
        world.attended[0].as_ref().map_or(0, |it| it.progress.streams[stream].acked)
    };
    let on_the_way = |world: &World, stream: usize| {
        world.attended[0].as_ref().is_some_and(|it| !it.queues[2 + stream].is_empty())
    };
    // The claims land, and the first two entries. The last entry of either stream is on its way.
    world.pump(1);
    world.deliver(0, 3).expect("it is new");
    while acked(&world, 0) < 2 {
        world.pump(0);
        world.deliver(0, 2).expect("it is new");
    }
    (0..STREAMS).for_each(|stream| world.pump(stream));
    assert!(on_the_way(&world, 0) && on_the_way(&world, 1));
    world.let_go(0);
    for stream in 0..STREAMS {
        world.deliver(0, 2 + stream).expect("it is new");
        world.pump(stream);
    }
    assert_eq!((acked(&world, 0), acked(&world, 1)), (3, 1));
    world.lose(0, false);
    // The entry of the other stream made the segment of the first needless, and no follower is asked.
    (0..SEGMENTS).for_each(|segment| world.reclaim(segment));
    // The follower comes back, and is given the table.
    world.attend(0);
    for _ in 0..6 {
        world.catch_up(0);
        (0..2 * SEGMENTS).for_each(|_| world.deliver(0, 0).expect("it is new"));
    }
    world.check_report(0).expect("nothing is missing");
}
