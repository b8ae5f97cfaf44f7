//! Errors and warnings with MySQL's number, SQLSTATE and text.

use std::ops::Range;

/// An error to send to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({sqlstate}): {message}")]
pub struct SqlError {
    pub code: u16,
    /// SQLSTATE of five characters.
    pub sqlstate: &'static str,
    pub message: String,
    /// MySQL finds it when it executes the statement, and has described its columns then.
    of_execution: bool,
    /// What it is about in the statement's text, if that is known.
    span: Option<Range<usize>>,
}

/// A warning or note, as SHOW WARNINGS lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// `Note`, `Warning` or `Error`.
    pub level: &'static str,
    pub code: u16,
    pub message: String,
}

/// Begins the text of a defect, and of nothing else.
const DEFECT: &str = "a defect of Slipstream: ";

/// Characters of a statement that a syntax error shows.
const NEAR_MAX: usize = 80;

impl SqlError {
    /// An error with this number, SQLSTATE and text.
    pub fn new(code: u16, sqlstate: &'static str, message: impl Into<String>) -> SqlError {
        SqlError { code, sqlstate, message: message.into(), of_execution: false, span: None }
    }

    /// 1105 for what cannot be: the connection that meets it is ended, and the log says where it was met.
    #[track_caller]
    #[must_use]
    pub fn defect(what: impl std::fmt::Display) -> SqlError {
        let at = std::panic::Location::caller();
        SqlError::new(1105, "HY000", format!("{DEFECT}{what} ({}:{})", at.file(), at.line()))
    }

    /// Whether it is [`SqlError::defect`].
    #[must_use]
    pub fn is_defect(&self) -> bool {
        self.code == 1105 && self.message.starts_with(DEFECT)
    }

    /// A stored value that cannot be read: 1235 if this is known of its type, otherwise a defect.
    #[track_caller]
    #[must_use]
    pub fn unreadable(error: &values::ValueError) -> SqlError {
        match error {
            values::ValueError::Unsupported { what } => SqlError::not_supported(what),
            other => SqlError::defect(other),
        }
    }

    /// As [`unreadable`](Self::unreadable), with what the value is of.
    #[track_caller]
    #[must_use]
    pub fn unreadable_of(what: impl std::fmt::Display, error: &values::ValueError) -> SqlError {
        match error {
            values::ValueError::Unsupported { what } => SqlError::not_supported(what),
            other => SqlError::defect(format_args!("{what}: {other}")),
        }
    }

    /// 1235: this construct is not answered here.
    #[must_use]
    pub fn not_supported(construct: &str) -> SqlError {
        SqlError::new(1235, "42000", format!("This version of Slipstream doesn't yet support '{construct}'"))
    }

    /// The construct in the text of a [`not_supported`](SqlError::not_supported) error.
    #[must_use]
    pub fn construct_in(message: &str) -> Option<&str> {
        message.split_once("yet support '")?.1.strip_suffix('\'')
    }

    /// Whether it is [`SqlError::not_supported`].
    #[must_use]
    pub fn is_not_supported(&self) -> bool {
        self.code == 1235
    }

    /// What it is about in the statement's text, if that is known.
    #[must_use]
    pub fn span(&self) -> Option<Range<usize>> {
        self.span.clone()
    }

    /// Says of a construct that is not answered where it stands, unless that is known.
    #[must_use]
    pub(crate) fn at(mut self, span: Range<usize>) -> SqlError {
        if self.is_not_supported() && !span.is_empty() {
            self.span.get_or_insert(span);
        }
        self
    }

    /// Marks an error that MySQL finds only once it has described the columns.
    pub(crate) fn of_execution(self) -> SqlError {
        SqlError { of_execution: true, ..self }
    }

    /// Whether MySQL finds it only once it has described the columns.
    #[must_use]
    pub fn is_of_execution(&self) -> bool {
        self.of_execution
    }

    /// 1290: a statement that writes.
    #[must_use]
    pub fn read_only() -> SqlError {
        let text = "The MySQL server is running with the --super-read-only option so it cannot execute this statement";
        SqlError::new(1290, "HY000", text)
    }

    /// 1064: the statement cannot be parsed from this text on, in this line and at this offset.
    #[must_use]
    pub fn syntax(rest: &str, line: usize, at: usize) -> SqlError {
        let near: String = rest.chars().take(NEAR_MAX).collect();
        let text = format!(
            "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for \
             the right syntax to use near '{near}' at line {line}"
        );
        SqlError { span: Some(at..at), ..SqlError::new(1064, "42000", text) }
    }

    /// 1193: no variable has this name.
    #[must_use]
    pub fn unknown_variable(name: &str) -> SqlError {
        SqlError::new(1193, "HY000", format!("Unknown system variable '{name:.64}'"))
    }

    /// 1115: no character set has this name, or number.
    #[must_use]
    pub fn unknown_charset(name: &str) -> SqlError {
        SqlError::new(1115, "42000", format!("Unknown character set: '{name:.64}'"))
    }

    /// 1273: no collation has this name, or number.
    #[must_use]
    pub fn unknown_collation(name: &str) -> SqlError {
        SqlError::new(1273, "HY000", format!("Unknown collation: '{name}'"))
    }

    /// 1231: the variable does not take this value.
    #[must_use]
    pub fn wrong_value(name: &str, value: &str) -> SqlError {
        SqlError::new(1231, "42000", format!("Variable '{name}' can't be set to the value of '{value}'"))
    }

    /// 1232: the variable takes another type.
    #[must_use]
    pub fn wrong_type(name: &str) -> SqlError {
        SqlError::new(1232, "42000", format!("Incorrect argument type to variable '{name}'"))
    }

    /// The error as SHOW WARNINGS lists it.
    #[must_use]
    pub fn as_warning(&self) -> Warning {
        Warning { level: "Error", code: self.code, message: self.message.clone() }
    }
}

impl Warning {
    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self) + self.message.len()
    }

    pub fn new(code: u16, message: impl Into<String>) -> Warning {
        Warning { level: "Warning", code, message: message.into() }
    }
}
