//! Statements by their first words.

use super::{Parser, check_name};
use crate::Result;
use crate::ast::{AccessMode, Completion, Flush, FlushOption, LockedTable, Show, Statement};

/// First words of statements that change data, definitions or accounts: refused as a read-only server refuses them.
const WRITES: &[&str] = &[
    "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "IMPORT", "CREATE", "DROP", "RENAME", "TRUNCATE", "GRANT",
    "REVOKE", "ANALYZE", "OPTIMIZE",
];

/// First words of other statements that MySQL has and that are not answered here.
const REFUSED: &[&str] = &[
    "BINLOG",
    "CACHE",
    "CALL",
    "CHECKSUM",
    "CLONE",
    "DEALLOCATE",
    "EXECUTE",
    "GET",
    "HANDLER",
    "HELP",
    "INSTALL",
    "PREPARE",
    "REPAIR",
    "RESIGNAL",
    "RESTART",
    "SHUTDOWN",
    "SIGNAL",
    "TABLE",
    "UNINSTALL",
    "VALUES",
    "WITH",
    "XA",
];

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Result<Statement> {
        if self.is_punct(b'(') {
            return Ok(self.refused("SELECT in brackets"));
        }
        let word = self.word();
        match word.as_str() {
            "SELECT" => self.select(),
            "SET" => self.set(),
            "USE" => {
                self.advance()?;
                let name = self.name()?;
                // Without a name it is another error, once it runs.
                if !name.is_empty() {
                    check_name("database", &name)?;
                }
                Ok(Statement::Use(name))
            }
            "BEGIN" => {
                self.advance()?;
                self.accept("WORK")?;
                Ok(Statement::Begin { consistent: false, access: None })
            }
            "START" => self.start(),
            "STOP" => self.stop(),
            "CHANGE" => self.change(),
            "RESET" => self.reset(),
            "PURGE" => self.purge(),
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
            "LOCK" => self.lock(),
            "UNLOCK" => self.unlock(),
            "FLUSH" => self.flush(),
            "CHECK" => self.check(),
            word if WRITES.contains(&word) => Ok(Statement::Write),
            word if REFUSED.contains(&word) => Ok(self.refused(word)),
            _ => Err(self.syntax()),
        }
    }

    fn start(&mut self) -> Result<Statement> {
        self.advance()?;
        if self.is("GROUP_REPLICATION") {
            return Ok(self.refused("START GROUP_REPLICATION"));
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
            return Ok(self.refused("STOP GROUP_REPLICATION"));
        }
        if self.is_one_of(&["REPLICA", "SLAVE"]) { self.replica(false) } else { Err(self.syntax()) }
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

    /// `LOCK TABLES table [[AS] alias] {READ [LOCAL] | WRITE}, …`
    fn lock(&mut self) -> Result<Statement> {
        self.advance()?;
        if self.is("INSTANCE") {
            return Ok(self.refused("LOCK INSTANCE"));
        }
        self.tables_word()?;
        let mut tables = Vec::new();
        loop {
            let (schema, table) = self.table_name()?;
            // A reserved word: 9.7 has no LOW_PRIORITY WRITE any more.
            if self.is("LOW_PRIORITY") {
                return Err(self.syntax());
            }
            let alias = match self.accept("AS")? || !self.is_one_of(&["READ", "WRITE"]) {
                true => Some(self.name()?),
                false => None,
            };
            let write = self.accept("WRITE")?;
            if !write {
                self.expect("READ")?;
                self.accept("LOCAL")?;
            }
            tables.push(LockedTable { schema, table, alias, write });
            if !self.accept_punct(b',')? {
                return Ok(Statement::LockTables(tables));
            }
        }
    }

    /// `CHECK TABLE table, … [option …]`; options say how thoroughly.
    fn check(&mut self) -> Result<Statement> {
        self.advance()?;
        self.tables_word()?;
        let mut tables = Vec::new();
        loop {
            tables.push(self.table_name()?);
            if !self.accept_punct(b',')? {
                break;
            }
        }
        while self.is_one_of(&["QUICK", "FAST", "MEDIUM", "EXTENDED", "CHANGED"]) {
            self.advance()?;
        }
        // It changes the table's version in the dictionary, so that a read-only server refuses it.
        if self.accept_all(&["FOR", "UPGRADE"])? {
            return Ok(Statement::Write);
        }
        Ok(Statement::Show(Show::CheckTables(tables)))
    }

    fn tables_word(&mut self) -> Result<()> {
        if self.accept("TABLES")? { Ok(()) } else { self.expect("TABLE") }
    }

    fn unlock(&mut self) -> Result<Statement> {
        self.advance()?;
        if self.is("INSTANCE") {
            return Ok(self.refused("UNLOCK INSTANCE"));
        }
        self.tables_word()?;
        Ok(Statement::UnlockTables)
    }

    /// `FLUSH [LOCAL] {TABLES … | option, …}`; what would have an effect that there is none of here is refused.
    fn flush(&mut self) -> Result<Statement> {
        self.advance()?;
        if !self.accept("LOCAL")? {
            self.accept("NO_WRITE_TO_BINLOG")?;
        }
        if self.is_one_of(&["TABLES", "TABLE"]) {
            self.advance()?;
            return self.flush_tables();
        }
        let mut options = Vec::new();
        loop {
            let option = match self.word().as_str() {
                "PRIVILEGES" => FlushOption::Privileges,
                "USER_RESOURCES" => FlushOption::UserResources,
                "OPTIMIZER_COSTS" => FlushOption::OptimizerCosts,
                "BINARY" | "ENGINE" | "GENERAL" | "SLOW" => {
                    self.advance()?;
                    if !self.is("LOGS") {
                        return Err(self.syntax());
                    }
                    FlushOption::Logs
                }
                "LOGS" => FlushOption::Logs,
                "STATUS" => return Ok(self.refused("FLUSH STATUS")),
                word @ ("ERROR" | "RELAY") => return Ok(self.refused(format!("FLUSH {word} LOGS"))),
                _ => return Err(self.syntax()),
            };
            self.advance()?;
            options.push(option);
            if !self.accept_punct(b',')? {
                return Ok(Statement::Flush(Flush::Others(options)));
            }
        }
    }

    /// `[table, …] [WITH READ LOCK]`
    fn flush_tables(&mut self) -> Result<Statement> {
        let mut tables = Vec::new();
        if !self.at_end() && !self.is_one_of(&["WITH", "FOR"]) && !self.is_punct(b',') {
            loop {
                let (schema, table) = self.table_name()?;
                tables.push(LockedTable { schema, table, alias: None, write: false });
                if !self.accept_punct(b',')? {
                    break;
                }
            }
        }
        if self.accept_all(&["WITH", "READ", "LOCK"])? {
            let flush = if tables.is_empty() { Flush::ReadLock } else { Flush::TablesWithReadLock(tables) };
            return Ok(Statement::Flush(flush));
        }
        if !tables.is_empty() && self.accept_all(&["FOR", "EXPORT"])? {
            return Ok(self.refused("FLUSH TABLES … FOR EXPORT"));
        }
        Ok(Statement::Flush(Flush::Tables(tables)))
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
        Ok(self.refused("ALTER INSTANCE but RELOAD TLS"))
    }
}
