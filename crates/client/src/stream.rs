//! A byte stream to a server: TCP or unix socket, clear text or TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

use crate::tls::{Tls, TlsStream};
use crate::{ClientError, ConnectOptions, Result};

/// Since when the peer is waited for.
#[derive(Debug, Default)]
struct Waiting {
    /// When the read began that no byte has ended yet, ns by [`clock_ns`]; 0 while nothing is read.
    since_ns: AtomicU64,
}

impl Waiting {
    #[inline]
    fn begin(&self) {
        // A read that timed out is taken up again by the next one.
        if self.since_ns.load(Ordering::Relaxed) == 0 {
            self.since_ns.store(clock_ns(), Ordering::Relaxed);
        }
    }

    #[inline]
    fn end(&self) {
        self.since_ns.store(0, Ordering::Relaxed);
    }

    fn time(&self) -> Duration {
        match self.since_ns.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since_ns => Duration::from_nanos(clock_ns().saturating_sub(since_ns)),
        }
    }
}

/// Time since the first call, ns; never 0.
fn clock_ns() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    u64::try_from(FIRST.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Socket {
    end: End,
    waiting: Arc<Waiting>,
}

#[derive(Debug)]
enum End {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl From<End> for Socket {
    fn from(end: End) -> Socket {
        Socket { end, waiting: Arc::default() }
    }
}

impl Socket {
    pub(crate) fn connect(options: &ConnectOptions) -> Result<Socket> {
        let failed = |error| ClientError::Connect { address: options.place(), error };
        if let Some(path) = &options.socket {
            return UnixStream::connect(path).map(|socket| End::Unix(socket).into()).map_err(failed);
        }
        let resolve_error = |error| ClientError::Resolve { host: options.host.clone(), error };
        let addresses = (options.host.as_str(), options.port).to_socket_addrs().map_err(resolve_error)?;
        let deadline = Instant::now() + options.connect_timeout;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
        for address in addresses {
            // A zero timeout is an error to connect_timeout.
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            match TcpStream::connect_timeout(&address, left) {
                Ok(socket) => {
                    let _ = socket.set_nodelay(true);
                    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60));
                    let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
                    return Ok(End::Tcp(socket).into());
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        // The operating system takes a zero timeout as "none", the standard library as an error.
        let timeout = timeout.map(|timeout| timeout.max(Duration::from_millis(1)));
        match &self.end {
            End::Tcp(socket) => socket.set_read_timeout(timeout).and(socket.set_write_timeout(timeout)),
            End::Unix(socket) => socket.set_read_timeout(timeout).and(socket.set_write_timeout(timeout)),
        }
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match &self.end {
            End::Tcp(socket) => socket.set_nonblocking(nonblocking),
            End::Unix(socket) => socket.set_nonblocking(nonblocking),
        }
    }

    fn try_clone(&self) -> io::Result<Socket> {
        let end = match &self.end {
            End::Tcp(socket) => End::Tcp(socket.try_clone()?),
            End::Unix(socket) => End::Unix(socket.try_clone()?),
        };
        Ok(Socket { end, waiting: Arc::clone(&self.waiting) })
    }

    fn shutdown(&self) -> io::Result<()> {
        match &self.end {
            End::Tcp(socket) => socket.shutdown(Shutdown::Both),
            End::Unix(socket) => socket.shutdown(Shutdown::Both),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.end {
            End::Tcp(socket) => socket.as_fd(),
            End::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Read for Socket {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.waiting.begin();
        let read = match &mut self.end {
            End::Tcp(socket) => socket.read(buffer),
            End::Unix(socket) => socket.read(buffer),
        };
        if !read
            .as_ref()
            .is_err_and(|error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
        {
            self.waiting.end();
        }
        read
    }
}

impl Write for Socket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.end {
            End::Tcp(socket) => socket.write(bytes),
            End::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends a blocked read from another thread: the reader gets [`ClientError::Interrupted`]. Says how long it is blocked.
#[derive(Debug, Clone)]
pub struct Interrupter {
    socket: Arc<Socket>,
    interrupted: Arc<AtomicBool>,
}

impl Interrupter {
    /// Shuts down both directions of the connection. May be called more than once.
    pub fn shutdown(&self) {
        self.interrupted.store(true, Ordering::Release);
        // Fails only if the connection is already gone.
        let _ = self.socket.shutdown();
    }

    /// How long the reader has waited for a byte; zero while it does not read. A read that timed out counts on
    /// until the next one has ended.
    #[must_use]
    pub fn read_waits(&self) -> Duration {
        self.socket.waiting.time()
    }
}

enum Transport {
    Clear(Socket),
    Tls(Box<TlsStream>),
}

/// The stream of a connection.
pub(crate) struct Stream {
    transport: Option<Transport>,
    interrupted: Arc<AtomicBool>,
}

impl Stream {
    pub(crate) fn new(socket: Socket) -> Self {
        Stream { transport: Some(Transport::Clear(socket)), interrupted: Arc::default() }
    }

    pub(crate) fn of_parts(socket: Socket, tls: Option<Tls>) -> Self {
        let transport = match tls {
            None => Transport::Clear(socket),
            Some(tls) => Transport::Tls(Box::new(TlsStream::of_parts(socket, tls))),
        };
        Stream { transport: Some(transport), interrupted: Arc::default() }
    }

    /// Performs the TLS handshake over the clear-text stream.
    pub(crate) fn start_tls(&mut self, options: &ConnectOptions) -> Result<()> {
        match self.transport.take() {
            Some(Transport::Clear(socket)) => {
                self.transport = Some(Transport::Tls(Box::new(TlsStream::connect(socket, options)?)));
                Ok(())
            }
            _ => Err(ClientError::Broken),
        }
    }

    pub(crate) fn into_parts(self) -> Result<(Socket, Option<Tls>)> {
        match self.transport.ok_or(ClientError::Broken)? {
            Transport::Clear(socket) => Ok((socket, None)),
            Transport::Tls(tls) => {
                let (socket, tls) = tls.into_parts();
                Ok((socket, Some(tls)))
            }
        }
    }

    fn socket(&self) -> Result<&Socket> {
        match &self.transport {
            Some(Transport::Clear(socket)) => Ok(socket),
            Some(Transport::Tls(tls)) => Ok(tls.socket()),
            None => Err(ClientError::Broken),
        }
    }

    pub(crate) fn tls_description(&self) -> Option<String> {
        match &self.transport {
            Some(Transport::Tls(tls)) => Some(tls.description()),
            _ => None,
        }
    }

    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        self.socket()?.set_timeout(timeout).map_err(|error| ClientError::Io { error })
    }

    pub(crate) fn interrupter(&self) -> Result<Interrupter> {
        let socket = self.socket()?.try_clone().map_err(|error| ClientError::Io { error })?;
        Ok(Interrupter { socket: Arc::new(socket), interrupted: Arc::clone(&self.interrupted) })
    }

    /// Reads at least one byte.
    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let read = match &mut self.transport {
                Some(Transport::Clear(socket)) => socket.read(buffer),
                Some(Transport::Tls(tls)) => tls.read(buffer),
                None => return Err(ClientError::Broken),
            };
            match read {
                Ok(0) if self.interrupted.load(Ordering::Acquire) => return Err(ClientError::Interrupted),
                Ok(0) => return Err(ClientError::Closed),
                Ok(len) => return Ok(len),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.io_error(error)),
            }
        }
    }

    /// Reads bytes that are already in memory (decrypted or not), without a system call; 0 if there are none.
    pub(crate) fn read_buffered(&mut self, buffer: &mut [u8]) -> usize {
        match &mut self.transport {
            Some(Transport::Tls(tls)) => tls.read_buffered(buffer),
            _ => 0,
        }
    }

    #[inline]
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match &mut self.transport {
            Some(Transport::Clear(socket)) => socket.write_all(bytes),
            Some(Transport::Tls(tls)) => tls.write_all(bytes),
            None => return Err(ClientError::Broken),
        };
        written.map_err(|error| self.io_error(error))
    }

    fn io_error(&self, error: io::Error) -> ClientError {
        if self.interrupted.load(Ordering::Acquire) {
            return ClientError::Interrupted;
        }
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::ReadTimeout,
            io::ErrorKind::UnexpectedEof => ClientError::Closed,
            _ => ClientError::Io { error },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_waits_from_its_begin_to_the_first_byte() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let options = ConnectOptions { host: "127.0.0.1".into(), port, ..ConnectOptions::default() };
        let mut stream = Stream::new(Socket::connect(&options).unwrap());
        let (mut peer, _) = listener.accept().unwrap();
        let interrupter = stream.interrupter().unwrap();
        assert_eq!(interrupter.read_waits(), Duration::ZERO, "nobody reads");
        stream.set_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut byte = [0];
        assert!(matches!(stream.read(&mut byte), Err(ClientError::ReadTimeout)));
        let first = interrupter.read_waits();
        assert!(first > Duration::ZERO);
        assert!(matches!(stream.read(&mut byte), Err(ClientError::ReadTimeout)));
        assert!(interrupter.read_waits() > first, "the second read continues the first");
        peer.write_all(b"x").unwrap();
        stream.set_timeout(None).unwrap();
        assert_eq!((stream.read(&mut byte).unwrap(), interrupter.read_waits()), (1, Duration::ZERO));
    }
}
