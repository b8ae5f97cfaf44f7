//! What a client asks for its session with the login.

use wire::handshake::capability;
use wire::server::{ChangeUser, ClientLogin, ConnectAttributes};

/// Longest schema name in bytes: 64 characters of four bytes.
const SCHEMA_BYTES_MAX: usize = 256;
/// Connection attributes that are kept, in bytes of names and values together. MySQL keeps as much by default; clients
/// send some 200.
const ATTRIBUTE_BYTES_MAX: usize = 512;

/// What a client asks for its session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionStart {
    /// Capabilities that both sides have.
    pub capabilities: u32,
    /// Largest packet that the client accepts, in bytes.
    pub packet_bytes_max: u32,
    /// Number of the connection's collation.
    pub collation: u16,
    /// Default schema; whether the account may use it was not checked.
    pub schema: Option<String>,
    /// Connection attributes in the client's order, up to 512 bytes of them.
    pub attributes: Vec<(String, String)>,
    /// Compression level, if zstd is among the capabilities.
    pub zstd_level: Option<u8>,
}

impl SessionStart {
    /// Of a first login; None if the schema's name cannot be one.
    pub(super) fn of_login(login: &ClientLogin<'_>, offered: u32) -> Option<SessionStart> {
        let capabilities = login.capabilities & offered;
        Some(SessionStart {
            capabilities,
            packet_bytes_max: login.packet_bytes_max,
            collation: login.collation.into(),
            schema: schema(login.database)?,
            attributes: attributes(login.attributes),
            zstd_level: login.zstd_level.filter(|_| capabilities & capability::ZSTD_COMPRESSION_ALGORITHM != 0),
        })
    }

    /// Of a change of the user in a session; what the change does not say stays.
    pub(super) fn of_change(change: &ChangeUser<'_>, session: &SessionStart) -> Option<SessionStart> {
        Some(SessionStart {
            collation: change.collation.unwrap_or(session.collation),
            schema: schema(change.database)?,
            attributes: attributes(change.attributes),
            ..session.clone()
        })
    }
}

/// The outer None: no schema can have this name.
#[allow(clippy::option_option, reason = "an impossible name is not a missing one")]
fn schema(name: &[u8]) -> Option<Option<String>> {
    match name.len() {
        0 => Some(None),
        1..=SCHEMA_BYTES_MAX => Some(Some(String::from_utf8_lossy(name).into_owned())),
        _ => None,
    }
}

fn attributes(attributes: ConnectAttributes<'_>) -> Vec<(String, String)> {
    let mut left = ATTRIBUTE_BYTES_MAX;
    let mut kept = Vec::new();
    for (name, value) in attributes {
        let Some(rest) = left.checked_sub(name.len() + value.len()) else { break };
        left = rest;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        kept.push((text(name), text(value)));
        if name.is_empty() && value.is_empty() {
            break;
        }
    }
    kept
}
