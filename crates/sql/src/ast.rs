//! Parsed statements.

use std::cell::RefCell;
use std::ops::Range;

use crate::error::SqlError;
use crate::listing::Choice;
use crate::orders::{ReplicaOrder, UntilText};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Comments only: MySQL answers them with OK.
    Empty,
    /// SELECT without tables, or from one.
    Select(Select),
    /// DO: a select list whose values nobody gets.
    Do(Select),
    Set(Vec<Assignment>),
    SetTransaction {
        /// None: for the next transaction only.
        scope: Option<Scope>,
        characteristics: Characteristics,
    },
    Use(Vec<u8>),
    /// BEGIN or START TRANSACTION.
    Begin {
        consistent: bool,
        /// READ ONLY or READ WRITE, if given.
        access: Option<AccessMode>,
    },
    Commit(Completion),
    Rollback(Completion),
    Savepoint(Vec<u8>),
    RollbackTo(Vec<u8>),
    Release(Vec<u8>),
    /// SHOW WARNINGS or SHOW ERRORS.
    ShowWarnings {
        /// Only errors.
        errors: bool,
        limit: Limit,
    },
    /// SHOW COUNT(*) WARNINGS or ERRORS.
    ShowWarningCount {
        /// Only errors.
        errors: bool,
    },
    /// SHOW of what there is, or of something about replication.
    Show(Show),
    /// EXPLAIN of a SELECT.
    Explain {
        format: Option<ExplainFormat>,
        select: Select,
    },
    /// An order to the replica.
    Replica {
        /// The order.
        order: ReplicaOrder,
        /// UNTIL, as it is written.
        until: Option<UntilText>,
        channel: Option<Vec<u8>>,
    },
    Kill {
        /// Only the statement, not the connection.
        query: bool,
        id: Expression,
    },
    /// ALTER INSTANCE RELOAD TLS.
    ReloadTls,
    LockTables(Vec<LockedTable>),
    UnlockTables,
    Flush(Flush),
    /// A statement that writes, refused with 1290.
    Write,
    /// A statement that is not answered, by its construct.
    Refused(SqlError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainFormat {
    Traditional,
    Tree,
}

/// A table of LOCK TABLES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedTable {
    /// Its schema, if it was given.
    pub schema: Option<Vec<u8>>,
    pub table: Vec<u8>,
    /// The alias, if one was given.
    pub alias: Option<Vec<u8>>,
    /// WRITE, not READ.
    pub write: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flush {
    /// FLUSH TABLES, all or these.
    Tables(Vec<LockedTable>),
    /// FLUSH TABLES WITH READ LOCK: nothing changes until it is released.
    ReadLock,
    /// FLUSH TABLES of these WITH READ LOCK.
    TablesWithReadLock(Vec<LockedTable>),
    /// What there is none of here, or what needs no flushing, each by the name of its privilege and what is said of it.
    Others(Vec<FlushOption>),
}

/// An option of FLUSH that flushes nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushOption {
    /// LOGS; BINARY, ENGINE, GENERAL or SLOW LOGS.
    Logs,
    /// PRIVILEGES: accounts are read when they change.
    Privileges,
    /// USER_RESOURCES.
    UserResources,
    /// OPTIMIZER_COSTS.
    OptimizerCosts,
}

