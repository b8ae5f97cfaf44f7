//! Groups of options: bits, by which commands choose theirs.
//!
//! In: nothing. Out: numbers. Never here: an option.

/// Group: the data folder. Commands choose their options by group.
pub(crate) const DATA: u8 = 1;
/// Group: the source and its login.
pub(crate) const SOURCE: u8 = 2;
/// Group: threads and memory.
pub(crate) const PIPELINE: u8 = 4;
/// Group: options that only a replica has.
pub(crate) const FOLLOW: u8 = 8;
/// Group: receiving, the log and the port, which a replica and a relay have.
pub(crate) const RECEIVE: u8 = 16;
/// Group: options that only a relay has.
pub(crate) const RELAY: u8 = 32;
/// Group: the served log, which a relay has, and a replica with `--serve-log`.
pub(crate) const SERVE: u8 = 64;
/// Group: options that are not flags.
pub(crate) const FILE_ONLY: u8 = 0;
/// All groups of a replica's flags.
pub(crate) const ALL: u8 = DATA | SOURCE | PIPELINE | FOLLOW | RECEIVE | SERVE;
