//! Readers during replay: money moves between accounts, and every session counts its transactions. No reader may see
//! a partial sum, or a session's count that decreases.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apply::Pipeline;
use apply::transactions::{CommitOrder, HandOff, TransactionOptions, WaitAt};
use base::{Random, Uuid};
use decode::trackers::{Rules, TrackerKind, TrackerOptions};
use store::{Snapshot, Store};
use testkit::log::{Author, INT, Row, inserts, int, update};
use testkit::stamps::KINDS;

use crate::run::{Setup, chunks, closing};

const ACCOUNTS: usize = 60;
const SESSIONS: usize = 6;
const START: i32 = 1_000;

/// A log of transfers. `sessions[n]` is the number of commits of each session after transaction n.
struct Bank {
    files: Vec<(String, Vec<u8>)>,
    transactions: usize,
}

fn row(id: usize, value: i32) -> Row {
    vec![int(id as i32), int(value)]
}

fn bank(transfers: usize, seed: u64) -> Bank {
    let mut random = Random::new(seed);
    let mut author = Author::new(Uuid([9; 16]));
    author.sql("CREATE DATABASE d");
    author.table("accounts", &[INT; 2], "id INT PRIMARY KEY, v INT");
    author.table("sessions", &[INT; 2], "id INT PRIMARY KEY, v INT");
    let rows = |table, count, value| inserts(table, (0..count).map(|id| row(id, value)));
    author.rows(&[rows("accounts", ACCOUNTS, START), rows("sessions", SESSIONS, 0)]);
    let (mut balance, mut counted) = (vec![START; ACCOUNTS], vec![0; SESSIONS]);
    // The last transaction that touched each row, as known to a source with writesets.
    let (mut of_account, mut of_session) = (vec![author.last; ACCOUNTS], vec![author.last; SESSIONS]);
    for _ in 0..transfers {
        let session = random.below(SESSIONS);
        // One account is hot.
        let from = if random.one_in(5) { 0 } else { random.below(ACCOUNTS) };
        let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = random.below(50);
        let add = |table, id: usize, value: &mut i32, amount: i32| {
            *value += amount;
            update(table, &row(id, *value - amount), &row(id, *value))
        };
        let changes = [
            add("accounts", from, &mut balance[from], -amount),
            add("sessions", session, &mut counted[session], 1),
            add("accounts", to, &mut balance[to], amount),
        ];
        author.session = session as u32 + 1;
        let parent = of_account[from].max(of_account[to]).max(of_session[session]);
        let number = author.rows_after(parent, &changes);
        (of_account[from], of_account[to], of_session[session]) = (number, number, number);
    }
    let transactions = author.last as usize;
    Bank { files: vec![("relay-bin.000001".to_owned(), author.events())], transactions }
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
    let source = closing(chunks(bank.files.clone(), &mut Random::new(setup.workers as u64)));
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
            let mut random = Random::new(round as u64);
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
        let mut setup = Setup::random(&mut Random::new(round as u64 + 50));
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
        let mut setup = Setup::random(&mut Random::new(seed));
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
