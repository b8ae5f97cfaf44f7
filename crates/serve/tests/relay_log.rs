//! A relay log served while it is written: our own client gets the received bytes unchanged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant, SystemTime};

use base::{GtidSet, LogPosition, Tag, Uuid};
use binlog::{ChecksumAlgorithm, EventHeader, Rotate, event_type, flags};
use client::{ConnectOptions, Connection, SslMode};
use relay_log::{AppendMeta, ReadLimit, ReaderOptions, RelayLog, RelayOptions, RelayWriter, SyncPolicy};
use serve::{Identity, LogFiles, RelaySource, ServeOptions};
use source::{DumpRequest, DumpStream, start_dump};
use testkit::Server;
use testkit::log::{Author, dump_head};

const CRC: ChecksumAlgorithm = ChecksumAlgorithm::Crc32;
const UUID: Uuid = Uuid([7; 16]);

fn gtids(last: u64) -> GtidSet {
    let mut set = GtidSet::new();
    set.add_range(UUID, Tag::EMPTY, 1, last);
    set
}

/// A source, and the relay log that receives from it.
struct Received {
    source: Author,
    writer: RelayWriter,
    /// Each transaction's bytes.
    transactions: Vec<Vec<u8>>,
    executed: Arc<Mutex<GtidSet>>,
    _folder: tempfile::TempDir,
}

impl Received {
    fn new() -> Received {
        let folder = tempfile::tempdir().unwrap();
        let options = RelayOptions {
            max_file_bytes: 3000,
            sync: SyncPolicy::EveryTransaction,
            ..RelayOptions::new(folder.path())
        };
        let (mut writer, _) = RelayLog::open(options).unwrap();
        let (rotate, format) = dump_head("binlog.000042", CRC);
        writer.note_source_headers(&rotate, &format).unwrap();
        Received {
            source: Author::at(UUID, CRC, 200),
            writer,
            transactions: Vec::new(),
            executed: Arc::default(),
            _folder: folder,
        }
    }

    fn feed(&mut self, rows: usize) {
        let byte = self.source.last as u8;
        let gno = self.source.transaction(|events| {
            events.sql("BEGIN");
            events.writer.event(event_type::WRITE_ROWS, 0, |out| out.resize(out.len() + rows, byte));
            events.writer.xid(1);
        });
        let (gtid, data) = (self.source.gtid_of(gno), self.source.writer.take());
        self.transactions.push(data.clone());
        let source_position = LogPosition { file: "binlog.000042".into(), offset: self.source.writer.position() };
        let meta = AppendMeta { ends_transaction: true, gtids: &[gtid], source_position };
        self.writer.append(data, meta).unwrap();
        self.executed.lock().unwrap().add(gtid);
    }

    fn log(&self, reader: ReaderOptions) -> LogFiles {
        let executed = Arc::clone(&self.executed);
        LogFiles::RelayLog(RelaySource {
            shared: self.writer.shared(),
            reader,
            identity: Identity {
                server_version: "9.7.4".into(),
                server_id: 77,
                server_uuid: Uuid([9; 16]),
                checksum: CRC,
            },
            executed: Box::new(move || executed.lock().unwrap().clone()),
        })
    }
}

