//! A table's definition, as used by the decoder, the store and readers.
//!
//! In: nothing; `table_build` builds definitions from statements. Out: columns with the types in the source's Table_map
//! events, keys in MySQL's order, the identity of a row. Never here: text of statements, rows.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use values::ColumnType;
use values::sort_key::SortKeyColumn;

use crate::declared::{DeclaredColumn, DeclaredKey, DeclaredTable, is_default};
use crate::engine::Merge;
use crate::layout::OlderLayout;
use crate::partition::Partitioning;
use crate::table_build;

/// Identifies one table's rows for ever. TRUNCATE, DROP and re-creation give a new id; none is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableId(pub u32);

impl std::fmt::Display for TableId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// Definition of one table at one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDef {
    /// New at CREATE and TRUNCATE, and when an ALTER TABLE rewrites all rows; kept otherwise.
    #[serde(rename = "id")]
    pub id: TableId,
    /// Number of the definition under this id, from 1.
    #[serde(rename = "version")]
    pub version: u32,
    /// Database name as the source stores it.
    #[serde(rename = "db")]
    pub db: String,
    /// Table name as the source stores it.
    #[serde(rename = "name")]
    pub name: String,
    /// Columns in table order, the order of row images. Excludes the hidden columns of functional indexes.
    #[serde(rename = "columns")]
    pub columns: Vec<Column>,
    /// Keys in MySQL's internal order: PRIMARY, unique without NULL, unique with NULL, unique with prefixes, others,
    /// full-text.
    #[serde(rename = "keys")]
    pub keys: Vec<Key>,
    /// How rows are told apart.
    #[serde(rename = "identity")]
    pub identity: Identity,
    /// True if virtual columns are NULL in the whole images that identify rows, and so are not kept. False for every
    /// table with a key, and for tables of earlier versions of this program until their rows are rewritten.
    // Absent if false.
    #[serde(rename = "without_virtual", default, skip_serializing_if = "std::ops::Not::not")]
    pub without_virtual: bool,
    /// True if rows may lie outside the partition that the rule gives them, as EXCHANGE PARTITION … WITHOUT VALIDATION
    /// leaves them. The source then has equal keys in several partitions, so the identity is the whole image, and in
    /// which partition a row lies is not known here.
    // Absent if false.
    #[serde(rename = "misplaced_rows", default, skip_serializing_if = "std::ops::Not::not")]
    pub misplaced_rows: bool,
    /// True if the source could not compute the virtual columns when the table was copied: they may be NULL in rows that
    /// have a value at the source.
    // Absent if false.
    #[serde(rename = "virtual_unknown", default, skip_serializing_if = "std::ops::Not::not")]
    pub virtual_unknown: bool,
    /// Collation of columns that do not name one.
    #[serde(rename = "default_collation")]
    pub default_collation: u16,
    /// Comment of the table.
    #[serde(rename = "comment")]
    pub comment: String,
    /// Storage engine as named, or `InnoDB` if none was.
    #[serde(rename = "engine")]
    pub engine: String,
    /// The members of a MERGE table; None for tables of other engines, and in catalogs of earlier versions of this
    /// program, which did not keep them.
    // Absent if None.
    #[serde(rename = "merge", default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Merge>,
    /// Text after PARTITION BY as last given, if any. Later changes to the partitions are in `partitioning` only.
    #[serde(rename = "partition_by", deserialize_with = "Option::deserialize")]
    pub partition_by: Option<String>,
    /// The partitions; None if there are none or the text is not understood.
    #[serde(rename = "partitioning", deserialize_with = "Option::deserialize")]
    pub partitioning: Option<Partitioning>,
    /// Foreign keys that reference other tables.
    #[serde(rename = "foreign_keys")]
    pub foreign_keys: Vec<ForeignKey>,
    /// Number of hidden columns that MySQL adds for functional index parts. Their bits may be set after those of the
    /// visible columns in the bitmaps of rows events, and must be ignored.
    #[serde(rename = "hidden_columns")]
    pub hidden_columns: usize,
    /// First version under which row images have the layout of `columns`.
    #[serde(rename = "layout_since")]
    pub layout_since: u32,
    /// Layouts of images written under earlier versions, oldest first. The store may still contain such rows.
    #[serde(rename = "older_layouts")]
    pub older_layouts: Vec<OlderLayout>,
    /// What SHOW CREATE TABLE tells besides; None in catalogs of earlier versions of this program, which did not keep
    /// it.
    // Absent if None.
    #[serde(rename = "declared", default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<DeclaredTable>,
    /// Number of index ids assigned under this table id: 1 to this. None is reused.
    #[serde(rename = "index_ids_given")]
    pub index_ids_given: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Name as written; comparison ignores case.
    #[serde(rename = "name")]
    pub name: String,
    /// Type exactly as in the source's Table_map event.
    #[serde(rename = "ty")]
    pub ty: ColumnType,
    /// True if the column may be NULL.
    #[serde(rename = "nullable")]
    pub nullable: bool,
    /// How the server prints a number of this column; not part of the log.
    #[serde(rename = "display")]
    pub display: NumberDisplay,
    /// True if `SELECT *` omits the column.
    #[serde(rename = "invisible")]
    pub invisible: bool,
    #[serde(rename = "auto_increment")]
    pub auto_increment: bool,
    /// Kind of a GENERATED ALWAYS AS column; None for others.
    #[serde(rename = "generated", deserialize_with = "Option::deserialize")]
    pub generated: Option<GeneratedKind>,
    /// Expression of a generated column in canonical spelling; empty for other columns, and in catalogs of earlier
    /// versions of this program, which did not keep it. Equal texts compute the same; different ones may, too.
    // Absent if empty.
    #[serde(rename = "expression", default, skip_serializing_if = "String::is_empty")]
    pub expression: String,
    /// Value in rows that do not name the column.
    #[serde(rename = "default")]
    pub default: ColumnDefault,
    /// True for ON UPDATE CURRENT_TIMESTAMP.
    #[serde(rename = "on_update_now")]
    pub on_update_now: bool,
    /// Comment of the column.
    #[serde(rename = "comment")]
    pub comment: String,
    /// Subtype of a GEOMETRY column with its SRID, if any: `point srid 4326`. Empty for other columns, and in catalogs
    /// of earlier versions of this program, which did not keep it.
    // Absent if empty.
    #[serde(rename = "geometry", default, skip_serializing_if = "String::is_empty")]
    pub geometry: String,
    /// Most entries of a VECTOR. None for other columns, and in catalogs of earlier versions of this program, which did
    /// not keep it.
    // Absent if None.
    #[serde(rename = "vector_entries", default, skip_serializing_if = "Option::is_none")]
    pub vector_entries: Option<u64>,
    /// True for a VARCHAR that may hold more characters than it has: it grew from utf8mb3 to utf8mb4 in place, which
    /// looks at bytes only. The next ALTER TABLE that copies the table truncates them.
    // Absent if false.
    #[serde(rename = "overlong", default, skip_serializing_if = "std::ops::Not::not")]
    pub overlong: bool,
    /// What SHOW CREATE TABLE tells besides.
    // Absent if nothing.
    #[serde(rename = "declared", default, skip_serializing_if = "is_default")]
    pub declared: DeclaredColumn,
}

