//! The source: a growing history, sent from any GTID set on.
//!
//! In: the history. Out: events as a dump thread sends them. Never here: an event of a transaction that the replica
//! named as executed, or of one that is not committed yet.

use std::collections::BTreeMap;

use base::{GtidSet, Random};
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, FormatDescription};
use testkit::history::History;
use testkit::log::{count_events, split};

/// One file of the source's log.
struct LogFile {
    name: String,
    format: Vec<u8>,
    /// Events of each transaction, and the transaction's index in the history.
    transactions: Vec<(usize, Vec<Vec<u8>>)>,
    checksum: ChecksumAlgorithm,
}

/// The source's log, and how much of it is committed.
pub struct Source {
    files: Vec<LogFile>,
    /// Number of committed transactions.
    pub committed: usize,
    total: usize,
}

/// A connection: what it sends, each with the transaction that must be committed first.
pub struct Stream {
    items: Vec<(usize, Item)>,
    next: usize,
}

#[derive(Clone, Copy)]
enum Item {
    File(usize),
    Format(usize),
    /// File, transaction in it, event in that.
    Event(usize, usize, usize),
}

/// The next thing sent.
pub enum Sent<'a> {
    /// A new file begins, with this name.
    File(&'a str),
    /// Bytes of an event.
    Event(&'a [u8]),
}

impl Source {
    /// A source that will write this history, in files whose size the seed chooses.
    #[must_use]
    pub fn new(history: &History, mut random: Random, checksum: ChecksumAlgorithm) -> Source {
        let mut files = Vec::new();
        let mut next = 0;
        while next < history.transactions.len() {
            let name = format!("binlog.{:06}", files.len() + 1);
            let format = FormatDescription::new("9.7.4", checksum);
            let mut writer = BinlogWriter::start_file(1, 1_700_000_000, &format);
            let format = writer.take()[4..].to_vec();
            let mut transactions = Vec::new();
            let end = (next + 1 + random.below(60)).min(history.transactions.len());
            for (index, transaction) in history.transactions.iter().enumerate().take(end).skip(next) {
                transaction.write(&mut writer);
                transactions.push((index, split(&writer.take()).into_iter().map(<[u8]>::to_vec).collect()));
            }
            files.push(LogFile { name, format, transactions, checksum });
            next = end;
        }
        Source { files, committed: 0, total: history.transactions.len() }
    }

    /// Commits this many more transactions.
    pub fn commit(&mut self, more: usize) {
        self.committed = (self.committed + more).min(self.total);
    }

    /// True if everything is committed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.committed == self.total
    }

    /// Starts sending what is not in the set.
    #[must_use]
    pub fn connect(&self, without: &GtidSet, history: &History) -> Stream {
        let mut items = Vec::new();
        for (f, file) in self.files.iter().enumerate() {
            let mut begun = false;
            for (t, (index, events)) in file.transactions.iter().enumerate() {
                if history.transactions[*index].gtid.is_some_and(|gtid| without.contains(&gtid)) {
                    continue;
                }
                if !begun {
                    items.extend([(*index, Item::File(f)), (*index, Item::Format(f))]);
                    begun = true;
                }
                items.extend((0..events.len()).map(|e| (*index, Item::Event(f, t, e))));
            }
        }
        Stream { items, next: 0 }
    }

    /// The next event; None while there is none.
    pub fn next(&self, stream: &mut Stream) -> Option<Sent<'_>> {
        let (index, item) = *stream.items.get(stream.next)?;
        if index >= self.committed {
            return None;
        }
        stream.next += 1;
        Some(match item {
            Item::File(f) => Sent::File(&self.files[f].name),
            Item::Format(f) => Sent::Event(&self.files[f].format),
            Item::Event(f, t, e) => Sent::Event(&self.files[f].transactions[t].1[e]),
        })
    }

    /// Events of the log by type, including those in payloads, without the heads of files.
    #[must_use]
    pub fn count(&self) -> BTreeMap<u8, u64> {
        let mut counts = BTreeMap::new();
        for file in &self.files {
            for event in file.transactions.iter().flat_map(|(_, events)| events) {
                count_events(event, file.checksum, &mut counts);
            }
        }
        counts
    }
}
