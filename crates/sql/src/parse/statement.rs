//! Statements by their first words.

use super::Parser;
use crate::Result;
use crate::ast::{AccessMode, Completion, ReplicaOrder, Statement};

/// First words of statements that change data, definitions or accounts: refused as a read-only server refuses them.
const WRITES: &[&str] = &[
    "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "IMPORT", "CREATE", "DROP", "RENAME", "TRUNCATE", "GRANT",
    "REVOKE",
];

/// First words of other statements that MySQL has and that are not answered here.
const REFUSED: &[&str] = &[
    "ANALYZE",
    "BINLOG",
    "CACHE",
    "CALL",
    "CHANGE",
    "CHECK",
    "CHECKSUM",
    "CLONE",
    "DEALLOCATE",
    "EXECUTE",
    "FLUSH",
    "GET",
    "HANDLER",
    "HELP",
    "INSTALL",
    "LOCK",
    "OPTIMIZE",
    "PREPARE",
    "PURGE",
    "REPAIR",
    "RESET",
    "RESIGNAL",
    "RESTART",
    "SHUTDOWN",
    "SIGNAL",
    "TABLE",
    "UNINSTALL",
    "UNLOCK",
    "VALUES",
    "WITH",
    "XA",
];

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Result<Statement> {
        if self.is_punct(b'(') {
            return Ok(Statement::Refused("SELECT in brackets".to_owned()));
        }
        let word = self.word();
        match word.as_str() {
            "SELECT" => self.select(),
            "SET" => self.set(),
            "USE" => {
                self.advance()?;
                Ok(Statement::Use(self.name()?))
            }
            "BEGIN" => {
                self.advance()?;
                self.accept("WORK")?;
                Ok(Statement::Begin { consistent: false, access: None })
            }
            "START" => self.start(),
            "STOP" => self.stop(),
            "KILL" => self.kill(),
            "COMMIT" => {
                self.advance()?;
                Ok(Statement::Commit(self.completion()?))
            }
            "ROLLBACK" => self.rollback(),
            "SAVEPOINT" => {
                self.advance()?;
                Ok(Statement::Savepoint(self.name()?))
            }
            "RELEASE" => {
                self.advance()?;
                self.expect("SAVEPOINT")?;
                Ok(Statement::Release(self.name()?))
            }
            "DO" => self.do_statement(),
            "SHOW" => self.show(),
            "DESC" | "DESCRIBE" | "EXPLAIN" => self.describe(),
            "ALTER" => self.alter(),
            word if WRITES.contains(&word) => Ok(Statement::Write),
            word if REFUSED.contains(&word) => Ok(Statement::Refused(word.to_owned())),
            _ => Err(self.syntax()),
        }
    }

    fn start(&mut self) -> Result<Statement> {
        self.advance()?;
        if self.is("GROUP_REPLICATION") {
            return Ok(Statement::Refused("START GROUP_REPLICATION".to_owned()));
        }
        if self.is_one_of(&["REPLICA", "SLAVE"]) {
            return self.replica(true);
        }
        self.expect("TRANSACTION")?;
        let (mut consistent, mut access) = (false, None);
        if !self.at_end() {
            loop {
                if self.accept_all(&["WITH", "CONSISTENT", "SNAPSHOT"])? {
                    consistent = true;
                } else {
                    // Both together contradict each other.
                    match (self.access_mode()?, access) {
                        (found, Some(before)) if found != before => return Err(self.syntax()),
                        (found, _) => access = Some(found),
                    }
                }
                if !self.accept_punct(b',')? {
                    break;
                }
            }
        }
        Ok(Statement::Begin { consistent, access })
    }

    /// `[CONNECTION|QUERY] number`
    fn kill(&mut self) -> Result<Statement> {
        self.advance()?;
        let query = self.accept("QUERY")?;
        if !query {
            self.accept("CONNECTION")?;
        }
        Ok(Statement::Kill { query, id: self.expression()? })
    }

    fn stop(&mut self) -> Result<Statement> {
        self.advance()?;
        if self.is("GROUP_REPLICATION") {
            return Ok(Statement::Refused("STOP GROUP_REPLICATION".to_owned()));
        }
        if self.is_one_of(&["REPLICA", "SLAVE"]) { self.replica(false) } else { Err(self.syntax()) }
    }

    /// `[thread [, thread]…] [FOR CHANNEL 'name']`, without threads both. What else START has is refused by its name.
    fn replica(&mut self, start: bool) -> Result<Statement> {
        self.advance()?;
        let mut order = ReplicaOrder { start, io: false, sql: false };
        if self.is_one_of(&["IO_THREAD", "RELAY_THREAD", "SQL_THREAD"]) {
            loop {
                if self.accept("IO_THREAD")? || self.accept("RELAY_THREAD")? {
                    order.io = true;
                } else {
                    self.expect("SQL_THREAD")?;
                    order.sql = true;
                }
                if !self.accept_punct(b',')? {
                    break;
                }
            }
        } else {
            (order.io, order.sql) = (true, true);
        }
        if start && self.is_one_of(&["UNTIL", "USER", "PASSWORD", "DEFAULT_AUTH", "PLUGIN_DIR"]) {
            return Ok(Statement::Refused(format!("START REPLICA {}", self.word())));
        }
        Ok(Statement::Replica { order, channel: self.channel()? })
    }

    /// READ ONLY or READ WRITE.
    pub(super) fn access_mode(&mut self) -> Result<AccessMode> {
        self.expect("READ")?;
        if self.accept("ONLY")? {
            return Ok(AccessMode::ReadOnly);
        }
        self.expect("WRITE")?;
        Ok(AccessMode::ReadWrite)
    }

    /// `[WORK] [AND [NO] CHAIN] [[NO] RELEASE]`
    fn completion(&mut self) -> Result<Completion> {
        self.accept("WORK")?;
        let mut completion = Completion::default();
        if self.accept("AND")? {
            completion.chain = !self.accept("NO")?;
            self.expect("CHAIN")?;
        }
        let place = self.syntax();
        if self.accept("NO")? {
            self.expect("RELEASE")?;
        } else if self.accept("RELEASE")? {
            // A connection that ends begins no transaction.
            if completion.chain {
                return Err(place);
            }
            completion.release = true;
        }
        Ok(completion)
    }

    fn rollback(&mut self) -> Result<Statement> {
        self.advance()?;
        self.accept("WORK")?;
        if self.accept("TO")? {
            self.accept("SAVEPOINT")?;
            return Ok(Statement::RollbackTo(self.name()?));
        }
        Ok(Statement::Rollback(self.completion()?))
    }

    fn alter(&mut self) -> Result<Statement> {
        self.advance()?;
        if !self.accept("INSTANCE")? {
            return Ok(Statement::Write);
        }
        if self.accept("RELOAD")? && self.is("TLS") {
            self.advance()?;
            if self.at_end() {
                return Ok(Statement::ReloadTls);
            }
        }
        Ok(Statement::Refused("ALTER INSTANCE but RELOAD TLS".to_owned()))
    }
}