/// Serves a log while `run` runs, which gets the connection options.
fn serving<T>(log: &LogFiles, run: impl FnOnce(&ConnectOptions) -> T) -> T {
    let stop = AtomicBool::new(false);
    let (lines, told) = mpsc::channel();
    let say = |line: &str| {
        let _ = lines.send(line.to_owned());
    };
    let options = ServeOptions { listen: "127.0.0.1:0", password: Some("secret".into()), hold: None };
    std::thread::scope(|scope| {
        scope.spawn(|| serve::serve(log, &options, &stop, &say).unwrap());
        let line = told.recv_timeout(Duration::from_secs(20)).unwrap();
        let port = line.split(':').nth(1).unwrap().parse().unwrap();
        let options = ConnectOptions {
            host: "127.0.0.1".into(),
            port,
            user: "repl".into(),
            password: Some("secret".into()),
            ssl_mode: SslMode::Disabled,
            ..ConnectOptions::default()
        };
        // The scope waits for the server, also when `run` fails.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&options)));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn dump(options: &ConnectOptions, executed: &GtidSet, non_block: bool) -> DumpStream {
    let request =
        DumpRequest { heartbeat_period: Duration::from_millis(50), non_block, ..DumpRequest::new(9, executed) };
    start_dump(Connection::connect(options).unwrap(), &request).unwrap()
}

/// Events that a replica has received.
#[derive(Default)]
struct Got {
    transactions: Vec<u8>,
    count: usize,
    heartbeats: usize,
    file: Vec<u8>,
    /// End of the last event or heartbeat; each event begins where the one before it ended.
    end: u32,
}

impl Got {
    /// Takes the next event; false at the end of the dump.
    fn step(&mut self, stream: &mut DumpStream) -> bool {
        let Some(event) = stream.next_event().unwrap() else { return false };
        let event = event.event;
        let header = EventHeader::parse(event).unwrap();
        assert_eq!(header.flags & flags::RELAY_LOG, 0, "an event of the relay log's own");
        if header.log_pos > 0 && header.event_type != event_type::FORMAT_DESCRIPTION {
            let is_heartbeat = matches!(header.event_type, event_type::HEARTBEAT | event_type::HEARTBEAT_V2);
            let len = if is_heartbeat { 0 } else { header.event_len };
            let follows = if is_heartbeat { header.log_pos >= self.end } else { self.end + len == header.log_pos };
            assert!(self.count == 0 && self.heartbeats == 0 || follows, "{} after {}", header.log_pos, self.end);
            self.end = header.log_pos;
        }
        match header.event_type {
            event_type::ROTATE => {
                let body = binlog::event_body(event, CRC).unwrap();
                self.file = Rotate::parse(body).unwrap().file.to_vec();
            }
            event_type::FORMAT_DESCRIPTION => assert!(binlog::verify_checksum(event)),
            event_type::HEARTBEAT | event_type::HEARTBEAT_V2 => self.heartbeats += 1,
            kind => {
                self.count += usize::from(kind == event_type::GTID);
                self.transactions.extend_from_slice(event);
            }
        }
        true
    }

    fn until(&mut self, stream: &mut DumpStream, bytes: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.transactions.len() < bytes {
            assert!(self.step(stream) && Instant::now() < deadline);
        }
    }
}

const ALL: ReaderOptions = ReaderOptions::TABLE_COPY;

#[test]
fn a_replica_follows_a_relay_log_that_grows() {
    let mut received = Received::new();
    for n in 0..7 {
        received.feed(500 + n * 100);
    }
    let log = received.log(ReaderOptions::limited(u64::MAX, Duration::MAX, ReadLimit::Synced));
    serving(&log, |options| {
        let nothing = GtidSet::new();
        let mut stream = dump(options, &nothing, false);
        let mut got = Got::default();
        got.until(&mut stream, received.transactions.concat().len());
        assert_eq!(got.transactions, received.transactions.concat());
        assert_eq!(got.file, b"binlog.000042", "the source's names, not the relay log's");
        // New transactions, over several files and larger than any buffer.
        for n in 0..20 {
            received.feed(if n == 7 { 3 << 20 } else { 900 });
            got.until(&mut stream, received.transactions.concat().len());
        }
        assert_eq!(got.transactions, received.transactions.concat());
        assert!(received.writer.position().file_number > 3);
        let before = got.heartbeats;
        while got.heartbeats < before + 2 {
            assert!(got.step(&mut stream), "an idle log shows that it lives");
        }
        assert_eq!((got.count, got.transactions.len()), (27, received.transactions.concat().len()));
        // A second replica already has some of them, and does not wait for more.
        let some = gtids(11);
        let mut stream = dump(options, &some, true);
        let mut got = Got::default();
        while got.step(&mut stream) {}
        assert_eq!(got.transactions, received.transactions[11..].concat());
        // A replica that has everything gets only the position.
        let all = gtids(27);
        let mut stream = dump(options, &all, true);
        let mut got = Got::default();
        while got.step(&mut stream) {}
        assert_eq!((got.count, got.transactions.len()), (0, 0));
        let mut connection = Connection::connect(options).unwrap();
        let executed = connection.query_value("SELECT @@GLOBAL.gtid_executed").unwrap();
        assert_eq!(executed, Some(gtids(27).to_string()));
        assert_eq!(connection.query_value("SELECT @@GLOBAL.server_id").unwrap().as_deref(), Some("77"));
    });
}

#[test]
fn a_replica_that_lacks_what_was_purged_is_refused() {
    let mut received = Received::new();
    for _ in 0..12 {
        received.feed(900);
    }
    let log = received.log(ALL);
    let end = received.writer.position();
    let durable = LogPosition { file: relay_log::file_name(end.file_number).into(), offset: end.offset };
    let purged = received.writer.shared().purge(&durable, &gtids(12), Duration::ZERO, SystemTime::now()).unwrap();
    assert!(!purged.files.is_empty());
    serving(&log, |options| {
        let nothing = GtidSet::new();
        let error = dump(options, &nothing, true).next_event().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("purged"), "{error}");
        let mut connection = Connection::connect(options).unwrap();
        let gone: GtidSet = connection.query_value("SELECT @@GLOBAL.gtid_purged").unwrap().unwrap().parse().unwrap();
        assert!(!gone.is_empty());
        let mut stream = dump(options, &gone, true);
        let mut got = Got::default();
        while got.step(&mut stream) {}
        assert_eq!(got.count as u64 + gone.count(), 12);
        assert!(received.transactions.concat().ends_with(&got.transactions));
    });
}

/// Events that are in no file follow the stream: a client that asked for no checksums gets none up to the format
/// description, and a valid one in each event after it.
#[test]
fn made_up_events_have_a_checksum_where_the_stream_has() {
    let mut received = Received::new();
    received.feed(900);
    let log = received.log(ALL);
    serving(&log, |options| {
        let mut connection = Connection::connect(options).unwrap();
        connection.exec("SET @source_binlog_checksum = 'NONE', @source_heartbeat_period = 20000000").unwrap();
        let nothing = GtidSet::new().encode();
        connection.send_command(|out| wire::command::put_dump_gtid(out, 9, &nothing, 0)).unwrap();
        let (mut described, mut heartbeats) = (false, 0);
        while heartbeats < 2 {
            let client::DumpPacket::Event(range) = connection.read_dump_packet().unwrap() else { panic!("it ended") };
            let event = wire::command::parse_dump_event(connection.payload(range), false).unwrap().event;
            let kind = EventHeader::parse(event).unwrap().event_type;
            described |= kind == event_type::FORMAT_DESCRIPTION;
            assert_eq!(binlog::verify_checksum(event), described, "event type {kind}");
            heartbeats += usize::from(kind == event_type::HEARTBEAT);
        }
    });
}

#[test]
fn a_wrong_password_is_refused() {
    let received = Received::new();
    serving(&received.log(ALL), |options| {
        let wrong = ConnectOptions { password: Some("wrong".into()), ..options.clone() };
        let error = Connection::connect(&wrong).unwrap_err();
        assert!(error.to_string().contains("Access denied"), "{error}");
        let tls = ConnectOptions { ssl_mode: SslMode::Required, ..options.clone() };
        assert!(Connection::connect(&tls).is_err());
    });
}

/// MySQL's client program.
#[test]
fn mysqlbinlog_reads_a_relay_log() {
    let Some(server) = Server::or_skip("serve", &[]) else { return };
    let mut received = Received::new();
    for _ in 0..9 {
        received.feed(700);
    }
    let folder = tempfile::tempdir().unwrap();
    let out = format!("{}/", folder.path().display());
    let ran = serving(&received.log(ALL), |options| {
        let (port, result) = (format!("--port={}", options.port), format!("--result-file={out}"));
        server.mysqlbinlog(&[
            "--read-from-remote-source=BINLOG-DUMP-GTIDS",
            "--protocol=TCP",
            "--host=127.0.0.1",
            &port,
            "--user=repl",
            "--password=secret",
            "--ssl-mode=DISABLED",
            "--raw",
            &result,
            "binlog.000042",
        ])
    });
    assert_eq!(ran.code, 0, "{}", ran.err);
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() == 1, "{files:?} {}", ran.err);
    let bytes = std::fs::read(&files[0]).unwrap();
    let wanted = received.transactions.concat();
    assert!(bytes.windows(wanted.len()).any(|window| window == wanted));
}
