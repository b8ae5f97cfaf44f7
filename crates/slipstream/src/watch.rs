//! Live view: polls a running replica's status every second and shows the figures that change.
//!
//! On a terminal it is a block that is redrawn in place; otherwise one plain line per second. Stdin is never read.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use observe::{ReplayState, StatusReport, bytes_text, count_text, duration_text};
use replica::Failure;

use crate::control::{AskError, Client};
use crate::signals::Signals;

/// Options of the live view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchOptions {
    /// Interval between two polls.
    pub interval: Duration,
    /// Number of polls; None = until the replica or the view is stopped.
    pub count: Option<u64>,
    /// Whether to redraw in place.
    pub in_place: bool,
}

/// Result of a poll.
#[derive(Debug)]
pub(crate) enum Polled {
    /// The status of the running replica.
    Report(Box<StatusReport>),
    NotRunning,
    /// The replica's process lives and does not answer.
    Silent(Failure),
}

/// Asks for the status of a running replica.
///
/// # Errors
/// The connection breaks, or the answer is not a status.
pub(crate) fn poll(folder: &Path) -> Result<Polled, Failure> {
    let body = match Client::status(folder) {
        Ok(Some(body)) => body,
        Ok(None) => return Ok(Polled::NotRunning),
        Err(silent @ AskError::Silent { .. }) => return Ok(Polled::Silent(silent.into())),
        Err(AskError::Failed(failure)) => return Err(failure),
    };
    let report = serde_json::from_value(body);
    report.map(Polled::Report).map_err(|error| Failure::error(format!("the replica's status: {error}")))
}

/// Shows the status until the replica ends, `count` is reached, or a signal arrives.
///
/// # Errors
/// Code 1 if no replica runs at the start; a failed write.
pub(crate) fn watch(
    folder: &Path,
    options: WatchOptions,
    signals: &Signals,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut shown = 0u64;
    let mut next = Instant::now();
    let mut view = View { in_place: options.in_place, lines: 0 };
    while !signals.stop_asked() && options.count.is_none_or(|count| shown < count) {
        // A replica that ends between two polls closes the connection in the middle of an answer.
        match poll(folder) {
            Ok(Polled::Report(report)) => view.show(&report, out).map_err(|error| Failure::output(&error))?,
            // It may answer again.
            Ok(Polled::Silent(failure)) => {
                view.say(&printable(&failure.text), out).map_err(|error| Failure::output(&error))?
            }
            Ok(Polled::NotRunning) if shown == 0 => {
                return Err(Failure::error(format!("no replica runs on {}", folder.display())));
            }
            Err(failure) if shown == 0 => return Err(failure),
            Ok(Polled::NotRunning) | Err(_) => {
                writeln!(out, "the replica has stopped").map_err(|error| Failure::output(&error))?;
                return Ok(());
            }
        }
        shown += 1;
        next += options.interval;
        while Instant::now() < next && !signals.stop_asked() {
            std::thread::sleep(Duration::from_millis(20).min(next.saturating_duration_since(Instant::now())));
        }
    }
    Ok(())
}

struct View {
    in_place: bool,
    /// Number of lines drawn last, to be overwritten.
    lines: usize,
}

impl View {
    fn show(&mut self, report: &StatusReport, out: &mut dyn Write) -> std::io::Result<()> {
        if self.in_place {
            let block = block(report);
            if self.lines > 0 {
                write!(out, "\x1b[{}A\x1b[J", self.lines)?;
            }
            self.lines = block.lines().count();
            out.write_all(block.as_bytes())?;
        } else {
            writeln!(out, "{}", line(report))?;
        }
        out.flush()
    }

    /// Writes a sentence below what is shown; the next block does not overwrite it.
    fn say(&mut self, text: &str, out: &mut dyn Write) -> std::io::Result<()> {
        self.lines = 0;
        writeln!(out, "{}  {text}", observe::utc_text(observe::now_us()).get(11..19).unwrap_or_default())?;
        out.flush()
    }
}

/// One line: time, tx/s, rows/s, lag, backlog, position, and the state unless it is the usual one.
#[must_use]
pub(crate) fn line(report: &StatusReport) -> String {
    let time = report.at.get(11..19).unwrap_or("--:--:--");
    if report.replay.state == ReplayState::Copying {
        let (received, waits) = (bytes_text(report.backlog.bytes), count_text(report.backlog.transactions));
        return format!("{time}  {}  log received {received}, {waits} tx", printable(&report.replay.detail));
    }
    let (rates, lag) = (report.rates.last_1s, report.lag.last_1s);
    let figures = if lag.transactions == 0 {
        format!("lag {}", report.lag.current_us.map_or("NULL".to_owned(), duration_text))
    } else {
        format!(
            "lag p50 {} p99 {} max {}",
            duration_text(lag.p50_us),
            duration_text(lag.p99_us),
            duration_text(lag.max_us)
        )
    };
    format!(
        "{time}  {:>7} tx/s  {:>9} rows/s  {:<42}  backlog {:>7} tx  {}  {}",
        count_text(rates.transactions_per_s as u64),
        count_text(rates.rows_per_s as u64),
        figures,
        count_text(report.backlog.transactions),
        position(report),
        report.replay.state.sentence(),
    )
}

