//! The pipeline, by rows and by transactions, against a serial model: random histories, every number of threads,
//! planted faults.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cuts;
mod failure;
mod front;
mod hold;
mod run;
mod serial;
mod shutdown;
mod stages;
mod tables;
mod transactions;
mod transfers;
mod twice;
mod until;
