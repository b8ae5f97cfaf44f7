//! Commands that are not answered here, for a session that may forward them.
//!
//! In: a command's statements, the error with which it would end. Out: that it is another server's, before anything of
//! it was changed here. Never here: who answers it; a command of this server itself; one with an answer that began.

use std::ops::Range;
use std::time::Instant;

use sql::{
    Assignment, Characteristics, Isolation, Mark, SERVER_VERSION, Scope, Settings, Show, SqlError, Statement, Target,
};
use syntax::{Classified, Keyword, State, StatementKind, classify};
use wire::server::ClientCommand;

use super::freshness::Missed;
use super::{After, Diagnostics, Session};
use crate::Output;
use crate::world::World;

/// What may be answered by another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Forwarding {
    #[default]
    Off,
    /// Only commands proved not to write.
    Reads,
    All,
}

/// Why a command is not answered here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A construct that this server does not answer, or a text that it does not parse.
    Unsupported,
    Writes,
    /// Several statements, of which some may be.
    Several,
    /// The rows are not as fresh in time as the session asks, or cannot be read now.
    NotNow,
    /// A name that is not here, or that the account may not use here.
    Unknown,
    /// It asks about the statement before, which was answered elsewhere.
    LastStatement,
    /// A variable whose value is the source's.
    Variable,
    /// An isolation level that is not kept here.
    Isolation,
    /// It reads in a transaction that may write.
    Transaction,
    /// The time, or who is logged in, as the source has it.
    AtSource,
    Locks,
    /// It lists what a server is, or has counted.
    OfServer,
    /// A variable that this server does not work by was set elsewhere.
    Pinned,
}

/// A command that is not answered here.
#[derive(Debug)]
pub struct NotHere {
    pub why: Why,
    /// What of it, as it is counted.
    pub construct: String,
    /// Where that stands in the command's text; all of the statement where only that is known.
    pub span: Range<usize>,
    /// False only if it is proved that none of its statements writes, or takes locks.
    pub may_write: bool,
    /// Empty for a command without a text.
    pub statements: Vec<Classified>,
    /// The command, if it has waited here; None: it is the one that was just given.
    pub payload: Option<Vec<u8>>,
    /// The statement that was prepared here and is to be executed.
    pub statement_id: Option<u32>,
    /// What was not visible in time, if that is why and it is known.
    pub missed: Option<Missed>,
    /// How a session that may not forward ends.
    error: SqlError,
}

/// What a session that may forward knows of its command.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    pub(super) forwarding: Forwarding,
    /// What a command that is not answered here leaves as it was.
    before: Option<Diagnostics>,
    /// Length of the output when the command began; None once something was put out.
    begun: Option<usize>,
    found: Option<(Why, SqlError)>,
    not_here: Option<NotHere>,
    /// The command that waits.
    payload: Option<Vec<u8>>,
    /// Some statement was, since the session began.
    pub(super) was_any: bool,
    /// A variable that was set elsewhere to a value that this server does not work by.
    pub(super) pinned: Option<String>,
    /// What its last wait in vain was for.
    pub(super) missed: Option<Missed>,
    /// When another server has answered last: what it has shown by then must be visible before the next read.
    pub(super) answered: Option<Instant>,
}

/// Why an error means that another server may have the answer.
fn why(error: &SqlError) -> Option<Why> {
    match error.code {
        _ if error.is_defect() || error.is_of_execution() => None,
        // The source may take a statement that is too large or too deep here.
        1041 | 1064 | 1235 | 3170 | 3950 => Some(Why::Unsupported),
        1290 => Some(Why::Writes),
        1105 => Some(Why::NotNow),
        1044 | 1049 | 1051 | 1054 | 1109 | 1142 | 1146 | 1193 | 1227 => Some(Why::Unknown),
        _ => None,
    }
}

