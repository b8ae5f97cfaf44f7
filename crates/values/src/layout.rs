//! Walks row images: finds where a row ends and where its columns lie.
//!
//! In: a row image, as the bytes of a rows event: null bitmap over the present columns, then the values. Out: lengths
//! and offsets. Never here: a decoded value, an allocation per row, a panic on any bytes.

use crate::column_type::{ColumnType, Extent, type_code};
use crate::error::ValueError;
use crate::json_diff;

/// Offset of a column that is NULL; its length is 0.
pub const OFFSET_NULL: u32 = u32::MAX;
/// Offset of a column that the image lacks; its length is 0.
pub const OFFSET_ABSENT: u32 = u32::MAX - 1;

/// A run of fixed-length columns and at most one variable-length column after them. Used for tables of up to 64
/// columns.
#[derive(Debug, Clone)]
struct Step {
    /// Bytes of the fixed columns if none is NULL.
    fixed: u32,
    /// Bytes of the variable column's length prefix; 0 if there is no such column.
    prefix: u8,
    /// The fixed columns, as bits of the null bitmap.
    fixed_mask: u64,
    /// The variable column's bit.
    variable_mask: u64,
}

/// Columns of one table version, compiled for walking.
#[derive(Debug, Clone)]
pub struct RowLayout {
    extents: Box<[Extent]>,
    /// Empty for tables of more than 64 columns.
    steps: Box<[Step]>,
    bitmap_len: usize,
}

impl RowLayout {
    /// Compiles a table's columns, given in the order of its row images.
    #[must_use]
    pub fn new(columns: &[ColumnType]) -> RowLayout {
        let extents: Box<[Extent]> = columns.iter().map(ColumnType::extent).collect();
        let steps = if extents.len() <= 64 { compile(&extents) } else { Vec::new() };
        RowLayout { bitmap_len: extents.len().div_ceil(8), steps: steps.into_boxed_slice(), extents }
    }

