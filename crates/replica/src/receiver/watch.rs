//! Looks whether the followed server, one of several, still takes part in its group, and which others do: one that has
//! left, or cannot reach a majority, still sends its log and heartbeats. With `--max-source-lag`, whether it lags after
//! the others. Asks each for its own figures.
//!
//! In: options of the connection that receives. Out: the end of that connection, with the reason. Never here: what
//! receives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::{ConnectOptions, Connection};
use source::{group, preflight};

use super::lagging::Lagging;
use super::link::Link;
use super::view::View;
use crate::candidates::place;
use crate::login::SourceLogin;

/// Interval of the looks: half of the time in which another one is to be followed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long an answer may take. A server that says nothing is left by the connection that receives.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Interval of the looks at a member that is not left: its figures reach the others once a second.
const SEEN_EVERY: Duration = Duration::from_secs(1);
const SLEEP: Duration = Duration::from_millis(50);

/// One that cannot be asked is left out for so long: it may hold up the others' turn by [`ANSWER_WITHIN`].
const NOT_AGAIN_FOR: Duration = Duration::from_secs(5);
/// Interval at which all servers are asked what they have executed.
const COMPARE_EVERY: Duration = Duration::from_secs(2);

/// Who is told of the members of the group, with the version of the login of the try.
type Tells = (Arc<SourceLogin>, u64);

/// Threads that look until this is dropped.
pub(super) struct Watch {
    ended: Arc<AtomicBool>,
    link: Arc<Link>,
}

impl Watch {
    /// `view`: what the followed one said when it was connected to. It may never say it again: one that shuts down
    /// takes no further connection. Without a thread, a member is left once it ends the connection.
    pub(super) fn begin(options: ConnectOptions, tells: Tells, link: &Arc<Link>, view: Option<View>) -> Watch {
        let watch = Watch::new(&tells, link, view.as_ref());
        let limit = tells.0.max_source_lag();
        if let Some(view) = view.as_ref().filter(|_| tells.0.finds_members()) {
            // Whether another one is better is for the first look.
            let _ = tells.0.tell_of(tells.1, &view.members);
        }
        let followed: Followed = Arc::new(Mutex::new(view));
        let of_members = Arc::clone(&followed);
        watch.begin_thread("group-members", &options, &tells, move |_, tells, ended| {
            ask_others(tells, &of_members, ended)
        });
        if let Some(limit) = limit {
            // A thread of its own: a server that does not answer holds it up.
            watch.begin_thread("source-lag", &options, &tells, move |options, tells, ended| {
                compare_until_behind(options, tells, limit, ended)
            });
        }
        watch.begin_thread("group-watch", &options, &tells, move |options, tells, ended| {
            look_until_unfit(options, tells, &followed, ended)
        });
        watch
    }

    /// Looks at a member that is the only source, so that its group is seen: it is not left, whatever it says.
    pub(super) fn only_seen(options: ConnectOptions, tells: Tells, link: &Arc<Link>, view: View) -> Watch {
        let watch = Watch::new(&tells, link, Some(&view));
        let followed: Followed = Arc::new(Mutex::new(Some(view)));
        watch.begin_thread("group-watch", &options, &tells, move |options, tells, ended| {
            let mut pool = Pool::default();
            every(SEEN_EVERY, ended, || {
                let _ = pool.ask(options, |connection| why_to_leave(connection, tells, &followed));
                None
            })
        });
        watch
    }

    fn new((login, tried): &Tells, link: &Arc<Link>, view: Option<&View>) -> Watch {
        if let Some(view) = view {
            login.see(*tried, &view.server_uuid, &view.members);
        }
        Watch { ended: Arc::default(), link: Arc::clone(link) }
    }

    /// What says why ends the connection that receives.
    fn begin_thread(
        &self,
        name: &str,
        options: &ConnectOptions,
        tells: &Tells,
        look: impl FnOnce(&ConnectOptions, &Tells, &AtomicBool) -> Option<String> + Send + 'static,
    ) {
        let (ended, link) = (Arc::clone(&self.ended), Arc::clone(&self.link));
        let (options, tells) = (options.clone(), (Arc::clone(&tells.0), tells.1));
        let work = move || {
            if let Some(why) = look(&options, &tells, &ended) {
                link.doubt(&why, || !ended.load(Ordering::Acquire));
            }
        };
        let _ = std::thread::Builder::new().name(name.into()).spawn(work);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Under the lock: none ends the next connection.
        let _state = self.link.lock();
        self.ended.store(true, Ordering::Release);
    }
}

