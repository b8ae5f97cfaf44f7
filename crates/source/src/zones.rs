//! The rules of a source's time zones, as it converts times by them.
//!
//! Those that its sessions begin with are asked for by conversions: SYSTEM, the zone of the machine on which the source
//! runs, is in none of its tables, and an account that replicates need not have the right to read them. All others are
//! read from `mysql.time_zone*`.

use std::collections::{BTreeMap, HashMap};

use client::{ClientError, Connection, Result};
use values::Zone;
pub use values::Zones;

const DAY_S: i64 = 86_400;
/// Steps of the first round: their square is the number of days up to [`LAST`], and no more than a few beyond.
const DAYS_ROOT: i64 = 158;
/// The last second of a TIMESTAMP: 2038-01-19 03:14:07.
const LAST: i64 = (1 << 31) - 1;
/// Rows that are read of the tables of zones. Those of all IANA zones, `posix/` and `right/` too, have 500,000.
const ROWS_MAX: usize = 2_000_000;
/// Memory of the zones, each under each of its names; those of all IANA zones take 8 MiB.
const BYTES_MAX: usize = 64 << 20;
/// Step and number of steps of the rounds that follow, each between two moments of the round before.
const FINER: [(i64, i64); 3] = [(1_440, 60), (24, 60), (1, 24)];

/// The rules of a zone from 1970 to 2038; None where the source does not know it, or does not answer such a question.
///
/// It takes four statements. Changes that undo each other within a day are not seen: of all zones of the IANA database
/// since 1970 the nearest two changes are 6 days and 23 hours apart.
///
/// # Errors
/// The connection is lost.
pub fn rules_of(source: &mut Connection, name: &str) -> Result<Option<Zone>> {
    // 1970-01-01 00:00:00 itself is no TIMESTAMP: CONVERT_TZ() would not convert it.
    let days: Vec<i64> = (0..DAYS_ROOT).map(|day| 1 + day * DAYS_ROOT * DAY_S).collect();
    let Some(mut found) = changes(source, name, &days, DAY_S, DAYS_ROOT - 1)? else { return Ok(None) };
    for (step_s, steps) in FINER {
        let from: Vec<i64> = found.iter().skip(1).map(|(at, _)| at - step_s * steps).collect();
        if from.is_empty() {
            break;
        }
        let first = found.first().copied();
        let Some(finer) = changes(source, name, &from, step_s, steps)? else { return Ok(None) };
        // The first moment of all has no change: it stands for what was before.
        found = first.into_iter().chain(finer.into_iter().skip(1)).collect();
    }
    let mut found = found.into_iter();
    Ok(found.next().and_then(|(_, first_s)| Zone::changing(first_s, found.collect())))
}

/// What became of reading the zones that have a name.
#[derive(Debug)]
pub enum Named {
    /// All of them, from 1970 to 2038.
    All(Zones),
    /// The account may not read the tables of zones.
    Refused,
    /// The tables have more than 2,000,000 rows, or their zones take more than 64 MiB.
    TooMany,
}

/// Reads all zones with a name.
///
/// A source that loaded a zone before its tables were changed goes by the old rules until it is restarted.
///
/// # Errors
/// The connection is lost.
pub fn named(source: &mut Connection) -> Result<Named> {
    let mut reading = Reading::new(Room { rows: ROWS_MAX, bytes: BYTES_MAX });
    // One row more than is read tells that there are more.
    let limit = ROWS_MAX + 1;
    let readable = each_row(source, "SELECT EXISTS (SELECT * FROM mysql.time_zone_leap_second)", |[any]| {
        reading.counts_leap_seconds = told(any, "mysql.time_zone_leap_second", "EXISTS")? != 0;
        Ok(())
    })? && each_row(
        source,
        &format!(
            "SELECT Time_zone_id, Transition_type_id, Offset, Is_DST FROM mysql.time_zone_transition_type LIMIT {limit}"
        ),
        |row| reading.of_type(row),
    )? && each_row(
        source,
        // In the order of the primary key.
        &format!(
            "SELECT Time_zone_id, Transition_time, Transition_type_id FROM mysql.time_zone_transition \
             ORDER BY Time_zone_id, Transition_time LIMIT {limit}"
        ),
        |row| reading.transition(row),
    )? && each_row(
        source,
        &format!(
            "SELECT n.Name, n.Time_zone_id, z.Use_leap_seconds FROM mysql.time_zone_name AS n \
             LEFT JOIN mysql.time_zone AS z USING (Time_zone_id) LIMIT {limit}"
        ),
        |row| reading.name(row),
    )?;
    Ok(match readable {
        true => reading.end(),
        false => Named::Refused,
    })
}

