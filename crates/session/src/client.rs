//! A session: commands of one client and their answers, without I/O.
//!
//! In: payloads of a client that is logged in. Out: packets. Never here: sockets, clocks, rows of tables; memory that a
//! client can make grow without bound.

mod beside;
mod changes;
mod creates;
mod dump;
mod elsewhere;
mod event_list;
mod execute;
mod explain;
mod freshness;
mod listings;
mod locks;
mod memory;
mod names;
mod orders;
mod parameters;
mod prepared;
mod processlist;
mod query;
mod relay_events;
mod results;
mod rights;
mod set;
mod shows;
mod split;
mod tables;
#[cfg(test)]
mod tests;
mod texts;
mod threads;
mod told;
mod transaction;
mod views;
mod waiting;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use accounts::{Consistency, Identity, Reads, SessionStart, SourceGrants};
use serve::{ReplicaLine, Start};
use sql::table::in_text;
use sql::{
    Bind, Charsets, Command, Field, OwnValues, Purse, Settings, SqlError, UserVariables, Value, Waits, Warning,
    gtid_text,
};
use values::Zones;
use wire::command;
use wire::handshake::capability;
use wire::response::status;
use wire::server::{self, ClientCommand, ServerOk};

use crate::Output;
use crate::failed::Failed;
use crate::world::Encryption;
use crate::world::{SchemaState, World};
use beside::Sending;
use changes::Changes;
use dump::Replica;
use elsewhere::Elsewhere;
pub use elsewhere::{Forwarding, NotHere, Why};
pub use execute::needs;
pub use freshness::Missed;
use locks::Locks;
pub use memory::ListedRows;
use prepared::Statements;
pub use split::{Proof, conflict};
use tables::Running;
use texts::{Rest, Texts};
pub use told::{Change, Mark, OkFacts, OpenTransaction, statements};
use transaction::Transaction;
pub use waiting::Waiting;
use waiting::{Place, Suspended};

/// How fresh reads are: see `freshness`.
const CONSISTENCY: &str = "slipstream_read_consistency";
const STALENESS: &str = "slipstream_read_staleness";
const TIMEOUT: &str = "slipstream_read_timeout";
/// How long a read waits here before the source answers it, in milliseconds.
const FORWARDS_AFTER_MS: u64 = 100;
/// Warnings that are kept of a statement (`max_error_count`).
const WARNINGS_MAX: usize = 1024;
/// utf8mb4_0900_ai_ci: the collation of a client whose own cannot be one of a client.
const DEFAULT_COLLATION: u16 = 255;

/// Copies of parameters that are sent with an execution: values, the row's, those in the result's character set.
const PAYLOAD_COPIES: usize = 4;

/// Output of one command that may wait to be sent before its next statement runs, in bytes.
const WAITING_BYTES: usize = 256 << 10;

/// What the connection does after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Waits for the next command.
    Next,
    /// Calls [`Session::resume`] once what was put out is sent.
    More,
    /// Calls [`Session::waited`] once [`Session::waiting`] has ended; of the statement that waits nothing was put out.
    Wait,
    /// Nothing was put out or changed: another server answers. [`Session::take_not_here`] says why.
    NotHere,
    /// Begins the login that this command asks for.
    ChangeUser,
    /// Sends what was put out and closes.
    Close,
}

/// A client that is logged in.
#[derive(Debug)]
pub struct Session {
    login: SessionLogin,
    capabilities: u32,
    settings: Settings,
    user_variables: UserVariables,
    schema: Option<Schema>,
    transaction: Transaction,
    locks: Locks,
    statements: Statements,
    texts: Texts,
    diagnostics: Diagnostics,
    /// What a session that may forward knows of its command.
    elsewhere: Elsewhere,
    /// Where the statement that runs has come to.
    place: Place,
    suspended: Option<Suspended>,
    results: Results,
    changes: Changes,
    /// The variables of a statement whose query attributes differ from the session's.
    asked: Option<Settings>,
    /// What it holds of the clients' memory.
    memory: Purse,
    /// Counts rows that were made beside the loop.
    counted: RefCell<Option<Purse>>,
    replica: Replica,
    trouble: Trouble,
}

