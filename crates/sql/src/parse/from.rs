//! FROM one table, WHERE and ORDER BY.

use catalog::lexer::Tok;

use super::Parser;
use crate::Result;
use crate::ast::{From, Order, Statement};
use crate::error::SqlError;

/// What may follow the table and is not answered.
const REFUSED: &[&str] = &["GROUP", "HAVING", "WINDOW", "QUALIFY", "PROCEDURE"];

/// Words of joins and of what may follow a table's name.
const OF_TABLES: &[&str] =
    &["JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "NATURAL", "STRAIGHT_JOIN", "PARTITION", "TABLESAMPLE"];

/// Words after a table that are no alias.
const NO_ALIAS: &[&str] = &[
    "WHERE",
    "ORDER",
    "LIMIT",
    "FOR",
    "LOCK",
    "INTO",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "ON",
    "USING",
    "SET",
    "USE",
    "FORCE",
    "IGNORE",
];

impl Parser<'_> {
    /// What follows FROM; a statement that is refused by name otherwise.
    pub(super) fn from(&mut self) -> Result<std::result::Result<From, Statement>> {
        if self.is_punct(b'(') || self.is_one_of(&["JSON_TABLE", "LATERAL"]) {
            return Ok(Err(self.refused("SELECT … FROM a derived table")));
        }
        let (schema, table) = self.table_name()?;
        if self.is_one_of(OF_TABLES) {
            return Ok(Err(self.refused(format!("SELECT … FROM … {}", self.word()))));
        }
        let alias = if self.accept("AS")? { Some(self.name()?) } else { self.table_alias()? };
        if self.is_punct(b',') {
            return Ok(Err(self.refused("SELECT … FROM several tables")));
        }
        if self.is_one_of(OF_TABLES) {
            return Ok(Err(self.refused(format!("SELECT … FROM … {}", self.word()))));
        }
        let hints = self.index_hints()?;
        if self.is_punct(b',') {
            return Ok(Err(self.refused("SELECT … FROM several tables")));
        }
        if self.is_one_of(OF_TABLES) {
            return Ok(Err(self.refused(format!("SELECT … FROM … {}", self.word()))));
        }
        let filter_at = if self.is("WHERE") || self.is("ORDER") { self.current.start } else { 0 };
        let filter = if self.accept("WHERE")? { Some(self.expression()?) } else { None };
        if self.is_one_of(REFUSED) {
            return Ok(Err(self.refused(format!("SELECT … {}", self.word()))));
        }
        let order = self.order()?;
        Ok(Ok(From { schema, table, alias, hints, filter, filter_at, order }))
    }

    /// Names of indexes that the statement wants used or not used. Which one is used shows in no answer, so only their
    /// names count.
    fn index_hints(&mut self) -> Result<Vec<Vec<u8>>> {
        let (mut names, mut used, mut forced) = (Vec::new(), false, false);
        loop {
            let (uses, forces) = (self.accept("USE")?, self.accept("FORCE")?);
            if !uses && !forces && !self.accept("IGNORE")? {
                return Ok(names);
            }
            (used, forced) = (used || uses, forced || forces);
            if used && forced {
                return Err(SqlError::new(1221, "HY000", "Incorrect usage of USE INDEX and FORCE INDEX"));
            }
            if !self.accept("INDEX")? {
                self.expect("KEY")?;
            }
            if self.accept("FOR")? && !self.accept("JOIN")? {
                if !self.accept("ORDER")? {
                    self.expect("GROUP")?;
                }
                self.expect("BY")?;
            }
            self.expect_punct(b'(')?;
            // USE INDEX () wants none used.
            if uses && self.accept_punct(b')')? {
                continue;
            }
            loop {
                // It is a reserved word.
                names.push(if self.accept("PRIMARY")? { b"PRIMARY".to_vec() } else { self.name()? });
                if !self.accept_punct(b',')? {
                    break;
                }
            }
            self.expect_punct(b')')?;
        }
    }

    fn table_alias(&mut self) -> Result<Option<Vec<u8>>> {
        let is_alias = match &self.current.tok {
            Tok::Word(_) => !self.is_one_of(NO_ALIAS) && !self.is_one_of(REFUSED) && !self.is_reserved(),
            Tok::Quoted(_) => true,
            _ => false,
        };
        if is_alias { self.name().map(Some) } else { Ok(None) }
    }

    fn order(&mut self) -> Result<Vec<Order>> {
        let mut order = Vec::new();
        if !self.accept_all(&["ORDER", "BY"])? {
            return Ok(order);
        }
        loop {
            let expression = self.expression()?;
            let descending = self.accept("DESC")?;
            if !descending {
                self.accept("ASC")?;
            }
            order.push(Order { expression, descending });
            if !self.accept_punct(b',')? {
                return if self.is("WITH") {
                    Err(SqlError::not_supported("ORDER BY … WITH ROLLUP"))
                } else {
                    Ok(order)
                };
            }
        }
    }
}
