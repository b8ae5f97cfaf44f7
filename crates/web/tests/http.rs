//! The port as browsers, scrapers and hostile peers meet it.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::SystemTime;

use accounts::{Accounts, NewAccount, PasswordPlugin, Requirement, ServerTls, StoredPassword, TlsFiles};
use observe::{ConnectionState, ErrorReport, HistoryReport, LagHistogram, LagHistograms, ReplayState, StatusReport};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use web::{Token, Watched, Web, WebConfig};

/// A replica whose lag the test sets, and that can hang.
#[derive(Default)]
struct Replica {
    lag_us: AtomicU64,
    reports: AtomicU64,
    hangs: AtomicBool,
    never: (Mutex<()>, Condvar),
}

impl Watched for Replica {
    fn report(&self) -> StatusReport {
        self.reports.fetch_add(1, SeqCst);
        if self.hangs.load(SeqCst) {
            let held = self.never.0.lock().unwrap();
            drop(self.never.1.wait_while(held, |()| true));
        }
        let mut report = StatusReport { version: "1.2.3".into(), running: true, ..StatusReport::default() };
        report.lag.current_us = Some(self.lag_us.load(SeqCst));
        report.source.state = ConnectionState::Connected;
        report.replay.state = ReplayState::Running;
        report.replay.drifted = vec!["`d`.`t`: 1 row, (7, 'secret')".into()];
        let text = "row (7, 'secret')".to_owned();
        report.last_sql_error = Some(ErrorReport { exit: 9, number: Some(1032), text, ..ErrorReport::default() });
        report
    }

    fn lags(&self) -> Option<LagHistograms> {
        let mut whole = LagHistogram::default();
        (whole.counts[0], whole.counts[21], whole.sum_us) = (3, 1, 9_000_000_000);
        let mut lags = LagHistograms { whole, ..LagHistograms::default() };
        (lags.parts[1].counts[2], lags.parts[1].sum_us) = (7, 3_500);
        Some(lags)
    }

    fn error_words(&self, error: &ErrorReport) -> String {
        format!("kind {}", error.exit)
    }

    fn history(&self) -> HistoryReport {
        HistoryReport { at_s: vec![60], lag_us: vec![None], ..HistoryReport::default() }
    }
}

struct Bed {
    web: Web,
    replica: Arc<Replica>,
    accounts: Arc<Accounts>,
    token: Arc<Token>,
    _folder: tempfile::TempDir,
}

const TOKEN: &str = "a-token-of-no-less-than-20-characters";

fn put_token(file: &Path, token: &str) {
    std::fs::write(file, token).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn bed(address: &str) -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let accounts = Accounts::open(&folder.path().join("accounts")).unwrap();
    let files = TlsFiles { folder: folder.path().to_owned(), ..TlsFiles::default() };
    let tls = Arc::new(ServerTls::open(files, SystemTime::now()).unwrap());
    let config = WebConfig { address: address.parse().unwrap(), names: vec!["Replica7".into()] };
    let replica = Arc::new(Replica::default());
    let watched: Arc<dyn Watched> = Arc::clone(&replica) as _;
    let file = folder.path().join("token");
    put_token(&file, TOKEN);
    let token = Arc::new(Token::open(&file).unwrap());
    let web = Web::open(&config, Arc::clone(&accounts), Some(Arc::clone(&token)), Some(tls), watched).unwrap();
    Bed { web, replica, accounts, token, _folder: folder }
}

