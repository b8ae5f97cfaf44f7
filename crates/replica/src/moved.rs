//! `moved`: what a move to another source leaves to be verified.
//!
//! In: refusals of a source that lacks our GTIDs, the first connection to another server, the store. Out: tables whose
//! rows are to be verified, whether every change is checked. Never here: a move that is allowed or refused; a row read.
//!
//! A server that became the source may lack transactions of the one before it. Their GTIDs can be committed empty
//! there, and then no GTID set shows that rows differ. The source proves that it has them if its log has the newest
//! transaction that we received, as the server before committed it: a replica receives a log in order. Without that
//! proof every change is checked ([`apply::ApplyOptions::checks_all`]) until all that the store held at the move has
//! been merged, where what the log says is compared with every row (`store::Expected`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{GtidSet, Uuid};
use binlog::reader::BinlogFile;
use binlog::{BinlogError, ParsedEvent, event_type};
use catalog::{Catalog, ReplicationFilters, TableDef, TableId};
use observe::MovesReport;
use relay_log::LogPart;
use serde::{Deserialize, Serialize};
use store::Store;

use crate::exit::{Exit, Failure};
use crate::failure::shown_set;
use crate::folder::{read_small, removal, write_atomically};
use crate::log::{self, Code};
use crate::witness::Witness;

const FILE: &str = "moved";
/// Uncompressed events of one transaction that are looked at, bytes.
const PAYLOAD_BYTES_MAX: u64 = 256 << 20;

/// What a move to another source leaves to be verified.
pub(crate) struct Moves {
    path: PathBuf,
    kept: Mutex<Kept>,
    checks_all: Arc<AtomicBool>,
    /// The last move that was looked at in this run.
    looked_at: Mutex<Option<(Witness, Uuid)>>,
}

/// Content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Kept {
    /// GTIDs that a source lacked, and was refused for.
    lost: String,
    /// Database and name of tables that they changed, as the log has them, until they are found in the catalog.
    names: BTreeSet<(String, String)>,
    /// Ids of tables that they changed.
    tables: BTreeSet<u32>,
    /// Those GTIDs of them that changed tables which are not known.
    unknown: String,
    unproven: Option<Unproven>,
}

/// A move that nothing proves complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unproven {
    /// server_uuid of the source before, and of the one since.
    from: String,
    to: String,
    /// GTIDs received before the move.
    received: String,
    /// Number of the store's newest file once it had all rows of these GTIDs; None before that.
    newest_file: Option<u64>,
    /// Number of the last transaction of these GTIDs here, in this run; None before it is visible.
    #[serde(skip)]
    sequence: Option<u64>,
}

impl Moves {
    /// # Errors
    /// Code 7 if the file is damaged; 8 for disk errors.
    pub(crate) fn open(data: &Path) -> Result<Moves, Failure> {
        let path = data.join(FILE);
        let damaged = || {
            let text = format!("{}: not what a move to another source left there", path.display());
            Failure::new(Exit::Corrupt, text)
                .with_hint(removal(&path, "then slipstream verify tells which rows differ"))
        };
        let kept: Kept = match read_small(&path)? {
            Some(text) => serde_json::from_str(&text).map_err(|_| damaged())?,
            None => Kept::default(),
        };
        let sets = [Some(&kept.lost), Some(&kept.unknown), kept.unproven.as_ref().map(|unproven| &unproven.received)];
        if sets.into_iter().flatten().any(|set| set.parse::<GtidSet>().is_err()) {
            return Err(damaged());
        }
        let checks_all = Arc::new(AtomicBool::new(kept.unproven.is_some()));
        Ok(Moves { path, kept: Mutex::new(kept), checks_all, looked_at: Mutex::default() })
    }

