//! A table's definition: what the decoder, the store and readers ask.
//!
//! In: nothing; built by `define` from a statement. Out: columns with the types the source's Table_map events carry,
//! keys in MySQL's order, the identity of a row. Never here: text of statements, rows.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use values::ColumnType;
use values::sort_key::SortKeyColumn;

use crate::layout::OlderLayout;
use crate::partition::Partitioning;

/// Names one table's rows for ever: TRUNCATE, DROP and re-creation give a new one, none is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableId(pub u32);

impl std::fmt::Display for TableId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// One table at one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDef {
    /// Fresh at CREATE and TRUNCATE, and where an ALTER TABLE writes all rows anew; else kept.
    #[serde(rename = "id")]
    pub id: TableId,
    /// Counts the definitions under this id, from 1.
    #[serde(rename = "version")]
    pub version: u32,
    /// Database, as stored by the source.
    #[serde(rename = "db")]
    pub db: String,
    /// Name, as stored by the source.
    #[serde(rename = "name")]
    pub name: String,
    /// In table order, the order of row images. Hidden columns of functional indexes are not among them.
    #[serde(rename = "columns")]
    pub columns: Vec<Column>,
    /// In MySQL's internal order: PRIMARY, unique without NULL, unique with NULL, unique with prefixes, others, full text.
    #[serde(rename = "keys")]
    pub keys: Vec<Key>,
    /// What tells one row from another.
    #[serde(rename = "identity")]
    pub identity: Identity,
    /// Collation of columns that name none.
    #[serde(rename = "default_collation")]
    pub default_collation: u16,
    /// The table's comment.
    #[serde(rename = "comment")]
    pub comment: String,
    /// Engine as named, else `InnoDB`.
    #[serde(rename = "engine")]
    pub engine: String,
    /// Text after PARTITION BY as it was last given, if any; `partitioning` has what was done to the partitions since.
    #[serde(rename = "partition_by", deserialize_with = "Option::deserialize")]
    pub partition_by: Option<String>,
    /// The partitions. None: there are none, or the text is not understood.
    #[serde(rename = "partitioning", deserialize_with = "Option::deserialize")]
    pub partitioning: Option<Partitioning>,
    /// Keys into other tables.
    #[serde(rename = "foreign_keys")]
    pub foreign_keys: Vec<ForeignKey>,
    /// Number of hidden columns MySQL adds for functional index parts. Their bits can be seen set behind the visible
    /// columns' bits in the bitmaps of rows events; they must be ignored.
    #[serde(rename = "hidden_columns")]
    pub hidden_columns: usize,
    /// The first version whose rows' images look as `columns` say.
    #[serde(rename = "layout_since")]
    pub layout_since: u32,
    /// What images of rows written under earlier versions look like, oldest first: such rows may be in the store.
    #[serde(rename = "older_layouts")]
    pub older_layouts: Vec<OlderLayout>,
    /// Index ids given under this table id so far: 1 to this. None is given twice.
    #[serde(rename = "index_ids_given")]
    pub index_ids_given: u16,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Name as written; compared without regard to case.
    #[serde(rename = "name")]
    pub name: String,
    /// The type, exactly as the source's Table_map carries it.
    #[serde(rename = "ty")]
    pub ty: ColumnType,
    /// May hold NULL.
    #[serde(rename = "nullable")]
    pub nullable: bool,
    /// How the server prints a number here; no part of the log.
    #[serde(rename = "display")]
    pub display: NumberDisplay,
    /// Left out of `SELECT *`.
    #[serde(rename = "invisible")]
    pub invisible: bool,
    /// AUTO_INCREMENT.
    #[serde(rename = "auto_increment")]
    pub auto_increment: bool,
    /// GENERATED ALWAYS AS, with its kind.
    #[serde(rename = "generated", deserialize_with = "Option::deserialize")]
    pub generated: Option<GeneratedKind>,
    /// What a generated column is computed by, its tokens in one spelling; empty for another, and where a catalog
    /// of an earlier version of this program did not keep it. Equal texts compute the same, different ones may.
    // Absent where it is empty.
    #[serde(rename = "expression", default, skip_serializing_if = "String::is_empty")]
    pub expression: String,
    /// What a row that does not name the column gets.
    #[serde(rename = "default")]
    pub default: ColumnDefault,
    /// ON UPDATE CURRENT_TIMESTAMP.
    #[serde(rename = "on_update_now")]
    pub on_update_now: bool,
    /// The column's comment.
    #[serde(rename = "comment")]
    pub comment: String,
    /// Which type of GEOMETRY, with its SRID where it has one: `point srid 4326`; empty for other columns, and where a
    /// catalog of an earlier version of this program did not keep it.
    // Absent where it is empty.
    #[serde(rename = "geometry", default, skip_serializing_if = "String::is_empty")]
    pub geometry: String,
}