impl Bed {
    fn connect(&self) -> TcpStream {
        TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.web.address().port()))).unwrap()
    }

    /// The whole answer to this text.
    fn raw(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn get(&self, path: &str) -> String {
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    fn get_as(&self, host: &str) -> u16 {
        status(&self.raw(&format!("GET /metrics HTTP/1.1\r\n{host}Connection: close\r\n\r\n")))
    }

    /// GET over TLS, with these further headers.
    fn get_secure(&self, path: &str, headers: &str) -> String {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.dangerous().with_custom_certificate_verifier(Arc::new(Anyone)).with_no_client_auth();
        let name = ServerName::try_from("replica7").unwrap();
        let session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = rustls::StreamOwned::new(session, self.connect());
        let request = format!("GET {path} HTTP/1.1\r\nHost: replica7\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap_or("0").parse().unwrap()
}

/// Accepts any certificate: whose it is does not matter here.
#[derive(Debug)]
struct Anyone;

impl rustls::client::danger::ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[test]
fn health_goes_by_the_lag() {
    let bed = bed("127.0.0.1:0");
    assert_eq!(status(&bed.get("/health")), 200);
    // A report is kept for half a second: each lag is looked at with a port of its own.
    let late = self::bed("127.0.0.1:0");
    late.replica.lag_us.store(11_000_000, SeqCst);
    let answer = late.get("/health");
    assert!(status(&answer) == 503 && answer.contains("lag 11.0 s is above 10.0 s"), "{answer}");
    assert_eq!(status(&late.get("/health?max-lag=1m")), 200);
    assert_eq!(status(&late.get("/health?max-lag=much")), 400);
}

#[test]
fn metrics_are_well_formed() {
    let bed = bed("127.0.0.1:0");
    let answer = bed.get("/metrics");
    assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0"), "{answer}");
    let (_, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(text.ends_with("# EOF\n"));
    let families: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let mut once = families.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), families.len(), "a family comes twice");
    assert!(text.lines().all(|line| line.starts_with("# ") || line.starts_with("slipstream_")), "{text}");
    for line in [
        "slipstream_build_info{version=\"1.2.3\",server_uuid=\"\"} 1",
        "slipstream_lag_seconds 0.0",
        "slipstream_source_state{state=\"connected\"} 1.0",
        "slipstream_source_state{state=\"stopped\"} 0.0",
        "slipstream_drifted_tables 1.0",
        "slipstream_error{thread=\"sql\",number=\"1032\"} 1.0",
        "slipstream_transaction_lag_seconds_bucket{le=\"3600.0\"} 3",
        "slipstream_transaction_lag_seconds_bucket{le=\"+Inf\"} 4",
        "slipstream_transaction_lag_seconds_count 4",
        "slipstream_transaction_lag_seconds_sum 9000.0",
        "slipstream_transaction_lag_part_seconds_bucket{le=\"0.00025\",part=\"durable\"} 0",
        "slipstream_transaction_lag_part_seconds_bucket{le=\"0.0005\",part=\"durable\"} 7",
        "slipstream_transaction_lag_part_seconds_count{part=\"durable\"} 7",
        "slipstream_transaction_lag_part_seconds_sum{part=\"durable\"} 0.0035",
        "slipstream_transaction_lag_part_seconds_count{part=\"transport\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    // Not known: not there.
    assert!(!text.contains("slipstream_catch_up_seconds ") && !text.contains("slipstream_disk_free_bytes "), "{text}");
}

#[test]
fn nothing_of_a_row_is_shown() {
    let bed = bed("127.0.0.1:0");
    for path in ["/status", "/metrics", "/history", "/health", "/"] {
        let answer = bed.get(path);
        assert!(status(&answer) == 200 && !answer.contains("secret"), "{answer}");
    }
    assert!(bed.get("/status").contains("\"`d`.`t`\""));
    assert!(bed.get("/history").contains("\"at_s\":[60],\"lag_us\":[null]"));
    // One report served all of them that came at once.
    assert!(bed.replica.reports.load(SeqCst) < 5);
}

#[test]
fn only_own_names_are_answered() {
    let bed = bed("127.0.0.1:0");
    for own in ["Host: localhost\r\n", "Host: 127.0.0.1:80\r\n", "Host: [::1]:80\r\n", "Host: REPLICA7.\r\n"] {
        assert_eq!(bed.get_as(own), 200, "{own}");
    }
    let others = ["Host: example.com\r\n", "Host: replica7.example.com\r\n", "", "Host: \r\n", "Host: a b\r\n"];
    for other in others.into_iter().chain(["Host: localhost\r\nHost: localhost\r\n"]) {
        assert!([400, 421].contains(&bed.get_as(other)), "{other}");
    }
}

#[test]
fn nothing_can_be_changed() {
    let bed = bed("127.0.0.1:0");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"] {
        let target = if method == "CONNECT" { "localhost:1" } else { "/" };
        let answer = bed.raw(&format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        assert_eq!(status(&answer), 405, "{answer}");
    }
    let head = bed.raw("HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(status(&head) == 200 && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(status(&bed.get("/else")), 404);
    // No style or script but the page's own: the hashes in the policy are theirs.
    let page = bed.get("/");
    assert!(page.contains("content-security-policy: default-src 'none'; style-src 'sha256-"), "{page}");
    assert!(!page.contains(" style=\"") && !page.contains(" onclick="));
}

#[test]
fn other_addresses_need_tls_and_an_account() {
    let bed = bed("0.0.0.0:0");
    for (user, rights) in [("prom", "monitor"), ("app", "read")] {
        let (name, rights) = (user.parse().unwrap(), rights.parse().unwrap());
        let password = StoredPassword::new(PasswordPlugin::CachingSha2, "se:cret").unwrap();
        let requirement = Requirement::Tls;
        bed.accounts
            .add(NewAccount {
                name,
                rights,
                schemas: None,
                requirement,
                reads: accounts::Reads::default(),
                max_connections: None,
                password,
            })
            .unwrap();
    }
    let as_user = |text: &str| {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        bed.get_secure("/metrics", &format!("Authorization: Basic {encoded}\r\n"))
    };
    // No TLS: no word.
    assert!(!bed.get("/health").contains("HTTP"));
    assert_eq!(status(&bed.get_secure("/health", "")), 200);
    let asked = bed.get_secure("/metrics", "");
    assert!(status(&asked) == 401 && asked.contains("www-authenticate: Basic realm="), "{asked}");
    assert!(!asked.contains("slipstream_"));
    assert_eq!(status(&bed.get_secure("/", "Authorization: Bearer x\r\n")), 401);
    for wrong in ["prom:wrong", "nobody:se:cret", "app:se:cret", "prom:", "prom", ":"] {
        assert_eq!(status(&as_user(wrong)), 401, "{wrong}");
    }
    for _ in 0..2 {
        assert_eq!(status(&as_user("prom:se:cret")), 200);
    }
    bed.accounts.remove(&"prom".parse().unwrap()).unwrap();
    assert_eq!(status(&as_user("prom:se:cret")), 401);
}

#[test]
fn a_token_lets_in_as_an_account_does() {
    let bed = bed("0.0.0.0:0");
    let with = |token: &str| status(&bed.get_secure("/metrics", &format!("Authorization: {token}\r\n")));
    let asked = bed.get_secure("/metrics", "");
    assert!(asked.contains("www-authenticate: Bearer realm="), "{asked}");
    for path in ["/", "/metrics", "/status", "/history"] {
        assert_eq!(status(&bed.get_secure(path, &format!("Authorization: Bearer {TOKEN}\r\n"))), 200, "{path}");
    }
    assert_eq!(with(&format!("bearer  {TOKEN}")), 200);
    let (short, long) = (&TOKEN[1..], format!("{TOKEN}s"));
    for wrong in
        ["Bearer", "Bearer ", TOKEN, &format!("Bearer {short}"), &format!("Bearer {long}"), &format!("Basic {TOKEN}")]
    {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    // Another one, once it is read again.
    let another = "another-token-of-no-less-than-20";
    put_token(&bed._folder.path().join("token"), another);
    assert_eq!((with(&format!("Bearer {TOKEN}")), with(&format!("Bearer {another}"))), (200, 401));
    bed.token.reload().unwrap();
    assert_eq!((with(&format!("Bearer {TOKEN}")), with(&format!("Bearer {another}"))), (401, 200));
}

#[test]
fn a_replica_that_hangs_is_no_healthy_one() {
    let bed = bed("127.0.0.1:0");
    bed.replica.hangs.store(true, SeqCst);
    let answers: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| bed.get("/health"))).collect();
        all.into_iter().map(|answer| answer.join().unwrap()).collect()
    });
    for answer in answers {
        assert!(status(&answer) == 503 && answer.contains("does not answer"), "{answer}");
    }
    // And the port closes all the same, at the end of this test.
}

#[test]
fn hostile_requests_end_alone() {
    let bed = bed("127.0.0.1:0");
    let long = "x".repeat(100_000);
    for request in [
        format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"),
        "\0\u{1}\u{2}\r\n\r\n".to_owned(),
        "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\0\u{5}hello\r\n\r\n".to_owned(),
    ] {
        let mut stream = bed.connect();
        // It may be closed before all is written.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!String::from_utf8_lossy(&answer).contains(" 200 "));
    }
    assert_eq!(status(&bed.get("/health")), 200);
    // All places taken by peers that never finish a request: the first of them loses its place.
    let idle: Vec<TcpStream> = (0..70)
        .map(|_| {
            let mut stream = bed.connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
            stream
        })
        .collect();
    assert_eq!(status(&bed.get("/health")), 200);
    drop(idle);
}

/// Asks and takes the whole answer; None if the connection is closed instead.
fn asks_again(stream: &mut TcpStream) -> Option<String> {
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\nok\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        answer.push(byte[0]);
    }
    Some(String::from_utf8(answer).unwrap())
}

#[test]
fn connections_kept_alive_do_not_blind_a_watcher() {
    let bed = bed("127.0.0.1:0");
    let mut kept: Vec<TcpStream> = (0..47).map(|_| bed.connect()).collect();
    for stream in &mut kept {
        assert!(!asks_again(stream).unwrap().contains("connection: close"));
    }
    // Places are short: the answer ends the connection.
    let mut last = bed.connect();
    assert!(asks_again(&mut last).unwrap().contains("connection: close"));
    assert_eq!(last.read(&mut [0]).unwrap(), 0);
    // Each watcher gets in by the place of the one that has idled for longest, and nobody else loses one.
    let held: Vec<TcpStream> = (0..17).map(|_| bed.connect()).collect();
    for _ in 0..3 {
        assert_eq!(status(&bed.get("/health")), 200);
    }
    let answered = kept.iter_mut().filter_map(asks_again).count();
    assert!((43..47).contains(&answered), "{answered}");
    drop(held);
}
