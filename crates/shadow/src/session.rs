//! One client: its commands at the source, and at the replica what can be compared.
//!
//! A read is compared at one state of both: no statement that may commit runs through here while the source's set is
//! read, the source answers, the replica reaches that set and answers; a set that has moved all the same, by someone
//! beside us, makes the try void.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::TcpStream;

use accounts::SessionStart;
use client::OnBehalf;
use sql::{Charsets, SqlError};
use wire::command;
use wire::response::{PrepareOk, is_err};
use wire::server::{ClientCommand, ServerOk, put_ok};

use crate::compared::{Compared, as_planned, breaks_order, compared, differ_by_nature, error, refused, same_prepared};
use crate::front::Client;
use crate::kind::{Kind, Known, known};
use crate::masked::masked;
use crate::pair::{Answer, Side};
use crate::report::Found;
use crate::server::Shared;
use crate::{Result, ShadowError};

/// Tries to read while the source's state stands still.
const TRIES: u32 = 5;
/// Packets of an answer that are kept of a difference.
const KEPT_PACKETS: usize = 40;
/// sql_mode of a session until the source was asked.
const NO_MODE: u64 = 0;
/// Number of the collation of a client whose own has none in one byte: utf8mb4_0900_ai_ci.
const COLLATION: u8 = 255;

/// A statement that is prepared at the source.
struct Prepared {
    /// Its number at the replica; None if it is not prepared there.
    at_replica: Option<u32>,
    /// The construct for which it is not.
    refused: Option<String>,
    sql: Vec<u8>,
    known: Known,
}

struct Session<'a> {
    shared: &'a Shared,
    client: &'a mut Client,
    source: Side,
    /// None once it has failed.
    replica: Option<Side>,
    capabilities: u32,
    charsets: Charsets,
    sql_mode: u64,
    prepared: HashMap<u32, Prepared>,
    /// Why nothing more of this session can be compared.
    diverged: Option<&'static str>,
    /// Why nothing more of this transaction can be compared.
    transaction_diverged: Option<&'static str>,
    /// Both sides' transactions see the same state already.
    pinned: bool,
    /// Each statement reads anew (READ COMMITTED), or it is not known.
    reads_anew: bool,
    /// Reads of a transaction lock rows, which others may wait for.
    locks: bool,
    /// The last statement ran at the source alone.
    alone: bool,
}

/// Serves a client until it goes.
///
/// # Errors
/// Its connection or the source's fails.
pub(crate) fn run(shared: &Shared, socket: TcpStream, id: u32) -> Result<()> {
    let mut client = Client::new(socket)?;
    let Some(accepted) = client.log_in(shared, id)? else { return Ok(()) };
    shared.report().clients += 1;
    let mut start = accepted.start;
    loop {
        let Some(mut session) = Session::begin(shared, &mut client, &start)? else { return Ok(()) };
        let Some(payload) = session.serve()? else { return Ok(()) };
        match client.change_user(shared, &payload, &start)? {
            Some(accepted) => start = accepted.start,
            None => return Ok(()),
        }
    }
}

