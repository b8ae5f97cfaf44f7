//! Commands of another client, passed on as they are, and their answers packet by packet.

use super::{Connection, Unread};
use crate::Result;
use crate::steps::AnswerSteps;

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
        self.relay_answer(payload.first().copied().unwrap_or_default(), each)
    }

    /// Hands on the answer to a command that was sent already, by its code.
    ///
    /// # Errors
    /// The same as those of [`relay`](Connection::relay).
    pub fn relay_answer(&mut self, code: u8, each: Each<'_>) -> Result<()> {
        let mut steps = AnswerSteps::new(code, self.deprecate_eof);
        let mut read = || {
            while !steps.is_over() {
                let range = self.receive()?;
                let payload = self.input.payload(range);
                each(payload)?;
                steps.packet(payload)?;
            }
            Ok(())
        };
        let read = read();
        if read.is_err() {
            self.unread = Unread::Broken;
        }
        read
    }
}
