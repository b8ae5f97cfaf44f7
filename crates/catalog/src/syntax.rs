//! Statements as read, before the catalog gives them meaning.

use crate::partition::Partition;

/// `db.name` or `name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) db: Option<String>,
    pub(crate) name: String,
}

/// Text with the character set its bytes are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) bytes: Vec<u8>,
    pub(crate) charset: String,
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Statement {
    NoEffect(&'static str),
    /// OPTIMIZE TABLE.
    Optimize(Vec<TableName>),
    Recorded(&'static str),
    /// Views share the tables' name space, so their names are kept.
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
    /// `START TRANSACTION` stood at the end: row events follow in the same transaction.
    pub(crate) rows_follow: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CreateBody {
    Like(TableName),
    Define(TableSpec),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableSpec {
    pub(crate) columns: Vec<ColumnSpec>,
    pub(crate) keys: Vec<KeySpec>,
    pub(crate) options: TableOptions,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableOptions {
    pub(crate) charset: CharsetSpec,
    pub(crate) comment: Option<String>,
    pub(crate) engine: Option<String>,
    pub(crate) partition_by: Option<String>,
    /// ROW_FORMAT or KEY_BLOCK_SIZE is among them.
    pub(crate) row_format: bool,
}

/// `CHARACTER SET` and `COLLATE` as far as given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CharsetSpec {
    pub(crate) charset: Option<String>,
    pub(crate) collation: Option<String>,
    /// The attribute BINARY: the `_bin` collation of the character set.
    pub(crate) binary: bool,
}

/// The words for a type, before lengths and character sets are resolved.
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
    /// TEXT, BLOB with the length bytes their name gives; 0 for plain ones, which a length may change.
    Text(u8),
    Blob(u8),
    Enum,
    Set,
    Json,
    /// With the name of its type, as the server prints it.
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
    Literal { value: Literal, text: String },
    Now,
    Expression(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnSpec {
    pub(crate) name: String,
    pub(crate) ty: TypeSpec,
    /// `NULL` or `NOT NULL` as given last, AUTO_INCREMENT counting as NOT NULL.
    pub(crate) nullable: Option<bool>,
    pub(crate) default: Option<DefaultSpec>,
    pub(crate) on_update_now: bool,
    pub(crate) auto_increment: bool,
    pub(crate) invisible: bool,
    /// `(stored, expression)`.
    pub(crate) generated: Option<(bool, String)>,
    pub(crate) comment: String,
    pub(crate) srid: Option<u64>,
    /// An enforced CHECK stands with it.
    pub(crate) checked: bool,
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
    Expression { text: String, descending: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySpec {
    pub(crate) kind: KeyKind,
    /// The index's name; for a foreign key, the name its index would take.
    pub(crate) name: Option<String>,
    pub(crate) parts: Vec<PartSpec>,
    pub(crate) invisible: bool,
    pub(crate) foreign: Option<ForeignSpec>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignSpec {
    pub(crate) constraint: Option<String>,
    pub(crate) parent: TableName,
    pub(crate) parent_columns: Vec<String>,
    pub(crate) on_delete: crate::table::ReferenceAction,
    pub(crate) on_update: crate::table::ReferenceAction,
    /// Written at the column: counts only from 9.0 on.
    pub(crate) inline: bool,
}

/// Where ALTER TABLE puts a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    First,
    After(String),
}

/// One action of ALTER TABLE, CREATE INDEX or DROP INDEX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AlterAction {
    /// ADD COLUMN, with the keys its attributes make.
    AddColumns {
        columns: Vec<ColumnSpec>,
        keys: Vec<KeySpec>,
        position: Option<Position>,
    },
    /// MODIFY and CHANGE.
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
    /// None: DROP DEFAULT.
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
    /// DROP CONSTRAINT: a key, a foreign key or a check, whichever has the name.
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
    /// CONVERT TO CHARACTER SET; the defaults of the database where neither is given.
    ConvertTo(CharsetSpec),
    /// Table options: those that a definition here holds.
    Options(TableOptions),
    Partitions(PartitionAction),
    /// ALGORITHM=COPY, and clauses that the server carries out in no other way. See `alter_algorithm`.
    Copies,
    /// ALGORITHM=INPLACE or INSTANT and LOCK=NONE: the server copies no table then, it refuses the statement.
    InPlace,
    /// FORCE: rows are written anew with the bytes they have, where the engine can.
    Rebuilds,
    /// Changes what is not kept here (a CHECK, files of partitions); the server makes the definition anew.
    Remakes,
    /// Says nothing about rows or definitions: named for messages.
    Nothing,
}

/// What ALTER TABLE does with partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartitionAction {
    /// PARTITION BY, as text.
    By(String),
    Remove,
    Add(Vec<Partition>),
    /// ADD PARTITION PARTITIONS n.
    AddNumbered(u64),
    Drop(Vec<String>),
    /// None: all.
    Truncate(Option<Vec<String>>),
    Exchange {
        partition: String,
        with: TableName,
    },
    /// REORGANIZE PARTITION … INTO.
    Reorganize {
        partitions: Vec<String>,
        into: Vec<Partition>,
    },
    /// REORGANIZE PARTITION without more: the default number of partitions.
    Renumber,
    /// COALESCE PARTITION n.
    Coalesce(u64),
}
