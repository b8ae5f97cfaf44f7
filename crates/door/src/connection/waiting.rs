//! A connection whose statement waits.
//!
//! In: what the session waits for, wake-ups, the time. Out: how the wait ended. Never here: a thread or a snapshot held
//! meanwhile; a system call for each look.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use sql::{Ended, Event, Interrupt, ReplicaOrder, SqlError};

use super::{Connection, Deadline, Hold, Turn};
use crate::census::{Census, Killed, Question};
use crate::guarded::guarded;
use session::{ListedRows, Ordered, Position, Readable, Registration, SourceSet, Switch, Waiting, Waker, needs};

/// A wait that has begun.
#[derive(Default)]
pub(super) struct Held {
    /// Its place among those who wait, and what switches its waker off. The latter goes first.
    place: Option<(Switch, Option<Registration>)>,
    /// Moves of a position that were looked at.
    moves: u64,
    /// The result of an order, once it was given.
    order: Option<OrderResult>,
    /// Rows that the lister makes, once they are there.
    listing: Option<Arc<Mutex<Option<ListedRows>>>>,
    /// A question that was asked of all loops.
    census: Option<Arc<Census>>,
}

/// Whether there was nothing to do, or why it could not be done; None until then.
type OrderResult = Arc<Mutex<Option<Result<Ordered, SqlError>>>>;

/// What a look at an event found.
enum Looked {
    Ended(Ended),
    /// Woken by whatever holds the waker, or by this registration.
    Waits(Option<Registration>),
}

impl Looked {
    /// Without a registration there is nothing to wait for.
    fn of(registration: Option<Registration>) -> Looked {
        registration.map_or(Looked::Ended(Ended::Met(0)), |registration| Looked::Waits(Some(registration)))
    }
}

impl Held {
    fn has_woken(&self) -> bool {
        self.place.as_ref().is_none_or(|(switch, _)| switch.has_woken())
    }
}

