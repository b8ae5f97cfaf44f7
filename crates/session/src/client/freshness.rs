//! How fresh the rows are that a statement reads: `slipstream_read_consistency`.
//!
//! In: the session's variables, what is visible, what the source says it has executed. Out: nothing to wait for, a wait,
//! or the reason why there is none. Never here: an estimate of an age; a wait of a transaction that reads already.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::GtidSet;
use sql::{Ended, Event, ReadConsistency, Settings, SqlError, Statement, Value};
use wire::row;
use wire::server::ParamType;

use super::{PreparedUnder, Session, Waiting};
use crate::gtids::{Gtids, Readable, SourceSet, Waker};
use crate::world::World;

/// What a statement needs before it reads.
#[derive(Debug)]
pub(super) struct Needs {
    /// What must be visible, once that is known.
    set: Option<Arc<GtidSet>>,
    /// What must be, besides what the source says.
    besides: Option<Arc<GtidSet>>,
    /// When the source must be asked for it, at the earliest.
    since: Instant,
    arrived: Instant,
    until: Instant,
    /// How the last wait ended.
    ended: Option<Ended>,
}

impl Needs {
    /// All that the source has executed by now, or shows.
    pub(super) fn of_now(now: Instant, within: Duration) -> Needs {
        Needs { set: None, besides: None, since: now, arrived: now, until: now + within, ended: None }
    }

    /// The wait that was asked for has ended.
    pub(super) fn ended(&mut self, how: Ended) {
        self.ended = Some(how);
    }
}

/// What a wait in vain was for.
#[derive(Debug)]
pub struct Missed {
    /// None: the source has not said it.
    pub set: Option<Arc<GtidSet>>,
    /// When the source was to be asked, at the earliest.
    pub since: Instant,
}

impl Missed {
    /// True once whoever waits for it would not wait any more.
    #[must_use]
    pub fn is_visible(&self, gtids: &dyn Gtids) -> bool {
        let Some(set) = self.set.clone().or_else(|| gtids.executed_at_source(self.since)) else { return false };
        gtids.visible().is_ok_and(|visible| set.is_subset_of(&visible))
    }
}

/// A waker for one look: whatever is registered with it is given up at once.
fn nobody() -> Waker {
    Waker::new(|| ()).0
}

impl Session {
    /// Whether a statement may read tables now; false if it waits. `anew` is true for a statement that begins another
    /// transaction.
    ///
    /// # Errors
    /// What it needs cannot be had, or not in time.
    pub(super) fn is_fresh(&mut self, anew: bool, world: &dyn World) -> Result<bool, SqlError> {
        if self.place.is_fresh {
            return Ok(true);
        }
        let needs = match self.place.needs.take() {
            Some(needs) => needs,
            None if !anew && (self.locks.view()?.is_some() || self.transaction.view(false)?.is_some()) => {
                return Ok(true);
            }
            None => match self.begun_needs(world)? {
                Some(needs) => needs,
                None => return Ok(true),
            },
        };
        let fresh = self.looks(needs, world)?;
        self.place.is_fresh = fresh;
        if fresh {
            // The source was asked after that.
            self.elsewhere.answered = None;
        }
        Ok(fresh)
    }

    /// As [`is_fresh`](Self::is_fresh), for a statement that reads no table that is kept.
    pub(super) fn is_fresh_for(
        &mut self,
        statement: &Statement,
        under: Option<&PreparedUnder>,
        world: &dyn World,
    ) -> Result<bool, SqlError> {
        let pins = matches!(statement, Statement::Begin { consistent: true, .. }) || super::locks::pins(statement);
        if pins || self.shows_names(statement, under) { self.is_fresh(pins, world) } else { Ok(true) }
    }

    /// The variables of this statement: the session's, but for what its query attributes say.
    fn asked(&self) -> &Settings {
        self.asked.as_ref().unwrap_or(&self.settings)
    }

