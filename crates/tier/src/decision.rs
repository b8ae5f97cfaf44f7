//! Where a command is answered.
//!
//! In: a command's payload, the mode, how the session's texts are read. Out: this server, the source, or a
//! refusal. Never here: a statement's answer; a doubt that is decided for this server: a text that is not read for
//! certain goes to the source as it is.

use sql::SqlError;
use syntax::sql_mode::ANSI_QUOTES;
use syntax::{Classified, Function, Inexact, Keyword, Lexer, Settings, State, StatementKind, classify};
use wire::command;
use wire::handshake::capability;
use wire::server::ClientCommand;

use crate::Forward;
use crate::UserLock;
use crate::sees::{Sees, sees};

/// Where a command is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// This server answers it.
    Here,
    /// This server answers it, once the session's transaction is committed at the source.
    HereCommitted,
    /// The source answers it.
    Source(Sent),
    /// It ends with this error.
    Refused(SqlError),
}

/// What a command leaves at the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Leaves {
    #[default]
    Nothing,
    /// User locks, and nothing else.
    UserLock(UserLock),
    /// Something that is not known here, until the session is reset.
    Unknown,
}

/// Facts about a command that goes to the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Its answer may ask for a file of the client.
    pub may_ask_for_file: bool,
    /// It changes the session, or may.
    pub changes_session: bool,
    /// Its results are known to it only, or may be: FOUND_ROWS.
    pub leaves_results: bool,
    /// It ends what the session has.
    pub resets: bool,
    /// It shows that the client wants to know that something of its session has changed.
    pub asks_for_state: bool,
    /// It may change which changes the source tells the session.
    pub changes_tracking: bool,
    /// A lone SELECT without locks and stored code: it may be sent again if no byte of its answer was passed on.
    pub may_repeat: bool,
    /// This server may have the answer, if its session is asked.
    pub may_be_here: bool,
    /// Its answer shows rows of tables, or which tables there are.
    pub shows_rows: bool,
    /// Its work may depend on rows of tables.
    pub reads: bool,
    /// It is a statement, after which others ask what became of it.
    pub is_statement: bool,
    /// It prepares a statement.
    pub prepares: bool,
    /// It asks what became of the statement before.
    pub asks_of_last: bool,
    /// It asks how many rows the SELECT before had.
    pub asks_of_found_rows: bool,
    pub leaves: Leaves,
    /// The answer says of the session what it changes of it.
    pub is_told: bool,
    /// What it is, or an execution of the statement that it prepares, if it is one statement.
    pub alone: Option<StatementKind>,
    /// It ends the session once it is answered.
    pub releases: bool,
    /// It is a SELECT of nothing but variables of this server.
    pub is_of_ours: bool,
    /// How it, or an execution of the statement that it prepares, sees its transaction's view.
    pub sees: Sees,
}

impl Sent {
    /// True if the source keeps the session until it is reset.
    #[must_use]
    pub fn pins(&self) -> bool {
        self.leaves == Leaves::Unknown
    }

    /// Facts about the execution of a statement, by those of its preparation.
    #[must_use]
    pub fn executing(self, prepared: Sent) -> Sent {
        let Sent { alone, releases, sees, .. } = prepared;
        Sent { alone, releases, sees, ..self }
    }

    /// What the command itself sees of its transaction's view.
    #[must_use]
    pub fn sees_now(&self) -> Sees {
        if self.prepares { Sees::Nothing } else { self.sees }
    }
}

/// Of the changes of a session, those that its transaction or its next statement ends.
const PASSING: State = State::TRANSACTION.and(State::IMPLICIT_COMMIT).and(State::FOUND_ROWS);
/// Changes of a session that the source tells by name.
const TOLD: State = State::SCHEMA.and(State::VARIABLES).and(State::CHARACTER_SET).and(State::SQL_MODE);

