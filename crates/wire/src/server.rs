//! The server's half: greeting, login as read, commands as read, answers.
//!
//! In: payloads that a client sent, values to answer with. Out: typed views, and packets to send. Clients of the 4.1 protocol
//! without DEPRECATE_EOF, which a server chooses by not offering it.

use crate::command;
use crate::handshake::{Greeting, capability};
use crate::packet;
use crate::read::{Reader, put_lenenc, put_lenenc_bytes};
use crate::response::status;
use crate::row::type_code;
use crate::{Result, WireError};

/// Length of the nonce that a greeting carries.
pub const NONCE_LEN: usize = 20;
/// The collation of texts in answers: utf8mb4_general_ci, which every client knows.
const COLLATION: u16 = 45;
/// Display length announced for text columns; nobody sizes a buffer by it.
const TEXT_LENGTH: u32 = 1 << 20;

impl Greeting {
    /// Payload of the first packet. The nonce must have [`NONCE_LEN`] bytes, none of them zero.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (low, high) = ((self.capabilities & 0xffff) as u16, (self.capabilities >> 16) as u16);
        let (head, tail) = self.nonce.split_at(self.nonce.len().min(8));
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
        out.push(u8::try_from(self.nonce.len() + 1).unwrap_or(u8::MAX));
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(tail);
        out.push(0);
        out.extend_from_slice(self.auth_plugin.as_bytes());
        out.push(0);
    }
}

/// A client's HandshakeResponse41, borrowed from its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginRequest<'a> {
    /// Capability bits the client uses.
    pub capabilities: u32,
    /// Account name.
    pub user: &'a [u8],
    /// First answer of the authentication plugin.
    pub auth_response: &'a [u8],
    /// The plugin that made it; empty where the client names none.
    pub auth_plugin: &'a [u8],
}

impl<'a> LoginRequest<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// A client that asks for TLS, or speaks a protocol before 4.1.
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let capabilities = reader.u32("capabilities")?;
        if capabilities & capability::PROTOCOL_41 == 0 {
            return Err(WireError::Malformed { what: "a login before the 4.1 protocol" });
        }
        if capabilities & capability::SSL != 0 {
            return Err(WireError::Malformed { what: "TLS, which was not offered" });
        }
        reader.take(4 + 1 + 23, "login")?;
        let user = reader.nul_bytes("user")?;
        let auth_response = if capabilities & capability::PLUGIN_AUTH_LENENC_CLIENT_DATA != 0 {
            reader.lenenc_bytes("authentication response")?
        } else if capabilities & capability::SECURE_CONNECTION != 0 {
            let len = usize::from(reader.u8("authentication response")?);
            reader.take(len, "authentication response")?
        } else {
            reader.nul_bytes("authentication response")?
        };
        if capabilities & capability::CONNECT_WITH_DB != 0 {
            reader.nul_bytes("database")?;
        }
        let auth_plugin = match capabilities & capability::PLUGIN_AUTH {
            0 => &[][..],
            _ => reader.nul_or_rest(),
        };
        Ok(LoginRequest { capabilities, user, auth_response, auth_plugin })
    }
}

/// A command that a client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCommand<'a> {
    /// Ends the session; no answer.
    Quit,
    /// Asks for an OK.
    Ping,
    /// Changes the default database.
    InitDb,
    /// Runs a statement.
    Query(&'a [u8]),
    /// A replica names itself.
    Register {
        /// Its server id.
        server_id: u32,
    },
    /// Asks for the log from a file and position.
    Dump(DumpFrom<'a>),
    /// Asks for the log from the first transaction outside a set.
    DumpGtid {
        /// Flags, as [`command::DUMP_NON_BLOCK`].
        flags: u16,
        /// The replica's server id.
        server_id: u32,
        /// The set, in its binary form.
        gtid_set: &'a [u8],
    },
    /// Any other, by its code.
    Other(u8),
}

/// COM_BINLOG_DUMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpFrom<'a> {
    /// Where in the file.
    pub position: u32,
    /// Flags, as [`command::DUMP_NON_BLOCK`].
    pub flags: u16,
    /// The replica's server id.
    pub server_id: u32,
    /// The file; empty: the first one.
    pub file: &'a [u8],
}