/// Who is logged in, and how.
#[derive(Debug)]
struct SessionLogin {
    id: u32,
    identity: Identity,
    start: SessionStart,
    encryption: Option<Encryption>,
    /// What its user may read at the source.
    at_source: Option<Arc<SourceGrants>>,
}

/// Rows still to be sent, and statements to run after them.
#[derive(Debug, Default)]
struct Results {
    running: Option<Running>,
    /// Its statements may read long rows where it is served now.
    takes_long: bool,
    sending: Option<Sending>,
    rest: Option<Rest>,
}

/// What became of a statement, until its connection takes note.
#[derive(Debug, Default)]
struct Trouble {
    /// What it met that cannot be.
    defect: Option<String>,
    failed: Option<Failed>,
}

/// Warnings and ROW_COUNT() of the last statement.
#[derive(Debug, Clone)]
struct Diagnostics {
    warnings: Vec<Warning>,
    /// Whether they are of the statement that runs, not of one before it.
    are_own: bool,
    /// How many of them came before the statement ran.
    early: u16,
    row_count: i64,
    /// FOUND_ROWS(); None: another server knows.
    found_rows: Option<u64>,
    /// Another server has answered it, and knows.
    are_elsewhere: bool,
}

impl Default for Diagnostics {
    fn default() -> Diagnostics {
        Diagnostics {
            warnings: Vec::new(),
            are_own: false,
            early: 0,
            row_count: 0,
            found_rows: Some(0),
            are_elsewhere: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Schema {
    name: String,
    collation: Option<u16>,
    /// Which choice of one: what the session may do with its tables MySQL looks up at each.
    chosen: u64,
}

/// The variables of a session that begins with these character sets.
fn first_settings(charsets: Charsets, world: &dyn World) -> Settings {
    let mut settings = Settings::new(charsets);
    settings.begin_as(world.own_values());
    settings
}

impl Session {
    /// A session that begins as its login asked.
    ///
    /// # Errors
    /// The default schema does not exist, or the account may not use it.
    pub fn begin(id: u32, identity: Identity, start: SessionStart, world: &dyn World) -> Result<Session, SqlError> {
        let mut session = Session {
            capabilities: start.capabilities,
            settings: first_settings(charsets(start.collation), world),
            login: SessionLogin { id, identity, start, encryption: None, at_source: None },
            user_variables: UserVariables::default(),
            schema: None,
            transaction: Transaction::default(),
            locks: Locks::default(),
            statements: Statements::default(),
            texts: Texts::default(),
            diagnostics: Diagnostics::default(),
            elsewhere: Elsewhere::default(),
            place: Place::default(),
            suspended: None,
            results: Results::default(),
            changes: Changes::default(),
            asked: None,
            memory: Purse::default(),
            counted: RefCell::default(),
            trouble: Trouble::default(),
            replica: Replica::default(),
        };
        if session.capabilities & capability::INTERACTIVE != 0 {
            session.wait_as_interactive(world);
        }
        session.read_as_its_account(world);
        if let Some(name) = session.login.start.schema.clone() {
            session.use_schema(&name, world)?;
        }
        Ok(session)
    }

    /// An interactive client's `wait_timeout` is `interactive_timeout`.
    fn wait_as_interactive(&mut self, world: &dyn World) {
        let interactive = Value::UInt(self.settings.typed().interactive_timeout_s);
        // Both have the same bounds.
        let _ = self.settings.set("wait_timeout", Some(&interactive), world.own_values(), &mut Vec::new());
        self.changes = Changes::default();
    }

    /// How fresh its reads are, the account says first.
    fn read_as_its_account(&mut self, world: &dyn World) {
        let (consistency, staleness_ms) = (self.consistency(), self.login.identity.reads.staleness_ms);
        let forwards = self.may_forward();
        let mut set = |name: &str, value: Value| {
            // Both have these bounds.
            let _ = self.settings.set(name, Some(&value), world.own_values(), &mut Vec::new());
        };
        if consistency != Consistency::default() {
            set(CONSISTENCY, Value::Text(consistency.name().to_uppercase().into_bytes()));
        }
        if let Some(ms) = staleness_ms {
            set(STALENESS, Value::UInt(ms.into()));
        }
        if forwards {
            set(TIMEOUT, Value::UInt(FORWARDS_AFTER_MS));
        }
        self.changes = Changes::default();
    }

    /// What its account says of how fresh its reads are. One that may forward reads what the source shows, unless it
    /// says otherwise.
    fn consistency(&self) -> Consistency {
        let Reads { consistency, .. } = self.login.identity.reads;
        let says_nothing = consistency == Consistency::default();
        if says_nothing && self.may_forward() { Consistency::Global } else { consistency }
    }

    /// What its last statement met that cannot be.
    pub fn take_defect(&mut self) -> Option<String> {
        self.trouble.defect.take()
    }

    /// Why the statement that has ended failed.
    pub fn take_failure(&mut self) -> Option<Failed> {
        self.trouble.failed.take()
    }

    /// Says how its connection is encrypted, for its status variables.
    pub fn set_encryption(&mut self, encryption: Option<Encryption>) {
        self.login.encryption = encryption;
    }

    /// The OK that ends a login.
    pub fn welcome(&mut self, out: &mut Output) {
        self.ok(out);
    }

    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.login.identity
    }

    /// What the login asked for.
    #[must_use]
    pub fn start(&self) -> &SessionStart {
        &self.login.start
    }

    /// Seconds after which an idle session ends.
    #[must_use]
    pub fn wait_timeout_s(&self) -> u64 {
        self.settings.typed().wait_timeout_s
    }

    /// Seconds that a client may leave an answer unread.
    #[must_use]
    pub fn net_write_timeout_s(&self) -> u64 {
        self.settings.typed().net_write_timeout_s
    }

    /// Gives up what the session holds of the server.
    pub fn end(&mut self, world: &dyn World) {
        world.give_statements(self.statements.clear());
    }

    pub fn command(&mut self, payload: &[u8], world: &dyn World, out: &mut Output) -> After {
        self.command_begins(out);
        self.statement_is_new();
        let begun = (out.len(), out.sequence());
        let after = match ClientCommand::parse(payload, self.capabilities) {
            Ok(ClientCommand::Execute(execute)) => match self.memory.work_with(payload.len() * PAYLOAD_COPIES) {
                Ok(()) => self.execute(&execute, world, out),
                Err(error) => self.fail(&error, out),
            },
            Ok(command) => self.dispatch(&command, world, out),
            Err(_) => self.malformed(payload, out),
        };
        let after = self.settled(after, begun, out);
        self.settle_elsewhere(after, Some(payload), out)
    }

    fn dispatch(&mut self, command: &ClientCommand<'_>, world: &dyn World, out: &mut Output) -> After {
        match command {
            ClientCommand::Prepare(_) => world.note_command(Command::StmtPrepare),
            ClientCommand::Close(_) => world.note_command(Command::StmtClose),
            ClientCommand::Reset(_) => world.note_command(Command::StmtReset),
            ClientCommand::Fetch { .. } => world.note_command(Command::StmtFetch),
            ClientCommand::SendLongData { .. } => world.note_command(Command::StmtSendLongData),
            _ => {}
        }
        match command {
            ClientCommand::Quit => return After::Close,
            ClientCommand::ChangeUser => return After::ChangeUser,
            ClientCommand::Query(query) => {
                return match self.take_attributes(&query.attributes.types, &query.attributes.values, world) {
                    Ok(()) => self.query(query.sql, world, out),
                    Err(error) => self.fail(&error, out),
                };
            }
            ClientCommand::Ping => self.ok(out),
            ClientCommand::InitDb(name) => return self.init_db(name, world, out),
            ClientCommand::Statistics => {
                let line = world.statistics().line();
                out.send(|out| out.extend_from_slice(line.as_bytes()));
            }
            ClientCommand::Debug if !self.login.identity.rights.admin => return self.fail(&needs("SUPER"), out),
            // MySQL writes about itself to its error log; `slipstream status` tells that here.
            ClientCommand::Debug => self.rows_end(out, self.status()),
            ClientCommand::SetOption(option) => return self.set_option(*option, out),
            ClientCommand::FieldList { .. } => {
                let error = match self.schema {
                    Some(_) => SqlError::not_supported("COM_FIELD_LIST"),
                    None => SqlError::new(1046, "3D000", "No database selected"),
                };
                return self.fail(&error, out);
            }
            ClientCommand::ResetConnection => {
                self.reset(world);
                self.ok(out);
            }
            ClientCommand::Prepare(sql) => return self.prepare(sql, world, out),
            ClientCommand::Execute(execute) => return self.execute(execute, world, out),
            ClientCommand::SendLongData { statement_id, parameter, data } => {
                self.statements.add_long_data(*statement_id, *parameter, data, &self.memory);
            }
            ClientCommand::Close(id) => {
                if self.statements.close(*id) {
                    world.give_statements(1);
                }
            }
            ClientCommand::Reset(id) => return self.reset_statement(*id, out),
            ClientCommand::Fetch { statement_id, rows } => return self.fetch(*statement_id, *rows, world, out),
            ClientCommand::Register { server_id, host, port } => {
                let host = String::from_utf8_lossy(host).into_owned();
                let line = ReplicaLine { server_id: *server_id, host, port: *port, ..ReplicaLine::default() };
                return self.register(line, world, out);
            }
            ClientCommand::Dump(from) => {
                let file = String::from_utf8_lossy(from.file).into_owned();
                let start = Start::Place { file, position: from.position };
                return self.dump(start, from.flags, from.server_id, world, out);
            }
            ClientCommand::DumpGtid { flags, server_id, gtid_set } => {
                return self.dump_after(gtid_set, *flags, *server_id, world, out);
            }
            ClientCommand::Other(code) => return self.unknown_command(*code, out),
        }
        After::Next
    }

    /// A command that is cut short or has another form.
    fn malformed(&mut self, payload: &[u8], out: &mut Output) -> After {
        let Some(code) = payload.first() else { return self.unknown_command(0, out) };
        let after = self.fail(&malformed(), out);
        let ends = matches!(*code, command::BINLOG_DUMP | command::BINLOG_DUMP_GTID);
        if ends { After::Close } else { after }
    }

    /// A command that does not exist, or is not answered. One that would begin a stream ends the session.
    fn unknown_command(&mut self, code: u8, out: &mut Output) -> After {
        if code == command::CLONE {
            return self.fail(&SqlError::new(1524, "HY000", "Plugin 'clone' is not loaded"), out);
        }
        let after = self.fail(&unknown_command(), out);
        if code == command::SUBSCRIBE_GROUP_STREAM { After::Close } else { after }
    }

    /// COM_RESET_CONNECTION: as a new login, but for the default schema, and with the server's character sets.
    fn reset(&mut self, world: &dyn World) {
        self.end(world);
        self.settings = first_settings(Charsets::of_server(world.own_values()), world);
        self.user_variables = UserVariables::default();
        self.texts.clear();
        self.capabilities = self.login.start.capabilities;
        self.transaction = Transaction::default();
        self.locks = Locks::default();
        // FOUND_ROWS() outlives it.
        self.diagnostics = Diagnostics { found_rows: self.diagnostics.found_rows, ..Diagnostics::default() };
        self.elsewhere = Elsewhere::of(self.elsewhere.forwarding);
        self.changes = Changes::default();
        if self.capabilities & capability::INTERACTIVE != 0 {
            self.wait_as_interactive(world);
        }
        self.read_as_its_account(world);
    }

    /// COM_SET_OPTION: multi-statements on (0) or off (1).
    fn set_option(&mut self, option: u16, out: &mut Output) -> After {
        match option {
            0 => self.capabilities |= capability::MULTI_STATEMENTS,
            1 => self.capabilities &= !capability::MULTI_STATEMENTS,
            _ => return self.fail(&unknown_command(), out),
        }
        self.rows_end(out, self.status());
        After::Next
    }

    fn init_db(&mut self, name: &[u8], world: &dyn World, out: &mut Output) -> After {
        let name = self.settings.charsets().name(name).map(|(name, _)| in_text(&name).into_owned());
        match name.and_then(|name| self.use_schema(&name, world)) {
            Ok(()) => {
                self.ok(out);
                After::Next
            }
            Err(error) => self.fail(&error, out),
        }
    }

    fn use_schema(&mut self, name: &str, world: &dyn World) -> Result<(), SqlError> {
        let (name, collation) = self.schema_of(name, world)?;
        self.changes.schema(&name);
        self.chooses(name, collation);
        Ok(())
    }

    /// This is the default schema from now on.
    fn chooses(&mut self, name: String, collation: Option<u16>) {
        let chosen = self.schema.as_ref().map_or(0, |schema| schema.chosen) + 1;
        self.schema = Some(Schema { name, collation, chosen });
    }

    /// A schema that the account may use, with its collation. Whether others exist is not said.
    fn schema_of(&self, name: &str, world: &dyn World) -> Result<(String, Option<u16>), SqlError> {
        if name.is_empty() {
            return Err(SqlError::new(1046, "3D000", "No database selected"));
        }
        // Every account may name them as its default.
        if let Some(own) = sql::listing::VIRTUAL_SCHEMAS.iter().find(|own| own.eq_ignore_ascii_case(name)) {
            return Ok(((*own).to_owned(), None));
        }
        if !self.may_read().schema(name) {
            return Err(self.no_access_to(name));
        }
        if name == sql::listing::SYSTEM_SCHEMA {
            return Ok((name.to_owned(), None));
        }
        match world.schema(name) {
            SchemaState::There(collation) => Ok((name.to_owned(), collation)),
            SchemaState::Missing => Err(SqlError::new(1049, "42000", format!("Unknown database '{name}'"))),
            SchemaState::Unknown(why) => Err(SqlError::new(1105, "HY000", why)),
        }
    }

    /// 1044
    fn no_access_to(&self, schema: &str) -> SqlError {
        let Identity { account, .. } = &self.login.identity;
        let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
        SqlError::new(1044, "42000", format!("Access denied for user '{user}'@'{host}' to database '{schema}'"))
    }

    /// Status bits of the next OK.
    fn status(&self) -> u16 {
        let bit = |on: bool, bit: u16| if on { bit } else { 0 };
        bit(self.settings.typed().autocommit, status::AUTOCOMMIT)
            | bit(self.transaction.is_open(), status::IN_TRANS)
            | bit(self.transaction.is_read_only(), status::IN_TRANS_READONLY)
            | bit(self.settings.typed().sql_mode & (1 << 20) != 0, status::NO_BACKSLASH_ESCAPES)
    }

    fn ok(&mut self, out: &mut Output) {
        self.ok_as(out, self.status());
    }

    fn ok_as(&mut self, out: &mut Output, status: u16) {
        let changes = self.changes.take(&self.settings, &self.transaction);
        let ok = ServerOk { status, warnings: self.warning_count(), changes: &changes.list(), ..ServerOk::default() };
        out.send(|out| server::put_ok(out, &ok, self.capabilities));
    }

    /// The packet after rows, which carries changes for clients that no longer use EOF.
    fn rows_end(&mut self, out: &mut Output, status: u16) {
        self.rows_end_with(out, status, self.warning_count());
    }

    fn rows_end_with(&mut self, out: &mut Output, status: u16, warnings: u16) {
        let deprecated = self.capabilities & capability::DEPRECATE_EOF != 0;
        let changes =
            if deprecated { self.changes.take(&self.settings, &self.transaction) } else { Default::default() };
        let ok = ServerOk { status, warnings, changes: &changes.list(), ..ServerOk::default() };
        out.send(|out| server::put_rows_end(out, &ok, self.capabilities));
    }

    /// A statement begins: so far warnings are those of one before it.
    fn statement_is_new(&mut self) {
        self.diagnostics.are_own = false;
        self.diagnostics.early = 0;
    }

    /// What is said of a statement when it is parsed, which it may itself read (`@@warning_count`).
    fn says(&mut self, early: &[Warning]) {
        if !early.is_empty() {
            self.diagnostics.warnings = early.to_vec();
            self.diagnostics.are_own = true;
            self.diagnostics.early = self.warning_count();
        }
    }

    /// From now on warnings are the statement's own.
    fn own_warnings(&mut self) -> &mut Vec<Warning> {
        self.diagnostics.are_elsewhere = false;
        if !self.diagnostics.are_own {
            self.diagnostics.warnings.clear();
            self.diagnostics.are_own = true;
        }
        &mut self.diagnostics.warnings
    }

    fn warning_count(&self) -> u16 {
        u16::try_from(self.diagnostics.warnings.len()).unwrap_or(u16::MAX)
    }

    /// Answers with an error, which SHOW WARNINGS then lists.
    fn fail(&mut self, error: &SqlError, out: &mut Output) -> After {
        self.results.rest = None;
        self.suspended = None;
        self.statement_ends();
        self.stop_reading();
        self.results.sending = None;
        if self.is_elsewhere(error, out) {
            return After::NotHere;
        }
        self.diagnostics.row_count = -1;
        self.own_warnings().push(error.as_warning());
        self.trouble.failed = Some(Failed::of(error));
        let message = self.settings.charsets().message(&error.message);
        out.send(|out| server::put_err(out, error.code, error.sqlstate, &message));
        if error.is_defect() {
            self.trouble.defect = Some(error.message.clone());
        }
        if error.code == memory::OVER_MEMORY || error.is_defect() { After::Close } else { After::Next }
    }
}

/// 1835
fn malformed() -> SqlError {
    SqlError::new(1835, "HY000", "Malformed communication packet.")
}

fn unknown_command() -> SqlError {
    SqlError::new(1047, "08S01", "Unknown command")
}

fn charsets(collation: u16) -> Charsets {
    let default =
        Charsets { client: DEFAULT_COLLATION, connection: DEFAULT_COLLATION, results: Some(DEFAULT_COLLATION) };
    Charsets::of_login(collation).unwrap_or(default)
}

/// Values of variables that are about one session, then those of the server.
struct Own<'a> {
    session: &'a Session,
    world: &'a dyn World,
}

impl OwnValues for Own<'_> {
    fn own_value(&self, name: &str) -> Option<String> {
        let collation = || self.session.schema.as_ref()?.collation.and_then(values::collation::by_id);
        match name {
            "pseudo_thread_id" => Some(self.session.login.id.to_string()),
            "warning_count" => Some(self.session.diagnostics.warnings.len().to_string()),
            "error_count" => Some(
                self.session.diagnostics.warnings.iter().filter(|warning| warning.level == "Error").count().to_string(),
            ),
            // Without a default schema they are the server's.
            "collation_database" => {
                collation().map(|found| found.name.to_owned()).or_else(|| self.own_value("collation_server"))
            }
            "character_set_database" => {
                collation().map(|found| found.charset.to_owned()).or_else(|| self.own_value("character_set_server"))
            }
            // DEFAULT is the account's.
            CONSISTENCY => Some(self.session.consistency().name().to_uppercase()),
            TIMEOUT if self.session.may_forward() => Some(FORWARDS_AFTER_MS.to_string()),
            STALENESS => self.session.login.identity.reads.staleness_ms.map(|ms| ms.to_string()),
            "slipstream_last_served_by" => {
                let who = if self.session.diagnostics.are_elsewhere { "source" } else { "replica" };
                Some(who.to_owned())
            }
            // Nothing is executed here under a GTID of its own.
            "gtid_owned" => Some(String::new()),
            _ => self.world.own_values().own_value(name),
        }
    }

