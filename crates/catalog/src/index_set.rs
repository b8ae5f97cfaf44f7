//! Secondary indexes that the store keeps: their ids, and a row's sort key in each of them.
//!
//! In: a table's definition, once; full row images. Out: for each kept index the sort keys of its entries; whether a
//! change of a row changes any of them. Never here: an index whose values are not in row images (full-text, spatial,
//! expressions including multi-valued ones, virtual columns); an index id reused under one table id.
//!
//! The key that identifies rows is not included, because the rows themselves are stored in its order
//! ([`crate::KeyOrder`]).

use values::sort_key::{SortKeyColumn, SortKeyPlan};
use values::{RowLayout, ValueError};

use crate::table::{GeneratedKind, Identity, IndexKind, Key, TableDef};

/// MySQL's limit of columns in a key.
const PARTS_MAX: usize = 16;

/// Why the store does not keep an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// It is the identifying key, in whose order the rows themselves are stored.
    #[error("it identifies the rows, which are stored in its order")]
    Identifies,
    #[error("a FULLTEXT index is not kept")]
    FullText,
    #[error("a SPATIAL index is not kept")]
    Spatial,
    /// A part is an expression; includes multi-valued indexes.
    #[error("an index with an expression is not kept: its values are not in the log")]
    Expression,
    /// A part is a virtual column.
    #[error("an index with a virtual column is not kept")]
    VirtualColumn,
    /// All 65,535 index ids of the table are used up.
    #[error("the table has had more than 65,535 indexes")]
    NoId,
    /// A column has a type that no row image can contain.
    #[error("a column's type is not known")]
    UnknownType,
}

/// The secondary indexes that the store keeps for one definition of a table.
#[derive(Debug)]
pub struct IndexSet {
    indexes: Vec<Index>,
    layout: RowLayout,
    /// Columns of any index that can change while the row's identity stays.
    watched: Box<[bool]>,
    /// One past the last watched column; `columns_end` is one past the last indexed column.
    watched_end: usize,
    columns_end: usize,
}

#[derive(Debug)]
pub struct Index {
    id: u16,
    name: String,
    unique: bool,
    plan: SortKeyPlan,
    /// Column positions in key order.
    columns: Vec<usize>,
}

impl Index {
    /// Its id, unique under the table's id.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if no two rows may have equal keys, NULLs aside.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.unique
    }

    /// How its sort keys are made, and whether they sort in MySQL's order.
    #[must_use]
    pub fn plan(&self) -> &SortKeyPlan {
        &self.plan
    }
}

impl IndexSet {
    /// The kept indexes of a table; `None` if there are none.
    #[must_use]
    pub fn of(table: &TableDef) -> Option<IndexSet> {
        let indexes: Vec<Index> = table.keys.iter().filter_map(|key| kept(table, key).ok()).collect();
        if indexes.is_empty() {
            return None;
        }
        let fixed: &[usize] = match &table.identity {
            Identity::Columns(columns) => columns,
            Identity::WholeImage => &[],
        };
        let mut watched = vec![false; table.columns.len()].into_boxed_slice();
        let mut columns_end = 0;
        for column in indexes.iter().flat_map(|index| &index.columns) {
            columns_end = columns_end.max(*column + 1);
            if let Some(slot) = watched.get_mut(*column) {
                *slot = !fixed.contains(column);
            }
        }
        let watched_end = watched.iter().rposition(|watched| *watched).map_or(0, |last| last + 1);
        Some(IndexSet { indexes, layout: RowLayout::new(&table.column_types()), watched, watched_end, columns_end })
    }

    /// Why a key of the table is not kept; `None` if it is.
    #[must_use]
    pub fn why_not(table: &TableDef, key: &Key) -> Option<NotKept> {
        kept(table, key).err()
    }

    /// All kept indexes, in the order of the table's keys.
    #[must_use]
    pub fn indexes(&self) -> &[Index] {
        &self.indexes
    }

