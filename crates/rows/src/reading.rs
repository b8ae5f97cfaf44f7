//! A statement's rows, a bounded number at a time.
//!
//! In: a snapshot, a plan. Out: each row that the plan asks for, once, and whether more follow. Never here: a range
//! kept open between two steps: a step begins again at the place where the last one ended.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use catalog::NotKept;
use sql::table::{Bound, Path, Plan, Prefix, Weighed};
use sql::{Charsets, SqlError};
use store::{KeyRange, Range, ReadOrder, RowBuf, Snapshot, TableReader};
use values::ValueError;

use crate::encode::{Encoder, Form};
use crate::store_error;

/// Rows of a table that are being read.
pub struct Reading {
    /// Why it was given up, once it was.
    snapshot: Result<Arc<Snapshot>, SqlError>,
    begun: Instant,
    reader: Arc<TableReader>,
    plan: Plan,
    path: Path,
    order: ReadOrder,
    encoder: Encoder,
    /// The prefix or point that is read.
    prefix: usize,
    /// Where to go on within it.
    place: Option<Vec<u8>>,
    row: SpareRow,
    /// Copies of `row` that were not handed on yet: a table without a key counts equal rows.
    copies: u64,
    /// Rows to leave out.
    skip: u64,
    /// Rows that may be handed on.
    left: u64,
    counted: u64,
    /// The filter that the row in `row`, or the one that is read again, is to be tried by next.
    untried: Option<usize>,
    /// The next step reads a long row, or looks at a long value, which it only does where it may.
    at_long: bool,
    takes_long: bool,
    /// This step has done so, and does no more.
    did_long: bool,
    /// The row at `place` is to be read again.
    again: bool,
    /// The longest row so far, in bytes.
    longest: usize,
    /// Work that was done and not taken from a turn yet.
    owed: u64,
    weighed: Weighed,
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reading({})", self.plan.table.full_name())
    }
}

/// Bytes that a thread keeps for its next statement's row.
const SPARE_MAX: usize = 64 << 10;

thread_local! {
    static SPARE: Cell<Option<RowBuf>> = const { Cell::new(None) };
}

/// A buffer for a row, whose memory the thread's next statement uses again.
struct SpareRow(RowBuf);

impl SpareRow {
    fn take() -> SpareRow {
        SpareRow(SPARE.take().unwrap_or_default())
    }
}

impl Drop for SpareRow {
    fn drop(&mut self) {
        let row = std::mem::take(&mut self.0).emptied(SPARE_MAX);
        // While the thread ends there is no place for it.
        let _ = SPARE.try_with(|spare| spare.set(Some(row)));
    }
}

/// A row to send.
pub struct RowOut<'a> {
    encoder: &'a mut Encoder,
    row: Option<(&'a mut RowBuf, &'a TableReader)>,
    count: u64,
}

impl RowOut<'_> {
    /// Appends the payload of its packet, of so many bytes at most and one value more.
    ///
    /// # Errors
    /// A value that cannot be sent, 1041 for a row that is longer. `out` then holds a part of the row.
    pub fn put(&mut self, most: u64, out: &mut Vec<u8>) -> Result<(), SqlError> {
        match &mut self.row {
            Some((row, reader)) => {
                let view = row.view(reader).map_err(|error| unreadable(&error))?;
                self.encoder.put(Some(&view), self.count, most, out)
            }
            None => self.encoder.put(None, self.count, most, out),
        }
    }
}

/// Takes a row; false pauses behind it.
pub type Each<'a> = &'a mut dyn FnMut(&mut RowOut<'_>) -> Result<bool, SqlError>;

/// What was done with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    GoOn,
    Pause,
    /// No more rows are wanted.
    Enough,
}

/// Bytes of values that are weighed or searched in the time in which a row is read.
const BYTES_A_STEP: u64 = 256;

/// Length, in bytes, above which a row counts by its bytes too: a KiB of it is read in the time of a short row. Without
/// that, a turn over rows of 1 MB takes 50 times as long as one over short rows.
const SHORT_ROW: usize = 4 << 10;

/// What a filter costs besides, as so many bytes.
const FILTER_BYTES: u64 = 8;

/// Bytes of a value that are looked at in a step of their own: 256 KiB take some 10 ms.
const LONG_VALUE: u64 = 256 << 10;

/// Bytes of a row that is read in a step of its own: 1 MiB takes some 3 ms.
const LONG_ROW: usize = 1 << 20;

