//! The lexer: one token at a time, without an allocation.
//!
//! In: a text's bytes and the [`Settings`] of its session. Out: tokens with their places, in the text's bytes; what a
//! name or a string is without its quotes is resolved when somebody asks for it. Never here: what a token means where;
//! conversion between character sets; panics.
//!
//! Rules are those of MySQL 9.7 (`lex_one_token`, sql/sql_lex.cc), tried on the server: which signs make one operator,
//! that a word directly before or after a dot is a name whatever it is, where a version comment has six digits.

use crate::charsets;
use crate::client_text::ClientText;
use crate::keyword::Keyword;
use crate::sql_mode;

/// The first version that reads text between dollar signs.
const DOLLAR_TEXT_SINCE: u32 = 90_000;

/// How a session's text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub sql_mode: u64,
    /// 90704 for 9.7.4: decides which version comments are executed.
    pub server_version: u32,
    text: ClientText,
    charset_is_known: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::new(0, 90_799, "utf8mb4")
    }
}

impl Settings {
    /// `charset` is the name of `character_set_client`.
    #[must_use]
    pub fn new(sql_mode: u64, server_version: u32, charset: &str) -> Settings {
        let charset_is_known = charsets::is_charset(charset.as_bytes());
        Settings { sql_mode, server_version, text: ClientText::of(charset), charset_is_known }
    }

    /// False if the text may be in a character set in which bytes beyond ASCII mean something else.
    #[must_use]
    pub fn charset_is_known(&self) -> bool {
        self.charset_is_known
    }

    pub(crate) fn character_len(&self, text: &[u8]) -> usize {
        self.text.character_len(text)
    }

    /// True if a bit of `sql_mode` is set.
    #[must_use]
    pub fn has(&self, mode: u64) -> bool {
        self.sql_mode & mode != 0
    }
}

/// Bytes of a text, from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    #[must_use]
    pub fn of(self, text: &[u8]) -> &[u8] {
        let at = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
        text.get(at(self.start)..at(self.end)).unwrap_or_default()
    }

    /// From the beginning of this one to the end of another.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A word that is a keyword or a name.
    Word,
    /// A name: in quotes, or a word directly before or after a dot.
    Name,
    /// A string; with its quotes.
    Text,
    /// `N'…'`.
    NationalText,
    /// `$$…$$` or `$tag$…$tag$`, the text of a stored program in another language.
    DollarText,
    Integer,
    /// Digits with a point.
    Decimal,
    /// A number with an exponent.
    Float,
    /// `0x…` or `x'…'`.
    Hex,
    /// `0b…` or `b'…'`.
    Bits,
    /// `_utf8mb4` and the like: an introducer, whatever follows.
    Introducer,
    /// `@name`.
    UserVariable,
    /// `@@`, which a name follows without a blank.
    System,
    /// `/*+ … */` where hints can stand.
    Hint,
    /// `<=`, `>=`, `<>`, `!=`, `<=>`, `<<`, `>>`, `&&`, `||`, `:=`, `->`, `->>`.
    Sign(Sign),
    Byte(u8),
    /// What no statement can contain.
    Wrong(Wrong),
    /// The end of the text.
    End,
}

/// An operator of several bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    LessOrEqual,
    GreaterOrEqual,
    NotEqual,
    NullSafeEqual,
    ShiftLeft,
    ShiftRight,
    And,
    /// OR, or concatenation under PIPES_AS_CONCAT.
    Pipes,
    Assign,
    Arrow,
    DoubleArrow,
}

/// Why a text cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    OpenString,
    OpenName,
    OpenComment,
    /// A hexadecimal or bit literal.
    Literal,
    /// Signs that make no operator.
    Operator,
    /// A variable without a name.
    Variable,
}

/// A token and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub keyword: Keyword,
    pub span: Span,
}

/// Reads tokens; [`Kind::End`] or [`Kind::Wrong`] again and again at its end.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    text: &'a [u8],
    settings: Settings,
    at: usize,
    /// Inside `/*! … */`, which the next `*/` closes.
    in_version_comment: bool,
    /// A version comment was executed or left out.
    saw_version_comment: bool,
    /// The next token is a name, as one directly after a dot is.
    after_dot: bool,
    /// The next byte is a dot that qualifies a name, even before a digit.
    before_dot: bool,
    after_system: bool,
    /// Hints may come next.
    after_verb: bool,
}

