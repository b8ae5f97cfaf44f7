//! One life of the replica: one process, from opening its folder to its end.
//!
//! In: the seed, the life's number, how far earlier lives got. Out: lines `at …` about its progress, and how it ended
//! (the exit code). Never here: the effects of a crash (the parent makes them).

use std::path::Path;
use std::sync::Arc;

use base::Random;
use binlog::ChecksumAlgorithm;
use observe::LedgerSnapshot;
use store::Snapshot;
use testkit::history::{Flavour, History};
use testkit::visible::{self, Seen};

use crate::replica::{Fault, Planted, Replica, Sizes};
use crate::source::Source;

/// How far lives got: all that is known when the next one starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Transactions the source has committed.
    pub committed: usize,
    /// Last transaction of the newest cut that was reported durable.
    pub cut: u64,
    /// Number of the source's transactions that were acknowledged: durable in the relay log.
    pub acknowledged: usize,
    /// The watermark.
    pub visible: u64,
}

impl std::fmt::Display for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{},{},{}", self.committed, self.cut, self.acknowledged, self.visible)
    }
}

impl std::str::FromStr for Known {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Known, Self::Err> {
        let numbers: Result<Vec<u64>, _> = text.split(',').map(str::parse).collect();
        let numbers = numbers?;
        let at = |i: usize| numbers.get(i).copied().unwrap_or(0);
        Ok(Known { committed: at(0) as usize, cut: at(1), acknowledged: at(2) as usize, visible: at(3) })
    }
}

/// How a life is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The process is killed after this many steps.
    Killed(u64),
    /// The process is asked to stop after this many steps.
    Stopped(u64),
    /// The process ends when the source's whole history is visible.
    Done,
}

/// Ended as planned.
pub const EXIT_WELL: i32 = 0;
/// Stopped because the disk failed.
pub const EXIT_DISK: i32 = 8;
/// Stopped at a damaged relay log.
pub const EXIT_DAMAGED: i32 = 7;
/// A checker found a fault.
pub const EXIT_WRONG: i32 = 1;

/// The history of a seed.
#[must_use]
pub fn history(seed: u64) -> (History, ChecksumAlgorithm) {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut flavour = Flavour::of(&mut random);
    flavour.duplicates = false;
    flavour.transactions = 30 + random.below(90);
    let checksum = if random.one_in(5) { ChecksumAlgorithm::None } else { ChecksumAlgorithm::Crc32 };
    (History::with(Random::new(seed), flavour), checksum)
}

/// A running life.
struct Life {
    history: History,
    source: Source,
    random: Random,
    known: Known,
    replica: Replica,
    pinned: Vec<Snapshot>,
    /// Weight of each step: some stages are slow in some lives.
    weights: [usize; STEPS],
    held: bool,
    /// True if the relay log may be damaged: every event has a checksum, so it will be noticed.
    may_be_damaged: bool,
    is_damaged: bool,
}

const STEPS: usize = 15;

/// Runs a life; returns the exit code.
#[must_use]
pub fn live(folder: &Path, seed: u64, number: u64, known: Known, fate: Fate, planted: Planted) -> i32 {
    let (history, checksum) = history(seed);
    let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
    let mut sizes = Sizes::random(&mut random);
    if planted == Planted::EarlyPublish {
        sizes.workers = sizes.workers.max(2);
    }
    let mut source = Source::new(&history, Random::new(seed), checksum);
    source.committed = known.committed;
    let result = Replica::open(folder, sizes, planted).and_then(|replica| {
        // The last life must reach its end.
        let may_be_damaged = checksum == ChecksumAlgorithm::Crc32 && fate != Fate::Done;
        let weights = std::array::from_fn(|_| 1 + random.below(8));
        Life {
            history,
            source,
            random,
            known,
            replica,
            pinned: Vec::new(),
            weights,
            held: false,
            may_be_damaged,
            is_damaged: false,
        }
        .run(fate)
    });
    match result {
        Ok(()) => EXIT_WELL,
        Err(Fault::Disk(text)) => {
            println!("disk {text}");
            EXIT_DISK
        }
        Err(Fault::Damaged(text)) => {
            println!("damage {text}");
            EXIT_DAMAGED
        }
        Err(Fault::Wrong(text)) => {
            eprintln!("{text}");
            EXIT_WRONG
        }
    }
}

impl Life {
    fn run(mut self, fate: Fate) -> Result<(), Fault> {
        self.check_start()?;
        self.connect()?;
        let mut steps = 0u64;
        loop {
            steps += 1;
            match fate {
                Fate::Killed(at) if steps > at => {
                    let own = rustix::process::getpid();
                    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
                }
                Fate::Stopped(at) if steps > at => return self.stop(),
                Fate::Done if self.is_done() => return self.finish(),
                _ => {}
            }
            if steps > 400_000 {
                return Err(Fault::Wrong(format!("no end in {steps} steps; {}", self.known)));
            }
            if let Err(fault) = self.step() {
                let fault = self.at_end_of(fault);
                if self.random.one_in(2) {
                    self.replica.end_receiving();
                }
                return Err(fault);
            }
            self.note();
        }
    }

