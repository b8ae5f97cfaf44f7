//! A sink that stores everything, and a replay of the log for comparison.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use apply::{ApplyOptions, Pipeline, PipelineOptions};
use base::{GtidSet, LogPosition};
use binlog::{ChecksumAlgorithm, EventHeader, GtidEvent, RowsEvent, RowsKind, TableMapEvent, event_body, event_type};
use catalog::{Catalog, ColumnDefault, RowKey, TableDef};
use client::{ClientError, ConnectOptions, Connection, Interrupter};
use copy::{CopyError, CopyOptions, CopyReport, CopySink, Progress, RowBatch, SourceCopy};
use relay_log::{Intake, RelayLog, RelayOptions};
use source::{DumpRequest, start_dump};
use store::{CheckImages, Snapshot, Store};
use testkit::Server;
use values::binary_protocol::comparable_image;

/// Database and table.
pub(crate) type Name = (String, String);
/// Identifying key and image of a row.
pub(crate) type KeyAndImage = (Vec<u8>, Vec<u8>);
/// Rows with the number of equal ones.
pub(crate) type Rows = BTreeMap<KeyAndImage, u64>;

/// Sink that stores everything.
#[derive(Default)]
pub(crate) struct Kept {
    tables: Mutex<BTreeMap<(String, String), KeptTable>>,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct KeptTable {
    pub rows: Rows,
    pub count: u64,
    pub batches: u64,
    pub done: Option<u64>,
}

impl CopySink for Kept {
    fn rows(&self, table: &Arc<TableDef>, rows: &RowBatch) -> Result<(), String> {
        let mut tables = self.tables.lock().unwrap();
        let kept = tables.entry((table.db.clone(), table.name.clone())).or_default();
        assert_eq!(kept.done, None, "rows behind the end of {}", table.full_name());
        assert!(!rows.is_empty());
        let mut images = Vec::new();
        for (key, image) in rows.iter() {
            images.extend_from_slice(image);
            *kept.rows.entry((key.to_vec(), image.to_vec())).or_default() += 1;
            kept.count += 1;
        }
        assert_eq!(images, rows.images());
        kept.batches += 1;
        Ok(())
    }

    fn table_done(&self, table: &Arc<TableDef>, rows: u64) -> Result<(), String> {
        let mut tables = self.tables.lock().unwrap();
        let kept = tables.entry((table.db.clone(), table.name.clone())).or_default();
        assert_eq!(kept.done.replace(rows), None, "{} told done twice", table.full_name());
        assert_eq!(kept.count, rows);
        Ok(())
    }
}

impl Kept {
    pub(crate) fn tables(&self) -> BTreeMap<(String, String), KeptTable> {
        self.tables.lock().unwrap().clone()
    }

