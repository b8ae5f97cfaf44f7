//! A transaction's claims: values of unique keys and of foreign keys, and tables.
//!
//! In: a decoded piece that holds one transaction or a slice of it, and the catalog it was decoded under. Out:
//! [`Claims`]. Every row takes a shared claim on its table and on each unique key, and an exclusive claim on its
//! value in each key. Where its image does not show the value (columns left out, an expression, a collation without
//! weights) it claims the key as a whole: exclusively if a value is freed or changed, shared if one is only taken.
//! Mirrors `add_pke` (sql/rpl_write_set_handler.cc) where the image shows everything. Never here: who holds a claim.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::{Catalog, TableDef, TableId};
use values::sort_key::SortKeyPlan;
use values::{OFFSET_ABSENT, OFFSET_NULL};

use super::Rules;
use super::table_keys::{Referred, TableKeys, database, referred, table, value, xa_transaction};
use crate::piece::{CASCADE_GONE, CASCADE_NEW, CASCADE_OLD, DecodedPiece, OpKind, RowOp, Shape, TransactionKind};

/// Mode of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Compatible with other shared claims.
    Shared,
    /// Compatible with no other claim.
    Exclusive,
}

/// The claims of one transaction, or of a slice of it.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// All claims, sorted by hash, each once.
    all: Vec<(u64, Mode)>,
    /// Values of unique keys, and of parents' keys in child rows: the contents of MySQL's writeset.
    values: Vec<(u64, Mode)>,
    databases: Vec<u64>,
    missing_keys: bool,
    unknown_values: bool,
    foreign_parent: bool,
    statement: bool,
    opaque: bool,
    unknown_tables: bool,
}

impl Claims {
    /// Claims of a transaction that may affect anything.
    #[must_use]
    pub fn of_anything() -> Claims {
        Claims { opaque: true, ..Claims::default() }
    }

    /// True if it changes tables whose definition is not known.
    #[must_use]
    pub fn has_unknown_tables(&self) -> bool {
        self.unknown_tables
    }

    /// Claims an XA transaction's identifier: it is prepared once, and ended once.
    pub(super) fn xa_transaction(&mut self, xid: &str) {
        self.object(xa_transaction(xid), Mode::Exclusive);
        self.seal();
    }

    pub(super) fn all(&self) -> &[(u64, Mode)] {
        &self.all
    }

    /// Returns the claims that MySQL's writeset contains.
    pub(super) fn values(&self) -> &[(u64, Mode)] {
        &self.values
    }

    /// Returns the databases of all tables involved.
    pub(super) fn databases(&self) -> &[u64] {
        &self.databases
    }

    /// True if it changes rows of a table without a usable key.
    #[must_use]
    pub fn has_missing_keys(&self) -> bool {
        self.missing_keys
    }

    /// True if it changes values of a unique or foreign key that the log does not show.
    #[must_use]
    pub fn has_unknown_values(&self) -> bool {
        self.unknown_values
    }

    /// True if it changes rows of a table that foreign keys reference.
    #[must_use]
    pub fn changes_foreign_parent(&self) -> bool {
        self.foreign_parent
    }

    /// True if it holds a statement.
    #[must_use]
    pub fn is_statement(&self) -> bool {
        self.statement
    }

    /// True if it holds a statement whose objects are unknown, so that it may affect anything.
    #[must_use]
    pub fn is_opaque(&self) -> bool {
        self.opaque
    }

    /// True if it claims more than single values.
    #[must_use]
    pub fn is_coarse(&self) -> bool {
        self.missing_keys || self.unknown_values
    }

    fn clear(&mut self) {
        let (mut all, mut values, mut databases) =
            (std::mem::take(&mut self.all), std::mem::take(&mut self.values), std::mem::take(&mut self.databases));
        all.clear();
        values.clear();
        databases.clear();
        *self = Claims { all, values, databases, ..Claims::default() };
    }

    /// Claims an object as a whole.
    fn object(&mut self, object: u64, mode: Mode) {
        self.all.push((object, mode));
    }

    /// Claims a value that is part of MySQL's writeset.
    fn value(&mut self, hash: u64, mode: Mode) {
        self.all.push((hash, mode));
        self.values.push((hash, mode));
    }

