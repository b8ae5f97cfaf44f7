//! Copies of real servers (`testbed/mysql`); run with SLIPSTREAM_TEST_SERVER=1.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use copy::CopyOptions;
use support::{Server, assert_equals_log, copy_all, enabled};

const TYPES: &str = include_str!("../../compare/tests/types.sql");

/// Small ranges and batches, so that even small tables have several of each.
fn small_pieces() -> CopyOptions {
    CopyOptions { chunk_bytes: 1, chunk_rows_min: 3, batch_bytes: 100, ..CopyOptions::default() }
}

#[test]
fn every_type_is_copied_as_the_log_has_it() {
    if !enabled() {
        return;
    }
    let server = Server::start("copy-types", &[]);
    server.sql(TYPES);
    let copied = copy_all(&server.options("root"), &CopyOptions::default()).unwrap();
    assert_equals_log(&server, &copied);
    assert!(copied.plan.lock_us > 0 && copied.plan.backup_lock_us.is_some());
    let totals = copied.progress.totals();
    assert_eq!((totals.tables_done, totals.rows), (copied.report.tables, copied.report.rows));
    assert_eq!(totals.fraction, 1.0);

    server.sql("ANALYZE TABLE types.many");
    let copied = copy_all(&server.options("root"), &small_pieces()).unwrap();
    assert_equals_log(&server, &copied);
    assert!(copied.report.ranges > 1000, "{}", copied.report.ranges);
}
