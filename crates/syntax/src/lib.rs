//! Text of statements and trees.
//!
//! In: a statement's bytes, with the sql_mode, server version and character set under which they are read. Out: the
//! tree of a SELECT ([`parse_select`]), its text again ([`print_query`]), and of any text what its statements are
//! ([`classify`]). Never here: tables' definitions, values, types, errors other than of syntax; I/O. Any bytes give an
//! answer: no function here panics or recurses deeper than [`DEPTH_MAX`] says.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod charsets;
mod classify;
pub mod client_text;
mod digest;
mod function;
mod keyword;
mod lexer;
mod parser;
mod print;
pub mod sql_mode;
pub mod tree;
mod words;

pub use classify::{Access, Classified, Inexact, State, StatementKind, SystemVariable, TableUse, classify};
pub use digest::digest_text;
pub use function::Function;
pub use keyword::Keyword;
pub use lexer::{Kind, Lexer, Settings, Sign, Span, Token, Wrong, resolved};
pub use parser::{DEPTH_MAX, SyntaxError, parse_expression, parse_select};
pub use print::{print_expression, print_query};
pub use tree::Tree;
