//! `dump --definitions`: accounts, libraries, routines, views, triggers and events as statements that make them.
//!
//! In: a catalog. Out: a script for the mysql client that sets the session as it was for each statement. Never here:
//! tables, rows; a guarantee that a view comes after the objects it reads; a statement that a client could take for
//! several (`client_split`), other than as comments.

use std::io::Write;
use std::sync::Arc;

use catalog::{Catalog, Definition, DefinitionKind, Recorded};

use crate::client_split::{READ_AS_UTF8, Reading, as_comments, comment_safe, delimiter_for, hazard, use_statement};
use crate::error::CompareError;
use crate::shape::quoted;

/// Result of a dump of definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionsReport {
    pub objects: u64,
    /// Statements that are written as comments: kind and name of the object, and why.
    pub as_comments: Vec<String>,
    /// Objects that may be otherwise at the source, which has not been asked yet: kind and name, and why.
    pub unsettled: Vec<String>,
}

/// Writes all definitions.
///
/// # Errors
/// If the output cannot be written.
pub fn dump_definitions(
    catalog: &Catalog,
    executed: &str,
    out: &mut dyn Write,
) -> Result<DefinitionsReport, CompareError> {
    writeln!(out, "-- Slipstream definitions: each object as the source has it at this GTID set.")?;
    writeln!(out, "-- Users come with their password hashes: keep this text as safe as the server's.")?;
    writeln!(out, "-- GTID set: {}", comment_safe(&executed.replace('\n', "")))?;
    let mut unsettled = Vec::new();
    for one in catalog.unsettled_definitions() {
        let called = comment_safe(&called(one.kind, &one.db, &one.name));
        writeln!(out, "-- Not settled: {called}: {}", comment_safe(&one.why))?;
        unsettled.push(format!("{called} ({})", comment_safe(&one.why)));
    }
    writeln!(out, "{READ_AS_UTF8}")?;
    let all = || catalog.definitions().flat_map(|one| one.made.iter().chain(one.later.iter()));
    let delimiter = delimiter_for(all().map(|recorded| recorded.text.as_str()));
    let report = DefinitionsReport { unsettled, ..DefinitionsReport::default() };
    let mut writer = Writer { delimiter, out, report };
    // Grants name other accounts, and programs.
    let is_user = |one: &&Arc<Definition>| one.kind == DefinitionKind::User;
    for one in catalog.definitions().filter(is_user) {
        writer.object(one, one.made.iter())?;
    }
    let mut others: Vec<&Arc<Definition>> = catalog.definitions().filter(|one| !is_user(one)).collect();
    others.sort_by_key(|one| (one.kind, one.order));
    for one in others {
        writer.object(one, one.made.iter())?;
        writer.statements(one, one.later.iter())?;
    }
    for one in catalog.definitions().filter(is_user).filter(|one| !one.later.is_empty()) {
        writer.object(one, one.later.iter())?;
    }
    let Writer { out, mut report, .. } = writer;
    report.objects = catalog.definitions().count() as u64;
    out.flush()?;
    Ok(report)
}

struct Writer<'a> {
    /// No text holds it, or a routine's author could end the statement.
    delimiter: String,
    out: &'a mut dyn Write,
    report: DefinitionsReport,
}

