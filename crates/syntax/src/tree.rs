//! The tree of a SELECT: an arena without references into itself but numbers.
//!
//! In: nodes of the parser, each after those that it contains. Out: the same by number. Never here: recursion. A tree
//! is dropped as a few vectors are, and whoever needs all nodes takes them in order: an operand's number is smaller
//! than its operator's.

use crate::function::Function;
use crate::keyword::Keyword;
use crate::lexer::Span;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(pub(crate) u32);

            impl $name {
                /// Its place among all of its kind.
                #[must_use]
                pub fn index(self) -> usize {
                    usize::try_from(self.0).unwrap_or(usize::MAX)
                }
            }
        )*
    };
}

ids! {
    ExprId
    QueryId
    TableId
    /// A name of up to three parts.
    NameId
    WindowId
    /// A type of CAST, or of a column of JSON_TABLE.
    TypeId
    /// A function's parts other than arguments.
    DetailId
}

/// Bytes of names and literals, resolved, in the tree's own storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// Some expressions in a row of the tree's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct List {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// A parsed SELECT, TABLE or VALUES statement, or an expression.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    pub(crate) exprs: Vec<Expr>,
    pub(crate) spans: Vec<Span>,
    pub(crate) lists: Vec<ExprId>,
    pub(crate) queries: Vec<Query>,
    pub(crate) tables: Vec<Table>,
    pub(crate) names: Vec<Name>,
    pub(crate) windows: Vec<Window>,
    pub(crate) types: Vec<Type>,
    pub(crate) details: Vec<Detail>,
    pub(crate) text: Vec<u8>,
    /// Of hints, in their order.
    pub(crate) hints: Vec<Span>,
    pub(crate) parameters: u32,
}

/// Equal but for places in the text.
impl PartialEq for Tree {
    fn eq(&self, other: &Tree) -> bool {
        self.exprs == other.exprs
            && self.lists == other.lists
            && self.queries == other.queries
            && self.tables == other.tables
            && self.names == other.names
            && self.windows == other.windows
            && self.types == other.types
            && self.details == other.details
            && self.text == other.text
    }
}

