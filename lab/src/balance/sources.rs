//! What a replica follows during a search: a served log, or a stock primary under TPC-C.
//!
//! In: a load and its length. Out: how many transactions are committed; the rows that a replica must have.
//! Never here: a replica.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use base::GtidSet;
use client::Connection;

use super::contenders::Place;
use super::feed::Feed;
use crate::compare::logs;
use crate::hash::hash;
use crate::ourselves;
use crate::servers::{Programs, Server, copy_folder};
use crate::tpcc::{self, Limit, TpccOptions, TpccReport};

/// Terminals that begin transactions at a rate: more than any machine of the lab keeps busy.
const OPEN_TERMINALS: usize = 32;

/// How hard the source works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// This many transactions a second, whatever the other side does. Of TPC-C some only read.
    Rate(f64),
    /// This many terminals, without think time.
    Terminals(usize),
    /// As fast as a replica receives.
    Unbound,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Rate(rate) => write!(f, "asked for {rate:.0}/s"),
            Load::Terminals(terminals) => write!(f, "{terminals} terminals"),
            Load::Unbound => f.write_str("as fast as it goes"),
        }
    }
}

/// The source that replicas of a search follow.
pub(super) enum Source {
    Log(Log),
    Primary(Box<Primary>),
}

pub(super) struct Log {
    pub feed: Feed,
    pub load: Vec<PathBuf>,
    pub run: Vec<PathBuf>,
}

pub(super) struct Primary {
    server: Server,
    connection: Connection,
    options: TpccOptions,
    driver: Option<JoinHandle<Result<TpccReport>>>,
}

impl Primary {
    /// Starts a primary on a copy of a folder that TPC-C was loaded into.
    pub(super) fn start(
        programs: &Programs,
        loaded: &Path,
        data: &Path,
        server_options: &[String],
        options: &dyn Fn(&Server) -> TpccOptions,
        stop: &AtomicBool,
    ) -> Result<Primary> {
        copy_folder(loaded, data, stop)?;
        let _ = fs::remove_file(data.join("auto.cnf"));
        let server = Server::start(programs, data, server_options, stop)?;
        let (connection, options) = (server.connect()?, options(&server));
        Ok(Primary { server, connection, options, driver: None })
    }
}

impl Source {
    pub(super) fn place(&self) -> Place {
        match self {
            Source::Log(log) => Place { port: log.feed.port, is_stock: false },
            Source::Primary(primary) => Place { port: primary.server.address().port, is_stock: true },
        }
    }

    /// Number of transactions that are committed.
    pub(super) fn committed(&mut self) -> Result<u64> {
        match self {
            Source::Log(log) => Ok(log.feed.sent()),
            Source::Primary(primary) => {
                let asked = primary.connection.query_value("SELECT @@GLOBAL.gtid_executed")?.unwrap_or_default();
                Ok(asked.replace('\n', "").parse::<GtidSet>()?.count())
            }
        }
    }

    /// Transactions that it can still commit; None: there is no end.
    pub(super) fn left(&self) -> Option<u64> {
        match self {
            Source::Log(log) => Some(log.feed.transactions - log.feed.sent().min(log.feed.transactions)),
            Source::Primary(_) => None,
        }
    }

    /// Begins to commit, for as long as that.
    pub(super) fn begin(&mut self, load: Load, length: Duration) {
        match (self, load) {
            (Source::Log(log), Load::Rate(rate)) => log.feed.open(Some(rate)),
            (Source::Log(log), _) => log.feed.open(None),
            (Source::Primary(primary), load) => {
                let mut options = TpccOptions { limit: Limit::Duration(length), ..primary.options.clone() };
                match load {
                    Load::Rate(rate) => (options.rate, options.terminals) = (Some(rate), OPEN_TERMINALS),
                    Load::Terminals(terminals) => options.terminals = terminals,
                    Load::Unbound => {}
                }
                primary.driver = Some(std::thread::spawn(move || tpcc::run(&options, &mut std::io::sink())));
            }
        }
    }

    /// Ends the load; tpmC of a primary.
    pub(super) fn end(&mut self) -> Result<Option<f64>> {
        match self {
            Source::Log(log) => {
                log.feed.shut();
                log.feed.check().map(|()| None)
            }
            Source::Primary(primary) => {
                let Some(driver) = primary.driver.take() else { return Ok(None) };
                let report = driver.join().map_err(|_| anyhow!("TPC-C's driver panicked"))??;
                Ok(Some(report.tpmc))
            }
        }
    }

    /// Hash of the rows that a replica of all that is committed must have.
    pub(super) fn rows(&mut self, scratch: &Path, stop: &AtomicBool) -> Result<String> {
        match self {
            Source::Log(log) => {
                let part = log.feed.sent().saturating_sub(log.feed.load);
                let files = match part {
                    0 => Vec::new(),
                    part => logs::first_part(&log.run, part, &scratch.join("part"))?,
                };
                // A replay needs a log that it measures.
                let (load, run) =
                    if files.is_empty() { (Vec::new(), log.load.clone()) } else { (log.load.clone(), files) };
                let report = ourselves::replay((&ourselves::program()?, None), scratch, &load, &run, &[], stop)?;
                report["hash"].as_str().map(str::to_owned).context("our replay gave no hash")
            }
            Source::Primary(primary) => Ok(hash(&primary.server.address(), &[])?.hash),
        }
    }
}
