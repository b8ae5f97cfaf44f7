//! The replica that follows a differential run: restarted now and then, compared at quiet points.
//!
//! In: a server that is being written to. Out: counts, or the difference. Never here: an expected difference.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use super::schema::DATABASES;
use super::stock::stock_agrees;
use crate::{Replica, Server, assert_equal_at_rest, assert_same_definitions_but_silence, compare, folder, slipstream};

/// Small memory, so that generations are cut and spilled; short intervals, so that many events fall into them.
const OPTIONS: &[&str] = &["--memory=128M", "--cut-interval=150ms", "--max-relay-log-size=1M"];

/// Accepted reasons for a table copy: words of the reason, and what docs/compatibility.md says about it.
pub const MAY_BE_COPIED: &[(&str, &str)] = &[
    ("the values of the added generated column", "added generated columns"),
    ("AUTO_INCREMENT numbers that depend on an order", "AUTO_INCREMENT columns of rows in no known order"),
    ("numbers with steps that a partitioned table gets in place", "AUTO_INCREMENT columns of rows in no known order"),
    ("AUTO_INCREMENT number", "columns that become AUTO_INCREMENT"),
    ("of an AUTO_INCREMENT column", "columns that become AUTO_INCREMENT"),
    ("numbers under an auto_increment_offset", "columns that become AUTO_INCREMENT"),
    ("the default of the added column", "non-constant defaults"),
    // The value crate's own words for unknown conversions.
    ("not supported yet: the conversion of", "conversions the value crate does not know"),
    ("is no value for a", "conversions of a value that is no plain number or date"),
    // Its expression is not evaluated here.
    ("the generated column", "columns of another type, or other defaults, below generated ones"),
    ("the virtual column", "virtual columns of a table that had no key"),
    ("the partitioning column", "partitions by virtual columns"),
    ("outside the partition's rule", "EXCHANGE PARTITION … WITHOUT VALIDATION"),
    ("outside their partition's rule", "tables with rows outside their partition"),
    ("changed places with a table, one of them quarantined", "EXCHANGE PARTITION beside a table that waits"),
    // A session that says SET NAMES and goes on in UTF-8.
    ("beyond ASCII in a definition", "bytes that are no text of the client's character set"),
    ("without NO_ENGINE_SUBSTITUTION: the log does not say", "engines that another one may have replaced"),
    ("made LIKE a table that is quarantined", "tables made LIKE one that waits for its copy"),
];

/// A replica of a server that is being written to.
pub struct Follower<'a> {
    server: &'a Server,
    data: PathBuf,
    replica: Option<Replica>,
    /// Number of starts after the first.
    pub restarts: u64,
    /// Number of comparisons.
    pub comparisons: u64,
}

