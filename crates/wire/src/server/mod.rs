//! Server side of the protocol, without I/O: bytes of a client go in, logins and commands come out; answers go in,
//! bytes for the client come out.
//!
//! In: bytes that a client sent, values to answer with. Out: typed views that borrow from its packets, and packets to
//! send. Never here: sockets, TLS, accounts, the meaning of a statement. Writers take the session's capabilities if the
//! form of the packet depends on them.

mod answer;
mod command;
mod login;
mod row;
#[cfg(test)]
mod tests;

pub use answer::{ServerOk, SessionChange, SessionChanges, put_columns, put_err, put_ok, put_rows_end, put_text_rows};
pub use command::{BoundParams, ClientCommand, DumpFrom, Execute, ParamType, Query};
pub use login::{
    ChangeUser, ClientLogin, ConnectAttributes, LoginRequest, TlsRequest, put_auth_switch, put_fast_auth_ok,
    put_full_auth_request,
};
pub use row::{ColumnForm, put_binary_row, put_date_time, put_text_row, put_time};

use crate::Result;
use crate::packet::{self, PacketBuffer, PayloadRange};

/// Length in bytes of the nonce in a greeting.
pub const NONCE_LEN: usize = 20;

/// The server's end of a connection: received bytes become packets, and answers become bytes.
///
/// Sequence ids are strict: it is an error if a client skips one or does not start a command with 0.
#[derive(Debug)]
pub struct ServerStream {
    input: PacketBuffer,
    out: Vec<u8>,
    sequence: u8,
}

impl ServerStream {
    /// The end of a new connection; refuses packets above `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> ServerStream {
        ServerStream { input: PacketBuffer::strict(limit), out: Vec::new(), sequence: 0 }
    }

    /// Space for the next read; tell [`filled`](Self::filled) how many bytes were read.
    pub fn spare(&mut self) -> &mut [u8] {
        self.input.spare()
    }

    /// Records that `len` bytes of [`spare`](Self::spare) now contain data of the client.
    pub fn filled(&mut self, len: usize) {
        self.input.filled(len);
    }

    /// Expects a new command: its sequence ids start at 0.
    pub fn await_command(&mut self) {
        self.input.expect_sequence(0);
    }

    /// Returns the next whole packet, with its frames joined; None if more bytes must arrive first. Answers continue
    /// its sequence.
    ///
    /// # Errors
    /// A packet is out of order or larger than the limit.
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

    /// Adds one packet whose payload `put` writes, in as many frames as it needs. The client's next packet continues
    /// its sequence, unless it is a command.
    pub fn send<T>(&mut self, put: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let at = packet::start(&mut self.out);
        let result = put(&mut self.out);
        packet::finish(&mut self.out, at, &mut self.sequence);
        self.input.expect_sequence(self.sequence);
        result
    }

    /// As [`send`](Self::send), for a `put` that writes whole packets.
    pub fn send_packets<T>(&mut self, put: impl FnOnce(&mut Vec<u8>, &mut u8) -> T) -> T {
        let result = put(&mut self.out, &mut self.sequence);
        self.input.expect_sequence(self.sequence);
        result
    }

    /// Bytes to be written to the client.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// Records that all of [`output`](Self::output) was written. The memory of one huge answer is released.
    pub fn sent(&mut self) {
        self.out.clear();
        self.out.shrink_to(8 * packet::READ_LEN);
    }
}