impl Writer<'_> {
    fn object<'r>(
        &mut self,
        one: &Definition,
        recorded: impl Iterator<Item = &'r Recorded>,
    ) -> Result<(), CompareError> {
        writeln!(self.out, "\n-- {}", comment_safe(&called_of(one)))?;
        if one.made.is_none() {
            writeln!(self.out, "-- It existed before the log began; only later changes are known.")?;
        }
        self.statements(one, recorded)
    }

    fn statements<'r>(
        &mut self,
        one: &Definition,
        mut recorded: impl Iterator<Item = &'r Recorded>,
    ) -> Result<(), CompareError> {
        recorded.try_for_each(|recorded| self.statement(one, recorded))
    }

    fn statement(&mut self, one: &Definition, recorded: &Recorded) -> Result<(), CompareError> {
        writeln!(self.out, "-- {}", source_of(recorded))?;
        let known = |text: &str| if text.is_empty() { "?".to_owned() } else { comment_safe(text) };
        writeln!(
            self.out,
            "-- character_set_client {}, collation_connection {}, the database's collation {}",
            known(&recorded.client_charset),
            known(&recorded.connection_collation),
            known(&recorded.database_collation)
        )?;
        let text = recorded.text.trim_end().trim_end_matches(';');
        let db = if recorded.default_db.is_empty() { &one.db } else { &recorded.default_db };
        let foreign = not_of_a_server(recorded).or_else(|| hazard(text, Reading::of_definition(&recorded.sql_mode)));
        if let Some(why) = foreign.or_else(|| hazard(&quoted(db), Reading::of_own())) {
            self.report.as_comments.push(format!("{} ({why})", comment_safe(&called_of(one))));
            writeln!(self.out, "-- Do not run it as it is: {why}. sql_mode {}", known(&recorded.sql_mode))?;
            self.out.write_all(as_comments(text).as_bytes())?;
            return Ok(());
        }
        // Names and text are UTF-8. For ASCII text the original client character set works, too, and is kept with the
        // object.
        writeln!(self.out, "SET NAMES utf8mb4;")?;
        if !db.is_empty() {
            writeln!(self.out, "{}", use_statement(db))?;
        }
        if text.is_ascii() && !recorded.client_charset.is_empty() && recorded.client_charset != "utf8mb4" {
            writeln!(self.out, "SET NAMES {};", recorded.client_charset)?;
        }
        if !recorded.connection_collation.is_empty() {
            writeln!(self.out, "SET collation_connection = {};", recorded.connection_collation)?;
        }
        // Under --force a mode that the server lacks must not leave the one before in place.
        writeln!(self.out, "SET sql_mode = '';")?;
        if !recorded.sql_mode.is_empty() {
            writeln!(self.out, "SET sql_mode = '{}';", recorded.sql_mode)?;
        }
        if !recorded.time_zone.is_empty() {
            writeln!(self.out, "SET time_zone = '{}';", recorded.time_zone)?;
        }
        // An event's schedule counts from the moment of the statement.
        if let Some(moment) = recorded.timestamp_us {
            writeln!(self.out, "SET timestamp = {};", moment / 1_000_000)?;
        }
        writeln!(self.out, "DELIMITER {0}\n{text}\n{0}\nDELIMITER ;", self.delimiter)?;
        if recorded.timestamp_us.is_some() {
            writeln!(self.out, "SET timestamp = DEFAULT;")?;
        }
        Ok(())
    }
}

fn called_of(one: &Definition) -> String {
    called(one.kind, &one.db, &one.name)
}

fn called(kind: DefinitionKind, db: &str, name: &str) -> String {
    let name = match (db, name) {
        ("", "") => "of any name".to_owned(),
        ("", name) => name.to_owned(),
        (db, name) => format!("{}.{}", quoted(db), quoted(name)),
    };
    format!("{} {name}", kind.name())
}

fn source_of(recorded: &Recorded) -> String {
    if recorded.gtid.is_empty() {
        "read from the source, or logged without a GTID".to_owned()
    } else {
        format!("GTID {}", comment_safe(&recorded.gtid))
    }
}

/// What no server calls a setting so. A copy takes them from the source as they are.
fn not_of_a_server(recorded: &Recorded) -> Option<&'static str> {
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name(&recorded.client_charset) || !is_name(&recorded.connection_collation) {
        return Some("the name of its character set or collation");
    }
    if !recorded.sql_mode.split(',').all(is_name) {
        return Some("its sql_mode");
    }
    let of_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-:/".contains(&byte);
    (!recorded.time_zone.bytes().all(of_zone)).then_some("its time_zone")
}

#[cfg(test)]
mod tests {
    use catalog::{Later, StatementContext};

    use super::*;

