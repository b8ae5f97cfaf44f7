//! Tables that are kept nowhere: those of `information_schema` and `performance_schema`, and what SHOW lists.
//!
//! In: `listings.tsv`, `listed_rows.tsv` and `status.tsv`, written by `tests/recorded.rs`. Out: their columns, with the
//! metadata that a 9.7 sends; of rows, those that a statement chooses, in its order. Never here: rows that differ
//! between servers.

mod choose;
mod columns;
mod of_catalog;
mod of_virtual;
mod recorded;
mod status;

pub use choose::{bytes_of, chosen, fulfils, may_choose};
pub use of_catalog::{
    Part, Seen, is_by_table, show_columns, show_columns_of_virtual, show_index, show_index_of_virtual,
};
pub use of_virtual::show_create_virtual;
pub(crate) use recorded::is_reserved;
pub use recorded::{Listing, ListingColumn, listing, listing_prepared, members_of, recorded_rows, tables_of};
pub use status::{StatusVariable, status_variables};

use crate::ast::{Expression, From, Item, Limit, Select};
use crate::bind::Value;

/// Schemas of such tables.
pub const VIRTUAL_SCHEMAS: &[&str] = &["information_schema", "performance_schema"];

/// MySQL's own schema, empty here: the log does not carry its tables. It is there, for accounts that may read it,
/// because `mysqldump --all-databases` of 9.7 begins with it and ends without a word where it is not listed.
pub const SYSTEM_SCHEMA: &str = "mysql";

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

/// What a SHOW leaves of its rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// LIKE, a pattern for the first column's text.
    pub like: Option<Vec<u8>>,
    /// WHERE, over the columns shown.
    pub filter: Option<Expression>,
}

impl Choice {
    /// The SELECT of all columns that a SHOW stands for; LIKE is about the column of this name.
    #[must_use]
    pub fn select(&self, listing: &Listing, like_column: &str) -> Select {
        let like = self.like.as_ref().map(|pattern| Expression::Like {
            sides: Box::new([
                Expression::Name(vec![like_column.as_bytes().to_vec()]),
                Expression::Text { bytes: pattern.clone(), first_len: pattern.len(), introducer: None },
            ]),
            negated: false,
        });
        let filter = like.or_else(|| self.filter.clone());
        let table = listing.name.as_bytes().to_vec();
        Select {
            items: vec![Item { expression: Expression::Star(Vec::new()), alias: None, span: 0..0, shown: None }],
            from: Some(Box::new(From {
                schema: None,
                table,
                alias: None,
                hints: Vec::new(),
                filter,
                filter_at: 0,
                order: Vec::new(),
            })),
            limit: Limit::none(),
            locking: Vec::new(),
        }
    }
}

/// The virtual schema that FROM names, or the default schema if it names none.
#[must_use]
pub fn virtual_schema(select: &Select, default: Option<&str>) -> Option<&'static str> {
    let virtual_one = |name: &str| VIRTUAL_SCHEMAS.iter().copied().find(|own| own.eq_ignore_ascii_case(name));
    match &select.from.as_ref()?.schema {
        Some(name) => virtual_one(std::str::from_utf8(name).ok()?),
        None => virtual_one(default?),
    }
}
