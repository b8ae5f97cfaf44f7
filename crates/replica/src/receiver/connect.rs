//! Connects to a source, and checks that it may be followed from here.
//!
//! In: options for one try, the GTIDs in the relay log. Out: a connection to a source that may be followed, facts about
//! it in [`Link`] and in their file. Never here: a dump, a retry.

use std::path::PathBuf;
use std::sync::Arc;

use base::{GtidSet, Uuid};
use client::{ConnectOptions, Connection, SslMode};
use observe::{ConnectionState, now_us};
use relay_log::RelayShared;
use source::group;
use source::history::{self, Past};
use source::preflight::{self, PreflightInput, PreflightReport, Severity};

use super::choice::Try;
use super::link::{Link, SourceState};
use super::view::View;
use crate::config::ReplicaConfig;
use crate::exit::{Exit, Failure};
use crate::failure::{SourceTrouble as Trouble, preflight_failure, trouble};
use crate::folder::Folder;
use crate::log::{self, Code};
use crate::moved::LOST_STAYS;
use crate::source_facts::{self, FACTS_FILE, ServerBefore, SourceFacts, SourceSettings};
use crate::witness::Witness;

/// Begins the text of a failure for a source that has another history than the one that was received.
pub const SOURCE_WAS_RESET: &str =
    "the source's history is not the one that was received: RESET BINARY LOGS AND GTIDS, or an older backup";

/// A connection to a source that may be followed.
pub(super) struct Connected {
    pub connection: Connection,
    /// What it says of its group; None if it is in none, or does not tell.
    pub view: Option<View>,
}

pub(super) struct Connector {
    link: Arc<Link>,
    relay: Arc<RelayShared>,
    pub server_id: u32,
    pub server_uuid: Uuid,
    data: PathBuf,
    facts_file: PathBuf,
    /// Content of the facts file.
    known_facts: Option<SourceFacts>,
}

impl Connector {
    pub(super) fn new(config: &ReplicaConfig, folder: &Folder, link: &Arc<Link>, relay: Arc<RelayShared>) -> Connector {
        Connector {
            link: Arc::clone(link),
            relay,
            server_id: config.server_id.unwrap_or_else(|| folder.default_server_id()),
            server_uuid: folder.server_uuid(),
            data: config.data.clone(),
            facts_file: folder.path().join(FACTS_FILE),
            known_facts: None,
        }
    }

    /// The facts that were known of the source before it is connected to.
    pub(super) fn read_facts(&mut self) -> Result<Option<SourceFacts>, Failure> {
        self.known_facts = source_facts::read(&self.facts_file)?;
        Ok(self.known_facts.clone())
    }

    /// Stores the source's facts if they changed, and syncs the file. Says so if it is another server.
    pub(super) fn keep_facts(&mut self) -> Result<(), Failure> {
        let facts = {
            let mut state = self.link.lock();
            let facts = &mut state.source.facts;
            let known = self.known_facts.as_ref().map_or("", |known| &known.server_uuid);
            if !known.is_empty() && !facts.server_uuid.is_empty() && known != facts.server_uuid {
                facts.before = Some(ServerBefore { server_uuid: known.to_owned(), until_us: now_us() });
                let text = format!("the source is another server now: server_uuid {known} → {}", facts.server_uuid);
                log::write(Code::SourceReplaced, "Source", &observe::one_line(&text));
            }
            facts.clone()
        };
        if self.known_facts.as_ref() != Some(&facts) {
            source_facts::write(&self.facts_file, &facts)?;
            self.known_facts = Some(facts);
        }
        Ok(())
    }

    /// Connects to another source than the one that is followed, and checks it as [`connect`](Self::connect) does.
    ///
    /// # Errors
    /// Why it may not be followed, or that it cannot be reached.
    pub(super) fn try_source(&self, attempt: &Try, retrieved: &GtidSet) -> Result<(), Failure> {
        let before = {
            let SourceState { connection, facts, tls, log_expires_s, .. } = &self.link.lock().source;
            (*connection, facts.clone(), tls.clone(), *log_expires_s)
        };
        let result = self.connect(attempt, retrieved).map(drop);
        let mut state = self.link.lock();
        let source = &mut state.source;
        (source.connection, source.facts, source.tls, source.log_expires_s) = before;
        result.map_err(Failure::from)
    }

