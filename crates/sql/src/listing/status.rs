//! The status variables of a MySQL 9.7.

use std::sync::OnceLock;

static RECORDED: &str = include_str!("../status.tsv");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusVariable {
    pub name: &'static str,
    /// Whether it is one of the server.
    pub global: bool,
    /// Whether `performance_schema` has it too.
    pub in_tables: bool,
    /// Its value where nothing of the kind has happened.
    pub nothing: &'static str,
}

/// All status variables, in MySQL's order.
pub fn status_variables() -> &'static [StatusVariable] {
    static ALL: OnceLock<Vec<StatusVariable>> = OnceLock::new();
    ALL.get_or_init(|| RECORDED.lines().filter(|line| !line.starts_with('#')).filter_map(of_line).collect())
}

fn of_line(line: &'static str) -> Option<StatusVariable> {
    let mut cells = line.split('\t');
    let (name, marks) = (cells.next()?, cells.next()?);
    let nothing = cells.next()?;
    Some(StatusVariable { name, global: marks.contains('g'), in_tables: marks.contains('t'), nothing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_variable() {
        let lines = RECORDED.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(status_variables().len(), lines);
        let uptime = status_variables().iter().find(|variable| variable.name == "Uptime").unwrap();
        assert!(uptime.global && uptime.in_tables && lines > 400);
    }
}