/// Takes the time for so many bytes from the budget, and what is left of the last step with it.
fn owe(owed: &mut u64, bytes: u64, budget: &mut u64) {
    *owed = owed.saturating_add(bytes);
    *budget = budget.saturating_sub(*owed / BYTES_A_STEP);
    *owed %= BYTES_A_STEP;
}

#[track_caller]
fn unreadable(error: &ValueError) -> SqlError {
    SqlError::unreadable_of("a row does not fit its table", error)
}

impl Reading {
    /// Prepares to read; the plan must be bound to the snapshot's catalog.
    ///
    /// # Errors
    /// The snapshot was given up; no order that is asked for can be read now.
    pub fn open(
        snapshot: Arc<Snapshot>,
        now: Instant,
        mut plan: Plan,
        charsets: &Charsets,
        form: Form,
    ) -> Result<Reading, SqlError> {
        let reader = snapshot.reader(&plan.table);
        let (path, order) = ready(&snapshot, &reader, &mut plan)?;
        let encoder = Encoder::new(&plan, charsets, form)?;
        let (skip, left) = if plan.counts { (0, u64::MAX) } else { (plan.offset, plan.rows_max) };
        Ok(Reading {
            snapshot: Ok(snapshot),
            begun: now,
            reader,
            path,
            order,
            encoder,
            prefix: if plan.never { usize::MAX } else { 0 },
            place: None,
            row: SpareRow::take(),
            copies: 0,
            skip,
            left,
            counted: 0,
            untried: None,
            at_long: false,
            takes_long: false,
            did_long: false,
            again: false,
            longest: 0,
            owed: 0,
            weighed: Weighed::default(),
            plan,
        })
    }

    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Lets go of the buffers that the next step does not need: a cursor may rest for long.
    pub fn rests(&mut self) {
        if !self.holds_row() {
            self.row = SpareRow::take();
            self.weighed = Weighed::default();
        }
    }

    /// The next step needs the row that was read. A long one it reads again: many may wait for their next step.
    fn holds_row(&self) -> bool {
        !self.again && (self.copies > 0 || self.untried.is_some())
    }

