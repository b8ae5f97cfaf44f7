//! The compressed protocol: bytes of packets in envelopes, compressed by zlib or zstd.
//!
//! In: bytes of whole or partial packets, and bytes of a peer. Out: envelopes to send, and the bytes that a peer's
//! envelopes hold. Never here: what the packets mean, an allocation sized by a length that the peer only claimed.

use std::io::Read;

use crate::{Result, WireError};

/// Length of an envelope's header in bytes: two lengths of three bytes with a sequence id between them.
const HEADER_LEN: usize = 7;
/// Contents shorter than this are sent as they are, as MySQL does (`MIN_COMPRESS_LENGTH`).
const COMPRESSED_FROM: usize = 50;
/// Largest content of an envelope that is sent here.
const CONTENT_LEN: usize = 1 << 20;
/// Window that zstd may ask for, as a power of two: the longest content has 16 MiB, and a longer window is of no use.
const WINDOW_LOG_MAX: u32 = 24;
/// Levels of zstd that a client may ask for.
const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = 1..=22;

/// How contents are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// zlib at its default level.
    Zlib,
    /// zstd at a level from 1 to 22; others are brought into that range.
    Zstd(i32),
}

/// Both directions of one connection.
#[derive(Debug)]
pub struct Compression {
    algorithm: Algorithm,
    /// Sequence id of the next envelope to send; continues the peer's.
    sequence: u8,
    received: Vec<u8>,
}

impl Compression {
    /// A connection on which compression has just begun.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Compression {
        Compression { algorithm, sequence: 0, received: Vec::new() }
    }

    /// Appends `plain` to `out` in envelopes.
    ///
    /// # Errors
    /// The compressor fails.
    pub fn put(&mut self, out: &mut Vec<u8>, plain: &[u8]) -> Result<()> {
        for content in plain.chunks(CONTENT_LEN) {
            let squeezed = if content.len() < COMPRESSED_FROM { None } else { self.squeeze(content)? };
            let (body, len) = match &squeezed {
                Some(body) => (body.as_slice(), content.len()),
                None => (content, 0),
            };
            put_u24(out, body.len());
            out.push(self.sequence);
            put_u24(out, len);
            out.extend_from_slice(body);
            self.sequence = self.sequence.wrapping_add(1);
        }
        Ok(())
    }

    /// The content compressed, if that makes it shorter.
    fn squeeze(&self, content: &[u8]) -> Result<Option<Vec<u8>>> {
        let failed = |_| WireError::Unwritable { what: "content that cannot be compressed" };
        let squeezed = match self.algorithm {
            Algorithm::Zlib => {
                let mut squeezed = Vec::new();
                let mut encoder = flate2::read::ZlibEncoder::new(content, flate2::Compression::default());
                encoder.read_to_end(&mut squeezed).map_err(failed)?;
                squeezed
            }
            Algorithm::Zstd(level) => {
                let level = level.clamp(*ZSTD_LEVELS.start(), *ZSTD_LEVELS.end());
                zstd::bulk::compress(content, level).map_err(failed)?
            }
        };
        Ok(Some(squeezed).filter(|squeezed| squeezed.len() < content.len()))
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Calls `take` with the content of the next whole envelope; false if more bytes must arrive first.
    ///
    /// # Errors
    /// The content cannot be decompressed, or has another length than its envelope says.
    pub fn open(&mut self, take: impl FnOnce(&[u8])) -> Result<bool> {
        let Some(&[a, b, c, sequence, d, e, f]) = self.received.first_chunk::<HEADER_LEN>() else { return Ok(false) };
        let body_len = u32::from_le_bytes([a, b, c, 0]) as usize;
        let content_len = u32::from_le_bytes([d, e, f, 0]) as usize;
        let Some(body) = self.received.get(HEADER_LEN..HEADER_LEN + body_len) else { return Ok(false) };
        if content_len == 0 {
            take(body);
        } else {
            take(&self.expand(body, content_len)?);
        }
        self.sequence = sequence.wrapping_add(1);
        self.received.drain(..HEADER_LEN + body_len);
        self.received.shrink_to(CONTENT_LEN);
        Ok(true)
    }

    fn expand(&self, body: &[u8], content_len: usize) -> Result<Vec<u8>> {
        let failed = |_| WireError::Malformed { what: "compressed packet" };
        // One byte more than claimed shows content that is longer; the vector grows with what there is.
        let most = content_len as u64 + 1;
        let mut content = Vec::new();
        match self.algorithm {
            Algorithm::Zlib => {
                flate2::read::ZlibDecoder::new(body).take(most).read_to_end(&mut content).map_err(failed)?
            }
            Algorithm::Zstd(_) => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(failed)?;
                decoder.window_log_max(WINDOW_LOG_MAX).map_err(failed)?;
                decoder.take(most).read_to_end(&mut content).map_err(failed)?
            }
        };
        if content.len() == content_len {
            Ok(content)
        } else {
            Err(WireError::Malformed { what: "length of a compressed packet" })
        }
    }

    /// Memory that it holds, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.received.capacity()
    }

    /// Memory that it holds after a [`push`](Self::push) of `len` bytes, at most.
    #[must_use]
    pub fn memory_with(&self, len: usize) -> usize {
        let (capacity, needed) = (self.received.capacity(), self.received.len() + len);
        if needed <= capacity { capacity } else { needed.max(capacity * 2) }
    }

    /// Length of the next content as its envelope claims it; None if its envelope is not whole.
    #[must_use]
    pub fn next_len(&self) -> Option<usize> {
        let &[a, b, c, _, d, e, f] = self.received.first_chunk::<HEADER_LEN>()?;
        let body_len = u32::from_le_bytes([a, b, c, 0]) as usize;
        let content_len = u32::from_le_bytes([d, e, f, 0]) as usize;
        (self.received.len() >= HEADER_LEN + body_len).then_some(content_len.max(body_len))
    }

    /// Number of received bytes that are not opened yet.
    #[must_use]
    pub fn pending_len(&self) -> usize {
        self.received.len()
    }

    /// Releases memory while nothing is pending.
    pub fn release(&mut self) {
        if self.received.is_empty() {
            self.received = Vec::new();
        }
    }
}

