//! Whether a statement sees the view of its transaction.
//!
//! In: classified statements. Out: [`Sees`]. Never here: a plain read that is taken for a locking one.

use syntax::{Classified, Keyword, Kind, Lexer, Settings, StatementKind};

/// What of its transaction's view a statement sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sees {
    /// Nothing: everything inside a statement that writes reads current rows, and so does a locking read.
    #[default]
    Nothing,
    /// It is a SELECT of the tables that it names.
    Tables,
    /// Whatever there is, or nothing: that is not known.
    Anything,
}

pub(crate) fn sees(text: &[u8], all: &[Classified], settings: Settings) -> Sees {
    match all {
        [one] => of_one(text, one, settings),
        several if several.iter().all(|one| of_one(text, one, settings) == Sees::Nothing) => Sees::Nothing,
        _ => Sees::Anything,
    }
}

fn of_one(text: &[u8], one: &Classified, settings: Settings) -> Sees {
    use StatementKind as S;
    match one.kind {
        // MySQL locks what the functions and triggers of such a statement read, too.
        S::Insert | S::Replace | S::Update | S::Delete | S::Load => Sees::Nothing,
        _ if !one.inexact.is_empty() => Sees::Anything,
        S::Select if !one.unknown_functions.is_empty() => Sees::Anything,
        S::Select if one.tables.is_empty() => Sees::Nothing,
        S::Select if one.locks_rows && locks_all(text, one, settings) => Sees::Nothing,
        S::Select => Sees::Tables,
        S::Set | S::Do | S::Explain if one.tables.is_empty() && one.unknown_functions.is_empty() => Sees::Nothing,
        S::Empty
        | S::Ddl
        | S::StoredProgram
        | S::Account
        | S::SetTransaction
        | S::SetNames
        | S::SetRole
        | S::Begin
        | S::Commit
        | S::Rollback
        | S::Savepoint
        | S::RollbackTo
        | S::ReleaseSavepoint
        | S::Prepare
        | S::Deallocate
        | S::Show
        | S::LockTables
        | S::UnlockTables
        | S::Use
        | S::Kill
        | S::Flush
        | S::Diagnostics
        | S::Help => Sees::Nothing,
        _ => Sees::Anything,
    }
}

/// A locking clause is of the tables of its own query only, and OF leaves out others.
fn locks_all(text: &[u8], one: &Classified, settings: Settings) -> bool {
    let mut lexer = Lexer::new(one.span.of(text), settings);
    let mut selects = 0;
    loop {
        let token = lexer.next_token();
        match token.keyword {
            _ if matches!(token.kind, Kind::End) => break,
            _ if matches!(token.kind, Kind::Wrong(_)) => return false,
            Keyword::Select => selects += 1,
            Keyword::Of | Keyword::Table | Keyword::Union | Keyword::With => return false,
            _ => {}
        }
    }
    selects == 1 && one.tables.len() == 1
}

#[cfg(test)]
mod tests {
    use syntax::classify;

    use super::*;

    #[test]
    fn a_plain_read_is_told_from_all_others() {
        let settings = Settings::default();
        let of = |sql: &str| sees(sql.as_bytes(), &classify(sql.as_bytes(), settings), settings);
        for sql in [
            "UPDATE t SET a = (SELECT MAX(a) FROM u)",
            "INSERT INTO t SELECT * FROM u",
            "DELETE FROM t WHERE f(a)",
            "SELECT a FROM t WHERE id = 1 FOR UPDATE",
            "SELECT a FROM t WHERE id = 1 LOCK IN SHARE MODE",
            "SELECT 1, @@sql_mode",
            "SET @a = 1",
            "SAVEPOINT s",
            "ROLLBACK TO s",
            "SHOW WARNINGS",
            "INSERT INTO t VALUES (1); DELETE FROM t",
        ] {
            assert_eq!(of(sql), Sees::Nothing, "{sql}");
        }
        for sql in [
            "SELECT a FROM t",
            "SELECT COUNT(*) FROM t JOIN u USING (a)",
            "SELECT a FROM t WHERE a IN (SELECT a FROM u) FOR UPDATE",
            "SELECT a FROM t, u FOR UPDATE OF t",
            "(SELECT a FROM t) UNION (SELECT a FROM u FOR UPDATE)",
        ] {
            assert_eq!(of(sql), Sees::Tables, "{sql}");
        }
        for sql in [
            "SELECT f(1)",
            "CALL p()",
            "EXECUTE s",
            "SET @a = (SELECT MAX(a) FROM t)",
            "HANDLER t READ FIRST",
            "CHECKSUM TABLE t",
            "UPDATE t SET a = 1; SELECT a FROM t",
        ] {
            assert_eq!(of(sql), Sees::Anything, "{sql}");
        }
        for sql in ["COMMIT", "BEGIN", "ROLLBACK AND CHAIN", "START TRANSACTION READ ONLY"] {
            assert_eq!(of(sql), Sees::Nothing, "{sql}");
        }
        for sql in ["CREATE TABLE n (a INT)", "INSERT INTO t VALUES (1); COMMIT", "COMMIT; BEGIN"] {
            assert_eq!(of(sql), Sees::Nothing, "{sql}");
        }
    }
}
