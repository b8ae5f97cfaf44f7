//! Where the answer to a command ends.

use wire::command;
use wire::read::Reader;
use wire::response::{OkPacket, PrepareOk, ends_rows, is_err, rows_end, status};

use crate::{ClientError, Result};

/// Length of the answer to a preparation without optional metadata.
const PREPARE_OK_LEN: usize = 12;

/// How far the answer to a command has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerSteps {
    code: u8,
    deprecates_eof: bool,
    next: Next,
}

/// Which packet comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The first of a result.
    Head,
    /// This many whose content says nothing of the answer, then what `DefinitionsEnd` or `Rows` begins.
    Definitions(u64),
    /// The EOF after definitions.
    DefinitionsEnd,
    /// This many of a prepared statement.
    OfPrepared(u64),
    Rows,
    /// Definitions without a number, up to an EOF.
    Fields,
    Only,
    Nothing,
}

impl AnswerSteps {
    /// The answer to the command with this code, over a connection with or without EOF after definitions.
    #[must_use]
    pub fn new(code: u8, deprecates_eof: bool) -> AnswerSteps {
        let next = match code {
            command::QUIT | command::STMT_CLOSE | command::STMT_SEND_LONG_DATA => Next::Nothing,
            command::QUERY | command::STMT_EXECUTE | command::STMT_PREPARE => Next::Head,
            command::STMT_FETCH => Next::Rows,
            command::FIELD_LIST => Next::Fields,
            // OK, EOF, an error, or a line of text.
            _ => Next::Only,
        };
        AnswerSteps { code, deprecates_eof, next }
    }

    /// True once no packet follows.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.next == Next::Nothing
    }

    /// True if a row or the end of the rows comes next.
    #[must_use]
    pub fn is_at_rows(&self) -> bool {
        self.next == Next::Rows
    }

    /// True if the first packet of a result comes next.
    #[must_use]
    pub fn is_at_head(&self) -> bool {
        self.next == Next::Head
    }

    /// True if the only packet of the answer comes next, or definitions without a number.
    #[must_use]
    pub fn is_at_only(&self) -> bool {
        matches!(self.next, Next::Only | Next::Fields)
    }

    /// Takes the next packet of the answer.
    ///
    /// # Errors
    /// It breaks the protocol, or asks for a file; what follows cannot be interpreted.
    pub fn packet(&mut self, payload: &[u8]) -> Result<()> {
        self.next = match self.next {
            Next::Head if self.code == command::STMT_PREPARE => self.prepared(payload)?,
            Next::Head => self.head(payload)?,
            // No definition begins as an error does.
            Next::Definitions(_) | Next::OfPrepared(_) if is_err(payload) => Next::Nothing,
            Next::Definitions(left @ 2..) => Next::Definitions(left - 1),
            Next::Definitions(_) => self.behind_definitions(),
            Next::DefinitionsEnd => self.opened(payload),
            Next::OfPrepared(left @ 2..) => Next::OfPrepared(left - 1),
            Next::OfPrepared(_) => Next::Nothing,
            Next::Rows => self.row(payload)?,
            Next::Fields if !is_err(payload) && !ends_rows(payload, false) => Next::Fields,
            Next::Fields | Next::Only => Next::Nothing,
            Next::Nothing => return Err(ClientError::UnexpectedAnswer { what: "a command: more packets than it has" }),
        };
        Ok(())
    }

    fn prepared(&self, payload: &[u8]) -> Result<Next> {
        if is_err(payload) {
            return Ok(Next::Nothing);
        }
        let ok = PrepareOk::parse(payload)?;
        // With optional metadata a byte says whether definitions follow.
        if payload.get(PREPARE_OK_LEN) == Some(&0) {
            return Ok(Next::Nothing);
        }
        let of = |count: u16| u64::from(count) + u64::from(count > 0 && !self.deprecates_eof);
        Ok(match of(ok.parameters) + of(ok.columns) {
            0 => Next::Nothing,
            all => Next::OfPrepared(all),
        })
    }

    fn head(&self, payload: &[u8]) -> Result<Next> {
        match payload.first() {
            Some(0xff) => Ok(Next::Nothing),
            Some(0x00) => Ok(after_result(OkPacket::parse(payload)?.more_results(), Next::Head)),
            Some(0xfb) => Err(ClientError::UnexpectedAnswer { what: "a statement: it asks for a file" }),
            _ => {
                let mut reader = Reader::new(payload);
                let count = reader.lenenc("number of columns")?;
                // With optional metadata a byte says whether definitions follow.
                let has_definitions = reader.rest() != [0];
                Ok(if has_definitions && count > 0 { Next::Definitions(count) } else { self.behind_definitions() })
            }
        }
    }

    fn behind_definitions(&self) -> Next {
        if self.deprecates_eof { Next::Rows } else { Next::DefinitionsEnd }
    }

    /// An execution that opens a cursor has no rows: they are fetched.
    fn opened(&self, payload: &[u8]) -> Next {
        let [cursor, _] = status::CURSOR_EXISTS.to_le_bytes();
        let opens_cursor = payload.get(3).is_some_and(|bits| bits & cursor != 0);
        if is_err(payload) || (opens_cursor && self.code == command::STMT_EXECUTE) { Next::Nothing } else { Next::Rows }
    }

    fn row(&self, payload: &[u8]) -> Result<Next> {
        if is_err(payload) {
            return Ok(Next::Nothing);
        }
        if !ends_rows(payload, self.deprecates_eof) {
            return Ok(Next::Rows);
        }
        let more = rows_end(payload, self.deprecates_eof)?.more_results();
        Ok(after_result(more, if self.code == command::STMT_FETCH { Next::Rows } else { Next::Head }))
    }
}

fn after_result(more: bool, next: Next) -> Next {
    if more { next } else { Next::Nothing }
}
