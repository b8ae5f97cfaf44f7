//! The slow part of a login: thousands of rounds of SHA-256.
//!
//! In: a password, what it must hash to. Out: whether it does; a right one is kept as proved. Never here: a password in a debug text.

use std::fmt;
use std::sync::Arc;

use crate::accounts::{Accounts, Candidate};
use crate::password::fast_form;

/// A password to hash, with what it must give. Holds the password: run it soon.
pub struct FullLogin {
    password: Vec<u8>,
    accounts: Arc<Accounts>,
    candidate: Candidate,
}

/// Without the password.
impl fmt::Debug for FullLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FullLogin({:?})", self.candidate.stored)
    }
}

impl FullLogin {
    pub(super) fn new(password: &[u8], accounts: &Arc<Accounts>, candidate: &Candidate) -> FullLogin {
        FullLogin { password: password.to_vec(), accounts: Arc::clone(accounts), candidate: candidate.clone() }
    }

    /// Hashes the password; takes milliseconds, the same for a right one, a wrong one and an unknown name. Writes a
    /// file when a password is seen for the first time.
    #[must_use]
    pub fn run(self) -> FullLoginResult {
        let (is_right, fast) = (self.candidate.stored.is(&self.password), fast_form(&self.password));
        if let Some(entry) = self.candidate.entry.as_ref().filter(|_| is_right) {
            self.accounts.proves(entry, fast);
        }
        FullLoginResult { is_right }
    }
}

/// What hashing a password gave.
#[derive(Debug)]
pub struct FullLoginResult {
    pub(super) is_right: bool,
}
