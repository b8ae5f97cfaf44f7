//! Numbers that the source gives to stored rows when one of their columns becomes AUTO_INCREMENT, or such a column is
//! added.
//!
//! In: the rule, the rows in the order in which the source reads them, or without one. Out: each row's number, or the
//! reason why it is not known. Never here: a number that depends on an order which is not known.
//!
//! The source writes each row of the new table like an INSERT that names the column (`copy_data_between_tables`,
//! sql/sql_table.cc; `handler::update_auto_increment`, sql/handler.cc; every rule here was tried on 9.7.4). A row with
//! 0 or NULL gets the first number of the session's series above all numbers so far; a row with another value keeps it
//! and moves the counter, unless it is negative. The source reads the rows in the order of the clustering key,
//! partition after partition.

use values::{ColumnType, OFFSET_NULL, RowLayout};

use crate::context::StatementContext;
use crate::key_order::KeyOrder;
use crate::partition::PartitionFinder;
use crate::sql_mode;
use crate::syntax::{AlterAction, TableOptions};
use crate::table::{Column, Identity, TableDef, code};

/// A column whose rows get numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbering {
    /// Position of the column in the table after the statement.
    pub column: usize,
    /// Position of the column that it was; None for an added one, whose rows all get numbers.
    pub from: Option<usize>,
    /// True if rows with 0 get a number, as those with NULL do: no `NO_AUTO_VALUE_ON_ZERO`.
    pub zeros: bool,
    /// The series: where the counter starts, or why numbers cannot be told.
    pub series: Result<Series, String>,
    /// True if the source sorts the rows by something else before it numbers them (ALTER TABLE … ORDER BY).
    pub sorted: bool,
}

impl Numbering {
    /// The numbering that an ALTER TABLE demands for a column that becomes AUTO_INCREMENT, or is added as such. `origins`
    /// gives for each new column the old one that it was; `copies` is true if the source copies the table row by row.
    pub(crate) fn of(
        old: &TableDef,
        new: &TableDef,
        origins: &[Option<usize>],
        actions: &[AlterAction],
        copies: bool,
        context: &StatementContext,
    ) -> Option<Numbering> {
        let before = |origin: &Option<usize>| origin.and_then(|at| old.columns.get(at));
        let becomes = |(column, origin): (&Column, &Option<usize>)| {
            column.auto_increment && before(origin).is_none_or(|before| !before.auto_increment)
        };
        let column = new.columns.iter().zip(origins).position(becomes)?;
        // The counter of a column that stays, but is not AUTO_INCREMENT any more, goes on; that of a dropped one does
        // not.
        let continues = origins.iter().any(|origin| before(origin).is_some_and(|before| before.auto_increment));
        let start = match start_given(actions) {
            None if continues => Err("the counter of the column that was AUTO_INCREMENT before".to_owned()),
            given => Ok(given.unwrap_or(1).max(1)),
        };
        let (increment, offset) = context.auto_increment.unwrap_or((1, 1));
        let series = match start {
            Ok(_) if !copies && increment > 1 && old.partition_by.is_some() => {
                Err("numbers with steps that a partitioned table gets in place".to_owned())
            }
            Ok(start) if !copies => Ok(Series::in_place(start, increment.max(1).into(), offset.max(1).into())),
            Ok(_) if increment > 1 && offset > increment => {
                Err("numbers under an auto_increment_offset above the auto_increment_increment".to_owned())
            }
            // MyISAM counts each group of such a key alone.
            Ok(_) if !new.keys.iter().any(|key| key.parts.first().is_some_and(|part| part.column == column)) => {
                Err("numbers of an AUTO_INCREMENT column that is not the first of its key".to_owned())
            }
            Ok(start) => Ok(Series { start, increment: increment.max(1).into(), offset: offset.max(1).into() }),
            Err(why) => Err(why),
        };
        Some(Numbering {
            column,
            from: origins.get(column).copied().flatten(),
            zeros: context.sql_mode & sql_mode::NO_AUTO_VALUE_ON_ZERO == 0,
            series,
            // Ignored where the new table orders its rows by a key.
            sorted: new.identity == Identity::WholeImage && actions.contains(&AlterAction::OrderBy),
        })
    }
}

/// The last AUTO_INCREMENT=N of the statement.
fn start_given(actions: &[AlterAction]) -> Option<u64> {
    actions.iter().rev().find_map(|action| match action {
        AlterAction::Options(TableOptions { auto_increment, .. }) => *auto_increment,
        _ => None,
    })
}

/// The numbers that a counter passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    /// Smallest number it gives; at least 1.
    pub start: u64,
    /// `auto_increment_increment`, at least 1.
    pub increment: u64,
    /// `auto_increment_offset`; no greater than the increment, unless that is 1. May be 0 in place.
    pub offset: u64,
}