    /// Number of columns in the table.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.extents.len()
    }

    /// Length in bytes of the row image at the front of `image`, which holds all columns.
    ///
    /// # Errors
    /// The bytes end before the row does.
    #[inline]
    pub fn walk(&self, image: &[u8]) -> Result<usize, ValueError> {
        if self.steps.is_empty() {
            return self.walk_columns(image);
        }
        let nulls = match image.first_chunk::<8>() {
            // No step covers the bits after the last column.
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => self.short_nulls(image)?,
        };
        let mut at = self.bitmap_len;
        for step in &*self.steps {
            at += step.fixed as usize;
            let mut gone = nulls & step.fixed_mask;
            while gone != 0 {
                if let Some(Extent::Fixed(len)) = self.extents.get(gone.trailing_zeros() as usize) {
                    at -= *len as usize;
                }
                gone &= gone - 1;
            }
            if step.prefix != 0 && nulls & step.variable_mask == 0 {
                match prefixed_len(image, at, step.prefix) {
                    Some(len) => at += len,
                    None => return Err(self.cut_off(image)),
                }
            }
        }
        if at > image.len() { Err(self.cut_off(image)) } else { Ok(at) }
    }

    /// Null bits of an image of fewer than 8 bytes.
    #[cold]
    fn short_nulls(&self, image: &[u8]) -> Result<u64, ValueError> {
        let bitmap = image.get(..self.bitmap_len).ok_or_else(|| self.cut_off(image))?;
        Ok(bitmap.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
    }

    /// Error that names the column in which a broken image ends.
    #[cold]
    fn cut_off(&self, image: &[u8]) -> ValueError {
        match self.walk_columns(image) {
            Err(error) => error,
            Ok(_) => ValueError::ImageCutOff { column: 0, available: image.len() },
        }
    }

    /// `walk`, column by column.
    fn walk_columns(&self, image: &[u8]) -> Result<usize, ValueError> {
        let mut cursor = Cursor::full(self, image)?;
        while cursor.next(image)?.is_some() {}
        Ok(cursor.at)
    }

    /// As `walk`; also returns start and length of every column's stored bytes, length prefix included, or
    /// `OFFSET_NULL` for NULL. `offsets` is cleared first.
    ///
    /// # Errors
    /// As `walk`; also if the image is too long for 32-bit offsets.
    pub fn walk_offsets(&self, image: &[u8], offsets: &mut Vec<(u32, u32)>) -> Result<usize, ValueError> {
        offsets.clear();
        offsets.resize(self.extents.len(), (OFFSET_NULL, 0));
        // No event is this long; bytes further on cannot belong to the row that starts here.
        let image = image.get(..OFFSET_ABSENT as usize).unwrap_or(image);
        let bitmap = self.bitmap(image, self.bitmap_len)?;
        let mut at = self.bitmap_len;
        for (first, ((slots, extents), nulls)) in
            (0..).step_by(8).zip(offsets.chunks_mut(8).zip(self.extents.chunks(8)).zip(bitmap))
        {
            for (bit, (slot, extent)) in slots.iter_mut().zip(extents).enumerate() {
                if nulls >> bit & 1 != 0 {
                    continue;
                }
                let Some(len) = stored(image, at, *extent) else {
                    return Err(ValueError::ImageCutOff { column: first + bit, available: image.len() });
                };
                #[allow(clippy::cast_possible_truncation, reason = "inside the image, which ends before OFFSET_ABSENT")]
                let place = (at as u32, len as u32);
                *slot = place;
                at += len;
            }
        }
        Ok(at)
    }

    /// As `walk_offsets`, for an image that holds only the columns whose bits are set in `present`. The others get
    /// `OFFSET_ABSENT`.
    ///
    /// # Errors
    /// As `walk_offsets`; also if `present` has too few bits.
    pub fn walk_present(
        &self,
        present: &[u8],
        image: &[u8],
        offsets: &mut Vec<(u32, u32)>,
    ) -> Result<usize, ValueError> {
        offsets.clear();
        let mut cursor = Cursor::new(self, Some(present), image)?;
        while let Some(place) = cursor.next(image)? {
            offsets.push(match place {
                Place::Absent => (OFFSET_ABSENT, 0),
                Place::Null => (OFFSET_NULL, 0),
                Place::At(at, len) => span(at, len)?,
            });
        }
        Ok(cursor.at)
    }

    /// Length of the stored bytes of `column` at the front of `bytes`, prefix included.
    ///
    /// # Errors
    /// The bytes end before the value does.
    pub fn stored_len(&self, column: usize, bytes: &[u8]) -> Result<usize, ValueError> {
        let error = ValueError::ImageCutOff { column, available: bytes.len() };
        let extent = self.extents.get(column).ok_or(ValueError::BeyondLimits { what: "a column number" })?;
        stored(bytes, 0, *extent).ok_or(error)
    }

    /// Appends to `out` the full image `stored`, with the columns of `present` replaced from `image`. Unused bits of
    /// the null bitmap are 0, as the server leaves them.
    ///
    /// # Errors
    /// Either image is cut off. `out` then holds a partial image.
    pub fn merge(&self, stored: &[u8], present: &[u8], image: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let mut old = Cursor::full(self, stored)?;
        let mut new = Cursor::new(self, Some(present), image)?;
        let mut nulls = NullBitmap::start(out, self.extents.len());
        while let (Some(old_place), Some(new_place)) = (old.next(stored)?, new.next(image)?) {
            let (bytes, place) = if new_place == Place::Absent { (stored, old_place) } else { (image, new_place) };
            match place {
                Place::At(at, len) => {
                    nulls.not_null();
                    out.extend_from_slice(bytes.get(at..at + len).unwrap_or(&[]));
                }
                Place::Null | Place::Absent => nulls.null(out),
            }
        }
        Ok(())
    }

    /// Appends to `out` an image of all columns that are in either of two images, taken from `newer` if it has the
    /// column. `present` is cleared and then says which columns these are.
    ///
    /// # Errors
    /// Either image is cut off, or its bitmap is too short. `out` then holds a partial image.
    pub fn merge_parts(
        &self,
        older: (&[u8], &[u8]),
        newer: (&[u8], &[u8]),
        present: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let columns = self.extents.len();
        let mut old = Cursor::new(self, Some(older.0), older.1)?;
        let mut new = Cursor::new(self, Some(newer.0), newer.1)?;
        present.clear();
        let bits = older.0.iter().zip(newer.0).map(|(older, newer)| older | newer);
        present.extend(bits.take(columns.div_ceil(8)));
        let mut nulls = NullBitmap::start(out, present_columns(present, columns));
        while let (Some(old_place), Some(new_place)) = (old.next(older.1)?, new.next(newer.1)?) {
            let (bytes, place) = if new_place == Place::Absent { (older.1, old_place) } else { (newer.1, new_place) };
            match place {
                Place::At(at, len) => {
                    nulls.not_null();
                    out.extend_from_slice(bytes.get(at..at + len).unwrap_or(&[]));
                }
                Place::Null => nulls.null(out),
                Place::Absent => {}
            }
        }
        Ok(())
    }

    /// As [`RowLayout::merge`] (`present` None: the image has all columns), for an `image` that holds differences
    /// instead of documents in some JSON columns. `partial` says in which, by the column's number among the table's
    /// JSON columns.
    ///
    /// # Errors
    /// As `merge`; also if differences do not fit the stored document.
    pub fn merge_partial(
        &self,
        types: &[ColumnType],
        stored: &[u8],
        present: Option<&[u8]>,
        partial: impl Fn(usize) -> bool,
        image: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let mut old = Cursor::full(self, stored)?;
        let mut new = Cursor::new(self, present, image)?;
        let mut nulls = NullBitmap::start(out, self.extents.len());
        let mut json = 0;
        for ty in types {
            let (Some(old_place), Some(new_place)) = (old.next(stored)?, new.next(image)?) else { break };
            let is_json = ty.code == type_code::JSON;
            let differs = is_json && partial(json);
            json += usize::from(is_json);
            match (new_place, old_place) {
                (Place::At(at, len), Place::At(old_at, old_len)) if differs => {
                    nulls.not_null();
                    let prefix = ty.prefix_len();
                    let part = |of: &[u8], at: usize, len: usize| of.get(at + prefix..at + len).map(<[u8]>::to_vec);
                    let (document, differences) = (part(stored, old_at, old_len), part(image, at, len));
                    let start = out.len();
                    out.resize(start + prefix, 0);
                    json_diff::apply(&document.unwrap_or_default(), &differences.unwrap_or_default(), out)?;
                    let len = (out.len() - start - prefix).to_le_bytes();
                    out.iter_mut().skip(start).zip(len.iter().take(prefix)).for_each(|(to, from)| *to = *from);
                }
                // A JSON null of no bytes that replaces NULL is logged as an empty difference: the source compares only
                // the bytes and sees no change (seen on 9.7.4). ADD COLUMN … JSON NOT NULL puts such nulls into rows.
                (Place::At(_, len), _) if differs && len == ty.prefix_len() => {
                    nulls.not_null();
                    out.resize(out.len() + len, 0);
                }
                (Place::At(..), _) if differs => {
                    return Err(ValueError::Invalid { what: "JSON difference for a column that is NULL" });
                }
                (Place::At(at, len), _) => {
                    nulls.not_null();
                    out.extend_from_slice(image.get(at..at + len).unwrap_or(&[]));
                }
                (Place::Absent, Place::At(at, len)) => {
                    nulls.not_null();
                    out.extend_from_slice(stored.get(at..at + len).unwrap_or(&[]));
                }
                _ => nulls.null(out),
            }
        }
        Ok(())
    }

    /// True if the full image `stored` and `image` have the same bytes in the columns of `present` (None: in all).
    /// Ignores unused bits of the null bitmaps and bytes after the rows. False if either image is cut off.
    #[must_use]
    pub fn images_equal(&self, stored: &[u8], present: Option<&[u8]>, image: &[u8]) -> bool {
        let (Ok(mut old), Ok(mut new)) = (Cursor::full(self, stored), Cursor::new(self, present, image)) else {
            return false;
        };
        loop {
            match (old.next(stored), new.next(image)) {
                (Ok(Some(_)), Ok(Some(Place::Absent))) | (Ok(Some(Place::Null)), Ok(Some(Place::Null))) => {}
                (Ok(Some(Place::At(a, a_len))), Ok(Some(Place::At(b, b_len)))) => {
                    if stored.get(a..a + a_len) != image.get(b..b + b_len) {
                        return false;
                    }
                }
                (Ok(None), Ok(None)) => return true,
                _ => return false,
            }
        }
    }

    fn bitmap<'a>(&self, image: &'a [u8], len: usize) -> Result<&'a [u8], ValueError> {
        image.get(..len).ok_or(ValueError::ImageCutOff { column: 0, available: image.len() })
    }
}

