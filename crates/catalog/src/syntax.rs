//! Parsed statements, before the catalog resolves them.

use crate::declared::{CheckSpec, DeclaredColumn, DeclaredKey};
use crate::engine::InsertMethod;
use crate::partition::Partition;

/// `db.name` or `name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) db: Option<String>,
    pub(crate) name: String,
}

/// Bytes of a text and the name of their character set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) bytes: Vec<u8>,
    pub(crate) charset: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Statement {
    NoEffect(&'static str),
    Optimize(Vec<TableName>),
    Recorded(&'static str),
    /// Views share the tables' name space, so the catalog keeps their names.
    CreateView(TableName),
    DropView(Vec<TableName>),
    CreateTable(Box<CreateTable>),
    DropTable {
        if_exists: bool,
        names: Vec<TableName>,
    },
    Truncate(TableName),
    RenameTable(Vec<(TableName, TableName)>),
    CreateDatabase {
        name: String,
        if_not_exists: bool,
        options: CharsetSpec,
    },
    AlterDatabase {
        name: Option<String>,
        options: CharsetSpec,
    },
    DropDatabase {
        name: String,
        if_exists: bool,
    },
    AlterTable {
        name: TableName,
        actions: Vec<AlterAction>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreateTable {
    pub(crate) name: TableName,
    pub(crate) if_not_exists: bool,
    pub(crate) body: CreateBody,
    /// True if `START TRANSACTION` ends the statement: row events of the same transaction follow.
    pub(crate) rows_follow: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CreateBody {
    Like(TableName),
    Define(Box<TableSpec>),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableSpec {
    pub(crate) columns: Vec<ColumnSpec>,
    pub(crate) keys: Vec<KeySpec>,
    pub(crate) checks: Vec<CheckSpec>,
    pub(crate) options: TableOptions,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableOptions {
    pub(crate) charset: CharsetSpec,
    pub(crate) comment: Option<String>,
    pub(crate) engine: Option<String>,
    /// UNION of a MERGE table.
    pub(crate) union: Option<Vec<TableName>>,
    pub(crate) insert_method: Option<InsertMethod>,
    pub(crate) partition_by: Option<String>,
    /// True if ROW_FORMAT or KEY_BLOCK_SIZE is given.
    pub(crate) row_format: bool,
    pub(crate) auto_increment: Option<u64>,
    /// Options that only SHOW CREATE TABLE tells, with their values as it prints them; empty for the default.
    pub(crate) declared: Vec<(String, String)>,
}

/// `CHARACTER SET` and `COLLATE` clauses; None if not given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CharsetSpec {
    pub(crate) charset: Option<String>,
    pub(crate) collation: Option<String>,
    /// True for the attribute BINARY: the `_bin` collation of the character set.
    pub(crate) binary: bool,
}

/// Name of a type, before lengths and character sets are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BaseType {
    TinyInt,
    SmallInt,
    MediumInt,
    Int,
    BigInt,
    Decimal,
    Float,
    Double,
    Bit,
    Char,
    VarChar,
    Binary,
    VarBinary,
    /// TEXT and BLOB with the length bytes that their name implies; 0 for plain TEXT and BLOB, whose size a length can
    /// change.
    Text(u8),
    Blob(u8),
    Enum,
    Set,
    Json,
    /// With the subtype's name as the server prints it.
    Geometry(&'static str),
    Vector,
    Date,
    Time,
    DateTime,
    Timestamp,
    Year,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeSpec {
    pub(crate) base: BaseType,
    pub(crate) len: Option<u64>,
    pub(crate) scale: Option<u64>,
    pub(crate) unsigned: bool,
    pub(crate) zerofill: bool,
    pub(crate) charset: CharsetSpec,
    pub(crate) members: Vec<Text>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    Null,
    Number(String),
    Text(Text),
    Bytes(Vec<u8>),
    Bool(bool),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DefaultSpec {
    Literal {
        value: Literal,
        text: String,
    },
    Now,
    /// As written, and in the source's spelling if that is known.
    Expression {
        text: String,
        spelled: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnSpec {
    pub(crate) name: String,
    pub(crate) ty: TypeSpec,
    /// The last `NULL` or `NOT NULL` given; AUTO_INCREMENT counts as NOT NULL.
    pub(crate) nullable: Option<bool>,
    pub(crate) default: Option<DefaultSpec>,
    pub(crate) on_update_now: bool,
    pub(crate) auto_increment: bool,
    pub(crate) invisible: bool,
    /// `(stored, expression)`.
    pub(crate) generated: Option<(bool, String)>,
    pub(crate) comment: String,
    pub(crate) srid: Option<u64>,
    /// True if the column has an enforced CHECK.
    pub(crate) checked: bool,
    pub(crate) declared: DeclaredColumn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Primary,
    Unique,
    Plain,
    FullText,
    Spatial,
    Foreign,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartSpec {
    Column { name: String, prefix_len: Option<u32>, descending: bool },
    Expression { text: String, spelled: Option<String>, descending: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySpec {
    pub(crate) kind: KeyKind,
    /// Name of the index; for a foreign key, the name that its index would get.
    pub(crate) name: Option<String>,
    pub(crate) parts: Vec<PartSpec>,
    pub(crate) invisible: bool,
    pub(crate) foreign: Option<ForeignSpec>,
    pub(crate) declared: DeclaredKey,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignSpec {
    pub(crate) constraint: Option<String>,
    pub(crate) parent: TableName,
    pub(crate) parent_columns: Vec<String>,
    pub(crate) on_delete: crate::table::ReferenceAction,
    pub(crate) on_update: crate::table::ReferenceAction,
    /// Written at the column; creates a foreign key only from 9.0 on.
    pub(crate) inline: bool,
}

/// Position of a column in ALTER TABLE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    First,
    After(String),
}

/// One action of ALTER TABLE, CREATE INDEX or DROP INDEX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AlterAction {
    /// ADD COLUMN, with the keys that its attributes create.
    AddColumns {
        columns: Vec<ColumnSpec>,
        keys: Vec<KeySpec>,
        position: Option<Position>,
    },
    /// CHECK constraints beside the action that says what the server does for them.
    AddChecks(Vec<CheckSpec>),
    DropCheck(String),
    /// ALTER CHECK: enforced or not.
    EnforceCheck {
        name: String,
        enforced: bool,
    },
    ChangeColumn {
        name: String,
        column: Box<ColumnSpec>,
        keys: Vec<KeySpec>,
        position: Option<Position>,
    },
    DropColumn(String),
    RenameColumn {
        from: String,
        to: String,
    },
    /// `default` is None for DROP DEFAULT.
    ColumnDefault {
        name: String,
        default: Option<DefaultSpec>,
    },
    ColumnVisibility {
        name: String,
        invisible: bool,
    },
    AddKey(KeySpec),
    DropKey(String),
    DropPrimaryKey,
    DropForeignKey(String),
    /// DROP CONSTRAINT: drops the key, foreign key or check of this name.
    DropConstraint(String),
    RenameKey {
        from: String,
        to: String,
    },
    KeyVisibility {
        name: String,
        invisible: bool,
    },
    RenameTo(TableName),
    /// CONVERT TO CHARACTER SET; the database's defaults apply if neither clause is given.
    ConvertTo(CharsetSpec),
    /// Table options, only those that a definition contains.
    Options(TableOptions),
    Partitions(PartitionAction),
    /// ALGORITHM=COPY, and clauses that the server can only execute by copying. See `alter::algorithm`.
    Copies,
    /// ORDER BY, which copies too.
    OrderBy,
    /// ALGORITHM=INPLACE or INSTANT and LOCK=NONE: the server refuses the statement rather than copy the table.
    InPlace,
    /// DISCARD TABLESPACE: the rows are gone, for the statements that follow at least.
    Discards,
    /// FORCE: the engine rewrites the rows without changing their bytes, if it can.
    Rebuilds,
    /// Changes something not tracked here (a CHECK, files of partitions), but makes the server rewrite the definition.
    Remakes,
    /// Has no effect on rows or definitions.
    Nothing,
}

/// An action of ALTER TABLE on partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartitionAction {
    /// PARTITION BY, as text.
    By(String),
    Remove,
    Add(Vec<Partition>),
    /// ADD PARTITION PARTITIONS n.
    AddNumbered(u64),
    Drop(Vec<String>),
    /// None for ALL.
    Truncate(Option<Vec<String>>),
    Exchange {
        partition: String,
        with: TableName,
        /// False for WITHOUT VALIDATION: rows that the partition's rule excludes come in.
        validated: bool,
    },
    /// REORGANIZE PARTITION … INTO.
    Reorganize {
        partitions: Vec<String>,
        into: Vec<Partition>,
    },
    /// REORGANIZE PARTITION without names: resets to the default number of partitions.
    Renumber,
    Coalesce(u64),
}
