//! One session: its settings, its transactions, its definitions, in the order of a seed.
//!
//! In: a seed and the schema that all sessions share. Out: units, as the server accepted them. Never here: a
//! comparison.

use std::collections::BTreeMap;
use std::sync::Mutex;

use client::Connection;

use super::schema::{DATABASES, Schema};
use super::script::{Line, Unit, connect, execute};
use super::{Chance as _, Statement, clients, ddl, dml, types};
use crate::Random;

/// `(accepted, refused)` by form.
pub type Forms = BTreeMap<&'static str, (u64, u64)>;

/// Counts over several sessions.
#[derive(Debug, Default)]
pub struct Tally {
    /// Statements.
    pub forms: Forms,
    /// Errors by number, with the last statement of each.
    pub errors: BTreeMap<u16, (u64, String)>,
    /// Transactions begun.
    pub transactions: u64,
}

/// State that sessions share.
pub struct Shared {
    /// The tables.
    pub schema: Mutex<Schema>,
    /// Units in the order in which they ended.
    pub units: Mutex<Vec<Unit>>,
    /// Counts.
    pub tally: Mutex<Tally>,
    /// Prepared transactions that any session may end.
    pub prepared: Mutex<Vec<String>>,
    /// Folder of the files for LOAD DATA.
    pub files: String,
    /// Server address.
    pub url: String,
    /// What is left out.
    pub limits: ddl::Limits,
    /// Percentage of units that are DDL.
    pub ddl_percent: u64,
}

/// A session.
pub struct Session<'a> {
    number: usize,
    random: Random,
    shared: &'a Shared,
    connection: Connection,
    database: &'static str,
    /// Its `character_set_client`.
    client: String,
    unit: Vec<Line>,
    xids: u64,
    /// Number of the next table with odd names.
    odd: u64,
}

const MODES: &[&str] = &[
    "''",
    "''",
    "DEFAULT",
    "'STRICT_TRANS_TABLES'",
    "'ALLOW_INVALID_DATES'",
    "'PAD_CHAR_TO_FULL_LENGTH'",
    "'ANSI'",
    "'NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
    "'REAL_AS_FLOAT,TIME_TRUNCATE_FRACTIONAL'",
    "'NO_AUTO_VALUE_ON_ZERO,NO_UNSIGNED_SUBTRACTION'",
    "'INTERPRET_UTF8_AS_UTF8MB4,HIGH_NOT_PRECEDENCE'",
];
const ZONES: &[&str] = &["'+00:00'", "'+05:30'", "'-08:00'", "'+13:45'"];

/// A session setting that affects what the session writes.
fn setting(random: &mut Random, limits: ddl::Limits) -> String {
    let on = |random: &mut Random| random.below(2);
    match random.below(22) {
        0..=3 => format!("SET SESSION binlog_row_image = {}", random.pick(&["FULL", "MINIMAL", "NOBLOB"])),
        4 | 5 => format!("SET SESSION binlog_transaction_compression = {}", on(random)),
        6 | 7 => format!("SET SESSION binlog_row_value_options = '{}'", random.pick(&["", "PARTIAL_JSON"])),
        8 | 9 => format!("SET SESSION sql_mode = {}", random.pick(MODES)),
        10 | 11 => format!("SET SESSION time_zone = {}", random.pick(ZONES)),
        12 => format!("SET NAMES {}", clients::any(random)),
        13 => {
            // Text of a wide character set in a JSON function becomes an opaque value, which a 9.7 server prints as raw
            // bytes, and those are not JSON text: JSON_ARRAY(CONVERT('a' USING utf16le)).
            let charset = random.charset();
            let collation = if types::is_wide(charset) { "latin1_bin" } else { charset.1 };
            format!("SET SESSION collation_connection = {collation}")
        }
        // Not with native foreign keys. A child written without checks, while the DELETE of its parent waits for its
        // COMMIT, stays at the source. In the log the child comes first, so every replica applies the cascade to it.
        14 if !limits.native_foreign_keys => format!("SET SESSION foreign_key_checks = {}", on(random)),
        15 => format!("SET SESSION sql_generate_invisible_primary_key = {}", on(random)),
        16 => format!("SET SESSION timestamp = {}", random.pick(&["DEFAULT", "1700000000.123456", "86400"])),
        17 => format!("SET SESSION auto_increment_increment = {}", 1 + random.below(4)),
        18 => format!(
            "SET SESSION default_collation_for_utf8mb4 = {}",
            random.pick(&["utf8mb4_general_ci", "utf8mb4_0900_ai_ci"])
        ),
        19 => {
            let level = random.pick(&["READ-COMMITTED", "READ-COMMITTED", "REPEATABLE-READ"]);
            format!("SET SESSION transaction_isolation = '{level}'")
        }
        20 => format!("SET SESSION explicit_defaults_for_timestamp = {}", on(random)),
        _ => format!("SET SESSION binlog_rows_query_log_events = {}, unique_checks = {}", on(random), on(random)),
    }
}