    fn read_value(&self, name: &str) -> Result<Option<String>, SqlError> {
        match name {
            "gtid_purged" if let Some(log) = self.world.log() => Ok(Some(gtid_text(&log.purged()))),
            // A replica has no binary log to keep one of them in.
            "gtid_executed" | "gtid_purged" => self.world.gtids().visible().map(|set| Some(gtid_text(&set))),
            _ => Ok(self.own_value(name)),
        }
    }

    fn zones(&self) -> Option<Arc<Zones>> {
        self.world.own_values().zones()
    }
}

/// True for commands that are statements, as `Questions` counts them.
#[must_use]
pub fn is_question(payload: &[u8]) -> bool {
    matches!(payload.first(), Some(&(command::QUERY | command::STMT_EXECUTE)))
}

/// Placeholders of a statement.
#[derive(Debug, Clone, Copy)]
struct Parameters<'a> {
    /// Values; None while the statement is prepared.
    values: Option<&'a [Value]>,
    fields: &'a [Field],
    /// What a prepared statement keeps of its preparation; None: what the session has.
    prepared: Option<&'a PreparedUnder>,
}

/// What names and literals of a prepared statement mean, whatever the session changes later.
#[derive(Debug, PartialEq, Eq)]
struct PreparedUnder {
    charsets: Charsets,
    schema: Option<String>,
    sql_mode: u64,
}