    /// Checks that everything durable is there.
    fn check_start(&mut self) -> Result<(), Fault> {
        let wrong = |text: String| Err(Fault::Wrong(format!("at the start: {text}")));
        if self.replica.recovered < self.known.cut {
            return wrong(format!(
                "the store is at {}, a cut at {} was durable",
                self.replica.recovered, self.known.cut
            ));
        }
        let acknowledged = &self.history.states[self.known.acknowledged].executed;
        let lost = acknowledged.subtract(&self.replica.retrieved_at_start);
        if !lost.is_empty() {
            return wrong(format!("{lost} was acknowledged and is gone"));
        }
        self.known.visible = 0;
        self.look().map_err(|fault| match fault {
            Fault::Wrong(text) => Fault::Wrong(format!("at the start: {text}")),
            disk => disk,
        })
    }

    fn connect(&mut self) -> Result<(), Fault> {
        self.replica.connect(&self.source, &self.history)
    }

    /// Takes one step of one stage.
    fn step(&mut self) -> Result<(), Fault> {
        let mut dice = self.random.below(self.weights.iter().sum::<usize>());
        let chosen = self.weights.iter().position(|weight| {
            let here = dice < *weight;
            dice = dice.wrapping_sub(*weight);
            here
        });
        match chosen.unwrap_or(0) {
            0 => self.source.commit(self.random.below(4)),
            1 | 2 => {
                for _ in 0..1 + self.random.below(30) {
                    if !self.replica.receive(&self.source)? {
                        break;
                    }
                }
            }
            3 => drop(self.replica.flush()?),
            4 => self.sync()?,
            5 => drop(self.replica.split()?),
            6 => drop(self.replica.decode(&mut self.random)),
            7 => drop(self.replica.take_decoded(&mut self.random)),
            8 => drop(self.replica.sequence()),
            9 | 10 => {
                let worker = self.random.below(self.replica.workers());
                // A row that is visible too early is there between two steps of the workers.
                if self.replica.work(worker) && self.random.one_in(4) {
                    self.look()?;
                }
            }
            11 => {
                if self.replica.cut()? {
                    self.look()?;
                }
            }
            12 => {
                if self.random.one_in(4) && self.replica.compact()? {
                    self.look()?;
                }
            }
            13 => self.read()?,
            _ => self.disturb()?,
        }
        if self.replica.store.visibility().watermark().0 != self.known.visible {
            self.look()?;
        }
        let failure = self.replica.publisher.failure();
        failure.map_or(Ok(()), |stop| Err(Fault::of_stop(&stop)))
    }

    fn sync(&mut self) -> Result<(), Fault> {
        let durable = self.replica.sync_relay()?;
        if self.is_damaged {
            // A sync promises this; it does not outlive damage.
            return Ok(());
        }
        while self.known.acknowledged < self.source.committed
            && self.history.states[self.known.acknowledged + 1].executed.is_subset_of(&durable)
        {
            self.known.acknowledged += 1;
        }
        Ok(())
    }

