//! Queries that replicas send before they request the log, and a source's answers.
//!
//! In: the text of a statement. Out: columns and rows, an OK, or that the statement is unknown. Never here: general
//! SQL; only SET, SELECT of variables, and the SHOW statements that replicas use.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use binlog::ChecksumAlgorithm;

use crate::files::Facts;

/// Answer to a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Ok,
    Rows(Vec<String>, Vec<Vec<Option<String>>>),
    Unknown,
}

/// User variables of a session.
pub(super) type Variables = HashMap<String, Option<String>>;

/// Answers a statement; `replicas` are the server ids of the connected replicas.
pub(super) fn answer(log: &Facts, variables: &mut Variables, replicas: &[u32], sql: &str) -> Answer {
    let sql = sql.trim().trim_end_matches(';').trim();
    let upper = sql.to_ascii_uppercase();
    let words: Vec<&str> = upper.split_whitespace().collect();
    match words.as_slice() {
        ["SET", ..] => set(log, variables, sql.get(3..).unwrap_or_default()),
        ["SELECT", ..] => select(log, variables, sql.get(6..).unwrap_or_default()),
        ["SHOW", "GRANTS", ..] => rows(&["Grants"], [vec![GRANTS.to_owned()]]),
        ["SHOW", "REPLICAS"] | ["SHOW", "SLAVE", "HOSTS"] => {
            let columns = ["Server_Id", "Host", "Port", "Source_Id", "Replica_UUID"];
            let row =
                |id: &u32| vec![id.to_string(), String::new(), "0".into(), log.server_id.to_string(), String::new()];
            rows(&columns, replicas.iter().map(row))
        }
        ["SHOW", "BINARY", "LOGS"] => rows(
            &["Log_name", "File_size", "Encrypted"],
            log.files.iter().filter(|_| log.listed).map(|file| vec![file.0.clone(), file.1.to_string(), "No".into()]),
        ),
        ["SHOW", "BINARY", "LOG", "STATUS"] | ["SHOW", "MASTER", "STATUS"] => {
            let columns = ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set"];
            rows(
                &columns,
                log.files.last().map(|file| {
                    vec![file.0.clone(), file.1.to_string(), String::new(), String::new(), log.executed.to_string()]
                }),
            )
        }
        ["SHOW", "VARIABLES", ..] | ["SHOW", "GLOBAL" | "SESSION", "VARIABLES", ..] => {
            let known = |name: String| variable(log, &name).map(|value| vec![name, value]);
            rows(&["Variable_name", "Value"], quoted(sql).into_iter().filter_map(known))
        }
        ["SHOW", "STATUS", ..] | ["SHOW", "GLOBAL", "STATUS", ..] => rows(&["Variable_name", "Value"], []),
        _ => Answer::Unknown,
    }
}

const GRANTS: &str = "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `replica`@`%`";

fn rows(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Answer {
    let rows = rows.into_iter().map(|row| row.into_iter().map(Some).collect()).collect();
    Answer::Rows(columns.iter().map(|&name| name.to_owned()).collect(), rows)
}

/// Value of a global variable.
fn variable(log: &Facts, name: &str) -> Option<String> {
    let text = match name.to_ascii_lowercase().as_str() {
        "server_id" => log.server_id.to_string(),
        "server_uuid" => log.server_uuid.to_string(),
        "version" => log.server_version.clone(),
        "version_comment" => "slipstream log server".into(),
        "binlog_checksum" if log.checksum == ChecksumAlgorithm::Crc32 => "CRC32".into(),
        "binlog_checksum" => "NONE".into(),
        "log_bin" | "gtid_mode" | "enforce_gtid_consistency" | "read_only" => "ON".into(),
        "binlog_format" => "ROW".into(),
        "gtid_executed" => log.executed.to_string(),
        "gtid_purged" => log.purged.to_string(),
        "gtid_owned" => String::new(),
        "lower_case_table_names" => "0".into(),
        "binlog_encryption" => "OFF".into(),
        "max_allowed_packet" => (1u64 << 30).to_string(),
        "timestamp" => now(),
        _ => return None,
    };
    Some(text)
}

/// Seconds since 1970 with six digits after the decimal point.
fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:06}", now.as_secs(), now.subsec_micros())
}

