//! The port on which ProxySQL learns which transactions are visible here (`gtid_port` of its mysql_servers), so that it
//! sends a read to a replica that has what the reader wrote.
//!
//! In: what is visible. Out: lines: `ST=` with all intervals at first, then `I1=uuid:number` and `I2=number` (of the
//! last uuid) for each transaction after it has become visible (sysown/proxysql, lib/GTID_Server_Data.cpp). Never here:
//! a transaction before a reader can see it; a client that is waited for, or that keeps another address out.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use accounts::Origin;
use base::{GtidSet, Uuid};
use door::Gtids as _;
use replica::Failure;
use replica::log::{self, Code};

use crate::engine::Engine;
use crate::gtids::EngineGtids;
use crate::open_door::DoorSettings;

/// Connections at once. For one more, one of the network that has most of them is closed.
const CLIENTS_MAX: usize = 16;
/// Connections that any network may have: one with fewer counts as one with this number.
const NETWORK_SHARE: usize = CLIENTS_MAX / 4;
/// Connections accepted before clients are told again: a flood of them delays nobody for longer.
const ACCEPTS_AT_ONCE: usize = 16;
/// Time in which a client takes something of what it has not read.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// Interval at which what is visible is looked at, while there are clients.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Interval at which connections are accepted, while there are none.
const ACCEPT_EVERY: Duration = Duration::from_millis(50);
/// Transactions that are told one by one; of more, and at first, intervals.
const SINGLE_MAX: u64 = 10_000;

pub struct GtidPort {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl GtidPort {
    /// Opens the port, if there is to be one.
    ///
    /// # Errors
    /// It cannot be listened on.
    pub fn open(settings: &DoorSettings, engine: &Arc<Engine>) -> Result<Option<GtidPort>, Failure> {
        let Some(address) = settings.gtid_port else { return Ok(None) };
        let cannot = |error: io::Error| {
            Failure::error(format!("cannot listen for ProxySQL on {address}: {error}"))
                .with_hint("--gtid-port=PORT listens on another port")
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let own = listener.local_addr().map_err(cannot)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let server = Server {
            listener,
            gtids: EngineGtids(Arc::downgrade(engine)),
            clients: Vec::new(),
            stopping: Arc::clone(&stopping),
        };
        let thread =
            std::thread::Builder::new().name("gtid-port".into()).spawn(move || server.run()).map_err(cannot)?;
        log::write(Code::GtidsServed, "Clients", &format!("serving visible GTIDs to ProxySQL on {own}"));
        Ok(Some(GtidPort { stopping, thread: Some(thread) }))
    }
}

impl Drop for GtidPort {
    fn drop(&mut self) {
        self.stopping.store(true, SeqCst);
        // A thread that panicked has ended too.
        self.thread.take().map(JoinHandle::join);
    }
}

struct Server {
    listener: TcpListener,
    gtids: EngineGtids,
    clients: Vec<Client>,
    stopping: Arc<AtomicBool>,
}

struct Client {
    stream: TcpStream,
    origin: Origin,
    network: u128,
    told: Told,
    /// What could not be written yet. Nothing is added to it: what becomes visible meanwhile is told together.
    unread: Vec<u8>,
    /// When nothing was unread, or something was written, for the last time.
    took: Instant,
}

/// What a client has been told.
#[derive(Default)]
struct Told {
    set: Option<GtidSet>,
    /// The uuid that `I2=` stands for.
    last: Option<Uuid>,
}

impl Server {
    fn run(mut self) {
        while !self.stopping.load(SeqCst) {
            self.accept();
            if self.clients.is_empty() {
                std::thread::sleep(ACCEPT_EVERY);
                continue;
            }
            // While nothing may be read, nothing is told.
            let visible = self.gtids.visible().ok();
            let now = Instant::now();
            self.clients.retain_mut(|client| client.step(visible.as_ref(), now).is_ok());
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_AT_ONCE {
            let Ok((stream, peer)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let _ = stream.set_nodelay(true);
            if self.clients.len() >= CLIENTS_MAX {
                self.clients.remove(one_to_close(&self.clients));
            }
            self.clients.push(Client::new(stream, peer.ip(), Instant::now()));
        }
    }
}

/// Of the network that has most clients, and in it of the address: its oldest client, which the others may have
/// replaced. Where each address has one, the youngest: whoever has many addresses does not wash away who was there.
fn one_to_close(clients: &[Client]) -> usize {
    let count = |is_it: &dyn Fn(&&Client) -> bool| clients.iter().filter(is_it).count();
    let rank = |client: &Client| {
        let in_network = count(&|other| other.network == client.network).max(NETWORK_SHARE);
        (in_network, count(&|other| other.origin == client.origin))
    };
    let ranks: Vec<(usize, usize)> = clients.iter().map(rank).collect();
    let worst = ranks.iter().max().copied().unwrap_or_default();
    let has_several = worst.1 > 1;
    let at =
        if has_several { ranks.iter().position(|of| *of == worst) } else { ranks.iter().rposition(|of| *of == worst) };
    at.unwrap_or_default()
}

/// A /24 of IPv4 addresses, a /48 of IPv6.
fn network(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(ip) => u128::from(ip.to_bits() >> 8),
        IpAddr::V6(ip) => ip.to_bits() >> 80 << 80,
    }
}

impl Client {
    fn new(stream: TcpStream, ip: IpAddr, now: Instant) -> Client {
        let (origin, network) = (Origin::of(ip), network(ip));
        Client { stream, origin, network, told: Told::default(), unread: Vec::new(), took: now }
    }

