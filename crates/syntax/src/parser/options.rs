//! What may follow a query: ORDER BY, LIMIT, locking clauses, INTO.

use super::expression::level;
use super::{Parser, Result};
use crate::keyword::Keyword;
use crate::lexer::Kind;
use crate::tree::{ExprId, FileOption, Into, IntoVariable, Limit, Locking, Order, Strength};

impl Parser<'_> {
    /// ORDER BY, or nothing.
    pub(super) fn order_by(&mut self) -> Result<Vec<Order>> {
        if !self.eat(Keyword::Order) {
            return Ok(Vec::new());
        }
        self.expect(Keyword::By)?;
        self.list(|parser| {
            let expr = parser.expression(level::ASSIGN)?;
            let direction = parser.eat_any(&[Keyword::Asc, Keyword::Desc]);
            Ok(Order { expr, direction })
        })
    }

    pub(super) fn limit(&mut self) -> Result<Option<Limit>> {
        if !self.eat(Keyword::Limit) {
            return Ok(None);
        }
        let first = self.limit_number()?;
        if self.eat_byte(b',') {
            let rows = self.limit_number()?;
            return Ok(Some(Limit { rows, offset: Some(first) }));
        }
        let offset = if self.eat(Keyword::Offset) { Some(self.limit_number()?) } else { None };
        Ok(Some(Limit { rows: first, offset }))
    }

    /// A number, a placeholder, or a variable of a stored program.
    fn limit_number(&mut self) -> Result<ExprId> {
        match self.kind() {
            Kind::Integer if self.is_up_to(u64::MAX) => self.expression(level::PRIMARY),
            Kind::Byte(b'?') => self.expression(level::PRIMARY),
            _ if self.is_ident() && !self.is_byte_at(1, b'.') && !self.is_byte_at(1, b'(') => {
                self.expression(level::PRIMARY)
            }
            _ => self.wrong(),
        }
    }

    /// FOR UPDATE, FOR SHARE and LOCK IN SHARE MODE, any number of them.
    pub(super) fn locking(&mut self) -> Result<Vec<Locking>> {
        let mut all = Vec::new();
        loop {
            if self.eat(Keyword::Lock) {
                self.expect(Keyword::In)?;
                self.expect(Keyword::Share)?;
                self.expect(Keyword::Mode)?;
                all.push(Locking { strength: Strength::ShareMode, of: Vec::new(), wait: None });
            } else if self.eat(Keyword::For) {
                let word = self.expect_any(&[Keyword::Update, Keyword::Share])?;
                let strength = if word == Keyword::Update { Strength::Update } else { Strength::Share };
                let of = if self.eat(Keyword::Of) { self.list(|parser| parser.name(2))? } else { Vec::new() };
                let wait = self.eat_any(&[Keyword::Nowait, Keyword::Skip]);
                if wait == Some(Keyword::Skip) {
                    self.expect(Keyword::Locked)?;
                }
                all.push(Locking { strength, of, wait });
            } else {
                return Ok(all);
            }
        }
    }

    pub(super) fn read_into(&mut self) -> Result<Option<Into>> {
        if !self.eat(Keyword::Into) {
            return Ok(None);
        }
        if self.eat(Keyword::Dumpfile) {
            return Ok(Some(Into::Dumpfile(self.plain_text()?)));
        }
        if self.eat(Keyword::Outfile) {
            return self.outfile().map(Some);
        }
        let variables = self.list(|parser| {
            if parser.kind() == Kind::UserVariable {
                let token = parser.take();
                return Ok(IntoVariable::User(parser.text_of(token)));
            }
            parser.ident_or_text().map(IntoVariable::Local)
        })?;
        Ok(Some(Into::Variables(variables)))
    }

    fn outfile(&mut self) -> Result<Into> {
        use Keyword as K;
        let file = self.plain_text()?;
        let mut charset = None;
        if self.eat(K::Charset) || self.eat_two(K::Character, K::Set) || self.eat_two(K::Char, K::Set) {
            charset = Some(self.charset_name()?);
        }
        let mut fields = Vec::new();
        if self.eat_any(&[K::Fields, K::Columns]).is_some() {
            fields = self.file_options(&[K::Terminated, K::Optionally, K::Enclosed, K::Escaped])?;
        }
        let mut lines = Vec::new();
        if self.eat(K::Lines) {
            lines = self.file_options(&[K::Terminated, K::Starting])?;
        }
        Ok(Into::Outfile { file, charset, fields, lines })
    }

    fn file_options(&mut self, words: &[Keyword]) -> Result<Vec<FileOption>> {
        let mut all = Vec::new();
        while let Some(word) = self.eat_any(words) {
            if word == Keyword::Optionally {
                self.expect(Keyword::Enclosed)?;
            }
            self.expect(Keyword::By)?;
            all.push(FileOption { word, value: self.text_or_digits()? });
        }
        if all.is_empty() { self.wrong() } else { Ok(all) }
    }
}
