//! Looks whether the followed server, one of several, still takes part in its group: one that has left, or cannot reach
//! a majority, still sends its log and heartbeats.
//!
//! In: options of the connection that receives, and a way to end that. Out: why it ended. Never here: what receives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::{ConnectOptions, Connection, Interrupter};
use source::group;

use crate::exit::Failure;

/// Interval of the looks: half of the time in which another one is to be followed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long an answer may take. A server that says nothing is left by the connection that receives.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const SLEEP: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    why: Mutex<Option<Failure>>,
}

/// A thread that looks until this is dropped.
pub(super) struct Watch(Arc<Shared>);

impl Watch {
    /// Without the thread, a member is left once it ends the connection.
    pub(super) fn begin(options: ConnectOptions, receiving: Interrupter) -> Watch {
        let shared = Arc::new(Shared::default());
        let watch = Watch(Arc::clone(&shared));
        let work = move || {
            if let Some(why) = look_until_unfit(&options, &shared.ended) {
                *shared.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(Failure::error(why));
                receiving.shutdown();
            }
        };
        let _ = std::thread::Builder::new().name("group-watch".into()).spawn(work);
        watch
    }

    /// Why it ended the connection that receives; None if it did not.
    pub(super) fn why(&self) -> Option<Failure> {
        self.0.why.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

/// Why the server is to be left; None once the look has ended.
fn look_until_unfit(options: &ConnectOptions, ended: &AtomicBool) -> Option<String> {
    let options = ConnectOptions { read_timeout: Some(ANSWER_WITHIN), ..options.clone() };
    let mut connection = None;
    let mut next = Instant::now();
    while !ended.load(Ordering::Acquire) {
        if Instant::now() < next {
            std::thread::sleep(SLEEP);
            continue;
        }
        next = Instant::now() + LOOK_EVERY;
        if connection.is_none() {
            connection = Connection::connect(&options).ok();
        }
        match connection.as_mut().map(group::why_unfit) {
            Some(Ok(Some(why))) => return Some(why),
            Some(Ok(None)) | None => {}
            Some(Err(_)) => connection = None,
        }
    }
    None
}
