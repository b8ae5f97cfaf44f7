//! Framing: a 3-byte length, a sequence id, and payloads of 16 MiB − 1 joined until a shorter one ends them.

use base::limits::EVENT_LEN_MAX;

use crate::{Result, WireError};

/// Length of a packet header in bytes.
pub const HEADER_LEN: usize = 4;
/// Largest payload of one frame; a payload of at least this size continues in the next frame.
pub const MAX_FRAME_LEN: usize = 0xff_ffff;
/// Default limit of a payload: MySQL's largest event plus the bytes that a dump puts before it.
pub const MAX_PAYLOAD_LEN: usize = EVENT_LEN_MAX + (1 << 16);
const _: () = assert!(MAX_PAYLOAD_LEN <= u32::MAX as usize, "lengths in commands have 32 bits");
/// Bytes requested from the socket per read.
pub const READ_LEN: usize = 256 * 1024;

/// Starts a packet in `out`; append the payload, then call [`finish`].
pub fn start(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    at
}

/// Completes the packet that [`start`] began at `at`: sets lengths and sequence ids, and splits it at 16 MiB.
pub fn finish(out: &mut Vec<u8>, at: usize, sequence: &mut u8) {
    let payload_len = out.len().saturating_sub(at + HEADER_LEN);
    if payload_len < MAX_FRAME_LEN {
        if let Some(header) = out.get_mut(at..at + HEADER_LEN) {
            header.copy_from_slice(&frame_header(payload_len, *sequence));
        }
        *sequence = sequence.wrapping_add(1);
        return;
    }
    let payload = out.split_off(at + HEADER_LEN);
    out.truncate(at);
    write(out, sequence, &payload);
}

/// Appends `payload` as one packet, in as many frames as it needs.
pub fn write(out: &mut Vec<u8>, sequence: &mut u8, payload: &[u8]) {
    let mut rest = payload;
    loop {
        let (frame, tail) = rest.split_at(rest.len().min(MAX_FRAME_LEN));
        out.extend_from_slice(&frame_header(frame.len(), *sequence));
        out.extend_from_slice(frame);
        *sequence = sequence.wrapping_add(1);
        rest = tail;
        if frame.len() < MAX_FRAME_LEN {
            return;
        }
    }
}

fn frame_header(len: usize, sequence: u8) -> [u8; HEADER_LEN] {
    assert!(len <= MAX_FRAME_LEN, "a frame of {len} bytes");
    #[allow(clippy::cast_possible_truncation, reason = "24 bits, asserted above")]
    let [a, b, c, ..] = (len as u32).to_le_bytes();
    [a, b, c, sequence]
}

/// Range of a packet's payload in a [`PacketBuffer`]; valid until the next change of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadRange {
    start: usize,
    len: usize,
}

/// Collects bytes from a peer and returns whole packets without copying them.
///
/// Grows only with bytes that have arrived (by a quarter, a small one by doubling), never by a claimed length, and
/// never above `limit`.
#[derive(Debug)]
pub struct PacketBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Payload bytes of earlier full frames of the packet at `start`, already joined there after its header.
    joined: usize,
    sequence: u8,
    order: Order,
    limit: usize,
    skipping: Option<Skip>,
}

/// Longest beginning of a skipped payload that is kept: a command with the numbers of a statement and a parameter.
pub const SKIPPED_HEAD_LEN: usize = 7;

/// A packet whose bytes are not kept.
#[derive(Debug, Clone, Copy)]
struct Skip {
    /// Bytes of its frame that have not arrived.
    left: usize,
    /// True in its last frame.
    is_last: bool,
    head: [u8; SKIPPED_HEAD_LEN],
}

/// How sequence ids are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Each frame must have the next id.
    Strict,
    /// As `Strict`, except for an ERR packet: a server that ends an idle session sends it out of turn.
    ErrorsOutOfTurn,
    /// Any id is accepted.
    Any,
}

impl PacketBuffer {
    /// An empty buffer for packets of a server; refuses payloads above `limit` bytes.
    pub fn new(limit: usize) -> Self {
        PacketBuffer {
            bytes: Vec::new(),
            start: 0,
            end: 0,
            joined: 0,
            sequence: 0,
            order: Order::ErrorsOutOfTurn,
            limit,
            skipping: None,
        }
    }

