//! What a definition says that no row and no replay depends on, kept so that SHOW CREATE TABLE can tell it again.
//!
//! In: clauses as they were parsed. Out: their values in the source's spelling. Never here: a clause that changes how
//! rows are stored or found (those are in `table`).

use serde::{Deserialize, Serialize};

use crate::expression;

/// Option of a column, which is not printed: the time zone of its DEFAULT, whose rules are not in the log.
pub(crate) const DEFAULT_ZONE: &str = "DEFAULT time_zone";
/// Option of a column, which is not printed: how information_schema lists the DEFAULT of a TIMESTAMP, where that is not
/// its text in UTC.
pub(crate) const LISTED_DEFAULT: &str = "DEFAULT listed";

/// Options by name, with their values as they are printed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Options {
    /// In the order of the names.
    all: Vec<(String, String)>,
}

impl Options {
    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The value of the option of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Sets an option; an empty value, the default, removes it.
    pub fn set(&mut self, name: &str, value: &str) {
        self.all.retain(|(own, _)| own != name);
        if !value.is_empty() {
            self.all.push((name.to_owned(), value.to_owned()));
            self.all.sort();
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredTable {
    /// Options by name, with their values as they are printed.
    // Absent if empty.
    #[serde(rename = "clauses", default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    /// CHECK constraints, in the order of their creation.
    // Absent if empty.
    #[serde(rename = "checks", default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Name as given, or generated as `table_chk_N`.
    #[serde(rename = "name")]
    pub name: String,
    /// The condition in the source's spelling; None if that is not known.
    #[serde(rename = "condition", deserialize_with = "Option::deserialize")]
    pub condition: Option<String>,
    /// False for NOT ENFORCED.
    #[serde(rename = "enforced")]
    pub enforced: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredColumn {
    /// The expression of a generated column or of a DEFAULT in the source's spelling; empty for other columns, and
    /// where it is not known.
    // Absent if empty.
    #[serde(rename = "spelled", default, skip_serializing_if = "String::is_empty")]
    pub spelled: String,
    /// True if the column names a character set or collation.
    // Absent if false.
    #[serde(rename = "collated", default, skip_serializing_if = "std::ops::Not::not")]
    pub collated: bool,
    /// True for a column that may be NULL without a DEFAULT, as ALTER … DROP DEFAULT leaves it.
    // Absent if false.
    #[serde(rename = "no_default", default, skip_serializing_if = "std::ops::Not::not")]
    pub no_default: bool,
    /// True for NOT SECONDARY.
    // Absent if false.
    #[serde(rename = "not_secondary", default, skip_serializing_if = "std::ops::Not::not")]
    pub not_secondary: bool,
    /// COLUMN_FORMAT, STORAGE, and attributes of engines, as they are printed.
    // Absent if empty.
    #[serde(rename = "clauses", default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredKey {
    // Absent if empty.
    #[serde(rename = "key_comment", default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// USING, WITH PARSER, and attributes of engines, as they are printed.
    // Absent if empty.
    #[serde(rename = "clauses", default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    /// The parts that are expressions, in their order.
    // Absent if empty.
    #[serde(rename = "expression_parts", default, skip_serializing_if = "Vec::is_empty")]
    pub expressions: Vec<DeclaredPart>,
}

/// An expression in an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredPart {
    /// In the source's spelling; None if that is not known.
    #[serde(rename = "printed", deserialize_with = "Option::deserialize")]
    pub spelled: Option<String>,
    /// True for DESC.
    #[serde(rename = "descending")]
    pub descending: bool,
}

/// True if nothing was declared, for what is left out of a stored catalog then.
pub(crate) fn is_default<T: Default + PartialEq>(declared: &T) -> bool {
    *declared == T::default()
}

impl DeclaredTable {
    /// Adds checks; those without a name are called `table_chk_N`, where N is one above the highest in use before.
    pub(crate) fn add_checks(&mut self, table: &str, checks: impl IntoIterator<Item = CheckSpec>) {
        let stem = format!("{table}_chk_");
        let number = |check: &Check| check.name.strip_prefix(stem.as_str())?.parse::<u32>().ok();
        let mut highest = self.checks.iter().filter_map(number).max().unwrap_or(0);
        for CheckSpec { name, condition, enforced } in checks {
            let name = name.unwrap_or_else(|| {
                highest = highest.saturating_add(1);
                format!("{stem}{highest}")
            });
            self.checks.push(Check { name, condition, enforced });
        }
    }

    /// Renames generated names along with their table.
    pub(crate) fn rename_generated(&mut self, old_table: &str, new_table: &str) {
        let stem = format!("{old_table}_chk_");
        for check in &mut self.checks {
            if let Some(number) = check.name.strip_prefix(stem.as_str()).filter(|rest| rest.parse::<u32>().is_ok()) {
                check.name = format!("{new_table}_chk_{number}");
            }
        }
    }

    /// The checks of a table made LIKE this one: all get generated names, in the order of the names they had.
    pub(crate) fn like(&self, table: &str) -> DeclaredTable {
        let mut checks = self.checks.clone();
        checks.sort_by_key(|check| check.name.to_lowercase());
        let unnamed = |Check { condition, enforced, .. }| CheckSpec { name: None, condition, enforced };
        let mut like = DeclaredTable { options: self.options.clone(), checks: Vec::new() };
        like.add_checks(table, checks.into_iter().map(unnamed));
        like
    }

    /// Drops the checks that read a column that is gone. The source refuses to drop a column that another one shares a
    /// check with.
    pub(crate) fn column_gone(&mut self, column: &str) {
        let reads = |check: &Check| {
            let (names, _) = expression::names_and_charsets(check.condition.as_deref().unwrap_or_default());
            names.iter().any(|name| crate::table::same_name(name, column))
        };
        self.checks.retain(|check| !reads(check));
    }
}

/// A CHECK clause as parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckSpec {
    pub(crate) name: Option<String>,
    /// In the source's spelling, if that is known.
    pub(crate) condition: Option<String>,
    pub(crate) enforced: bool,
}

/// JSON as the source prints it: blanks after commas and colons, keys by length, then by bytes. None for text that is
/// no JSON.
pub(crate) fn json_text(text: &str) -> Option<String> {
    fn print(value: &serde_json::Value, out: &mut String) {
        use serde_json::Value;
        match value {
            Value::Array(list) => {
                out.push('[');
                for (at, one) in list.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    print(one, out);
                }
                out.push(']');
            }
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| (name.len(), name.as_str()));
                out.push('{');
                for (at, (name, value)) in fields.into_iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    out.push_str(&Value::from(name.as_str()).to_string());
                    out.push_str(": ");
                    print(value, out);
                }
                out.push('}');
            }
            other => out.push_str(&other.to_string()),
        }
    }
    let value = serde_json::from_str(text).ok()?;
    let mut out = String::new();
    print(&value, &mut out);
    Some(out)
}