    fn seal(&mut self) {
        for list in [&mut self.all, &mut self.values] {
            // `Exclusive` sorts after `Shared`, so the stronger claim of a thing is kept.
            list.sort_unstable();
            list.dedup_by(|later, kept| {
                let same = later.0 == kept.0;
                if same {
                    kept.1 = later.1;
                }
                same
            });
        }
        self.databases.sort_unstable();
        self.databases.dedup();
    }
}

/// Effect of a row change on one list of columns.
enum Touched {
    Nothing,
    /// The old and new sort keys are in the buffers; false if there is none, or it contains NULL.
    Values {
        old: bool,
        new: bool,
    },
    /// The log does not show the values; the mode is that of the claim on the whole object.
    Unknown(Mode),
}

/// One image of a row, walked.
#[derive(Default)]
struct Image {
    offsets: Vec<(u32, u32)>,
    /// True if the op has such an image.
    here: bool,
}

/// Extracts the claims of transactions. Keeps its buffers, and the tables seen under one catalog.
#[derive(Default)]
pub struct Extractor {
    rules: Rules,
    catalog_version: Option<u64>,
    tables: HashMap<TableId, Arc<TableKeys>>,
    before: Image,
    after: Image,
    old_key: Vec<u8>,
    new_key: Vec<u8>,
}

impl Extractor {
    /// Creates an extractor for a tracker of these rules.
    #[must_use]
    pub fn new(rules: Rules) -> Extractor {
        Extractor { rules, ..Extractor::default() }
    }

    /// Extracts the claims of a piece's row changes into `claims`, which is cleared first. `catalog` is the one that
    /// the piece was decoded under. For a piece with a statement it is the one before it, and `after` the one after
    /// it, if it changed.
    pub fn extract(&mut self, decoded: &DecodedPiece, catalog: &Catalog, after: Option<&Catalog>, claims: &mut Claims) {
        claims.clear();
        if decoded.transactions.iter().any(|transaction| transaction.kind == TransactionKind::Statement) {
            claims.statement = true;
            let known = after.is_some_and(|after| claim_changed(catalog, after, self.rules, claims));
            claims.opaque = !known;
        }
        // Rows in a statement's own transaction belong to tables as the statement leaves them.
        let catalog = after.unwrap_or(catalog);
        if after.is_some() || self.catalog_version != Some(decoded.catalog_version) {
            self.tables.clear();
            self.catalog_version = after.is_none().then_some(decoded.catalog_version);
        }
        for op in decoded.lanes.iter().flatten().chain(&decoded.barrier) {
            let shape = decoded.shape_of(op);
            let def = &shape.plan.def;
            let keys = self.tables.entry(def.id).or_insert_with(|| Arc::new(TableKeys::new(def, catalog)));
            let keys = Arc::clone(keys);
            self.row(decoded, shape, op, &keys, catalog, claims);
        }
        for name in &decoded.unknown {
            claims.unknown_tables = true;
            claims.databases.push(database(&name.0));
            claims.object(table(&name.0, &name.1), Mode::Exclusive);
        }
        claims.seal();
    }

    fn row(
        &mut self,
        decoded: &DecodedPiece,
        shape: &Shape,
        op: &RowOp,
        keys: &TableKeys,
        catalog: &Catalog,
        claims: &mut Claims,
    ) {
        if claims.databases.last() != keys.databases.last() {
            claims.databases.extend_from_slice(&keys.databases);
        }
        claims.foreign_parent |= !keys.children.is_empty();
        claims.unknown_tables |= keys.of_unknown_parent;
        claims.object(keys.table, Mode::Shared);
        if keys.keyless {
            // Inserts are independent of each other. A deletion names its row only by values, so it claims all rows.
            claims.missing_keys = true;
            claims.object(keys.identity, if op.kind == OpKind::AddOne { Mode::Shared } else { Mode::Exclusive });
        } else {
            self.identity(decoded, shape, op, keys, claims);
        }
        if op.flags & (CASCADE_OLD | CASCADE_NEW | CASCADE_GONE) != 0 {
            claim_reached(catalog, &shape.plan.def, claims);
        }
        let uniques = &keys.uniques;
        if uniques.is_empty() && keys.parents.is_empty() && keys.children.is_empty() {
            return;
        }
        self.walk(decoded, shape, op);
        for key in uniques {
            let touched = self.touched(decoded, op, &key.columns, key.plan.as_ref());
            self.claim(touched, key.object, Mode::Exclusive, true, claims);
        }
        for key in &keys.parents {
            let touched = self.foreign(decoded, op, key);
            self.claim(touched, key.object, Mode::Shared, true, claims);
        }
        for key in &keys.children {
            let touched = self.foreign(decoded, op, key);
            self.claim(touched, key.object, Mode::Exclusive, false, claims);
        }
    }

