//! `slipstream relay check`: whether a stock replica can be moved behind a relay, and the statement that moves it.
//!
//! In: the relay's status, a connection to the replica. Out: lines, or why not. Never here: a change of either.

use std::io::Write;

use base::GtidSet;
use client::Connection;
use observe::StatusReport;
use replica::config::ServerOptions;
use replica::{Exit, Failure, failure};

/// Oldest version that is served.
const OLDEST: (u32, u32) = (8, 0);

/// What a check needs to know of a replica.
struct Facts {
    version: String,
    server_id: u32,
    server_uuid: String,
    executed: GtidSet,
    gtid_mode: String,
    workers: u32,
    preserves_order: bool,
}

impl Facts {
    fn read(server: &ServerOptions) -> Result<Facts, Failure> {
        let at = |error: client::ClientError| failure::source_failure(&error);
        let mut connection = Connection::connect(&server.connect_options()?).map_err(at)?;
        if connection.is_mariadb() {
            return Err(Failure::new(Exit::PreflightRefused, "MariaDB cannot replicate from MySQL by GTIDs"));
        }
        let mut value = |name: &str| {
            let value = connection.query_value(&format!("SELECT @@GLOBAL.{name}")).map_err(at)?;
            Ok::<_, Failure>(value.unwrap_or_default())
        };
        // Before 8.0.26 it has the old name only.
        let mut either = |new: &str, old: &str| value(new).or_else(|_| value(old));
        let workers = either("replica_parallel_workers", "slave_parallel_workers")?;
        let preserves = either("replica_preserve_commit_order", "slave_preserve_commit_order")?;
        let executed: String = value("gtid_executed")?.split_whitespace().collect();
        let broken = |error: base::GtidError| Failure::error(format!("gtid_executed of the replica: {error}"));
        Ok(Facts {
            version: value("version")?,
            server_id: value("server_id")?.parse().unwrap_or(0),
            server_uuid: value("server_uuid")?,
            executed: executed.parse().map_err(broken)?,
            gtid_mode: value("gtid_mode")?,
            workers: workers.parse().unwrap_or(0),
            preserves_order: preserves == "1" || preserves == "ON",
        })
    }
}

/// Why the replica cannot be moved, and what should be known besides.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    refused: Vec<String>,
    purged: Option<String>,
    notes: Vec<String>,
}

fn judge(replica: &Facts, relay: &StatusReport) -> Result<Verdict, Failure> {
    let mut verdict = Verdict::default();
    let set = |text: &str| {
        let text: String = text.split_whitespace().collect();
        text.parse::<GtidSet>().map_err(|error| Failure::error(format!("the relay's status: {error}")))
    };
    let Some(served) = &relay.served else {
        return Err(Failure::usage("a replica without --serve-log runs on this folder, not a relay"));
    };
    let missing = set(&served.purged)?.subtract(&replica.executed);
    if !missing.is_empty() {
        verdict.purged = Some(format!("it lacks transactions that the relay does not serve, or no longer: {missing}"));
    }
    let mut numbers = replica.version.split('.').map(|part| part.parse().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        verdict.refused.push(format!("it is MySQL {}; replicas of 8.0 to 9.7 are served", replica.version));
    }
    if replica.gtid_mode != "ON" {
        verdict
            .refused
            .push(format!("its gtid_mode is {}: a relay is followed by SOURCE_AUTO_POSITION", replica.gtid_mode));
    }
    for (id, uuid, whose) in [
        (relay.server_id, &relay.server_uuid, "the relay's"),
        (relay.source.server_id, &relay.source.server_uuid, "the source's"),
    ] {
        if replica.server_id == id || replica.server_uuid == *uuid {
            verdict.refused.push(format!("its server_id {} or server_uuid is {whose} too", replica.server_id));
        }
    }
    let ahead = replica.executed.subtract(&set(&relay.gtid.retrieved)?);
    if !ahead.is_empty() {
        verdict.notes.push(format!(
            "it has {ahead}, which the relay has not received: it waits for the relay, forever if the source lacks \
             them too (errant GTIDs)"
        ));
    }
    if replica.workers < 2 {
        let text = format!("replica_parallel_workers is {}: it gains nothing until there are more", replica.workers);
        verdict.notes.push(text);
    }
    if !replica.preserves_order {
        verdict
            .notes
            .push("replica_preserve_commit_order is OFF: it may show later transactions before earlier ones".into());
    }
    Ok(verdict)
}

