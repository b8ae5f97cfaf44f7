//! What the log says of a row before a change: whether it exists.
//!
//! In: the first change of a row in a generation. Out: an expectation that travels with the row's entry into the tree,
//! where merges compare it with what lies below. Never here: a look-up. Changes are written without one (invariant 20),
//! so this is how a row that is missing, or is there twice, is found all the same.

use crate::row_change::{CheckImages, RowChange};

/// Whether a row exists below a change. In the tree it is the entry's sequence number modulo [`Expected::SPAN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Expected {
    /// Not known, or compared already.
    #[default]
    Unknown,
    /// The first change was an UPDATE or DELETE.
    Row,
    /// The first change was an INSERT.
    NoRow,
}

impl Expected {
    /// Sequence numbers of the tree that a run takes, from a multiple of this.
    pub(crate) const SPAN: u64 = 4;

    /// What a change that is the first one of its row in a generation expects.
    #[inline]
    pub(crate) fn of(change: &RowChange<'_>, check: CheckImages) -> Expected {
        if !check.refuses() {
            return Expected::Unknown;
        }
        match change {
            RowChange::Insert { .. } => Expected::NoRow,
            RowChange::Update { .. }
            | RowChange::Merge { .. }
            | RowChange::MergeJson { .. }
            | RowChange::Delete { .. } => Expected::Row,
            // Cuts look these up and compare the number of copies.
            RowChange::AddOne { .. } | RowChange::RemoveOne { .. } => Expected::Unknown,
        }
    }

    /// As two bits.
    #[inline]
    pub(crate) fn bits(self) -> u32 {
        match self {
            Expected::Unknown => 0,
            Expected::Row => 1,
            Expected::NoRow => 2,
        }
    }

    /// From two bits.
    #[inline]
    pub(crate) fn of_bits(bits: u32) -> Expected {
        match bits & 3 {
            1 => Expected::Row,
            2 => Expected::NoRow,
            _ => Expected::Unknown,
        }
    }

    /// What an entry of the tree says, by its sequence number there.
    #[inline]
    pub(crate) fn of_number(number: u64) -> Expected {
        match number % Self::SPAN {
            1 => Expected::Row,
            2 => Expected::NoRow,
            _ => Expected::Unknown,
        }
    }

    /// The same sequence number with nothing expected.
    #[inline]
    pub(crate) fn without(number: u64) -> u64 {
        number - number % Self::SPAN
    }

    /// Whether it contradicts what is there.
    #[inline]
    pub(crate) fn is_broken(self, exists: bool) -> bool {
        match self {
            Expected::Unknown => false,
            Expected::Row => !exists,
            Expected::NoRow => exists,
        }
    }
}