/// User variables by which a dump goes: without a value they would ask for something else.
const OF_A_DUMP: [&str; 4] =
    ["source_heartbeat_period", "master_heartbeat_period", "source_binlog_checksum", "master_binlog_checksum"];

/// Stores user variables; anything else that a session sets has no meaning here.
fn set(log: &Facts, variables: &mut Variables, list: &str) -> Answer {
    for part in split(list) {
        let Some((name, value)) = part.split_once('=') else { continue };
        let name = name.trim().trim_end_matches(':').trim();
        if let Some(name) = name.strip_prefix('@').filter(|name| !name.starts_with('@')) {
            let (name, value) = (name.to_ascii_lowercase(), evaluate(log, variables, value.trim()));
            if value.is_none() && OF_A_DUMP.contains(&name.as_str()) {
                return Answer::Unknown;
            }
            variables.insert(name, value.unwrap_or_default());
        }
    }
    Answer::Ok
}

fn select(log: &Facts, variables: &Variables, list: &str) -> Answer {
    let upper = list.to_ascii_uppercase();
    let list = upper.rfind(" LIMIT ").and_then(|at| list.get(..at)).unwrap_or(list);
    let (mut columns, mut row) = (Vec::new(), Vec::new());
    for part in split(list) {
        let part = part.trim();
        let expression = part.split_whitespace().next().unwrap_or_default();
        let Some(value) = evaluate(log, variables, expression) else { return Answer::Unknown };
        columns.push(part.to_owned());
        row.push(value);
    }
    Answer::Rows(columns, vec![row])
}

/// Evaluates a variable, a number, a text, NULL, or one of four functions. None: unknown.
fn evaluate(log: &Facts, variables: &Variables, expression: &str) -> Option<Option<String>> {
    if let Some(name) = expression.strip_prefix("@@") {
        let name = name.rsplit('.').next().unwrap_or_default();
        return variable(log, name).map(Some);
    }
    if let Some(name) = expression.strip_prefix('@') {
        return Some(variables.get(&name.to_ascii_lowercase()).cloned().flatten());
    }
    if let [text] = quoted(expression).as_slice() {
        return Some(Some(text.clone()));
    }
    match expression.to_ascii_uppercase().as_str() {
        "NULL" => Some(None),
        "UNIX_TIMESTAMP()" => Some(now().split('.').next().map(str::to_owned)),
        "CURRENT_USER()" | "USER()" => Some(Some("replica@%".into())),
        "CURRENT_ROLE()" => Some(Some("NONE".into())),
        "VERSION()" => Some(Some(log.server_version.clone())),
        number if number.parse::<f64>().is_ok() => Some(Some(expression.to_owned())),
        _ => None,
    }
}

/// The quoted texts in a statement. Variable names contain no quotes.
fn quoted(text: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once(['\'', '"']) {
        let Some((inside, behind)) = behind.split_once(['\'', '"']) else { break };
        texts.push(inside.replace("\\_", "_"));
        rest = behind;
    }
    texts
}

