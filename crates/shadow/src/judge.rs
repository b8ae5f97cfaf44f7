//! What two answers say of a statement.
//!
//! In: what is known of the statement, the payloads of both. Out: what is counted. Never here: a connection.

use crate::beside::{Form, beside_nature, prepared_beside_nature, rows_are_among};
use crate::compared::{
    AtEnd, Compared, as_planned, breaks_order, compared, is_passing, refused, same_prepared, with_end,
};
use crate::kind::{Kind, Known};
use crate::nature::Nature;
use crate::pair::Answer;
use crate::report::Found;

/// How answers with as many, but other rows differ.
const OTHER_ROWS: &str = "rows";
const OTHER_ORDER: &str = "order of rows";
const OWN_TRANSACTION: &str = "a transaction of which the source alone has a part";
const PLANNED: &str = "how ORDER BY describes columns of information_schema";
const LIMIT: &str = "LIMIT of rows that nothing orders wholly";

/// Whether it is LIMIT's choice that may differ: the rows that it chooses from have to be asked for.
pub(crate) fn may_be_limit(found: &Found, known: &Known) -> bool {
    known.limited && matches!(found, Found::Different(how) if how == OTHER_ROWS)
}

/// Of the answers to a statement.
pub(crate) fn judged(known: &Known, theirs: Option<&Answer>, ours: Option<&Answer>, form: Form) -> Found {
    let Some(theirs) = theirs else { return Found::NotComparable("an answer above 64 MiB") };
    let Some(mut ours) = ours else { return Found::NotComparable("no answer of the replica") };
    if let Some(construct) = refused(ours) {
        return Found::Refused(construct);
    }
    let deprecates_eof = form.deprecates_eof;
    let mut found = compared(theirs, ours, deprecates_eof);
    let planned;
    if let (Compared::Different(_), true) = (&found, known.orders_dictionary)
        && let Some(answer) = as_planned(theirs, ours, deprecates_eof, form.is_text)
    {
        planned = answer;
        ours = &planned;
        found = compared(theirs, ours, deprecates_eof);
        if found == Compared::Equal {
            return Found::NotDetermined(PLANNED);
        }
    }
    if found == Compared::Equal {
        return Found::Equal;
    }
    if is_passing(ours) {
        return Found::NotComparable("not readable at the replica now");
    }
    let beside = beside_nature(theirs, ours, &known.nature, form);
    let why = beside.as_ref().map(|(_, why)| *why);
    found = beside.map_or(found, |(beside, _)| beside);
    match (found, why) {
        (Compared::Equal, Some(why)) => Found::ByNature(why),
        (Compared::Equal, None) => Found::Equal,
        (Compared::OtherOrder | Compared::OtherRows, _)
            if breaks_order(theirs, ours, deprecates_eof, form.is_text, &known.order) =>
        {
            Found::Different(OTHER_ORDER.into())
        }
        (Compared::OtherOrder, Some(why)) => Found::ByNature(why),
        (Compared::OtherOrder, None) if known.ordered => Found::NotDetermined("rows that ORDER BY leaves in any order"),
        (Compared::OtherOrder, None) => Found::Equal,
        (Compared::OtherRows, _) => Found::Different(OTHER_ROWS.into()),
        (Compared::Different(how), _) => Found::Different(how),
    }
}

/// What of the session's transaction only the source has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Alone {
    /// Statements of it ran at the source alone, so that it may have begun there alone.
    pub statements: bool,
    /// Writes are among them.
    pub writes: bool,
}

/// Of the answers to a statement in a transaction of which the source alone has a part. That the replica's session is
/// in none differs by nature, but not where the statement itself begins or ends one.
pub(crate) fn judged_in_transaction(
    known: &Known,
    theirs: Option<&Answer>,
    ours: Option<&Answer>,
    alone: Alone,
    form: Form,
) -> Found {
    let found = judged(known, theirs, ours, form);
    let (Found::Different(_), Some(theirs), Some(ours)) = (&found, theirs, ours) else { return found };
    let begins_or_ends = matches!(known.kind, Kind::Ends | Kind::Pins) || known.reads_rows;
    let may_differ = AtEnd {
        transaction: alone.statements && !begins_or_ends,
        // ER_WARNING_NOT_COMPLETE_ROLLBACK is about the writes that it takes back.
        warning: alone.writes && known.takes_back,
    };
    match with_end(theirs, ours, may_differ, form.deprecates_eof) {
        None => found,
        Some(ours) => match judged(known, Some(theirs), Some(&ours), form) {
            Found::Equal => Found::ByNature(OWN_TRANSACTION),
            other => other,
        },
    }
}

/// Of answers with other rows to a statement with LIMIT, and of those without it: if these have the same rows, and the
/// replica's choice is among them, either choice is right.
pub(crate) fn judged_without_limit(
    nature: &Nature,
    ours: &Answer,
    (all_theirs, all_ours): (&Answer, &Answer),
    form: Form,
) -> Found {
    let mut all = compared(all_theirs, all_ours, form.deprecates_eof);
    if !matches!(all, Compared::Equal | Compared::OtherOrder)
        && let Some((beside, _)) = beside_nature(all_theirs, all_ours, nature, form)
    {
        all = beside;
    }
    let is_right =
        matches!(all, Compared::Equal | Compared::OtherOrder) && rows_are_among(ours, all_theirs, nature, form);
    if is_right { Found::NotDetermined(LIMIT) } else { Found::Different(OTHER_ROWS.into()) }
}

/// Of what a cursor gave. Without ORDER BY it may give its rows in any order, so only all of them at once are compared.
pub(crate) fn judged_of_cursor(known: &Known, theirs: &Answer, ours: &Answer, has_all: bool, form: Form) -> Found {
    let found = judged(known, Some(theirs), Some(ours), form);
    let may_be_other_rows = matches!(&found, Found::Different(how) if how == OTHER_ROWS);
    match may_be_other_rows {
        true if !has_all && !known.ordered => Found::NotDetermined("rows of a cursor without ORDER BY"),
        true if known.limited => Found::NotComparable("LIMIT in a cursor"),
        _ => found,
    }
}

/// Of the answers to a COM_STMT_PREPARE.
pub(crate) fn judged_prepared(known: &Known, theirs: &Answer, ours: &Answer, deprecates_eof: bool) -> Found {
    if let Some(construct) = refused(ours) {
        return Found::Refused(construct);
    }
    match same_prepared(theirs, ours) {
        Compared::Different(_) if is_passing(ours) => Found::NotComparable("not readable at the replica now"),
        Compared::Different(how) => match prepared_beside_nature(theirs, ours, &known.nature, deprecates_eof) {
            Some((Compared::Equal, why)) => Found::ByNature(why),
            _ => Found::Different(format!("prepare: {how}")),
        },
        _ => Found::Equal,
    }
}

#[cfg(test)]
mod tests;
