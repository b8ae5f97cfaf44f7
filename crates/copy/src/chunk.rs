//! Division of a table into ranges of its identifying key, so that several connections can share it.
//!
//! In: a table's definition; values of key columns as the source prints them. Out: SQL that finds the end of the next
//! range, and SQL that reads the range. Never here: I/O; comparison of keys, which the source orders by its collations.
//!
//! A range is `after < key <= upto` in index order, over the longest run of leading key columns whose values can be
//! written as exact literals. The predicate has the OR form, which MySQL's range optimizer turns into one interval; it
//! would not do so with a row constructor.
//!
//! The query for a range's end reads the range's keys. For a key of one integer column it is not needed: ends are
//! chosen by arithmetic, and the source's estimate, which costs it a look into the index, says whether one fits.

use catalog::{Identity, Key, TableDef};
use client::session::{quoted, quoted_text};
use values::{ColumnType, collation, type_code as t};

use crate::definitions::Name;

/// How a value is selected and written back.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Literal {
    Number,
    /// Temporal values, in quotes.
    Quoted,
    /// Bytes in hexadecimal, with the character set's introducer if they are text.
    Hex(String),
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    descending: bool,
    literal: Literal,
    integer: bool,
}

/// The key columns by which a table is divided.
#[derive(Clone, Debug)]
pub(crate) struct KeyRanges {
    table: String,
    index: String,
    columns: Vec<Column>,
}

/// End of a range: one literal per column.
pub(crate) type Bound = Vec<String>;

/// Side of a bound on which rows lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    After,
    /// Up to and including the bound.
    UpTo,
}

impl KeyRanges {
    /// Returns how to divide a table; `name` is its name on the source. None if it must be read as a whole: it has no
    /// key, or one whose first column has values that cannot be written back exactly (floating point, ENUM, SET, BIT, a
    /// prefix, an unknown collation).
    ///
    /// Columns from the first of `deciding` on are left out: with a condition on a column that decides a row's
    /// partition, the source does not look into all partitions.
    pub(crate) fn of(table: &TableDef, name: &Name, deciding: &[usize]) -> Option<KeyRanges> {
        let key = identifying_key(table)?;
        let mut columns = Vec::new();
        for part in &key.parts {
            let column = table.columns.get(part.column)?;
            let fits = part.prefix_len.is_none() && !deciding.contains(&part.column);
            let Some(literal) = literal_of(&column.ty).filter(|_| fits) else { break };
            let integer = matches!(column.ty.code, t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG);
            columns.push(Column { name: quoted(&column.name), descending: part.descending, literal, integer });
        }
        let name = format!("{}.{}", quoted(&name.0), quoted(&name.1));
        (!columns.is_empty()).then(|| KeyRanges { table: name, index: quoted(&key.name), columns })
    }

    /// True if ends can be chosen by arithmetic ([`Steps`]): the key is one integer column.
    pub(crate) fn has_steps(&self) -> bool {
        self.columns.len() == 1 && self.columns.iter().all(|column| column.integer && !column.descending)
    }

    fn first_column(&self) -> &str {
        self.columns.first().map(|column| column.name.as_str()).unwrap_or_default()
    }

    /// Query for the smallest and the largest key.
    pub(crate) fn extent_query(&self) -> String {
        let column = self.first_column();
        format!("SELECT MIN({column}), MAX({column}) FROM {}{}", self.table, self.hint())
    }

    /// Statement for how many rows the source believes to be in a range: in the column `rows` of its only line.
    pub(crate) fn estimate_query(&self, after: Option<&Bound>, upto: &Bound) -> String {
        let column = self.first_column();
        let condition = self.condition(after, Some(upto));
        format!("EXPLAIN FORMAT=TRADITIONAL SELECT {column} FROM {}{}{condition}", self.table, self.hint())
    }

    /// ` FORCE INDEX (…)`, to read in key order whatever the statistics say.
    pub(crate) fn hint(&self) -> String {
        format!(" FORCE INDEX ({})", self.index)
    }

    /// Query for the key of the row `rows` rows after `after`; returns no row if fewer are left. `partition`: the clause
    /// for one, if only its rows count.
    pub(crate) fn bound_query(&self, partition: &str, after: Option<&Bound>, rows: u64) -> String {
        let selected: Vec<String> = (self.columns.iter())
            .map(|column| match column.literal {
                Literal::Number | Literal::Quoted => column.name.clone(),
                Literal::Hex(_) => format!("HEX({})", column.name),
            })
            .collect();
        let order: Vec<String> = (self.columns.iter())
            .map(|column| format!("{}{}", column.name, if column.descending { " DESC" } else { "" }))
            .collect();
        format!(
            "SELECT {} FROM {}{partition}{}{} ORDER BY {} LIMIT 1 OFFSET {}",
            selected.join(", "),
            self.table,
            self.hint(),
            self.condition(after, None),
            order.join(", "),
            rows.saturating_sub(1),
        )
    }

