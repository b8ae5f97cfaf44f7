//! Conversion of rows written under earlier definitions of their table.
//!
//! In: what an ALTER TABLE did to each column; a row image with the version of the definition it was written under.
//! Out: the image under a later definition. Never here: guesses; a column with an unknown value is an error.
//!
//! A layout is the format of row images: the columns' types in order. Names, defaults and keys are not part of it.

use serde::{Deserialize, Serialize};
use values::convert::{Conversion, ConvertOptions};
use values::{ColumnType, OFFSET_NULL, RowLayout, ValueError};

use crate::table::{Column, GeneratedKind, TableDef};

/// Origin of a column's value in a row written under the previous layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ColumnSource {
    /// Stored bytes, or NULL, of the previous layout's column at this position.
    #[serde(rename = "Kept")]
    Kept(usize),
    /// Value of a previous column, converted.
    #[serde(rename = "Converted")]
    Converted {
        /// Position of that column in the previous layout.
        #[serde(rename = "column")]
        column: usize,
        #[serde(rename = "options")]
        options: ConvertOptions,
        /// Replacement for NULL as stored bytes; None if NULL stays NULL.
        #[serde(rename = "null", deserialize_with = "Option::deserialize")]
        null: Option<Vec<u8>>,
    },
    /// Bytes of a generated column, as with [`ColumnSource::Kept`], provided that conversion does not change the
    /// columns it reads; unknown otherwise.
    #[serde(rename = "KeptWhile")]
    KeptWhile {
        /// Position of the generated column in the previous layout.
        #[serde(rename = "column")]
        column: usize,
        /// Positions of the columns that it reads, with their conversions.
        #[serde(rename = "same")]
        same: Vec<(usize, ConvertOptions)>,
        /// What is unknown if one of them changes, for messages.
        #[serde(rename = "what")]
        what: String,
    },
    /// The same stored bytes in every row.
    #[serde(rename = "Constant")]
    Constant(Vec<u8>),
    /// NULL in every row.
    #[serde(rename = "Null")]
    Null,
    /// Unknown, for this reason. NULL in rows where the column at this position, if any, is NULL.
    #[serde(rename = "Unknown")]
    Unknown {
        /// What is unknown, for messages.
        #[serde(rename = "what")]
        what: String,
        /// Position of that column in the previous layout.
        #[serde(rename = "column", deserialize_with = "Option::deserialize")]
        column: Option<usize>,
    },
}

/// A layout that stored rows may still have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OlderLayout {
    /// First version of the definition with this layout.
    #[serde(rename = "since")]
    pub since: u32,
    /// Types of the columns, in order.
    #[serde(rename = "types")]
    pub types: Vec<ColumnType>,
    /// Origin of each column of the next layout.
    #[serde(rename = "to_next")]
    pub to_next: Vec<ColumnSource>,
}

/// How one column of the new image is made.
#[derive(Debug, Clone)]
enum Step {
    Kept(usize),
    Converted {
        column: usize,
        conversion: Conversion,
        null: Option<Vec<u8>>,
    },
    KeptWhile {
        column: usize,
        same: Vec<(usize, Conversion)>,
        what: String,
    },
    Constant(Vec<u8>),
    Null,
    /// If `column` is given and NULL, the value is `null`, or NULL if that is None. Otherwise it is unknown.
    Unknown {
        what: String,
        column: Option<usize>,
        null: Option<Vec<u8>>,
    },
}

/// Converts images of one layout to the next.
#[derive(Debug, Clone)]
pub struct RowConversion {
    from: RowLayout,
    steps: Vec<Step>,
}

/// Scratch buffers of conversions, reused from row to row.
#[derive(Debug, Default)]
pub struct ConversionBuffers {
    offsets: Vec<(u32, u32)>,
    image: Vec<u8>,
    other: Vec<u8>,
}

