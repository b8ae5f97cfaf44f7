//! Greeting and login, on the server's side.

use super::NONCE_LEN;
use crate::command;
use crate::handshake::{Greeting, capability};
use crate::read::Reader;
use crate::response::status;
use crate::{Result, WireError};

/// Length in bytes of a request for TLS: only the start of a login.
const TLS_REQUEST_LEN: usize = 32;

impl Greeting {
    /// Payload of the first packet. The nonce must have [`NONCE_LEN`] bytes, all of them nonzero.
    pub fn write(&self, out: &mut Vec<u8>) {
        assert!(
            self.nonce.len() == NONCE_LEN && !self.nonce.contains(&0),
            "a nonce that a client would read otherwise"
        );
        let (low, high) = ((self.capabilities & 0xffff) as u16, (self.capabilities >> 16) as u16);
        let (head, tail) = self.nonce.split_at(8);
        out.push(10);
        out.extend_from_slice(self.server_version.as_bytes());
        out.push(0);
        out.extend_from_slice(&self.connection_id.to_le_bytes());
        out.extend_from_slice(head);
        out.push(0);
        out.extend_from_slice(&low.to_le_bytes());
        out.push(self.collation);
        out.extend_from_slice(&status::AUTOCOMMIT.to_le_bytes());
        out.extend_from_slice(&high.to_le_bytes());
        out.push(NONCE_FIELD_LEN);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(tail);
        out.push(0);
        out.extend_from_slice(self.auth_plugin.as_bytes());
        out.push(0);
    }
}

/// Length of the nonce and its terminating zero, in bytes.
const NONCE_FIELD_LEN: u8 = 21;
const _: () = assert!(NONCE_FIELD_LEN as usize == NONCE_LEN + 1);

/// The client's packet after the greeting; it is sent again after a switch to TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginRequest<'a> {
    /// TLS begins with the client's next byte; the login follows inside TLS.
    WantsTls(TlsRequest),
    /// The login itself.
    Login(ClientLogin<'a>),
}

/// The start of a login, sent alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsRequest {
    /// Capability bits that the client will use.
    pub capabilities: u32,
    /// Largest packet that the client accepts, in bytes.
    pub packet_bytes_max: u32,
    /// Collation of the connection.
    pub collation: u8,
}

/// A client's HandshakeResponse41, borrowed from its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLogin<'a> {
    /// Capability bits that the client uses.
    pub capabilities: u32,
    /// Largest packet that the client accepts, in bytes.
    pub packet_bytes_max: u32,
    /// The collation of the connection.
    pub collation: u8,
    /// Account name.
    pub user: &'a [u8],
    /// First answer of the authentication plugin.
    pub auth_response: &'a [u8],
    /// Default database; empty if the client names none.
    pub database: &'a [u8],
    /// The plugin that computed `auth_response`; empty if the client names none.
    pub auth_plugin: &'a [u8],
    /// Connection attributes of the client.
    pub attributes: ConnectAttributes<'a>,
    /// Compression level for zstd, if the client offers zstd.
    pub zstd_level: Option<u8>,
}

impl<'a> LoginRequest<'a> {
    /// Parses the packet.
    ///
    /// # Errors
    /// The client uses a protocol before 4.1, or the login is cut short.
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let capabilities = reader.u32("capabilities")?;
        if capabilities & capability::PROTOCOL_41 == 0 {
            return Err(WireError::Malformed { what: "a login before the 4.1 protocol" });
        }
        let packet_bytes_max = reader.u32("largest packet")?;
        let collation = reader.u8("collation")?;
        reader.take(23, "login")?;
        if capabilities & capability::SSL != 0 && payload.len() == TLS_REQUEST_LEN {
            return Ok(LoginRequest::WantsTls(TlsRequest { capabilities, packet_bytes_max, collation }));
        }
        let user = reader.nul_bytes("user")?;
        let auth_response = if capabilities & capability::PLUGIN_AUTH_LENENC_CLIENT_DATA != 0 {
            reader.lenenc_bytes("authentication response")?
        } else if capabilities & capability::SECURE_CONNECTION != 0 {
            let len = usize::from(reader.u8("authentication response")?);
            reader.take(len, "authentication response")?
        } else {
            reader.nul_bytes("authentication response")?
        };
        // Clients omit empty fields at the end.
        let mut optional = |flag: u32| match capabilities & flag {
            0 => &[][..],
            _ => reader.nul_or_rest(),
        };
        let database = optional(capability::CONNECT_WITH_DB);
        let auth_plugin = optional(capability::PLUGIN_AUTH);
        let attributes = attributes(&mut reader, capabilities)?;
        let zstd_level = match capabilities & capability::ZSTD_COMPRESSION_ALGORITHM {
            0 => None,
            _ => reader.u8("zstd level").ok(),
        };
        Ok(LoginRequest::Login(ClientLogin {
            capabilities,
            packet_bytes_max,
            collation,
            user,
            auth_response,
            database,
            auth_plugin,
            attributes,
            zstd_level,
        }))
    }
}

/// Connection attributes, which clients omit if they have none.
fn attributes<'a>(reader: &mut Reader<'a>, capabilities: u32) -> Result<ConnectAttributes<'a>> {
    let bytes = match capabilities & capability::CONNECT_ATTRS {
        0 => &[],
        _ if reader.is_empty() => &[],
        _ => reader.lenenc_bytes("connection attributes")?,
    };
    Ok(ConnectAttributes(Reader::new(bytes)))
}

