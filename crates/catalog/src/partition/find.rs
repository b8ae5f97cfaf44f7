//! The partition of a row.
//!
//! In: row images. Out: a row's partition by position. Never here: guesses; a value that cannot be placed is an error.

use values::sort_key::{SortKeyColumn, SortKeyPlan};
use values::{ColumnType, OFFSET_NULL, RowLayout};

use crate::default_value::{self, LiteralScope};
use crate::syntax::Literal;
use crate::table::{Identity, TableDef};

use super::bound_bytes;
use super::definition::{
    BoundValue, Partition, PartitionExpression, PartitionRule, Partitioning, Subpartitions, numbered,
};
use super::evaluate::Evaluator;
use super::expression::{Expression, Function};
use super::hash::{self, ColumnHash, KeyHash};

/// Determines the partition of rows of one table.
#[derive(Debug, Clone)]
pub struct PartitionFinder {
    layout: RowLayout,
    kind: FinderKind,
    /// Number of subpartitions of each partition, and how they are found.
    below: Option<(usize, FinderKind)>,
}

#[derive(Debug, Clone)]
enum FinderKind {
    /// By a number computed from columns.
    Number { of: Evaluator, by: ByNumber },
    /// By a hash over columns, in table order.
    Key { columns: Vec<(usize, ColumnHash)>, linear: bool, count: u64 },
    /// By comparing the sort key of each column.
    Columns { columns: Vec<(usize, SortKeyPlan)>, range: bool, bounds: Vec<Vec<Vec<Bound>>> },
}

