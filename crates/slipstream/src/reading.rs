//! `dump` and `verify`: on a running replica, on a stopped folder, between two servers.
//!
//! In: a request, a store at its watermark. Out: text for the client's stdout. Never here: a changed row; a quarantined
//! table read, or omitted without an error.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::GtidSet;

use replica::{
    Exit, Failure, Folder, ReadOnly, Replica,
    config::ServerOptions,
    failure::{stop_failure, store_failure},
    log::{self, Code},
    quarantined,
};
use serde_json::json;
use store::WatermarkHold;

use crate::control::{DumpRequest, VerifyRequest};

/// Why a wait for the source's GTID set ended during a pause.
const PAUSED: &str = "it is paused";
/// The same during SOURCE_DELAY.
const DELAYED: &str = "SOURCE_DELAY holds it back";

/// Interval at which a wait for the source's GTID set looks whether replay is paused.
const LOOK_FOR_PAUSE: Duration = Duration::from_millis(200);

/// Writes rows of a running replica at its watermark.
///
/// # Errors
/// A failed write to `out` means that the client disconnected.
pub(crate) fn dump(replica: &Replica, options: &DumpRequest, out: &mut dyn Write) -> Result<(), Failure> {
    dump_store(&replica.pipeline().store, replica.folder().path(), options, out)
}

/// Compares a running replica with its source, or with the named server, and writes a line per table. Only one runs at
/// a time, because it blocks publishing for a moment.
///
/// # Errors
/// Code 16 if tables differ.
pub(crate) fn verify(replica: &Replica, options: &VerifyRequest, out: &mut dyn Write) -> Result<(), Failure> {
    let pipeline = replica.pipeline();
    if pipeline.is_paused() {
        let behind = replica.status().backlog.transactions;
        if behind > 0 {
            let text = format!(
                "replay is paused, {behind} received transactions behind, and verify compares at the source's current GTIDs"
            );
            return Err(Failure::error(text).with_hint(resume(replica)));
        }
    }
    if pipeline.remaining_delay().is_some() {
        let text = format!("replay waits: {DELAYED}, and verify compares at the source's current GTIDs");
        return Err(Failure::error(text).with_hint(NO_DELAY));
    }
    let watermark = UnlessPaused(replica);
    let engine = compare::Engine { store: &pipeline.store, watermark: Some(&watermark) };
    let source = match &options.source {
        Some(server) if !server.names_several() => server.connect_options()?,
        // The one of several that is followed.
        _ => replica.source_options().ok_or_else(no_server)?,
    };
    let result = verify_engine(&engine, &source, &pipeline.decode_options().filters, options, out);
    result.map_err(|failure| match &failure.text {
        text if text.contains(PAUSED) => failure.with_hint(resume(replica)),
        text if text.contains(DELAYED) => failure.with_hint(NO_DELAY),
        _ => failure,
    })
}

const NO_DELAY: &str = "set SOURCE_DELAY to 0, then verify";

/// What holds replay back, as long as it is told to; None if nothing.
fn held_back(replica: &Replica) -> Option<&'static str> {
    let pipeline = replica.pipeline();
    if pipeline.is_paused() {
        return Some(PAUSED);
    }
    pipeline.remaining_delay().map(|_| DELAYED)
}

fn resume(replica: &Replica) -> String {
    format!("slipstream resume --data {}", replica.folder().path().display())
}

/// The publisher of a replica. A wait for a GTID set ends when replay is paused, because it would last until its end.
struct UnlessPaused<'a>(&'a Replica);

impl WatermarkHold for UnlessPaused<'_> {
    fn hold(&self) {
        self.0.pipeline().publisher.hold();
    }

    fn advance_to(&self, set: &GtidSet, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        loop {
            // What is already decoded still becomes visible after a pause.
            let held = held_back(self.0).is_some();
            let left = until.saturating_duration_since(Instant::now());
            if self.0.pipeline().publisher.advance_to(set, left.min(LOOK_FOR_PAUSE)) {
                return true;
            }
            let held = held || self.0.pipeline().publisher.is_read_locked();
            if held || left.is_zero() || self.0.failure().is_some() || !self.visible().is_subset_of(set) {
                return false;
            }
        }
    }

    fn release(&self) {
        self.0.pipeline().publisher.release();
    }

    fn stopped(&self) -> Option<String> {
        if self.0.pipeline().publisher.is_read_locked() {
            return Some("a client's FLUSH TABLES WITH READ LOCK holds replay".to_owned());
        }
        held_back(self.0).map(str::to_owned).or_else(|| self.0.pipeline().publisher.stopped())
    }
}

impl UnlessPaused<'_> {
    fn visible(&self) -> GtidSet {
        self.0.pipeline().store.visibility().executed()
    }
}

