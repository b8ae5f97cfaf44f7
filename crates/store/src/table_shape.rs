//! What lanes and readers must know about a table, from its definition.

use catalog::{ConversionBuffers, KeyOrder, RowVersions, TableDef, TableId};
use values::{ColumnType, RowLayout, ValueError};

/// What a lane must know about a table.
#[derive(Clone, Copy)]
pub struct TableShape<'a> {
    pub id: TableId,
    /// Offsets of columns in its row images.
    pub layout: &'a RowLayout,
    /// Type of each column.
    pub types: &'a [ColumnType],
    /// Position of its rows on disk.
    pub order: &'a KeyOrder,
    /// Version of its definition, under which new images are written.
    pub definition: u32,
    /// Conversion of images written under earlier definitions.
    pub versions: &'a RowVersions,
}

/// Owner of the data that a [`TableShape`] borrows, built from a definition.
#[derive(Clone, Debug)]
pub struct OwnedShape {
    id: TableId,
    definition: u32,
    types: Vec<ColumnType>,
    layout: RowLayout,
    order: KeyOrder,
    versions: RowVersions,
}

impl OwnedShape {
    /// Builds the shape of this definition.
    #[must_use]
    pub fn of(table: &TableDef) -> OwnedShape {
        let types = table.column_types();
        OwnedShape {
            id: table.id,
            definition: table.version,
            layout: RowLayout::new(&types),
            types,
            order: KeyOrder::of(table),
            versions: RowVersions::of(table),
        }
    }

    /// Borrows it for the store.
    #[must_use]
    pub fn lend(&self) -> TableShape<'_> {
        TableShape {
            id: self.id,
            layout: &self.layout,
            types: &self.types,
            order: &self.order,
            definition: self.definition,
            versions: &self.versions,
        }
    }
}

/// Appends an image or copy count that a lane holds, converted to the definition of `shape`.
pub(crate) fn append_read(
    shape: &TableShape<'_>,
    definition: u32,
    image: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    if shape.versions.is_current(definition) {
        out.extend_from_slice(image);
        return Ok(());
    }
    let mut buffers = ConversionBuffers::default();
    out.extend_from_slice(shape.versions.read(definition, image, &mut buffers)?);
    Ok(())
}