impl Connection {
    /// When to look at the wait, whatever happens.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        if self.hold == Hold::Resume {
            // Its turn may come later than that. Once it has come, the client may not read, and time ends nothing.
            return self.session.as_ref()?.ends_at().filter(|at| *at > Instant::now());
        }
        let waiting = self.waiting()?;
        waiting.until.into_iter().chain(waiting.limit).min()
    }

    fn waiting(&self) -> Option<&Waiting> {
        if self.hold == Hold::Wait { self.session.as_ref()?.waiting() } else { None }
    }

    /// True if its statement waits, so that a client that is gone must be noticed.
    pub(crate) fn is_waiting(&self) -> bool {
        self.hold == Hold::Wait
    }

    /// Goes on with the statement if its wait has ended; false if it waits on.
    pub(super) fn look_at_wait(&mut self, turn: &mut Turn<'_>) -> bool {
        let ended = match self.waiting().cloned() {
            Some(waiting) => self.ended(&waiting, turn),
            None => None,
        };
        match ended {
            Some(ended) => {
                self.end_wait(ended, turn);
                true
            }
            None => {
                self.interest.wanted = EventFlags::RDHUP | self.acks();
                false
            }
        }
    }

    fn ended(&mut self, waiting: &Waiting, turn: &Turn<'_>) -> Option<Ended> {
        let is_over = |at: Option<Instant>| at.is_some_and(|at| at <= turn.now);
        if self.held.as_ref().is_none_or(|held| held.has_woken())
            && let Some(ended) = self.look_at_event(&waiting.event, turn)
        {
            return Some(ended);
        }
        // Of two that passed between looks, the earlier one ended it.
        match (is_over(waiting.until), is_over(waiting.limit)) {
            (true, true) if waiting.limit < waiting.until => Some(Ended::Interrupted(Interrupt::Time)),
            (true, _) => Some(Ended::TimedOut),
            (false, true) => Some(Ended::Interrupted(Interrupt::Time)),
            (false, false) => None,
        }
    }

    /// How the wait for an event ended, if it has; else it is waited for.
    fn look_at_event(&mut self, event: &Event, turn: &Turn<'_>) -> Option<Ended> {
        let (inbox, id) = (Arc::clone(turn.inbox), self.id);
        let (waker, switch) = Waker::new(move || inbox.woken(id));
        self.held.get_or_insert_default().place = None;
        let gtids = turn.server.facts.gtids();
        let looked = match event {
            Event::Time => Looked::Waits(None),
            Event::Executed(set) => Looked::of(gtids.when_visible(set, waker)),
            Event::Readable(set) => match gtids.when_readable(set, waker) {
                Readable::Reached => Looked::Ended(Ended::Met(0)),
                Readable::Not(error) => Looked::Ended(Ended::Failed(error)),
                Readable::Awaited(registration) => Looked::Waits(Some(registration)),
            },
            Event::Source { since, arrived } => match gtids.source_set(*since, *arrived, waker) {
                SourceSet::Known(_) => Looked::Ended(Ended::Met(0)),
                SourceSet::Failed(error) => Looked::Ended(Ended::Failed(error)),
                SourceSet::Awaited(registration) => Looked::Waits(Some(registration)),
            },
            Event::Listing => self.look_at_listing(waker, turn)?,
            Event::Sessions | Event::Kill { .. } => self.look_at_census(event, waker, turn)?,
            Event::Replica(order) => self.look_at_order(order, waker, turn)?,
            Event::LogChanged(seen) => {
                let log = turn.server.facts.log().cloned();
                let ticket = log.as_ref().and_then(|log| log.when_changed(*seen, Box::new(move || drop(waker))));
                Looked::of(log.zip(ticket).map(|(log, ticket)| Registration::new(move || log.forget(ticket))))
            }
            Event::Position { file, offset } => self.look_at_position((file, *offset), waker, turn),
        };
        match looked {
            Looked::Ended(ended) => Some(ended),
            Looked::Waits(registration) => {
                self.held.get_or_insert_default().place = Some((switch, registration));
                None
            }
        }
    }

    /// None: the rows are not there yet.
    fn look_at_listing(&mut self, waker: Waker, turn: &Turn<'_>) -> Option<Looked> {
        let (held, id) = (self.held.get_or_insert_default(), self.id);
        if let Some(made) = &held.listing {
            let rows = made.lock().unwrap_or_else(PoisonError::into_inner).take()?;
            self.session.as_ref()?.takes_listed(rows);
            return Some(Looked::Ended(Ended::Met(0)));
        }
        let job = self.session.as_ref()?.listing_job()?;
        let made = Arc::default();
        held.listing = Some(Arc::clone(&made));
        let facts = Arc::clone(&turn.server.facts);
        let run = move || {
            // Nobody else has it once the wait was ended by KILL, or with the connection.
            let is_wanted = || Arc::strong_count(&made) > 1;
            let rows = guarded(&*facts, id, || job(&is_wanted))
                .unwrap_or_else(|| Err(SqlError::new(1105, "HY000", "a defect of Slipstream; its log says which")));
            *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(rows);
            waker.wake();
        };
        if turn.server.list(Box::new(run)) {
            return Some(Looked::Waits(None));
        }
        let text = "Out of resources: too many statements list tables at once; try again";
        Some(Looked::Ended(Ended::Failed(SqlError::new(1041, "HY000", text))))
    }

    /// None: the connection has no session.
    fn look_at_census(&mut self, event: &Event, waker: Waker, turn: &Turn<'_>) -> Option<Looked> {
        let held = self.held.get_or_insert_default();
        if let Some(census) = held.census.take() {
            return Some(Looked::Ended(self.ended_census(&census)));
        }
        let session = self.session.as_ref()?;
        let identity = session.identity();
        let question = match event {
            Event::Kill { id, query } => {
                Question::Kill { id: *id, query: *query, by: identity.account.clone(), is_admin: identity.rights.admin }
            }
            _ => Question::Sessions,
        };
        held.census = Some(turn.server.ask(question, session.purse_beside(), waker));
        Some(Looked::Waits(None))
    }

    /// None: the order's result is not there yet.
    fn look_at_order(&mut self, order: &ReplicaOrder, waker: Waker, turn: &Turn<'_>) -> Option<Looked> {
        let held = self.held.get_or_insert_default();
        if let Some(result) = &held.order {
            let result = result.lock().unwrap_or_else(PoisonError::into_inner).take()?;
            let ended = result.map_or_else(Ended::Failed, |ordered| Ended::Met(ordered as u64));
            return Some(Looked::Ended(ended));
        }
        let result = OrderResult::default();
        held.order = Some(Arc::clone(&result));
        let identity = self.session.as_ref()?.identity();
        // A function's order; that of a statement was refused before.
        if !identity.rights.admin {
            return Some(Looked::Ended(Ended::Failed(needs("SUPER or REPLICATION_SLAVE_ADMIN"))));
        }
        let by = &identity.account;
        let done = move |how| {
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
            waker.wake();
        };
        turn.server.facts.carry_out(order.clone(), by, Box::new(done));
        Some(Looked::Waits(None))
    }

    fn look_at_position(&mut self, (file, offset): (&str, u64), waker: Waker, turn: &Turn<'_>) -> Looked {
        let held = self.held.get_or_insert_default();
        match turn.server.facts.gtids().when_position(file, offset, waker) {
            Position::Reached => Looked::Ended(Ended::Met(held.moves)),
            Position::NotRunning => Looked::Ended(Ended::NotRunning),
            Position::Awaited(registration) => {
                held.moves += 1;
                Looked::Waits(Some(registration))
            }
        }
    }

    /// All loops have answered.
    fn ended_census(&mut self, census: &Census) -> Ended {
        let mut answers = census.answers();
        match &census.question {
            Question::Sessions => {
                if let Some(session) = &mut self.session {
                    session.lists(std::mem::take(&mut answers.sessions), answers.memory.take());
                }
                Ended::Met(0)
            }
            Question::Kill { id, .. } => match answers.killed {
                Some(Killed::Yes) => Ended::Met(0),
                Some(Killed::NotOwner) if self.session.as_ref().is_some_and(|s| s.identity().rights.monitor) => {
                    Ended::Failed(SqlError::new(1095, "HY000", format!("You are not owner of thread {id}")))
                }
                // Who may not see it is told what is told of none.
                Some(Killed::NotOwner) | None => {
                    Ended::Failed(SqlError::new(1094, "HY000", format!("Unknown thread id: {id}")))
                }
            },
        }
    }

    /// The wait ends this way.
    fn end_wait(&mut self, ended: Ended, turn: &mut Turn<'_>) {
        self.held = None;
        if self.proof_waited(&ended, turn) {
            return;
        }
        let Some(session) = &mut self.session else { return };
        let after = session.waited(ended, turn.server, &mut self.output);
        self.settle(after, turn);
    }

    /// Interrupts the statement that waits, if one does.
    pub(crate) fn interrupt(&mut self, by: Interrupt, turn: &mut Turn<'_>) {
        if self.hold == Hold::Wait {
            self.end_wait(Ended::Interrupted(by), turn);
            self.why = Deadline::Busy;
        }
    }
}
