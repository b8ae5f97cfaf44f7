//! Readers during replay: money moves between accounts, and every session counts its transactions. No reader may see
//! a partial sum, or a session's count that decreases.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apply::Pipeline;
use apply::transactions::{CommitOrder, HandOff, TransactionOptions, WaitAt};
use base::{Gtid, Tag, Uuid};
use binlog::writer::BinlogWriter;
use binlog::{
    ChecksumAlgorithm, FormatDescription, GtidEvent, QueryEvent, RowsEvent, RowsKind, TableMapEvent, row_flags,
};
use decode::trackers::{Rules, TrackerKind, TrackerOptions};
use store::{Snapshot, Store};

use crate::equivalence::KINDS;
use crate::kit::Random;
use crate::run::{Setup, chunks, closing};

const ACCOUNTS: usize = 60;
const SESSIONS: usize = 6;
const START: i32 = 1_000;

/// A log of transfers. `sessions[n]` is the number of commits of each session after transaction n.
struct Bank {
    files: Vec<(String, Vec<u8>)>,
    transactions: usize,
}

fn pair(id: usize, value: i32) -> Vec<u8> {
    [&[0xfc][..], &(id as i32).to_le_bytes(), &value.to_le_bytes()].concat()
}

fn rows(writer: &mut BinlogWriter, table: &str, kind: RowsKind, rows: &[u8]) {
    let id = if table == "accounts" { 90 } else { 91 };
    writer.table_map(&TableMapEvent {
        table_id: id,
        flags: 1,
        db: b"d",
        table: table.as_bytes(),
        column_types: &[3, 3],
        metadata: &[],
        null_bitmap: &[2],
        optional: &[],
    });
    writer.rows(&RowsEvent {
        kind,
        table_id: id,
        flags: row_flags::STMT_END,
        partition: None,
        column_count: 2,
        before_columns: if kind == RowsKind::Write { &[] } else { &[3] },
        after_columns: &[3],
        rows,
    });
}

fn query(writer: &mut BinlogWriter, session: usize, sql: &str) {
    writer.query(&QueryEvent {
        thread_id: session as u32 + 1,
        exec_time: 0,
        error_code: 0,
        db: b"d",
        status: binlog::QueryStatus::default(),
        sql: sql.as_bytes(),
    });
}

fn bank(transfers: usize, seed: u64) -> Bank {
    let mut random = Random(seed);
    let format = FormatDescription::new("9.7.4", ChecksumAlgorithm::Crc32);
    let mut writer = BinlogWriter::start_file(1, 1_700_000_000, &format);
    let mut number = 0;
    let mut begin = |parent: i64| {
        number += 1;
        let gtid = Gtid { uuid: Uuid([9; 16]), tag: Tag::EMPTY, gno: number as u64 };
        GtidEvent::new(Some(gtid), parent, number)
    };
    for (at, sql) in [
        "CREATE DATABASE d",
        "CREATE TABLE accounts (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE sessions (id INT PRIMARY KEY, v INT)",
    ]
    .into_iter()
    .enumerate()
    {
        let gtid = begin(at as i64);
        writer.transaction(&gtid, |w| query(w, 0, sql));
    }
    let gtid = begin(3);
    writer.transaction(&gtid, |w| {
        query(w, 0, "BEGIN");
        let all: Vec<u8> = (0..ACCOUNTS).flat_map(|id| pair(id, START)).collect();
        rows(w, "accounts", RowsKind::Write, &all);
        let all: Vec<u8> = (0..SESSIONS).flat_map(|id| pair(id, 0)).collect();
        rows(w, "sessions", RowsKind::Write, &all);
        w.xid(1);
    });
    let (mut balance, mut counted) = (vec![START; ACCOUNTS], vec![0; SESSIONS]);
    // The last transaction that touched each row, as known to a source with writesets.
    let (mut of_account, mut of_session) = (vec![4i64; ACCOUNTS], vec![4i64; SESSIONS]);
    for transfer in 0..transfers {
        let session = random.below(SESSIONS);
        // One account is hot.
        let from = if random.one_in(5) { 0 } else { random.below(ACCOUNTS) };
        let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = random.below(50) as i32;
        let parent = of_account[from].max(of_account[to]).max(of_session[session]);
        let gtid = begin(parent);
        (of_account[from], of_account[to], of_session[session]) =
            (transfer as i64 + 5, transfer as i64 + 5, transfer as i64 + 5);
        let moved = [
            pair(from, balance[from]),
            pair(from, balance[from] - amount),
            pair(to, balance[to]),
            pair(to, balance[to] + amount),
        ];
        let count = [pair(session, counted[session]), pair(session, counted[session] + 1)].concat();
        writer.transaction(&gtid, |w| {
            query(w, session, "BEGIN");
            rows(w, "accounts", RowsKind::Update, &moved[..2].concat());
            rows(w, "sessions", RowsKind::Update, &count);
            rows(w, "accounts", RowsKind::Update, &moved[2..].concat());
            w.xid(1);
        });
        balance[from] -= amount;
        balance[to] += amount;
        counted[session] += 1;
    }
    let files = vec![("relay-bin.000001".to_owned(), writer.take()[4..].to_vec())];
    Bank { files, transactions: transfers + 4 }
}

fn values(store: &Arc<Store>, snapshot: &Snapshot, table: &str) -> Vec<i64> {
    let Some(def) = snapshot.catalog().table("d", table).cloned() else { return Vec::new() };
    let mut all = Vec::new();
    let flow = store.scan::<()>(snapshot, &def, |row| {
        let id = i32::from_le_bytes(row.image[1..5].try_into().unwrap());
        let value = i32::from_le_bytes(row.image[5..9].try_into().unwrap());
        all.push((id, i64::from(value)));
        ControlFlow::Continue(())
    });
    let _ = flow.unwrap();
    all.sort_unstable();
    all.into_iter().map(|(_, value)| value).collect()
}

