//! Orders in which rows can be read, with bounds.
//!
//! In: filters, ORDER BY, the table's keys. Out: paths, the best first. A bound only leaves out rows that the filters
//! would: all filters are asked of each row all the same, but those of integers that its rows fulfil. Never here: a
//! key whose order is not MySQL's.

use catalog::{IndexKind, IndexSet, Key, KeyPart, NotKept, TableDef};
use values::collation::{self, BINARY};
use values::sort_key::SortKeyPlan;
use values::{ColumnType, type_code as t};

use super::condition::{Filter, Limits, Test};
use super::cut::{Cut, Side};
use super::order::By;

/// Combinations of the members of IN lists that are looked up one by one.
const PREFIXES_MAX: usize = 10_000;

/// Stored values of a key's first columns; None is NULL.
pub type Prefix = Vec<Option<Vec<u8>>>;

/// A bound of the column after a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The stored value; None is NULL.
    pub value: Option<Vec<u8>>,
    /// Whether rows of this value are within.
    pub including: bool,
}

/// A way to the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The key by its place in [`TableDef::keys`]; None reads all rows, in the order of their identity.
    pub key: Option<usize>,
    /// Values of the key's first columns, in the order in which rows are read; one empty prefix for all rows. None
    /// where there are `points`.
    pub prefixes: Vec<Prefix>,
    /// Stored key bytes of single rows, in the order in which they are read, where they are all that is read.
    pub points: Option<Vec<Vec<u8>>>,
    /// Bounds of the next column, in the key's order.
    pub low: Option<Bound>,
    /// As `low`.
    pub high: Option<Bound>,
    /// Whether rows are read from the last to the first.
    pub backwards: bool,
    /// Filters that all its rows fulfil, a bit for each of the first 64.
    fulfilled: u64,
}

impl Path {
    /// True if it leaves out no row.
    #[must_use]
    pub fn is_whole_table(&self) -> bool {
        self.low.is_none() && self.high.is_none() && self.prefixes.iter().any(Vec::is_empty)
    }

    /// Number of rows or ranges that are read one after the other.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.points.as_ref().map_or(self.prefixes.len(), Vec::len)
    }

    fn whole(key: Option<usize>) -> Path {
        Path { key, prefixes: vec![Vec::new()], points: None, low: None, high: None, backwards: false, fulfilled: 0 }
    }

    /// The path from its other end, if `backwards`.
    fn towards(mut self, backwards: bool) -> Path {
        self.backwards = backwards;
        if backwards {
            self.prefixes.reverse();
            self.points.iter_mut().for_each(|points| points.reverse());
        }
        self
    }

    /// True if each of its rows fulfils the filter with this place among the statement's.
    #[must_use]
    pub fn fulfils(&self, filter: usize) -> bool {
        filter < 64 && self.fulfilled >> filter & 1 == 1
    }
}

/// The paths to the rows that `filters` leave in, in the order asked for; none if no key gives that order.
pub(crate) fn paths(table: &TableDef, filters: &[Filter], order: &[By]) -> Vec<Path> {
    if let Some(path) = single_rows(table, filters, order) {
        return vec![path];
    }
    let mut found: Vec<(usize, Path)> = Vec::new();
    for (place, key) in table.keys.iter().enumerate() {
        let Some(usable) = usable_parts(table, key) else { continue };
        let built = Built::of(table, key, place, usable, filters);
        let Some(backwards) = direction(table, key, usable, filters, order) else { continue };
        let worth = built.worth;
        found.push((worth, built.path.towards(backwards)));
    }
    // Those that are worth nothing give only an order.
    if order.is_empty() {
        found.retain(|(worth, _)| *worth > 0);
    }
    found.sort_by_key(|(worth, _)| std::cmp::Reverse(*worth));
    let mut paths: Vec<Path> = found.into_iter().map(|(_, path)| path).collect();
    if order.is_empty() {
        paths.push(Path::whole(None));
    }
    paths
}

/// The path by the rows' identity, if the filters name each row by it: no other path reads less, and this one is always
/// ready.
fn single_rows(table: &TableDef, filters: &[Filter], order: &[By]) -> Option<Path> {
    let identity = table.identity_key()?;
    let place = table.keys.iter().position(|key| key.name == identity.name)?;
    if let Some(path) = single_row(table, identity, place, filters) {
        return Some(path);
    }
    // Most statements have no such filter, or only this one.
    let is_held = |column: usize| filters.iter().any(|filter| filter.column == column && filter.holds_to_values());
    if !identity.parts.iter().all(|part| is_held(part.column)) {
        return None;
    }
    let usable = usable_parts(table, identity)?;
    let built = Built::of(table, identity, place, usable, filters);
    built.path.points.as_ref()?;
    let backwards = direction(table, identity, usable, filters, order)?;
    Some(built.path.towards(backwards))
}