    /// Bytes of a row that is held until the next step.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        if self.holds_row() { self.row.0.memory() + self.weighed.memory() } else { 0 }
    }

    /// True if the next step reads a long row, or looks at a long value, and does nothing else: it may take a second.
    /// Where steps may not take long, none goes on from here.
    #[must_use]
    pub fn is_at_long(&self) -> bool {
        self.at_long
    }

    /// The first step is such a one.
    pub fn begins_long(&mut self) {
        self.at_long = true;
    }

    /// Whether the next steps may take long.
    pub fn may_take_long(&mut self, may: bool) {
        self.takes_long = may;
    }

    /// The longest row that was read, in bytes.
    #[must_use]
    pub fn longest_row(&self) -> usize {
        self.longest
    }

    /// Lets go of the snapshot if reading began before this time; the next step fails with this error.
    pub fn give_up(&mut self, begun_before: Option<Instant>, why: &SqlError) {
        if begun_before.is_none_or(|before| self.begun < before) {
            self.snapshot = Err(why.clone());
        }
    }

    /// True if it reads rows without a key's help.
    #[must_use]
    pub fn scans(&self) -> bool {
        let counts_all = self.plan.counts && self.plan.filters.is_empty();
        self.path.key.is_none() && !counts_all && !self.plan.never && self.plan.rows_max > 0
    }

    /// Looks at up to `rows_max` rows and hands on those that are wanted; true once there are no more.
    ///
    /// # Errors
    /// The snapshot was given up, the store cannot be read, or `each` failed.
    pub fn step(&mut self, rows_max: u64, each: Each<'_>) -> Result<bool, SqlError> {
        if self.at_long && !self.takes_long {
            return Ok(false);
        }
        (self.at_long, self.did_long) = (false, false);
        let is_over = self.stepped(rows_max, each)?;
        if !is_over && !self.holds_row() && self.longest > SPARE_MAX {
            self.rests();
        }
        Ok(is_over)
    }

    fn stepped(&mut self, rows_max: u64, each: Each<'_>) -> Result<bool, SqlError> {
        let mut budget = rows_max;
        let behind = match self.holds_row() {
            true => self.row_goes_on(&mut budget, each)?,
            false => Flow::GoOn,
        };
        match behind {
            Flow::GoOn if self.did_long => return Ok(false),
            Flow::GoOn => {}
            Flow::Pause => return Ok(false),
            Flow::Enough => return Ok(true),
        }
        while self.left > 0 && self.prefix < self.path.steps() {
            match self.prefix_step(&mut budget, each)? {
                Flow::GoOn => (self.prefix, self.place) = (self.prefix + 1, None),
                Flow::Pause => return Ok(false),
                Flow::Enough => break,
            }
        }
        if self.plan.counts && self.plan.offset == 0 && self.plan.rows_max > 0 && self.left > 0 {
            // There is no other.
            self.left = 0;
            each(&mut RowOut { encoder: &mut self.encoder, row: None, count: self.counted })?;
        }
        Ok(true)
    }

    /// Reads the rows of one prefix.
    fn prefix_step(&mut self, budget: &mut u64, each: Each<'_>) -> Result<Flow, SqlError> {
        if let Some(point) = self.path.points.as_ref().and_then(|points| points.get(self.prefix)) {
            let snapshot = self.snapshot.as_ref().map_err(Clone::clone)?;
            let found = snapshot.get(&self.reader, point, &mut self.row.0);
            let found = found.map_err(|error| store_error(&error))?;
            *budget = budget.saturating_sub(1);
            self.again = false;
            let flow = if found { self.found(budget, each)? } else { Flow::GoOn };
            if flow == Flow::Pause || (flow == Flow::GoOn && *budget == 0) {
                self.prefix += usize::from(!self.again);
                return Ok(Flow::Pause);
            }
            return Ok(flow);
        }
        let snapshot = self.snapshot.clone()?;
        let range = self.range()?;
        let opened = snapshot.range(&self.reader, self.order, &range);
        let mut rows = opened.map_err(|error| store_error(&error))?;
        self.again = false;
        while self.next(&mut rows)? {
            *budget = budget.saturating_sub(1);
            let flow = match self.found(budget, each)? {
                Flow::GoOn if *budget == 0 => Flow::Pause,
                flow => flow,
            };
            match flow {
                Flow::GoOn => {}
                Flow::Pause => {
                    self.place = Some(rows.place().to_vec());
                    return Ok(Flow::Pause);
                }
                Flow::Enough => return Ok(Flow::Enough),
            }
        }
        Ok(Flow::GoOn)
    }

    fn next(&mut self, rows: &mut Range<'_>) -> Result<bool, SqlError> {
        let row = &mut self.row.0;
        let next = if self.path.backwards { rows.next_back_into(row) } else { rows.next_into(row) };
        next.map_err(|error| store_error(&error))
    }

    /// The bounds of what is left of a prefix.
    fn range(&self) -> Result<KeyRange, SqlError> {
        let none = Vec::new();
        let prefix = self.path.prefixes.get(self.prefix).unwrap_or(&none);
        let range = bounded(&self.reader, self.order, prefix, &self.path).map_err(|error| unreadable(&error))?;
        Ok(match &self.place {
            None => range,
            Some(place) if self.again && self.path.backwards => range.up_to(place),
            Some(place) if self.again => range.from_including(place),
            Some(place) if self.path.backwards => range.before(place),
            Some(place) => range.after(place),
        })
    }

    /// Handles the row in the buffer.
    fn found(&mut self, budget: &mut u64, each: Each<'_>) -> Result<Flow, SqlError> {
        self.weighed.next_row();
        let len = self.row.0.image().len();
        self.longest = self.longest.max(len);
        if len > SHORT_ROW {
            owe(&mut self.owed, len as u64 / 4, budget);
        }
        if len > LONG_ROW {
            // Once in a step.
            if !self.takes_long || self.did_long {
                (self.at_long, self.again) = (true, true);
                return Ok(Flow::Pause);
            }
            self.did_long = true;
        }
        let flow = self.row_goes_on(budget, each)?;
        Ok(if flow == Flow::GoOn && self.did_long { Flow::Pause } else { flow })
    }

    /// Goes on with the row in the buffer where an earlier step left it, or begins with it.
    fn row_goes_on(&mut self, budget: &mut u64, each: Each<'_>) -> Result<Flow, SqlError> {
        match self.untried.take() {
            None if self.copies > 0 => self.hand_on(each),
            filter => self.tried(filter.unwrap_or(0), budget, each),
        }
    }

    /// Leaves the row in the buffer to the next step, from this filter on.
    fn again_from(&mut self, filter: usize) -> Flow {
        (self.untried, self.again) = (Some(filter), self.is_long());
        Flow::Pause
    }

    /// The row in the buffer is longer than what is held from one step to the next.
    fn is_long(&self) -> bool {
        self.row.0.image().len() > SPARE_MAX
    }

    /// Tries the row in the buffer by the filters from this one on. A turn may end between two of them: each looks at
    /// the whole of what may be a long text.
    fn tried(&mut self, first: usize, budget: &mut u64, each: Each<'_>) -> Result<Flow, SqlError> {
        for (place, filter) in self.plan.filters.iter().enumerate().skip(first) {
            if self.path.fulfils(place) {
                continue;
            }
            let is_long = self.is_long();
            let view = self.row.0.view(&self.reader).map_err(|error| unreadable(&error))?;
            let stored = view.stored(filter.column()).map_err(|error| unreadable(&error))?;
            let work = filter.work(stored, &self.weighed);
            // The sort key of a long value would be made again too: those that only compare it are tried at once.
            if *budget == 0 && place > first && (work > 0 || !is_long) {
                return Ok(self.again_from(place));
            }
            if work > LONG_VALUE {
                // The first of a long row is of the step that read it.
                if !self.takes_long || (self.did_long && place > first) {
                    self.at_long = true;
                    return Ok(self.again_from(place));
                }
                self.did_long = true;
            }
            owe(&mut self.owed, FILTER_BYTES.saturating_add(work), budget);
            if !filter.holds(stored, &mut self.weighed).map_err(|error| unreadable(&error))? {
                return Ok(Flow::GoOn);
            }
        }
        self.copies = self.row.0.row().count;
        self.hand_on(each)
    }

    /// Hands on the copies of the row in the buffer.
    fn hand_on(&mut self, each: Each<'_>) -> Result<Flow, SqlError> {
        if self.plan.counts {
            self.counted += std::mem::take(&mut self.copies);
            return Ok(Flow::GoOn);
        }
        let skipped = self.skip.min(self.copies);
        (self.skip, self.copies) = (self.skip - skipped, self.copies - skipped);
        while self.copies > 0 {
            if self.left == 0 {
                return Ok(Flow::Enough);
            }
            let row = Some((&mut self.row.0, &*self.reader));
            let goes_on = each(&mut RowOut { encoder: &mut self.encoder, row, count: 0 })?;
            (self.left, self.copies) = (self.left - 1, self.copies - 1);
            if self.left > 0 && !goes_on {
                self.again = self.copies > 0 && self.is_long();
                return Ok(Flow::Pause);
            }
        }
        Ok(if self.left == 0 { Flow::Enough } else { Flow::GoOn })
    }
}

