//! Tables that a statement concerns, even if it is not understood otherwise.
//!
//! In: one statement with its context. Out: its kind, and the tables that it names as its objects. Never here: errors
//! (anything unclear is [`Named::Other`]), guesses from text inside strings.

use crate::context::StatementContext;
use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::Parser;
use crate::syntax::TableName;

/// Database and table as written; the session's default database if none is given.
pub type NamedTable = (String, String);

/// Which tables a statement concerns, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// ALTER TABLE, CREATE INDEX, DROP INDEX or TRUNCATE. The table keeps its name and is the only one changed.
    Changes(NamedTable),
    /// CREATE TABLE of the first, possibly LIKE the second.
    Creates(NamedTable, Option<NamedTable>),
    /// DROP TABLE of these.
    Drops(Vec<NamedTable>),
    /// RENAME TABLE: pairs of old and new name, in order.
    Renames(Vec<(NamedTable, NamedTable)>),
    /// ALTER TABLE … RENAME TO: old and new name. The table may be changed otherwise, too.
    Moves(NamedTable, NamedTable),
    /// ALTER TABLE … EXCHANGE PARTITION: the two tables exchange rows.
    Exchanges(NamedTable, NamedTable),
    DropsDatabase(String),
    /// Anything else, or unclear.
    Other,
}

impl Named {
    /// Parses as much of the statement as necessary.
    #[must_use]
    pub fn of(context: &StatementContext, sql: &[u8]) -> Named {
        let mut parser = Parser::new(context, sql);
        read(&mut parser, &context.default_db).unwrap_or(Named::Other)
    }
}

fn read(parser: &mut Parser<'_>, db: &str) -> Result<Named, Problem> {
    if parser.eat_word("ALTER")? {
        if !parser.eat_word("TABLE")? {
            return Ok(Named::Other);
        }
        let table = name(parser, db)?;
        return alters(parser, db, table);
    }
    if parser.eat_word("TRUNCATE")? {
        parser.eat_word("TABLE")?;
        return Ok(Named::Changes(name(parser, db)?));
    }
    if parser.eat_word("RENAME")? {
        return if parser.eat_word("TABLE")? || parser.eat_word("TABLES")? {
            renames(parser, db)
        } else {
            Ok(Named::Other)
        };
    }
    if parser.eat_word("DROP")? {
        return drops(parser, db);
    }
    if parser.eat_word("CREATE")? {
        return creates(parser, db);
    }
    Ok(Named::Other)
}

fn name(parser: &mut Parser<'_>, db: &str) -> Result<NamedTable, Problem> {
    let TableName { db: own, name } = parser.table_name()?;
    Ok((own.unwrap_or_else(|| db.to_owned()), name))
}

/// Called after ALTER TABLE and the name: finds a RENAME TO or EXCHANGE PARTITION among the actions.
fn alters(parser: &mut Parser<'_>, db: &str, table: NamedTable) -> Result<Named, Problem> {
    loop {
        let (renames, exchanges) = match parser.take()? {
            Tok::End => return Ok(Named::Changes(table)),
            Tok::Word(word) => (word.eq_ignore_ascii_case(b"RENAME"), word.eq_ignore_ascii_case(b"EXCHANGE")),
            _ => continue,
        };
        if exchanges && parser.eat_word("PARTITION")? {
            parser.name()?;
            parser.expect_word("WITH")?;
            parser.expect_word("TABLE")?;
            return Ok(Named::Exchanges(table, name(parser, db)?));
        }
        if renames && !parser.is_any_word(&["COLUMN", "INDEX", "KEY"])? {
            let _ = parser.eat_word("TO")? || parser.eat_word("AS")? || parser.eat_punct(b'=')?;
            return Ok(Named::Moves(table, name(parser, db)?));
        }
    }
}

fn renames(parser: &mut Parser<'_>, db: &str) -> Result<Named, Problem> {
    let mut pairs = Vec::new();
    loop {
        let from = name(parser, db)?;
        parser.expect_word("TO")?;
        pairs.push((from, name(parser, db)?));
        if !parser.eat_punct(b',')? {
            return Ok(Named::Renames(pairs));
        }
    }
}

