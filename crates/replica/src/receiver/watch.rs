//! Looks whether the followed server, one of several, still takes part in its group, and which others do: one that has
//! left, or cannot reach a majority, still sends its log and heartbeats.
//!
//! In: options of the connection that receives, and a way to end that. Out: why it ended. Never here: what receives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::{ConnectOptions, Connection, Interrupter};
use source::group;

use crate::exit::Failure;
use crate::login::SourceLogin;

/// Interval of the looks: half of the time in which another one is to be followed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long an answer may take. A server that says nothing is left by the connection that receives.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const SLEEP: Duration = Duration::from_millis(50);

/// Who is told of the members of the group, with the version of the login of the try.
type Tells = Option<(Arc<SourceLogin>, u64)>;

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    why: Mutex<Option<Failure>>,
}

/// A thread that looks until this is dropped.
pub(super) struct Watch(Arc<Shared>);

impl Watch {
    /// Without the thread, a member is left once it ends the connection.
    pub(super) fn begin(options: ConnectOptions, tells: Tells, receiving: Interrupter) -> Watch {
        let shared = Arc::new(Shared::default());
        let watch = Watch(Arc::clone(&shared));
        let work = move || {
            if let Some(why) = look_until_unfit(&options, tells.as_ref(), &shared.ended) {
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

fn why_to_leave(
    connection: &mut Connection,
    tells: Option<&(Arc<SourceLogin>, u64)>,
) -> client::Result<Option<String>> {
    let why = group::why_unfit(connection)?;
    match tells {
        Some((login, tried)) if why.is_none() => Ok(login.tell_of(*tried, &group::members(connection)?)),
        _ => Ok(why),
    }
}

/// Why the server is to be left; None once the look has ended.
fn look_until_unfit(
    options: &ConnectOptions,
    tells: Option<&(Arc<SourceLogin>, u64)>,
    ended: &AtomicBool,
) -> Option<String> {
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
        match connection.as_mut().map(|connection| why_to_leave(connection, tells)) {
            Some(Ok(Some(why))) => return Some(why),
            Some(Ok(None)) | None => {}
            Some(Err(_)) => connection = None,
        }
    }
    None
}
