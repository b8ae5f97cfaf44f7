//! The Transaction_payload event: all events of a transaction after its Gtid event, compressed.
//!
//! In: the event's body. Out: the events inside, all at once or one at a time. Never here: more output than the caller's
//! limit, whatever the sizes in the bytes say.

use std::io::Read;

use base::limits::READ_CHUNK_BYTES;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::cursor::Cursor;
use crate::framer::Framer;
use crate::{BinlogError, EventHeader, check_event_type, encode, event_type};

const EVENT: &str = "Transaction_payload";

/// Compression of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Compressed with zstd.
    Zstd,
    /// Not compressed.
    None,
}

impl Compression {
    fn code(self) -> u64 {
        match self {
            Compression::Zstd => 0,
            Compression::None => 255,
        }
    }
}

/// The fields before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadHead {
    /// Compression of the payload.
    pub compression: Compression,
    /// Decompressed size in bytes, as the source states it.
    pub uncompressed_size: Option<u64>,
    /// Size of the payload, in bytes.
    pub size: usize,
    /// Size of these fields, in bytes.
    pub len: usize,
}

impl PayloadHead {
    /// Reads the fields at the start of the body of a Transaction_payload event, which may be cut off after them. Skips
    /// fields of later versions.
    pub fn parse(start: &[u8]) -> Result<PayloadHead, BinlogError> {
        let mut body = Cursor::new(EVENT, start);
        let mut size = None;
        let mut compression = None;
        let mut uncompressed_size = None;
        loop {
            let code = body.packed("field code")?;
            if code == 0 {
                break;
            }
            let mut value = Cursor::new(EVENT, body.packed_bytes("field")?);
            match code {
                1 => size = Some(value.packed_len("payload size")?),
                2 => {
                    compression = Some(match value.packed("compression type")? {
                        0 => Compression::Zstd,
                        255 => Compression::None,
                        other => return Err(value.value("compression type", other)),
                    });
                }
                3 => uncompressed_size = Some(value.packed("uncompressed size")?),
                _ => value = Cursor::new(EVENT, &[]),
            }
            value.finish("field")?;
        }
        let size = size.ok_or_else(|| body.short("payload size"))?;
        let compression = compression.ok_or_else(|| body.short("compression type"))?;
        Ok(PayloadHead { compression, uncompressed_size, size, len: start.len() - body.len() })
    }

    /// The events of the payload that `input` holds, decompressed one at a time. Takes memory for one event, of at most
    /// `event_bytes_max`, and zstd's window.
    pub fn events(
        &self,
        input: impl Read + Send + 'static,
        event_bytes_max: usize,
    ) -> Result<PayloadEvents<'static>, BinlogError> {
        let input: Box<dyn Read + Send> = match self.compression {
            Compression::None => Box::new(input),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(input).map_err(decompress_error)?),
        };
        Ok(PayloadEvents {
            framer: Framer::new(input).with_event_len_max(event_bytes_max),
            taken: 0,
            handed_out: 0,
            limit_bytes: u64::MAX,
            size: self.uncompressed_size,
        })
    }
}

/// A Transaction_payload event. The events inside have headers but no checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionPayload<'a> {
    /// Compression of `payload`.
    pub compression: Compression,
    /// Decompressed size in bytes, as the source states it.
    pub uncompressed_size: Option<u64>,
    /// The compressed bytes.
    pub payload: &'a [u8],
}

