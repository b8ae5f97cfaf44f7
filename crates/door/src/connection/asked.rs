//! Commands of a session that may forward: its session here is asked first, and the source is told what it must know.
//!
//! In: commands that this server may answer, what its session says of them, answers of the source. Out: answers, or
//! commands for the source and the statements that come before them. Never here: a read at the source before it has
//! executed what was shown here; a statement of ours between one there and a question about it.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use base::GtidSet;
use base::fail_points::is_planted;
use session::{After, Change, Mark, NotHere, OkFacts, Output, Session, Why, World};
use sql::{SqlError, TrackedGtids};
use syntax::StatementKind;
use tier::{Answer, Numbers, Sent, Shown, statement_of};
use wire::command;
use wire::packet::PayloadRange;

use super::{Connection, Turn};
use crate::config::Facts;
use crate::source::{MayWait, query};

/// How long a statement waits until the source has executed what was shown here, in seconds: longer than a source waits
/// by default for its semi-synchronous replicas.
const EXECUTED_WITHIN_S: u64 = 15;
/// The source fails a statement that was to wait: see [`wait_for`].
const OUT_OF_RANGE: u16 = 1690;
const INTERRUPTED: u16 = 1317;
/// ER_PARSE_ERROR: the text is no statement.
const SYNTAX_ERROR: u16 = 1064;
/// Has the source tell all that its session takes from a statement. What the client did not ask for it does not get.
pub(super) const TRACK_ALL: &str = "SET session_track_state_change = ON, session_track_schema = ON, \
    session_track_gtids = OWN_GTID, session_track_system_variables = '*'";

/// A statement of our own.
pub(super) struct Own {
    pub(super) text: Cow<'static, [u8]>,
    pub(super) what: OwnKind,
}

/// What a statement of our own is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnKind {
    Sets,
    /// It chooses the default schema, which may have been dropped.
    Uses,
    /// It commits before this server does something.
    Commits,
    /// It fails if the source has not executed in time what was shown here.
    Waits,
    /// It is prepared: the client's statement of this number.
    Prepares(u32),
    /// It ends a transaction that was in conflict.
    GivesUp,
}

impl Own {
    pub(super) fn sets(text: &'static str) -> Own {
        Own { text: Cow::Borrowed(text.as_bytes()), what: OwnKind::Sets }
    }

    fn made(text: String, what: OwnKind) -> Own {
        Own { text: Cow::Owned(text.into_bytes()), what }
    }

    /// Its command, and that one's code.
    pub(super) fn command(&self, capabilities: u32) -> (u8, Vec<u8>) {
        match self.what {
            OwnKind::Prepares(_) => (command::STMT_PREPARE, [&[command::STMT_PREPARE], &*self.text].concat()),
            _ => (command::QUERY, query(&self.text, capabilities)),
        }
    }
}

/// Facts about commands that the session here is asked first.
#[derive(Default)]
pub(super) struct Here {
    /// The command that it is asked now.
    asked: Option<Sent>,
    /// That is the one that tries whether rows are fresh in time again.
    tries: bool,
    /// It has answered the last statement, and the last SELECT.
    last: bool,
    last_select: bool,
    /// What the session was like when it began; None once it is known how it begins at the source.
    begun: Option<Mark>,
    /// The number of the statement that is being prepared.
    preparing: Option<u32>,
    numbers: Numbers,
    /// The text of the first plain read of its transaction.
    pub(super) first_read: Vec<u8>,
}

impl Here {
    /// A statement was answered here.
    pub(super) fn answers(&mut self, sent: &Sent) {
        self.last = true;
        self.last_select |= sent.may_repeat;
    }

    pub(super) fn new(session: &Session) -> Here {
        Here { begun: Some(session.mark()), ..Here::default() }
    }

    /// Its session at the source has begun with these values of variables, but for those that it has set itself.
    pub(super) fn begins_as(&mut self, values: Vec<(String, String)>, session: &mut Session, world: &dyn World) {
        let set = self.begun.take().map(|begun| session.what_changed(&begun)).unwrap_or_default();
        let is_set =
            |name: &str| set.iter().any(|one| matches!(one, Change::Variable { name: own, .. } if *own == name));
        let variables: Vec<_> = values.into_iter().filter(|(name, _)| !is_set(name)).collect();
        if !variables.is_empty() {
            session.took(&OkFacts { variables, ..OkFacts::default() }, world);
        }
    }

    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    pub(super) fn numbers_mut(&mut self) -> &mut Numbers {
        &mut self.numbers
    }

