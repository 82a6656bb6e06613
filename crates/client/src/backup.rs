//! What a backup asks of the leader that it copies by READs (decision 49): to keep what is not copied yet.
//!
//! The hold is the connection's. A client that had to connect again has none: its next step says so, and what
//! it READ since its last step counts for nothing.

use std::time::Duration;

use longarm_base::{Csn, Mutant, UnixMillis};
use longarm_fabric::Transport;
use longarm_wire::{BACKUP, BackupStep, LET_GO_MAX, Request, RequestKind};

use crate::client::Client;
use crate::error::Error;
use crate::flight::Reply;

/// The time between two looks at whether writes are under way.
const SETTLES: Duration = Duration::from_micros(200);

/// What a backup is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begun {
    /// The version: all entries up to it are in segments that were in use after this was told.
    pub csn: Csn,
    /// How often a segment was claimed by then: a claim with a higher number has nothing that is needed.
    pub claims: u64,
    /// The calendar of the leader, which judges expiry, at that moment or a little later.
    pub unix: UnixMillis,
    /// The term in which the leader leads, as its bits.
    pub term: u64,
    /// The group.
    pub group: u64,
}

impl<T: Transport> Client<T> {
    /// Has the leader keep all segments that are in use, until this connection [lets go](Self::let_go) of
    /// them. What is in them then is READ through [`raw`](Self::raw). The backup has all that was
    /// acknowledged before this call: writes that are under way are waited for, as long as an operation may
    /// take.
    pub fn begin_backup(&mut self) -> Result<Begun, Error> {
        if self.link()?.welcome.agreed.features & BACKUP == 0 {
            return Err(Error::NoBackup("the server is of an older version, which knows no backups"));
        }
        let told = self.backup_step(BackupStep::Begin, &[]);
        let drawn = match told {
            Ok(Reply::Number(_, drawn)) => drawn,
            Ok(Reply::Mismatch(_)) => return Err(Error::NoBackup("another one is being made")),
            Err(Error::Invalid(_)) => {
                return Err(Error::NoBackup(
                    "the server keeps its data in memory alone, and deletes leave no trace there",
                ));
            }
            other => return Err(strange(other?)),
        };
        let (csn, claims) = self.settled(drawn)?;
        let unix = self.server_unix()?;
        let link = self.link()?;
        let (term, group) = (link.welcome.term, link.welcome.group);
        Ok(Begun { csn, claims, unix, term, group })
    }

    /// Waits until nothing up to this version is under way. The stable point then, and the number of claims.
    fn settled(&mut self, drawn: Csn) -> Result<(Csn, u64), Error> {
        let deadline = self.deadline();
        loop {
            let (claims, stable) = match self.backup_step(BackupStep::Settle, &[])? {
                Reply::Number(claims, stable) => (claims as u64, stable),
                other => return Err(over(other)),
            };
            if stable >= drawn || Mutant::BackUpBehind.is_on() {
                return Ok((stable, claims));
            }
            if deadline.is_over(longarm_host::now()) {
                self.end_backup()?;
                return Err(Error::NoBackup("writes were under way all the time that an operation may take"));
            }
            longarm_host::sleep(SETTLES);
        }
    }

    /// Lets go of segments; how many wait for this backup. What was READ before this call was as the backup
    /// needs it, if this succeeds.
    pub fn let_go(&mut self, segments: &[u32]) -> Result<u64, Error> {
        let mut waiting = 0;
        let (first, rest) = segments.split_at(segments.len().min(LET_GO_MAX));
        for part in std::iter::once(first).chain(rest.chunks(LET_GO_MAX)) {
            let bytes: Vec<u8> = part.iter().flat_map(|segment| segment.to_le_bytes()).collect();
            waiting = match self.backup_step(BackupStep::LetGo, &bytes)? {
                Reply::Number(waiting, _) => waiting as u64,
                other => return Err(over(other)),
            };
        }
        Ok(waiting)
    }

    /// The backup is over. What was READ before was as the backup needs it, if this succeeds.
    pub fn end_backup(&mut self) -> Result<(), Error> {
        match self.backup_step(BackupStep::End, &[])? {
            Reply::Number(..) => Ok(()),
            other => Err(over(other)),
        }
    }

    fn backup_step(&mut self, step: BackupStep, value: &[u8]) -> Result<Reply, Error> {
        let deadline = self.deadline();
        let request = Request {
            argument: step as u64,
            value,
            ..Request::new(RequestKind::Backup, self.next_operation)
        };
        let ticket = self.post(request, &deadline)?;
        self.wait(ticket).map_err(|error| self.unanswered(error))
    }
}

fn over(reply: Reply) -> Error {
    match reply {
        Reply::NotFound => Error::BackupOver(
            "the connection was lost, another leader leads, or what was to be freed was not copied in time",
        ),
        other => strange(other),
    }
}

fn strange(reply: Reply) -> Error {
    Error::Protocol(format!("a step of a backup was answered with {reply:?}"))
}
