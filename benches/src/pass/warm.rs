//! Allocations of each stage once it is warm.
//!
//! In: the logs of a load and of a run that is longer than that of [`pass`](super::pass). Out: allocations by stage,
//! the same in every run. Never here: a stage that receives its predecessor's result for the whole log. Only a few
//! pieces are in flight at a time, and their buffers return once they are applied, as in the program.
//!
//! Buffers, pools and tables are in the state that the load and the first parts of the run left; only allocations after
//! that count. They cover two generations from their first row to their cut, and so include a generation's one-time
//! ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use apply::stages::InFlight;
use binlog::reader::BinlogFile;

use super::{Counts, Line, POINT_READS};
use crate::stages;

/// Parts of the run, each with a cut at its end, and how many of them only warm up.
const PARTS: usize = 4;
const WARMING: usize = 2;
/// Events in flight at once: several pieces.
const EVENTS: usize = 4096;

/// Allocations per row by stage. `so_far` returns the number in this process.
///
/// # Errors
/// The logs cannot be read, or a stage rejects them.
pub fn allocations(logs: &Path, so_far: fn() -> u64) -> anyhow::Result<BTreeMap<String, f64>> {
    let folder = tempfile::tempdir()?;
    let mut line = Line::open(folder.path())?;
    line.take(&logs.join("binlog.000001"), &mut Counts::default())?;
    let run = logs.join("binlog.000002");
    let mut file = BinlogFile::open(&run)?;
    let mut events = Vec::new();
    while let Some(event) = file.next_event()? {
        events.push(event.bytes.to_vec());
    }
    super::checksum(&run, &mut Counts::default())?;
    let counting = || Counts { allocator: Some(so_far), ..Counts::default() };
    let (mut counts, mut more) = (counting(), counting());
    super::checksum(&run, &mut more)?;
    let mut all = 0;
    line.intake.begin_file("binlog");
    for (number, part) in events.chunks(events.len().div_ceil(PARTS)).enumerate() {
        if number == WARMING {
            all = counts.rows;
            // A merge of its own, so that later data is merged with something.
            line.compact(&mut Counts::default())?;
            counts = counting();
        }
        for some in part.chunks(EVENTS) {
            line.step(some, &mut counts)?;
        }
        line.cut(&mut counts)?;
    }
    all += counts.rows;
    line.compact(&mut more)?;
    let sample = line.sample()?;
    line.point_reads(&sample, &mut Counts::default())?;
    line.point_reads(&sample, &mut more)?;
    line.range_reads(&mut Counts::default())?;
    let (range_rows, _) = line.range_reads(&mut more)?;
    let (scanned_rows, _) = line.rows_of_a_range(&mut more)?;
    let rows = |name: &str| match name {
        "checksum" => (all, &more),
        "compact" => (counts.entries, &more),
        "point-read" => (POINT_READS as u64, &more),
        "range-read" => (range_rows, &more),
        "range-row" => (scanned_rows, &more),
        "cut" => (counts.entries, &counts),
        _ => (counts.rows, &counts),
    };
    let of = |stage: &stages::Stage| {
        let (rows, counts) = rows(stage.name);
        let taken = counts.allocations.get(stage.index()).copied().unwrap_or_default();
        (stage.name.to_owned(), taken as f64 / rows.max(1) as f64)
    };
    Ok(stages::ALL.iter().map(of).collect())
}

impl Line {
    /// Runs some events through all stages up to apply; their buffers return.
    fn step(&mut self, events: &[Vec<u8>], counts: &mut Counts) -> anyhow::Result<()> {
        self.receive_events(events, counts)?;
        let pieces = self.split(counts)?;
        let decoded = self.decode(pieces, counts)?;
        let flights = self.sequence(decoded, counts);
        self.apply(&flights, counts)?;
        for flight in flights {
            let flight = Arc::try_unwrap(flight).ok().context("a piece that is held behind its end")?;
            self.decoder.recycle(InFlight::into_spare(flight));
        }
        Ok(())
    }
}