    /// True while every change is checked.
    pub(crate) fn checks_all(&self) -> &Arc<AtomicBool> {
        &self.checks_all
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the file's content, durably if it changes.
    fn change(&self, change: impl FnOnce(&mut Kept)) -> Result<(), Failure> {
        let mut kept = self.lock();
        let mut next = kept.clone();
        change(&mut next);
        if next != *kept {
            let text = serde_json::to_string(&next).map_err(|error| Failure::error(error.to_string()))?;
            write_atomically(&self.path, text.as_bytes())?;
            *kept = next;
        }
        Ok(())
    }

    /// A source was refused because it lacks `lost`: notes which tables these changed, as far as `parts`, the files of
    /// the relay log, still tell.
    ///
    /// # Errors
    /// The relay log cannot be read, or the file cannot be written.
    pub(crate) fn note_lost(&self, lost: &GtidSet, parts: &[LogPart]) -> Result<(), Failure> {
        let known = || self.lock().lost.parse::<GtidSet>().unwrap_or_default();
        let new = lost.subtract(&known());
        if new.is_empty() {
            return Ok(());
        }
        let found = changed_by(&new, parts).map_err(crate::failure::binlog_failure)?;
        self.change(|kept| {
            let with = |set: &str, more: &GtidSet| {
                let mut set: GtidSet = set.parse().unwrap_or_default();
                set.union_with(more);
                set.to_string()
            };
            kept.lost = with(&kept.lost, &new);
            kept.unknown = with(&kept.unknown, &found.unknown);
            kept.names.extend(found.names);
        })
    }

    /// True if this move was looked at in this run: to a server that comes and goes there are several.
    pub(crate) fn is_known(&self, from: &Witness, to: Uuid) -> bool {
        let looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        looked_at.as_ref().is_some_and(|(was, is)| was == from && *is == to)
    }

    /// The source is another server than the one before, and why nothing proves that it has what was received from
    /// that; None if its log does.
    ///
    /// # Errors
    /// It cannot be kept.
    pub(crate) fn note_move(
        &self,
        from: Witness,
        to: Uuid,
        received: &GtidSet,
        unproven: Option<String>,
    ) -> Result<(), Failure> {
        if let Some(why) = unproven {
            self.check_all_since(&from.server_uuid, &to.to_string(), received, &why)?;
        }
        // Not before: what could not be kept is looked at again.
        *self.looked_at.lock().unwrap_or_else(PoisonError::into_inner) = Some((from, to));
        Ok(())
    }

    fn check_all_since(&self, from: &str, to: &str, received: &GtidSet, why: &str) -> Result<(), Failure> {
        if self.lock().unproven.as_ref().is_some_and(|unproven| unproven.from == from && unproven.to == to) {
            return Ok(());
        }
        let unproven = Unproven {
            from: from.into(),
            to: to.into(),
            received: received.to_string(),
            newest_file: None,
            sequence: None,
        };
        self.change(|kept| kept.unproven = Some(unproven))?;
        self.checks_all.store(true, Ordering::Relaxed);
        let text = format!(
            "the source was the server {from} and is now {to}; nothing proves that it has all transactions that were \
             received before ({why}): every change is checked against its row from here on, as with --check-images=all, \
             until `slipstream check-store` or merges have compared all rows"
        );
        log::write(Code::MoveNotProven, "Source", &text);
        Ok(())
    }

    /// True if nothing is left to be looked at.
    pub(crate) fn is_settled(&self) -> bool {
        let kept = self.lock();
        kept.names.is_empty() && kept.tables.is_empty() && kept.unproven.is_none()
    }

    /// Finds the tables of lost transactions in the catalog, and ends the checks, if they may end, once merges have
    /// compared all rows.
    ///
    /// # Errors
    /// It cannot be kept.
    pub(crate) fn step(
        &self,
        store: &Store,
        catalog: &Catalog,
        filters: &ReplicationFilters,
        may_end: bool,
    ) -> Result<(), Failure> {
        let (mut lost, mut found, mut ended) = (String::new(), Vec::new(), false);
        // Under one lock: the receiver notes refusals and moves meanwhile.
        self.change(|kept| {
            let lower = catalog.lower_case_table_names();
            for (db, name) in std::mem::take(&mut kept.names) {
                let table = catalog.table(filters.rewritten(&db, lower), &name);
                found.extend(table.filter(|table| kept.tables.insert(table.id.0)).map(|table| table.full_name()));
            }
            kept.tables.retain(|id| catalog.table_by_id(TableId(*id)).is_some());
            ended = kept.unproven.as_mut().is_some_and(|unproven| unproven.step(store) && may_end);
            if ended {
                kept.unproven = None;
            }
            lost.clone_from(&kept.lost);
        })?;
        if !found.is_empty() {
            let text = format!("{} changed {}: {VERIFY_THEN_COPY}", one_set(&lost), found.join(", "));
            log::write(Code::TablesToVerify, "Source", &observe::one_line(&text));
        }
        if ended {
            self.checks_all.store(false, Ordering::Relaxed);
            log::write(Code::MoveCompared, "Store", "all rows from before the move to another source were compared");
        }
        Ok(())
    }

    /// Tables to be verified, each with the reason, for status.
    pub(crate) fn to_verify(&self, catalog: &Catalog) -> Vec<String> {
        let kept = self.lock();
        let named = |id: &u32| {
            let name = catalog.table_by_id(TableId(*id))?.full_name();
            Some(format!("{name}: changed by transactions that a source lacked ({})", one_set(&kept.lost)))
        };
        let mut lines: Vec<String> = kept.tables.iter().filter_map(named).collect();
        if !kept.unknown.is_empty() {
            let set = one_set(&kept.unknown);
            lines.push(format!("any table: a source lacked {set}, and the relay log does not tell what they changed"));
        }
        lines
    }

    /// All that is to be shown.
    pub(crate) fn report(&self, catalog: &Catalog) -> MovesReport {
        let to_verify = self.to_verify(catalog);
        let kept = self.lock();
        let unproven = kept.unproven.as_ref().map(|of| format!("the source was {} and is {}", of.from, of.to));
        MovesReport { to_verify, unproven: unproven.unwrap_or_default() }
    }

    /// An operator has verified tables, or with `all` whatever was marked. Returns how many marks that took away.
    ///
    /// # Errors
    /// It cannot be kept.
    pub(crate) fn accept(
        &self,
        catalog: &Catalog,
        all: bool,
        is_meant: impl Fn(&TableDef) -> bool,
    ) -> Result<usize, Failure> {
        let mut taken = 0;
        self.change(|kept| {
            if all && !std::mem::take(&mut kept.unknown).is_empty() {
                taken += 1;
            }
            kept.tables.retain(|id| {
                let meant = catalog.table_by_id(TableId(*id)).is_some_and(|def| all || is_meant(def));
                taken += usize::from(meant);
                !meant
            });
        })?;
        Ok(taken)
    }
}

/// The hint of a refusal by a source that lacks transactions.
pub(crate) const LOST_STAYS: &str = "follow the server that these transactions came from; or, if they are lost for \
    good, commit each empty on the source, slipstream start io, then slipstream verify and slipstream copy for each table \
    that differs (what they changed is still here); or copy everything again: slipstream replica --start-anew";

/// What the operator does about rows that only this replica may have.
pub(crate) const VERIFY_THEN_COPY: &str = "their rows are still here: slipstream verify, then slipstream copy";

fn one_set(set: &str) -> String {
    set.parse::<GtidSet>().map_or_else(|_| set.to_owned(), |set| shown_set(&set))
}

impl Unproven {
    /// Notes the store's newest file once it has all rows of before the move. True once these have been compared.
    fn step(&mut self, store: &Store) -> bool {
        if self.newest_file.is_none() {
            self.look_for_cut(store);
        }
        self.is_settled(store)
    }

