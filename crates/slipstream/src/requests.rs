//! Handler of control socket requests, in every phase of the engine.

use std::io::Write;
use std::sync::{Arc, Mutex};

use accounts::Accounts;
use engine::orders::{self, named, until_text};
use engine::{Engine, ReplicaThread};
use replica::{
    Exit, Failure, Replica,
    log::{self, Code},
};

use crate::account;
use crate::backup;
use crate::control::{Handler, Reply, Request, Until};
use crate::reading;
use crate::relay_hold;

/// Handles requests to the engine's replica.
pub(crate) fn of_engine(engine: Arc<Engine>, accounts: Arc<Accounts>) -> Handler {
    // Only one verify at a time, because it blocks publishing for a moment.
    let verifying = Mutex::new(());
    Arc::new(move |request, out| match request {
        Request::Status {} => status(&engine.status()),
        Request::Stop { thread: None } => {
            log::write(Code::OperatorStop, "Control", "operator asked to stop");
            engine.stop();
            Reply::done()
        }
        Request::Stop { thread: Some(thread) } => {
            log::write(Code::OperatorCommand, "Control", &format!("operator asked to stop {}", named(Some(thread))));
            Reply::from_result(engine.stop_thread(thread))
        }
        Request::Start { thread, until } => {
            let about = until.as_ref().map(|until| until_text(&until.0)).unwrap_or_default();
            log::write(Code::OperatorCommand, "Control", &format!("operator asked to start {}{about}", named(thread)));
            Reply::from_result(started(&engine, thread, until))
        }
        Request::Execute { statement } => match orders::parse(&statement) {
            Err(error) => Reply::failed(&Failure::usage(orders::error_text(&error))),
            Ok(order) => {
                orders::log_operators(&order);
                match orders::carried_out(&engine, order) {
                    Ok(text) => Reply::with_body(text.into()),
                    Err(error) => Reply::failed(&Failure::error(orders::error_text(&error))),
                }
            }
        },
        Request::Reload {} => {
            log::write(Code::OperatorCommand, "Control", "operator asked to read the option files again");
            engine.reload().map_or_else(|failure| Reply::failed(&failure), |text| Reply::with_body(text.into()))
        }
        Request::Hold { hold } => match engine.serving().and_then(|serving| relay_hold::perform(&serving, &hold)) {
            Ok(body) => Reply::with_body(body),
            Err(failure) => Reply::failed(&failure),
        },
        Request::Pause {} => {
            log::write(Code::OperatorCommand, "Control", "operator asked to pause");
            Reply::from_result(engine.stop_thread(ReplicaThread::Sql))
        }
        Request::Resume {} => {
            log::write(Code::OperatorCommand, "Control", "operator asked to resume");
            Reply::from_result(engine.resume())
        }
        Request::Account { account } => match account::perform_logged(&accounts, &account) {
            Ok(body) => Reply { body, ..Reply::done() },
            Err(failure) => Reply::failed(&failure),
        },
        request => {
            let answered = engine.replica().map(|replica| of_replica(&replica, request, &verifying, out));
            answered.unwrap_or_else(|failure| Reply::failed(&failure))
        }
    })
}

/// Starts threads. A condition needs replay that is stopped.
fn started(engine: &Engine, thread: Option<ReplicaThread>, until: Option<Until>) -> Result<(), Failure> {
    if until.is_some() && engine.engine_status().replay.state.as_mysql() == "Yes" {
        return Err(Failure::error("replay is running, so a condition would not apply")
            .with_hint("slipstream stop sql, then start with the condition"));
    }
    engine.start_threads(thread, until.map(|until| until.0))
}

/// Handles requests that need a replica.
fn of_replica(replica: &Arc<Replica>, request: Request, verifying: &Mutex<()>, out: &mut dyn Write) -> Reply {
    match request {
        Request::Status {}
        | Request::Stop { .. }
        | Request::Start { .. }
        | Request::Reload {}
        | Request::Execute { .. }
        | Request::Pause {}
        | Request::Resume {}
        | Request::Hold { .. }
        | Request::Account { .. } => Reply::done(),
        Request::Verify(options) => match verifying.try_lock() {
            Ok(_alone) => Reply::from_result(reading::verify(replica, &options, out)),
            Err(_) => {
                Reply::failed(&Failure::error("another verify is running on this replica; try again when it is done"))
            }
        },
        Request::Copy { table } => {
            log::write(Code::OperatorCommand, "Control", &format!("operator asked to copy {table}"));
            Reply::from_result(copy_table(replica, &table, out))
        }
        Request::Dump(options) => Reply::from_result(reading::dump(replica, &options, out)),
        Request::Backup(request) => {
            let text = format!("operator asked for a backup{}", if request.accounts { " with accounts" } else { "" });
            log::write(Code::OperatorCommand, "Control", &text);
            match replica.backup(&backup::options(&request), out).map(serde_json::to_value) {
                Ok(Ok(report)) => Reply::with_body(report),
                Ok(Err(error)) => Reply::failed(&Failure::error(error.to_string())),
                Err(failure) => Reply::failed(&failure),
            }
        }
        Request::Drift { accept: None } => Reply::with_body(replica.drift_report().into()),
        Request::Drift { accept: Some(table) } => {
            log::write(Code::OperatorCommand, "Control", &format!("operator accepted that {table} differs"));
            Reply::from_result(replica.accept_drift(&table))
        }
        Request::CheckStore {} => Reply::from_result(check_store(replica, out)),
        Request::Skip { gtid_set } => {
            log::write(Code::OperatorCommand, "Control", &format!("operator asked to skip {gtid_set}"));
            match replica::skip::parse(&gtid_set).and_then(|more| replica.skip(&more)) {
                Ok(Some(warning)) => Reply::with_body(warning.into()),
                result => Reply::from_result(result.map(|_| ())),
            }
        }
        Request::UndoSkip { gtid_set } => {
            log::write(Code::OperatorCommand, "Control", &format!("operator asked not to skip {gtid_set}"));
            Reply::from_result(replica::skip::parse(&gtid_set).and_then(|less| replica.undo_skip(&less)))
        }
        Request::SkipList {} => match serde_json::to_value(replica.skip_list()) {
            Ok(body) => Reply::with_body(body),
            Err(error) => Reply::failed(&Failure::error(error.to_string())),
        },
    }
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
