//! Event ledger: no event of the log is passed over in silence.
//!
//! In: counts per event type and category, merged once per batch. Out: snapshots, and which types do not balance.
//! Invariant: per event type, seen = applied + control + recorded + filtered + already executed + superseded by copy +
//! not kept + skipped by operator + refused, once nothing is in flight. Never here: an event's content.
//!
//! A generation is checked before its cut, while later events are in flight. Therefore generations count alternately on
//! two pages; at most two generations are ever in flight.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// Fate of an event. `Seen` is the sum of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Category {
    /// Read from the relay log by the splitter.
    #[serde(rename = "seen")]
    Seen = 0,
    /// Part of a transaction that was applied; counted by the apply workers.
    #[serde(rename = "applied")]
    Applied = 1,
    /// Affects only reading: format description, rotate, heartbeat, previous GTIDs.
    #[serde(rename = "control")]
    Control = 2,
    /// Recorded only, because it changes nothing that Slipstream stores (users, views, triggers).
    #[serde(rename = "recorded")]
    Recorded = 3,
    /// Excluded by a filter that the operator set.
    #[serde(rename = "filtered")]
    Filtered = 4,
    /// Its GTID was already in gtid_executed.
    #[serde(rename = "already_executed")]
    AlreadyExecuted = 5,
    /// Its table was copied at a later point of the log.
    #[serde(rename = "superseded_by_copy")]
    SupersededByCopy = 6,
    /// Its GTID was named in `slipstream skip`.
    #[serde(rename = "skipped_by_operator")]
    SkippedByOperator = 7,
    /// Unsupported or wrong; replay stopped at it.
    #[serde(rename = "refused")]
    Refused = 8,
    /// Rows of a table whose engine keeps none (BLACKHOLE) or keeps them on another server (FEDERATED).
    #[serde(rename = "not_kept")]
    NotKept = 9,
}

impl Category {
    /// All categories, in the order they are shown.
    pub const ALL: [Category; CATEGORIES] = [
        Category::Seen,
        Category::Applied,
        Category::Control,
        Category::Recorded,
        Category::Filtered,
        Category::AlreadyExecuted,
        Category::SupersededByCopy,
        Category::SkippedByOperator,
        Category::Refused,
        Category::NotKept,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Category::Seen => "seen",
            Category::Applied => "applied",
            Category::Control => "control",
            Category::Recorded => "recorded",
            Category::Filtered => "filtered",
            Category::AlreadyExecuted => "already_executed",
            Category::SupersededByCopy => "superseded_by_copy",
            Category::SkippedByOperator => "skipped_by_operator",
            Category::Refused => "refused",
            Category::NotKept => "not_kept",
        }
    }
}

const CATEGORIES: usize = 10;

/// Type codes below this have their own row. MySQL's go up to 42; MariaDB's start at 160 and are refused.
const TYPES: usize = 64;

/// Row that counts all type codes from 63 up.
pub const OTHER_EVENT_TYPES: u8 = (TYPES - 1) as u8;

fn row_of(event_type: u8) -> usize {
    usize::from(event_type.min(OTHER_EVENT_TYPES))
}

/// Counts of one thread, merged into the `Ledger` once per batch, so that workers do not contend for a cache line per
/// event.
#[derive(Clone, Debug)]
pub struct LedgerBatch {
    counts: [[u64; CATEGORIES]; TYPES],
    /// One bit per row with a count, so that a merge visits only those.
    touched: u64,
}

impl Default for LedgerBatch {
    fn default() -> Self {
        LedgerBatch::new()
    }
}

impl LedgerBatch {
    /// Creates a batch with all counts zero.
    #[must_use]
    pub fn new() -> LedgerBatch {
        LedgerBatch { counts: [[0; CATEGORIES]; TYPES], touched: 0 }
    }

    /// Adds `events` events of a type to a category.
    #[inline]
    pub fn add(&mut self, event_type: u8, category: Category, events: u64) {
        if !crate::WATCHES {
            return;
        }
        let row = row_of(event_type);
        if let Some(cell) = self.counts.get_mut(row).and_then(|row| row.get_mut(category as usize)) {
            *cell += events;
        }
        self.touched |= 1 << row;
    }

