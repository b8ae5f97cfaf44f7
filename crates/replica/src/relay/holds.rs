//! Replicas for which served files are kept until they have executed them.
//!
//! In: an operator's list, what replicas say when they ask for the log, what servers answer. Out: which replicas still
//! need a set, a report. Never here: a file; a transaction taken for executed because it was sent; a password in a
//! text.
//!
//! `DIR/holds` keeps the list, of mode 0600 because of passwords. What a replica has executed is not kept: after a
//! start it counts as unknown until the replica says so, or is asked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::periods::ASK_HELD_SERVERS;
use base::{GtidSet, Uuid};
use client::{Connection, ResultSet};
use observe::HeldReport;
use serde::{Deserialize, Serialize};
use serve::ReplicaLine;

use super::begin::is_relays;
use crate::config::ServerOptions;
use crate::exit::{Exit, Failure};
use crate::folder::{Folder, read_small, write_secret};
use crate::log::{self, Code};
use crate::login::for_question;

const FILE: &str = "holds";
/// Interval at which is looked whether to ask, or to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const NAME_CHARS_MAX: usize = 64;

/// A replica for which served files are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    name: String,
    /// In the form of [`Uuid`].
    server_uuid: String,
    /// Where it is asked; None: what it says when it asks for the log counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<ServerOptions>,
}

impl Hold {
    /// From `NAME=UUID`.
    ///
    /// # Errors
    /// Code 2 for a name or a UUID that is none.
    pub fn parse(text: &str, server: Option<ServerOptions>) -> Result<Hold, Failure> {
        let usage = |what: &str| Failure::usage(format!("'{text}' is not NAME=UUID: {what}"));
        let (name, uuid) = text.split_once('=').ok_or_else(|| usage("there is no ="))?;
        let is_named = !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX;
        if !is_named || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(usage("a name has 1 to 64 characters, and no spaces"));
        }
        let server_uuid: Uuid = uuid.parse().map_err(|error: base::GtidError| usage(&error.to_string()))?;
        Ok(Hold { name: name.to_owned(), server_uuid: server_uuid.to_string(), server })
    }
}

/// The replica in words.
fn shown(hold: &Hold) -> String {
    format!("{} ({})", hold.name, hold.server_uuid)
}

fn path(folder: &Folder) -> PathBuf {
    folder.path().join(FILE)
}

/// The list of a stopped folder, which must be one that serves.
fn load_stopped(folder: &Folder) -> Result<Vec<Hold>, Failure> {
    if !is_relays(folder) && !folder.served_start().exists() {
        let text = format!("{} is neither a relay's data folder, nor that of a replica with", folder.path().display());
        return Err(Failure::usage(format!("{text} --serve-log")));
    }
    load(folder)
}

fn load(folder: &Folder) -> Result<Vec<Hold>, Failure> {
    let path = path(folder);
    let Some(text) = read_small(&path)? else { return Ok(Vec::new()) };
    serde_json::from_str(&text).map_err(|error| {
        // Not its text, which may have a password.
        let (line, column) = (error.line(), error.column());
        let text = format!("{}: line {line}, column {column}: not what slipstream relay hold keeps", path.display());
        Failure::new(Exit::Corrupt, text)
    })
}

fn keep(folder: &Folder, holds: &[Hold]) -> Result<(), Failure> {
    let text = serde_json::to_string(holds).map_err(|error| Failure::error(error.to_string()))?;
    write_secret(&path(folder), text.as_bytes())
}

/// The list with one more, which replaces that of its name.
fn with(mut holds: Vec<Hold>, hold: &Hold) -> Result<Vec<Hold>, Failure> {
    holds.retain(|kept| kept.name != hold.name);
    if let Some(same) = holds.iter().find(|kept| kept.server_uuid == hold.server_uuid) {
        return Err(Failure::error(format!("files are kept for this replica already, as {}", shown(same))));
    }
    holds.push(hold.clone());
    Ok(holds)
}

fn without(mut holds: Vec<Hold>, name: &str) -> Result<Vec<Hold>, Failure> {
    let before = holds.len();
    holds.retain(|kept| kept.name != name);
    if holds.len() == before {
        return Err(Failure::error(format!("no files are kept for a replica named {name}")));
    }
    Ok(holds)
}

fn said_added(hold: &Hold) -> String {
    format!("served files are kept until {} has executed them", shown(hold))
}