/// A client's COM_CHANGE_USER, borrowed from its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeUser<'a> {
    /// Account name.
    pub user: &'a [u8],
    /// First answer of the authentication plugin.
    pub auth_response: &'a [u8],
    /// Default database; empty for none.
    pub database: &'a [u8],
    /// The collation of the connection; None if the client does not say.
    pub collation: Option<u16>,
    /// The plugin that computed `auth_response`; empty if the client names none.
    pub auth_plugin: &'a [u8],
    /// Connection attributes of the client.
    pub attributes: ConnectAttributes<'a>,
}

impl<'a> ChangeUser<'a> {
    /// Parses the whole payload, with the command's byte, from a client that uses `capabilities`.
    ///
    /// # Errors
    /// It is another command, or cut short.
    pub fn parse(payload: &'a [u8], capabilities: u32) -> Result<Self> {
        let mut reader = Reader::new(payload);
        if reader.u8("command")? != command::CHANGE_USER {
            return Err(WireError::Malformed { what: "not a change of the user" });
        }
        let user = reader.nul_bytes("user")?;
        let len = usize::from(reader.u8("authentication response")?);
        let auth_response = reader.take(len, "authentication response")?;
        // Everything after this may be missing.
        let database = reader.nul_or_rest();
        let collation = if reader.is_empty() { None } else { Some(reader.u16("collation")?) };
        let auth_plugin = match capabilities & capability::PLUGIN_AUTH {
            0 => &[],
            _ => reader.nul_or_rest(),
        };
        let attributes = attributes(&mut reader, capabilities)?;
        Ok(ChangeUser { user, auth_response, database, collation, auth_plugin, attributes })
    }
}

/// Connection attributes of a client, in its order. Ends at the first one that cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectAttributes<'a>(Reader<'a>);

impl<'a> Iterator for ConnectAttributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let name = self.0.lenenc_bytes("attribute").ok()?;
        Some((name, self.0.lenenc_bytes("attribute").ok()?))
    }
}

/// Payload that requests a login with another plugin.
pub fn put_auth_switch(out: &mut Vec<u8>, plugin: &str, nonce: &[u8]) {
    out.push(0xfe);
    out.extend_from_slice(plugin.as_bytes());
    out.push(0);
    out.extend_from_slice(nonce);
    out.push(0);
}

/// Payload that tells a caching_sha2_password client that its first answer was correct; an OK follows.
pub fn put_fast_auth_ok(out: &mut Vec<u8>) {
    out.extend_from_slice(&[1, 3]);
}

/// Payload that asks a caching_sha2_password client for the password itself.
pub fn put_full_auth_request(out: &mut Vec<u8>) {
    out.extend_from_slice(&[1, 4]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAPABILITIES: u32 = capability::PROTOCOL_41
        | capability::SECURE_CONNECTION
        | capability::PLUGIN_AUTH
        | capability::CONNECT_ATTRS
        | capability::ZSTD_COMPRESSION_ALGORITHM;

    fn login() -> Vec<u8> {
        let mut out = CAPABILITIES.to_le_bytes().to_vec();
        out.extend_from_slice(&[0, 0, 0, 1, 45]);
        out.extend_from_slice(&[0; 23]);
        out.extend_from_slice(b"app\0\x02xyplugin\0\x04\x01a\x01b\x07");
        out
    }

    #[test]
    fn the_level_of_zstd_stands_last() {
        let bytes = login();
        let parse = |bytes: &'static [u8]| match LoginRequest::parse(bytes) {
            Ok(LoginRequest::Login(login)) => (login.attributes.count(), login.zstd_level),
            other => panic!("{other:?}"),
        };
        let bytes: &'static [u8] = Vec::leak(bytes);
        assert_eq!(parse(bytes), (1, Some(7)));
        assert_eq!(parse(&bytes[..bytes.len() - 1]), (1, None));
    }

    #[test]
    fn a_change_of_the_user() {
        let payload = b"\x11app\0\x03abcshop\0\xff\x01caching_sha2_password\0\x04\x01a\x01b";
        let change = ChangeUser::parse(payload, CAPABILITIES).unwrap();
        assert_eq!((change.user, change.auth_response, change.database), (&b"app"[..], &b"abc"[..], &b"shop"[..]));
        assert_eq!((change.collation, change.auth_plugin), (Some(0x1ff), &b"caching_sha2_password"[..]));
        assert_eq!(change.attributes.collect::<Vec<_>>(), [(&b"a"[..], &b"b"[..])]);
        // Old clients stop early.
        let change = ChangeUser::parse(b"\x11app\0\0shop\0", CAPABILITIES).unwrap();
        assert_eq!((change.database, change.collation, change.auth_plugin), (&b"shop"[..], None, &b""[..]));
        for bad in [&b""[..], b"\x03app\0\0", b"\x11app", b"\x11app\0\x05abc", b"\x11app\0\0shop\0\xff"] {
            assert!(ChangeUser::parse(bad, CAPABILITIES).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn hostile_logins_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..120),
            at in 0usize..60,
            with: u8,
            cut in 0usize..70,
            capabilities: u32,
        ) {
            let _ = LoginRequest::parse(&bytes);
            let _ = ChangeUser::parse(&[&[command::CHANGE_USER], &bytes[..]].concat(), capabilities);
            let mut real = login();
            let at = at.min(real.len() - 1);
            real[at] = with;
            if let Ok(LoginRequest::Login(login)) = LoginRequest::parse(&real[..cut.min(real.len())]) {
                let _ = login.attributes.count();
            }
        }
    }
}