    /// Claims the row itself. A row's stored key bytes are the same in every image, so two changes of it conflict
    /// whatever the collation.
    fn identity(&mut self, decoded: &DecodedPiece, shape: &Shape, op: &RowOp, keys: &TableKeys, claims: &mut Claims) {
        let (order, bytes) = (&shape.plan.order, decoded.bytes(op.key));
        if order.is_ordered() {
            self.new_key.clear();
            order.append(bytes, &mut self.new_key);
            claims.object(keys.identity, Mode::Shared);
            claims.value(value(keys.identity, &self.new_key), Mode::Exclusive);
            return;
        }
        let goes = matches!(op.kind, OpKind::Delete | OpKind::MoveFrom | OpKind::RemoveOne);
        claims.unknown_values = true;
        claims.object(keys.identity, if goes { Mode::Exclusive } else { Mode::Shared });
        claims.value(value(keys.identity, bytes), Mode::Exclusive);
    }

    /// Finds the columns' offsets in the op's images.
    fn walk(&mut self, decoded: &DecodedPiece, shape: &Shape, op: &RowOp) {
        let layout = &shape.plan.layout;
        let before = decoded.bytes(op.before);
        self.before.here = !before.is_empty()
            && match shape.before_present.len {
                0 => layout.walk_offsets(before, &mut self.before.offsets).is_ok(),
                _ => layout.walk_present(decoded.bytes(shape.before_present), before, &mut self.before.offsets).is_ok(),
            };
        let partial = matches!(op.kind, OpKind::Merge | OpKind::MoveTo | OpKind::MergeJson | OpKind::MoveToJson);
        let after = after_image(decoded, shape, op);
        self.after.here = !after.is_empty()
            && if partial && shape.after_present.len > 0 {
                layout.walk_present(decoded.bytes(shape.after_present), after, &mut self.after.offsets).is_ok()
            } else {
                layout.walk_offsets(after, &mut self.after.offsets).is_ok()
            };
    }

    /// Like `touched`, for a foreign key: a change of other columns does not affect it.
    fn foreign(&mut self, decoded: &DecodedPiece, op: &RowOp, key: &Referred) -> Touched {
        if key.columns.is_empty() {
            return Touched::Unknown(Mode::Exclusive);
        }
        if self.rules == Rules::InnoDb {
            return self.locked(decoded, op, key);
        }
        match self.touched(decoded, op, &key.columns, key.plan.as_ref()) {
            Touched::Values { old: true, new: true } if self.old_key == self.new_key => Touched::Nothing,
            // Its values cannot be compared with those of the other table.
            Touched::Unknown(_) => Touched::Unknown(Mode::Exclusive),
            touched => touched,
        }
    }
}

impl Extractor {
    /// Like `foreign`, by InnoDB's locks: a child that is inserted or looks its parent up again locks the parent's row,
    /// and so does any change of the parent.
    fn locked(&mut self, decoded: &DecodedPiece, op: &RowOp, key: &Referred) -> Touched {
        use OpKind::{Merge, MergeJson, MoveTo, MoveToJson, Update};
        let updates = matches!(op.kind, Update | Merge | MergeJson);
        if updates && !key.looked_up_by.is_empty() {
            let logged = key.looked_up_by.iter().any(|column| is_present(&self.after, *column));
            if self.after.here && (!logged || self.is_unchanged(decoded, op, &key.looked_up_by)) {
                return Touched::Nothing;
            }
        }
        let Some(plan) = key.plan.as_ref() else { return Touched::Unknown(Mode::Exclusive) };
        let whole = |image: &Image| image.here && key.columns.iter().all(|column| is_present(image, *column));
        let any = |image: &Image| image.here && key.columns.iter().any(|column| is_present(image, *column));
        let (has_old, has_new) = (whole(&self.before), whole(&self.after));
        let (with_old, with_new) = match op.kind {
            _ if updates && has_old => (true, any(&self.after)),
            OpKind::Insert | OpKind::AddOne if has_new => (false, true),
            OpKind::Delete | OpKind::RemoveOne | OpKind::MoveFrom if has_old => (true, false),
            MoveTo | MoveToJson if has_new => (false, true),
            // The old row's claim covers a value that moves with the row.
            MoveTo | MoveToJson if !any(&self.after) => return Touched::Nothing,
            _ => return Touched::Unknown(Mode::Exclusive),
        };
        let (before, after) = (decoded.bytes(op.before), self.after_bytes(decoded, op));
        let old = with_old && key_of(plan, &key.columns, (&self.before, before), None, &mut self.old_key);
        let both = with_old.then_some((&self.before, before));
        let new = with_new && key_of(plan, &key.columns, (&self.after, after), both, &mut self.new_key);
        Touched::Values { old, new }
    }
}

