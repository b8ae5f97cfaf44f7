//! The server's greeting (protocol 10), the TLS request and the client's login.

use crate::command;
use crate::read::{Reader, put_lenenc_bytes, put_short_bytes};
use crate::response::{ErrPacket, is_err};
use crate::{Result, WireError};

/// Capability bits, with MySQL's names.
pub mod capability {
    #![allow(missing_docs)]
    pub const LONG_PASSWORD: u32 = 1;
    pub const FOUND_ROWS: u32 = 1 << 1;
    pub const LONG_FLAG: u32 = 1 << 2;
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    pub const COMPRESS: u32 = 1 << 5;
    pub const LOCAL_FILES: u32 = 1 << 7;
    pub const IGNORE_SPACE: u32 = 1 << 8;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const INTERACTIVE: u32 = 1 << 10;
    pub const SSL: u32 = 1 << 11;
    pub const TRANSACTIONS: u32 = 1 << 13;
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    pub const MULTI_RESULTS: u32 = 1 << 17;
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    pub const CONNECT_ATTRS: u32 = 1 << 20;
    pub const PLUGIN_AUTH_LENENC_CLIENT_DATA: u32 = 1 << 21;
    pub const SESSION_TRACK: u32 = 1 << 23;
    pub const DEPRECATE_EOF: u32 = 1 << 24;
    pub const OPTIONAL_RESULTSET_METADATA: u32 = 1 << 25;
    pub const ZSTD_COMPRESSION_ALGORITHM: u32 = 1 << 26;
    pub const QUERY_ATTRIBUTES: u32 = 1 << 27;

    /// What a session has beyond its login: these change neither the bytes below packets (TLS, compression) nor send a
    /// file.
    pub const OF_SESSIONS: u32 = LONG_PASSWORD
        | FOUND_ROWS
        | LONG_FLAG
        | IGNORE_SPACE
        | INTERACTIVE
        | TRANSACTIONS
        | MULTI_STATEMENTS
        | MULTI_RESULTS
        | PS_MULTI_RESULTS
        | SESSION_TRACK
        | DEPRECATE_EOF
        | OPTIONAL_RESULTSET_METADATA
        | QUERY_ATTRIBUTES;
}

/// The server's first packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Greeting {
    /// Version as sent, e.g. `9.7.4` or `5.5.5-10.11.6-MariaDB`.
    pub server_version: String,
    /// Id of the connection on the server.
    pub connection_id: u32,
    /// Capability bits that the server offers.
    pub capabilities: u32,
    /// The server's default collation (low byte).
    pub collation: u8,
    /// The server's default authentication plugin (may be empty).
    pub auth_plugin: String,
    /// The nonce for the authentication plugin, without its terminating zero byte.
    pub nonce: Vec<u8>,
}

/// Kinds of first packet of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstPacket {
    /// A greeting.
    Greeting(Greeting),
    /// A refusal, e.g. 1040 (too many connections) or 1130 (host not allowed).
    Refused(ErrPacket),
}

impl Greeting {
    /// Parses the server's first packet.
    pub fn parse(payload: &[u8]) -> Result<FirstPacket> {
        if is_err(payload) {
            return ErrPacket::parse_before_login(payload).map(FirstPacket::Refused);
        }
        let mut reader = Reader::new(payload);
        let version = reader.u8("protocol version")?;
        if version != 10 {
            return Err(WireError::ProtocolVersion { version });
        }
        let server_version = text(reader.nul_bytes("server version")?);
        let connection_id = reader.u32("connection id")?;
        let mut nonce = reader.take(8, "nonce")?.to_vec();
        reader.take(1, "filler")?;
        let mut capabilities = u32::from(reader.u16("capabilities")?);
        let (mut collation, mut nonce_len) = (0, 0);
        if !reader.is_empty() {
            collation = reader.u8("collation")?;
            reader.u16("status")?;
            capabilities |= u32::from(reader.u16("capabilities")?) << 16;
            nonce_len = usize::from(reader.u8("nonce length")?);
            reader.take(10, "reserved")?;
        }
        if capabilities & capability::PROTOCOL_41 == 0 {
            return Err(WireError::Capability { what: "the 4.1 protocol" });
        }
        if capabilities & capability::SECURE_CONNECTION != 0 || nonce_len > 8 {
            let len = nonce_len.saturating_sub(8).max(13).min(reader.rest().len());
            let tail = reader.take(len, "nonce")?;
            nonce.extend_from_slice(tail.strip_suffix(&[0]).unwrap_or(tail));
        }
        let auth_plugin = match capabilities & capability::PLUGIN_AUTH {
            0 => String::new(),
            _ => text(reader.nul_or_rest()),
        };
        Ok(FirstPacket::Greeting(Greeting {
            server_version,
            connection_id,
            capabilities,
            collation,
            auth_plugin,
            nonce,
        }))
    }