/// What ZEROFILL and FLOAT(M,D) add to the text of a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberDisplay {
    /// Zeros go before the digits up to this many characters; 0: none do.
    #[serde(rename = "zerofill_width")]
    pub zerofill_width: u16,
    /// FLOAT(M,D), DOUBLE(M,D): always so many decimals.
    #[serde(rename = "decimals", deserialize_with = "Option::deserialize")]
    pub decimals: Option<u8>,
}

/// How a generated column is kept by the source. Row images hold both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GeneratedKind {
    /// Computed when read.
    #[serde(rename = "Virtual")]
    Virtual,
    /// Stored with the row.
    #[serde(rename = "Stored")]
    Stored,
}

/// A column's DEFAULT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColumnDefault {
    /// No DEFAULT: NULL where nullable, else the type's implicit value.
    #[serde(rename = "None")]
    None,
    /// DEFAULT NULL; the same as none where a primary key made the column NOT NULL later.
    #[serde(rename = "Null")]
    Null,
    /// A constant, as its bytes stand in a row image.
    #[serde(rename = "Image")]
    Image(Vec<u8>),
    /// An expression, or a constant whose image is not known here. The source writes expression values into every
    /// image; a row that leaves such a column out cannot be completed.
    #[serde(rename = "Expression")]
    Expression(String),
    /// CURRENT_TIMESTAMP; the source writes its value into every image.
    #[serde(rename = "CurrentTimestamp")]
    CurrentTimestamp,
}

/// The value of a column an INSERT's image leaves out (`binlog_row_image=MINIMAL`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OmittedValue {
    /// NULL.
    Null,
    /// These bytes, as in a row image.
    Image(Vec<u8>),
    /// Not known here: the table is copied again, or replay stops.
    Unknown,
}

/// What tells one row of a table from another (invariant 4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// These columns, by position, in key order: PRIMARY, else the first UNIQUE key in MySQL's order that qualifies.
    #[serde(rename = "Columns")]
    Columns(Vec<usize>),
    /// No such key: rows are a multiset of whole images.
    #[serde(rename = "WholeImage")]
    WholeImage,
}

/// One index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Names its entries in the store under this table's id; 0: none were left to give. See `index_set`.
    #[serde(rename = "id")]
    pub id: u16,
    /// `PRIMARY` for the primary key.
    #[serde(rename = "name")]
    pub name: String,
    /// No two rows alike (NULLs aside). True for the primary key.
    #[serde(rename = "unique")]
    pub unique: bool,
    /// The PRIMARY KEY.
    #[serde(rename = "primary")]
    pub primary: bool,
    /// BTREE, FULLTEXT or SPATIAL.
    #[serde(rename = "kind")]
    pub kind: IndexKind,
    /// Hidden from the source's optimizer.
    #[serde(rename = "invisible")]
    pub invisible: bool,
    /// Made by MySQL for a foreign key; goes when a key that serves as well is added.
    #[serde(rename = "generated")]
    pub generated: bool,
    /// The column parts. Expression parts are not columns of the row image: see `expressions`.
    #[serde(rename = "parts")]
    pub parts: Vec<KeyPart>,
    /// Texts of expression parts with their place among all parts; such a key cannot be kept from row images alone.
    #[serde(rename = "expressions")]
    pub expressions: Vec<(usize, String)>,
}

/// The index's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexKind {
    /// Ordered.
    #[serde(rename = "Ordered")]
    Ordered,
    /// FULLTEXT.
    #[serde(rename = "FullText")]
    FullText,
    /// SPATIAL.
    #[serde(rename = "Spatial")]
    Spatial,
}

/// One column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPart {
    /// Position in [`TableDef::columns`].
    #[serde(rename = "column")]
    pub column: usize,
    /// Only the first so many characters (bytes for binary columns); `None` is the whole column.
    #[serde(rename = "prefix_len", deserialize_with = "Option::deserialize")]
    pub prefix_len: Option<u32>,
    /// DESC.
    #[serde(rename = "descending")]
    pub descending: bool,
}

