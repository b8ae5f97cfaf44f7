//! `lab receive`: replicas that receive a log and throw it away: what a source or relay can send, and how late.
//!
//! In: a source's address, a number of connections. Out: transactions, bytes, time; commit-to-arrival times. Never
//! here: anything kept, a registration as a replica.

use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};
use base::GtidSet;
use binlog::{EventHeader, GtidEvent, event_type};
use clap::Args;
use client::{ClientError, Connection};
use hdrhistogram::Histogram;
use serde::Serialize;
use source::{DumpRequest, start_dump};

/// Longest time between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(100);

/// Options of `lab receive`.
#[derive(Debug, Clone, Args)]
pub struct ReceiveArgs {
    /// The source or relay: mysql://user[:password]@host:port (password also from MYSQL_PWD)
    #[arg(value_name = "URL")]
    pub source: String,
    /// Connections, each of which receives all of it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub connections: u32,
    /// Begin after these GTIDs
    #[arg(long, value_name = "GTID-SET", default_value = "")]
    pub start: String,
    /// End where this many transactions have begun to arrive, instead of at the log's present end
    #[arg(long, value_name = "N")]
    pub transactions: Option<u64>,
    /// Encrypt the connections
    #[arg(long)]
    pub tls: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// What was received, over all connections.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReceiveReport {
    pub connections: u32,
    /// Transactions, by all of them together.
    pub transactions: u64,
    /// Bytes of events, by all of them together.
    pub bytes: u64,
    /// Time from the first request to the last event, µs.
    pub elapsed_us: u64,
    /// Percentiles 50, 99, 99.9 and the maximum of the time from a transaction's commit, as its Gtid event tells it, to
    /// that event's arrival, µs. It means something for transactions that were committed while this ran.
    pub arrival_us: [u64; 4],
}

impl fmt::Display for ReceiveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReceiveReport { connections, transactions, bytes, elapsed_us, arrival_us } = self;
        let seconds = (*elapsed_us as f64 / 1e6).max(1e-6);
        let [p50, p99, p999, most] = arrival_us.map(|us| us as f64 / 1e3);
        writeln!(
            f,
            "{connections} connections received {transactions} transactions, {:.1} MB in {seconds:.2} s: {:.0} transactions/s, {:.1} MB/s",
            *bytes as f64 / 1e6,
            *transactions as f64 / seconds,
            *bytes as f64 / 1e6 / seconds
        )?;
        write!(f, "commit to arrival: p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms, max {most:.2} ms")
    }
}

struct Received {
    transactions: u64,
    bytes: u64,
    arrival: Histogram<u64>,
    ended: Instant,
}

/// Receives a log with every connection.
///
/// # Errors
/// The source cannot be read, or a GTID set is none.
pub fn receive(args: &ReceiveArgs, source: &client::ConnectOptions, stop: &AtomicBool) -> Result<ReceiveReport> {
    let start: GtidSet = args.start.parse().with_context(|| format!("--start: {}", args.start))?;
    let together = Barrier::new(args.connections as usize + 1);
    let (began, all) = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..args.connections).map(|_| scope.spawn(|| one(args, source, &start, &together, stop))).collect();
        together.wait();
        let began = Instant::now();
        let all: Result<Vec<Received>> =
            threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a receiver panicked"))?).collect();
        (began, all)
    });
    let mut report = ReceiveReport { connections: args.connections, ..ReceiveReport::default() };
    let mut arrival = Histogram::<u64>::new(3)?;
    let mut ended = began;
    for one in all? {
        report.transactions += one.transactions;
        report.bytes += one.bytes;
        arrival.add(&one.arrival)?;
        ended = ended.max(one.ended);
    }
    report.elapsed_us = u64::try_from((ended - began).as_micros()).unwrap_or(u64::MAX);
    report.arrival_us = [50.0, 99.0, 99.9, 100.0].map(|percent| arrival.value_at_percentile(percent));
    Ok(report)
}

fn one(
    args: &ReceiveArgs,
    source: &client::ConnectOptions,
    start: &GtidSet,
    together: &Barrier,
    stop: &AtomicBool,
) -> Result<Received> {
    let connection = Connection::connect(source).context("connecting");
    // Whoever cannot connect lets the others begin.
    together.wait();
    let mut connection = connection?;
    connection.set_read_timeout(Some(LOOK))?;
    let heartbeat_period = Duration::ZERO;
    let non_block = args.transactions.is_none();
    // As mysqlbinlog, not as a replica: many may read at once.
    let request = DumpRequest { heartbeat_period, non_block, ..DumpRequest::new(0, start) };
    let mut stream = start_dump(connection, &request)?;
    let mut received = Received { transactions: 0, bytes: 0, arrival: Histogram::new(3)?, ended: Instant::now() };
    loop {
        let event = match stream.next_event() {
            Ok(Some(event)) => event.event,
            Ok(None) => break,
            Err(ClientError::ReadTimeout) => {
                crate::servers::check_stop(stop)?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let header = EventHeader::parse(event)?;
        received.bytes += event.len() as u64;
        if event_type::is_gtid(header.event_type) {
            let end = if binlog::verify_checksum(event) { event.len() - 4 } else { event.len() };
            let gtid = GtidEvent::parse(header.event_type, event.get(EventHeader::LEN..end).unwrap_or_default())?;
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
            let committed = u128::from(gtid.immediate_commit_timestamp_us);
            if committed > 0 {
                received.arrival.record(u64::try_from(now.saturating_sub(committed)).unwrap_or(u64::MAX))?;
            }
            received.transactions += 1;
        }
        received.ended = Instant::now();
        if args.transactions.is_some_and(|wanted| received.transactions >= wanted) {
            break;
        }
        if received.transactions.is_multiple_of(1024) && stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(received)
}