    /// True if nothing was counted since the last merge.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.touched == 0
    }

    /// Counts everything that `events` has under `from` again under `category`, type by type. For a transaction whose
    /// fate is decided as a whole after its events were counted.
    pub fn add_all_as(&mut self, events: &LedgerBatch, from: Category, category: Category) {
        if !crate::WATCHES {
            return;
        }
        for (row, counts) in events.counts.iter().enumerate() {
            let count = counts.get(from as usize).copied().unwrap_or(0);
            if count > 0 {
                self.add(u8::try_from(row).unwrap_or(OTHER_EVENT_TYPES), category, count);
            }
        }
    }
}

/// Where the events of a generation are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Page {
    /// Page of the first generation, the third, and so on.
    #[default]
    Left,
    /// Page of the second generation, the fourth, and so on.
    Right,
}

impl Page {
    /// Page of the previous and the next generation.
    #[must_use]
    pub fn other(self) -> Page {
        match self {
            Page::Left => Page::Right,
            Page::Right => Page::Left,
        }
    }
}

type Counts = [[AtomicU64; CATEGORIES]; TYPES];

/// Counts of the whole process. All methods take `&self`.
#[derive(Debug)]
pub struct Ledger {
    left: Counts,
    right: Counts,
    /// Counts of earlier runs.
    restored: Counts,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger::new()
    }
}

impl Ledger {
    /// Creates a ledger with all counts zero.
    #[must_use]
    pub fn new() -> Ledger {
        let counts = || std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0)));
        Ledger { left: counts(), right: counts(), restored: counts() }
    }

    fn counts(&self, page: Page) -> &Counts {
        match page {
            Page::Left => &self.left,
            Page::Right => &self.right,
        }
    }

    /// Adds a thread's counts and clears its batch.
    pub fn merge(&self, page: Page, batch: &mut LedgerBatch) {
        let counts = self.counts(page);
        let mut touched = batch.touched;
        while touched != 0 {
            let row = touched.trailing_zeros() as usize;
            // Clears the lowest bit.
            touched &= touched - 1;
            let (Some(shared), Some(local)) = (counts.get(row), batch.counts.get_mut(row)) else { continue };
            for (shared, local) in shared.iter().zip(local.iter_mut()) {
                if *local > 0 {
                    shared.fetch_add(std::mem::take(local), Relaxed);
                }
            }
        }
        batch.touched = 0;
    }

    /// Adds the counts of earlier runs, as read from the data folder.
    pub fn restore(&self, earlier: &LedgerSnapshot) {
        for row in &earlier.rows {
            for (category, count) in row.counts.by_category() {
                let cell = self.restored.get(row_of(row.event_type)).and_then(|cells| cells.get(category as usize));
                if let Some(cell) = cell {
                    cell.fetch_add(count, Relaxed);
                }
            }
        }
    }

    /// All rows with a count, over all runs. `name` maps a type code to MySQL's name. Outcomes are read before `seen`,
    /// so a snapshot taken while events are in flight never shows more outcomes than events seen.
    #[must_use]
    pub fn snapshot(&self, name: impl Fn(u8) -> &'static str) -> LedgerSnapshot {
        LedgerSnapshot::of(&[&self.left, &self.right, &self.restored], name)
    }

    /// Like [`snapshot`](Self::snapshot), but without the counts of earlier runs.
    #[must_use]
    pub fn of_this_run(&self, name: impl Fn(u8) -> &'static str) -> LedgerSnapshot {
        LedgerSnapshot::of(&[&self.left, &self.right], name)
    }

    /// Like [`snapshot`](Self::snapshot), but for one page.
    #[must_use]
    pub fn page(&self, page: Page, name: impl Fn(u8) -> &'static str) -> LedgerSnapshot {
        LedgerSnapshot::of(&[self.counts(page)], name)
    }
}

impl LedgerSnapshot {
    fn of(pages: &[&Counts], name: impl Fn(u8) -> &'static str) -> LedgerSnapshot {
        let mut rows = Vec::new();
        for index in 0..TYPES {
            // In reverse order, so that the outcomes are read before `Seen`.
            let mut counts = LedgerCounts::default();
            for (at, category) in Category::ALL.iter().enumerate().rev() {
                let cells = pages.iter().filter_map(|page| page.get(index)?.get(at));
                counts.set(*category, cells.map(|cell| cell.load(Relaxed)).sum());
            }
            if counts != LedgerCounts::default() {
                let event_type = u8::try_from(index).unwrap_or(OTHER_EVENT_TYPES);
                let name = if event_type == OTHER_EVENT_TYPES { "other" } else { name(event_type) };
                rows.push(LedgerRow { event_type, name: name.to_owned(), counts });
            }
        }
        LedgerSnapshot { rows }
    }
}

