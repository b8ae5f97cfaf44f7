//! A huge transaction in the middle of small ones, through the real program: memory, lanes, readers, kills.
//!
//! Short: 200,000 rows, more than a slice. Soak: 1,000,000 rows of each kind, and 10,000,000 inserted.

use std::path::{Path, PathBuf};

use base::GtidSet;
use serde_json::Value;
use whole_program_tests::replica::executed;
use whole_program_tests::{Replica, folder, length, slipstream, soak, wait_for};

const SMALL_ROWS: u64 = 1_000;
const SMALL_TRANSACTIONS: u64 = 4_000;
/// `--memory` of the measured replays in bytes, and how far resident memory may exceed it.
const MEMORY_BYTES: u64 = 512 << 20;
const ABOVE: f64 = 1.2;

/// Makes a log with a huge transaction in the middle; all.index lists all its files. Returns the huge one's GTID.
fn made(change: &str, huge_rows: u64) -> (PathBuf, GtidSet) {
    let out = folder("huge-log");
    let text = out.display().to_string();
    let (transactions, rows) = (format!("--transactions={SMALL_TRANSACTIONS}"), format!("--rows={SMALL_ROWS}"));
    let (change, huge) = (format!("--change={change}"), format!("--huge-rows={huge_rows}"));
    let ran = slipstream(&["lab", "make", "--out", &text, &transactions, "huge", &rows, &change, &huge]);
    let said = &ran.expect(0, &["the huge transaction is"]).out;
    let gtid = said.split("transaction is ").nth(1).and_then(|text| text.split(',').next()).unwrap();
    let listed = ["load.index", "run.index"].map(|index| std::fs::read_to_string(out.join(index)).unwrap());
    std::fs::write(out.join("all.index"), listed.concat()).unwrap();
    (out, gtid.parse().unwrap())
}

fn replayed(logs: &Path, options: &[&str]) -> Value {
    let (load, run) = (logs.join("load.index").display().to_string(), logs.join("run.index").display().to_string());
    let scratch = folder("huge-replay").display().to_string();
    let fixed = ["lab", "replay", "--json", "--hash", "--workers=2", "--folder", &scratch, "--load", &load, &run];
    let ran = slipstream(&[&fixed[..], options].concat());
    serde_json::from_str(&ran.expect(0, &[]).out).unwrap()
}

/// In a process of its own, which has its own peak of resident memory.
#[test]
fn all_lanes_share_a_huge_transaction_and_memory_stays_bounded() {
    let mut sizes = vec![("update", length(200_000, 1_000_000))];
    if soak() {
        sizes.extend([("insert", 1_000_000), ("delete", 1_000_000), ("insert", 10_000_000)]);
    }
    for (change, rows) in sizes {
        let (logs, _) = made(change, rows);
        let report = replayed(&logs, &["--memory=512M", "--samples"]);
        let measured: Vec<u64> =
            report["rows_by_worker"].as_array().unwrap().iter().map(|rows| rows.as_u64().unwrap()).collect();
        assert_eq!(measured.iter().sum::<u64>(), rows + SMALL_TRANSACTIONS);
        assert!(measured.len() == 2 && measured.iter().all(|own| *own > rows / 3), "not shared: {measured:?}");
        let peak = report["peak_rss_bytes"].as_u64().unwrap();
        let samples = report["samples"].as_array().unwrap();
        eprintln!(
            "{change} of {rows} rows: {:.2} s, rows by worker {measured:?}, peak resident memory {} MiB of {}, load {}",
            report["measured"]["wall_s"].as_f64().unwrap(),
            peak >> 20,
            MEMORY_BYTES >> 20,
            report["load_average"]
        );
        for sample in samples.iter().step_by(samples.len().div_ceil(40)) {
            let rss_mib = sample["rss_bytes"].as_u64().unwrap() >> 20;
            eprintln!("  {:>7} ms  {rss_mib:>5} MiB  {:>10} rows applied", sample["at_ms"], sample["rows_applied"]);
        }
        assert!(peak as f64 <= MEMORY_BYTES as f64 * ABOVE, "{} MiB", peak >> 20);
        let in_memory = replayed(&logs, &[]);
        assert_eq!(report["hash"], in_memory["hash"], "{change} of {rows} rows");
        std::fs::remove_dir_all(logs).unwrap();
    }
}

