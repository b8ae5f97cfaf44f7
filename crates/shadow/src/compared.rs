//! Two answers to one statement: whether they say the same.
//!
//! In: the payloads of both. Out: equal, or how they differ. Never here: a judgement by the statement's meaning.

use sql::SqlError;
use wire::read::Reader;
use wire::response::{ColumnDefinition, ErrPacket, OkPacket, column_flag, ends_rows, is_err, rows_end, status};
use wire::row::{BinaryRow, Value, ValueType, text_value, type_code};
use wire::server::{ColumnForm, put_binary_row};

use crate::kind::OrderedBy;

/// Status bits that both must have alike: those of access paths are each server's own.
const COMPARED_STATUS: u16 =
    !(status::NO_INDEX_USED | 1 << 4 | 1 << 11 | status::SESSION_STATE_CHANGED | status::MORE_RESULTS_EXISTS);

/// Types whose equal values are sent alike; of floating-point numbers zero has two forms.
const DEFINITE: &[u8] = &[
    type_code::TINY,
    type_code::SHORT,
    type_code::INT24,
    type_code::LONG,
    type_code::LONGLONG,
    type_code::NEWDECIMAL,
    type_code::YEAR,
    type_code::DATE,
    type_code::TIME,
    type_code::DATETIME,
    type_code::TIMESTAMP,
];

/// How two answers compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Compared {
    Equal,
    /// The same rows in another order.
    OtherOrder,
    /// Other rows, as many of them.
    OtherRows,
    /// Anything else: what.
    Different(String),
}

/// An answer to a statement with its parts apart.
pub(crate) struct Parts<'a> {
    /// Everything before the rows: column count, definitions, EOF.
    pub head: Vec<&'a [u8]>,
    pub rows: Vec<&'a [u8]>,
    /// The packet that ends it.
    pub end: &'a [u8],
}

/// The replica's error 1235: the construct that it does not answer.
pub(crate) fn refused(answer: &[Vec<u8>]) -> Option<String> {
    let error = ErrPacket::parse(answer.last().filter(|last| is_err(last))?).ok()?;
    if error.code != 1235 {
        return None;
    }
    Some(SqlError::construct_in(&error.message).unwrap_or(&error.message).to_owned())
}

/// Whether an answer ends with an error that tells of a state which passes.
pub(crate) fn is_passing(answer: &[Vec<u8>]) -> bool {
    let error = answer.last().filter(|last| is_err(last)).and_then(|last| ErrPacket::parse(last).ok());
    error.is_some_and(|error| error.code == 1105 && sql::passing::is_passing(&error.message))
}

/// The error that ends an answer, as text.
pub(crate) fn error(answer: &[Vec<u8>]) -> Option<String> {
    let error = ErrPacket::parse(answer.last().filter(|last| is_err(last))?).ok()?;
    Some(format!("{} ({}): {}", error.code, error.sqlstate, error.message))
}

/// How two errors differ. Their texts are not shown: they quote statements.
fn errors(theirs: Option<String>, ours: Option<String>) -> String {
    let number = |error: Option<String>| {
        error.map_or("none".to_owned(), |error| error.split(':').next().unwrap_or_default().to_owned())
    };
    let (theirs, ours) = (number(theirs), number(ours));
    if theirs == ours { format!("texts of error {theirs}") } else { format!("errors: source {theirs}, replica {ours}") }
}

pub(crate) fn parts(answer: &[Vec<u8>], deprecate_eof: bool) -> Option<Parts<'_>> {
    let first = answer.first()?;
    let (end, rest) = answer.split_last()?;
    if is_err(first) || first.first() == Some(&0) {
        return Some(Parts { head: Vec::new(), rows: Vec::new(), end });
    }
    let mut reader = Reader::new(first);
    let count = usize::try_from(reader.lenenc("number of columns").ok()?).ok()?;
    let definitions = if reader.rest() == [0] { 0 } else { count };
    let head = 1 + definitions + usize::from(!deprecate_eof);
    let (head, rows) = rest.split_at_checked(head.min(rest.len()))?;
    Some(Parts { head: head.iter().map(Vec::as_slice).collect(), rows: rows.iter().map(Vec::as_slice).collect(), end })
}

