//! Commands from the thread that copies a table, and from the one that found a damaged file, to the thread that sequences, which carries them out between two of
//! its own pieces.
//!
//! In: pieces with changes of the copied table, from the thread that follows it. Out: the same pieces on their way
//! through the workers, and at last the switch that gives the copy the table's name. Invariants: everything happens
//! at a transaction boundary, on the sequencing thread; replay is held for at most `HOLD_MAX`; a change that does not
//! fit fails the copy, not replay.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base::queue::Waker;
use base::{GtidSet, LogPosition};
use catalog::{Answer, Catalog, Found, TableDef, TableId};
use crossbeam_channel::{Receiver, Sender, bounded};
use decode::DecodedPiece;

use crate::copy_track::CopyTrack;

/// Longest hold of replay while a copy takes the table's place.
pub(crate) const HOLD_MAX: Duration = Duration::from_millis(500);
/// Commands queued for the sequencing thread; it takes one between two of its own pieces.
const COMMANDS: usize = 4;
/// Interval at which a caller checks `stop` while it waits: an answer can take long when replay waits for a cut or is
/// paused.
const LOOK: Duration = Duration::from_millis(50);

/// Replay's place at a transaction boundary.
#[derive(Clone)]
pub struct Boundary {
    /// GTIDs of everything sequenced.
    pub executed: GtidSet,
    /// Table definitions at the boundary.
    pub catalog: Catalog,
    /// Relay log position of the boundary; None when nothing has been sequenced since the start.
    pub end: Option<LogPosition>,
}

pub(crate) enum Command {
    Look(Sender<Boundary>),
    Reserve(Sender<Option<TableId>>),
    Changes(Box<DecodedPiece>, Arc<CopyTrack>),
    Hold(Sender<Boundary>),
    /// Valid only during a hold. Answers with the sequence number of the switch.
    Switch(Arc<TableDef>, Sender<u64>),
    Release,
    /// Table ids with the reason. Answers with the sequence number from which on they are in quarantine; None if none of
    /// them is a table any more.
    Quarantine(Vec<(TableId, String)>, Sender<Option<u64>>),
    /// With the epoch of the catalog that was compared. Answers whether it was taken over.
    Add(Found, u64, Sender<bool>),
    /// Answers whether it was taken over as a whole.
    Answer(Box<Answer>, Sender<bool>),
}

/// Error: replay has ended, or the hold had expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// Client side, held by the thread that copies a table. Every call blocks while replay is paused.
#[derive(Clone)]
pub struct TableCopier {
    commands: Sender<Command>,
    waker: Arc<OnceLock<Waker<DecodedPiece>>>,
}

/// The sequencing thread's side.
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
    /// Sets what a sender uses to wake the sequencing thread from its wait for pieces.
    pub(crate) fn wakes(&self, waker: Waker<DecodedPiece>) {
        let _ = self.waker.set(waker);
    }

    /// Returns the next command, if one is queued.
    pub(crate) fn try_next(&self) -> Option<Command> {
        self.taken.try_recv().ok()
    }

    /// Waits for the next command; None at the deadline, or when every copier is gone.
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

    /// Returns replay's place at its next transaction boundary.
    ///
    /// # Errors
    /// [`Refused`] when replay ends or `stop` is raised first; the methods below fail in the same way.
    pub fn look(&self, stop: &AtomicBool) -> Result<Boundary, Refused> {
        self.ask(Command::Look, stop)
    }

    /// Reserves a table id for the copy; None when ids are exhausted.
    ///
    /// # Errors
    /// As `look`.
    pub fn reserve(&self, stop: &AtomicBool) -> Result<Option<TableId>, Refused> {
        self.ask(Command::Reserve, stop)
    }

    /// Submits changes of the copied table, in log order.
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

    /// Puts the copy in the place of the table of its name and ends the hold. Returns the switch's sequence number.
    ///
    /// # Errors
    /// [`Refused`] also when the hold has expired; nothing was done then.
    pub fn switch(&self, table: &Arc<TableDef>, stop: &AtomicBool) -> Result<u64, Refused> {
        self.ask(|reply| Command::Switch(Arc::clone(table), reply), stop)
    }

    /// Puts tables in quarantine whose rows cannot be read. Returns the sequence number from which on they are; None if
    /// none of them is a table any more.
    ///
    /// # Errors
    /// As `look`.
    pub fn quarantine(&self, tables: Vec<(TableId, String)>, stop: &AtomicBool) -> Result<Option<u64>, Refused> {
        self.ask(|reply| Command::Quarantine(tables, reply), stop)
    }

    /// Takes over what a comparison with the source found; its tables are in quarantine until they are copied. False,
    /// with nothing done, if the catalog is not at this epoch any more.
    ///
    /// # Errors
    /// As `look`.
    pub fn add(&self, found: Found, epoch: u64, stop: &AtomicBool) -> Result<bool, Refused> {
        self.ask(|reply| Command::Add(found, epoch, reply), stop)
    }

    /// Takes over the source's answer about definitions; true if as a whole.
    ///
    /// # Errors
    /// The same as those of `look`.
    pub fn answer(&self, answer: Answer, stop: &AtomicBool) -> Result<bool, Refused> {
        self.ask(|reply| Command::Answer(Box::new(answer), reply), stop)
    }

    /// Ends the hold.
    ///
    /// # Errors
    /// As `look`.
    pub fn release(&self, stop: &AtomicBool) -> Result<(), Refused> {
        self.send(Command::Release, stop)
    }
}