/// What a SHOW shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Show {
    Databases {
        /// LIKE or WHERE.
        choice: Choice,
    },
    Tables {
        full: bool,
        /// FROM; None: of the default schema.
        schema: Option<Vec<u8>>,
        /// LIKE or WHERE.
        choice: Choice,
    },
    /// CHECK TABLE, whose answer is one as of a SHOW: schema, if it was given, and name of each table.
    CheckTables(Vec<(Option<Vec<u8>>, Vec<u8>)>),
    OpenTables {
        /// FROM; None: of all schemas.
        schema: Option<Vec<u8>>,
        choice: Choice,
    },
    Variables {
        global: bool,
        /// LIKE or WHERE.
        choice: Choice,
    },
    Status {
        global: bool,
        /// LIKE or WHERE.
        choice: Choice,
    },
    /// SHOW COLUMNS, or DESCRIBE.
    Columns {
        /// With collations, privileges and comments.
        full: bool,
        /// The table's schema; None: the default one.
        schema: Option<Vec<u8>>,
        table: Vec<u8>,
        /// LIKE or WHERE.
        choice: Choice,
    },
    Index {
        /// The table's schema; None: the default one.
        schema: Option<Vec<u8>>,
        table: Vec<u8>,
        choice: Choice,
    },
    CreateTable {
        /// The table's schema; None: the default one.
        schema: Option<Vec<u8>>,
        table: Vec<u8>,
    },
    CreateDatabase {
        name: Vec<u8>,
        if_not_exists: bool,
    },
    TableStatus {
        /// FROM; None: of the default schema.
        schema: Option<Vec<u8>>,
        /// LIKE or WHERE.
        choice: Choice,
    },
    Collation {
        /// LIKE or WHERE.
        choice: Choice,
    },
    CharacterSet {
        /// LIKE or WHERE.
        choice: Choice,
    },
    Grants {
        /// FOR user@host; None: the session's own.
        account: Option<(Vec<u8>, Vec<u8>)>,
    },
    Engines,
    Plugins,
    Engine {
        /// The engine; None: ALL.
        engine: Option<Vec<u8>>,
        /// STATUS, not MUTEX or LOGS.
        status: bool,
    },
    /// SHOW TRIGGERS, EVENTS, FUNCTION STATUS or PROCEDURE STATUS.
    Objects {
        /// `TRIGGERS` and so on.
        kind: &'static str,
        schema: Option<Vec<u8>>,
        /// LIKE or WHERE.
        choice: Choice,
    },
    Processlist {
        full: bool,
    },
    ReplicaStatus {
        /// As SHOW SLAVE STATUS, whose columns have other names; 9.7 does not have it any more.
        old_names: bool,
        channel: Option<Vec<u8>>,
    },
    Replicas {
        /// As SHOW SLAVE HOSTS, whose columns have other names; 9.7 does not have it any more.
        old_names: bool,
    },
    /// SHOW BINARY LOG STATUS.
    BinaryLogStatus,
    BinaryLogs,
    RelayLogEvents {
        /// IN: the file; None: the first one.
        file: Option<Vec<u8>>,
        /// FROM: where the list begins.
        from: Option<u64>,
        /// LIMIT, where 0 rows are all.
        limit: Limit,
        channel: Option<Vec<u8>>,
    },
}

/// SELECT without tables, or from one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    pub items: Vec<Item>,
    /// What follows FROM; None without tables.
    pub from: Option<Box<From>>,
    /// LIMIT and OFFSET.
    pub limit: Limit,
    /// FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE.
    pub locking: Vec<Locking>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locking {
    pub update: bool,
    /// OF: names of tables, each perhaps with its schema; empty: all.
    pub of: Vec<(Option<Vec<u8>>, Vec<u8>)>,
}

/// FROM one table, with the clauses that need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct From {
    /// The table's schema, if it was given.
    pub schema: Option<Vec<u8>>,
    pub table: Vec<u8>,
    /// The alias, if one was given.
    pub alias: Option<Vec<u8>>,
    /// Names of indexes in USE, FORCE and IGNORE INDEX.
    pub hints: Vec<Vec<u8>>,
    pub filter: Option<Expression>,
    /// Where WHERE stands in the statement, or ORDER BY without one; 0 without both.
    pub filter_at: usize,
    pub order: Vec<Order>,
}

/// One expression of ORDER BY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub expression: Expression,
    pub descending: bool,
}

/// One expression of a select list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub expression: Expression,
    /// The alias, if one was given.
    pub alias: Option<Vec<u8>>,
    /// The expression's place in the statement: MySQL names a column by its text.
    pub span: Range<usize>,
    /// Its text without version comments, if some stand in it.
    pub shown: Option<Vec<u8>>,
}

impl Item {
    /// The expression's text in `sql`, as MySQL names a column by it.
    pub(crate) fn text<'a>(&'a self, sql: &'a [u8]) -> &'a [u8] {
        self.shown.as_deref().unwrap_or_else(|| sql.get(self.span.clone()).unwrap_or_default())
    }
}

/// Rows of a result that are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Rows that are left out first.
    pub offset: Expression,
    /// Largest number of rows; None is no limit.
    pub rows: Option<Expression>,
}

impl Limit {
    pub(crate) fn none() -> Limit {
        Limit { offset: Expression::Number("0".to_owned()), rows: None }
    }
}