    /// # Errors
    /// The connection is to be closed.
    fn step(&mut self, visible: Option<&GtidSet>, now: Instant) -> io::Result<()> {
        // A client says nothing; what it says is not listened to.
        match self.stream.read(&mut [0; 256]) {
            Ok(0) => return Err(ErrorKind::ConnectionAborted.into()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        if self.unread.is_empty() {
            self.took = now;
            if let Some(lines) = visible.and_then(|visible| self.told.lines(visible).transpose()) {
                self.unread = lines?.into_bytes();
            }
        }
        while !self.unread.is_empty() {
            match self.stream.write(&self.unread) {
                Ok(count) => {
                    drop(self.unread.drain(..count));
                    self.took = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if now.duration_since(self.took) > READ_WITHIN { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl Told {
    /// The lines that tell what has become visible; None if nothing has.
    ///
    /// # Errors
    /// What was told is not visible any more: the client has to begin anew.
    fn lines(&mut self, visible: &GtidSet) -> io::Result<Option<String>> {
        let Some(before) = &self.set else {
            self.set = Some(visible.clone());
            return Ok(Some(all_of(visible)));
        };
        if before == visible {
            return Ok(None);
        }
        if !before.is_subset_of(visible) {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let new = visible.subtract(before);
        self.set = Some(visible.clone());
        if new.count() > SINGLE_MAX {
            self.last = None;
            return Ok(Some(all_of(visible)));
        }
        let mut text = String::new();
        for (uuid, tag, interval) in new.intervals() {
            // ProxySQL knows no tags.
            if !tag.is_empty() {
                continue;
            }
            for number in interval.first..=interval.last {
                let _ = match self.last == Some(uuid) {
                    true => writeln!(text, "I2={number}"),
                    false => writeln!(text, "I1={}:{number}", uuid.to_string().replace('-', "")),
                };
                self.last = Some(uuid);
            }
        }
        Ok(if text.is_empty() { None } else { Some(text) })
    }
}

/// The line of a set, each interval with its uuid.
fn all_of(set: &GtidSet) -> String {
    let untagged = set.intervals().filter(|(_, tag, _)| tag.is_empty());
    let intervals = untagged.map(|(uuid, _, interval)| format!("{uuid}:{}-{}", interval.first, interval.last));
    format!("ST={}\n", intervals.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "aaaaaaaa-0000-0000-0000-000000000001";

    fn set(text: &str) -> GtidSet {
        text.parse().unwrap()
    }

    #[test]
    fn each_transaction_is_told_once_and_tags_never() {
        let mut told = Told::default();
        let mut lines = |text: &str| told.lines(&set(text)).unwrap();
        assert_eq!(lines(&format!("{A}:1-5:7,{B}:t:1")).as_deref(), Some(&*format!("ST={A}:1-5,{A}:7-7\n")));
        assert_eq!(lines(&format!("{A}:1-5:7,{B}:t:1")), None);
        let plain = A.replace('-', "");
        assert_eq!(lines(&format!("{A}:1-8,{B}:t:1-2")), Some(format!("I1={plain}:6\nI2=8\n")));
        assert_eq!(lines(&format!("{A}:1-8,{B}:t:1-3")), None, "a tag alone");
        let other = B.replace('-', "");
        assert_eq!(lines(&format!("{A}:1-9,{B}:1:t:1-3")), Some(format!("I2=9\nI1={other}:1\n")));
        assert_eq!(lines(&format!("{A}:1-50000,{B}:1:t:1-3")), Some(format!("ST={A}:1-50000,{B}:1-1\n")));
        assert!(told.lines(&set(&format!("{A}:1-49999,{B}:1:t:1-3"))).is_err(), "taken back");
    }

    #[test]
    fn a_client_that_does_not_read_costs_one_answer_and_is_let_go() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let start = Instant::now();
        let mut client = Client::new(stream, peer.ip(), start);
        let visible = |steps: u64| set(&format!("{A}:1-{}", steps * SINGLE_MAX));
        let mut steps = 0;
        while client.unread.is_empty() {
            steps += 1;
            client.step(Some(&visible(steps)), start).unwrap();
        }
        // A line takes eleven bytes.
        let held = client.unread.len();
        assert!(held <= 16 * SINGLE_MAX as usize, "{held}");
        client.step(Some(&visible(steps + 1000)), start + READ_WITHIN).unwrap();
        assert_eq!(client.unread.len(), held);
        // One that reads goes on, and gets the rest together.
        let mut read = vec![0; 64 << 10];
        let mut all = String::new();
        while !all.ends_with(&format!("ST={A}:1-{}\n", (steps + 1000) * SINGLE_MAX)) {
            client.step(Some(&visible(steps + 1000)), start).unwrap();
            let len = slow.read(&mut read).unwrap();
            all.push_str(std::str::from_utf8(&read[..len]).unwrap());
        }
        while client.unread.is_empty() {
            steps += 1;
            client.step(Some(&visible(steps + 1000)), start).unwrap();
        }
        assert!(client.step(None, start + READ_WITHIN + Duration::from_secs(1)).is_err());
    }

    #[test]
    fn one_more_client_takes_a_place_of_the_address_that_has_most() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = |address: &str| {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            Client::new(stream, address.parse().unwrap(), Instant::now())
        };
        let greedy: Vec<Client> = ["10.0.0.1", "10.0.0.9", "10.0.0.9", "10.0.0.2"].map(client).into();
        assert_eq!(one_to_close(&greedy), 1, "the older one of 10.0.0.9");
        let alike: Vec<Client> = ["10.0.0.3", "10.0.0.1"].map(client).into();
        assert_eq!(one_to_close(&alike), 1, "the one that came last");
        // Twenty addresses of one network, and of as many: who was there stays.
        let flood = |address: &dyn Fn(usize) -> String| {
            let mut clients: Vec<Client> = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(client).into();
            for number in 0..20 {
                if clients.len() >= CLIENTS_MAX {
                    clients.remove(one_to_close(&clients));
                }
                clients.push(client(&address(number)));
            }
            clients.iter().filter(|client| client.network == network("10.0.0.0".parse().unwrap())).count()
        };
        assert_eq!(flood(&|number| format!("127.0.0.{}", number + 1)), 3);
        assert_eq!(flood(&|number| format!("127.0.{number}.1")), 3);
        assert_eq!(flood(&|number| format!("2001:db8:0:{number}::1")), 3);
        // A new client still gets in.
        let mut full: Vec<Client> = (0..CLIENTS_MAX).map(|number| client(&format!("127.0.0.{}", number + 1))).collect();
        full.remove(one_to_close(&full));
        full.push(client("10.0.0.1"));
        full.remove(one_to_close(&full));
        assert!(full.iter().any(|client| client.origin == Origin::of("10.0.0.1".parse().unwrap())));
    }

    #[test]
    fn nothing_visible_is_an_empty_set() {
        assert_eq!(Told::default().lines(&set("")).unwrap().as_deref(), Some("ST=\n"));
    }
}