    /// The number that the client gets for what it prepares at the source.
    pub(super) fn number_for(
        &mut self,
        session: &mut Session,
        (sent, payload): (&Sent, &[u8]),
        world: &dyn World,
    ) -> Option<u32> {
        if !sent.prepares {
            return None;
        }
        // One that the session has tried to prepare has a number already. Another is prepared here too: it may be
        // executed here once the source keeps the session no more.
        if self.preparing.is_none() {
            let last = session.last_statement_number();
            session.command(payload, world, &mut Output::default());
            session.take_not_here();
            let tried = Some(session.last_statement_number()).filter(|number| *number != last);
            self.preparing = Some(tried.unwrap_or_else(|| session.take_statement_number()));
        }
        self.preparing
    }

    /// What was being prepared has no statement at the source.
    fn prepares_no_more(&mut self, session: &mut Session, world: &dyn World) {
        let number = self.preparing.take().filter(|number| session.prepared_text(*number).is_some());
        if let Some(number) = number {
            let close = [&[command::STMT_CLOSE], &number.to_le_bytes()[..]].concat();
            session.command(&close, world, &mut Output::default());
        }
    }

    /// Takes note of an answer of the source. Returns what its session is like now.
    pub(super) fn take(
        &mut self,
        session: &mut Session,
        (sent, answer, text): (&Sent, &Answer, &[u8]),
        resets: bool,
        world: &dyn World,
    ) -> Mark {
        let told = answer.told();
        match (self.preparing, told.statement) {
            (Some(number), Some(there)) => {
                self.preparing = None;
                self.numbers.prepared(number, *sent);
                self.numbers.add(number, there, text);
            }
            _ => self.prepares_no_more(session, world),
        }
        if resets {
            // Its answer was the source's.
            session.command(&[command::RESET_CONNECTION], world, &mut Output::default());
            *self = Here::new(session);
        } else if sent.is_statement {
            if has_ended(sent, told.error) {
                session.ended_elsewhere();
            }
            let schema = answer.schema().map(str::to_owned);
            let variables = answer.variables().to_vec();
            let opened_none = !sent.shows_rows && !has_ended(sent, told.error);
            session.took(&OkFacts { status: told.status, schema, variables, gtids: None, opened_none }, world);
            self.last = false;
            self.last_select &= told.rows == 0 && !sent.may_repeat;
        }
        session.mark()
    }

    /// True if a statement asks about one that was answered here.
    pub(super) fn is_about_here(&self, sent: &Sent) -> bool {
        let asks = sent.asks_of_last && self.last;
        asks || (sent.asks_of_found_rows && self.last_select)
    }
}

/// Which changes of its session the client wants to be told.
pub(super) fn shown_to(session: &Session, asks_for_state: bool) -> Shown {
    let settings = session.settings();
    let typed = settings.typed();
    Shown {
        state: asks_for_state || typed.tracks_state,
        schema: typed.tracks_schema,
        gtids: typed.tracks_gtids != TrackedGtids::Off,
        variables: settings.text("session_track_system_variables").map(str::to_owned),
    }
}

/// The statements that have the source's session follow these changes.
fn statements_of(changes: &[Change]) -> impl Iterator<Item = Own> {
    let told = |change: &Change| match change {
        // What the client is told, it is told here.
        Change::Variable { name, .. } if matches!(*name, "session_track_schema" | "session_track_state_change") => {
            Vec::new()
        }
        Change::Variable { name: "session_track_system_variables", .. } => Vec::new(),
        Change::Variable { name: "session_track_gtids", value } => {
            let kind = if value.contains("ALL") { "ALL_GTIDS" } else { "OWN_GTID" };
            vec![format!("SET SESSION session_track_gtids = {kind}")]
        }
        change => change.statements(),
    };
    changes.iter().flat_map(move |change| {
        let what = if matches!(change, Change::Schema(_)) { OwnKind::Uses } else { OwnKind::Sets };
        told(change).into_iter().map(move |text| Own::made(text, what))
    })
}

/// True if a command has ended its transaction: it was to, or is one that commits before it is tried.
fn has_ended(sent: &Sent, error: Option<u16>) -> bool {
    use StatementKind::{Account, Begin, Commit, Ddl, Rollback, StoredProgram};
    match error {
        // It is not executed yet.
        _ if sent.prepares => false,
        None => matches!(sent.alone, Some(Begin | Commit | Rollback)),
        Some(SYNTAX_ERROR) => false,
        Some(_) => matches!(sent.alone, Some(Account | Ddl | StoredProgram)),
    }
}

/// Fails if these are not executed in time. A SET leaves FOUND_ROWS() as it is.
fn wait_for(set: &GtidSet) -> Own {
    let wait = format!("WAIT_FOR_EXECUTED_GTID_SET('{set}', {EXECUTED_WITHIN_S})");
    let text = format!("SET @`slipstream waits` = EXP(1000 * {wait})");
    Own::made(text, OwnKind::Waits)
}

