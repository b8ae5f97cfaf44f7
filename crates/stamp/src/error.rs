//! Why a log cannot be stamped.

use base::LogPosition;
use binlog::BinlogError;
use decode::Stop;

/// Why a log cannot be stamped any further. Everything before the place was handed on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StampError {
    /// The log cannot be read at this place.
    #[error("{0}")]
    Stop(Box<Stop>),
    /// An event cannot be written with other lengths or positions.
    #[error("{position}: {error}")]
    Event {
        /// Place of the transaction.
        position: LogPosition,
        /// What is wrong with the event.
        error: BinlogError,
    },
    /// A transaction has no Gtid event, so that there is no place for a clock.
    #[error(
        "{0}: a transaction without a Gtid event, which has no place for a logical clock (MySQL 5.7 or newer writes one)"
    )]
    NoGtidEvent(LogPosition),
    /// The receiver of the parts failed.
    #[error("{0}")]
    Output(String),
}

impl From<Box<Stop>> for StampError {
    fn from(stop: Box<Stop>) -> StampError {
        StampError::Stop(stop)
    }
}