    /// Connects to the source and checks it again: it may be a different one, or have purged in the meantime.
    pub(super) fn connect(&self, attempt: &Try, retrieved: &GtidSet) -> Result<Connected, Trouble> {
        let Try { options, has_others } = attempt;
        self.link.lock().source.connection = ConnectionState::Connecting;
        let mut connection = Connection::connect(options).map_err(|e| trouble(&e))?;
        let input = PreflightInput {
            server_id: self.server_id,
            uuid: Some(self.server_uuid),
            executed: retrieved,
            retrieved,
            store_empty: retrieved.is_empty(),
            has_others: *has_others,
        };
        let report = preflight::check(&mut connection, input).map_err(|e| trouble(&e))?;
        self.check_names(retrieved, report.facts.lower_case_table_names)?;
        if *has_others && let Some(why) = group::why_unfit(&mut connection).map_err(|e| trouble(&e))? {
            return Err(Trouble::Refused(Failure::error(why)));
        }
        for problem in report.problems.iter().filter(|p| p.severity != Severity::Refused) {
            log::write(Code::PreflightWarning, "Source", &problem.to_string());
        }
        let history = self.check_history(options, &mut connection, retrieved, &report);
        if let Some(failure) = preflight_failure(&report) {
            // One of several may only lag; if it never has them, the move to it is not proven.
            let errant = if *has_others { GtidSet::new() } else { preflight::missing(retrieved, &report.facts) };
            return Err(Trouble::Refused(match history {
                Err(Trouble::Refused(reset)) if reset.exit == Exit::PreflightRefused => {
                    of_reset(reset, &report, &errant)
                }
                _ => self.refusal(failure, retrieved, &errant),
            }));
        }
        history.and(self.link.decided(report.undecided.as_deref()).map_err(Trouble::Again))?;
        self.look_at_move(options, retrieved, &report)?;
        let settings = self.settings(&mut connection)?;
        self.note_source(options, &connection, report, settings);
        let view = match View::ask(&mut connection) {
            Err(error) if error.is_transient() => return Err(trouble(&error)),
            // It tells nothing of a group, or nothing that is understood.
            asked => asked.unwrap_or_default(),
        };
        Ok(Connected { connection, view })
    }

    /// Names that were received under one rule of comparison mean other tables under another.
    fn check_names(&self, retrieved: &GtidSet, lower_case_table_names: u8) -> Result<(), Trouble> {
        let Some(known) = self.known_facts.as_ref().filter(|_| !retrieved.is_empty()) else { return Ok(()) };
        let before = known.lower_case_table_names;
        if before == lower_case_table_names {
            return Ok(());
        }
        let text = format!(
            "lower_case_table_names of the source is {lower_case_table_names}; this replica received names under {before}"
        );
        Err(Trouble::Refused(Failure::new(Exit::PreflightRefused, text)))
    }

    /// The failure for preflight's problems, with a way on.
    fn refusal(&self, mut failure: Failure, retrieved: &GtidSet, errant: &GtidSet) -> Failure {
        if !errant.is_empty() && failure.exit == Exit::PreflightRefused {
            // The refusal stands whether or not its tables can be noted.
            if let Err(not_noted) = self.link.moves.note_lost(errant, &self.relay.parts()) {
                failure.text =
                    format!("{}\nwhich tables these changed could not be noted: {}", failure.text, not_noted.text);
            }
            return failure.with_hint(LOST_STAYS);
        }
        // Not an empty folder, which an initial copy would have filled.
        if failure.exit != Exit::SourcePurged || !retrieved.is_empty() {
            return failure;
        }
        let data = self.data.display();
        failure.with_hint(format!(
            "rm -r {data}/relay-log {data}/store, then the same command: it fills {data} by an initial copy"
        ))
    }

    /// Notes a move to another server, unless that proves that it has what was received before.
    fn look_at_move(
        &self,
        options: &ConnectOptions,
        retrieved: &GtidSet,
        report: &PreflightReport,
    ) -> Result<(), Trouble> {
        let (Some(witness), Some(now)) = (self.link.witness.kept(), report.facts.server_uuid) else {
            return Ok(());
        };
        let Witness { server_uuid, event } = &witness;
        let moves = &self.link.moves;
        let has_it = event.gtid().is_some_and(|gtid| retrieved.contains(&gtid));
        if *server_uuid == now.to_string() || !has_it || moves.is_known(&witness, now) {
            return Ok(());
        }
        let second = Connection::connect(options).map_err(|e| trouble(&e))?;
        let unproven = match history::is_elsewhere(second, event, retrieved).map_err(|e| trouble(&e))? {
            Past::Same => None,
            Past::Other(why) | Past::Unknown(why) => Some(why),
        };
        moves.note_move(witness, now, retrieved, unproven).map_err(Trouble::Fatal)
    }

    /// What of the source changes answers; the last known if it cannot say.
    fn settings(&self, connection: &mut Connection) -> Result<Arc<SourceSettings>, Trouble> {
        match source_facts::settings(connection) {
            // A source that is no server of MySQL's need not know the statement.
            Err(error) if error.server_code().is_some() => {
                let text = format!(
                    "the defaults of the source's sessions cannot be read (SHOW GLOBAL VARIABLES, CONVERT_TZ); the \
                     last ones stay in force: {error}"
                );
                log::write(Code::PreflightWarning, "Source", &text);
                Ok(self.link.source_settings())
            }
            asked => asked.map_err(|e| trouble(&e)),
        }
    }