/// The error of a statement before which [`wait_for`] ended so.
pub(super) fn not_executed(code: u16) -> SqlError {
    match code {
        INTERRUPTED => SqlError::new(1317, "70100", "Query execution was interrupted"),
        OUT_OF_RANGE => {
            let text = format!(
                "the source has not executed within {EXECUTED_WITHIN_S} s what was read here; --show=acknowledged \
                 shows only what it has"
            );
            SqlError::new(1105, "HY000", text)
        }
        code => SqlError::new(1105, "HY000", format!("the source cannot say what it has executed: error {code}")),
    }
}

/// What was shown here and the source may not have executed; None: nothing. `since`: when its connection was opened.
///
/// # Errors
/// That is not known now.
fn shown_before(facts: &dyn Facts, since: Instant) -> Result<Option<GtidSet>, SqlError> {
    if is_planted("no_wait_at_source") {
        return Ok(None);
    }
    let gtids = facts.gtids();
    let shown = gtids.may_have_shown()?;
    let missing = match gtids.executed_at_source(since) {
        Some(executed) => shown.subtract(&executed),
        None => shown,
    };
    Ok((!missing.is_empty()).then_some(missing))
}

impl Connection {
    /// Asks the session here for the answer to a command; false if it is not asked.
    pub(super) fn asks_here(&mut self, range: PayloadRange, sent: Sent, turn: &mut Turn<'_>) -> bool {
        let (Some(forwarding), Some(session)) = (&mut self.forwarding, &mut self.session) else { return false };
        let Some(here) = &mut forwarding.here else { return false };
        here.prepares_no_more(session, turn.server);
        let keeps = (forwarding.keeps_session() || session.is_pinned()) && !sent.is_of_ours;
        if let Some(taken) = self.takes_statement(range, turn) {
            return taken;
        }
        let asks = !keeps || self.asks_of_split(&sent);
        if asks && self.is_avoided(range, &sent, turn) {
            return false;
        }
        let (Some(forwarding), Some(session)) = (&mut self.forwarding, &mut self.session) else { return false };
        let Some(here) = forwarding.here.as_mut().filter(|_| asks) else { return false };
        // What a transaction reads is there already.
        let waits = sent.shows_rows && !session.is_split() && session.waits_for_rows();
        let may_wait = match waits && sent.may_be_here {
            true => turn.server.sources.may_wait(turn.now, &*turn.server.facts),
            false => MayWait::Yes,
        };
        if !sent.may_be_here || may_wait == MayWait::No {
            if here.is_about_here(&sent) {
                self.refuse_question();
                return true;
            }
            return false;
        }
        here.asked = Some(sent);
        here.tries = may_wait == MayWait::Tries;
        let payload = self.input.payload(range);
        if let Some(number) = statement_of(payload) {
            here.numbers.runs_here(number);
        }
        let after = session.command(payload, turn.server, &mut self.output);
        if after == After::NotHere {
            let payload = payload.to_vec();
            self.not_here(Some(payload), turn);
        } else {
            self.settle(after, turn);
        }
        true
    }

    /// A step of the session's command has ended so.
    pub(super) fn settle(&mut self, after: After, turn: &mut Turn<'_>) {
        if after == After::NotHere {
            return self.not_here(None, turn);
        }
        let here = self.forwarding.as_mut().and_then(|forwarding| forwarding.here.as_mut());
        if let Some(here) = here.filter(|_| after != After::Wait)
            && let Some(sent) = here.asked.take()
        {
            let sources = &turn.server.sources;
            sources.counts.here.fetch_add(1, Relaxed);
            // One that is of an earlier state has waited for nothing.
            if sent.shows_rows && self.session.as_ref().is_some_and(|one| !one.is_split() && one.waits_for_rows()) {
                sources.is_in_time();
            }
            if sent.prepares
                && let Some(session) = &self.session
            {
                here.numbers.prepared(session.last_statement_number(), sent);
            }
            if sent.is_statement {
                here.answers(&sent);
            }
        }
        self.after(after);
    }

    /// The session has no answer: the source gives it. `payload` is the command, unless it has waited here.
    fn not_here(&mut self, payload: Option<Vec<u8>>, turn: &mut Turn<'_>) {
        let Some(session) = &mut self.session else { return };
        let Some(mut not_here) = session.take_not_here() else { return self.after(After::Next) };
        let here = self.forwarding.as_mut().and_then(|forwarding| forwarding.here.as_mut());
        let Some((here, sent)) = here.and_then(|here| here.asked.take().map(|sent| (here, sent))) else {
            return self.refuse_not_here(&not_here);
        };
        if sent.prepares {
            here.preparing = Some(session.last_statement_number());
        }
        let waited = not_here.payload.take();
        if std::mem::take(&mut here.tries) && not_here.why != Why::NotNow {
            turn.server.sources.was_not_tried();
        }
        if not_here.why == Why::NotNow && waited.is_some() {
            turn.server.sources.was_late(turn.now, not_here.missed.take());
        }
        let Some(payload) = waited.or(payload).filter(|_| !here.is_about_here(&sent)) else {
            return self.refuse_not_here(&not_here);
        };
        self.note_not_here(&not_here, &payload, &sent, turn);
        if !self.forward(payload, sent, turn) {
            self.refuse_not_here(&not_here);
        }
    }