#[derive(Debug, Clone)]
enum ByNumber {
    /// Upper bounds; None for MAXVALUE.
    Range(Vec<Option<i128>>),
    List(Vec<Vec<Option<i128>>>),
    Hash(usize),
    LinearHash(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Bound {
    Max,
    /// Sort key of the bound.
    At(Vec<u8>),
}

impl PartitionFinder {
    /// Builds a finder for row images of this definition and these partitions.
    ///
    /// # Errors
    /// Names what is not understood about the rule.
    pub fn new(table: &TableDef, partitioning: &Partitioning) -> Result<PartitionFinder, String> {
        let kind = FinderKind::new(table, partitioning)?;
        let below = match &partitioning.subpartitions {
            Some(Subpartitions { rule, count }) => {
                let partitions = (0..*count).map(numbered).collect();
                let leaves = Partitioning { rule: rule.clone(), partitions, subpartitions: None, given: None };
                Some((*count, FinderKind::new(table, &leaves)?))
            }
            None => None,
        };
        Ok(PartitionFinder { layout: RowLayout::new(&table.column_types()), kind, below })
    }

    /// Positions of the columns that decide.
    #[must_use]
    pub fn columns(&self) -> Vec<usize> {
        let below = self.below.as_ref().map(|(_, kind)| kind.columns()).unwrap_or_default();
        self.kind.columns().into_iter().chain(below).collect()
    }

    /// Returns the position of the row's partition, or that of its subpartition, counted through all partitions
    /// ([`Partitioning::leaves`]).
    ///
    /// # Errors
    /// If the image does not fit the definition, or no partition accepts the row.
    pub fn find(&self, image: &[u8], offsets: &mut Vec<(u32, u32)>) -> Result<usize, String> {
        self.rightful(image, offsets)?.ok_or_else(|| "a row that no partition takes".to_owned())
    }

    /// Like [`PartitionFinder::find`], but returns None if no partition accepts the row.
    ///
    /// # Errors
    /// If the image does not fit the definition, or the rule cannot be computed for the row.
    pub fn rightful(&self, image: &[u8], offsets: &mut Vec<(u32, u32)>) -> Result<Option<usize>, String> {
        self.layout.walk_offsets(image, offsets).map_err(|error| error.to_string())?;
        let stored = |column: usize| match offsets.get(column) {
            Some(&(OFFSET_NULL, _)) | None => None,
            Some(&(at, len)) => image.get(at as usize..at as usize + len as usize),
        };
        let Some(position) = self.kind.find(&stored)? else { return Ok(None) };
        match &self.below {
            Some((count, below)) => Ok(below.find(&stored)?.map(|leaf| position * count + leaf)),
            None => Ok(Some(position)),
        }
    }
}

impl FinderKind {
    fn new(table: &TableDef, partitioning: &Partitioning) -> Result<FinderKind, String> {
        match &partitioning.rule {
            PartitionRule::Range(expression)
            | PartitionRule::List(expression)
            | PartitionRule::Hash(expression)
            | PartitionRule::LinearHash(expression) => by_number(table, partitioning, expression),
            PartitionRule::Key { columns, linear } => by_key(table, partitioning, columns, *linear),
            PartitionRule::RangeColumns(names) | PartitionRule::ListColumns(names) => {
                by_columns(table, partitioning, names)
            }
            PartitionRule::Other(words) => Err(format!("the partitions of rows placed by {words}")),
        }
    }

    fn columns(&self) -> Vec<usize> {
        match self {
            FinderKind::Number { of, .. } => of.columns().collect(),
            FinderKind::Key { columns, .. } => columns.iter().map(|(at, _)| *at).collect(),
            FinderKind::Columns { columns, .. } => columns.iter().map(|(at, _)| *at).collect(),
        }
    }

    fn find<'a>(&self, stored: &dyn Fn(usize) -> Option<&'a [u8]>) -> Result<Option<usize>, String> {
        Ok(match self {
            FinderKind::Number { of, by } => by.find(of.of(stored)?),
            FinderKind::Key { columns, linear, count } => {
                let mut hash = KeyHash::new();
                for (column, of) in columns {
                    hash.add(of, stored(*column))?;
                }
                let hash = hash.finish();
                let part = if *linear { hash::linear(hash, *count) } else { hash % count };
                usize::try_from(part).ok()
            }
            FinderKind::Columns { columns, range, bounds } => {
                let mut keys = Vec::with_capacity(columns.len());
                for (column, plan) in columns {
                    let mut key = Vec::new();
                    let value = std::iter::once(Some(stored(*column)));
                    append_key(plan, value, &mut key)?;
                    keys.push(key);
                }
                find_by_keys(&keys, *range, bounds)
            }
        })
    }
}

fn find_by_keys(keys: &[Vec<u8>], range: bool, bounds: &[Vec<Vec<Bound>>]) -> Option<usize> {
    let less = |bound: &Vec<Bound>| {
        for (key, bound) in keys.iter().zip(bound) {
            match bound {
                Bound::Max => return true,
                Bound::At(bound) if key != bound => return key < bound,
                Bound::At(_) => {}
            }
        }
        false
    };
    let equal = |bound: &Vec<Bound>| keys.iter().zip(bound).all(|(key, bound)| *bound == Bound::At(key.clone()));
    bounds.iter().position(|partition| if range { partition.iter().all(less) } else { partition.iter().any(equal) })
}

fn append_key<'a>(
    plan: &SortKeyPlan,
    mut value: impl Iterator<Item = Option<Option<&'a [u8]>>>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let value = value.next().flatten().flatten();
    // NULL sorts first: its key is empty, and every value's key starts with a byte.
    let Some(value) = value else { return Ok(()) };
    out.push(1);
    plan.append(std::iter::once(Some(value)), out).map_err(|error| error.to_string())
}

pub(super) fn position(table: &TableDef, name: &str) -> Result<(usize, ColumnType), String> {
    let at = table.column_index(name).ok_or_else(|| format!("the partitioning column `{name}`"))?;
    if table.not_known().contains(&at) {
        return Err(format!("the partitioning column `{name}`, whose values here may not be the source's"));
    }
    let column = table.columns.get(at).ok_or_else(|| format!("the partitioning column `{name}`"))?;
    Ok((at, column.ty.clone()))
}

fn by_key(table: &TableDef, of: &Partitioning, names: &[String], linear: bool) -> Result<FinderKind, String> {
    let mut places = match &table.identity {
        Identity::Columns(places) if names.is_empty() => places.clone(),
        Identity::WholeImage if names.is_empty() => return Err("the partitions of rows placed by no KEY".to_owned()),
        _ => names.iter().map(|name| Ok(position(table, name)?.0)).collect::<Result<Vec<_>, String>>()?,
    };
    // Columns are hashed in table order, whatever order the clause names (seen on 9.7).
    places.sort_unstable();
    let column = |at: &usize| {
        let column = table.columns.get(*at).ok_or("a column that the table does not have")?;
        Ok((*at, ColumnHash::of(&column.ty)?))
    };
    let columns = places.iter().map(column).collect::<Result<Vec<_>, String>>()?;
    let count =
        u64::try_from(of.partitions.len()).ok().filter(|count| *count > 0).ok_or("a table without partitions")?;
    Ok(FinderKind::Key { columns, linear, count })
}

