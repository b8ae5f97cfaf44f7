//! Converts errors of store, relay log, source and replay into the program's failure, with its exit code.

use std::time::Duration;

use base::GtidSet;
use client::{ClientError, DumpRefusal};
use decode::{START_ANEW, Stop, StopClass};
use observe::{ErrorReport, bytes_text, now_us, utc_text};
use relay_log::RelayError;
use source::preflight::{self, Severity};
use store::StoreError;

use crate::exit::{DiskTrouble, Exit, FREE_SPACE, Failure};
use crate::room::SpaceNeed;

/// Converts an error of the store.
#[must_use]
pub fn store_failure(error: &StoreError) -> Failure {
    let exit = match error {
        StoreError::Damaged { .. }
        | StoreError::DamagedFile { .. }
        | StoreError::Version { .. }
        | StoreError::OtherRelease { .. } => Exit::Corrupt,
        StoreError::RowMissing { .. } => Exit::DataDiffers,
        StoreError::Defect { .. } => Exit::Defect,
        StoreError::DiskFull { .. } | StoreError::SyncFailed { .. } | StoreError::Io { .. } => Exit::Disk,
        StoreError::IndexNotReady { .. } | StoreError::SnapshotTooOld | StoreError::NotYetConsistent { .. } => {
            Exit::Error
        }
    };
    let failure = Failure::new(exit, error.to_string());
    match error {
        StoreError::DiskFull { .. } => failure.with_hint(FREE_SPACE).of_disk(DiskTrouble::Full),
        StoreError::SyncFailed { .. } => failure.of_disk(DiskTrouble::SyncFailed),
        StoreError::Damaged { .. } | StoreError::DamagedFile { .. } => failure.with_hint(START_ANEW),
        _ => failure,
    }
}

/// Converts a stop of replay.
#[must_use]
pub fn stop_failure(stop: &Stop) -> Failure {
    let exit = match stop.class {
        StopClass::NotSupported => Exit::NotSupported,
        StopClass::Corrupt | StopClass::StoreDamaged => Exit::Corrupt,
        StopClass::DataDiffers => Exit::DataDiffers,
        StopClass::Io | StopClass::DiskFull | StopClass::SyncFailed => Exit::Disk,
        StopClass::Defect => Exit::Defect,
    };
    let mut failure = Failure::new(exit, stop.to_string()).with_hint(stop.help());
    failure.disk = match stop.class {
        StopClass::DiskFull => Some(DiskTrouble::Full),
        StopClass::SyncFailed => Some(DiskTrouble::SyncFailed),
        _ => None,
    };
    let named = [1062, 1032].into_iter().find(|number: &u32| stop.reason.contains(&number.to_string()));
    match named.filter(|_| stop.class == StopClass::DataDiffers) {
        Some(number) => failure.with_number(number),
        None => failure,
    }
}

/// Converts an error of the relay log.
#[must_use]
pub(crate) fn relay_failure(error: RelayError) -> Failure {
    let failure = Failure::new(relay_exit(&error), error.to_string());
    match error {
        error if error.is_failed_sync() => failure.of_disk(DiskTrouble::SyncFailed),
        RelayError::DiskFull { .. } => failure.with_hint(FREE_SPACE).of_disk(DiskTrouble::Full),
        _ => failure,
    }
}

/// The exit code of an error of the relay log.
#[must_use]
pub fn relay_exit(error: &RelayError) -> Exit {
    match error {
        RelayError::Corrupt { .. } | RelayError::Missing { .. } | RelayError::Index { .. } => Exit::Corrupt,
        RelayError::Gap { .. } | RelayError::StartLost { .. } => Exit::Corrupt,
        RelayError::Boundary(relay_log::boundary::BoundaryError::NotSupported(_)) => Exit::NotSupported,
        RelayError::Boundary(_) => Exit::Corrupt,
        RelayError::Io { .. } | RelayError::DiskFull { .. } => Exit::Disk,
        RelayError::Misuse(_) | RelayError::PlaceLost { .. } | RelayError::Truncated | RelayError::Closed => {
            Exit::Error
        }
    }
}

/// A GTID set for a message; the empty set is spelled out.
#[must_use]
pub(crate) fn shown_set(set: &GtidSet) -> String {
    if set.is_empty() { "(none)".into() } else { set.to_string() }
}

/// A failure in the form that status shows.
#[must_use]
pub fn error_report(failure: &Failure) -> ErrorReport {
    ErrorReport {
        at: utc_text(now_us()),
        exit: failure.exit.code(),
        number: failure.number,
        gtid: gtid_in(&failure.text),
        table: table_in(&failure.text),
        text: failure.text.clone(),
        way_on: failure.hint.clone(),
    }
}

/// The GTID at which replay stopped, as the text of a [`Stop`] ends with it.
fn gtid_in(text: &str) -> Option<String> {
    let (_, gtid) = text.rsplit_once(", GTID ")?;
    let set: GtidSet = gtid.parse().ok()?;
    (set.count() == 1).then(|| gtid.to_owned())
}

/// The table that a text names before anything that may be a value: `db`.`table`.
fn table_in(text: &str) -> Option<String> {
    let named = text.get(text.find(['`', '\'', '"', '='])?..)?;
    let mut parts = named.strip_prefix('`')?.splitn(4, '`');
    let (db, between, table) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next()?;
    (between == "." && !db.is_empty() && !table.is_empty()).then(|| format!("`{db}`.`{table}`"))
}

