//! The serial model: draws transactions, and keeps the rows that they leave.

use std::collections::BTreeMap;

use base::{Gtid, GtidSet, Random, Tag, Uuid};
use binlog::{RowsKind, TableMapEvent, row_flags};

use super::event::Event;
use super::table::{Shape, Table, shapes};
use super::{Flavour, State};
use crate::log::{BIG, INT, NULL, Row, Stored, TEXT, VARCHAR, big, bits, full_image, image, int, text, varchar};

/// A row before and after a change.
type Images = (Option<Row>, Option<Row>);

pub(super) struct Model {
    pub(super) random: Random,
    pub(super) flavour: Flavour,
    pub(super) executed: GtidSet,
    tables: Vec<Table>,
    digest: u64,
    gnos: Vec<u64>,
    next_name: usize,
    next_map_id: u64,
}

fn sources() -> Vec<(Uuid, Tag)> {
    vec![(Uuid([0x11; 16]), Tag::EMPTY), (Uuid([0x22; 16]), Tag::EMPTY), (Uuid([0x22; 16]), Tag::new(b"blue").unwrap())]
}

impl Model {
    pub(super) fn new(random: Random, flavour: Flavour) -> Model {
        Model {
            random,
            flavour,
            executed: GtidSet::new(),
            tables: Vec::new(),
            digest: 0,
            gnos: vec![0; sources().len()],
            next_name: 0,
            next_map_id: 100,
        }
    }

    pub(super) fn state(&self) -> State {
        let mut tables: Vec<String> = self.tables.iter().map(Table::full_name).collect();
        tables.sort();
        State { digest: self.digest, executed: self.executed.clone(), tables }
    }

    pub(super) fn next_gtid(&mut self) -> Gtid {
        let sources = sources();
        let source = self.random.below(sources.len());
        // GTIDs with gaps.
        self.gnos[source] += 1 + self.random.below(10) as u64 / 9;
        let (uuid, tag) = sources[source];
        Gtid { uuid, tag, gno: self.gnos[source] }
    }

    /// Makes a table; returns its database and its statement.
    fn new_table(&mut self, shape: Shape) -> (String, String) {
        let (db, name) = self.fresh_name();
        let sql = shape.sql(&db, &name);
        self.add_table(db.clone(), name, shape);
        (db, sql)
    }

    pub(super) fn create(&mut self, shape: Shape) -> Vec<Event> {
        let (db, sql) = self.new_table(shape);
        vec![Event::Query { db, sql }]
    }

    fn fresh_name(&mut self) -> (String, String) {
        self.next_name += 1;
        let db = if self.random.one_in(3) { "e" } else { "d" };
        (db.into(), format!("t{}", self.next_name))
    }

    fn add_table(&mut self, db: String, name: String, shape: Shape) {
        self.next_map_id += 1;
        self.tables.push(Table { db, name, shape, map_id: self.next_map_id, rows: BTreeMap::new() });
    }

