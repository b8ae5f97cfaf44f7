//! A client that shows every packet of an answer, to compare two servers byte by byte.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use wire::auth::{AuthOptions, AuthStep, Authenticator, SEED_LEN};
use wire::handshake::{FirstPacket, Greeting, Login, capability};
use wire::packet;
use wire::read::Reader;
use wire::response::{OkPacket, PrepareOk, ends_rows, rows_end, status};
use wire::row::{Param, put_params};

/// Capabilities of a usual client.
pub const CAPABILITIES: u32 = capability::LONG_PASSWORD
    | capability::LONG_FLAG
    | capability::PROTOCOL_41
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::MULTI_STATEMENTS
    | capability::MULTI_RESULTS
    | capability::PS_MULTI_RESULTS
    | capability::PLUGIN_AUTH
    | capability::SESSION_TRACK
    | capability::DEPRECATE_EOF;

/// A client over a unix socket.
pub struct RawClient {
    stream: UnixStream,
    input: packet::PacketBuffer,
    capabilities: u32,
}

impl RawClient {
    /// Logs in without a password.
    #[must_use]
    pub fn over_socket(path: &Path, user: &str, capabilities: u32) -> RawClient {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut client = RawClient { stream, input: packet::PacketBuffer::new(1 << 30), capabilities };
        client.log_in(user, "");
        client
    }

    /// As [`over_socket`](Self::over_socket), with a password.
    #[must_use]
    pub fn with_password(path: &Path, user: &str, password: &str, capabilities: u32) -> RawClient {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut client = RawClient { stream, input: packet::PacketBuffer::new(1 << 30), capabilities };
        client.log_in(user, password);
        client
    }

    fn log_in(&mut self, user: &str, password: &str) {
        let FirstPacket::Greeting(greeting) = Greeting::parse(&self.read()).unwrap() else { panic!("refused") };
        let options = AuthOptions {
            password: password.to_owned(),
            secure_transport: true,
            server_public_key: None,
            get_server_public_key: false,
        };
        let mut auth = Authenticator::new(options, &greeting.auth_plugin, &greeting.nonce);
        let response = auth.first_response(&[7; SEED_LEN]).unwrap();
        let login = Login {
            capabilities: self.capabilities & greeting.capabilities,
            collation: 255,
            user,
            auth_response: &response,
            database: "",
            auth_plugin: "caching_sha2_password",
            attributes: &[],
        };
        self.capabilities = login.capabilities;
        let mut out = Vec::new();
        login.write(&mut out);
        self.write(&out, 1);
        loop {
            let answer = self.read();
            match auth.step(&answer, &[7; SEED_LEN]).unwrap() {
                AuthStep::Read => {}
                AuthStep::Send(payload) => self.write(&payload, self.input.sequence()),
                AuthStep::Done(_) => return,
                AuthStep::Refused(error) => panic!("{error:?}"),
            }
        }
    }

    /// Sends a payload as the packet of this sequence id: 0 begins a command, whose answer [`answer`](Self::answer) reads.
    pub fn write(&mut self, payload: &[u8], sequence: u8) {
        let (mut out, mut sequence) = (Vec::new(), sequence);
        packet::write(&mut out, &mut sequence, payload);
        match self.stream.write_all(&out) {
            // What it said before it closed can still be read.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            result => result.unwrap(),
        }
        self.input.expect_sequence(sequence);
    }

    /// Sends the next packet of the exchange.
    pub fn write_next(&mut self, payload: &[u8]) {
        self.write(payload, self.input.sequence());
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// As [`send`](Self::send), to a server that may have closed the connection.
    ///
    /// # Errors
    /// It has.
    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// True once the server has closed the connection; waits for that.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        !matches!(self.stream.read(&mut byte), Ok(1))
    }

    /// The next payload, whatever its sequence id.
    pub fn read_any(&mut self) -> Vec<u8> {
        self.input.accept_any_sequence();
        self.read()
    }

    /// The next payload.
    pub fn read(&mut self) -> Vec<u8> {
        self.next().expect("the server closed the connection")
    }

