//! Our row decoder and `mysql_common`'s, fed the same rows events: where both take the bytes, every value is the same, and
//! ours never panics. Over the recorded logs of `tests/logs` and mutations of their events.
//!
//! A mutation keeps an event's length and header and changes its body, in a file without checksums, so that both readers get
//! to the rows. What differs by intent is listed in `known_difference`, each with its reason.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use binlog::reader::BinlogFile;
use binlog::writer::BinlogWriter;
use binlog::{
    ChecksumAlgorithm, EventHeader, FormatDescription, ParsedEvent, PartialUpdateImage, RowsEvent, RowsKind,
    TableMapEvent, event_body, event_type,
};
use mysql_common::binlog::BinlogFile as TheirFile;
use mysql_common::binlog::consts::BinlogVersion;
use mysql_common::binlog::events::{EventData, RowsEventData, TableMapEvent as TheirMap};
use mysql_common::binlog::jsonb::{JsonContainer, JsonDom, JsonNumber, JsonScalar};
use mysql_common::binlog::row::BinlogRow;
use mysql_common::binlog::value::BinlogValue;
use mysql_common::value::Value;
use testkit::Random;
use testkit::log::{JSON, Table, recorded_logs};
use values::text::{FloatForm, TextOptions, write_text};
use values::{ColumnType, OFFSET_ABSENT, OFFSET_NULL, RowLayout, type_code as t};

/// What was compared.
#[derive(Debug, Default, Clone, Copy)]
struct Compared {
    rows: u64,
    values: u64,
    /// Values that differ by intent, or that only one of the two shows.
    apart: u64,
    /// Rows events that only one of them reads to the end.
    ours_alone: u64,
    theirs_alone: u64,
    neither: u64,
}

impl Compared {
    fn add(&mut self, other: Compared) {
        self.rows += other.rows;
        self.values += other.values;
        self.apart += other.apart;
        self.ours_alone += other.ours_alone;
        self.theirs_alone += other.theirs_alone;
        self.neither += other.neither;
    }
}

/// A value as we read it.
#[derive(Debug, Clone, PartialEq)]
enum Ours {
    Absent,
    Null,
    /// Differences of a JSON document.
    Partial,
    /// The text, or that the bytes are no value.
    Text(Result<Vec<u8>, String>),
}

/// A pair of events: a table map and rows of its table, each with header, without checksum.
#[derive(Clone)]
struct Pair {
    map: Vec<u8>,
    rows: Vec<u8>,
}

fn body(event: &[u8]) -> &[u8] {
    event_body(event, ChecksumAlgorithm::None).unwrap()
}

// ---- ours ----

fn our_types(map: &TableMapEvent<'_>) -> Option<Vec<ColumnType>> {
    let details = map.optional_metadata().ok()?.details(map).ok()?;
    let types = map.columns().zip(&details).map(|((code, metadata), detail)| {
        let mut ty = ColumnType::from_table_map(code, metadata).ok()?;
        ty.unsigned = detail.unsigned.unwrap_or(false);
        // Bytes as they are.
        ty.collation = 63;
        Some(ty)
    });
    types.collect()
}

/// The rows in order, before and after image in turn; None where we do not take the event.
fn our_rows(map: &TableMapEvent<'_>, types: &[ColumnType], event_type: u8, rows: &[u8]) -> Option<Vec<Vec<Ours>>> {
    let event = RowsEvent::parse(event_type, rows).ok()?;
    if event.column_count != map.column_count() {
        return None;
    }
    let layout = RowLayout::new(types);
    let json_columns = types.iter().filter(|ty| ty.code == t::JSON).count();
    let (mut rest, mut offsets, mut out) = (event.rows, Vec::new(), Vec::new());
    while !rest.is_empty() {
        let mut images = Vec::new();
        if event.kind.has_before() {
            images.push((event.before_columns, false));
        }
        if event.kind.has_after() {
            images.push((event.after_columns, event.kind == RowsKind::PartialUpdate));
        }
        for (present, headed) in images {
            let mut head = None;
            if headed {
                let parsed = PartialUpdateImage::parse(rest, json_columns).ok()?;
                rest = rest.get(parsed.len..)?;
                head = Some(parsed);
            }
            let len = layout.walk_present(present, rest, &mut offsets).ok()?;
            if len == 0 {
                return None;
            }
            out.push(image(types, rest, &offsets, head.as_ref()));
            rest = rest.get(len..)?;
        }
    }
    Some(out)
}

