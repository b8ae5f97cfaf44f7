//! The slow part of a login: thousands of rounds of SHA-256.
//!
//! In: a password, what it must hash to. Out: whether it does; a right one goes to whoever keeps what was proved. Never
//! here: a password in a debug text, or in memory that is swapped out, for longer than the hash takes.

use std::fmt;
use std::io;

use wire::auth::Secret;
use zeroize::Zeroizing;

use crate::password::{SHA256_LEN, StoredPassword, fast_form};

/// Keeps the unsalted form of a right password.
pub(super) type Proves = Box<dyn FnOnce([u8; SHA256_LEN]) + Send>;

/// A password to hash, with what it must give. Holds the password: run it soon.
pub struct FullLogin {
    password: Zeroizing<Vec<u8>>,
    stored: StoredPassword,
    proves: Proves,
    /// The password logs in at the source too.
    keeps: bool,
}

/// Without the password.
impl fmt::Debug for FullLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FullLogin({:?})", self.stored)
    }
}

impl FullLogin {
    pub(super) fn new(password: &[u8], stored: &StoredPassword, proves: Proves, keeps: bool) -> FullLogin {
        FullLogin { password: Zeroizing::new(password.to_vec()), stored: stored.clone(), proves, keeps }
    }

    /// Hashes the password; takes milliseconds, the same for a right one, a wrong one and an unknown name. Writes a
    /// file when a password is seen for the first time.
    #[must_use]
    pub fn run(self) -> FullLoginResult {
        let (is_right, fast) = (self.stored.is(&self.password), fast_form(&self.password));
        if is_right {
            (self.proves)(fast);
        }
        let secret = (is_right && self.keeps).then(|| Secret::of_password(&self.password));
        FullLoginResult { is_right, secret }
    }
}

/// What hashing a password gave.
#[derive(Debug)]
pub struct FullLoginResult {
    pub(super) is_right: bool,
    /// The password, if it is to be kept and was right.
    pub(super) secret: Option<io::Result<Secret>>,
}
