//! Types: those of CAST, and those of columns of JSON_TABLE.

use super::functions::NUM_MAX;
use super::{Parser, Result};
use crate::keyword::Keyword;
use crate::lexer::Kind;
use crate::tree::{Text, Type, TypeId};

impl Parser<'_> {
    /// The type of CAST, CONVERT and RETURNING.
    pub(super) fn cast_type(&mut self) -> Result<TypeId> {
        use Keyword as K;
        let mut ty = no_type();
        let word = self.take().keyword;
        ty.words.push(word);
        match word {
            K::Binary | K::Nchar => self.length(&mut ty)?,
            K::Char | K::Character => {
                ty.words = vec![K::Char];
                self.length(&mut ty)?;
                self.charset_clause(&mut ty)?;
            }
            K::National => {
                self.expect_any(&[K::Char, K::Character])?;
                ty.words = vec![K::Nchar];
                self.length(&mut ty)?;
            }
            K::Signed | K::Unsigned => {
                self.eat_any(&[K::Int, K::Integer]);
            }
            K::Time | K::Datetime => self.fraction(&mut ty)?,
            K::Decimal | K::Dec => {
                ty.words = vec![K::Decimal];
                self.precision(&mut ty, true)?;
            }
            K::Double => {
                self.eat(K::Precision);
            }
            K::Float => self.precision(&mut ty, false)?,
            K::Date | K::Year | K::Json | K::Real | K::Point | K::Linestring | K::Polygon | K::Multipoint => {}
            K::Multilinestring | K::Multipolygon | K::Geometrycollection | K::Geomcollection => {}
            _ => {
                self.at -= 1;
                return self.wrong();
            }
        }
        Ok(self.tree.push_type(ty))
    }

    /// `(n)`, perhaps.
    fn length(&mut self, ty: &mut Type) -> Result<()> {
        if self.eat_byte(b'(') {
            let number = self.length_number()?;
            ty.numbers.push(number);
            self.expect_byte(b')')?;
        }
        Ok(())
    }

    /// A length may have a point in MySQL's grammar.
    fn length_number(&mut self) -> Result<Text> {
        if !matches!(self.kind(), Kind::Integer | Kind::Decimal) {
            return self.wrong();
        }
        let token = self.take();
        Ok(self.text_of(token))
    }

    /// `(n)` of a time, perhaps.
    fn fraction(&mut self, ty: &mut Type) -> Result<()> {
        if self.eat_byte(b'(') {
            if !self.is_up_to(NUM_MAX) {
                return self.wrong();
            }
            let number = self.integer()?;
            ty.numbers.push(number);
            self.expect_byte(b')')?;
        }
        Ok(())
    }

    /// `(p)` or `(p, s)`, perhaps.
    fn precision(&mut self, ty: &mut Type, takes_scale: bool) -> Result<()> {
        if !self.eat_byte(b'(') {
            return Ok(());
        }
        let number = self.length_number()?;
        ty.numbers.push(number);
        if takes_scale && self.eat_byte(b',') {
            let number = self.integer()?;
            ty.numbers.push(number);
        }
        self.expect_byte(b')')
    }

    /// CHARACTER SET, ASCII, UNICODE, BYTE and BINARY, perhaps.
    fn charset_clause(&mut self, ty: &mut Type) -> Result<()> {
        use Keyword as K;
        let binary = self.eat(K::Binary);
        if let Some(word) = self.eat_any(&[K::Ascii, K::Unicode]) {
            ty.attributes.push(word);
        } else if !binary && self.eat(K::Byte) {
            ty.attributes.push(K::Byte);
            return Ok(());
        } else if self.eat(K::Charset) || self.eat_two(K::Character, K::Set) || self.eat_two(K::Char, K::Set) {
            ty.charset = Some(self.charset_name()?);
        } else if binary {
            ty.attributes.push(K::Binary);
            return Ok(());
        } else {
            return Ok(());
        }
        if binary || self.eat(K::Binary) {
            ty.attributes.push(K::Binary);
        }
        Ok(())
    }

    /// The type of a column of a table.
    pub(super) fn column_type(&mut self) -> Result<TypeId> {
        use Keyword as K;
        let mut ty = no_type();
        let word = self.take().keyword;
        ty.words.push(word);
        match word {
            K::Tinyint | K::Smallint | K::Mediumint | K::Int | K::Integer | K::Bigint | K::Int1 | K::Int2 => {
                self.numeric(&mut ty, false)?;
            }
            K::Int3 | K::Int4 | K::Int8 | K::Middleint => self.numeric(&mut ty, false)?,
            K::Double | K::Float8 | K::Real | K::Float | K::Float4 | K::Decimal | K::Dec | K::Numeric | K::Fixed => {
                if word == K::Double && self.eat(K::Precision) {
                    ty.words.push(K::Precision);
                }
                self.numeric(&mut ty, true)?;
            }
            K::Bit | K::Year | K::Binary | K::Blob | K::Vector => self.length(&mut ty)?,
            K::Varbinary => self.required_length(&mut ty)?,
            K::Bool | K::Boolean | K::Serial | K::Date | K::Json | K::Geometry | K::Point | K::Linestring => {}
            K::Polygon | K::Multipoint | K::Multilinestring | K::Multipolygon => {}
            K::Geometrycollection | K::Geomcollection | K::Tinyblob | K::Mediumblob | K::Longblob => {}
            K::Time | K::Timestamp | K::Datetime => self.fraction(&mut ty)?,
            K::Char | K::Character => {
                if self.eat(K::Varying) {
                    ty.words.push(K::Varying);
                    self.required_length(&mut ty)?;
                } else {
                    self.length(&mut ty)?;
                }
                self.charset_clause(&mut ty)?;
            }
            K::Varchar | K::Varcharacter => {
                self.required_length(&mut ty)?;
                self.charset_clause(&mut ty)?;
            }
            K::Nchar | K::National | K::Nvarchar => self.national(&mut ty, word)?,
            K::Tinytext | K::Mediumtext | K::Longtext => self.charset_clause(&mut ty)?,
            K::Text => {
                self.length(&mut ty)?;
                self.charset_clause(&mut ty)?;
            }
            K::Long => {
                if let Some(word) = self.eat_any(&[K::Varbinary, K::Varchar, K::Varcharacter]) {
                    ty.words.push(word);
                } else if let Some(word) = self.eat_any(&[K::Char, K::Character]) {
                    self.expect(K::Varying)?;
                    ty.words.extend([word, K::Varying]);
                }
                if !ty.words.contains(&K::Varbinary) {
                    self.charset_clause(&mut ty)?;
                }
            }
            K::Enum | K::Set => {
                ty.members = self.bracketed(Parser::text_or_digits)?;
                self.charset_clause(&mut ty)?;
            }
            _ => {
                self.at -= 1;
                return self.wrong();
            }
        }
        Ok(self.tree.push_type(ty))
    }

    fn required_length(&mut self, ty: &mut Type) -> Result<()> {
        self.length(ty)?;
        if ty.numbers.is_empty() { self.wrong() } else { Ok(()) }
    }

    fn numeric(&mut self, ty: &mut Type, takes_scale: bool) -> Result<()> {
        self.precision(ty, takes_scale)?;
        while let Some(word) = self.eat_any(&[Keyword::Signed, Keyword::Unsigned, Keyword::Zerofill]) {
            ty.attributes.push(word);
        }
        Ok(())
    }

    fn national(&mut self, ty: &mut Type, word: Keyword) -> Result<()> {
        use Keyword as K;
        let mut varies = word == K::Nvarchar;
        if word == K::National {
            let word = self.expect_any(&[K::Char, K::Character, K::Varchar, K::Varcharacter])?;
            varies = matches!(word, K::Varchar | K::Varcharacter);
            ty.words.push(word);
        } else if word == K::Nchar
            && let Some(word) = self.eat_any(&[K::Varchar, K::Varcharacter])
        {
            varies = true;
            ty.words.push(word);
        }
        if !varies && self.eat(K::Varying) {
            varies = true;
            ty.words.push(K::Varying);
        }
        if varies {
            self.required_length(ty)?
        } else {
            self.length(ty)?
        }
        if self.eat(K::Binary) {
            ty.attributes.push(K::Binary);
        }
        Ok(())
    }
}

fn no_type() -> Type {
    Type { words: Vec::new(), numbers: Vec::new(), members: Vec::new(), attributes: Vec::new(), charset: None }
}
