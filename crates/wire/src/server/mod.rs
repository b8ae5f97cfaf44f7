//! The server's half of the protocol, without I/O: bytes of a client go in, logins and commands come out; answers go in,
//! bytes for the client come out.
//!
//! In: what a client sent, values to answer with. Out: typed views that borrow from its packets, and packets to send.
//! Never here: sockets, TLS, accounts, the meaning of a statement. Every writer takes the session's capabilities, where
//! the form of a packet depends on them.

mod answer;
mod command;
mod login;
mod row;
#[cfg(test)]
mod tests;

pub use answer::{ServerOk, SessionChange, SessionChanges, put_columns, put_err, put_ok, put_rows_end, put_text_rows};
pub use command::{BoundParams, ClientCommand, DumpFrom, Execute, ParamType, Query};
pub use login::{ClientLogin, ConnectAttributes, LoginRequest, TlsRequest, put_auth_switch, put_fast_auth_ok};
pub use row::{ColumnForm, put_binary_row, put_text_row};

use crate::Result;
use crate::packet::{self, PacketBuffer, PayloadRange};

/// Length of the nonce that a greeting carries.
pub const NONCE_LEN: usize = 20;

/// The server's end of a connection: bytes in, packets out, and the other way round.
///
/// Sequence ids are strict: a client that skips one, or does not begin a command with 0, is an error.
#[derive(Debug)]
pub struct ServerStream {
    input: PacketBuffer,
    out: Vec<u8>,
    sequence: u8,
}

impl ServerStream {
    /// The end of a new connection, which refuses packets above `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> ServerStream {
        ServerStream { input: PacketBuffer::strict(limit), out: Vec::new(), sequence: 0 }
    }

    /// Room for the next read; tell [`filled`](Self::filled) how much of it was used.
    pub fn spare(&mut self) -> &mut [u8] {
        self.input.spare()
    }

    /// `len` bytes of [`spare`](Self::spare) now hold what the client sent.
    pub fn filled(&mut self, len: usize) {
        self.input.filled(len);
    }

    /// A new command is awaited: its sequence ids begin at 0.
    pub fn await_command(&mut self) {
        self.input.expect_sequence(0);
    }

    /// The next whole packet, split ones joined, or None when more bytes must come first. Answers continue its sequence.
    ///
    /// # Errors
    /// A packet out of order or larger than the limit.
    pub fn receive(&mut self) -> Result<Option<PayloadRange>> {
        let taken = self.input.take()?;
        if taken.is_some() {
            self.sequence = self.input.sequence();
        }
        Ok(taken)
    }

    /// The bytes of a packet just received.
    #[must_use]
    pub fn payload(&self, range: PayloadRange) -> &[u8] {
        self.input.payload(range)
    }

    /// Adds one packet with what `put` writes, in as many frames as it needs. The client's next packet continues its
    /// sequence, unless it is a command.
    pub fn send<T>(&mut self, put: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let at = packet::start(&mut self.out);
        let result = put(&mut self.out);
        packet::finish(&mut self.out, at, &mut self.sequence);
        self.input.expect_sequence(self.sequence);
        result
    }

    /// As [`send`](Self::send) for what writes whole packets itself.
    pub fn send_packets<T>(&mut self, put: impl FnOnce(&mut Vec<u8>, &mut u8) -> T) -> T {
        let result = put(&mut self.out, &mut self.sequence);
        self.input.expect_sequence(self.sequence);
        result
    }

    /// What is to be written to the client.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// All of [`output`](Self::output) was written. One huge answer does not keep its memory.
    pub fn sent(&mut self) {
        self.out.clear();
        self.out.shrink_to(8 * packet::READ_LEN);
    }
}
