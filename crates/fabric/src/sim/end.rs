//! One end of a connection: what it posted, what it has to poll, and why it is broken.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use longarm_base::{Nanos, Place, RegionId};
use longarm_host::Pause;
use longarm_memory::Region;

use crate::{Broken, Channel, Grant, Op, Ticket, WorkError};

/// One of the two ends; the other is `1 - side`.
pub(super) type SimSide = usize;

/// A request, with its bytes.
#[derive(Clone, Debug)]
pub(super) enum Owned {
    Read {
        from: Place,
        into: u32,
    },
    Write {
        region: RegionId,
        offset: u64,
        bytes: Arc<[u8]>,
        imm: Option<u32>,
    },
    Send {
        bytes: Vec<u8>,
    },
    CompareSwap {
        region: RegionId,
        offset: u64,
        expected: u64,
        new: u64,
    },
    FetchAdd {
        region: RegionId,
        offset: u64,
        add: u64,
    },
    /// The end was closed in good order.
    Farewell,
}

impl Owned {
    pub fn of(op: Op<'_>) -> Owned {
        match op {
            Op::Read { from, into } => Owned::Read { from, into },
            Op::Write { region, offset, bytes } => {
                Owned::Write { region, offset, bytes: bytes.into(), imm: None }
            }
            Op::WriteImm { region, offset, bytes, imm } => {
                Owned::Write { region, offset, bytes: bytes.into(), imm: Some(imm) }
            }
            Op::Send { bytes } => Owned::Send { bytes: bytes.into() },
            Op::CompareSwap { region, offset, expected, new } => {
                Owned::CompareSwap { region, offset, expected, new }
            }
            Op::FetchAdd { region, offset, add } => Owned::FetchAdd { region, offset, add },
        }
    }
}

/// Something to poll.
#[derive(Debug)]
pub(super) enum SimEvent {
    Done { ticket: Ticket, result: Result<u64, WorkError>, landed: Option<(u32, Vec<u8>)> },
    Arrived { imm: u32, len: u32 },
    Message(Vec<u8>),
}

/// A request that is posted and not yet reported.
#[derive(Debug)]
pub(super) struct OpenRequest {
    pub number: u64,
    pub ticket: Ticket,
    /// Of a READ: where it lands, and what was sampled so far.
    pub landing: Option<(u32, Vec<u8>)>,
    pub result: Option<Result<u64, WorkError>>,
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct InFlightRequest {
    pub number: u64,
    pub op: Owned,
    pub posted: Nanos,
    pub ready: Nanos,
}

/// A WRITE at the far memory.
#[derive(Debug)]
pub(super) struct Landed {
    pub number: u64,
    pub imm: Option<u32>,
    pub region: RegionId,
    pub memory: Arc<Region>,
    pub offset: u64,
    pub bytes: Arc<[u8]>,
    /// Those of the bytes that have not landed yet, in the order in which they will.
    pub parts: VecDeque<Range<usize>>,
}

/// One end.
#[derive(Debug)]
pub(super) struct SimEnd {
    pub machine: u32,
    pub grants: Vec<Grant>,
    pub broken: Option<Broken>,
    /// It revoked its peer: nothing of that peer takes effect.
    pub deaf: bool,
    pub posted: u64,
    pub open: VecDeque<OpenRequest>,
    pub staged: VecDeque<InFlightRequest>,
    pub wire: VecDeque<InFlightRequest>,
    /// When the last request that was rung reaches the peer.
    pub sent_until: Nanos,
    /// A WRITE that is landing at the peer.
    pub landing: Option<Landed>,
    pub told_until: Nanos,
    pub news: VecDeque<SimEvent>,
    /// Completions among the news.
    pub unpolled: usize,
    /// Messages the peer has not handed back, and arrivals it has not polled.
    pub messages: usize,
    pub arrivals: usize,
    pub bed: Arc<Pause>,
    pub bell: Option<Channel>,
    pub armed: bool,
}

impl SimEnd {
    pub fn new(machine: u32, grants: Vec<Grant>, bell: Option<Channel>) -> SimEnd {
        SimEnd {
            machine,
            grants,
            broken: None,
            deaf: false,
            posted: 0,
            open: VecDeque::new(),
            staged: VecDeque::new(),
            wire: VecDeque::new(),
            sent_until: Nanos(0),
            landing: None,
            told_until: Nanos(0),
            news: VecDeque::new(),
            unpolled: 0,
            messages: 0,
            arrivals: 0,
            bed: Arc::default(),
            bell,
            armed: false,
        }
    }

    pub fn take_news(&mut self) -> Option<SimEvent> {
        let news = self.news.pop_front()?;
        self.unpolled -= usize::from(matches!(news, SimEvent::Done { .. }));
        Some(news)
    }

    pub fn tell(&mut self, news: SimEvent) {
        self.unpolled += usize::from(matches!(news, SimEvent::Done { .. }));
        self.news.push_back(news);
        self.wake();
    }

    pub fn wake(&mut self) {
        self.bed.poke();
        if std::mem::take(&mut self.armed)
            && let Some(bell) = &self.bell
        {
            bell.notify();
        }
    }

    /// Reports what is complete, oldest first. `false` if a request was refused: the end breaks then.
    pub fn report(&mut self) -> bool {
        while let Some(result) = self.open.front().and_then(|open| open.result) {
            let OpenRequest { ticket, landing, .. } = self.open.pop_front().expect("looked at above");
            let landed = if result.is_ok() { landing } else { None };
            if ticket != Ticket::SILENT || result.is_err() {
                self.tell(SimEvent::Done { ticket, result, landed });
            }
            if result == Err(WorkError::Access) {
                return false;
            }
        }
        true
    }

    /// Nothing is sent any more; what was posted is flushed.
    pub fn break_off(&mut self, why: Broken) {
        if self.broken.is_some() {
            return;
        }
        self.broken = Some(why);
        self.staged.clear();
        for open in &mut self.open {
            open.result.get_or_insert(Err(WorkError::Flushed));
        }
        while !self.report() {}
        if let Some(bell) = &self.bell {
            bell.notify();
        }
        self.wake();
    }
}
