//! Questions to all loops: which sessions there are, and an end for one of them.
//!
//! In: a question, what each loop knows of its connections. Out: the answers, once all loops have given theirs, and a
//! wake-up. Never here: a lock that a statement takes unless it asks.

use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sql::Purse;

use session::{SessionLine, Waker};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    /// Which sessions are there?
    Sessions,
    /// An end for a session, or its statement.
    Kill {
        id: u64,
        /// Only the statement.
        query: bool,
        /// The account that asks.
        by: String,
        /// Whether it may end sessions of others.
        is_admin: bool,
    },
}

/// What became of a KILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Killed {
    Yes,
    /// It is another account's.
    NotOwner,
}

/// Answers of the loops.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) sessions: Vec<SessionLine>,
    /// None: no loop has that connection.
    pub(crate) killed: Option<Killed>,
    /// Counts the texts of statements: the asking session's.
    pub(crate) memory: Option<Purse>,
}

/// Copies of a text: here, as text, as a value, in the character set of the result.
const COPIES: usize = 4;

impl Answers {
    /// Adds a session, without its statement's text if that is more than the asking session may hold.
    pub(crate) fn add(&mut self, mut line: SessionLine) {
        let is_counted =
            |info: &Vec<u8>| self.memory.as_ref().is_none_or(|own| own.work_with(info.len() * COPIES).is_ok());
        line.info = line.info.filter(is_counted);
        self.sessions.push(line);
    }
}

/// A question that loops answer.
pub(crate) struct Census {
    pub(crate) question: Question,
    answers: Mutex<Answers>,
    /// Loops that have not answered.
    left: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Census {
    /// A question for so many loops.
    pub(crate) fn new(question: Question, loops: usize, memory: Option<Purse>, waker: Waker) -> Arc<Census> {
        let waker = Mutex::new(Some(waker));
        let answers = Mutex::new(Answers { memory, ..Answers::default() });
        Arc::new(Census { question, answers, left: AtomicUsize::new(loops), waker })
    }

    pub(crate) fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A loop has answered.
    pub(crate) fn answered(&self) {
        if self.left.fetch_sub(1, AcqRel) == 1 {
            let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(waker);
        }
    }
}
