//! Consistency conditions 3.3.2.1 to 3.3.2.4, as queries that any MySQL-protocol server answers.

use std::fmt;

use anyhow::{Context, Result};

use super::TpccOptions;
use super::session::Session;

/// Maximum offending rows shown per condition.
const SHOWN_MAX: usize = 5;

/// Result of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub name: &'static str,
    /// Number of warehouses or districts checked.
    pub checked: u64,
    /// Number of them that violate it.
    pub broken: u64,
    /// The first few violations, as text.
    pub examples: Vec<String>,
}

/// Results of the four conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// In the specification's order.
    pub conditions: Vec<Condition>,
}

impl CheckReport {
    /// True if all conditions hold, for at least one warehouse.
    pub fn is_consistent(&self) -> bool {
        self.conditions.iter().all(|condition| condition.broken == 0 && condition.checked > 0)
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for condition in &self.conditions {
            let verdict = match (condition.checked, condition.broken) {
                (0, _) => "NOTHING TO CHECK",
                (_, 0) => "holds",
                _ => "BROKEN",
            };
            writeln!(
                f,
                "{:<70} {verdict} ({} checked, {} broken)",
                condition.name, condition.checked, condition.broken
            )?;
            for example in &condition.examples {
                writeln!(f, "    {example}")?;
            }
        }
        Ok(())
    }
}

/// (name, SELECT of the values to compare: key columns, left, right)
const CONDITIONS: [(&str, &str); 4] = [
    (
        "3.3.2.1  W_YTD = sum(D_YTD)",
        "SELECT w_id, w_ytd AS lhs, SUM(d_ytd) AS rhs FROM warehouse LEFT JOIN district ON d_w_id = w_id GROUP BY w_id, w_ytd",
    ),
    (
        "3.3.2.2  D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        // A district whose orders are all delivered has no NEW-ORDER row to compare.
        "SELECT d_w_id, d_id, CONCAT(d_next_o_id - 1, ' ', d_next_o_id - 1) AS lhs, \
         CONCAT(COALESCE(o_max, 0), ' ', COALESCE(no_max, d_next_o_id - 1)) AS rhs FROM district \
         LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS o_max FROM orders GROUP BY o_w_id, o_d_id) o \
         ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS no_max FROM new_order GROUP BY no_w_id, no_d_id) n \
         ON no_w_id = d_w_id AND no_d_id = d_id",
    ),
    (
        "3.3.2.3  max(NO_O_ID) - min(NO_O_ID) + 1 = rows in NEW-ORDER",
        "SELECT d_w_id, d_id, COALESCE(no_span, 0) AS lhs, COALESCE(no_rows, 0) AS rhs FROM district \
         LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) - MIN(no_o_id) + 1 AS no_span, COUNT(*) AS no_rows \
         FROM new_order GROUP BY no_w_id, no_d_id) n ON no_w_id = d_w_id AND no_d_id = d_id",
    ),
    (
        "3.3.2.4  sum(O_OL_CNT) = rows in ORDER-LINE",
        "SELECT d_w_id, d_id, COALESCE(ol_sum, 0) AS lhs, COALESCE(ol_rows, 0) AS rhs FROM district \
         LEFT JOIN (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS ol_sum FROM orders GROUP BY o_w_id, o_d_id) o \
         ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS ol_rows FROM order_line GROUP BY ol_w_id, ol_d_id) l \
         ON ol_w_id = d_w_id AND ol_d_id = d_id",
    ),
];

pub(crate) fn check(options: &TpccOptions) -> Result<CheckReport> {
    let server = options.connect_options()?;
    let mut session =
        Session::connect(&server, Some(&options.database), &options.session_variables).context("connecting")?;
    // One snapshot for all four, so that a check during a load is sound.
    session.text("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
    let mut conditions = Vec::new();
    for (name, sql) in CONDITIONS {
        conditions.push(judge(name, session.table(sql)?));
    }
    session.text("COMMIT")?;
    Ok(CheckReport { conditions })
}

fn judge(name: &'static str, rows: Vec<Vec<String>>) -> Condition {
    let checked = rows.len() as u64;
    let mut broken = 0;
    let mut examples = Vec::new();
    for row in &rows {
        let [key @ .., left, right] = row.as_slice() else { continue };
        if left != right {
            broken += 1;
            if examples.len() < SHOWN_MAX {
                examples.push(format!("warehouse/district {}: {left} <> {right}", key.join("/")));
            }
        }
    }
    Condition { name, checked, broken, examples }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_counted_and_shown() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let condition = judge("x", vec![row(["1", "5.00", "5.00"]), row(["2", "5.00", "5.01"])]);
        assert_eq!((condition.checked, condition.broken), (2, 1));
        assert_eq!(condition.examples, ["warehouse/district 2: 5.00 <> 5.01"]);
        let report = CheckReport { conditions: vec![condition] };
        assert!(!report.is_consistent());
        assert!(report.to_string().contains("BROKEN"));
    }

    #[test]
    fn nothing_to_check_is_not_consistent() {
        assert!(!CheckReport { conditions: vec![judge("x", Vec::new())] }.is_consistent());
    }
}