/// An expression's own part; operands by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expr {
    Null,
    Bool(bool),
    /// As written, without a sign.
    Number(Text),
    /// Adjacent strings are one. An introducer is a character set's name as written.
    String {
        text: Text,
        introducer: Option<Text>,
        national: bool,
    },
    /// Digits of `x'…'`, `0x…`, or of bits.
    Digits {
        digits: Text,
        bits: bool,
        introducer: Option<Text>,
    },
    /// DATE, TIME or TIMESTAMP before a string.
    Temporal {
        kind: Keyword,
        text: Text,
    },
    /// `?`, by number from 0.
    Parameter(u32),
    UserVariable(Text),
    /// `@@name`: scope (GLOBAL, SESSION, LOCAL, PERSIST, PERSIST_ONLY), and a name of one or two parts.
    SystemVariable {
        scope: Option<Keyword>,
        name: NameId,
    },
    Column(NameId),
    /// `*`, or `t.*`.
    Star(Option<NameId>),
    /// DEFAULT in a row of VALUES.
    Default,
    DefaultOf(NameId),
    /// VALUES(a), of ON DUPLICATE KEY UPDATE.
    ValuesOf(NameId),
    Unary(Unary, ExprId),
    Binary(Binary, ExprId, ExprId),
    Is {
        value: ExprId,
        test: Test,
        negated: bool,
    },
    In {
        value: ExprId,
        list: List,
        negated: bool,
    },
    InQuery {
        value: ExprId,
        query: QueryId,
        negated: bool,
    },
    Between {
        value: ExprId,
        low: ExprId,
        high: ExprId,
        negated: bool,
    },
    Like {
        value: ExprId,
        pattern: ExprId,
        escape: Option<ExprId>,
        negated: bool,
    },
    Regexp {
        value: ExprId,
        pattern: ExprId,
        negated: bool,
    },
    SoundsLike(ExprId, ExprId),
    MemberOf(ExprId, ExprId),
    /// A comparison with ALL or ANY of a query.
    Quantified {
        operator: Binary,
        value: ExprId,
        query: QueryId,
        all: bool,
    },
    Exists(QueryId),
    Subquery(QueryId),
    /// `(a, b)`, or ROW(a, b).
    Row {
        list: List,
        word: bool,
    },
    /// Pairs of WHEN and THEN in a list.
    Case {
        operand: Option<ExprId>,
        pairs: List,
        otherwise: Option<ExprId>,
    },
    Cast {
        value: ExprId,
        ty: TypeId,
        array: bool,
    },
    /// CAST(… AT TIME ZONE …): the zone, and whether INTERVAL stands before it.
    CastAtZone {
        value: ExprId,
        zone: Option<Text>,
        interval: bool,
        ty: TypeId,
    },
    Convert {
        value: ExprId,
        ty: TypeId,
    },
    ConvertUsing {
        value: ExprId,
        charset: Text,
    },
    Collate {
        value: ExprId,
        collation: Text,
    },
    /// `a + INTERVAL b unit`, or `- INTERVAL`; `before` if the interval is written first.
    Interval {
        value: ExprId,
        amount: ExprId,
        unit: Keyword,
        minus: bool,
        before: bool,
    },
    /// `column -> 'path'`, or `->>`.
    Path {
        column: NameId,
        path: Text,
        unquote: bool,
    },
    Match {
        columns: List,
        against: ExprId,
        mode: MatchMode,
    },
    /// `@a := b`.
    Assign {
        variable: Text,
        value: ExprId,
    },
    /// `{name expression}`.
    Odbc {
        name: Text,
        value: ExprId,
    },
    /// A function of the server.
    Call {
        function: Function,
        arguments: List,
        detail: Option<DetailId>,
    },
    /// A stored or loadable function. Aliases of arguments are a [`Detail`].
    CallByName {
        name: NameId,
        arguments: List,
        detail: Option<DetailId>,
    },
    /// A window function, or an aggregate with OVER.
    Over {
        call: ExprId,
        window: WindowId,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unary {
    Not,
    /// `!`, and NOT under HIGH_NOT_PRECEDENCE.
    Bang,
    Minus,
    Plus,
    Invert,
    Binary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    Or,
    Xor,
    And,
    Equal,
    NullSafeEqual,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    BitOr,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    IntegerDivide,
    Modulo,
    BitXor,
    /// `||` under PIPES_AS_CONCAT.
    Concat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    Null,
    True,
    False,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    Plain,
    NaturalLanguage,
    Boolean,
    Expansion,
    NaturalLanguageExpansion,
}

/// A function's parts other than its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    Star,
    Distinct,
    Bare,
    /// TRIM: LEADING, TRAILING or BOTH, if written; with FROM the first argument is removed, unless it is
    /// missing.
    Trim {
        side: Option<Keyword>,
    },
    /// EXTRACT, TIMESTAMPADD, DATE_ADD and the like: DAY and so on, or the type of GET_FORMAT.
    Unit(Keyword),
    Using(Text),
    /// WEIGHT_STRING(a AS CHAR(n)), or AS BINARY(n).
    WeightString {
        binary: bool,
        len: Text,
    },
    GroupConcat {
        distinct: bool,
        order: Vec<Order>,
        separator: Option<Literal>,
    },
    JsonValue {
        path: Literal,
        returning: Option<TypeId>,
        on_empty: Option<OnEvent>,
        on_error: Option<OnEvent>,
    },
    /// NTH_VALUE, LEAD and the like: FROM LAST or FROM FIRST, RESPECT or IGNORE NULLS.
    Nulls {
        from: Option<Keyword>,
        nulls: Option<Keyword>,
    },
    /// Aliases of arguments, at their places.
    Aliases(Vec<Option<Text>>),
}

/// A string where no other expression may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Literal {
    pub text: Text,
    /// Written as a hexadecimal or bit literal: these digits.
    pub form: LiteralForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiteralForm {
    Text,
    Hex,
    Bits,
    Introduced(Text),
    National,
}

/// ON EMPTY and ON ERROR of JSON_VALUE and JSON_TABLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnEvent {
    Error,
    Null,
    Default(ExprId),
}

