//! A replica: a data folder that follows a source.
//!
//! In: a checked configuration, an owned or stopped folder, requests of the operator. Out: a store that follows its
//! source, status reports, log lines with their codes, a `Failure` with its exit code. Never here: the spelling of
//! options, the control socket, the format of a log line; anything about the log's format, rows, or the protocol.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod access;
mod acknowledged;
mod after_replicas;
mod all_tables;
mod archive;
mod backup;
mod candidates;
mod check_source;
mod check_stopped;
pub mod config;
mod damage;
mod disk_trouble;
mod drift;
mod due_copies;
mod exit;
pub mod failure;
mod filter_orders;
mod folder;
mod history;
mod inbound;
mod initial_copy;
mod lock;
pub mod log;
mod login;
mod members;
mod memory;
mod moved;
mod movement;
mod open;
mod read_only;
mod receiver;
mod receiving;
mod relay;
mod relay_purge;
mod replay;
#[allow(clippy::module_inception, reason = "the module of the type that the crate is named after")]
mod replica;
mod restore;
mod room;
mod running_copies;
mod scrub;
mod serve_log;
mod server_options;
pub mod skip;
mod source_facts;
mod source_orders;
mod status;
mod stopped;
mod table_copy;
mod unsettled;
mod upkeep;
mod witness;

pub use backup::{BackupOptions, BackupReport, backup_stopped};
pub use candidates::WEIGHT;
pub use check_source::check;
pub use check_stopped::check_stopped;
pub use damage::OnDamage;
pub use disk_trouble::StoppedByDisk;
pub use drift::{DriftedTable, OnDrift};
pub use exit::{DiskTrouble, Exit, Failure};
pub use filter_orders::FilterOrders;
pub use folder::Folder;
pub use history::History;
pub use initial_copy::{CopyInProgress, CopyWatch};
pub use lock::{FolderLock, owner as folder_owner};
pub use login::{Reread, SourceLogin};
pub use memory::MemoryPlan;
pub use movement::Movement;
pub use read_only::ReadOnly;
pub use receiver::{Receive, SOURCE_WAS_RESET};
pub use relay::holds;
pub use relay::{Relay, RelayBase, RelayConfig, RelayStart, ServeConfig, ServedKeep, Serving, replica_text};
pub use replica::{AfterDisk, BeginReplay, Begun, Replica, Start, StoreDamage, cores, quarantined};
pub use restore::restore;
pub use serve_log::ServeLog;
pub use source::preflight::SOURCE_LACKS;
pub use source::zones::Zones;
pub use source_facts::{SourceSettings, known_source_settings, knows_source};
pub use source_orders::SourceOrders;
pub use status::Received;
pub use stopped::Stopped;
pub use table_copy::TableCopyReport;
