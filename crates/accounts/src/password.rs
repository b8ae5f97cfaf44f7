//! Passwords: how they are kept, and whether an answer or a password is the right one.
//!
//! In: a password, or a client's answer to a nonce. Out: a text as MySQL keeps it, yes or no. Never here: a comparison
//! whose time depends on the bytes compared; a password in a debug text.

use std::fmt;

use sha1::Sha1;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::error::AccountsError;
use crate::sha_crypt::{self, HASH_LEN, SALT_LEN};

/// Length of a SHA-256 hash in bytes.
pub(crate) const SHA256_LEN: usize = 32;
/// Length of a SHA-1 hash in bytes.
pub(crate) const SHA1_LEN: usize = 20;
/// Longest password in bytes, MySQL's limit.
pub(crate) const PASSWORD_BYTES_MAX: usize = 256;
/// Start of a caching_sha2_password hash: kind A, 5 times 1,000 rounds.
const SHA256_PREFIX: &str = "$A$005$";

/// How an account proves its password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordPlugin {
    /// caching_sha2_password.
    CachingSha2,
    /// mysql_native_password: for old clients; its hash is unsalted SHA-1.
    Native,
}

impl PasswordPlugin {
    /// Name in the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PasswordPlugin::CachingSha2 => "caching_sha2_password",
            PasswordPlugin::Native => "mysql_native_password",
        }
    }

    /// Finds a plugin by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<PasswordPlugin> {
        [PasswordPlugin::CachingSha2, PasswordPlugin::Native].into_iter().find(|plugin| plugin.name() == name)
    }
}

/// A password as MySQL's `authentication_string` keeps it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredPassword(Kept);

#[derive(Clone, PartialEq, Eq)]
enum Kept {
    CachingSha2 { salt: [u8; SALT_LEN], hash: [u8; HASH_LEN] },
    Native([u8; SHA1_LEN]),
}

/// Only the plugin.
impl fmt::Debug for StoredPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredPassword({})", self.plugin().name())
    }
}

impl StoredPassword {
    /// Hashes a password; takes milliseconds.
    ///
    /// # Errors
    /// The password is empty, longer than 256 bytes or has a NUL; the system has no random bytes.
    pub fn new(plugin: PasswordPlugin, password: &str) -> Result<StoredPassword, AccountsError> {
        let invalid = |text: &str| Err(AccountsError::Invalid(text.to_owned()));
        match password.len() {
            0 => return invalid("the password is empty"),
            1..=PASSWORD_BYTES_MAX => {}
            _ => return invalid("the password is longer than 256 bytes"),
        }
        if password.contains('\0') {
            return invalid("a password has no NUL: clients send it up to the first one");
        }
        Ok(StoredPassword(match plugin {
            PasswordPlugin::Native => Kept::Native(twice_sha1(password.as_bytes())),
            PasswordPlugin::CachingSha2 => {
                let salt = random::<SALT_LEN>()?.map(salt_character);
                Kept::CachingSha2 { salt, hash: sha_crypt::crypt(password.as_bytes(), &salt) }
            }
        }))
    }

    /// Reads an `authentication_string`; None if it is not one.
    #[must_use]
    pub fn from_text(plugin: PasswordPlugin, text: &str) -> Option<StoredPassword> {
        Some(StoredPassword(match plugin {
            PasswordPlugin::CachingSha2 => {
                let (salt, hash) = text.strip_prefix(SHA256_PREFIX)?.as_bytes().split_first_chunk::<SALT_LEN>()?;
                Kept::CachingSha2 { salt: *salt, hash: hash.try_into().ok()? }
            }
            PasswordPlugin::Native => Kept::Native(from_hex(text.strip_prefix('*')?)?),
        }))
    }

    /// The `authentication_string`.
    #[must_use]
    pub fn to_text(&self) -> String {
        match &self.0 {
            Kept::CachingSha2 { salt, hash } => {
                format!("{SHA256_PREFIX}{}{}", String::from_utf8_lossy(salt), String::from_utf8_lossy(hash))
            }
            Kept::Native(hash) => format!("*{}", to_hex(hash).to_uppercase()),
        }
    }