impl<'a> ClientCommand<'a> {
    /// Reads a command's payload.
    ///
    /// # Errors
    /// When it is cut short.
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        Ok(match reader.u8("command")? {
            command::QUIT => ClientCommand::Quit,
            command::PING => ClientCommand::Ping,
            command::INIT_DB => ClientCommand::InitDb,
            command::QUERY => ClientCommand::Query(reader.rest()),
            command::REGISTER_SLAVE => ClientCommand::Register { server_id: reader.u32("server id")? },
            command::BINLOG_DUMP => {
                let position = reader.u32("position")?;
                let flags = reader.u16("flags")?;
                let server_id = reader.u32("server id")?;
                ClientCommand::Dump(DumpFrom { position, flags, server_id, file: reader.nul_or_rest() })
            }
            command::BINLOG_DUMP_GTID => {
                let flags = reader.u16("flags")?;
                let server_id = reader.u32("server id")?;
                let name_len = reader.u32("file name")? as usize;
                reader.take(name_len, "file name")?;
                reader.u64("position")?;
                let set_len = reader.u32("GTID set")? as usize;
                ClientCommand::DumpGtid { flags, server_id, gtid_set: reader.take(set_len, "GTID set")? }
            }
            code => ClientCommand::Other(code),
        })
    }
}

/// An OK packet's payload.
pub fn put_ok(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0, 0]);
    out.extend_from_slice(&status::AUTOCOMMIT.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
}

/// An ERR packet's payload; `sqlstate` has five characters.
pub fn put_err(out: &mut Vec<u8>, code: u16, sqlstate: &str, message: &str) {
    out.push(0xff);
    out.extend_from_slice(&code.to_le_bytes());
    out.push(b'#');
    out.extend_from_slice(sqlstate.as_bytes());
    out.extend_from_slice(message.as_bytes());
}

/// An EOF packet's payload.
pub fn put_eof(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xfe, 0, 0]);
    out.extend_from_slice(&status::AUTOCOMMIT.to_le_bytes());
}

/// Payload that asks the client to log in with another plugin.
pub fn put_auth_switch(out: &mut Vec<u8>, plugin: &str, nonce: &[u8]) {
    out.push(0xfe);
    out.extend_from_slice(plugin.as_bytes());
    out.push(0);
    out.extend_from_slice(nonce);
    out.push(0);
}

/// Payload that tells a caching_sha2_password client that its first answer was good; an OK follows.
pub fn put_fast_auth_ok(out: &mut Vec<u8>) {
    out.extend_from_slice(&[1, 3]);
}

/// A text answer to a query, as packets: columns of texts, and rows.
pub fn put_text_rows(out: &mut Vec<u8>, sequence: &mut u8, columns: &[String], rows: &[Vec<Option<String>>]) {
    let mut packet = |write: &mut dyn FnMut(&mut Vec<u8>)| {
        let at = packet::start(out);
        write(out);
        packet::finish(out, at, sequence);
    };
    packet(&mut |out| put_lenenc(out, columns.len() as u64));
    for name in columns {
        packet(&mut |out| put_column(out, name));
    }
    packet(&mut put_eof);
    for row in rows {
        packet(&mut |out| {
            for value in row {
                match value {
                    Some(text) => put_lenenc_bytes(out, text.as_bytes()),
                    None => out.push(0xfb),
                }
            }
        });
    }
    packet(&mut put_eof);
}