fn by_number(table: &TableDef, of: &Partitioning, expression: &PartitionExpression) -> Result<FinderKind, String> {
    let call = |function: Function, name: &String| Expression::Call(function, vec![Expression::Column(name.clone())]);
    let unknown = |text: &String| format!("the partitions of rows placed by {text}");
    let parsed = match expression {
        PartitionExpression::Column(name) => Expression::Column(name.clone()),
        PartitionExpression::Year(name) => call(Function::Year, name),
        PartitionExpression::ToDays(name) => call(Function::ToDays, name),
        PartitionExpression::UnixTimestamp(name) => call(Function::UnixTimestamp, name),
        PartitionExpression::Other(text) => Expression::of_text(text).ok_or_else(|| unknown(text))?,
    };
    let number = |value: &BoundValue| match value {
        BoundValue::Number(number) => Ok(Some(i128::from(*number))),
        BoundValue::Null | BoundValue::Max => Ok(None),
        BoundValue::Text(text) | BoundValue::Other(text) => {
            text.parse().map(Some).map_err(|_| format!("the partition bound {text}"))
        }
    };
    let by = match &of.rule {
        PartitionRule::Hash(_) => ByNumber::Hash(of.partitions.len()),
        PartitionRule::LinearHash(_) => ByNumber::LinearHash(of.partitions.len()),
        PartitionRule::Range(_) => {
            let bound = |partition: &Partition| {
                let value = partition.values.first().and_then(|tuple| tuple.first());
                value.map_or(Err(format!("the bound of partition {}", partition.name)), number)
            };
            ByNumber::Range(of.partitions.iter().map(bound).collect::<Result<_, _>>()?)
        }
        _ => {
            let members =
                |partition: &Partition| partition.values.iter().flatten().map(number).collect::<Result<Vec<_>, _>>();
            ByNumber::List(of.partitions.iter().map(members).collect::<Result<_, _>>()?)
        }
    };
    Ok(FinderKind::Number { of: Evaluator::new(table, parsed)?, by })
}