    pub(super) fn ddl(&mut self) -> Vec<Event> {
        if self.tables.len() < 4 {
            let shape = self.any_shape();
            return self.create(shape);
        }
        let at = self.random.below(self.tables.len());
        let table = &self.tables[at];
        let (db, name) = (table.db.clone(), table.name.clone());
        let query = |sql: String| vec![Event::Query { db: "d".into(), sql }];
        match self.random.below(8) {
            0 => {
                self.forget_rows(at);
                self.tables.remove(at);
                query(format!("DROP TABLE `{db}`.`{name}`"))
            }
            1 => {
                self.forget_rows(at);
                query(format!("TRUNCATE TABLE `{db}`.`{name}`"))
            }
            2 => {
                let (to_db, to_name) = self.fresh_name();
                self.rename(at, &to_db, &to_name);
                query(format!("RENAME TABLE `{db}`.`{name}` TO `{to_db}`.`{to_name}`"))
            }
            3 => {
                // A swap through a third name.
                let other = (at + 1) % self.tables.len();
                let (odb, oname) = (self.tables[other].db.clone(), self.tables[other].name.clone());
                self.rename(at, "d", "tmp_swap");
                self.rename(other, &db, &name);
                self.rename(at, &odb, &oname);
                query(format!(
                    "RENAME TABLE `{db}`.`{name}` TO d.tmp_swap, `{odb}`.`{oname}` TO `{db}`.`{name}`, \
                     d.tmp_swap TO `{odb}`.`{oname}`"
                ))
            }
            4 => query("CREATE USER 'someone'@'%' IDENTIFIED BY 'secret'".into()),
            5 => {
                self.next_name += 1;
                let column = self.tables[at].shape.columns[0].name;
                query(format!("CREATE INDEX i{} ON `{db}`.`{name}` (`{column}`)", self.next_name))
            }
            6 => {
                let shape = self.tables[at].shape.clone();
                let (to_db, to_name) = self.fresh_name();
                self.add_table(to_db.clone(), to_name.clone(), shape);
                query(format!("CREATE TABLE `{to_db}`.`{to_name}` LIKE `{db}`.`{name}`"))
            }
            _ => {
                let shape = self.any_shape();
                self.create(shape)
            }
        }
    }

    fn any_shape(&mut self) -> Shape {
        let shapes = shapes();
        shapes[self.random.below(shapes.len())].clone()
    }

    /// CREATE TABLE … SELECT: a statement, then rows, in one transaction.
    pub(super) fn create_select(&mut self) -> Vec<Event> {
        let shape = self.any_shape();
        let (db, sql) = self.new_table(shape);
        let mut events = vec![
            Event::Query { db: "d".into(), sql: "BEGIN".into() },
            Event::Query { db, sql: format!("{sql} START TRANSACTION") },
        ];
        let at = self.tables.len() - 1;
        let rows = 1 + self.random.below(20);
        self.statement(at, Some(RowsKind::Write), rows, &mut events);
        events.push(Event::Xid);
        events
    }

    pub(super) fn changes(&mut self, statements: usize) -> Vec<Event> {
        let mut events = vec![Event::Query { db: "d".into(), sql: "BEGIN".into() }];
        for _ in 0..statements {
            if self.tables.is_empty() {
                break;
            }
            match self.random.below(30) {
                0 => events.push(Event::Query { db: "d".into(), sql: "SAVEPOINT `s`".into() }),
                1 => self.system_rows(&mut events),
                2 => {
                    // A table map without rows, as for a foreign key's parent; its definition need not be known.
                    let shape = self.any_shape();
                    events.push(Event::Map { id: 9, db: "d".into(), table: "no_such".into(), shape });
                }
                _ => {}
            }
            let at = self.random.below(self.tables.len());
            let rows = if self.random.one_in(6) { self.random.below(30) } else { 1 + self.random.below(3) };
            self.statement(at, None, rows, &mut events);
        }
        events.push(Event::Xid);
        events
    }

    fn system_rows(&mut self, events: &mut Vec<Event>) {
        let shape = shapes()[0].clone();
        let all = (Vec::new(), bits(&[true; 4]), full_image(&[int(1), NULL, big(2), NULL]));
        let rows = rows_event(RowsKind::Write, 8, &shape, all, row_flags::STMT_END);
        events.extend([Event::Map { id: 8, db: "mysql".into(), table: "something".into(), shape }, rows]);
    }

