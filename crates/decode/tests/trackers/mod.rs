//! Dependency trackers against an oracle that knows what every transaction touches: no two conflicting transactions
//! may be stamped as independent. Faults planted in a tracker's input must each be noticed by the oracle.

mod history;
mod oracle;
mod recorded;
mod rules;
mod stock_replicas;
