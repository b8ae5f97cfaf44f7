//! Recorded logs: those in `tests/logs`, and those named by `SLIPSTREAM_TEST_LOGS` (paths separated by `:`, in
//! order).
//!
//! The oracle here remembers the last transaction of every stored key, byte by byte: equal bytes are equal values in
//! any collation.

use std::collections::HashMap;
use std::path::Path;

use base::SequenceNumber;
use catalog::{Identity, TableId};
use decode::OpKind;
use decode::trackers::{Extractor, Facts, Rules, Tracker, TrackerKind, TrackerOptions};
use testkit::log::recorded_logs;
use testkit::stamps::pieces;

/// Longest log read at once, in bytes.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// A log without its magic number.
fn read(path: &Path) -> Option<Vec<u8>> {
    let len = std::fs::metadata(path).ok()?.len();
    if len > LOG_BYTES_MAX {
        eprintln!("{} is left out: {len} bytes", path.display());
        return None;
    }
    std::fs::read(path).ok()?.strip_prefix(b"\xfebin").map(<[u8]>::to_vec)
}

fn trackers() -> Vec<Tracker> {
    let kinds = [
        (TrackerKind::Source, Rules::Stock),
        (TrackerKind::CommitOrder, Rules::Own),
        (TrackerKind::Writeset, Rules::Own),
        (TrackerKind::Writeset, Rules::Stock),
        (TrackerKind::WritesetSession, Rules::Own),
        (TrackerKind::Database, Rules::Own),
    ];
    kinds
        .into_iter()
        .map(|(kind, rules)| {
            Tracker::new(TrackerOptions { kind, rules, ..TrackerOptions::default() }, SequenceNumber::ZERO)
        })
        .collect()
}

/// Checks one sequence of files; returns the number of transactions, and each tracker's sum of distances to parents.
fn check(what: &str, files: &[Vec<u8>]) -> (u64, Vec<u64>) {
    let mut trackers = trackers();
    let mut extractor = Extractor::default();
    let mut last_of: HashMap<(TableId, Vec<u8>), u64> = HashMap::new();
    let mut last_keyless: HashMap<TableId, (u64, u64)> = HashMap::new();
    let (mut new_file, mut transactions, mut rows) = (false, 0u64, 0u64);
    let stopped = pieces(files, Rules::Own, |piece, before| {
        let after = piece.catalogs.last().map(|(_, catalog)| catalog);
        let decoded = &piece.decoded;
        let mut facts = Facts::with_claims(decoded, &mut extractor, before, after);
        new_file |= facts.new_file;
        if decoded.transactions.is_empty() {
            return;
        }
        facts.new_file = std::mem::take(&mut new_file);
        let number = piece.first.0;
        let (mut needed, mut keyed) = (0, 0);
        for op in decoded.lanes.iter().flatten().chain(&decoded.barrier) {
            let def = &decoded.shapes[op.shape as usize].plan.def;
            rows += 1;
            if def.identity == Identity::WholeImage {
                // Inserts are independent of each other; sources let such transactions overlap.
                let comes = op.kind == OpKind::AddOne;
                let (came, went) = last_keyless.entry(def.id).or_default();
                let earlier = if comes { *went } else { (*came).max(*went) };
                needed = needed.max(if earlier < number { earlier } else { 0 });
                *(if comes { came } else { went }) = number;
                continue;
            }
            let key = (def.id, decoded.bytes(op.key).to_vec());
            let earlier = last_of.insert(key, number).filter(|earlier| *earlier < number).unwrap_or(0);
            (needed, keyed) = (needed.max(earlier), keyed.max(earlier));
        }
        for (at, tracker) in trackers.iter_mut().enumerate() {
            let stamp = tracker.begin(&facts);
            let needed = if matches!(at, 0 | 1 | 3) { keyed } else { needed };
            assert!(
                stamp.last_committed >= needed,
                "{what}, tracker {at}: transaction {number} is stamped {stamp:?} and touches a row of {needed}"
            );
        }
        transactions += 1;
    });
    if let Some(stop) = stopped {
        eprintln!("{what}: read up to {stop}");
    }
    let distances: Vec<u64> = trackers.iter().map(|tracker| tracker.counts().distance).collect();
    if transactions > 0 {
        let mean: Vec<String> = distances.iter().map(|d| format!("{:.1}", *d as f64 / transactions as f64)).collect();
        eprintln!("{what}: {transactions} transactions, {rows} rows, mean distances to parents {}", mean.join(" "));
    }
    (transactions, distances)
}

#[test]
fn logs_of_every_kind() {
    let mut all = 0;
    for path in recorded_logs() {
        let Some(bytes) = read(&path) else { continue };
        all += check(&path.file_name().unwrap().to_string_lossy(), &[bytes]).0;
    }
    assert!(all > 100, "{all}");
}

#[test]
fn named_logs() {
    let Ok(paths) = std::env::var("SLIPSTREAM_TEST_LOGS") else {
        testkit::skipped("SLIPSTREAM_TEST_LOGS names no logs");
        return;
    };
    let files: Vec<Vec<u8>> = paths.split(':').filter_map(|path| read(Path::new(path))).collect();
    let (transactions, _) = check(&paths, &files);
    assert!(transactions > 0);
}
