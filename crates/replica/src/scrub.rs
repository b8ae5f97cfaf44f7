//! The slow check of a running replica's files: every file of the store and of the relay log against its checksums.
//!
//! In: an interval. Out: damage on the store's list (`damage` does the rest), a log line when a round begins and ends,
//! the place reached, which survives restarts. Never here: a read from a cache; more than one file held; work while
//! replay is behind; a repair.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use catalog::TableId;
use observe::{bytes_text, now_us, utc_text};
use serde::{Deserialize, Serialize};
use store::{Disk, FileCheck, IndexCheck, Snapshot};

use crate::exit::{Exit, Failure};
use crate::folder::{Folder, read_small, write_atomically};
use crate::log::{self, Code};
use crate::replica::Replica;

/// Name of the file with the place reached, in the data folder.
const FILE: &str = "scrub";
const FORMAT: u32 = 1;
/// Interval at which the thread looks whether it is to go on.
const LOOK: Duration = Duration::from_millis(200);
/// Pause after each MiB, at least: 20 MB/s at most.
const PAUSE: Duration = Duration::from_millis(50);
/// The same as a multiple of the time that the read took: a fifth of a slow disk.
const PAUSE_PER_READ: u32 = 4;
/// Rows or index entries of a file that are looked up in each other, behind this many at most.
const SAMPLE: usize = 64;
const SAMPLE_SKIP_MAX: u64 = 2000;
/// Received bytes that replay has not read yet, from which on it counts as behind.
const BEHIND_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    #[serde(rename = "format")]
    format: u32,
    /// When the last round ended, or the folder was first started, in µs since 1970.
    #[serde(rename = "finished_us")]
    finished_us: u64,
    /// The round in progress.
    #[serde(rename = "round", deserialize_with = "Option::deserialize")]
    round: Option<Round>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Round {
    /// First file of the store that is not checked yet, and the last one of this round: later ones are new.
    #[serde(rename = "next")]
    next: u64,
    #[serde(rename = "last")]
    last: u64,
    /// First file of the relay log that is not checked yet.
    #[serde(rename = "next_relay")]
    next_relay: u64,
    #[serde(rename = "files")]
    files: u64,
    #[serde(rename = "bytes")]
    bytes: u64,
    #[serde(rename = "damaged")]
    damaged: u64,
}

/// Reads the place; a folder without one begins now.
fn load(folder: &Folder) -> Result<Place, Failure> {
    let path = folder.path().join(FILE);
    let Some(text) = read_small(&path)? else {
        return Ok(Place { format: FORMAT, finished_us: now_us(), round: None });
    };
    let broken = |why: String| Failure::new(Exit::Corrupt, format!("{}: {why}", path.display()));
    let place: Place = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    if place.format != FORMAT { Err(broken(format!("format {}, not {FORMAT}", place.format))) } else { Ok(place) }
}

fn save(folder: &Folder, place: &Place) -> Result<(), Failure> {
    let text = serde_json::to_string(place).map_err(|error| Failure::error(error.to_string()))?;
    write_atomically(&folder.path().join(FILE), text.as_bytes())
}

/// Runs rounds until the replica stops.
pub(crate) fn run(replica: &Arc<Replica>, interval: Duration) {
    let mut place = match load(replica.folder()) {
        Ok(place) => place,
        // It says nothing that counts: the next round begins at the start.
        Err(failure) => {
            log::write(Code::ScrubTrouble, "Store", &failure.text);
            Place { format: FORMAT, finished_us: 0, round: None }
        }
    };
    if let Err(failure) = save(replica.folder(), &place) {
        log::write(Code::ScrubTrouble, "Store", &failure.text);
    }
    let interval_us = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
    while !is_over(replica) {
        let due = place.round.is_some() || now_us().saturating_sub(place.finished_us) >= interval_us;
        if !due {
            std::thread::sleep(LOOK);
            continue;
        }
        let Some(disk) = replica.replay.pipeline.store.disk().cloned() else { return };
        if let Err(failure) = round(replica, &disk, &mut place) {
            log::write(Code::ScrubTrouble, "Store", &failure.text);
            // The disk is full, or worse; later.
            wait(replica, interval.min(Duration::from_secs(60)));
        }
    }
}

fn is_over(replica: &Replica) -> bool {
    replica.is_stopping()
}

fn wait(replica: &Replica, time: Duration) {
    let until = Instant::now() + time;
    while !is_over(replica) && Instant::now() < until {
        std::thread::sleep(LOOK.min(time));
    }
}

