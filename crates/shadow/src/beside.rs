//! Two answers without what differs by nature: everything else of them is compared.
//!
//! In: the payloads of both, what of them differs by nature. Out: how the rest compares. Never here: a statement.
//!
//! Of a column that differs by nature its values are left out, and length, decimals and NOT NULL of its definition,
//! which follow from a value and a version. Its name, type and other flags stay, as do the number of rows, warnings and
//! status. Of a table's definition only its next AUTO_INCREMENT is left out. Of a list of the server's own these are
//! left out of all columns. Of a list of schemas the rows of those that a server makes for itself are left out.

use wire::read::Reader;
use wire::response::{ColumnDefinition, ErrPacket, PrepareOk, column_flag, is_err};
use wire::row::{BinaryRow, Value, ValueType, text_value};

use crate::compared::{Compared, Parts, columns, compared, parts, types};
use crate::nature::{Described, Excused, NEXT_NUMBER, Nature, Whole, is_own_schema, names_schemas};

/// Errors of a statement about the server's own that one server has and the other has not: what an account may do or
/// whether it is there (ER_DBACCESS_DENIED_ERROR, ER_NONEXISTING_GRANT, ER_TABLEACCESS_DENIED_ERROR,
/// ER_SPECIFIC_ACCESS_DENIED_ERROR), logs and channels (ER_ERROR_WHEN_EXECUTING_COMMAND, ER_NO_BINARY_LOGGING,
/// ER_REPLICA_CHANNEL_DOES_NOT_EXIST).
const OWN_ERRORS: &[u16] = &[1044, 1141, 1142, 1227, 1220, 1381, 3074];

/// ER_PARSE_ERROR.
const SYNTAX: u16 = 1064;

/// Stands for a value that is left out. No canonical row has it otherwise: a value's text has its length before it.
const LEFT_OUT: &[u8] = b"*";

/// How answers are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// No EOF stands between definitions and rows.
    pub deprecates_eof: bool,
    /// Rows of the text protocol.
    pub is_text: bool,
}

/// How two answers compare without what differs by nature, and why that does; None if nothing of them does.
pub(crate) fn beside_nature(
    source: &[Vec<u8>],
    replica: &[Vec<u8>],
    nature: &Nature,
    form: Form,
) -> Option<(Compared, &'static str)> {
    let (theirs, ours) = (parts(source, form.deprecates_eof)?, parts(replica, form.deprecates_eof)?);
    if is_err(theirs.end) || is_err(ours.end) {
        let Some(Whole::Own(why) | Whole::Schemas(why)) = nature.over(&[]).whole else { return None };
        let code = |end| ErrPacket::parse(end).ok().filter(|_| is_err(end)).map(|error| error.code);
        let is_own = |end| code(end).is_some_and(|code| OWN_ERRORS.contains(&code));
        let is_dropped = nature.is_dropped && code(theirs.end) == Some(SYNTAX) && code(ours.end).is_none();
        return (is_own(theirs.end) || is_own(ours.end) || is_dropped).then_some((Compared::Equal, why));
    }
    let excused = over(nature, &theirs);
    let why = excused.why()?;
    let left = |answer: &Parts<'_>| {
        let mut left = definitions(&answer.head, &excused, nature.described);
        match (excused.whole, names_schemas(&columns(answer))) {
            (None, _) => left.extend(canonical_rows(answer, &excused, form.is_text)),
            (Some(Whole::Schemas(_)), Some(name)) => left.extend(rows_of_others(answer, &excused, form.is_text, name)),
            _ => {}
        }
        // Warnings of rows are as many as these.
        let is_free = matches!(excused.whole, Some(Whole::Chosen(_))) || nature.described == Described::OnlyNamed;
        let end = if is_free { theirs.end } else { answer.end };
        left.push(end.to_vec());
        left
    };
    Some((compared(&left(&theirs), &left(&ours), form.deprecates_eof), why))
}

