//! Definitions that the log alone does not settle, or that are older than it: the source is asked how they are.
//!
//! In: the catalog, while the source is connected. Out: the source's answers; words for whoever watches. Never here:
//! rows; a text of a definition in a message.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use catalog::{Answer, Catalog, DefinitionKind, Older, ReplicationFilters, SourceNames};
use copy::{Asked, CopyError, Question};

use crate::log::{self, Code};

/// Pause after an answer, so that a source is not asked without end about what changes all the time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Pause after all was read in vain, because something was removed meanwhile.
const AGAIN_AFTER_REMOVAL: Duration = Duration::from_secs(10);
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
    /// True once those that are older than the log have been read as far as the account sees them.
    older_read: AtomicBool,
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

    /// True if those that are older than the log are here, as far as the account sees them.
    pub(crate) fn are_read(&self, catalog: &Catalog) -> bool {
        catalog.knows_definitions() || self.older_read.load(Ordering::Acquire)
    }

    /// Asks the source next to replay, if there is something to ask. `ask` puts the question, and `hand_on` gives the
    /// answer to replay: true if it was taken over as a whole, None if replay ends.
    pub(crate) fn begin(
        self: &Arc<Self>,
        ask: impl FnOnce(&SourceNames, Question) -> Result<Option<Asked>, CopyError> + Send + 'static,
        filters: Arc<ReplicationFilters>,
        catalog: &Catalog,
        hand_on: impl FnOnce(Answer) -> Option<bool> + Send + 'static,
    ) {
        if self.lock().not_before.is_some_and(|moment| Instant::now() < moment) {
            return;
        }
        let unsettled = catalog.unsettled_definitions();
        let about: Vec<_> = unsettled.map(|one| (one.kind, one.db.clone(), one.name.clone())).collect();
        if (about.is_empty() && self.are_read(catalog)) || self.runs.swap(true, Ordering::AcqRel) {
            return;
        }
        let asking = Asking {
            of: Arc::clone(self),
            names: SourceNames { filters, lower_case_table_names: catalog.lower_case_table_names() },
            older: about.is_empty(),
            about,
        };
        let run = move || {
            let of = Arc::clone(&asking.of);
            of.note(asking.run(ask, hand_on));
            of.runs.store(false, Ordering::Release);
        };
        if let Err(error) = std::thread::Builder::new().name("ask-source".into()).spawn(run) {
            self.note(Err(format!("cannot start a thread: {error}")));
            self.runs.store(false, Ordering::Release);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, ended: Result<Duration, String>) {
        let mut state = self.lock();
        let (pause, trouble) = match ended {
            Ok(pause) => (pause, String::new()),
            Err(trouble) => (AGAIN_AFTER_TROUBLE, trouble),
        };
        state.not_before = Some(Instant::now() + pause);
        if !trouble.is_empty() && state.trouble != trouble {
            let text =
                format!("the source cannot be asked about definitions that are not settled; trying again: {trouble}");
            log::write(Code::DefinitionsNotAsked, "Copy", &text);
        }
        state.trouble = trouble;
    }
}

/// One question. Without the replica, so that a source that does not answer does not hold up its end.
struct Asking {
    of: Arc<AskedDefinitions>,
    names: SourceNames,
    about: Vec<(DefinitionKind, String, String)>,
    /// About everything that is older than the log too.
    older: bool,
}

impl Asking {
    /// Asks, and hands the answer to replay. Returns the pause before the next question, or the trouble.
    fn run(
        self,
        ask: impl FnOnce(&SourceNames, Question) -> Result<Option<Asked>, CopyError>,
        hand_on: impl FnOnce(Answer) -> Option<bool>,
    ) -> Result<Duration, String> {
        let named = named(&self.about);
        let count = self.about.len() as u64;
        let question = Question { about: self.about, older: self.older };
        let asked = ask(&self.names, question);
        let Some(Asked { answer, unseen, keeps_none }) = asked.map_err(|error| error.to_string())? else {
            return Ok(AGAIN_AFTER);
        };
        let unseen = unseen.join("; ");
        let state = &self.of;
        if self.older && keeps_none {
            state.older_read.store(true, Ordering::Release);
            return Ok(AGAIN_AFTER);
        }
        if !self.older && !unseen.is_empty() {
            return Err(unseen);
        }
        let (all, found) = (answer.older == Older::All, answer.definitions.len());
        let Some(was_taken) = hand_on(answer) else { return Ok(AGAIN_AFTER) };
        if !self.older {
            state.asked.fetch_add(count, Ordering::Relaxed);
            let text = format!("asked the source how these are, because the log alone does not say it: {named}");
            log::write(Code::DefinitionsAsked, "Copy", &text);
            return Ok(AGAIN_AFTER);
        }
        if !was_taken {
            return Ok(AGAIN_AFTER_REMOVAL);
        }
        state.older_read.store(true, Ordering::Release);
        let seen = if all { String::new() } else { format!(", as far as the account sees them: {unseen}") };
        let text = format!("read the source's definitions, {found}, for those that its log does not hold{seen}");
        log::write(Code::DefinitionsAsked, "Copy", &text);
        Ok(AGAIN_AFTER)
    }
}

/// Some of their names.
fn named(about: &[(DefinitionKind, String, String)]) -> String {
    let named: Vec<String> = about.iter().take(NAMES_MAX).map(name).collect();
    let more = about.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

fn name((kind, db, name): &(DefinitionKind, String, String)) -> String {
    let text = match (db.as_str(), name.as_str()) {
        ("", "") => format!("{} of any name", kind.name()),
        ("", name) => format!("{} {name}", kind.name()),
        (db, name) => format!("{} `{db}`.`{name}`", kind.name()),
    };
    observe::one_line(&text)
}