/// Splits at commas outside quotes and parentheses.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0u32, None);
    for (at, character) in list.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.extend(list.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(list.get(start..));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{GtidSet, Uuid};
    use proptest::prelude::*;

    fn log() -> Facts {
        Facts {
            files: vec![("log.000001".into(), 9)],
            listed: true,
            executed: "00000000-0000-0000-0000-000000000001:1-9".parse().unwrap(),
            purged: GtidSet::new(),
            server_version: "9.7.4".into(),
            server_id: 5,
            server_uuid: Uuid([1; 16]),
            checksum: ChecksumAlgorithm::Crc32,
        }
    }

    fn values(variables: &mut Variables, sql: &str) -> Vec<String> {
        match answer(&log(), variables, &[7], sql) {
            Answer::Rows(_, rows) => rows.into_iter().flatten().map(Option::unwrap_or_default).collect(),
            other => panic!("{sql}: {other:?}"),
        }
    }

    /// Statements of a stock replica, of ours and of mysqlbinlog.
    #[test]
    fn what_replicas_ask() {
        let mut session = Variables::new();
        let set = "SET @master_heartbeat_period = 30000001024, @source_heartbeat_period = 30000001024";
        assert_eq!(answer(&log(), &mut session, &[], set), Answer::Ok);
        let set = "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum";
        assert_eq!(answer(&log(), &mut session, &[], set), Answer::Ok);
        assert_eq!(values(&mut session, "SELECT @source_binlog_checksum"), ["CRC32"]);
        assert_eq!(values(&mut session, "SELECT @SOURCE_HEARTBEAT_PERIOD;"), ["30000001024"]);
        assert_eq!(values(&mut session, "SELECT @@GLOBAL.SERVER_ID"), ["5"]);
        assert_eq!(values(&mut session, "SELECT @@GLOBAL.GTID_MODE"), ["ON"]);
        assert_eq!(values(&mut session, "select @@version_comment limit 1"), ["slipstream log server"]);
        let sets = "SELECT @@global.gtid_executed, @@global.gtid_purged, CURRENT_USER()";
        assert_eq!(values(&mut session, sets), ["00000000-0000-0000-0000-000000000001:1-9", "", "replica@%"]);
        let show = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('gtid_mode','no_such','server_id')";
        assert_eq!(values(&mut session, show), ["gtid_mode", "ON", "server_id", "5"]);
        let semi_sync = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('rpl_semi_sync_source_enabled')";
        assert!(values(&mut session, semi_sync).is_empty());
        assert_eq!(values(&mut session, "SHOW REPLICAS")[0], "7");
        assert!(values(&mut session, "SELECT @@timestamp")[0].contains('.'));
        set_and_read(
            &mut session,
            "SET @replica_uuid = 'a,b=c', @x = NULL",
            "SELECT @replica_uuid, @x",
            &["a,b=c", ""],
        );
        assert_eq!(values(&mut session, "SHOW BINARY LOGS"), ["log.000001", "9", "No"]);
        let changed_on_the_way = Facts { listed: false, ..log() };
        let Answer::Rows(_, logs) = answer(&changed_on_the_way, &mut session, &[], "SHOW BINARY LOGS") else {
            panic!()
        };
        assert!(logs.is_empty());
        assert_eq!(answer(&log(), &mut session, &[], "SELECT COUNT(*) FROM t"), Answer::Unknown);
        assert_eq!(answer(&log(), &mut session, &[], "DROP TABLE t"), Answer::Unknown);
    }

    #[test]
    fn what_a_dump_goes_by_is_understood_or_refused() {
        let mut session = Variables::new();
        for name in OF_A_DUMP {
            assert_eq!(
                answer(&log(), &mut session, &[], &format!("SET @{name} = 10 * 100")),
                Answer::Unknown,
                "{name}"
            );
            assert_eq!(answer(&log(), &mut session, &[], &format!("SET @{name} = NULL")), Answer::Ok, "{name}");
        }
        assert_eq!(answer(&log(), &mut session, &[], "SET @old_sql_mode = @@sql_mode"), Answer::Ok);
    }

    fn set_and_read(session: &mut Variables, set: &str, read: &str, wanted: &[&str]) {
        assert_eq!(answer(&log(), session, &[], set), Answer::Ok);
        assert_eq!(values(session, read), wanted);
    }

    proptest! {
        #[test]
        fn any_text_has_an_answer(text in "(SET|SELECT|SHOW GLOBAL VARIABLES|) ?[@a-z'\",()= .;é]{0,40}") {
            answer(&log(), &mut Variables::new(), &[], &text);
        }
    }
}
