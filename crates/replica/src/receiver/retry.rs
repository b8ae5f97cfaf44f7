//! Reconnects: pauses that grow, a refused login that waits for another password.
//!
//! In: the chosen source, what ended the last connection. Out: the failure that no retry can fix. Never here: a retry
//! of a password that the source has just refused.

use std::time::{Duration, Instant};

use observe::{ConnectionState, now_us};

use super::choice::{Attempt, SourceChoice};
use super::connect::Connected;
use super::receive::Session;
use crate::config::OnStop;
use crate::exit::Failure;
use crate::failure::SourceTrouble as Trouble;
use crate::log::{self, Code};

/// Interval at which a receiver whose login was refused looks whether an option file has changed.
const LOOK_AT_FILES_EVERY: Duration = Duration::from_secs(1);
/// A round of tries after a longer pause is logged each time.
const LOGGED_ABOVE: Duration = Duration::from_secs(10);
/// Interval at which a wait looks whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Receives from a server, and reconnects with growing pauses after each failure that a retry may fix.
pub(super) fn follow(
    session: &mut Session,
    choice: &mut SourceChoice,
    mut first: Option<Box<Connected>>,
) -> Result<(), Failure> {
    choice.forget_failures();
    while !session.link.must_end() {
        let received_before = session.end.taken_bytes();
        let trouble = match session.run(choice, first.take()) {
            Ok(()) => return Ok(()),
            Err(trouble) => trouble,
        };
        session.end.abort_partial()?;
        if session.link.must_end() {
            return Ok(());
        }
        let failure = match trouble {
            Trouble::Fatal(failure) => return Err(failure),
            Trouble::NoRoom(need) => {
                session.end.wait_for_room(need)?;
                continue;
            }
            // Its advice is for a source without others.
            Trouble::Refused(failure) | Trouble::Login(failure, _) if choice.has_others() => {
                Failure { hint: None, ..failure }
            }
            Trouble::Refused(failure) => return Err(failure),
            Trouble::Login(failure, _) if session.config.on_stop == OnStop::Exit => return Err(failure),
            Trouble::Login(failure, wait) => {
                wait_for_login(session, choice, &failure, wait);
                continue;
            }
            Trouble::Again(failure) => failure,
        };
        // The connection brought events, so this is a new failure and not a further attempt.
        if session.end.taken_bytes() > received_before {
            choice.forget_failures();
        }
        choice.heard(session.link.lock().received.last_received_us);
        let shown = choice.shown();
        let Some(attempt) = choice.again(&failure) else { return Err(failure) };
        if choice.has_others() {
            tell_of_next(session, choice, &format!("{shown}: {}", failure.text), &attempt);
        } else {
            tell_of_retry(session, &failure, &attempt);
        }
        pause(session, choice, &attempt);
    }
    Ok(())
}

/// One of several sources has failed. Rounds that fail like those before are logged ever more seldom.
fn tell_of_next(session: &Session, choice: &SourceChoice, failed: &str, attempt: &Attempt) {
    let logs = attempt.number.is_power_of_two() || attempt.wait > LOGGED_ABOVE;
    let log = |text: &str| {
        if logs {
            log::write(Code::SourceLeft, "Source", text);
        }
    };
    if attempt.all_failed {
        let failure = choice.none_can_be_followed();
        let wait_ms = attempt.wait.as_millis();
        let text =
            format!("{failed}\n{}\neach is tried again in {wait_ms} ms (round {})", failure.text, attempt.number);
        log(&text);
        session.link.note_error(&failure);
    } else {
        let text = format!("{failed}; the next one is {}, position {}", choice.shown(), session.end.source_position());
        log(&text);
        session.link.note_error(&Failure::error(failed));
    }
}

fn tell_of_retry(session: &Session, failure: &Failure, attempt: &Attempt) {
    session.link.note_error(failure);
    let text = format!(
        "{}; reconnecting in {} ms (attempt {}), position {}",
        failure.text,
        attempt.wait.as_millis(),
        attempt.number,
        session.end.source_position()
    );
    log::write(Code::ConnectionLost, "Source", &text);
}

/// Waits before the next attempt. Where all of several sources have failed, an operator who asks for a try ends the
/// wait, and so does a changed option file.
fn pause(session: &Session, choice: &SourceChoice, attempt: &Attempt) {
    let requests = choice.requests();
    {
        let mut state = session.link.lock();
        state.source.connection = ConnectionState::Connecting;
        state.source.reconnects += 1;
        state.source.since_us = now_us();
    }
    let until = Instant::now() + attempt.wait;
    let mut looked = Instant::now();
    let version = choice.version();
    while Instant::now() < until && !session.link.must_end() {
        std::thread::sleep(LOOK);
        if attempt.all_failed && looked.elapsed() >= LOOK_AT_FILES_EVERY {
            looked = Instant::now();
            if choice.version() != version {
                return;
            }
        }
        if attempt.all_failed && choice.requests() != requests {
            return;
        }
    }
}

/// Waits until the refused login may be tried again, an option file changes, or an operator asks for a try.
fn wait_for_login(session: &Session, choice: &SourceChoice, failure: &Failure, wait: Duration) {
    let link = &session.link;
    let requests = choice.requests();
    {
        let next_try_us = now_us() + wait.as_micros() as u64;
        let mut state = link.lock();
        state.source.connection = ConnectionState::Connecting;
        state.source.next_try_us = next_try_us;
    }
    link.note_error(failure);
    if wait == client::HELD_FOR {
        let text = format!(
            "{}; replay is not affected. The same password is not tried again for {} min, so that the source does not \
             lock the account; another one is tried as soon as the option file has it. Hint: slipstream reload --data \
             {}, or slipstream start io to try the same one now",
            failure.text,
            wait.as_secs() / 60,
            session.config.data.display()
        );
        log::write(Code::LoginRefused, "Source", &text);
    }
    let until = Instant::now() + wait;
    let mut looked = Instant::now();
    while Instant::now() < until && !link.must_end() && choice.requests() == requests {
        std::thread::sleep(LOOK);
        if looked.elapsed() >= LOOK_AT_FILES_EVERY {
            looked = Instant::now();
            if choice.has_changed() {
                break;
            }
        }
    }
    link.lock().source.next_try_us = 0;
}