    /// An empty buffer for packets of a client: each frame must have the next sequence id.
    pub fn strict(limit: usize) -> Self {
        PacketBuffer { order: Order::Strict, ..PacketBuffer::new(limit) }
    }

    /// The sequence id the next frame must carry.
    pub fn expect_sequence(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// Accepts any sequence id from now on: a semi-synchronous source restarts them after an acknowledgement.
    pub fn accept_any_sequence(&mut self) {
        self.order = Order::Any;
    }

    /// The sequence id that follows the last frame taken.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Number of bytes received but not yet taken.
    pub fn pending_len(&self) -> usize {
        self.end - self.start
    }

    /// What has arrived of the next packet's payload, before [`take`](Self::take) takes it; bytes of packets behind it
    /// may follow.
    pub fn peek(&self) -> &[u8] {
        let at = if self.joined == 0 { self.start + HEADER_LEN } else { self.end };
        self.bytes.get(at..self.end).unwrap_or_default()
    }

    /// Space for the next read; tell [`PacketBuffer::filled`] how many bytes were read.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            // One huge packet must not keep its memory for the lifetime of the connection.
            if self.bytes.len() > 64 * READ_LEN {
                self.bytes.truncate(READ_LEN);
                self.bytes.shrink_to_fit();
            }
        }
        let wanted = READ_LEN / 2;
        if self.bytes.len() - self.end < wanted {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            if self.bytes.len() - self.end < wanted {
                let len = self.bytes.len();
                // Doubling would hold twice the largest packet.
                let more = if len > 4 * READ_LEN { len / 4 } else { len.max(READ_LEN) };
                self.bytes.reserve_exact(more);
                self.bytes.resize(len + more, 0);
            }
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Records that `len` bytes of [`PacketBuffer::spare`] now contain data.
    pub fn filled(&mut self, len: usize) {
        self.end = (self.end + len).min(self.bytes.len());
    }

    /// Appends received bytes: for connections that share one buffer for reading instead of [`PacketBuffer::spare`].
    /// Returns the beginning of the packet that was skipped, once it has ended.
    pub fn push(&mut self, bytes: &[u8]) -> Option<[u8; SKIPPED_HEAD_LEN]> {
        if self.skipping.is_none() {
            self.append(bytes);
            return None;
        }
        let (rest, head) = self.skip_on(bytes)?;
        self.append(rest);
        Some(head)
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.joined == 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.bytes.truncate(self.end);
        // Doubling would hold twice the largest packet.
        if self.bytes.capacity() - self.end < bytes.len() && self.end > 4 * READ_LEN {
            self.bytes.reserve_exact(bytes.len().max(self.end / 4));
        }
        self.bytes.extend_from_slice(bytes);
        self.end = self.bytes.len();
    }

    /// Memory that it holds, in bytes.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Memory that it holds after a [`push`](Self::push) of `len` bytes, at most.
    pub fn memory_with(&self, len: usize) -> usize {
        // What was taken makes room, unless it is of the packet that is being joined.
        let used = if self.joined == 0 { self.end - self.start } else { self.end };
        let (capacity, needed) = (self.bytes.capacity(), used + len);
        if self.skipping.is_some() {
            return capacity;
        }
        match needed <= capacity {
            true => capacity,
            false if used > 4 * READ_LEN => used + len.max(used / 4),
            false => needed.max(capacity * 2),
        }
    }

    /// Forgets the packet that has not arrived whole, and does not keep the rest of it; false if none has begun.
    /// [`push`](Self::push) tells when it has ended.
    pub fn skip(&mut self) -> bool {
        let at = if self.joined == 0 { self.start } else { self.start + HEADER_LEN + self.joined };
        let mut head = [0; SKIPPED_HEAD_LEN];
        let first = self.bytes.get(self.start + HEADER_LEN..self.end).unwrap_or_default();
        let Some(known) = first.get(..SKIPPED_HEAD_LEN.min(first.len())).filter(|known| !known.is_empty()) else {
            return false;
        };
        head.iter_mut().zip(known).for_each(|(to, from)| *to = *from);
        let frame = self.bytes.get(at..self.end).unwrap_or_default().to_vec();
        (self.bytes, self.start, self.end, self.joined) = (Vec::new(), 0, 0, 0);
        self.skipping = Some(Skip { left: 0, is_last: false, head });
        // Its frame has not arrived whole, so nothing comes behind it.
        let _ = self.skip_on(&frame);
        true
    }

    /// Passes over bytes of the packet that is skipped; returns those behind it, with its beginning, once it has ended.
    fn skip_on<'b>(&mut self, mut bytes: &'b [u8]) -> Option<(&'b [u8], [u8; SKIPPED_HEAD_LEN])> {
        let mut skip = self.skipping?;
        loop {
            let passed = skip.left.min(bytes.len());
            (skip.left, bytes) = (skip.left - passed, bytes.get(passed..).unwrap_or_default());
            if skip.left == 0 && skip.is_last {
                self.skipping = None;
                return Some((bytes, skip.head));
            }
            if skip.left == 0 {
                // The header of the next frame may arrive in parts.
                let wanted = (HEADER_LEN - self.bytes.len().min(HEADER_LEN)).min(bytes.len());
                self.bytes.extend_from_slice(bytes.get(..wanted).unwrap_or_default());
                bytes = bytes.get(wanted..).unwrap_or_default();
                if let Some(&[a, b, c, sequence]) = self.bytes.first_chunk::<HEADER_LEN>() {
                    self.bytes.clear();
                    self.sequence = sequence.wrapping_add(1);
                    skip.left = u32::from_le_bytes([a, b, c, 0]) as usize;
                    skip.is_last = skip.left < MAX_FRAME_LEN;
                    continue;
                }
            }
            self.skipping = Some(skip);
            if bytes.is_empty() {
                return None;
            }
        }
    }

