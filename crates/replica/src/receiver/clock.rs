//! How far the source's clock is from ours.
//!
//! In: the login in force. Out: the difference, its error and when it was measured, in [`Link`]. Never here: a
//! measurement over the connection that receives.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use client::{ConnectOptions, Connection};

use super::link::Link;
use crate::login::SourceLogin;

/// Interval between comparisons of the clocks.
const CLOCK_EVERY: Duration = Duration::from_secs(60);
/// Round trips per comparison; the shortest counts.
const CLOCK_ROUNDS: u32 = 5;

/// Compares the clocks every minute over a separate connection.
pub(crate) fn watch_clock(login: &Arc<SourceLogin>, link: &Arc<Link>) {
    let login = Arc::clone(login);
    let link = Arc::downgrade(link);
    let work = move || {
        let mut connection: Option<Connection> = None;
        let mut next = Instant::now() + CLOCK_EVERY;
        let mut seen = login.requests();
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let Some(link) = link.upgrade() else { return };
            if link.stopping.load(Ordering::Acquire) {
                return;
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + CLOCK_EVERY;
            let requests = login.requests();
            if std::mem::replace(&mut seen, requests) != requests {
                // The source may be another one now.
                connection = None;
            }
            if connection.is_none() {
                let options = ConnectOptions { read_timeout: Some(Duration::from_secs(10)), ..login.for_try() };
                connection = Connection::connect(&options).ok();
            }
            match connection.as_mut().and_then(|c| source::clock::measure(c, CLOCK_ROUNDS).ok()) {
                Some(clock) => link.note_clock(clock),
                None => connection = None,
            }
        }
    };
    // Without the thread, lag is shown with the difference measured at connect.
    let _ = std::thread::Builder::new().name("clock".into()).spawn(work);
}
