//! The index finds the same child rows as a scan: random rows in memory, in sealed generations and on disk, after
//! inserts, updates and deletions.

use base::{Random, SequenceNumber};
use catalog::{StatementContext, TableId};
use store::{CutPoint, Disk, DiskOptions};

use super::*;

/// Tables whose foreign keys are found by: an index of their own, in a table without a key; text of another length,
/// equal whatever its case; two columns in another order; the primary key; a unique key of nullable columns.
const TABLES: [&str; 7] = [
    "CREATE TABLE p (id INT PRIMARY KEY, code VARCHAR(20), a INT, b SMALLINT, UNIQUE (code), UNIQUE (a, b)) COLLATE utf8mb4_0900_ai_ci",
    "CREATE TABLE c0 (n INT PRIMARY KEY, r INT, FOREIGN KEY (r) REFERENCES p (id) ON DELETE CASCADE)",
    "CREATE TABLE c1 (n INT, r INT, FOREIGN KEY (r) REFERENCES p (id) ON DELETE CASCADE)",
    "CREATE TABLE c2 (n INT PRIMARY KEY, r VARCHAR(300), FOREIGN KEY (r) REFERENCES p (code) ON DELETE CASCADE) COLLATE utf8mb4_0900_ai_ci",
    "CREATE TABLE c3 (n INT PRIMARY KEY, b SMALLINT, a INT, KEY (b, a), FOREIGN KEY (a, b) REFERENCES p (a, b) ON DELETE CASCADE)",
    "CREATE TABLE c4 (r INT, n INT, PRIMARY KEY (r, n), FOREIGN KEY (r) REFERENCES p (id) ON DELETE CASCADE)",
    "CREATE TABLE c5 (n INT PRIMARY KEY, r INT, UNIQUE u (r, n), FOREIGN KEY (r) REFERENCES p (id) ON DELETE CASCADE)",
];

fn context() -> StatementContext {
    StatementContext { default_db: "d".into(), server_version: Some(90_704), ..StatementContext::default() }
}

fn catalog() -> Catalog {
    TABLES.iter().fold(Catalog::new(0), |catalog, sql| catalog.apply(&context(), sql.as_bytes()).unwrap().catalog)
}

struct World {
    store: Arc<Store>,
    catalog: Catalog,
    tables: HashMap<TableId, Arc<Table>>,
    sequence: u64,
    next: u32,
    /// Rows of each child, as last written.
    rows: Vec<Vec<Vec<u8>>>,
}

impl World {
    fn new(store: Store) -> World {
        let catalog = catalog();
        World {
            store: Arc::new(store),
            catalog,
            tables: HashMap::new(),
            sequence: 0,
            next: 0,
            rows: vec![Vec::new(); TABLES.len() - 1],
        }
    }

    fn table(&mut self, name: &str) -> Arc<Table> {
        let def = Arc::clone(self.catalog.table("d", name).unwrap());
        made_ready(&mut self.tables, &def)
    }

