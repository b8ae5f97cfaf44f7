//! What the statements of a text are, as far as somebody must know who sends it on.
//!
//! In: any bytes, perhaps several statements. Out: for each one its place, kind, tables, functions, variables, and what
//! it changes in its session. Never here: an error. Uncertainty is reported ([`Inexact`]), and a statement
//! may write unless its tree proves that it does not.
//!
//! SELECT, TABLE, VALUES and DO are parsed. Of all others the head and the tokens are looked at ([`walk`]): enough for
//! which tables, variables and functions they name, not for where the grammar would refuse them.

mod head;
mod tree_facts;
mod walk;

use crate::function::Function;
use crate::keyword::Keyword;
use crate::lexer::{Kind, Lexer, Settings, Span, Token};

/// A longer statement gets no tree: 52 bytes a token, 13 MiB.
const TREE_TOKENS_MAX: usize = 1 << 18;

/// One statement of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Classified {
    /// Its bytes, from its first token to its last, without `;`.
    pub span: Span,
    pub kind: StatementKind,
    /// False only if it is proved that no row, object, file or server setting changes.
    pub may_write: bool,
    /// Why something of this may be otherwise.
    pub inexact: Inexact,
    /// Tables and views by name. Of a stored program's text, and of DDL beyond its object, none.
    pub tables: Vec<TableUse>,
    /// Functions of the server that are called.
    pub functions: Vec<Function>,
    /// Functions and procedures that are not the server's: stored or loadable ones.
    pub unknown_functions: Vec<Vec<u8>>,
    pub user_variables_read: Vec<Vec<u8>>,
    pub user_variables_set: Vec<Vec<u8>>,
    pub system_variables: Vec<SystemVariable>,
    /// INTO of a file.
    pub into_file: bool,
    pub into_variables: bool,
    /// FOR UPDATE, FOR SHARE or LOCK IN SHARE MODE.
    pub locks_rows: bool,
    /// With their `/*+` and `*/`.
    pub hints: Vec<Span>,
    /// What it changes in its session.
    pub state: State,
    /// Literals, which a digest leaves out.
    pub literals: Vec<Span>,
    pub parameters: u32,
}

/// What a statement is, by its first words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatementKind {
    Empty,
    /// SELECT, TABLE, VALUES, WITH.
    Select,
    Insert,
    Replace,
    Update,
    Delete,
    /// CREATE, ALTER, DROP, RENAME and TRUNCATE of schemas, tables, views, indexes and the like.
    Ddl,
    /// Of procedures, functions, triggers and events.
    StoredProgram,
    /// Users, roles and privileges, SET PASSWORD, SET DEFAULT ROLE.
    Account,
    Set,
    SetTransaction,
    SetNames,
    SetRole,
    Call,
    /// BEGIN or START TRANSACTION.
    Begin,
    Commit,
    Rollback,
    Savepoint,
    RollbackTo,
    ReleaseSavepoint,
    Xa,
    Prepare,
    Execute,
    Deallocate,
    Show,
    /// EXPLAIN, DESCRIBE, DESC of a table or a statement.
    Explain,
    LockTables,
    UnlockTables,
    Handler,
    /// LOAD DATA and LOAD XML.
    Load,
    Do,
    Use,
    Kill,
    Flush,
    /// ANALYZE, OPTIMIZE, CHECK, REPAIR, CHECKSUM TABLE, CACHE INDEX, LOAD INDEX.
    TableMaintenance,
    /// Replication, plugins, components, CLONE, SHUTDOWN, RESET, PURGE, BINLOG and the like.
    Administration,
    /// SIGNAL, RESIGNAL, GET DIAGNOSTICS.
    Diagnostics,
    Help,
    /// What MySQL would answer 1064 for, or a statement of a later version.
    #[default]
    Unknown,
}

/// How a statement uses a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    /// It is changed, or may be.
    Write,
}

/// A table as it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableUse {
    pub schema: Option<Vec<u8>>,
    pub table: Vec<u8>,
    pub access: Access,
}

/// A system variable as it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemVariable {
    /// GLOBAL, SESSION, LOCAL, PERSIST or PERSIST_ONLY, if written.
    pub scope: Option<Keyword>,
    /// In lower case, with the name of a key cache or a component before a dot.
    pub name: Vec<u8>,
    pub set: bool,
}