fn show(replica: &Replica, text: &str) {
    text.clone_into(&mut replica.upkeep.scrub.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Waits while replay is behind. False when the replica stops.
fn waits_for_replay(replica: &Replica, shown: &str) -> bool {
    let mut said = false;
    while !is_over(replica) && (replica.is_recovering() || replica.inbound.relay.unread_bytes(None) > BEHIND_BYTES) {
        if !std::mem::replace(&mut said, true) {
            show(replica, &format!("{shown}, paused until replay has caught up"));
        }
        std::thread::sleep(LOOK);
    }
    if said {
        show(replica, shown);
    }
    !is_over(replica)
}

/// Looks up some rows of a file and their index entries in each other.
fn sample(replica: &Replica, file: u64, round: &mut Round) {
    let store = &replica.replay.pipeline.store;
    let snapshot = Snapshot::pin(store);
    // Another place of the file in each round.
    let skip = usize::try_from(now_us() % SAMPLE_SKIP_MAX).unwrap_or(0);
    match store.sample_file(&snapshot, file, skip, SAMPLE) {
        Ok(Some((table, IndexCheck { missing, stale, .. }))) if missing + stale > 0 => {
            round.damaged += 1;
            let table =
                snapshot.catalog().table_by_id(TableId(table)).map_or_else(String::new, |table| table.full_name());
            let text = format!(
                "rows of {table} and their index entries contradict each other, in tables/{file}: {missing} rows without an \
                 entry, {stale} entries without a row; slipstream copy copies the table again"
            );
            log::write(Code::ScrubTrouble, "Store", &text);
        }
        // Damage is on the store's list.
        Ok(_) | Err(_) => {}
    }
}

/// Goes on with the round in progress, or begins one, until its end or until the replica stops.
fn round(replica: &Arc<Replica>, disk: &Disk, place: &mut Place) -> Result<(), Failure> {
    let folder = replica.folder();
    let mut round = match place.round.take() {
        Some(round) => round,
        None => {
            let files = disk.file_numbers();
            let round = Round {
                next: 0,
                last: files.last().copied().unwrap_or(0),
                next_relay: 0,
                files: 0,
                bytes: 0,
                damaged: 0,
            };
            let text = format!("checking {} files of the store and the relay log", files.len());
            log::write(Code::ScrubBegun, "Store", &text);
            round
        }
    };
    let keep = |place: &mut Place, round: &Round| {
        place.round = Some(round.clone());
        save(folder, place)
    };
    keep(place, &round)?;
    while let Some(file) = disk.file_numbers().into_iter().find(|file| (round.next..=round.last).contains(file)) {
        let shown = format!("checking tables/{file}, up to {}", round.last);
        show(replica, &shown);
        if !waits_for_replay(replica, &shown) {
            return Ok(());
        }
        let mut read_since = Instant::now();
        let checked = disk.check_file(file, &mut |_| {
            std::thread::sleep(PAUSE.max(read_since.elapsed() * PAUSE_PER_READ));
            let goes_on = waits_for_replay(replica, &shown);
            read_since = Instant::now();
            goes_on
        });
        match checked {
            Ok(FileCheck::BrokenOff) => return Ok(()),
            Ok(FileCheck::Whole(bytes)) => {
                (round.files, round.bytes) = (round.files + 1, round.bytes + bytes);
                sample(replica, file, &mut round);
            }
            Ok(FileCheck::Damaged) => (round.files, round.damaged) = (round.files + 1, round.damaged + 1),
            Ok(FileCheck::Gone) => {}
            Err(error) => log::write(Code::ScrubTrouble, "Store", &format!("tables/{file} was not checked: {error}")),
        }
        round.next = file + 1;
        keep(place, &round)?;
    }
    while let Some((number, bytes)) =
        replica.inbound.relay.files().into_iter().find(|(number, _)| *number >= round.next_relay)
    {
        let shown = format!("checking {}", relay_log::file_name(number));
        show(replica, &shown);
        if !waits_for_replay(replica, &shown) {
            return Ok(());
        }
        let read_since = Instant::now();
        match replica.inbound.relay.check_file(number) {
            Ok(None) => {}
            // Replay fetches it again if it needs it.
            Ok(Some(problem)) => {
                round.damaged += 1;
                log::write(Code::ScrubTrouble, "Relay", &format!("relay log file {problem}"));
            }
            Err(error) => log::write(Code::ScrubTrouble, "Relay", &error.to_string()),
        }
        (round.files, round.bytes) = (round.files + 1, round.bytes + bytes);
        round.next_relay = number + 1;
        keep(place, &round)?;
        wait(replica, PAUSE.max(read_since.elapsed() * PAUSE_PER_READ));
    }
    (place.round, place.finished_us) = (None, now_us());
    save(folder, place)?;
    let found = match round.damaged {
        0 => "nothing is damaged".to_owned(),
        damaged => format!("of these damaged: {damaged}"),
    };
    let text = format!("checked {} files, {}: {found}", round.files, bytes_text(round.bytes));
    show(replica, &format!("{text}; finished {}", utc_text(place.finished_us)));
    log::write(Code::ScrubDone, "Store", &text);
    Ok(())
}