/// Dumps a stopped folder: its kept relay log is first replayed into memory, as far as possible.
///
/// # Errors
/// As [`dump`]; code 7 or 8, after the rows, if the rest of the relay log is damaged.
pub(crate) fn stopped_dump(folder: &Folder, options: &DumpRequest, out: &mut dyn Write) -> Result<(), Failure> {
    let stopped = ReadOnly::open(folder, replica::skip::load(folder)?)?;
    let dumped = dump_store(&stopped.pipeline.store, folder.path(), options, out);
    if dumped.as_ref().is_err_and(|failure| failure.exit != Exit::DefinitionsLeftOut) {
        return dumped;
    }
    match stopped.stop.as_ref().map(stop_failure) {
        // The rows above are correct, but incomplete.
        Some(failure) if matches!(failure.exit, Exit::Corrupt | Exit::Disk) => Err(failure),
        Some(failure) => {
            log::write(
                Code::ReplayIncomplete,
                "Dump",
                &format!("replay stopped early, the rows above end there: {}", failure.text),
            );
            dumped
        }
        None => dumped,
    }
}

/// Verifies a stopped folder at its own GTID set.
///
/// # Errors
/// Code 1 with both sets if the source has moved on; 16 if tables differ.
pub(crate) fn stopped_verify(folder: &Folder, options: &VerifyRequest, out: &mut dyn Write) -> Result<(), Failure> {
    let source = options.source.as_ref().ok_or_else(no_server)?.that_answers()?;
    let stopped = ReadOnly::open(folder, replica::skip::load(folder)?)?;
    let engine = compare::Engine { store: &stopped.pipeline.store, watermark: None };
    verify_engine(&engine, &source, &stopped.pipeline.decode_options().filters, options, out)
}

/// Compares any two MySQL-protocol servers.
///
/// # Errors
/// Code 16 if tables differ.
pub(crate) fn verify_servers(
    source: &ServerOptions,
    replica: &ServerOptions,
    options: &VerifyRequest,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (source, replica) = (source.that_answers()?, replica.connect_options()?);
    verified(options, out, |out| compare::verify_servers(&source, &replica, &compare_options(options), out))
}

fn no_server() -> Failure {
    Failure::usage("verify needs a server to compare with: --source mysql://USER@HOST:PORT")
}

fn dump_store(
    store: &Arc<store::Store>,
    data: &Path,
    options: &DumpRequest,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    store.readable().map_err(|error| store_failure(&error))?;
    let snapshot = store::Snapshot::pin(store);
    if options.definitions {
        let executed = snapshot.executed().to_string();
        let report = compare::dump_definitions(snapshot.catalog(), &executed, out).map_err(dump_failure)?;
        return left_out(&report);
    }
    refuse_quarantined(snapshot.catalog(), options)?;
    let threads = usize::try_from(options.threads).unwrap_or(usize::MAX);
    let options = compare::DumpOptions {
        tables: compare::TableFilter::parse(&options.tables),
        ignored: compare::TableFilter::parse(&options.ignored),
        format: options.format,
        binary_as_hex: options.binary_as_hex,
        all_columns: options.all_columns,
        no_create_info: options.no_create_info,
        compression: options.compression,
        zones: source_zones(data),
    };
    let dumped = match threads {
        0 => compare::dump(&snapshot, store, &options, out),
        threads => compare::dump_parts(&snapshot, store, &options, threads, out),
    };
    let report = dumped.map_err(dump_failure)?;
    out.flush().map_err(|error| Failure::output(&error))?;
    if report.left_out.is_empty() {
        return Ok(());
    }
    let text = format!("tables are left out: {}", named(&report.left_out));
    let hint = "copy them again, so that their definitions are known, or leave them out with --ignore-table";
    Err(Failure::new(Exit::DefinitionsLeftOut, text).with_hint(hint))
}

/// The source's time zones, as its replica saw them last.
fn source_zones(data: &Path) -> catalog::SourceZones {
    let settings = replica::known_source_settings(data);
    let system = settings.global("system_time_zone").unwrap_or_default();
    catalog::SourceZones::new(&system, settings.zones.clone().unwrap_or_default())
}

/// Most statements that a message names.
const NAMED_MAX: usize = 20;

fn named(all: &[String]) -> String {
    let first = all.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(NAMED_MAX) {
        0 => first,
        more => format!("{first}; and {more} more, marked in the text"),
    }
}

