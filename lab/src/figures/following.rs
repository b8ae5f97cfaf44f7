//! Slipstream's line in a figure of a stock primary: whether it followed such a run.
//!
//! In: a server, and what drives it. Out: its lag, its backlog's seconds at the load's end, whether rows are equal.
//! Never here: a number that a verdict is on; a server that this started.

use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use client::{ConnectOptions, Connection};
use serde_json::Value;

use super::context::Context;
use crate::ourselves::{self, Replica};

/// Has a replica follow a server, which `drive` then loads; it returns what the load was, and when it ended.
///
/// # Errors
/// The replica does not copy, ends, or does not reach the load's end; the server fails; or `stop` is raised.
pub(super) fn follow(
    context: &Context<'_>,
    url: &str,
    address: &ConnectOptions,
    drive: impl FnOnce() -> Result<(String, Instant)>,
) -> Result<String> {
    let data = context.folder.join("replica");
    let mut running = Replica::start(url, &data, &[], None)?;
    running.await_status("the initial copy", context.stop, &|status| status["replay"]["state"] == "caught_up")?;
    let (load, ended) = drive()?;
    // The server compares the sets: two can be the same in another order.
    let has_all = |status: &Value| -> Result<bool> {
        let ours = status["gtid"]["executed"].as_str().unwrap_or_default().replace('\n', "");
        let sql = format!("SELECT GTID_SUBSET(@@GLOBAL.gtid_executed, '{ours}')");
        Ok(Connection::connect(address)?.query_value(&sql)?.as_deref() == Some("1"))
    };
    running.await_status("the end of the load", context.stop, &|status| has_all(status).unwrap_or(false))?;
    let drained_s = ended.elapsed().as_secs_f64();
    let lag_us = running.status()?["lag"]["overall"]["p99_us"].as_u64();
    let mut verify = Command::new(ourselves::program()?);
    verify.args(["verify", "--no-defaults", "--source", url, "--data"]).arg(&data);
    let rows = match ourselves::output(&mut verify, "slipstream verify") {
        Ok(_) => "rows equal".to_owned(),
        Err(error) => format!("rows NOT equal: {error:#}"),
    };
    drop(running);
    fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
    let lag = lag_us.map_or("an unknown lag".to_owned(), |us| format!("p99 of the lag {:.1} ms", us as f64 / 1e3));
    Ok(format!(
        "Slipstream follows that run of {load} on the same cores: {lag}, at its end {drained_s:.1} s behind, {rows}."
    ))
}
