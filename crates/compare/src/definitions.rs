//! `dump --definitions`: views, routines, triggers, events, users and grants as the statements that created them.
//!
//! In: a catalog. Out: a script for the mysql client that sets the session as it was for each statement. Never here:
//! tables, rows; a guarantee that a view comes after the objects it reads.

use std::collections::HashSet;
use std::io::Write;

use catalog::{Catalog, Definition, DefinitionKind, Recorded};

use crate::error::CompareError;
use crate::shape::quoted;

/// Statement delimiters; the first one that the statement does not contain is used.
const DELIMITERS: [&str; 3] = [";;", "$$", "//end of statement//"];

/// Writes all definitions and returns their number.
///
/// # Errors
/// If the output cannot be written.
pub fn dump_definitions(catalog: &Catalog, executed: &str, out: &mut dyn Write) -> Result<u64, CompareError> {
    writeln!(out, "-- Slipstream definitions: what the log, or the initial copy, said last of each object.")?;
    writeln!(
        out,
        "-- Users come with what their passwords are checked against: keep this text as safe as the server's."
    )?;
    writeln!(out, "-- GTID set: {}", executed.replace('\n', ""))?;
    // Statements about several accounts are written once.
    let mut written = HashSet::new();
    // Grants of roles name other accounts, so all accounts come first, then their grants.
    let is_user = |one: &&std::sync::Arc<Definition>| one.kind == DefinitionKind::User;
    for one in catalog.definitions().filter(is_user) {
        head(one, out)?;
        statements(one, one.made.as_slice(), &mut written, out)?;
    }
    for one in catalog.definitions().filter(is_user).filter(|one| !one.later.is_empty()) {
        head(one, out)?;
        statements(one, &one.later, &mut written, out)?;
    }
    for one in catalog.definitions().filter(|one| !is_user(one)) {
        head(one, out)?;
        statements(one, one.made.as_slice(), &mut written, out)?;
        statements(one, &one.later, &mut written, out)?;
    }
    let count = catalog.definitions().count() as u64;
    out.flush()?;
    Ok(count)
}

fn head(one: &Definition, out: &mut dyn Write) -> Result<(), CompareError> {
    let name = if one.db.is_empty() { one.name.clone() } else { format!("{}.{}", quoted(&one.db), quoted(&one.name)) };
    writeln!(out, "\n-- {} {}", one.kind.name(), name.replace(['\n', '\r'], " "))?;
    if one.made.is_none() {
        writeln!(out, "-- It was there before the log began; only what changed it since is known.")?;
    }
    Ok(())
}

fn statements(
    one: &Definition,
    recorded: &[Recorded],
    written: &mut HashSet<(String, String)>,
    out: &mut dyn Write,
) -> Result<(), CompareError> {
    for recorded in recorded {
        if written.insert((recorded.gtid.clone(), recorded.text.clone())) {
            statement(one, recorded, out)?;
        } else {
            writeln!(out, "-- {}: above", source_of(recorded))?;
        }
    }
    Ok(())
}

fn source_of(recorded: &Recorded) -> String {
    if recorded.gtid.is_empty() { "from the initial copy".to_owned() } else { format!("GTID {}", recorded.gtid) }
}

fn statement(one: &Definition, recorded: &Recorded, out: &mut dyn Write) -> Result<(), CompareError> {
    writeln!(out, "-- {}", source_of(recorded))?;
    let known = |text: &str| if text.is_empty() { "?".to_owned() } else { text.to_owned() };
    writeln!(
        out,
        "-- character_set_client {}, collation_connection {}, the database's collation {}",
        known(&recorded.client_charset),
        known(&recorded.connection_collation),
        known(&recorded.database_collation)
    )?;
    // The script is utf8mb4. For ASCII text the original client character set works, too, and is kept with the object.
    let client = if recorded.text.is_ascii() && !recorded.client_charset.is_empty() {
        recorded.client_charset.as_str()
    } else {
        "utf8mb4"
    };
    writeln!(out, "SET NAMES {client};")?;
    if !recorded.connection_collation.is_empty() {
        writeln!(out, "SET collation_connection = {};", recorded.connection_collation)?;
    }
    writeln!(out, "SET sql_mode = '{}';", recorded.sql_mode)?;
    if !recorded.time_zone.is_empty() {
        writeln!(out, "SET time_zone = '{}';", recorded.time_zone.replace('\'', ""))?;
    }
    let db = if recorded.default_db.is_empty() { &one.db } else { &recorded.default_db };
    if !db.is_empty() {
        writeln!(out, "USE {};", quoted(db))?;
    }
    let text = recorded.text.trim_end().trim_end_matches(';');
    let end = DELIMITERS.iter().find(|end| !text.contains(**end)).unwrap_or(&";;");
    writeln!(out, "DELIMITER {end}\n{text}\n{end}\nDELIMITER ;")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use catalog::StatementContext;

    use super::*;

    #[test]
    fn each_under_its_own_settings() {
        let mut catalog = Catalog::new(0);
        for (gtid, sql) in [
            ("g:1", "CREATE DATABASE d COLLATE latin1_bin"),
            ("g:2", "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT ';;'; END"),
            ("g:3", "CREATE USER a, b"),
            ("g:4", "GRANT SELECT ON d.* TO a"),
            ("g:5", "ALTER EVENT e DISABLE"),
        ] {
            let context = StatementContext {
                default_db: "d".into(),
                gtid: gtid.into(),
                sql_mode: 4,
                collation_client: Some(8),
                collation_connection: Some(47),
                ..StatementContext::default()
            };
            catalog = catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
        }
        let mut out = Vec::new();
        assert_eq!(dump_definitions(&catalog, "g:1-5", &mut out).unwrap(), 4);
        let text = String::from_utf8(out).unwrap();
        let procedure = "-- PROCEDURE `d`.`p`\n-- GTID g:2\n\
             -- character_set_client latin1, collation_connection latin1_bin, the database's collation latin1_bin\n\
             SET NAMES latin1;\nSET collation_connection = latin1_bin;\nSET sql_mode = 'ANSI_QUOTES';\nUSE `d`;\n\
             DELIMITER $$\nCREATE PROCEDURE p() BEGIN SELECT 1; SELECT ';;'; END\n$$\nDELIMITER ;\n";
        assert!(text.contains(procedure), "{text}");
        assert_eq!(text.matches("CREATE USER a, b").count(), 1);
        assert!(text.contains("-- GTID g:3: above") && text.contains("GRANT SELECT"), "{text}");
        assert!(text.contains("before the log began"), "{text}");
    }
}