    fn look_for_cut(&mut self, store: &Store) {
        if self.sequence.is_none() {
            let received: GtidSet = self.received.parse().unwrap_or_default();
            let visible = store.visibility().current();
            self.sequence = received.is_subset_of(&visible.executed).then_some(visible.sequence.0);
        }
        if self.sequence.is_some_and(|sequence| store.last_cut() >= sequence)
            && let Some(disk) = store.disk()
        {
            self.newest_file = Some(disk.file_numbers().last().copied().unwrap_or(0));
        }
    }

    fn is_settled(&self, store: &Store) -> bool {
        let Some(newest) = self.newest_file else { return false };
        store.disk().is_none_or(|disk| disk.is_merged_up_to(newest))
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Changed {
    names: BTreeSet<(String, String)>,
    /// GTIDs that are in no file, or changed something in another way than by rows.
    unknown: GtidSet,
}

/// Which tables transactions changed, by the files of a log, newest first: lost transactions were received last.
fn changed_by(gtids: &GtidSet, parts: &[LogPart]) -> Result<Changed, BinlogError> {
    let (mut changed, mut found) = (Changed::default(), GtidSet::new());
    for part in parts.iter().rev() {
        if gtids.is_subset_of(&found) {
            break;
        }
        look_through(part, gtids, &mut found, &mut changed)?;
    }
    changed.unknown.union_with(&gtids.subtract(&found));
    Ok(changed)
}

fn look_through(
    part: &LogPart,
    gtids: &GtidSet,
    found: &mut GtidSet,
    changed: &mut Changed,
) -> Result<(), BinlogError> {
    let mut file = BinlogFile::open(&part.path)?.without_verification();
    let mut current = None;
    while file.position().offset < part.len {
        let Some(event) = file.next_event()? else { break };
        let kind = event.header.event_type;
        if matches!(kind, event_type::GTID | event_type::GTID_TAGGED | event_type::ANONYMOUS_GTID) {
            let gtid = match ParsedEvent::parse(&event.header, event.body()?)? {
                ParsedEvent::Gtid(event) => event.gtid,
                _ => None,
            };
            current = gtid.filter(|gtid| gtids.contains(gtid));
            if let Some(gtid) = &current {
                found.add(*gtid);
            }
            continue;
        }
        let Some(gtid) = &current else { continue };
        let is_known = match ParsedEvent::parse(&event.header, event.body()?)? {
            ParsedEvent::TransactionPayload(payload) => {
                let mut events = payload.events(PAYLOAD_BYTES_MAX)?;
                let mut all = true;
                while let Some((header, body)) = events.next()? {
                    all &= note(&ParsedEvent::parse(&header, body)?, &mut changed.names);
                }
                all
            }
            event => note(&event, &mut changed.names),
        };
        if !is_known {
            changed.unknown.add(*gtid);
        }
    }
    Ok(())
}

/// Notes the table of an event. False if the event changes what only its statement tells.
fn note(event: &ParsedEvent<'_>, names: &mut BTreeSet<(String, String)>) -> bool {
    match event {
        ParsedEvent::TableMap(map) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            names.insert((text(map.db), text(map.table)));
            true
        }
        ParsedEvent::Query(query) => binlog::QueryKind::of(query.sql).is_control(),
        ParsedEvent::ExecuteLoadQuery(_) => false,
        _ => true,
    }
}