/// An expression. The parser bounds its height (`DEPTH_MAX`), so what walks a tree may recurse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Bool(bool),
    /// A number as written, without sign.
    Number(String),
    /// A string, with escapes resolved, in the client's character set or the introducer's.
    Text {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Length of the first of several adjacent strings, which names the column.
        first_len: usize,
        /// The introducer's character set.
        introducer: Option<String>,
    },
    /// A hexadecimal or bit literal, most significant byte first.
    Bytes {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Written in bits.
        is_bits: bool,
        /// The introducer's character set.
        introducer: Option<String>,
    },
    /// A placeholder of a prepared statement, by number from 0.
    Parameter(usize),
    /// `@@name`.
    Variable {
        /// As given.
        scope: Option<Scope>,
        /// Name in lower case.
        name: String,
    },
    /// `@name`, as written.
    UserVariable(Vec<u8>),
    /// A name of a column, perhaps qualified.
    Name(Vec<Vec<u8>>),
    /// `*`, or `table.*` with the names before it.
    Star(Vec<Vec<u8>>),
    /// A function, by its name as written.
    Call {
        name: String,
        arguments: Vec<Expression>,
    },
    /// A minus sign before an expression.
    Negative(Box<Expression>),
    Compare {
        operator: Comparison,
        sides: Box<(Expression, Expression)>,
    },
    /// AND of two or more.
    And(Vec<Expression>),
    /// Other binary operators, each applied to all that stands before it: `1 * 2 + 3` is 1, then `* 2`, then `+ 3`. One
    /// list, so that a text of many terms makes no deep tree.
    Chain {
        first: Box<Expression>,
        /// Operators, by sign or word, each with its right operand; at least one.
        rest: Vec<(&'static str, Expression)>,
    },
    /// IN with a list.
    In {
        /// What is looked for.
        value: Box<Expression>,
        list: Vec<Expression>,
        negated: bool,
    },
    Between {
        value: Box<Expression>,
        bounds: Box<(Expression, Expression)>,
        negated: bool,
    },
    IsNull {
        /// What may be NULL.
        value: Box<Expression>,
        negated: bool,
    },
    /// LIKE with the default escape character.
    Like {
        /// What is compared, and the pattern.
        sides: Box<[Expression; 2]>,
        negated: bool,
    },
    /// Anything that has no meaning here yet, by name.
    Other {
        construct: String,
        /// Its operands, in which placeholders count.
        operands: Vec<Expression>,
    },
}

impl Expression {
    /// True if it, or an expression within it, is `wanted`.
    pub fn any(&self, wanted: &impl Fn(&Expression) -> bool) -> bool {
        wanted(self) || self.operands().into_iter().any(|inner| inner.any(wanted))
    }
}

