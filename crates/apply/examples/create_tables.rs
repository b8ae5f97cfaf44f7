//! Rate at which CREATE TABLE is replayed, by the number of tables that are there.
//!
//! `cargo run --release -p apply --example create_tables [TABLES] [DATABASES]`; default 12,000 tables in 1,200
//! databases. A written log of one statement a transaction is replayed into a store on disk with a cut a second.
//! Prints, per 2,000 tables, statements a second by the clock and by the CPU time of all threads, then their ratio, the
//! last 2,000 to the first.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use apply::{ApplyOptions, CutOptions, Pipeline, PipelineOptions, lanes_for};
use base::{GtidSet, Uuid};
use catalog::Catalog;
use decode::SkipList;
use relay_log::{Chunk, TailItem};
use store::{CheckImages, Disk, DiskOptions, Store};
use testkit::log::Author;

const STEP: u64 = 2_000;

/// A table of a shop, of a customer's own.
fn statement(number: u64, databases: u64) -> String {
    let (db, table) = (number % databases, number / databases);
    format!(
        "CREATE TABLE shop{db}.t{table} (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, customer INT NOT NULL, \
         name VARCHAR(100) NOT NULL, state ENUM('new','paid','sent') NOT NULL DEFAULT 'new', total DECIMAL(10,2), \
         note TEXT, created TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE KEY name (name), \
         KEY customer (customer, created))"
    )
}

fn written(tables: u64, databases: u64) -> Vec<u8> {
    let mut author = Author::new(Uuid([7; 16]));
    (0..databases).for_each(|db| _ = author.sql(&format!("CREATE DATABASE shop{db}")));
    (0..tables).for_each(|number| _ = author.sql(&statement(number, databases)));
    author.events()
}

fn start(folder: &std::path::Path, bytes: Vec<u8>) -> Pipeline {
    let (disk, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 16 << 20 }).unwrap();
    let store = Store::over(lanes_for(2), disk, folder.join("scratch"), recovered, Catalog::new(0)).unwrap();
    let (file, bytes): (Arc<str>, _) = ("relay-bin.000001".into(), Arc::new(bytes.into()));
    let mut item = Some(TailItem::Chunk(Chunk { file_number: 1, file, offset: 4, data: bytes, hot: false }));
    let source = move |_| Ok(item.take().unwrap_or(TailItem::Closed));
    let cuts = CutOptions {
        generation_bytes: 64 << 20,
        interval: Duration::from_secs(1),
        sync_relay: Box::new(|_| Ok(())),
        after_cut: Box::new(|_, _| {}),
        waits_for_space: false,
    };
    let options = PipelineOptions {
        quarantine: false,
        copies_missing: false,
        filters: Arc::default(),
        decoders: 1,
        workers: 2,
        memory_bytes: 64 << 20,
        apply: ApplyOptions { check_images: CheckImages::Sample, ..ApplyOptions::default() },
        skip: SkipList::new(GtidSet::new()),
        store: Arc::new(store),
        cuts: Some(cuts),
        source_clock: Arc::default(),
        lag_by_part: Arc::default(),
        affinity: base::ThreadAffinity::default(),
    };
    Pipeline::start(Box::new(source), options)
}

fn cpu() -> Duration {
    Duration::from_micros(observe::ProcessFacts::read().cpu_us)
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().unwrap());
    let (tables, databases) = (arguments.next().unwrap_or(12_000), arguments.next().unwrap_or(1_200));
    let folder = tempfile::tempdir().unwrap();
    let pipeline = start(folder.path(), written(tables, databases));
    let store = Arc::clone(&pipeline.store);
    let (mut begun, mut rates) = ((Instant::now(), cpu()), Vec::new());
    for end in (STEP..=tables).step_by(STEP as usize) {
        while store.visibility().watermark().0 < databases + end {
            assert!(!pipeline.is_finished() || store.visibility().watermark().0 >= databases + end, "replay stopped");
            std::thread::sleep(Duration::from_micros(500));
        }
        let (clock, used) = (begun.0.elapsed().as_secs_f64(), (cpu() - begun.1).as_secs_f64());
        println!("{end:>7} tables: {:>7.0}/s, {:>7.0} a CPU second", STEP as f64 / clock, STEP as f64 / used);
        rates.push((clock, used));
        begun = (Instant::now(), cpu());
    }
    let finished = pipeline.join();
    assert!(finished.stop.is_none(), "{:?}", finished.stop);
    let ratio = |of: fn(&(f64, f64)) -> f64| of(rates.last().unwrap()) / of(rates.first().unwrap());
    println!("last to first: {:.2} by the clock, {:.2} by CPU", ratio(|(clock, _)| *clock), ratio(|(_, used)| *used));
}