fn compile(extents: &[Extent]) -> Vec<Step> {
    let empty = Step { fixed: 0, prefix: 0, fixed_mask: 0, variable_mask: 0 };
    let mut steps = vec![empty.clone()];
    for (column, extent) in extents.iter().enumerate() {
        let Some(step) = steps.last_mut() else { break };
        match extent {
            Extent::Fixed(len) => {
                step.fixed += len;
                step.fixed_mask |= 1 << column;
            }
            Extent::Prefixed(prefix) => {
                step.prefix = *prefix;
                step.variable_mask = 1 << column;
                steps.push(empty.clone());
            }
        }
    }
    if steps.len() > 1 && steps.last().is_some_and(|step| step.fixed_mask == 0) {
        steps.pop();
    }
    steps
}

/// Length of a value with a length prefix at `at`, prefix included. The value may end beyond the image.
#[inline(always)]
fn prefixed_len(image: &[u8], at: usize, prefix: u8) -> Option<usize> {
    let rest = image.get(at..)?;
    let len = match prefix {
        1 => usize::from(*rest.first()?),
        2 => usize::from(u16::from_le_bytes(*rest.first_chunk()?)),
        3 => rest.first_chunk::<3>().map(|[a, b, c]| u32::from_le_bytes([*a, *b, *c, 0]) as usize)?,
        _ => u32::from_le_bytes(*rest.first_chunk()?) as usize,
    };
    Some(len + usize::from(prefix))
}