    #[test]
    fn each_under_its_own_settings() {
        let mut catalog = Catalog::new(0);
        for (gtid, sql) in [
            ("g:1", "CREATE DATABASE d COLLATE latin1_bin"),
            ("g:2", "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT ';;'; END"),
            ("g:3", "CREATE ROLE b, a"),
            ("g:4", "GRANT EXECUTE ON PROCEDURE d.p TO a"),
            ("g:5", "ALTER EVENT e DISABLE"),
            ("g:6", "CREATE EVENT f ON SCHEDULE EVERY 1 DAY DO SELECT 1"),
            ("g:7", "CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1"),
            ("g:8", "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW FOLLOWS b SET NEW.a = 2"),
        ] {
            let context = StatementContext {
                default_db: "d".into(),
                gtid: gtid.into(),
                sql_mode: 4,
                collation_client: Some(8),
                collation_connection: Some(47),
                timestamp_us: Some(1_700_000_000_900_000),
                ..StatementContext::default()
            };
            catalog = catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
        }
        let mut out = Vec::new();
        let report = dump_definitions(&catalog, "g:1-8", &mut out).unwrap();
        let unsettled = vec!["EVENT `d`.`e` (it may be older than the log)".to_owned()];
        assert_eq!(report, DefinitionsReport { objects: 6, as_comments: Vec::new(), unsettled });
        let text = String::from_utf8(out).unwrap();
        let procedure = "-- PROCEDURE `d`.`p`\n-- GTID g:2\n\
             -- character_set_client latin1, collation_connection latin1_bin, the database's collation latin1_bin\n\
             SET NAMES utf8mb4;\nUSE `d`;\nSET NAMES latin1;\nSET collation_connection = latin1_bin;\n\
             SET sql_mode = '';\nSET sql_mode = 'ANSI_QUOTES';\n\
             DELIMITER //\nCREATE PROCEDURE `d`.`p`() BEGIN SELECT 1; SELECT ';;'; END\n//\nDELIMITER ;\n";
        assert!(text.contains(procedure), "{text}");
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        // Accounts before what names them, grants after what they are on, triggers in the order in which they run.
        let places = [
            "-- Not settled: EVENT `d`.`e`: it may be older than the log\n",
            "CREATE USER `a`@`%`",
            "CREATE USER `b`@`%`",
            "CREATE PROCEDURE",
            "CREATE TRIGGER `d`.`b` BEFORE INSERT ON `d`.`t` FOR EACH ROW SET NEW.a = 1",
            "CREATE TRIGGER `d`.`a` BEFORE INSERT ON `d`.`t` FOR EACH ROW  SET NEW.a = 2",
            "SET timestamp = 1700000000;\nDELIMITER //\nCREATE EVENT `d`.`f` ON SCHEDULE EVERY 1 DAY DO SELECT 1\n//\nDELIMITER ;\n\
             SET timestamp = DEFAULT;\n",
            "GRANT EXECUTE ON PROCEDURE `d`.`p` TO `a`@`%`",
        ];
        assert!(places.map(at).is_sorted(), "{text}");
    }

    /// Texts, settings and names that would run something where they are loaded.
    #[test]
    fn what_a_client_could_split_is_a_comment() {
        let made = |name: &str, recorded: Recorded| Definition {
            kind: DefinitionKind::Procedure,
            db: "d".into(),
            name: name.into(),
            table: None,
            made: Some(recorded),
            later: Later::default(),
            order: None,
        };
        let recorded = |text: &str| Recorded { text: text.into(), ..Recorded::default() };
        let hidden =
            "CREATE PROCEDURE p() SELECT 1 AS \"a\\\" -- \"\n;; CREATE USER pwned;; -- $$ //end of statement//";
        let good = "CREATE PROCEDURE q() SELECT ';; $$ //end of statement//'";
        let all = vec![
            made("p", Recorded { sql_mode: "ANSI_QUOTES".into(), ..recorded(hidden) }),
            made("q\n\u{1b}CREATE USER pwned", recorded(good)),
            made(
                "r",
                Recorded { time_zone: "\\'; CREATE USER pwned".into(), ..recorded("CREATE PROCEDURE r() SELECT 1") },
            ),
            made(
                "s",
                Recorded {
                    client_charset: "latin1; CREATE USER pwned".into(),
                    ..recorded("CREATE PROCEDURE s() SELECT 1")
                },
            ),
            made("t", Recorded { sql_mode: "'; CREATE USER pwned; '".into(), ..recorded(good) }),
            made("u", Recorded { default_db: "x\\\nCREATE USER pwned".into(), ..recorded(good) }),
            // The same text in another database.
            Definition { db: "e".into(), ..made("q", Recorded { default_db: "e".into(), ..recorded(good) }) },
        ];
        let mut out = Vec::new();
        let catalog = Catalog::new(0).with_definitions(all, false);
        let report = dump_definitions(&catalog, "", &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(report.objects, 7);
        assert_eq!(report.as_comments.len(), 5, "{report:?}");
        assert!(report.as_comments[0].starts_with("PROCEDURE `d`.`p` (a backslash before a quote"), "{report:?}");
        for line in text.lines().filter(|line| line.contains("pwned")) {
            assert!(line.starts_with("-- "), "{line}");
        }
        assert!(text.contains(&format!("DELIMITER //1//\n{good}\n//1//\nDELIMITER ;\n")), "{text}");
        assert!(!text.contains('\u{1b}'));
        assert_eq!(text.matches(&format!("\n{good}\n")).count(), 2, "{text}");
    }
}
