//! Facts about a table that comparison needs: names and types of its columns, and which of them identify rows.
//!
//! In: a definition from the catalog or from a server's information_schema. Out: the key bytes of a comparable image,
//! its sort key, its values as text. Never here: I/O.

use catalog::{Identity, TableDef};
use values::text::{self, BinaryForm, FloatForm, TextOptions};
use values::{ColumnType, OFFSET_ABSENT, RowLayout, ValueError, type_code};

use crate::error::CompareError;
use crate::order::push_sort_key;
pub(crate) use client::session::quoted;

/// Columns and key of a table, from the catalog or a server.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Database of the table.
    pub db: String,
    /// Name of the table.
    pub table: String,
    /// Column names in table order.
    pub names: Vec<String>,
    /// Column types in table order.
    pub types: Vec<ColumnType>,
    /// Also fits comparable images, because a JSON text has the same length prefix as a document.
    pub layout: RowLayout,
    /// Positions of the columns that identify a row, in key order; empty if only the whole row does.
    pub key: Vec<usize>,
    /// Positions of virtual columns whose values here may differ from the source's ([`TableDef::not_known`]). They are
    /// neither compared nor printed.
    pub not_known: Vec<usize>,
}

impl Shape {
    /// Shape of a table of the catalog.
    #[must_use]
    pub fn of(table: &TableDef) -> Shape {
        let types = table.column_types();
        Shape {
            db: table.db.clone(),
            table: table.name.clone(),
            names: table.columns.iter().map(|column| column.name.clone()).collect(),
            layout: RowLayout::new(&types),
            types,
            key: match &table.identity {
                Identity::Columns(columns) => columns.clone(),
                Identity::WholeImage => Vec::new(),
            },
            not_known: table.not_known(),
        }
    }

    /// Says which columns are not compared, if any.
    pub(crate) fn not_compared(&self) -> Option<String> {
        let names: Vec<&str> = self.not_known.iter().filter_map(|at| Some(self.names.get(*at)?.as_str())).collect();
        let listed = names.join(", ");
        (!names.is_empty())
            .then(|| format!("virtual columns whose values the log does not contain, not compared: {listed}"))
    }

    /// Error for a row that does not fit the table.
    pub(crate) fn damaged(&self, error: ValueError) -> CompareError {
        CompareError::Row { db: self.db.clone(), table: self.table.clone(), error }
    }

    /// `db`.`table`, quoted.
    #[must_use]
    pub fn quoted_name(&self) -> String {
        format!("{}.{}", quoted(&self.db), quoted(&self.table))
    }

    /// Positions of the columns that identify a row; all columns if there is no key.
    pub(crate) fn key_columns(&self) -> Vec<usize> {
        if self.key.is_empty() { (0..self.types.len()).collect() } else { self.key.clone() }
    }

    /// Returns bytes that are equal for rows with the same identity: the stored bytes of the key's columns, assembled
    /// in `scratch`, or the whole image.
    ///
    /// # Errors
    /// If the image does not fit the columns.
    pub fn key_of<'a>(
        &self,
        image: &'a [u8],
        offsets: &mut Vec<(u32, u32)>,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], ValueError> {
        if self.key.is_empty() {
            return Ok(image);
        }
        self.layout.walk_offsets(image, offsets)?;
        scratch.clear();
        for column in &self.key {
            scratch.extend_from_slice(column_bytes(image, offsets, *column).unwrap_or(&[]));
        }
        Ok(scratch)
    }

    /// Returns bytes that sort rows in the order of their key.
    ///
    /// # Errors
    /// If the image does not fit the columns.
    pub(crate) fn sort_key(&self, image: &[u8], offsets: &mut Vec<(u32, u32)>) -> Result<Vec<u8>, ValueError> {
        self.layout.walk_offsets(image, offsets)?;
        let mut out = Vec::new();
        for column in self.key_columns() {
            if let Some(ty) = self.types.get(column) {
                push_sort_key(ty, column_bytes(image, offsets, column), &mut out);
            }
        }
        Ok(out)
    }

    /// A value of a comparable image as full text; in hexadecimal if it cannot be printed.
    pub(crate) fn text_of(&self, column: usize, stored: Option<&[u8]>) -> String {
        let (Some(ty), Some(stored)) = (self.types.get(column), stored) else { return "NULL".into() };
        let mut out = Vec::new();
        let options = TextOptions { binary: BinaryForm::Hex, float: FloatForm::Exact };
        if ty.code == type_code::JSON {
            // Comparable images contain JSON as text.
            out.extend_from_slice(stored.get(ty.prefix_len()..).unwrap_or(&[]));
        } else if text::write_text(ty, stored, options, &mut out).is_err() {
            return hex(stored);
        }
        let mut text = String::with_capacity(out.len());
        for character in String::from_utf8_lossy(&out).chars() {
            if character.is_control() {
                text.extend(character.escape_debug());
            } else {
                text.push(character);
            }
        }
        if ty.text_collation().is_some() { format!("'{text}'") } else { text }
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("0x"), |text, byte| text + &format!("{byte:02X}"))
}

/// Stored bytes of a column, including the length prefix; None for NULL.
pub(crate) fn column_bytes<'a>(image: &'a [u8], offsets: &[(u32, u32)], column: usize) -> Option<&'a [u8]> {
    let (at, len) = offsets.get(column).copied().filter(|(at, _)| *at < OFFSET_ABSENT)?;
    image.get(at as usize..)?.get(..len as usize)
}