    /// Notes down what is now known of the source, and says once what is wrong with the connection.
    fn note_source(
        &self,
        options: &ConnectOptions,
        connection: &Connection,
        report: PreflightReport,
        settings: Arc<SourceSettings>,
    ) {
        let facts = report.facts;
        let mut state = self.link.lock();
        let source = &mut state.source;
        source.tls = connection.tls_description();
        let server_uuid = facts.server_uuid.map(|uuid| uuid.to_string()).unwrap_or_default();
        let gave_password = connection.gave_password();
        let not_verified_said = not_verified(options, source.tls.as_deref(), gave_password).map(|text| {
            let said = source.facts.not_verified_said.filter(|_| source.facts.server_uuid == server_uuid);
            if said.is_none_or(|said_of_password| gave_password && !said_of_password) {
                log::write(Code::SourceNotVerified, "Source", &text);
            }
            gave_password || said == Some(true)
        });
        source.facts = SourceFacts {
            version: facts.version,
            server_id: facts.server_id,
            server_uuid,
            lower_case_table_names: facts.lower_case_table_names,
            not_verified_said,
            before: source.facts.before.take(),
            settings,
        };
        source.log_expires_s = facts.log_expires_s;
        if source.facts.settings.lacks_zones() && !std::mem::replace(&mut source.zones_not_read_said, true) {
            log::write(Code::ZonesNotRead, "Source", zones_not_read(&source.facts.settings));
        }
        drop(state);
        if let Some(clock) = facts.clock {
            self.link.note_clock(clock);
        }
    }

    /// Compares what the newest transaction looked like at the source with what the source has there now.
    fn check_history(
        &self,
        options: &ConnectOptions,
        connection: &mut Connection,
        retrieved: &GtidSet,
        report: &PreflightReport,
    ) -> Result<(), Trouble> {
        let Some(Witness { server_uuid, event }) = self.link.witness.kept() else { return Ok(()) };
        let same_server = report.facts.server_uuid.is_some_and(|uuid| uuid.to_string() == server_uuid);
        // What a crash took from the relay log is fetched again from whatever history the source has.
        let Some(gtid) = event.gtid().filter(|gtid| same_server && retrieved.contains(gtid)) else { return Ok(()) };
        let past = match history::listed(connection, &event).map_err(|e| trouble(&e))? {
            Some(past) => past,
            None => {
                let second = Connection::connect(options).map_err(|e| trouble(&e))?;
                history::compare(second, &event).map_err(|e| trouble(&e))?
            }
        };
        let place = format!("{}:{}", event.file, event.offset);
        match past {
            Past::Same => Ok(()),
            Past::Unknown(why) => {
                if !std::mem::replace(&mut self.link.lock().source.history_unknown_said, true) {
                    let text = format!(
                        "{why}, so it cannot be known whether its history is still the one that was received (transaction \
                         {gtid} at {place}); to be sure: slipstream verify"
                    );
                    log::write(Code::HistoryUnknown, "Source", &text);
                }
                Ok(())
            }
            Past::Other(there) => {
                let text = format!(
                    "{SOURCE_WAS_RESET}\n    \
                     received at {place}: {}\n    the source has there: {there}",
                    event.shown()
                );
                let hint = "the source cannot be compared with this replica: slipstream replica --start-anew copies everything \
                            again and keeps the old store aside";
                Err(Trouble::Refused(Failure::new(Exit::PreflightRefused, text).with_number(1236).with_hint(hint)))
            }
        }
    }
}

/// The failure for a source with a history of its own, and what else is wrong with it. That it lacks transactions
/// follows from its history: committed empty, they would hide that its other ones differ too.
fn of_reset(mut reset: Failure, report: &PreflightReport, errant: &GtidSet) -> Failure {
    if !errant.is_empty() {
        reset.text = format!("{}\n    not on the source: {errant}", reset.text);
    }
    for problem in report.refused_beside_gtids() {
        reset.text = format!("{}\n{problem}", reset.text);
    }
    reset
}

fn zones_not_read(settings: &SourceSettings) -> &'static str {
    if settings.zones_too_many {
        "the source's tables mysql.time_zone* have more than 2,000,000 rows, or their zones take more than 64 MiB, \
         and are not kept: clients cannot set named zones; refill these tables with mysql_tzinfo_to_sql, then STOP \
         and START REPLICA"
    } else {
        "the source has time zones with names, but its tables mysql.time_zone* cannot be read: clients cannot set them; \
         GRANT SELECT ON these tables, then STOP and START REPLICA"
    }
}

/// What a login has told a server that nobody has verified; None for one that was verified.
pub(crate) fn not_verified(options: &ConnectOptions, tls: Option<&str>, gave_password: bool) -> Option<String> {
    let mode = match options.ssl_mode {
        SslMode::Preferred => "PREFERRED",
        SslMode::Required => "REQUIRED",
        _ => return None,
    };
    if options.socket.is_some() {
        return None;
    }
    let what = match (tls, gave_password) {
        (Some(_), true) => {
            "the source's certificate is not verified, and the login gave it the password itself: another server could \
             pose as the source and keep it"
        }
        (Some(_), false) => {
            "the source's certificate is not verified: another server could pose as the source, and every login gives the \
             password itself to a server that asks for it"
        }
        (None, true) => {
            "the connection to the source is not encrypted, and the login gave the password to whoever sent a public key"
        }
        (None, false) => "the connection to the source is not encrypted",
    };
    Some(format!("{what} (ssl-mode={mode}); ssl-mode=VERIFY_IDENTITY with source-ssl-ca=FILE prevents that"))
}
