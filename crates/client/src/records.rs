//! Steps of a socket that does not wait, and of a TLS session over it, on either side.
//!
//! In: a socket, a session of rustls. Out: what was read or taken, nothing where it would wait. Never here: a
//! handshake's meaning, a buffer.

use std::io::{self, ErrorKind, Read, Write};

use rustls::ConnectionCommon;

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// So many bytes were put into the buffer.
    Bytes(usize),
    /// None are there now.
    Nothing,
    /// The peer has closed.
    Closed,
}

/// What a read from a socket found.
///
/// # Errors
/// The connection has failed.
pub fn arrived(read: io::Result<usize>) -> io::Result<Arrived> {
    match read {
        Ok(0) => Ok(Arrived::Closed),
        Ok(len) => Ok(Arrived::Bytes(len)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(Arrived::Nothing),
        Err(error) => Err(error),
    }
}

/// Bytes that a socket took.
///
/// # Errors
/// The connection has failed.
pub fn taken(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        other => other,
    }
}

/// Bytes for rustls: those that came early, then the socket's.
///
/// # Errors
/// The connection has failed.
pub fn read_records<T>(
    tls: &mut ConnectionCommon<T>,
    socket: &mut dyn Read,
    early: &mut Vec<u8>,
) -> io::Result<Arrived> {
    if early.is_empty() {
        return arrived(tls.read_tls(socket));
    }
    let len = tls.read_tls(&mut early.as_slice())?;
    early.drain(..len);
    if early.is_empty() {
        *early = Vec::new();
    }
    Ok(Arrived::Bytes(len))
}

/// Takes as many plain bytes as rustls' buffer and the socket have room for.
///
/// # Errors
/// The connection has failed.
pub fn write_records<T>(tls: &mut ConnectionCommon<T>, socket: &mut dyn Write, bytes: &[u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match tls.writer().write(rest)? {
            0 if !send_records(tls, socket)? => break,
            len => done += len,
        }
    }
    Ok(done)
}

/// Sends what rustls holds; false if the socket is full.
///
/// # Errors
/// The connection has failed.
pub fn send_records<T>(tls: &mut ConnectionCommon<T>, socket: &mut dyn Write) -> io::Result<bool> {
    while tls.wants_write() {
        if taken(tls.write_tls(socket))? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
