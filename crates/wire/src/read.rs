//! A bounds-checked reader over a packet's bytes.

use crate::{Result, WireError};

/// Reads fields from the front of a byte slice; every method fails instead of reading past the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    /// Bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// True if all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads the next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8]> {
        let (head, tail) = self.bytes.split_at_checked(len).ok_or(WireError::Truncated { what })?;
        self.bytes = tail;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or(WireError::Truncated { what })?;
        self.bytes = tail;
        Ok(*head)
    }

    /// Reads one byte as an integer.
    #[inline]
    pub fn u8(&mut self, what: &'static str) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    /// Reads two bytes, little endian.
    #[inline]
    pub fn u16(&mut self, what: &'static str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// Reads three bytes, little endian.
    #[inline]
    pub fn u24(&mut self, what: &'static str) -> Result<u32> {
        let [a, b, c] = self.array(what)?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Reads four bytes, little endian.
    #[inline]
    pub fn u32(&mut self, what: &'static str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Reads eight bytes, little endian.
    #[inline]
    pub fn u64(&mut self, what: &'static str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Reads a length-encoded integer.
    #[inline]
    pub fn lenenc(&mut self, what: &'static str) -> Result<u64> {
        match self.u8(what)? {
            0xfc => Ok(u64::from(self.u16(what)?)),
            0xfd => Ok(u64::from(self.u24(what)?)),
            0xfe => self.u64(what),
            0xfb | 0xff => Err(WireError::Malformed { what }),
            small => Ok(u64::from(small)),
        }
    }

    /// Reads a length-encoded length and that many bytes.
    #[inline]
    pub fn lenenc_bytes(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let len = usize::try_from(self.lenenc(what)?).map_err(|_| WireError::Truncated { what })?;
        self.take(len, what)
    }

    /// Reads bytes up to a zero byte, which is consumed.
    pub fn nul_bytes(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let len = self.bytes.iter().position(|&b| b == 0).ok_or(WireError::Truncated { what })?;
        let head = self.take(len, what)?;
        self.take(1, what)?;
        Ok(head)
    }

    /// Reads bytes up to a zero byte, or to the end if there is none.
    pub fn nul_or_rest(&mut self) -> &'a [u8] {
        match self.nul_bytes("text") {
            Ok(head) => head,
            Err(_) => std::mem::take(&mut self.bytes),
        }
    }
}

/// Appends a length of one byte, then the bytes, truncated to 255.
pub(crate) fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    out.push(len);
    out.extend(bytes.iter().take(usize::from(len)));
}

/// Appends a length-encoded integer.
pub fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a length-encoded length, then the bytes.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