/// Whether each row of one answer is among another's, as often at least; what differs by nature does not count.
pub(crate) fn rows_are_among(part: &[Vec<u8>], whole: &[Vec<u8>], nature: &Nature, form: Form) -> bool {
    let (Some(part), Some(whole)) = (parts(part, form.deprecates_eof), parts(whole, form.deprecates_eof)) else {
        return false;
    };
    let excused = over(nature, &whole);
    let sorted = |answer: &Parts<'_>| {
        let mut rows = canonical_rows(answer, &excused, form.is_text);
        rows.sort_unstable();
        rows
    };
    let mut among = sorted(&whole).into_iter().peekable();
    sorted(&part).iter().all(|row| {
        while among.next_if(|other| other < row).is_some() {}
        among.next_if_eq(row).is_some()
    })
}

/// How the answers to a COM_STMT_PREPARE compare without what differs by nature, and why that does.
pub(crate) fn prepared_beside_nature(
    source: &[Vec<u8>],
    replica: &[Vec<u8>],
    nature: &Nature,
    deprecates_eof: bool,
) -> Option<(Compared, &'static str)> {
    let excused = over_prepared(nature, source, deprecates_eof)?;
    let why = excused.why()?;
    let left = |answer: &[Vec<u8>]| {
        let (before, described) = answer.split_at_checked(columns_at(answer, deprecates_eof)?)?;
        let described: Vec<&[u8]> = described.iter().map(Vec::as_slice).collect();
        let is_own = |at| excused.has(at) || matches!(excused.whole, Some(Whole::Own(_)));
        let left = described.iter().enumerate().map(|(at, packet)| definition(packet, is_own(at), nature.described));
        Some(before.iter().cloned().chain(left).collect::<Vec<_>>())
    };
    let (theirs, ours) = (left(source)?, left(replica)?);
    Some((crate::compared::same_prepared(&theirs, &ours), why))
}

fn over(nature: &Nature, answer: &Parts<'_>) -> Excused {
    let columns = columns(answer);
    nature.over(&columns.iter().map(|column| column.name).collect::<Vec<_>>())
}

/// Where definitions of columns begin in the answer to a COM_STMT_PREPARE: behind those of parameters and their EOF.
fn columns_at(answer: &[Vec<u8>], deprecates_eof: bool) -> Option<usize> {
    let ok = PrepareOk::parse(answer.first()?).ok()?;
    let parameters = usize::from(ok.parameters);
    Some(1 + parameters + usize::from(parameters > 0 && !deprecates_eof))
}

fn over_prepared(nature: &Nature, answer: &[Vec<u8>], deprecates_eof: bool) -> Option<Excused> {
    let described = answer.get(columns_at(answer, deprecates_eof)?..)?;
    let columns: Vec<_> = described.iter().map_while(|packet| ColumnDefinition::parse(packet).ok()).collect();
    Some(nature.over(&columns.iter().map(|column| column.name).collect::<Vec<_>>()))
}

/// The head of an answer, its columns that differ by nature without what follows from that.
fn definitions(head: &[&[u8]], excused: &Excused, described: Described) -> Vec<Vec<u8>> {
    let is_own = matches!(excused.whole, Some(Whole::Own(_)));
    let is_left_out = |at: usize| at.checked_sub(1).is_some_and(|column| is_own || excused.has(column));
    head.iter().enumerate().map(|(at, packet)| definition(packet, is_left_out(at), described)).collect()
}

fn definition(packet: &[u8], is_left_out: bool, described: Described) -> Vec<u8> {
    match ColumnDefinition::parse(packet) {
        Ok(column) if is_left_out => {
            let mut out = Vec::new();
            let column = match described {
                Described::Alike => column,
                Described::NotNamed => ColumnDefinition { name: b"", org_name: b"", ..column },
                Described::OnlyNamed => ColumnDefinition { collation: 0, type_code: 0, flags: 0, ..column },
            };
            let flags = column.flags & !column_flag::NOT_NULL;
            ColumnDefinition { flags, length: 0, decimals: 0, ..column }.write(&mut out);
            out
        }
        _ => packet.to_vec(),
    }
}

