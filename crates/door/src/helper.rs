//! One thread beside the loops for what takes milliseconds: full logins and TLS handshakes.
//!
//! In: jobs of connections, each with at most one. Out: results in the loop's inbox. Never here: more than
//! [`QUEUE_MAX`] jobs, a second core.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use accounts::{FullLogin, FullLoginResult};
use rustls::ServerConnection;

use crate::config::Facts;
use crate::event_loop::Inbox;
use crate::guarded::guarded;
use crate::source::{NotOpened, Opened, Permit};

/// Jobs that wait: more than there can be connections that log in.
const QUEUE_MAX: usize = 2_048;

/// Work for the helper.
pub(crate) enum Work {
    /// Hashing of a password.
    Login(FullLogin),
    /// Bytes of a handshake that were read.
    Tls(Box<ServerConnection>),
}

/// What became of it.
pub(crate) enum Worked {
    /// The password was hashed.
    Login(FullLoginResult),
    /// The handshake went on, or failed.
    Tls(Box<ServerConnection>, Result<(), rustls::Error>),
    /// One of the connections to the source may be opened.
    Permit(Permit),
    /// It was, or not, for whoever has this alive.
    Opened(Weak<()>, Box<Result<Opened, NotOpened>>),
    /// The work panicked.
    Nothing,
}

/// A job of a connection.
pub(crate) struct Job {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) connection: u64,
    pub(crate) work: Work,
}

#[derive(Clone)]
pub(crate) struct Helper {
    queue: SyncSender<Job>,
}

impl Helper {
    /// Starts the thread, which ends with the last queue.
    pub(crate) fn start(facts: Arc<dyn Facts>) -> std::io::Result<(Helper, JoinHandle<()>)> {
        let (queue, jobs) = sync_channel(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("door-help".into()).spawn(move || run(&jobs, &*facts))?;
        Ok((Helper { queue }, thread))
    }

    /// Queues a job; false if the queue is full.
    pub(crate) fn submit(&self, job: Job) -> bool {
        self.queue.try_send(job).is_ok()
    }
}

/// A listing to be made.
pub(crate) type Listing = Box<dyn FnOnce() + Send>;

/// Listings that wait, of all clients.
const LISTINGS_MAX: usize = 64;

/// One thread, at low priority, for listings over many tables: a loop would be held by them for too long.
#[derive(Clone)]
pub(crate) struct Lister {
    queue: SyncSender<Listing>,
}

impl Lister {
    /// Starts the thread, which ends with the last queue.
    pub(crate) fn start() -> std::io::Result<Lister> {
        let (queue, listings) = sync_channel::<Listing>(LISTINGS_MAX);
        // Not joined: it ends with the listing that it makes.
        std::thread::Builder::new().name("door-list".into()).spawn(move || {
            base::priority::to_background();
            listings.into_iter().for_each(|listing| listing());
        })?;
        Ok(Lister { queue })
    }

    /// Queues a listing; false if the queue is full.
    pub(crate) fn submit(&self, listing: Listing) -> bool {
        self.queue.try_send(listing).is_ok()
    }
}

fn run(jobs: &Receiver<Job>, facts: &dyn Facts) {
    while let Ok(Job { inbox, connection, work }) = jobs.recv() {
        let worked = guarded(facts, connection, || match work {
            Work::Login(login) => Worked::Login(login.run()),
            Work::Tls(mut tls) => {
                let result = tls.process_new_packets().map(|_| ());
                Worked::Tls(tls, result)
            }
        });
        inbox.worked(connection, worked.unwrap_or(Worked::Nothing));
    }
}
