//! Looks whether the followed server, one of several, still takes part in its group, and which others do: one that has
//! left, or cannot reach a majority, still sends its log and heartbeats. With `--max-source-lag`, whether it lags after
//! the others. Asks each for its own figures.
//!
//! In: options of the connection that receives, and a way to end that. Out: why it ended. Never here: what receives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// Interval at which all members are asked for their own figures.
const ASK_EVERY: Duration = Duration::from_secs(2);
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
        {
            let (shared, options, tells) = (Arc::clone(&shared), options.clone(), (Arc::clone(&tells.0), tells.1));
            let work = move || ask_members(&options, &tells, &shared.ended);
            let _ = std::thread::Builder::new().name("group-members".into()).spawn(work);
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

/// Connections to several servers, each kept until it fails.
#[derive(Default)]
struct Pool(Vec<(ConnectOptions, Connection)>);

impl Pool {
    fn ask<T>(
        &mut self,
        options: &ConnectOptions,
        question: impl FnOnce(&mut Connection) -> client::Result<T>,
    ) -> client::Result<T> {
        let known = self.0.iter().position(|(known, _)| place(known) == place(options));
        let mut connection = match known.map(|at| self.0.swap_remove(at)) {
            Some((_, connection)) => connection,
            None => Connection::connect(&ConnectOptions { read_timeout: Some(ANSWER_WITHIN), ..options.clone() })?,
        };
        let answer = question(&mut connection)?;
        self.0.push((options.clone(), connection));
        Ok(answer)
    }
}

/// Does this every so often until the look has ended, or it says why.
fn every(interval: Duration, ended: &AtomicBool, mut of: impl FnMut() -> Option<String>) -> Option<String> {
    let mut next = Instant::now();
    while !ended.load(Ordering::Acquire) {
        if Instant::now() < next {
            std::thread::sleep(SLEEP);
            continue;
        }
        next = Instant::now() + interval;
        if let Some(why) = of() {
            return Some(why);
        }
    }
    None
}

fn server_uuid(connection: &mut Connection) -> client::Result<String> {
    let what = "SELECT @@global.server_uuid";
    connection.query(what)?.told(0, 0, what)
}

/// Why the server is to be left, by its own word.
fn why_to_leave(connection: &mut Connection, (login, tried): &Tells) -> client::Result<Option<String>> {
    if !group::is_member(connection)? {
        login.see(*tried, "", &[]);
        return Ok(None);
    }
    let why = group::why_member_unfit(connection)?;
    let members = group::members(connection)?;
    // One that has left sees nobody.
    if members.len() > 1 || why.is_none() {
        login.see(*tried, &server_uuid(connection)?, &members);
    }
    if why.is_some() || !login.finds_members() {
        return Ok(why);
    }
    Ok(login.tell_of(*tried, &members))
}

/// Asks each server that may be followed for its own figures.
fn ask_members(options: &ConnectOptions, (login, tried): &Tells, ended: &AtomicBool) {
    let mut pool = Pool::default();
    let _ = every(ASK_EVERY, ended, || {
        let others = login.others(*tried);
        for server in std::iter::once(options).chain(&others).take_while(|_| !ended.load(Ordering::Acquire)) {
            // One that cannot be asked is told of by others.
            let _ = pool.ask(server, |connection| {
                let uuid = server_uuid(connection)?;
                let own = group::members(connection)?.into_iter().find(|member| member.server_uuid == uuid);
                if let Some(own) = own {
                    login.note_figures(&uuid, own.figures, group::throttled(connection)?);
                }
                Ok(())
            });
        }
        None
    });
}

/// Why the server is to be left for another one that has more; None once the look has ended.
fn compare_until_behind(
    options: &ConnectOptions,
    (login, tried): &Tells,
    limit: u64,
    ended: &AtomicBool,
) -> Option<String> {
    let mut pool = Pool::default();
    let mut executed = |options: &ConnectOptions| pool.ask(options, preflight::executed).ok();
    let mut lagging = Lagging::new(limit);
    every(COMPARE_EVERY, ended, || {
        // Asked first: what others had before is no lag of it.
        let of = |other: ConnectOptions| executed(&other).map(|set| (other, set));
        let (others, sets): (Vec<_>, Vec<_>) = login.others(*tried).into_iter().filter_map(of).unzip();
        let (at, why) = lagging.look(&executed(options)?, &sets, Instant::now())?;
        others.get(at).is_some_and(|other| login.want(*tried, other)).then_some(why)
    })
}

/// Why the server is to be left; None once the look has ended.
fn look_until_unfit(options: &ConnectOptions, tells: &Tells, ended: &AtomicBool) -> Option<String> {
    let mut pool = Pool::default();
    every(LOOK_EVERY, ended, || pool.ask(options, |connection| why_to_leave(connection, tells)).ok().flatten())
}