/// An error of the source, by whether to retry.
pub(crate) enum SourceTrouble {
    Again(Failure),
    /// The source refuses the login, which must not be tried again for this time.
    Login(Failure, Duration),
    /// The disk has no room for the next transaction.
    NoRoom(SpaceNeed),
    /// This source will not do; another one may.
    Refused(Failure),
    /// No source will do.
    Fatal(Failure),
}

/// Converts an error of the source.
#[must_use]
pub fn source_failure(error: &ClientError) -> Failure {
    trouble(error).into()
}

impl From<SourceTrouble> for Failure {
    fn from(trouble: SourceTrouble) -> Failure {
        match trouble {
            SourceTrouble::Again(failure)
            | SourceTrouble::Login(failure, _)
            | SourceTrouble::Refused(failure)
            | SourceTrouble::Fatal(failure) => failure,
            SourceTrouble::NoRoom(need) => {
                Failure::error(format!("no disk space for a transaction of {}", bytes_text(need.transaction_bytes)))
            }
        }
    }
}

pub(crate) fn trouble(error: &ClientError) -> SourceTrouble {
    let mut failure = Failure::error(error.to_string());
    if let Some(number) = error_number(error) {
        failure = failure.with_number(number);
    }
    if let Some(wait) = error.login_held_for() {
        return SourceTrouble::Login(failure, wait);
    }
    // MySQL uses a single number, 1236, for all refusals of its dump thread.
    let (exit, hint) = match error.dump_refusal() {
        Some(DumpRefusal::Purged) => (
            Exit::SourcePurged,
            "the source purged log that this replica needs: follow a server that still has it, or copy everything again: \
             slipstream replica --start-anew",
        ),
        Some(DumpRefusal::MoreGtidsThanSource) => (
            Exit::PreflightRefused,
            "this replica has transactions that the source does not have: follow the server they came from, or copy \
             everything again: slipstream replica --start-anew",
        ),
        Some(DumpRefusal::SameUuid) => (
            Exit::PreflightRefused,
            "another replica follows this source under the same server_uuid: give each its own data folder",
        ),
        Some(DumpRefusal::EventTooLarge) => (
            Exit::SourcePurged,
            "no MySQL source sends an event above 1 GiB (of a row its values before and after count), nor one whose length \
             in its log is wrong: mysqlbinlog at the source shows it. Copy everything again: slipstream replica \
             --start-anew",
        ),
        Some(DumpRefusal::Other) => (Exit::SourcePurged, "see the source's error log"),
        None if error.is_transient() => return SourceTrouble::Again(failure),
        None => return SourceTrouble::Refused(failure),
    };
    failure.exit = exit;
    SourceTrouble::Refused(failure.with_hint(hint))
}

/// The server's error number, or the one that MySQL's client gives such an error (errmsg.h).
fn error_number(error: &ClientError) -> Option<u32> {
    match error {
        ClientError::Connect { .. } => Some(2003),
        ClientError::Resolve { .. } => Some(2005),
        ClientError::Io { .. } | ClientError::Closed | ClientError::ReadTimeout => Some(2013),
        ClientError::Tls { .. } => Some(2026),
        other => other.server_code().map(u32::from),
    }
}

/// The failure for preflight's problems; None if none of them stops the replica.
#[must_use]
pub(crate) fn preflight_failure(report: &preflight::PreflightReport) -> Option<Failure> {
    if report.accepted() {
        return None;
    }
    let exit = if report.exit_code() == preflight::EXIT_PURGED { Exit::SourcePurged } else { Exit::PreflightRefused };
    let problems: Vec<String> =
        report.problems.iter().filter(|p| p.severity == Severity::Refused).map(ToString::to_string).collect();
    let failure = Failure::new(exit, format!("the source cannot be followed:\n{}", problems.join("\n")));
    let lacks = report.problems.iter().any(|problem| problem.what.starts_with(preflight::SOURCE_LACKS));
    // The number of MySQL's refusal of a dump.
    Some(if lacks || exit == Exit::SourcePurged { failure.with_number(1236) } else { failure })
}

pub(crate) fn binlog_failure(error: binlog::BinlogError) -> Failure {
    Failure::new(binlog_exit(&error), error.to_string())
}

/// The exit code of an error in a binary log.
#[must_use]
pub fn binlog_exit(error: &binlog::BinlogError) -> Exit {
    match error.class() {
        binlog::ErrorClass::NotSupported => Exit::NotSupported,
        binlog::ErrorClass::Corrupt => Exit::Corrupt,
        binlog::ErrorClass::Io => Exit::Disk,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_gtid_and_table() {
        let gtid = "aaaaaaaa-0000-0000-0000-000000000001:7";
        let text = format!("row not found (1032) in table `d`.`t`: key 'x`.`y'; at relay log a:4, GTID {gtid}");
        assert_eq!((gtid_in(&text).as_deref(), table_in(&text).as_deref()), (Some(gtid), Some("`d`.`t`")));
        for text in ["", "value 'a' of `d`.`t`", "`d`", "`d`, `t` and", "`d`.`t", "ends, GTID none", ", GTID "] {
            assert_eq!((gtid_in(text), table_in(text)), (None, None), "{text}");
        }
    }
}