impl RowConversion {
    /// Builds the conversion from images of `from` to images of `to`, whose columns come from `sources`. An unsupported
    /// conversion is treated as [`ColumnSource::Unknown`].
    #[must_use]
    pub fn new(from: &[ColumnType], to: &[ColumnType], sources: &[ColumnSource]) -> RowConversion {
        let absent = || Step::Unknown { what: "a column that is not there".to_owned(), column: None, null: None };
        let step = |(source, to): (&ColumnSource, &ColumnType)| match source {
            ColumnSource::Kept(column) | ColumnSource::KeptWhile { column, .. } if *column >= from.len() => absent(),
            ColumnSource::Kept(column) => Step::Kept(*column),
            ColumnSource::Converted { column, options, null } => {
                let known = from.get(*column).map(|from| Conversion::new(from, to, *options));
                match known {
                    Some(Ok(conversion)) => Step::Converted { column: *column, conversion, null: null.clone() },
                    Some(Err(error)) => {
                        Step::Unknown { what: error.to_string(), column: Some(*column), null: null.clone() }
                    }
                    None => absent(),
                }
            }
            ColumnSource::KeptWhile { column, same, what } => {
                let conversion = |(at, options): &(usize, ConvertOptions)| {
                    let from = from.get(*at)?;
                    Some((*at, Conversion::new(from, from, *options).ok()?))
                };
                match same.iter().map(conversion).collect() {
                    Some(same) => Step::KeptWhile { column: *column, same, what: what.clone() },
                    None => Step::Unknown { what: what.clone(), column: None, null: None },
                }
            }
            ColumnSource::Constant(bytes) => Step::Constant(bytes.clone()),
            ColumnSource::Null => Step::Null,
            ColumnSource::Unknown { what, column } => {
                Step::Unknown { what: what.clone(), column: column.filter(|at| *at < from.len()), null: None }
            }
        };
        RowConversion { from: RowLayout::new(from), steps: sources.iter().zip(to).map(step).collect() }
    }

    /// Appends the new image of a row.
    ///
    /// # Errors
    /// If the image does not fit its layout, or a value is unknown; `out` then holds a partial image.
    pub fn append(&self, image: &[u8], offsets: &mut Vec<(u32, u32)>, out: &mut Vec<u8>) -> Result<(), ValueError> {
        self.from.walk_offsets(image, offsets)?;
        let stored = |column: usize| match offsets.get(column) {
            Some(&(OFFSET_NULL, _)) | None => None,
            Some(&(at, len)) => image.get(at as usize..at as usize + len as usize),
        };
        let nulls_at = out.len();
        out.resize(nulls_at + self.steps.len().div_ceil(8), 0);
        for (position, step) in self.steps.iter().enumerate() {
            let is_null = match step {
                Step::Kept(column) => put(stored(*column), out),
                Step::Constant(bytes) => put(Some(bytes), out),
                Step::Null => true,
                Step::Converted { column, conversion, null } => match stored(*column) {
                    Some(bytes) => {
                        conversion.append(bytes, out)?;
                        false
                    }
                    None => put(null.as_deref(), out),
                },
                Step::KeptWhile { column, same, what } => {
                    for (at, conversion) in same {
                        let Some(bytes) = stored(*at) else { continue };
                        // Converted on trial: only whether the bytes change matters.
                        let end = out.len();
                        conversion.append(bytes, out)?;
                        let changed = out.get(end..) != Some(bytes);
                        out.truncate(end);
                        if changed {
                            return Err(ValueError::Unsupported { what: what.clone().into_boxed_str() });
                        }
                    }
                    put(stored(*column), out)
                }
                Step::Unknown { column: Some(column), null, .. } if stored(*column).is_none() => {
                    put(null.as_deref(), out)
                }
                Step::Unknown { what, .. } => {
                    return Err(ValueError::Unsupported { what: what.clone().into_boxed_str() });
                }
            };
            if is_null && let Some(byte) = out.get_mut(nulls_at + position / 8) {
                *byte |= 1 << (position % 8);
            }
        }
        Ok(())
    }
}

/// Appends a value; true for NULL, which appends nothing.
fn put(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(value.unwrap_or_default());
    value.is_none()
}