impl<'a> TransactionPayload<'a> {
    /// Reads the body of a Transaction_payload event.
    pub fn parse(body: &'a [u8]) -> Result<TransactionPayload<'a>, BinlogError> {
        let head = PayloadHead::parse(body)?;
        let mut rest = Cursor::new(EVENT, body.get(head.len..).unwrap_or_default());
        let payload = rest.bytes(head.size, "payload")?;
        rest.finish("payload")?;
        Ok(TransactionPayload { compression: head.compression, uncompressed_size: head.uncompressed_size, payload })
    }

    /// Decompresses the whole payload into `out`, which is cleared first. Fails if it exceeds `limit_bytes`. Callers
    /// with many payloads should keep a [`PayloadDecompressor`].
    pub fn decompress_into(&self, out: &mut Vec<u8>, limit_bytes: u64) -> Result<(), BinlogError> {
        PayloadDecompressor::new()?.decompress_into(self, out, limit_bytes)
    }

    /// The events inside, decompressed one at a time. Takes memory for one event and zstd's window, whatever the
    /// payload's size. `limit_bytes` bounds all of them together.
    pub fn events(&self, limit_bytes: u64) -> Result<PayloadEvents<'a>, BinlogError> {
        let input: Box<dyn Read + Send + 'a> = match self.compression {
            Compression::None => Box::new(self.payload),
            Compression::Zstd => {
                Box::new(zstd::stream::read::Decoder::with_buffer(self.payload).map_err(decompress_error)?)
            }
        };
        self.check_limit(limit_bytes)?;
        Ok(PayloadEvents {
            framer: Framer::new(input),
            taken: 0,
            handed_out: 0,
            limit_bytes,
            size: self.uncompressed_size,
        })
    }

    fn check_limit(&self, limit: u64) -> Result<(), BinlogError> {
        match self.uncompressed_size {
            Some(size) if size > limit => Err(BinlogError::PayloadTooLarge { limit }),
            _ => Ok(()),
        }
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        let field = |out: &mut Vec<u8>, code: u64, value: u64| {
            let mut bytes = Vec::with_capacity(9);
            encode::packed(&mut bytes, value);
            encode::packed(out, code);
            encode::packed_bytes(out, &bytes);
        };
        field(out, 2, self.compression.code());
        if let Some(size) = self.uncompressed_size {
            field(out, 3, size);
        }
        field(out, 1, self.payload.len() as u64);
        out.push(0);
        out.extend(self.payload);
    }
}

#[cold]
fn decompress_error(error: std::io::Error) -> BinlogError {
    BinlogError::Decompress { detail: error.to_string() }
}

/// Working memory of zstd, kept from one payload to the next. A payload makes it grow by its window: at most 128 MiB,
/// zstd's own bound on what it agrees to decompress.
pub struct PayloadDecompressor {
    decoder: Decoder<'static>,
}

impl std::fmt::Debug for PayloadDecompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PayloadDecompressor")
    }
}

impl PayloadDecompressor {
    /// Fails only if memory runs out.
    pub fn new() -> Result<PayloadDecompressor, BinlogError> {
        Ok(PayloadDecompressor { decoder: Decoder::new().map_err(decompress_error)? })
    }

    /// Decompresses the whole payload into `out`, which is cleared first. Fails if it exceeds `limit_bytes`, or if its
    /// size differs from the one its event states.
    pub fn decompress_into(
        &mut self,
        payload: &TransactionPayload<'_>,
        out: &mut Vec<u8>,
        limit_bytes: u64,
    ) -> Result<(), BinlogError> {
        out.clear();
        payload.check_limit(limit_bytes)?;
        match payload.compression {
            Compression::None => {
                if payload.payload.len() as u64 > limit_bytes {
                    return Err(BinlogError::PayloadTooLarge { limit: limit_bytes });
                }
                out.extend_from_slice(payload.payload);
            }
            Compression::Zstd => self.unpack(payload, out, limit_bytes)?,
        }
        match payload.uncompressed_size {
            Some(size) if size != out.len() as u64 => {
                Err(BinlogError::Value { event: EVENT, field: "uncompressed size", value: size })
            }
            _ => Ok(()),
        }
    }