fn said_removed(name: &str) -> String {
    format!("served files are no longer kept for {name}")
}

/// Adds a hold to a stopped relay's list, durably; returns what there is to say. The caller holds the folder's lock.
///
/// # Errors
/// Code 1 if the replica has another name there; 2 for a replica's folder; 7 for a damaged file; 8 for disk errors.
pub fn add_stopped(folder: &Folder, hold: &Hold) -> Result<String, Failure> {
    keep(folder, &with(load_stopped(folder)?, hold)?)?;
    Ok(said_added(hold))
}

/// Removes the hold of this name from a stopped relay's list, durably.
///
/// # Errors
/// Code 1 if there is none; else as [`add_stopped`].
pub fn remove_stopped(folder: &Folder, name: &str) -> Result<String, Failure> {
    keep(folder, &without(load_stopped(folder)?, name)?)?;
    Ok(said_removed(name))
}

/// The holds of a stopped relay. What the replicas have executed is not known then.
///
/// # Errors
/// As [`add_stopped`].
pub fn list_stopped(folder: &Folder) -> Result<Vec<HeldReport>, Failure> {
    Ok(load_stopped(folder)?.iter().map(|hold| report(hold, None)).collect())
}

fn report(hold: &Hold, known: Option<&Known>) -> HeldReport {
    HeldReport {
        name: hold.name.clone(),
        server_uuid: hold.server_uuid.clone(),
        server: hold.server.as_ref().map(ServerOptions::shown),
        executed: known.and_then(|known| known.executed.as_ref()).map(GtidSet::to_string),
        lacks: None,
        keeps_from: None,
        error: known.and_then(|known| known.error.clone()),
    }
}

/// What is known of a replica.
#[derive(Clone, Debug, Default)]
struct Known {
    executed: Option<GtidSet>,
    /// Number of the dump whose set was taken.
    dump: u64,
    /// Why it cannot be asked.
    error: Option<String>,
    asked: Option<Instant>,
}

/// The holds of a running relay.
pub(crate) struct Holds {
    folder: Folder,
    state: Mutex<State>,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    holds: Vec<Hold>,
    known: BTreeMap<String, Known>,
}

