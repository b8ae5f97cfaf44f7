//! TLS by rustls: certificate checks per ssl mode, and a stream that makes few and large reads.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use base::own_files::{SMALL_FILE_MAX, read_within};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::stream::Socket;
use crate::{ClientError, ConnectOptions, Result, SslMode};

/// Fresh random bytes from the TLS library's generator.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = ring::default_provider().secure_random.fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| tls_error("no randomness"))
}

fn tls_error(message: impl Into<String>) -> ClientError {
    ClientError::Tls { message: message.into() }
}

/// What ended a handshake, and what to do where that is known.
fn in_words(error: &io::Error, host: &str) -> String {
    let of_certificate = match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(of_certificate)) => of_certificate,
        _ => return error.to_string(),
    };
    match of_certificate {
        CertificateError::UnknownIssuer => "the server's certificate is from an authority that is not known here: \
             source-ssl-ca=FILE (in a URL ssl-ca=FILE) names it; on the server, SHOW VARIABLES LIKE 'ssl_ca' shows the file"
            .to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "the server's certificate is not for the name '{host}': use a name that is in it, or ssl-mode=VERIFY_CA"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired".to_owned()
        }
        _ => error.to_string(),
    }
}

/// A TLS session without its socket.
pub(crate) struct Tls {
    pub(crate) session: Box<ClientConnection>,
    /// Bytes of the socket that the session has not taken.
    pub(crate) early: Vec<u8>,
}

/// A TLS session over a socket.
pub(crate) struct TlsStream {
    session: ClientConnection,
    socket: Socket,
    /// Bytes received but not yet passed to the session.
    input: Box<[u8]>,
    start: usize,
    end: usize,
}

impl TlsStream {
    pub(crate) fn connect(mut socket: Socket, options: &ConnectOptions) -> Result<Self> {
        let config = client_config(options)?;
        let host = if options.socket.is_some() { "localhost" } else { &options.host };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| tls_error(format!("'{host}' is no host name")))?;
        let mut session =
            ClientConnection::new(Arc::new(config), name).map_err(|error| tls_error(error.to_string()))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::ReadTimeout,
                _ => tls_error(in_words(&error, host)),
            })?;
        }
        let input = vec![0; wire::packet::READ_LEN].into_boxed_slice();
        Ok(TlsStream { session, socket, input, start: 0, end: 0 })
    }

    pub(crate) fn of_parts(socket: Socket, Tls { session, early }: Tls) -> Self {
        let end = early.len();
        let mut input = early;
        input.resize(input.len().max(wire::packet::READ_LEN), 0);
        TlsStream { session: *session, socket, input: input.into_boxed_slice(), start: 0, end }
    }

    pub(crate) fn into_parts(self) -> (Socket, Tls) {
        let early = self.input.get(self.start..self.end).unwrap_or_default().to_vec();
        (self.socket, Tls { session: Box::new(self.session), early })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Version and cipher, for the log.
    pub(crate) fn description(&self) -> String {
        let version = self.session.protocol_version().and_then(|version| version.as_str());
        let cipher = self.session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        format!("{} {}", version.unwrap_or("TLS"), cipher.unwrap_or_default())
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.read_session(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let len = self.socket.read(&mut self.input)?;
            if len == 0 {
                return Ok(0);
            }
            self.start = 0;
            self.end = len;
        }
    }

    pub(crate) fn read_buffered(&mut self, buffer: &mut [u8]) -> usize {
        self.read_session(buffer).unwrap_or(0)
    }

    /// Reads what the session has in memory; `WouldBlock` if more must be received.
    fn read_session(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.start < self.end => {}
                done => return done,
            }
            let mut received = self.input.get(self.start..self.end).unwrap_or_default();
            self.start += self.session.read_tls(&mut received)?;
            self.session.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            self.flush_session()?;
        }
    }

    pub(crate) fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let len = self.session.writer().write(bytes)?;
            bytes = bytes.get(len..).unwrap_or_default();
            self.flush_session()?;
        }
        Ok(())
    }

    fn flush_session(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

fn client_config(options: &ConnectOptions) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let verify = matches!(options.ssl_mode, SslMode::VerifyCa | SslMode::VerifyIdentity);
    let chain = if verify {
        let roots = Arc::new(roots(options.ssl_ca.as_deref())?);
        if roots.is_empty() {
            return Err(tls_error(
                "this machine has no certificates of authorities to verify the server with: install ca-certificates, \
                 or name the server's with source-ssl-ca=FILE (in a URL ssl-ca=FILE)",
            ));
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        Some(verifier.map_err(|error| tls_error(format!("ssl-ca: {error}")))?)
    } else {
        None
    };
    let verifier =
        Verifier { provider: Arc::clone(&provider), chain, check_name: options.ssl_mode == SslMode::VerifyIdentity };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| tls_error(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    match (&options.ssl_cert, &options.ssl_key) {
        (Some(cert), Some(key)) => {
            let certs = read_certs(cert)?;
            let failed = |error: String| tls_error(format!("ssl-key {}: {error}", key.display()));
            let pem = read_within(key, SMALL_FILE_MAX).map_err(|error| failed(error.to_string()))?;
            let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| failed(error.to_string()))?;
            builder.with_client_auth_cert(certs, key).map_err(|error| tls_error(format!("ssl-cert: {error}")))
        }
        (None, None) => Ok(builder.with_no_client_auth()),
        _ => Err(ClientError::usage("ssl-cert and ssl-key must be given together")),
    }
}

fn read_certs(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let failed = |error: String| tls_error(format!("{}: {error}", path.display()));
    let pem = read_within(path, SMALL_FILE_MAX).map_err(|error| failed(error.to_string()))?;
    let certs = CertificateDer::pem_slice_iter(&pem).collect::<std::result::Result<Vec<_>, _>>();
    let certs = certs.map_err(|error| failed(error.to_string()))?;
    if certs.is_empty() { Err(failed("holds no certificate".into())) } else { Ok(certs) }
}

fn roots(file: Option<&Path>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            for cert in read_certs(path)? {
                roots.add(cert).map_err(|error| tls_error(format!("ssl-ca {}: {error}", path.display())))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

/// Certificate check of one ssl mode.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None`: any certificate (PREFERRED, REQUIRED).
    chain: Option<Arc<WebPkiServerVerifier>>,
    check_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        // The chain is verified before the name, so an error about the name means that the chain is valid.
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.check_name => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        match &self.chain {
            Some(chain) => chain.verify_tls12_signature(message, cert, dss),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        match &self.chain {
            Some(chain) => chain.verify_tls13_signature(message, cert, dss),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
