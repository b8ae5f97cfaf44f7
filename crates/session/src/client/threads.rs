//! Rows of `performance_schema` and `information_schema` about replication, threads and sessions.
//!
//! In: what SHOW REPLICA STATUS and SHOW PROCESSLIST are made of. Out: rows in the order of the recorded columns. What
//! is not known here has the value of a column that nothing was said of. Never here: another account's text.

use sql::listing::Listing;
use sql::table::session_zone;
use sql::{SqlError, Value, to_protocol};
use values::{DateTimeValue, DateValue, Zone};
use wire::response::column_flag as flag;
use wire::row::{DateTime, type_code};

use super::Session;
use super::shows::text;
use crate::replica_status::{FailoverSource, GroupMember, ReplicaStatus, ThreadError};
use crate::world::SessionLine;
use crate::world::World;

/// Tables about replication, which accounts see that may see SHOW REPLICA STATUS.
const OF_REPLICATION: &[&str] = &[
    "replication_applier_configuration",
    "replication_applier_status",
    "replication_applier_status_by_coordinator",
    "replication_applier_status_by_worker",
    "replication_asynchronous_connection_failover",
    "replication_asynchronous_connection_failover_managed",
    "replication_connection_configuration",
    "replication_connection_status",
    "replication_group_member_stats",
    "replication_group_members",
];

/// The channel that members apply the group's transactions by.
const OF_GROUP: &str = "group_replication_applier";

/// Seconds between the heartbeats that the source is asked for.
const HEARTBEAT_S: f64 = 1.0;

/// A row with these values; the others are NULL, or nothing of their type.
fn row(listing: &Listing, values: &[(&str, Value)]) -> Vec<Value> {
    let nothing = |column: &sql::listing::ListingColumn| {
        let field = column.field;
        match field.type_code {
            // No transaction.
            type_code::STRING if column.name.ends_with("TRANSACTION") => text(""),
            _ if field.flags & flag::NOT_NULL == 0 => Value::Null,
            type_code::TIMESTAMP => Value::DateTime(DateTime::default(), false),
            type_code::TINY | type_code::SHORT | type_code::LONG | type_code::LONGLONG => {
                match field.flags & flag::UNSIGNED {
                    0 => Value::Int(0),
                    _ => Value::UInt(0),
                }
            }
            _ => text(""),
        }
    };
    let value = |column: &sql::listing::ListingColumn| {
        let given = values.iter().find(|(name, _)| *name == column.name);
        given.map_or_else(|| nothing(column), |(_, value)| value.clone())
    };
    listing.columns.iter().map(value).collect()
}

fn yes(is: bool) -> Value {
    text(if is { "YES" } else { "NO" })
}

fn switch(is: bool) -> Value {
    text(if is { "ON" } else { "OFF" })
}