/// The first path that can be read now; the plan loses its paths.
fn ready(snapshot: &Snapshot, reader: &TableReader, plan: &mut Plan) -> Result<(Path, ReadOrder), SqlError> {
    for path in std::mem::take(&mut plan.paths) {
        let Some(key) = path.key else { return Ok((path, ReadOrder::Identity)) };
        let Some(key) = plan.table.keys.get(key) else { continue };
        let order = match TableReader::order_of(&plan.table, key) {
            Ok(order) => order,
            Err(NotKept::Identifies) => ReadOrder::Identity,
            Err(_) => continue,
        };
        let is_ready = snapshot.is_ready(reader, order).map_err(|error| store_error(&error))?;
        if is_ready && reader.is_ordered(order) {
            return Ok((path, order));
        }
    }
    Err(sql::passing::index_is_filled(&plan.table.full_name()))
}

fn bounded(reader: &TableReader, order: ReadOrder, prefix: &Prefix, path: &Path) -> Result<KeyRange, ValueError> {
    if prefix.is_empty() && path.low.is_none() && path.high.is_none() {
        return Ok(KeyRange::all());
    }
    let place = |bound: &Bound| {
        let values = prefix.iter().map(Option::as_deref).chain([bound.value.as_deref()]);
        reader.bound(order, values)
    };
    let mut range = match prefix.is_empty() {
        true => KeyRange::all(),
        false => KeyRange::prefix(&reader.bound(order, prefix.iter().map(Option::as_deref))?),
    };
    if let Some(low) = &path.low {
        let at = place(low)?;
        range = if low.including { range.from_including(&at) } else { range.from_behind(&at) };
    }
    if let Some(high) = &path.high {
        let at = place(high)?;
        range = if high.including { range.to_including(&at) } else { range.to_before(&at) };
    }
    Ok(range)
}
