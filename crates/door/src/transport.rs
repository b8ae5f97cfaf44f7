//! A non-blocking socket, with or without TLS.
//!
//! In: a socket, later a TLS connection. Out: bytes of the client, and whether bytes for it were taken. Never here: the
//! work of a handshake, which the helper does.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use client::records::{arrived, read_records, send_records, taken, write_records};
use rustls::{ProtocolVersion, ServerConnection};
use session::Encryption;

/// Plain bytes that rustls may hold encrypted, in bytes: one record. They are not counted, and hundreds of clients may
/// leave them unread.
const TLS_BUFFER_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&mut &*socket).read(buf),
            Socket::Unix(socket) => (&mut &*socket).read(buf),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&mut &*socket).write(buf),
            Socket::Unix(socket) => (&mut &*socket).write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// OpenSSL's name of a cipher suite, as MySQL's status shows it, from the name that rustls has for it.
fn cipher_name(suite: &str) -> String {
    if let Some(rest) = suite.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let name = suite.trim_start_matches("TLS_").replace("WITH_", "").replace("AES_", "AES");
    let name = if name.contains("CHACHA20") { name.trim_end_matches("_SHA256") } else { &name };
    name.replace('_', "-")
}

/// Encryption of a connection.
enum Tls {
    Off,
    On(Box<ServerConnection>),
    /// The helper has it.
    Away,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The client has closed.
    Closed,
    /// Bytes of a handshake, which the helper must process: see [`Transport::take_handshake`].
    Handshake,
}

impl From<client::Arrived> for Arrived {
    fn from(read: client::Arrived) -> Arrived {
        match read {
            client::Arrived::Bytes(len) => Arrived::Bytes(len),
            client::Arrived::Nothing => Arrived::Nothing,
            client::Arrived::Closed => Arrived::Closed,
        }
    }
}

pub(crate) struct Transport {
    socket: Socket,
    tls: Tls,
    /// Bytes that were read before TLS began and belong to it.
    early: Vec<u8>,
    /// Bytes of a handshake that is not done: rustls holds 64 KiB of it until a message is whole.
    of_handshake: usize,
}

impl Transport {
    pub(crate) fn new(socket: Socket) -> Transport {
        Transport { socket, tls: Tls::Off, early: Vec::new(), of_handshake: 0 }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Memory that a handshake holds, in bytes, at most.
    pub(crate) fn memory(&self) -> usize {
        self.early.capacity() + self.of_handshake
    }

    pub(crate) fn has_tls(&self) -> bool {
        !matches!(self.tls, Tls::Off)
    }

    /// True if the client gave a certificate.
    pub(crate) fn has_certificate(&self) -> bool {
        matches!(&self.tls, Tls::On(tls) if tls.peer_certificates().is_some_and(|chain| !chain.is_empty()))
    }

    /// How it is encrypted, once the handshake is done; None without TLS.
    pub(crate) fn encryption(&self) -> Option<Encryption> {
        let Tls::On(tls) = &self.tls else { return None };
        let version = if tls.protocol_version()? == ProtocolVersion::TLSv1_3 { "TLSv1.3" } else { "TLSv1.2" };
        let suite = tls.negotiated_cipher_suite()?.suite();
        Some(Encryption { version, cipher: cipher_name(suite.as_str()?) })
    }

    /// Begins TLS; `early` are bytes of the client that were read already.
    pub(crate) fn start_tls(&mut self, mut tls: Box<ServerConnection>, early: Vec<u8>) {
        tls.set_buffer_limit(Some(TLS_BUFFER_BYTES));
        self.tls = Tls::On(tls);
        self.early = early;
    }

    /// The TLS connection for the helper.
    pub(crate) fn take_handshake(&mut self) -> Option<Box<ServerConnection>> {
        match std::mem::replace(&mut self.tls, Tls::Away) {
            Tls::On(tls) => Some(tls),
            other => {
                self.tls = other;
                None
            }
        }
    }

    /// The TLS connection comes back.
    pub(crate) fn return_handshake(&mut self, tls: Box<ServerConnection>) {
        self.tls = Tls::On(tls);
    }

    /// Reads bytes of the client.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> io::Result<Arrived> {
        match &mut self.tls {
            Tls::Off => Ok(arrived((&self.socket).read(buf))?.into()),
            Tls::Away => Ok(Arrived::Nothing),
            Tls::On(tls) => loop {
                match tls.reader().read(buf) {
                    Ok(0) => return Ok(Arrived::Closed),
                    Ok(len) => return Ok(Arrived::Bytes(len)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Arrived::Closed),
                    Err(error) => return Err(error),
                }
                match read_records(tls, &mut &self.socket, &mut self.early)?.into() {
                    Arrived::Bytes(len) if tls.is_handshaking() => {
                        self.of_handshake += len;
                        return Ok(Arrived::Handshake);
                    }
                    Arrived::Bytes(_) => {
                        self.of_handshake = 0;
                        tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                    }
                    other => return Ok(other),
                }
            },
        }
    }

    /// Takes as much of `bytes` as the socket, or rustls' buffer, has room for.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Tls::Off => taken((&self.socket).write(bytes)),
            Tls::Away => Ok(0),
            Tls::On(tls) => write_records(tls, &mut &self.socket, bytes),
        }
    }

    /// Sends what rustls holds; false if some is left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            Tls::On(tls) => send_records(tls, &mut &self.socket),
            Tls::Off | Tls::Away => Ok(true),
        }
    }

    /// Tells the client that nothing follows.
    pub(crate) fn close(&mut self) {
        if let Tls::On(tls) = &mut self.tls {
            tls.send_close_notify();
            // Whether it arrives is not awaited.
            let _ = send_records(tls, &mut &self.socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cipher_name;

    #[test]
    fn ciphers_have_the_names_that_openssl_gives_them() {
        for (ours, theirs) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
            ("TLS13_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
            ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
            ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
            ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ] {
            assert_eq!(cipher_name(ours), theirs);
        }
    }
}