impl<'a> Session<'a> {
    /// Connects to both servers and lets the client go on; None if the source does not let it, which it was told.
    fn begin(shared: &'a Shared, client: &'a mut Client, start: &SessionStart) -> Result<Option<Session<'a>>> {
        let on_behalf = OnBehalf {
            capabilities: start.capabilities,
            collation: u8::try_from(start.collation).unwrap_or(COLLATION),
        };
        let connect = |which, options| Side::connect(which, options, on_behalf, start.schema.as_deref());
        let source = match connect("the source", &shared.config.source) {
            Ok(source) => source,
            Err(ShadowError::Server { source: client::ClientError::Server { code, sqlstate, message }, .. }) => {
                client.refuse(code, &sqlstate, &message)?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let replica = connect("the replica", &shared.config.replica).ok();
        let mut ok = Vec::new();
        put_ok(&mut ok, &ServerOk { status: source.status, ..ServerOk::default() }, start.capabilities);
        client.send([ok.as_slice()])?;
        client.next_command();
        let default = Charsets { client: 255, connection: 255, results: Some(255) };
        let mut session = Session {
            shared,
            client,
            source,
            diverged: replica.is_none().then_some("no session at the replica"),
            replica,
            capabilities: start.capabilities,
            charsets: Charsets::of_login(start.collation).unwrap_or(default),
            sql_mode: NO_MODE,
            prepared: HashMap::new(),
            transaction_diverged: None,
            pinned: false,
            reads_anew: false,
            locks: false,
            alone: false,
        };
        session.learn()?;
        Ok(Some(session))
    }

    /// Asks the source what this session's statements mean.
    fn learn(&mut self) -> Result<()> {
        let sql = "SELECT CONCAT(@@SESSION.sql_mode, ' ', @@SESSION.character_set_client, ' ', \
                   @@SESSION.transaction_isolation)";
        let settings = self.source.ask(sql)?.unwrap_or_default();
        let mut settings = settings.split(' ');
        let mut next = || settings.next().unwrap_or_default();
        let (modes, charset, isolation) = (next(), next(), next());
        self.sql_mode = sql::sql_mode_bits(modes).unwrap_or(NO_MODE);
        if let Ok(found) = Charsets::of_client(charset) {
            self.charsets.client = found.id;
        }
        self.reads_anew = isolation != "REPEATABLE-READ";
        self.locks = isolation == "SERIALIZABLE";
        Ok(())
    }

    /// Handles commands until the client goes (None) or changes its user (the command).
    fn serve(&mut self) -> Result<Option<Vec<u8>>> {
        while let Some(payload) = self.client.read()? {
            let command = ClientCommand::parse(&payload, self.capabilities);
            match command {
                Ok(ClientCommand::Quit) => return Ok(None),
                Ok(ClientCommand::ChangeUser) => return Ok(Some(payload)),
                Ok(ClientCommand::Query(query)) => {
                    let sql = query.sql.to_vec();
                    self.query(&payload, &sql)?;
                }
                Ok(ClientCommand::Prepare(sql)) => self.prepare(&payload, sql)?,
                Ok(ClientCommand::Execute(execute)) => self.execute(&payload, execute.statement_id)?,
                Ok(ClientCommand::Fetch { statement_id, .. }) => self.fetch(&payload, statement_id)?,
                Ok(ClientCommand::SendLongData { statement_id, .. }) => self.without_answer(&payload, statement_id)?,
                Ok(ClientCommand::Close(id)) => {
                    self.without_answer(&payload, id)?;
                    self.prepared.remove(&id);
                }
                Ok(ClientCommand::Reset(id)) => {
                    let at_replica = self.number_at_replica(id);
                    self.both(&payload, at_replica.map(|number| with_number(&payload, number)).as_deref())?;
                }
                Ok(ClientCommand::InitDb(_) | ClientCommand::SetOption(_)) => {
                    self.both(&payload, Some(&payload))?;
                }
                Ok(ClientCommand::ResetConnection) => {
                    self.both(&payload, Some(&payload))?;
                    self.prepared.clear();
                    self.diverged = self.replica.is_none().then_some("no session at the replica");
                    self.transaction_ends();
                    self.learn()?;
                }
                Ok(ClientCommand::Register { .. } | ClientCommand::Dump(_) | ClientCommand::DumpGtid { .. }) => {
                    self.client.refuse(1235, "42000", "The shadow does not serve the binary log")?;
                }
                _ => {
                    self.alone(&payload)?;
                }
            }
            self.client.next_command();
        }
        Ok(None)
    }

    fn number_at_replica(&self, id: u32) -> Option<u32> {
        self.prepared.get(&id).and_then(|prepared| prepared.at_replica)
    }

    /// Sends the source's answer to the client.
    fn answer(&mut self, answer: Option<&Answer>) -> Result<()> {
        // None: it was sent as it came.
        match answer {
            Some(answer) => self.client.send(answer.iter().map(Vec::as_slice)),
            None => Ok(()),
        }
    }

    /// The source's answer; None if it was too large and went to the client at once.
    fn at_source(&mut self, payload: &[u8]) -> Result<Option<Answer>> {
        let client = &mut *self.client;
        self.source.command(payload, &mut |packet| client.send([packet]))
    }

    /// The replica's answer; None if there is none that can be compared.
    fn at_replica(&mut self, payload: &[u8]) -> Option<Answer> {
        let replica = self.replica.as_mut()?;
        match replica.command(payload, &mut |_| Ok(())) {
            Ok(answer) => answer,
            Err(_) => {
                self.replica = None;
                self.diverged = Some("the session at the replica has failed");
                None
            }
        }
    }

    /// A command that only the source gets.
    fn alone(&mut self, payload: &[u8]) -> Result<Option<Answer>> {
        let shared = self.shared;
        let answer = {
            let _running = shared.gate.statement();
            self.at_source(payload)?
        };
        self.ran_alone(answer)
    }

    /// A write that only the source gets.
    fn write(&mut self, payload: &[u8], sql: &[u8]) -> Result<()> {
        // Within a transaction it commits nothing.
        if self.source.is_in_transaction() && changes_rows(sql) {
            let answer = self.at_source(payload)?;
            self.ran_alone(answer)?;
        } else {
            self.alone(payload)?;
        }
        self.has_written(sql);
        Ok(())
    }

    fn ran_alone(&mut self, answer: Option<Answer>) -> Result<Option<Answer>> {
        self.answer(answer.as_ref())?;
        self.alone = true;
        self.follow_transaction();
        Ok(answer)
    }

    /// A command that both get as it is; the client gets the source's answer.
    fn both(&mut self, payload: &[u8], at_replica: Option<&[u8]>) -> Result<(Option<Answer>, Option<Answer>)> {
        let shared = self.shared;
        let theirs = {
            let _running = shared.gate.statement();
            self.at_source(payload)?
        };
        let ours = at_replica.and_then(|payload| self.at_replica(payload));
        self.answer(theirs.as_ref())?;
        self.alone = false;
        self.follow_transaction();
        Ok((theirs, ours))
    }

    /// Commands without an answer.
    fn without_answer(&mut self, payload: &[u8], id: u32) -> Result<()> {
        self.at_source(payload)?;
        if let Some(number) = self.number_at_replica(id) {
            self.at_replica(&with_number(payload, number));
        }
        Ok(())
    }

    fn transaction_ends(&mut self) {
        self.transaction_diverged = None;
        self.pinned = false;
    }

    /// Ends the replica's transaction where the source's has ended by itself, as by DDL.
    fn follow_transaction(&mut self) {
        if self.source.is_in_transaction() {
            return;
        }
        self.transaction_ends();
        if let Some(replica) = self.replica.as_mut().filter(|replica| replica.is_in_transaction())
            && !matches!(replica.run("COMMIT"), Ok(true))
        {
            self.diverged = Some("the session at the replica has failed");
        }
    }

    fn add(&self, found: Found, sql: &[u8]) {
        self.shared.add(found, || masked(sql, self.sql_mode));
    }

    fn query(&mut self, payload: &[u8], sql: &[u8]) -> Result<()> {
        let known = known(sql, self.sql_mode, &self.charsets);
        match known.kind {
            Kind::Kill => {
                self.client.refuse(1235, "42000", "The shadow does not know the source's numbers of connections")?;
                self.add(Found::NotComparable("KILL"), sql);
            }
            Kind::Writes => self.write(payload, sql)?,
            Kind::Unanswered => {
                let construct = construct(sql, self.sql_mode, &self.charsets);
                self.alone(payload)?;
                self.has_read_alone();
                self.add(Found::Refused(construct.unwrap_or_else(|| "a statement of this form".into())), sql);
            }
            Kind::Session | Kind::Ends => {
                let (theirs, ours) = self.both(payload, Some(payload))?;
                let found = self.judged(payload, &known, theirs.as_ref(), ours.as_ref());
                if matches!(found, Found::Refused(_)) {
                    self.diverged = Some("the session has settings that the replica refuses");
                }
                self.note(found, sql, theirs.as_ref(), ours.as_ref());
                // What later statements mean, and which state they read. An isolation level for the next transaction
                // only lasts until its end.
                if known.kind == Kind::Session || (self.reads_anew && !self.source.is_in_transaction()) {
                    self.learn()?;
                }
                if sql.to_ascii_uppercase().windows(9).any(|word| word == b"ISOLATION") {
                    self.reads_anew = true;
                }
            }
            Kind::Constant if self.alone && shows_warnings(sql) => {
                self.alone(payload)?;
                self.add(Found::NotComparable("warnings of a statement that only the source ran"), sql);
            }
            Kind::Constant => {
                let (theirs, ours) = self.both(payload, Some(payload))?;
                let found = self.judged(payload, &known, theirs.as_ref(), ours.as_ref());
                self.note(found, sql, theirs.as_ref(), ours.as_ref());
            }
            Kind::Reads => self.read(payload, Some(payload), sql, &known)?,
            Kind::Pins => {
                self.transaction_ends();
                self.read(payload, Some(payload), sql, &known)?;
            }
        }
        Ok(())
    }

    /// A read that only the source ran may have chosen the state of its transaction, which the replica's cannot have.
    fn has_read_alone(&mut self) {
        if self.source.is_in_transaction() && !self.pinned {
            self.transaction_diverged = Some("behind a first read that the replica does not answer");
        }
    }

    fn has_written(&mut self, sql: &[u8]) {
        if self.source.is_in_transaction() {
            self.transaction_diverged = Some("behind a write of the same transaction");
        }
        self.add(Found::Written, sql);
    }

    fn prepare(&mut self, payload: &[u8], sql: &[u8]) -> Result<()> {
        let known = known(sql, self.sql_mode, &self.charsets);
        let compares = matches!(known.kind, Kind::Reads | Kind::Constant | Kind::Session | Kind::Ends);
        let (theirs, ours) = self.both(payload, Some(payload).filter(|_| compares))?;
        let Some(theirs) = theirs else { return Ok(()) };
        let number =
            |answer: &Answer| Some(PrepareOk::parse(answer.first().filter(|one| !is_err(one))?).ok()?.statement_id);
        if let Some(id) = number(&theirs) {
            let at_replica = ours.as_ref().and_then(number);
            let refused = ours.as_ref().and_then(|ours| refused(ours));
            self.prepared.insert(id, Prepared { at_replica, refused, sql: sql.to_vec(), known });
        }
        if let Some(ours) = &ours {
            let found = match (refused(ours), same_prepared(&theirs, ours)) {
                (Some(construct), _) => Found::Refused(construct),
                (None, Compared::Different(how)) => Found::Different(format!("prepare: {how}")),
                (None, _) => Found::Equal,
            };
            self.note(found, sql, Some(&theirs), Some(ours));
        }
        Ok(())
    }

    fn execute(&mut self, payload: &[u8], id: u32) -> Result<()> {
        let Some(prepared) = self.prepared.remove(&id) else {
            self.alone(payload)?;
            return Ok(());
        };
        let at_replica = prepared.at_replica.map(|number| with_number(payload, number));
        let ran = self.execute_known(payload, at_replica.as_deref(), &prepared);
        self.prepared.insert(id, prepared);
        ran
    }

    fn execute_known(&mut self, payload: &[u8], at_replica: Option<&[u8]>, prepared: &Prepared) -> Result<()> {
        let Prepared { sql, known, refused, .. } = prepared;
        match (known.kind, at_replica) {
            (Kind::Reads, Some(_)) => self.read(payload, at_replica, sql, known),
            (Kind::Reads | Kind::Unanswered, None) => {
                self.alone(payload)?;
                self.has_read_alone();
                let construct = refused.clone().or_else(|| construct(sql, self.sql_mode, &self.charsets));
                self.add(Found::Refused(construct.unwrap_or_else(|| "what it is prepared for".into())), sql);
                Ok(())
            }
            (Kind::Session | Kind::Ends | Kind::Constant, Some(_)) => {
                let (theirs, ours) = self.both(payload, at_replica)?;
                let found = self.judged(payload, known, theirs.as_ref(), ours.as_ref());
                self.note(found, sql, theirs.as_ref(), ours.as_ref());
                Ok(())
            }
            _ => self.write(payload, sql),
        }
    }

    fn fetch(&mut self, payload: &[u8], id: u32) -> Result<()> {
        let Some((number, known, sql)) = self
            .prepared
            .get(&id)
            .and_then(|prepared| Some((prepared.at_replica?, prepared.known.clone(), prepared.sql.clone())))
        else {
            self.alone(payload)?;
            return Ok(());
        };
        let (theirs, ours) = self.both(payload, Some(&with_number(payload, number)))?;
        let (Some(theirs), Some(ours)) = (&theirs, &ours) else { return Ok(()) };
        let found = match (theirs == ours, known.by_nature, known.ordered) {
            (true, ..) => Found::Equal,
            (false, Some(why), _) => Found::ByNature(why),
            (false, None, false) => Found::NotDetermined("rows of a cursor without ORDER BY"),
            (false, None, true) => Found::Different("rows of a cursor".into()),
        };
        self.note(found, &sql, Some(theirs), Some(ours));
        Ok(())
    }

    /// A read of a table, at one state of both.
    fn read(&mut self, payload: &[u8], at_replica: Option<&[u8]>, sql: &[u8], known: &Known) -> Result<()> {
        let locks = self.locks.then_some("reads under SERIALIZABLE lock rows");
        if let Some(why) = self.diverged.or(self.transaction_diverged).or(locks) {
            self.alone(payload)?;
            self.add(Found::NotComparable(why), sql);
            return Ok(());
        }
        if self.pinned && !self.reads_anew {
            let (theirs, ours) = self.both(payload, at_replica)?;
            let found = self.judged(payload, known, theirs.as_ref(), ours.as_ref());
            self.note(found, sql, theirs.as_ref(), ours.as_ref());
            return Ok(());
        }
        let shared = self.shared;
        let mut found = Found::Moved;
        let mut ours = None;
        let mut theirs;
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(comparing) = shared.gate.comparison() else {
                found = Found::NotComparable("another statement was compared for long");
                theirs = self.at_source(payload)?;
                break;
            };
            let mut controls = shared.controls();
            let before = controls.source_set().ok();
            theirs = self.at_source(payload)?;
            if before.is_none() {
                found = Found::NotComparable("the source cannot be asked for its state");
            }
            if let Some(before) = before.filter(|before| controls.stands_at(before) && theirs.is_some()) {
                match controls.replica_has(&before) {
                    Ok(()) => {
                        ours = at_replica.and_then(|payload| self.at_replica(payload));
                        if controls.stands_at(&before) {
                            found = self.judged(payload, known, theirs.as_ref(), ours.as_ref());
                            if found == Found::Different(OTHER_ROWS.into()) && known.limited {
                                found = self.without_limit(sql, is_text(payload));
                            }
                        }
                    }
                    Err(why) => found = Found::NotComparable(why),
                }
            }
            if theirs.is_none() {
                found = Found::NotComparable("an answer above 64 MiB");
            }
            drop((controls, comparing));
            // A transaction has chosen its state with its first read.
            if found != Found::Moved || self.source.is_in_transaction() || tries == TRIES {
                break;
            }
        }
        self.answer(theirs.as_ref())?;
        self.alone = false;
        if self.source.is_in_transaction() {
            match found {
                Found::Moved => self.transaction_diverged = Some("the source moved when a transaction began to read"),
                Found::NotComparable(why) => self.transaction_diverged = Some(why),
                _ => self.pinned = true,
            }
        }
        self.follow_transaction();
        self.note(found, sql, theirs.as_ref(), ours.as_ref());
        Ok(())
    }

