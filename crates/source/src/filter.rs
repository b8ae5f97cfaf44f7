//! Selection of tables of a server.

use std::sync::Arc;

use catalog::ReplicationFilters;

/// Tables by their names here; without names all replicated tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFilter {
    /// Database (any if absent) and table (`*` for all tables of the database).
    pub tables: Vec<(Option<String>, String)>,
    /// Filters that decide which tables of the source are replicated, and under which names.
    pub filters: Arc<ReplicationFilters>,
}

impl TableFilter {
    /// Parses `SCHEMA.TABLE`, `SCHEMA.*` or `TABLE`; each name is bare or in backticks.
    #[must_use]
    pub fn parse<S: AsRef<str>>(names: &[S]) -> TableFilter {
        let tables = names.iter().map(|name| parse_name(name.as_ref())).collect();
        TableFilter { tables, filters: Arc::default() }
    }

    /// Limits the selection to what these filters replicate.
    #[must_use]
    pub fn of(self, filters: &Arc<ReplicationFilters>) -> TableFilter {
        TableFilter { filters: Arc::clone(filters), ..self }
    }

    /// The local database name for a table of the source; None if the table is not replicated or not selected.
    #[must_use]
    pub fn place_of<'a>(&'a self, db: &'a str, table: &str, lower_case_table_names: u8) -> Option<&'a str> {
        let here = self.filters.place_of(db, table, lower_case_table_names)?;
        self.matches(here, table, lower_case_table_names).then_some(here)
    }

    /// True if all replicated tables are selected.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.tables.is_empty()
    }

    /// Name of the table, if exactly one is selected; its database may have another name at the source.
    #[must_use]
    pub fn only_table(&self) -> Option<&str> {
        match self.tables.as_slice() {
            [(Some(_), table)] if table != "*" => Some(table),
            _ => None,
        }
    }

    /// True if the table of this local name is selected. Names are compared by the rule of `lower_case_table_names`.
    #[must_use]
    pub fn matches(&self, db: &str, table: &str, lower_case_table_names: u8) -> bool {
        self.is_all() || self.tables.iter().any(|wanted| one_matches(wanted, db, table, lower_case_table_names))
    }

    /// The first name that matches none of `tables`.
    #[must_use]
    pub fn unmatched<'a>(
        &self,
        tables: impl Iterator<Item = (&'a str, &'a str)> + Clone,
        lower_case_table_names: u8,
    ) -> Option<String> {
        let missing = self
            .tables
            .iter()
            .find(|wanted| !tables.clone().any(|(db, table)| one_matches(wanted, db, table, lower_case_table_names)))?;
        Some(match &missing.0 {
            Some(db) => format!("`{db}`.`{}`", missing.1),
            None => format!("`{}`", missing.1),
        })
    }
}

fn one_matches(wanted: &(Option<String>, String), db: &str, table: &str, lower_case_table_names: u8) -> bool {
    let same = |left: &str, right: &str| {
        left == right || (lower_case_table_names > 0 && left.to_lowercase() == right.to_lowercase())
    };
    wanted.0.as_deref().is_none_or(|name| same(name, db)) && (wanted.1 == "*" || same(&wanted.1, table))
}

fn parse_name(text: &str) -> (Option<String>, String) {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '`' if quoted && characters.peek() == Some(&'`') => {
                characters.next();
                part.push('`');
            }
            '`' => quoted = !quoted,
            // Only the first dot separates: a bare table name may contain more dots.
            '.' if !quoted && parts.is_empty() => parts.push(std::mem::take(&mut part)),
            other => part.push(other),
        }
    }
    (parts.pop(), part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_matched() {
        let filter = TableFilter::parse(&["shop.orders", "`a.b`.`c``d`", "only", "all.*"]);
        assert_eq!(
            filter.tables,
            [
                (Some("shop".into()), "orders".into()),
                (Some("a.b".into()), "c`d".into()),
                (None, "only".into()),
                (Some("all".into()), "*".into()),
            ]
        );
        assert!(filter.matches("shop", "orders", 0) && !filter.matches("shop", "Orders", 0));
        assert!(filter.matches("shop", "Orders", 1));
        assert!(filter.matches("x", "only", 0) && filter.matches("all", "y", 0) && !filter.matches("x", "y", 0));
        assert!(TableFilter::default().matches("x", "y", 0));
        let there = [("shop", "orders"), ("all", "y"), ("z", "only")];
        assert_eq!(filter.unmatched(there.iter().copied(), 0).as_deref(), Some("`a.b`.`c`d`"));
    }
}