    /// True while a packet is skipped.
    pub fn is_skipping(&self) -> bool {
        self.skipping.is_some()
    }

    /// Releases memory above `keep` bytes, if all packets were taken.
    pub fn release(&mut self, keep: usize) {
        if self.start == self.end && self.skipping.is_none() {
            self.start = 0;
            self.end = 0;
            self.bytes.clear();
            self.bytes.shrink_to(keep);
        }
    }

    /// Takes all bytes that are not taken yet, whatever they are: TLS begins in the middle of a read.
    pub fn take_pending(&mut self) -> Vec<u8> {
        let pending = self.bytes.get(self.start..self.end).unwrap_or_default().to_vec();
        (self.start, self.end, self.joined) = (0, 0, 0);
        pending
    }

    /// Refuses payloads above `limit` bytes from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes the next whole packet; `None` if more bytes must be read first.
    #[inline]
    pub fn take(&mut self) -> Result<Option<PayloadRange>> {
        if self.skipping.is_some() {
            return Ok(None);
        }
        loop {
            let at = if self.joined == 0 { self.start } else { self.start + HEADER_LEN + self.joined };
            let Some(&[a, b, c, sequence]) =
                self.bytes.get(at..self.end).and_then(|bytes| bytes.first_chunk::<HEADER_LEN>())
            else {
                return Ok(None);
            };
            let len = u32::from_le_bytes([a, b, c, 0]) as usize;
            if sequence != self.sequence && self.order != Order::Any {
                if self.order == Order::Strict {
                    return Err(WireError::OutOfOrder { expected: self.sequence, got: sequence });
                }
                let first = self.bytes.get(at + HEADER_LEN..self.end).and_then(<[u8]>::first);
                match first {
                    Some(0xff) if len > 0 && self.joined == 0 => {}
                    None if len > 0 && self.joined == 0 => return Ok(None),
                    _ => return Err(WireError::OutOfOrder { expected: self.sequence, got: sequence }),
                }
            }
            if self.joined + len > self.limit {
                return Err(WireError::TooLarge { limit: self.limit });
            }
            if self.end - at < HEADER_LEN + len {
                return Ok(None);
            }
            self.sequence = sequence.wrapping_add(1);
            if self.joined > 0 {
                // Remove this frame's header from the payload.
                self.bytes.copy_within(at + HEADER_LEN..self.end, at);
                self.end -= HEADER_LEN;
            }
            self.joined += len;
            if len < MAX_FRAME_LEN {
                let payload = PayloadRange { start: self.start + HEADER_LEN, len: self.joined };
                self.start = payload.start + payload.len;
                self.joined = 0;
                return Ok(Some(payload));
            }
        }
    }