/// Counts of one event type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerCounts {
    /// Events under `Category::Seen`.
    #[serde(rename = "seen")]
    pub seen: u64,
    /// Events under `Category::Applied`.
    #[serde(rename = "applied")]
    pub applied: u64,
    /// Events under `Category::Control`.
    #[serde(rename = "control")]
    pub control: u64,
    /// Events under `Category::Recorded`.
    #[serde(rename = "recorded")]
    pub recorded: u64,
    /// Events under `Category::Filtered`.
    #[serde(rename = "filtered")]
    pub filtered: u64,
    /// Events under `Category::AlreadyExecuted`.
    #[serde(rename = "already_executed")]
    pub already_executed: u64,
    /// Events under `Category::SupersededByCopy`.
    #[serde(rename = "superseded_by_copy")]
    pub superseded_by_copy: u64,
    /// Events under `Category::SkippedByOperator`.
    #[serde(rename = "skipped_by_operator")]
    pub skipped_by_operator: u64,
    /// Events under `Category::Refused`.
    #[serde(rename = "refused")]
    pub refused: u64,
    /// Events under `Category::NotKept`.
    #[serde(rename = "not_kept")]
    pub not_kept: u64,
}

impl LedgerCounts {
    /// All categories with their counts, in the order they are shown.
    #[must_use]
    pub fn by_category(&self) -> [(Category, u64); CATEGORIES] {
        [
            (Category::Seen, self.seen),
            (Category::Applied, self.applied),
            (Category::Control, self.control),
            (Category::Recorded, self.recorded),
            (Category::Filtered, self.filtered),
            (Category::AlreadyExecuted, self.already_executed),
            (Category::SupersededByCopy, self.superseded_by_copy),
            (Category::SkippedByOperator, self.skipped_by_operator),
            (Category::Refused, self.refused),
            (Category::NotKept, self.not_kept),
        ]
    }

    fn set(&mut self, category: Category, count: u64) {
        *match category {
            Category::Seen => &mut self.seen,
            Category::Applied => &mut self.applied,
            Category::Control => &mut self.control,
            Category::Recorded => &mut self.recorded,
            Category::Filtered => &mut self.filtered,
            Category::AlreadyExecuted => &mut self.already_executed,
            Category::SupersededByCopy => &mut self.superseded_by_copy,
            Category::SkippedByOperator => &mut self.skipped_by_operator,
            Category::Refused => &mut self.refused,
            Category::NotKept => &mut self.not_kept,
        } = count;
    }

    /// Number of events with a decided fate: the sum of all categories except `seen`.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        self.by_category().iter().filter(|(category, _)| *category != Category::Seen).map(|(_, count)| count).sum()
    }

    /// Number of events seen without a decided fate: in flight, or lost. Negative if some were counted twice.
    #[must_use]
    pub fn in_flight(&self) -> i128 {
        i128::from(self.seen) - i128::from(self.accounted())
    }
}

/// The ledger's row for one event type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// MySQL's type code; 63 means any code from 63 up.
    #[serde(rename = "event_type")]
    pub event_type: u8,
    /// MySQL's name of the type, as mysqlbinlog prints it.
    #[serde(rename = "name")]
    pub name: String,
    #[serde(flatten)]
    pub counts: LedgerCounts,
}

/// A row as a cut's record holds it: with every key of [`LedgerRow`] and no other, so that no count is lost or
/// half read. A category added later gets a default of its own here.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordRow {
    #[serde(rename = "event_type")]
    event_type: u8,
    #[serde(rename = "name")]
    name: String,
    #[serde(rename = "seen")]
    seen: u64,
    #[serde(rename = "applied")]
    applied: u64,
    #[serde(rename = "control")]
    control: u64,
    #[serde(rename = "recorded")]
    recorded: u64,
    #[serde(rename = "filtered")]
    filtered: u64,
    #[serde(rename = "already_executed")]
    already_executed: u64,
    #[serde(rename = "superseded_by_copy")]
    superseded_by_copy: u64,
    #[serde(rename = "skipped_by_operator")]
    skipped_by_operator: u64,
    #[serde(rename = "refused")]
    refused: u64,
    // Absent in records of earlier versions.
    #[serde(rename = "not_kept", default)]
    not_kept: u64,
}

/// A ledger as a cut's record holds it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    #[serde(rename = "rows")]
    rows: Vec<RecordRow>,
}

