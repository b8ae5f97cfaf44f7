//! One client: its commands at the source, and at the replica what can be compared.
//!
//! A read is compared at one state of both: no statement that may commit runs through here while the source's set is
//! read, the source answers, the replica reaches that set and answers; a set that has moved all the same, by someone
//! beside us, makes the try void.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::net::TcpStream;

use accounts::SessionStart;
use base::GtidSet;
use client::OnBehalf;
use sql::{Charsets, SqlError};
use wire::command;
use wire::response::{PrepareOk, is_err, rows_end, status};
use wire::server::{BoundParams, ClientCommand, Execute, ParamType, ServerOk, put_ok};

use crate::beside::Form;
use crate::compared::{parts, refused};
use crate::front::Client;
use crate::judge::{
    Alone, judged, judged_in_transaction, judged_of_cursor, judged_prepared, judged_without_limit, may_be_limit,
};
use crate::kind::{Kind, Known, known};
use crate::masked::masked;
use crate::pair::{Answer, Side};
use crate::report::Found;
use crate::server::Shared;
use crate::temporary::TemporaryTables;
use crate::{Result, ShadowError};

/// Tries to read while the source's state stands still.
const TRIES: u32 = 5;
/// Packets of an answer that are kept of a difference.
const KEPT_PACKETS: usize = 40;
/// sql_mode of a session until the source was asked.
const NO_MODE: u64 = 0;
/// Why reads of a transaction are not compared.
const AFTER_WRITE: &str = "after a write of the same transaction";
const AFTER_REFUSED: &str = "after a first read that the replica does not answer";
const UNKNOWN_STATE: &str = "the source cannot be asked for its state";
const TEMPORARY: &str = "a temporary table, which only the source has";
/// Why rows that LIMIT has chosen are not compared.
const UNASKED: &str = "LIMIT, and there are no answers without it";
const IN_PARTS: &str = "LIMIT with parameters that were sent in parts";
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
    parameters: usize,
    /// Types of its last execution: a client sends them once.
    types: Vec<ParamType>,
    /// Placeholders whose values were sent in parts for the next execution.
    long: BTreeSet<u16>,
    cursor: Option<Cursor>,
}

/// A cursor that both have open.
struct Cursor {
    /// What stands before rows in an answer, of the source and of the replica: rows that are fetched come without it.
    heads: (Answer, Answer),
    /// Rows were fetched before.
    is_begun: bool,
}

