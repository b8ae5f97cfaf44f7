//! Comparison of one table: checksums first, then the rows of cells that differ.
//!
//! In: two sides of a table. Out: totals of both, and which rows differ in what. Bound: at most `EXAMINED_BYTES_MAX` of
//! rows of differing cells are in memory per side; the report says if cells were left out. Never here: how rows are
//! read.

use std::collections::{BTreeMap, HashSet};

use crate::CompareError;
use crate::buckets::{Checksums, cell_of, chunk_count};
use crate::report::{ColumnDifference, RowDifference, SideTotals, TableReport};
use crate::row_source::RowSource;
use crate::shape::{Shape, column_bytes, hex};

/// Most bytes of rows of differing cells examined per side. At least one cell is always examined.
const EXAMINED_BYTES_MAX: u64 = 64 << 20;
/// Most rows of them, because each takes space in a map besides its bytes.
const EXAMINED_ROWS_MAX: u64 = 200_000;
/// Characters of a value that are shown; `SHOWN_BEFORE_CHARS` is how many of them may precede the first difference.
const SHOWN_VALUE_CHARS: usize = 60;
const SHOWN_BEFORE_CHARS: usize = 20;

/// Compares two sides of one table.
///
/// # Errors
/// If a side cannot be read.
pub fn compare_rows(
    shape: &Shape,
    source: &mut dyn RowSource,
    here: &mut dyn RowSource,
    max_rows_shown: usize,
) -> Result<TableReport, CompareError> {
    let source_sums = checksums(shape, source)?;
    let here_sums = checksums(shape, here)?;
    let (source_total, here_total) = (source_sums.total(), here_sums.total());
    let chunks = chunk_count(source_total.rows.max(here_total.rows));
    let (source_chunks, here_chunks) = (source_sums.chunks(chunks), here_sums.chunks(chunks));
    let filled = |chunks: &[crate::Cell]| chunks.iter().filter(|chunk| chunk.rows > 0).count() as u64;
    let mut report = TableReport {
        db: shape.db.clone(),
        table: shape.table.clone(),
        source: SideTotals { rows: source_total.rows, bytes: source_total.bytes, chunks: filled(&source_chunks) },
        here: SideTotals { rows: here_total.rows, bytes: here_total.bytes, chunks: filled(&here_chunks) },
        differing_chunks: source_chunks.iter().zip(&here_chunks).filter(|(left, right)| left != right).count() as u64,
        ..TableReport::default()
    };
    let differing = source_sums.differing(&here_sums);
    if !differing.is_empty() {
        let examined = affordable(&differing, &source_sums, &here_sums);
        report.chunks_left_out = examined.len() < differing.len();
        let cells: HashSet<usize> = examined.into_iter().collect();
        // A second reading, which keeps only the rows of these cells.
        let left = rows_of(shape, source, &cells)?;
        let right = rows_of(shape, here, &cells)?;
        describe(shape, left, right, max_rows_shown, &mut report);
        if report.rows_differing() == 0 && !report.chunks_left_out {
            report.notes.push("the rows changed between two readings; the table is not read from a snapshot".into());
        }
    }
    Ok(report)
}

fn checksums(shape: &Shape, side: &mut dyn RowSource) -> Result<Checksums, CompareError> {
    let mut sums = Checksums::default();
    each_keyed(shape, side, |key, image, copies| sums.add(key, image, copies))?;
    Ok(sums)
}

fn each_keyed(
    shape: &Shape,
    side: &mut dyn RowSource,
    mut each: impl FnMut(&[u8], &[u8], u64),
) -> Result<(), CompareError> {
    let (mut offsets, mut scratch) = (Vec::new(), Vec::new());
    side.rows(&mut |image, copies| {
        let key = shape.key_of(image, &mut offsets, &mut scratch).map_err(|error| CompareError::Row {
            db: shape.db.clone(),
            table: shape.table.clone(),
            error,
        })?;
        each(key, image, copies);
        Ok(())
    })
}

/// The differing cells whose rows fit within the bounds.
fn affordable(differing: &[usize], source: &Checksums, here: &Checksums) -> Vec<usize> {
    let (mut rows, mut bytes) = (0u64, 0u64);
    let fits = |index: &&usize| {
        let (left, right) = (source.cell(**index), here.cell(**index));
        rows += left.rows.max(right.rows);
        bytes = bytes.saturating_add(left.bytes.max(right.bytes));
        rows <= EXAMINED_ROWS_MAX && bytes <= EXAMINED_BYTES_MAX
    };
    let count = differing.iter().take_while(fits).count().max(1);
    differing.iter().take(count).copied().collect()
}

/// Images per key, each with its number of equal rows. In a table with a key, this should be one image, once.
type ByKey = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, u64>>;

fn rows_of(shape: &Shape, side: &mut dyn RowSource, cells: &HashSet<usize>) -> Result<ByKey, CompareError> {
    let mut rows = ByKey::new();
    each_keyed(shape, side, |key, image, copies| {
        if cells.contains(&cell_of(key)) {
            *rows.entry(key.to_vec()).or_default().entry(image.to_vec()).or_default() += copies;
        }
    })?;
    Ok(rows)
}

/// Rows of one key without an equal on the other side, per side.
struct Lone {
    source: Vec<(Vec<u8>, u64)>,
    here: Vec<(Vec<u8>, u64)>,
}

