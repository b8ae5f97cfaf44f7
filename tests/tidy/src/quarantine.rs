//! The tests in quarantine: how many, since when, and which may not stand there.
//!
//! In: `tests/quarantine.md`, the date of the newest commit. Out: faults. Never here: the test run again.

use jiff::civil::Date;

use crate::{Fault, Repository, fault};

const FILE: &str = "tests/quarantine.md";
/// Most tests that may stand there: more are no gate.
pub const TESTS_MAX: usize = 5;
/// How long one may stand there, days of commits.
pub const DAYS_MAX: i32 = 7;
/// Modules whose tests never stand there: what they look for is rare by nature, and fatal.
pub const NEVER: [&str; 5] = ["kills", "power_cuts", "relay_power_cuts", "shadow", "planted"];

/// Faults of the list, with the newest commit at this date (`YYYY-MM-DD`).
#[must_use]
pub fn quarantine(repository: &Repository, newest_commit: &str) -> Vec<Fault> {
    let Some(file) = repository.file(FILE) else { return vec![format!("{FILE}: no such document")] };
    let (mut faults, mut tests) = (Vec::new(), 0);
    for (number, line) in file.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [date, test, log, suspect] = cells.as_slice() else { continue };
        if matches!(*date, "Date" | "---") {
            continue;
        }
        tests += 1;
        match (date.parse::<Date>(), newest_commit.parse::<Date>()) {
            (Ok(since), Ok(now)) if (now - since).get_days() < DAYS_MAX => {}
            (Ok(_), Ok(_)) => faults.push(fault(FILE, number, format!("{test} stands here for {DAYS_MAX} days"))),
            _ => faults.push(fault(FILE, number, format!("'{date}' and '{newest_commit}' are not both dates"))),
        }
        if NEVER.iter().any(|never| test.split("::").any(|part| part == *never)) {
            faults.push(fault(FILE, number, format!("{test} may not stand here")));
        }
        if !repository.paths.contains(*log) {
            faults.push(fault(FILE, number, format!("no file {log}: the failure's output")));
        }
        if suspect.split_whitespace().count() < 3 {
            faults.push(fault(FILE, number, "what is suspected is not said"));
        }
    }
    if tests > TESTS_MAX {
        faults.push(format!("{FILE}: {tests} tests; {TESTS_MAX} at most"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::File;

    fn of(lines: &[&str], now: &str) -> Vec<Fault> {
        let text = format!("| Date | Test | Log | Suspect |\n|---|---|---|---|\n{}\n", lines.join("\n"));
        let paths = ["tests/quarantined/a.log".to_owned()].into_iter().collect();
        let files = vec![File { path: FILE.to_owned(), text }];
        quarantine(&Repository { files, paths }, now)
    }

    #[test]
    fn what_may_not_stand_there_is_told() {
        const LOG: &str = "tests/quarantined/a.log";
        let line = |date: &str, test: &str| format!("| {date} | {test} | {LOG} | two statuses compared |");
        let good = line("2026-12-28", "relay::files_are_held");
        assert_eq!(of(&[&good], "2027-01-03"), Vec::<Fault>::new());
        assert_eq!(of(&[&good], "2027-01-04").len(), 1, "seven days");
        assert_eq!(of(&[&line("2026-02-27", "a::b")], "2026-03-05"), Vec::<Fault>::new());
        assert_eq!(of(&[&line("2026-02-27", "a::b")], "2026-03-06").len(), 1);
        assert_eq!(of(&[&line("2026-12-28", "kills::one")], "2026-12-28").len(), 1);
        assert_eq!(of(&[&line("soon", "a::b")], "2026-12-28").len(), 1);
        assert_eq!(of(&["| 2026-12-28 | a::b | none.log | |"], "2026-12-28").len(), 2);
        assert_eq!(of(&[good.as_str(); 5], "2026-12-28"), Vec::<Fault>::new());
        assert_eq!(of(&[good.as_str(); 6], "2026-12-28"), ["tests/quarantine.md: 6 tests; 5 at most"]);
    }
}