impl Series {
    /// The series of a column that InnoDB adds in place: with steps, it begins above the start, never at it
    /// (`ib_sequence_t`, `innobase_next_autoinc`, storage/innobase/handler; seen on 9.7.4).
    fn in_place(start: u64, increment: u64, offset: u64) -> Series {
        if increment <= 1 {
            return Series { start, increment, offset };
        }
        let offset = if offset > increment { 0 } else { offset };
        let first = (start.abs_diff(offset) / increment + 1).saturating_mul(increment).saturating_add(offset);
        Series { start: first, increment, offset }
    }

    /// The first number above `last`; None above the largest.
    fn above(&self, last: u64) -> Option<u64> {
        if self.increment <= 1 {
            return last.checked_add(1);
        }
        let steps = match last.checked_sub(self.offset) {
            Some(beyond) => beyond / self.increment + 1,
            None => 0,
        };
        self.offset.checked_add(steps.checked_mul(self.increment)?)
    }

    /// The `count`-th number above `last`.
    fn nth_above(&self, last: u64, count: u64) -> Option<u64> {
        match count.checked_sub(1) {
            Some(more) => self.above(last)?.checked_add(more.checked_mul(self.increment.max(1))?),
            None => Some(last),
        }
    }
}

/// In which order the source reads a table's rows.
#[derive(Debug)]
enum Order {
    /// That of the key by which they are stored here.
    Key,
    /// Partition after partition, in the order of that key.
    Partitions(Box<PartitionFinder>),
    /// Not known, for this reason.
    Unknown(String),
}

/// What the rows of one partition do to the counter: `max(nth_above(counter, count), least)`.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    count: u64,
    least: u64,
}

/// Numbers the rows of one table. All rows are surveyed first, then numbered.
#[derive(Debug)]
pub struct RowNumbers {
    rule: Numbering,
    ty: ColumnType,
    from: RowLayout,
    to: RowLayout,
    order: Order,
    /// Per partition, from the survey.
    survey: Vec<Counter>,
    /// Per partition, the largest number so far; made when the survey ends.
    last: Vec<u64>,
    /// Largest value of a row that keeps it.
    largest: u64,
    /// The image of a surveyed row that gets a number.
    first: Option<Vec<u8>>,
    offsets: Vec<(u32, u32)>,
}

impl RowNumbers {
    /// Prepares the numbering of rows that move from one definition to another.
    #[must_use]
    pub fn new(rule: &Numbering, from: &TableDef, to: &TableDef) -> RowNumbers {
        let ty = to.columns.get(rule.column).map_or(ColumnType::new(code::LONG, 0), |column| column.ty.clone());
        RowNumbers {
            order: order_of(rule, from),
            rule: rule.clone(),
            ty,
            from: RowLayout::new(&from.column_types()),
            to: RowLayout::new(&to.column_types()),
            survey: vec![Counter::default()],
            last: Vec::new(),
            largest: 0,
            first: None,
            offsets: Vec::new(),
        }
    }

    /// True if the rows to survey must come in the order of the old table's key.
    #[must_use]
    pub fn surveys_in_order(&self) -> bool {
        matches!(self.order, Order::Partitions(_))
    }

    /// True if the rows to number must come in that order; after the survey.
    #[must_use]
    pub fn numbers_in_order(&self) -> bool {
        self.first.is_some() && !matches!(self.order, Order::Unknown(_))
    }

    /// Looks at a row: its image before the statement and the one after it, still without a number. False if no other
    /// row needs to be looked at.
    ///
    /// # Errors
    /// The reason, if its number, or that of another row, cannot be known.
    pub fn survey(&mut self, old: &[u8], new: &[u8]) -> Result<bool, String> {
        let value = self.value(old, new)?;
        let Some(value) = value else {
            let series = self.series()?;
            match (&self.first, &self.order) {
                (None, _) => self.first = Some(new.to_vec()),
                // Equal rows are the same whichever gets which number.
                (Some(first), Order::Unknown(why)) if first != new => return Err(why.clone()),
                _ => {}
            }
            let Some(counter) = self.counter_of(old)? else { return Ok(false) };
            counter.count += 1;
            // An earlier row of the partition moved the counter.
            if counter.least > 0 {
                counter.least = series.above(counter.least).ok_or_else(too_large)?;
            }
            return Ok(true);
        };
        self.largest = self.largest.max(value);
        if let Some(counter) = self.counter_of(old)? {
            counter.least = counter.least.max(value);
        }
        Ok(true)
    }

