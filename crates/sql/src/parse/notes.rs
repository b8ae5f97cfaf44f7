//! What MySQL says of a statement while it parses it.
//!
//! In: what the parser meets. Out: warnings, in MySQL's order. Never here: what is found out later, when a statement is
//! bound or runs.

use crate::ast::Scope;
use crate::error::Warning;
use crate::{deprecated, variables};

/// Warnings that MySQL keeps of a text (`max_error_count`).
const WARNINGS_MAX: usize = 1024;

/// Warnings of one statement.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Of words and comments.
    words: Vec<Warning>,
    /// Of variables that are read: MySQL looks for them once all of the text is parsed.
    variables: Vec<Warning>,
    /// One was met that is not there or cannot be read: MySQL looks no further.
    ends: bool,
}

impl Notes {
    pub(super) fn add(&mut self, code: u16, text: &str) {
        self.extend(|| Some(Warning::new(code, text)));
    }

    /// A character set was named.
    pub(super) fn charset(&mut self, name: &str) {
        self.extend(|| deprecated::charset(name));
    }

    /// A collation was named.
    pub(super) fn collation(&mut self, name: &str) {
        self.extend(|| deprecated::collation(name));
    }

    fn extend(&mut self, warning: impl FnOnce() -> Option<Warning>) {
        if self.words.len() < WARNINGS_MAX {
            self.words.extend(warning());
        }
    }

    /// A variable is read.
    pub(super) fn reads(&mut self, scope: Option<Scope>, name: &str) {
        let found = variables::find(name).filter(|variable| variable.scope_to_read(scope).is_ok());
        self.ends |= found.is_none();
        if !self.ends && self.words.len() + self.variables.len() < WARNINGS_MAX {
            self.variables.extend(deprecated::deprecated_variable(name));
        }
    }

    /// A function without arguments is called.
    pub(super) fn calls(&mut self, name: &str) {
        if name.eq_ignore_ascii_case("FOUND_ROWS")
            && !self.ends
            && self.words.len() + self.variables.len() < WARNINGS_MAX
        {
            let text = "FOUND_ROWS() is deprecated and will be removed in a future release. Consider using COUNT(*) \
                        instead.";
            self.variables.push(Warning::new(1287, text));
        }
    }

    /// A variable is set, after its new value was parsed.
    pub(super) fn sets(&mut self, name: &str) {
        self.ends |= variables::find(name).is_none();
    }

    /// How many were given so far.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// Forgets all but the first `len`: those of a text behind the statement.
    pub(super) fn truncate(&mut self, len: usize) {
        self.words.truncate(len);
    }

    /// Of a text that cannot be parsed to its end.
    pub(super) fn of_words(self) -> Vec<Warning> {
        self.words
    }

    pub(super) fn all(self) -> Vec<Warning> {
        let mut all = self.words;
        all.extend(self.variables);
        all.truncate(WARNINGS_MAX);
        all
    }
}