/// As [`single_rows`], of the commonest of all statements: one integer is the identity, and one filter holds it to one
/// value. It is built at once, since each of the other way's lists would cost an allocation.
fn single_row(table: &TableDef, identity: &Key, place: usize, filters: &[Filter]) -> Option<Path> {
    let [KeyPart { column, prefix_len: None, .. }] = identity.parts.as_slice() else { return None };
    let is_plain = identity.expressions.is_empty() && table.columns.get(*column)?.ty.is_integer();
    if !is_plain || !is_kept(table, identity) {
        return None;
    }
    let mut of_column = filters.iter().enumerate().filter(|(_, filter)| filter.column == *column);
    let (Some((number, filter)), None) = (of_column.next(), of_column.next()) else { return None };
    let Test::Among(cuts) = &filter.test else { return None };
    let [Cut::Near { stored: Some(stored), side: Side::At, .. }] = cuts.as_slice() else { return None };
    Some(Path {
        key: Some(place),
        prefixes: Vec::new(),
        points: Some(vec![stored.clone()]),
        low: None,
        high: None,
        backwards: false,
        fulfilled: if number < 64 { 1 << number } else { 0 },
    })
}

/// True if the store has this order of the rows.
fn is_kept(table: &TableDef, key: &Key) -> bool {
    key.kind == IndexKind::Ordered && matches!(IndexSet::why_not(table, key), None | Some(NotKept::Identifies))
}

/// Number of the key's first columns that are in MySQL's order; None if the key is not kept.
fn usable_parts(table: &TableDef, key: &Key) -> Option<usize> {
    if !is_kept(table, key) {
        return None;
    }
    let plan = SortKeyPlan::new(&table.sort_key_columns(key)?).ok()?;
    let whole = key.parts.iter().take_while(|part| part.prefix_len.is_none()).count();
    // A part that is not in MySQL's order makes the store treat the whole key as unordered.
    if plan.is_ordered() { Some(whole) } else { None }
}

struct Built {
    path: Path,
    /// Columns that are bounded, those by equality twice.
    worth: usize,
}

impl Built {
    fn of(table: &TableDef, key: &Key, place: usize, usable: usize, filters: &[Filter]) -> Built {
        let mut built = Built { path: Path::whole(Some(place)), worth: 0 };
        for part in key.parts.iter().take(usable) {
            if !built.extend(table, *part, filters) {
                built.bound(table, *part, filters);
                break;
            }
        }
        if table.identity_key().is_some_and(|identity| identity.name == key.name) {
            built.path.points = points(table, key, &built.path.prefixes);
            if built.path.points.is_some() {
                built.path.prefixes.clear();
            }
        }
        built
    }

    /// Adds a column that filters hold to single values; false if there is no such filter.
    fn extend(&mut self, table: &TableDef, part: KeyPart, filters: &[Filter]) -> bool {
        let of_column = filters.iter().enumerate().filter(|(_, filter)| filter.column == part.column);
        let values = of_column.filter_map(|(place, filter)| single_values(filter).map(|values| (place, values)));
        let Some((place, mut values)) = values.min_by_key(|(_, values)| values.len()) else { return false };
        if part.descending {
            values.reverse();
        }
        if self.path.prefixes.len().saturating_mul(values.len()) > PREFIXES_MAX {
            return false;
        }
        self.fulfil(table, part.column, place);
        let prefixes = self.path.prefixes.iter();
        let with = |prefix: &Prefix, value: &Option<Vec<u8>>| {
            let mut longer = Prefix::with_capacity(prefix.len() + 1);
            longer.extend(prefix.iter().cloned().chain([value.clone()]));
            longer
        };
        self.path.prefixes = prefixes.flat_map(|prefix| values.iter().map(|value| with(prefix, value))).collect();
        self.worth += 2;
        true
    }

    /// Bounds the column after the prefix.
    fn bound(&mut self, table: &TableDef, part: KeyPart, filters: &[Filter]) {
        let (mut low, mut high) = (None, None);
        for (place, filter) in filters.iter().enumerate().filter(|(_, filter)| filter.column == part.column) {
            match &filter.test {
                Test::Within(limits) => {
                    let (from, to) = bounds(limits);
                    // Of several bounds on one side the first is taken.
                    let low_holds = limits.low.is_none() || low.is_none() && from.is_some();
                    let high_holds = limits.high.is_none() || high.is_none() && to.is_some();
                    if low_holds && high_holds {
                        self.fulfil(table, part.column, place);
                    }
                    low = low.or(from);
                    high = high.or(to);
                }
                Test::NotNull => {}
                _ => continue,
            }
            // NULL is below all values, and in no range.
            let nullable = table.columns.get(part.column).is_some_and(|column| column.nullable);
            if nullable && low.is_none() {
                low = Some(Bound { value: None, including: false });
            }
        }
        self.worth += usize::from(low.is_some() || high.is_some());
        (self.path.low, self.path.high) = if part.descending { (high, low) } else { (low, high) };
    }

