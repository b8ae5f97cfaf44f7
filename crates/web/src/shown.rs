//! What the page may show of a report: no key values, no text of statements.
//!
//! In: a status report. Out: the same with names in place of texts that may quote rows. Never here: a text of an error;
//! its GTID, table and way on have no value of a row.

use observe::{ErrorReport, StatusReport};

/// The report without what may come from rows or statements; `words` says what kind of error it is.
pub(crate) fn without_rows(mut report: StatusReport, words: &dyn Fn(&ErrorReport) -> String) -> StatusReport {
    for list in [&mut report.replay.quarantined, &mut report.replay.drifted, &mut report.replay.damaged] {
        list.iter_mut().for_each(|text| *text = subject(text).to_owned());
    }
    let errors = [&mut report.last_error, &mut report.last_io_error, &mut report.last_sql_error];
    for error in errors.into_iter().flatten() {
        error.text = words(error);
    }
    report
}

/// What a text is about: the quoted table or the file that it begins with.
fn subject(text: &str) -> &str {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '`' => quoted = !quoted,
            ':' | ',' | ' ' if !quoted => return &text[..at],
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_keep_their_names_only() {
        assert_eq!(subject("`a b`.`c:``d`: the row (1, 'secret')"), "`a b`.`c:``d`");
        assert_eq!(subject("`a`.`b`, 3 rows: id = 7"), "`a`.`b`");
        assert_eq!(subject("store/tables/17: checksum"), "store/tables/17");
        assert_eq!(subject("alone"), "alone");
    }

    #[test]
    fn errors_keep_number_time_and_kind() {
        let mut report = StatusReport::default();
        let text = "row 'secret' of INSERT INTO t VALUES ('secret')".to_owned();
        let error =
            ErrorReport { exit: 9, number: Some(1032), text, way_on: Some("skip".into()), ..Default::default() };
        (report.last_error, report.last_io_error) = (Some(error.clone()), Some(error.clone()));
        report.last_sql_error = Some(error);
        report.replay.drifted = vec!["`d`.`t`: 1 row, secret".to_owned()];
        let shown = without_rows(report, &|error| format!("code {}", error.exit));
        let json = shown.to_json();
        assert!(!json.contains("secret") && json.contains("code 9") && json.contains("1032"), "{json}");
        assert!(json.contains("\"skip\""), "{json}");
    }
}
