//! Measures how fast a source can be copied if its rows are not processed: `copy_speed URL [connections] [table…]`.
//! Prints the plan, the progress every half second, the report, and an order-independent hash of all rows.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use catalog::TableDef;
use client::ConnectOptions;
use copy::{CopyOptions, CopySink, Progress, RowBatch, SourceCopy};
use source::TableFilter;

/// Adds up hashes of rows.
#[derive(Default)]
struct Sum(AtomicU64);

impl CopySink for Sum {
    fn rows(&self, _: &Arc<TableDef>, rows: &RowBatch) -> Result<(), String> {
        let sum = rows.iter().fold(0u64, |sum, row| {
            let mut hasher = DefaultHasher::new();
            row.hash(&mut hasher);
            sum.wrapping_add(hasher.finish())
        });
        self.0.fetch_add(sum, Ordering::Relaxed);
        Ok(())
    }

    fn table_done(&self, _: &Arc<TableDef>, _: u64) -> Result<(), String> {
        Ok(())
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let url = arguments.first().ok_or("usage: copy_speed URL [connections] [table…]")?;
    let source = ConnectOptions::from_url(url)?;
    let connections = arguments.get(1).map_or(Ok(4), |text| text.parse())?;
    let tables = TableFilter::parse(arguments.get(2..).unwrap_or(&[]));
    let options = CopyOptions { connections, tables, ..CopyOptions::default() };
    let stop = AtomicBool::new(false);
    let cores = std::thread::available_parallelism()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{cores} cores, load {}, {connections} connections", load.trim());
    let copy = SourceCopy::prepare(&source, &options, &stop)?;
    println!("{}", copy.plan());
    let progress = Progress::new(copy.plan());
    let (sum, done) = (Sum::default(), AtomicBool::new(false));
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(500));
                print!("{}\n{}", progress.line(), progress.table_lines(4));
            }
        });
        let report = copy.run(&sum, &progress, &stop);
        done.store(true, Ordering::Relaxed);
        report
    })?;
    println!("{report}\n{} ranges, hash {:016x}", report.ranges, sum.0.load(Ordering::Relaxed));
    Ok(())
}