    /// Overwrites packets that were taken: they had a secret.
    pub fn wipe_taken(&mut self) {
        self.bytes.get_mut(..self.start).unwrap_or_default().fill(0);
    }

    /// True if [`PacketBuffer::take`] would return a packet (or an error) without another read.
    pub fn has_packet(&self) -> bool {
        let mut at = if self.joined == 0 { self.start } else { self.start + HEADER_LEN + self.joined };
        loop {
            let Some(&[a, b, c, _]) = self.bytes.get(at..self.end).and_then(|bytes| bytes.first_chunk::<HEADER_LEN>())
            else {
                return false;
            };
            let len = u32::from_le_bytes([a, b, c, 0]) as usize;
            if self.end - at < HEADER_LEN + len {
                return false;
            }
            if len < MAX_FRAME_LEN {
                return true;
            }
            at += HEADER_LEN + len;
        }
    }

    /// The bytes of a packet just taken.
    #[inline]
    pub fn payload(&self, range: PayloadRange) -> &[u8] {
        self.bytes.get(range.start..range.start + range.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(buffer: &mut PacketBuffer, mut bytes: &[u8], step: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        loop {
            assert_eq!(buffer.has_packet(), matches!(buffer_clone_take(buffer), Ok(Some(_)) | Err(_)));
            while let Some(range) = buffer.take().unwrap() {
                packets.push(buffer.payload(range).to_vec());
            }
            if bytes.is_empty() {
                return packets;
            }
            let spare = buffer.spare();
            let len = spare.len().min(bytes.len()).min(step);
            spare[..len].copy_from_slice(&bytes[..len]);
            buffer.filled(len);
            bytes = &bytes[len..];
        }
    }

    fn buffer_clone_take(buffer: &PacketBuffer) -> Result<Option<PayloadRange>> {
        if buffer.bytes.len() > 1 << 22 {
            return if buffer.has_packet() { Ok(Some(PayloadRange { start: 0, len: 0 })) } else { Ok(None) };
        }
        PacketBuffer { bytes: buffer.bytes.clone(), ..*buffer }.take()
    }

    #[test]
    fn payloads_around_the_frame_limit_come_back_whole() {
        for len in [0, 1, MAX_FRAME_LEN - 1, MAX_FRAME_LEN, MAX_FRAME_LEN + 1, 2 * MAX_FRAME_LEN + 5] {
            let payload: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let (mut out, mut sequence) = (Vec::new(), 7);
            let at = start(&mut out);
            out.extend_from_slice(&payload);
            finish(&mut out, at, &mut sequence);
            write(&mut out, &mut sequence, b"next");
            let mut buffer = PacketBuffer::new(MAX_PAYLOAD_LEN);
            buffer.expect_sequence(7);
            let packets = feed(&mut buffer, &out, 1 << 20);
            assert_eq!(packets.len(), 2);
            assert!(packets[0] == payload);
            assert_eq!(packets[1], b"next");
            assert_eq!(buffer.sequence(), sequence);
        }
    }

    #[test]
    fn a_long_packet_takes_a_quarter_more_than_its_bytes() {
        let (mut out, mut sequence) = (Vec::new(), 0);
        let payload = vec![7; 2 * MAX_FRAME_LEN + (1 << 20)];
        write(&mut out, &mut sequence, &payload);
        let mut buffer = PacketBuffer::new(MAX_PAYLOAD_LEN);
        let packets = feed(&mut buffer, &out, usize::MAX);
        assert!(packets == [payload]);
        assert!(buffer.memory() <= out.len() / 4 * 5 + READ_LEN, "{} for {}", buffer.memory(), out.len());
    }

    #[test]
    fn limit_and_order_are_enforced() {
        let mut buffer = PacketBuffer::new(10);
        buffer.spare()[..4].copy_from_slice(&[11, 0, 0, 0]);
        buffer.filled(4);
        assert_eq!(buffer.take(), Err(WireError::TooLarge { limit: 10 }));
        let mut buffer = PacketBuffer::new(10);
        buffer.spare()[..5].copy_from_slice(&[1, 0, 0, 3, 0]);
        buffer.filled(5);
        assert_eq!(buffer.take(), Err(WireError::OutOfOrder { expected: 0, got: 3 }));
    }

    #[test]
    fn an_error_out_of_turn_may_arrive_in_two_reads() {
        let mut buffer = PacketBuffer::new(10);
        buffer.spare()[..5].copy_from_slice(&[1, 0, 0, 3, 0xff]);
        buffer.filled(4);
        assert_eq!(buffer.take(), Ok(None));
        buffer.filled(1);
        let range = buffer.take().unwrap().unwrap();
        assert_eq!(buffer.payload(range), [0xff]);
        // An empty frame is not an ERR packet, whatever follows it.
        buffer.spare()[..5].copy_from_slice(&[0, 0, 0, 9, 0xff]);
        buffer.filled(5);
        assert_eq!(buffer.take(), Err(WireError::OutOfOrder { expected: 4, got: 9 }));
    }

    proptest! {
        #[test]
        fn any_split_of_the_stream_gives_the_same_packets(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            step in 1usize..400,
        ) {
            let (mut out, mut sequence) = (Vec::new(), 0);
            for payload in &payloads {
                write(&mut out, &mut sequence, payload);
            }
            let mut buffer = PacketBuffer::new(MAX_PAYLOAD_LEN);
            prop_assert_eq!(feed(&mut buffer, &out, step), payloads);
        }

        #[test]
        fn pushed_bytes_give_the_same_packets(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            step in 1usize..400,
        ) {
            let (mut out, mut sequence) = (Vec::new(), 0);
            for payload in &payloads {
                write(&mut out, &mut sequence, payload);
            }
            let (mut buffer, mut packets) = (PacketBuffer::strict(MAX_PAYLOAD_LEN), Vec::new());
            for bytes in out.chunks(step) {
                buffer.push(bytes);
                while let Some(range) = buffer.take().unwrap() {
                    packets.push(buffer.payload(range).to_vec());
                }
                buffer.release(16);
            }
            prop_assert_eq!(packets, payloads);
        }

        #[test]
        fn what_follows_a_skipped_packet_comes_back(
            len in 1usize..5_000,
            arrived in 5usize..5_000,
            step in 1usize..700,
            is_long: bool,
        ) {
            let len = if is_long { MAX_FRAME_LEN + len } else { len };
            let (mut out, mut sequence) = (Vec::new(), 0);
            write(&mut out, &mut sequence, &vec![7; len]);
            let end = out.len();
            let mut next = 0;
            write(&mut out, &mut next, b"next");
            let mut buffer = PacketBuffer::strict(MAX_PAYLOAD_LEN);
            let arrived = arrived.min(end - 1);
            buffer.push(&out[..arrived]);
            prop_assert!(buffer.take().unwrap().is_none());
            prop_assert!(buffer.skip());
            let step = if is_long { step * 10_000 } else { step };
            let mut skipped = None;
            for bytes in out[arrived..].chunks(step) {
                let head = buffer.push(bytes);
                if let Some(head) = head {
                    prop_assert!(skipped.is_none());
                    skipped = Some(head);
                    prop_assert_eq!(buffer.sequence(), sequence);
                    buffer.expect_sequence(0);
                }
                prop_assert!(buffer.memory() <= 2 * step.max(64));
            }
            let mut head = [0; SKIPPED_HEAD_LEN];
            head.iter_mut().take(len.min(arrived - 4)).for_each(|byte| *byte = 7);
            prop_assert_eq!(skipped, Some(head));
            let range = buffer.take().unwrap().unwrap();
            prop_assert_eq!(buffer.payload(range), b"next");
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut buffer = PacketBuffer::new(MAX_PAYLOAD_LEN);
            let len = bytes.len();
            buffer.spare()[..len].copy_from_slice(&bytes);
            buffer.filled(len);
            while let Ok(Some(range)) = buffer.take() {
                let _ = buffer.payload(range);
            }
        }
    }
}