/// Effect of ZEROFILL and of FLOAT(M,D) on the text of a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumberDisplay {
    /// Characters to which the number is padded with leading zeros; 0 for no padding.
    #[serde(rename = "zerofill_width")]
    pub zerofill_width: u16,
    /// Fixed number of decimals for FLOAT(M,D) and DOUBLE(M,D).
    #[serde(rename = "decimals", deserialize_with = "Option::deserialize")]
    pub decimals: Option<u8>,
    /// All digits of FLOAT(M,D) and DOUBLE(M,D). Absent in catalogs of earlier versions of this program.
    #[serde(rename = "digits", default, skip_serializing_if = "Option::is_none")]
    pub digits: Option<u8>,
    /// Width of an integer that was given one, such as INT(5). SHOW CREATE TABLE prints that of TINYINT(1) only.
    // Absent if None.
    #[serde(rename = "width", default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u8>,
}

/// How the source keeps a generated column. Row images contain both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GeneratedKind {
    #[serde(rename = "Virtual")]
    Virtual,
    /// Stored with the row.
    #[serde(rename = "Stored")]
    Stored,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColumnDefault {
    /// No DEFAULT: NULL for a nullable column, otherwise the type's implicit value.
    #[serde(rename = "None")]
    None,
    /// DEFAULT NULL. Equivalent to no DEFAULT if a primary key made the column NOT NULL later.
    #[serde(rename = "Null")]
    Null,
    /// A constant, as its bytes in a row image.
    #[serde(rename = "Image")]
    Image(Vec<u8>),
    /// An expression, or a constant whose image cannot be computed here. The source writes values of expressions into
    /// every image; a row that omits such a column cannot be completed.
    #[serde(rename = "Expression")]
    Expression(String),
    /// CURRENT_TIMESTAMP. The source writes its value into every image.
    #[serde(rename = "CurrentTimestamp")]
    CurrentTimestamp,
}

