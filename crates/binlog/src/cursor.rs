//! Reads fixed and packed integers and byte ranges from an event's body, never past its end.

use crate::BinlogError;

/// A position in the bytes of one event. Every read names its field, so that errors can.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    event: &'static str,
}

macro_rules! fixed {
    ($name:ident, $type:ty) => {
        #[inline]
        pub(crate) fn $name(&mut self, field: &'static str) -> Result<$type, BinlogError> {
            self.array(field).map(<$type>::from_le_bytes)
        }
    };
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(event: &'static str, bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes, event }
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    #[cold]
    pub(crate) fn short(&self, field: &'static str) -> BinlogError {
        BinlogError::Short { event: self.event, field }
    }

    #[cold]
    pub(crate) fn value(&self, field: &'static str, value: u64) -> BinlogError {
        BinlogError::Value { event: self.event, field, value }
    }

    /// Fails unless everything was read.
    pub(crate) fn finish(&self, field: &'static str) -> Result<(), BinlogError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(BinlogError::LeftOver { event: self.event, field, left: self.rest.len() })
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], BinlogError> {
        match self.rest.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.rest = rest;
                Ok(*chunk)
            }
            None => Err(self.short(field)),
        }
    }

    fixed!(u8, u8);
    fixed!(u16, u16);
    fixed!(u32, u32);
    fixed!(u64, u64);
    fixed!(i64, i64);

    /// Reads three bytes.
    #[inline]
    pub(crate) fn u24(&mut self, field: &'static str) -> Result<u32, BinlogError> {
        let [a, b, c] = self.array(field)?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Reads six bytes: a table id.
    #[inline]
    pub(crate) fn u48(&mut self, field: &'static str) -> Result<u64, BinlogError> {
        let [a, b, c, d, e, f] = self.array(field)?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// Reads seven bytes: a commit timestamp and its flag.
    #[inline]
    pub(crate) fn u56(&mut self, field: &'static str) -> Result<u64, BinlogError> {
        let [a, b, c, d, e, f, g] = self.array(field)?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, g, 0]))
    }

    /// Reads MySQL's length-encoded integer, 1 to 9 bytes. The bytes 251 (NULL) and 255 (error) are not numbers.
    #[inline]
    pub(crate) fn packed(&mut self, field: &'static str) -> Result<u64, BinlogError> {
        match self.u8(field)? {
            first @ 0..=250 => Ok(u64::from(first)),
            252 => self.u16(field).map(u64::from),
            253 => self.u24(field).map(u64::from),
            254 => self.u64(field),
            first => Err(self.value(field, u64::from(first))),
        }
    }

    /// Reads a length-encoded integer that counts bytes or columns of this same event.
    #[inline]
    pub(crate) fn packed_len(&mut self, field: &'static str) -> Result<usize, BinlogError> {
        let length = self.packed(field)?;
        usize::try_from(length).map_err(|_| self.short(field))
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], BinlogError> {
        match self.rest.split_at_checked(len) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.short(field)),
        }
    }

    /// Reads a length-encoded length, then that many bytes.
    #[inline]
    pub(crate) fn packed_bytes(&mut self, field: &'static str) -> Result<&'a [u8], BinlogError> {
        let len = self.packed_len(field)?;
        self.bytes(len, field)
    }

    /// Reads a length byte, then that many bytes.
    #[inline]
    pub(crate) fn short_bytes(&mut self, field: &'static str) -> Result<&'a [u8], BinlogError> {
        let len = self.u8(field)?;
        self.bytes(usize::from(len), field)
    }

    /// Reads a terminating zero byte.
    #[inline]
    pub(crate) fn nul(&mut self, field: &'static str) -> Result<(), BinlogError> {
        match self.u8(field)? {
            0 => Ok(()),
            other => Err(self.value(field, u64::from(other))),
        }
    }

    /// Reads bytes up to a zero byte, which is consumed too.
    pub(crate) fn until_nul(&mut self, field: &'static str) -> Result<&'a [u8], BinlogError> {
        let Some(end) = self.rest.iter().position(|&byte| byte == 0) else {
            return Err(self.short(field));
        };
        let taken = self.bytes(end, field)?;
        self.nul(field)?;
        Ok(taken)
    }

    /// Takes all remaining bytes.
    #[inline]
    pub(crate) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}