    /// One statement: a table map and its rows, possibly in several events.
    fn statement(&mut self, at: usize, kind: Option<RowsKind>, rows: usize, events: &mut Vec<Event>) {
        let kind = kind.unwrap_or_else(|| match self.random.below(10) {
            0..4 => RowsKind::Write,
            4..8 => RowsKind::Update,
            _ => RowsKind::Delete,
        });
        if self.random.one_in(5) {
            events.push(Event::RowsQuery("UPDATE something".into()));
        }
        let table = &self.tables[at];
        let (id, shape) = (table.map_id, table.shape.clone());
        events.push(Event::Map { id, db: table.db.clone(), table: table.name.clone(), shape: shape.clone() });
        let mode = if self.flavour.partial_images { self.random.below(3) } else { 0 };
        let unused = self.random.one_in(4);
        // A functional index adds a hidden column, visible only in the bitmaps.
        let hidden = self.random.one_in(5);
        // Rows whose images have the same columns share an event; others start a new one.
        let mut open: Option<(Vec<u8>, Vec<u8>, Vec<u8>)> = None;
        for _ in 0..rows.max(1) {
            let Some((before_row, after_row)) = self.change_row(at, kind) else { continue };
            let (before, after) = self.present(&shape, kind, mode, before_row.as_deref(), after_row.as_deref());
            let columns = |present: &[bool]| {
                let mut bits = bits(present);
                if hidden && !present.len().is_multiple_of(8) {
                    bits[present.len() / 8] |= 1 << (present.len() % 8);
                }
                bits
            };
            let (before_bits, after_bits) = (
                if kind.has_before() { columns(&before) } else { vec![] },
                if kind.has_after() { columns(&after) } else { vec![] },
            );
            let images = [(&before_row, &before), (&after_row, &after)]
                .map(|(row, present)| row.as_ref().map_or_else(Vec::new, |row| image_with(row, present, unused)));
            let bytes = images.concat();
            let cut = self.random.one_in(8);
            match &mut open {
                Some((b, a, all)) if !cut && *b == before_bits && *a == after_bits => all.extend(bytes),
                _ => {
                    if let Some(full) = open.take() {
                        events.push(rows_event(kind, id, &shape, full, 0));
                    }
                    open = Some((before_bits, after_bits, bytes));
                }
            }
        }
        if let Some(full) = open.take() {
            events.push(rows_event(kind, id, &shape, full, row_flags::STMT_END));
        } else {
            // A statement that changed nothing in the end.
            events.push(Event::Rows {
                kind: RowsKind::Write,
                id: TableMapEvent::DUMMY_TABLE_ID,
                columns: 0,
                before: vec![],
                after: vec![],
                rows: vec![],
                flags: row_flags::STMT_END,
            });
        }
    }

    /// Returns which columns the images contain: 0 FULL, 1 MINIMAL, 2 NOBLOB.
    fn present(
        &mut self,
        shape: &Shape,
        kind: RowsKind,
        mode: usize,
        before: Option<&[Stored]>,
        after: Option<&[Stored]>,
    ) -> (Vec<bool>, Vec<bool>) {
        let columns = shape.columns.len();
        let all = vec![true; columns];
        let keyless = shape.key.is_empty();
        let changed = |c: usize| before.is_none_or(|b| after.is_none_or(|a| a[c] != b[c]));
        let mut before_present = all.clone();
        let mut after_present = all;
        for c in 0..columns {
            let in_key = shape.key.contains(&c);
            let blob = shape.columns[c].ty == TEXT;
            match mode {
                1 => {
                    before_present[c] = keyless || in_key;
                    after_present[c] = if kind == RowsKind::Write {
                        // Left out when it has its default.
                        in_key || after.is_some_and(|a| a[c] != shape.omitted(c)) || self.random.one_in(2)
                    } else {
                        changed(c)
                    };
                }
                2 => {
                    before_present[c] = keyless || in_key || !blob;
                    after_present[c] = in_key || !blob || changed(c);
                }
                _ => {}
            }
        }
        // A source does not log an UPDATE that changes nothing; here it is logged, with one column.
        after_present[0] |= !after_present.contains(&true);
        (before_present, after_present)
    }