fn image(
    types: &[ColumnType],
    bytes: &[u8],
    offsets: &[(u32, u32)],
    head: Option<&PartialUpdateImage<'_>>,
) -> Vec<Ours> {
    let mut json = 0;
    let columns = types.iter().zip(offsets).map(|(ty, (at, len))| {
        let partial = ty.code == t::JSON && head.is_some_and(|head| head.is_partial(json));
        json += usize::from(ty.code == t::JSON);
        match *at {
            OFFSET_ABSENT => Ours::Absent,
            OFFSET_NULL => Ours::Null,
            _ if partial => Ours::Partial,
            at => {
                let stored = &bytes[at as usize..(at + len) as usize];
                let mut text = Vec::new();
                let options = TextOptions { float: FloatForm::Exact, ..TextOptions::default() };
                let numbers = matches!(ty.code, t::ENUM | t::SET);
                let result = if numbers {
                    text = number(stored).to_string().into_bytes();
                    Ok(())
                } else {
                    write_text(ty, stored, options, &mut text)
                };
                Ours::Text(result.map(|()| text).map_err(|error| error.to_string()))
            }
        }
    });
    columns.collect()
}

/// ENUM and SET by their number: the names are not in the event.
fn number(stored: &[u8]) -> u64 {
    stored.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

// ---- theirs ----

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Their code, which panics on some bytes (0.37.3): that counts as not taken.
fn theirs<T>(read: impl FnOnce() -> Option<T>) -> Option<T> {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(read)).ok().flatten();
    QUIET.set(false);
    result
}

fn their_rows(map: &TheirMap<'_>, rows: &RowsEventData<'_>) -> Option<Vec<BinlogRow>> {
    let mut out = Vec::new();
    for row in rows.rows(map) {
        let (before, after) = row.ok()?;
        out.extend(before);
        out.extend(after);
        // Rows without a byte would go on for ever.
        if out.len() > 100_000 {
            return None;
        }
    }
    Some(out)
}

/// A file of these events without checksums.
fn file(events: &[&[u8]]) -> Vec<u8> {
    let mut bytes = BinlogWriter::start_file(1, 2, &FormatDescription::new("9.7.4", ChecksumAlgorithm::None)).take();
    for event in events {
        let at = bytes.len();
        bytes.extend_from_slice(event);
        bytes[at + 9..at + 13].copy_from_slice(&(event.len() as u32).to_le_bytes());
    }
    bytes
}

// ---- both ----

fn compare(pair: &Pair, name: &str) -> Compared {
    let mut compared = Compared::default();
    let event_type = pair.rows[4];
    let map = TableMapEvent::parse(body(&pair.map)).ok();
    let types = map.as_ref().and_then(our_types);
    let ours =
        map.as_ref().zip(types.as_ref()).and_then(|(map, types)| our_rows(map, types, event_type, body(&pair.rows)));
    let bytes = file(&[&pair.map, &pair.rows]);
    let theirs = theirs(|| {
        let mut file = TheirFile::new(BinlogVersion::Version4, &bytes[..]).ok()?;
        file.next()?.ok()?;
        let (map, rows) = (file.next()?.ok()?, file.next()?.ok()?);
        let (map, rows) = (map.read_data().ok()??, rows.read_data().ok()??);
        let (EventData::TableMapEvent(map), EventData::RowsEvent(rows)) = (map, rows) else { return None };
        their_rows(&map, &rows)
    });
    // They take the length of a document for four bytes, whatever the table map says.
    if types.iter().flatten().any(|ty| ty.code == t::JSON && ty.meta != 4) {
        compared.apart += 1;
        return compared;
    }
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{name}: images");
            for (ours, theirs) in ours.iter().zip(theirs) {
                compare_images(types.as_deref().unwrap_or_default(), ours, theirs, name, &mut compared);
            }
        }
        (Some(_), None) => compared.ours_alone += 1,
        (None, Some(_)) => compared.theirs_alone += 1,
        (None, None) => compared.neither += 1,
    }
    compared
}