impl Holds {
    /// Those of the folder.
    pub(crate) fn open(folder: &Folder) -> Result<Arc<Holds>, Failure> {
        let state = State { holds: load(folder)?, known: BTreeMap::new() };
        Ok(Arc::new(Holds { folder: folder.clone(), state: Mutex::new(state), stop: AtomicBool::new(false) }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a hold, durably; returns what there is to say.
    pub(crate) fn add(&self, hold: &Hold) -> Result<String, Failure> {
        let mut state = self.lock();
        let holds = with(state.holds.clone(), hold)?;
        keep(&self.folder, &holds)?;
        // Asked at once, even if it was asked elsewhere before.
        state.known.entry(hold.server_uuid.clone()).and_modify(|known| (known.asked, known.error) = (None, None));
        state.holds = holds;
        Ok(said_added(hold))
    }

    /// Removes the hold of this name, durably; returns what there is to say.
    pub(crate) fn remove(&self, name: &str) -> Result<String, Failure> {
        let mut state = self.lock();
        let holds = without(state.holds.clone(), name)?;
        keep(&self.folder, &holds)?;
        state.holds = holds;
        Ok(said_removed(name))
    }

    /// Takes note of what connected replicas had when they asked for the log.
    pub(crate) fn note(&self, replicas: &[ReplicaLine]) {
        let mut state = self.lock();
        for line in replicas {
            let Some(executed) = &line.executed else { continue };
            let Ok(server_uuid) = line.server_uuid.parse::<Uuid>() else { continue };
            let known = state.known.entry(server_uuid.to_string()).or_default();
            if line.dump > known.dump {
                (known.dump, known.executed) = (line.dump, Some(executed.clone()));
            }
        }
        // Others are forgotten, so that clients with ever new names take no memory.
        let State { holds, known } = &mut *state;
        known.retain(|uuid, _| holds.iter().any(|hold| hold.server_uuid == *uuid));
    }

    /// The replicas that have not executed all of `set`, as far as is known, in words.
    pub(crate) fn lacking(&self, set: &GtidSet) -> Vec<String> {
        let state = self.lock();
        let has = |hold: &Hold| state.known.get(&hold.server_uuid)?.executed.as_ref().map(|own| set.is_subset_of(own));
        state.holds.iter().filter(|hold| has(hold) != Some(true)).map(shown).collect()
    }

    /// What is kept for whom; `files` are the served files with their GTIDs, `all` those of the whole served log.
    pub(crate) fn report(&self, files: &[(String, GtidSet)], all: &GtidSet) -> Vec<HeldReport> {
        let state = self.lock();
        let one = |hold: &Hold| {
            let known = state.known.get(&hold.server_uuid);
            let executed = known.and_then(|known| known.executed.as_ref());
            let lacks = |set: &GtidSet| executed.is_none_or(|executed| !set.is_subset_of(executed));
            HeldReport {
                lacks: executed.map(|executed| all.subtract(executed).count()),
                keeps_from: files.iter().find(|(_, set)| lacks(set)).map(|(name, _)| name.clone()),
                ..report(hold, known)
            }
        };
        state.holds.iter().map(one).collect()
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Asks servers on a thread of its own, until it is told to stop. Without the thread, what replicas say when they
    /// ask for the log counts.
    pub(crate) fn ask_servers(self: &Arc<Self>) {
        let holds = Arc::clone(self);
        let run = move || {
            while !holds.stop.load(Ordering::Acquire) {
                holds.ask_due();
                std::thread::sleep(LOOK_EVERY);
            }
        };
        // Not joined: it ends within the time of one question.
        let _ = std::thread::Builder::new().name("holds".into()).spawn(run);
    }

    fn ask_due(&self) {
        let due: Vec<(Hold, ServerOptions)> = {
            let state = self.lock();
            let asked = |hold: &Hold| state.known.get(&hold.server_uuid).and_then(|known| known.asked);
            let is_due = |hold: &&Hold| asked(hold).is_none_or(|at| at.elapsed() >= ASK_HELD_SERVERS.get());
            let due = state.holds.iter().filter(is_due);
            due.filter_map(|hold| Some((hold.clone(), hold.server.clone()?))).collect()
        };
        for (hold, server) in due {
            let answer = ask(&server, &hold.server_uuid);
            let mut state = self.lock();
            let known = state.known.entry(hold.server_uuid.clone()).or_default();
            known.asked = Some(Instant::now());
            match answer {
                Ok(executed) => (known.executed, known.error) = (Some(executed), None),
                Err(why) if known.error.is_none() => {
                    known.error = Some(why.clone());
                    drop(state);
                    let text = format!(
                        "{} cannot be asked for its executed set, so served files are kept for it: {why}",
                        shown(&hold)
                    );
                    log::write(Code::HeldNotAsked, "Stamp", &text);
                }
                Err(why) => known.error = Some(why),
            }
        }
    }
}

/// What a server has executed.
fn ask(server: &ServerOptions, server_uuid: &str) -> Result<GtidSet, String> {
    let options = for_question(server.connect_options().map_err(|failure| failure.text)?);
    let text = |error: client::ClientError| error.to_string();
    let mut connection = Connection::connect(&options).map_err(text)?;
    let answer = connection.query(EXECUTED).map_err(text)?;
    executed_in(&answer, &server.shown(), server_uuid)
}

const EXECUTED: &str = "SELECT @@GLOBAL.server_uuid, @@GLOBAL.gtid_executed";

fn executed_in(answer: &ResultSet, server: &str, server_uuid: &str) -> Result<GtidSet, String> {
    let text = |error: client::ClientError| error.to_string();
    let uuid: Uuid = answer.told(0, 0, EXECUTED).map_err(text)?;
    if uuid.to_string() != server_uuid {
        return Err(format!("{server} has server_uuid {uuid}"));
    }
    answer.told(0, 1, EXECUTED).map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Tag;

    const ONE: &str = "aaaaaaaa-0000-0000-0000-000000000001";
    const TWO: &str = "aaaaaaaa-0000-0000-0000-000000000002";

    fn relay_folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(&dir.path().join("relay")).unwrap();
        std::fs::write(folder.relay_start(), "").unwrap();
        (dir, folder)
    }

    fn hold(text: &str) -> Hold {
        Hold::parse(text, None).unwrap()
    }

    fn set(last: u64) -> GtidSet {
        let mut set = GtidSet::new();
        set.add_range(Uuid([7; 16]), Tag::EMPTY, 1, last);
        set
    }

    fn line(uuid: &str, dump: u64, executed: Option<GtidSet>) -> ReplicaLine {
        ReplicaLine { server_uuid: uuid.to_owned(), dump, executed, ..ReplicaLine::default() }
    }

    #[test]
    fn names_and_uuids_are_checked() {
        for wrong in ["", "a", "=", "a=", "a=b", &format!("={ONE}"), &format!("a b={ONE}")] {
            assert_eq!(Hold::parse(wrong, None).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
        assert_eq!(hold(&format!("a={}", ONE.to_uppercase())), hold(&format!("a={ONE}")));
    }

    #[test]
    fn the_list_is_kept_in_the_folder_and_only_its_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let (_dir, folder) = relay_folder();
        let server = ServerOptions::from_url("mysql://u:secret@h:3306");
        add_stopped(&folder, &Hold::parse(&format!("a={ONE}"), Some(server)).unwrap()).unwrap();
        add_stopped(&folder, &hold(&format!("b={TWO}"))).unwrap();
        let mode = std::fs::metadata(path(&folder)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(add_stopped(&folder, &hold(&format!("c={TWO}"))).unwrap_err().text.contains("as b ("));
        let holds = Holds::open(&folder).unwrap();
        let listed = list_stopped(&folder).unwrap();
        assert_eq!(listed.iter().map(|held| held.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(!format!("{listed:?}").contains("secret"));
        // A name that is there gets the other replica.
        assert!(holds.add(&hold(&format!("b={ONE}"))).is_err());
        holds.remove("a").unwrap();
        holds.add(&hold(&format!("b={ONE}"))).unwrap();
        assert!(holds.remove("a").is_err() && remove_stopped(&folder, "a").is_err());
        let kept = list_stopped(&folder).unwrap();
        assert_eq!(kept.iter().map(|held| held.server_uuid.as_str()).collect::<Vec<_>>(), [ONE]);
        std::fs::write(path(&folder), "[{").unwrap();
        assert_eq!(list_stopped(&folder).unwrap_err().exit, Exit::Corrupt);
        std::fs::remove_file(folder.relay_start()).unwrap();
        assert_eq!(list_stopped(&folder).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_server_that_does_not_say_who_it_is_has_executed_nothing() {
        let answer = |uuid: Option<&str>, executed: Option<&str>| {
            let row = [uuid, executed].map(|text| text.map(|text| text.into())).to_vec();
            executed_in(&ResultSet { rows: vec![row], ..ResultSet::default() }, "h:3306", ONE)
        };
        assert_eq!(answer(Some(&ONE.to_uppercase()), Some("")).unwrap(), GtidSet::new());
        assert_eq!(answer(Some(ONE), Some(&set(3).to_string())).unwrap(), set(3));
        assert!(answer(Some(TWO), Some("")).unwrap_err().contains(TWO));
        for (uuid, executed) in [(None, Some("")), (Some("x"), Some("")), (Some(ONE), None), (Some(ONE), Some("x"))] {
            let why = answer(uuid, executed).unwrap_err();
            assert!(why.contains("@@GLOBAL.server_uuid"), "{why}");
        }
    }

    #[test]
    fn what_a_replica_has_is_what_it_said_last() {
        let (_dir, folder) = relay_folder();
        let holds = Holds::open(&folder).unwrap();
        assert!(holds.lacking(&set(1)).is_empty(), "nobody is waited for");
        holds.add(&hold(&format!("a={ONE}"))).unwrap();
        assert_eq!(holds.lacking(&set(1)), [format!("a ({ONE})")], "unknown is not executed");
        holds.note(&[line(ONE, 0, None), line(TWO, 7, Some(set(9)))]);
        assert_eq!(holds.lacking(&set(1)).len(), 1);
        holds.note(&[line(ONE, 2, Some(set(5)))]);
        assert!(holds.lacking(&set(5)).is_empty() && holds.lacking(&set(6)).len() == 1);
        // It was restored from a backup; its earlier connection has not ended here.
        holds.note(&[line(ONE, 3, Some(set(2))), line(ONE, 2, Some(set(5)))]);
        assert_eq!(holds.lacking(&set(5)).len(), 1);
        let files = [("one".to_owned(), set(2)), ("two".to_owned(), set(8).subtract(&set(2)))];
        let report = &holds.report(&files, &set(8))[0];
        assert_eq!((report.lacks, report.keeps_from.as_deref()), (Some(6), Some("two")));
        holds.remove("a").unwrap();
        assert!(holds.lacking(&set(9)).is_empty());
    }
}