    fn unpack(&mut self, payload: &TransactionPayload<'_>, out: &mut Vec<u8>, limit: u64) -> Result<(), BinlogError> {
        self.decoder.reinit().map_err(decompress_error)?;
        // The stated size alone reserves no memory: compressed bytes are usually a tenth of it. compressed.
        let stated = payload.uncompressed_size.unwrap_or(0).min(limit);
        let believable = (payload.payload.len() as u64).saturating_mul(32).max(READ_CHUNK_BYTES as u64);
        out.reserve(usize::try_from(stated.min(believable)).unwrap_or(0));
        let mut input = InBuffer::around(payload.payload);
        let mut frame_is_whole = true;
        loop {
            if out.len() == out.capacity() {
                if out.len() as u64 > limit {
                    return Err(BinlogError::PayloadTooLarge { limit });
                }
                out.reserve(out.len().clamp(4096, READ_CHUNK_BYTES * 8));
            }
            let before = (input.pos(), out.len());
            let hint = {
                let at = out.len();
                let mut output = OutBuffer::around_pos(&mut *out, at);
                self.decoder.run(&mut input, &mut output).map_err(decompress_error)?
            };
            let consumed_all = input.pos() == payload.payload.len();
            // When all input was consumed and nothing was put out, `hint` refers to a frame that never began.
            if (input.pos(), out.len()) != before {
                frame_is_whole = hint == 0;
            }
            if consumed_all && out.len() < out.capacity() {
                break;
            }
        }
        if out.len() as u64 > limit {
            return Err(BinlogError::PayloadTooLarge { limit });
        }
        if !frame_is_whole {
            return Err(BinlogError::Short { event: EVENT, field: "compressed payload" });
        }
        Ok(())
    }
}

/// Events of a payload, one at a time.
pub struct PayloadEvents<'a> {
    framer: Framer<Box<dyn Read + Send + 'a>>,
    taken: u64,
    handed_out: usize,
    limit_bytes: u64,
    size: Option<u64>,
}

impl std::fmt::Debug for PayloadEvents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PayloadEvents").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl PayloadEvents<'_> {
    /// Returns the next event, header included, or `None` after the last. An event that cannot occur in a payload is an
    /// error.
    #[allow(clippy::should_implement_trait)] // Lends its own buffer, which `Iterator` cannot.
    pub fn next(&mut self) -> Result<Option<(EventHeader, &[u8])>, BinlogError> {
        self.framer.consume(std::mem::take(&mut self.handed_out));
        let event = self.framer.peek_event().map_err(|error| match error {
            BinlogError::Io(error) => decompress_error(error),
            BinlogError::Truncated { .. } => BinlogError::Short { event: EVENT, field: "last event" },
            other => other,
        })?;
        let Some((header, event)) = event else {
            return match self.size {
                Some(size) if size != self.taken => {
                    Err(BinlogError::Value { event: EVENT, field: "uncompressed size", value: size })
                }
                _ => Ok(None),
            };
        };
        check_inner_event(&header)?;
        self.taken += event.len() as u64;
        if self.taken > self.limit_bytes {
            return Err(BinlogError::PayloadTooLarge { limit: self.limit_bytes });
        }
        self.handed_out = event.len();
        Ok(Some((header, event)))
    }
}

