//! A connection that is logged in, for a caller with an event loop: its bytes, without TLS, as far as they are there.
//!
//! In: a [`Connection`] between two commands. Out: bytes of the server's packets; bytes taken for it; the connection
//! again. Never here: a wait, packets, a login.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use wire::handshake::Greeting;

use crate::records::{Arrived, arrived, read_records, send_records, taken, write_records};
use crate::stream::{Socket, Stream};
use crate::tls::Tls;
use crate::{ClientError, Connection, Result};

/// Plain bytes that rustls may hold encrypted, in bytes: one record.
const TLS_BUFFER_BYTES: usize = 16 << 10;

/// A connection that never waits.
pub struct NonBlocking {
    socket: Socket,
    tls: Option<Tls>,
    greeting: Greeting,
    deprecate_eof: bool,
}

impl std::fmt::Debug for NonBlocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NonBlocking").field("id", &self.id()).field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl AsFd for NonBlocking {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Connection {
    /// Gives up the blocking use of the connection.
    ///
    /// # Errors
    /// An answer is not read to its end, or the server has spoken since.
    pub fn into_nonblocking(self) -> Result<NonBlocking> {
        if !self.is_between_commands() {
            return Err(ClientError::Broken);
        }
        let (stream, greeting, deprecate_eof) = self.into_parts();
        let (socket, mut tls) = stream.into_parts()?;
        if let Some(tls) = &mut tls {
            tls.session.set_buffer_limit(Some(TLS_BUFFER_BYTES));
        }
        socket.set_nonblocking(true).map_err(|error| ClientError::Io { error })?;
        Ok(NonBlocking { socket, tls, greeting, deprecate_eof })
    }
}

impl NonBlocking {
    /// The connection's number at the server.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.greeting.connection_id
    }

    /// Makes it a blocking connection again, each of whose reads and writes has this time. Nothing but whole commands
    /// was written, and their answers were read; `is_asked`: but for the last one.
    ///
    /// # Errors
    /// The socket has failed.
    pub fn into_blocking(self, timeout: Duration, is_asked: bool) -> Result<Connection> {
        self.socket.set_nonblocking(false).map_err(|error| ClientError::Io { error })?;
        let stream = Stream::of_parts(self.socket, self.tls);
        stream.set_timeout(Some(timeout))?;
        Ok(Connection::of_parts((stream, self.greeting, self.deprecate_eof), is_asked))
    }

    /// Reads bytes, as far as they have come.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<Arrived> {
        let Some(tls) = &mut self.tls else { return arrived(self.socket.read(buf)) };
        loop {
            match tls.session.reader().read(buf) {
                Ok(0) => return Ok(Arrived::Closed),
                Ok(len) => return Ok(Arrived::Bytes(len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Arrived::Closed),
                Err(error) => return Err(error),
            }
            let read = read_records(&mut tls.session, &mut self.socket, &mut tls.early)?;
            if !matches!(read, Arrived::Bytes(_)) {
                return Ok(read);
            }
            tls.session.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }

    /// Takes as many bytes as there is room for.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return taken(self.socket.write(bytes)) };
        write_records(&mut tls.session, &mut self.socket, bytes)
    }

    /// True if bytes were taken that are not sent.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.session.wants_write())
    }

    /// Sends what was taken; false if some is left.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn flush(&mut self) -> io::Result<bool> {
        self.tls.as_mut().map_or(Ok(true), |tls| send_records(&mut tls.session, &mut self.socket))
    }
}