    /// The next payload, whatever its sequence id; None once the server has closed the connection.
    pub fn read_or_end(&mut self) -> Option<Vec<u8>> {
        self.input.accept_any_sequence();
        self.next()
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(range) = self.input.take().unwrap() {
                return Some(self.input.payload(range).to_vec());
            }
            let spare = self.input.spare();
            // A server that closes with something unread resets the connection.
            let len = self.stream.read(spare).or_else(|error| match error.kind() {
                std::io::ErrorKind::ConnectionReset => Ok(0),
                _ => Err(error),
            });
            match len.unwrap() {
                0 => return None,
                len => self.input.filled(len),
            }
        }
    }

    /// COM_QUERY: the payloads of its answer.
    pub fn query(&mut self, sql: impl AsRef<[u8]>) -> Vec<Vec<u8>> {
        self.command(&[b"\x03", sql.as_ref()].concat())
    }

    /// COM_STMT_PREPARE.
    pub fn prepare(&mut self, sql: &str) -> Vec<Vec<u8>> {
        self.command(&[b"\x16", sql.as_bytes()].concat())
    }

    /// COM_STMT_EXECUTE; `flags` 1 opens a cursor.
    pub fn execute(&mut self, id: u32, flags: u8, params: &[Param<'_>]) -> Vec<Vec<u8>> {
        let mut payload = [&b"\x17"[..], &id.to_le_bytes(), &[flags, 1, 0, 0, 0]].concat();
        put_params(&mut payload, params);
        self.command(&payload)
    }

    /// COM_STMT_FETCH.
    pub fn fetch(&mut self, id: u32, rows: u32) -> Vec<Vec<u8>> {
        self.command(&[&b"\x1c"[..], &id.to_le_bytes(), &rows.to_le_bytes()].concat())
    }

    /// COM_STMT_CLOSE, which has no answer.
    pub fn close(&mut self, id: u32) {
        self.write(&[&b"\x19"[..], &id.to_le_bytes()].concat(), 0);
    }

    /// Sends a command; returns the payloads of its answer, whatever their number.
    pub fn command(&mut self, payload: &[u8]) -> Vec<Vec<u8>> {
        self.write(payload, 0);
        self.answer(payload.first().copied().unwrap_or_default())
    }

    /// The payloads of the answer to this command.
    pub fn answer(&mut self, command: u8) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while !self.one_result(command, &mut packets) {}
        packets
    }

    fn deprecates_eof(&self) -> bool {
        self.capabilities & capability::DEPRECATE_EOF != 0
    }

    /// Reads one result; true if none follows.
    fn one_result(&mut self, command: u8, packets: &mut Vec<Vec<u8>>) -> bool {
        let first = self.read();
        packets.push(first.clone());
        match (command, first.first().copied()) {
            (_, Some(0xff)) | (9 | 0x1b, _) => return true,
            (0x16, _) => {
                let ok = PrepareOk::parse(&first).unwrap();
                for count in [ok.parameters, ok.columns] {
                    let ends = u16::from(count > 0 && !self.deprecates_eof());
                    (0..count + ends).for_each(|_| packets.push(self.read()));
                }
                return true;
            }
            (0x1c, _) => return self.is_end(&first).unwrap_or_else(|| self.rows(packets)),
            (_, Some(0x00)) => return !OkPacket::parse(&first).unwrap().more_results(),
            _ => {}
        }
        let columns = Reader::new(&first).lenenc("number of columns").unwrap();
        (0..columns).for_each(|_| packets.push(self.read()));
        if !self.deprecates_eof() {
            let end = self.read();
            packets.push(end.clone());
            let cursor = status::CURSOR_EXISTS.to_le_bytes()[0];
            if command == 0x17 && end.get(3).is_some_and(|bits| bits & cursor != 0) {
                return true;
            }
        }
        self.rows(packets)
    }

    /// Reads rows up to their end; true if no result follows.
    fn rows(&mut self, packets: &mut Vec<Vec<u8>>) -> bool {
        loop {
            let row = self.read();
            packets.push(row.clone());
            if let Some(is_last) = self.is_end(&row) {
                return is_last;
            }
        }
    }

    /// Whether a packet ends rows, and if so whether no result follows.
    fn is_end(&self, packet: &[u8]) -> Option<bool> {
        if packet.first() == Some(&0xff) {
            return Some(true);
        }
        let deprecated = self.deprecates_eof();
        ends_rows(packet, deprecated).then(|| !rows_end(packet, deprecated).unwrap().more_results())
    }
}