    fn refuse_not_here(&mut self, not_here: &NotHere) {
        let Some(session) = &mut self.session else { return };
        let after = session.refuse_not_here(not_here, &mut self.output);
        self.after(after);
    }

    /// Refuses a question about a statement that was answered here, which only the source could answer.
    fn refuse_question(&mut self) {
        let error = SqlError::not_supported("a question about a statement that was answered here");
        self.refuse_command(vec![command::QUERY], &error);
    }

    /// Has the source told what it must know before the command that runs, once there is a connection.
    pub(super) fn tell_source(&mut self, turn: &Turn<'_>) -> Result<(), SqlError> {
        let (Some(forwarding), Some(session)) = (&mut self.forwarding, &self.session) else { return Ok(()) };
        let Some((running, link, at, here)) = forwarding.runs_on() else { return Ok(()) };
        if std::mem::replace(&mut running.is_told, true) {
            return Ok(());
        }
        // A question changes nothing there.
        let is_question = running.sent.asks_of_last && session.last_was_elsewhere();
        let is_kept = link.mark.is_some() && at.keeps_session();
        let wait = if running.sent.reads && !is_question || session.is_split() && !is_kept {
            shown_before(&*turn.server.facts, link.opened)?
        } else {
            None
        };
        let wait = wait.as_ref().map(wait_for);
        // While the source keeps the session, nothing of it changes here.
        if is_kept {
            link.own.extend(wait);
        } else {
            let since = link.mark.take();
            link.own.extend(since.is_none().then(|| Own::sets(TRACK_ALL)));
            let changes = session.what_changed(&since.unwrap_or_default());
            // A view there is opened once it shows what was shown here.
            let is_of_transaction =
                |change: &Change| matches!(change, Change::Transaction(_) | Change::NextTransaction(_));
            let first = changes.iter().position(is_of_transaction).unwrap_or(changes.len());
            let (before, after) = changes.split_at_checked(first).unwrap_or((&changes, &[]));
            link.own.extend(statements_of(before).chain(wait).chain(statements_of(after)));
            link.mark = Some(session.mark());
        }
        let unprepared = statement_of(running.payload()).filter(|number| !here.numbers.has(*number));
        if let Some((number, text)) = unprepared.and_then(|number| Some((number, session.prepared_text(number)?))) {
            let (before, after) = session.told_around(number);
            // One of these that fails leaves what nobody expects.
            let sets = |own: Own| Own { what: OwnKind::Sets, ..own };
            link.own.extend(statements_of(&before).map(sets));
            link.own.push_back(Own { text: Cow::Owned(text.to_vec()), what: OwnKind::Prepares(number) });
            link.own.extend(statements_of(&after).map(sets));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tier::{Decision, Forward};

    use super::*;

    #[test]
    fn a_transaction_ends_with_its_end_and_with_what_commits_before_it_is_tried() {
        let ends = |code: u8, sql: &str, error: Option<u16>| {
            let payload = [&[code], sql.as_bytes()].concat();
            let Decision::Source(sent) = tier::decide(&payload, 0, Forward::All, syntax::Settings::default()) else {
                panic!("{sql}");
            };
            has_ended(&sent, error)
        };
        for sql in ["COMMIT", "BEGIN", "ROLLBACK AND CHAIN", "START TRANSACTION READ ONLY"] {
            assert!(ends(command::QUERY, sql, None) && !ends(command::QUERY, sql, Some(1105)), "{sql}");
            assert!(!ends(command::STMT_PREPARE, sql, None), "{sql}");
        }
        for sql in ["INSERT INTO t VALUES (1)", "SAVEPOINT s", "ROLLBACK TO s", "COMMIT; BEGIN"] {
            assert!(!ends(command::QUERY, sql, None) && !ends(command::QUERY, sql, Some(1146)), "{sql}");
        }
        for sql in ["CREATE TABLE n (a INT)", "DROP USER a", "DROP PROCEDURE p"] {
            assert!(ends(command::QUERY, sql, Some(1146)) && !ends(command::QUERY, sql, Some(1064)), "{sql}");
            assert!(!ends(command::STMT_PREPARE, sql, Some(1295)), "{sql}");
        }
    }
}