fn after_image<'a>(decoded: &'a DecodedPiece, shape: &Shape, op: &RowOp) -> &'a [u8] {
    if matches!(op.kind, OpKind::MergeJson | OpKind::MoveToJson) {
        decoded.partial_image(shape, op).1
    } else {
        decoded.bytes(op.after)
    }
}

/// Claims every table that a statement changes, as a whole; false if it changes none.
fn claim_changed(before: &Catalog, after: &Catalog, rules: Rules, claims: &mut Claims) -> bool {
    let mut any = false;
    for change in after.changes_since(before).iter().filter(|change| change.before != change.after) {
        for (catalog, def) in [(before, change.before), (after, change.after)] {
            def.into_iter().for_each(|def| claim_table(catalog, def, rules, claims));
        }
        any = true;
    }
    any
}

/// Claims a table and its foreign keys, in both directions. By InnoDB's locks the tables at their other ends too: DDL
/// takes their metadata locks, and a new foreign key reads their rows.
fn claim_table(catalog: &Catalog, def: &TableDef, rules: Rules, claims: &mut Claims) {
    claims.databases.push(database(&def.db));
    claims.object(table(&def.db, &def.name), Mode::Exclusive);
    for key in &def.foreign_keys {
        claims.databases.push(database(&key.parent_db));
        claims.object(referred(key), Mode::Exclusive);
        if rules == Rules::InnoDb {
            claims.object(table(&key.parent_db, &key.parent_table), Mode::Exclusive);
        }
    }
    for (child, key) in catalog.children(&def.db, &def.name) {
        claims.databases.push(database(&child.db));
        claims.object(referred(key), Mode::Exclusive);
        if rules == Rules::InnoDb {
            claims.object(table(&child.db, &child.name), Mode::Exclusive);
        }
    }
}

/// Claims the tables whose rows are changed, unlogged, by foreign keys that follow a row of this table, directly or
/// through others.
fn claim_reached(catalog: &Catalog, def: &TableDef, claims: &mut Claims) {
    let mut reached: Vec<&Arc<TableDef>> = Vec::new();
    let mut look: Vec<(&str, &str)> = vec![(&def.db, &def.name)];
    while let Some((db, name)) = look.pop() {
        for (child, key) in catalog.children(db, name) {
            let follows = key.on_delete.changes_children() || key.on_update.changes_children();
            if follows && !reached.iter().any(|known| known.id == child.id) {
                reached.push(child);
                look.push((&child.db, &child.name));
            }
        }
    }
    claims.missing_keys |= !reached.is_empty();
    for child in reached {
        claim_table(catalog, child, Rules::Own, claims);
    }
}