    /// Takes what query attributes of these names say of a statement, for as long as it runs. Others are not ours.
    ///
    /// # Errors
    /// As SET of the variable.
    pub(super) fn take_attributes(
        &mut self,
        types: &[ParamType],
        values: &[Option<row::Value<'_>>],
        world: &dyn World,
    ) -> Result<(), SqlError> {
        self.asked = None;
        for (ty, value) in types.iter().zip(values) {
            let Ok(name) = std::str::from_utf8(&ty.name) else { continue };
            let name = name.to_ascii_lowercase();
            if !name.starts_with("slipstream_") {
                continue;
            }
            let value = match value {
                Some(value) => super::parameters::value(self.settings.charsets(), value, ty.value.code)?,
                None => Value::Null,
            };
            // Many clients send all attributes as text.
            let number = match &value {
                Value::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
                _ => None,
            };
            let value = number.map_or(value, Value::UInt);
            let mut asked = self.asked.take().unwrap_or_else(|| self.settings.clone());
            asked.set(&name, Some(&value), world.own_values(), &mut Vec::new())?;
            self.asked = Some(asked);
        }
        Ok(())
    }

    /// True if a statement that reads a table may wait for its rows.
    #[must_use]
    pub fn waits_for_rows(&self) -> bool {
        self.settings.typed().read_consistency != ReadConsistency::Eventual
    }

    /// True if the source is asked for its time by each statement that reads a table.
    pub(super) fn has_source_time(&self) -> bool {
        self.may_forward() && self.asked().typed().read_consistency == ReadConsistency::Global
    }

    /// What the variables ask for; None if that is nothing.
    fn begun_needs(&self, world: &dyn World) -> Result<Option<Needs>, SqlError> {
        let typed = self.asked().typed();
        let level = typed.read_consistency;
        if level == ReadConsistency::Eventual {
            return Ok(None);
        }
        let now = world.now();
        let set = match level {
            ReadConsistency::Session => {
                let text = self.asked().text("slipstream_read_gtids").unwrap_or_default();
                let parsed = text.parse().map_err(|_| SqlError::wrong_value("slipstream_read_gtids", text));
                Some(Arc::new(parsed?))
            }
            _ => None,
        };
        let since = match level {
            ReadConsistency::Bounded => now.checked_sub(typed.read_staleness).unwrap_or(now),
            ReadConsistency::Session => self.elsewhere.answered.unwrap_or(now),
            _ => now,
        };
        let until = now + typed.read_timeout;
        let needs = Needs { set, besides: None, since, arrived: now, until, ended: None };
        Ok(Some(match self.elsewhere.answered {
            // What a statement there has seen or done, its answer need not say.
            Some(answered) => Needs { besides: needs.set.clone(), set: None, since: since.max(answered), ..needs },
            None => needs,
        }))
    }

    /// Whether this is visible; false if it is waited for.
    pub(super) fn looks(&mut self, mut needs: Needs, world: &dyn World) -> Result<bool, SqlError> {
        match needs.ended.take() {
            Some(Ended::Failed(error)) => return Err(error),
            Some(Ended::Interrupted(by)) => return Err(by.error()),
            Some(Ended::TimedOut) => {
                let error = self.not_in_time(&needs, world);
                self.elsewhere.missed = Some(Missed { set: needs.set, since: needs.since });
                return Err(error);
            }
            Some(Ended::Met(_) | Ended::NotRunning) | None => {}
        }
        let set = match &needs.set {
            Some(set) => Arc::clone(set),
            None => match world.gtids().source_set(needs.since, needs.arrived, nobody()) {
                SourceSet::Known(set) => match needs.besides.take() {
                    Some(besides) => {
                        let mut all = GtidSet::clone(&set);
                        all.union_with(&besides);
                        Arc::new(all)
                    }
                    None => set,
                },
                SourceSet::Failed(error) => return Err(error),
                SourceSet::Awaited(_) => {
                    let event = Event::Source { since: needs.since, arrived: needs.arrived };
                    return Ok(self.waits_for(event, needs));
                }
            },
        };
        match world.gtids().when_readable(&set, nobody()) {
            Readable::Reached => {
                // One that may forward has the source's time: it arrived there when the source was asked.
                if self.has_source_time()
                    && let Some(us) = world.gtids().source_time_us(needs.since)
                {
                    self.settings.begins_at(us);
                }
                Ok(true)
            }
            Readable::Not(error) => Err(error),
            Readable::Awaited(_) => {
                needs.set = Some(Arc::clone(&set));
                Ok(self.waits_for(Event::Readable(set), needs))
            }
        }
    }

    fn waits_for(&mut self, event: Event, needs: Needs) -> bool {
        let limit = self.settings.typed().execution_limit.and_then(|limit| needs.arrived.checked_add(limit));
        self.suspend(Waiting { event, until: Some(needs.until), limit });
        self.place.needs = Some(needs);
        false
    }

    fn not_in_time(&self, needs: &Needs, world: &dyn World) -> SqlError {
        let level = self.asked().text("slipstream_read_consistency").unwrap_or_default();
        let timeout = self.asked().text("slipstream_read_timeout").unwrap_or_default();
        let missing = needs.set.as_ref().map(|set| set.subtract(&world.gtids().visible().unwrap_or_default()));
        let why = match &missing {
            None => "the source has not answered".to_owned(),
            Some(missing) => format!("{} transactions are not visible yet", missing.count()),
        };
        let mut text = format!("read consistency {level}: {why} after {timeout} ms (slipstream_read_timeout)");
        if let Some(missing) = missing {
            text.push_str(&format!("; missing: {}", shortened(&missing.to_string())));
        }
        // Between two sources nothing arrives, and no wait helps.
        let status = world.replica_status();
        if matches!(status.io_running.as_str(), "No" | "Connecting") {
            let why = status.io_error.text.lines().next().unwrap_or_default();
            text.push_str(&format!("; Replica_IO_Running: {} {}", status.io_running, shortened(why)));
        }
        SqlError::new(1105, "HY000", text.trim_end().to_owned())
    }
}

/// Characters of a set or an error in an error's text, at most: MySQL's clients show 512 bytes of one.
const SHOWN_CHARACTERS: usize = 150;

fn shortened(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(SHOWN_CHARACTERS).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_set_is_shortened() {
        assert_eq!(shortened("a:1-3"), "a:1-3");
        let long = shortened(&"é".repeat(SHOWN_CHARACTERS + 1));
        assert!(long.chars().count() == SHOWN_CHARACTERS + 1 && long.ends_with('…'));
        assert!(!shortened(&"é".repeat(SHOWN_CHARACTERS)).ends_with('…'));
    }
}
