//! A door with two accounts, and a client that shows every packet.
#![allow(dead_code)]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use accounts::{
    AccountName, Accounts, NewAccount, PasswordPlugin, Requirement, Rights, ServerTls, StoredPassword, TlsFiles,
};
use door::{Door, DoorConfig, Facts, Note, ReplicaStatus, SchemaState};
use wire::handshake::{FirstPacket, Greeting, Login, capability};
use wire::packet;

/// Facts of a server with one schema.
struct OneSchema;

impl Facts for OneSchema {
    fn schema(&self, name: &str) -> SchemaState {
        if name == "shop" { SchemaState::There(Some(255)) } else { SchemaState::Missing }
    }

    fn replica_status(&self) -> ReplicaStatus {
        ReplicaStatus::default()
    }

    fn pin(&self) -> Result<Arc<store::Snapshot>, sql::SqlError> {
        Err(sql::SqlError::new(1105, "HY000", "this server keeps no rows"))
    }

    fn note(&self, _: Note) {}
}

/// A door on a free port and on a socket.
pub(crate) struct TestDoor {
    pub(crate) door: Door,
    pub(crate) address: SocketAddr,
    pub(crate) socket: PathBuf,
    pub(crate) accounts: Arc<Accounts>,
    _folder: tempfile::TempDir,
}

/// Opens a door; `change` changes its configuration.
pub(crate) fn open(change: impl FnOnce(&mut DoorConfig)) -> TestDoor {
    open_with(change, Arc::new(OneSchema))
}

/// Opens a door to these facts.
pub(crate) fn open_with(change: impl FnOnce(&mut DoorConfig), facts: Arc<dyn Facts>) -> TestDoor {
    let folder = tempfile::tempdir().unwrap();
    let accounts = Accounts::open(&folder.path().join("accounts")).unwrap();
    for (name, rights, plugin) in [
        ("reader", "read,monitor", PasswordPlugin::CachingSha2),
        ("boss", "read,monitor,replicate,admin", PasswordPlugin::CachingSha2),
        ("plain", "read", PasswordPlugin::Native),
    ] {
        accounts.add(account(name, rights, plugin)).unwrap();
    }
    let socket = folder.path().join("door.sock");
    let mut config = DoorConfig {
        port: Some(0),
        bind_address: "127.0.0.1".parse().unwrap(),
        socket: Some(socket.clone()),
        require_secure_transport: false,
        socket_admin: true,
        max_connections: 500,
        max_allowed_packet: 64 << 20,
        connect_timeout: Duration::from_secs(10),
        snapshot_age: Duration::from_secs(3600),
        server_version: "9.7.4-slipstream".to_owned(),
        own_values: Default::default(),
    };
    change(&mut config);
    let files = TlsFiles { folder: folder.path().to_owned(), ..TlsFiles::default() };
    let tls = Arc::new(ServerTls::open(files, SystemTime::now()).unwrap());
    let door = Door::open(config, Arc::clone(&accounts), tls, facts).unwrap();
    let address = door.status().address.unwrap();
    TestDoor { door, address, socket, accounts, _folder: folder }
}

/// An account whose password is its name.
pub(crate) fn account(name: &str, rights: &str, plugin: PasswordPlugin) -> NewAccount {
    NewAccount {
        name: AccountName::new(name, "%").unwrap(),
        rights: rights.parse::<Rights>().unwrap(),
        schemas: None,
        requirement: Requirement::None,
        password: StoredPassword::new(plugin, name).unwrap(),
    }
}

/// All that a session of the tests may use.
pub(crate) const CAPABILITIES: u32 = capability::LONG_PASSWORD
    | capability::LONG_FLAG
    | capability::PROTOCOL_41
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::MULTI_STATEMENTS
    | capability::MULTI_RESULTS
    | capability::PS_MULTI_RESULTS
    | capability::PLUGIN_AUTH
    | capability::SESSION_TRACK
    | capability::DEPRECATE_EOF;

/// A stream of either kind.
pub(crate) trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A client that sends payloads and returns those of the answer.
pub(crate) struct RawClient {
    stream: Box<dyn Stream>,
    input: packet::PacketBuffer,
    pub(crate) capabilities: u32,
}

impl RawClient {
    /// Logs in over the unix socket, as `root` or `admin` without a password.
    pub(crate) fn over_socket(path: &std::path::Path, user: &str, capabilities: u32) -> RawClient {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut client =
            RawClient { stream: Box::new(stream), input: packet::PacketBuffer::new(1 << 30), capabilities };
        client.log_in(user);
        client
    }

