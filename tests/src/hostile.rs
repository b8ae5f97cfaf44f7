//! A source that answers dumps with what a test makes of them; everything else is a real server's answer.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use binlog::event_type;

/// Command byte of COM_BINLOG_DUMP_GTID.
const DUMP_GTID: u8 = 0x1e;

/// A packet of a dump: its payload, and what is added to its sequence id.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The payload: a zero and an event, or an error.
    pub payload: Vec<u8>,
    /// Added to the right sequence id.
    pub skips: u8,
}

impl Packet {
    /// An error (MySQL's protocol, ERR_Packet).
    #[must_use]
    pub fn error(code: u16, message: &str) -> Packet {
        Packet { payload: [&[0xff], &code.to_le_bytes()[..], b"#HY000", message.as_bytes()].concat(), skips: 0 }
    }

    /// A packet with an event.
    #[must_use]
    pub fn event(event: &[u8]) -> Packet {
        Packet { payload: [&[0], event].concat(), skips: 0 }
    }
}

/// What becomes of a dump's events.
pub type Change = Box<dyn FnOnce(Vec<Vec<u8>>) -> Vec<Packet> + Send>;

/// What becomes of the events of every dump.
type ChangeAll = Arc<dyn Fn(Vec<Vec<u8>>) -> Vec<Packet> + Send + Sync>;

/// Listens until dropped.
pub struct HostileSource {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server_port: u16,
    /// Type of the event that completes what a changed dump takes from the server, and how many of them.
    until: (u8, usize),
    change: Mutex<Option<Change>>,
    change_all: Mutex<Option<ChangeAll>>,
    changed: AtomicU64,
    ended: AtomicBool,
    dumps: Mutex<Vec<TcpStream>>,
}

impl HostileSource {
    /// Stands before a server on this machine. A changed dump has the server's events up to the `count`-th XID.
    #[must_use]
    pub fn start(server_port: u16, count: usize) -> HostileSource {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            server_port,
            until: (event_type::XID, count),
            change: Mutex::default(),
            change_all: Mutex::default(),
            changed: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            dumps: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.ended.load(SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || shared.connection(client));
            }
        });
        HostileSource { port, shared }
    }

    /// Address for a replica, without TLS.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://repl@127.0.0.1:{}/?ssl-mode=DISABLED", self.port)
    }

    /// Changes the next dump; those after it are the server's own.
    pub fn change_next(&self, change: Change) {
        *self.shared.change.lock().unwrap() = Some(change);
    }

    /// Changes every dump from the next one on.
    pub fn change_all(&self, change: impl Fn(Vec<Vec<u8>>) -> Vec<Packet> + Send + Sync + 'static) {
        *self.shared.change_all.lock().unwrap() = Some(Arc::new(change));
    }

    /// Ends the dumps that run.
    pub fn cut(&self) {
        for dump in self.shared.dumps.lock().unwrap().drain(..) {
            let _ = dump.shutdown(Shutdown::Both);
        }
    }

    /// Number of dumps that were changed and sent.
    #[must_use]
    pub fn changed(&self) -> u64 {
        self.shared.changed.load(SeqCst)
    }
}

impl Drop for HostileSource {
    fn drop(&mut self) {
        self.shared.ended.store(true, SeqCst);
        self.cut();
        // Wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn connection(self: Arc<Self>, mut client: TcpStream) {
        let Ok(mut server) = TcpStream::connect(("127.0.0.1", self.server_port)) else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (mut answers, mut out) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let change: Arc<Mutex<Option<Change>>> = Arc::default();
        let own = (Arc::clone(&self), Arc::clone(&change));
        std::thread::spawn(move || {
            let (shared, change) = own;
            let mut buffer = [0; 16 << 10];
            while let Ok(read @ 1..) = answers.read(&mut buffer) {
                let mut bytes = buffer[..read].to_vec();
                if let Some(change) = change.lock().unwrap().take() {
                    shared.changed_dump(change, bytes, &mut answers, &mut out);
                    break;
                }
                if out.write_all(&bytes).is_err() {
                    break;
                }
                bytes.clear();
            }
            let _ = (answers.shutdown(Shutdown::Both), out.shutdown(Shutdown::Both));
        });
        let mut buffer = [0; 16 << 10];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            if buffer[..read].get(3..5) == Some(&[0, DUMP_GTID]) {
                self.dumps.lock().unwrap().push(client.try_clone().unwrap());
                *change.lock().unwrap() = self.next_change();
            }
            if server.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
    }

    fn next_change(&self) -> Option<Change> {
        let once = self.change.lock().unwrap().take();
        once.or_else(|| {
            let all = self.change_all.lock().unwrap().clone()?;
            Some(Box::new(move |events| all(events)))
        })
    }

    /// Takes the server's dump, which begins with `bytes`, and sends what is made of it. Says nothing more then.
    fn changed_dump(&self, change: Change, mut bytes: Vec<u8>, server: &mut TcpStream, client: &mut TcpStream) {
        let mut events = Vec::new();
        let mut buffer = [0; 16 << 10];
        let complete = |events: &[Vec<u8>]| {
            events.iter().filter(|event| event.get(4) == Some(&self.until.0)).count() >= self.until.1
        };
        while !complete(&events) {
            while bytes.len() < 4 || bytes.len() < 4 + packet_len(&bytes) {
                match server.read(&mut buffer) {
                    Ok(read @ 1..) => bytes.extend_from_slice(&buffer[..read]),
                    _ => return,
                }
            }
            let rest = bytes.split_off(4 + packet_len(&bytes));
            events.push(bytes[5..].to_vec());
            bytes = rest;
        }
        let mut sequence = 1u8;
        for Packet { payload, skips } in change(events) {
            let len = u32::try_from(payload.len()).unwrap().to_le_bytes();
            let head = [len[0], len[1], len[2], sequence.wrapping_add(skips)];
            if client.write_all(&[&head[..], &payload].concat()).is_err() {
                break;
            }
            sequence = sequence.wrapping_add(1);
        }
        self.changed.fetch_add(1, SeqCst);
        // Until the replica has had enough.
        while let Ok(1..) = server.read(&mut buffer) {}
    }
}

fn packet_len(bytes: &[u8]) -> usize {
    usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16
}