/// Compares the answers to a statement.
pub(crate) fn compared(source: &[Vec<u8>], replica: &[Vec<u8>], deprecate_eof: bool) -> Compared {
    let (Some(theirs), Some(ours)) = (parts(source, deprecate_eof), parts(replica, deprecate_eof)) else {
        return Compared::Different("an answer without packets".into());
    };
    if is_err(theirs.end) || is_err(ours.end) {
        return match (error(source), error(replica)) {
            (Some(theirs), Some(ours)) if theirs == ours => Compared::Equal,
            (theirs, ours) => Compared::Different(errors(theirs, ours)),
        };
    }
    if let Some(at) = (0..theirs.head.len().max(ours.head.len())).find(|at| !same_head(&theirs, &ours, *at)) {
        return Compared::Different(format!("definition {at}"));
    }
    let end = |packet: &[u8], has_rows: bool| -> Option<OkPacket> {
        if has_rows && ends_rows(packet, deprecate_eof) {
            return rows_end(packet, deprecate_eof).ok();
        }
        OkPacket::parse(packet).ok()
    };
    let has_rows = !theirs.head.is_empty();
    let (Some(their_end), Some(our_end)) = (end(theirs.end, has_rows), end(ours.end, has_rows)) else {
        return Compared::Different("the packet at the end".into());
    };
    if their_end.warnings != our_end.warnings {
        return Compared::Different(format!("warnings: source {}, replica {}", their_end.warnings, our_end.warnings));
    }
    let (their_status, our_status) = (their_end.status & COMPARED_STATUS, our_end.status & COMPARED_STATUS);
    if their_status != our_status {
        return Compared::Different(format!("status: source {their_status:#06x}, replica {our_status:#06x}"));
    }
    if theirs.rows == ours.rows {
        return Compared::Equal;
    }
    if theirs.rows.len() != ours.rows.len() {
        return Compared::Different(format!("rows: source {}, replica {}", theirs.rows.len(), ours.rows.len()));
    }
    let sorted = |mut rows: Vec<&[u8]>| {
        rows.sort_unstable();
        rows.concat()
    };
    if sorted(theirs.rows) == sorted(ours.rows) { Compared::OtherOrder } else { Compared::OtherRows }
}

/// Which parts of the packet at an answer's end may differ: those of a transaction that only the source has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AtEnd {
    /// The source's is in a transaction, and the replica's is not.
    pub transaction: bool,
    /// The source has one warning, and the replica none.
    pub warning: bool,
}

/// The replica's answer with what its end lacks of this; None if that is nothing.
pub(crate) fn with_end(
    source: &[Vec<u8>],
    replica: &[Vec<u8>],
    may_differ: AtEnd,
    deprecate_eof: bool,
) -> Option<Vec<Vec<u8>>> {
    let (theirs, ours) = (end_bits(source, deprecate_eof)?, end_bits(replica, deprecate_eof)?);
    let (their_status, our_status) = (theirs.status, ours.status);
    let has = |status: u16| status & status::IN_TRANS != 0;
    let lacks_transaction = may_differ.transaction && has(their_status) && !has(our_status);
    let lacks_warning = may_differ.warning && (theirs.warnings, ours.warnings) == (1, 0);
    if !lacks_transaction && !lacks_warning {
        return None;
    }
    let mut replica = replica.to_vec();
    let end = replica.last_mut()?;
    if lacks_transaction {
        let status = our_status | status::IN_TRANS;
        end.get_mut(ours.status_at..ours.status_at + 2)?.copy_from_slice(&status.to_le_bytes());
    }
    if lacks_warning {
        end.get_mut(ours.warnings_at..ours.warnings_at + 2)?.copy_from_slice(&1_u16.to_le_bytes());
    }
    Some(replica)
}

/// Status and warnings at an answer's end, and where they stand in its last packet.
struct EndBits {
    status: u16,
    status_at: usize,
    warnings: u16,
    warnings_at: usize,
}

fn end_bits(answer: &[Vec<u8>], deprecate_eof: bool) -> Option<EndBits> {
    let end = parts(answer, deprecate_eof)?.end;
    let (status_at, warnings_at) = match end.first()? {
        0xfe if !deprecate_eof => (3, 1),
        0x00 | 0xfe => {
            let mut reader = Reader::new(end.get(1..)?);
            reader.lenenc("affected rows").ok()?;
            reader.lenenc("last insert id").ok()?;
            let status_at = end.len() - reader.rest().len();
            (status_at, status_at + 2)
        }
        _ => return None,
    };
    let word = |at: usize| Some(u16::from_le_bytes(end.get(at..at + 2)?.try_into().ok()?));
    Some(EndBits { status: word(status_at)?, status_at, warnings: word(warnings_at)?, warnings_at })
}