/// Reads rows of any version of a table's definition as rows of one version.
#[derive(Debug, Clone, Default)]
pub struct RowVersions {
    /// First version whose layout is the one rows are read as.
    since: u32,
    /// Older layouts, oldest first: first version, and conversion to the next layout.
    older: Vec<(u32, RowConversion)>,
    /// Per column, whether it is virtual; empty if none is.
    computed: Vec<bool>,
}

impl RowVersions {
    /// Builds a reader of rows under this definition.
    #[must_use]
    pub fn of(table: &TableDef) -> RowVersions {
        let types = table.column_types();
        let nexts = table.older_layouts.iter().skip(1).map(|layout| layout.types.as_slice());
        let nexts = nexts.chain(std::iter::once(types.as_slice()));
        let step = |(layout, next): (&OlderLayout, &[ColumnType])| {
            (layout.since, RowConversion::new(&layout.types, next, &layout.to_next))
        };
        let older = table.older_layouts.iter().zip(nexts).map(step).collect();
        let is_virtual = |column: &Column| column.generated == Some(GeneratedKind::Virtual);
        let computed = match table.columns.iter().any(is_virtual) {
            true => table.columns.iter().map(is_virtual).collect(),
            false => Vec::new(),
        };
        RowVersions { since: table.layout_since, older, computed }
    }

    /// True if any column is virtual.
    #[must_use]
    pub fn has_virtual(&self) -> bool {
        !self.computed.is_empty()
    }

    /// True if the column at this position is virtual, so that its value in the log is that of the session that wrote
    /// the event.
    #[must_use]
    pub fn is_virtual(&self, column: usize) -> bool {
        self.computed.get(column).is_some_and(|is_virtual| *is_virtual)
    }

    /// True if an image of this version needs no conversion.
    #[inline]
    #[must_use]
    pub fn is_current(&self, version: u32) -> bool {
        version >= self.since
    }

