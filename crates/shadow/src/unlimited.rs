//! A statement without its LIMIT: what its rows are chosen from.
//!
//! In: the text of a SELECT and its tree. Out: where LIMIT stands in it, the text without, the command that runs it
//! with the same parameters. Never here: a byte of a string, a comment or a name taken for LIMIT.

use std::ops::Range;

use catalog::lexer::{Lexer, Tok, Token};
use sql::{Charsets, Expression, SERVER_VERSION, Select, Statement};
use wire::server::BoundParams;

/// LIMIT in a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitClause {
    range: Range<usize>,
    /// Placeholders before it: those of the rest, since nothing with placeholders may follow LIMIT.
    pub parameters: usize,
}

/// The LIMIT of a SELECT; None if it has none, or the text without it is not the same SELECT without it.
pub(crate) fn limit_clause(
    sql: &[u8],
    sql_mode: u64,
    charsets: &Charsets,
    select: &Select,
    parameters: usize,
) -> Option<LimitClause> {
    let of_limit = [Some(&select.limit.offset), select.limit.rows.as_ref()];
    let of_limit = of_limit.into_iter().flatten().filter(|one| matches!(one, Expression::Parameter(_))).count();
    let clause = LimitClause { range: place(sql, sql_mode, charsets)?, parameters: parameters.checked_sub(of_limit)? };
    let rest = sql::parse(&clause.without(sql), sql_mode, charsets).ok()?;
    let Statement::Select(rest_select) = rest.statement else { return None };
    let is_rest = rest_select.limit.rows.is_none()
        && rest.parameters == clause.parameters
        && (rest_select.items, rest_select.from) == (select.items.clone(), select.from.clone());
    is_rest.then_some(clause)
}

/// From the last bare word LIMIT outside brackets to the end of its numbers.
fn place(sql: &[u8], sql_mode: u64, charsets: &Charsets) -> Option<Range<usize>> {
    let lexer = Lexer::new(sql, sql_mode, SERVER_VERSION).in_charset(charsets.client_charset());
    let tokens = tokens(lexer)?;
    let (mut depth, mut found) = (0_usize, None);
    for (at, token) in tokens.iter().enumerate() {
        match &token.tok {
            Tok::Punct(b'(') => depth += 1,
            Tok::Punct(b')') => depth = depth.saturating_sub(1),
            Tok::Word(word) if depth == 0 && word.eq_ignore_ascii_case(b"LIMIT") => found = Some(at),
            _ => {}
        }
    }
    let at = found?;
    let is_joint = |tok: &Tok| match tok {
        Tok::Punct(b',') => true,
        Tok::Word(word) => word.eq_ignore_ascii_case(b"OFFSET"),
        _ => false,
    };
    let last = if tokens.get(at + 2).is_some_and(|token| is_joint(&token.tok)) { at + 3 } else { at + 1 };
    Some(tokens.get(at)?.start..tokens.get(last)?.end)
}

fn tokens(mut lexer: Lexer<'_>) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next_token().ok()?;
        if token.tok == Tok::End {
            return Some(tokens);
        }
        tokens.push(token);
    }
}

impl LimitClause {
    /// The text without it.
    pub(crate) fn without(&self, sql: &[u8]) -> Vec<u8> {
        let part = |range: Range<usize>| sql.get(range).unwrap_or_default();
        [part(0..self.range.start), part(self.range.end..sql.len())].concat()
    }

    /// COM_STMT_EXECUTE of the text without it, with these parameters less its own; None if some were sent in parts.
    pub(crate) fn execute(&self, statement_id: u32, params: &BoundParams<'_>, capabilities: u32) -> Option<Vec<u8>> {
        let mut payload = Vec::new();
        params.put_execute(&mut payload, statement_id, self.parameters, capabilities).ok()?;
        Some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(sql: &str) -> Option<(String, usize)> {
        let charsets = Charsets::of_login(255).unwrap();
        let parsed = sql::parse(sql.as_bytes(), 0, &charsets).unwrap();
        let Statement::Select(select) = &parsed.statement else { panic!("{sql}") };
        let clause = limit_clause(sql.as_bytes(), 0, &charsets, select, parsed.parameters)?;
        Some((String::from_utf8(clause.without(sql.as_bytes())).unwrap(), clause.parameters))
    }

    #[test]
    fn limit_is_where_it_is_a_word() {
        for (sql, rest, parameters) in [
            ("SELECT a FROM t LIMIT 3", "SELECT a FROM t ", 0),
            (
                "SELECT a FROM t WHERE b = ? ORDER BY a limit ?, ? -- LIMIT 3",
                "SELECT a FROM t WHERE b = ? ORDER BY a  -- LIMIT 3",
                1,
            ),
            ("SELECT a FROM t LIMIT 3 OFFSET ? /* LIMIT */;", "SELECT a FROM t  /* LIMIT */;", 0),
            (
                "SELECT `LIMIT`, t.LIMIT FROM t WHERE b = 'LIMIT 3' LIMIT 1",
                "SELECT `LIMIT`, t.LIMIT FROM t WHERE b = 'LIMIT 3' ",
                0,
            ),
            ("SELECT a FROM t /*!50000 LIMIT 2 */", "SELECT a FROM t /*!50000  */", 0),
            ("SELECT a LIMIT 0", "SELECT a ", 0),
        ] {
            assert_eq!(without(sql), Some((rest.to_owned(), parameters)), "{sql}");
        }
        for sql in
            ["SELECT a FROM t", "SELECT a FROM t WHERE b = 'x LIMIT 3'", "SELECT a FROM t LIMIT 1 /*!50000 , 2 */"]
        {
            assert_eq!(without(sql), None, "{sql}");
        }
    }
}
