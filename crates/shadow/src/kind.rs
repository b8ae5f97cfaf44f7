//! What is done with a statement: where it runs, and whether its answers are compared.

use sql::listing::virtual_schema;
use sql::{Charsets, Expression, Order, Parsed, Select, Statement};

use crate::nature::{Nature, tells_of_last};
use crate::unlimited::{LimitClause, limit_clause};

/// What a statement is to the shadow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads a table: both sides must be at one state.
    Reads,
    /// Reads nothing that transactions change: both run it as they are.
    Constant,
    /// Sets something of the session, or begins a transaction: both run it.
    Session,
    /// Ends a transaction: both run it, and at the source it may commit.
    Ends,
    /// START TRANSACTION WITH CONSISTENT SNAPSHOT: both sides must be at one state, as for a read.
    Pins,
    /// A read that the replica does not answer; the source runs it alone.
    Unanswered,
    /// It may write; the source runs it alone.
    #[default]
    Writes,
    /// KILL: numbers of connections are not the source's.
    Kill,
}

/// What is known of a statement's text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub kind: Kind,
    /// ORDER BY stands in it.
    pub ordered: bool,
    /// What it orders by, as far as that can be columns of its result.
    pub order: Vec<OrderedBy>,
    /// It orders rows of information_schema.
    pub orders_dictionary: bool,
    /// LIMIT of a table's rows stands in it.
    pub limited: bool,
    /// Where, if the statement can be asked without.
    pub limit: Option<LimitClause>,
    /// It tells of the session's last statement.
    pub tells_of_last: bool,
    /// It reads rows of a table: where autocommit is off, a transaction begins with it.
    pub reads_rows: bool,
    /// It takes writes of the transaction back.
    pub takes_back: bool,
    /// What of its answers differs by nature.
    pub nature: Nature,
}

/// What a statement orders its rows by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OrderedBy {
    /// A column of the result by its name, or of the table.
    Name(Vec<u8>),
    /// A column of the result by its number from 0.
    Place(usize),
}

/// What the statement in `sql` is, in a session with this default schema.
pub(crate) fn known(sql: &[u8], sql_mode: u64, charsets: &Charsets, schema: Option<&str>) -> Known {
    let parsed = sql::parse(sql, sql_mode, charsets);
    let kind = match &parsed {
        Ok(parsed) if parsed.next.is_some() => Kind::Writes,
        Ok(parsed) => of(&parsed.statement, sql),
        Err(error) if error.code == 1235 => by_first_word(sql),
        // Both say what is wrong with it.
        Err(_) => match by_first_word(sql) {
            Kind::Unanswered => Kind::Constant,
            other => other,
        },
    };
    let mut known = Known { kind, ..Known::default() };
    let Ok(Parsed { statement, parameters, .. }) = &parsed else { return known };
    known.nature = Nature::of(statement, schema);
    known.tells_of_last = tells_of_last(statement);
    known.takes_back = matches!(statement, Statement::Rollback(_) | Statement::RollbackTo(_));
    let Statement::Select(select) = statement else { return known };
    known.reads_rows = select.from.is_some() && virtual_schema(select, schema).is_none();
    known.limited = select.from.is_some() && select.limit.rows.is_some();
    if known.limited {
        known.limit = limit_clause(sql, sql_mode, charsets, select, *parameters);
    }
    let order = select.from.as_ref().map(|from| from.order.as_slice()).unwrap_or_default();
    known.ordered = !order.is_empty();
    known.order = ordered_by(order);
    known.orders_dictionary =
        known.ordered && virtual_schema(select, schema).is_some_and(|schema| schema == "information_schema");
    known
}

fn ordered_by(order: &[Order]) -> Vec<OrderedBy> {
    let by = |order: &Order| match &order.expression {
        Expression::Name(parts) => parts.last().map(|name| OrderedBy::Name(name.to_ascii_lowercase())),
        Expression::Number(place) => place.parse::<usize>().ok()?.checked_sub(1).map(OrderedBy::Place),
        _ => None,
    };
    order.iter().map_while(by).collect()
}

fn of(statement: &Statement, sql: &[u8]) -> Kind {
    match statement {
        Statement::Select(Select { locking, .. }) if !locking.is_empty() => Kind::Writes,
        Statement::Select(Select { from: Some(_), .. }) | Statement::Show(_) | Statement::Explain { .. } => Kind::Reads,
        Statement::Select(select) if select.items.iter().any(|item| waits_or_locks(&item.expression)) => Kind::Writes,
        Statement::Select(_) | Statement::ShowWarnings { .. } | Statement::ShowWarningCount { .. } => Kind::Constant,
        Statement::Do(_)
        | Statement::Set(_)
        | Statement::SetTransaction { .. }
        | Statement::Use(_)
        | Statement::Savepoint(_)
        | Statement::RollbackTo(_)
        | Statement::Release(_) => Kind::Session,
        Statement::Begin { consistent: true, .. } => Kind::Pins,
        // A transaction that is open is committed.
        Statement::Begin { .. } | Statement::Commit(_) | Statement::Rollback(_) => Kind::Ends,
        Statement::Kill { .. } => Kind::Kill,
        // What is a comment here may be executed by a newer source.
        Statement::Empty
        | Statement::Write
        | Statement::Replica { .. }
        | Statement::ReloadTls
        | Statement::LockTables(_)
        | Statement::UnlockTables
        | Statement::Flush(_) => Kind::Writes,
        Statement::Refused(_) => by_first_word(sql),
    }
}

