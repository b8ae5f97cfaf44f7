//! Commands of another client, passed on as they are, and their answers packet by packet.

use wire::command;
use wire::read::Reader;
use wire::response::{OkPacket, PrepareOk, ends_rows, is_err, rows_end, status};

use super::{Connection, Unread};
use crate::{ClientError, Result};

/// Takes each payload of an answer.
type Each<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

impl Connection {
    /// Capabilities that the server offers.
    #[must_use]
    pub fn offered(&self) -> u32 {
        self.greeting.capabilities
    }

    /// Sends a command's payload and hands on each payload of its answer, whatever their number; some commands have
    /// none. The client that sent it has this connection's capabilities of a session, see
    /// [`ConnectOptions::on_behalf`](crate::ConnectOptions::on_behalf).
    ///
    /// # Errors
    /// The connection fails, the answer breaks the protocol, or `each` fails; the connection is broken then. An error
    /// of the server is a payload.
    pub fn relay(&mut self, payload: &[u8], each: Each<'_>) -> Result<()> {
        let at = self.begin()?;
        self.output.extend_from_slice(payload);
        self.send(at)?;
        let code = payload.first().copied().unwrap_or_default();
        if matches!(code, command::QUIT | command::STMT_CLOSE | command::STMT_SEND_LONG_DATA) {
            return Ok(());
        }
        let read = self.relay_answer(code, each);
        if read.is_err() {
            self.unread = Unread::Broken;
        }
        read
    }

    fn relay_answer(&mut self, code: u8, each: Each<'_>) -> Result<()> {
        while self.relay_result(code, each)? {}
        Ok(())
    }

    /// Reads a packet, hands it on and returns what `seen` makes of it.
    fn relay_packet<T>(&mut self, each: Each<'_>, seen: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let range = self.receive()?;
        let payload = self.input.payload(range);
        each(payload)?;
        seen(payload)
    }

    /// Hands on one result; true if another follows.
    fn relay_result(&mut self, code: u8, each: Each<'_>) -> Result<bool> {
        let deprecated = self.deprecate_eof;
        match code {
            command::STMT_PREPARE => {
                let counts = self.relay_packet(each, |first| {
                    if is_err(first) {
                        return Ok([0, 0]);
                    }
                    let ok = PrepareOk::parse(first)?;
                    Ok([ok.parameters, ok.columns])
                })?;
                for count in counts {
                    let ends = u32::from(count > 0 && !deprecated);
                    for _ in 0..u32::from(count) + ends {
                        self.relay_packet(each, |_| Ok(()))?;
                    }
                }
                return Ok(false);
            }
            command::STMT_FETCH => return self.relay_rows(each),
            command::FIELD_LIST => {
                while !self.relay_packet(each, |packet| Ok(is_err(packet) || ends_rows(packet, false)))? {}
                return Ok(false);
            }
            command::QUERY | command::STMT_EXECUTE => {}
            // One packet: OK, EOF, an error, or a line of text.
            _ => return self.relay_packet(each, |_| Ok(false)),
        }
        let columns = self.relay_packet(each, |first| match first.first() {
            Some(0xff) => Ok(Err(false)),
            Some(0x00) => Ok(Err(OkPacket::parse(first)?.more_results())),
            Some(0xfb) => Err(ClientError::UnexpectedAnswer { what: "a statement: it asks for a file" }),
            _ => {
                let mut reader = Reader::new(first);
                let count = reader.lenenc("number of columns")?;
                // With optional metadata a byte says whether definitions follow.
                Ok(Ok(if reader.rest() == [0] { 0 } else { count }))
            }
        })?;
        let columns = match columns {
            Ok(columns) => columns,
            Err(more) => return Ok(more),
        };
        for _ in 0..columns {
            self.relay_packet(each, |_| Ok(()))?;
        }
        if !deprecated {
            let opens_cursor = self.relay_packet(each, |end| {
                let [cursor, _] = status::CURSOR_EXISTS.to_le_bytes();
                Ok(end.get(3).is_some_and(|bits| bits & cursor != 0))
            })?;
            if opens_cursor && code == command::STMT_EXECUTE {
                return Ok(false);
            }
        }
        self.relay_rows(each)
    }

    /// Hands on rows up to their end; true if another result follows.
    fn relay_rows(&mut self, each: Each<'_>) -> Result<bool> {
        let deprecated = self.deprecate_eof;
        loop {
            let end = self.relay_packet(each, |packet| {
                if is_err(packet) {
                    return Ok(Some(false));
                }
                if !ends_rows(packet, deprecated) {
                    return Ok(None);
                }
                Ok(Some(rows_end(packet, deprecated)?.more_results()))
            })?;
            if let Some(more) = end {
                return Ok(more);
            }
        }
    }
}