    /// Runs `work` with a cascade at the current place in the log.
    fn with<T>(&mut self, work: impl FnOnce(&Cascade<'_>) -> T) -> T {
        self.sequence += 1;
        let layers = self.store.visibility().layers();
        let oldest_needed = self.store.visibility().oldest_needed();
        let rows = RefCell::default();
        let done = work(&Cascade {
            store: &self.store,
            layers: &layers,
            catalog: &self.catalog,
            sequence: self.sequence,
            oldest_needed,
            check: CheckImages::All,
            rows: &rows,
        });
        self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
        done
    }

    /// A child row that references one of `parents` parents, or none.
    fn row(&mut self, child: usize, random: &mut Random, parents: u64) -> Vec<u8> {
        let table = self.table(&format!("c{child}"));
        self.next += 1;
        // Some rows of the table without a key are equal.
        let n = if child == 1 { self.next % 3 } else { self.next };
        let parent = random.below(parents);
        let none = child != 4 && random.below(9) == 0;
        let values = table.def.columns.iter().map(|column| match column.name.as_str() {
            "n" => Some(n.to_le_bytes().to_vec()),
            _ if none => None,
            name => Some(value(name, &column.ty, parent, random.below(2) == 0)),
        });
        built(&table, &values.collect::<Vec<_>>())
    }

    fn insert(&mut self, child: usize, image: &[u8]) {
        let table = self.table(&format!("c{child}"));
        let key = key_of(&table, image);
        let change =
            if table.key.is_whole_image() { RowChange::AddOne { later: false } } else { RowChange::Insert { image } };
        self.with(|cascade| cascade.put(&table, &key, change).unwrap());
        self.rows[child].push(image.to_vec());
    }

    fn change(&mut self, child: usize, at: usize, image: Option<&[u8]>) {
        let table = self.table(&format!("c{child}"));
        let old = self.rows[child][at].clone();
        let found = ChildRow { key: key_of(&table, &old), image: old, copies: 1 };
        self.with(|cascade| cascade.change(&table, &found, image).unwrap());
        match image {
            Some(image) => self.rows[child][at] = image.to_vec(),
            None => drop(self.rows[child].swap_remove(at)),
        }
    }

    fn cut(&mut self) {
        let point = CutPoint::at(self.sequence, self.catalog.clone());
        self.store.cut(&self.store.seal(Some(point))).unwrap();
    }

    /// Compares index and scan for each child and every possible parent; returns how often the index could be used.
    fn compare(&mut self, parents: u64) -> usize {
        let parent_table = self.table("p");
        let mut asked = 0;
        for child in 0..TABLES.len() - 1 {
            let child_table = self.table(&format!("c{child}"));
            let foreign = child_table.def.foreign_keys[0].clone();
            let columns: Vec<usize> =
                foreign.parent_columns.iter().map(|name| parent_table.def.column_index(name).unwrap()).collect();
            let mut total = 0;
            for parent in 0..=parents {
                let of = |column: &usize| {
                    let column = &parent_table.def.columns[*column];
                    Some(value(&column.name, &column.ty, parent, false))
                };
                let was: Vec<_> = columns.iter().map(of).collect();
                let wanted = Wanted::new(&child_table, &foreign, &parent_table, &columns, &was).unwrap();
                let (by_index, mut by_scan) =
                    self.with(|cascade| (cascade.by_index(&wanted).unwrap(), cascade.by_scan(&wanted).unwrap()));
                by_scan.sort();
                total += by_scan.iter().map(|row| row.copies as usize).sum::<usize>();
                if let Some(mut by_index) = by_index {
                    by_index.sort();
                    assert_eq!(by_index, by_scan, "c{child}, parent {parent}");
                    asked += 1;
                }
            }
            let referring = self.rows[child]
                .iter()
                .filter(|image| child_table.values(image, &foreign.columns).unwrap().iter().all(Option::is_some));
            assert_eq!(total, referring.count(), "c{child}: the rows that refer to a parent");
        }
        asked
    }
}

/// A parent's value in a column; text has two spellings that compare equal.
fn value(name: &str, ty: &ColumnType, parent: u64, upper: bool) -> Vec<u8> {
    match name {
        "code" | "r" if ty.code == type_code::VARCHAR => {
            let text = format!("{}{}", if upper { "Ä" } else { "a" }, "x".repeat(parent as usize));
            [&text.len().to_le_bytes()[..ty.prefix_len()], text.as_bytes()].concat()
        }
        "b" => (parent as i16 - 2).to_le_bytes().to_vec(),
        "a" => (parent as i32 / 2).to_le_bytes().to_vec(),
        _ => (parent as u32).to_le_bytes().to_vec(),
    }
}

fn built(table: &Table, values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let all: Vec<usize> = (0..values.len()).collect();
    table.with(&vec![0xff; values.len().div_ceil(8)], &all, values).unwrap()
}

fn key_of(table: &Table, image: &[u8]) -> Vec<u8> {
    let (mut offsets, mut built) = (Vec::new(), Vec::new());
    table.key.bytes(image, &mut offsets, &mut built).unwrap().to_vec()
}

/// Steps of a random history, compared now and then; `cut` is called in between.
fn history(world: &mut World, seed: u64, steps: u64, mut cut: impl FnMut(&mut World, u64)) -> usize {
    let (mut random, mut asked) = (Random::new(seed), 0);
    for step in 0..steps {
        let child = random.below(TABLES.len() as u64 - 1) as usize;
        let rows = world.rows[child].len() as u64;
        let image = world.row(child, &mut random, 7);
        match random.below(10) {
            0..=4 => world.insert(child, &image),
            5..=7 if rows > 0 => world.change(child, random.below(rows) as usize, Some(&image)),
            8..=9 if rows > 0 => world.change(child, random.below(rows) as usize, None),
            _ => {}
        }
        if step % 50 == 49 {
            cut(world, step);
            asked += world.compare(7);
        }
    }
    asked
}

#[test]
fn in_memory() {
    for seed in 0..6 {
        let mut world = World::new(Store::new(4, catalog()));
        let asked = history(&mut world, seed, 400, |_, _| ());
        assert_eq!(asked, 8 * 6 * 8, "every foreign key has its index");
    }
}

#[test]
fn on_disk_below_several_generations() {
    for seed in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let (disk, _) = Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 4 << 20 }).unwrap();
        let store = Store::over(4, disk, folder.path().join("scratch"), None, catalog()).unwrap();
        let mut world = World::new(store);
        let asked = history(&mut world, seed + 100, 600, |world, step| {
            match step % 150 {
                // Sealed but not yet cut.
                49 => drop(world.store.seal(None)),
                99 => world.cut(),
                _ => {}
            }
        });
        assert_eq!(asked, 12 * 6 * 8);
    }
}