/// Connections to several servers, each kept until it fails.
#[derive(Default)]
struct Pool(Vec<(ConnectOptions, Connection)>);

impl Pool {
    /// Ends the connections to all but these.
    fn only<'a>(&mut self, servers: impl Iterator<Item = &'a ConnectOptions> + Clone) {
        self.0.retain(|(of, _)| servers.clone().any(|server| place(server) == place(of)));
    }

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

/// What the followed member said of its group when it took part in it last.
type Followed = Arc<Mutex<Option<View>>>;

/// Asks a member for its own figures; None if it is to be in no group.
fn ask_one(connection: &mut Connection, login: &SourceLogin) -> client::Result<Option<View>> {
    let view = View::ask(connection)?;
    if let Some(own) = view.as_ref().and_then(View::own) {
        login.note_figures(&own.server_uuid, own.figures.clone(), group::throttled(connection)?);
    }
    Ok(view)
}

/// Why the server is to be left, by its own word.
fn why_to_leave(
    connection: &mut Connection,
    (login, tried): &Tells,
    followed: &Followed,
) -> client::Result<Option<String>> {
    let Some(asked) = ask_one(connection, login)? else {
        login.see(*tried, "", &[]);
        return Ok(None);
    };
    let why = group::why_member_unfit(connection)?;
    // One that has left sees nobody.
    if asked.members.len() > 1 || why.is_none() {
        login.see(*tried, &asked.server_uuid, &asked.members);
    }
    if why.is_some() {
        return Ok(why);
    }
    let better = if login.finds_members() { login.tell_of(*tried, &asked.members) } else { None };
    *followed.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
    Ok(better)
}

/// Asks each of the other servers for its figures. Why the followed one is to be left: another one of its group has a
/// view without it. It may not know yet, or not say so: one that leaves answers no question for three seconds, and one
/// that shuts down leaves first and sends heartbeats for ten seconds more (seen with 9.7.4).
fn ask_others((login, tried): &Tells, followed: &Followed, ended: &AtomicBool) -> Option<String> {
    let mut pool = Pool::default();
    let mut failed: Vec<(ConnectOptions, Instant)> = Vec::new();
    every(LOOK_EVERY, ended, || {
        failed.retain(|(_, at)| at.elapsed() < NOT_AGAIN_FOR);
        let others = login.others(*tried);
        pool.only(others.iter());
        for server in others {
            if ended.load(Ordering::Acquire) || failed.iter().any(|(of, _)| place(of) == place(&server)) {
                continue;
            }
            match pool.ask(&server, |connection| ask_one(connection, login)) {
                Err(_) => failed.push((server, Instant::now())),
                Ok(None) => {}
                Ok(Some(other)) => {
                    let followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some(own) = followed.as_ref() else { continue };
                    if own.is_out_of(&other) {
                        return Some(format!("it is not in the view of its group that {server} has"));
                    }
                    if own.group != other.group {
                        login.doubt(*tried, &server, &own.why_foreign(&other));
                    }
                }
            }
        }
        None
    })
}

/// Why the server is to be left for another one that has more; None once the look has ended.
fn compare_until_behind(
    options: &ConnectOptions,
    (login, tried): &Tells,
    limit: u64,
    ended: &AtomicBool,
) -> Option<String> {
    let mut pool = Pool::default();
    let mut lagging = Lagging::new(limit);
    every(COMPARE_EVERY, ended, || {
        let others = login.others(*tried);
        pool.only(others.iter().chain([options]));
        let mut executed = |options: &ConnectOptions| pool.ask(options, preflight::executed).ok();
        // Asked first: what others had before is no lag of it.
        let of = |other: ConnectOptions| executed(&other).map(|set| (other, set));
        let (others, sets): (Vec<_>, Vec<_>) = others.into_iter().filter_map(of).unzip();
        let (at, why) = lagging.look(&executed(options)?, &sets, Instant::now())?;
        others.get(at).is_some_and(|other| login.want(*tried, other)).then_some(why)
    })
}

/// Why the server is to be left; None once the look has ended.
fn look_until_unfit(
    options: &ConnectOptions,
    tells: &Tells,
    followed: &Followed,
    ended: &AtomicBool,
) -> Option<String> {
    let mut pool = Pool::default();
    every(LOOK_EVERY, ended, || {
        pool.ask(options, |connection| why_to_leave(connection, tells, followed)).ok().flatten()
    })
}
