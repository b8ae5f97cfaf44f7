//! SHOW.

use catalog::lexer::Tok;

use super::{Parser, check_name};
use crate::Result;
use crate::ast::{ExplainFormat, Show, Statement};
use crate::error::SqlError;
use crate::listing::Choice;

/// What a MySQL 9.7 shows besides, by its first word.
const REFUSED: &[&str] = &[
    "BINLOG",
    "ENGINE",
    "FUNCTION",
    "LIBRARY",
    "PARSE_TREE",
    "PRIVILEGES",
    "PROCEDURE",
    "PROFILE",
    "PROFILES",
    "RELAYLOG",
];

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
            return Ok(Statement::Show(Show::Databases { choice: self.choice()? }));
        }
        if self.accept("PROCESSLIST")? {
            return Ok(Statement::Show(Show::Processlist { full: false }));
        }
        if self.accept("GRANTS")? {
            let account = if self.accept("FOR")? { self.account()? } else { None };
            return if self.is("USING") {
                Ok(self.refused("SHOW GRANTS … USING"))
            } else {
                Ok(Statement::Show(Show::Grants { account }))
            };
        }
        if let Some(show) = self.show_of_the_server()? {
            return Ok(Statement::Show(show));
        }
        if self.is_one_of(&["EXTENDED", "FULL", "TABLES", "COLUMNS", "FIELDS", "INDEX", "INDEXES", "KEYS", "TABLE"]) {
            return self.show_of_tables();
        }
        if let Some(show) = self.show_objects()? {
            return Ok(Statement::Show(show));
        }
        if self.accept("CREATE")? {
            return self.show_create();
        }
        self.other_show()
    }

    fn other_show(&self) -> Result<Statement> {
        match &self.current.tok {
            Tok::Word(_) if self.is_one_of(REFUSED) => Ok(self.refused(format!("SHOW {}", self.word()))),
            _ => Err(self.syntax()),
        }
    }

    /// Variables, and what the server has.
    fn show_of_the_server(&mut self) -> Result<Option<Show>> {
        let scoped = self.is_one_of(&["GLOBAL", "SESSION", "LOCAL"]);
        let global = self.is("GLOBAL");
        if scoped {
            self.advance()?;
        }
        if self.accept("VARIABLES")? {
            return Ok(Some(Show::Variables { global, choice: self.choice()? }));
        }
        if self.accept("STATUS")? {
            return Ok(Some(Show::Status { global, choice: self.choice()? }));
        }
        if scoped {
            return Err(self.syntax());
        }
        if self.accept("COLLATION")? {
            return Ok(Some(Show::Collation { choice: self.choice()? }));
        }
        if self.accept("CHARSET")? || self.accept_all(&["CHARACTER", "SET"])? {
            return Ok(Some(Show::CharacterSet { choice: self.choice()? }));
        }
        if self.accept_all(&["OPEN", "TABLES"])? {
            return Ok(Some(Show::OpenTables { schema: self.of_schema()?, choice: self.choice()? }));
        }
        if self.accept("ENGINE")? {
            return self.show_engine().map(Some);
        }
        if self.accept("ENGINES")? || self.accept_all(&["STORAGE", "ENGINES"])? {
            return Ok(Some(Show::Engines));
        }
        Ok(if self.accept("PLUGINS")? { Some(Show::Plugins) } else { None })
    }

    /// `[EXTENDED] [FULL] TABLES | COLUMNS | INDEX …`, and TABLE STATUS. EXTENDED adds to TABLES what is left of failed
    /// ALTERs, which there is not here.
    fn show_of_tables(&mut self) -> Result<Statement> {
        if self.accept_all(&["TABLE", "STATUS"])? {
            let schema = self.of_schema()?;
            return Ok(Statement::Show(Show::TableStatus { schema, choice: self.choice()? }));
        }
        let extended = self.accept("EXTENDED")?;
        let full = self.accept("FULL")?;
        if !extended && full && self.accept("PROCESSLIST")? {
            return Ok(Statement::Show(Show::Processlist { full }));
        }
        if self.is_one_of(&["COLUMNS", "FIELDS", "INDEX", "INDEXES", "KEYS"]) {
            if extended {
                // It adds columns that the storage engine hides.
                return Ok(self.refused(format!("SHOW EXTENDED {}", self.word())));
            }
            return self.show_of_table(full);
        }
        if !self.accept("TABLES")? {
            return self.other_show();
        }
        let schema = self.of_schema()?;
        Ok(Statement::Show(Show::Tables { full, schema, choice: self.choice()? }))
    }

    /// Columns or keys of a table.
    fn show_of_table(&mut self, full: bool) -> Result<Statement> {
        let columns = self.is_one_of(&["COLUMNS", "FIELDS"]);
        if full && !columns {
            return Err(self.syntax());
        }
        self.advance()?;
        if !self.accept("FROM")? {
            self.expect("IN")?;
        }
        let (mut schema, table) = self.table_name()?;
        if let Some(named) = self.of_schema()? {
            schema = Some(named);
        }
        let choice = self.choice()?;
        if columns {
            return Ok(Statement::Show(Show::Columns { full, schema, table, choice }));
        }
        if choice.like.is_some() {
            return Err(self.syntax());
        }
        Ok(Statement::Show(Show::Index { schema, table, choice }))
    }

    /// DESCRIBE and EXPLAIN with a table; None for what they say of a statement.
    pub(super) fn describe(&mut self) -> Result<Statement> {
        const STATEMENTS: &[&str] = &[
            "SELECT",
            "INSERT",
            "UPDATE",
            "DELETE",
            "REPLACE",
            "TABLE",
            "WITH",
            "VALUES",
            "ANALYZE",
            "FOR",
            "FORMAT",
            "EXTENDED",
            "PARTITIONS",
            "INTO",
        ];
        let refused = self.refused(self.word());
        self.advance()?;
        let format = self.explain_format()?;
        if self.is("SELECT") {
            return match (self.select()?, format) {
                (Statement::Select(select), Ok(format)) => Ok(Statement::Explain { format, select }),
                (Statement::Refused(inner), _) => Ok(Statement::Refused(inner)),
                _ => Ok(refused),
            };
        }
        if self.is_one_of(STATEMENTS) || self.is_punct(b'(') {
            return Ok(refused);
        }
        let (schema, table) = self.table_name()?;
        let like = match &self.current.tok {
            Tok::Str { introducer: None, .. } => Some(self.pattern()?),
            Tok::Word(name) | Tok::Quoted(name) => {
                let name = name.clone();
                self.name()?;
                Some(name)
            }
            _ => None,
        };
        Ok(Statement::Show(Show::Columns { full: false, schema, table, choice: Choice { like, filter: None } }))
    }

    /// `[FORMAT = name]`; an error inside for formats that are not written here.
    fn explain_format(&mut self) -> Result<std::result::Result<Option<ExplainFormat>, ()>> {
        if !self.accept("FORMAT")? {
            return Ok(Ok(None));
        }
        self.expect_punct(b'=')?;
        let name = String::from_utf8_lossy(&self.name()?).into_owned();
        Ok(match name.to_ascii_uppercase().as_str() {
            "TRADITIONAL" => Ok(Some(ExplainFormat::Traditional)),
            "TREE" => Ok(Some(ExplainFormat::Tree)),
            "JSON" => Err(()),
            _ => return Err(SqlError::new(1791, "HY000", format!("Unknown EXPLAIN format name: '{name}'"))),
        })
    }

    /// The statement that makes a table or a database.
    fn show_create(&mut self) -> Result<Statement> {
        if self.accept("TABLE")? {
            let (schema, table) = self.table_name()?;
            return Ok(Statement::Show(Show::CreateTable { schema, table }));
        }
        if self.accept("DATABASE")? || self.accept("SCHEMA")? {
            let if_not_exists = self.accept_all(&["IF", "NOT", "EXISTS"])?;
            let name = self.name()?;
            check_name("database", &name)?;
            return Ok(Statement::Show(Show::CreateDatabase { name, if_not_exists }));
        }
        match &self.current.tok {
            Tok::Word(_) => Ok(self.refused(format!("SHOW CREATE {}", self.word()))),
            _ => Err(self.syntax()),
        }
    }

    /// Stored programs, by their kind.
    fn show_objects(&mut self) -> Result<Option<Show>> {
        for kind in ["TRIGGERS", "EVENTS"] {
            if self.accept(kind)? {
                let schema = self.of_schema()?;
                return Ok(Some(Show::Objects { kind, schema, choice: self.choice()? }));
            }
        }
        for (kind, word) in [("FUNCTION STATUS", "FUNCTION"), ("PROCEDURE STATUS", "PROCEDURE")] {
            if !self.accept(word)? {
                continue;
            }
            if !self.accept("STATUS")? {
                return Err(SqlError::not_supported(&format!("SHOW {word} {}", self.word())));
            }
            return Ok(Some(Show::Objects { kind, schema: None, choice: self.choice()? }));
        }
        Ok(None)
    }

    /// `user[@host]`; None for CURRENT_USER.
    fn account(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.accept("CURRENT_USER")? {
            if self.accept_punct(b'(')? {
                self.expect_punct(b')')?;
            }
            return Ok(None);
        }
        let user = self.name_or_text()?;
        if self.current.tok != Tok::Variable {
            return Ok(Some((user, b"%".to_vec())));
        }
        // `@'host'` is one token, as a user variable is.
        let text = self.text(self.current.start, self.current.end);
        let host = text.get(1..).unwrap_or_default();
        let quoted = |quote: u8| host.strip_prefix(&[quote])?.strip_suffix(&[quote]);
        let host = [b'\'', b'"', b'`'].into_iter().find_map(quoted).unwrap_or(host).to_vec();
        self.advance()?;
        Ok(Some((user, host)))
    }

    /// `[FROM schema]`
    fn of_schema(&mut self) -> Result<Option<Vec<u8>>> {
        if !self.accept("FROM")? && !self.accept("IN")? {
            return Ok(None);
        }
        let schema = self.name()?;
        check_name("database", &schema)?;
        Ok(Some(schema))
    }

    /// `{ALL | engine} {STATUS | MUTEX | LOGS}`
    fn show_engine(&mut self) -> Result<Show> {
        let engine = if self.accept("ALL")? { None } else { Some(self.name_or_text()?) };
        let status = self.accept("STATUS")?;
        if !status && !self.accept("MUTEX")? {
            self.expect("LOGS")?;
        }
        Ok(Show::Engine { engine, status })
    }

    pub(super) fn table_name(&mut self) -> Result<(Option<Vec<u8>>, Vec<u8>)> {
        let first = self.name()?;
        let (schema, table) = if self.accept_punct(b'.')? { (Some(first), self.name()?) } else { (None, first) };
        check_name("table", &table)?;
        schema.iter().try_for_each(|schema| check_name("database", schema))?;
        Ok((schema, table))
    }

    /// `[LIKE 'pattern' | WHERE condition]`
    fn choice(&mut self) -> Result<Choice> {
        if self.accept("WHERE")? {
            return Ok(Choice { like: None, filter: Some(self.expression()?) });
        }
        if !self.accept("LIKE")? {
            return Ok(Choice::default());
        }
        Ok(Choice { like: Some(self.pattern()?), filter: None })
    }

    /// A pattern in the client's character set.
    fn pattern(&mut self) -> Result<Vec<u8>> {
        let Tok::Str { bytes, introducer: None } = &mut self.current.tok else { return Err(self.syntax()) };
        let pattern = std::mem::take(bytes);
        self.warn_of_no_text(&pattern, None);
        self.advance()?;
        Ok(pattern)
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
        if self.accept("RELAYLOG")? {
            self.expect("EVENTS")?;
            return self.relay_log_events().map(Some);
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

    /// `[IN 'file'] [FROM position] [LIMIT …] [FOR CHANNEL 'name']`
    fn relay_log_events(&mut self) -> Result<Show> {
        let file = if self.accept("IN")? { Some(self.text_literal()?) } else { None };
        let from = if self.accept("FROM")? { Some(self.position()?) } else { None };
        Ok(Show::RelayLogEvents { file, from, limit: self.limit()?, channel: self.channel()? })
    }

    /// A position in a file: MySQL takes any number without a sign, and the digits before its point count.
    fn position(&mut self) -> Result<u64> {
        let Tok::Number(number) = &self.current.tok else { return Err(self.syntax()) };
        let digits = number.split('.').next().unwrap_or_default();
        // Of what is too large, as of any other place past the end, nothing follows.
        let position = match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse().unwrap_or(if digits.is_empty() { 0 } else { u64::MAX }),
            false => return Err(self.syntax()),
        };
        self.advance()?;
        Ok(position)
    }

    /// `[FOR CHANNEL 'name']`
    pub(super) fn channel(&mut self) -> Result<Option<Vec<u8>>> {
        if !self.accept("FOR")? {
            return Ok(None);
        }
        self.expect("CHANNEL")?;
        self.text_literal().map(Some)
    }
}