/// CPU time of this thread in microseconds, which load on the machine does not lengthen.
fn on_core() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e3
}

/// Prints figures and asserts nothing: the cost of one search by the number of child rows. Run it with `cargo test
/// --release -p apply cascade -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
fn cost_by_the_number_of_child_rows() {
    for (name, on_disk) in [("in memory", false), ("on disk", true)] {
        for rows in [1_000u32, 10_000, 100_000] {
            let folder = tempfile::tempdir().unwrap();
            let store = if on_disk {
                let (disk, _) =
                    Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 64 << 20 }).unwrap();
                Store::over(16, disk, folder.path().join("scratch"), None, catalog()).unwrap()
            } else {
                Store::new(16, catalog())
            };
            let mut world = World::new(store);
            let (parent_table, child_table) = (world.table("p"), world.table("c0"));
            let foreign = child_table.def.foreign_keys[0].clone();
            world.with(|cascade| {
                for n in 0..rows {
                    let values = [n, n / 4].map(|value| Some(value.to_le_bytes().to_vec()));
                    let image = built(&child_table, &values);
                    cascade.put(&child_table, &n.to_le_bytes(), RowChange::Insert { image: &image }).unwrap();
                }
            });
            if on_disk {
                world.cut();
            }
            let mut look = |by_index: bool, times: u32| {
                let started = on_core();
                for round in 0..times {
                    let parent = round.wrapping_mul(7919) % (rows / 4);
                    let was = [Some(parent.to_le_bytes().to_vec())];
                    let wanted = Wanted::new(&child_table, &foreign, &parent_table, &[0], &was).unwrap();
                    let found = world.with(|cascade| {
                        if by_index {
                            cascade.by_index(&wanted).unwrap().unwrap()
                        } else {
                            cascade.by_scan(&wanted).unwrap()
                        }
                    });
                    assert_eq!(found.len(), 4);
                }
                (on_core() - started) / f64::from(times)
            };
            let first = look(true, 1);
            let (later, scan) = (look(true, 1000), look(false, 3));
            println!(
                "{name}, {rows:>8} rows: first look {first:>10.1} us, later {later:>6.2} us, every row {scan:>10.1} us"
            );
        }
    }
}
