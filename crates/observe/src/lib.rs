//! What the program measures about itself, and how it reports it.
//!
//! In: counts and times that the stages hand over once per batch. Out: the event ledger, lag histograms, rates, facts
//! about the process, and the `StatusReport` as text or JSON. Never here: threads, sockets, knowledge of events beyond
//! their type code, a lock per row or per transaction.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod by_part;
pub mod fail_point;
mod group_report;
mod lag;
mod ledger;
mod parts;
mod process;
mod rates;
mod render;
mod status;
mod terminal;
pub mod time;

/// False in a build that measures what watching costs: such a program counts no events, lags or rates.
pub const WATCHES: bool = !cfg!(feature = "unwatched");

pub use by_part::{LagByPart, LagHistograms, LagPart, LagPartReport, LagPartsReport, PieceTimes};
pub use group_report::{FlowControlReport, GroupReport, MemberFigures, MemberReport};
pub use lag::{LAG_BOUNDS_US, LagDivision, LagHistogram, LagMeter, LagParts, LagSample, LagSummary};
pub use ledger::{Category, Ledger, LedgerBatch, LedgerCounts, LedgerRow, LedgerSnapshot, OTHER_EVENT_TYPES, Page};
pub use parts::{
    ClientsReport, DigestReport, DiskReport, DurationReport, ForwardedReport, HistoryReport, MemoryReport,
    RefusedReport, SplitsReport, StatementsReport, StoreReport, WaitReport,
};
pub use process::{ProcessFacts, ThreadCpu, folder_bytes};
pub use rates::{RateMeter, RateSample, Work};
pub use render::{bytes_text, count_text, duration_text};
pub use status::{
    Backlog, BackupProgress, BeforeReport, CandidateReport, ComparedReport, ConnectionState, ErrorReport, GtidReport,
    HeardReport, HeldReport, LagReport, LeftReport, MovesReport, PositionReport, RatesReport, ReplayReport,
    ReplayState, ReplicaReadReport, ServedReport, SeveralReport, SilenceReport, SourceReport, StatusReport,
    UnansweredReport, UntilReport,
};
pub use terminal::{PlainText, one_line, prefixed_lines};
pub use time::{SourceClock, now_us, steady_us, utc_text};