fn by_columns(table: &TableDef, of: &Partitioning, names: &[String]) -> Result<FinderKind, String> {
    let mut columns = Vec::new();
    for name in names {
        let (at, ty) = position(table, name)?;
        let key = SortKeyColumn { ty: ty.clone(), nullable: false, descending: false, prefix_len: None };
        let plan = SortKeyPlan::new(&[key]).map_err(|error| error.to_string())?;
        if !plan.is_ordered() {
            return Err(format!("the order of the partitioning column `{name}`"));
        }
        columns.push((at, ty, plan));
    }
    let bound = |(value, (_, ty, plan)): (&BoundValue, &(usize, ColumnType, SortKeyPlan))| {
        let literal = match value {
            BoundValue::Max => return Ok(Bound::Max),
            BoundValue::Null => return Ok(Bound::At(Vec::new())),
            BoundValue::Number(number) => Literal::Number(number.to_string()),
            BoundValue::Text(text) => {
                Literal::Text(crate::syntax::Text { bytes: text.clone().into_bytes(), charset: "utf8mb4".to_owned() })
            }
            BoundValue::Other(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => Literal::Number(text.clone()),
            BoundValue::Other(text) => match bound_bytes(text) {
                Some(bytes) => Literal::Bytes(bytes),
                None => return Err(format!("the partition bound {text}")),
            },
        };
        let scope = LiteralScope { decimals: None, time_zone: None, truncate_fraction: false };
        let image = default_value::image(ty, &literal, scope).ok_or("a partition bound of this type")?;
        let mut key = Vec::new();
        append_key(plan, std::iter::once(Some(Some(image.as_slice()))), &mut key)?;
        Ok(Bound::At(key))
    };
    let partition = |partition: &Partition| {
        let tuple =
            |values: &Vec<BoundValue>| values.iter().zip(&columns).map(bound).collect::<Result<Vec<_>, String>>();
        partition.values.iter().map(tuple).collect::<Result<Vec<_>, String>>()
    };
    let bounds = of.partitions.iter().map(partition).collect::<Result<Vec<_>, String>>()?;
    let range = matches!(of.rule, PartitionRule::RangeColumns(_));
    let columns = columns.into_iter().map(|(at, _, plan)| (at, plan)).collect();
    Ok(FinderKind::Columns { columns, range, bounds })
}

impl ByNumber {
    /// Values are i128, because an unsigned BIGINT exceeds i64 and must be compared by its true value.
    fn find(&self, value: Option<i128>) -> Option<usize> {
        match self {
            // NULL is less than every number.
            ByNumber::Range(bounds) => bounds.iter().position(|bound| match (value, bound) {
                (Some(value), Some(bound)) => value < *bound,
                (None, _) | (_, None) => true,
            }),
            ByNumber::List(lists) => lists.iter().position(|list| list.contains(&value)),
            ByNumber::LinearHash(count) => {
                let count = u64::try_from(*count).ok().filter(|count| *count > 0)?;
                usize::try_from(hash::linear(as_signed(value).cast_unsigned(), count)).ok()
            }
            ByNumber::Hash(count) => {
                // MySQL interprets the value as signed, whatever the column's type (`get_part_id_hash`,
                // sql/sql_partition.cc; seen on 9.7).
                let value = as_signed(value).unsigned_abs();
                usize::try_from(value % u64::try_from(*count).ok().filter(|count| *count > 0)?).ok()
            }
        }
    }
}

/// The number as MySQL hashes it: as signed, and NULL as the smallest one (seen on 9.7).
fn as_signed(value: Option<i128>) -> i64 {
    value.map_or(i64::MIN, |value| value as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;
    use crate::context::StatementContext;

    fn context() -> StatementContext {
        StatementContext { default_db: "d".into(), ..StatementContext::default() }
    }

    fn table(columns: &str, by: &str) -> std::sync::Arc<TableDef> {
        let sql = format!("CREATE TABLE t ({columns}) PARTITION BY {by}");
        let catalog =
            Catalog::new(0).apply(&context(), sql.as_bytes()).unwrap_or_else(|error| panic!("{error}")).catalog;
        catalog.table("d", "t").unwrap().clone()
    }

    fn place(table: &TableDef, image: &[u8]) -> Result<usize, String> {
        let partitioning = table.partitioning.as_ref().expect("a rule");
        PartitionFinder::new(table, partitioning)?.find(image, &mut Vec::new())
    }

    #[test]
    fn rules_of_numbers() {
        let int = |value: i32| [&[0u8][..], &value.to_le_bytes()].concat();
        let range = table(
            "a int",
            "range (a) (partition p0 values less than (-5), partition p1 values less than (10) engine=innodb, partition p2 values less than maxvalue)",
        );
        for (value, partition) in [(-6, 0), (-5, 1), (9, 1), (10, 2)] {
            assert_eq!(place(&range, &int(value)), Ok(partition), "{value}");
        }
        assert_eq!(place(&range, &[1]), Ok(0), "NULL");
        let list = table("a int", "list (a) (partition x values in (1, 3), partition y values in (null, -2))");
        assert_eq!((place(&list, &int(3)), place(&list, &[1])), (Ok(0), Ok(1)));
        assert!(place(&list, &int(4)).is_err());
        let hash = table("a int", "hash (a) partitions 3");
        assert_eq!((place(&hash, &int(-7)), place(&hash, &[1])), (Ok(1), Ok(2)));
        let (key, linear) = (table("a int", "key (a) partitions 7"), table("a int", "linear key (a) partitions 7"));
        for (value, partition, linearly) in [(0, 1, 1), (1, 4, 4), (32, 0, 1), (97, 5, 4), (-1, 5, 3), (123_456, 3, 2)]
        {
            assert_eq!(
                (place(&key, &int(value)), place(&linear, &int(value))),
                (Ok(partition), Ok(linearly)),
                "{value}"
            );
        }
        assert_eq!(place(&key, &[1]), Ok(2), "NULL");
        assert!(place(&table("a int", "key algorithm = 1 (a) partitions 3"), &int(1)).is_err());
        assert!(place(&table("a bit(3)", "key (a) partitions 3"), &[0, 1]).is_err());
        assert_eq!(place(&table("a int", "range (a * 2) (partition p values less than (9))"), &int(1)), Ok(0));
        assert!(place(&table("a int", "range (a << 2) (partition p values less than (9))"), &int(1)).is_err());
    }

    #[test]
    fn days_as_the_server_counts_them() {
        let by_days = table(
            "d date",
            "range (to_days(d)) (partition a values less than (to_days('2024-03-01')), partition b values less than (739400))",
        );
        let date =
            |year: u32, month: u32, day: u32| [&[0u8][..], &(day | month << 5 | year << 9).to_le_bytes()[..3]].concat();
        assert_eq!((place(&by_days, &date(2024, 2, 29)), place(&by_days, &date(2024, 3, 1))), (Ok(0), Ok(1)));
    }

    /// Each bound as the text that SHOW CREATE TABLE of 9.7.4 prints for it; its session's time zone was +02:00.
    #[test]
    fn bounds_are_computed() {
        let context = StatementContext { time_zone: Some("+02:00".into()), ..context() };
        for (bound, number) in [
            ("year('2020-05-05')+1", 2021),
            ("to_days('2020-5-5')", 737_915),
            ("to_days('20200505')", 737_915),
            ("to_days(20200505)", 737_915),
            ("to_days(date'2020-05-05')", 737_915),
            ("unix_timestamp('2020-05-05 00:00:00')", 1_588_629_600),
            ("floor(unix_timestamp('2020-05-05 00:00:00'))", 1_588_629_600),
            ("to_seconds('2020-05-05 10:00:00')", 63_755_892_000),
            ("10 div 3", 3),
            ("mod(1000,300)", 100),
            ("datediff('2020-05-05','2020-01-01')", 125),
            ("yearweek('2020-05-05')", 202_018),
            ("hour('10:00:00')", 10),
            ("time_to_sec('10:00:00')", 36_000),
            ("-(-5)*3", 15),
            ("((10))", 10),
        ] {
            let sql = format!("CREATE TABLE t (a int) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN ({bound}))");
            let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
            let partitions = &catalog.table("d", "t").unwrap().partitioning.as_ref().unwrap().partitions;
            assert_eq!(partitions[0].values, [[BoundValue::Number(number)]], "{bound}");
        }
        let large = table("a bigint unsigned", "range (a) (partition p values less than (18446744073709551615))");
        assert_eq!(place(&large, &[&[0u8][..], &(u64::MAX - 1).to_le_bytes()].concat()), Ok(0));
        assert!(place(&large, &[&[0u8][..], &u64::MAX.to_le_bytes()].concat()).is_err());
        let list =
            table("a int, b varchar(3)", "list columns (a, b) (partition p values in (((1 + 1), 'a'), (3, x'62')))");
        assert_eq!(place(&list, &[&[0u8][..], &2i32.to_le_bytes(), &[1, b'a']].concat()), Ok(0));
        assert_eq!(place(&list, &[&[0u8][..], &3i32.to_le_bytes(), &[1, b'B']].concat()), Ok(0));
    }

    #[test]
    fn rules_of_columns() {
        let by = table(
            "a varchar(5) collate utf8mb4_0900_ai_ci, b int",
            "range columns (a, b) (partition p0 values less than ('b', 5), partition p1 values less than ('B', maxvalue), \
             partition p2 values less than (maxvalue, maxvalue))",
        );
        let row = |a: &str, b: i32| [&[0u8, a.len() as u8][..], a.as_bytes(), &b.to_le_bytes()].concat();
        for (a, b, partition) in [("a", 9, 0), ("B", 4, 0), ("b", 5, 1), ("B", 500, 1), ("c", 0, 2)] {
            assert_eq!(place(&by, &row(a, b)), Ok(partition), "{a} {b}");
        }
        let list = table(
            "a varchar(5), b int",
            "list columns (a) (partition x values in ('q', null), partition y values in ('r'))",
        );
        assert_eq!((place(&list, &row("R", 1)), place(&list, &[1, 1, 0, 0, 0])), (Ok(1), Ok(0)));
    }
}
