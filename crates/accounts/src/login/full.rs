//! The slow part of a login: thousands of rounds of SHA-256.
//!
//! In: a password, what it must hash to. Out: whether it does; a right one goes to whoever keeps what was proved. Never
//! here: a password in a debug text.

use std::fmt;

use crate::password::{SHA256_LEN, StoredPassword, fast_form};

/// Keeps the unsalted form of a right password.
pub(super) type Proves = Box<dyn FnOnce([u8; SHA256_LEN]) + Send>;

/// A password to hash, with what it must give. Holds the password: run it soon.
pub struct FullLogin {
    password: Vec<u8>,
    stored: StoredPassword,
    proves: Proves,
}

/// Without the password.
impl fmt::Debug for FullLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FullLogin({:?})", self.stored)
    }
}

impl FullLogin {
    pub(super) fn new(password: &[u8], stored: &StoredPassword, proves: Proves) -> FullLogin {
        FullLogin { password: password.to_vec(), stored: stored.clone(), proves }
    }

    /// Hashes the password; takes milliseconds, the same for a right one, a wrong one and an unknown name. Writes a
    /// file when a password is seen for the first time.
    #[must_use]
    pub fn run(self) -> FullLoginResult {
        let (is_right, fast) = (self.stored.is(&self.password), fast_form(&self.password));
        if is_right {
            (self.proves)(fast);
        }
        FullLoginResult { is_right }
    }
}

/// What hashing a password gave.
#[derive(Debug)]
pub struct FullLoginResult {
    pub(super) is_right: bool,
}