/// A foreign key of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignKey {
    /// Given, or generated as `table_ibfk_N`.
    #[serde(rename = "name")]
    pub name: String,
    /// Positions of the referencing columns.
    #[serde(rename = "columns")]
    pub columns: Vec<usize>,
    /// Referenced database.
    #[serde(rename = "parent_db")]
    pub parent_db: String,
    /// Referenced table.
    #[serde(rename = "parent_table")]
    pub parent_table: String,
    /// Names of the referenced columns.
    #[serde(rename = "parent_columns")]
    pub parent_columns: Vec<String>,
    /// ON DELETE.
    #[serde(rename = "on_delete")]
    pub on_delete: ReferenceAction,
    /// ON UPDATE.
    #[serde(rename = "on_update")]
    pub on_update: ReferenceAction,
}

/// What a foreign key does when the parent changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ReferenceAction {
    /// NO ACTION, also when nothing is said.
    #[default]
    #[serde(rename = "NoAction")]
    NoAction,
    /// RESTRICT.
    #[serde(rename = "Restrict")]
    Restrict,
    /// CASCADE.
    #[serde(rename = "Cascade")]
    Cascade,
    /// SET NULL.
    #[serde(rename = "SetNull")]
    SetNull,
    /// SET DEFAULT (InnoDB refuses it).
    #[serde(rename = "SetDefault")]
    SetDefault,
}

impl ReferenceAction {
    /// Changes child rows by itself: CASCADE and SET NULL.
    pub fn changes_children(self) -> bool {
        matches!(self, ReferenceAction::Cascade | ReferenceAction::SetNull)
    }
}

impl TableDef {
    /// Position of a column, its name compared without regard to case.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| same_name(&column.name, name))
    }

    /// A key by name, compared without regard to case.
    pub fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| same_name(&key.name, name))
    }

    /// The key that identifies rows; its columns are those of [`TableDef::identity`]. `None` where the whole image does.
    pub fn identity_key(&self) -> Option<&Key> {
        crate::identity::identifying_key(&self.keys, &self.columns)
    }

    /// What [`values::sort_key::SortKeyPlan::new`] needs for one of this table's keys, in key order. `None` for keys that
    /// have no order or whose values are not in row images: full text, spatial, with an expression.
    pub fn sort_key_columns(&self, key: &Key) -> Option<Vec<SortKeyColumn>> {
        if key.kind != IndexKind::Ordered || !key.expressions.is_empty() {
            return None;
        }
        key.parts
            .iter()
            .map(|part| {
                let column = self.columns.get(part.column)?;
                Some(SortKeyColumn {
                    ty: column.ty.clone(),
                    nullable: column.nullable,
                    descending: part.descending,
                    prefix_len: part.prefix_len,
                })
            })
            .collect()
    }

    /// The columns' types in table order.
    pub fn column_types(&self) -> Vec<ColumnType> {
        self.columns.iter().map(|column| column.ty.clone()).collect()
    }

    /// `db`.`table`, for messages.
    pub fn full_name(&self) -> String {
        format!("`{}`.`{}`", self.db, self.name)
    }

    /// What the source's Table_map event for this table carries: type bytes and the metadata block, raw.
    pub fn expected_table_map(&self) -> (Vec<u8>, Vec<u8>) {
        expected_table_map(self)
    }

    /// Compares with a Table_map: `types` are its type bytes, `metas` its columns through
    /// [`ColumnType::from_table_map`], with collations filled in where the event's optional metadata has them.
    /// On a mismatch the text shows both sides.
    pub fn matches(&self, types: &[u8], metas: &[ColumnType]) -> Result<(), String> {
        let same = self.columns.len() == metas.len()
            && self.columns.len() == types.len()
            && self.columns.iter().zip(metas).all(|(column, logged)| {
                column.ty.code == logged.code
                    && column.ty.meta == logged.meta
                    && (logged.collation == 0 || column.ty.collation == 0 || logged.collation == column.ty.collation)
            });
        if same { Ok(()) } else { Err(self.difference(types, metas)) }
    }

    fn difference(&self, types: &[u8], metas: &[ColumnType]) -> String {
        let mut text = format!(
            "{}: the log's table map has {} columns, the catalog {}",
            self.full_name(),
            types.len(),
            self.columns.len()
        );
        for position in 0..self.columns.len().max(metas.len()) {
            let own = self.columns.get(position);
            let logged = metas.get(position);
            let alike = match (own, logged) {
                (Some(own), Some(logged)) => {
                    own.ty.code == logged.code
                        && own.ty.meta == logged.meta
                        && (logged.collation == 0 || own.ty.collation == 0 || own.ty.collation == logged.collation)
                }
                _ => false,
            };
            if alike {
                continue;
            }
            let show = |ty: Option<&ColumnType>| match ty {
                Some(ty) => format!("type {} metadata {:#06x} collation {}", ty.code, ty.meta, ty.collation),
                None => "no such column".to_owned(),
            };
            let name = own.map_or("?", |column| column.name.as_str());
            let _ = write!(
                text,
                "; column {} `{name}`: log {}, catalog {}",
                position + 1,
                show(logged),
                show(own.map(|column| &column.ty))
            );
        }
        text
    }
}

