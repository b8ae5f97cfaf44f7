//! Client side of authentication, as a state machine stepped with the server's packets.

use std::io;
use std::sync::Arc;

use base::locked::Locked;
use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::read::Reader;
use crate::response::{ErrPacket, OkPacket};
use crate::rsa::PublicKey;
use crate::{Result, WireError};

/// Length in bytes of the random seed of one RSA encryption.
pub const SEED_LEN: usize = 20;

/// Authentication plugins that this client supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// caching_sha2_password, the default since 8.0.
    CachingSha2,
    /// mysql_native_password, the default up to 5.7 and MariaDB's.
    Native,
    /// sha256_password: SHA-256 without a cache.
    Sha256,
    /// auth_socket: the user of the operating system, over a unix socket.
    Socket,
}

impl Plugin {
    /// Finds a plugin by its name in the protocol. The clear-text and dialog plugins are refused on purpose.
    pub fn from_name(name: &str) -> Option<Plugin> {
        Some(match name {
            "caching_sha2_password" => Plugin::CachingSha2,
            "mysql_native_password" => Plugin::Native,
            "sha256_password" => Plugin::Sha256,
            "auth_socket" | "unix_socket" => Plugin::Socket,
            _ => return None,
        })
    }

    /// Name of the plugin in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Plugin::CachingSha2 => "caching_sha2_password",
            Plugin::Native => "mysql_native_password",
            Plugin::Sha256 => "sha256_password",
            Plugin::Socket => "auth_socket",
        }
    }
}

/// Credentials and what the transport allows for a login.
#[derive(Debug, Clone)]
pub struct AuthOptions {
    /// The password; empty for none.
    pub password: String,
    /// True for TLS or a unix socket: the password itself may be sent.
    pub secure_transport: bool,
    /// The server's RSA key, read from a file.
    pub server_public_key: Option<PublicKey>,
    /// Request the server's key if no file has it (trusts whoever answers, so off by default).
    pub get_server_public_key: bool,
}

/// A password that somebody else has proved, or its hash: both let whoever has them log in.
#[derive(Debug)]
pub struct Secret {
    /// SHA-256 of the password.
    once: Locked,
    password: Option<Locked>,
}

impl Secret {
    /// Keeps SHA-256 of a password.
    ///
    /// # Errors
    /// No more memory can be locked.
    pub fn of_hash(once: &[u8; 32]) -> io::Result<Secret> {
        Ok(Secret { once: Locked::new(once)?, password: None })
    }

    /// Keeps a password, and SHA-256 of it.
    ///
    /// # Errors
    /// No more memory can be locked.
    pub fn of_password(password: &[u8]) -> io::Result<Secret> {
        let once: [u8; 32] = Sha256::digest(password).into();
        Ok(Secret { once: Locked::new(&once)?, password: Some(Locked::new(password)?) })
    }
}

/// Action after a packet of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum AuthStep {
    /// Send this payload, then read.
    Send(Vec<u8>),
    /// Read the next packet.
    Read,
    /// The login succeeded.
    Done(OkPacket),
    /// The server refused the login.
    Refused(ErrPacket),
}

/// State of one login.
#[derive(Debug)]
pub struct Authenticator {
    options: AuthOptions,
    /// Goes before the password of `options`.
    secret: Option<Arc<Secret>>,
    plugin: Plugin,
    nonce: Vec<u8>,
    key_requested: bool,
    switched: bool,
    gave_password: bool,
}

impl Authenticator {
    /// Begins with the plugin of the greeting. If it is unknown or empty, begins with caching_sha2_password, as MySQL's
    /// clients do; the server then asks to switch.
    pub fn new(options: AuthOptions, greeting_plugin: &str, nonce: &[u8]) -> Self {
        let plugin = Plugin::from_name(greeting_plugin).unwrap_or(Plugin::CachingSha2);
        Authenticator {
            options,
            secret: None,
            plugin,
            nonce: nonce.to_vec(),
            key_requested: false,
            switched: false,
            gave_password: false,
        }
    }

