//! Tables that a statement which changes rows may write to.
//!
//! In: INSERT, REPLACE, UPDATE, DELETE or LOAD as text. Out: the tables it may write (all of several joined ones,
//! although some are only read), and the functions it calls. Never here: its effect on rows; additional effects of
//! triggers and foreign keys.

use crate::context::StatementContext;
use crate::error::Problem;
use crate::lexer::Tok;
use crate::named::NamedTable;
use crate::parser::Parser;
use crate::syntax::TableName;

/// Tables and functions found in one statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Targets {
    pub(crate) tables: Vec<NamedTable>,
    /// Names followed by an opening bracket: functions, including stored ones.
    pub(crate) calls: Vec<String>,
}

/// None for a statement of another kind, or one whose tables are unclear.
pub(crate) fn targets(context: &StatementContext, sql: &[u8]) -> Option<Targets> {
    let mut parser = Parser::new(context, sql);
    if !parser.is_any_word(&["INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH"]).ok()? {
        return None;
    }
    let mut found = Targets { tables: Vec::new(), calls: calls(context, sql).ok()? };
    read(&mut parser, context, &mut found).ok()?;
    (!found.tables.is_empty()).then_some(found)
}

fn calls(context: &StatementContext, sql: &[u8]) -> Result<Vec<String>, Problem> {
    let mut parser = Parser::new(context, sql);
    let mut names = Vec::new();
    let mut last = None;
    loop {
        let next = match parser.take()? {
            Tok::End => return Ok(names),
            Tok::Punct(b'(') => {
                names.extend(last.take());
                None
            }
            Tok::Word(name) | Tok::Quoted(name) => {
                Some(parser.utf8(name.clone()).unwrap_or_else(|_| String::from_utf8_lossy(&name).into_owned()))
            }
            _ => None,
        };
        last = next;
    }
}

fn read(parser: &mut Parser<'_>, context: &StatementContext, found: &mut Targets) -> Result<(), Problem> {
    let verb = parser.word_upper()?;
    parser.take()?;
    match verb.as_str() {
        "INSERT" | "REPLACE" => {
            modifiers(parser, &["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"])?;
            table(parser, context, found)
        }
        "LOAD" => {
            while !parser.eat(&["INTO", "TABLE"])? {
                if parser.take()? == Tok::End {
                    return parser.wrong("INTO TABLE expected");
                }
            }
            table(parser, context, found)
        }
        "UPDATE" => {
            modifiers(parser, &["LOW_PRIORITY", "IGNORE"])?;
            references(parser, context, found, &["SET"])
        }
        "DELETE" => {
            modifiers(parser, &["LOW_PRIORITY", "QUICK", "IGNORE"])?;
            // DELETE FROM t …; DELETE FROM a, b USING refs; DELETE a, b FROM refs. Names before the references may be
            // aliases.
            let ahead = parser.eat_word("FROM")?;
            let end = ["WHERE", "ORDER", "LIMIT", "RETURNING"];
            let from = if ahead { "USING" } else { "FROM" };
            let mut first = Targets::default();
            references(parser, context, &mut first, &[from, end[0], end[1], end[2], end[3]])?;
            if parser.eat_word(from)? {
                references(parser, context, found, &end)
            } else {
                found.tables = first.tables;
                Ok(())
            }
        }
        "WITH" => {
            while !parser.is_any_word(&["UPDATE", "DELETE"])? {
                match parser.peek()? {
                    Tok::End => return parser.wrong("UPDATE or DELETE expected"),
                    Tok::Punct(b'(') => skip_brackets(parser)?,
                    _ => drop(parser.take()?),
                }
            }
            read(parser, context, found)
        }
        _ => parser.wrong("a statement that changes rows expected"),
    }
}

fn modifiers(parser: &mut Parser<'_>, words: &[&str]) -> Result<(), Problem> {
    while parser.is_any_word(words)? {
        parser.take()?;
    }
    Ok(())
}

fn table(parser: &mut Parser<'_>, context: &StatementContext, found: &mut Targets) -> Result<(), Problem> {
    let TableName { db, name } = parser.table_name()?;
    found.tables.push((db.unwrap_or_else(|| context.default_db.clone()), name));
    Ok(())
}

/// Skips from an opening bracket to its closing one.
fn skip_brackets(parser: &mut Parser<'_>) -> Result<(), Problem> {
    let mut depth = 0usize;
    loop {
        match parser.take()? {
            Tok::Punct(b'(') => depth += 1,
            Tok::Punct(b')') if depth <= 1 => return Ok(()),
            Tok::Punct(b')') => depth -= 1,
            Tok::End => return parser.wrong("')' expected"),
            _ => {}
        }
    }
}

