//! What a running MySQL server reports of its own options, so that no table repeats what was merely asked for.
//!
//! In: a session. Out: the options that differ from the server's defaults, and when it syncs. Never here: an option
//! that says only where the server is (its folder, port, log).

use anyhow::{Context, Result};
use client::Connection;

/// Options that every server of the lab has and that say only where it is. `innodb_buffer_pool_load_at_startup` and its
/// like are not among them.
const PLACES: [&str; 15] = [
    "basedir",
    "bind_address",
    "character_sets_dir",
    "datadir",
    "general_log_file",
    "lc_messages_dir",
    "log_error",
    "mysqlx",
    "pid_file",
    "plugin_dir",
    "port",
    "relay_log",
    "secure_file_priv",
    "server_id",
    "socket",
];

/// Options of a server, as it reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reported {
    /// Name and value of every option that was given to it, by name.
    pub given: Vec<(String, String)>,
    /// When rows are synced.
    pub store_synced: String,
    /// When its own binary log is synced.
    pub log_synced: String,
}

impl Reported {
    /// Reads them through a session.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub(crate) fn read(connection: &mut Connection) -> Result<Reported> {
        let sql = "SELECT i.VARIABLE_NAME, v.VARIABLE_VALUE FROM performance_schema.variables_info i
                   JOIN performance_schema.global_variables v ON v.VARIABLE_NAME = i.VARIABLE_NAME
                   WHERE i.VARIABLE_SOURCE = 'COMMAND_LINE' ORDER BY 1";
        let answer = connection.query(sql)?;
        let mut given = Vec::new();
        for row in 0..answer.rows.len() {
            let cell = |column| answer.text(row, column).unwrap_or_default();
            // The list has old names as well as new ones.
            if !PLACES.contains(&cell(0).as_str()) && !cell(0).contains("slave") {
                given.push((cell(0), cell(1)));
            }
        }
        let sql = "SELECT @@GLOBAL.innodb_flush_log_at_trx_commit, @@GLOBAL.sync_binlog, @@GLOBAL.log_bin,
                          @@GLOBAL.log_replica_updates";
        let answer = connection.query(sql)?;
        let cell = |column: usize| answer.text(0, column).with_context(|| format!("no answer to {sql}"));
        // A log that is off is not listed as given.
        if cell(2)? == "0" {
            given.push(("log_bin".to_owned(), "OFF".to_owned()));
            given.sort();
        }
        Ok(Reported {
            given,
            store_synced: store_synced(&cell(0)?).to_owned(),
            log_synced: log_synced(&cell(1)?, cell(2)? == "1" && cell(3)? == "1"),
        })
    }

    /// The given options as text, but for those named; none: as it ships.
    pub(crate) fn text_without(&self, names: &[String]) -> String {
        let given = self.given.iter().filter(|(name, _)| !names.contains(name));
        let words: Vec<String> = given.map(|(name, value)| format!("{name}={value}")).collect();
        if words.is_empty() { "as it ships".to_owned() } else { words.join(" ") }
    }
}

/// innodb_flush_log_at_trx_commit in words.
fn store_synced(value: &str) -> &'static str {
    match value {
        "0" => "no (once a second)",
        "2" => "no (written; once a second)",
        _ => "each commit group",
    }
}

/// sync_binlog of a replica in words.
fn log_synced(value: &str, has_log: bool) -> String {
    match value {
        _ if !has_log => "no binary log".to_owned(),
        "0" => "binlog never".to_owned(),
        "1" => "binlog each group".to_owned(),
        groups => format!("binlog each {groups}"),
    }
}

/// Name of the variable that a mysqld option sets, as `innodb_io_capacity` for `--loose-innodb-io-capacity=200`.
pub(crate) fn variable_of(option: &str) -> String {
    let name = option.trim_start_matches('-').split('=').next().unwrap_or_default().replace('-', "_").to_lowercase();
    let name = name.strip_prefix("loose_").unwrap_or(&name);
    match name.strip_prefix("skip_") {
        Some("log_bin") => "log_bin".to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_synced_follows_from_the_values() {
        assert_eq!((store_synced("1"), store_synced("0")), ("each commit group", "no (once a second)"));
        assert_eq!(log_synced("1", true), "binlog each group");
        assert_eq!(log_synced("1000", true), "binlog each 1000");
        assert_eq!(log_synced("1", false), "no binary log");
    }

    #[test]
    fn a_server_with_no_option_of_ones_own_is_as_it_ships() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let given = vec![pair("gtid_mode", "ON"), pair("sync_binlog", "0")];
        let reported = Reported { given, ..Reported::default() };
        assert_eq!(reported.text_without(&["gtid_mode".into()]), "sync_binlog=0");
        assert_eq!(reported.text_without(&["gtid_mode".into(), "sync_binlog".into()]), "as it ships");
        assert_eq!(variable_of("--loose-innodb-io-capacity=200"), "innodb_io_capacity");
        assert_eq!(
            (variable_of("--skip-log-bin"), variable_of("--gtid-mode=ON")),
            ("log_bin".into(), "gtid_mode".into())
        );
    }
}
