//! Threads of the rows grain: decoders, the sequencing thread, and workers that own the lanes.
//!
//! In: split pieces, and commands of the thread that copies a table. Out: pieces in every worker's queue, in log
//! order. Invariant: output queues are flushed before any wait. Never here: a decision about a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use base::queue::{self, Received, queue};
use crossbeam_channel::Sender;
use decode::{DecodedPiece, Decoder};

use crate::beside::{Command, Commands, HOLD_MAX};
use crate::front::{Front, IDLE_WAIT, QUEUE_PIECES, WAKE_PIECES, WAKE_SEQUENCE_PIECES};
use crate::in_flight::InFlight;
use crate::pause::Pause;
use crate::pipeline::{Replay, Shared};
use crate::publish::Publisher;
use crate::stages::SequenceStage;
use crate::threads::Threads;

/// Starts the threads. Returns each worker's counter of row changes.
pub(crate) fn start(replay: Replay<'_>, commands: Commands) -> Vec<Arc<AtomicU64>> {
    let Replay { shared, split, target, decode, decoders, working } = replay;
    let threads = &shared.threads;
    let front = split.decode(decoders.max(1), WAKE_SEQUENCE_PIECES, || Decoder::new(decode.clone()), threads);
    commands.wakes(front.waker());
    shared.pause.wakes({
        let waker = front.waker();
        move || waker.poke()
    });
    let (mut to_workers, mut rows) = (Vec::new(), Vec::new());
    for i in 0..shared.workers {
        let (sender, flights) = queue::<Arc<InFlight>>(QUEUE_PIECES, WAKE_PIECES);
        to_workers.push(sender);
        rows.push(start_worker(shared, i, &front, flights, working.clone()));
    }
    let sequencing = Sequencing {
        threads: Arc::clone(threads),
        pause: Arc::clone(&shared.pause),
        publisher: Arc::clone(&shared.publisher),
        pieces: Arc::clone(&shared.pieces),
        workers: to_workers,
        commanded: false,
        held: false,
        stage: shared.sequence_stage(target, &front.feed.catalogs, decode, shared.workers),
        commands,
    };
    threads.spawn("sequence", move || sequencing.run(front));
    rows
}

/// Starts worker `number`, which owns every lane whose number is congruent to it modulo the number of workers.
fn start_worker(
    shared: &Shared,
    number: usize,
    front: &Front,
    flights: queue::Receiver<Arc<InFlight>>,
    working: Sender<()>,
) -> Arc<AtomicU64> {
    let lanes = (0..shared.store.lane_count()).filter(|lane| lane % shared.workers == number).collect();
    let (mut worker, spare) = (shared.worker(lanes), front.spare.clone());
    let rows = worker.rows();
    shared.threads.spawn(&format!("apply-{number}"), move || {
        let _working = working;
        while let Some(flight) = flights.recv() {
            worker.step(&flight);
            if let Some(done) = Arc::into_inner(flight) {
                // Fails when the decoders are gone or have enough buffers; the buffers are freed then.
                let _ = spare.try_send(done.into_spare());
            }
        }
    });
    rows
}

/// State of the sequencing thread.
struct Sequencing {
    threads: Arc<Threads>,
    pause: Arc<Pause>,
    publisher: Arc<Publisher>,
    pieces: Arc<AtomicU64>,
    workers: Vec<queue::Sender<Arc<InFlight>>>,
    stage: SequenceStage,
    /// Commands of the thread that copies a table.
    commands: Commands,
    /// True if the last input was a command, so that a piece has its turn before the next command.
    commanded: bool,
    /// True if the next piece in order is there and must not be sequenced now.
    held: bool,
}

/// What the sequencing thread does next.
#[allow(clippy::large_enum_variant, reason = "it lives for a moment, and a box would be an allocation per piece")]
enum Next {
    Piece(DecodedPiece),
    Command(Command),
    Idle,
    Over,
}