/// Rejects events that cannot occur inside a payload.
fn check_inner_event(header: &EventHeader) -> Result<(), BinlogError> {
    check_event_type(header)?;
    match header.event_type {
        event_type::TRANSACTION_PAYLOAD
        | event_type::FORMAT_DESCRIPTION
        | event_type::ROTATE
        | event_type::STOP
        | event_type::PREVIOUS_GTIDS
        | event_type::GTID
        | event_type::ANONYMOUS_GTID
        | event_type::GTID_TAGGED => {
            let value = u64::from(header.event_type);
            Err(BinlogError::Value { event: EVENT, field: "type of an event inside", value })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(data: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(data, 3).unwrap()
    }

    fn unpacked(payload: &[u8], size: Option<u64>, limit: u64) -> Result<Vec<u8>, BinlogError> {
        let mut out = vec![1, 2, 3];
        let event = TransactionPayload { compression: Compression::Zstd, uncompressed_size: size, payload };
        event.decompress_into(&mut out, limit).map(|()| out)
    }

    #[test]
    fn header_round_trip_and_unknown_fields() {
        let event =
            TransactionPayload { compression: Compression::Zstd, uncompressed_size: Some(70000), payload: b"zz" };
        let mut body = Vec::new();
        event.encode_into(&mut body);
        assert_eq!(TransactionPayload::parse(&body).unwrap(), event);
        let mut later = vec![9, 2, 7, 7];
        later.extend(&body);
        assert_eq!(TransactionPayload::parse(&later).unwrap(), event);
        for len in 0..body.len() {
            assert!(TransactionPayload::parse(&body[..len]).is_err(), "{len}");
        }
        assert!(TransactionPayload::parse(&[0]).is_err());
        assert!(TransactionPayload::parse(&[2, 1, 7, 1, 1, 0, 0]).is_err());
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = pack(&vec![0; 64 << 20]);
        assert!(bomb.len() < 10_000);
        for size in [None, Some(10), Some(64 << 20)] {
            let error = unpacked(&bomb, size, 1 << 20).unwrap_err();
            assert!(matches!(error, BinlogError::PayloadTooLarge { limit: 1_048_576 }), "{error}");
        }
        assert_eq!(unpacked(&bomb, Some(64 << 20), 64 << 20).unwrap().len(), 64 << 20);
    }

    #[test]
    fn cut_wrong_or_mislabelled() {
        let data = vec![7; 10_000];
        let packed = pack(&data);
        assert_eq!(unpacked(&packed, Some(10_000), 10_000).unwrap(), data);
        assert_eq!(unpacked(&packed, None, 10_000).unwrap(), data);
        assert!(unpacked(&packed, Some(9_999), 20_000).is_err());
        assert!(unpacked(&packed, None, 9_999).is_err());
        for len in 1..packed.len() {
            assert!(unpacked(&packed[..len], None, 20_000).is_err(), "{len}");
        }
        // Several frames form one payload.
        let twice = [packed.clone(), packed].concat();
        assert_eq!(unpacked(&twice, Some(20_000), 20_000).unwrap().len(), 20_000);
        assert_eq!(unpacked(&[], None, 1).unwrap(), b"");
    }

    #[test]
    fn sizes_at_the_edges_of_the_buffer() {
        let data: Vec<u8> = (0..3 << 20).map(|at: u32| (at ^ (at >> 7)) as u8).collect();
        let edges = [4096usize, 8192, 16384, 128 << 10, 1 << 20, 2 << 20];
        for len in edges.into_iter().flat_map(|edge| [edge - 1, edge, edge + 1]) {
            let packed = pack(&data[..len]);
            assert_eq!(unpacked(&packed, None, len as u64).unwrap(), data[..len]);
            assert_eq!(unpacked(&packed, Some(len as u64), len as u64).unwrap(), data[..len]);
            assert!(unpacked(&packed, None, len as u64 - 1).is_err(), "{len}");
        }
    }

    #[test]
    fn the_decompressor_recovers_from_a_bad_payload() {
        let mut decompressor = PayloadDecompressor::new().unwrap();
        let data = vec![5; 3000];
        let packed = pack(&data);
        let mut out = Vec::new();
        for payload in [&packed[..packed.len() - 4], &b"junk"[..], &packed] {
            let event = TransactionPayload { compression: Compression::Zstd, uncompressed_size: None, payload };
            let outcome = decompressor.decompress_into(&event, &mut out, 1 << 20);
            assert_eq!(outcome.is_ok(), payload.len() == packed.len());
        }
        assert_eq!(out, data);
    }

    proptest! {
        #[test]
        fn random_payloads_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), flip: usize, with: u8) {
            let _ = TransactionPayload::parse(&bytes);
            let mut packed = pack(&bytes);
            let at = flip % packed.len();
            packed[at] ^= with;
            let _ = unpacked(&packed, None, 10_000);
            let event = TransactionPayload { compression: Compression::Zstd, uncompressed_size: None, payload: &packed };
            let mut events = event.events(10_000).unwrap();
            while let Ok(Some(_)) = events.next() {}
        }
    }
}