/// Says which statements are comments in the text above, and which objects may be otherwise at the source.
fn left_out(report: &compare::DefinitionsReport) -> Result<(), Failure> {
    let (mut texts, mut hints) = (Vec::new(), Vec::new());
    if !report.as_comments.is_empty() {
        let all = named(&report.as_comments);
        texts.push(format!(
            "statements that the mysql client could split, or run parts of, are written as comments: {all}"
        ));
        hints.push("read them before you create them, with a client that sends a text as it is");
    }
    if !report.unsettled.is_empty() {
        texts.push(format!("objects that may be otherwise at the source: {}", named(&report.unsettled)));
        hints.push("a replica that reaches its source asks it; dump again then");
    }
    if texts.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::DefinitionsLeftOut, texts.join("; ")).with_hint(hints.join("; ")))
}

fn dump_failure(error: compare::CompareError) -> Failure {
    match error {
        compare::CompareError::Output(error) => Failure::output(&error),
        error => compare_failure(error),
    }
}

/// Fails for tables that wait for their copy, instead of omitting them.
fn refuse_quarantined(catalog: &catalog::Catalog, options: &DumpRequest) -> Result<(), Failure> {
    let ignored = quarantined(catalog, &options.ignored);
    let mut tables = quarantined(catalog, &options.tables);
    tables.retain(|table| options.ignored.is_empty() || !ignored.contains(table));
    if tables.is_empty() {
        return Ok(());
    }
    let text = format!(
        "these tables are being copied again and cannot be read yet; --ignore-table leaves them out: {}",
        tables.join("; ")
    );
    Err(Failure::error(text))
}

fn compare_options(options: &VerifyRequest) -> compare::VerifyOptions {
    compare::VerifyOptions {
        tables: compare::TableFilter::parse(&options.tables),
        max_rows_shown: usize::try_from(options.differences_max).unwrap_or(usize::MAX),
        ..compare::VerifyOptions::default()
    }
}

fn verify_engine(
    engine: &compare::Engine<'_>,
    source: &client::ConnectOptions,
    filters: &Arc<catalog::ReplicationFilters>,
    options: &VerifyRequest,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    engine.store.readable().map_err(|error| store_failure(&error))?;
    let mut wanted = compare_options(options);
    wanted.tables = wanted.tables.of(filters);
    verified(options, out, |out| compare::verify_store(engine, source, &wanted, out))
}

fn verified(
    options: &VerifyRequest,
    out: &mut dyn Write,
    compare: impl FnOnce(&mut dyn Write) -> Result<compare::VerifyReport, compare::CompareError>,
) -> Result<(), Failure> {
    let report = if options.json { compare(&mut std::io::sink()) } else { compare(out) }.map_err(compare_failure)?;
    if options.json {
        let text = serde_json::to_string_pretty(&verify_json(&report)).unwrap_or_default();
        writeln!(out, "{text}").map_err(|error| Failure::output(&error))?;
    }
    if report.equal() {
        return Ok(());
    }
    if report.different() == 0 {
        let text = format!(
            "{} tables are being copied again and could not be compared; the others are equal",
            report.unknown()
        );
        return Err(Failure::error(text));
    }
    Err(Failure::new(Exit::VerifyDifferences, format!("{} tables differ", report.different())))
}

fn verify_json(report: &compare::VerifyReport) -> serde_json::Value {
    let side = |side: &compare::SideTotals| json!({ "rows": side.rows, "bytes": side.bytes, "chunks": side.chunks });
    let row = |row: &compare::RowDifference| {
        let columns: Vec<_> =
            row.columns.iter().map(|c| json!({ "column": c.column, "source": c.source, "here": c.here })).collect();
        json!({
            "key": row.key, "source_copies": row.source_copies, "here_copies": row.here_copies, "columns": columns,
        })
    };
    let table = |table: &compare::TableReport| {
        json!({
            "db": table.db, "table": table.table, "equal": table.equal(), "problem": table.problem,
            "quarantined": table.quarantined,
            "source": side(&table.source), "here": side(&table.here), "differing_chunks": table.differing_chunks,
            "rows_only_source": table.rows_only_source, "rows_only_here": table.rows_only_here,
            "rows_different": table.rows_different, "rows": table.shown.iter().map(row).collect::<Vec<_>>(),
        })
    };
    json!({
        "equal": report.equal(),
        "gtid_set": report.executed.as_ref().map(ToString::to_string),
        "lock_ms": report.lock_ms,
        "prepared_xa": report.prepared_xa,
        "notes": report.notes,
        "tables": report.tables.iter().map(table).collect::<Vec<_>>(),
    })
}

fn compare_failure(error: compare::CompareError) -> Failure {
    let exit = match error.class() {
        compare::ErrorClass::NotSupported => Exit::NotSupported,
        compare::ErrorClass::Corrupt => Exit::Corrupt,
        compare::ErrorClass::Io => Exit::Disk,
        compare::ErrorClass::Error => Exit::Error,
    };
    Failure::new(exit, error.to_string())
}
