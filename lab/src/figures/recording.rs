//! A TPC-C log of a stock primary, recorded for a figure.
//!
//! In: the location of MySQL's programs, sizes, what every session sets. Out: two binlog files, the load and the run.
//! Never here: a log that a server did not write.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::servers::{Programs, Server};
use crate::tpcc::{self, Limit, Style, TpccOptions};

/// Sizes of a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub warehouses: u32,
    /// Part of the specification's items, customers and orders.
    pub scale: f64,
    pub terminals: usize,
    /// Write transactions of the run.
    pub transactions: u64,
}

/// Files of a recorded log, and the cost of writing it.
#[derive(Clone, Debug)]
pub(super) struct Recording {
    pub load: PathBuf,
    pub run: PathBuf,
    /// CPU seconds of the primary while it was loaded.
    pub load_cpu_s: f64,
    /// CPU seconds of the primary during the run.
    pub run_cpu_s: f64,
}

/// Options of every primary here. What it syncs is not in the log.
const OPTIONS: [&str; 6] = [
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--server-id=1",
    "--log-bin=recorded",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
];

/// Records into a new folder. With one terminal and the same seed every recording has the same transactions.
///
/// # Errors
/// The server does not start, the load fails, or `stop` is raised.
pub(super) fn record(
    programs: &Programs,
    folder: &Path,
    size: Size,
    session_variables: &[(&str, &str)],
    stop: &AtomicBool,
) -> Result<Recording> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let data = folder.join("primary");
    programs.initialise(&data, stop)?;
    let server = Server::start(programs, &data, &OPTIONS.map(str::to_owned), stop)?;
    let options = options(&server, size, session_variables);
    let idle_s = server.cpu_s();
    tpcc::prepare(&options, &mut std::io::sink())?;
    let loaded_s = server.cpu_s();
    server.connect()?.exec("FLUSH BINARY LOGS")?;
    tpcc::run(&options, &mut std::io::sink())?;
    let (load_cpu_s, run_cpu_s) = (loaded_s - idle_s, server.cpu_s() - loaded_s);
    server.connect()?.exec("FLUSH BINARY LOGS")?;
    server.shut_down(stop)?;
    let kept = |number: u32| -> Result<PathBuf> {
        let (from, to) = (data.join(format!("recorded.{number:06}")), folder.join(format!("binlog.{number:06}")));
        fs::rename(&from, &to).with_context(|| format!("no log {}", from.display()))?;
        Ok(to)
    };
    let recording = Recording { load: kept(1)?, run: kept(2)?, load_cpu_s, run_cpu_s };
    fs::remove_dir_all(&data)?;
    Ok(recording)
}

/// Options of TPC-C's driver against a server that is ours alone.
pub(super) fn options(server: &Server, size: Size, session_variables: &[(&str, &str)]) -> TpccOptions {
    TpccOptions {
        server: server.address(),
        database: "tpcc".into(),
        warehouses: size.warehouses,
        terminals: size.terminals,
        seed: 1,
        style: Style::Statements,
        limit: Limit::WriteTransactions(size.transactions),
        rate: None,
        scale: size.scale,
        foreign_keys: false,
        load_threads: 2,
        reconnect_for: Duration::from_secs(1),
        session_variables: session_variables.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
    }
}