/// How a read runs, which may have to run once more without its LIMIT.
#[derive(Clone, Copy)]
enum Run<'a> {
    Text,
    /// Its parameters; None if they cannot be sent again.
    Prepared(Option<&'a BoundParams<'a>>),
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
    schema: Option<String>,
    prepared: HashMap<u32, Prepared>,
    /// Why nothing more of this session can be compared.
    diverged: Option<&'static str>,
    /// Why nothing more of this transaction can be compared.
    transaction_diverged: Option<&'static str>,
    /// Both sides' transactions see the same state already.
    pinned: bool,
    /// Each statement reads anew (READ COMMITTED), or it is not known.
    reads_anew: bool,
    /// The state at which reads of this transaction that only the source ran have found it: if it is still that when
    /// both read, they have chosen the same.
    read_alone_at: Option<GtidSet>,
    /// Statements of this transaction ran at the source alone.
    partly_alone: bool,
    temporary: TemporaryTables,
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
            schema: None,
            prepared: HashMap::new(),
            transaction_diverged: None,
            pinned: false,
            reads_anew: false,
            read_alone_at: None,
            partly_alone: false,
            temporary: TemporaryTables::default(),
            locks: false,
            alone: false,
        };
        session.learn()?;
        Ok(Some(session))
    }

    /// Asks the source what this session's statements mean.
    fn learn(&mut self) -> Result<()> {
        let sql = "SELECT CONCAT(@@SESSION.sql_mode, ' ', @@SESSION.character_set_client, ' ', \
                   @@SESSION.transaction_isolation, ' ', IFNULL(DATABASE(), ''))";
        let settings = self.source.ask(sql)?.unwrap_or_default();
        let mut settings = settings.splitn(4, ' ');
        let mut next = || settings.next().unwrap_or_default();
        let (modes, charset, isolation, schema) = (next(), next(), next(), next());
        self.schema = Some(schema.to_owned()).filter(|schema| !schema.is_empty());
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
                Ok(ClientCommand::Execute(execute)) => self.execute(&payload, &execute)?,
                Ok(ClientCommand::Fetch { statement_id, .. }) => self.fetch(&payload, statement_id)?,
                Ok(ClientCommand::SendLongData { statement_id, parameter, .. }) => {
                    self.without_answer(&payload, statement_id)?;
                    if let Some(prepared) = self.prepared.get_mut(&statement_id) {
                        prepared.long.insert(parameter);
                    }
                }
                Ok(ClientCommand::Close(id)) => {
                    self.without_answer(&payload, id)?;
                    self.prepared.remove(&id);
                }
                Ok(ClientCommand::Reset(id)) => {
                    let at_replica = self.number_at_replica(id);
                    self.both(&payload, at_replica.map(|number| with_number(&payload, number)).as_deref())?;
                    if let Some(prepared) = self.prepared.get_mut(&id) {
                        prepared.long.clear();
                        prepared.cursor = None;
                    }
                }
                Ok(ClientCommand::SetOption(_)) => {
                    self.both(&payload, Some(&payload))?;
                }
                Ok(ClientCommand::InitDb(_)) => {
                    self.both(&payload, Some(&payload))?;
                    self.learn()?;
                }
                Ok(ClientCommand::ResetConnection) => {
                    self.both(&payload, Some(&payload))?;
                    self.prepared.clear();
                    self.temporary = TemporaryTables::default();
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
        let answer = if self.source.is_in_transaction() && changes_rows(sql) {
            let answer = self.at_source(payload)?;
            self.ran_alone(answer)?
        } else {
            self.alone(payload)?
        };
        if answer.is_some_and(|answer| !answer.iter().any(|packet| is_err(packet))) {
            self.temporary.follow(sql, self.sql_mode, self.schema.as_deref());
        }
        self.has_written(sql);
        Ok(())
    }

    /// A read that only the source runs. It may choose the state of a transaction, which the replica's must have too.
    fn read_alone(&mut self, payload: &[u8]) -> Result<()> {
        if self.pinned || self.diverged.or(self.transaction_diverged).is_some() {
            self.alone(payload)?;
            self.partly_alone = self.source.is_in_transaction();
            return Ok(());
        }
        let may_choose = self.source.is_in_transaction() || self.source.status & status::AUTOCOMMIT == 0;
        let state = || self.shared.controls().source_set().ok();
        let before = may_choose.then(state).flatten();
        self.alone(payload)?;
        self.partly_alone = self.source.is_in_transaction();
        if self.partly_alone {
            let stood = before.filter(|before| self.shared.controls().stands_at(before));
            match (&self.read_alone_at, stood) {
                (None, Some(stood)) => self.read_alone_at = Some(stood),
                (Some(at), Some(stood)) if *at == stood => {}
                _ => self.transaction_diverged = Some(AFTER_REFUSED),
            }
        }
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
        self.read_alone_at = None;
        self.partly_alone = false;
    }

    /// What of the transaction that is open only the source has.
    fn has_alone(&self) -> Alone {
        Alone { statements: self.partly_alone, writes: self.transaction_diverged == Some(AFTER_WRITE) }
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
        let known = self.known(sql);
        match known.kind {
            Kind::Kill => {
                self.client.refuse(1235, "42000", "The shadow does not know the source's numbers of connections")?;
                self.add(Found::NotComparable("KILL"), sql);
            }
            Kind::Writes => self.write(payload, sql)?,
            Kind::Unanswered => {
                let construct = construct(sql, self.sql_mode, &self.charsets);
                self.read_alone(payload)?;
                self.add(Found::Refused(construct.unwrap_or_else(|| "a statement of this form".into())), sql);
            }
            Kind::Session | Kind::Ends => {
                let (theirs, ours, found) = self.both_judged(payload, payload, &known, true)?;
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
            Kind::Constant if self.alone && known.tells_of_last => {
                self.alone(payload)?;
                self.add(Found::NotComparable("warnings of a statement that only the source ran"), sql);
            }
            Kind::Constant => {
                let (theirs, ours, found) = self.both_judged(payload, payload, &known, true)?;
                self.note(found, sql, theirs.as_ref(), ours.as_ref());
            }
            Kind::Reads => drop(self.read(payload, Some(payload), sql, &known, Run::Text)?),
            Kind::Pins => {
                self.transaction_ends();
                self.read(payload, Some(payload), sql, &known, Run::Text)?;
            }
        }
        Ok(())
    }

    /// A command that both get, with what their answers say of it.
    fn both_judged(
        &mut self,
        payload: &[u8],
        at_replica: &[u8],
        known: &Known,
        is_text: bool,
    ) -> Result<(Option<Answer>, Option<Answer>, Found)> {
        let alone = self.has_alone();
        let (theirs, ours) = self.both(payload, Some(at_replica))?;
        let found = judged_in_transaction(known, theirs.as_ref(), ours.as_ref(), alone, self.form(is_text));
        Ok((theirs, ours, found))
    }

    fn has_written(&mut self, sql: &[u8]) {
        if self.source.is_in_transaction() {
            self.transaction_diverged = Some(AFTER_WRITE);
            self.partly_alone = true;
        }
        self.add(Found::Written, sql);
    }

    fn prepare(&mut self, payload: &[u8], sql: &[u8]) -> Result<()> {
        let known = self.known(sql);
        let compares = matches!(known.kind, Kind::Reads | Kind::Constant | Kind::Session | Kind::Ends)
            && !self.reads_temporary(&known, sql);
        let (theirs, ours, instead) = match known.kind {
            Kind::Reads if compares => self.both_at_one_state(payload)?,
            _ => {
                let (theirs, ours) = self.both(payload, Some(payload).filter(|_| compares))?;
                (theirs, ours, None)
            }
        };
        let Some(theirs) = theirs else { return Ok(()) };
        if let Some(ours) = &ours {
            let found = match (judged_prepared(&known, &theirs, ours, self.deprecates_eof()), instead) {
                (Found::Different(_), Some(why)) => why,
                (found, _) => found,
            };
            self.note(found, sql, Some(&theirs), Some(ours));
        }
        if let Some(PrepareOk { statement_id, parameters, .. }) = prepare_ok(&theirs) {
            let prepared = Prepared {
                at_replica: ours.as_ref().and_then(prepare_ok).map(|ok| ok.statement_id),
                refused: ours.as_ref().and_then(|ours| refused(ours)),
                sql: sql.to_vec(),
                known,
                parameters: usize::from(parameters),
                types: Vec::new(),
                long: BTreeSet::new(),
                cursor: None,
            };
            self.prepared.insert(statement_id, prepared);
        }
        Ok(())
    }

    /// A preparation that both get, and what a difference is if the replica may not have had the source's definitions.
    fn both_at_one_state(&mut self, payload: &[u8]) -> Result<(Option<Answer>, Option<Answer>, Option<Found>)> {
        let shared = self.shared;
        let comparing = shared.gate.comparison();
        let before = shared.controls().source_set().ok();
        let theirs = self.at_source(payload)?;
        let is_reached = before.as_ref().map(|before| shared.controls().replica_has(before));
        let ours = self.at_replica(payload);
        let instead = match (before, is_reached) {
            (Some(before), Some(Ok(()))) if shared.controls().stands_at(&before) => None,
            (Some(_), Some(Err(why))) => Some(Found::NotComparable(why)),
            (Some(_), _) => Some(Found::Moved),
            (None, _) => Some(Found::NotComparable(UNKNOWN_STATE)),
        };
        drop(comparing);
        self.answer(theirs.as_ref())?;
        self.alone = false;
        self.follow_transaction();
        Ok((theirs, ours, instead))
    }

    fn execute(&mut self, payload: &[u8], execute: &Execute<'_>) -> Result<()> {
        let id = execute.statement_id;
        let Some(mut prepared) = self.prepared.remove(&id) else {
            self.alone(payload)?;
            return Ok(());
        };
        let long = std::mem::take(&mut prepared.long);
        let is_long = |parameter: usize| u16::try_from(parameter).is_ok_and(|parameter| long.contains(&parameter));
        let params = execute.params(prepared.parameters, &prepared.types, &is_long).ok();
        if let Some(params) = &params {
            prepared.types.clone_from(&params.types);
        }
        let at_replica = prepared.at_replica.map(|number| with_number(payload, number));
        let ran = self.execute_known(payload, at_replica.as_deref(), &prepared, params.as_ref());
        prepared.cursor = None;
        let ran = ran.map(|(theirs, ours)| {
            let head = |answer: Option<Answer>| head(&answer?, self.deprecates_eof());
            prepared.cursor = head(theirs).zip(head(ours)).map(|heads| Cursor { heads, is_begun: false });
        });
        self.prepared.insert(id, prepared);
        ran
    }

    fn execute_known(
        &mut self,
        payload: &[u8],
        at_replica: Option<&[u8]>,
        prepared: &Prepared,
        params: Option<&BoundParams<'_>>,
    ) -> Result<(Option<Answer>, Option<Answer>)> {
        let Prepared { sql, known, refused, .. } = prepared;
        match (known.kind, at_replica) {
            (Kind::Reads, Some(_)) => self.read(payload, at_replica, sql, known, Run::Prepared(params)),
            (Kind::Reads, None) if self.reads_temporary(known, sql) => {
                self.read(payload, None, sql, known, Run::Prepared(params))
            }
            (Kind::Reads | Kind::Unanswered, None) => {
                self.read_alone(payload)?;
                let construct = refused.clone().or_else(|| construct(sql, self.sql_mode, &self.charsets));
                self.add(Found::Refused(construct.unwrap_or_else(|| "a prepared statement".into())), sql);
                Ok((None, None))
            }
            (Kind::Session | Kind::Ends | Kind::Constant, Some(at_replica)) => {
                let (theirs, ours, found) = self.both_judged(payload, at_replica, known, false)?;
                self.note(found, sql, theirs.as_ref(), ours.as_ref());
                Ok((theirs, ours))
            }
            _ => self.write(payload, sql).map(|()| (None, None)),
        }
    }

    fn fetch(&mut self, payload: &[u8], id: u32) -> Result<()> {
        let Some(number) = self.number_at_replica(id) else {
            self.alone(payload)?;
            return Ok(());
        };
        let (theirs, ours) = self.both(payload, Some(&with_number(payload, number)))?;
        let (form, deprecates_eof) = (self.form(false), self.deprecates_eof());
        let Some(prepared) = self.prepared.get_mut(&id) else { return Ok(()) };
        let found = match (&theirs, &ours, &mut prepared.cursor) {
            (Some(theirs), Some(ours), Some(cursor)) => {
                let has_all = !cursor.is_begun && [theirs, ours].iter().all(|answer| is_last(answer, deprecates_eof));
                cursor.is_begun = true;
                let whole = |head: &Answer, rows: &Answer| head.iter().chain(rows).cloned().collect::<Answer>();
                let (theirs, ours) = (whole(&cursor.heads.0, theirs), whole(&cursor.heads.1, ours));
                judged_of_cursor(&prepared.known, &theirs, &ours, has_all, form)
            }
            (Some(theirs), Some(ours), None) if theirs == ours => Found::Equal,
            (Some(_), Some(_), None) => Found::NotComparable("rows of a cursor whose columns are not known"),
            (theirs, ours, _) => judged(&prepared.known, theirs.as_ref(), ours.as_ref(), form),
        };
        let sql = prepared.sql.clone();
        self.note(found, &sql, theirs.as_ref(), ours.as_ref());
        Ok(())
    }

    /// A read of a table, at one state of both.
    fn read(
        &mut self,
        payload: &[u8],
        at_replica: Option<&[u8]>,
        sql: &[u8],
        known: &Known,
        run: Run<'_>,
    ) -> Result<(Option<Answer>, Option<Answer>)> {
        let locks = self.locks.then_some("reads under SERIALIZABLE lock rows");
        let temporary = self.reads_temporary(known, sql).then_some(TEMPORARY);
        if let Some(why) = self.diverged.or(temporary).or(self.transaction_diverged).or(locks) {
            self.read_alone(payload)?;
            self.add(Found::NotComparable(why), sql);
            return Ok((None, None));
        }
        if self.pinned && !self.reads_anew {
            let (theirs, ours) = self.both(payload, at_replica)?;
            let found = self.judged_read(sql, known, run, (payload, at_replica), theirs.as_ref(), ours.as_ref());
            self.note(found, sql, theirs.as_ref(), ours.as_ref());
            return Ok((theirs, ours));
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
            let chosen = self.read_alone_at.as_ref();
            if before.is_none() {
                found = Found::NotComparable(UNKNOWN_STATE);
            } else if chosen.is_some_and(|chosen| before.as_ref() != Some(chosen)) {
                found = Found::NotComparable(AFTER_REFUSED);
            } else if let Some(before) = before.filter(|before| controls.stands_at(before) && theirs.is_some()) {
                match controls.replica_has(&before) {
                    Ok(()) => {
                        ours = at_replica.and_then(|payload| self.at_replica(payload));
                        if controls.stands_at(&before) {
                            let sent = (payload, at_replica);
                            found = self.judged_read(sql, known, run, sent, theirs.as_ref(), ours.as_ref());
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
                // Where only LIMIT keeps rows from being compared, both have chosen the same state.
                Found::NotComparable(why) if ![UNASKED, IN_PARTS].contains(&why) => {
                    self.transaction_diverged = Some(why);
                }
                _ => self.pinned = true,
            }
        }
        self.follow_transaction();
        self.note(found, sql, theirs.as_ref(), ours.as_ref());
        Ok((theirs, ours))
    }

    /// What two answers to a read say of it. Where LIMIT may have chosen other rows, it runs once more without.
    fn judged_read(
        &mut self,
        sql: &[u8],
        known: &Known,
        run: Run<'_>,
        sent: (&[u8], Option<&[u8]>),
        theirs: Option<&Answer>,
        ours: Option<&Answer>,
    ) -> Found {
        let form = self.form(matches!(run, Run::Text));
        let found = judged_in_transaction(known, theirs, ours, self.has_alone(), form);
        let (true, Some(ours)) = (may_be_limit(&found, known), ours) else { return found };
        if matches!(run, Run::Prepared(Some(params)) if params.values.contains(&None)) {
            return Found::NotComparable(IN_PARTS);
        }
        let all = self.without_limit(sql, known, run);
        // What tells of the last statement, as FOUND_ROWS() and SHOW WARNINGS, tells of the client's.
        if let (at_source, Some(at_replica)) = sent {
            self.of_both(at_source, at_replica);
        }
        let has_failed = |answer: &Answer| answer.last().is_none_or(|last| is_err(last));
        match all {
            Some((theirs, _)) if has_failed(&theirs) => Found::NotComparable(UNASKED),
            Some((_, all_ours)) if has_failed(&all_ours) => Found::NotComparable(UNASKED),
            Some((all_theirs, all_ours)) => judged_without_limit(&known.nature, ours, (&all_theirs, &all_ours), form),
            None => Found::NotComparable(UNASKED),
        }
    }

    /// Both sides' answers without LIMIT.
    fn without_limit(&mut self, sql: &[u8], known: &Known, run: Run<'_>) -> Option<(Answer, Answer)> {
        let limit = known.limit.as_ref()?;
        let sql = limit.without(sql);
        let Run::Prepared(params) = run else {
            let payload = Side::query_payload(self.capabilities, &sql);
            return self.of_both(&payload, &payload);
        };
        let mut prepare = Vec::new();
        command::put_text(&mut prepare, command::STMT_PREPARE, &sql);
        let (theirs, ours) = self.of_both(&prepare, &prepare)?;
        let numbers = [prepare_ok(&theirs), prepare_ok(&ours)].map(|ok| ok.map(|ok| ok.statement_id));
        let ran = match (numbers, params) {
            ([Some(theirs), Some(ours)], Some(params)) => {
                let payload = |number| limit.execute(number, params, self.capabilities);
                payload(theirs).zip(payload(ours)).and_then(|(theirs, ours)| self.of_both(&theirs, &ours))
            }
            _ => None,
        };
        let close = numbers.map(|number| {
            let mut payload = Vec::new();
            command::put_close(&mut payload, number?);
            Some(payload)
        });
        let [theirs, ours] = close;
        if let Some(payload) = theirs {
            self.source.command(&payload, &mut |_| Ok(())).ok()?;
        }
        if let Some(payload) = ours {
            self.at_replica(&payload);
        }
        ran
    }

    /// Both sides' answers to commands of our own, in the client's sessions.
    fn of_both(&mut self, at_source: &[u8], at_replica: &[u8]) -> Option<(Answer, Answer)> {
        let theirs = self.source.command(at_source, &mut |_| Ok(())).ok().flatten()?;
        self.at_replica(at_replica).map(|ours| (theirs, ours))
    }

    fn known(&self, sql: &[u8]) -> Known {
        known(sql, self.sql_mode, &self.charsets, self.schema.as_deref())
    }

    fn reads_temporary(&self, known: &Known, sql: &[u8]) -> bool {
        known.kind == Kind::Reads && self.temporary.are_named_in(sql, self.sql_mode, self.schema.as_deref())
    }

    fn form(&self, is_text: bool) -> Form {
        Form { deprecates_eof: self.deprecates_eof(), is_text }
    }

    fn deprecates_eof(&self) -> bool {
        self.capabilities & wire::handshake::capability::DEPRECATE_EOF != 0
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

fn prepare_ok(answer: &Answer) -> Option<PrepareOk> {
    PrepareOk::parse(answer.first().filter(|one| !is_err(one))?).ok()
}

/// What stands before the rows of an answer that has opened a cursor.
fn head(answer: &Answer, deprecates_eof: bool) -> Option<Answer> {
    let opened = rows_end(answer.last().filter(|last| last.first() == Some(&0xfe))?, deprecates_eof).ok()?;
    if opened.status & status::CURSOR_EXISTS == 0 {
        return None;
    }
    // Without the newer end packet it is the EOF behind the definitions that ends this answer.
    match deprecates_eof {
        true => Some(parts(answer, deprecates_eof)?.head.iter().map(|packet| packet.to_vec()).collect()),
        false => Some(answer.clone()),
    }
}

/// Whether the last rows of a cursor are among these.
fn is_last(answer: &Answer, deprecates_eof: bool) -> bool {
    let end = answer.last().and_then(|last| rows_end(last, deprecates_eof).ok());
    end.is_some_and(|end| end.status & status::LAST_ROW_SENT != 0)
}

/// The construct for which a statement has no answer at the replica, as far as its text tells.
fn construct(sql: &[u8], sql_mode: u64, charsets: &Charsets) -> Option<String> {
    match sql::parse(sql, sql_mode, charsets) {
        Ok(sql::Parsed { statement: sql::Statement::Refused(error), .. }) | Err(error) => {
            Some(SqlError::construct_in(&error.message).unwrap_or(&error.message).to_owned())
        }
        Ok(_) => None,
    }
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