/// Value of a column that an INSERT's image omits (`binlog_row_image=MINIMAL`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OmittedValue {
    /// NULL.
    Null,
    /// These stored bytes, as in a row image.
    Image(Vec<u8>),
    /// Unknown: the table must be copied again, or replay stops.
    Unknown,
}

/// How rows of a table are told apart (invariant 4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// Positions of these columns, in key order: those of PRIMARY, otherwise of the first qualifying UNIQUE key in
    /// MySQL's order.
    #[serde(rename = "Columns")]
    Columns(Vec<usize>),
    /// No qualifying key: rows are a multiset of whole images.
    #[serde(rename = "WholeImage")]
    WholeImage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Identifies the index's entries in the store under this table's id; 0 if the ids were used up. See `index_set`.
    #[serde(rename = "id")]
    pub id: u16,
    /// Name; `PRIMARY` for the primary key.
    #[serde(rename = "name")]
    pub name: String,
    /// True if no two rows may have equal keys, NULLs aside. True for the primary key.
    #[serde(rename = "unique")]
    pub unique: bool,
    /// True for the PRIMARY KEY.
    #[serde(rename = "primary")]
    pub primary: bool,
    /// BTREE, FULLTEXT or SPATIAL.
    #[serde(rename = "kind")]
    pub kind: IndexKind,
    /// True if the source's optimizer ignores it.
    #[serde(rename = "invisible")]
    pub invisible: bool,
    /// True if MySQL created it for a foreign key. Such a key is dropped when another one that serves the purpose is
    /// added.
    #[serde(rename = "generated")]
    pub generated: bool,
    /// Parts that are columns. For expressions, which are not in row images, see `expressions`.
    #[serde(rename = "parts")]
    pub parts: Vec<KeyPart>,
    /// Texts of expression parts with their positions among all parts. Such an index cannot be built from row images.
    #[serde(rename = "expressions")]
    pub expressions: Vec<(usize, String)>,
    /// What SHOW CREATE TABLE tells besides.
    // Absent if nothing.
    #[serde(rename = "declared", default, skip_serializing_if = "is_default")]
    pub declared: DeclaredKey,
}

/// Structure of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexKind {
    /// Ordered.
    #[serde(rename = "Ordered")]
    Ordered,
    #[serde(rename = "FullText")]
    FullText,
    #[serde(rename = "Spatial")]
    Spatial,
}

