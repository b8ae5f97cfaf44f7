//! Certificates made, read, renewed and shown.

use std::os::unix::fs::PermissionsExt as _;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConnection};

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn at(day: u64) -> SystemTime {
    // 2026-01-01, and days after it.
    UNIX_EPOCH + Duration::from_secs(1_767_225_600) + DAY * u32::try_from(day).unwrap()
}

fn own(folder: &tempfile::TempDir) -> TlsFiles {
    TlsFiles { folder: folder.path().to_owned(), ..TlsFiles::default() }
}

/// A pair of the operator's, which are ours from another folder.
fn given(folder: &tempfile::TempDir, day: u64) -> TlsFiles {
    let made = tempfile::tempdir().unwrap();
    ServerTls::open(own(&made), at(day)).unwrap();
    for file in [CERTIFICATE_FILE, KEY_FILE] {
        std::fs::copy(made.path().join(file), folder.path().join(format!("given-{file}"))).unwrap();
    }
    TlsFiles {
        certificate: Some(folder.path().join("given-server-cert.pem")),
        key: Some(folder.path().join("given-server-key.pem")),
        ..own(folder)
    }
}

fn read(folder: &tempfile::TempDir, file: &str) -> String {
    std::fs::read_to_string(folder.path().join(file)).unwrap()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A client that trusts this certificate only, with a certificate of its own or none.
fn client(
    trusted: &Path,
    own: Option<&TlsFiles>,
    version: &'static rustls::SupportedProtocolVersion,
) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(read_authorities(trusted)?);
    Ok(match own {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let chain = read_certificates(files.certificate.as_ref().unwrap())?;
            builder.with_client_auth_cert(chain, read_key(files.key.as_ref().unwrap())?).unwrap()
        }
    })
}

/// Shakes hands in memory; returns the certificates that the server got.
fn shake(config: ClientConfig, tls: &ServerTls, name: &str) -> Result<usize, rustls::Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name)?;
    let mut server = ServerConnection::new(tls.config())?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        client.read_tls(&mut &bytes[..]).unwrap();
        client.process_new_packets()?;
    }
    Ok(server.peer_certificates().map_or(0, <[_]>::len))
}

const VERSIONS: [&rustls::SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

#[test]
fn a_first_start_makes_a_certificate_that_clients_can_verify() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let tls = ServerTls::open(own(&folder), now).unwrap();
    assert_eq!(tls.owner(), CertificateOwner::SelfSigned);
    assert!(tls.expires() > now + DAY * 3_649 && tls.expires() <= now + DAY * 3_650);
    for file in [CERTIFICATE_FILE, KEY_FILE] {
        let mode = folder.path().join(file).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let trusted = folder.path().join(CERTIFICATE_FILE);
    for version in VERSIONS {
        for name in ["localhost", "127.0.0.1", "::1"] {
            assert_eq!(shake(client(&trusted, None, version).unwrap(), &tls, name), Ok(0), "{name}");
        }
        assert!(shake(client(&trusted, None, version).unwrap(), &tls, "elsewhere.example").is_err());
    }
    let stranger = tempfile::tempdir().unwrap();
    ServerTls::open(own(&stranger), now).unwrap();
    let other = stranger.path().join(CERTIFICATE_FILE);
    assert!(shake(client(&other, None, VERSIONS[1]).unwrap(), &tls, "localhost").is_err());
}

#[test]
fn it_is_kept_and_renewed_with_the_same_key_before_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let tls = ServerTls::open(own(&folder), at(0)).unwrap();
    let (certificate, key) = (read(&folder, CERTIFICATE_FILE), read(&folder, KEY_FILE));
    ServerTls::open(own(&folder), at(3_619)).unwrap();
    assert_eq!(read(&folder, CERTIFICATE_FILE), certificate);
    for day in [3_621, 9_000] {
        tls.reload(at(day)).unwrap();
        assert!(tls.expires() > at(day + 3_649));
        assert_eq!(read(&folder, KEY_FILE), key);
    }
    assert_ne!(read(&folder, CERTIFICATE_FILE), certificate);
}

