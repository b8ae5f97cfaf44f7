//! Whether a statement for another server may run stored code because of the views that it names.
//!
//! In: its text, the definitions that are visible here. Out: whether a view, or one within it, calls a function that is
//! not the server's. Never here: triggers, of which the answer tells what they have left; a doubt that is decided for
//! a view without stored code.

use catalog::{Catalog, Recorded};
use sql::SERVER_VERSION;
use sql::table::in_text;
use syntax::sql_mode::ANSI_QUOTES;
use syntax::{Classified, Keyword, Kind, Lexer, Settings, TableUse, classify};

use super::Session;
use crate::world::World;

/// Views within views that are followed. MySQL's limit is that of its stack.
const DEPTH_MAX: usize = 16;

impl Session {
    /// True if a view that it names may run stored code, which leaves more in a session than an answer tells.
    #[must_use]
    pub fn runs_code_in_views(&self, sql: &[u8], world: &dyn World) -> bool {
        let statements = classify(sql, self.text_settings());
        if statements.iter().all(|one| one.tables.is_empty()) {
            return false;
        }
        // Nothing is read here now either.
        let Ok(now) = world.pin() else { return false };
        let name = |bytes: &[u8]| match self.settings.charsets().name(bytes) {
            Ok((name, _)) => in_text(&name).into_owned(),
            Err(_) => String::new(),
        };
        let default = self.schema_name();
        let is_such = |table: &TableUse| {
            let db = table.schema.as_deref().map(name).or_else(|| default.clone());
            db.is_some_and(|db| runs_code(now.catalog(), &db, &name(&table.table), DEPTH_MAX))
        };
        statements.iter().flat_map(|one| &one.tables).any(is_such)
    }
}

/// True if this is a view that may run stored code.
fn runs_code(catalog: &Catalog, db: &str, name: &str, depth: usize) -> bool {
    if !catalog.is_view(db, name) {
        return false;
    }
    let known = catalog.view(db, name).filter(|view| view.made.is_some() && depth > 0);
    let Some(view) = known else { return true };
    let is_plain = |one: &Classified| one.inexact.is_empty() && one.unknown_functions.is_empty();
    let is_such = |made: &Recorded| {
        let mode = if made.sql_mode.split(',').any(|mode| mode == "ANSI_QUOTES") { ANSI_QUOTES } else { 0 };
        let settings = Settings::new(mode, SERVER_VERSION, "utf8mb4");
        let within = |table: &TableUse| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let db = table.schema.as_deref().map_or_else(|| made.default_db.clone(), text);
            runs_code(catalog, &db, &text(&table.table), depth - 1)
        };
        body_of(&made.text, settings).is_none_or(|body| {
            let statements = classify(body.as_bytes(), settings);
            statements.iter().any(|one| !is_plain(one) || one.tables.iter().any(within))
        })
    };
    view.made.iter().chain(view.later.iter()).any(is_such)
}

/// What follows AS in the statement that makes a view.
fn body_of(text: &str, settings: Settings) -> Option<&str> {
    let mut lexer = Lexer::new(text.as_bytes(), settings);
    loop {
        let token = lexer.next_token();
        match token.kind {
            Kind::End | Kind::Wrong(_) => return None,
            _ if token.keyword == Keyword::As => return text.get(token.span.end as usize..),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_a_view_follows_as() {
        let body = |text| body_of(text, Settings::default());
        assert_eq!(body("CREATE VIEW `as` (a) AS SELECT 1 AS a"), Some(" SELECT 1 AS a"));
        assert_eq!(body("create algorithm=UNDEFINED view v as select `f`() AS `x`"), Some(" select `f`() AS `x`"));
        assert_eq!(body("CREATE VIEW v"), None);
    }
}
