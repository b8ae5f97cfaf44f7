//! Work beside replay on one table's copy, and its place in the order of things.
//!
//! In: pieces with the changes of a copied table, from the thread that follows it. Out: the same pieces on their way
//! through the workers, between two of replay's, and at last the switch of the table's name to the copy. Invariants:
//! all of it happens at transaction boundaries, by the thread that sequences; replay is held for no longer than
//! `HOLD_MAX`; a change that does not fit ends the copy, not replay.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base::queue::Waker;
use base::{GtidSet, LogPosition};
use catalog::{Catalog, TableDef, TableId};
use crossbeam_channel::{Receiver, Sender, bounded};
use decode::DecodedPiece;

use crate::copy_track::CopyTrack;

/// How long replay is held at most while the copy comes to its place.
pub(crate) const HOLD_MAX: Duration = Duration::from_millis(500);
/// Pieces on their way to the sequencing thread; it takes one between two of its own.
const COMMANDS: usize = 4;
/// How long an answer may take: replay may wait for a cut, or be paused.
const LOOK: Duration = Duration::from_millis(50);

/// Replay's place at a transaction boundary.
#[derive(Clone)]
pub struct Boundary {
    /// Everything sequenced.
    pub executed: GtidSet,
    /// Table definitions there.
    pub catalog: Catalog,
    /// End of it in the relay log; None when nothing was sequenced since the start.
    pub end: Option<LogPosition>,
}

pub(crate) enum Command {
    Look(Sender<Boundary>),
    Reserve(Sender<Option<TableId>>),
    Changes(Box<DecodedPiece>, Arc<CopyTrack>),
    Hold(Sender<Boundary>),
    /// While held only. Answers with the number of the switch.
    Switch(Arc<TableDef>, Sender<u64>),
    Release,
}

/// Replay has ended, or the hold was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// What a copy of a table asks of the sequencing thread. Every call waits while replay is paused.
#[derive(Clone)]
pub struct TableCopier {
    commands: Sender<Command>,
    waker: Arc<OnceLock<Waker<DecodedPiece>>>,
}

/// The sequencing thread's end.
pub(crate) struct Commands {
    taken: Receiver<Command>,
    waker: Arc<OnceLock<Waker<DecodedPiece>>>,
}

pub(crate) fn channel() -> (TableCopier, Commands) {
    let (commands, taken) = bounded(COMMANDS);
    let waker = Arc::new(OnceLock::new());
    (TableCopier { commands, waker: Arc::clone(&waker) }, Commands { taken, waker })
}

impl Commands {
    /// Whoever sends one ends with it the wait for pieces.
    pub(crate) fn wakes(&self, waker: Waker<DecodedPiece>) {
        let _ = self.waker.set(waker);
    }

    /// The next one, if it is there.
    pub(crate) fn try_next(&self) -> Option<Command> {
        self.taken.try_recv().ok()
    }

    /// The next one; None when there is none until then, or no copier any more.
    pub(crate) fn next_until(&self, deadline: Instant) -> Option<Command> {
        self.taken.recv_deadline(deadline).ok()
    }
}

impl TableCopier {
    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command, stop: &AtomicBool) -> Result<T, Refused> {
        let (reply, answer) = bounded(1);
        self.send(command(reply), stop)?;
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(crossbeam_channel::RecvTimeoutError::Disconnected) => return Err(Refused),
                Err(crossbeam_channel::RecvTimeoutError::Timeout) if stop.load(Ordering::Acquire) => {
                    return Err(Refused);
                }
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn send(&self, mut command: Command, stop: &AtomicBool) -> Result<(), Refused> {
        loop {
            match self.commands.send_timeout(command, LOOK) {
                Ok(()) => {
                    if let Some(waker) = self.waker.get() {
                        waker.poke();
                    }
                    return Ok(());
                }
                Err(crossbeam_channel::SendTimeoutError::Timeout(back)) if !stop.load(Ordering::Acquire) => {
                    command = back;
                }
                Err(_) => return Err(Refused),
            }
        }
    }

    /// Where replay is.
    ///
    /// # Errors
    /// [`Refused`] when replay ends or `stop` is raised first; so for all that follow.
    pub fn look(&self, stop: &AtomicBool) -> Result<Boundary, Refused> {
        self.ask(Command::Look, stop)
    }

    /// An id for the copy; None when there are no more.
    ///
    /// # Errors
    /// As `look`.
    pub fn reserve(&self, stop: &AtomicBool) -> Result<Option<TableId>, Refused> {
        self.ask(Command::Reserve, stop)
    }

    /// Hands on changes of the copy, in log order.
    ///
    /// # Errors
    /// As `look`.
    pub fn changes(&self, piece: DecodedPiece, track: &Arc<CopyTrack>, stop: &AtomicBool) -> Result<(), Refused> {
        track.handed_on();
        self.send(Command::Changes(Box::new(piece), Arc::clone(track)), stop)
    }

    /// Holds replay at its next boundary until `switch` or `release`, or for half a second.
    ///
    /// # Errors
    /// As `look`.
    pub fn hold(&self, stop: &AtomicBool) -> Result<Boundary, Refused> {
        self.ask(Command::Hold, stop)
    }

    /// Puts the copy in the place of the table of its name, and lets replay go. Answers with the switch's number.
    ///
    /// # Errors
    /// [`Refused`] also when replay is not held any more: nothing was done.
    pub fn switch(&self, table: &Arc<TableDef>, stop: &AtomicBool) -> Result<u64, Refused> {
        self.ask(|reply| Command::Switch(Arc::clone(table), reply), stop)
    }

    /// Lets replay go.
    ///
    /// # Errors
    /// As `look`.
    pub fn release(&self, stop: &AtomicBool) -> Result<(), Refused> {
        self.send(Command::Release, stop)
    }
}