impl Parameters<'_> {
    /// Of a statement that comes as text.
    const NONE: Parameters<'static> = Parameters { values: Some(&[]), fields: &[], prepared: None };
}

impl Session {
    /// The schema of tables that are named without one.
    fn tables_in<'a>(&'a self, under: Option<&'a PreparedUnder>) -> Option<&'a str> {
        match under {
            Some(under) => under.schema.as_deref(),
            None => self.schema.as_ref().map(|schema| schema.name.as_str()),
        }
    }

    /// Runs `work` with what a statement of this session is bound against.
    fn bound<T>(
        &self,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
        work: impl FnOnce(&Bind<'_>) -> T,
    ) -> T {
        let own = Own { session: self, world };
        let waits = match parameters.values {
            Some(_) => Waits::warning(&self.place.noted),
            None => Waits::described(),
        };
        let other = parameters.prepared.and_then(|prepared| self.settings.for_text_of(&prepared.charsets));
        work(&Bind {
            sql,
            settings: other.as_ref().unwrap_or(&self.settings),
            user_variables: &self.user_variables,
            own: &own,
            schema: self.tables_in(None),
            tables_in: self.tables_in(parameters.prepared),
            user: (&self.login.identity.user, &self.login.identity.peer_host),
            current_user: &self.login.identity.account,
            connection_id: u64::from(self.login.id),
            row_count: self.diagnostics.row_count,
            found_rows: self.diagnostics.found_rows.filter(|_| self.may_forward()),
            parameters: parameters.values,
            parameter_fields: parameters.fields,
            waits,
            computed: Cell::new(0),
            compared: Cell::new(0),
            memory: &self.memory,
        })
    }
}
