//! SHOW.

use catalog::lexer::Tok;

use super::Parser;
use crate::Result;
use crate::ast::{Show, Statement};

impl Parser<'_> {
    pub(super) fn show(&mut self) -> Result<Statement> {
        self.advance()?;
        if self.is("COUNT") {
            return self.show_count();
        }
        if self.is_one_of(&["WARNINGS", "ERRORS"]) {
            let errors = self.is("ERRORS");
            self.advance()?;
            return Ok(Statement::ShowWarnings { errors, limit: self.limit()? });
        }
        if let Some(show) = self.show_of_replication()? {
            return Ok(Statement::Show(show));
        }
        if self.accept("DATABASES")? || self.accept("SCHEMAS")? {
            return self.chosen("SHOW DATABASES", |like| Show::Databases { like });
        }
        if self.accept("PROCESSLIST")? {
            return Ok(Statement::Show(Show::Processlist { full: false }));
        }
        if self.is_one_of(&["EXTENDED", "FULL", "TABLES"]) {
            return self.show_tables();
        }
        match &self.current.tok {
            Tok::Word(_) => Ok(Statement::Refused(format!("SHOW {}", self.word()))),
            _ => Err(self.syntax()),
        }
    }

    /// `[EXTENDED] [FULL] TABLES [FROM schema]`; EXTENDED adds what is left of failed ALTERs, which there is not here.
    fn show_tables(&mut self) -> Result<Statement> {
        let extended = self.accept("EXTENDED")?;
        let full = self.accept("FULL")?;
        if !extended && full && self.accept("PROCESSLIST")? {
            return Ok(Statement::Show(Show::Processlist { full }));
        }
        if !self.accept("TABLES")? {
            return match &self.current.tok {
                Tok::Word(_) => Ok(Statement::Refused(format!("SHOW {}", self.word()))),
                _ => Err(self.syntax()),
            };
        }
        let schema = if self.accept("FROM")? || self.accept("IN")? { Some(self.name()?) } else { None };
        self.chosen("SHOW TABLES", |like| Show::Tables { full, schema, like })
    }

    /// `[LIKE 'pattern']`; WHERE is refused by name.
    fn chosen(&mut self, statement: &str, show: impl FnOnce(Option<Vec<u8>>) -> Show) -> Result<Statement> {
        if self.is("WHERE") {
            return Ok(Statement::Refused(format!("{statement} WHERE")));
        }
        if !self.accept("LIKE")? {
            return Ok(Statement::Show(show(None)));
        }
        let Tok::Str { bytes, introducer: None } = &self.current.tok else { return Err(self.syntax()) };
        let pattern = bytes.clone();
        self.advance()?;
        Ok(Statement::Show(show(Some(pattern))))
    }

    /// SHOW COUNT(*) WARNINGS or ERRORS.
    fn show_count(&mut self) -> Result<Statement> {
        self.advance()?;
        self.expect_punct(b'(')?;
        self.expect_punct(b'*')?;
        self.expect_punct(b')')?;
        let errors = self.accept("ERRORS")?;
        if !errors {
            self.expect("WARNINGS")?;
        }
        Ok(Statement::ShowWarningCount { errors })
    }

    /// Statements about replication, with the spellings that 9.7 has dropped; None for any other SHOW.
    fn show_of_replication(&mut self) -> Result<Option<Show>> {
        if self.is_one_of(&["REPLICA", "SLAVE"]) {
            let old_names = self.is("SLAVE");
            self.advance()?;
            if old_names && self.accept("HOSTS")? {
                return Ok(Some(Show::Replicas { old_names }));
            }
            self.expect("STATUS")?;
            return Ok(Some(Show::ReplicaStatus { old_names, channel: self.channel()? }));
        }
        if self.accept("REPLICAS")? {
            return Ok(Some(Show::Replicas { old_names: false }));
        }
        if self.is_one_of(&["BINARY", "MASTER"]) {
            let old_names = self.is("MASTER");
            self.advance()?;
            if self.accept("LOGS")? {
                return Ok(Some(Show::BinaryLogs));
            }
            if !old_names {
                self.expect("LOG")?;
            }
            self.expect("STATUS")?;
            return Ok(Some(Show::BinaryLogStatus));
        }
        Ok(None)
    }

    /// `[FOR CHANNEL 'name']`
    pub(super) fn channel(&mut self) -> Result<Option<Vec<u8>>> {
        if !self.accept("FOR")? {
            return Ok(None);
        }
        self.expect("CHANNEL")?;
        let Tok::Str { bytes, introducer: None } = &self.current.tok else { return Err(self.syntax()) };
        let name = bytes.clone();
        self.advance()?;
        Ok(Some(name))
    }
}
