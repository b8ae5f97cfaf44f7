//! The slow part of a login: thousands of rounds of SHA-256.
//!
//! In: a password, what it must hash to. Out: whether it does. Never here: a password in a debug text.

use std::fmt;

use crate::password::{self, SHA256_LEN, StoredPassword};

/// A password to hash, with what it must give. Holds the password: run it soon.
pub struct FullLogin {
    password: Vec<u8>,
    stored: StoredPassword,
}

/// Without the password.
impl fmt::Debug for FullLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FullLogin({:?})", self.stored)
    }
}

impl FullLogin {
    pub(super) fn new(password: &[u8], stored: &StoredPassword) -> FullLogin {
        FullLogin { password: password.to_vec(), stored: stored.clone() }
    }

    /// Hashes the password; takes milliseconds, the same for a right one, a wrong one and an unknown name.
    #[must_use]
    pub fn run(self) -> FullLoginResult {
        FullLoginResult { is_right: self.stored.is(&self.password), fast: password::fast_form(&self.password) }
    }
}

/// What hashing a password gave.
pub struct FullLoginResult {
    pub(super) is_right: bool,
    pub(super) fast: [u8; SHA256_LEN],
}

/// Without anything that the password could be found from.
impl fmt::Debug for FullLoginResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FullLoginResult")
    }
}