/// An error as three columns; its time is the zone's.
fn error(error: &ThreadError, zone: &Zone) -> [(&'static str, Value); 3] {
    [
        ("LAST_ERROR_NUMBER", Value::Int(error.number.into())),
        ("LAST_ERROR_MESSAGE", text(&error.text)),
        ("LAST_ERROR_TIMESTAMP", time(&error.at, zone)),
    ]
}

/// `YYMMDD hh:mm:ss` of UTC in a zone, or nothing.
fn time(at: &str, zone: &Zone) -> Value {
    let part = |from: usize, to: usize| at.get(from..to).and_then(|part| part.trim().parse::<u32>().ok()).unwrap_or(0);
    let date = DateValue { year: 2000 + part(0, 2), month: part(2, 4), day: part(4, 6) };
    let utc = DateTimeValue { date, hour: part(7, 9), minute: part(10, 12), second: part(13, 15), micros: 0 };
    // The text of no error is of no day.
    Value::DateTime(zone.local(utc).map_or_else(DateTime::default, to_protocol), false)
}

/// The row of a table about replication.
fn of_replication(listing: &Listing, table: &str, status: &ReplicaStatus, zone: &Zone) -> Vec<Value> {
    let (applies, receives) = (status.sql_running == "Yes", status.io_running.as_str());
    let mut values = match table {
        "replication_connection_configuration" => vec![
            ("HOST", text(&status.source_host)),
            ("PORT", Value::Int(status.source_port.into())),
            ("USER", text(&status.source_user)),
            ("AUTO_POSITION", text("1")),
            ("SSL_ALLOWED", yes(status.tls.allowed)),
            ("SSL_CA_FILE", text(&status.tls.ca)),
            ("SSL_CERTIFICATE", text(&status.tls.cert)),
            ("SSL_KEY", text(&status.tls.key)),
            ("SSL_VERIFY_SERVER_CERTIFICATE", yes(status.tls.verify)),
            ("CONNECTION_RETRY_INTERVAL", Value::Int(i64::try_from(status.connect_retry_s).unwrap_or(i64::MAX))),
            ("CONNECTION_RETRY_COUNT", Value::UInt(status.retry_count)),
            ("HEARTBEAT_INTERVAL", Value::Double(HEARTBEAT_S)),
            ("PUBLIC_KEY_PATH", text(&status.tls.public_key_path)),
            ("GET_PUBLIC_KEY", yes(status.tls.get_public_key)),
            ("COMPRESSION_ALGORITHM", text("uncompressed")),
            ("SOURCE_CONNECTION_AUTO_FAILOVER", text(if status.failover.on { "1" } else { "0" })),
            ("GTID_ONLY", text("1")),
        ],
        "replication_connection_status" => {
            let state = match receives {
                "Yes" => "ON",
                "Connecting" => "CONNECTING",
                _ => "OFF",
            };
            let mut values = vec![
                ("SOURCE_UUID", text(&status.source_uuid)),
                ("SERVICE_STATE", text(state)),
                ("RECEIVED_TRANSACTION_SET", text(&status.retrieved)),
            ];
            values.extend(error(&status.io_error, zone));
            values
        }
        "replication_applier_configuration" => vec![
            ("DESIRED_DELAY", Value::Int(i64::try_from(status.delay_s.0).unwrap_or(i64::MAX))),
            ("REQUIRE_ROW_FORMAT", yes(false)),
            ("REQUIRE_TABLE_PRIMARY_KEY_CHECK", text("STREAM")),
            ("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_TYPE", text("OFF")),
        ],
        "replication_applier_status" => vec![
            ("SERVICE_STATE", switch(applies)),
            ("REMAINING_DELAY", status.delay_s.1.map_or(Value::Null, Value::UInt)),
        ],
        _ => {
            let mut values = vec![("SERVICE_STATE", switch(applies))];
            values.extend(error(&status.sql_error, zone));
            values
        }
    };
    values.push(("CHANNEL_NAME", text("")));
    row(listing, &values)
}

/// Rows about servers that may be followed.
fn of_failover(listing: &Listing, table: &str, status: &ReplicaStatus) -> Vec<Vec<Value>> {
    let lists = &status.failover;
    if table.ends_with("_managed") {
        let group = |(name, primary, secondary): &(String, u8, u8)| {
            let weights = format!("{{\"Primary_weight\": {primary}, \"Secondary_weight\": {secondary}}}");
            let values = [
                ("MANAGED_NAME", text(name)),
                ("MANAGED_TYPE", text("GroupReplication")),
                ("CONFIGURATION", text(&weights)),
            ];
            row(listing, &values)
        };
        return lists.managed.iter().map(group).collect();
    }
    let source = |of: &FailoverSource| {
        let values = [
            ("HOST", text(&of.host)),
            ("PORT", Value::Int(of.port.into())),
            ("NETWORK_NAMESPACE", text("")),
            ("WEIGHT", Value::UInt(of.weight.into())),
            ("MANAGED_NAME", text(&of.managed_name)),
        ];
        row(listing, &values)
    };
    lists.sources.iter().map(source).collect()
}

/// Rows about the members of the source's group.
fn of_group(listing: &Listing, table: &str, status: &ReplicaStatus) -> Vec<Vec<Value>> {
    let of = |member: &GroupMember| {
        let mut values = vec![("CHANNEL_NAME", text(OF_GROUP)), ("MEMBER_ID", text(&member.server_uuid))];
        if table == "replication_group_members" {
            values.extend([
                ("MEMBER_HOST", text(&member.host)),
                ("MEMBER_PORT", Value::Int(member.port.into())),
                ("MEMBER_STATE", text(&member.state)),
                ("MEMBER_ROLE", text(&member.role)),
                ("MEMBER_VERSION", text(&member.version)),
                ("MEMBER_COMMUNICATION_STACK", text(&member.communication_stack)),
            ]);
        } else {
            let figures = member.figures.as_ref()?;
            values.extend(figures.counts.map(|(name, count)| (name, Value::UInt(count))));
            values.extend([
                ("VIEW_ID", text(&member.view_id)),
                ("TRANSACTIONS_COMMITTED_ALL_MEMBERS", text(&figures.committed_by_all)),
                ("LAST_CONFLICT_FREE_TRANSACTION", text(&figures.last_conflict_free)),
            ]);
        }
        Some(row(listing, &values))
    };
    status.failover.members.iter().filter_map(of).collect()
}

/// A thread's columns, by their names in all tables but `threads`.
fn of_thread(line: &SessionLine, info: Option<&str>) -> Vec<(&'static str, Value)> {
    vec![
        ("ID", Value::UInt(line.id)),
        ("USER", text(&line.user)),
        ("HOST", text(&line.host)),
        ("DB", line.schema.as_deref().map_or(Value::Null, text)),
        ("COMMAND", text(line.command)),
        ("TIME", Value::Int(i64::try_from(line.time_s).unwrap_or(i64::MAX))),
        ("STATE", text(&line.state)),
        ("INFO", info.map_or(Value::Null, text)),
        ("EXECUTION_ENGINE", text("PRIMARY")),
    ]
}

/// True for a table of threads: the statement waits until all sessions were listed.
pub(super) fn is_of_threads(listing: &Listing) -> bool {
    let table = listing.name.split_once('.').map_or("", |(_, table)| table);
    table == "threads" || table.eq_ignore_ascii_case("processlist")
}

/// A row of `performance_schema.threads`.
fn thread_row(listing: &Listing, line: &SessionLine, info: Option<&str>) -> Vec<Value> {
    let name = match (line.user.as_str(), line.command) {
        ("system user", "Connect") => "thread/sql/replica_io",
        ("system user", _) => "thread/sql/replica_sql",
        _ => "thread/sql/one_connection",
    };
    let known = of_thread(line, info).into_iter().filter_map(|(column, value)| {
        let named = listing.columns.iter().find(|own| own.name.strip_prefix("PROCESSLIST_") == Some(column))?;
        Some((named.name.as_ref(), value))
    });
    let mut values: Vec<(&str, Value)> = known.collect();
    values.extend([
        ("THREAD_ID", Value::UInt(line.id)),
        ("NAME", text(name)),
        ("TYPE", text("FOREGROUND")),
        ("INSTRUMENTED", yes(true)),
        ("HISTORY", yes(false)),
        ("EXECUTION_ENGINE", text("PRIMARY")),
        ("TELEMETRY_ACTIVE", yes(false)),
    ]);
    row(listing, &values)
}

impl Session {
    /// The rows of a table about replication or threads; None for others.
    ///
    /// # Errors
    /// 1142 for who may not see SHOW REPLICA STATUS.
    pub(super) fn rows_of_threads(
        &self,
        listing: &Listing,
        world: &dyn World,
    ) -> Result<Option<Vec<Vec<Value>>>, SqlError> {
        let Some((schema, table)) = listing.name.split_once('.') else { return Ok(None) };
        if schema == "performance_schema" && OF_REPLICATION.contains(&table) {
            if !self.login.identity.rights.monitor {
                return Err(self.may_not("SELECT", table));
            }
            let status = world.replica_status();
            if table.ends_with("by_coordinator") {
                // There is none: workers take pieces of the log themselves.
                return Ok(Some(Vec::new()));
            }
            if table.starts_with("replication_asynchronous") {
                return Ok(Some(of_failover(listing, table, &status)));
            }
            if table.starts_with("replication_group") {
                return Ok(Some(of_group(listing, table, &status)));
            }
            // Without an error no time is shown.
            let has_time = [&status.io_error, &status.sql_error].iter().any(|error| !error.at.is_empty());
            let zone = if has_time { session_zone(&self.settings, world.own_values())? } else { Zone::UTC };
            return Ok(Some(vec![of_replication(listing, table, &status, &zone)]));
        }
        if !is_of_threads(listing) {
            return Ok(None);
        }
        let is_threads = table == "threads";
        let rows = self.threads(world)?.into_iter().map(|(line, info)| match is_threads {
            true => thread_row(listing, &line, info.as_deref()),
            false => row(listing, &of_thread(&line, info.as_deref())),
        });
        Ok(Some(rows.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_errors_are_the_sessions() {
        let at = |text: &str| match time(text, &Zone::Fixed(3600)) {
            Value::DateTime(at, _) => (at.year, at.month, at.day, at.hour, at.minute, at.second),
            other => panic!("{other:?}"),
        };
        assert_eq!(at("261130 23:03:04"), (2026, 12, 1, 0, 3, 4));
        assert_eq!(at(""), (0, 0, 0, 0, 0, 0));
    }
}