/// A name: `parts` of them count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    pub(crate) parts: [Text; 3],
    pub(crate) len: u8,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    pub with: Option<With>,
    pub body: Body,
    pub order: Vec<Order>,
    pub limit: Option<Limit>,
    /// FOR UPDATE and the like, and INTO, in the order in which they are written.
    pub locking: Vec<Locking>,
    pub into: Option<Into>,
    /// INTO stands before the locking clauses.
    pub into_first: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Select(Box<Select>),
    /// TABLE t; `common` as in a [`NamedTable`].
    Table {
        name: NameId,
        common: bool,
    },
    /// VALUES ROW(…), …
    Values(Vec<List>),
    /// A query in brackets that has clauses of its own outside of them.
    Brackets(QueryId),
    Set {
        operation: Keyword,
        quantifier: Option<Keyword>,
        left: QueryId,
        right: QueryId,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct With {
    pub recursive: bool,
    pub tables: Vec<CommonTable>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CommonTable {
    pub name: Text,
    pub columns: Vec<Text>,
    pub query: QueryId,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Select {
    /// DISTINCT, SQL_CALC_FOUND_ROWS and the like, as written.
    pub options: Vec<Keyword>,
    pub items: Vec<Item>,
    /// INTO in its middle.
    pub into: Option<Into>,
    pub from: From,
    pub filter: Option<ExprId>,
    pub group: Vec<GroupItem>,
    pub grouping: Grouping,
    pub having: Option<ExprId>,
    pub windows: Vec<(Text, WindowId)>,
    pub qualify: Option<ExprId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum From {
    #[default]
    Nothing,
    Dual,
    Tables(Vec<TableId>),
}

#[derive(Debug, Clone, Copy)]
pub struct Item {
    pub expr: ExprId,
    pub alias: Option<Text>,
    /// The expression's text, which names the column.
    pub span: Span,
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        (self.expr, self.alias) == (other.expr, other.alias)
    }
}

/// An expression of GROUP BY, or a set of GROUPING SETS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupItem {
    Expr(ExprId),
    Set(List),
}

/// How GROUP BY groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    #[default]
    Plain,
    WithRollup,
    Rollup,
    Cube,
    Sets,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    pub expr: ExprId,
    /// ASC or DESC, if written.
    pub direction: Option<Keyword>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub rows: ExprId,
    pub offset: Option<ExprId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locking {
    pub strength: Strength,
    pub of: Vec<NameId>,
    /// NOWAIT, or SKIP for SKIP LOCKED.
    pub wait: Option<Keyword>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    Update,
    Share,
    /// LOCK IN SHARE MODE.
    ShareMode,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Into {
    Outfile { file: Text, charset: Option<Text>, fields: Vec<FileOption>, lines: Vec<FileOption> },
    Dumpfile(Text),
    Variables(Vec<IntoVariable>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntoVariable {
    User(Text),
    /// Of a stored program.
    Local(Text),
}

/// TERMINATED BY and the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOption {
    /// TERMINATED, ENCLOSED, ESCAPED, STARTING; OPTIONALLY for OPTIONALLY ENCLOSED.
    pub word: Keyword,
    pub value: Literal,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Table {
    Named(NamedTable),
    Derived {
        lateral: bool,
        query: QueryId,
        alias: Option<Text>,
        columns: Vec<Text>,
    },
    JsonTable {
        document: ExprId,
        path: Literal,
        columns: Vec<JsonColumn>,
        alias: Option<Text>,
    },
    Join {
        kind: JoinKind,
        left: TableId,
        right: TableId,
        condition: Condition,
    },
    List(Vec<TableId>),
    /// `{ OJ … }`.
    Odbc(TableId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTable {
    pub name: NameId,
    /// The name is one that a WITH around it gives.
    pub common: bool,
    pub partitions: Vec<Text>,
    pub alias: Option<Text>,
    pub hints: Vec<IndexHint>,
    pub sample: Option<Sample>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexHint {
    /// USE, FORCE or IGNORE.
    pub word: Keyword,
    /// JOIN, ORDER or GROUP.
    pub scope: Option<Keyword>,
    pub indexes: Vec<Text>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub method: Keyword,
    pub percent: ExprId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// JOIN, INNER JOIN, CROSS JOIN.
    Inner,
    Straight,
    Left,
    Right,
    Natural,
    NaturalLeft,
    NaturalRight,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Nothing,
    On(ExprId),
    Using(Vec<Text>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonColumn {
    Ordinality(Text),
    Path {
        name: Text,
        ty: TypeId,
        collation: Option<Text>,
        exists: bool,
        path: Literal,
        on_empty: Option<OnEvent>,
        on_error: Option<OnEvent>,
    },
    /// The parser bounds how deep they stand in each other.
    Nested {
        path: Literal,
        columns: Vec<JsonColumn>,
    },
}

/// A type's words and numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Type {
    /// CHAR, SIGNED, DECIMAL and so on; several for DOUBLE PRECISION.
    pub words: Vec<Keyword>,
    /// Length, precision and scale.
    pub numbers: Vec<Text>,
    /// Of ENUM and SET.
    pub members: Vec<Literal>,
    /// UNSIGNED, ZEROFILL, ASCII, UNICODE, BYTE, BINARY.
    pub attributes: Vec<Keyword>,
    pub charset: Option<Text>,
}

/// A window's definition, or a reference to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
    Named(Text),
    Spec { base: Option<Text>, partition: Vec<ExprId>, order: Vec<Order>, frame: Option<Frame> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// ROWS, RANGE or GROUPS.
    pub unit: Keyword,
    pub start: Bound,
    pub end: Option<Bound>,
    /// CURRENT, GROUP, TIES or NO, after EXCLUDE.
    pub exclude: Option<Keyword>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    CurrentRow,
    UnboundedPreceding,
    UnboundedFollowing,
    /// An amount, with a unit after INTERVAL.
    Preceding(ExprId, Option<Keyword>),
    Following(ExprId, Option<Keyword>),
}

fn index(number: usize) -> u32 {
    // A text has fewer bytes than that, and each node has a token.
    u32::try_from(number).unwrap_or(u32::MAX)
}

macro_rules! arenas {
    ($($push:ident $get:ident $field:ident $id:ident $node:ty;)*) => {
        impl Tree {
            $(
                pub(crate) fn $push(&mut self, node: $node) -> $id {
                    self.$field.push(node);
                    $id(index(self.$field.len() - 1))
                }

                /// The node of this number, which is this tree's.
                ///
                /// # Panics
                /// The number is another tree's.
                #[must_use]
                pub fn $get(&self, id: $id) -> &$node {
                    &self.$field[id.index()]
                }
            )*
        }
    };
}

arenas! {
    push_query query queries QueryId Query;
    push_table table tables TableId Table;
    push_name name names NameId Name;
    push_window window windows WindowId Window;
    push_type ty types TypeId Type;
    push_detail detail details DetailId Detail;
}

impl Tree {
    pub(crate) fn push(&mut self, expr: Expr, span: Span) -> ExprId {
        self.exprs.push(expr);
        self.spans.push(span);
        ExprId(index(self.exprs.len() - 1))
    }

    pub(crate) fn push_list(&mut self, list: &[ExprId]) -> List {
        let start = index(self.lists.len());
        self.lists.extend_from_slice(list);
        List { start, len: index(list.len()) }
    }

    pub(crate) fn push_text(&mut self, bytes: &[u8]) -> Text {
        let start = index(self.text.len());
        self.text.extend_from_slice(bytes);
        Text { start, len: index(bytes.len()) }
    }

    /// The expression of this number, which is this tree's.
    ///
    /// # Panics
    /// The number is another tree's.
    #[must_use]
    pub fn expr(&self, id: ExprId) -> Expr {
        self.exprs[id.index()]
    }

    /// Where an expression stands in the text.
    ///
    /// # Panics
    /// The number is another tree's.
    #[must_use]
    pub fn span(&self, id: ExprId) -> Span {
        self.spans[id.index()]
    }

    /// All expressions, operands before their operators.
    #[must_use]
    pub fn exprs(&self) -> &[Expr] {
        &self.exprs
    }

    /// All table references, parts of a join before it.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// All queries, subqueries before what contains them; the last is the statement.
    #[must_use]
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// Bytes of a text.
    #[must_use]
    pub fn bytes(&self, text: Text) -> &[u8] {
        let place = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
        self.text.get(place(text.start)..place(text.start) + place(text.len)).unwrap_or_default()
    }

    /// Expressions of a list.
    #[must_use]
    pub fn list(&self, list: List) -> &[ExprId] {
        let place = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
        self.lists.get(place(list.start)..place(list.start) + place(list.len)).unwrap_or_default()
    }

    /// A name's parts, the table's or column's own last.
    #[must_use]
    pub fn parts(&self, name: NameId) -> &[Text] {
        let name = &self.names[name.index()];
        name.parts.get(..usize::from(name.len)).unwrap_or_default()
    }

    /// Places of hints, `/*+` and `*/` included.
    #[must_use]
    pub fn hints(&self) -> &[Span] {
        &self.hints
    }

    #[must_use]
    pub fn parameters(&self) -> u32 {
        self.parameters
    }
}