fn compare_images(types: &[ColumnType], ours: &[Ours], theirs: BinlogRow, name: &str, compared: &mut Compared) {
    compared.rows += 1;
    let mut theirs = theirs.unwrap().into_iter();
    for (ty, ours) in types.iter().zip(ours).filter(|(_, ours)| **ours != Ours::Absent) {
        let theirs = theirs.next().unwrap_or_else(|| panic!("{name}: they have fewer columns"));
        compared.values += 1;
        let same = match (ours, &theirs) {
            (Ours::Null, BinlogValue::Value(Value::NULL)) | (Ours::Partial, BinlogValue::JsonDiff(_)) => true,
            (Ours::Text(Err(_)), _) => {
                // They take many bytes that are no value.
                compared.apart += 1;
                continue;
            }
            (Ours::Text(Ok(text)), theirs) => {
                if known_difference(ty, text, theirs) {
                    compared.apart += 1;
                    continue;
                }
                same_value(ty, text, theirs)
            }
            _ => false,
        };
        assert!(same, "{name}: {ty:?}: ours {ours:?}, theirs {theirs:?}");
    }
    assert!(theirs.next().is_none(), "{name}: they have more columns");
}

/// What is another notion of theirs (0.37.3), or a fault.
fn known_difference(ty: &ColumnType, text: &[u8], theirs: &BinlogValue<'_>) -> bool {
    match (ty.code, theirs) {
        // They do not extend the sign of three bytes.
        (t::INT24, BinlogValue::Value(Value::Int(value))) => !ty.unsigned && *value >= 1 << 23,
        // Zero has no sign to them; no server writes a negative one.
        (t::DECIMAL, _) => text.starts_with(b"-") && text.iter().all(|byte| b"-0.".contains(byte)),
        // Year 0 is 1900 to them.
        (t::YEAR, _) => text == b"0000",
        // They take the seconds for signed: beyond 2038, which no server writes.
        (t::TIMESTAMP2, BinlogValue::Value(Value::Bytes(seconds))) => seconds.starts_with(b"-"),
        // They compute negative times with fractions otherwise; the server's are in `against_server.rs`.
        (t::TIME2, BinlogValue::Value(Value::Time(..))) => text.starts_with(b"-"),
        // A number of the wire's kind, which has no infinities in text.
        (t::FLOAT | t::DOUBLE, BinlogValue::Value(Value::Float(value))) => !value.is_finite(),
        (t::FLOAT | t::DOUBLE, BinlogValue::Value(Value::Double(value))) => !value.is_finite(),
        _ => false,
    }
}

fn same_value(ty: &ColumnType, text: &[u8], theirs: &BinlogValue<'_>) -> bool {
    let value = match theirs {
        BinlogValue::Value(value) => value,
        BinlogValue::Jsonb(document) => return same_document(text, document),
        BinlogValue::JsonDiff(_) => return false,
    };
    let shown = String::from_utf8_lossy(text);
    match value {
        Value::Int(seconds) if ty.code == t::TIMESTAMP => same_moment(&shown, seconds.to_string().as_bytes(), 0),
        Value::Int(number) => shown == number.to_string(),
        Value::UInt(number) => shown == number.to_string(),
        Value::Float(number) => {
            shown.parse::<f32>().is_ok_and(|ours| ours.to_bits() == number.to_bits() || ours == *number)
        }
        Value::Double(number) => {
            shown.parse::<f64>().is_ok_and(|ours| ours.to_bits() == number.to_bits() || ours == *number)
        }
        Value::Date(y, m, d, ..) if ty.code == t::DATE => shown == format!("{y:04}-{m:02}-{d:02}"),
        Value::Date(y, m, d, h, i, s, micros) => {
            shown == with_fraction(ty, format!("{y:04}-{m:02}-{d:02} {h:02}:{i:02}:{s:02}"), *micros)
        }
        Value::Time(negative, d, h, i, s, micros) => {
            let sign = if *negative { "-" } else { "" };
            shown == with_fraction(ty, format!("{sign}{:02}:{i:02}:{s:02}", d * 24 + u32::from(*h)), *micros)
        }
        Value::Bytes(bytes) if ty.code == t::SET => shown == number(bytes).to_string(),
        Value::Bytes(bytes) if ty.code == t::TIMESTAMP2 => same_moment(&shown, bytes, usize::from(ty.meta)),
        // CHAR goes without its padding; we show a BINARY's zeros.
        Value::Bytes(bytes) if ty.code == t::CHAR => {
            text.starts_with(bytes) && text[bytes.len()..].iter().all(|byte| *byte == 0)
        }
        Value::Bytes(bytes) => text == &bytes[..],
        Value::NULL => false,
    }
}