macro_rules! bits {
    ($(#[$doc:meta])* $name:ident { $($(#[$bit_doc:meta])* $bit:ident $number:literal)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name(u32);

        impl $name {
            $($(#[$bit_doc])* pub const $bit: $name = $name(1 << $number);)*

            /// True if one of these is in it.
            #[must_use]
            pub fn has(self, any: $name) -> bool {
                self.0 & any.0 != 0
            }

            #[must_use]
            pub fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// These and those together.
            #[must_use]
            pub const fn and(self, others: $name) -> $name {
                $name(self.0 | others.0)
            }

            /// These but for those.
            #[must_use]
            pub fn without(self, others: $name) -> $name {
                $name(self.0 & !others.0)
            }

            pub(crate) fn add(&mut self, more: $name) {
                self.0 |= more.0;
            }
        }
    };
}

bits! {
    /// What of a session a statement changes.
    State {
        SCHEMA 0
        /// SET of session variables.
        VARIABLES 1
        USER_VARIABLES 2
        /// BEGIN, COMMIT and the like, SET autocommit.
        TRANSACTION 3
        /// SET TRANSACTION: of the next one.
        NEXT_TRANSACTION 4
        /// SET NAMES, SET CHARACTER SET: how later texts are read.
        CHARACTER_SET 5
        /// LOCK TABLES, UNLOCK TABLES, FLUSH TABLES … WITH READ LOCK.
        TABLE_LOCKS 6
        NAMED_LOCKS 7
        TEMPORARY_TABLES 8
        PREPARED 9
        HANDLERS 10
        /// LAST_INSERT_ID(a), or rows that get numbers.
        LAST_INSERT_ID 11
        FOUND_ROWS 12
        ROLES 13
        /// It commits what was open.
        IMPLICIT_COMMIT 14
        /// SET sql_mode: how later texts are read.
        SQL_MODE 15
        /// Stored code may run, which may change anything of the session.
        STORED_CODE 16
        RESOURCE_GROUP 17
    }
}

bits! {
    /// Why a statement may be other than it says.
    Inexact {
        /// The server's version decides which tokens are executed.
        VERSION_COMMENT 0
        /// In the character set, bytes beyond ASCII may be quotes or backslashes.
        CHARACTER_SET 1
        /// A statement before it in the text changes how it is read.
        MODE_CHANGES 2
        /// A string, a name or a comment has no end, or a literal is wrong.
        NO_END 3
        /// A SELECT that does not parse: MySQL would answer 1064.
        SYNTAX 4
        /// More stands in each other than the parser takes, or too many tokens in the statement.
        TOO_LARGE 5
        /// A stored program with `;` in it: the rest of the text was taken for its own.
        PROGRAM 6
        /// The text of PREPARE, which runs later.
        LATER 7
    }
}

/// What the statements of a text are; at least one, which may be empty. `;` ends one.
#[must_use]
pub fn classify(text: &[u8], settings: Settings) -> Vec<Classified> {
    let mut lexer = Lexer::new(text, settings);
    let mut found: Vec<Classified> = Vec::with_capacity(1);
    let mut tokens = Vec::with_capacity(32);
    let mut inexact = Inexact::default();
    if !settings.charset_is_known() {
        inexact.add(Inexact::CHARACTER_SET);
    }
    loop {
        let mut one = Classified { inexact, may_write: true, ..Classified::default() };
        let ended = read_statement(&mut lexer, &mut tokens, &mut one);
        if lexer.saw_version_comment() {
            one.inexact.add(Inexact::VERSION_COMMENT);
        }
        if tokens.len() > 1 || found.is_empty() {
            of_tokens(text, settings, &mut tokens, &mut one);
            if one.state.has(State::CHARACTER_SET) || one.state.has(State::SQL_MODE) {
                inexact.add(Inexact::MODE_CHANGES);
            }
            found.push(one);
        }
        if ended {
            return found;
        }
    }
}

/// Reads a statement's tokens, with one at the end that is [`Kind::End`]. True at the end of the text.
fn read_statement(lexer: &mut Lexer<'_>, tokens: &mut Vec<Token>, one: &mut Classified) -> bool {
    tokens.clear();
    let mut is_program = false;
    let mut semicolon_inside = false;
    loop {
        let token = lexer.next_token();
        match token.kind {
            Kind::Hint => one.hints.push(token.span),
            Kind::Byte(b';') if !is_program => {
                tokens.push(Token { kind: Kind::End, ..token });
                return false;
            }
            Kind::Byte(b';') => semicolon_inside = true,
            Kind::End | Kind::Wrong(_) => {
                if token.kind != Kind::End {
                    one.inexact.add(Inexact::NO_END);
                }
                tokens.push(Token { kind: Kind::End, keyword: Keyword::NotOne, span: token.span });
                return true;
            }
            _ => {
                if semicolon_inside {
                    one.inexact.add(Inexact::PROGRAM);
                }
                tokens.push(token);
                is_program = is_program || (tokens.len() <= head::WORDS_MAX && head::begins_program(tokens));
            }
        }
    }
}

fn of_tokens(text: &[u8], settings: Settings, tokens: &mut Vec<Token>, one: &mut Classified) {
    let end = tokens.len().saturating_sub(1);
    if let (Some(first), Some(last)) = (tokens.first(), tokens.get(end.saturating_sub(1))) {
        one.span =
            if end == 0 { Span { start: first.span.start, end: first.span.start } } else { first.span.to(last.span) };
    }
    for token in tokens.iter() {
        match token.kind {
            Kind::Text | Kind::NationalText | Kind::Integer | Kind::Decimal | Kind::Float | Kind::Hex | Kind::Bits => {
                one.literals.push(token.span);
            }
            Kind::Byte(b'?') => one.parameters += 1,
            _ => {}
        }
    }
    one.kind = head::kind(text, tokens);
    if tokens.len() > TREE_TOKENS_MAX {
        one.inexact.add(Inexact::TOO_LARGE);
    } else if tree_facts::add(text, settings, tokens, one) {
        return;
    }
    walk::add(text, settings, tokens, one);
}