    /// The row's partition; None where the survey only has to find whether any row gets a number.
    fn counter_of(&mut self, old: &[u8]) -> Result<Option<&mut Counter>, String> {
        let at = match &self.order {
            Order::Key => return Ok(None),
            Order::Partitions(finder) => finder.find(old, &mut self.offsets)?,
            Order::Unknown(_) => 0,
        };
        if self.survey.len() <= at {
            self.survey.resize(at + 1, Counter::default());
        }
        Ok(self.survey.get_mut(at))
    }

    /// Ends the survey.
    ///
    /// # Errors
    /// The reason, if numbers cannot be known.
    pub fn surveyed(&mut self) -> Result<(), String> {
        if self.first.is_none() {
            return Ok(());
        }
        let series = self.series()?;
        let mut last = series.start.saturating_sub(1);
        if let Order::Unknown(why) = &self.order
            && series.above(last).is_none_or(|first| self.largest >= first)
        {
            return Err(why.clone());
        }
        for counter in &self.survey {
            self.last.push(last);
            last = series.nth_above(last, counter.count).ok_or_else(too_large)?.max(counter.least);
        }
        Ok(())
    }

    /// Writes the number of a row into its image after the statement, if it gets one.
    ///
    /// # Errors
    /// The reason, if the number cannot be known.
    pub fn number(&mut self, old: &[u8], new: &mut [u8]) -> Result<(), String> {
        if self.first.is_none() {
            return Ok(());
        }
        let partition = match &self.order {
            Order::Partitions(finder) => finder.find(old, &mut self.offsets)?,
            Order::Key | Order::Unknown(_) => 0,
        };
        let (value, series) = (self.value(old, new)?, self.series()?);
        let Some(last) = self.last.get_mut(partition) else { return Err("a row that was not surveyed".to_owned()) };
        let Some(value) = value else {
            *last = series.above(*last).ok_or_else(too_large)?;
            let place = self.offsets.get(self.rule.column).copied();
            let bytes = place.and_then(|(at, len)| new.get_mut(at as usize..at as usize + len as usize));
            return put(&self.ty, *last, bytes.unwrap_or_default());
        };
        *last = (*last).max(value);
        Ok(())
    }

    fn series(&self) -> Result<Series, String> {
        self.rule.series.clone()
    }

    /// The value that a row keeps, as far as the counter follows it; None if the row gets a number. Leaves the offsets
    /// of the new image.
    fn value(&mut self, old: &[u8], new: &[u8]) -> Result<Option<u64>, String> {
        let RowNumbers { rule, from, to, offsets, .. } = self;
        if let Some(column) = rule.from {
            from.walk_offsets(old, offsets).map_err(|error| error.to_string())?;
            let was_null = matches!(offsets.get(column), Some((OFFSET_NULL, _)));
            to.walk_offsets(new, offsets).map_err(|error| error.to_string())?;
            if was_null {
                return Ok(None);
            }
        } else {
            to.walk_offsets(new, offsets).map_err(|error| error.to_string())?;
            return Ok(None);
        }
        let bytes = match offsets.get(rule.column) {
            Some(&(at, len)) if at != OFFSET_NULL => new.get(at as usize..at as usize + len as usize),
            _ => return Err("NULL in an AUTO_INCREMENT column".to_owned()),
        };
        let value = whole_number(&self.ty, bytes.unwrap_or_default())?;
        Ok(if value == 0 && self.rule.zeros { None } else { Some(u64::try_from(value).unwrap_or(0)) })
    }
}

fn too_large() -> String {
    "an AUTO_INCREMENT number beyond its column".to_owned()
}

const NO_INTEGER: &str = "an AUTO_INCREMENT column that is no integer";

/// Value of an integer column.
fn whole_number(ty: &ColumnType, bytes: &[u8]) -> Result<i128, String> {
    if !ty.is_integer() {
        return Err(NO_INTEGER.to_owned());
    }
    let bits = bytes.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    let unused = 64u32.saturating_sub(8 * u32::try_from(bytes.len()).unwrap_or(8)).min(63);
    let signed = (bits << unused).cast_signed() >> unused;
    Ok(if ty.unsigned { i128::from(bits) } else { i128::from(signed) })
}

fn put(ty: &ColumnType, number: u64, bytes: &mut [u8]) -> Result<(), String> {
    if !ty.is_integer() {
        return Err(NO_INTEGER.to_owned());
    }
    let bits = 8 * u32::try_from(bytes.len()).unwrap_or(0) - u32::from(!ty.unsigned && !bytes.is_empty());
    if bits < 64 && number >> bits != 0 {
        return Err(too_large());
    }
    bytes.copy_from_slice(number.to_le_bytes().get(..bytes.len()).unwrap_or_default());
    Ok(())
}