    /// True if the version text names MariaDB.
    pub fn is_mariadb(&self) -> bool {
        self.server_version.to_ascii_lowercase().contains("mariadb")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Content of the client's login packet.
#[derive(Debug, Clone, Copy)]
pub struct Login<'a> {
    /// Capability bits to use; must be a subset of those the server offered, except for `SSL`, see
    /// [`Login::ssl_request`].
    pub capabilities: u32,
    /// The collation of the connection (255 = utf8mb4_0900_ai_ci, 45 = utf8mb4_general_ci).
    pub collation: u8,
    /// Account name.
    pub user: &'a str,
    /// First answer of the authentication plugin.
    pub auth_response: &'a [u8],
    /// Default database; empty for none.
    pub database: &'a str,
    /// The authentication plugin that computed `auth_response`.
    pub auth_plugin: &'a str,
    /// Names and values for performance_schema.session_connect_attrs.
    pub attributes: &'a [(&'a str, &'a str)],
}

/// The announced `max_packet_size` in bytes; the server uses the smaller of this and its own.
const MAX_PACKET_ANNOUNCED: u32 = 1 << 30;

impl Login<'_> {
    fn common(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.capabilities.to_le_bytes());
        out.extend_from_slice(&MAX_PACKET_ANNOUNCED.to_le_bytes());
        out.push(self.collation);
        out.extend_from_slice(&[0; 23]);
    }

    /// Payload of the packet that requests TLS; `capabilities` must contain `SSL`.
    pub fn ssl_request(&self, out: &mut Vec<u8>) {
        self.common(out);
    }

    /// Payload of HandshakeResponse41.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.common(out);
        out.extend_from_slice(self.user.as_bytes());
        out.push(0);
        if self.capabilities & capability::PLUGIN_AUTH_LENENC_CLIENT_DATA != 0 {
            put_lenenc_bytes(out, self.auth_response);
        } else {
            put_short_bytes(out, self.auth_response);
        }
        if self.capabilities & capability::CONNECT_WITH_DB != 0 {
            out.extend_from_slice(self.database.as_bytes());
            out.push(0);
        }
        if self.capabilities & capability::PLUGIN_AUTH != 0 {
            out.extend_from_slice(self.auth_plugin.as_bytes());
            out.push(0);
        }
        self.put_attributes(out);
    }

    /// Payload of COM_CHANGE_USER on a connection with these capabilities.
    pub fn change_user(&self, out: &mut Vec<u8>) {
        out.push(command::CHANGE_USER);
        out.extend_from_slice(self.user.as_bytes());
        out.push(0);
        put_short_bytes(out, self.auth_response);
        out.extend_from_slice(self.database.as_bytes());
        out.extend_from_slice(&[0, self.collation, 0]);
        if self.capabilities & capability::PLUGIN_AUTH != 0 {
            out.extend_from_slice(self.auth_plugin.as_bytes());
            out.push(0);
        }
        self.put_attributes(out);
    }

    fn put_attributes(&self, out: &mut Vec<u8>) {
        if self.capabilities & capability::CONNECT_ATTRS != 0 {
            let mut attributes = Vec::new();
            for (name, value) in self.attributes {
                put_lenenc_bytes(&mut attributes, name.as_bytes());
                put_lenenc_bytes(&mut attributes, value.as_bytes());
            }
            put_lenenc_bytes(out, &attributes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn greeting() -> Vec<u8> {
        let mut bytes = vec![10];
        bytes.extend_from_slice(b"9.7.4\0");
        bytes.extend_from_slice(&42u32.to_le_bytes());
        bytes.extend_from_slice(b"abcdefgh\0");
        bytes.extend_from_slice(&[0xff, 0xff, 255, 2, 0, 0xff, 0xdf, 21]);
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(b"ijklmnopqrst\0");
        bytes.extend_from_slice(b"caching_sha2_password\0");
        bytes
    }

    #[test]
    fn greeting_of_a_current_server() {
        let FirstPacket::Greeting(parsed) = Greeting::parse(&greeting()).unwrap() else { panic!() };
        assert_eq!(parsed.server_version, "9.7.4");
        assert_eq!(parsed.connection_id, 42);
        assert_eq!(parsed.nonce, b"abcdefghijklmnopqrst");
        assert_eq!(parsed.auth_plugin, "caching_sha2_password");
        assert_eq!(parsed.capabilities, 0xdfff_ffff);
        assert!(!parsed.is_mariadb());
    }

    #[test]
    fn refusal_before_login_has_no_sqlstate() {
        let mut bytes = vec![0xff, 0x6a, 0x04];
        bytes.extend_from_slice(b"Host 'x' is not allowed");
        let FirstPacket::Refused(err) = Greeting::parse(&bytes).unwrap() else { panic!() };
        assert_eq!((err.code, err.message.as_str()), (1130, "Host 'x' is not allowed"));
        assert_eq!(Greeting::parse(&[9, 0]), Err(WireError::ProtocolVersion { version: 9 }));
    }

    #[test]
    fn login_layout() {
        let mut out = Vec::new();
        let login = Login {
            capabilities: capability::PROTOCOL_41
                | capability::PLUGIN_AUTH
                | capability::PLUGIN_AUTH_LENENC_CLIENT_DATA
                | capability::CONNECT_ATTRS,
            collation: 255,
            user: "u",
            auth_response: b"xyz",
            database: "",
            auth_plugin: "p",
            attributes: &[("a", "b")],
        };
        login.write(&mut out);
        assert_eq!(&out[32..], b"u\0\x03xyzp\0\x04\x01a\x01b");
        out.clear();
        Login { database: "d", ..login }.change_user(&mut out);
        assert_eq!(out, b"\x11u\0\x03xyzd\0\xff\0p\0\x04\x01a\x01b");
        let change = crate::server::ChangeUser::parse(&out, login.capabilities).unwrap();
        assert_eq!((change.user, change.auth_response, change.database), (&b"u"[..], &b"xyz"[..], &b"d"[..]));
        assert_eq!((change.collation, change.auth_plugin), (Some(255), &b"p"[..]));
    }

    proptest! {
        #[test]
        fn hostile_greetings_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), cut in 0usize..90, at in 0usize..80, with: u8) {
            let _ = Greeting::parse(&bytes);
            let mut real = greeting();
            let at = at.min(real.len() - 1);
            real[at] = with;
            let _ = Greeting::parse(&real[..cut.min(real.len())]);
        }
    }
}
