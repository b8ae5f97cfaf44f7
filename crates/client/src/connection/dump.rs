//! Packets of a binlog dump, for callers that follow a source.

use wire::packet::{self, PayloadRange};
use wire::response::{ErrPacket, OkPacket};

use super::packets::server_error;
use super::{Connection, Unread};
use crate::{ClientError, Result};

/// A packet of a dump.
#[derive(Debug)]
pub enum DumpPacket {
    /// An event, at this range of the read buffer.
    Event(PayloadRange),
    /// The end of a non-blocking dump.
    End,
}

impl Connection {
    /// Sends a command given as a payload; the caller reads the answer with a later call.
    pub fn send_command(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let at = self.begin()?;
        put(&mut self.output);
        self.send(at)
    }

    /// Sends a command given as a payload and reads its OK.
    pub fn command_ok(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<OkPacket> {
        self.send_command(put)?;
        self.read_ok()
    }

    /// Sends a packet with its own sequence ids, while the dump is being read.
    pub fn send_aside(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let at = self.begin_packet();
        put(&mut self.output);
        packet::finish(&mut self.output, at, &mut 0);
        self.stream.write_all(&self.output)
    }

    /// Accepts packets with any sequence id: a semi-synchronous source counts its own.
    pub fn accept_any_sequence(&mut self) {
        self.input.accept_any_sequence();
    }

    /// Returns the next packet of a dump. After a read timeout the connection is still usable, after any other error it
    /// is not.
    #[inline]
    pub fn read_dump_packet(&mut self) -> Result<DumpPacket> {
        if self.unread == Unread::Broken {
            return Err(ClientError::Broken);
        }
        let range = match self.receive() {
            Ok(range) => range,
            Err(error) => {
                if !error.is_timeout() {
                    self.unread = Unread::Broken;
                }
                return Err(error);
            }
        };
        let payload = self.input.payload(range);
        match payload.first() {
            Some(0xff) => {
                self.unread = Unread::Broken;
                Err(server_error(ErrPacket::parse(payload)?))
            }
            Some(0xfe) if payload.len() < 9 => Ok(DumpPacket::End),
            _ => Ok(DumpPacket::Event(range)),
        }
    }

    /// The bytes of a packet just read.
    #[inline]
    pub fn payload(&self, range: PayloadRange) -> &[u8] {
        self.input.payload(range)
    }

    /// True if a whole packet is available without a system call.
    pub fn has_packet(&mut self) -> bool {
        loop {
            if self.input.has_packet() {
                return true;
            }
            let len = self.stream.read_buffered(self.input.spare());
            if len == 0 {
                return false;
            }
            self.input.filled(len);
        }
    }
}