    /// Reads with a new snapshot, or again with a pinned one.
    fn read(&mut self) -> Result<(), Fault> {
        match self.random.below(4) {
            0 if self.pinned.len() < 3 => self.pinned.push(Snapshot::pin(&self.replica.store)),
            1 if !self.pinned.is_empty() => drop(self.pinned.swap_remove(self.random.below(self.pinned.len()))),
            2 => self.look()?,
            _ if !self.pinned.is_empty() => {
                let snapshot = &self.pinned[self.random.below(self.pinned.len())];
                let looked = visible::compare(&self.replica.store, snapshot, &self.history.states);
                if let Err(text) = looked {
                    return Err(Fault::Wrong(format!("a pinned snapshot, {text}")));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Occasional disturbances.
    fn disturb(&mut self) -> Result<(), Fault> {
        match self.random.below(12) {
            0 => self.connect()?,
            1 => {
                self.replica.publisher.hold();
                self.held = true;
            }
            2 | 3 => self.release()?,
            4 | 5 => self.replica.cut_state.ask(),
            6 => self.replica.write_state()?,
            7 if self.may_be_damaged && self.random.one_in(4) => self.damage()?,
            _ => {}
        }
        Ok(())
    }

    fn damage(&mut self) -> Result<(), Fault> {
        // Announced beforehand: the plan may kill in the middle of it.
        self.known.acknowledged = 0;
        self.note();
        self.is_damaged |= self.replica.damage(&mut self.random).map_err(|error| Fault::Disk(error.to_string()))?;
        Ok(())
    }

    fn release(&mut self) -> Result<(), Fault> {
        self.replica.publisher.release();
        self.held = false;
        self.look()
    }

    /// Checks that the visible state is a prefix, no shorter than before and no longer than what the source committed.
    fn look(&mut self) -> Result<(), Fault> {
        let snapshot = Snapshot::pin(&self.replica.store);
        let looked = visible::compare(&self.replica.store, &snapshot, &self.history.states).map_err(Fault::Wrong)?;
        if let Seen::Equal(at) = looked {
            if (at as u64) < self.known.visible {
                return Err(Fault::Wrong(format!("the watermark went back from {} to {at}", self.known.visible)));
            }
            if at > self.source.committed {
                return Err(Fault::Wrong(format!("{at} are visible, {} committed", self.source.committed)));
            }
        }
        self.known.visible = snapshot.sequence();
        // Every state is a prefix of the history, so no row contradicts the log.
        let drift = self.replica.store.disk().map(|disk| disk.drift()).unwrap_or_default();
        if !drift.is_empty() {
            return Err(Fault::Wrong(format!("rows are said to contradict the log: {drift:?}")));
        }
        Ok(())
    }

    /// Tells the parent, in case this process is killed.
    fn note(&mut self) {
        let known =
            Known { committed: self.source.committed, cut: *self.replica.durable.lock().unwrap(), ..self.known };
        if known != self.known {
            self.known = known;
        }
        let done = *self.replica.done.lock().unwrap();
        println!("at {known} {},{},{},{},{}", done.cuts, done.spills, done.compactions, done.purged, done.barriers);
    }

    fn is_done(&self) -> bool {
        self.source.is_done() && self.known.visible as usize + 1 == self.history.states.len()
    }

    /// The disk failed: still nothing wrong may be visible. A worse fault takes precedence.
    fn at_end_of(&mut self, fault: Fault) -> Fault {
        let found = if let Fault::Damaged(_) = &fault { self.is_damaged && self.is_found() } else { true };
        if let (Fault::Wrong(text), _) | (Fault::Damaged(text), false) = (&fault, found) {
            let whose = if self.is_damaged { "damaged in this life" } else { "not damaged in this life" };
            return Fault::Wrong(format!("{text} (watermark {}, {whose})", self.known.visible));
        }
        for worker in (0..self.replica.workers()).cycle().take(200) {
            self.replica.work(worker);
        }
        self.note();
        match self.look() {
            Err(Fault::Wrong(text)) => Fault::Wrong(format!("behind a failure: {text}")),
            _ => fault,
        }
    }

    /// True if the relay log reports its damage, or the damaged file was purged after it was read. In that case the
    /// program ends with exit 7, and its next start finds nothing wrong.
    fn is_found(&self) -> bool {
        self.replica.stopped_in_a_purged_file()
            || !matches!(self.replica.is_damaged(), Ok(false) | Err(Fault::Wrong(_)))
    }

    /// Lets everything in flight become visible, then stops cleanly.
    fn stop(mut self) -> Result<(), Fault> {
        if let Err(fault) = self.drain() {
            return Err(self.at_end_of(fault));
        }
        self.note();
        let Life { replica, pinned, .. } = self;
        drop(pinned);
        replica.stop()
    }

    fn drain(&mut self) -> Result<(), Fault> {
        self.release()?;
        self.replica.flush()?;
        loop {
            let mut moved = self.replica.split()?;
            moved |= self.replica.decode(&mut self.random);
            moved |= self.replica.take_decoded(&mut self.random);
            moved |= self.replica.sequence();
            for worker in 0..self.replica.workers() {
                moved |= self.replica.work(worker);
            }
            moved |= self.replica.cut()?;
            moved |= self.replica.compact()?;
            self.look()?;
            if let Some(stop) = self.replica.publisher.failure() {
                return Err(Fault::of_stop(&stop));
            }
            if !moved {
                return Ok(());
            }
        }
    }

    /// The end: every event is accounted for exactly once, over all lives together.
    fn finish(mut self) -> Result<(), Fault> {
        self.drain()?;
        let ledger = self.replica.ledger.snapshot(binlog::event_type::name);
        check_ledger(&ledger, &self.source).map_err(Fault::Wrong)?;
        if self.replica.gate.used() != 0 {
            return Err(Fault::Wrong(format!("{} bytes are still held", self.replica.gate.used())));
        }
        if Arc::strong_count(&self.replica.store) < 2 {
            return Err(Fault::Wrong("nobody holds the store".into()));
        }
        self.stop()
    }
}

/// Checks that every event of the log was seen once and has a fate; heads of files come again with every connection.
fn check_ledger(ledger: &LedgerSnapshot, source: &Source) -> Result<(), String> {
    use binlog::event_type::{FORMAT_DESCRIPTION, PREVIOUS_GTIDS, ROTATE, STOP};
    if let Some(row) = ledger.unbalanced().next() {
        return Err(format!("the ledger does not add up: {row:?}"));
    }
    let heads = [FORMAT_DESCRIPTION, PREVIOUS_GTIDS, ROTATE, STOP];
    let rows = ledger.rows.iter().filter(|row| !heads.contains(&row.event_type));
    let seen: std::collections::BTreeMap<u8, u64> = rows.map(|row| (row.event_type, row.counts.seen)).collect();
    let expected = source.count();
    if seen == expected { Ok(()) } else { Err(format!("the ledger saw {seen:?}, the log holds {expected:?}")) }
}