/// True for functions that have an effect, or wait for one.
fn waits_or_locks(expression: &Expression) -> bool {
    const THESE: &[&str] = &["GET_LOCK", "RELEASE_LOCK", "RELEASE_ALL_LOCKS", "WAIT_FOR_EXECUTED_GTID_SET"];
    expression.any(
        &|one| matches!(one, Expression::Call { name, .. } if THESE.iter().any(|this| name.eq_ignore_ascii_case(this))),
    )
}

/// Whether a statement that the replica does not answer is a read.
fn by_first_word(sql: &[u8]) -> Kind {
    let words = words(sql, 0);
    let locks = words.iter().any(|word| word == "FOR" || word == "LOCK" || word == "INTO");
    match words.first().map(String::as_str) {
        Some("SELECT" | "WITH" | "TABLE" | "VALUES") if !locks => Kind::Unanswered,
        Some("SHOW" | "DESCRIBE" | "DESC" | "EXPLAIN" | "HELP" | "CHECKSUM") => Kind::Unanswered,
        Some("KILL") => Kind::Kill,
        _ => Kind::Writes,
    }
}

/// The bare words of a statement, in capitals.
fn words(sql: &[u8], sql_mode: u64) -> Vec<String> {
    let mut lexer = catalog::lexer::Lexer::new(sql, sql_mode, sql::SERVER_VERSION);
    let mut words = Vec::new();
    while let Ok(token) = lexer.next_token() {
        match token.tok {
            catalog::lexer::Tok::Word(word) => words.push(String::from_utf8_lossy(&word).to_uppercase()),
            catalog::lexer::Tok::End => break,
            _ => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_run_where_they_may() {
        let charsets = Charsets::of_login(255).unwrap();
        for (sql, kind) in [
            ("SELECT a FROM t WHERE id = 1", Kind::Reads),
            ("SHOW TABLES", Kind::Reads),
            ("SELECT 1", Kind::Constant),
            ("SELECT GET_LOCK('a', 1)", Kind::Writes),
            ("SET NAMES utf8mb4", Kind::Session),
            ("BEGIN", Kind::Ends),
            ("START TRANSACTION WITH CONSISTENT SNAPSHOT", Kind::Pins),
            ("COMMIT", Kind::Ends),
            ("SELECT a FROM t JOIN u USING (a)", Kind::Unanswered),
            ("SELECT a FROM t GROUP BY a", Kind::Unanswered),
            ("WITH x AS (SELECT 1) SELECT * FROM x", Kind::Unanswered),
            ("EXPLAIN SELECT 1", Kind::Reads),
            ("SELECT a FROM t FOR UPDATE", Kind::Writes),
            ("SELECT a FROM t JOIN u USING (a) FOR UPDATE", Kind::Writes),
            ("SELECT 1 INTO @a", Kind::Writes),
            ("INSERT INTO t VALUES (1)", Kind::Writes),
            ("CALL p()", Kind::Writes),
            ("SELECT 1; DELETE FROM t", Kind::Writes),
            ("SELECT a FROM t FOR SHARE", Kind::Writes),
            ("LOCK TABLES t WRITE", Kind::Writes),
            ("FLUSH TABLES WITH READ LOCK", Kind::Writes),
            ("KILL 4", Kind::Kill),
            ("SELEC 1", Kind::Writes),
        ] {
            assert_eq!(known(sql.as_bytes(), 0, &charsets, None).kind, kind, "{sql}");
        }
        let known = |sql: &str| known(sql.as_bytes(), 0, &charsets, None);
        let seen = known("SELECT NOW(), a FROM t ORDER BY a LIMIT 2");
        assert!(seen.ordered && seen.limited && seen.limit.is_some());
        let seen = known("SELECT 'LIMIT 1', t.`limit`, t.`order` FROM t -- ORDER BY a LIMIT 2");
        assert!(!seen.ordered && !seen.limited && seen.limit.is_none());
        let seen = known("SELECT * FROM t ORDER BY t.A DESC, 3, a + 1, b");
        assert_eq!(seen.order, [OrderedBy::Name(b"a".to_vec()), OrderedBy::Place(2)]);
        let orders_dictionary = |sql: &str| known(sql).orders_dictionary;
        assert!(orders_dictionary("SELECT * FROM `Information_Schema`.tables ORDER BY table_name"));
        assert!(!orders_dictionary("SELECT * FROM information_schema.tables"));
        assert!(!orders_dictionary("SELECT * FROM t ORDER BY a"));
        for (sql, tells) in
            [("SHOW WARNINGS", true), ("SELECT @@warning_count", true), ("SELECT 'SHOW WARNINGS'", false)]
        {
            assert_eq!(known(sql).tells_of_last, tells, "{sql}");
        }
    }
}
