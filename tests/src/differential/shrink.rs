//! Minimizes a failure: leaves out whole units, then single statements, as long as it still fails.
//!
//! In: units that fail. Out: fewer units that fail in the same way. Never here: a new statement.

use std::time::Instant;

use super::follow::Follower;
use super::run::server;
use super::schema::DATABASES;
use super::script::{Line, Sessions, Unit};
use crate::Server;

/// Runs a script from scratch, one unit at a time; returns the finding.
#[must_use]
pub fn replay(server: &Server, units: &[Unit]) -> Option<String> {
    let xids = server.sql("XA RECOVER CONVERT XID");
    for xid in xids.lines() {
        server.sql(&format!("XA ROLLBACK {}", xid_as_sql(xid)));
    }
    for database in DATABASES {
        server.sql(&format!("SET foreign_key_checks = 0; DROP DATABASE IF EXISTS {database}"));
    }
    server.sql("RESET BINARY LOGS AND GTIDS");
    for database in DATABASES {
        server.sql(&format!("CREATE DATABASE {database}"));
    }
    follow(server, units).err()
}

/// The identifier in a line of XA RECOVER CONVERT XID.
///
/// # Panics
/// It is none.
#[must_use]
pub fn xid_as_sql(line: &str) -> String {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [format, gtrid, _, data] = columns[..] else { panic!("no line of XA RECOVER: {line}") };
    let (gtrid, bqual) = data[2..].split_at(gtrid.parse::<usize>().expect("a length") * 2);
    format!("x'{gtrid}', x'{bqual}', {format}")
}

fn follow(server: &Server, units: &[Unit]) -> Result<(), String> {
    let mut follower = Follower::start(server)?;
    let mut sessions = Sessions::new(server.url("root"), DATABASES[0].into());
    sessions.run_all(units);
    drop(sessions);
    if follower.catch_up()? {
        for line in server.sql("XA RECOVER CONVERT XID").lines() {
            let _ = server.try_sql(&format!("XA COMMIT {}", xid_as_sql(line)));
        }
    }
    follower.compare()?;
    if let Some(why) = follower.unexpected_copies().first() {
        return Err(format!("a table was copied again: {why}"));
    }
    follower.restart(true)?;
    follower.compare()?;
    follower.end()
}

/// The smallest script, found before `until`, that still fails, with its finding. None if the units do not fail when
/// run one at a time.
#[must_use]
pub fn shrink(
    options: &[String],
    units: Vec<Unit>,
    wanted: Option<&str>,
    until: Instant,
) -> Option<(Vec<Unit>, String)> {
    let server = server(options);
    let mut tries = 0;
    let mut fails = |units: &[Unit]| {
        tries += 1;
        // A different finding is another failure.
        let found = replay(&server, units)
            .filter(|found| wanted.is_none() || class(found) == class(wanted.unwrap_or_default()));
        eprintln!(
            "shrink {tries}: {} units, {} statements: {}",
            units.len(),
            units.iter().map(|unit| unit.statements.len()).sum::<usize>(),
            found.as_deref().map_or("equal", |what| what.lines().next().unwrap_or_default())
        );
        found
    };
    let accepted = without_refused(&units);
    let (mut units, mut what) = match fails(&accepted) {
        Some(what) => (accepted, what),
        None => {
            let what = fails(&units)?;
            (units, what)
        }
    };
    fewer(&mut units, &mut what, until, &mut fails);
    // Then each statement becomes a unit.
    let mut single: Vec<Unit> = units
        .iter()
        .flat_map(|unit| {
            unit.statements.iter().map(|line| Unit { session: unit.session, statements: vec![line.clone()] })
        })
        .collect();
    fewer(&mut single, &mut what, until, &mut fails);
    Some((single, what))
}

/// Class of a failure: what the replica ended with, otherwise its first words.
fn class(what: &str) -> String {
    let text = what.split_once("[Replica] ").map_or(what, |(_, text)| text);
    let text = text.split([';', ':', '\n']).next().unwrap_or_default();
    let word = |word: &&str| word.len() > 2 && word.chars().all(char::is_alphabetic);
    text.split_whitespace().filter(word).take(6).collect::<Vec<_>>().join(" ")
}

fn without_refused(units: &[Unit]) -> Vec<Unit> {
    let kept =
        |unit: &Unit| -> Vec<Line> { unit.statements.iter().filter(|line| line.refused.is_none()).cloned().collect() };
    let units = units.iter().map(|unit| Unit { session: unit.session, statements: kept(unit) });
    units.filter(|unit| !unit.statements.is_empty()).collect()
}

/// Leaves out smaller and smaller parts.
fn fewer(units: &mut Vec<Unit>, what: &mut String, until: Instant, fails: &mut impl FnMut(&[Unit]) -> Option<String>) {
    let mut part = units.len().div_ceil(2);
    while part > 0 && units.len() > 1 {
        let mut at = 0;
        let mut removed = false;
        while at < units.len() {
            if Instant::now() > until {
                return;
            }
            let end = (at + part).min(units.len());
            let rest: Vec<Unit> = units[..at].iter().chain(&units[end..]).cloned().collect();
            match fails(&rest) {
                Some(found) if !rest.is_empty() => {
                    (*units, *what, removed) = (rest, found, true);
                }
                _ => at = end,
            }
        }
        if part == 1 && !removed {
            return;
        }
        part = if removed && part == 1 { 1 } else { part / 2 };
    }
}
