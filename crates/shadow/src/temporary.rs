//! Temporary tables of a session, which only the source has.
//!
//! In: statements that the source ran, by their text, with the default schema. Out: whether another one names such a
//! table. Never here: those that a procedure makes.

use std::collections::BTreeSet;

use syntax::{Access, Keyword, Lexer, Settings, StatementKind, TableUse, classify};

/// A table's schema, if there is any, and its name.
type Name = (Option<Vec<u8>>, Vec<u8>);

#[derive(Debug, Default)]
pub(crate) struct TemporaryTables(BTreeSet<Name>);

impl TemporaryTables {
    /// Follows a statement that the source has run.
    pub(crate) fn follow(&mut self, sql: &[u8], sql_mode: u64, schema: Option<&str>) {
        let settings = settings(sql_mode);
        for one in classify(sql, settings).iter().filter(|one| one.kind == StatementKind::Ddl) {
            let written =
                || one.tables.iter().filter(|used| used.access == Access::Write).map(|used| name(used, schema));
            let mut lexer = Lexer::new(one.span.of(sql), settings);
            match [lexer.next_token().keyword, lexer.next_token().keyword] {
                [Keyword::Create, Keyword::Temporary] => self.0.extend(written()),
                [Keyword::Drop, _] => self.0.retain(|name| !written().any(|dropped| dropped == *name)),
                _ => {}
            }
        }
    }

    /// Whether a statement names one of them.
    pub(crate) fn are_named_in(&self, sql: &[u8], sql_mode: u64, schema: Option<&str>) -> bool {
        !self.0.is_empty()
            && classify(sql, settings(sql_mode))
                .iter()
                .flat_map(|one| &one.tables)
                .any(|used| self.0.contains(&name(used, schema)))
    }
}

fn name(used: &TableUse, schema: Option<&str>) -> Name {
    let own = || schema.map(|schema| schema.as_bytes().to_vec());
    (used.schema.clone().or_else(own), used.table.clone())
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
        let named = |tables: &TemporaryTables, sql: &str| tables.are_named_in(sql.as_bytes(), 0, Some("app"));
        for sql in [
            "CREATE TEMPORARY TABLE tt (a INT)",
            "create temporary table if not exists `x y`.t2 like shop.o",
            "CREATE TABLE lasting (temporary INT)",
            "INSERT INTO other SELECT 'CREATE TEMPORARY TABLE not_one (a INT)'",
        ] {
            tables.follow(sql.as_bytes(), 0, Some("app"));
        }
        for sql in ["SELECT * FROM tt t", "SHOW CREATE TABLE tt", "SHOW COLUMNS FROM tt", "SELECT 1 FROM `x y`.`t2`"] {
            assert!(named(&tables, sql), "{sql}");
        }
        for sql in ["SELECT tt FROM t", "SELECT 'tt' FROM shop.tt", "SELECT 1 FROM shop.o", "SELECT 1 FROM lasting"] {
            assert!(!named(&tables, sql), "{sql}");
        }
        // The same name in another schema is another table.
        assert!(named(&tables, "SELECT * FROM app.tt") && !tables.are_named_in(b"SELECT * FROM tt", 0, Some("shop")));
        tables.follow(b"DROP TABLE IF EXISTS tt", 0, Some("app"));
        assert!(!named(&tables, "SELECT * FROM tt t"));
    }
}
