//! Writing commands and reading answers, common to all commands. A failure marks the connection as broken.

use wire::packet::{self, PayloadRange};
use wire::response::{Answer, ColumnDefinition, ErrPacket, OkPacket, ends_rows, is_err, rows_end};

use super::{Connection, Unread};
use crate::{ClientError, Result};

/// Bytes of all column definitions of a result. The longest real ones, 4,096 with five names each, have 5 MiB.
const DEFINITIONS_BYTES_MAX: usize = 16 << 20;

/// Size of the command buffer that is kept, in bytes; a larger buffer is freed after its command.
const OUTPUT_KEPT: usize = 1 << 20;

impl Connection {
    pub(super) fn begin_packet(&mut self) -> usize {
        self.output.clear();
        self.output.shrink_to(OUTPUT_KEPT);
        packet::start(&mut self.output)
    }

    pub(super) fn send_packet(&mut self, at: usize, sequence: &mut u8) -> Result<()> {
        packet::finish(&mut self.output, at, sequence);
        self.input.expect_sequence(*sequence);
        let Err(error) = self.stream.write_all(&self.output) else { return Ok(()) };
        // A server that ended the session (timeout, shutdown) may have sent the reason before it closed the connection.
        let reason = self.read_packet().ok().and_then(|range| ErrPacket::parse(self.input.payload(range)).ok());
        self.unread = Unread::Broken;
        Err(reason.map_or(error, server_error))
    }

    /// Starts a command; reads the unread rest of the previous answer first.
    pub(super) fn begin(&mut self) -> Result<usize> {
        match self.unread {
            Unread::Nothing => {}
            Unread::Broken => return Err(ClientError::Broken),
            _ => match self.drain() {
                Err(error) if error.server_code().is_none() => return Err(error),
                _ => {}
            },
        }
        self.input.set_limit(packet::MAX_PAYLOAD_LEN);
        Ok(self.begin_packet())
    }

    pub(super) fn send(&mut self, at: usize) -> Result<()> {
        self.send_packet(at, &mut 0)
    }

    #[inline]
    pub(super) fn receive(&mut self) -> Result<PayloadRange> {
        loop {
            if let Some(range) = self.input.take()? {
                return Ok(range);
            }
            let len = self.stream.read(self.input.spare())?;
            self.input.filled(len);
        }
    }

    /// Returns the next packet of an answer. After any failure the connection is broken.
    #[inline]
    pub(super) fn read_packet(&mut self) -> Result<PayloadRange> {
        let received = self.receive();
        if received.is_err() {
            self.unread = Unread::Broken;
        }
        received
    }

    /// Reads a packet that must not be an error.
    pub(super) fn read_ok_packet(&mut self) -> Result<PayloadRange> {
        let range = self.read_packet()?;
        let payload = self.input.payload(range);
        if is_err(payload) {
            self.unread = Unread::Nothing;
            return Err(server_error(ErrPacket::parse(payload)?));
        }
        Ok(range)
    }

    /// Checks a parsed answer: after a malformed one, later bytes cannot be trusted.
    pub(super) fn parsed<T>(&mut self, parsed: wire::Result<T>) -> Result<T> {
        parsed.map_err(|error| {
            self.unread = Unread::Broken;
            ClientError::Wire(error)
        })
    }

    /// Reads the start of an answer: OK, or the number of column definitions that follow.
    pub(super) fn read_head(&mut self) -> Result<Answer> {
        let range = self.read_packet()?;
        let answer = Answer::parse(self.input.payload(range));
        match self.parsed(answer)? {
            Answer::Err(err) => {
                self.unread = Unread::Nothing;
                Err(server_error(err))
            }
            Answer::Ok(ok) => {
                self.unread = if ok.more_results() { Unread::Result } else { Unread::Nothing };
                Ok(Answer::Ok(ok))
            }
            columns => {
                self.unread = Unread::Rows;
                Ok(columns)
            }
        }
    }

    pub(super) fn read_columns(&mut self, count: usize, mut each: impl FnMut(&ColumnDefinition<'_>)) -> Result<()> {
        let mut bytes = 0;
        for _ in 0..count {
            let range = self.read_ok_packet()?;
            let payload = self.input.payload(range);
            bytes += payload.len();
            if bytes > DEFINITIONS_BYTES_MAX {
                self.unread = Unread::Broken;
                return Err(ClientError::AnswerTooLarge {
                    to: "a statement, its columns".into(),
                    limit_mib: DEFINITIONS_BYTES_MAX >> 20,
                });
            }
            let definition = ColumnDefinition::parse(payload);
            match definition {
                Ok(definition) => each(&definition),
                Err(error) => return self.parsed(Err(error)),
            }
        }
        if count > 0 && !self.deprecate_eof {
            self.read_ok_packet()?;
        }
        Ok(())
    }

    /// Returns the next row of the current result, or the packet that ended it.
    #[inline]
    pub(super) fn read_row(&mut self) -> Result<std::result::Result<PayloadRange, OkPacket>> {
        let range = self.read_ok_packet()?;
        if !ends_rows(self.input.payload(range), self.deprecate_eof) {
            return Ok(Ok(range));
        }
        let end = rows_end(self.input.payload(range), self.deprecate_eof);
        let end = self.parsed(end)?;
        self.unread = if end.more_results() { Unread::Result } else { Unread::Nothing };
        Ok(Err(end))
    }

    /// Reads to the end of the answer; returns the last OK, or the first error.
    pub(super) fn drain(&mut self) -> Result<OkPacket> {
        let mut last = OkPacket::default();
        loop {
            match self.unread {
                Unread::Nothing => return Ok(last),
                Unread::Broken => return Err(ClientError::Broken),
                Unread::Rows => {
                    if let Err(end) = self.read_row()? {
                        last = end;
                    }
                }
                Unread::Result => match self.read_head()? {
                    Answer::Columns(count) => self.read_columns(count, |_| {})?,
                    Answer::Ok(ok) => last = ok,
                    Answer::Err(_) => return Err(ClientError::UnexpectedAnswer { what: "a command" }),
                },
            }
        }
    }
}

/// The text becomes one line without control characters: it ends up in a terminal, and must look like nothing else.
pub(super) fn server_error(err: ErrPacket) -> ClientError {
    ClientError::Server { code: err.code, sqlstate: plain(&err.sqlstate), message: plain(&err.message) }
}

fn plain(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_whitespace() {
                ' '
            } else if c.is_control() {
                '?'
            } else {
                c
            }
        })
        .collect()
}