/// Reads until told to stop, counting reads that saw something.
fn read(store: &Arc<Store>, stop: &AtomicBool, looks: &AtomicU64) -> Result<(), String> {
    let (mut last, mut last_sessions) = (0, vec![0; SESSIONS]);
    while !stop.load(Ordering::Relaxed) {
        let snapshot = Snapshot::pin(store);
        let at = snapshot.sequence();
        if at < last {
            return Err(format!("the watermark went from {last} to {at}"));
        }
        last = at;
        if at < 4 {
            std::thread::yield_now();
            continue;
        }
        let accounts = values(store, &snapshot, "accounts");
        let sum: i64 = accounts.iter().sum();
        if accounts.len() != ACCOUNTS || sum != i64::from(START) * ACCOUNTS as i64 {
            return Err(format!("at {at}: {} accounts with {sum} in all", accounts.len()));
        }
        let sessions = values(store, &snapshot, "sessions");
        if sessions.iter().sum::<i64>() != at as i64 - 4 {
            return Err(format!("at {at}: sessions {sessions:?}"));
        }
        if sessions.iter().zip(&last_sessions).any(|(now, before)| now < before) {
            return Err(format!("at {at}: sessions {sessions:?} after {last_sessions:?}"));
        }
        last_sessions = sessions;
        looks.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn run(bank: &Bank, setup: &Setup, start: impl FnOnce(apply::LogSource) -> Pipeline) -> Result<u64, String> {
    let source = closing(chunks(bank.files.clone(), &mut Random(setup.workers as u64)));
    let pipeline = start(source);
    let store = Arc::clone(&pipeline.store);
    let (stop, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    let deadline = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read(&store, &stop, &looks))).collect();
        while !pipeline.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(500));
        }
        let finished = pipeline.is_finished();
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap()?;
        }
        if finished { Ok(()) } else { Err("hangs".to_owned()) }
    })?;
    let finished = pipeline.join();
    let end = store.visibility().watermark().0;
    match finished.stop {
        Some(stop) => Err(format!("stopped: {stop}")),
        None if end != bank.transactions as u64 => Err(format!("ended at {end} of {}", bank.transactions)),
        None => Ok(looks.load(Ordering::Relaxed)),
    }
}

#[test]
fn no_reader_sees_a_torn_or_backward_state() {
    let bank = bank(2_500, 1);
    let mut looks = 0;
    for (round, kind) in KINDS.into_iter().enumerate() {
        for commit_order in [CommitOrder::Preserved, CommitOrder::Free] {
            let mut random = Random(round as u64);
            let mut setup = Setup::random(&mut random);
            (setup.workers, setup.decoders, setup.memory_bytes) = ([1, 2, 5, 8, 16][round], round % 3, 1 << 20);
            let mode = TransactionOptions {
                tracker: TrackerOptions {
                    kind,
                    rules: if commit_order == CommitOrder::Free { Rules::Own } else { Rules::Stock },
                    history_size: 1_000_000,
                },
                wait: if round % 2 == 0 { WaitAt::Worker } else { WaitAt::Scheduler },
                commit_order,
                hand_off: if round % 2 == 1 { HandOff::Batch } else { HandOff::Event },
                worker_queue_events: 64,
            };
            let start = |source| Pipeline::start_transactions(source, setup.options(), mode, 16 << 20);
            looks += run(&bank, &setup, start).unwrap_or_else(|e| panic!("{} workers, {mode:?}: {e}", setup.workers));
        }
        let mut setup = Setup::random(&mut Random(round as u64 + 50));
        setup.memory_bytes = 1 << 20;
        looks += run(&bank, &setup, |source| setup.start(source)).unwrap_or_else(|e| panic!("rows: {e}"));
    }
    assert!(looks > 100, "{looks}");
}

/// The readers notice transactions that run at once and must not.
#[test]
fn planted_transfers_called_independent_are_noticed() {
    let mut noticed = 0;
    for seed in 0..6 {
        let mut bank = bank(1_500, seed + 10);
        for (_, bytes) in &mut bank.files {
            forget_parents(bytes);
        }
        let mut setup = Setup::random(&mut Random(seed));
        (setup.workers, setup.decoders, setup.memory_bytes) = (8, 2, 1 << 20);
        setup.check = store::CheckImages::Off;
        let tracker = TrackerOptions { kind: TrackerKind::CommitOrder, ..TrackerOptions::default() };
        let mode = TransactionOptions { tracker, ..TransactionOptions::default() };
        let start = |source| Pipeline::start_transactions(source, setup.options(), mode, 16 << 20);
        noticed += u64::from(run(&bank, &setup, start).is_err());
    }
    assert!(noticed > 0);
}

/// Makes the load the parent of every transfer.
fn forget_parents(bytes: &mut [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 9..at + 13].try_into().unwrap()) as usize;
        if bytes[at + 4] == binlog::event_type::GTID {
            // flags 1, uuid 16, gno 8, kind of timestamp 1.
            let parent = at + 19 + 26;
            let number = i64::from_le_bytes(bytes[parent..parent + 8].try_into().unwrap());
            bytes[parent..parent + 8].copy_from_slice(&number.min(4).to_le_bytes());
            let sum = crc32fast::hash(&bytes[at..at + len - 4]);
            bytes[at + len - 4..at + len].copy_from_slice(&sum.to_le_bytes());
        }
        at += len;
    }
}