    /// A connection over TCP that has not even read the greeting.
    pub(crate) fn unread(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn log_in(&mut self, user: &str) {
        let FirstPacket::Greeting(greeting) = Greeting::parse(&self.read()).unwrap() else { panic!("refused") };
        let login = Login {
            capabilities: self.capabilities & greeting.capabilities,
            collation: 255,
            user,
            auth_response: b"",
            database: "",
            auth_plugin: "caching_sha2_password",
            attributes: &[],
        };
        self.capabilities = login.capabilities;
        let mut out = Vec::new();
        login.write(&mut out);
        self.write(&out, 1);
        let answer = self.read();
        assert_eq!(answer.first(), Some(&0), "{}", String::from_utf8_lossy(&answer));
    }

    /// Sends a payload as the packet of this sequence id.
    pub(crate) fn write(&mut self, payload: &[u8], sequence: u8) {
        let (mut out, mut sequence) = (Vec::new(), sequence);
        packet::write(&mut out, &mut sequence, payload);
        self.stream.write_all(&out).unwrap();
        self.input.expect_sequence(sequence);
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// True once the server has closed the connection; waits for that.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        !matches!(self.stream.read(&mut byte), Ok(1))
    }

    /// The next payload.
    pub(crate) fn read(&mut self) -> Vec<u8> {
        loop {
            if let Some(range) = self.input.take().unwrap() {
                return self.input.payload(range).to_vec();
            }
            let spare = self.input.spare();
            let len = self.stream.read(spare).unwrap();
            assert!(len > 0, "the server closed the connection");
            self.input.filled(len);
        }
    }

    /// Sends a command; returns the payloads of its answer, whatever their number.
    pub(crate) fn command(&mut self, payload: &[u8]) -> Vec<Vec<u8>> {
        self.write(payload, 0);
        let mut packets = Vec::new();
        loop {
            if self.one_result(payload.first().copied().unwrap_or_default(), &mut packets) {
                return packets;
            }
        }
    }

    /// COM_QUERY.
    pub(crate) fn query(&mut self, sql: &str) -> Vec<Vec<u8>> {
        self.command(&[b"\x03", sql.as_bytes()].concat())
    }

    /// Reads one result; true if none follows.
    fn one_result(&mut self, command: u8, packets: &mut Vec<Vec<u8>>) -> bool {
        let first = self.read();
        packets.push(first.clone());
        match (command, first.first().copied()) {
            (_, Some(0xff)) | (9, _) | (0x1b, _) => return true,
            (0x16, _) => {
                let ok = wire::response::PrepareOk::parse(&first).unwrap();
                let ends = if self.capabilities & capability::DEPRECATE_EOF == 0 { 1 } else { 0 };
                for count in [ok.parameters, ok.columns] {
                    let count = usize::from(count);
                    for _ in 0..count + if count > 0 { ends } else { 0 } {
                        packets.push(self.read());
                    }
                }
                return true;
            }
            (0x1c, _) => return self.is_end(&first).unwrap_or_else(|| self.rows(packets)),
            (_, Some(0x00)) => {
                return !wire::response::OkPacket::parse(&first).unwrap().more_results();
            }
            _ => {}
        }
        let columns = usize::from(first[0]);
        for _ in 0..columns {
            packets.push(self.read());
        }
        if self.capabilities & capability::DEPRECATE_EOF == 0 {
            packets.push(self.read());
        }
        let end = packets.last().unwrap().clone();
        if command == 0x17 && self.capabilities & capability::DEPRECATE_EOF == 0 && end[3] & 0x40 != 0 {
            return true;
        }
        self.rows(packets)
    }

    /// Reads rows up to their end; true if no result follows.
    fn rows(&mut self, packets: &mut Vec<Vec<u8>>) -> bool {
        loop {
            let row = self.read();
            packets.push(row.clone());
            if let Some(is_last) = self.is_end(&row) {
                return is_last;
            }
        }
    }

    /// Whether a packet ends rows, and if so whether no result follows.
    fn is_end(&self, packet: &[u8]) -> Option<bool> {
        let deprecated = self.capabilities & capability::DEPRECATE_EOF != 0;
        if packet.first() == Some(&0xff) {
            return Some(true);
        }
        let ends = wire::response::ends_rows(packet, deprecated);
        ends.then(|| !wire::response::rows_end(packet, deprecated).unwrap().more_results())
    }
}

fn shown(packets: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for packet in packets {
        writeln!(text, "  {}", packet.escape_ascii()).unwrap();
    }
    text
}

/// Answers that are not MySQL's, packet by packet.
pub(crate) fn differences(ours: &mut RawClient, theirs: &mut RawClient, commands: &[(String, Vec<u8>)]) -> String {
    let mut text = String::new();
    for (name, command) in commands {
        let (mine, real) = (ours.command(command), theirs.command(command));
        if mine != real {
            writeln!(text, "{name}\n ours\n{} MySQL's\n{}", shown(&mine), shown(&real)).unwrap();
        }
    }
    text
}

/// Statements as COM_QUERY.
pub(crate) fn queries(statements: &[&str]) -> Vec<(String, Vec<u8>)> {
    statements.iter().map(|sql| ((*sql).to_owned(), [b"\x03", sql.as_bytes()].concat())).collect()
}