/// Each row with [`LEFT_OUT`] for values that differ by nature; as it is where it cannot be read.
fn canonical_rows(answer: &Parts<'_>, excused: &Excused, is_text: bool) -> Vec<Vec<u8>> {
    let types = types(&columns(answer));
    let canonical = |row: &&[u8]| {
        let left = if is_text { text_row(row, types.len(), excused) } else { binary_row(row, &types, excused) };
        left.unwrap_or_else(|| row.to_vec())
    };
    answer.rows.iter().map(canonical).collect()
}

/// The same of rows that are about schemas which are no server's own, by the name in this column.
fn rows_of_others(answer: &Parts<'_>, excused: &Excused, is_text: bool, name: usize) -> Vec<Vec<u8>> {
    let types = types(&columns(answer));
    let is_own = |row: &[u8]| {
        if is_text {
            let mut reader = Reader::new(row);
            (0..name).all(|_| text_value(&mut reader).is_ok())
                && matches!(text_value(&mut reader), Ok(Some(name)) if is_own_schema(name))
        } else {
            BinaryRow::new(row, &types).is_ok_and(|mut row| {
                (0..name).all(|_| row.next_value().is_ok())
                    && matches!(row.next_value(), Ok(Value::Bytes(name)) if is_own_schema(name))
            })
        }
    };
    let rows = answer.rows.iter().zip(canonical_rows(answer, excused, is_text));
    rows.filter(|(row, _)| !is_own(row)).map(|(_, canonical)| canonical).collect()
}

/// A table's definition without AUTO_INCREMENT=N, which stands among the options after its columns.
fn without_next_number(value: &[u8], excused: &Excused, column: usize) -> Option<Vec<u8>> {
    const OPTIONS: &[u8] = b"\n) ";
    const NUMBER: &[u8] = b" AUTO_INCREMENT=";
    if excused.columns.get(column) != Some(&Some(NEXT_NUMBER)) {
        return None;
    }
    let options = value.windows(OPTIONS.len()).rposition(|window| window == OPTIONS)?;
    let (columns, options) = value.split_at(options);
    let at = options.windows(NUMBER.len()).position(|window| window == NUMBER).unwrap_or(options.len());
    let (before, behind) = options.split_at(at);
    // A comment may have these words.
    let is_option = !before.contains(&b'\'');
    let digits = behind.iter().skip(NUMBER.len()).take_while(|byte| byte.is_ascii_digit()).count();
    let behind = if is_option { behind.get(NUMBER.len() + digits..).unwrap_or_default() } else { behind };
    Some([columns, before, behind].concat())
}

fn text_row(row: &[u8], columns: usize, excused: &Excused) -> Option<Vec<u8>> {
    let (mut reader, mut out) = (Reader::new(row), Vec::with_capacity(row.len()));
    for column in 0..columns {
        let before = reader.rest();
        let value = text_value(&mut reader).ok()?;
        let len = before.len() - reader.rest().len();
        match value.and_then(|value| without_next_number(value, excused, column)) {
            Some(value) => out.extend_from_slice(&value),
            None if excused.has(column) => out.extend_from_slice(LEFT_OUT),
            None => out.extend_from_slice(before.get(..len)?),
        }
    }
    reader.is_empty().then_some(out)
}

fn binary_row(row: &[u8], types: &[ValueType], excused: &Excused) -> Option<Vec<u8>> {
    let mut row = BinaryRow::new(row, types).ok()?;
    let mut out = Vec::new();
    for column in 0..types.len() {
        let value = row.next_value().ok()?;
        let number = match &value {
            Value::Bytes(value) => without_next_number(value, excused, column),
            _ => None,
        };
        let value = format!("{value:?}");
        if let Some(value) = number {
            out.extend_from_slice(&value);
        } else if excused.has(column) {
            out.extend_from_slice(LEFT_OUT);
        } else {
            out.extend_from_slice(format!("{} {value}", value.len()).as_bytes());
        }
    }
    row.raw().1.is_empty().then_some(out)
}