fn put_column(out: &mut Vec<u8>, name: &str) {
    put_lenenc_bytes(out, b"def");
    // Database, table and original table of an expression.
    for _ in 0..3 {
        put_lenenc_bytes(out, b"");
    }
    put_lenenc_bytes(out, name.as_bytes());
    put_lenenc_bytes(out, b"");
    out.push(12);
    out.extend_from_slice(&COLLATION.to_le_bytes());
    out.extend_from_slice(&TEXT_LENGTH.to_le_bytes());
    out.push(type_code::VAR_STRING);
    out.extend_from_slice(&[0, 0, 0, 0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Registration;
    use crate::handshake::{FirstPacket, Login};
    use crate::response::{Answer, ColumnDefinition, ErrPacket, OkPacket, ends_rows};
    use crate::row::text_value;
    use proptest::prelude::*;

    #[test]
    fn the_clients_half_reads_what_this_half_writes() {
        let greeting = Greeting {
            server_version: "9.7.4".into(),
            connection_id: 5,
            capabilities: capability::PROTOCOL_41 | capability::SECURE_CONNECTION | capability::PLUGIN_AUTH,
            collation: 255,
            auth_plugin: "caching_sha2_password".into(),
            nonce: (1..=20).collect(),
        };
        let mut out = Vec::new();
        greeting.write(&mut out);
        assert_eq!(Greeting::parse(&out).unwrap(), FirstPacket::Greeting(greeting));
        let write = |put: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            put(&mut out);
            out
        };
        assert_eq!(OkPacket::parse(&write(&put_ok)).unwrap().status, status::AUTOCOMMIT);
        let err = ErrPacket::parse(&write(&|out| put_err(out, 1236, "HY000", "gone"))).unwrap();
        assert_eq!((err.code, err.sqlstate.as_str(), err.message.as_str()), (1236, "HY000", "gone"));
    }

    #[test]
    fn logins_with_and_without_lengths() {
        for more in [0, capability::PLUGIN_AUTH_LENENC_CLIENT_DATA] {
            let capabilities = capability::PROTOCOL_41
                | capability::SECURE_CONNECTION
                | capability::PLUGIN_AUTH
                | capability::CONNECT_WITH_DB
                | more;
            let login = Login {
                capabilities,
                collation: 255,
                user: "u",
                auth_response: b"xyz",
                database: "d",
                auth_plugin: "p",
                attributes: &[],
            };
            let mut out = Vec::new();
            login.write(&mut out);
            let read = LoginRequest::parse(&out).unwrap();
            assert_eq!(read, LoginRequest { capabilities, user: b"u", auth_response: b"xyz", auth_plugin: b"p" });
        }
        let tls = (capability::PROTOCOL_41 | capability::SSL).to_le_bytes();
        assert!(LoginRequest::parse(&[&tls[..], &[0; 28]].concat()).is_err());
    }

    #[test]
    fn commands_of_a_replica() {
        let write = |put: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            put(&mut out);
            out
        };
        let registration = Registration { server_id: 9, host: "h", port: 1 };
        let bytes = write(&|out| command::put_register(out, &registration));
        assert_eq!(ClientCommand::parse(&bytes).unwrap(), ClientCommand::Register { server_id: 9 });
        let bytes = write(&|out| command::put_dump(out, 9, "b.1", 400, 2));
        let wanted = DumpFrom { position: 400, flags: 2, server_id: 9, file: b"b.1" };
        assert_eq!(ClientCommand::parse(&bytes).unwrap(), ClientCommand::Dump(wanted));
        let bytes = write(&|out| command::put_dump_gtid(out, 9, b"set", 3));
        let wanted = ClientCommand::DumpGtid { flags: 3, server_id: 9, gtid_set: b"set" };
        assert_eq!(ClientCommand::parse(&bytes).unwrap(), wanted);
        assert_eq!(ClientCommand::parse(b"\x03SELECT 1").unwrap(), ClientCommand::Query(b"SELECT 1"));
        assert_eq!(ClientCommand::parse(b"\x19x").unwrap(), ClientCommand::Other(0x19));
    }

    #[test]
    fn rows_as_packets() {
        let (mut out, mut sequence) = (Vec::new(), 1);
        let rows = [vec![Some("x".to_owned()), None]];
        put_text_rows(&mut out, &mut sequence, &["a".into(), "b".into()], &rows);
        let mut buffer = crate::packet::PacketBuffer::new(1 << 20);
        buffer.expect_sequence(1);
        buffer.spare()[..out.len()].copy_from_slice(&out);
        buffer.filled(out.len());
        let mut payloads = Vec::new();
        while let Some(range) = buffer.take().unwrap() {
            payloads.push(buffer.payload(range).to_vec());
        }
        assert_eq!(Answer::parse(&payloads[0]).unwrap(), Answer::Columns(2));
        assert_eq!(ColumnDefinition::parse(&payloads[2]).unwrap().name, b"b");
        assert!(ends_rows(&payloads[3], false) && ends_rows(&payloads[5], false));
        let mut reader = Reader::new(&payloads[4]);
        assert_eq!(text_value(&mut reader).unwrap(), Some(&b"x"[..]));
        assert_eq!(text_value(&mut reader).unwrap(), None);
        assert_eq!((payloads.len(), sequence), (6, 7));
    }

    #[test]
    fn more_columns_than_one_byte_counts() {
        let names: Vec<String> = (0..300).map(|n| format!("c{n}")).collect();
        let row: Vec<Option<String>> = names.iter().cloned().map(Some).collect();
        let mut out = Vec::new();
        put_text_rows(&mut out, &mut 1, &names, &[row]);
        let mut buffer = crate::packet::PacketBuffer::new(1 << 20);
        buffer.expect_sequence(1);
        buffer.spare()[..out.len()].copy_from_slice(&out);
        buffer.filled(out.len());
        let mut payloads = Vec::new();
        while let Some(range) = buffer.take().unwrap() {
            payloads.push(buffer.payload(range).to_vec());
        }
        assert_eq!(Answer::parse(&payloads[0]).unwrap(), Answer::Columns(300));
        assert_eq!(ColumnDefinition::parse(&payloads[300]).unwrap().name, b"c299");
        assert_eq!(payloads.len(), 304);
    }

    proptest! {
        #[test]
        fn hostile_clients_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), head: u8) {
            let _ = LoginRequest::parse(&bytes);
            let _ = ClientCommand::parse(&bytes);
            let mut command = bytes;
            command.insert(0, [0x12, 0x15, 0x1e][usize::from(head % 3)]);
            let _ = ClientCommand::parse(&command);
        }
    }
}