/// The ledger at one moment. Serialises to the form in `status --json`, which readers of other versions read leniently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerSnapshot {
    /// One row per event type seen, ordered by type code.
    #[serde(rename = "rows")]
    pub rows: Vec<LedgerRow>,
}

impl LedgerSnapshot {
    /// The text that a cut's record holds.
    ///
    /// # Errors
    /// Those of `serde_json`; none occurs.
    pub fn to_record(&self) -> Result<String, serde_json::Error> {
        let rows = self.rows.iter().map(|LedgerRow { event_type, name, counts }| RecordRow {
            event_type: *event_type,
            name: name.clone(),
            seen: counts.seen,
            applied: counts.applied,
            control: counts.control,
            recorded: counts.recorded,
            filtered: counts.filtered,
            already_executed: counts.already_executed,
            superseded_by_copy: counts.superseded_by_copy,
            skipped_by_operator: counts.skipped_by_operator,
            refused: counts.refused,
            not_kept: counts.not_kept,
        });
        serde_json::to_string(&Record { rows: rows.collect() })
    }

    /// Reads what [`LedgerSnapshot::to_record`] wrote.
    ///
    /// # Errors
    /// A key is missing, or there is one that this program does not know.
    pub fn from_record(text: &str) -> Result<LedgerSnapshot, serde_json::Error> {
        let record: Record = serde_json::from_str(text)?;
        let rows = record.rows.into_iter().map(|row| LedgerRow {
            event_type: row.event_type,
            name: row.name,
            counts: LedgerCounts {
                seen: row.seen,
                applied: row.applied,
                control: row.control,
                recorded: row.recorded,
                filtered: row.filtered,
                already_executed: row.already_executed,
                superseded_by_copy: row.superseded_by_copy,
                skipped_by_operator: row.skipped_by_operator,
                refused: row.refused,
                not_kept: row.not_kept,
            },
        });
        Ok(LedgerSnapshot { rows: rows.collect() })
    }

    /// True if every event seen is accounted for, type by type. False while events are in flight.
    #[must_use]
    pub fn balanced(&self) -> bool {
        self.unbalanced().next().is_none()
    }

    /// Event types whose counts do not balance.
    pub fn unbalanced(&self) -> impl Iterator<Item = &LedgerRow> {
        self.rows.iter().filter(|row| row.counts.in_flight() != 0)
    }