    /// Logs in with this, instead of a password of the options.
    #[must_use]
    pub fn with_secret(self, secret: Arc<Secret>) -> Self {
        Authenticator { secret: Some(secret), ..self }
    }

    /// The password in the clear, if it is known.
    fn password(&self) -> Result<&[u8]> {
        match &self.secret {
            None => Ok(self.options.password.as_bytes()),
            Some(secret) => match &secret.password {
                Some(password) => Ok(password.bytes()),
                None => Err(WireError::NoPassword { plugin: self.plugin.name() }),
            },
        }
    }

    fn has_password(&self) -> bool {
        self.secret.is_some() || !self.options.password.is_empty()
    }

    /// The plugin in use.
    pub fn plugin(&self) -> Plugin {
        self.plugin
    }

    /// True once the server can have the password itself: in clear, or for a key that it sent.
    pub fn gave_password(&self) -> bool {
        self.gave_password
    }

    /// The plugin's first answer, sent in the login packet.
    pub fn first_response(&mut self, seed: &[u8; SEED_LEN]) -> Result<Vec<u8>> {
        match (self.plugin, &self.secret) {
            (Plugin::Socket, _) => Ok(Vec::new()),
            (Plugin::Sha256, _) if !self.has_password() => Ok(vec![0]),
            (Plugin::Sha256, _) => self.send_password(seed),
            _ if !self.has_password() => Ok(Vec::new()),
            (Plugin::CachingSha2, Some(secret)) => Ok(scramble_hash(secret.once.bytes(), &self.nonce).to_vec()),
            (Plugin::CachingSha2, None) => Ok(scramble_sha256(self.password()?, &self.nonce).to_vec()),
            (Plugin::Native, _) => Ok(scramble_native(self.password()?, &self.nonce).to_vec()),
        }
    }

    /// Handles the server's next packet.
    pub fn step(&mut self, payload: &[u8], seed: &[u8; SEED_LEN]) -> Result<AuthStep> {
        match payload.first() {
            Some(0x00) => OkPacket::parse(payload).map(AuthStep::Done),
            Some(0xff) => ErrPacket::parse(payload).map(AuthStep::Refused),
            Some(0xfe) => self.switch(payload.get(1..).unwrap_or_default(), seed),
            Some(0x01) => self.more_data(payload.get(1..).unwrap_or_default(), seed),
            _ => Err(WireError::Malformed { what: "authentication packet" }),
        }
    }

    fn switch(&mut self, body: &[u8], seed: &[u8; SEED_LEN]) -> Result<AuthStep> {
        if body.is_empty() {
            return Err(WireError::AuthPlugin { plugin: "mysql_old_password".into() });
        }
        if std::mem::replace(&mut self.switched, true) {
            return Err(WireError::Malformed { what: "a second switch of the authentication plugin" });
        }
        let mut reader = Reader::new(body);
        let name = String::from_utf8_lossy(reader.nul_or_rest()).into_owned();
        let nonce = reader.rest();
        self.plugin = Plugin::from_name(&name).ok_or(WireError::AuthPlugin { plugin: name })?;
        self.nonce = nonce.strip_suffix(&[0]).unwrap_or(nonce).to_vec();
        self.key_requested = false;
        self.first_response(seed).map(AuthStep::Send)
    }

    fn more_data(&mut self, data: &[u8], seed: &[u8; SEED_LEN]) -> Result<AuthStep> {
        match (self.plugin, data) {
            (Plugin::CachingSha2, [3]) => Ok(AuthStep::Read),
            (Plugin::CachingSha2, [4]) => self.send_password(seed).map(AuthStep::Send),
            (Plugin::CachingSha2 | Plugin::Sha256, pem) if self.key_requested => {
                self.key_requested = false;
                let key = PublicKey::from_pem(pem)?;
                self.gave_password = true;
                self.encrypt(&key, seed).map(AuthStep::Send)
            }
            _ => Err(WireError::Malformed { what: "authentication data" }),
        }
    }

