//! Definitions that the log alone does not settle: the source is asked how they are.
//!
//! In: the catalog's unsettled definitions, while the source is connected. Out: its answers, in the catalog; words for
//! whoever watches. Never here: rows; a text of a definition in a message.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use catalog::{Catalog, DefinitionKind, SourceNames};

use crate::log::{self, Code};
use crate::login::SourceLogin;
use crate::replica::Replica;

/// A commit can be seen a moment before its GTID is in gtid_executed; no server takes this long between the two.
const SETTLE: Duration = Duration::from_secs(1);
/// Pause after an answer, so that a source is not asked without end about what changes all the time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Pause after the source could not be asked, or the account does not see everything.
const AGAIN_AFTER_TROUBLE: Duration = Duration::from_secs(60);
/// Names in a message.
const NAMES_MAX: usize = 5;

/// What the source is asked by one engine.
#[derive(Default)]
pub(crate) struct AskedDefinitions {
    runs: AtomicBool,
    /// Definitions that were settled so.
    asked: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Not before this moment; None for at once.
    not_before: Option<Instant>,
    /// Why the source could not be asked, as the log has it.
    trouble: String,
}

impl AskedDefinitions {
    /// Definitions about which the source was asked.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Asks the source beside replay, if there is something to ask.
    pub(crate) fn begin(&self, replica: &Arc<Replica>, login: &Arc<SourceLogin>, catalog: &Catalog) {
        if catalog.unsettled_definitions().next().is_none() {
            return;
        }
        let waits = self.lock().not_before.is_some_and(|moment| Instant::now() < moment);
        if waits || self.runs.swap(true, Ordering::AcqRel) {
            return;
        }
        let (of, login, catalog) = (Arc::clone(replica), Arc::clone(login), catalog.clone());
        let run = move || {
            let ended = ask(&of, &login, &catalog);
            let state = &of.upkeep.definitions;
            state.note(ended);
            state.runs.store(false, Ordering::Release);
        };
        if let Err(error) = std::thread::Builder::new().name("ask-source".into()).spawn(run) {
            self.note(Err(format!("cannot start a thread: {error}")));
            self.runs.store(false, Ordering::Release);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, ended: Result<(), String>) {
        let mut state = self.lock();
        let trouble = ended.err().unwrap_or_default();
        let pause = if trouble.is_empty() { AGAIN_AFTER } else { AGAIN_AFTER_TROUBLE };
        state.not_before = Some(Instant::now() + pause);
        if !trouble.is_empty() && state.trouble != trouble {
            let text =
                format!("the source cannot be asked about definitions that are not settled; trying again: {trouble}");
            log::write(Code::DefinitionsNotAsked, "Copy", &text);
        }
        state.trouble = trouble;
    }
}

/// Asks, and hands the answer to replay.
fn ask(replica: &Arc<Replica>, login: &SourceLogin, catalog: &Catalog) -> Result<(), String> {
    let unsettled: Vec<_> = catalog.unsettled_definitions().collect();
    let asked: Vec<(DefinitionKind, String, String)> =
        unsettled.iter().map(|one| (one.kind, one.db.clone(), one.name.clone())).collect();
    let named: Vec<String> = asked.iter().take(NAMES_MAX).map(name).collect();
    let more = asked.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = format!("{}{more}", named.join(", "));
    let count = asked.len() as u64;
    let names = SourceNames {
        filters: Arc::clone(&replica.replay.pipeline.decode_options().filters),
        lower_case_table_names: catalog.lower_case_table_names(),
    };
    let question = copy::Question { about: asked, whole: false };
    let answer = copy::ask_definitions(&login.for_try(), &names, question, SETTLE);
    let (answer, unseen) = answer.map_err(|error| error.to_string())?;
    if !unseen.is_empty() {
        return Err(unseen.join("; "));
    }
    let text = format!("asked the source how these are, because the log alone does not say it: {named}");
    if replica.replay.pipeline.copier().answer(answer, &replica.stopping).is_ok() {
        replica.upkeep.definitions.asked.fetch_add(count, Ordering::Relaxed);
        log::write(Code::DefinitionsAsked, "Copy", &text);
    }
    Ok(())
}

fn name((kind, db, name): &(DefinitionKind, String, String)) -> String {
    let text = match (db.as_str(), name.as_str()) {
        ("", "") => format!("{} of any name", kind.name()),
        ("", name) => format!("{} {name}", kind.name()),
        (db, name) => format!("{} `{db}`.`{name}`", kind.name()),
    };
    observe::one_line(&text)
}