    /// Finds an index by its id.
    #[must_use]
    pub fn index(&self, id: u16) -> Option<&Index> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// True if two images of one row, with the same identity, have equal sort keys in every index, judging by the
    /// stored bytes.
    ///
    /// # Errors
    /// If an image does not fit the definition.
    #[inline]
    pub fn is_same(&self, old: &[u8], new: &[u8]) -> Result<bool, ValueError> {
        if self.watched_end == 0 {
            return Ok(true);
        }
        let (mut old, mut new) = (Walk::new(&self.layout, old)?, Walk::new(&self.layout, new)?);
        for watched in self.watched.iter().take(self.watched_end) {
            let (old, new) = (old.next()?, new.next()?);
            if *watched && old != new {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if an update image with only the columns whose bit is set in `present` may change a sort key, given that
    /// the row's identity stays.
    #[must_use]
    #[inline]
    pub fn may_change(&self, present: &[u8]) -> bool {
        let is_present = |column: usize| present.get(column / 8).is_none_or(|bits| bits >> (column % 8) & 1 != 0);
        self.watched.iter().take(self.watched_end).enumerate().any(|(column, watched)| *watched && is_present(column))
    }

    /// Appends the sort key of a row in one index.
    ///
    /// # Errors
    /// If the image does not fit the definition; `out` then holds a partial key.
    pub fn append(&self, index: &Index, image: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let mut values = [None; PARTS_MAX];
        let mut walk = Walk::new(&self.layout, image)?;
        let end = index.columns.iter().max().map_or(0, |last| last + 1).min(self.columns_end);
        for column in 0..end {
            let value = walk.next()?;
            if let Some(place) = index.columns.iter().position(|indexed| *indexed == column)
                && let Some(slot) = values.get_mut(place)
            {
                *slot = value;
            }
        }
        index.plan.append(values.into_iter().take(index.columns.len()), out)
    }

    /// Like `append`, but returns false and appends nothing if the image has NULL in a NOT NULL column. Such an image
    /// was written before an ALTER TABLE removed NULL and so gave the index another id; under the new id the row never
    /// had an entry.
    ///
    /// # Errors
    /// Those of `append`, except for NULL.
    pub fn append_if_it_can(&self, index: &Index, image: &[u8], out: &mut Vec<u8>) -> Result<bool, ValueError> {
        let start = out.len();
        match self.append(index, image, out) {
            Ok(()) => Ok(true),
            Err(ValueError::NullInKey) => {
                out.truncate(start);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Appends the row's sort keys in all indexes that can contain it (`append_if_it_can`). Each is stored as id (2
    /// bytes), length (2 bytes) and key; [`remembered`] reads them.
    ///
    /// # Errors
    /// Those of `append`.
    pub fn append_all(&self, image: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        for index in &self.indexes {
            out.extend_from_slice(&index.id.to_le_bytes());
            let at = out.len();
            out.extend_from_slice(&[0; 2]);
            if !self.append_if_it_can(index, image, out)? {
                out.truncate(at - 2);
                continue;
            }
            // MySQL's keys have up to 3,072 bytes; their sort keys stay below 64 KiB.
            let len = u16::try_from(out.len() - at - 2).map_err(|_| ValueError::BeyondLimits { what: "a sort key" })?;
            if let Some(slot) = out.get_mut(at..at + 2) {
                slot.copy_from_slice(&len.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Finds the sort key in the index `id` among those that [`IndexSet::append_all`] wrote.
#[must_use]
pub fn remembered(mut all: &[u8], id: u16) -> Option<&[u8]> {
    while let Some((head, rest)) = all.split_first_chunk::<4>() {
        let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let (key, tail) = rest.split_at_checked(len)?;
        if u16::from_le_bytes([head[0], head[1]]) == id {
            return Some(key);
        }
        all = tail;
    }
    None
}

/// Iterates over the columns of a full image.
struct Walk<'a> {
    layout: &'a RowLayout,
    image: &'a [u8],
    nulls: &'a [u8],
    column: usize,
    at: usize,
}

impl<'a> Walk<'a> {
    fn new(layout: &'a RowLayout, image: &'a [u8]) -> Result<Walk<'a>, ValueError> {
        let at = layout.column_count().div_ceil(8);
        let cut_off = ValueError::ImageCutOff { column: 0, available: image.len() };
        Ok(Walk { layout, image, nulls: image.get(..at).ok_or(cut_off)?, column: 0, at })
    }

    /// Stored bytes of the next column; `None` for NULL.
    #[inline]
    fn next(&mut self) -> Result<Option<&'a [u8]>, ValueError> {
        let column = self.column;
        self.column += 1;
        if self.nulls.get(column / 8).is_some_and(|bits| bits >> (column % 8) & 1 != 0) {
            return Ok(None);
        }
        let rest = self.image.get(self.at..).unwrap_or(&[]);
        let len = self.layout.stored_len(column, rest)?;
        self.at += len;
        Ok(rest.get(..len))
    }
}

fn kept(table: &TableDef, key: &Key) -> Result<Index, NotKept> {
    match key.kind {
        IndexKind::Ordered => {}
        IndexKind::FullText => return Err(NotKept::FullText),
        IndexKind::Spatial => return Err(NotKept::Spatial),
    }
    if !key.expressions.is_empty() {
        return Err(NotKept::Expression);
    }
    if table.identity_key().is_some_and(|identity| identity.name == key.name) {
        return Err(NotKept::Identifies);
    }
    let is_virtual =
        |column: usize| table.columns.get(column).is_none_or(|column| column.generated == Some(GeneratedKind::Virtual));
    if key.parts.iter().any(|part| is_virtual(part.column)) {
        return Err(NotKept::VirtualColumn);
    }
    if key.id == 0 {
        return Err(NotKept::NoId);
    }
    let columns: Vec<usize> = key.parts.iter().map(|part| part.column).collect();
    let plan = table.sort_key_columns(key).and_then(|columns| SortKeyPlan::new(&columns).ok());
    match plan {
        Some(plan) if columns.len() <= PARTS_MAX => {
            Ok(Index { id: key.id, name: key.name.clone(), unique: key.unique, plan, columns })
        }
        _ => Err(NotKept::UnknownType),
    }
}

/// Assigns the table's next ids to keys without one. Keys keep id 0 once the ids are used up.
pub(crate) fn give_ids(table: &mut TableDef) {
    for key in table.keys.iter_mut().filter(|key| key.id == 0) {
        if let Some(id) = table.index_ids_given.checked_add(1) {
            table.index_ids_given = id;
            key.id = id;
        }
    }
}

/// Everything that determines the entries of an index; None if the index is not kept.
fn entries_of(table: &TableDef, key: &Key) -> Option<Vec<SortKeyColumn>> {
    kept(table, key).ok().and_then(|_| table.sort_key_columns(key))
}

/// Assigns a new id to every key whose entries may differ from those under its old id. That is the case if a column
/// changed its type, collation, direction or nullability or is among the `revalued` ones, or if the index started or
/// ceased to be kept.
pub(crate) fn renew_changed(old: &TableDef, new: &mut TableDef, revalued: &[usize]) {
    let entries: Vec<_> = new.keys.iter().map(|key| entries_of(new, key)).collect();
    let changed = |key: &Key, now: &Option<Vec<SortKeyColumn>>| {
        let before = old.keys.iter().find(|before| before.id == key.id && key.id != 0);
        before.is_some_and(|before| entries_of(old, before) != *now)
    };
    for (key, now) in new.keys.iter_mut().zip(&entries) {
        if changed(key, now) || key.parts.iter().any(|part| revalued.contains(&part.column)) {
            key.id = 0;
        }
    }
    give_ids(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, StatementContext};

    fn context() -> StatementContext {
        StatementContext { default_db: "d".into(), ..StatementContext::default() }
    }

    fn catalog(statements: &[&str]) -> Catalog {
        let apply = |catalog: Catalog, sql: &&str| catalog.apply(&context(), sql.as_bytes()).unwrap().catalog;
        statements.iter().fold(Catalog::new(0), apply)
    }

    fn ids(catalog: &Catalog) -> Vec<(String, u16)> {
        let table = catalog.table("d", "t").unwrap();
        let mut ids: Vec<_> = table.keys.iter().map(|key| (key.name.clone(), key.id)).collect();
        ids.sort();
        ids
    }

    #[test]
    fn an_index_id_is_never_given_twice() {
        let mut catalog = catalog(&["CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY a (a))"]);
        let named = |all: &[(&str, u16)]| all.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect::<Vec<_>>();
        assert_eq!(ids(&catalog), named(&[("PRIMARY", 1), ("a", 2)]));
        for (sql, expected) in [
            ("ALTER TABLE t RENAME INDEX a TO c", named(&[("PRIMARY", 1), ("c", 2)])),
            ("ALTER TABLE t DROP KEY c, ADD KEY c (a)", named(&[("PRIMARY", 1), ("c", 3)])),
            ("DROP INDEX c ON t", named(&[("PRIMARY", 1)])),
            ("CREATE INDEX c ON t (b)", named(&[("PRIMARY", 1), ("c", 4)])),
        ] {
            catalog = catalog.apply(&context(), sql.as_bytes()).unwrap().catalog;
            assert_eq!(ids(&catalog), expected, "{sql}");
        }
        let back = Catalog::from_json(&catalog.to_json().unwrap()).unwrap();
        assert_eq!(ids(&back), ids(&catalog));
    }

    #[test]
    fn a_catalog_without_index_ids_gets_them() {
        let catalog = catalog(&["CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY a (a), KEY b (b))"]);
        // As in store format 1.
        let mut old: serde_json::Value = serde_json::from_slice(&catalog.to_json().unwrap()).unwrap();
        let table = old.pointer_mut("/databases/0/tables/0").unwrap().as_object_mut().unwrap();
        for name in ["partitioning", "layout_since", "older_layouts", "index_ids_given"] {
            table.remove(name).unwrap();
        }
        for key in table["keys"].as_array_mut().unwrap() {
            key.as_object_mut().unwrap().remove("id").unwrap();
        }
        let old = serde_json::to_string(&old).unwrap();
        assert_eq!(ids(&Catalog::from_json(old.as_bytes()).unwrap()), ids(&catalog));
    }

    #[test]
    fn an_index_whose_entries_change_gets_a_new_id() {
        let catalog = catalog(&["CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9), KEY a (a), KEY b (b))"]);
        let old = catalog.table("d", "t").unwrap();
        let mut new = TableDef::clone(old);
        renew_changed(old, &mut new, &[]);
        assert_eq!(new, **old);
        new.columns[1].nullable = false;
        renew_changed(old, &mut new, &[]);
        let ids = |new: &TableDef| (new.key("a").unwrap().id, new.key("b").unwrap().id, new.index_ids_given);
        assert_eq!(ids(&new), (4, 3, 4));
        renew_changed(old, &mut new, &[2]);
        assert_eq!(ids(&new), (4, 5, 5));
    }

    #[test]
    fn what_is_not_kept_says_why() {
        let catalog = catalog(&[
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, v INT AS (a) VIRTUAL, w INT AS (a) STORED, \
             x VARCHAR(9), g POINT NOT NULL SRID 0, KEY v (a, v), KEY w (w), KEY e ((a + 1)), FULLTEXT f (x), SPATIAL KEY s (g))",
        ]);
        let table = catalog.table("d", "t").unwrap();
        let why = |name: &str| IndexSet::why_not(table, table.key(name).unwrap());
        assert_eq!(why("PRIMARY"), Some(NotKept::Identifies));
        assert_eq!(why("v"), Some(NotKept::VirtualColumn));
        assert_eq!(why("e"), Some(NotKept::Expression));
        assert_eq!(why("f"), Some(NotKept::FullText));
        assert_eq!(why("s"), Some(NotKept::Spatial));
        assert_eq!(why("w"), None);
        let set = IndexSet::of(table).unwrap();
        assert_eq!(set.indexes().iter().map(Index::name).collect::<Vec<_>>(), ["w"]);
    }

    #[test]
    fn sort_keys_follow_the_indexed_columns_alone() {
        let catalog = catalog(&[
            "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) CHARACTER SET latin1, n INT, x INT, KEY i (n DESC, id), KEY j (s(2)))",
        ]);
        let set = IndexSet::of(catalog.table("d", "t").unwrap()).unwrap();
        let image = |id: i32, s: &str, n: Option<i32>, x: i32| {
            let mut out = vec![if n.is_none() { 0b100 } else { 0 }];
            out.extend(id.to_le_bytes());
            out.push(s.len() as u8);
            out.extend(s.as_bytes());
            out.extend(n.into_iter().flat_map(i32::to_le_bytes));
            out.extend(x.to_le_bytes());
            out
        };
        let base = image(1, "abc", Some(5), 1);
        assert!(set.is_same(&base, &image(1, "abc", Some(5), 99)).unwrap());
        assert!(!set.is_same(&base, &image(1, "abd", Some(5), 1)).unwrap());
        assert!(!set.is_same(&base, &image(1, "abc", None, 1)).unwrap());
        let keys = |image: &[u8]| {
            let mut all = Vec::new();
            set.append_all(image, &mut all).unwrap();
            set.indexes().iter().map(|index| remembered(&all, index.id()).unwrap().to_vec()).collect::<Vec<_>>()
        };
        let (one, two) = (keys(&base), keys(&image(1, "abd", Some(6), 1)));
        assert!(one[0] > two[0], "DESC");
        assert_eq!(one[1], two[1], "only two characters count");
        assert!(keys(&image(1, "", None, 1))[0] > one[0], "NULL is lowest, so last of DESC");
        assert!(set.append_all(&base[..7], &mut Vec::new()).is_err());
        assert_eq!(remembered(&[1, 0, 9, 0, 1], 1), None);
    }

    #[test]
    fn a_row_with_null_is_in_no_index_without_null() {
        let catalog = catalog(&["CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b INT, KEY a (a), KEY b (b))"]);
        let set = IndexSet::of(catalog.table("d", "t").unwrap()).unwrap();
        let [a, b] = set.indexes() else { panic!("two indexes") };
        let row = [0b10, 1, 0, 0, 0, 7, 0, 0, 0];
        let mut all = Vec::new();
        set.append_all(&row, &mut all).unwrap();
        assert_eq!(remembered(&all, a.id()), None);
        assert_eq!(remembered(&all, b.id()), Some(&[1, 0x80, 0, 0, 7][..]));
        let mut out = vec![9];
        assert!(!set.append_if_it_can(a, &row, &mut out).unwrap());
        assert_eq!(out, [9]);
    }
}
