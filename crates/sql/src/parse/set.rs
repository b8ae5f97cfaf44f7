//! SET.

use catalog::lexer::Tok;

use super::Parser;
use crate::ast::{Assignment, Characteristics, Expression, Isolation, NewValue, Scope, Statement, Target};
use crate::error::SqlError;
use crate::invalid::before_nul;
use crate::{Result, deprecated_variable, variables};

/// Statements that begin with SET and change accounts or resources.
const REFUSED: &[&str] = &["PASSWORD", "DEFAULT", "ROLE", "RESOURCE"];

/// Variables that are of the next transaction where `@@` stands before them and no scope.
const OF_NEXT_TRANSACTION: &[&str] = &["transaction_isolation", "transaction_read_only"];

/// MySQL looks for a variable before it looks at its new value, and warns of some then.
fn of_name(error: SqlError, scope: Option<Scope>, name: &str) -> SqlError {
    if !error.is_not_supported() || deprecated_variable(name).is_some() {
        return error;
    }
    let checked = match variables::find(name) {
        Some(variable) => variable.check_scope_to_set(scope),
        None => Err(SqlError::unknown_variable(name)),
    };
    checked.err().unwrap_or(error)
}

impl Parser<'_> {
    pub(super) fn set(&mut self) -> Result<Statement> {
        self.advance()?;
        if self.is_one_of(REFUSED) {
            return Ok(self.refused(format!("SET {}", self.word())));
        }
        let scope = self.scope()?;
        if self.is("TRANSACTION") {
            return self.set_transaction(scope);
        }
        let mut assignments = vec![self.assignment(scope)?];
        while self.accept_punct(b',')? {
            let scope = self.scope()?;
            if self.is("TRANSACTION") {
                return Err(self.syntax());
            }
            assignments.push(self.deeper(|parser| parser.assignment(scope))?);
        }
        Ok(Statement::Set(assignments))
    }

    /// GLOBAL, SESSION, LOCAL or PERSIST before a name.
    fn scope(&mut self) -> Result<Option<Scope>> {
        let words = [
            ("GLOBAL", Scope::Global),
            ("SESSION", Scope::Session),
            ("LOCAL", Scope::Session),
            ("PERSIST", Scope::Persist),
            ("PERSIST_ONLY", Scope::Persist),
        ];
        for (word, scope) in words {
            if self.accept(word)? {
                return Ok(Some(scope));
            }
        }
        Ok(None)
    }

    fn set_transaction(&mut self, scope: Option<Scope>) -> Result<Statement> {
        self.advance()?;
        let mut characteristics = Characteristics::default();
        loop {
            let place = self.syntax();
            let again = if self.accept("ISOLATION")? {
                self.expect("LEVEL")?;
                characteristics.isolation.replace(self.isolation()?).is_some()
            } else {
                characteristics.access.replace(self.access_mode()?).is_some()
            };
            if again {
                return Err(place);
            }
            if !self.accept_punct(b',')? {
                return Ok(Statement::SetTransaction { scope, characteristics });
            }
        }
    }

    fn isolation(&mut self) -> Result<Isolation> {
        if self.accept("SERIALIZABLE")? {
            return Ok(Isolation::Serializable);
        }
        if self.accept_all(&["REPEATABLE", "READ"])? {
            return Ok(Isolation::RepeatableRead);
        }
        self.expect("READ")?;
        if self.accept("COMMITTED")? {
            return Ok(Isolation::ReadCommitted);
        }
        self.expect("UNCOMMITTED")?;
        Ok(Isolation::ReadUncommitted)
    }

    fn assignment(&mut self, scope: Option<Scope>) -> Result<Assignment> {
        if scope.is_none() {
            if self.accept("NAMES")? {
                return self.names();
            }
            if self.is_one_of(&["CHARACTER", "CHARSET", "CHAR"]) {
                if !self.accept("CHARSET")? {
                    self.advance()?;
                    self.expect("SET")?;
                }
                return Ok(Assignment { target: Target::CharacterSet, value: self.charset_value()? });
            }
        }
        let is_variable = self.current.tok == Tok::Variable && scope.is_none();
        let target = match is_variable {
            true => {
                let target = match self.system_variable()? {
                    Some((None, name)) if OF_NEXT_TRANSACTION.contains(&name.as_str()) => {
                        Target::OfNextTransaction { name }
                    }
                    Some((scope, name)) => Target::Variable { scope, name },
                    None => Target::UserVariable(self.user_variable()?),
                };
                self.advance()?;
                target
            }
            false => {
                let mut name = String::from_utf8_lossy(&self.name()?).to_ascii_lowercase();
                // A variable of a component; there are no further parts.
                if self.accept_punct(b'.')? {
                    name = format!("{name}.{}", String::from_utf8_lossy(&self.name()?).to_ascii_lowercase());
                }
                Target::Variable { scope, name }
            }
        };
        self.accept_punct(b':')?;
        self.expect_punct(b'=')?;
        let value = match &target {
            // No word stands for itself here, and there is no default.
            Target::UserVariable(_) if self.accept("DEFAULT")? => return Err(self.syntax()),
            Target::UserVariable(_) => NewValue::Expression(self.expression()?),
            Target::Variable { scope, name } => self.new_value().map_err(|error| of_name(error, *scope, name))?,
            _ => self.new_value()?,
        };
        if let Target::Variable { name, .. } = &target {
            self.notes.sets(name);
        }
        Ok(Assignment { target, value })
    }

    fn names(&mut self) -> Result<Assignment> {
        let value = self.charset_value()?;
        let mut collation = None;
        if let NewValue::Word(name) = &value {
            self.notes.charset(name);
        }
        if value != NewValue::Default && self.accept("COLLATE")? {
            match self.charset_value()? {
                NewValue::Word(name) => {
                    self.notes.collation(&name);
                    collation = Some(name);
                }
                _ => return Err(SqlError::not_supported("SET NAMES … COLLATE DEFAULT")),
            }
        }
        Ok(Assignment { target: Target::Names { collation }, value })
    }

    /// A character set or collation: a word, a string, or DEFAULT.
    fn charset_value(&mut self) -> Result<NewValue> {
        let value = match &self.current.tok {
            Tok::Word(_) if self.is("DEFAULT") => NewValue::Default,
            Tok::Word(name) | Tok::Quoted(name) | Tok::Str { bytes: name, introducer: None } => {
                let name = name.clone();
                if let (true, Err(error)) = (self.is_text(), self.charsets.text_of_names(&name))
                    && error.is_not_supported()
                {
                    return Err(error);
                }
                NewValue::Word(before_nul(&String::from_utf8_lossy(&self.in_names(name)?)).to_owned())
            }
            _ => return Err(self.syntax()),
        };
        self.advance()?;
        Ok(value)
    }

    fn new_value(&mut self) -> Result<NewValue> {
        if self.accept("DEFAULT")? {
            return Ok(NewValue::Default);
        }
        for word in ["ON", "ALL", "BINARY", "ROW", "SYSTEM"] {
            if self.accept(word)? {
                return Ok(NewValue::Word(word.to_owned()));
            }
        }
        // A name without qualifier is its own text.
        Ok(match self.expression()? {
            Expression::Name(mut parts) if parts.len() == 1 => {
                NewValue::Word(String::from_utf8_lossy(&parts.remove(0)).into_owned())
            }
            expression => NewValue::Expression(expression),
        })
    }
}