    /// Converts the answer to `bound_query` to literals; None if it does not have the expected form.
    pub(crate) fn bound(&self, values: &[Option<Vec<u8>>]) -> Option<Bound> {
        if values.len() != self.columns.len() {
            return None;
        }
        let literal = |(column, value): (&Column, &Option<Vec<u8>>)| {
            let text = std::str::from_utf8(value.as_deref()?).ok()?;
            Some(match &column.literal {
                Literal::Number => {
                    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
                    (plain && !text.is_empty()).then(|| text.to_owned())?
                }
                Literal::Quoted => quoted_text(text),
                Literal::Hex(introducer) => {
                    text.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| format!("{introducer}X'{text}'"))?
                }
            })
        };
        self.columns.iter().zip(values).map(literal).collect()
    }

    /// ` WHERE …` for the rows after `after` up to `upto`; empty for all rows.
    pub(crate) fn condition(&self, after: Option<&Bound>, upto: Option<&Bound>) -> String {
        let sides = [(after, Side::After), (upto, Side::UpTo)];
        let terms: Vec<String> =
            sides.iter().filter_map(|(bound, side)| Some(self.one_side((*bound)?, *side))).collect();
        if terms.is_empty() { String::new() } else { format!(" WHERE {}", terms.join(" AND ")) }
    }

    fn one_side(&self, bound: &Bound, side: Side) -> String {
        // Built from the last column outwards: a > x OR (a = x AND (b > y OR …)).
        let mut term = String::new();
        let last = self.columns.len().saturating_sub(1);
        for (index, (column, value)) in self.columns.iter().zip(bound).enumerate().rev() {
            let beyond = if (side == Side::After) == column.descending { '<' } else { '>' };
            let name = &column.name;
            term = if index == last {
                let or_equal = if side == Side::UpTo { "=" } else { "" };
                format!("{name} {beyond}{or_equal} {value}")
            } else {
                format!("({name} {beyond} {value} OR ({name} = {value} AND {term}))")
            };
        }
        match (self.columns.first(), bound.first()) {
            (Some(first), Some(value)) if last > 0 => {
                let beyond = if (side == Side::After) == first.descending { '<' } else { '>' };
                format!("{} {beyond}= {value} AND {term}", first.name)
            }
            _ => term,
        }
    }
}

/// Ends of ranges of an integer key, each about as many rows behind the one before.
#[derive(Debug)]
pub(crate) struct Steps {
    /// The largest key; what has a larger one is in the last range.
    last: i128,
    /// Distance of the end found last.
    step: i128,
}

/// Most estimates for one end: enough to double and to halve over all of BIGINT.
const ESTIMATES_MAX: usize = 140;

impl Steps {
    /// For keys from `first` to `last`, of which there are about `keys`, so that a range has about `rows` rows.
    pub(crate) fn new(first: i128, last: i128, keys: u64, rows: u64) -> Steps {
        let each = (last - first).max(0) / i128::from(keys.max(1)) + 1;
        Steps { last, step: each.saturating_mul(i128::from(rows.max(1))) }
    }

    /// The end of the range after `after` that has at least half and at most twice `rows` rows by the estimates of
    /// `rows_in`, as far as the keys allow; None if that has all that is left.
    ///
    /// # Errors
    /// Those of `rows_in`.
    pub(crate) fn next<E>(
        &mut self,
        after: i128,
        rows: u64,
        mut rows_in: impl FnMut(i128) -> Result<u64, E>,
    ) -> Result<Option<i128>, E> {
        let (mut step, mut few, mut many) = (self.step.max(1), None, None);
        for _ in 0..ESTIMATES_MAX {
            let end = after.saturating_add(step).min(self.last);
            let found = rows_in(end)?;
            let left = end < self.last;
            if found > rows.saturating_mul(2) {
                many = Some(step.min(end - after));
            } else if found < rows / 2 && left {
                few = Some(step);
            } else {
                break;
            }
            step = match (few, many) {
                (Some(few), None) => few * 2,
                (None, Some(many)) => (many / 2).max(1),
                (Some(few), Some(many)) if many - few > 1 => few + (many - few) / 2,
                // One key more makes the difference, whether or not the estimate is right.
                _ => break,
            };
            // Many rows in one key cannot be, so that the estimate is wrong.
            if many == Some(1) {
                break;
            }
        }
        self.step = step;
        let end = after.saturating_add(step);
        Ok((end < self.last).then_some(end))
    }
}