/// One column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyPart {
    /// Position in [`TableDef::columns`].
    #[serde(rename = "column")]
    pub column: usize,
    /// Length of the indexed prefix in characters (bytes for binary columns); `None` for the whole column.
    #[serde(rename = "prefix_len", deserialize_with = "Option::deserialize")]
    pub prefix_len: Option<u32>,
    /// True for DESC.
    #[serde(rename = "descending")]
    pub descending: bool,
}

/// A foreign key of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignKey {
    /// Name as given, or generated as `table_ibfk_N`.
    #[serde(rename = "name")]
    pub name: String,
    /// Positions of the referencing columns.
    #[serde(rename = "columns")]
    pub columns: Vec<usize>,
    /// Name of the referenced database.
    #[serde(rename = "parent_db")]
    pub parent_db: String,
    /// Name of the referenced table.
    #[serde(rename = "parent_table")]
    pub parent_table: String,
    /// Names of the referenced columns.
    #[serde(rename = "parent_columns")]
    pub parent_columns: Vec<String>,
    /// Action on DELETE of the parent.
    #[serde(rename = "on_delete")]
    pub on_delete: ReferenceAction,
    /// Action on UPDATE of the parent.
    #[serde(rename = "on_update")]
    pub on_update: ReferenceAction,
}

/// What a foreign key does when the parent row changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ReferenceAction {
    /// NO ACTION, the default.
    #[default]
    #[serde(rename = "NoAction")]
    NoAction,
    #[serde(rename = "Restrict")]
    Restrict,
    #[serde(rename = "Cascade")]
    Cascade,
    #[serde(rename = "SetNull")]
    SetNull,
    /// SET DEFAULT (InnoDB refuses it).
    #[serde(rename = "SetDefault")]
    SetDefault,
}

impl ReferenceAction {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ReferenceAction::NoAction => "NO ACTION",
            ReferenceAction::Restrict => "RESTRICT",
            ReferenceAction::Cascade => "CASCADE",
            ReferenceAction::SetNull => "SET NULL",
            ReferenceAction::SetDefault => "SET DEFAULT",
        }
    }

    /// True if it changes child rows itself: CASCADE and SET NULL.
    pub fn changes_children(self) -> bool {
        matches!(self, ReferenceAction::Cascade | ReferenceAction::SetNull)
    }
}

impl TableDef {
    /// Positions of the virtual columns.
    #[must_use]
    pub fn virtual_columns(&self) -> Vec<usize> {
        let is_virtual = |column: &Column| column.generated == Some(GeneratedKind::Virtual);
        (0..self.columns.len()).filter(|at| self.columns.get(*at).is_some_and(is_virtual)).collect()
    }

    /// Decides for a table without rows, or whose rows are rewritten, whether virtual columns take part in its identity.
    pub(crate) fn settle_virtual(&mut self) {
        let is_virtual = |column: &Column| column.generated == Some(GeneratedKind::Virtual);
        self.without_virtual = self.identity == Identity::WholeImage && self.columns.iter().any(is_virtual);
    }

    /// The same definition of a table that may hold rows outside their partition's rule, for rows under a fresh id.
    #[must_use]
    pub fn with_misplaced_rows(&self) -> TableDef {
        let mut table = TableDef { misplaced_rows: true, ..self.clone() };
        table_build::settle_keys(&mut table);
        table.settle_virtual();
        table
    }

    /// Positions of the columns that the images of rows without a key lack: NULL stands for their values.
    #[must_use]
    pub fn left_out(&self) -> Vec<usize> {
        if self.without_virtual { self.virtual_columns() } else { Vec::new() }
    }

    /// Positions of the columns whose values here may differ from those at the source: see [`crate::generated`].
    #[must_use]
    pub fn not_known(&self) -> Vec<usize> {
        match self.without_virtual || self.virtual_unknown {
            true => self.virtual_columns(),
            false => crate::generated::not_known(self),
        }
    }

