//! What there is of a row in one place: a version, a layer, an entry of a run.

/// State of a row. In an `Option`, None means that nothing is known of the row there: no version, or not looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState<T> {
    Row(T),
    /// Only what changes in the row that a layer below holds: see `delta`.
    Delta(T),
    /// There is no such row, whatever the layers below hold.
    Deleted,
}

impl<T> RowState<T> {
    /// Whether what older layers hold of the row does not count.
    #[inline]
    pub(crate) fn hides_older(&self) -> bool {
        !matches!(self, RowState::Delta(_))
    }

    /// The row, if there is a whole one.
    #[inline]
    pub(crate) fn row(self) -> Option<T> {
        match self {
            RowState::Row(row) => Some(row),
            RowState::Delta(_) | RowState::Deleted => None,
        }
    }

    /// The state alone, without what was stored with it.
    #[inline]
    pub(crate) fn bare(&self) -> RowState<()> {
        match self {
            RowState::Row(_) => RowState::Row(()),
            RowState::Delta(_) => RowState::Delta(()),
            RowState::Deleted => RowState::Deleted,
        }
    }
}

/// Number of copies of a row, from what a lane stores of it.
#[inline]
pub(crate) fn copies_in(keyless: bool, image: &[u8]) -> u64 {
    if keyless { multiplicity(image) } else { 1 }
}

/// Number of copies of a keyless row, as a lane stores it.
#[inline]
pub(crate) fn multiplicity(image: &[u8]) -> u64 {
    match image.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => panic!("a count of copies of {} bytes", image.len()),
    }
}