/// The key whose columns identify the rows.
fn identifying_key(table: &TableDef) -> Option<&Key> {
    let Identity::Columns(columns) = &table.identity else { return None };
    table.keys.iter().find(|key| {
        (key.primary || key.unique)
            && key.expressions.is_empty()
            && key.parts.iter().map(|part| part.column).eq(columns.iter().copied())
    })
}

fn literal_of(ty: &ColumnType) -> Option<Literal> {
    Some(match ty.code {
        t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG | t::YEAR | t::DECIMAL => Literal::Number,
        t::DATE | t::TIME2 | t::DATETIME2 | t::TIMESTAMP2 => Literal::Quoted,
        t::CHAR | t::VARCHAR if ty.collation == collation::BINARY => Literal::Hex(String::new()),
        // The comparison uses the column's collation, because a column takes precedence over a literal.
        t::CHAR | t::VARCHAR => Literal::Hex(format!("_{} ", collation::by_id(ty.collation)?.charset)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::{Catalog, StatementContext};

    fn ranges(columns: &str) -> Option<KeyRanges> {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let sql = format!("CREATE TABLE t ({columns})");
        let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
        KeyRanges::of(catalog.table("d", "t").unwrap(), &("d".into(), "t".into()), &[])
    }

    fn bound(ranges: &KeyRanges, values: &[&str]) -> Bound {
        let values: Vec<_> = values.iter().map(|value| Some(value.as_bytes().to_vec())).collect();
        ranges.bound(&values).unwrap()
    }

    #[test]
    fn one_column() {
        let ranges = ranges("id BIGINT PRIMARY KEY, v INT").unwrap();
        let (low, high) = (bound(&ranges, &["-5"]), bound(&ranges, &["70"]));
        assert_eq!(ranges.condition(None, None), "");
        assert_eq!(ranges.condition(Some(&low), Some(&high)), " WHERE `id` > -5 AND `id` <= 70");
        assert_eq!(
            ranges.bound_query("", Some(&low), 100),
            "SELECT `id` FROM `d`.`t` FORCE INDEX (`PRIMARY`) WHERE `id` > -5 ORDER BY `id` LIMIT 1 OFFSET 99"
        );
    }

    #[test]
    fn several_columns_and_directions() {
        let ranges =
            ranges("a VARCHAR(9) NOT NULL, b INT NOT NULL, c DATE NOT NULL, PRIMARY KEY (c, b DESC, a)").unwrap();
        let at = bound(&ranges, &["2026-01-02", "7", "C3A4"]);
        assert_eq!(
            ranges.condition(Some(&at), None),
            " WHERE `c` >= '2026-01-02' AND (`c` > '2026-01-02' OR (`c` = '2026-01-02' AND \
             (`b` < 7 OR (`b` = 7 AND `a` > _utf8mb4 X'C3A4'))))"
        );
        assert_eq!(
            ranges.condition(None, Some(&at)),
            " WHERE `c` <= '2026-01-02' AND (`c` < '2026-01-02' OR (`c` = '2026-01-02' AND \
             (`b` > 7 OR (`b` = 7 AND `a` <= _utf8mb4 X'C3A4'))))"
        );
        assert!(
            ranges.bound_query(" PARTITION (`p`)", None, 1).ends_with("ORDER BY `c`, `b` DESC, `a` LIMIT 1 OFFSET 0")
        );
    }

    #[test]
    fn no_column_that_decides_the_partition() {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let sql = b"CREATE TABLE t (a INT, b INT, c INT, PRIMARY KEY (a, b, c))";
        let catalog = Catalog::new(0).apply(&context, sql).unwrap().catalog;
        let (table, name) = (catalog.table("d", "t").unwrap(), ("d".into(), "t".into()));
        let columns = |deciding: &[usize]| KeyRanges::of(table, &name, deciding).map(|ranges| ranges.columns.len());
        assert_eq!((columns(&[]), columns(&[2]), columns(&[1]), columns(&[2, 0])), (Some(3), Some(2), Some(1), None));
    }

    #[test]
    fn only_leading_columns_that_can_be_written_back() {
        let run = |columns: &str| ranges(columns).map(|ranges| ranges.columns.len());
        assert_eq!(run("a INT NOT NULL, e ENUM('x') NOT NULL, b INT NOT NULL, PRIMARY KEY (a, e, b)"), Some(1));
        assert_eq!(run("a INT NOT NULL, e ENUM('x') NOT NULL, PRIMARY KEY (e, a)"), None);
        assert_eq!(run("f DOUBLE PRIMARY KEY"), None);
        assert_eq!(run("b BLOB NOT NULL, PRIMARY KEY (b(9))"), None);
        assert_eq!(run("v VARCHAR(50) NOT NULL, PRIMARY KEY (v(9))"), None);
        assert_eq!(run("a INT, b INT"), None);
        assert_eq!(run("a INT, k BINARY(4) NOT NULL, UNIQUE ku (k)"), Some(1));
    }

    #[test]
    fn an_integer_key_is_divided_by_arithmetic() {
        for (columns, wanted) in [
            ("id BIGINT UNSIGNED PRIMARY KEY", true),
            ("id TINYINT NOT NULL, UNIQUE KEY (id)", true),
            ("id INT, PRIMARY KEY (id DESC)", false),
            ("id DECIMAL(9,0) PRIMARY KEY", false),
            ("id INT, b INT, PRIMARY KEY (id, b)", false),
        ] {
            assert_eq!(ranges(columns).unwrap().has_steps(), wanted, "{columns}");
        }
        let ranges = ranges("id BIGINT PRIMARY KEY, v INT").unwrap();
        assert_eq!(ranges.extent_query(), "SELECT MIN(`id`), MAX(`id`) FROM `d`.`t` FORCE INDEX (`PRIMARY`)");
        assert_eq!(
            ranges.estimate_query(None, &vec!["7".into()]),
            "EXPLAIN FORMAT=TRADITIONAL SELECT `id` FROM `d`.`t` FORCE INDEX (`PRIMARY`) WHERE `id` <= 7"
        );
    }

    /// Divides these keys and returns how many are in each range, and how many estimates that took.
    fn divided(keys: &[i128], believed: u64, rows: u64, wrong: impl Fn(u64) -> u64) -> (Vec<u64>, usize) {
        let (first, last) = (keys[0], keys[keys.len() - 1]);
        let count = |after: i128, upto: i128| {
            (keys.partition_point(|key| *key <= upto) - keys.partition_point(|key| *key <= after)) as u64
        };
        let mut steps = Steps::new(first, last, believed, rows);
        let (mut after, mut estimates, mut found) = (first - 1, 0, Vec::new());
        loop {
            let end = steps.next(after, rows, |end| {
                estimates += 1;
                Ok::<_, ()>(wrong(count(after, end)))
            });
            match end.unwrap() {
                Some(end) => {
                    assert!(end > after && end < last);
                    found.push(count(after, end));
                    after = end;
                }
                None => {
                    found.push(count(after, last));
                    return (found, estimates);
                }
            }
        }
    }

    #[test]
    fn ranges_have_about_as_many_rows_whatever_the_gaps() {
        let even: Vec<i128> = (0..100_000).collect();
        let (found, estimates) = divided(&even, 100_000, 1000, |rows| rows);
        assert_eq!((found.len(), found.iter().all(|rows| *rows == 1000), estimates), (100, true, 100));
        // Statistics that are far off, and none.
        for believed in [1_000, 10_000_000, 0] {
            let (found, _) = divided(&even, believed, 1000, |rows| rows);
            assert!(found.iter().rev().skip(1).all(|rows| (500..=2000).contains(rows)), "{believed}: {found:?}");
        }
        // Dense at both ends of BIGINT, nothing between; and ever sparser.
        let ends = (0..50_000).flat_map(|n| [i128::from(i64::MIN) + n, i128::from(u64::MAX) - n]);
        let sparser = (0..50_000).map(|n: i128| n * n * n);
        for mut keys in [ends.collect::<Vec<_>>(), sparser.collect()] {
            keys.sort_unstable();
            let (found, estimates) = divided(&keys, keys.len() as u64, 1000, |rows| rows);
            assert_eq!(found.iter().sum::<u64>(), keys.len() as u64);
            let apt = found.iter().filter(|rows| (500..=2000).contains(*rows)).count();
            assert!(
                apt + 3 >= found.len() && estimates < 10 * found.len() + 2 * ESTIMATES_MAX,
                "{estimates}: {found:?}"
            );
        }
        // Estimates that say nothing still lead to an end.
        for wrong in [|_| 0, |_| u64::MAX, |rows| rows / 3] {
            let (found, _) = divided(&even[..3000], 3000, 100, wrong);
            assert_eq!(found.iter().sum::<u64>(), 3000);
        }
        assert_eq!(divided(&[5], 1, 10, |rows| rows).0, [1]);
    }

    #[test]
    fn answers_that_are_no_values_are_refused() {
        let numbers = ranges("id INT PRIMARY KEY").unwrap();
        for bad in ["1 OR 1=1", "", "0x10"] {
            assert_eq!(numbers.bound(&[Some(bad.into())]), None, "{bad}");
        }
        assert_eq!(numbers.bound(&[None]), None);
        assert_eq!(numbers.bound(&[]), None);
        let bytes = ranges("k VARBINARY(9) PRIMARY KEY").unwrap();
        assert_eq!(bytes.bound(&[Some(b"00FF".to_vec())]), Some(vec!["X'00FF'".into()]));
        assert_eq!(bytes.bound(&[Some(b"0'".to_vec())]), None);
    }
}