/// Length of a value at `at`; `None` if it ends beyond the image.
#[inline(always)]
fn stored(image: &[u8], at: usize, extent: Extent) -> Option<usize> {
    let len = match extent {
        Extent::Fixed(len) => len as usize,
        Extent::Prefixed(prefix) => prefixed_len(image, at, prefix)?,
    };
    (image.len() >= at + len).then_some(len)
}

#[inline(always)]
fn span(at: usize, len: usize) -> Result<(u32, u32), ValueError> {
    match (u32::try_from(at), u32::try_from(len)) {
        (Ok(at), Ok(len)) if at < OFFSET_ABSENT => Ok((at, len)),
        _ => Err(ValueError::BeyondLimits { what: "a row image" }),
    }
}

#[inline(always)]
fn bit(bitmap: &[u8], index: usize) -> bool {
    bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 != 0)
}

/// Position of a column in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Absent,
    Null,
    /// Start and length of the stored bytes.
    At(usize, usize),
}

/// Walks an image column by column. `next` must get the same image as `new`.
struct Cursor<'a> {
    extents: &'a [Extent],
    present: Option<&'a [u8]>,
    column: usize,
    null_bit: usize,
    bitmap_len: usize,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn full(layout: &'a RowLayout, image: &[u8]) -> Result<Cursor<'a>, ValueError> {
        Cursor::new(layout, None, image)
    }

    fn new(layout: &'a RowLayout, present: Option<&'a [u8]>, image: &[u8]) -> Result<Cursor<'a>, ValueError> {
        let columns = layout.extents.len();
        let in_image = match present {
            None => columns,
            Some(bits) if bits.len() * 8 < columns => return Err(ValueError::Invalid { what: "bitmap of columns" }),
            Some(bits) => present_columns(bits, columns),
        };
        let bitmap_len = in_image.div_ceil(8);
        layout.bitmap(image, bitmap_len)?;
        Ok(Cursor { extents: &layout.extents, present, column: 0, null_bit: 0, bitmap_len, at: bitmap_len })
    }

    #[inline(always)]
    fn next(&mut self, image: &[u8]) -> Result<Option<Place>, ValueError> {
        let Some(extent) = self.extents.get(self.column) else { return Ok(None) };
        let column = self.column;
        self.column += 1;
        if self.present.is_some_and(|bits| !bit(bits, column)) {
            return Ok(Some(Place::Absent));
        }
        let null = image.get(..self.bitmap_len).is_some_and(|bitmap| bit(bitmap, self.null_bit));
        self.null_bit += 1;
        if null {
            return Ok(Some(Place::Null));
        }
        let len = stored(image, self.at, *extent).ok_or(ValueError::ImageCutOff { column, available: image.len() })?;
        let at = self.at;
        self.at += len;
        Ok(Some(Place::At(at, len)))
    }
}

fn present_columns(bits: &[u8], columns: usize) -> usize {
    let whole: usize = bits.iter().take(columns / 8).map(|byte| byte.count_ones() as usize).sum();
    let rest = bits.get(columns / 8).map_or(0, |byte| byte & !(u8::MAX << (columns % 8)));
    whole + rest.count_ones() as usize
}

/// Null bitmap of an image under construction at the end of a buffer. Bits without a column stay 0, as in 8.0 and
/// later.
pub(crate) struct NullBitmap {
    start: usize,
    next: usize,
}

impl NullBitmap {
    pub(crate) fn start(out: &mut Vec<u8>, columns: usize) -> NullBitmap {
        let start = out.len();
        out.resize(start + columns.div_ceil(8), 0);
        NullBitmap { start, next: 0 }
    }

    pub(crate) fn null(&mut self, out: &mut [u8]) {
        if let Some(byte) = out.get_mut(self.start + self.next / 8) {
            *byte |= 1 << (self.next % 8);
        }
        self.next += 1;
    }

    pub(crate) fn not_null(&mut self) {
        self.next += 1;
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