/// What has been read of the tables of zones.
struct Reading {
    by_id: HashMap<i64, Rows>,
    counts_leap_seconds: bool,
    zones: Zones,
    room: Room,
}

impl Reading {
    fn new(room: Room) -> Reading {
        Reading { by_id: HashMap::new(), counts_leap_seconds: true, zones: Zones::new(true), room }
    }

    /// Time_zone_id, Transition_type_id, Offset, Is_DST.
    fn of_type(&mut self, [id, of_type, offset_s, is_dst]: [Option<&[u8]>; 4]) -> Result<()> {
        let told = |text, column| told(text, "mysql.time_zone_transition_type", column);
        if self.room.takes(ROW_BYTES) {
            let (id, of_type) = (told(id, "Time_zone_id")?, told(of_type, "Transition_type_id")?);
            let rules = (told(offset_s, "Offset")?, told(is_dst, "Is_DST")? != 0);
            self.by_id.entry(id).or_default().types.insert(of_type, rules);
        }
        Ok(())
    }

    fn transition(&mut self, [id, at, of_type]: [Option<&[u8]>; 3]) -> Result<()> {
        let told = |text, column| told(text, "mysql.time_zone_transition", column);
        if self.room.takes(CHANGE_BYTES) {
            let change = (told(at, "Transition_time")?, told(of_type, "Transition_type_id")?);
            self.by_id.entry(told(id, "Time_zone_id")?).or_default().transitions.push(change);
        }
        Ok(())
    }

    /// Name, Time_zone_id, Use_leap_seconds; the last one is NULL where `mysql.time_zone` lacks the zone.
    fn name(&mut self, [name, id, leap_seconds]: [Option<&[u8]>; 3]) -> Result<()> {
        const TABLE: &str = "mysql.time_zone_name";
        let rows = self.by_id.get(&told(id, TABLE, "Time_zone_id")?);
        let name = name.ok_or_else(|| ClientError::unexpected_value(TABLE, "Name", None))?;
        // Each name has the changes for itself.
        let changes = rows.map_or(0, |rows| rows.transitions.len());
        if self.room.takes(ROW_BYTES + 2 * name.len() + changes * CHANGE_BYTES) {
            let is_plain = !self.counts_leap_seconds && leap_seconds == Some(b"N");
            self.zones.add(&String::from_utf8_lossy(name), rows.filter(|_| is_plain).and_then(Rows::zone));
        }
        Ok(())
    }

    fn end(self) -> Named {
        if self.room.is_over() { Named::TooMany } else { Named::All(self.zones) }
    }
}

/// Memory of a change of a zone.
const CHANGE_BYTES: usize = size_of::<(i64, i64)>();
/// Memory of a zone's type, and of its name besides the text.
const ROW_BYTES: usize = 128;

/// What may still be read and kept. Nothing once either is over.
struct Room {
    rows: usize,
    bytes: usize,
}

impl Room {
    /// Takes a row that is kept in so many bytes; false if there is no room for it.
    fn takes(&mut self, bytes: usize) -> bool {
        match (self.rows.checked_sub(1), self.bytes.checked_sub(bytes)) {
            (Some(rows), Some(bytes)) => (self.rows, self.bytes) = (rows, bytes),
            _ => self.bytes = 0,
        }
        !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.bytes == 0
    }
}

