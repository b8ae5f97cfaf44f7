//! Conditions with a syntax of their own: IS, IN, BETWEEN, LIKE, MEMBER OF, SOUNDS LIKE, and NOT before them.

use super::Parser;
use super::expression::{COMPARISON, NOT, OPERAND, PREDICATE, SIMPLE};
use crate::Result;
use crate::ast::Expression;
use crate::error::SqlError;

impl Parser<'_> {
    /// The condition whose first word was taken, over the expression before it, and how tightly it binds.
    pub(super) fn condition(&mut self, word: &str, value: Expression) -> Result<(Expression, u8)> {
        let predicate = match word {
            "IS" => return self.is_condition(value),
            "NOT" if self.accept("IN")? => self.in_list(value, true),
            "NOT" if self.accept("BETWEEN")? => self.between(value, true),
            "NOT" if self.accept("LIKE")? => self.like(value, true),
            "NOT" if self.accept("REGEXP")? || self.accept("RLIKE")? => {
                let pattern = self.operand(OPERAND)?;
                Ok(other("NOT REGEXP", vec![value, pattern]))
            }
            "NOT" => Err(self.syntax()),
            "IN" => self.in_list(value, false),
            "BETWEEN" => self.between(value, false),
            "MEMBER" => self.member(value),
            "SOUNDS" => {
                self.expect("LIKE")?;
                let sound = self.operand(OPERAND)?;
                Ok(other("SOUNDS LIKE", vec![value, sound]))
            }
            _ => self.like(value, false),
        };
        Ok((predicate?, PREDICATE))
    }

    fn is_condition(&mut self, value: Expression) -> Result<(Expression, u8)> {
        let negated = self.accept("NOT")?;
        if self.is_one_of(&["TRUE", "FALSE", "UNKNOWN"]) {
            let construct = format!("IS {}{}", if negated { "NOT " } else { "" }, self.word());
            self.advance()?;
            return Ok((other(&construct, vec![value]), NOT));
        }
        self.expect("NULL")?;
        Ok((Expression::IsNull { value: Box::new(value), negated }, COMPARISON))
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
        let low = self.operand(OPERAND)?;
        self.expect("AND")?;
        let bounds = Box::new((low, self.operand(PREDICATE)?));
        Ok(Expression::Between { value: Box::new(value), bounds, negated })
    }

    fn like(&mut self, value: Expression, negated: bool) -> Result<Expression> {
        let pattern = self.operand(SIMPLE)?;
        if self.accept("ESCAPE")? {
            let escape = self.operand(SIMPLE)?;
            return Ok(other("LIKE … ESCAPE", vec![value, pattern, escape]));
        }
        Ok(Expression::Like { sides: Box::new([value, pattern]), negated })
    }

    /// `[OF] (simple_expr)`
    fn member(&mut self, value: Expression) -> Result<Expression> {
        self.accept("OF")?;
        self.expect_punct(b'(')?;
        let list = self.operand(SIMPLE)?;
        self.expect_punct(b')')?;
        Ok(other("MEMBER OF", vec![value, list]))
    }

    fn operand(&mut self, least: u8) -> Result<Expression> {
        self.deeper(|parser| parser.binary(least))
    }
}

fn other(construct: &str, operands: Vec<Expression>) -> Expression {
    Expression::Other { construct: construct.to_owned(), operands }
}