impl Column {
    /// The value of this column in a row whose image leaves it out.
    pub fn omitted_value(&self) -> OmittedValue {
        match &self.default {
            ColumnDefault::Image(bytes) => OmittedValue::Image(bytes.clone()),
            ColumnDefault::None if self.generated.is_some() => OmittedValue::Unknown,
            ColumnDefault::None | ColumnDefault::Null if self.nullable => OmittedValue::Null,
            // A primary key made a column with DEFAULT NULL one that is NOT NULL: no DEFAULT is left of it.
            ColumnDefault::None | ColumnDefault::Null => {
                crate::default_value::implicit(&self.ty).map_or(OmittedValue::Unknown, OmittedValue::Image)
            }
            ColumnDefault::Expression(_) | ColumnDefault::CurrentTimestamp => OmittedValue::Unknown,
        }
    }
}

/// Columns and keys are compared without regard to case.
pub(crate) fn same_name(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right)
        || (!(left.is_ascii() && right.is_ascii()) && left.to_lowercase() == right.to_lowercase())
}

/// Type codes of enum_field_types (include/field_types.h) as [`ColumnType::code`] holds them.
pub(crate) mod code {
    pub(crate) const TINY: u8 = 1;
    pub(crate) const SHORT: u8 = 2;
    pub(crate) const LONG: u8 = 3;
    pub(crate) const FLOAT: u8 = 4;
    pub(crate) const DOUBLE: u8 = 5;
    pub(crate) const LONGLONG: u8 = 8;
    pub(crate) const INT24: u8 = 9;
    pub(crate) const DATE: u8 = 10;
    pub(crate) const YEAR: u8 = 13;
    pub(crate) const VARCHAR: u8 = 15;
    pub(crate) const BIT: u8 = 16;
    pub(crate) const TIMESTAMP2: u8 = 17;
    pub(crate) const DATETIME2: u8 = 18;
    pub(crate) const TIME2: u8 = 19;
    pub(crate) const VECTOR: u8 = 242;
    pub(crate) const JSON: u8 = 245;
    pub(crate) const DECIMAL: u8 = 246;
    pub(crate) const ENUM: u8 = 247;
    pub(crate) const SET: u8 = 248;
    pub(crate) const BLOB: u8 = 252;
    pub(crate) const CHAR: u8 = 254;
    pub(crate) const GEOMETRY: u8 = 255;
}

/// The type byte a Table_map carries: ENUM and SET travel as STRING with their real type in the metadata.
fn table_map_type(ty: &ColumnType) -> u8 {
    match ty.code {
        code::ENUM | code::SET => code::CHAR,
        other => other,
    }
}

/// The type bytes and the raw metadata block the source's Table_map carries for a table.
pub fn expected_table_map(table: &TableDef) -> (Vec<u8>, Vec<u8>) {
    let mut types = Vec::with_capacity(table.columns.len());
    let mut metadata = Vec::new();
    for column in &table.columns {
        let ty = &column.ty;
        let [high, low] = ty.meta.to_be_bytes();
        types.push(table_map_type(ty));
        match ty.code {
            // The two highest bits of a length above 255 are folded, inverted, into the real type's byte.
            code::CHAR => metadata.extend_from_slice(&[code::CHAR ^ (high << 4), low]),
            code::ENUM | code::SET => metadata.extend_from_slice(&[ty.code, low]),
            code::VARCHAR => metadata.extend_from_slice(&[low, high]),
            code::DECIMAL => metadata.extend_from_slice(&[high, low]),
            code::BIT => metadata.extend_from_slice(&[low % 8, low / 8]),
            code::FLOAT
            | code::DOUBLE
            | code::BLOB
            | code::JSON
            | code::GEOMETRY
            | code::VECTOR
            | code::TIME2
            | code::DATETIME2
            | code::TIMESTAMP2 => metadata.push(low),
            _ => {}
        }
    }
    (types, metadata)
}

/// Shares one empty member list among all columns that are neither ENUM nor SET.
pub(crate) fn no_members() -> Arc<[Box<[u8]>]> {
    Arc::from(Vec::new())
}
