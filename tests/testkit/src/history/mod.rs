//! Random histories: a log as a source would write it, and its meaning to a serial reader.
//!
//! In: a seed. Out: relay files, and the state after every transaction. Never here: the code under test.

mod event;
mod model;
mod table;

use base::{Gtid, GtidSet, Random, Tag, Uuid};
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, FormatDescription, GtidEvent};

pub use event::Event;
use model::Model;
pub use table::{Column, Shape, Table, row_digest, shapes};

/// One transaction of the log.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub gtid: Option<Gtid>,
    pub events: Vec<Event>,
    pub compressed: bool,
    /// Its GTID occurs earlier in the log: it must have no effect.
    pub duplicate: bool,
    /// last_committed and sequence_number of its Gtid event.
    pub clock: (i64, i64),
}

impl Transaction {
    /// Appends its events.
    pub fn write(&self, writer: &mut BinlogWriter) {
        let mut gtid = GtidEvent::new(self.gtid, self.clock.0, self.clock.1);
        gtid.immediate_commit_timestamp_us = 1_700_000_000_000_000;
        let events = |writer: &mut BinlogWriter| self.events.iter().for_each(|event| event.write(writer));
        if self.compressed {
            writer.compressed_transaction(&gtid, events).unwrap();
        } else {
            writer.transaction(&gtid, events);
        }
    }
}

/// Clock of a source that lets nothing run concurrently.
const SERIAL_CLOCK: (i64, i64) = (0, 1);

/// State after a transaction.
#[derive(Clone, Debug)]
pub struct State {
    pub digest: u64,
    pub executed: GtidSet,
    pub tables: Vec<String>,
}

/// Features that a history may contain.
#[derive(Clone, Copy, Debug)]
pub struct Flavour {
    pub transactions: usize,
    pub compressed: bool,
    pub partial_images: bool,
    pub ddl: bool,
    pub duplicates: bool,
    pub huge: bool,
}

impl Flavour {
    /// Row changes only, whole images, nothing compressed.
    pub const PLAIN: Flavour = Flavour {
        transactions: 60,
        compressed: false,
        partial_images: false,
        ddl: false,
        duplicates: false,
        huge: false,
    };

    pub fn of(random: &mut Random) -> Flavour {
        Flavour {
            transactions: 40 + random.below(160),
            compressed: random.one_in(2),
            partial_images: random.one_in(2),
            ddl: !random.one_in(4),
            duplicates: random.one_in(2),
            huge: random.one_in(3),
        }
    }
}

/// A log and its meaning.
pub struct History {
    pub transactions: Vec<Transaction>,
    /// `states[n]` is the state after the n-th transaction; `states[0]` is empty.
    pub states: Vec<State>,
    pub random: Random,
    /// Every event carries a checksum.
    pub always_checksums: bool,
}

impl History {
    pub fn generate(seed: u64) -> History {
        let mut random = Random::new(seed);
        let flavour = Flavour::of(&mut random);
        History::with(random, flavour)
    }

    pub fn with(random: Random, flavour: Flavour) -> History {
        let mut model = Model::new(random, flavour);
        let mut history = History {
            transactions: Vec::new(),
            states: vec![model.state()],
            random: Random::new(model.random.any()),
            always_checksums: false,
        };
        let opening = ["CREATE DATABASE d", "CREATE DATABASE e"];
        for sql in opening {
            history.push(&mut model, |_| vec![Event::Query { db: String::new(), sql: sql.into() }]);
        }
        for shape in shapes() {
            history.push(&mut model, |model| model.create(shape.clone()));
        }
        while history.transactions.len() < flavour.transactions {
            if model.flavour.duplicates && model.random.one_in(12) {
                // Repeats an earlier one, as after a reconnect.
                let at = model.random.below(history.transactions.len());
                let mut again = history.transactions[at].clone();
                again.duplicate = true;
                history.transactions.push(again);
                history.states.push(model.state());
                continue;
            }
            let dice = model.random.below(100);
            history.push(&mut model, |model| match dice {
                0..10 if model.flavour.ddl => model.ddl(),
                10..14 if model.flavour.ddl => model.create_select(),
                14..17 => vec![
                    Event::Query { db: String::new(), sql: "BEGIN".into() },
                    Event::Query { db: String::new(), sql: "COMMIT".into() },
                ],
                17..20 if model.flavour.huge => model.changes(120),
                _ => {
                    let statements = 1 + model.random.below(5);
                    model.changes(statements)
                }
            });
        }
        history
    }

    fn push(&mut self, model: &mut Model, write: impl FnOnce(&mut Model) -> Vec<Event>) {
        let gtid = model.next_gtid();
        let events = write(model);
        // Sources compress transactions of row changes, including CREATE … SELECT.
        let alone = matches!(events.as_slice(), [Event::Query { .. }]);
        let compressed = model.flavour.compressed && !alone && model.random.one_in(2);
        model.executed.add(gtid);
        self.transactions.push(Transaction {
            gtid: Some(gtid),
            events,
            compressed,
            duplicate: false,
            clock: SERIAL_CLOCK,
        });
        self.states.push(model.state());
    }

    /// Inserts a transaction of other events before number `at`, with a GTID of its own; `table` is what it creates.
    pub fn plant(&mut self, at: usize, events: Vec<Event>, table: Option<&str>) -> Gtid {
        let gno = 1 + self.transactions.iter().filter(|t| t.gtid.is_some_and(|g| g.uuid == PLANTED)).count() as u64;
        let gtid = Gtid { uuid: PLANTED, tag: Tag::EMPTY, gno };
        let compressed = self.random.one_in(3) && !matches!(events.as_slice(), [Event::Query { .. }]);
        self.transactions
            .insert(at, Transaction { gtid: Some(gtid), events, compressed, duplicate: false, clock: SERIAL_CLOCK });
        self.states.insert(at + 1, self.states[at].clone());
        for state in &mut self.states[at + 1..] {
            state.executed.add(gtid);
            state.tables.extend(table.map(str::to_string));
            state.tables.sort();
        }
        gtid
    }

    /// The relay files: name, and bytes after the magic number.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut random = self.random.clone();
        let mut files = Vec::new();
        let mut next = 0;
        while next < self.transactions.len() || files.is_empty() {
            let checksum = |random: &mut Random| {
                let without = random.one_in(2) && !self.always_checksums;
                if without { ChecksumAlgorithm::None } else { ChecksumAlgorithm::Crc32 }
            };
            let format = FormatDescription::new("9.7.4", checksum(&mut random));
            let mut writer = BinlogWriter::start_file(1, 1_700_000_000, &format);
            writer.previous_gtids(&GtidSet::new());
            let end = (next + 1 + random.below(80)).min(self.transactions.len());
            for transaction in self.transactions.get(next..end).unwrap_or(&[]) {
                if random.one_in(25) {
                    // As in a relay log when the source's file changes.
                    writer.rotate(b"other-bin.000009", 4);
                    writer.format_description(&FormatDescription::new("9.7.4", checksum(&mut random)), 0);
                }
                transaction.write(&mut writer);
            }
            writer.rotate(b"next", 4);
            files.push((format!("relay-bin.{:06}", files.len() + 1), writer.take()[4..].to_vec()));
            next = end;
        }
        files
    }
}

/// Source of planted transactions.
const PLANTED: Uuid = Uuid([0xEE; 16]);