    /// Whether the rows are the same without LIMIT: then either choice of rows is right.
    fn without_limit(&mut self, sql: &[u8], is_text: bool) -> Found {
        let why = "LIMIT of rows that nothing orders wholly";
        if !is_text {
            return Found::NotDetermined("LIMIT in a prepared statement");
        }
        let upper = sql.to_ascii_uppercase();
        let Some(at) = upper.windows(5).rposition(|word| word == b"LIMIT") else {
            return Found::Different(OTHER_ROWS.into());
        };
        let payload = Side::query_payload(self.capabilities, sql.get(..at).unwrap_or_default());
        let theirs = self.source.command(&payload, &mut |_| Ok(())).ok().flatten();
        let (Some(theirs), Some(ours)) = (theirs, self.at_replica(&payload)) else {
            return Found::NotDetermined(why);
        };
        match compared(&theirs, &ours, self.deprecates_eof()) {
            Compared::Equal | Compared::OtherOrder => Found::NotDetermined(why),
            _ => Found::Different(OTHER_ROWS.into()),
        }
    }

    fn deprecates_eof(&self) -> bool {
        self.capabilities & wire::handshake::capability::DEPRECATE_EOF != 0
    }

    /// What two answers say of a statement.
    fn judged(&self, payload: &[u8], known: &Known, theirs: Option<&Answer>, ours: Option<&Answer>) -> Found {
        let Some(theirs) = theirs else { return Found::NotComparable("an answer above 64 MiB") };
        let Some(ours) = ours else { return Found::NotComparable("no answer of the replica") };
        if let Some(construct) = refused(ours) {
            return Found::Refused(construct);
        }
        let mut found = compared(theirs, ours, self.deprecates_eof());
        if let (Compared::Different(_), true) = (&found, known.orders_dictionary)
            && let Some(planned) = as_planned(theirs, ours, self.deprecates_eof())
        {
            found = compared(theirs, &planned, self.deprecates_eof());
            if found == Compared::Equal {
                return Found::NotDetermined(PLANNED);
            }
        }
        let own = match found {
            Compared::OtherRows => differ_by_nature(theirs, ours, self.deprecates_eof(), is_text(payload)),
            _ => None,
        };
        if let (Some(why), true) = (known.by_nature.or(own), found != Compared::Equal) {
            return Found::ByNature(why);
        }
        match found {
            Compared::Equal => Found::Equal,
            Compared::OtherOrder | Compared::OtherRows
                if breaks_order(theirs, ours, self.deprecates_eof(), is_text(payload), &known.order) =>
            {
                Found::Different("order of rows".into())
            }
            Compared::OtherOrder if known.ordered => Found::NotDetermined("rows that ORDER BY leaves in any order"),
            Compared::OtherOrder => Found::Equal,
            Compared::OtherRows => Found::Different(OTHER_ROWS.into()),
            Compared::Different(_) if error(ours).is_some_and(|error| is_passing(&error)) => {
                Found::NotComparable("not readable at the replica now")
            }
            Compared::Different(how) => Found::Different(how),
        }
    }

