//! MySQL's collations: id, name, character set, maximum bytes a character.
//!
//! In: an id from a table map, or a name from DDL. Out: `Collation`. Never here: weights, comparison.

use crate::collation_data::{CHARSET_DEFAULTS, COLLATIONS};

/// Collation id of binary strings.
pub const BINARY: u16 = 63;
/// Id of utf8mb4_0900_ai_ci, the default since MySQL 8.0.
pub const UTF8MB4_0900_AI_CI: u16 = 255;

/// One of the server's collations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collation {
    /// The server's number for it, as in table maps and column definitions.
    pub id: u16,
    /// For example `utf8mb4_0900_ai_ci`.
    pub name: &'static str,
    /// For example `utf8mb4`.
    pub charset: &'static str,
    /// Maximum length of a character in bytes.
    pub mbmaxlen: u8,
}

/// Looks up a collation by id.
#[must_use]
pub fn by_id(id: u16) -> Option<Collation> {
    COLLATIONS.binary_search_by_key(&id, |c| c.id).ok().and_then(|at| COLLATIONS.get(at)).copied()
}

/// Looks up a collation by name, ignoring case. `utf8_…`, the name before 8.0.30, means `utf8mb3_…`.
#[must_use]
pub fn by_name(name: &str) -> Option<Collation> {
    let find = |prefix: &str, rest: &str| {
        COLLATIONS.iter().copied().find(|c| {
            c.name.len() == prefix.len() + rest.len()
                && c.name.get(..prefix.len()).is_some_and(|p| p.eq_ignore_ascii_case(prefix))
                && c.name.get(prefix.len()..).is_some_and(|r| r.eq_ignore_ascii_case(rest))
        })
    };
    match name.get(..5) {
        Some(prefix) if prefix.eq_ignore_ascii_case("utf8_") => find("utf8mb3_", name.get(5..)?),
        _ => find("", name),
    }
}

/// Default collation of a character set, looked up ignoring case. `utf8` means `utf8mb3`. A server with another
/// `default_collation_for_utf8mb4` writes that setting into its Query events.
#[must_use]
pub fn charset_default(name: &str) -> Option<Collation> {
    let name = if name.eq_ignore_ascii_case("utf8") { "utf8mb3" } else { name };
    CHARSET_DEFAULTS.iter().find(|(charset, _)| charset.eq_ignore_ascii_case(name)).and_then(|(_, id)| by_id(*id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_consistent() {
        assert!(COLLATIONS.windows(2).all(|pair| pair[0].id < pair[1].id));
        for c in COLLATIONS {
            assert_eq!(by_id(c.id), Some(*c));
            assert_eq!(by_name(c.name), Some(*c));
            assert_eq!(charset_default(c.charset).unwrap().charset, c.charset);
        }
        assert!(CHARSET_DEFAULTS.iter().all(|(charset, id)| by_id(*id).unwrap().charset == *charset));
    }

    #[test]
    fn well_known_names() {
        assert_eq!(by_id(255).unwrap().name, "utf8mb4_0900_ai_ci");
        assert_eq!(by_name("UTF8_general_ci").unwrap().id, 33);
        assert_eq!(by_name("latin1_swedish_ci").unwrap().id, 8);
        assert_eq!(charset_default("UTF8").unwrap().id, 33);
        assert_eq!(charset_default("utf8mb4").unwrap().mbmaxlen, 4);
        assert_eq!(charset_default("binary").unwrap().id, BINARY);
        assert_eq!(by_name("utf8"), None);
        assert_eq!(by_name("nonsense_ci"), None);
        assert_eq!(by_id(0), None);
    }
}