/// What an error is about; of a text that is not parsed, the keyword at which it is not.
fn construct_of(error: &SqlError, text: &[u8]) -> String {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let word = text.split(|byte| !is_part(byte)).next().unwrap_or_default();
    match (SqlError::construct_in(&error.message), error.code, Keyword::of(word).text()) {
        (Some(construct), ..) => construct.to_owned(),
        (None, 1064, "") => "syntax".to_owned(),
        (None, 1064, keyword) => format!("syntax near {keyword}"),
        (None, code, _) => code.to_string(),
    }
}

/// True unless it is proved that a statement neither writes nor takes locks.
fn writes(one: &Classified) -> bool {
    one.may_write || one.locks_rows || one.state.has(State::NAMED_LOCKS) || one.state.has(State::TABLE_LOCKS)
}

/// True for statements of this server itself.
fn is_of_this_server(one: &Classified) -> bool {
    let is_global = |scope| matches!(scope, Some(Keyword::Global | Keyword::Persist | Keyword::PersistOnly));
    let has_ours = |name: &[u8]| name.starts_with(b"slipstream_");
    let is_list = |name: &[u8]| name.to_ascii_lowercase().starts_with(b"asynchronous_connection_failover_");
    matches!(one.kind, StatementKind::Kill | StatementKind::Flush | StatementKind::Administration)
        || one.system_variables.iter().any(|variable| has_ours(&variable.name))
        || one.system_variables.iter().any(|variable| variable.set && is_global(variable.scope))
        || one.unknown_functions.iter().any(|name| is_list(name))
}