/// Collects table references up to one of these words outside brackets.
fn references(
    parser: &mut Parser<'_>,
    context: &StatementContext,
    found: &mut Targets,
    end: &[&str],
) -> Result<(), Problem> {
    let mut depth = 0usize;
    let mut table_due = true;
    loop {
        if *parser.peek()? == Tok::End || (depth == 0 && parser.is_any_word(end)?) {
            return Ok(());
        }
        if parser.eat_punct(b'(')? {
            if parser.is_any_word(&["SELECT", "WITH", "VALUES", "TABLE"])? || !table_due {
                // A subquery, condition or column list: nothing in it is written.
                skip_open(parser)?;
                table_due = false;
            } else {
                depth += 1;
            }
            continue;
        }
        if parser.eat_punct(b')')? {
            depth = depth.saturating_sub(1);
            table_due = false;
            continue;
        }
        if parser.eat_punct(b',')? {
            table_due = true;
            continue;
        }
        if parser.is_any_word(&["JOIN", "STRAIGHT_JOIN"])? {
            parser.take()?;
            table_due = true;
            continue;
        }
        if table_due && !parser.is_any_word(&["LATERAL", "JSON_TABLE"])? {
            // In DELETE t.* FROM, this only names one of the tables that follow.
            let all_of = |parser: &mut Parser<'_>, at: usize| -> Result<bool, Problem> {
                Ok(*parser.peek_at(at)? == Tok::Punct(b'.') && *parser.peek_at(at + 1)? == Tok::Punct(b'*'))
            };
            if all_of(parser, 1)? || all_of(parser, 3)? {
                while parser.take()? != Tok::Punct(b'*') {}
            } else {
                table(parser, context, found)?;
            }
        } else {
            parser.take()?;
        }
        table_due = false;
    }
}

/// Like `skip_brackets`, but starts after the opening one.
fn skip_open(parser: &mut Parser<'_>) -> Result<(), Problem> {
    let mut depth = 1usize;
    while depth > 0 {
        match parser.take()? {
            Tok::Punct(b'(') => depth += 1,
            Tok::Punct(b')') => depth -= 1,
            Tok::End => return parser.wrong("')' expected"),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> Option<String> {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let found = targets(&context, sql.as_bytes())?;
        Some(found.tables.iter().map(|(db, name)| format!("{db}.{name}")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn tables_that_statements_write() {
        for (sql, tables) in [
            ("INSERT INTO t VALUES (1)", "d.t"),
            ("insert ignore `a b`.`t` (a) select * from u join v", "a b.t"),
            ("INSERT t SET a = (SELECT 1 FROM u)", "d.t"),
            (
                "REPLACE INTO `percona`.`checksums` (db, tbl) SELECT 'd', 't', COUNT(*) FROM `d`.`t` /*checksum table*/",
                "percona.checksums",
            ),
            ("UPDATE t SET a = 1, b = (SELECT 2 FROM x) WHERE a IN (SELECT 1)", "d.t"),
            ("UPDATE LOW_PRIORITY t AS x, e.u y SET x.a = y.b", "d.t e.u"),
            ("update (t left join u on (t.a = u.b)) join (select 1 as set_) s set t.a = 1", "d.t d.u"),
            ("DELETE FROM t WHERE a = 1 LIMIT 1", "d.t"),
            ("DELETE FROM t", "d.t"),
            ("DELETE x, y.* FROM t AS x JOIN u AS y ON x.a = y.a WHERE 1", "d.t d.u"),
            ("DELETE FROM x, y USING t x INNER JOIN e.u y", "d.t e.u"),
            ("WITH c (a) AS (SELECT 1 UNION DELETE_ME), d AS (SELECT 2) UPDATE t JOIN c SET t.a = c.a", "d.t d.c"),
            ("LOAD DATA LOCAL INFILE '/x/INTO TABLE y' REPLACE INTO TABLE `t` FIELDS TERMINATED BY ','", "d.t"),
        ] {
            assert_eq!(of(sql).as_deref(), Some(tables), "{sql}");
        }
        for sql in
            ["SELECT f(1)", "CALL p()", "DO f()", "CREATE TABLE t (a INT)", "", "UPDATE", "INSERT INTO", "DELETE 'x"]
        {
            assert_eq!(of(sql), None, "{sql}");
        }
    }

    #[test]
    fn what_they_call() {
        let context = StatementContext::default();
        let found = targets(&context, b"INSERT INTO t (a) VALUES (f (1), `g`(2), 'h(3)', d.k(x))").unwrap();
        assert_eq!(found.calls, ["t", "VALUES", "f", "g", "k"]);
    }
}
