//! Handlers of control socket requests, for a running replica and for an initial copy.

use std::io::Write;
use std::sync::{Arc, Mutex};

use replica::{
    CopyInProgress, Exit, Failure, Replica,
    log::{self, Code},
};

use crate::control::{Handler, Reply, Request};
use crate::reading;

/// Handles requests to a running replica.
pub(crate) fn of_replica(replica: Arc<Replica>) -> Handler {
    // Only one verify at a time, because it blocks publishing for a moment.
    let verifying = Mutex::new(());
    Arc::new(move |request, out| match request {
        Request::Status {} => status(&replica.status()),
        Request::Verify(options) => match verifying.try_lock() {
            Ok(_alone) => Reply::from_result(reading::verify(&replica, &options, out)),
            Err(_) => {
                Reply::failed(&Failure::error("another verify is running on this replica; try again when it is done"))
            }
        },
        Request::Copy { table } => {
            log::write(Code::OperatorCommand, "Control", &format!("operator asked to copy {table}"));
            Reply::from_result(copy_table(&replica, &table, out))
        }
        Request::Dump(options) => Reply::from_result(reading::dump(&replica, &options, out)),
        Request::Stop {} => {
            log::write(Code::OperatorStop, "Control", "operator asked to stop");
            replica.stop();
            Reply::done()
        }
        Request::Pause {} => {
            log::write(Code::OperatorCommand, "Control", "operator asked to pause");
            Reply::from_result(replica.pause())
        }
        Request::Resume {} => {
            log::write(Code::OperatorCommand, "Control", "operator asked to resume");
            Reply::from_result(replica.resume())
        }
        Request::Drift { accept: None } => Reply::with_body(replica.drift_report().into()),
        Request::Drift { accept: Some(table) } => {
            log::write(Code::OperatorCommand, "Control", &format!("operator accepted that {table} differs"));
            Reply::from_result(replica.accept_drift(&table))
        }
        Request::CheckStore {} => Reply::from_result(check_store(&replica, out)),
        Request::Skip { gtid_set } => {
            log::write(Code::OperatorCommand, "Control", &format!("operator asked to skip {gtid_set}"));
            Reply::from_result(replica::skip::parse(&gtid_set).and_then(|more| replica.skip(&more)))
        }
    })
}

/// Handles requests during an initial copy: there is no store to query yet.
pub(crate) fn of_copy(copy: Arc<CopyInProgress>) -> Handler {
    Arc::new(move |request, _| match request {
        Request::Status {} => status(&copy.status()),
        Request::Stop {} => {
            log::write(Code::OperatorStop, "Control", "operator asked to stop");
            copy.stop();
            Reply::done()
        }
        _ => Reply::failed(&Failure::error("the initial copy is running; try again when it is done")),
    })
}

fn status(report: &observe::StatusReport) -> Reply {
    match serde_json::to_value(report) {
        Ok(body) => Reply::with_body(body),
        Err(error) => Reply::failed(&Failure::error(error.to_string())),
    }
}

/// Compares all rows on disk with what the log says of them, and writes what contradicts it.
fn check_store(replica: &Replica, out: &mut dyn Write) -> Result<(), Failure> {
    let drifted = replica.check_store()?;
    let text = if drifted.is_empty() { "no row contradicts the log\n".to_owned() } else { replica.drift_report() };
    out.write_all(text.as_bytes()).map_err(|error| Failure::output(&error))?;
    match drifted.len() {
        0 => Ok(()),
        count => Err(Failure::new(Exit::VerifyDifferences, format!("tables that differ from the source: {count}"))),
    }
}

/// Copies one table again and writes a line for each step. The copy continues if the client disconnects.
fn copy_table(replica: &Replica, table: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let mut line = |text: &str| {
        // The log has it too; a client that disconnects does not end the copy.
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    };
    let report = replica.copy_table(table, &mut line)?;
    line(&report.to_string());
    Ok(())
}