    /// Position of a column by name; comparison ignores case.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| same_name(&column.name, name))
    }

    /// Finds a key by name; comparison ignores case.
    pub fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| same_name(&key.name, name))
    }

    /// The prefix of a key's part as the source shows it, in characters, or bytes of a binary column; None for a whole
    /// column.
    #[must_use]
    pub fn shown_prefix(&self, key: &Key, part: &KeyPart) -> Option<u32> {
        let column = self.columns.get(part.column).filter(|_| key.kind == IndexKind::Ordered)?;
        crate::identity::declared_prefix(column, part.prefix_len)
    }

    /// The key that identifies rows, whose columns are those of [`TableDef::identity`]. `None` if the whole image does.
    pub fn identity_key(&self) -> Option<&Key> {
        if self.misplaced_rows {
            return None;
        }
        crate::identity::identifying_key(&self.keys, &self.columns)
    }

    /// Arguments of [`values::sort_key::SortKeyPlan::new`] for one of this table's keys, in key order. `None` for keys
    /// without an order or whose values are not in row images: full-text, spatial, or with an expression.
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

    /// Types of the columns in table order.
    pub fn column_types(&self) -> Vec<ColumnType> {
        self.columns.iter().map(|column| column.ty.clone()).collect()
    }

    /// `db`.`table`, for messages.
    pub fn full_name(&self) -> String {
        format!("`{}`.`{}`", self.db, self.name)
    }

    /// Type bytes and raw metadata block of the source's Table_map event for this table.
    pub fn expected_table_map(&self) -> (Vec<u8>, Vec<u8>) {
        expected_table_map(self)
    }

    /// Compares the definition with a Table_map event. `types` are the event's type bytes; `metas` its columns decoded
    /// by [`ColumnType::from_table_map`], with collations from the optional metadata, if any. The error text shows both
    /// sides.
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
    /// Value of this column in a row whose image omits it.
    pub fn omitted_value(&self) -> OmittedValue {
        match &self.default {
            ColumnDefault::Image(bytes) => OmittedValue::Image(bytes.clone()),
            ColumnDefault::None if self.generated.is_some() => OmittedValue::Unknown,
            ColumnDefault::None | ColumnDefault::Null if self.nullable => OmittedValue::Null,
            // DEFAULT NULL became void when a primary key made the column NOT NULL.
            ColumnDefault::None | ColumnDefault::Null => {
                crate::default_value::implicit(&self.ty).map_or(OmittedValue::Unknown, OmittedValue::Image)
            }
            ColumnDefault::Expression(_) | ColumnDefault::CurrentTimestamp => OmittedValue::Unknown,
        }
    }
}

/// Compares names of columns and keys, ignoring case.
pub(crate) fn same_name(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right)
        || (!(left.is_ascii() && right.is_ascii()) && left.to_lowercase() == right.to_lowercase())
}

/// Type codes of enum_field_types (include/field_types.h), as in [`ColumnType::code`].
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

/// Type byte in a Table_map event. ENUM and SET appear as STRING, with their real type in the metadata.
fn table_map_type(ty: &ColumnType) -> u8 {
    match ty.code {
        code::ENUM | code::SET => code::CHAR,
        other => other,
    }
}

/// Type bytes and raw metadata block of the source's Table_map event for a table.
pub fn expected_table_map(table: &TableDef) -> (Vec<u8>, Vec<u8>) {
    let mut types = Vec::with_capacity(table.columns.len());
    let mut metadata = Vec::new();
    for column in &table.columns {
        let ty = &column.ty;
        let [high, low] = ty.meta.to_be_bytes();
        types.push(table_map_type(ty));
        match ty.code {
            // The two highest bits of a length above 255 are stored, inverted, in the byte of the real type.
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

/// Empty member list, for all columns other than ENUM and SET.
pub(crate) fn no_members() -> Arc<[Box<[u8]>]> {
    Arc::from(Vec::new())
}