    /// Notes that all rows of the path fulfil a filter: stored integers are equal, and in order, where the filter says
    /// they are.
    fn fulfil(&mut self, table: &TableDef, column: usize, filter: usize) {
        if filter < 64 && table.columns.get(column).is_some_and(|column| column.ty.is_integer()) {
            self.path.fulfilled |= 1 << filter;
        }
    }
}

/// The stored values that a filter leaves, if they are few and known, in ascending order; of equal ones only one.
fn single_values(filter: &Filter) -> Option<Vec<Option<Vec<u8>>>> {
    match &filter.test {
        Test::Null => Some(vec![None]),
        Test::Among(cuts) => {
            let mut values = Vec::new();
            for cut in cuts {
                match cut {
                    Cut::Near { stored: Some(stored), side: Side::At, key } => values.push((key, stored)),
                    // Equal to no value.
                    Cut::Near { side: Side::Before | Side::After, .. } | Cut::Least | Cut::Most => {}
                    Cut::Near { stored: None, .. } => return None,
                }
            }
            values.sort();
            values.dedup_by_key(|(key, _)| *key);
            Some(values.into_iter().map(|(_, stored)| Some(stored.clone())).collect())
        }
        _ => None,
    }
}

fn bounds(limits: &Limits) -> (Option<Bound>, Option<Bound>) {
    let bound = |limit: &Option<(Cut, bool)>, outer: Side| match limit {
        Some((Cut::Near { stored: Some(stored), side, .. }, including)) => {
            let including = match side {
                Side::At => *including,
                side => *side == outer,
            };
            Some(Bound { value: Some(stored.clone()), including })
        }
        _ => None,
    };
    (bound(&limits.low, Side::Before), bound(&limits.high, Side::After))
}

/// Whether the key gives the order asked for: forwards (false), backwards (true), or not at all.
fn direction(table: &TableDef, key: &Key, usable: usize, filters: &[Filter], order: &[By]) -> Option<bool> {
    let mut fixed = Vec::new();
    for filter in if order.is_empty() { &[] } else { filters } {
        // Each column once: a statement may have 100,000 conditions, and orders by as many names.
        if !fixed.contains(&filter.column) && single_values(filter).is_some_and(|values| values.len() <= 1) {
            fixed.push(filter.column);
        }
    }
    let is_fixed = |column: usize| fixed.contains(&column);
    let mut wanted: Vec<By> = Vec::new();
    for by in order {
        // A column that comes again orders nothing more.
        if wanted.iter().all(|before| before.column != by.column) && !is_fixed(by.column) {
            wanted.push(*by);
        }
    }
    let mut wanted = wanted.into_iter().peekable();
    let mut backwards = None;
    for (place, part) in key.parts.iter().enumerate() {
        let Some(by) = wanted.peek().copied() else { break };
        if is_fixed(part.column) {
            continue;
        }
        let reversed = by.descending != part.descending;
        if place >= usable || by.column != part.column || *backwards.get_or_insert(reversed) != reversed {
            return None;
        }
        wanted.next();
    }
    // Rows that differ in no column of the identity are the same row.
    let identifies = table.identity_key().is_some_and(|identity| identity.name == key.name);
    (identifies || wanted.peek().is_none()).then(|| backwards.unwrap_or(false))
}

/// The stored key bytes of each prefix, where equal values have equal bytes.
fn points(table: &TableDef, key: &Key, prefixes: &[Prefix]) -> Option<Vec<Vec<u8>>> {
    let columns: Vec<usize> = key.parts.iter().map(|part| part.column).collect();
    if !columns.iter().all(|column| table.columns.get(*column).is_some_and(|column| has_one_form(&column.ty))) {
        return None;
    }
    // Stored keys have their columns in table order.
    let mut places: Vec<usize> = (0..columns.len()).collect();
    places.sort_by_key(|place| columns.get(*place));
    prefixes
        .iter()
        .map(|prefix| {
            if prefix.len() != columns.len() {
                return None;
            }
            let parts = places.iter().map(|place| prefix.get(*place).and_then(Option::as_deref));
            parts.collect::<Option<Vec<&[u8]>>>().map(|parts| parts.concat())
        })
        .collect()
}

/// True if values of the type that are equal are the same bytes.
fn has_one_form(ty: &ColumnType) -> bool {
    match ty.code {
        t::FLOAT | t::DOUBLE | t::JSON | t::GEOMETRY | t::VECTOR => false,
        t::CHAR | t::VARCHAR | t::BLOB => {
            let name = collation::by_id(ty.collation).map_or("", |found| found.name);
            ty.collation == BINARY || name == "utf8mb4_0900_bin"
        }
        _ => true,
    }
}