    /// The password in a form that the transport allows, or a request for the server's key.
    fn send_password(&mut self, seed: &[u8; SEED_LEN]) -> Result<Vec<u8>> {
        if self.options.secure_transport {
            let clear = [self.password()?, &[0]].concat();
            self.gave_password = true;
            return Ok(clear);
        }
        if let Some(key) = &self.options.server_public_key {
            return self.encrypt(key, seed);
        }
        if !self.options.get_server_public_key {
            return Err(WireError::InsecureTransport { plugin: self.plugin.name() });
        }
        self.key_requested = true;
        Ok(vec![if self.plugin == Plugin::CachingSha2 { 2 } else { 1 }])
    }

    fn encrypt(&self, key: &PublicKey, seed: &[u8; SEED_LEN]) -> Result<Vec<u8>> {
        if self.nonce.is_empty() {
            return Err(WireError::Malformed { what: "empty nonce" });
        }
        let password = self.password()?.iter().copied().chain([0]);
        let mixed: Vec<u8> = password.zip(self.nonce.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        key.encrypt_oaep_sha1(&mixed, seed)
    }
}

/// mysql_native_password: SHA1(p) XOR SHA1(nonce, SHA1(SHA1(p))).
pub fn scramble_native(password: &[u8], nonce: &[u8]) -> [u8; 20] {
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    let mut out: [u8; 20] = once.into();
    out.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    out
}

/// caching_sha2_password: SHA256(p) XOR SHA256(SHA256(SHA256(p)), nonce).
pub fn scramble_sha256(password: &[u8], nonce: &[u8]) -> [u8; 32] {
    scramble_hash(&Sha256::digest(password), nonce)
}

/// The same of SHA256(p).
fn scramble_hash(once: &[u8], nonce: &[u8]) -> [u8; 32] {
    let twice = Sha256::digest(once);
    let mut out: [u8; 32] = Sha256::new().chain_update(twice).chain_update(nonce).finalize().into();
    out.iter_mut().zip(once).for_each(|(byte, once)| *byte ^= once);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rsa::tests::PEM;
    use proptest::prelude::*;

    const SEED: [u8; SEED_LEN] = [7; SEED_LEN];

    fn nonce() -> Vec<u8> {
        (1..=20).collect()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn login(plugin: &str, password: &str, secure: bool, get_key: bool) -> Authenticator {
        let options = AuthOptions {
            password: password.into(),
            secure_transport: secure,
            server_public_key: None,
            get_server_public_key: get_key,
        };
        Authenticator::new(options, plugin, &nonce())
    }

    // Both values were computed by an independent implementation.
    #[test]
    fn scrambles_known_answers() {
        assert_eq!(hex(&scramble_native(b"secret", &nonce())), "b32bb3a583e1340c0a1108d58b1be49781ad8c2f");
        assert_eq!(
            hex(&scramble_sha256(b"secret", &nonce())),
            "746ebe205d56a0707acb3e796e834e0dd7b1d61743b26bd5202c7a623230c7c9"
        );
    }

    #[test]
    fn caching_sha2_fast_and_full() {
        let mut auth = login("caching_sha2_password", "secret", true, false);
        assert_eq!(auth.first_response(&SEED).unwrap().len(), 32);
        assert_eq!(auth.step(&[1, 3], &SEED).unwrap(), AuthStep::Read);
        assert!(matches!(auth.step(&[0, 0, 0, 2, 0, 0, 0], &SEED).unwrap(), AuthStep::Done(_)));
        assert!(!auth.gave_password());
        assert_eq!(auth.step(&[1, 4], &SEED).unwrap(), AuthStep::Send(b"secret\0".to_vec()));
        assert!(auth.gave_password());
        assert!(login("caching_sha2_password", "", true, false).first_response(&SEED).unwrap().is_empty());
    }

    #[test]
    fn a_hash_alone_logs_in_by_the_fast_path() {
        let once: [u8; 32] = Sha256::digest(b"secret").into();
        let auth =
            |secret: Secret, plugin: &str, secure: bool| login(plugin, "", secure, false).with_secret(Arc::new(secret));
        let (hash, full) = (|| Secret::of_hash(&once).unwrap(), || Secret::of_password(b"secret").unwrap());
        for secret in [hash(), full()] {
            assert!(!format!("{secret:?}").contains("secret"));
            let mut auth = auth(secret, "caching_sha2_password", false);
            assert_eq!(auth.first_response(&SEED).unwrap(), scramble_sha256(b"secret", &nonce()));
        }
        // The server's cache is empty: it wants the password.
        let asked = |secret, secure| auth(secret, "caching_sha2_password", secure).step(&[1, 4], &SEED);
        let plugin = "caching_sha2_password";
        assert_eq!(asked(hash(), true), Err(WireError::NoPassword { plugin }));
        assert_eq!(asked(full(), false), Err(WireError::InsecureTransport { plugin }));
        assert_eq!(asked(full(), true), Ok(AuthStep::Send(b"secret\0".to_vec())));
        let native = |secret| auth(secret, "mysql_native_password", true).first_response(&SEED);
        assert_eq!(native(full()).unwrap(), scramble_native(b"secret", &nonce()));
        assert!(native(hash()).is_err());
        assert!(auth(hash(), "sha256_password", true).first_response(&SEED).is_err());
    }

    #[test]
    fn clear_transport_needs_a_key() {
        let mut auth = login("caching_sha2_password", "secret", false, false);
        assert!(matches!(auth.step(&[1, 4], &SEED), Err(WireError::InsecureTransport { .. })));
        let mut auth = login("caching_sha2_password", "secret", false, true);
        assert_eq!(auth.step(&[1, 4], &SEED).unwrap(), AuthStep::Send(vec![2]));
        let mut answer = vec![1];
        answer.extend_from_slice(PEM.as_bytes());
        assert!(!auth.gave_password());
        let AuthStep::Send(cipher) = auth.step(&answer, &SEED).unwrap() else { panic!() };
        assert!(auth.gave_password());
        assert_eq!(cipher.len(), 128);
        let mut auth = login("sha256_password", "secret", false, true);
        assert_eq!(auth.first_response(&SEED).unwrap(), [1]);
        assert!(matches!(auth.step(&answer, &SEED).unwrap(), AuthStep::Send(_)));
    }

    #[test]
    fn switch_of_plugin() {
        let mut auth = login("caching_sha2_password", "secret", false, false);
        let mut packet = b"\xfemysql_native_password\0".to_vec();
        packet.extend(nonce());
        packet.push(0);
        let AuthStep::Send(response) = auth.step(&packet, &SEED).unwrap() else { panic!() };
        assert_eq!(hex(&response), "b32bb3a583e1340c0a1108d58b1be49781ad8c2f");
        assert!(auth.step(&packet, &SEED).is_err(), "only one switch");
        let mut auth = login("caching_sha2_password", "secret", true, false);
        let clear = auth.step(b"\xfemysql_clear_password\0", &SEED);
        assert_eq!(clear, Err(WireError::AuthPlugin { plugin: "mysql_clear_password".into() }));
    }

    proptest! {
        #[test]
        fn hostile_servers_never_panic(
            packets in prop::collection::vec((0u8..5, prop::collection::vec(any::<u8>(), 0..60)), 0..6),
            secure: bool,
        ) {
            let mut auth = login("caching_sha2_password", "secret", secure, true);
            for (head, mut packet) in packets {
                packet.insert(0, [0, 1, 1, 0xfe, 0xff][usize::from(head)]);
                let _ = auth.step(&packet, &SEED);
            }
        }
    }
}
