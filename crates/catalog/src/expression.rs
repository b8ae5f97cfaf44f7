//! Expressions of definitions as the source prints them: of generated columns, defaults, index parts, checks and
//! partitions.
//!
//! In: an expression's text and the settings under which it was written. Out: MySQL's own spelling of it (`Item::print`
//! after names are resolved), as SHOW CREATE TABLE has it; None for what is not known to be printed so. Never here:
//! values, types of columns, a guess.
//!
//! What is printed how was tried on 9.7.4, function by function; tests keep the list.

mod functions;
mod parse;
mod print;

use crate::context::StatementContext;
use crate::parser::backticked;

/// A parsed expression. The reader bounds its height (`HEIGHT_MAX`), so what walks it may recurse.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    /// A column, by the last part of its name.
    Column(String),
    Null,
    Bool(bool),
    Number(String),
    Text {
        charset: String,
        text: String,
    },
    Hex(Vec<u8>),
    /// `DATE'…'`, `TIME'…'` and `TIMESTAMP'…'`.
    Temporal(&'static str, String),
    Negative(Box<Node>),
    Inverted(Box<Node>),
    /// Operators of numbers, each applied to all that stands before it. One list, so that a text of many terms makes no
    /// deep tree.
    Operation(Box<Node>, Vec<(&'static str, Node)>),
    Compare(&'static str, Box<[Node; 2]>),
    Row(Vec<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Xor(Box<[Node; 2]>),
    /// NOT of what has no opposite of its own.
    Not(Box<Node>),
    IsNull {
        value: Box<Node>,
        negated: bool,
    },
    /// IS TRUE and IS FALSE.
    IsTruth {
        value: Box<Node>,
        truth: bool,
        negated: bool,
    },
    In {
        value: Box<Node>,
        list: Vec<Node>,
        negated: bool,
    },
    Between {
        parts: Box<[Node; 3]>,
        negated: bool,
    },
    Like {
        sides: Box<[Node; 2]>,
        escape: Option<Box<Node>>,
    },
    MemberOf(Box<[Node; 2]>),
    Case {
        value: Option<Box<Node>>,
        arms: Vec<[Node; 2]>,
        otherwise: Option<Box<Node>>,
    },
    Call(String, Vec<Node>),
    /// `date + INTERVAL amount unit`, or `-`.
    Interval {
        sign: char,
        parts: Box<[Node; 2]>,
        unit: String,
    },
    Cast(Box<Node>, String),
    ConvertUsing(Box<Node>, String),
    Collate(Box<Node>, String),
    Trim {
        mode: &'static str,
        parts: Box<[Node; 2]>,
    },
    Extract(String, Box<Node>),
    TimestampDiff(String, Box<[Node; 2]>),
    GetFormat(&'static str, Box<Node>),
    /// JSON_VALUE with its RETURNING and ON clauses as they are printed.
    JsonValue(Box<[Node; 2]>, String),
    /// `WEIGHT_STRING(… AS CHAR(n))`.
    WeightString(Box<Node>, u64),
}

/// The source's spelling of an expression; None if it is not known.
pub(crate) fn spelled(context: &StatementContext, text: &str) -> Option<String> {
    let node = parse::parsed(context, text)?;
    print::printed(&node)
}

/// A spelled expression with columns named as they are in the table: `A` of a column `a` becomes `a`. Text in quotes
/// stays. `name` gives the table's own name of a column.
pub(crate) fn with_names(spelled: &str, name: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(spelled.len());
    let mut rest = spelled;
    while let Some(at) = rest.find(['`', '\'']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let len = quoted_len(from);
        let (quoted, after) = from.split_at(len);
        match quoted.strip_prefix('`').and_then(|inner| inner.strip_suffix('`')) {
            Some(inner) => {
                let own = name(&inner.replace("``", "`"));
                out.push_str(&own.map_or_else(|| quoted.to_owned(), |own| backticked(&own)));
            }
            None => out.push_str(quoted),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Bytes of the quoted text at the beginning; all of them if it does not end.
fn quoted_len(text: &str) -> usize {
    let mut letters = text.char_indices();
    let Some((_, quote)) = letters.next() else { return 0 };
    let mut letters = letters.peekable();
    while let Some((at, letter)) = letters.next() {
        if quote == '\'' && letter == '\\' {
            letters.next();
        } else if letter == quote {
            if letters.peek().is_some_and(|(_, next)| *next == quote) {
                letters.next();
            } else {
                return at + letter.len_utf8();
            }
        }
    }
    text.len()
}

/// Names of the columns and of the character sets of texts in a spelled expression.
pub(crate) fn names_and_charsets(spelled: &str) -> (Vec<String>, Vec<String>) {
    let (mut names, mut charsets) = (Vec::new(), Vec::new());
    let mut rest = spelled;
    while let Some(at) = rest.find(['`', '\'']) {
        let (before, from) = rest.split_at(at);
        let (quoted, after) = from.split_at(quoted_len(from));
        if let Some(inner) = quoted.strip_prefix('`').and_then(|inner| inner.strip_suffix('`')) {
            names.push(inner.replace("``", "`"));
        } else if let Some((_, introducer)) = before.rsplit_once('_') {
            charsets.push(introducer.to_owned());
        }
        rest = after;
    }
    (names, charsets)
}

#[cfg(test)]
mod tests;