/// True for functions whose value is that of the session at the source, and of the moment.
fn is_of_source_session(name: &str) -> bool {
    const THESE: [&str; 7] =
        ["CURRENT_ROLE", "CURRENT_USER", "SESSION_USER", "SYSDATE", "SYSTEM_USER", "USER", "VERSION"];
    THESE.into_iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// True for a SELECT of variables of which only this server knows something.
fn is_of_ours(statement: &Statement) -> bool {
    let is_ours = |name: &str| name.starts_with("slipstream_");
    matches!(statement, Statement::Select(select) if select.from.is_none())
        && statement.variable_that(&|_, name| is_ours(name)).is_some()
        && statement.variable_that(&|_, name| !is_ours(name)).is_none()
}

/// The variable that an assignment sets, where only the source's session is about it.
fn set_at_source(assignment: &Assignment) -> Option<&str> {
    let Target::Variable { name, scope: None | Some(Scope::Session) } = &assignment.target else { return None };
    let variable = sql::variables().iter().find(|variable| variable.name == name)?;
    variable.is(Mark::OfSource).then_some(name.as_str())
}

/// True for a SHOW whose answer only the source knows.
fn is_of_source(show: &Show) -> bool {
    matches!(
        show,
        Show::Variables { .. }
            | Show::Engines
            | Show::Plugins
            | Show::OpenTables { .. }
            | Show::Grants { .. }
            | Show::Engine { .. }
            | Show::BinaryLogStatus
            | Show::BinaryLogs
            | Show::Replicas { .. }
            | Show::CheckTables(_)
    )
}

impl Session {
    /// What of its commands may be answered by another server.
    pub fn set_forwarding(&mut self, forwarding: Forwarding) {
        self.elsewhere.forwarding = forwarding;
    }

    /// As [`set_forwarding`](Self::set_forwarding) for a session that begins, with the schema that its login asked for:
    /// its reads are as fresh as those of the source, unless its account says otherwise.
    pub fn begin_forwarding(&mut self, forwarding: Forwarding, schema: Option<&str>, world: &dyn World) {
        self.set_forwarding(forwarding);
        self.read_as_its_account(world);
        if let Some(name) = schema
            && self.use_schema(name, world).is_err()
        {
            // It is the source that has it, or not.
            self.chooses(name.to_owned(), None);
        }
    }

    /// True if all its commands are another server's until it is reset.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.elsewhere.pinned.is_some()
    }

    /// True if another server has answered its last statement.
    #[must_use]
    pub fn last_was_elsewhere(&self) -> bool {
        self.diagnostics.are_elsewhere
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How texts are read: `sql_mode`, `character_set_client`.
    #[must_use]
    pub fn reads_texts_as(&self) -> (u64, &str) {
        (self.settings.typed().sql_mode, self.settings.charsets().client_charset())
    }

    /// What [`After::NotHere`] was said of.
    pub fn take_not_here(&mut self) -> Option<NotHere> {
        self.elsewhere.not_here.take()
    }

    /// Answers a command that nobody else answers with the error of a session that may not forward.
    pub fn refuse_not_here(&mut self, not_here: &NotHere, out: &mut Output) -> After {
        self.elsewhere.begun = None;
        self.statement_is_new();
        self.fail(&not_here.error, out)
    }

    /// The text of a statement that was prepared here.
    #[must_use]
    pub fn prepared_text(&self, id: u32) -> Option<&[u8]> {
        self.statements.text_by_id(id)
    }

    /// A number for a statement that was prepared elsewhere.
    pub fn take_statement_number(&mut self) -> u32 {
        self.statements.take_number()
    }

    /// The number that was taken last.
    #[must_use]
    pub fn last_statement_number(&self) -> u32 {
        self.statements.last_number()
    }

    pub(super) fn may_forward(&self) -> bool {
        self.elsewhere.forwarding != Forwarding::Off
    }

    /// Remembers the session's state before a command.
    pub(super) fn command_begins(&mut self, out: &Output) {
        if self.may_forward() {
            self.elsewhere.before = Some(self.diagnostics.clone());
            self.elsewhere.missed = None;
            self.elsewhere.begun = Some(out.len());
        }
    }

    /// A command continues after its wait: packets that were put out before it may be sent by now.
    pub(super) fn command_goes_on(&mut self, out: &Output) {
        if let Some(begun) = &mut self.elsewhere.begun {
            *begun = out.len();
        }
    }

    /// The command is not another's, however it ends: it may have changed something.
    pub(super) fn ends_here(&mut self) {
        self.elsewhere.begun = None;
    }

    /// True if a command that ends so, and has put nothing out, may be another's.
    pub(super) fn may_be_elsewhere(&self, error: &SqlError) -> bool {
        self.elsewhere.begun.is_some() && why(error).is_some()
    }

    /// True if another server may have the answer because a name is not known here.
    pub(super) fn is_unknown_here(&self, error: &SqlError) -> bool {
        self.may_be_elsewhere(error) && why(error) == Some(Why::Unknown)
    }

    /// True if this error is another's answer, since nothing was put out yet; that is noted.
    pub(super) fn is_elsewhere(&mut self, error: &SqlError, out: &Output) -> bool {
        if self.elsewhere.begun != Some(out.len()) {
            return false;
        }
        let Some(why) = why(error) else { return false };
        self.elsewhere.found.get_or_insert_with(|| (why, error.clone()));
        true
    }

    /// A step of a command has ended. One that ends with [`After::NotHere`] gets its reason, or its error after all.
    pub(super) fn settle_elsewhere(&mut self, after: After, payload: Option<&[u8]>, out: &mut Output) -> After {
        if !self.may_forward() {
            return after;
        }
        let kept = self.elsewhere.payload.take();
        match after {
            After::NotHere => {}
            After::Wait if self.elsewhere.begun == Some(out.len()) => {
                self.elsewhere.payload = kept.or_else(|| payload.map(<[u8]>::to_vec));
                return after;
            }
            _ => {
                self.elsewhere.begun = None;
                return after;
            }
        }
        let begun = self.elsewhere.begun.take();
        let Some((why, error)) = self.elsewhere.found.take() else { return After::Next };
        let command = payload.or(kept.as_deref()).unwrap_or_default();
        let (text, statement_id) = match ClientCommand::parse(command, self.capabilities) {
            Ok(ClientCommand::Query(query)) => (Some(query.sql), None),
            Ok(ClientCommand::Prepare(text)) => (Some(text), None),
            Ok(ClientCommand::Execute(execute)) => {
                (self.prepared_text(execute.statement_id), Some(execute.statement_id))
            }
            Ok(ClientCommand::InitDb(_) | ClientCommand::FieldList { .. }) => (None, None),
            _ => return self.fail(&error, out),
        };
        let statements = text.map(|text| classify(text, self.text_settings())).unwrap_or_default();
        let whole = statements.first().map(|one| one.span).unwrap_or_default();
        let span = error.span().unwrap_or(whole.start as usize..whole.end as usize);
        let construct = construct_of(&error, text.unwrap_or_default().get(span.start..).unwrap_or_default());
        let may_write = statements.iter().any(writes);
        let forwards = self.elsewhere.forwarding == Forwarding::All || !may_write;
        if !forwards || statements.iter().any(is_of_this_server) {
            return self.fail(&error, out);
        }
        debug_assert_eq!(begun, Some(out.len()), "nothing was put out");
        if let Some(before) = self.elsewhere.before.take() {
            self.diagnostics = before;
        }
        let (payload, missed) = (kept, self.elsewhere.missed.take());
        self.elsewhere.not_here =
            Some(NotHere { why, construct, span, may_write, statements, payload, statement_id, missed, error });
        After::NotHere
    }

    pub(super) fn text_settings(&self) -> syntax::Settings {
        let charset = self.settings.charsets().client_charset();
        syntax::Settings::new(self.settings.typed().sql_mode, SERVER_VERSION, charset)
    }

    /// A statement that binds here and is yet another's, by what it is.
    ///
    /// # Errors
    /// 1235 with what it is.
    pub(super) fn check_answered_here(&mut self, statement: &Statement) -> Result<(), SqlError> {
        if self.elsewhere.begun.is_none() {
            return Ok(());
        }
        let Some((why, construct)) = self.elsewhere_by_kind(statement) else { return Ok(()) };
        let error = SqlError::not_supported(&construct);
        self.elsewhere.found = Some((why, error.clone()));
        Err(error)
    }

    /// As [`check_answered_here`](Self::check_answered_here) for a statement that is prepared: what may be otherwise
    /// when it is executed does not count.
    ///
    /// # Errors
    /// 1235 with what it is.
    pub(super) fn check_prepared_here(&mut self, statement: &Statement) -> Result<(), SqlError> {
        let passes = |why: Why| matches!(why, Why::Transaction | Why::Isolation | Why::LastStatement | Why::AtSource);
        if self.elsewhere_by_kind(statement).is_some_and(|(why, _)| passes(why)) {
            return Ok(());
        }
        self.check_answered_here(statement)
    }

    fn elsewhere_by_kind(&self, statement: &Statement) -> Option<(Why, String)> {
        let said = |why, construct: &str| Some((why, construct.to_owned()));
        if let Some(name) = &self.elsewhere.pinned
            && !matches!(statement, Statement::Kill { .. } | Statement::Replica { .. } | Statement::Flush(_))
            && !is_of_ours(statement)
        {
            return said(Why::Pinned, &format!("a session with {name} at the source"));
        }
        let of_source = |scope: Option<Scope>, name: &str| match name {
            "warning_count" | "error_count" => self.diagnostics.are_elsewhere,
            "last_insert_id" | "identity" => self.elsewhere.was_any,
            "timestamp" => true,
            _ if name.starts_with("slipstream_") => false,
            _ => scope == Some(Scope::Global) || !self.settings.is_known_at_the_source(name),
        };
        if let Some(name) = statement.variable_that(&of_source) {
            return said(Why::Variable, &format!("@@{name}"));
        }
        if let Statement::Set(assignments) = statement
            && let Some(name) = assignments.iter().find_map(set_at_source)
        {
            return said(Why::Variable, &format!("SET {name}"));
        }
        let of_last = |name: &str| match name.to_ascii_uppercase().as_str() {
            "ROW_COUNT" | "FOUND_ROWS" => self.diagnostics.are_elsewhere,
            "LAST_INSERT_ID" => self.elsewhere.was_any,
            _ => false,
        };
        if let Some(name) = statement.call_that(&of_last) {
            return said(Why::LastStatement, &format!("{}()", name.to_ascii_uppercase()));
        }
        let has_time =
            matches!(statement, Statement::Select(select) if select.from.is_some()) && self.has_source_time();
        let is_of_session = |name: &str| is_of_source_session(name) || (!has_time && sql::reads_clock(name));
        if let Some(name) = statement.call_that(&is_of_session) {
            return said(Why::AtSource, &format!("{}()", name.to_ascii_uppercase()));
        }
        let locks = self.elsewhere.forwarding == Forwarding::All;
        match statement {
            Statement::ShowWarnings { .. } | Statement::ShowWarningCount { .. } if self.diagnostics.are_elsewhere => {
                said(Why::LastStatement, "SHOW WARNINGS")
            }
            Statement::Begin { consistent, .. }
                if match self.transaction.isolation(&self.settings) {
                    Isolation::ReadCommitted => false,
                    // What it reads is the state of this moment, whatever comes first.
                    Isolation::RepeatableRead => *consistent,
                    Isolation::ReadUncommitted | Isolation::Serializable => true,
                } =>
            {
                said(Why::Transaction, "a transaction")
            }
            // Back to it there is no view.
            Statement::Savepoint(_) if self.begins_split() => said(Why::Transaction, "a savepoint before all reads"),
            Statement::Savepoint(_) | Statement::RollbackTo(_) | Statement::Release(_)
                if !self.transaction.is_open() && !self.settings.typed().autocommit =>
            {
                said(Why::Transaction, "a transaction")
            }
            Statement::LockTables(_) if locks => said(Why::Locks, "LOCK TABLES"),
            Statement::Show(show) if is_of_source(show) => said(Why::OfServer, "SHOW of the source"),
            Statement::Select(select) if select.from.is_some() => {
                let isolation = self.transaction.isolation(&self.settings);
                let transaction = &self.transaction;
                let is_exact = match !transaction.is_open() && self.settings.typed().autocommit {
                    // What was said of the next transaction is of this one.
                    true => transaction.next() == Characteristics::default(),
                    // Each statement has a view of its own, or all have the one that the first of them has here.
                    false => matches!(isolation, Isolation::ReadCommitted | Isolation::RepeatableRead),
                };
                match isolation {
                    _ if self.of_table(statement, None).is_none() => said(Why::OfServer, "a table of the server"),
                    _ if !is_exact => said(Why::Transaction, "a transaction"),
                    Isolation::ReadUncommitted | Isolation::Serializable => said(Why::Isolation, isolation.name()),
                    _ if locks && !select.locking.is_empty() => said(Why::Locks, "a locking clause"),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Several statements in one text are another's as a whole, unless one of them must be answered here.
    ///
    /// # Errors
    /// 1235
    pub(super) fn check_alone(&mut self, sql: &[u8], is_alone: bool) -> Result<(), SqlError> {
        if is_alone || self.elsewhere.begun.is_none() {
            return Ok(());
        }
        let reads_only = self.elsewhere.forwarding == Forwarding::Reads;
        let is_here = |one: &Classified| is_of_this_server(one) || (reads_only && writes(one));
        if classify(sql, self.text_settings()).iter().any(is_here) {
            self.elsewhere.begun = None;
            return Ok(());
        }
        let error = SqlError::not_supported("several statements");
        self.elsewhere.found = Some((Why::Several, error.clone()));
        Err(error)
    }
}

impl Elsewhere {
    pub(super) fn of(forwarding: Forwarding) -> Elsewhere {
        Elsewhere { forwarding, ..Elsewhere::default() }
    }

    /// Bytes of the command that waits.
    pub(super) fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests;
