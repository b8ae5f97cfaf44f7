//! One application of one log by a stock replica, from a copy of the load's tables to the comparison of its rows.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::Connection;
use compare::hash_server;
use source::TableFilter;

use super::logs::{Bench, Log, NAME};
use crate::servers::{PATIENCE, Server, check_stop, wait_applied};

#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub wall_s: f64,
    /// Transactions that the replica had to begin again.
    pub retries: u64,
}

impl Bench<'_> {
    /// Applies a log once.
    pub(super) fn apply(&self, log: &Log, delay_ms: f64, workers: u32) -> Result<Sample> {
        let data = self.copy("replica")?;
        let mut options = self.options(2);
        options.push(format!("--replica-parallel-workers={workers}"));
        options.push(format!("--innodb-flush-log-at-trx-commit={}", self.args.flush_log));
        let programs = match &self.slow_sync {
            Some(library) if delay_ms > 0.0 => {
                self.programs.preloading(library, &[("SLOW_SYNC_US", format!("{:.0}", delay_ms * 1000.0))])
            }
            _ => self.programs.clone(),
        };
        let server = Server::start(&programs, &data, &options, self.stop)?;
        let (goal, tables) = self.goal(log)?;
        let all = TableFilter::parse::<&str>(&[]);
        // What it reads is then warm.
        hash_server(&server.address(), &all)?;
        let mut connection = server.connect()?;
        let (wall_s, relay) = match log.port {
            Some(port) if !self.args.put_in_between => (self.apply_received(&mut connection, port, goal)?, None),
            _ => {
                let started = Instant::now();
                let relay =
                    log.port.is_none().then(|| self.begin_relay(log.recording, log.stamps, "between")).transpose()?;
                let port = relay.as_ref().map(|relay| relay.port).or(log.port).context("nothing to receive from")?;
                follow(&mut connection, port)?;
                connection.exec("START REPLICA")?;
                wait_applied(&mut connection, goal, self.stop)?;
                (started.elapsed().as_secs_f64(), relay)
            }
        };
        let retries = "SELECT COUNT_TRANSACTIONS_RETRIES FROM performance_schema.replication_applier_status";
        let retries = connection.query_value(retries)?.context("no count of retries")?.parse()?;
        let found = hash_server(&server.address(), &all)?;
        for (have, want) in found.iter().zip(tables) {
            ensure!(have == want, "{}.{} differs from its source's", want.db, want.table);
        }
        ensure!(found.len() == tables.len(), "{} tables, its source has {}", found.len(), tables.len());
        drop((server, relay));
        fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
        for entry in fs::read_dir(self.at(""))? {
            let path = entry?.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("between")) {
                fs::remove_dir_all(&path)?;
            }
        }
        Ok(Sample { wall_s, retries })
    }

    /// Receives all of the log, and then measures what applying it takes.
    fn apply_received(&self, connection: &mut Connection, port: u16, goal: &str) -> Result<f64> {
        follow(connection, port)?;
        connection.exec("START REPLICA IO_THREAD")?;
        let until = Instant::now() + PATIENCE;
        let sql = format!(
            "SELECT GTID_SUBSET('{goal}', RECEIVED_TRANSACTION_SET), LAST_ERROR_MESSAGE
             FROM performance_schema.replication_connection_status"
        );
        loop {
            let answer = connection.query(&sql)?;
            if answer.text(0, 0).as_deref() == Some("1") {
                break;
            }
            let error = answer.text(0, 1).unwrap_or_default();
            ensure!(error.is_empty() && Instant::now() < until, "the log is not received: {error}");
            check_stop(self.stop)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        connection.exec("STOP REPLICA IO_THREAD")?;
        let started = Instant::now();
        connection.exec("START REPLICA SQL_THREAD")?;
        wait_applied(connection, goal, self.stop)?;
        Ok(started.elapsed().as_secs_f64())
    }
}

fn follow(connection: &mut Connection, port: u16) -> Result<()> {
    connection.exec(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='{NAME}',
             SOURCE_PASSWORD='{NAME}', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1, SOURCE_CONNECT_RETRY=1"
    ))?;
    Ok(())
}