fn put_u24(out: &mut Vec<u8>, len: usize) {
    let [a, b, c, ..] = (len as u64).to_le_bytes();
    out.extend_from_slice(&[a, b, c]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn opened(algorithm: Algorithm, sent: &[u8], step: usize) -> Result<Vec<u8>> {
        let mut peer = Compression::new(algorithm);
        let mut found = Vec::new();
        for bytes in sent.chunks(step) {
            peer.push(bytes);
            while peer.open(|content| found.extend_from_slice(content))? {}
        }
        Ok(found)
    }

    #[test]
    fn long_contents_come_back_and_are_shorter_on_the_way() {
        let plain: Vec<u8> = (0..3 * CONTENT_LEN).map(|i| (i / 1000 % 251) as u8).collect();
        for algorithm in [Algorithm::Zlib, Algorithm::Zstd(3), Algorithm::Zstd(99)] {
            let (mut sender, mut sent) = (Compression::new(algorithm), Vec::new());
            sender.put(&mut sent, &plain).unwrap();
            assert!(sent.len() < plain.len() / 10, "{algorithm:?}: {}", sent.len());
            assert!(opened(algorithm, &sent, 100_000).unwrap() == plain);
        }
    }

    #[test]
    fn answers_continue_the_peers_sequence() {
        let mut server = Compression::new(Algorithm::Zlib);
        server.push(&[1, 0, 0, 4, 0, 0, 0, b'x']);
        assert!(server.open(|content| assert_eq!(content, b"x")).unwrap());
        let mut out = Vec::new();
        server.put(&mut out, b"y").unwrap();
        assert_eq!(out, [1, 0, 0, 5, 0, 0, 0, b'y']);
    }

    #[test]
    fn a_length_that_does_not_hold_is_refused() {
        for algorithm in [Algorithm::Zlib, Algorithm::Zstd(1)] {
            let (mut sender, mut sent) = (Compression::new(algorithm), Vec::new());
            sender.put(&mut sent, &[7; 5000]).unwrap();
            for claimed in [1u8, 0xff] {
                let mut wrong = sent.clone();
                wrong[4..7].copy_from_slice(&[claimed; 3]);
                assert!(opened(algorithm, &wrong, 1 << 20).is_err(), "{algorithm:?} {claimed}");
            }
        }
    }

    proptest! {
        #[test]
        fn contents_come_back(plain in prop::collection::vec(0u8..4, 0..3000), step in 1usize..500, zlib: bool) {
            let algorithm = if zlib { Algorithm::Zlib } else { Algorithm::Zstd(3) };
            let (mut sender, mut sent) = (Compression::new(algorithm), Vec::new());
            for part in plain.chunks(701) {
                sender.put(&mut sent, part).unwrap();
            }
            prop_assert_eq!(opened(algorithm, &sent, step).unwrap(), plain);
        }

        #[test]
        fn hostile_envelopes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), zlib: bool) {
            let algorithm = if zlib { Algorithm::Zlib } else { Algorithm::Zstd(3) };
            let _ = opened(algorithm, &bytes, 50);
        }
    }
}