fn describe(shape: &Shape, left: ByKey, mut right: ByKey, max_rows_shown: usize, report: &mut TableReport) {
    let mut found = Vec::new();
    for (key, images) in left {
        let lone = unlike(images, right.remove(&key).unwrap_or_default());
        found.push(lone);
    }
    found.extend(right.into_values().map(|images| unlike(BTreeMap::new(), images)));
    found.retain(|lone| !lone.source.is_empty() || !lone.here.is_empty());
    let mut offsets = Vec::new();
    found.sort_by_cached_key(|lone| {
        let first = lone.source.first().or(lone.here.first());
        first.and_then(|(image, _)| shape.sort_key(image, &mut offsets).ok())
    });
    for lone in found {
        let copies = |side: &[(Vec<u8>, u64)]| side.iter().map(|(_, copies)| copies).sum::<u64>();
        let (in_source, in_here) = (copies(&lone.source), copies(&lone.here));
        let both = in_source.min(in_here);
        report.rows_different += both;
        report.rows_only_source += in_source - both;
        report.rows_only_here += in_here - both;
        if report.shown.len() < max_rows_shown {
            report.shown.push(show(shape, &lone, in_source, in_here));
        }
    }
}

/// Removes the rows that both sides have.
fn unlike(source: BTreeMap<Vec<u8>, u64>, mut here: BTreeMap<Vec<u8>, u64>) -> Lone {
    let mut lone = Lone { source: Vec::new(), here: Vec::new() };
    for (image, copies) in source {
        let there = here.remove(&image).unwrap_or(0);
        if copies > there {
            lone.source.push((image, copies - there));
        } else if there > copies {
            lone.here.push((image, there - copies));
        }
    }
    lone.here.extend(here);
    lone
}

fn show(shape: &Shape, lone: &Lone, source_copies: u64, here_copies: u64) -> RowDifference {
    let image = |side: &[(Vec<u8>, u64)]| side.first().map(|(image, _)| image.clone());
    let (left, right) = (image(&lone.source), image(&lone.here));
    let (mut left_offsets, mut right_offsets) = (Vec::new(), Vec::new());
    for (image, offsets) in [(&left, &mut left_offsets), (&right, &mut right_offsets)] {
        if let Some(image) = image {
            // The image was walked before; if this fails all the same, no columns are shown.
            let _ = shape.layout.walk_offsets(image, offsets);
        }
    }
    let raw = |image: &Option<Vec<u8>>, offsets: &[(u32, u32)], column: usize| {
        image.as_ref().map(|image| column_bytes(image, offsets, column).map(<[u8]>::to_vec))
    };
    let mut columns = Vec::new();
    for (column, name) in shape.names.iter().enumerate() {
        let (source, here) = (raw(&left, &left_offsets, column), raw(&right, &right_offsets, column));
        if source != here {
            let (source, here) = shown_values(shape, column, source, here);
            columns.push(ColumnDifference { column: name.clone(), source, here });
        }
    }
    let (any, offsets) = if left.is_some() { (&left, &left_offsets) } else { (&right, &right_offsets) };
    let key = (shape.key.iter())
        .map(|column| {
            let name = shape.names.get(*column).map_or("?", String::as_str);
            format!("{name}={}", excerpt(&shape.text_of(*column, raw(any, offsets, *column).flatten().as_deref()), 0))
        })
        .collect::<Vec<_>>()
        .join(", ");
    RowDifference { key, source_copies, here_copies, columns }
}

/// A stored value of an existing row; the inner None is NULL.
type RowValue = Option<Option<Vec<u8>>>;

/// Both values as text, truncated such that the first difference is visible.
fn shown_values(shape: &Shape, column: usize, source: RowValue, here: RowValue) -> (Option<String>, Option<String>) {
    let text = |value: &RowValue| value.as_ref().map(|stored| shape.text_of(column, stored.as_deref()));
    match (text(&source), text(&here)) {
        (Some(left), Some(right)) if left == right => {
            // Equal text but different bytes, such as ENUM's error value and a member ''.
            let bytes = |value: RowValue| value.flatten().map_or("NULL".into(), |stored| excerpt(&hex(&stored), 0));
            (
                Some(format!("{} [{}]", excerpt(&left, 0), bytes(source))),
                Some(format!("{} [{}]", excerpt(&right, 0), bytes(here))),
            )
        }
        (Some(left), Some(right)) => {
            let same = left.chars().zip(right.chars()).take_while(|(a, b)| a == b).count();
            let from = same.saturating_sub(SHOWN_BEFORE_CHARS);
            let from = if same < SHOWN_VALUE_CHARS { 0 } else { from };
            (Some(excerpt(&left, from)), Some(excerpt(&right, from)))
        }
        (left, right) => (left.map(|text| excerpt(&text, 0)), right.map(|text| excerpt(&text, 0))),
    }
}

fn excerpt(text: &str, from: usize) -> String {
    let mut shown: String = text.chars().skip(from).take(SHOWN_VALUE_CHARS).collect();
    if text.chars().nth(from + SHOWN_VALUE_CHARS).is_some() {
        shown.push_str(&format!("… ({} bytes)", text.len()));
    }
    if from > 0 { format!("…{shown}") } else { shown }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
