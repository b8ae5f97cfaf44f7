//! Temporary tables of a session, which only the source has.
//!
//! In: statements that the source ran, by their text. Out: whether another one names such a table. Never here: those
//! that a procedure makes.

use std::collections::BTreeSet;

use syntax::{Access, Keyword, Lexer, Settings, State, StatementKind, TableUse, classify};

/// A table as it is named: two names of one table are two here.
type Name = (Option<Vec<u8>>, Vec<u8>);

#[derive(Debug, Default)]
pub(crate) struct TemporaryTables(BTreeSet<Name>);

impl TemporaryTables {
    /// Follows a statement that the source has run.
    pub(crate) fn follow(&mut self, sql: &[u8], sql_mode: u64) {
        let settings = settings(sql_mode);
        for one in classify(sql, settings).iter().filter(|one| one.kind == StatementKind::Ddl) {
            let written = || one.tables.iter().filter(|used| used.access == Access::Write).map(name);
            if Lexer::new(one.span.of(sql), settings).next_token().keyword == Keyword::Drop {
                for name in written() {
                    self.0.remove(&name);
                }
            } else if one.state.has(State::TEMPORARY_TABLES) {
                self.0.extend(written());
            }
        }
    }

    /// Whether a statement names one of them.
    pub(crate) fn are_named_in(&self, sql: &[u8], sql_mode: u64) -> bool {
        !self.0.is_empty()
            && classify(sql, settings(sql_mode))
                .iter()
                .flat_map(|one| &one.tables)
                .any(|used| self.0.contains(&name(used)))
    }
}

fn name(used: &TableUse) -> Name {
    (used.schema.clone(), used.table.clone())
}

fn settings(sql_mode: u64) -> Settings {
    Settings::new(sql_mode, sql::SERVER_VERSION, "utf8mb4")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sessions_temporary_tables_are_known_by_their_names() {
        let mut tables = TemporaryTables::default();
        let named = |tables: &TemporaryTables, sql: &str| tables.are_named_in(sql.as_bytes(), 0);
        for sql in [
            "CREATE TEMPORARY TABLE tt (a INT)",
            "create temporary table if not exists `x y`.t2 like shop.o",
            "CREATE TABLE lasting (a INT)",
            "INSERT INTO other SELECT 'CREATE TEMPORARY TABLE not_one (a INT)'",
        ] {
            tables.follow(sql.as_bytes(), 0);
        }
        for sql in ["SELECT * FROM tt t", "SHOW CREATE TABLE tt", "SHOW COLUMNS FROM tt", "SELECT 1 FROM `x y`.`t2`"] {
            assert!(named(&tables, sql), "{sql}");
        }
        for sql in ["SELECT tt FROM t", "SELECT 'tt' FROM shop.tt", "SELECT 1 FROM shop.o", "SELECT 1 FROM lasting"] {
            assert!(!named(&tables, sql), "{sql}");
        }
        tables.follow(b"DROP TABLE IF EXISTS tt", 0);
        assert!(!named(&tables, "SELECT * FROM tt t"));
    }
}