    /// Counts what was found; keeps rows of a difference where that is asked for.
    fn note(&self, found: Found, sql: &[u8], theirs: Option<&Answer>, ours: Option<&Answer>) {
        if let (Found::Different(how), Some(_)) = (&found, &self.shared.config.keep_rows) {
            let mut text = format!("-- {how}\n{}\n", String::from_utf8_lossy(sql));
            for (which, answer) in [("source", theirs), ("replica", ours)] {
                for packet in answer.into_iter().flatten().take(KEPT_PACKETS) {
                    // A String takes all that is written.
                    let _ = writeln!(text, "   {which}: {}", packet.escape_ascii());
                }
            }
            self.shared.keep(&text);
        }
        self.add(found, sql);
    }
}

/// The replica's errors that tell of a state which passes.
fn is_passing(error: &str) -> bool {
    let states = ["cannot be read now", "recovering, ", "is starting", "snapshot too old", "is being filled"];
    error.starts_with("1105 ") && states.iter().any(|state| error.contains(state))
}

/// How answers with as many, but other rows differ.
const OTHER_ROWS: &str = "rows";
const PLANNED: &str = "how ORDER BY describes columns of information_schema";

/// The construct for which a statement has no answer at the replica, as far as its text tells.
fn construct(sql: &[u8], sql_mode: u64, charsets: &Charsets) -> Option<String> {
    match sql::parse(sql, sql_mode, charsets) {
        Ok(sql::Parsed { statement: sql::Statement::Refused(construct), .. }) => Some(construct),
        Ok(_) => None,
        Err(error) => Some(SqlError::construct_in(&error.message).unwrap_or(&error.message).to_owned()),
    }
}

/// Whether a command's result goes in text form.
fn is_text(payload: &[u8]) -> bool {
    payload.first() == Some(&command::QUERY)
}

/// The command with another statement's number.
fn with_number(payload: &[u8], number: u32) -> Vec<u8> {
    let mut payload = payload.to_vec();
    if let Some(place) = payload.get_mut(1..5) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    payload
}

/// True for statements that change rows and, within a transaction, commit nothing.
fn changes_rows(sql: &[u8]) -> bool {
    let first: Vec<u8> = sql.iter().skip_while(|byte| byte.is_ascii_whitespace()).take(7).copied().collect();
    let first = first.to_ascii_uppercase();
    [&b"INSERT "[..], b"UPDATE ", b"DELETE ", b"REPLACE", b"SELECT "].iter().any(|word| first.starts_with(word))
}

fn shows_warnings(sql: &[u8]) -> bool {
    let upper = sql.to_ascii_uppercase();
    [&b"WARNINGS"[..], b"ERRORS"].iter().any(|word| upper.windows(word.len()).any(|part| part == *word))
}
