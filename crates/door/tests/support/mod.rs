//! A door with accounts, and what its answers differ in from those of another server.
#![allow(dead_code)]

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use accounts::{
    AccountName, Accounts, NewAccount, PasswordPlugin, Requirement, Rights, ServerTls, StoredPassword, TlsFiles,
};
use door::{Door, DoorConfig, Facts, Note, ReplicaStatus, SchemaState};
pub(crate) use testkit::raw_client::{CAPABILITIES, RawClient};

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

    fn relay_log(&self) -> Result<Vec<serve::ListedFile>, sql::SqlError> {
        Ok(Vec::new())
    }

    fn note(&self, _: Note) {}
}

/// A door on a free port and on a socket.
pub(crate) struct TestDoor {
    pub(crate) door: Door,
    pub(crate) address: SocketAddr,
    pub(crate) socket: PathBuf,
    pub(crate) accounts: Arc<Accounts>,
    folder: tempfile::TempDir,
}

impl TestDoor {
    /// Where its files are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
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
        statement_cpu_time: Duration::ZERO,
        connection_memory_limit: 256 << 20,
        clients_memory: 4 << 30,
        forward: Default::default(),
        forward_connections: 100,
        server_version: "9.7.4-slipstream".to_owned(),
        set: Default::default(),
        own_values: Default::default(),
    };
    change(&mut config);
    let files = TlsFiles { folder: folder.path().to_owned(), ..TlsFiles::default() };
    let tls = Arc::new(ServerTls::open(files, SystemTime::now()).unwrap());
    let door = Door::open(config, Arc::clone(&accounts), tls, facts).unwrap();
    let address = door.status().address.unwrap();
    TestDoor { door, address, socket, accounts, folder }
}

/// An account whose password is its name.
pub(crate) fn account(name: &str, rights: &str, plugin: PasswordPlugin) -> NewAccount {
    NewAccount {
        name: AccountName::new(name, "%").unwrap(),
        rights: rights.parse::<Rights>().unwrap(),
        schemas: None,
        requirement: Requirement::None,
        reads: Default::default(),
        max_connections: None,
        password: StoredPassword::new(plugin, name).unwrap(),
    }
}

/// A connection over TCP that has not even read the greeting.
pub(crate) fn unread(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
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
    different(ours, theirs, commands, |_| ())
}

/// As [`differences`], after `even` was asked to take out of each packet what may differ.
#[allow(dead_code)]
pub(crate) fn different(
    ours: &mut RawClient,
    theirs: &mut RawClient,
    commands: &[(String, Vec<u8>)],
    even: impl Fn(&mut Vec<u8>),
) -> String {
    let mut text = String::new();
    for (name, command) in commands {
        let (mut mine, mut real) = (ours.command(command), theirs.command(command));
        [&mut mine, &mut real].into_iter().flatten().for_each(&even);
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
