//! `slipstream check`: whether a source can be followed, without following it.
//!
//! In: the configuration of a replica, its relay log if there is one. Out: lines for the operator. Never here: a change
//! of the source or of the data folder.

use std::io::{ErrorKind, Write};
use std::path::Path;

use base::GtidSet;
use binlog::reader::BinlogFile;
use client::{ClientError, Connection};
use relay_log::{RelayError, RelayFiles};
use source::group::Member;
use source::preflight::{self, PreflightInput};

use crate::candidates::Candidates;
use crate::config::{ReplicaConfig, ServerOptions, SourceSpec};
use crate::exit::Failure;
use crate::failure::{binlog_failure, preflight_failure, relay_failure, source_failure};
use crate::receiver::{list_files, not_verified};

/// `slipstream check`: only preflight, against the data folder's GTIDs if there is a folder.
///
/// # Errors
/// Code 4 or 5 if the source would be refused.
pub fn check(config: &ReplicaConfig, out: &mut dyn Write) -> Result<(), Failure> {
    let server = match &config.source {
        SourceSpec::Server(server) => server,
        SourceSpec::Files(path) => {
            for file in list_files(path)? {
                BinlogFile::open(&file).map_err(binlog_failure)?;
                say(out, &format!("{}: a binary log that Slipstream can read", file.display()))?;
            }
            return Ok(());
        }
    };
    let each = server.each()?;
    if let [one] = &each[..] {
        return check_server(config, one, server.finds_members(), out);
    }
    let mut failures = Vec::new();
    for server in &each {
        if let Err(failure) = check_server(config, server, true, out) {
            say(out, &format!("{}: {}", server.shown(), failure.text))?;
            failures.push(failure);
        }
        say(out, "")?;
    }
    let good = each.len() - failures.len();
    say(out, &format!("{good} of {} sources can be followed now", each.len()))?;
    failures.into_iter().next().map_or(Ok(()), Err)
}

fn say(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    writeln!(out, "{text}").map_err(|e| Failure::output(&e))
}

fn check_server(
    config: &ReplicaConfig,
    server: &ServerOptions,
    has_others: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let retrieved = kept_gtids(&config.data.join("relay-log"))?;
    let mut options = server.connect_options()?;
    options.read_timeout = Some(config.read_timeout);
    let failed = |e: ClientError| source_failure(&e);
    let mut connection = Connection::connect(&options).map_err(failed)?;
    let input = PreflightInput {
        server_id: config.server_id.unwrap_or(u32::MAX),
        uuid: None,
        executed: &retrieved,
        retrieved: &retrieved,
        store_empty: retrieved.is_empty(),
        has_others,
    };
    let mut report = preflight::check(&mut connection, input).map_err(failed)?;
    let version = observe::one_line(&report.facts.version);
    say(out, &format!("source   {} version {version}", server.shown()))?;
    say(out, &format!("account  {}", observe::one_line(&report.facts.account)))?;
    say(out, &format!("tls      {}", report.facts.tls.as_deref().unwrap_or("none")))?;
    if let Some(text) = not_verified(&options, report.facts.tls.as_deref(), connection.gave_password()) {
        say(out, &format!("note: {text}"))?;
    }
    let members = say_of_group(&mut connection, has_others, out)?;
    if let SourceSpec::Server(named) = &config.source
        && named.finds_members()
        && let Some(uuid) = report.facts.server_uuid
    {
        for text in Candidates::of(named)?.undialled_beside(&options, &uuid.to_string(), &members) {
            say(out, &format!("note: {text}"))?;
        }
    }
    let needs_copy = retrieved.is_empty() && crate::initial_copy::settle(&mut report, config.copy.when);
    if retrieved.is_empty() && !needs_copy && report.accepted() {
        report.problems.extend(crate::initial_copy::before_log(config, server, &mut connection, &report)?);
    }
    for problem in &report.problems {
        say(out, &problem.to_string())?;
    }
    if has_others && let Some(why) = source::group::why_unfit(&mut connection).map_err(failed)? {
        return Err(Failure::error(why));
    }
    if needs_copy && report.accepted() {
        let (text, problems, failure) = crate::initial_copy::check(config, server, &mut connection, None)?;
        say(out, &text)?;
        for problem in problems {
            say(out, &problem)?;
        }
        failure.map_or(Ok(()), Err)?;
    }
    let needed = source::copy_check::TABLE_COPY_PRIVILEGES;
    let (account, missing) = source::copy_check::missing_privileges(&mut connection, needed).map_err(failed)?;
    if !missing.is_empty() {
        let text = format!(
            "note: copying one table again (slipstream copy, or after a statement that cannot be interpreted) is possible \
             only with {}: {}",
            missing.join(", "),
            source::copy_check::grant_statement(&missing, &account)
        );
        say(out, &text)?;
    }
    match preflight_failure(&report) {
        Some(failure) => Err(failure),
        None => say(out, &report.verdict()),
    }
}

/// What it means that the source is a member of a group; all its members.
fn say_of_group(connection: &mut Connection, has_others: bool, out: &mut dyn Write) -> Result<Vec<Member>, Failure> {
    let failed = |e: ClientError| source_failure(&e);
    if !source::group::is_member(connection).map_err(failed)? {
        return Ok(Vec::new());
    }
    let own = source::group::membership(connection).map_err(failed)?;
    let members = source::group::members(connection).map_err(failed)?;
    let online = members.iter().filter(|member| member.state == "ONLINE").count();
    let primaries = members.iter().filter(|member| member.role == "PRIMARY").count();
    let state = if own.state.is_empty() { "unknown" } else { &own.state };
    let text = format!(
        "group    member of a group: MEMBER_STATE {state}; {online} of {} members ONLINE, {primaries} PRIMARY; {own}",
        members.len()
    );
    say(out, &text)?;
    say(
        out,
        "note: GLOBAL and BOUNDED reads wait for what the group had ordered (group_replication_consistency = BEFORE)",
    )?;
    if !has_others {
        let text = "note: only this member is followed, and when it is lost the replica waits for it; ?group in the URL \
                    follows whichever is alive";
        say(out, text)?;
    }
    Ok(members)
}

/// GTIDs in a relay log; none if its folder does not exist.
fn kept_gtids(folder: &Path) -> Result<GtidSet, Failure> {
    let read = || RelayFiles::open_read_only(folder).map(|(_, recovery)| recovery.retrieved);
    // A running replica may purge a file while it is read.
    let read = match read().or_else(|_| read()) {
        Err(RelayError::Io { path, kind: ErrorKind::NotFound, .. }) if path == folder => return Ok(GtidSet::new()),
        read => read,
    };
    read.map_err(relay_failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn a_damaged_relay_log_is_not_taken_for_none() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("relay-log");
        assert_eq!(kept_gtids(&folder).unwrap(), GtidSet::new());
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(kept_gtids(&folder).unwrap(), GtidSet::new());
        std::fs::write(folder.join("relay-bin.index"), "relay-bin.000001\n").unwrap();
        let missing = kept_gtids(&folder).unwrap_err();
        assert!(missing.text.contains("relay-bin.000001"), "{}", missing.text);
        std::fs::write(folder.join("relay-bin.index"), "of somebody else\n").unwrap();
        assert_eq!(kept_gtids(&folder).unwrap_err().exit, Exit::Corrupt);
    }
}