    /// Sums over all types.
    #[must_use]
    pub fn totals(&self) -> LedgerCounts {
        let mut totals = LedgerCounts::default();
        for row in &self.rows {
            for ((category, sum), (_, count)) in totals.by_category().into_iter().zip(row.counts.by_category()) {
                totals.set(category, sum + count);
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(ledger: &Ledger, page: Page, event_type: u8, category: Category, events: u64) {
        let mut batch = LedgerBatch::new();
        batch.add(event_type, category, events);
        ledger.merge(page, &mut batch);
    }

    fn name(event_type: u8) -> &'static str {
        if event_type == 30 { "Write_rows" } else { "some" }
    }

    #[test]
    fn batches_of_many_threads_add_up() {
        let ledger = Ledger::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut batch = LedgerBatch::new();
                    for _ in 0..1000 {
                        batch.add(30, Category::Seen, 2);
                        batch.add(30, Category::Applied, 1);
                        batch.add(30, Category::AlreadyExecuted, 1);
                        ledger.merge(Page::Left, &mut batch);
                        assert!(batch.is_empty());
                    }
                });
            }
        });
        let snapshot = ledger.snapshot(name);
        assert!(snapshot.balanced());
        assert_eq!(snapshot.rows.len(), 1);
        assert_eq!(snapshot.rows[0].name, "Write_rows");
        assert_eq!(snapshot.totals().seen, 8000);
        assert_eq!(snapshot.totals().applied, 4000);
    }

    #[test]
    fn a_dropped_event_is_noticed() {
        let ledger = Ledger::new();
        add(&ledger, Page::Left, 19, Category::Seen, 3);
        add(&ledger, Page::Left, 19, Category::Applied, 2);
        add(&ledger, Page::Left, 33, Category::Seen, 1);
        add(&ledger, Page::Left, 33, Category::Refused, 1);
        let snapshot = ledger.snapshot(name);
        assert!(!snapshot.balanced());
        assert_eq!(snapshot.unbalanced().map(|row| row.event_type).collect::<Vec<_>>(), [19]);
        assert_eq!(snapshot.rows[0].counts.in_flight(), 1);
    }

    #[test]
    fn two_types_that_cancel_out_are_not_balanced() {
        let ledger = Ledger::new();
        add(&ledger, Page::Left, 30, Category::Seen, 1);
        add(&ledger, Page::Left, 31, Category::Applied, 1);
        assert!(!ledger.snapshot(name).balanced());
    }

    #[test]
    fn high_type_codes_share_one_row() {
        let ledger = Ledger::new();
        add(&ledger, Page::Left, 63, Category::Seen, 1);
        add(&ledger, Page::Left, 160, Category::Seen, 1);
        add(&ledger, Page::Left, 255, Category::Refused, 2);
        let snapshot = ledger.snapshot(name);
        assert_eq!(snapshot.rows[0].name, "other");
        assert!(snapshot.balanced());
    }

    #[test]
    fn a_transaction_skipped_as_a_whole_keeps_its_types() {
        let mut transaction = LedgerBatch::new();
        transaction.add(19, Category::Seen, 1);
        transaction.add(30, Category::Seen, 5);
        let mut batch = transaction.clone();
        batch.add_all_as(&transaction, Category::Seen, Category::SkippedByOperator);
        let ledger = Ledger::new();
        ledger.merge(Page::Left, &mut batch);
        let snapshot = ledger.snapshot(name);
        assert!(snapshot.balanced());
        assert_eq!(snapshot.totals().skipped_by_operator, 6);
    }

    #[test]
    fn kept_across_a_restart_in_a_record() {
        let ledger = Ledger::new();
        add(&ledger, Page::Left, 30, Category::Seen, 7);
        add(&ledger, Page::Left, 30, Category::Filtered, 7);
        let text = ledger.snapshot(name).to_record().unwrap();
        assert_eq!(text, serde_json::to_string(&ledger.snapshot(name)).unwrap(), "documented as one form");
        let earlier = LedgerSnapshot::from_record(&text).unwrap();
        let next = Ledger::new();
        next.restore(&earlier);
        add(&next, Page::Left, 30, Category::Seen, 1);
        assert_eq!(next.snapshot(name).totals().seen, 8);
        assert_eq!(next.snapshot(name).totals().filtered, 7);
    }

    #[test]
    fn a_record_that_lost_a_key_or_has_an_unknown_one_is_refused_by_its_name() {
        let ledger = Ledger::new();
        add(&ledger, Page::Left, 30, Category::Seen, 7);
        let whole: serde_json::Value = serde_json::from_str(&ledger.snapshot(name).to_record().unwrap()).unwrap();
        let keys: Vec<String> = whole["rows"][0].as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys.len(), 2 + CATEGORIES);
        let refused = |record: &serde_json::Value| LedgerSnapshot::from_record(&record.to_string()).unwrap_err();
        // Earlier versions did not count it.
        for key in keys.iter().filter(|key| *key != "not_kept") {
            let mut lossy = whole.clone();
            lossy["rows"][0].as_object_mut().unwrap().remove(key);
            assert!(refused(&lossy).to_string().contains(&format!("missing field `{key}`")), "{key}");
        }
        let mut newer = whole.clone();
        newer["rows"][0]["newer"] = 1.into();
        assert!(refused(&newer).to_string().contains("unknown field `newer`"));
        let mut newer = whole;
        newer["newer"] = 1.into();
        assert!(refused(&newer).to_string().contains("unknown field `newer`"));
    }

    #[test]
    fn a_page_is_balanced_while_events_of_the_other_are_in_flight() {
        let ledger = Ledger::new();
        add(&ledger, Page::Left, 30, Category::Seen, 2);
        add(&ledger, Page::Left, 30, Category::Applied, 2);
        add(&ledger, Page::Right, 30, Category::Seen, 1);
        assert!(ledger.page(Page::Left, name).balanced());
        assert!(!ledger.page(Page::Right, name).balanced());
        assert_eq!(ledger.snapshot(name).totals().seen, 3);
    }

    #[test]
    fn what_an_earlier_run_lost_is_shown_and_not_held_against_this_one() {
        let earlier = Ledger::new();
        add(&earlier, Page::Left, 30, Category::Seen, 1);
        let ledger = Ledger::new();
        ledger.restore(&earlier.snapshot(name));
        assert!(!ledger.snapshot(name).balanced());
        assert!(ledger.of_this_run(name).balanced());
    }
}