    pub(crate) fn table(&self, db: &str, name: &str) -> KeptTable {
        self.tables().remove(&(db.to_owned(), name.to_owned())).unwrap()
    }
}

/// Result of a copy.
pub(crate) struct Copied {
    pub plan: copy::CopyPlan,
    pub report: CopyReport,
    pub kept: Kept,
    pub progress: Progress,
}

pub(crate) fn copy_all(source: &ConnectOptions, options: &CopyOptions) -> Result<Copied, CopyError> {
    let stop = AtomicBool::new(false);
    let prepared = SourceCopy::prepare(source, options, &stop)?;
    let plan = prepared.plan().clone();
    let progress = Progress::new(&plan);
    let kept = Kept::default();
    let report = prepared.run(&kept, &progress, &stop)?;
    println!("{plan}\n{report}\n{}", progress.line());
    Ok(Copied { plan, report, kept, progress })
}

/// The tables at a GTID set according to the log, in the form that a copy yields: with JSON as text.
pub(crate) fn replayed(server: &Server, at: &GtidSet) -> BTreeMap<(String, String), (Arc<TableDef>, Rows)> {
    let lower = server.connect().query_value("SELECT @@GLOBAL.lower_case_table_names").unwrap();
    let replica = Replica::follow(server, at, lower.unwrap().parse().unwrap());
    let store = &replica.pipeline().store;
    let there = store.visibility().wait_executed(at, Instant::now() + Duration::from_secs(120));
    assert!(there, "replay: {:?}", replica.pipeline().failure());
    let snapshot = Snapshot::pin(store);
    assert_eq!(snapshot.executed(), at, "the log goes on after the set");
    let mut tables = BTreeMap::new();
    for table in snapshot.catalog().tables() {
        let types = table.column_types();
        let key = RowKey::new(table);
        let mut rows = Rows::new();
        let (mut offsets, mut built) = (Vec::new(), Vec::new());
        let flow = store.scan::<()>(&snapshot, table, |row| {
            let mut image = Vec::new();
            comparable_image(&types, key.layout(), &[], row.image, &mut offsets, &mut image).unwrap();
            let found = key.bytes(row.image, &mut offsets, &mut built).unwrap();
            assert_eq!(found, row.key, "the decoder's own key of a row of {}", table.full_name());
            *rows.entry((found.to_vec(), image)).or_default() += row.count;
            ControlFlow::Continue(())
        });
        assert_eq!(flow.unwrap(), ControlFlow::Continue(()));
        tables.insert((table.db.clone(), table.name.clone()), (Arc::clone(table), rows));
    }
    tables
}

/// Asserts that copied rows and definitions are those of the log, table by table, except for ids.
pub(crate) fn assert_equals_log(server: &Server, copied: &Copied) {
    let wanted = replayed(server, &copied.plan.executed);
    let kept = copied.kept.tables();
    assert_eq!(kept.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (name, (def, rows)) in &wanted {
        let table = &kept[name];
        assert_eq!(table.done, Some(table.count), "{name:?}");
        if table.rows != *rows {
            let missing = rows.iter().find(|(row, count)| table.rows.get(*row) != Some(count));
            let extra = table.rows.iter().find(|(row, count)| rows.get(*row) != Some(count));
            panic!("{name:?} differs: in the log {missing:02x?}, copied {extra:02x?}");
        }
        let copied_def = copied.plan.catalog.table(&name.0, &name.1).unwrap();
        assert_eq!(essence(copied_def), essence(def), "definition of {name:?}");
    }
}

/// A definition without everything that its text may express in two ways. SHOW CREATE TABLE spells out DEFAULT NULL,
/// reprints expressions, sorts foreign keys by name, and does not mark keys that MySQL created for foreign keys. Index
/// ids depend on earlier indexes.
fn essence(def: &TableDef) -> TableDef {
    let id = catalog::TableId(0);
    let mut def = TableDef { id, version: 0, partition_by: None, index_ids_given: 0, declared: None, ..def.clone() };
    for column in &mut def.columns {
        if column.default == ColumnDefault::None && column.nullable && column.generated.is_none() {
            column.default = ColumnDefault::Null;
        }
        if let ColumnDefault::Expression(text) = &mut column.default {
            text.clear();
        }
        column.expression.clear();
        column.declared = Default::default();
    }
    def.foreign_keys.sort_by(|left, right| left.name.cmp(&right.name));
    for key in &mut def.keys {
        key.generated = false;
        key.id = 0;
        key.declared = Default::default();
        key.expressions.iter_mut().for_each(|(_, text)| text.clear());
    }
    def
}

/// Per key, the images with their number of equal rows.
type ByKey = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, u64>>;

/// How changes in the log are applied to copied rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// Every before image must exist.
    Exact,
    /// By key, without checks.
    Blind,
}

/// The copied rows after the log's row changes up to `to`.
pub(crate) fn replay_over(server: &Server, copied: &Copied, to: &GtidSet, how: Replay) -> BTreeMap<Name, Rows> {
    let mut tables: BTreeMap<Name, ByKey> = BTreeMap::new();
    for (name, kept) in copied.kept.tables() {
        let rows = tables.entry(name).or_default();
        for ((key, image), count) in kept.rows {
            assert!(rows.entry(key).or_default().insert(image, count).is_none());
        }
    }
    let keys: BTreeMap<Name, (RowKey, Vec<values::ColumnType>)> = (copied.plan.tables.iter())
        .map(|table| {
            let def = &table.def;
            ((def.db.clone(), def.name.clone()), (RowKey::new(def), def.column_types()))
        })
        .collect();
    let connection = Connection::connect(&server.login("repl")).unwrap();
    let request = DumpRequest { non_block: true, ..DumpRequest::new(4713, &copied.plan.executed) };
    let mut stream = start_dump(connection, &request).unwrap();
    let mut table_ids = BTreeMap::new();
    let mut wanted = false;
    while let Some(event) = stream.next_event().unwrap() {
        let header = EventHeader::parse(event.event).unwrap();
        let Ok(body) = event_body(event.event, ChecksumAlgorithm::Crc32) else { continue };
        match header.event_type {
            event_type::GTID => {
                let gtid = GtidEvent::parse(header.event_type, body).unwrap().gtid.unwrap();
                wanted = to.contains(&gtid);
            }
            event_type::TABLE_MAP => {
                let map = TableMapEvent::parse(body).unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                table_ids.insert(map.table_id, (text(map.db), text(map.table)));
            }
            event_type::WRITE_ROWS | event_type::UPDATE_ROWS | event_type::DELETE_ROWS if wanted => {
                let event = RowsEvent::parse(header.event_type, body).unwrap();
                let name = &table_ids[&event.table_id];
                let (key, types) = &keys[name];
                let rows = tables.entry(name.clone()).or_default();
                let (mut offsets, mut built) = (Vec::new(), Vec::new());
                let mut rest = event.rows;
                let mut before = event.kind != RowsKind::Write;
                while !rest.is_empty() {
                    let (image, behind) = rest.split_at(key.layout().walk(rest).unwrap());
                    rest = behind;
                    let key_bytes = key.bytes(image, &mut offsets, &mut built).unwrap().to_vec();
                    let mut comparable = Vec::new();
                    comparable_image(types, key.layout(), &[], image, &mut offsets, &mut comparable).unwrap();
                    let images = rows.entry(key_bytes).or_default();
                    match (how, before) {
                        (Replay::Blind, true) => images.clear(),
                        (Replay::Blind, false) => *images = BTreeMap::from([(comparable, 1)]),
                        (Replay::Exact, false) => *images.entry(comparable).or_default() += 1,
                        (Replay::Exact, true) => {
                            let copies = images.get_mut(&comparable).expect("the before image is there");
                            *copies -= 1;
                            if *copies == 0 {
                                images.remove(&comparable);
                            }
                        }
                    }
                    if event.kind == RowsKind::Update {
                        before = !before;
                    }
                }
            }
            _ => {}
        }
    }
    let flat = |rows: ByKey| -> Rows {
        let rows = rows.into_iter();
        rows.flat_map(|(key, images)| images.into_iter().map(move |(image, n)| ((key.clone(), image), n))).collect()
    };
    tables.into_iter().map(|(name, rows)| (name, flat(rows))).collect()
}

/// A pipeline that replays a server's log up to exactly one GTID set.
struct Replica {
    pipeline: Option<Pipeline>,
    interrupter: Interrupter,
    receiver: Option<std::thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Replica {
    fn follow(server: &Server, at: &GtidSet, lower_case_table_names: u8) -> Replica {
        let folder = tempfile::tempdir().unwrap();
        let (writer, _) = RelayLog::open(RelayOptions::new(folder.path())).unwrap();
        let mut tail = writer.reader();
        let pipeline = Pipeline::start(
            Box::new(move |timeout| tail.next(timeout)),
            PipelineOptions {
                quarantine: false,
                copies_missing: false,
                filters: Arc::default(),
                decoders: 2,
                workers: 2,
                memory_bytes: 256 << 20,
                apply: ApplyOptions { check_images: CheckImages::All, ..ApplyOptions::default() },
                skip: Default::default(),
                store: Arc::new(Store::new(apply::lanes_for(2), Catalog::new(lower_case_table_names))),
                cuts: None,
                source_clock: Arc::default(),
                lag_by_part: Arc::default(),
                affinity: base::ThreadAffinity::default(),
            },
        );
        pipeline.publisher.hold();
        let connection = Connection::connect(&server.login("repl")).unwrap();
        let mut stream = start_dump(connection, &DumpRequest::new(4712, &GtidSet::new())).unwrap();
        let interrupter = stream.interrupter().unwrap();
        let receiver = std::thread::spawn(move || {
            let mut intake = Intake::new(writer, LogPosition { file: Arc::from(""), offset: 4 });
            loop {
                match stream.next_event() {
                    Ok(Some(event)) => {
                        intake.event(event.event).unwrap();
                    }
                    Ok(None) | Err(ClientError::Interrupted | ClientError::Closed) => break,
                    Err(error) => panic!("{error}"),
                }
                if !stream.buffered() {
                    intake.flush().unwrap();
                }
            }
            intake.finish().unwrap().close().unwrap();
        });
        let reached = at.is_empty() || pipeline.publisher.advance_to(at, Duration::from_secs(120));
        assert!(reached, "replay: {:?}", pipeline.failure());
        Replica { pipeline: Some(pipeline), interrupter, receiver: Some(receiver), _folder: folder }
    }

    fn pipeline(&self) -> &Pipeline {
        self.pipeline.as_ref().unwrap()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.interrupter.shutdown();
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
        if let Some(pipeline) = self.pipeline.take() {
            pipeline.publisher.release();
            pipeline.stop();
            let _ = pipeline.join();
        }
    }
}