impl Statement {
    /// True if it reads what is visible of the source: the set of GTIDs.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.any(|expression| {
            matches!(expression, Expression::Variable { name, .. } if crate::variables::tells_of_gtids(name))
        })
    }

    /// True if it waits for GTIDs.
    #[must_use]
    pub fn waits_for_gtids(&self) -> bool {
        let is_wait = |name: &str| name.eq_ignore_ascii_case("WAIT_FOR_EXECUTED_GTID_SET");
        self.any(|expression| matches!(expression, Expression::Call { name, .. } if is_wait(name)))
    }

    /// A system variable that it reads and that is `wanted`.
    pub fn variable_that(&self, wanted: &dyn Fn(Option<Scope>, &str) -> bool) -> Option<String> {
        let found = RefCell::new(None);
        self.any(|expression| match expression {
            Expression::Variable { scope, name } if wanted(*scope, name) => {
                found.replace(Some(name.clone()));
                true
            }
            _ => false,
        });
        found.into_inner()
    }

    /// A function that it calls, as written, and that is `wanted`.
    pub fn call_that(&self, wanted: &dyn Fn(&str) -> bool) -> Option<String> {
        let found = RefCell::new(None);
        self.any(|expression| match expression {
            Expression::Call { name, .. } if wanted(name) => {
                found.replace(Some(name.clone()));
                true
            }
            _ => false,
        });
        found.into_inner()
    }

    /// True if one of its expressions is `wanted`.
    fn any(&self, wanted: impl Fn(&Expression) -> bool) -> bool {
        match self {
            Statement::Set(assignments) => assignments
                .iter()
                .any(|assignment| matches!(&assignment.value, NewValue::Expression(value) if value.any(&wanted))),
            Statement::Select(select) | Statement::Do(select) | Statement::Explain { select, .. } => {
                let conditions = select.from.iter().filter_map(|from| from.filter.as_ref());
                let orders = select.from.iter().flat_map(|from| &from.order).map(|order| &order.expression);
                let items = select.items.iter().map(|item| &item.expression);
                items.chain(conditions).chain(orders).any(|of| of.any(&wanted))
            }
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    /// `<=>`.
    NullSafeEqual,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The operator of this sign.
    pub(crate) fn of(sign: &str) -> Option<Comparison> {
        Some(match sign {
            "=" => Comparison::Equal,
            "<=>" => Comparison::NullSafeEqual,
            "<>" | "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NullSafeEqual => "<=>",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// The operator with its sides exchanged.
    pub(crate) fn exchanged(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}

impl Expression {
    /// Operands of a construct of conditions, in their order.
    pub(crate) fn operands(&self) -> Vec<&Expression> {
        match self {
            Expression::Compare { sides, .. } => vec![&sides.0, &sides.1],
            Expression::And(list) => list.iter().collect(),
            Expression::Chain { first, rest } => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand)).collect()
            }
            Expression::In { value, list, .. } => std::iter::once(&**value).chain(list).collect(),
            Expression::Between { value, bounds, .. } => vec![value, &bounds.0, &bounds.1],
            Expression::IsNull { value, .. } => vec![value],
            Expression::Like { sides, .. } => sides.iter().collect(),
            Expression::Call { arguments, .. } => arguments.iter().collect(),
            Expression::Other { operands, .. } => operands.iter().collect(),
            Expression::Negative(inner) => vec![inner],
            _ => Vec::new(),
        }
    }

    /// The name of a construct of conditions, for a refusal elsewhere.
    pub(crate) fn construct(&self) -> String {
        let with_not = |negated: &bool, word: &str| if *negated { format!("NOT {word}") } else { word.to_owned() };
        match self {
            Expression::Compare { operator, .. } => format!("operator {}", operator.sign()),
            Expression::And(_) => "operator AND".to_owned(),
            Expression::Chain { rest, .. } => operator_construct(rest.last().map_or("", |(operator, _)| operator)),
            Expression::In { negated, .. } => with_not(negated, "IN"),
            Expression::Between { negated, .. } => with_not(negated, "BETWEEN"),
            Expression::IsNull { negated, .. } => (if *negated { "IS NOT NULL" } else { "IS NULL" }).to_owned(),
            Expression::Like { negated, .. } => with_not(negated, "LIKE"),
            Expression::Other { construct, .. } => construct.clone(),
            Expression::Call { name, .. } => format!("{}()", name.to_ascii_uppercase()),
            _ => "an expression".to_owned(),
        }
    }
}

/// The name of an operator as a construct.
pub(crate) fn operator_construct(operator: &str) -> String {
    format!("operator {operator}")
}

/// Whose value of a variable is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Global,
    Session,
    /// Kept over restarts (PERSIST, PERSIST_ONLY).
    Persist,
}

/// One assignment of SET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub target: Target,
    pub value: NewValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Variable {
        /// As given.
        scope: Option<Scope>,
        /// Name in lower case.
        name: String,
    },
    /// `@@transaction_isolation` or `@@transaction_read_only` without a scope: of the next transaction only.
    OfNextTransaction {
        /// Name in lower case.
        name: String,
    },
    /// SET NAMES, with its COLLATE clause.
    Names {
        /// The collation, if one was given.
        collation: Option<String>,
    },
    CharacterSet,
    /// `@name`, as written.
    UserVariable(Vec<u8>),
}

/// The right side of an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewValue {
    Default,
    /// A bare word, which is its own text.
    Word(String),
    Expression(Expression),
}

/// READ ONLY or READ WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    ReadOnly,
    ReadWrite,
}

/// Isolation levels, by MySQL's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    /// The level of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Isolation> {
        use Isolation::{ReadCommitted, ReadUncommitted, RepeatableRead, Serializable};
        [ReadUncommitted, ReadCommitted, RepeatableRead, Serializable].into_iter().find(|level| level.name() == name)
    }

    /// The value of `transaction_isolation`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "READ-UNCOMMITTED",
            Isolation::ReadCommitted => "READ-COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE-READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

/// What SET TRANSACTION sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Characteristics {
    pub isolation: Option<Isolation>,
    /// READ ONLY or READ WRITE.
    pub access: Option<AccessMode>,
}

/// What follows COMMIT and ROLLBACK.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Completion {
    pub chain: bool,
    pub release: bool,
}