/// The same figures as a block for a terminal.
fn block(report: &StatusReport) -> String {
    let (rates, second, ten) = (report.rates.last_1s, report.lag.last_1s, report.lag.last_10s);
    let lag = |summary: observe::LagSummary| {
        if summary.transactions == 0 {
            return "-".to_owned();
        }
        let (p50, p99, max) = (summary.p50_us, summary.p99_us, summary.max_us);
        format!("p50 {:>9}   p99 {:>9}   max {:>9}", duration_text(p50), duration_text(p99), duration_text(max))
    };
    let detail =
        if report.replay.detail.is_empty() { String::new() } else { format!(": {}", printable(&report.replay.detail)) };
    let error = report
        .last_error
        .as_ref()
        .map_or(String::new(), |error| format!("Last_Error  {}\n", printable(&error.text.replace('\n', " "))));
    format!(
        "{}  {}\nReplica_IO  {}   Replica_SQL  {}, {}{detail}\nReplay      {:>9} tx/s   {:>11} rows/s   {:>10}/s\n\
         Lag (1 s)   {}\nLag (10 s)  {}\nBacklog     {}\nPosition    {}\nMemory      {}\n{error}",
        report.at,
        printable(&report.source.uri),
        report.source.state.as_mysql(),
        report.replay.state.as_mysql(),
        report.replay.state.sentence(),
        count_text(rates.transactions_per_s as u64),
        count_text(rates.rows_per_s as u64),
        bytes_text(rates.bytes_per_s as u64),
        lag(second),
        lag(ten),
        report.backlog.to_text(),
        position(report),
        bytes_text(report.memory.rss_bytes),
    )
}

fn position(report: &StatusReport) -> String {
    let position = &report.position;
    printable(position.source_executed.as_deref().or(position.relay_executed.as_deref()).unwrap_or("-"))
}

fn printable(text: &str) -> String {
    observe::one_line(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{ControlServer, Reply};
    use observe::{LagSummary, RateSample};
    use replica::FolderLock;
    use std::sync::Arc;

    fn report() -> StatusReport {
        let mut report = StatusReport { at: "2026-11-21T08:00:01.5Z".to_owned(), ..StatusReport::default() };
        report.rates.last_1s = RateSample { transactions_per_s: 1234.6, rows_per_s: 23_456.0, bytes_per_s: 8e6 };
        report.lag.last_1s =
            LagSummary { transactions: 1234, p50_us: 900, p99_us: 4_500, max_us: 12_000, ..LagSummary::default() };
        report.position.source_executed = Some("binlog.000002:4711".to_owned());
        report.replay.state = ReplayState::Running;
        report
    }

    #[test]
    fn a_line_has_the_figures() {
        let text = line(&report());
        for wanted in
            ["08:00:01", "1,234 tx/s", "23,456 rows/s", "p50 900 us p99 4.50 ms max 12.0 ms", "binlog.000002:4711"]
        {
            assert!(text.contains(wanted), "{wanted} is missing in {text}");
        }
        assert!(line(&StatusReport::default()).contains("lag NULL"));
    }

    #[test]
    fn the_block_is_drawn_over() {
        let mut view = View { in_place: true, lines: 0 };
        let mut out = Vec::new();
        view.show(&report(), &mut out).unwrap();
        view.show(&report(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("\x1b[8A\x1b[J").count(), 1, "{text:?}");
    }

    #[test]
    fn watches_a_replica_over_its_socket_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let every = WatchOptions { interval: Duration::from_millis(1), count: Some(3), in_place: false };
        let signals = Signals::default();
        let mut out = Vec::new();
        assert!(watch(dir.path(), every, &signals, &mut out).unwrap_err().text.contains("no replica runs"));
        let lock = FolderLock::exclusive(dir.path()).unwrap();
        let answer = serde_json::to_value(report()).unwrap();
        let mut server =
            ControlServer::start(dir.path(), &lock, Arc::new(move |_, _| Reply::with_body(answer.clone()))).unwrap();
        watch(dir.path(), every, &signals, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 3);
        let mut out = Vec::new();
        let folder = dir.path().to_owned();
        let watcher = std::thread::spawn(move || {
            let forever = WatchOptions { count: None, ..every };
            watch(&folder, forever, &Signals::default(), &mut out).map(|()| String::from_utf8(out).unwrap())
        });
        // Ended only after the watcher has seen it: otherwise it correctly reports that none runs.
        while !watcher.is_finished() && server.served() < 5 {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.stop();
        assert!(watcher.join().unwrap().unwrap().ends_with("the replica has stopped\n"));
    }
}
