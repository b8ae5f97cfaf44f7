//! Conditions with a syntax of their own: IS, IN, BETWEEN, LIKE, and NOT before them.

use super::Parser;
use crate::Result;
use crate::ast::Expression;
use crate::error::SqlError;

/// Precedence of the operands of IN, BETWEEN and LIKE: above that of comparisons.
const OPERAND: u8 = 7;

impl Parser<'_> {
    /// The condition whose first word was taken, over the expression before it.
    pub(super) fn condition(&mut self, word: &str, value: Expression) -> Result<Expression> {
        match word {
            "IS" => self.is_null(value),
            "NOT" if self.accept("IN")? => self.in_list(value, true),
            "NOT" if self.accept("BETWEEN")? => self.between(value, true),
            "NOT" if self.accept("LIKE")? => self.like(value, true),
            "NOT" if self.is_one_of(&["REGEXP", "RLIKE"]) => Err(SqlError::not_supported("NOT REGEXP")),
            "NOT" => Err(self.syntax()),
            "IN" => self.in_list(value, false),
            "BETWEEN" => self.between(value, false),
            _ => self.like(value, false),
        }
    }

    fn is_null(&mut self, value: Expression) -> Result<Expression> {
        let negated = self.accept("NOT")?;
        if self.is_one_of(&["TRUE", "FALSE", "UNKNOWN"]) {
            return Err(SqlError::not_supported(&format!("IS {}", self.word())));
        }
        self.expect("NULL")?;
        Ok(Expression::IsNull { value: Box::new(value), negated })
    }

    fn in_list(&mut self, value: Expression, negated: bool) -> Result<Expression> {
        self.expect_punct(b'(')?;
        if self.is("SELECT") {
            return Err(SqlError::not_supported("subquery"));
        }
        let mut list = Vec::new();
        loop {
            list.push(self.expression()?);
            if !self.accept_punct(b',')? {
                break;
            }
        }
        self.expect_punct(b')')?;
        Ok(Expression::In { value: Box::new(value), list, negated })
    }

    fn between(&mut self, value: Expression, negated: bool) -> Result<Expression> {
        let low = self.operand()?;
        self.expect("AND")?;
        let bounds = Box::new((low, self.operand()?));
        Ok(Expression::Between { value: Box::new(value), bounds, negated })
    }

    fn like(&mut self, value: Expression, negated: bool) -> Result<Expression> {
        let pattern = self.operand()?;
        if self.is("ESCAPE") {
            return Err(SqlError::not_supported("LIKE … ESCAPE"));
        }
        Ok(Expression::Like { sides: Box::new([value, pattern]), negated })
    }

    fn operand(&mut self) -> Result<Expression> {
        self.deeper(|parser| parser.binary(OPERAND))
    }
}