/// Checks a replica against a relay, whose status is asked after it: what the replica has and the relay lacks then is
/// not on its way.
///
/// # Errors
/// Code 4 or 5 if it cannot be moved.
pub(crate) fn check(
    server: &ServerOptions,
    status: impl FnOnce() -> Result<Option<serde_json::Value>, Failure>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let facts = Facts::read(server)?;
    let relay: StatusReport = serde_json::from_value(status()?.unwrap_or_default())
        .map_err(|error| Failure::error(format!("the relay's status: {error}")))?;
    let verdict = judge(&facts, &relay)?;
    let mut say = |text: &str| writeln!(out, "{text}").map_err(|error| Failure::output(&error));
    say(&format!("replica  {} version {}, server_id {}", server.shown(), facts.version, facts.server_id))?;
    for note in &verdict.notes {
        say(&format!("note: {note}"))?;
    }
    for reason in &verdict.refused {
        say(&format!("refused: {reason}"))?;
    }
    if let Some(missing) = verdict.purged {
        return Err(Failure::new(Exit::SourcePurged, format!("the replica cannot be moved: {missing}")));
    }
    if !verdict.refused.is_empty() {
        return Err(Failure::new(Exit::PreflightRefused, "the replica cannot be moved"));
    }
    let address = relay.clients.as_ref().and_then(|clients| clients.address.as_deref());
    let Some((host, port)) = address.and_then(|address| address.rsplit_once(':')) else {
        return Err(Failure::error("the relay listens on no TCP port"));
    };
    let host = match host.trim_matches(['[', ']']) {
        "0.0.0.0" | "::" => "RELAY",
        host => host,
    };
    say("the replica can be moved, with the account that `slipstream account add NAME --may replicate` made:")?;
    say(&format!(
        "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST='{host}', SOURCE_PORT={port}, SOURCE_USER='NAME', \
         SOURCE_PASSWORD='…', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA;"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::ServedReport;

    fn facts() -> Facts {
        Facts {
            version: "8.0.36-log".into(),
            server_id: 7,
            server_uuid: "u7".into(),
            executed: set("1-9"),
            gtid_mode: "ON".into(),
            workers: 4,
            preserves_order: true,
        }
    }

    fn text(numbers: &str) -> String {
        format!("aaaaaaaa-0000-0000-0000-000000000001:{numbers}")
    }

    fn set(numbers: &str) -> GtidSet {
        text(numbers).parse().unwrap()
    }

    fn relay() -> StatusReport {
        let served = ServedReport { purged: text("1-5"), ..ServedReport::default() };
        let mut report = StatusReport { server_id: 1, server_uuid: "u1".into(), ..StatusReport::default() };
        (report.source.server_id, report.source.server_uuid) = (2, "u2".into());
        report.gtid.retrieved = text("1-20");
        StatusReport { served: Some(served), ..report }
    }

    #[test]
    fn what_keeps_a_replica_from_being_moved() {
        assert_eq!(judge(&facts(), &relay()).unwrap(), Verdict::default());
        let refused = |facts: Facts| judge(&facts, &relay()).unwrap().refused.concat();
        assert!(refused(Facts { version: "5.7.44".into(), ..facts() }).contains("8.0 to 9.7"));
        assert!(refused(Facts { gtid_mode: "OFF".into(), ..facts() }).contains("gtid_mode is OFF"));
        assert!(refused(Facts { server_id: 1, ..facts() }).contains("the relay's too"));
        assert!(refused(Facts { server_uuid: "u2".into(), ..facts() }).contains("the source's too"));
        let lacks = judge(&Facts { executed: set("3-9"), ..facts() }, &relay()).unwrap();
        assert!(lacks.purged.unwrap().contains(&text("1-2")));
        let notes = |facts: Facts| judge(&facts, &relay()).unwrap().notes.concat();
        assert!(notes(Facts { executed: set("1-25"), ..facts() }).contains(&text("21-25")));
        assert!(notes(Facts { workers: 0, ..facts() }).contains("gains nothing"));
        assert!(notes(Facts { preserves_order: false, ..facts() }).contains("later transactions"));
        let replica = StatusReport { served: None, ..relay() };
        assert!(judge(&facts(), &replica).is_err());
    }
}