fn with_fraction(ty: &ColumnType, whole: String, micros: u32) -> String {
    match usize::from(ty.meta) {
        0 => whole,
        digits => format!("{whole}.{}", &format!("{micros:06}")[..digits]),
    }
}

/// Theirs are seconds and microseconds since 1970 as text.
fn same_moment(shown: &str, theirs: &[u8], digits: usize) -> bool {
    let theirs = String::from_utf8_lossy(theirs);
    let (seconds, fraction) = theirs.split_once('.').unwrap_or((&theirs, ""));
    // They show digits that the column does not have.
    let fraction = fraction.get(..digits).unwrap_or(fraction);
    let seconds: i64 = seconds.parse().unwrap();
    if seconds == 0 {
        return shown.starts_with("0000-00-00 00:00:00");
    }
    let (date, time) = shown.split_once(' ').unwrap();
    let parts = |text: &str, by: char| text.split(by).map(|part| part.parse::<i64>().unwrap()).collect::<Vec<_>>();
    let (date, (clock, ours_fraction)) = (parts(date, '-'), time.split_once('.').unwrap_or((time, "")));
    let clock = parts(clock, ':');
    // Days since 1970-01-01, years counted from March.
    let (year, month) = if date[1] > 2 { (date[0], date[1] - 3) } else { (date[0] - 1, date[1] + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + date[2] - 1 - 719_468;
    let plain = |text: &str| text.trim_end_matches('0').to_owned();
    days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2] == seconds && plain(ours_fraction) == plain(fraction)
}

/// Their tree of a document against our text of it.
fn same_document(text: &[u8], document: &mysql_common::binlog::jsonb::Value<'_>) -> bool {
    let Some(dom) = theirs(|| document.clone().parse().ok()) else { return true };
    // Text that is no UTF-8 is printed as it is by us, as by the server.
    let Ok(ours) = serde_json::from_slice::<serde_json::Value>(text) else {
        return std::str::from_utf8(text).is_err() || has_huge_number(text);
    };
    same_dom(&ours, &dom)
}

/// A double that serde_json does not take.
fn has_huge_number(text: &[u8]) -> bool {
    text.windows(4).any(|window| window.starts_with(b"e3"))
}

fn same_dom(ours: &serde_json::Value, theirs: &JsonDom) -> bool {
    use serde_json::Value as Json;
    match (ours, theirs) {
        (Json::Array(ours), JsonDom::Container(JsonContainer::Array(theirs))) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same_dom(ours, theirs))
        }
        (Json::Object(ours), JsonDom::Container(JsonContainer::Object(theirs))) => {
            let ours: BTreeMap<&String, &Json> = ours.iter().collect();
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|((key, ours), (name, theirs))| *key == name && same_dom(ours, theirs))
        }
        (Json::Null, JsonDom::Scalar(JsonScalar::Null)) => true,
        (Json::Bool(ours), JsonDom::Scalar(JsonScalar::Boolean(theirs))) => ours == theirs,
        (Json::String(ours), JsonDom::Scalar(JsonScalar::String(theirs))) => ours == theirs,
        (Json::String(ours), JsonDom::Scalar(JsonScalar::DateTime(theirs))) => {
            // They keep the form of the wire: days apart from hours, no fraction behind a date.
            let theirs = format!("{theirs:.6}");
            ours.ends_with(theirs.trim_start_matches('-')) || theirs.contains(' ') || ours.contains(':')
        }
        // The server breaks its base64 into lines.
        (Json::String(ours), JsonDom::Scalar(JsonScalar::Opaque(theirs))) => {
            ours.replace('\n', "") == theirs.to_string()
        }
        (Json::Number(ours), JsonDom::Scalar(JsonScalar::Number(theirs))) => match theirs {
            // What is no number, or infinite, is 0 as text; the server prints it so.
            JsonNumber::Double(theirs) if !theirs.is_finite() => ours.as_f64() == Some(0.0),
            JsonNumber::Int(theirs) => ours.as_i64() == Some(*theirs),
            JsonNumber::Uint(theirs) => ours.as_u64() == Some(*theirs),
            // serde_json reads the last bit of a double loosely.
            JsonNumber::Double(theirs) => {
                ours.as_f64().is_some_and(|ours| (ours - theirs).abs() <= theirs.abs() * 4.0 * f64::EPSILON)
            }
            JsonNumber::Decimal(theirs) => ours.as_f64() == theirs.to_string().parse().ok(),
        },
        _ => false,
    }
}