/// Passes the values of each row as text; false where the source refuses the statement.
fn each_row<const N: usize>(
    source: &mut Connection,
    sql: &str,
    mut each: impl FnMut([Option<&[u8]>; N]) -> Result<()>,
) -> Result<bool> {
    let read = source.query_each(sql, |row| {
        let mut values = [None; N];
        for value in &mut values {
            *value = wire::row::text_value(row)?;
        }
        each(values)
    });
    match read {
        Err(error) if error.server_code().is_some() => Ok(false),
        read => read.map(|_| true),
    }
}

/// A number in a table of zones: a row left out would be a change of the zone left out.
fn told(text: Option<&[u8]>, table: &'static str, column: &str) -> Result<i64> {
    let text = text.map(String::from_utf8_lossy);
    let number = text.as_ref().and_then(|text| text.parse().ok());
    number.ok_or_else(|| ClientError::unexpected_value(table, column, text.as_deref()))
}

/// Offset and Is_DST of each type by its number, and moment and type of each change, in order of time.
#[derive(Default)]
struct Rows {
    types: BTreeMap<i64, (i64, bool)>,
    transitions: Vec<(i64, i64)>,
}

impl Rows {
    /// The zone, as MySQL understands it: before the first change holds the first type that is not summer time, or else
    /// the first.
    fn zone(&self) -> Option<Zone> {
        if self.types.keys().zip(0..).any(|(of_type, place)| *of_type != place) {
            return None;
        }
        let first = self.types.values().find(|(_, is_dst)| !is_dst).or(self.types.values().next())?;
        let (mut first_s, mut later) = (first.0, Vec::new());
        for (at, of_type) in self.transitions.iter().take_while(|(at, _)| *at <= LAST) {
            let next_s = self.types.get(of_type)?.0;
            if *at <= 1 {
                first_s = next_s;
            } else if next_s != later.last().map_or(first_s, |(_, offset_s)| *offset_s) {
                later.push((*at, next_s));
            }
        }
        Zone::changing(first_s, later)
    }
}