/// The replica's answer with the source's definitions, where these differ only in what a plan of MySQL decides: a
/// column of information_schema whose rows went through a temporary table names the dictionary's table below the view
/// (or none, and a constant no view either), has no flags of keys, and is wider: an integer a BIGINT, a text a BLOB.
pub(crate) fn as_planned(
    source: &[Vec<u8>],
    replica: &[Vec<u8>],
    deprecate_eof: bool,
    is_text: bool,
) -> Option<Vec<Vec<u8>>> {
    const KEPT_FLAGS: u16 = column_flag::NOT_NULL | column_flag::UNSIGNED;
    let (theirs, ours) = (parts(source, deprecate_eof)?, parts(replica, deprecate_eof)?);
    let says = |packet: &[u8]| {
        let column = ColumnDefinition::parse(packet).ok()?;
        let (type_code, length) = match column.type_code {
            type_code::TINY | type_code::SHORT | type_code::INT24 | type_code::LONG => {
                (type_code::LONGLONG, column.length)
            }
            type_code::TINY_BLOB..=type_code::BLOB | type_code::VAR_STRING | type_code::STRING => (type_code::BLOB, 0),
            other => (other, column.length),
        };
        let said = (column.name.to_vec(), column.collation, length, type_code, column.flags & KEPT_FLAGS);
        Some((column.table.to_vec(), said))
    };
    let alike = |(theirs, ours): (&&[u8], &&[u8])| {
        let said = says(theirs).zip(says(ours));
        let are_alike =
            said.is_some_and(|((table, theirs), (own, ours))| theirs == ours && (table.is_empty() || table == own));
        theirs == ours || are_alike
    };
    if theirs.head.len() != ours.head.len() || !theirs.head.iter().zip(&ours.head).all(alike) {
        return None;
    }
    let (columns, own) = (columns(&theirs), types(&columns(&ours)));
    let forms: Vec<ColumnForm> = columns.iter().map(ColumnForm::of).collect();
    // Integers of a binary row are as wide as its columns are.
    let widened = |row: &&[u8]| {
        let mut out = Vec::new();
        let is_written = !is_text && put_binary_row(&mut out, &forms, &values(row, &own, false)).is_ok();
        if is_written { out } else { row.to_vec() }
    };
    let head = theirs.head.iter().map(|packet| packet.to_vec());
    Some(head.chain(ours.rows.iter().map(widened)).chain([ours.end.to_vec()]).collect())
}

/// Whether rows stand in another order than ORDER BY allows, as far as that is seen in columns of the result: those of
/// numbers and times. Equal texts may differ in their bytes.
pub(crate) fn breaks_order(
    source: &[Vec<u8>],
    replica: &[Vec<u8>],
    deprecate_eof: bool,
    is_text: bool,
    order: &[OrderedBy],
) -> bool {
    let (Some(theirs), Some(ours)) = (parts(source, deprecate_eof), parts(replica, deprecate_eof)) else {
        return false;
    };
    let columns = columns(&theirs);
    let place = |by: &OrderedBy| {
        let place = match by {
            OrderedBy::Place(place) => *place,
            OrderedBy::Name(name) => {
                let mut named = (0..columns.len()).filter(|at| columns[*at].name.eq_ignore_ascii_case(name));
                named.next().filter(|_| named.next().is_none())?
            }
        };
        columns.get(place).filter(|column| DEFINITE.contains(&column.type_code)).map(|_| place)
    };
    let places: Vec<usize> = order.iter().map_while(place).collect();
    let types = types(&columns);
    let same = |(theirs, ours): (&&[u8], &&[u8])| {
        let (theirs, ours) = (values(theirs, &types, is_text), values(ours, &types, is_text));
        places.iter().all(|place| theirs.get(*place) == ours.get(*place))
    };
    !theirs.rows.iter().zip(&ours.rows).all(same)
}

/// Definitions of an answer's columns.
pub(crate) fn columns<'a>(answer: &Parts<'a>) -> Vec<ColumnDefinition<'a>> {
    answer.head.iter().skip(1).map_while(|packet| ColumnDefinition::parse(packet).ok()).collect()
}

/// What is required to read values of these columns.
pub(crate) fn types(columns: &[ColumnDefinition<'_>]) -> Vec<ValueType> {
    let of = |column: &ColumnDefinition<'_>| {
        let unsigned = column.flags & column_flag::UNSIGNED != 0;
        ValueType { code: column.type_code, unsigned }
    };
    columns.iter().map(of).collect()
}

/// A row's values up to the first that cannot be read.
fn values<'a>(row: &'a [u8], types: &'a [ValueType], is_text: bool) -> Vec<Value<'a>> {
    if is_text {
        let mut reader = Reader::new(row);
        let text = |_: &ValueType| text_value(&mut reader).ok().map(|text| text.map_or(Value::Null, Value::Bytes));
        return types.iter().map_while(text).collect();
    }
    let Ok(mut row) = BinaryRow::new(row, types) else { return Vec::new() };
    types.iter().map_while(|_| row.next_value().ok()).collect()
}

