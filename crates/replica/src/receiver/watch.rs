//! Looks whether the followed server, one of several, still takes part in its group, and which others do: one that has
//! left, or cannot reach a majority, still sends its log and heartbeats. With `--max-source-lag`, whether it lags after
//! the others.
//!
//! In: options of the connection that receives, and a way to end that. Out: why it ended. Never here: what receives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::GtidSet;
use client::{ConnectOptions, Connection, Interrupter};
use source::{group, preflight};

use super::lagging::Lagging;
use crate::candidates::place;
use crate::exit::Failure;
use crate::login::SourceLogin;

/// Interval of the looks: half of the time in which another one is to be followed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long an answer may take. A server that says nothing is left by the connection that receives.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const SLEEP: Duration = Duration::from_millis(50);

/// Interval at which all servers are asked what they have executed.
const COMPARE_EVERY: Duration = Duration::from_secs(2);

/// Who is told of the members of the group, with the version of the login of the try.
type Tells = (Arc<SourceLogin>, u64);

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    why: Mutex<Option<Failure>>,
}

impl Shared {
    fn leave(&self, why: String, receiving: &Interrupter) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(Failure::error(why));
        receiving.shutdown();
    }
}

/// Threads that look until this is dropped.
pub(super) struct Watch(Arc<Shared>);

impl Watch {
    /// Without the thread, a member is left once it ends the connection.
    pub(super) fn begin(options: ConnectOptions, tells: Tells, receiving: Interrupter) -> Watch {
        let shared = Arc::new(Shared::default());
        let watch = Watch(Arc::clone(&shared));
        if let Some(limit) = tells.0.max_source_lag() {
            let (shared, options, tells) = (Arc::clone(&shared), options.clone(), (Arc::clone(&tells.0), tells.1));
            let receiving = receiving.clone();
            // A thread of its own: a server that does not answer holds it up.
            let work = move || {
                if let Some(why) = compare_until_behind(&options, &tells, limit, &shared.ended) {
                    shared.leave(why, &receiving);
                }
            };
            let _ = std::thread::Builder::new().name("source-lag".into()).spawn(work);
        }
        let work = move || {
            if let Some(why) = look_until_unfit(&options, &tells, &shared.ended) {
                shared.leave(why, &receiving);
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

fn why_to_leave(connection: &mut Connection, (login, tried): &Tells) -> client::Result<Option<String>> {
    let why = group::why_unfit(connection)?;
    if why.is_some() || !login.finds_members() {
        return Ok(why);
    }
    Ok(login.tell_of(*tried, &group::members(connection)?))
}

/// Why the server is to be left for another one that has more; None once the look has ended.
fn compare_until_behind(
    options: &ConnectOptions,
    (login, tried): &Tells,
    limit: u64,
    ended: &AtomicBool,
) -> Option<String> {
    let mut connections: Vec<(ConnectOptions, Connection)> = Vec::new();
    let mut executed = |options: &ConnectOptions| -> client::Result<GtidSet> {
        let options = ConnectOptions { read_timeout: Some(ANSWER_WITHIN), ..options.clone() };
        let known = connections.iter().position(|(known, _)| place(known) == place(&options));
        let mut connection = match known.map(|at| connections.swap_remove(at)) {
            Some((_, connection)) => connection,
            None => Connection::connect(&options)?,
        };
        let set = preflight::executed(&mut connection)?;
        connections.push((options, connection));
        Ok(set)
    };
    let mut lagging = Lagging::new(limit);
    let mut next = Instant::now();
    while !ended.load(Ordering::Acquire) {
        if Instant::now() < next {
            std::thread::sleep(SLEEP);
            continue;
        }
        next = Instant::now() + COMPARE_EVERY;
        // Asked first: what others had before is no lag of it.
        let of = |other: ConnectOptions| executed(&other).ok().map(|set| (other, set));
        let (others, sets): (Vec<_>, Vec<_>) = login.others(*tried).into_iter().filter_map(of).unzip();
        let Ok(own) = executed(options) else { continue };
        if let Some((at, why)) = lagging.look(&own, &sets, Instant::now())
            && others.get(at).is_some_and(|other| login.want(*tried, other))
        {
            return Some(why);
        }
    }
    None
}

/// Why the server is to be left; None once the look has ended.
fn look_until_unfit(options: &ConnectOptions, tells: &Tells, ended: &AtomicBool) -> Option<String> {
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
