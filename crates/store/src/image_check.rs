//! Whether the stored row is as the log says (invariant 20).
//!
//! In: the stored row, the before image of a row event. Out: a refusal, or nothing. Never here: a look-up.

use values::{ColumnType, OFFSET_ABSENT, OFFSET_NULL, type_code};

use crate::row_change::{BeforeImage, CheckImages, Old, RowError, RowErrorKind};
use crate::row_state::RowState;
use crate::table_shape::TableShape;

/// Checks that an UPDATE or DELETE finds its row, and finds it as the log says.
#[inline]
pub(crate) fn check_old(
    shape: &TableShape<'_>,
    old: Old<'_>,
    before: BeforeImage<'_>,
    compare: bool,
    check: CheckImages,
) -> Result<(), RowError> {
    match old {
        Some(RowState::Row(stored)) if compare => compare_before(shape, stored, before),
        Some(RowState::Deleted) if check.refuses() => Err(RowError { kind: RowErrorKind::NotFound }),
        _ => Ok(()),
    }
}

#[inline]
fn compare_before(shape: &TableShape<'_>, stored: &[u8], before: BeforeImage<'_>) -> Result<(), RowError> {
    let (present, image) = match before {
        BeforeImage::None => return Ok(()),
        BeforeImage::Full(image) if stored == image => return Ok(()),
        BeforeImage::Full(image) => (None, image),
        BeforeImage::Partial { present, image } => (Some(present), image),
    };
    if shape.layout.images_equal(stored, present, image) || equal_where_it_counts(shape, stored, present, image) {
        return Ok(());
    }
    Err(RowError { kind: RowErrorKind::Differs })
}

/// Whether two images differ only in the binary layout of JSON documents, or in virtual columns. A document is its
/// printed text (invariant 21): a source that updates a document in place logs it with gaps. A virtual column is what the
/// session that wrote the event read.
#[cold]
fn equal_where_it_counts(shape: &TableShape<'_>, stored: &[u8], present: Option<&[u8]>, image: &[u8]) -> bool {
    let TableShape { layout, types, versions, .. } = *shape;
    if !versions.has_virtual() && !types.iter().any(|ty| ty.code == type_code::JSON) {
        return false;
    }
    let (mut ours, mut logged) = (Vec::new(), Vec::new());
    let walked = match present {
        Some(present) => layout.walk_present(present, image, &mut logged),
        None => layout.walk_offsets(image, &mut logged),
    };
    if walked.is_err() || layout.walk_offsets(stored, &mut ours).is_err() {
        return false;
    }
    types.iter().zip(ours).zip(logged).enumerate().all(|(column, ((ty, ours), logged))| {
        if logged.0 == OFFSET_ABSENT || versions.is_virtual(column) {
            return true;
        }
        let value = |bytes, (start, len): (u32, u32)| {
            if start == OFFSET_NULL { None } else { value_of(bytes, start, len) }
        };
        match (value(stored, ours), value(image, logged)) {
            (None, None) => true,
            (Some(ours), Some(logged)) => ours == logged || ty.code == type_code::JSON && same_json(ty, ours, logged),
            _ => false,
        }
    })
}

fn value_of(bytes: &[u8], start: u32, len: u32) -> Option<&[u8]> {
    bytes.get(start as usize..)?.get(..len as usize)
}

fn same_json(ty: &ColumnType, left: &[u8], right: &[u8]) -> bool {
    let text = |stored: &[u8]| {
        let mut text = Vec::new();
        values::json::write_text(stored.get(ty.prefix_len()..)?, &mut text).ok()?;
        Some(text)
    };
    text(left).is_some_and(|left| Some(left) == text(right))
}