#[test]
fn a_start_interrupted_between_its_files_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    ServerTls::open(own(&folder), at(0)).unwrap();
    let key = read(&folder, KEY_FILE);
    std::fs::remove_file(folder.path().join(CERTIFICATE_FILE)).unwrap();
    ServerTls::open(own(&folder), at(0)).unwrap();
    assert_eq!(read(&folder, KEY_FILE), key);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    ServerTls::open(own(&folder), at(0)).unwrap();
    for (file, text) in [(KEY_FILE, ""), (KEY_FILE, "x"), (CERTIFICATE_FILE, "-----BEGIN CERTIFICATE-----\n")] {
        let kept = read(&folder, file);
        std::fs::write(folder.path().join(file), text).unwrap();
        let error = ServerTls::open(own(&folder), at(0)).unwrap_err();
        assert!(error.to_string().contains(file), "{error}");
        assert_eq!(read(&folder, file), text, "it is not replaced");
        std::fs::write(folder.path().join(file), kept).unwrap();
    }
    // A key of another kind than ours, and no certificate for it.
    let garbage = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    std::fs::write(folder.path().join(KEY_FILE), garbage).unwrap();
    std::fs::remove_file(folder.path().join(CERTIFICATE_FILE)).unwrap();
    assert!(ServerTls::open(own(&folder), at(0)).unwrap_err().to_string().contains(KEY_FILE));
}

#[test]
fn the_operators_files_are_shown_even_after_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let tls = ServerTls::open(given(&folder, 0), at(9_000)).unwrap();
    assert_eq!((tls.owner(), tls.expires()), (CertificateOwner::Operator, at(3_650)));
    assert!(!folder.path().join(CERTIFICATE_FILE).exists());
    let half = TlsFiles { key: None, ..given(&folder, 0) };
    assert!(matches!(ServerTls::open(half, at(0)), Err(TlsError::HalfAPair)));
}

#[test]
fn wrong_new_files_leave_the_old_ones_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let files = given(&folder, 0);
    let tls = ServerTls::open(files.clone(), at(0)).unwrap();
    let before = tls.config();
    let key = files.key.clone().unwrap();
    let good = std::fs::read(&key).unwrap();
    // Another pair's key.
    let stranger = tempfile::tempdir().unwrap();
    ServerTls::open(own(&stranger), at(0)).unwrap();
    std::fs::copy(stranger.path().join(KEY_FILE), &key).unwrap();
    let error = tls.reload(at(1)).unwrap_err();
    assert!(error.to_string().contains("given-server-cert.pem"), "{error}");
    std::fs::remove_file(&key).unwrap();
    assert!(matches!(tls.reload(at(1)), Err(TlsError::Io { path, .. }) if path == key));
    assert!(Arc::ptr_eq(&before, &tls.config()));
    std::fs::write(&key, good).unwrap();
    tls.reload(at(1)).unwrap();
    assert!(!Arc::ptr_eq(&before, &tls.config()));
}

/// A client's certificate and key from `tests/certificates`.
fn of_client(who: &str) -> TlsFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates");
    let file = |kind: &str| Some(folder.join(format!("{who}-{kind}.pem")));
    TlsFiles { certificate: file("cert"), key: file("key"), authorities: file("ca"), folder: folder.clone() }
}

#[test]
fn client_certificates_are_verified_when_given() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let (friend, stranger) = (of_client("friend"), of_client("stranger"));
    let authorities = folder.path().join("ca.pem");
    std::fs::copy(friend.authorities.as_ref().unwrap(), &authorities).unwrap();
    let files = TlsFiles { authorities: Some(authorities.clone()), ..own(&folder) };
    let tls = ServerTls::open(files, now).unwrap();
    let trusted = folder.path().join(CERTIFICATE_FILE);
    for version in VERSIONS {
        let with = |own: Option<&TlsFiles>| shake(client(&trusted, own, version).unwrap(), &tls, "localhost");
        assert_eq!((with(None), with(Some(&friend))), (Ok(0), Ok(1)));
        assert!(with(Some(&stranger)).is_err());
    }
    std::fs::write(authorities, "").unwrap();
    assert!(tls.reload(now).unwrap_err().to_string().contains("ca.pem"));
}

#[test]
fn the_end_of_a_certificate_of_any_year() {
    let key = certificate::new_key().unwrap();
    let start = |year: i16| jiff::civil::date(year, 3, 1).to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
    for year in [1971, 2026, 2039, 2040, 2041, 2060] {
        let at = start(year).as_second();
        let made = certificate::self_signed(&key, at).unwrap();
        assert_eq!(certificate::ends_at(&made), Some(at + 3_650 * 86_400), "{year}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_a_certificate_or_none(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80), place in 0usize..400, with: u8) {
        let _ = certificate::ends_at(&bytes);
        static MADE: std::sync::LazyLock<Vec<u8>> =
            std::sync::LazyLock::new(|| certificate::self_signed(&certificate::new_key().unwrap(), 0).unwrap());
        let mut made = MADE.clone();
        let place = place % made.len();
        made[place] = with;
        let _ = certificate::ends_at(&made);
        let _ = certificate::ends_at(&made[..place]);
        let _ = certificate::self_signed(&bytes, 0);
    }
}