impl<'a> Session<'a> {
    /// The session with this number in a run with this seed; `round` gives it other statements.
    #[must_use]
    pub fn open(shared: &'a Shared, number: usize, seed: u64) -> Session<'a> {
        let connection = connect(&shared.url, DATABASES[0]);
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let mut session = Session {
            number,
            database: DATABASES[0],
            random: Random::new(1),
            shared,
            connection,
            client: "utf8mb4".to_owned(),
            unit: Vec::new(),
            xids: seed << 20,
            odd: (seed << 24) + ((number as u64) << 20),
        };
        for _ in 0..random.below(8) {
            let sql = setting(&mut random, shared.limits);
            let _ = session.run(&Statement::new("SET", sql));
        }
        session.random = random;
        session.end_unit();
        session
    }

    /// Runs one unit.
    pub fn step(&mut self) {
        // Their locks obstruct other sessions.
        if self.random.chance(25) {
            self.end_prepared();
        }
        if self.random.chance(20) {
            let sql = setting(&mut self.random, self.shared.limits);
            let _ = self.run(&Statement::new("SET", sql));
        }
        if self.random.chance(3) {
            self.database = self.random.pick(DATABASES);
            let _ = self.run(&Statement::new("SET", format!("USE {}", self.database)));
        }
        let ddl = self.shared.ddl_percent;
        match self.random.below(100) {
            n if n < ddl => self.definition(),
            n if n < ddl + 4 => self.xa(),
            n if n < ddl + 6 => self.load(),
            n if n < ddl + 40 => self.change(),
            _ => self.transaction(),
        }
        self.end_unit();
    }

    /// Creates a table with rows, in this generator's way.
    pub fn define(&mut self, random: &mut Random) {
        let statements = {
            let mut schema = self.shared.schema.lock().unwrap();
            ddl::create(random, &mut schema, self.database, self.shared.limits)
        };
        for statement in &statements {
            self.run(statement);
            self.fill();
        }
    }

    /// Fills new tables with rows.
    fn fill(&mut self) {
        for _ in 0..3 {
            self.change();
        }
        self.end_unit();
    }

    fn end_unit(&mut self) {
        let statements = std::mem::take(&mut self.unit);
        if !statements.is_empty() {
            self.shared.units.lock().unwrap().push(Unit { session: self.number, statements });
        }
    }

    fn run(&mut self, statement: &Statement) -> bool {
        let result = execute(&mut self.connection, &statement.sql);
        let accepted = result.is_ok();
        {
            let mut tally = self.shared.tally.lock().unwrap();
            let counts = tally.forms.entry(statement.kind).or_default();
            if accepted {
                counts.0 += 1
            } else {
                counts.1 += 1
            };
            if let Err(error) = &result {
                let of = tally.errors.entry(error.server_code().unwrap_or(0)).or_default();
                of.0 += 1;
                of.1 = format!("{error}; {}", statement.sql.chars().take(300).collect::<String>());
            }
        }
        if let Some(client) = statement.sql.strip_prefix("SET NAMES ").filter(|_| accepted) {
            client.clone_into(&mut self.client);
        }
        if accepted {
            self.shared.schema.lock().unwrap().take(&statement.changes);
        }
        if self.connection.is_broken() {
            self.connection = connect(&self.shared.url, DATABASES[0]);
            self.database = DATABASES[0];
            self.client = "utf8mb4".to_owned();
        }
        let refused = result.err().map(|error| error.server_code().unwrap_or(0));
        self.unit.push(Line { sql: statement.sql.clone(), refused });
        accepted
    }

    fn quiet(&mut self, sql: &str) -> bool {
        self.run(&Statement::new("BEGIN, COMMIT, SAVEPOINT, XA", sql.to_owned()))
    }

    /// DML, one group of statements.
    fn change(&mut self) {
        let statements = {
            let schema = self.shared.schema.lock().unwrap();
            dml::any(&mut self.random, &schema, self.database)
        };
        for statement in &statements {
            self.run(statement);
        }
    }

    fn load(&mut self) {
        let statements = {
            let schema = self.shared.schema.lock().unwrap();
            dml::load_data(&mut self.random, &schema, self.database, &self.shared.files)
        };
        statements.iter().for_each(|statement| {
            self.run(statement);
        });
    }

    fn definition(&mut self) {
        if self.random.chance(8) {
            self.odd += 1;
            let statements = clients::own_table(&mut self.random, &self.client, self.odd);
            let _ = statements.iter().all(|statement| self.run(statement));
            return;
        }
        let mut statements = {
            let mut schema = self.shared.schema.lock().unwrap();
            ddl::any(&mut self.random, &mut schema, self.database, self.shared.limits)
        };
        for statement in &mut statements {
            clients::dressed(&mut self.random, &self.client, statement);
        }
        for statement in &statements {
            if self.run(statement) && statement.kind.starts_with("CREATE TABLE") {
                self.fill();
            }
        }
    }

    fn transaction(&mut self) {
        self.shared.tally.lock().unwrap().transactions += 1;
        self.quiet("BEGIN");
        for n in 0..1 + self.random.below(8) {
            self.change();
            if self.random.chance(10) {
                self.quiet(&format!("SAVEPOINT s{n}"));
                self.change();
                if self.random.chance(60) {
                    self.quiet(&format!("ROLLBACK TO s{n}"));
                }
            }
        }
        let end = if self.random.chance(8) { "ROLLBACK" } else { "COMMIT" };
        self.quiet(end);
    }

    fn xa(&mut self) {
        self.xids += 1;
        let xid = clients::xid(&mut self.random, self.number, self.xids);
        self.shared.tally.lock().unwrap().transactions += 1;
        if !self.quiet(&format!("XA START {xid}")) {
            return;
        }
        for _ in 0..1 + self.random.below(4) {
            self.change();
        }
        let ended = self.quiet(&format!("XA END {xid}"));
        if ended && self.random.chance(20) && self.quiet(&format!("XA COMMIT {xid} ONE PHASE")) {
            return;
        }
        if !ended || !self.quiet(&format!("XA PREPARE {xid}")) {
            self.quiet(&format!("XA ROLLBACK {xid}"));
            return;
        }
        let mut prepared = self.shared.prepared.lock().unwrap();
        prepared.push(xid);
    }

    /// Commits or rolls back a prepared transaction of any session.
    fn end_prepared(&mut self) {
        let xid = {
            let mut prepared = self.shared.prepared.lock().unwrap();
            let at = self.random.below(prepared.len().max(1) as u64) as usize;
            if prepared.is_empty() { None } else { Some(prepared.remove(at)) }
        };
        if let Some(xid) = xid {
            let verb = if self.random.chance(75) { "COMMIT" } else { "ROLLBACK" };
            let ended = self.quiet(&format!("XA {verb} {xid}"));
            let refused = self.unit.last().and_then(|line| line.refused);
            // XAER_NOTA: there is no such transaction, so an earlier try ended it after all.
            if !ended && refused != Some(1397) {
                // Under ANSI_QUOTES, say. Left alone it would keep tables from being copied for ever.
                self.shared.prepared.lock().unwrap().push(xid);
            }
        }
    }

    /// Ends all prepared transactions.
    pub fn end_all_prepared(&mut self) {
        // A session begins with random settings, and under ANSI_QUOTES no identifier in double quotes is text.
        self.quiet("SET SESSION sql_mode = ''");
        for tries in 0.. {
            if self.shared.prepared.lock().unwrap().is_empty() {
                break;
            }
            self.end_prepared();
            let refused = self.unit.last().and_then(|line| line.refused);
            assert!(tries < 1_000, "never ended: {:?}: {refused:?}", self.shared.prepared.lock().unwrap());
        }
        self.end_unit();
    }
}
