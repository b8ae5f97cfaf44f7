//! `lab read`: reads a server's rows by the binary protocol and throws them away: what an initial copy cannot beat.
//!
//! In: a server, tables, a number of connections. Out: rows, bytes of packets, time. Never here: a lock, a row kept.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::session::{quoted, reading_session};
use client::{ConnectOptions, Connection};
use serde::Serialize;
use source::TableFilter;

#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReadReport {
    pub tables: usize,
    pub rows: u64,
    /// Bytes of values in the rows' packets.
    pub bytes: u64,
    /// Time from the first query to the last row, µs.
    pub elapsed_us: u64,
}

impl fmt::Display for ReadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elapsed = Duration::from_micros(self.elapsed_us);
        let ReadReport { tables, rows, bytes, .. } = self;
        write!(f, "read {tables} tables, {rows} rows, {bytes} bytes in {:.2} s", elapsed.as_secs_f64())
    }
}

/// Reads every table that `patterns` name (`SCHEMA.TABLE`, `SCHEMA.*`, `TABLE`; none: all but MySQL's own). A
/// connection reads one table at a time, whole.
///
/// # Errors
/// The server cannot be read.
pub fn read(server: &ConnectOptions, patterns: &[String], connections: usize) -> Result<ReadReport> {
    let tables = Mutex::new(tables(&mut reading_session(server)?, &TableFilter::parse(patterns))?);
    let count = tables.lock().map(|tables| tables.len()).unwrap_or_default();
    let began = Instant::now();
    let thread = || -> Result<(u64, u64)> {
        let (mut rows, mut bytes) = (0, 0);
        let mut connection = reading_session(server)?;
        while let Some(table) = { tables.lock().ok().and_then(|mut tables| tables.pop()) } {
            let statement = connection.prepare(&format!("SELECT * FROM {table}")).with_context(|| table.clone())?;
            let mut result = connection.execute(&statement, &[]).with_context(|| table.clone())?;
            while let Some(row) = result.next_row().with_context(|| table.clone())? {
                let (_, values) = row.raw();
                rows += 1;
                bytes += values.len() as u64;
            }
            connection.close_statement(statement)?;
        }
        Ok((rows, bytes))
    };
    let (rows, bytes) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections.max(1)).map(|_| scope.spawn(thread)).collect();
        threads.into_iter().try_fold((0, 0), |(rows, bytes), thread| {
            let read = thread.join().map_err(|_| anyhow::anyhow!("a reading thread panicked"))??;
            Ok::<_, anyhow::Error>((rows + read.0, bytes + read.1))
        })
    })?;
    let elapsed_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(ReadReport { tables: count, rows, bytes, elapsed_us })
}

fn tables(connection: &mut Connection, filter: &TableFilter) -> Result<Vec<String>> {
    let result = connection.query(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_schema \
         NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1, 2",
    )?;
    let name = |row: usize| Some((result.text(row, 0)?, result.text(row, 1)?));
    let names = (0..result.rows.len()).filter_map(name).filter(|(db, table)| filter.matches(db, table, 0));
    Ok(names.map(|(db, table)| format!("{}.{}", quoted(&db), quoted(&table))).collect())
}