impl Extractor {
    /// Determines the effect of the op, whose images are walked, on these columns.
    fn touched(
        &mut self,
        decoded: &DecodedPiece,
        op: &RowOp,
        columns: &[usize],
        plan: Option<&SortKeyPlan>,
    ) -> Touched {
        use OpKind::{AddOne, Delete, Insert, Merge, MergeJson, MoveFrom, MoveTo, MoveToJson, RemoveOne, Update};
        let whole = |image: &Image| image.here && columns.iter().all(|column| is_present(image, *column));
        let any = |image: &Image| image.here && columns.iter().any(|column| is_present(image, *column));
        let (has_old, has_new) = (whole(&self.before), whole(&self.after));
        let Some(plan) = plan.filter(|_| !columns.is_empty()) else {
            return match op.kind {
                Insert | AddOne => Touched::Unknown(Mode::Shared),
                Delete | RemoveOne | MoveFrom => Touched::Unknown(Mode::Exclusive),
                // The columns of an expression are unknown.
                _ if columns.is_empty() || any(&self.after) && !self.is_unchanged(decoded, op, columns) => {
                    Touched::Unknown(Mode::Exclusive)
                }
                _ => Touched::Nothing,
            };
        };
        let (with_old, with_new) = match op.kind {
            Insert | AddOne if has_new => (false, true),
            Delete | RemoveOne if has_old => (true, false),
            // Columns that the after image lacks stay with the row.
            MoveFrom if has_old => (true, false),
            MoveTo | MoveToJson if has_new => (false, true),
            MoveTo | MoveToJson if !any(&self.after) => return Touched::Nothing,
            Update | Merge | MergeJson if !any(&self.after) => return Touched::Nothing,
            Update | Merge | MergeJson if has_old => (true, true),
            _ => return Touched::Unknown(Mode::Exclusive),
        };
        let (before, after) = (decoded.bytes(op.before), self.after_bytes(decoded, op));
        let old = with_old && key_of(plan, columns, (&self.before, before), None, &mut self.old_key);
        let both = with_old.then_some((&self.before, before));
        let new = with_new && key_of(plan, columns, (&self.after, after), both, &mut self.new_key);
        Touched::Values { old, new }
    }

    fn after_bytes<'a>(&self, decoded: &'a DecodedPiece, op: &RowOp) -> &'a [u8] {
        after_image(decoded, decoded.shape_of(op), op)
    }

    /// True if an update's images show that these columns are unchanged.
    fn is_unchanged(&self, decoded: &DecodedPiece, op: &RowOp, columns: &[usize]) -> bool {
        let (before, after) = (decoded.bytes(op.before), self.after_bytes(decoded, op));
        self.before.here
            && columns.iter().all(|column| {
                let (old, new) = (self.before.offsets.get(*column), self.after.offsets.get(*column));
                match (old, new) {
                    (_, None | Some(&(OFFSET_ABSENT, _))) => true,
                    (None | Some(&(OFFSET_ABSENT, _)), _) => false,
                    (Some(&(OFFSET_NULL, _)), Some(&(OFFSET_NULL, _))) => true,
                    (Some(old), Some(new)) => {
                        let (old, new) = (bytes_at(before, *old), bytes_at(after, *new));
                        old.is_some() && old == new
                    }
                }
            })
    }

    /// Claims the touched values of an object in `mode`; with `written` they are part of MySQL's writeset.
    fn claim(&mut self, touched: Touched, object: u64, mode: Mode, written: bool, claims: &mut Claims) {
        match touched {
            Touched::Nothing => {}
            Touched::Unknown(whole) => {
                claims.unknown_values = true;
                claims.object(object, whole);
            }
            Touched::Values { old, new } => {
                claims.object(object, Mode::Shared);
                for (is, bytes) in [(old, &self.old_key), (new, &self.new_key)] {
                    match (is, written) {
                        (false, _) => {}
                        (true, true) => claims.value(value(object, bytes), mode),
                        (true, false) => claims.object(value(object, bytes), mode),
                    }
                }
            }
        }
    }
}

fn is_present(image: &Image, column: usize) -> bool {
    image.offsets.get(column).is_some_and(|place| place.0 != OFFSET_ABSENT)
}

fn bytes_at(image: &[u8], (start, len): (u32, u32)) -> Option<&[u8]> {
    if start >= OFFSET_ABSENT {
        return None;
    }
    image.get(start as usize..)?.get(..len as usize)
}

/// Builds the sort key of some columns of an image; columns that it lacks are taken from `other`. False if one of
/// them is NULL, which equals nothing.
fn key_of(
    plan: &SortKeyPlan,
    columns: &[usize],
    (image, bytes): (&Image, &[u8]),
    other: Option<(&Image, &[u8])>,
    out: &mut Vec<u8>,
) -> bool {
    out.clear();
    for (position, column) in columns.iter().enumerate() {
        let (from, bytes) = match other {
            Some(other) if !is_present(image, *column) => other,
            _ => (image, bytes),
        };
        let stored = from.offsets.get(*column).and_then(|place| bytes_at(bytes, *place));
        // Bytes that are no value of the type are refused when they are applied.
        if stored.is_none() || plan.append_column(position, stored, out).is_err() {
            return false;
        }
    }
    true
}