    /// Converts an image written under `version` to the current layout.
    ///
    /// # Errors
    /// If the image does not fit the layout of its version, or a value is unknown.
    #[inline]
    pub fn read<'a>(
        &self,
        version: u32,
        image: &'a [u8],
        buffers: &'a mut ConversionBuffers,
    ) -> Result<&'a [u8], ValueError> {
        if self.is_current(version) { Ok(image) } else { self.convert(version, image, buffers) }
    }

    #[cold]
    fn convert<'a>(
        &self,
        version: u32,
        image: &[u8],
        buffers: &'a mut ConversionBuffers,
    ) -> Result<&'a [u8], ValueError> {
        // Under the wrong layout the bytes would be other values.
        let first = self.older.iter().rposition(|(since, _)| *since <= version);
        let steps = first.and_then(|first| self.older.get(first..));
        let steps = steps.ok_or(ValueError::Invalid { what: "version of a stored row's table" })?;
        let ConversionBuffers { offsets, image: done, other } = buffers;
        done.clear();
        done.extend_from_slice(image);
        for (_, step) in steps {
            other.clear();
            step.append(done, offsets, other)?;
            std::mem::swap(done, other);
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use values::convert::DateRules;
    use values::type_code as t;

    #[test]
    fn an_image_is_converted_through_all_later_layouts() {
        let (int, small) = (ColumnType::new(t::LONG, 0), ColumnType::new(t::TINY, 0));
        let options = ConvertOptions { strict: true, ..ConvertOptions::default() };
        let widened = ColumnSource::Converted { column: 1, options, null: None };
        let versions = RowVersions {
            since: 5,
            older: vec![
                (
                    1,
                    RowConversion::new(
                        &[int.clone(), small.clone()],
                        &[small.clone(), int.clone(), small.clone()],
                        &[ColumnSource::Null, ColumnSource::Kept(0), ColumnSource::Kept(1)],
                    ),
                ),
                (
                    3,
                    RowConversion::new(
                        &[small.clone(), int.clone(), small.clone()],
                        &[int.clone(), int.clone(), small.clone()],
                        &[ColumnSource::Kept(1), ColumnSource::Constant(vec![9, 0, 0, 0]), ColumnSource::Kept(0)],
                    ),
                ),
            ],
            computed: Vec::new(),
        };
        let mut buffers = ConversionBuffers::default();
        let old = [0u8, 7, 0, 0, 0, 1];
        assert_eq!(versions.read(2, &old, &mut buffers).unwrap(), [0b100, 7, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!(versions.read(4, &[0, 1, 7, 0, 0, 0, 2], &mut buffers).unwrap(), [0, 7, 0, 0, 0, 9, 0, 0, 0, 1]);
        assert_eq!(versions.read(5, &old, &mut buffers).unwrap(), old);
        assert!(versions.read(4, &[0, 1, 7], &mut buffers).is_err());
        assert!(versions.read(0, &old, &mut buffers).is_err(), "no layout is as old");
        let no_layouts = RowVersions { since: 5, ..RowVersions::default() };
        assert!(no_layouts.read(4, &old, &mut buffers).is_err(), "the layout of before is not there");
        let wider = RowConversion::new(&[int.clone(), small], &[int], &[widened]);
        let mut out = Vec::new();
        wider.append(&[0, 7, 0, 0, 0, 0xff], &mut Vec::new(), &mut out).unwrap();
        assert_eq!(out, [0, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn a_generated_column_is_kept_while_its_date_is() {
        let (int, date) = (ColumnType::new(t::LONG, 0), ColumnType::new(t::DATE, 0));
        let dates = DateRules { day_must_exist: true, no_zero_in_date: false };
        let options = ConvertOptions { dates, ..ConvertOptions::default() };
        let sources = [
            ColumnSource::KeptWhile { column: 0, same: vec![(1, options)], what: "x".to_owned() },
            ColumnSource::Converted { column: 1, options, null: None },
        ];
        let types = [int, date];
        let conversion = RowConversion::new(&types, &types, &sources);
        let stored = |day: u32| (2024 << 9 | 2 << 5 | day).to_le_bytes();
        let row = |day: u32| [&[0, 2, 0, 0, 0][..], &stored(day)[..3]].concat();
        let mut out = Vec::new();
        conversion.append(&row(29), &mut Vec::new(), &mut out).unwrap();
        assert_eq!(out, row(29));
        conversion.append(&row(30), &mut Vec::new(), &mut out).unwrap_err();
        out.clear();
        conversion.append(&[0b10, 2, 0, 0, 0], &mut Vec::new(), &mut out).unwrap();
        assert_eq!(out, [0b10, 2, 0, 0, 0]);
    }

    #[test]
    fn what_is_not_known_is_an_error_but_for_null() {
        let int = ColumnType::new(t::LONG, 0);
        let unknown = ColumnSource::Unknown { what: "x".to_owned(), column: Some(0) };
        let conversion = RowConversion::new(std::slice::from_ref(&int), std::slice::from_ref(&int), &[unknown]);
        let mut out = Vec::new();
        conversion.append(&[1], &mut Vec::new(), &mut out).unwrap();
        assert_eq!(out, [1]);
        assert!(conversion.append(&[0, 1, 0, 0, 0], &mut Vec::new(), &mut out).is_err());
        for absent in [
            ColumnSource::Kept(1),
            ColumnSource::KeptWhile { column: 1, same: Vec::new(), what: String::new() },
            ColumnSource::Unknown { what: "x".to_owned(), column: Some(1) },
        ] {
            let conversion = RowConversion::new(std::slice::from_ref(&int), std::slice::from_ref(&int), &[absent]);
            assert!(conversion.append(&[0, 1, 0, 0, 0], &mut Vec::new(), &mut out).is_err(), "no NULL in its place");
        }
        // BIT to DATE, which becomes NOT NULL.
        let (bit, date) = (ColumnType::new(t::BIT, 8), ColumnType::new(t::DATE, 0));
        let zero = ColumnSource::Converted { column: 0, options: ConvertOptions::default(), null: Some(vec![0; 3]) };
        let conversion = RowConversion::new(&[bit], &[date], &[zero]);
        out.clear();
        conversion.append(&[1], &mut Vec::new(), &mut out).unwrap();
        assert_eq!(out, [0; 4]);
        assert!(conversion.append(&[0, 0], &mut Vec::new(), &mut out).is_err());
    }
}