    /// Changes one row of the model and returns its images.
    fn change_row(&mut self, at: usize, kind: RowsKind) -> Option<Images> {
        match kind {
            RowsKind::Write => {
                let row = self.new_row(at)?;
                self.count(at, &row, 1);
                Some((None, Some(row)))
            }
            RowsKind::Delete => {
                let row = self.pick(at)?;
                self.count(at, &row, -1);
                Some((Some(row), None))
            }
            _ => {
                let old = self.pick(at)?;
                let mut new = old.clone();
                let columns = new.len();
                for _ in 0..1 + self.random.below(2) {
                    let column = self.random.below(columns);
                    if !self.tables[at].shape.key.contains(&column) || self.random.one_in(3) {
                        new[column] = self.value(at, column);
                    }
                }
                self.count(at, &old, -1);
                let table = &self.tables[at];
                if !table.shape.key.is_empty() && table.rows.contains_key(&table.key_of(&new)) {
                    self.count(at, &old, 1);
                    return None;
                }
                self.count(at, &new, 1);
                Some((Some(old), Some(new)))
            }
        }
    }

    fn new_row(&mut self, at: usize) -> Option<Row> {
        for _ in 0..8 {
            let shape = self.tables[at].shape.clone();
            let row: Row = (0..shape.columns.len())
                .map(|c| {
                    if !shape.key.contains(&c) && self.random.one_in(3) { shape.omitted(c) } else { self.value(at, c) }
                })
                .collect();
            let table = &self.tables[at];
            if shape.key.is_empty() || !table.rows.contains_key(&table.key_of(&row)) {
                return Some(row);
            }
        }
        None
    }

    fn value(&mut self, at: usize, column: usize) -> Stored {
        let shape = &self.tables[at].shape;
        let (ty, nullable) = (shape.columns[column].ty, shape.columns[column].nullable);
        let keyless = shape.key.is_empty();
        if nullable && self.random.one_in(5) {
            return NULL;
        }
        // Few values, so that keys recur and copies of a keyless row meet.
        let n = self.random.below(if keyless { 3 } else { 40 });
        match ty {
            INT => int(n - 5),
            BIG => big(i64::from(n) - 5),
            VARCHAR => varchar(&format!("k{n}")),
            _ => {
                let letter = char::from(b'a' + (n % 26) as u8);
                text(&letter.to_string().repeat(self.random.below(if keyless { 3 } else { 200 })))
            }
        }
    }

    fn pick(&mut self, at: usize) -> Option<Row> {
        let count = self.tables[at].rows.len();
        if count == 0 {
            return None;
        }
        let nth = self.random.below(count);
        self.tables[at].rows.values().nth(nth).map(|(row, _)| row.clone())
    }

    /// Adds copies of a row, or takes them away.
    fn count(&mut self, at: usize, row: &[Stored], change: i64) {
        let table = &mut self.tables[at];
        let key = table.key_of(row);
        let before = table.rows.remove(&key).map_or(0, |(_, copies)| copies);
        let after = before.checked_add_signed(change).unwrap();
        if before > 0 {
            self.digest = self.digest.wrapping_sub(table.row_digest(row, before));
        }
        if after > 0 {
            self.digest = self.digest.wrapping_add(table.row_digest(row, after));
            table.rows.insert(key, (row.to_vec(), after));
        }
    }

    fn forget_rows(&mut self, at: usize) {
        self.digest = self.digest.wrapping_sub(self.tables[at].digest());
        self.tables[at].rows.clear();
    }

    fn rename(&mut self, at: usize, db: &str, name: &str) {
        let table = &mut self.tables[at];
        self.digest = self.digest.wrapping_sub(table.digest());
        (table.db, table.name) = (db.into(), name.into());
        self.digest = self.digest.wrapping_add(table.digest());
    }
}

/// A row image; `unused` sets the null bits that no column has.
fn image_with(row: &[Stored], present: &[bool], unused: bool) -> Vec<u8> {
    let mut image = image(row, present);
    let count = present.iter().filter(|present| **present).count();
    if unused && count % 8 != 0 {
        image[count / 8] |= 0xff << (count % 8);
    }
    image
}

fn rows_event(
    kind: RowsKind,
    id: u64,
    shape: &Shape,
    (before, after, rows): (Vec<u8>, Vec<u8>, Vec<u8>),
    flags: u16,
) -> Event {
    Event::Rows { kind, id, columns: shape.columns.len(), before, after, rows, flags }
}