    /// The plugin that it belongs to.
    #[must_use]
    pub fn plugin(&self) -> PasswordPlugin {
        match self.0 {
            Kept::CachingSha2 { .. } => PasswordPlugin::CachingSha2,
            Kept::Native(_) => PasswordPlugin::Native,
        }
    }

    /// A password that nobody has, the same one for a name each time. Of `count` names `native` get
    /// mysql_native_password.
    pub(crate) fn decoy(key: &[u8; 32], user: &str, native: usize, count: usize) -> StoredPassword {
        let bytes: [u8; SHA256_LEN] = Sha256::new().chain_update(key).chain_update(user).finalize().into();
        let [a, b, c, d, rest @ ..] = bytes;
        let number = u32::from_le_bytes([a, b, c, d]) as usize;
        if count > 0 && number % count < native {
            return StoredPassword(Kept::Native(std::array::from_fn(|at| rest[at])));
        }
        // No hash has a space in it.
        let salt = std::array::from_fn(|at| salt_character(rest[at]));
        StoredPassword(Kept::CachingSha2 { salt, hash: [b' '; HASH_LEN] })
    }

    /// True if this is the password; takes milliseconds for caching_sha2_password.
    pub(crate) fn is(&self, password: &[u8]) -> bool {
        match &self.0 {
            Kept::CachingSha2 { salt, hash } => sha_crypt::crypt(password, salt).ct_eq(hash).into(),
            Kept::Native(hash) => twice_sha1(password).ct_eq(hash).into(),
        }
    }

    /// True if a client's mysql_native_password answer to the nonce is the right one; false for other plugins.
    pub(crate) fn native_answer_is_right(&self, answer: &[u8], nonce: &[u8]) -> bool {
        let (Kept::Native(hash), Ok(answer)) = (&self.0, <[u8; SHA1_LEN]>::try_from(answer)) else { return false };
        let mask: [u8; SHA1_LEN] = Sha1::new().chain_update(nonce).chain_update(hash).finalize().into();
        let once: [u8; SHA1_LEN] = std::array::from_fn(|at| answer[at] ^ mask[at]);
        let twice: [u8; SHA1_LEN] = Sha1::digest(once).into();
        twice.ct_eq(hash).into()
    }
}

/// The fast form of a password, from which a client's answer is checked without thousands of rounds.
pub(crate) fn fast_form(password: &[u8]) -> [u8; SHA256_LEN] {
    Sha256::digest(Sha256::digest(password)).into()
}

/// Whether a client's caching_sha2_password answer to the nonce is the right one. Without a fast form: no, after the
/// same work.
pub(crate) fn fast_answer_is_right(answer: &[u8], nonce: &[u8], fast: Option<&[u8; SHA256_LEN]>) -> bool {
    let Ok(answer) = <[u8; SHA256_LEN]>::try_from(answer) else { return false };
    let known = Choice::from(u8::from(fast.is_some()));
    let fast = fast.unwrap_or(&[0; SHA256_LEN]);
    let mask: [u8; SHA256_LEN] = Sha256::new().chain_update(fast).chain_update(nonce).finalize().into();
    let once: [u8; SHA256_LEN] = std::array::from_fn(|at| answer[at] ^ mask[at]);
    let twice: [u8; SHA256_LEN] = Sha256::digest(once).into();
    (twice.ct_eq(fast) & known).into()
}

fn twice_sha1(password: &[u8]) -> [u8; SHA1_LEN] {
    Sha1::digest(Sha1::digest(password)).into()
}

/// One of 64 characters that need no escape in a file.
fn salt_character(byte: u8) -> u8 {
    match byte & 0x3f {
        digit @ 0..10 => b'0' + digit,
        letter @ 10..36 => b'A' + letter - 10,
        letter @ 36..62 => b'a' + letter - 36,
        62 => b'.',
        _ => b'/',
    }
}

/// Random bytes from the TLS library's generator.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], AccountsError> {
    let mut bytes = [0; N];
    let filled = rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes);
    filled.map(|()| bytes).map_err(|_| AccountsError::NoRandomness)
}

/// Hexadecimal text in lower case.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of a hexadecimal text; None if it is not one of this length.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    let mut out = [0; N];
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::try_from(digit(2 * at)? << 4 | digit(2 * at + 1)?).ok()?;
    }
    Some(out)
}
