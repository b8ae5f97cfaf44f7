//! Logins that a server refused, and when they may be tried again.
//!
//! A server may lock an account after some wrong passwords (FAILED_LOGIN_ATTEMPTS), for everybody who uses it. Once a
//! login was refused, the same password is not sent to the same server for the same account again within
//! [`HELD_FOR`], whichever thread asks. There is one list in the process.
//!
//! In: connection options, outcomes of logins. Out: whether a try is allowed. Never here: a password.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{ClientError, ConnectOptions, Result};

/// How long a refused login is not tried again.
pub const HELD_FOR: Duration = Duration::from_secs(3600);

/// Errors after which the same password fails again: access denied (1045, 1698), password expired (1862), account
/// locked (3118, 3955), host blocked or not allowed (1129, 1130).
#[must_use]
pub(crate) fn is_refusal(code: u16) -> bool {
    matches!(code, 1045 | 1129 | 1130 | 1698 | 1862 | 3118 | 3955)
}

/// Server, account, and a hash of the password and the certificate under a key of this process.
type Key = (String, String, u64);

struct Gate {
    hasher: RandomState,
    logins: Mutex<HashMap<Key, Arc<Login>>>,
}

static GATE: LazyLock<Gate> = LazyLock::new(|| Gate { hasher: RandomState::new(), logins: Mutex::default() });

/// One account at one server with one password and certificate.
#[derive(Debug, Default)]
pub(crate) struct Login {
    /// Locked during a login as long as nobody knows whether the password is right: only one may try it.
    tried: Mutex<Tried>,
}

/// What became of the last login that the server decided on.
#[derive(Clone, Debug, Default)]
struct Tried {
    was_right: bool,
    refused: Option<Refused>,
}

#[derive(Clone, Debug)]
struct Refused {
    at: Instant,
    code: u16,
    sqlstate: String,
    message: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Login {
    /// The login that these options mean. One with a client's secret is the client's own affair.
    #[must_use]
    pub(crate) fn of(options: &ConnectOptions) -> Arc<Login> {
        if options.secret.is_some() {
            return Arc::default();
        }
        let server = match &options.socket {
            Some(path) => path.display().to_string(),
            None => format!("{}:{}", options.host, options.port),
        };
        // An account may require a certificate: with another one the same password is another login.
        let ConnectOptions { password, ssl_mode, ssl_cert, ssl_key, .. } = options;
        let password = password.as_deref().unwrap_or_default();
        let secret = GATE.hasher.hash_one((password, format!("{ssl_mode:?}"), ssl_cert, ssl_key));
        let key = (server, options.user.clone(), secret);
        Arc::clone(lock(&GATE.logins).entry(key).or_default())
    }

    /// Fails if this login was refused less than [`HELD_FOR`] ago.
    pub(crate) fn check(&self) -> Result<()> {
        check(&mut lock(&self.tried).refused, Instant::now())
    }

    /// Runs `log_in` unless this login was refused, and notes how it ends.
    pub(crate) fn attempt<T>(&self, log_in: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut tried = lock(&self.tried);
        check(&mut tried.refused, Instant::now())?;
        let unsure = if tried.was_right {
            drop(tried);
            None
        } else {
            Some(tried)
        };
        let result = log_in();
        let mut tried = unsure.unwrap_or_else(|| lock(&self.tried));
        match result.as_ref().map_err(Refused::of) {
            Ok(_) => *tried = Tried { was_right: true, refused: None },
            Err(Some(refused)) => *tried = Tried { was_right: false, refused: Some(refused) },
            Err(None) => {}
        }
        result
    }
}

impl Refused {
    fn of(error: &ClientError) -> Option<Refused> {
        let ClientError::Server { code, sqlstate, message } = error else { return None };
        let (sqlstate, message) = (sqlstate.clone(), message.clone());
        is_refusal(*code).then(|| Refused { at: Instant::now(), code: *code, sqlstate, message })
    }
}

fn check(refused: &mut Option<Refused>, now: Instant) -> Result<()> {
    let Some(Refused { at, code, sqlstate, message }) = refused.clone() else { return Ok(()) };
    let wait = HELD_FOR.saturating_sub(now.saturating_duration_since(at));
    if wait.is_zero() {
        *refused = None;
        return Ok(());
    }
    Err(ClientError::LoginHeld { code, sqlstate, message, wait })
}

/// Allows one more try of this login: an operator asks for it.
pub fn allow_login(options: &ConnectOptions) {
    lock(&Login::of(options).tried).refused = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> ClientError {
        ClientError::Server { code, sqlstate: "28000".into(), message: "no".into() }
    }

    #[test]
    fn a_refused_password_waits_and_another_does_not() {
        let login = |password: &str| ConnectOptions {
            host: "a-refused-password-waits".into(),
            password: Some(password.into()),
            ..ConnectOptions::default()
        };
        let old = Login::of(&login("old"));
        assert_eq!(old.attempt(|| Err::<(), _>(refused(1045))).unwrap_err().server_code(), Some(1045));
        // From every thread, by whatever options mean the same.
        let again = Login::of(&login("old"));
        let held = again.attempt(|| -> Result<()> { unreachable!("not tried") }).unwrap_err();
        assert!(matches!(&held, ClientError::LoginHeld { code: 1045, wait, .. } if *wait > HELD_FOR / 2), "{held}");
        assert!(again.check().is_err());
        assert_eq!(Login::of(&login("new")).attempt(|| Ok(7)).unwrap(), 7);
        // After an hour, or when an operator asks.
        let mut state = lock(&old.tried).refused.clone();
        let later = state.as_ref().unwrap().at + HELD_FOR;
        assert!(check(&mut state, later - Duration::from_millis(1)).is_err() && check(&mut state, later).is_ok());
        allow_login(&login("old"));
        assert_eq!(old.attempt(|| Ok(1)).unwrap(), 1);
        assert!(again.check().is_ok());
    }

    #[test]
    fn a_password_that_was_right_is_tried_by_several_at_once() {
        let options = ConnectOptions { host: "several-at-once".into(), ..ConnectOptions::default() };
        Login::of(&options).attempt(|| Ok(())).unwrap();
        let within = || Login::of(&options).attempt(|| Ok(7));
        assert_eq!(Login::of(&options).attempt(within).unwrap(), 7);
        assert!(Login::of(&options).attempt(|| Err::<(), _>(refused(1045))).is_err());
        assert!(Login::of(&options).check().is_err());
    }

    #[test]
    fn other_errors_are_tried_again() {
        let options = ConnectOptions { host: "other-errors".into(), ..ConnectOptions::default() };
        for error in [refused(1040), ClientError::Closed] {
            assert!(Login::of(&options).attempt(|| Err::<(), _>(error)).is_err());
            assert!(Login::of(&options).check().is_ok());
        }
    }
}