/// Whether both have this packet of the head alike; an EOF's status is compared at the end.
fn same_head(theirs: &Parts<'_>, ours: &Parts<'_>, at: usize) -> bool {
    match (theirs.head.get(at), ours.head.get(at)) {
        (Some([0xfe, _, _, _, _]), Some([0xfe, _, _, _, _])) => true,
        (theirs, ours) => theirs == ours,
    }
}

/// Whether two answers to a COM_STMT_PREPARE say the same, but for the statement's number.
pub(crate) fn same_prepared(source: &[Vec<u8>], replica: &[Vec<u8>]) -> Compared {
    if let (Some(theirs), Some(ours)) = (error(source), error(replica)) {
        return if theirs == ours { Compared::Equal } else { Compared::Different(errors(Some(theirs), Some(ours))) };
    }
    let without_number = |answer: &[Vec<u8>]| -> Vec<Vec<u8>> {
        let mut answer = answer.to_vec();
        if let Some(number) = answer.first_mut().and_then(|first| first.get_mut(1..5)) {
            number.fill(0);
        }
        answer
    };
    match without_number(source) == without_number(replica) {
        true => Compared::Equal,
        false => Compared::Different("what the preparation describes".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::server::{ServerOk, put_err, put_ok, put_rows_end};

    fn result(rows: &[&[u8]], status: u16, warnings: u16) -> Vec<Vec<u8>> {
        let mut end = Vec::new();
        let ok = ServerOk { status, warnings, ..ServerOk::default() };
        put_rows_end(&mut end, &ok, wire::handshake::capability::DEPRECATE_EOF);
        let head = [vec![1], b"a definition".to_vec()];
        head.into_iter().chain(rows.iter().map(|row| row.to_vec())).chain([end]).collect()
    }

    fn failed(code: u16, text: &str) -> Vec<Vec<u8>> {
        let mut packet = Vec::new();
        put_err(&mut packet, code, "42000", text);
        vec![packet]
    }

    #[test]
    fn answers_are_told_apart() {
        let one = result(&[b"\x01a", b"\x01b"], 2, 0);
        let same = |other: &[Vec<u8>]| compared(&one, other, true);
        assert_eq!(same(&one), Compared::Equal);
        assert_eq!(same(&result(&[b"\x01b", b"\x01a"], 2, 0)), Compared::OtherOrder);
        assert_eq!(same(&result(&[b"\x01a", b"\x01c"], 2, 0)), Compared::OtherRows);
        // That no index was used is the server's own.
        assert_eq!(same(&result(&[b"\x01a", b"\x01b"], 2 | 1 << 5, 0)), Compared::Equal);
        for other in [
            result(&[b"\x01a"], 2, 0),
            result(&[b"\x01a", b"\x01b"], 3, 0),
            result(&[b"\x01a", b"\x01b"], 2, 1),
            failed(1054, "Unknown column 'secret'"),
        ] {
            let Compared::Different(how) = same(&other) else { panic!("{other:?}") };
            assert!(!how.contains("secret"), "{how}");
        }
        let mut definition = one.clone();
        definition[1] = b"another".to_vec();
        assert_eq!(same(&definition), Compared::Different("definition 1".into()));
        assert_eq!(compared(&failed(1054, "a"), &failed(1054, "a"), true), Compared::Equal);
        let Compared::Different(how) = compared(&failed(1054, "a"), &failed(1054, "b"), true) else { panic!() };
        assert_eq!(how, "texts of error 1054 (42000)");
        let mut ok = Vec::new();
        put_ok(&mut ok, &ServerOk::default(), 0);
        assert!(matches!(same(&[ok]), Compared::Different(_)));
    }

    fn definition(table: &[u8], name: &[u8], type_code: u8) -> Vec<u8> {
        let (schema, org_table, org_name) = (b"".as_slice(), b"".as_slice(), b"".as_slice());
        let (collation, length, flags, decimals) = (63, 11, 0, 0);
        let mut out = Vec::new();
        ColumnDefinition { schema, table, org_table, name, org_name, collation, length, type_code, flags, decimals }
            .write(&mut out);
        out
    }

    #[test]
    fn what_a_plan_says_of_a_column_is_told_from_what_it_is() {
        let described = |org_table: &'static [u8], type_code, flags, length| {
            let mut out = Vec::new();
            ColumnDefinition {
                schema: if org_table.is_empty() { b"" } else { b"information_schema" },
                table: b"views",
                org_table,
                name: b"a",
                org_name: b"A",
                collation: 255,
                length,
                type_code,
                flags,
                decimals: if org_table.is_empty() { 31 } else { 0 },
            }
            .write(&mut out);
            let mut answer = result(&[b"\x01a", b"\x01b"], 2, 0);
            answer[1] = out;
            answer
        };
        const BLOB: u16 = column_flag::BLOB | 0x80;
        let sorted = described(b"tables", type_code::BLOB, BLOB, 256);
        let plain = described(b"", type_code::LONG_BLOB, BLOB | column_flag::MULTIPLE_KEY, 256);
        assert_eq!(compared(&sorted, &plain, true), Compared::Different("definition 1".into()));
        let planned = as_planned(&sorted, &plain, true, true).unwrap();
        assert_eq!(compared(&sorted, &planned, true), Compared::Equal);
        let mut other = plain.clone();
        other[2] = b"\x01c".to_vec();
        let planned = as_planned(&sorted, &other, true, true).unwrap();
        assert_eq!(compared(&sorted, &planned, true), Compared::OtherRows);
        for (type_code, flags, length, alike) in [
            (type_code::VAR_STRING, 0, 64, true),
            (type_code::BLOB, BLOB | column_flag::NOT_NULL, 256, false),
            (type_code::DATETIME, BLOB, 256, false),
        ] {
            let other = described(b"", type_code, flags, length);
            assert_eq!(as_planned(&sorted, &other, true, true).is_some(), alike, "{type_code}");
        }
        // A constant of a view.
        let table = |table: &'static [u8]| {
            let mut answer = result(&[b"\x01a"], 2, 0);
            answer[1] = definition(table, b"SQL_PATH", type_code::NULL);
            answer
        };
        assert!(as_planned(&table(b""), &table(b"ROUTINES"), true, true).is_some());
        assert!(as_planned(&table(b"ROUTINES"), &table(b""), true, true).is_none());
        let number = described(b"tables", type_code::LONGLONG, column_flag::UNSIGNED, 10);
        for (length, alike) in [(10, true), (11, false)] {
            let other = described(b"", type_code::LONG, column_flag::UNSIGNED, length);
            assert_eq!(as_planned(&number, &other, true, true).is_some(), alike, "{length}");
        }
    }

    #[test]
    fn an_order_that_order_by_does_not_allow_is_seen() {
        let answer = |rows: &[&[u8]]| {
            let mut answer = result(rows, 2, 0);
            let definitions = [definition(b"t", b"n", type_code::LONG), definition(b"t", b"c", type_code::VAR_STRING)];
            answer.splice(0..2, [vec![2]].into_iter().chain(definitions));
            answer
        };
        let name = |name: &[u8]| OrderedBy::Name(name.to_vec());
        let breaks = |theirs: &[&[u8]], ours: &[&[u8]], is_text, order: &[OrderedBy]| {
            breaks_order(&answer(theirs), &answer(ours), true, is_text, order)
        };
        let (two, many, other): (&[u8], &[u8], &[u8]) = (b"\x012\x01a", b"\x03256\x01a", b"\x012\x01b");
        for order in [vec![name(b"N")], vec![OrderedBy::Place(0)], vec![OrderedBy::Place(0), name(b"c")]] {
            assert!(breaks(&[two, many], &[many, two], true, &order), "{order:?}");
            // Texts may be equal; rows may be others.
            assert!(!breaks(&[two, other], &[other, two], true, &order), "{order:?}");
            assert!(!breaks(&[two], &[other], true, &order), "{order:?}");
        }
        for order in [vec![], vec![name(b"c"), name(b"n")], vec![name(b"x"), name(b"n")], vec![OrderedBy::Place(2)]] {
            assert!(!breaks(&[two, many], &[many, two], true, &order), "{order:?}");
        }
        let (two, many): (&[u8], &[u8]) = (b"\0\0\x02\0\0\0\x01a", b"\0\0\0\x01\0\0\x01a");
        let null: &[u8] = b"\0\x04\x01a";
        assert!(breaks(&[two, many], &[many, two], false, &[name(b"n")]));
        assert!(breaks(&[null, many], &[many, null], false, &[name(b"n")]));
        assert!(!breaks(&[null, many], &[null, many], false, &[name(b"n")]));
    }

    #[test]
    fn a_refusal_names_its_construct() {
        let text = sql::SqlError::not_supported("WHERE with 'x'").message;
        assert_eq!(refused(&failed(1235, &text)).as_deref(), Some("WHERE with 'x'"));
        assert_eq!(refused(&failed(1064, &text)), None);
        assert_eq!(refused(&result(&[], 2, 0)), None);
    }
}
