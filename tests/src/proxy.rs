//! A TCP proxy between replica and server that cuts connections, holds and delays what passes, and falls silent.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Command byte of COM_BINLOG_DUMP_GTID.
const DUMP_GTID: u8 = 0x1e;
const NEVER: i64 = i64::MAX;

/// Listens until dropped.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server_port: u16,
    ended: AtomicBool,
    /// Bytes of dump streams still let through; that connection is then cut, once.
    let_through: AtomicI64,
    dump_bytes: AtomicU64,
    cuts: AtomicU64,
    /// True to refuse all connections.
    closed: AtomicBool,
    /// True to refuse all connections once a dump was asked for.
    closes_at_dump: AtomicBool,
    /// True to pass nothing on and say nothing.
    silent: AtomicBool,
    /// Falls silent once a client says this.
    silent_at: Mutex<Option<&'static str>>,
    /// Bytes of dump streams that may pass before they wait.
    held_at: AtomicU64,
    /// Milliseconds that all bytes take in each direction.
    delay_ms: AtomicU64,
    /// The clients' ends of all connections.
    clients: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy to a server on this machine.
    #[must_use]
    pub fn start(server_port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            server_port,
            ended: AtomicBool::new(false),
            let_through: AtomicI64::new(NEVER),
            dump_bytes: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            closes_at_dump: AtomicBool::new(false),
            silent: AtomicBool::new(false),
            silent_at: Mutex::default(),
            held_at: AtomicU64::new(u64::MAX),
            delay_ms: AtomicU64::new(0),
            clients: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.ended.load(SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                if accepting.closed.load(SeqCst) {
                    let _ = client.shutdown(Shutdown::Both);
                    continue;
                }
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || shared.connection(client));
            }
        });
        Proxy { port, shared }
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Address for a replica, without TLS, so that a byte here is a byte of the stream.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://repl@127.0.0.1:{}/?ssl-mode=DISABLED", self.port)
    }

    /// Cuts the dump stream after this many more bytes.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.let_through.store(i64::try_from(bytes).unwrap(), SeqCst);
    }

    /// Cuts every connection now; others may be made.
    pub fn cut(&self) {
        let clients = std::mem::take(&mut *self.shared.clients.lock().unwrap_or_else(PoisonError::into_inner));
        // One that has ended cannot be shut down.
        clients.iter().for_each(|client| drop(client.shutdown(Shutdown::Both)));
    }

    /// Holds back what passes in either direction for this long.
    pub fn delay(&self, delay: Duration) {
        self.shared.delay_ms.store(u64::try_from(delay.as_millis()).unwrap(), SeqCst);
    }

    /// Makes dump streams wait after this many more bytes; other connections continue. None ends the wait.
    pub fn hold_dumps(&self, after_bytes: Option<u64>) {
        let at = after_bytes.map_or(u64::MAX, |bytes| self.dump_bytes() + bytes);
        self.shared.held_at.store(at, SeqCst);
    }

    /// Bytes of dump streams that have passed.
    #[must_use]
    pub fn dump_bytes(&self) -> u64 {
        self.shared.dump_bytes.load(SeqCst)
    }

    /// Number of times a stream was cut.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(SeqCst)
    }

    /// Starts or stops holding back everything the server says, as if a cable were cut.
    pub fn silence(&self, silent: bool) {
        self.shared.silent.store(silent, SeqCst);
    }

    /// Falls silent once a client says this, on a connection without TLS. The server hears it.
    pub fn silence_at(&self, text: &'static str) {
        *self.shared.silent_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// Refuses all connections once a replica asks for a dump, which continues.
    pub fn close_at_dump(&self) {
        self.shared.closes_at_dump.store(true, SeqCst);
    }

    /// Starts or stops refusing all connections.
    pub fn close(&self, closed: bool) {
        self.shared.closed.store(closed, SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn connection(self: Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.server_port)) else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let is_dump = Arc::new(AtomicBool::new(false));
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client.try_clone().unwrap());
        let (dump, upstream) = (Arc::clone(&is_dump), Arc::clone(&self));
        std::thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(read @ 1..) = from_client.read(&mut buffer) {
                // Without a server id it is a look at a file's beginning.
                let is_replica = buffer[..read].get(7..11).is_some_and(|server_id| server_id != [0; 4]);
                if buffer[..read].get(3..5) == Some(&[0, DUMP_GTID]) && is_replica {
                    dump.store(true, SeqCst);
                    upstream.closed.fetch_or(upstream.closes_at_dump.load(SeqCst), SeqCst);
                }
                upstream.fall_silent_at(&buffer[..read]);
                upstream.wait_as_delayed();
                if to_server.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            let _ = (to_server.shutdown(Shutdown::Both), from_client.shutdown(Shutdown::Both));
        });
        self.downstream(server, client, &is_dump);
    }

    fn fall_silent_at(&self, said: &[u8]) {
        let mut at = self.silent_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_said = |text: &&str| said.windows(text.len()).any(|part| part == text.as_bytes());
        if at.as_ref().is_some_and(is_said) {
            *at = None;
            self.silent.store(true, SeqCst);
        }
    }

    fn wait_as_delayed(&self) {
        let delay_ms = self.delay_ms.load(SeqCst);
        if delay_ms > 0 {
            std::thread::sleep(Duration::from_millis(delay_ms));
        }
    }

    fn downstream(&self, mut server: TcpStream, mut client: TcpStream, is_dump: &AtomicBool) {
        let mut buffer = [0; 16 << 10];
        while let Ok(read @ 1..) = server.read(&mut buffer) {
            self.wait_as_delayed();
            while self.silent.load(SeqCst) && !self.ended.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(10));
            }
            let waits =
                || is_dump.load(SeqCst) && self.dump_bytes.load(SeqCst) + read as u64 > self.held_at.load(SeqCst);
            while waits() && !self.ended.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(10));
            }
            let mut pass = read;
            let mut cut = false;
            if is_dump.load(SeqCst) {
                let left = self.let_through.load(SeqCst);
                if left != NEVER {
                    cut = left <= read as i64;
                    pass = read.min(usize::try_from(left).unwrap());
                    self.let_through.store(if cut { NEVER } else { left - read as i64 }, SeqCst);
                }
                self.dump_bytes.fetch_add(pass as u64, SeqCst);
            }
            if client.write_all(&buffer[..pass]).is_err() || cut {
                self.cuts.fetch_add(u64::from(cut), SeqCst);
                break;
            }
        }
        let _ = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
    }
}