fn order_of(rule: &Numbering, from: &TableDef) -> Order {
    let unknown = |what: &str| {
        Order::Unknown(format!(
            "AUTO_INCREMENT numbers that depend on an order of rows which is not known here ({what})"
        ))
    };
    if rule.sorted {
        return unknown("ORDER BY");
    }
    if !from.engine.eq_ignore_ascii_case("InnoDB") {
        return unknown("that of another engine");
    }
    if !KeyOrder::of(from).is_ordered() {
        return unknown("no key orders them");
    }
    match (&from.partition_by, &from.partitioning) {
        (None, _) => Order::Key,
        (Some(text), _) if text.to_ascii_uppercase().contains("SUBPARTITION") => unknown("subpartitions"),
        (Some(_), Some(partitioning)) => match PartitionFinder::new(from, partitioning) {
            Ok(finder) => Order::Partitions(Box::new(finder)),
            Err(what) => Order::Unknown(what),
        },
        (Some(_), None) => unknown("the rule of its partitions is not understood"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;

    #[test]
    fn a_series_goes_on_above_the_last_number() {
        let of = |increment, offset| Series { start: 1, increment, offset };
        assert_eq!([0, 7, u64::MAX].map(|last| of(1, 1).above(last)), [Some(1), Some(8), None]);
        assert_eq!([0, 2, 3, 7, 8].map(|last| of(5, 3).above(last)), [3, 3, 8, 8, 13].map(Some));
        assert_eq!([0, 1, 4].map(|count| of(5, 3).nth_above(8, count)), [8, 13, 28].map(Some));
        assert_eq!(of(10, 5).above(u64::MAX), None);
    }

    #[test]
    fn a_column_added_in_place_begins_above_the_start() {
        let first = |start, increment, offset| {
            let series = Series::in_place(start, increment, offset);
            [1, 2].map(|count| series.nth_above(series.start - 1, count).unwrap())
        };
        // As 9.7.4 numbers rows.
        for (given, numbers) in [
            ((1, 10, 3), [13, 23]),
            ((20, 10, 3), [23, 33]),
            ((23, 10, 3), [33, 43]),
            ((4, 10, 7), [17, 27]),
            ((8, 10, 7), [17, 27]),
            ((1, 3, 5), [3, 6]),
            ((1, 1, 5), [1, 2]),
        ] {
            assert_eq!(first(given.0, given.1, given.2), numbers, "{given:?}");
        }
    }

    /// Numbers of rows `(k, a)`, 0 standing for a row that gets one, in a table that ends with this text.
    fn numbered(rows: &[(i32, i32)], end: &str) -> Result<Vec<i32>, String> {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let create = format!("CREATE TABLE t (k INT NOT NULL, a INT NOT NULL{end}");
        let catalog = Catalog::new(0).apply(&context, create.as_bytes()).unwrap().catalog;
        let table = catalog.table("d", "t").unwrap();
        let series = Ok(Series { start: 1, increment: 1, offset: 1 });
        let rule = Numbering { column: 1, from: Some(1), zeros: true, series, sorted: false };
        let mut numbers = RowNumbers::new(&rule, table, table);
        let image = |(k, a): &(i32, i32)| [&[0][..], &k.to_le_bytes(), &a.to_le_bytes()].concat();
        for row in rows {
            if !numbers.survey(&image(row), &image(row))? {
                break;
            }
        }
        numbers.surveyed()?;
        let mut number = |row: &(i32, i32)| {
            let mut new = image(row);
            numbers.number(&image(row), &mut new)?;
            Ok(i32::from_le_bytes(new[5..9].try_into().unwrap()))
        };
        rows.iter().map(&mut number).collect()
    }

    #[test]
    fn rows_are_numbered_in_a_known_order_only() {
        let keyed = ", PRIMARY KEY (k))";
        assert_eq!(numbered(&[(1, 0), (2, -1), (3, 7), (4, 0), (5, 3), (6, 0)], keyed), Ok(vec![1, -1, 7, 8, 3, 9]));
        // Row 3 is in the first partition, rows 1 and 4 in the second.
        let parts = ", PRIMARY KEY (k)) PARTITION BY HASH (k) PARTITIONS 3";
        assert_eq!(numbered(&[(1, 0), (2, 0), (3, 10), (4, 0)], parts), Ok(vec![11, 13, 10, 12]));
        let unknown = |rows: &[(i32, i32)]| numbered(rows, ")").unwrap_err().contains("order of rows");
        assert!(unknown(&[(1, 0), (2, 0)]), "two rows that differ");
        assert!(unknown(&[(1, 0), (1, 1)]), "a value that the counter may meet before");
        assert!(unknown(&[(1, 1), (1, 0)]));
        assert_eq!(numbered(&[(1, 0), (2, -5), (1, 0)], ")"), Ok(vec![1, -5, 2]));
        assert_eq!(numbered(&[(1, 4), (2, 4)], ")"), Ok(vec![4, 4]));
    }
}