impl<'a> Follower<'a> {
    /// Follows from the first statement of the log.
    ///
    /// # Errors
    /// The replica does not come up.
    pub fn start(server: &'a Server) -> Result<Follower<'a>, String> {
        let mut follower =
            Follower { server, data: folder("differential"), replica: None, restarts: 0, comparisons: 0 };
        follower.up()?;
        Ok(follower)
    }

    fn up(&mut self) -> Result<(), String> {
        // If every row is looked up at once, changes of some columns are never kept as parts in memory
        // (ARCHITECTURE.md).
        let check = if self.restarts % 2 == 1 { "--check-images=sample" } else { "--check-images=all" };
        let options = [OPTIONS, &[check]].concat();
        self.replica = Some(caught(|| Replica::follow(self.server, &self.data, &options))?);
        Ok(())
    }

    /// Stops or kills the replica and starts it again.
    ///
    /// # Errors
    /// It had already ended, does not end with code 0, or does not come up.
    pub fn restart(&mut self, kill: bool) -> Result<(), String> {
        let mut replica = self.replica.take().ok_or("no replica")?;
        if let Some(code) = replica.ended() {
            return Err(format!("the replica ended with code {code}:\n{}", replica.log_end()));
        }
        caught(|| if kill { replica.kill() } else { replica.stop() })?;
        self.restarts += 1;
        self.up()
    }

    /// Waits until everything is visible here; true if tables still wait for their copy.
    ///
    /// # Errors
    /// The replica ends or does not get there.
    pub fn catch_up(&mut self) -> Result<bool, String> {
        let replica = self.replica.as_mut().ok_or("no replica")?;
        let status = caught(|| replica.catch_up(self.server))?;
        Ok(!status["replay"]["quarantined"].as_array().is_none_or(Vec::is_empty))
    }

    /// Waits for copies in progress, then compares all tables, by the mysql client's text and by verify.
    ///
    /// # Errors
    /// The difference; or the replica ended.
    pub fn compare(&mut self) -> Result<(), String> {
        let (server, replica) = (self.server, self.replica.as_mut().ok_or("no replica")?);
        self.comparisons += 1;
        caught(|| {
            let is_consistent =
                |status: &serde_json::Value| status["replay"]["quarantined"].as_array().is_none_or(Vec::is_empty);
            replica.catch_up(server);
            replica.wait_until("copies of single tables", is_consistent);
            assert_equal_at_rest(server, replica.data(), DATABASES);
            compare::verify_equal(server, replica.data(), DATABASES);
            // Both agree with the log: a table on this list would be a false alarm.
            slipstream(&["check-store", "--data", replica.data()]).expect(0, &["no row contradicts the log"]);
        })
        .map_err(|what| match corrupt_at_source(server, &what) {
            // Reading it is refused before any comparison (1194).
            _ if what.contains("is marked as crashed") => format!("{what}\n{CORRUPT_AT_SOURCE}it is crashed"),
            Some(check) => format!("{what}\n{CORRUPT_AT_SOURCE}{check}"),
            None => match stock_agrees(server, Some(&self.data), &what) {
                Some(same) => format!("{what}\n{same}"),
                None => what,
            },
        })
    }

    /// Reasons for table copies that are not among the accepted ones.
    #[must_use]
    pub fn unexpected_copies(&self) -> Vec<String> {
        let reasons = self.copies();
        reasons.into_iter().filter(|why| !MAY_BE_COPIED.iter().any(|(words, _)| why.contains(words))).collect()
    }

    /// Reasons for table copies, from the logs of all runs.
    #[must_use]
    pub fn copies(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.data.with_extension("log")).unwrap_or_default();
        let words = "cannot be read until it is copied again; starting the copy: ";
        log.lines().filter_map(|line| line.split_once(words)).map(|(_, why)| why.to_owned()).collect()
    }

    /// Ends the replica and removes its folder.
    ///
    /// # Errors
    /// It does not end with code 0.
    pub fn end(mut self) -> Result<(), String> {
        let replica = self.replica.take().ok_or("no replica")?;
        caught(|| replica.stop())?;
        // So are the definitions, and what SHOW CREATE TABLE would show of them.
        caught(|| assert_same_definitions_but_silence(self.server, &self.data, DATABASES))?;
        // The folder alone says the same.
        caught(|| assert_equal_at_rest(self.server, self.data.to_str().unwrap(), DATABASES))?;
        let _ = slipstream(&["status", "--data", self.data.to_str().unwrap()]);
        let _ = std::fs::remove_dir_all(&self.data);
        Ok(())
    }
}

/// In front of what the source itself finds wrong with a table that differs.
pub const CORRUPT_AT_SOURCE: &str = "the source's own CHECK TABLE finds: ";

/// What CHECK TABLE says at the source of a table named in this difference, if it is not well: an index and its table
/// then give different rows there too.
fn corrupt_at_source(server: &Server, difference: &str) -> Option<String> {
    let tables = compare::table_names(server, DATABASES);
    let of_name = |table: &String| difference.contains(table.as_str());
    tables.into_iter().filter(of_name).find_map(|table| {
        let (database, name) = table.split_once('.')?;
        let said = caught(|| server.sql(&format!("CHECK TABLE `{database}`.`{name}` EXTENDED"))).ok()?;
        let well = said.lines().all(|line| line.ends_with("status\tOK") || line.contains("\tnote\t"));
        (!well).then(|| said.replace(['\t', '\n'], " "))
    })
}

/// Runs an assertion; returns its message if it fails.
pub fn caught<T>(assertion: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(assertion)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}
