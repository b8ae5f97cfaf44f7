//! A table of results for a terminal.
//!
//! In: a head and rows of text. Out: lines with columns as wide as their cells, numbers to the right. Never
//! here: a number's digits.

use std::fmt;

/// Rows of equally many cells, the first of which is the head.
#[derive(Clone, Debug)]
pub struct Table<const N: usize>(Vec<[String; N]>);

impl<const N: usize> Table<N> {
    #[must_use]
    pub fn new(head: [&str; N]) -> Table<N> {
        Table(vec![head.map(str::to_owned)])
    }

    pub fn row(&mut self, cells: [String; N]) {
        self.0.push(cells);
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = |at: usize| self.0.iter().filter_map(move |row| row.get(at));
        let width = |at: usize| column(at).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let is_number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || "~-+".contains(c));
        let columns: [(usize, bool); N] = std::array::from_fn(|at| (width(at), column(at).skip(1).all(is_number)));
        for row in &self.0 {
            let cells = row.iter().zip(columns).map(|(cell, (width, is_right))| match is_right {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells_and_numbers_stand_to_the_right() {
        let mut table = Table::new(["contender", "s", "× ours", "in order"]);
        table.row(["slipstream".into(), "0.5".into(), "-".into(), "yes".into()]);
        table.row(["mysql".into(), "12.25".into(), "~24.5".into(), "-".into()]);
        let wanted = "contender       s  × ours  in order\n\
                      slipstream    0.5       -  yes\n\
                      mysql       12.25   ~24.5  -\n";
        assert_eq!(table.to_string(), wanted);
    }
}
