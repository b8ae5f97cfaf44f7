//! Logs as a source writes them, without a source.
//!
//! In: the statements and row changes that a test names. Out: the bytes of a log. Never here: a random choice
//! ([`crate::history`]), what the log means to its reader. The bytes are those of [`binlog::writer`], which the tests
//! of `binlog` hold against recorded logs and another decoder.

mod author;
mod events;
mod recorded;
mod sample;
mod table;

pub use author::{APART_US, Author, Events, START_US, dump_head};
pub use events::{count_events, split};
pub use recorded::{old_logs, recorded, recorded_logs};
pub use sample::{ddl, gtid, item, sample_log};
pub use table::{
    BIG, Change, DOUBLE, INT, JSON, NULL, Row, Stored, TEXT, Table, Type, VARCHAR, big, bits, delete, double,
    full_image, image, insert, inserts, int, text, update, varchar,
};
