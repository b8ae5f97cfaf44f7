//! Changes of rows, and why one is refused.
//!
//! In: what a row event says. Out: what [`Lane::apply`](crate::Lane::apply) takes and returns. Never here: a lane.

use crate::error::StoreError;
use crate::row_state::RowState;
use crate::table_shape::TableShape;

/// How strictly the stored row is compared with what the log says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CheckImages {
    /// Rows are written and removed without a check.
    Off,
    /// An UPDATE or DELETE must find its row and an INSERT must not, where that is known without a disk read. Of the
    /// before images, a 16th is compared where the row is in memory, a 1,024th where it must be read from disk. More
    /// would cost more than the 2 % that invariant 20 allows: reading every 16th took 40 % of apply, every 256th 14 %.
    #[default]
    Sample,
    /// As `Sample`, but every before image is compared.
    All,
    /// From the start to the end of a copy without a lock: a row is written or removed whatever is stored. It is looked
    /// up all the same, to keep row counts correct. A partial image of a missing row is skipped: a deletion or a whole
    /// row follows for this key before the copy settles.
    NotYetConsistent,
}

impl CheckImages {
    /// Its name, as `--check-images` takes it; empty for the mode that no option asks for.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CheckImages::Off => "off",
            CheckImages::Sample => "sample",
            CheckImages::All => "all",
            CheckImages::NotYetConsistent => "",
        }
    }

    /// The mode of this name; None if there is none.
    #[must_use]
    pub fn of_name(name: &str) -> Option<CheckImages> {
        [CheckImages::Off, CheckImages::Sample, CheckImages::All].into_iter().find(|mode| mode.name() == name)
    }

    /// Whether a mismatch between row and log is an error.
    #[inline]
    pub(crate) fn refuses(self) -> bool {
        matches!(self, CheckImages::Sample | CheckImages::All)
    }
}

/// What a row event says about the row before the change.
#[derive(Clone, Copy, Debug)]
pub enum BeforeImage<'a> {
    /// The event has no before image.
    None,
    Full(&'a [u8]),
    /// The columns in the bitmap only.
    Partial {
        /// One bit per column of the table.
        present: &'a [u8],
        /// Null bitmap over the present columns, then values.
        image: &'a [u8],
    },
}

/// One change to one row of this lane.
#[derive(Clone, Copy, Debug)]
pub enum RowChange<'a> {
    Insert {
        image: &'a [u8],
    },
    /// Replaces the row's image; its key stays the same.
    Update {
        /// The row before the change.
        before: BeforeImage<'a>,
        image: &'a [u8],
    },
    /// Sets new values in some columns; the key stays the same.
    Merge {
        /// The row before the change.
        before: BeforeImage<'a>,
        /// The columns that the image holds.
        present: &'a [u8],
        /// Null bitmap over the present columns, then values.
        image: &'a [u8],
        /// True if no disk look-up is wanted: the image may be stored in place of the row until a cut or a reader
        /// assembles the row. False if the new version must be a whole row. True only while the table's definition does
        /// not change.
        later: bool,
    },
    /// As `Merge`, with an image that holds JSON diffs for some documents.
    MergeJson {
        /// The row before the change.
        before: BeforeImage<'a>,
        /// The columns that the image holds; None for all.
        present: Option<&'a [u8]>,
        /// One bit per JSON column of the table; a set bit means that the value is a diff.
        partial: &'a [u8],
        /// Null bitmap over the present columns, then values.
        image: &'a [u8],
    },
    Delete {
        /// The row before the change.
        before: BeforeImage<'a>,
    },
    /// Adds one copy of a row in a table without a key; the key is the whole image.
    AddOne {
        /// As in `Merge`: the current number of copies need not be looked up.
        later: bool,
    },
    RemoveOne {
        /// As in `AddOne`.
        later: bool,
    },
}

/// Why a row change does not fit the stored row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowErrorKind {
    /// ER_KEY_NOT_FOUND (1032): the row to change does not exist.
    NotFound,
    /// ER_DUP_ENTRY (1062): the row to insert already exists.
    Duplicate,
    /// The row exists and differs from the before image.
    Differs,
    /// The stored image does not match the table's definition.
    Damaged,
    /// A key change whose after image lacks columns, before a copy without a lock has settled.
    NotYetConsistent,
    /// ER_COULD_NOT_APPLY_JSON_DIFF: the diff does not match the stored document.
    JsonDiff(values::ValueError),
    /// The source logged the row twice, and the log does not prove what it has; the text says why.
    LoggedTwice(String),
    /// The change is not supported here; the text says why.
    NotSupported(String),
    /// The store's files could not be read.
    Store(StoreError),
    /// The store's own structures contradict each other: a defect of this program.
    Defect(&'static str),
}

/// A row change that was refused and had no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", match kind {
    RowErrorKind::Store(error) => error.to_string(),
    RowErrorKind::NotFound => "Can't find record (1032): the row to change is not in the replica".to_owned(),
    RowErrorKind::Duplicate => "Duplicate entry (1062): the row to insert is in the replica already".to_owned(),
    RowErrorKind::Differs => "the row in the replica differs from the before image in the log".to_owned(),
    RowErrorKind::LoggedTwice(reason) => reason.clone(),
    RowErrorKind::NotSupported(reason) => format!("not supported: {reason}"),
    RowErrorKind::NotYetConsistent => "a key change whose image lacks columns while the copy taken without a lock is not settled: \
        the session that made it did not log whole rows (binlog_row_image=FULL); start over with an empty folder".to_owned(),
    RowErrorKind::JsonDiff(error) => format!("Could not apply JSON diff: {error}"),
    RowErrorKind::Damaged => "a stored row does not fit its table's definition".to_owned(),
    RowErrorKind::Defect(what) => format!("{what} (a defect of Slipstream)"),
})]
pub struct RowError {
    /// Reason for the refusal.
    pub kind: RowErrorKind,
}

/// State of a row before a change: `Deleted` also if it never existed, a delta if only this generation was looked at,
/// None if the row was not looked up.
pub(crate) type Old<'a> = Option<RowState<&'a [u8]>>;

/// Applies an image with JSON diffs to the stored row, and appends the new row.
///
/// # Errors
/// When the diffs do not match the stored documents.
pub fn merge_json(
    shape: &TableShape<'_>,
    stored: &[u8],
    present: Option<&[u8]>,
    partial: &[u8],
    image: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), RowError> {
    let is_partial = |json: usize| partial.get(json / 8).is_some_and(|byte| byte >> (json % 8) & 1 != 0);
    let merged = shape.layout.merge_partial(shape.types, stored, present, is_partial, image, out);
    merged.map_err(|error| RowError { kind: RowErrorKind::JsonDiff(error) })
}