/// Decides of a command of a client with these capabilities.
#[must_use]
pub fn decide(payload: &[u8], capabilities: u32, forward: Forward, settings: Settings) -> Decision {
    let code = payload.first().copied().unwrap_or_default();
    match code {
        command::QUERY => match ClientCommand::parse(payload, capabilities) {
            Ok(ClientCommand::Query(query)) => of_text(query.sql, capabilities, forward, settings),
            _ => Decision::Here,
        },
        command::STMT_PREPARE => match of_text(payload.get(1..).unwrap_or_default(), capabilities, forward, settings) {
            Decision::Source(sent) => Decision::Source(of_preparation(sent)),
            // Its number would be one of the source's too. Drivers send the text then.
            Decision::Here | Decision::HereCommitted => Decision::Refused(SqlError::new(
                1295,
                "HY000",
                "This command is not supported in the prepared statement protocol yet",
            )),
            decided => decided,
        },
        command::RESET_CONNECTION => Decision::Source(Sent { resets: true, ..Sent::default() }),
        command::INIT_DB => Decision::Source(Sent { may_be_here: true, is_told: true, reads: false, ..of_session() }),
        // Long data and cursors are gone with their connection.
        command::STMT_EXECUTE => {
            Decision::Source(Sent { shows_rows: true, may_be_here: true, sees: Sees::Anything, ..of_session() })
        }
        command::SET_OPTION | command::STMT_SEND_LONG_DATA => {
            Decision::Source(Sent { reads: false, is_statement: false, ..of_session() })
        }
        // Its answer has the status bits of the session there: drivers quote by them.
        command::PING => Decision::Source(Sent { leaves_results: true, may_be_here: true, ..Sent::default() }),
        command::FIELD_LIST | command::STATISTICS | command::STMT_CLOSE | command::STMT_RESET | command::STMT_FETCH => {
            Decision::Source(Sent { leaves_results: true, ..Sent::default() })
        }
        _ => Decision::Here,
    }
}

/// A command that changes its session, or may.
fn of_session() -> Sent {
    Sent { changes_session: true, leaves_results: true, is_statement: true, reads: true, ..Sent::default() }
}

/// Facts about a text that is prepared.
fn of_preparation(sent: Sent) -> Sent {
    Sent {
        changes_session: true,
        may_repeat: false,
        prepares: true,
        is_of_ours: false,
        asks_of_last: false,
        asks_of_found_rows: false,
        shows_rows: false,
        reads: false,
        leaves: if sent.leaves == Leaves::Nothing { Leaves::Nothing } else { Leaves::Unknown },
        ..sent
    }
}

