//! What MySQL's own replica makes of a source's log: is a difference ours, or the source's?
//!
//! In: a source and what was found behind it. Out: why the source itself is at fault, if it is. Never here: a guess; a
//! log that a stock replica applies to other rows than ours keeps the finding.

use std::path::Path;
use std::time::{Duration, Instant};

use super::follow::caught;
use super::schema::DATABASES;
use crate::{Server, compare};

/// In front of what a stock replica of the same log shows.
pub const SAME_AT_STOCK: &str = "a stock replica of this log ";

/// How long a stock replica may take to apply all of the log.
const PATIENCE: Duration = Duration::from_secs(240);

/// Why the source's log is at fault for what was found: a stock replica of it stops at the transaction that `what`
/// names, or gets the same rows as the replica that runs in this folder.
///
/// On 9.7.4, without `innodb_native_foreign_keys`, an autocommitted DELETE whose cascade is the victim of a deadlock at
/// a parent's second child does not hear of it: what was undone stays in the log, and it goes on to its next row.
/// `a_source_that_contradicts_its_log` shows one.
pub fn stock_agrees(source: &Server, running: Option<&Path>, what: &str) -> Option<String> {
    caught(|| asked(source, running, what)).unwrap_or_else(|error| {
        eprintln!("no stock replica to ask: {error}");
        None
    })
}

fn asked(source: &Server, running: Option<&Path>, what: &str) -> Option<String> {
    let options = options_of(source);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let stock = Server::start_unsynced("stock", &options);
    stock.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', \
         SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA",
        source.port()
    ));
    let all = source.gtid_executed().to_string();
    let until = Instant::now() + PATIENCE;
    let error = loop {
        let status = stock.client(&["--vertical", "--column-names"], "SHOW REPLICA STATUS").unwrap();
        let error = status.lines().find_map(|line| line.trim().strip_prefix("Last_SQL_Error:")).unwrap_or_default();
        if !error.is_empty() {
            break Some(error.trim().to_owned());
        }
        if stock.sql(&format!("SELECT GTID_SUBSET('{all}', @@GLOBAL.gtid_executed)")).trim() == "1" {
            break None;
        }
        assert!(Instant::now() < until, "it has not applied the log in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(200));
    };
    match (error, running) {
        (Some(error), _) => same_gtid(what, &error).then(|| format!("{SAME_AT_STOCK}stops there: {error}")),
        (None, Some(data)) => {
            compare::verify_equal(&stock, data.to_str().unwrap(), DATABASES);
            Some(format!("{SAME_AT_STOCK}has the rows of this replica"))
        }
        (None, None) => None,
    }
}

/// What decides how a server that cannot ask its sessions reads a log, as options.
fn options_of(source: &Server) -> Vec<String> {
    let ask = |name: &str| source.sql(&format!("SELECT @@GLOBAL.{name}")).trim().to_owned();
    let same =
        ["innodb_native_foreign_keys", "restrict_fk_on_non_standard_key", "character_set_server", "collation_server"];
    let mut options: Vec<String> =
        same.iter().map(|name| format!("--{}={}", name.replace('_', "-"), ask(name))).collect();
    options.push(format!("--default-time-zone={}", ask("time_zone")));
    options
}

/// True if a message of a stock replica's worker names the transaction that ours stopped in.
fn same_gtid(ours: &str, theirs: &str) -> bool {
    let word = |text: &str, before: &str| {
        let rest = text.split_once(before)?.1;
        Some(rest.split(['\'', ' ', ';', ',']).next()?.to_owned())
    };
    word(ours, ", GTID ").is_some_and(|gtid| word(theirs, "executing transaction '") == Some(gtid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_transaction() {
        let ours =
            "Error 1032: the row; at relay log relay-bin.000007:196895, GTID 874e3f30-e9c5-11f1:1775 (exit 9: data";
        let theirs = |number| {
            format!(
                "Coordinator stopped: Worker 1 failed executing transaction '874e3f30-e9c5-11f1:{number}' at source log binlog.000005, \
                 end_log_pos 12; Could not execute Update_rows event on table diffb.t4"
            )
        };
        assert!(same_gtid(ours, &theirs(1775)));
        assert!(!same_gtid(ours, &theirs(177)));
        assert!(!same_gtid("DIFFERENT diffb.t4", &theirs(1775)));
    }
}
