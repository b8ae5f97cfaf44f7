//! `slipstream relay hold`: replicas for which served files are kept until they have executed them.
//!
//! In: flags. Out: a change of the list, by the running process or in the stopped folder; the list. Never here: what a
//! replica has executed (crate `replica`).

use std::io::Write;
use std::path::Path;

use observe::HeldReport;
use replica::holds::{self, Hold};
use replica::{
    Failure, Folder, Serving, access,
    log::{self, Code},
};
use serde::{Deserialize, Serialize};

use crate::cli::RelayHoldFlags;
use crate::control::{Client, Request};
use crate::settings::Settings;

/// A change of the list, or a question about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum HoldRequest {
    /// Keeps files for a replica.
    Add { hold: Box<Hold> },
    /// Keeps none for it any more.
    Remove { name: String },
    /// Returns all as the reply's body, a list of [`HeldReport`].
    List {},
}

fn body(reports: &[HeldReport]) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(reports).map_err(|error| Failure::error(error.to_string()))
}

/// Carries out a request; returns the list, or a sentence that says what was done.
///
/// # Errors
/// Code 1 for a hold that is there already or not there; 8 for disk errors.
pub(crate) fn perform(serving: &Serving, request: &HoldRequest) -> Result<serde_json::Value, Failure> {
    let done = match request {
        HoldRequest::List {} => {
            return body(&serving.held());
        }
        HoldRequest::Add { hold } => serving.add_hold(hold)?,
        HoldRequest::Remove { name } => serving.remove_hold(name)?,
    };
    log::write(Code::OperatorCommand, "Control", &format!("operator's command: {done}"));
    Ok(done.into())
}

/// As [`perform`], in the folder of a stopped relay.
fn perform_stopped(data: &Path, group: access::Access, request: &HoldRequest) -> Result<serde_json::Value, Failure> {
    // Must not create a folder that is absent, and must not touch one that is not ours.
    Folder::check(data)?;
    access::set_umask(group);
    Ok(match request {
        HoldRequest::List {} => {
            let (folder, _lock) = Folder::open_stopped(data)?;
            return body(&holds::list_stopped(&folder)?);
        }
        HoldRequest::Add { hold } => {
            let (folder, _lock) = Folder::own(data)?;
            holds::add_stopped(&folder, hold)?
        }
        HoldRequest::Remove { name } => {
            let (folder, _lock) = Folder::own(data)?;
            holds::remove_stopped(&folder, name)?
        }
    }
    .into())
}

/// Runs the command.
///
/// # Errors
/// As [`perform`]; code 2 for a replica's folder; 3 if a process has the folder and does not answer.
pub(crate) fn run(settings: &Settings, flags: &RelayHoldFlags, out: &mut dyn Write) -> Result<(), Failure> {
    let data = settings.data()?;
    let server = flags.replica.as_deref().map(|url| settings.server(url));
    // A wrong URL is told before it is kept.
    server.as_ref().map(|server| server.connect_options()).transpose()?;
    let request = match (&flags.hold, &flags.remove) {
        (Some(text), _) => HoldRequest::Add { hold: Box::new(Hold::parse(text, server)?) },
        (None, Some(name)) => HoldRequest::Remove { name: name.clone() },
        (None, None) => HoldRequest::List {},
    };
    let answer = match Client::connect(&data)? {
        Some(client) => client.ask(&Request::Hold { hold: request.clone() }, &mut std::io::sink())?.unwrap_or_default(),
        None => perform_stopped(&data, settings.access(), &request)?,
    };
    let failed = |error: std::io::Error| Failure::output(&error);
    if let Some(done) = answer.as_str() {
        return writeln!(out, "{done}").map_err(failed);
    }
    if flags.json {
        return writeln!(out, "{answer:#}").map_err(failed);
    }
    let held: Vec<HeldReport> =
        serde_json::from_value(answer).map_err(|error| Failure::error(format!("the relay's list: {error}")))?;
    if held.is_empty() {
        return writeln!(out, "served files are not kept for any particular replica").map_err(failed);
    }
    held.iter().try_for_each(|held| writeln!(out, "{held}")).map_err(failed)
}