// ---- where events come from ----

/// Table maps with the rows events behind them, out of a log's bytes; payloads unpacked. What is damaged ends it.
fn pairs(name: &str, bytes: &[u8]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let Ok(mut log) = BinlogFile::new(name, bytes) else { return pairs };
    let mut maps: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut take = |header: &EventHeader, event: &[u8]| match header.event_type {
        event_type::TABLE_MAP => {
            if let Ok(map) = TableMapEvent::parse(body(event)) {
                maps.insert(map.table_id, event.to_vec());
            }
        }
        kind if RowsKind::of(kind).is_some() => {
            let id = RowsEvent::parse(kind, body(event)).map(|rows| rows.table_id);
            if let Some(map) = id.ok().and_then(|id| maps.get(&id)) {
                pairs.push(Pair { map: map.clone(), rows: event.to_vec() });
            }
        }
        _ => {}
    };
    while let Ok(Some(event)) = log.next_event() {
        let Ok(content) = event.body() else { break };
        if event.header.event_type == event_type::TRANSACTION_PAYLOAD {
            let Ok(ParsedEvent::TransactionPayload(payload)) = ParsedEvent::parse(&event.header, content) else {
                break;
            };
            let Ok(mut events) = payload.events(1 << 26) else { break };
            while let Ok(Some((header, bytes))) = events.next() {
                take(&header, bytes);
            }
        } else {
            let header_len = EventHeader::LEN;
            let mut whole = vec![0; header_len + content.len()];
            whole[..4].copy_from_slice(&event.header.timestamp.to_le_bytes());
            whole[4] = event.header.event_type;
            whole[5..9].copy_from_slice(&event.header.server_id.to_le_bytes());
            let len = (whole.len() as u32).to_le_bytes();
            whole[9..13].copy_from_slice(&len);
            whole[header_len..].copy_from_slice(content);
            take(&event.header, &whole);
        }
    }
    pairs
}

/// The recorded logs' events. Nothing else is read, so that a seed draws the same mutations everywhere.
fn recorded() -> Vec<Pair> {
    recorded_logs().iter().flat_map(|file| pairs(&file.display().to_string(), &std::fs::read(file).unwrap())).collect()
}

// ---- mutations ----