impl Sequencing {
    fn run(mut self, front: Front) {
        let input = &front.pieces;
        'pieces: while self.publisher.failure().is_none() {
            self.pause.note_rest(self.stage.is_open());
            match self.wait(input) {
                Next::Piece(piece) => self.stage.take(piece),
                Next::Command(command) => {
                    self.carry_out(command);
                    continue;
                }
                Next::Idle => self.stage.idle(),
                // The log has ended, or replay ends: then what is held back is not seen any more.
                Next::Over if self.held && !self.threads.shutdown().is_asked() => {
                    flush(&self.workers);
                    self.pause.wait_for_change(IDLE_WAIT);
                    self.stage.idle();
                }
                Next::Over => break,
            }
            if self.threads.shutdown().stops_handing_on() {
                break;
            }
            loop {
                while let Some(flight) = self.next() {
                    self.pieces.fetch_add(1, Ordering::Relaxed);
                    self.send(&flight);
                }
                if !self.stage.rewrite_waits() {
                    break;
                }
                if !self.rewrite() {
                    break 'pieces;
                }
            }
        }
        self.pause.note_end();
    }

    fn wait(&mut self, input: &queue::Receiver<DecodedPiece>) -> Next {
        // A pause keeps everything as it is.
        let takes_commands = !self.stage.is_open() && !self.pause.is_on();
        let command = |commands: &Commands| takes_commands.then(|| commands.try_next()).flatten();
        // Alternate where both are waiting: neither replay nor a copy may starve the other.
        if !std::mem::take(&mut self.commanded)
            && let Some(command) = command(&self.commands)
        {
            self.commanded = true;
            return Next::Command(command);
        }
        let next = |received| match received {
            Received::Item(piece) => Some(Next::Piece(piece)),
            Received::Ended => Some(Next::Over),
            Received::Nothing => None,
        };
        next(input.try_recv()).or_else(|| command(&self.commands).map(Next::Command)).unwrap_or_else(|| {
            flush(&self.workers);
            // A command that arrives during the wait ends it.
            next(input.recv_timeout(self.pause.sleeps(IDLE_WAIT))).unwrap_or(Next::Idle)
        })
    }

    /// Carries out a command of a table copy, at a transaction boundary.
    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Look(reply) => answer(&reply, self.stage.boundary()),
            Command::Reserve(reply) => answer(&reply, self.stage.reserve_table_id()),
            Command::Changes(piece, track) => {
                let flight = self.stage.copied(*piece, track);
                self.send(&flight);
            }
            Command::Hold(reply) => {
                answer(&reply, self.stage.boundary());
                self.hold();
            }
            Command::Quarantine(tables, reply) => {
                let done = self.stage.quarantine_unreadable(&tables);
                let number = done.map(|(flight, number)| {
                    self.send(&flight);
                    number
                });
                answer(&reply, number);
            }
            Command::Add(found, epoch, reply) => {
                let flight = self.stage.add_found(&found, epoch);
                if let Some(flight) = &flight {
                    self.send(flight);
                }
                answer(&reply, flight.is_some());
            }
            Command::Answer(said, reply) => {
                let was_taken = self.stage.takes(&said);
                let flight = self.stage.add_answer(&said);
                self.send(&flight);
                answer(&reply, was_taken);
            }
            // The hold has expired. Dropping the reply channel tells the caller.
            Command::Switch(..) | Command::Release => {}
        }
    }

    /// Takes only the copy's commands, until it takes the table's place or `HOLD_MAX` has passed.
    fn hold(&mut self) {
        flush(&self.workers);
        let until = Instant::now() + HOLD_MAX;
        while !self.threads.shutdown().stops_handing_on() {
            match self.commands.next_until(until) {
                Some(Command::Switch(table, reply)) => {
                    let (flight, number) = self.stage.switch(&table);
                    self.send(&flight);
                    answer(&reply, number);
                    return;
                }
                Some(Command::Release) | None => return,
                Some(Command::Hold(reply)) => answer(&reply, self.stage.boundary()),
                Some(other) => self.carry_out(other),
            }
        }
    }

    /// Emits the rows of a table that a statement rewrites, before the statement itself. False when replay ends here.
    fn rewrite(&mut self) -> bool {
        let Sequencing { stage, threads, workers, pieces, .. } = self;
        flush(workers);
        // The rewrite waits for the workers between two slices, so each slice is flushed.
        stage.rewrite(&|| threads.shutdown().stops_handing_on(), &mut |flight| {
            pieces.fetch_add(1, Ordering::Relaxed);
            send(workers, flight);
            flush(workers);
        })
    }

    /// The next piece in order, if it is there and may be sequenced now.
    fn next(&mut self) -> Option<Arc<InFlight>> {
        self.held = !self.stage.rewrite_waits() && !self.stage.let_through(&self.pause);
        if self.held {
            return None;
        }
        if self.stage.would_wait() {
            flush(&self.workers);
        }
        self.stage.next(|| self.threads.shutdown().stops_handing_on())
    }

    fn send(&self, flight: &Arc<InFlight>) {
        send(&self.workers, flight);
    }
}

/// Answers a command; the caller may have given up waiting.
fn answer<T>(reply: &Sender<T>, with: T) {
    let _ = reply.send(with);
}

fn send(workers: &[queue::Sender<Arc<InFlight>>], flight: &Arc<InFlight>) {
    for worker in workers {
        if !worker.has_room() {
            // The full worker may be waiting at a barrier for one that sleeps with pieces in its queue, so wake them
            // all.
            flush(workers);
        }
        // A send fails only if the worker is gone: replay breaks off.
        let _ = worker.send(Arc::clone(flight));
    }
}

/// Wakes every worker that has pieces. Needed before any wait whose end may depend on the workers.
fn flush(workers: &[queue::Sender<Arc<InFlight>>]) {
    workers.iter().for_each(queue::Sender::flush);
}
