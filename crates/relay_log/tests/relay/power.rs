//! Power cuts in states that a whole program rarely reaches.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use power_cut::PowerCut;

use crate::common::*;

/// Folder of the child process below.
const FOLDER: &str = "RELAY_TEST_POWER_FOLDER";

/// Run by the next test under the power-cut shim.
#[test]
#[ignore = "needs a folder"]
fn child_with_a_torn_transaction() {
    let dir = PathBuf::from(std::env::var(FOLDER).unwrap());
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(&dir), &source);
    source.feed(&mut writer, 300);
    // All events of a transaction except its last are written and synced, and the state file says so.
    let data = source.transaction(20_000);
    let mut ends = vec![0];
    while let Some(header) = data.get(ends[ends.len() - 1]..).filter(|rest| !rest.is_empty()) {
        let len = u32::from_le_bytes(header[9..13].try_into().unwrap()) as usize;
        ends.push(ends[ends.len() - 1] + len);
    }
    let end = writer.append(data[..ends[ends.len() - 2]].to_vec(), part(&source)).unwrap();
    writer.sync().request_sync();
    assert!(writer.sync().wait_synced(end, LONG).unwrap());
    let until = Instant::now() + LONG;
    let claim = format!("synced {}\n", end.offset);
    while !std::fs::read_to_string(dir.join("relay-log.state")).unwrap().contains(&claim) {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
    // The stream breaks; the transaction and more arrive again, and none of it is synced.
    writer.abort_partial().unwrap();
    source.author.last -= 1;
    for _ in 0..30 {
        source.feed(&mut writer, 1000);
    }
    std::process::exit(33);
}

/// The state file written for the torn transaction must not reappear: it would report the bytes now at its place as
/// damaged.
#[test]
fn a_torn_transaction_is_forgotten_for_good() {
    let dir = folder();
    for seed in 0..40 {
        let power = PowerCut::new(&dir.path().join(seed.to_string()));
        let relay = power.disk().join("relay");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["power::child_with_a_torn_transaction", "--exact", "--ignored"]).env(FOLDER, &relay);
        power.trace(&mut command);
        let status = command.stdout(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(33));
        let cut = power.cut(seed);
        let (_, recovery) = read_only(&relay).unwrap_or_else(|error| panic!("{error}\n{cut}"));
        let kept = recovery.retrieved.count();
        assert!((1..=31).contains(&kept) && recovery.retrieved == gtids(kept), "{}\n{cut}", recovery.retrieved);
    }
}
