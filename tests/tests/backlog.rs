//! A backlog that was received and not applied: the remaining work is shown, memory stays bounded, all of it is
//! replayed.
//!
//! Short: 60,000 transactions. Soak: 8,000,000, with the catch-up speed compared with `lab replay` over the same bytes,
//! and the forecast with what happened.

use std::time::Instant;

use serde_json::Value;
use whole_program_tests::{Replica, folder, length, slipstream, soak, wait_for};

const MEMORY: &str = "--memory=256M";
const MEMORY_BYTES: f64 = 256e6 * 1.048_576;
const ROWS: u64 = 200_000;

#[test]
fn a_backlog_is_caught_up_at_the_speed_of_replay() {
    let transactions: u64 = length(60_000, 8_000_000);
    let logs = folder("backlog-log");
    let out = logs.display().to_string();
    let (count, rows) = (format!("--transactions={transactions}"), format!("--rows={ROWS}"));
    slipstream(&["lab", "make", "--out", &out, &count, "--file-mib=256", "zipf", &rows]).expect(0, &[]);
    let listed = ["load.index", "run.index"].map(|index| std::fs::read_to_string(logs.join(index)).unwrap());
    std::fs::write(logs.join("all.index"), listed.concat()).unwrap();
    let all = transactions + ROWS / 1000 + 2;

    // Everything is received while replay is paused.
    let data = folder("backlog");
    let source = format!("file:{}", logs.join("all.index").display());
    let mut replica = Replica::spawn(&source, &data, &[MEMORY], |_| ());
    wait_for(
        "the pause",
        || (slipstream(&["pause", "--data", replica.data()]).code == 0).then_some(()),
        || replica.log_end(),
    );
    let is_all = |status: &Value| {
        let retrieved = status["gtid"]["retrieved"].as_str().unwrap_or_default();
        status["replay"]["state"] == "paused" && retrieved.ends_with(&format!("-{all}"))
    };
    let paused = replica.wait_until("everything in the relay log", is_all);
    let left = paused["backlog"]["transactions"].as_u64().unwrap();
    let bytes = paused["backlog"]["bytes"].as_u64().unwrap();
    assert!(paused["backlog"]["catch_up_us"].is_null(), "nothing moves: {}", paused["backlog"]);
    assert_eq!(left, all - paused["position"]["watermark"].as_u64().unwrap());
    assert!(left > 0, "all was replayed before the pause");

    slipstream(&["resume", "--data", replica.data()]).expect(0, &[]);
    let resumed = Instant::now();
    let (mut forecasts, mut peak) = (Vec::new(), 0);
    let end = wait_for(
        "the end of the backlog",
        || {
            if let Some(status) = replica.status().filter(|status| status["running"] == true) {
                peak = status["memory"]["rss_peak_bytes"].as_u64().unwrap_or(peak);
                let at_s = resumed.elapsed().as_secs_f64();
                if let Some(us) = status["backlog"]["catch_up_us"].as_u64() {
                    forecasts.push((at_s, us as f64 / 1e6, status["backlog"]["transactions"].as_u64().unwrap()));
                }
            }
            replica.ended()
        },
        String::new,
    );
    let took_s = resumed.elapsed().as_secs_f64();
    assert_eq!(end, 0, "{}", replica.log_end());
    assert!(peak as f64 <= MEMORY_BYTES * 1.2, "peak resident memory {} MiB of 256", peak >> 20);
    eprintln!("{left} transactions, {bytes} bytes in {took_s:.2} s; peak resident memory {} MiB of 256", peak >> 20);
    for (at_s, forecast_s, transactions) in forecasts.iter().step_by(forecasts.len().div_ceil(20).max(1)) {
        eprintln!(
            "  after {at_s:>6.2} s: {transactions} to go, forecast {forecast_s:.2} s, it took {:.2} s",
            took_s - at_s
        );
    }
    let dumped = slipstream(&["dump", "--data", data.to_str().unwrap(), "--format=tab", "shapes.zipf"]);
    let versions =
        dumped.expect(0, &[]).out.lines().skip(1).map(|line| line.split('\t').nth(2).unwrap().parse::<u64>().unwrap());
    assert_eq!(versions.sum::<u64>(), transactions);

    if soak() {
        // Where at least a fifth is done and a fifth is left, so that neither the start nor the end decides.
        let middle: Vec<_> = forecasts.iter().filter(|(at_s, ..)| (0.2..0.8).contains(&(at_s / took_s))).collect();
        assert!(!middle.is_empty(), "no forecast");
        let wrong =
            middle.iter().filter(|(at_s, forecast_s, _)| !(0.5..=2.0).contains(&(forecast_s / (took_s - at_s))));
        assert!(
            wrong.clone().count() * 20 <= middle.len(),
            "forecasts off by more than a factor of 2: {:?}",
            wrong.collect::<Vec<_>>()
        );
        let scratch = folder("backlog-replay").display().to_string();
        let (load, run) = (format!("{out}/load.index"), format!("{out}/run.index"));
        // Options as `Replica` has them.
        let replay =
            ["lab", "replay", "--json", "--check-images=all", MEMORY, "--folder", &scratch, "--load", &load, &run];
        let report: Value = serde_json::from_str(&slipstream(&replay).expect(0, &[]).out).unwrap();
        let replay_per_s = report["write_transactions_per_s"].as_f64().unwrap();
        let caught_per_s = left as f64 / took_s;
        eprintln!(
            "caught up at {caught_per_s:.0} transactions/s, lab replay {replay_per_s:.0}: {:.2} (goal 0.90), load {}",
            caught_per_s / replay_per_s,
            report["load_average"]
        );
    }
}
