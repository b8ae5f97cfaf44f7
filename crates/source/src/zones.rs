//! The rules of a source's time zones, as it converts times by them.
//!
//! Asked are conversions, not its tables: an account that replicates may not read `mysql.time_zone*`, and SYSTEM, the
//! zone of the machine on which the source runs, is in none of them.

use client::{Connection, Result};
use values::Zone;

const DAY_S: i64 = 86_400;
/// Steps of the first round: their square is the number of days up to [`LAST`], and no more than a few beyond.
const DAYS_ROOT: i64 = 158;
/// The last second of a TIMESTAMP: 2038-01-19 03:14:07.
const LAST: i64 = (1 << 31) - 1;
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