/// Who a statement is for.
enum For {
    /// This server, which alone is meant by it.
    Here,
    Source,
    /// This server, and no other may get it by mistake.
    OnlyHere(&'static str),
    /// As [`OnlyHere`](For::OnlyHere), after a commit.
    OnlyHereCommitted(&'static str),
    Nobody(&'static str),
}

fn of_text(text: &[u8], capabilities: u32, forward: Forward, settings: Settings) -> Decision {
    let all = classify(text, settings);
    let (mut here, mut only_here, mut commits) = (0, None, false);
    for one in &all {
        let of_one = is_for(text, one, settings);
        commits |= matches!(of_one, For::OnlyHereCommitted(_));
        match of_one {
            For::Source => {}
            For::Here => here += 1,
            For::OnlyHere(what) | For::OnlyHereCommitted(what) => {
                here += 1;
                only_here = Some(what);
            }
            For::Nobody(what) => return Decision::Refused(refused(what)),
        }
    }
    if here == all.len() {
        return if commits { Decision::HereCommitted } else { Decision::Here };
    }
    if let Some(what) = only_here {
        let text =
            format!("{what} is of this server and is not forwarded: send it apart from statements for the source");
        return Decision::Refused(SqlError::new(1290, "HY000", text));
    }
    if forward == Forward::Reads && may_write(text, &all, settings) {
        let text = "The MySQL server is running with the --forward=reads option so it cannot execute this statement";
        return Decision::Refused(SqlError::new(1290, "HY000", text));
    }
    let offers_files = capabilities & capability::LOCAL_FILES != 0;
    let may_ask_for_file = offers_files && all.iter().any(|one| is_local(text, one, settings));
    let user_lock = if let [one] = &*all { UserLock::of(text, one, settings) } else { None };
    let sent = sent(&all);
    // Of several, the first one asks about the statement before.
    let asks_of_last = all.first().is_some_and(|one| asks_of_last(text, one, settings));
    let may_be_here = sent.may_be_here || (asks_of_last && matches!(&*all, [one] if one.kind == StatementKind::Show));
    let (sees, releases) = (sees(text, &all, settings), all.iter().any(|one| releases(text, one, settings)));
    let leaves = user_lock.map_or(sent.leaves, Leaves::UserLock);
    Decision::Source(Sent { may_ask_for_file, asks_of_last, may_be_here, leaves, sees, releases, ..sent })
}

/// True for COMMIT RELEASE and its like.
fn releases(text: &[u8], one: &Classified, settings: Settings) -> bool {
    matches!(one.kind, StatementKind::Commit | StatementKind::Rollback)
        && has_words(one.span.of(text), settings, [Keyword::Release])
        && !has_words(one.span.of(text), settings, [Keyword::No, Keyword::Release])
}

/// True if it asks what became of the statement before.
fn asks_of_last(text: &[u8], one: &Classified, settings: Settings) -> bool {
    use Keyword as K;
    let of_last = |function: &Function| *function == Function::RowCount;
    let counts = |name: &[u8]| matches!(name, b"warning_count" | b"error_count");
    let lists = || {
        let mut lexer = Lexer::new(one.span.of(text), settings);
        let words: [Keyword; 6] = std::array::from_fn(|_| lexer.next_token().keyword);
        words.iter().any(|word| matches!(word, K::Warnings | K::Errors))
    };
    one.functions.iter().any(of_last)
        || one.system_variables.iter().any(|variable| counts(&variable.name))
        || one.kind == StatementKind::Diagnostics
        || (one.kind == StatementKind::Show && lists())
}

/// True unless it is proved that nothing is written, whatever double quotes mean in the session there: of its sql_mode
/// each answer tells NO_BACKSLASH_ESCAPES only.
fn may_write(text: &[u8], all: &[Classified], settings: Settings) -> bool {
    let writes = |all: &[Classified], read: Settings| {
        all.iter().any(|one| one.may_write || one.inexact.has(Inexact::MODE_CHANGES) || lifts_guard(text, one, read))
    };
    let mut otherwise = settings;
    otherwise.sql_mode ^= ANSI_QUOTES;
    writes(all, settings) || (text.contains(&b'\\') && writes(&classify(text, otherwise), otherwise))
}

/// True if it makes a transaction READ WRITE, or has the source tell less of the session.
fn lifts_guard(text: &[u8], one: &Classified, settings: Settings) -> bool {
    let is_guard = |name: &[u8]| name.ends_with(b"_read_only") || name.starts_with(b"session_track_");
    let begins = matches!(one.kind, StatementKind::SetTransaction | StatementKind::Begin);
    one.system_variables.iter().any(|variable| variable.set && is_guard(&variable.name))
        || (begins && has_words(one.span.of(text), settings, [Keyword::Read, Keyword::Write]))
}

/// LOAD … LOCAL, which has the source ask for a file.
fn is_local(text: &[u8], one: &Classified, settings: Settings) -> bool {
    let mut lexer = Lexer::new(one.span.of(text), settings);
    let words: [Keyword; 4] = std::array::from_fn(|_| lexer.next_token().keyword);
    one.kind == StatementKind::Load && matches!(words, [_, _, Keyword::Local, _] | [_, _, _, Keyword::Local])
}

fn refused(what: &str) -> SqlError {
    let text = format!("{what} is not forwarded to the source (--forward): run it there");
    SqlError::new(1290, "HY000", text)
}

fn is_for(text: &[u8], one: &Classified, settings: Settings) -> For {
    use Keyword as K;
    let mut lexer = Lexer::new(one.span.of(text), settings);
    let words: [Keyword; 4] = std::array::from_fn(|_| lexer.next_token().keyword);
    match (one.kind, words) {
        (StatementKind::Show, [_, K::Processlist, ..] | [_, K::Full, K::Processlist, _]) => For::Here,
        (StatementKind::Kill, _) => For::OnlyHere("KILL"),
        (StatementKind::Administration, [K::Start | K::Stop, K::Replica | K::Slave, ..]) => {
            For::OnlyHereCommitted("START or STOP REPLICA")
        }
        (StatementKind::Administration, [first, second, ..]) => match (first, second) {
            (K::Shutdown, _) => For::Nobody("SHUTDOWN"),
            (K::Restart, _) => For::Nobody("RESTART"),
            (K::Clone, _) => For::Nobody("CLONE"),
            (K::Change, _) => For::Nobody("CHANGE of the source"),
            (K::Start | K::Stop, K::GroupReplication) => For::Nobody("START or STOP GROUP_REPLICATION"),
            (K::Reset, K::Replica | K::Slave) => For::Nobody("RESET REPLICA"),
            (K::Reset, K::Binary | K::Master) => For::Nobody("RESET of the source's log"),
            _ => For::Source,
        },
        (StatementKind::SetTransaction, [_, K::Global, ..]) => For::OnlyHere("SET GLOBAL"),
        (StatementKind::Flush, _) if has_words(one.span.of(text), settings, [K::With, K::Read, K::Lock]) => {
            For::Nobody("FLUSH TABLES WITH READ LOCK")
        }
        (StatementKind::Set, _) => {
            let is_global = |scope| matches!(scope, Some(K::Global | K::Persist | K::PersistOnly));
            let set = || one.system_variables.iter().filter(|variable| variable.set);
            match (set().any(|of| is_global(of.scope)), set().all(|of| is_global(of.scope))) {
                (false, _) => For::Source,
                (true, true) if one.user_variables_set.is_empty() => For::OnlyHere("SET GLOBAL"),
                (true, _) => For::Nobody("SET of global variables together with others"),
            }
        }
        _ => For::Source,
    }
}

/// Whether these words follow each other.
fn has_words<const N: usize>(text: &[u8], settings: Settings, words: [Keyword; N]) -> bool {
    let mut lexer = Lexer::new(text, settings);
    let mut last = [Keyword::NotOne; N];
    loop {
        let token = lexer.next_token();
        if matches!(token.kind, syntax::Kind::End | syntax::Kind::Wrong(_)) {
            return false;
        }
        last.rotate_left(1);
        if let Some(end) = last.last_mut() {
            *end = token.keyword;
        }
        if last == words {
            return true;
        }
    }
}

fn sent(all: &[Classified]) -> Sent {
    let is_lone_select = |one: &Classified| {
        one.kind == StatementKind::Select
            && !one.may_write
            && !one.locks_rows
            && one.inexact.is_empty()
            && one.unknown_functions.is_empty()
            && one.state.without(State::FOUND_ROWS).is_empty()
    };
    let sets =
        |one: &Classified, begin: &[u8]| one.system_variables.iter().any(|of| of.set && of.name.starts_with(begin));
    Sent {
        may_ask_for_file: false,
        changes_session: all.iter().any(|one| {
            use StatementKind as S;
            // LOCK INSTANCE, FLUSH … FOR EXPORT, GET DIAGNOSTICS @a = …, SET RESOURCE GROUP.
            matches!(one.kind, S::Administration | S::Flush | S::Diagnostics | S::Unknown)
                || !one.state.without(PASSING).is_empty()
                || !one.inexact.is_empty()
                || !one.unknown_functions.is_empty()
        }),
        leaves_results: all.iter().any(|one| one.functions.contains(&Function::FoundRows) || !one.hints.is_empty())
            || all.iter().any(|one| one.state.has(State::FOUND_ROWS)),
        resets: false,
        asks_for_state: all.iter().any(|one| sets(one, b"session_track_state_change")),
        changes_tracking: all.iter().any(|one| sets(one, b"session_track_")),
        may_repeat: matches!(all, [one] if is_lone_select(one)),
        may_be_here: matches!(all, [one] if may_be_here(one)),
        shows_rows: all.iter().any(shows_rows),
        reads: !matches!(all, [one] if reads_nothing(one)),
        is_statement: true,
        prepares: false,
        asks_of_last: false,
        asks_of_found_rows: all.first().is_some_and(|one| one.functions.contains(&Function::FoundRows)),
        leaves: if all.iter().any(|one| pins(one) || sets(one, b"session_track_")) {
            Leaves::Unknown
        } else {
            Leaves::Nothing
        },
        is_told: all.iter().any(|one| one.state.has(TOLD)),
        alone: if let [one] = all { Some(one.kind) } else { None },
        releases: false,
        is_of_ours: matches!(all, [one] if is_of_ours(one)),
        sees: Sees::Anything,
    }
}

/// True for a SELECT of variables of which the source knows nothing.
fn is_of_ours(one: &Classified) -> bool {
    one.kind == StatementKind::Select
        && may_be_here(one)
        && one.tables.is_empty()
        && one.functions.is_empty()
        && !one.system_variables.is_empty()
        && one.system_variables.iter().all(|variable| !variable.set && variable.name.starts_with(b"slipstream_"))
        && one.state.is_empty()
}

/// True for a statement of a kind that this server answers.
fn may_be_here(one: &Classified) -> bool {
    use StatementKind as S;
    let is_of_transaction =
        matches!(one.kind, S::Begin | S::Commit | S::Rollback | S::Savepoint | S::RollbackTo | S::ReleaseSavepoint);
    (is_of_transaction || matches!(one.kind, S::Select | S::Set | S::SetNames | S::SetTransaction | S::Use | S::Empty))
        && one.inexact.is_empty()
        && one.unknown_functions.is_empty()
}

/// True unless its answer is known to show nothing of tables.
fn shows_rows(one: &Classified) -> bool {
    use StatementKind as S;
    let is_of_session = matches!(one.kind, S::Set | S::SetNames | S::SetTransaction | S::Use | S::Empty);
    !is_of_session
        && !matches!(one.kind, S::Begin | S::Commit | S::Rollback | S::Savepoint | S::RollbackTo | S::ReleaseSavepoint)
        && (one.kind != S::Select || !one.tables.is_empty())
}

/// True for statements that depend on no table.
fn reads_nothing(one: &Classified) -> bool {
    use StatementKind as S;
    let is_of_transaction =
        matches!(one.kind, S::Commit | S::Rollback | S::Savepoint | S::RollbackTo | S::ReleaseSavepoint);
    is_of_transaction || matches!(one.kind, S::Use | S::SetNames | S::SetTransaction | S::Empty | S::Unknown)
}

/// True if it may leave something in the session that no answer tells by name.
fn pins(one: &Classified) -> bool {
    use StatementKind as S;
    matches!(one.kind, S::Administration | S::Flush | S::Diagnostics | S::Unknown | S::Xa | S::Do)
        || !one.state.without(PASSING.and(TOLD).and(State::LAST_INSERT_ID)).is_empty()
        || !one.inexact.is_empty()
        || !one.unknown_functions.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str, forward: Forward) -> Decision {
        let payload = [&[command::QUERY], text.as_bytes()].concat();
        decide(&payload, capability::MULTI_STATEMENTS | capability::LOCAL_FILES, forward, Settings::default())
    }

    fn refusal(text: &str, forward: Forward) -> Option<String> {
        match query(text, forward) {
            Decision::Refused(error) => {
                assert_eq!(error.code, 1290, "{text}");
                Some(error.message)
            }
            _ => None,
        }
    }

    #[test]
    fn what_is_of_this_server_stays_here() {
        for text in [
            "SHOW PROCESSLIST",
            "show /* x */ full processlist",
            "KILL 17",
            "KILL QUERY 17",
            "SET GLOBAL max_connections = 5",
            "SET PERSIST a = 1, @@GLOBAL.b = 2",
            "KILL 1; SHOW PROCESSLIST",
            "SET GLOBAL TRANSACTION READ ONLY",
        ] {
            assert_eq!(query(text, Forward::All), Decision::Here, "{text}");
        }
        for text in ["START REPLICA", "stop slave io_thread", "STOP REPLICA; SHOW PROCESSLIST"] {
            assert_eq!(query(text, Forward::All), Decision::HereCommitted, "{text}");
        }
        for text in [
            "SELECT 1",
            "SELECT 'KILL 17'",
            "SHOW PROCESSLIST; SELECT 1",
            "SET SESSION sql_mode = ''",
            "SET @a = 1",
            "START TRANSACTION",
            "FLUSH PRIVILEGES",
            "FLUSH TABLES t",
            "no statement at all",
            "",
        ] {
            assert!(matches!(query(text, Forward::All), Decision::Source(_)), "{text}");
        }
    }

    /// Its number would be one of the source's too.
    #[test]
    fn nothing_is_prepared_here() {
        let payload = [&[command::STMT_PREPARE], &b"SHOW PROCESSLIST"[..]].concat();
        let Decision::Refused(error) = decide(&payload, 0, Forward::All, Settings::default()) else { panic!() };
        assert_eq!(error.code, 1295);
    }

    #[test]
    fn what_must_not_reach_the_source_is_refused_by_name() {
        for (text, name) in [
            ("SHUTDOWN", "SHUTDOWN"),
            ("SELECT 1; SHUTDOWN", "SHUTDOWN"),
            ("/*!50000 SHUTDOWN */", "SHUTDOWN"),
            ("CLONE LOCAL DATA DIRECTORY = '/x'", "CLONE"),
            ("FLUSH TABLES WITH READ LOCK", "FLUSH TABLES WITH READ LOCK"),
            ("FLUSH TABLES a, b WITH READ LOCK", "FLUSH TABLES WITH READ LOCK"),
            ("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'x'", "CHANGE of the source"),
            ("KILL 17; SELECT 1", "KILL"),
            ("SET GLOBAL a = 1; SELECT 1", "SET GLOBAL"),
            ("SET GLOBAL a = 1, b = 2", "SET of global variables"),
        ] {
            let text_of = refusal(text, Forward::All).unwrap_or_else(|| panic!("{text}"));
            assert!(text_of.starts_with(name), "{text}: {text_of}");
        }
    }

    #[test]
    fn of_reads_nothing_goes_that_may_write() {
        for text in [
            "INSERT INTO t VALUES (1)",
            "SELECT stored(1)",
            "SELECT 1; DELETE FROM t",
            "CALL p()",
            "CREATE TABLE t (a INT)",
            "EXECUTE s",
            "SELECT 1 INTO OUTFILE '/x'",
            "SET SESSION TRANSACTION READ WRITE",
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
            "START TRANSACTION READ WRITE",
            "SET transaction_read_only = 0",
            "SET session_track_system_variables = ''",
            // Of several modes one has them as two statements, or as a call.
            r#"SELECT 1 AS "\"; DELETE FROM t -- ""#,
            r"SET sql_mode = 'NO_BACKSLASH_ESCAPES'; SELECT '\'; DELETE FROM t -- '",
            r"SET NAMES gbk; SELECT 1",
            r#"SELECT 1 AS "\", stored(1) -- ""#,
        ] {
            assert!(refusal(text, Forward::Reads).is_some(), "{text}");
            assert!(refusal(text, Forward::All).is_none(), "{text}");
        }
        for text in [
            "SELECT 1",
            "SELECT a FROM t JOIN u USING (a)",
            "SHOW TABLES",
            "SET @a = 1",
            "BEGIN",
            "START TRANSACTION READ ONLY",
            r"SELECT a FROM t WHERE b = 'it\'s' AND c LIKE 'a\\%'",
        ] {
            assert!(refusal(text, Forward::Reads).is_none(), "{text}");
        }
    }

    #[test]
    fn what_a_statement_leaves_behind_is_known() {
        let sent = |text: &str| match query(text, Forward::All) {
            Decision::Source(sent) => sent,
            other => panic!("{text}: {other:?}"),
        };
        for text in ["SELECT 1", "SELECT a FROM t WHERE b = 1", "SELECT NOW()"] {
            assert!(sent(text).may_repeat && !sent(text).changes_session, "{text}");
        }
        for text in ["SELECT 1; SELECT 2", "SELECT a FROM t FOR UPDATE", "SELECT f(1)", "UPDATE t SET a = 1"] {
            assert!(!sent(text).may_repeat, "{text}");
        }
        for text in [
            "SET NAMES utf8mb4",
            "SET @a = 1",
            "USE x",
            "SELECT GET_LOCK('a', 1)",
            "CREATE TEMPORARY TABLE t (a INT)",
            "LOCK TABLES t READ",
            "HANDLER t OPEN",
            "PREPARE s FROM 'SELECT 1'",
            "CALL p()",
            "INSERT INTO t VALUES (1)",
            "SELECT LAST_INSERT_ID(5)",
            "SELECT /*!50000 1 */",
            "LOCK INSTANCE FOR BACKUP",
            "FLUSH TABLES t FOR EXPORT",
            "GET DIAGNOSTICS @n = ROW_COUNT",
            "SET RESOURCE GROUP g",
        ] {
            assert!(sent(text).changes_session, "{text}");
        }
        for text in ["BEGIN", "COMMIT", "ROLLBACK", "SELECT 1"] {
            assert!(!sent(text).changes_session, "{text}");
        }
        for text in ["COMMIT RELEASE", "rollback work and no chain release", "COMMIT; ROLLBACK RELEASE"] {
            assert!(sent(text).releases, "{text}");
        }
        for text in ["COMMIT", "ROLLBACK AND CHAIN NO RELEASE", "RELEASE SAVEPOINT a", "SELECT 1 AS `RELEASE`"] {
            assert!(!sent(text).releases, "{text}");
        }
        assert!(sent("LOAD DATA LOCAL INFILE 'x' INTO TABLE t").may_ask_for_file);
        assert!(sent("LOAD DATA CONCURRENT LOCAL INFILE 'x' INTO TABLE t").may_ask_for_file);
        for text in ["SELECT 'LOAD DATA LOCAL INFILE'", "LOAD DATA INFILE 'LOCAL' INTO TABLE local"] {
            assert!(!sent(text).may_ask_for_file, "{text}");
        }
        let load = [&[command::QUERY], &b"LOAD DATA LOCAL INFILE 'x' INTO TABLE t"[..]].concat();
        let Decision::Source(of_no_files) = decide(&load, 0, Forward::All, Settings::default()) else { panic!() };
        assert!(!of_no_files.may_ask_for_file, "the client has none to offer");
        assert!(sent("SET session_track_state_change = ON").asks_for_state);
    }

    #[test]
    fn what_this_server_may_answer_and_what_binds_to_the_source() {
        let sent = |text: &str| match query(text, Forward::All) {
            Decision::Source(sent) => sent,
            other => panic!("{text}: {other:?}"),
        };
        for text in
            ["SELECT 1", "SELECT a FROM t", "SET @a = 1", "SET NAMES utf8mb4", "USE x", "SELECT 1;", "BEGIN", "COMMIT"]
        {
            assert!(sent(text).may_be_here && !sent(text).asks_of_last, "{text}");
        }
        for text in ["SELECT 1; SELECT 2", "INSERT INTO t VALUES (1)", "SELECT stored(1)", "SELECT /*!80000 1 */"] {
            assert!(!sent(text).may_be_here, "{text}");
        }
        for text in ["SHOW WARNINGS", "SHOW COUNT(*) ERRORS", "SELECT ROW_COUNT()", "SELECT @@warning_count"] {
            assert!(sent(text).asks_of_last && sent(text).may_be_here, "{text}");
        }
        assert!(sent("SELECT FOUND_ROWS()").asks_of_found_rows && !sent("SELECT 1; SHOW WARNINGS").asks_of_last);
        for text in ["COMMIT", "USE x", "SET NAMES utf8mb4"] {
            assert!(!sent(text).reads, "{text}");
        }
        for text in ["SELECT 1", "SET @a = (SELECT 1)", "BEGIN", "CALL p()", "COMMIT; SELECT 1"] {
            assert!(sent(text).reads, "{text}");
        }
        for text in ["INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "BEGIN", "COMMIT", "CREATE TABLE t (a INT)"] {
            assert!(!sent(text).pins() && !sent(text).is_told, "{text}");
        }
        for text in ["SET sql_mode = ''", "SET NAMES latin1", "USE x", "SET autocommit = 0"] {
            assert!(!sent(text).pins() && sent(text).is_told, "{text}");
        }
        for text in [
            "SET @a = (SELECT 1)",
            "SELECT @a := 1",
            "SELECT 1 INTO @a",
            "CALL p()",
            "SELECT stored(1)",
            "SELECT GET_LOCK('a', 1), GET_LOCK('b', 1)",
            "SELECT GET_LOCK('a', 1); SELECT 1",
            "LOCK TABLES t WRITE",
            "HANDLER t OPEN",
            "CREATE TEMPORARY TABLE t (a INT)",
            "PREPARE s FROM 'SELECT 1'",
            "XA START 'x'",
            "SET ROLE r",
            "SET session_track_schema = OFF",
            "SELECT 1; SET TRANSACTION READ ONLY",
        ] {
            assert!(sent(text).pins(), "{text}");
        }
        for (text, lock) in
            [("SELECT GET_LOCK('a', 1)", UserLock::Get), ("SELECT RELEASE_LOCK('a')", UserLock::Release)]
        {
            assert!(!sent(text).pins() && sent(text).changes_session, "{text}");
            assert_eq!(sent(text).leaves, Leaves::UserLock(lock), "{text}");
            assert!(of_preparation(sent(text)).pins(), "{text}: which execution changes what is not looked at");
        }
        for text in ["SELECT a FROM t", "SHOW TABLES", "SELECT (SELECT a FROM t)", "CALL p()"] {
            assert!(sent(text).shows_rows, "{text}");
        }
        assert!(!sent("SELECT 1").shows_rows && !sent("SET @a = 1").shows_rows);
        for text in ["SELECT @@slipstream_last_served_by", "select @@session.Slipstream_read_consistency AS level"] {
            assert!(sent(text).is_of_ours, "{text}");
        }
        for text in [
            "SELECT 1",
            "SET slipstream_read_consistency = 'GLOBAL'",
            "SELECT @@slipstream_last_served_by, @@sql_mode",
            "SELECT @@slipstream_last_served_by, ROW_COUNT()",
            "SELECT @@slipstream_last_served_by FROM t",
            "SELECT @@slipstream_last_served_by; SELECT 1",
        ] {
            assert!(!sent(text).is_of_ours, "{text}");
        }
    }
}