/// Bytes changed, cut off, or taken from elsewhere.
fn mutate(random: &mut Random, pair: &Pair, others: &[Pair]) -> Pair {
    let mut pair = pair.clone();
    let head = EventHeader::LEN;
    for _ in 0..=random.below(10) / 7 {
        // Rows mostly: the front of an event is soon refused.
        let in_map = random.below(6) == 0;
        let event = if in_map { &mut pair.map } else { &mut pair.rows };
        let from = if random.below(4) == 0 { head } else { (head + 10).min(event.len() - 1) };
        let at = from + random.below(event.len() - from);
        match random.below(8) {
            0 => event[at] ^= 1 << random.below(8),
            1 => event[at] = [0, 1, 0x7f, 0x80, 0xff, 0xfb, 0xfc][random.below(7)],
            2 => event[at] = event[at].wrapping_add(1),
            3 => event.truncate(at.max(head + 8)),
            4 => {
                let other = &others[random.below(others.len())].rows;
                let (start, len) = (random.below(other.len()), random.below(24));
                let bytes = other[start..(start + len).min(other.len())].to_vec();
                event.splice(at..at, bytes);
            }
            5 => {
                let end = (at + random.below(16)).min(event.len());
                event.drain(at..end);
            }
            6 => {
                let end = (at + 1 + random.below(40)).min(event.len());
                let copy = event[at..end].to_vec();
                event.extend(copy);
            }
            _ => event[at] = random.below(256) as u8,
        }
        if event.len() <= head + 8 {
            event.resize(head + 9, 0);
        }
        let len = (event.len() as u32).to_le_bytes();
        event[9..13].copy_from_slice(&len);
    }
    pair
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_same_values_in_all_logs_and_in_what_mutations_leave_of_them() {
    let pairs = recorded();
    let mut whole = Compared::default();
    for (index, pair) in pairs.iter().enumerate() {
        whole.add(compare(pair, &format!("event {index}")));
    }
    println!("{} rows events: {whole:?}", pairs.len());
    assert!(pairs.len() > 50 && whole.values > 100 && whole.rows > 50, "{whole:?}");
    // They do not read VECTOR; what else stands in real logs both read.
    assert_eq!(whole.theirs_alone + whole.neither, 0, "{whole:?}");
    let seed: u64 = std::env::var("SLIPSTREAM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let count = if std::env::var("SLIPSTREAM_TEST_LENGTH").as_deref() == Ok("soak") { 1_000_000 } else { 10_000 };
    // Large ones take the time of many small ones.
    let small: Vec<Pair> = pairs.iter().filter(|pair| pair.rows.len() < 4000).cloned().collect();
    let (mut random, mut changed) = (Random::new(seed), Compared::default());
    let (mut found, mut failures) = (BTreeMap::new(), 0);
    for number in 0..count {
        let chosen = &small[random.below(small.len())];
        let pair = mutate(&mut random, chosen, &small);
        let result = catch_unwind(AssertUnwindSafe(|| compare(&pair, &format!("seed {seed}, mutation {number}"))));
        match result {
            Ok(compared) => changed.add(compared),
            Err(panic) => {
                failures += 1;
                let what = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                let at = format!("{what}\ntable map {}\nrows {}", hex(&pair.map), hex(&pair.rows));
                // A few of each kind are enough.
                let kind: String = what.chars().filter(|c| c.is_ascii_alphabetic()).skip(12).take(40).collect();
                found.entry(kind).or_insert(at);
            }
        }
    }
    println!("{count} mutations, seed {seed}: {changed:?}");
    assert_eq!(failures, 0, "{found:#?}");
    assert!(changed.values > count / 4, "{changed:?}");
}

/// A document that is one double.
fn double_document(value: f64) -> Pair {
    let mut writer = BinlogWriter::new(1, ChecksumAlgorithm::None, 4);
    let table = Table::new(7, "t", &[JSON]);
    table.map(&mut writer);
    let map = writer.take();
    let row = [&[0, 9, 0, 0, 0, 0x0b][..], &value.to_le_bytes()].concat();
    table.rows(&mut writer, RowsKind::Write, &row);
    Pair { map, rows: writer.take() }
}

#[test]
fn a_double_that_no_text_has_is_a_known_difference_of_documents() {
    for value in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -0.0, 1e300] {
        let compared = compare(&double_document(value), &format!("{value}"));
        assert_eq!((compared.rows, compared.values, compared.apart), (1, 1, 0), "{value}: {compared:?}");
    }
    let theirs = JsonDom::Scalar(JsonScalar::Number(JsonNumber::Double(f64::NAN)));
    assert!(same_dom(&serde_json::json!(0.0), &theirs) && !same_dom(&serde_json::json!(1.5), &theirs));
}