fn drops(parser: &mut Parser<'_>, db: &str) -> Result<Named, Problem> {
    if parser.eat_word("INDEX")? {
        return index(parser, db);
    }
    if parser.eat_word("DATABASE")? || parser.eat_word("SCHEMA")? {
        parser.eat(&["IF", "EXISTS"])?;
        return Ok(Named::DropsDatabase(parser.name()?));
    }
    if !(parser.eat_word("TABLE")? || parser.eat_word("TABLES")?) {
        return Ok(Named::Other);
    }
    parser.eat(&["IF", "EXISTS"])?;
    let mut tables = vec![name(parser, db)?];
    while parser.eat_punct(b',')? {
        tables.push(name(parser, db)?);
    }
    Ok(Named::Drops(tables))
}

fn creates(parser: &mut Parser<'_>, db: &str) -> Result<Named, Problem> {
    if parser.is_any_word(&["INDEX", "UNIQUE", "FULLTEXT", "SPATIAL"])? {
        parser.take()?;
        parser.eat_word("INDEX")?;
        return index(parser, db);
    }
    if !parser.eat_word("TABLE")? {
        return Ok(Named::Other);
    }
    parser.eat(&["IF", "NOT", "EXISTS"])?;
    let table = name(parser, db)?;
    let in_brackets = parser.eat_punct(b'(')?;
    let like = if parser.eat_word("LIKE")? { Some(name(parser, db)?) } else { None };
    if in_brackets && like.is_none() {
        return Ok(Named::Creates(table, None));
    }
    Ok(Named::Creates(table, like))
}

/// Called after INDEX: skips the index's name and type up to ON and the table.
fn index(parser: &mut Parser<'_>, db: &str) -> Result<Named, Problem> {
    parser.name()?;
    while !parser.eat_word("ON")? {
        if parser.take()? == Tok::End {
            return Ok(Named::Other);
        }
    }
    Ok(Named::Changes(name(parser, db)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_statements_that_cannot_be_read() {
        let of = |sql: &str| {
            let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
            Named::of(&context, sql.as_bytes())
        };
        let table = |db: &str, name: &str| (db.to_owned(), name.to_owned());
        assert_eq!(of("ALTER TABLE `a b`.t FROBNICATE 'RENAME'"), Named::Changes(table("a b", "t")));
        assert_eq!(of("alter /* x */ table t rename column a to b"), Named::Changes(table("d", "t")));
        let moved = Named::Moves(table("d", "t"), table("e", "u"));
        assert_eq!(of("ALTER TABLE t ADD x INT, RENAME TO e.u"), moved);
        assert_eq!(of("ALTER TABLE t RENAME AS e.u, FROBNICATE"), moved);
        assert_eq!(of("ALTER TABLE t RENAME = e.u"), moved);
        assert_eq!(of("ALTER TABLE t ADD exchange INT, RENAME KEY a TO b"), Named::Changes(table("d", "t")));
        let exchanged = Named::Exchanges(table("d", "t"), table("e", "u"));
        assert_eq!(of("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE e.u WITHOUT VALIDATION"), exchanged);
        assert_eq!(of("TRUNCATE t"), Named::Changes(table("d", "t")));
        assert_eq!(of("CREATE UNIQUE INDEX i USING BTREE ON e.t (a)"), Named::Changes(table("e", "t")));
        assert_eq!(of("DROP INDEX i ON t"), Named::Changes(table("d", "t")));
        assert_eq!(of("CREATE TABLE IF NOT EXISTS t (a WONDER)"), Named::Creates(table("d", "t"), None));
        let like = Named::Creates(table("d", "t"), Some(table("d", "u")));
        assert_eq!(of("CREATE TABLE t LIKE u"), like);
        assert_eq!(of("CREATE TABLE t (LIKE u)"), like);
        assert_eq!(of("DROP TABLE IF EXISTS t, e.u"), Named::Drops(vec![table("d", "t"), table("e", "u")]));
        assert_eq!(of("RENAME TABLE t TO e.u"), Named::Renames(vec![(table("d", "t"), table("e", "u"))]));
        assert_eq!(of("DROP SCHEMA IF EXISTS e"), Named::DropsDatabase("e".into()));
        for other in [
            "CREATE VIEW v AS SELECT 1",
            "ALTER TABLE",
            "ALTER TABLE t ADD 'open",
            "",
            "CREATE TEMPORARY TABLE t (a INT)",
        ] {
            assert_eq!(of(other), Named::Other, "{other}");
        }
    }
}