/// Values of column v in every row, as `dump` prints them.
fn values(data: &str, table: &str) -> Option<Vec<u64>> {
    let ran = slipstream(&["dump", "--data", data, "--format=tab", table]);
    if ran.code != 0 {
        return None;
    }
    // The first line holds the names.
    Some(ran.out.lines().skip(1).map(|line| line.split('\t').nth(2).unwrap().parse().unwrap()).collect())
}

/// Progress of replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Before,
    /// The huge transaction is the next to become visible.
    AtIt,
    Behind,
}

fn place(status: &Value, huge: &GtidSet) -> Place {
    let executed = executed(status);
    let uuid_and_number = huge.to_string();
    let (uuid, number) = uuid_and_number.split_once(':').unwrap();
    let before: GtidSet = format!("{uuid}:{}", number.parse::<u64>().unwrap() - 1).parse().unwrap();
    if huge.is_subset_of(&executed) {
        Place::Behind
    } else if before.is_subset_of(&executed) {
        Place::AtIt
    } else {
        Place::Before
    }
}

/// Killed repeatedly while the huge transaction is the next to become visible, and read all the time: a reader sees
/// none of it or all, and the final result is exact.
#[test]
fn a_huge_transaction_is_seen_whole_or_not_at_all_over_kills() {
    let rows = length(200_000, 1_000_000);
    for (change, before, after) in [("update", (rows, 0), (rows, rows)), ("insert", (0, 0), (rows, 0))] {
        let (logs, huge) = made(change, rows);
        let source = format!("file:{}", logs.join("all.index").display());
        let data = folder("huge-killed");
        let path = data.to_str().unwrap();
        let seen_of = |values: &[u64]| (values.len() as u64, values.iter().sum::<u64>());
        // If a look comes too late, the process has moved on: another try.
        let (mut met, mut tries) = (0, 0);
        while met < length(2, 10) && tries < 50 {
            tries += 1;
            let mut replica = Replica::spawn(&source, &data, &["--memory=128M"], |_| ());
            let reached = wait_for(
                "the huge transaction's turn",
                || {
                    let at = replica.status().map(|status| place(&status, &huge)).filter(|at| *at > Place::Before);
                    at.or_else(|| (!replica.is_running()).then_some(Place::Behind))
                },
                String::new,
            );
            replica.kill();
            let stopped = slipstream(&["status", "--json", "--data", path]);
            let kept = place(&serde_json::from_str(&stopped.expect(0, &[]).out).unwrap(), &huge);
            // A killed process leaves its last cut: before the huge transaction, or earlier.
            met += u64::from(reached == Place::AtIt && kept < Place::Behind);
            // A kill in the middle of it leaves nothing of it visible, or all of it if the relay log has all of it: a
            // dump reads that too.
            if kept > Place::Before
                && let Some(values) = values(path, "shapes.big")
            {
                let seen = seen_of(&values);
                assert!(seen == after || kept < Place::Behind && seen == before, "{change}: {kept:?}: {seen:?}");
            }
            if kept == Place::Behind {
                std::fs::remove_dir_all(&data).unwrap();
            }
        }
        assert!(met > 0, "{change}: never killed in the middle of it");
        // Once more to its end, with a reader in parallel.
        let mut replica = Replica::spawn(&source, &data, &["--memory=128M"], |_| ());
        let mut looks = [0u64; 2];
        let end = wait_for(
            "the end of the log",
            || {
                let at = replica.status().map_or(Place::Before, |status| place(&status, &huge));
                if at > Place::Before
                    && let Some(values) = values(path, "shapes.big")
                {
                    let seen = seen_of(&values);
                    assert!(seen == before || seen == after, "{change}: a part is visible: {seen:?}");
                    assert!(at != Place::Behind || seen == after, "{change}: visible and then no more: {seen:?}");
                    looks[usize::from(seen == after)] += 1;
                }
                replica.ended()
            },
            String::new,
        );
        assert_eq!(end, 0, "{}", replica.log_end());
        eprintln!("{change}: killed in the middle {met} times of {tries}; looks before and after {looks:?}");
        assert_eq!(seen_of(&values(path, "shapes.big").unwrap()), after);
        assert_eq!(seen_of(&values(path, "shapes.small").unwrap()), (SMALL_ROWS, SMALL_TRANSACTIONS));
        std::fs::remove_dir_all(logs).unwrap();
    }
}
