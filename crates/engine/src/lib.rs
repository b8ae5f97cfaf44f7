//! The engine of a replica's process: its phases, its ports, orders by SQL.
//!
//! In: a configuration, an owned folder, the engine that the main thread started, orders of operators. Out: answers in
//! every phase: what is visible, status, open ports, requests to start the engine again. Never here: a start of the
//! engine, which is the main thread's; options, the control socket, receiving, replay.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod disk_mend;
#[allow(clippy::module_inception, reason = "the module of the type that the crate is named after")]
mod engine;
mod gtid_port;
mod gtids;
mod open_door;
mod open_web;
pub mod orders;
mod replica_status;
mod source_set;
mod supervision;

pub use disk_mend::DiskMend;
pub use engine::{Engine, ReplicaThread, Wanted, before_start, starting};
pub use gtid_port::GtidPort;
pub use gtids::not_now;
pub use open_door::{DoorSettings, OpenDoor, engine_facts, log_order, note, ordered};
pub use open_web::OpenWeb;
pub use replica_status::ShownOptions;
pub use supervision::Supervision;
