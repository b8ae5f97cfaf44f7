//! What comparing needs to know of a table: names and types of its columns, and which of them tell rows apart.
//!
//! In: a definition from the catalog or from a server's information_schema. Out: the key bytes of a comparable image,
//! its sort key, its values as text.

use catalog::{Identity, TableDef};
use values::text::{self, BinaryForm, FloatForm, TextOptions};
use values::{ColumnType, OFFSET_ABSENT, RowLayout, ValueError, type_code};

use crate::error::CompareError;
use crate::order::push_sort_key;
pub(crate) use client::session::quoted;

/// See the module.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Database.
    pub db: String,
    /// Table.
    pub table: String,
    /// Column names in table order.
    pub names: Vec<String>,
    /// Column types in table order.
    pub types: Vec<ColumnType>,
    /// Walks comparable images too: a JSON text has the length prefix of a document.
    pub layout: RowLayout,
    /// Positions of the columns that identify a row, in key order; empty where only the whole row does.
    pub key: Vec<usize>,
}

impl Shape {
    /// Of a table of the catalog.
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
        }
    }

    /// A row does not fit the table.
    pub(crate) fn damaged(&self, error: ValueError) -> CompareError {
        CompareError::Row { db: self.db.clone(), table: self.table.clone(), error }
    }

    /// `db`.`table`, quoted.
    #[must_use]
    pub fn quoted_name(&self) -> String {
        format!("{}.{}", quoted(&self.db), quoted(&self.table))
    }

    /// Positions of the columns that identify a row; all of them where there is no key.
    pub(crate) fn key_columns(&self) -> Vec<usize> {
        if self.key.is_empty() { (0..self.types.len()).collect() } else { self.key.clone() }
    }

    /// Bytes that are equal for rows with the same identity: the stored bytes of the key's columns in `scratch`, or the
    /// whole image.
    ///
    /// # Errors
    /// The image does not fit the columns.
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

    /// Bytes that put rows in the order of their key.
    ///
    /// # Errors
    /// The image does not fit the columns.
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

    /// A value of a comparable image as text, whole. A value that cannot be printed is shown in hexadecimal.
    pub(crate) fn text_of(&self, column: usize, stored: Option<&[u8]>) -> String {
        let (Some(ty), Some(stored)) = (self.types.get(column), stored) else { return "NULL".into() };
        let mut out = Vec::new();
        let options = TextOptions { binary: BinaryForm::Hex, float: FloatForm::Exact };
        if ty.code == type_code::JSON {
            // A comparable image holds its text.
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

/// The stored bytes of a column, length prefix included; None for NULL.
pub(crate) fn column_bytes<'a>(image: &'a [u8], offsets: &[(u32, u32)], column: usize) -> Option<&'a [u8]> {
    let (at, len) = offsets.get(column).copied().filter(|(at, _)| *at < OFFSET_ABSENT)?;
    image.get(at as usize..)?.get(..len as usize)
}