impl<'a> Lexer<'a> {
    /// A NUL byte at the end is taken for the end, as MySQL does.
    #[must_use]
    pub fn new(text: &'a [u8], settings: Settings) -> Lexer<'a> {
        let text = text.strip_suffix(&[0]).unwrap_or(text);
        // Places are of 32 bits; no packet is that long.
        let text = text.get(..text.len().min(0xffff_fff0)).unwrap_or_default();
        Lexer {
            text,
            settings,
            at: 0,
            in_version_comment: false,
            saw_version_comment: false,
            after_dot: false,
            before_dot: false,
            after_system: false,
            after_verb: false,
        }
    }

    /// True if what stood before depends on the server's version.
    #[must_use]
    pub fn saw_version_comment(&self) -> bool {
        self.saw_version_comment
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn byte(&self, ahead: usize) -> u8 {
        // 0 is no byte that any caller looks for.
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn is_name_byte(&self, byte: u8) -> bool {
        self.settings.text.is_word(byte)
    }

    /// Skips blanks and comments; enters and leaves version comments.
    fn skip(&mut self) -> Result<(), Wrong> {
        loop {
            match self.rest() {
                [first, ..] if self.settings.text.is_blank(*first) => self.at += 1,
                [b'#', ..] => self.skip_line(),
                [b'-', b'-'] => self.at += 2,
                [b'-', b'-', third, ..] if self.settings.text.is_blank_or_control(*third) => self.skip_line(),
                [b'/', b'*', b'!', ..] if !self.in_version_comment => self.version_comment()?,
                [b'/', b'*', b'+', ..] if self.after_verb => return Ok(()),
                [b'/', b'*', ..] => self.at = self.comment_end(self.at).ok_or(Wrong::OpenComment)?,
                [b'*', b'/', ..] if self.in_version_comment => {
                    self.in_version_comment = false;
                    self.at += 2;
                }
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = self.rest();
        self.at += rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |len| len + 1);
    }

    fn comment_end(&self, at: usize) -> Option<usize> {
        let body = self.text.get(at + 2..)?;
        body.windows(2).position(|pair| pair == b"*/").map(|len| at + len + 4)
    }

    /// `/*!NNNNN … */` is executed by servers of at least that version. Six digits only where a blank follows them.
    fn version_comment(&mut self) -> Result<(), Wrong> {
        self.saw_version_comment = true;
        let digits = self.rest().iter().skip(3).take(6).take_while(|byte| byte.is_ascii_digit()).count();
        let digits = match digits {
            6 if self.settings.text.is_blank(self.byte(9)) => 6,
            5 | 6 => 5,
            _ => 0,
        };
        let version = (3..3 + digits).fold(0u32, |version, at| version * 10 + u32::from(self.byte(at) & 15));
        self.at += 3 + digits;
        if version <= self.settings.server_version {
            self.in_version_comment = true;
            return Ok(());
        }
        // Other comments may stand in one that is left out.
        loop {
            let rest = self.rest();
            let end = rest.windows(2).position(|pair| pair == b"*/").ok_or(Wrong::OpenComment)?;
            let inner = rest.get(..end).unwrap_or_default().windows(2).position(|pair| pair == b"/*");
            match inner {
                Some(inner) => self.at = self.comment_end(self.at + inner).ok_or(Wrong::OpenComment)?,
                None => {
                    self.at += end + 2;
                    return Ok(());
                }
            }
        }
    }

    pub fn next_token(&mut self) -> Token {
        let after_dot = std::mem::take(&mut self.after_dot);
        let before_dot = std::mem::take(&mut self.before_dot);
        let after_system = std::mem::take(&mut self.after_system);
        let skipped = if after_dot || after_system { Ok(()) } else { self.skip() };
        let after_verb = std::mem::take(&mut self.after_verb);
        let start = self.at;
        let kind = match skipped {
            Err(wrong) => Kind::Wrong(wrong),
            Ok(()) if start >= self.text.len() && self.in_version_comment => Kind::Wrong(Wrong::OpenComment),
            Ok(()) if start >= self.text.len() => Kind::End,
            Ok(()) if after_dot && self.is_name_byte(self.byte(0)) => {
                self.at += self.settings.text.word_len(self.rest());
                self.dot_may_follow();
                Kind::Name
            }
            Ok(()) => self.read(after_verb, after_system, before_dot),
        };
        if let Kind::Wrong(_) = kind {
            // Stays there.
            self.at = start;
        }
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let span = Span { start: place(start), end: place(self.at.max(start)) };
        let keyword = if kind == Kind::Word { Keyword::of(span.of(self.text)) } else { Keyword::NotOne };
        self.after_verb =
            matches!(keyword, Keyword::Select | Keyword::Insert | Keyword::Update | Keyword::Delete | Keyword::Replace);
        Token { kind, keyword, span }
    }

    fn read(&mut self, after_verb: bool, after_system: bool, before_dot: bool) -> Kind {
        let first = self.byte(0);
        match first {
            b'`' => self.quoted_name(),
            b'"' if self.settings.has(sql_mode::ANSI_QUOTES) => self.quoted_name(),
            _ if after_system && !self.is_name_byte(first) => Kind::Wrong(Wrong::Variable),
            b'\'' | b'"' => self.string(Kind::Text),
            b'0'..=b'9' if !after_system => self.number_or_word(),
            b'.' if self.byte(1).is_ascii_digit() && !before_dot => self.number(),
            b'.' => {
                self.at += 1;
                self.after_dot = self.is_name_byte(self.byte(0));
                Kind::Byte(b'.')
            }
            b'@' => self.variable(),
            b'/' if after_verb && self.rest().starts_with(b"/*+") => match self.comment_end(self.at) {
                Some(end) => {
                    self.at = end;
                    Kind::Hint
                }
                None => Kind::Wrong(Wrong::OpenComment),
            },
            b'$' if self.settings.server_version >= DOLLAR_TEXT_SINCE && self.dollar_tag().is_some() => {
                self.dollar_text()
            }
            word if self.is_name_byte(word) => self.word(),
            other => self.sign(other),
        }
    }

    /// Operators: which bytes make one, and which make none, was tried on a server.
    fn sign(&mut self, first: u8) -> Kind {
        let (second, third) = (self.byte(1), self.byte(2));
        let is_compare = |byte: u8| matches!(byte, b'<' | b'>' | b'=' | b'!');
        let (len, kind) = match (first, second, third) {
            (b'<', b'=', b'>') => (3, Kind::Sign(Sign::NullSafeEqual)),
            (b'<', b'=' | b'>' | b'<', third) if is_compare(third) => (3, Kind::Wrong(Wrong::Operator)),
            (b'<', b'=', _) => (2, Kind::Sign(Sign::LessOrEqual)),
            (b'<', b'>', _) | (b'!', b'=', _) => (2, Kind::Sign(Sign::NotEqual)),
            (b'<', b'<', _) => (2, Kind::Sign(Sign::ShiftLeft)),
            (b'>', b'>', _) => (2, Kind::Sign(Sign::ShiftRight)),
            (b'>', b'=', _) => (2, Kind::Sign(Sign::GreaterOrEqual)),
            (b'!', b'!', _) => (1, Kind::Byte(b'!')),
            (b'=' | b'<' | b'>' | b'!', second, _) if is_compare(second) => (2, Kind::Wrong(Wrong::Operator)),
            (b'&', b'&', _) => (2, Kind::Sign(Sign::And)),
            (b'|', b'|', _) => (2, Kind::Sign(Sign::Pipes)),
            (b':', b'=', _) => (2, Kind::Sign(Sign::Assign)),
            (b'-', b'>', b'>') => (3, Kind::Sign(Sign::DoubleArrow)),
            (b'-', b'>', _) => (2, Kind::Sign(Sign::Arrow)),
            _ => (1, Kind::Byte(first)),
        };
        self.at += len;
        kind
    }

    fn word(&mut self) -> Kind {
        let start = self.at;
        match (self.byte(0), self.byte(1)) {
            (b'x' | b'X', b'\'') => return self.quoted_digits(Kind::Hex),
            (b'b' | b'B', b'\'') => return self.quoted_digits(Kind::Bits),
            (b'n' | b'N', b'\'') => {
                self.at += 1;
                return self.string(Kind::NationalText);
            }
            _ => {}
        }
        self.at += self.settings.text.word_len(self.rest());
        match self.text.get(start..self.at) {
            Some([b'_', charset @ ..]) if charsets::is_charset(charset) => Kind::Introducer,
            _ if self.dot_may_follow() => Kind::Name,
            _ => Kind::Word,
        }
    }

    /// `$$` or `$tag$`, if it is next.
    fn dollar_tag(&self) -> Option<&'a [u8]> {
        let rest = self.rest();
        let len = rest.iter().skip(1).take_while(|byte| **byte != b'$' && self.is_name_byte(**byte)).count();
        rest.get(..len + 2).filter(|tag| tag.ends_with(b"$"))
    }

    fn dollar_text(&mut self) -> Kind {
        let tag = self.dollar_tag().unwrap_or_default();
        let body = self.rest().get(tag.len()..).unwrap_or_default();
        match body.windows(tag.len()).position(|there| there == tag) {
            Some(len) => {
                self.at += len + 2 * tag.len();
                Kind::DollarText
            }
            None => Kind::Wrong(Wrong::OpenString),
        }
    }

    /// True if a dot and a name follow directly.
    fn dot_may_follow(&mut self) -> bool {
        // `a.5` is a name with a dot, not a name and a number.
        self.before_dot = self.byte(0) == b'.' && self.is_name_byte(self.byte(1));
        self.before_dot
    }

    fn quoted_name(&mut self) -> Kind {
        let quote = self.byte(0);
        let Some(end) = self.quoted_end(quote, false) else { return Kind::Wrong(Wrong::OpenName) };
        // MySQL's names end at a NUL byte.
        if self.text.get(self.at..end).is_some_and(|name| name.contains(&0)) {
            return Kind::Wrong(Wrong::OpenName);
        }
        self.at = end;
        Kind::Name
    }

    fn string(&mut self, kind: Kind) -> Kind {
        let escapes = !self.settings.has(sql_mode::NO_BACKSLASH_ESCAPES);
        let Some(end) = self.quoted_end(self.byte(0), escapes) else { return Kind::Wrong(Wrong::OpenString) };
        self.at = end;
        kind
    }

    /// The place after the closing quote.
    fn quoted_end(&self, quote: u8, escapes: bool) -> Option<usize> {
        let mut at = self.at + 1;
        loop {
            match self.text.get(at..)? {
                [b'\\', _, ..] if escapes => at += 2,
                [first, second, ..] if *first == quote && *second == quote => at += 2,
                [first, ..] if *first == quote => return Some(at + 1),
                [] => return None,
                rest => at += self.settings.text.character_len(rest),
            }
        }
    }

    fn quoted_digits(&mut self, kind: Kind) -> Kind {
        self.at += 2;
        let rest = self.rest();
        let is_digit =
            |byte: &u8| if kind == Kind::Hex { byte.is_ascii_hexdigit() } else { matches!(byte, b'0' | b'1') };
        let len = rest.iter().take_while(|byte| is_digit(byte)).count();
        self.at += len + 1;
        match rest.get(len) {
            Some(b'\'') if kind == Kind::Bits || len % 2 == 0 => kind,
            _ => Kind::Wrong(Wrong::Literal),
        }
    }

    /// `0x41`, `0b01`, a number, or a name that begins with a digit.
    fn number_or_word(&mut self) -> Kind {
        let len = self.settings.text.word_len(self.rest());
        let word = self.rest().get(..len).unwrap_or_default();
        match word {
            [b'0', b'x', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit) => {
                self.at += len;
                return Kind::Hex;
            }
            [b'0', b'b', digits @ ..]
                if !digits.is_empty() && digits.iter().all(|byte| matches!(byte, b'0' | b'1')) =>
            {
                self.at += len;
                return Kind::Bits;
            }
            _ => {}
        }
        if word.iter().all(u8::is_ascii_digit) || self.exponent_follows() {
            return self.number();
        }
        self.at += len;
        self.dot_may_follow();
        Kind::Name
    }

    /// True for `1e5`, `1e+5`: a number although letters follow the digits.
    fn exponent_follows(&self) -> bool {
        let text = self.rest();
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match text.get(digits..) {
            Some([b'e' | b'E', b'+' | b'-', third, ..]) => third.is_ascii_digit(),
            Some([b'e' | b'E', tail @ ..]) => {
                let exponent = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
                exponent > 0 && !tail.get(exponent).is_some_and(|byte| self.is_name_byte(*byte))
            }
            _ => false,
        }
    }

    fn number(&mut self) -> Kind {
        let mut kind = Kind::Integer;
        self.digits();
        if self.byte(0) == b'.' {
            kind = Kind::Decimal;
            self.at += 1;
            self.digits();
        }
        if matches!(self.byte(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if self.byte(1 + sign).is_ascii_digit() {
                kind = Kind::Float;
                self.at += 1 + sign;
                self.digits();
            }
        }
        kind
    }

    fn digits(&mut self) {
        while self.byte(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    fn variable(&mut self) -> Kind {
        self.at += 1;
        match self.byte(0) {
            b'@' => {
                self.at += 1;
                self.after_system = true;
                Kind::System
            }
            b'\'' => self.string(Kind::UserVariable),
            b'"' if !self.settings.has(sql_mode::ANSI_QUOTES) => self.string(Kind::UserVariable),
            b'`' | b'"' => match self.quoted_name() {
                Kind::Name => Kind::UserVariable,
                wrong => wrong,
            },
            _ => {
                while let len @ 1.. = self.settings.text.word_len(self.rest()) + usize::from(self.byte(0) == b'.') {
                    self.at += len;
                }
                Kind::UserVariable
            }
        }
    }
}

/// A name or a string without its quotes, introducer's sign and `@`; a bare word as it is.
#[must_use]
pub fn resolved(raw: &[u8], settings: Settings) -> Vec<u8> {
    let raw = match raw {
        [b'@' | b'n' | b'N', quoted @ ..] if matches!(quoted.first(), Some(b'\'' | b'"' | b'`')) => quoted,
        [b'@', bare @ ..] => bare,
        raw => raw,
    };
    let [quote @ (b'\'' | b'"' | b'`'), inner @ ..] = raw else { return raw.to_vec() };
    let inner = inner.strip_suffix(&[*quote]).unwrap_or(inner);
    let is_name = *quote == b'`' || (*quote == b'"' && settings.has(sql_mode::ANSI_QUOTES));
    let escapes = !is_name && !settings.has(sql_mode::NO_BACKSLASH_ESCAPES);
    let mut bytes = Vec::with_capacity(inner.len());
    let mut at = 0;
    while let Some(rest) = inner.get(at..)
        && let Some(first) = rest.first()
    {
        let len = match rest {
            [b'\\', escaped, ..] if escapes => {
                push_escaped(&mut bytes, *escaped);
                2
            }
            [first, second, ..] if first == quote && second == quote => {
                bytes.push(*quote);
                2
            }
            _ => {
                let len = settings.text.character_len(rest);
                bytes.extend_from_slice(rest.get(..len).unwrap_or(&[*first]));
                len
            }
        };
        at += len;
    }
    bytes
}

fn push_escaped(bytes: &mut Vec<u8>, escaped: u8) {
    match escaped {
        b'n' => bytes.push(b'\n'),
        b't' => bytes.push(b'\t'),
        b'r' => bytes.push(b'\r'),
        b'b' => bytes.push(8),
        b'0' => bytes.push(0),
        b'Z' => bytes.push(26),
        // MySQL keeps the backslash of these two, for LIKE.
        b'%' | b'_' => bytes.extend_from_slice(&[b'\\', escaped]),
        other => bytes.push(other),
    }
}

/// True if a bare word reads back as this name.
pub(crate) fn is_bare_name(name: &[u8], settings: Settings) -> bool {
    !name.is_empty()
        && settings.text.word_len(name) == name.len()
        && !matches!(name, [b'0'..=b'9' | b'_' | b'$', ..])
        && Keyword::of(name) == Keyword::NotOne
}

#[cfg(test)]
mod tests;