/// Of moments up to `steps` steps after each of `from`, in order of time, the first one and those that have another
/// offset than the one before, each with its offset; None where the source does not tell.
fn changes(
    source: &mut Connection,
    name: &str,
    from: &[i64],
    step_s: i64,
    steps: i64,
) -> Result<Option<Vec<(i64, i64)>>> {
    let list = |numbers: &mut dyn Iterator<Item = i64>| {
        let texts: Vec<String> = numbers.map(|number| number.to_string()).collect();
        format!("JSON_TABLE('[{}]', '$[*]' COLUMNS (s BIGINT PATH '$'))", texts.join(","))
    };
    let (from, steps) = (list(&mut from.iter().copied()), list(&mut (0..=steps).map(|step| step * step_s)));
    let name = name.replace('\\', "\\\\").replace('\'', "''");
    let moments = format!("SELECT a.s + b.s AS at FROM {from} AS a, {steps} AS b");
    let times = format!(
        "SELECT at, TIMESTAMP('1970-01-01') + INTERVAL at SECOND AS utc FROM ({moments}) AS m WHERE at BETWEEN 1 AND {LAST}"
    );
    let offsets =
        format!("SELECT at, TIMESTAMPDIFF(SECOND, utc, CONVERT_TZ(utc, '+00:00', '{name}')) AS o FROM ({times}) AS t");
    let pairs = format!("SELECT at, o, LAG(o) OVER (ORDER BY at) AS earlier FROM ({offsets}) AS o");
    let asked = format!("SELECT at, o FROM ({pairs}) AS p WHERE earlier IS NULL OR o <> earlier ORDER BY at");
    let answer = match source.query(&asked) {
        Err(error) if error.server_code().is_some() => return Ok(None),
        answer => answer?,
    };
    let number = |row, column| answer.text(row, column)?.parse::<i64>().ok();
    Ok((0..answer.rows.len()).map(|row| Some((number(row, 0)?, number(row, 1)?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(types: &[(i64, i64, bool)], transitions: &[(i64, i64)]) -> Option<String> {
        let types = types.iter().map(|(of_type, offset_s, is_dst)| (*of_type, (*offset_s, *is_dst))).collect();
        Rows { types, transitions: transitions.to_vec() }.zone().map(|zone| zone.to_string())
    }

    #[test]
    fn zones_are_read_as_the_server_understands_its_tables() {
        let types = [(0, 7200, true), (1, 3600, false), (2, 3600, false)];
        let text = |text: &str| Some(text.to_owned());
        // Before the first change: the first type that is not summer time.
        assert_eq!(zone(&types, &[]), text("3600"));
        assert_eq!(zone(&types, &[(5, 0), (9, 1)]), text("3600 5 7200 9 3600"));
        assert_eq!(zone(&types[..1], &[]), text("7200"));
        // What was before 1970, changes nothing, or is after 2038.
        assert_eq!(zone(&types, &[(-9, 1), (-5, 0), (7, 0), (9, 1), (11, 2), (LAST + 1, 0)]), text("7200 9 3600"));
        // A type that is not there, or has no neighbour.
        assert_eq!([zone(&[], &[]), zone(&types, &[(5, 3)]), zone(&types[1..], &[(5, 1)])], [None, None, None]);
    }

    /// Zones with so many changes under so many names, read in this room; the number of those that are kept.
    fn read(room: Room, changes: usize, names: usize) -> Option<usize> {
        let mut reading = Reading::new(room);
        reading.counts_leap_seconds = false;
        for (of_type, offset_s) in [(b"0".as_slice(), b"0".as_slice()), (b"1", b"3600")] {
            reading.of_type([Some(b"1"), Some(of_type), Some(offset_s), Some(b"0")]).unwrap();
        }
        for at in 0..changes {
            let text = (at + 2).to_string();
            reading.transition([Some(b"1"), Some(text.as_bytes()), Some([b"1", b"0"][at % 2])]).unwrap();
        }
        for name in 0..names {
            reading.name([Some(format!("Zone/{name}").as_bytes()), Some(b"1"), Some(b"N")]).unwrap();
        }
        match reading.end() {
            Named::All(zones) => Some(zones.lines().count()),
            _ => None,
        }
    }

    #[test]
    fn zones_without_end_are_not_kept() {
        let room = || Room { rows: ROWS_MAX, bytes: BYTES_MAX };
        // As many as the IANA database gives, with posix/ and right/.
        assert_eq!(read(room(), 200, 1_800), Some(1_800));
        // As many rows as fit, and one more.
        assert_eq!(read(Room { rows: 22, bytes: BYTES_MAX }, 10, 10), Some(10));
        assert_eq!(read(Room { rows: 22, bytes: BYTES_MAX }, 11, 10), None);
        // A few rows that many names multiply.
        assert_eq!(read(room(), 10_000, 500), None);
        let mut reading = Reading::new(room());
        reading.name([Some(&vec![b'z'; BYTES_MAX / 2]), Some(b"1"), None]).unwrap();
        assert!(matches!(reading.end(), Named::TooMany));
    }

    #[test]
    fn a_row_that_cannot_be_read_is_not_left_out() {
        let mut reading = Reading::new(Room { rows: ROWS_MAX, bytes: BYTES_MAX });
        for wrong in [None, Some(b"".as_slice()), Some(b"x")] {
            let errors = [
                reading.of_type([Some(b"1"), Some(b"0"), wrong, Some(b"0")]),
                reading.transition([Some(b"1"), wrong, Some(b"0")]),
                reading.name([Some(b"UTC"), wrong, Some(b"N")]),
            ];
            let places = ["_type: Offset is", "_transition: Transition_time is", "_name: Time_zone_id is"];
            for (error, place) in errors.into_iter().zip(places) {
                let error = error.unwrap_err().to_string();
                assert!(error.contains(place), "{error}");
            }
        }
    }
}
