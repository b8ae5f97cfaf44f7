//! TLS of the server: whose certificate it shows, whose it accepts, and when its own ends.
//!
//! In: certificate and key files, or a folder for a self-signed one; the time. Out: a rustls configuration. Never here:
//! connections; a configuration that replaced a working one without being complete.

mod certificate;
mod der;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use base::own_files::{SMALL_FILE_MAX, read_within};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use crate::error::TlsError;
use crate::secret_file;

/// Our own certificate in the data folder, PEM.
const CERTIFICATE_FILE: &str = "server-cert.pem";
/// Its key, PEM.
const KEY_FILE: &str = "server-key.pem";
/// Our own certificate is renewed when less than this is left: a start may be the last one for a while.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 86_400);
/// Characters in a line of PEM.
const PEM_LINE: usize = 64;

/// Where certificates are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The data folder, which has the self-signed certificate.
    pub folder: PathBuf,
    /// The operator's certificate with its chain, PEM (`ssl-cert`); None: a self-signed one.
    pub certificate: Option<PathBuf>,
    /// Its key, PEM (`ssl-key`).
    pub key: Option<PathBuf>,
    /// Authorities whose client certificates are accepted, PEM (`ssl-ca`); None: no client is asked for one.
    pub authorities: Option<PathBuf>,
}

/// Whose certificate is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateOwner {
    /// Self-signed by us.
    SelfSigned,
    /// The operator's.
    Operator,
}

/// The TLS configuration in use. Shared by all connections.
#[derive(Debug)]
pub struct ServerTls {
    files: TlsFiles,
    current: ArcSwap<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    owner: CertificateOwner,
    expires: SystemTime,
}

impl ServerTls {
    /// Reads the files; makes a self-signed certificate if the operator gives none and there is none, or it ends soon.
    ///
    /// # Errors
    /// A file cannot be read, written or used.
    pub fn open(files: TlsFiles, now: SystemTime) -> Result<ServerTls, TlsError> {
        let current = load(&files, now)?;
        Ok(ServerTls { files, current: ArcSwap::from_pointee(current) })
    }

    /// The configuration for a new connection.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }

    /// Whose certificate is shown.
    #[must_use]
    pub fn owner(&self) -> CertificateOwner {
        self.current.load().owner
    }

    /// When the certificate ends. An operator's one that has ended is shown all the same: clients decide.
    #[must_use]
    pub fn expires(&self) -> SystemTime {
        self.current.load().expires
    }

    /// Reads the files again. Connections that exist keep what they have.
    ///
    /// # Errors
    /// As [`open`](ServerTls::open); the configuration in use then stays.
    pub fn reload(&self, now: SystemTime) -> Result<(), TlsError> {
        self.current.store(Arc::new(load(&self.files, now)?));
        Ok(())
    }
}

fn load(files: &TlsFiles, now: SystemTime) -> Result<Current, TlsError> {
    match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            let chain = read_certificates(certificate)?;
            current(certificate, chain, read_key(key)?, files, CertificateOwner::Operator)
        }
        (None, None) => {
            let (certificate, key) = own_pair(&files.folder, now)?;
            let path = files.folder.join(CERTIFICATE_FILE);
            current(&path, vec![certificate], key, files, CertificateOwner::SelfSigned)
        }
        _ => Err(TlsError::HalfAPair),
    }
}

fn current(
    path: &Path,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    files: &TlsFiles,
    owner: CertificateOwner,
) -> Result<Current, TlsError> {
    let unusable = |reason: String| TlsError::Unusable { path: path.to_owned(), reason };
    let ends = chain.first().and_then(|first| certificate::ends_at(first));
    let expires = ends.and_then(from_seconds).ok_or_else(|| unusable("its first certificate has no end".into()))?;
    let library = |error: rustls::Error| TlsError::Library(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = match &files.authorities {
        None => builder.map_err(library)?.with_no_client_auth(),
        Some(authorities) => {
            let roots = Arc::new(read_authorities(authorities)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).allow_unauthenticated();
            let failed = |error: rustls::server::VerifierBuilderError| TlsError::Unusable {
                path: authorities.clone(),
                reason: error.to_string(),
            };
            builder.map_err(library)?.with_client_cert_verifier(verifier.build().map_err(failed)?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| unusable(error.to_string()))?;
    // Nothing is resumed: a resumed session would go on with a certificate that a reload has put out of use.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Current { config: Arc::new(config), owner, expires })
}

/// Our own certificate and key, made if missing. The key stays for good, so that certificate and key always match.
fn own_pair(folder: &Path, now: SystemTime) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), TlsError> {
    let (certificate_path, key_path) = (folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE));
    if !exists(&key_path)? {
        write_pem(&key_path, "PRIVATE KEY", &certificate::new_key()?)?;
    }
    let key = read_key(&key_path)?;
    if exists(&certificate_path)? {
        let kept = read_certificates(&certificate_path)?.into_iter().next();
        if let Some(kept) = kept.filter(|kept| lasts(kept, now)) {
            return Ok((kept, key));
        }
    }
    let made = certificate::self_signed(key.secret_der(), seconds_of(now))
        .map_err(|error| TlsError::Unusable { path: key_path, reason: error.to_string() })?;
    write_pem(&certificate_path, "CERTIFICATE", &made)?;
    Ok((CertificateDer::from(made), key))
}

fn lasts(certificate: &CertificateDer<'_>, now: SystemTime) -> bool {
    let ends = certificate::ends_at(certificate).and_then(from_seconds);
    ends.is_some_and(|ends| ends > now + RENEW_BEFORE)
}

fn from_seconds(seconds: i64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

fn seconds_of(now: SystemTime) -> i64 {
    now.duration_since(UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}

fn exists(path: &Path) -> Result<bool, TlsError> {
    path.try_exists().map_err(|error| io_error(path, error))
}

fn io_error(path: &Path, source: io::Error) -> TlsError {
    TlsError::Io { path: path.to_owned(), source }
}

fn pem_error(path: &Path, error: pem::Error) -> TlsError {
    match error {
        pem::Error::Io(source) => io_error(path, source),
        pem::Error::NoItemsFound => TlsError::Unusable { path: path.to_owned(), reason: "it holds none".into() },
        other => TlsError::Unusable { path: path.to_owned(), reason: other.to_string() },
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let pem = read_within(path, SMALL_FILE_MAX).map_err(|error| io_error(path, error))?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            TlsError::Unusable { path: path.to_owned(), reason: "it holds no private key without a passphrase".into() }
        }
        other => pem_error(path, other),
    })
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read_within(path, SMALL_FILE_MAX).map_err(|error| io_error(path, error))?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let found: Vec<_> = found.map_err(|error| pem_error(path, error))?;
    if found.is_empty() {
        return Err(TlsError::Unusable { path: path.to_owned(), reason: "it holds no certificate".into() });
    }
    Ok(found)
}

fn read_authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError::Unusable { path: path.to_owned(), reason: error.to_string() })?;
    }
    Ok(roots)
}

/// Writes PEM, mode 0600, durably. Others may need the certificate, but they are given it by every handshake.
fn write_pem(path: &Path, label: &str, der: &[u8]) -> Result<(), TlsError> {
    let text = BASE64.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(PEM_LINE) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    secret_file::write_secret(path, out.as_bytes()).map_err(|error| io_error(path, error))?;
    secret_file::sync_names(path).map_err(|error| io_error(path, error))
}
