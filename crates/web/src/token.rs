//! A token that lets a scraper in, from a file.
//!
//! In: the file's path; what a request brings. Out: whether that is the token. Never here: the token itself once it is
//! read, but for its hash; a comparison whose time tells how much of it was right.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Fewest characters: as many as no one guesses over a network.
const CHARS_MIN: usize = 20;
/// Longest file in bytes; a request's headers have 16 KiB.
const BYTES_MAX: u64 = 4 << 10;
/// Mode bits of others than the owner.
const OTHERS: u32 = 0o077;

#[derive(Debug)]
pub struct Token {
    path: PathBuf,
    hash: RwLock<[u8; 32]>,
}

impl Token {
    /// Reads a token from a file.
    ///
    /// # Errors
    /// The file cannot be read, may be read by others than its owner, or holds no token.
    pub fn open(path: &Path) -> io::Result<Token> {
        Ok(Token { hash: RwLock::new(read(path)?), path: path.to_owned() })
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// As [`open`](Self::open); the token stays as it was.
    pub fn reload(&self) -> io::Result<()> {
        let hash = read(&self.path)?;
        *self.hash.write().unwrap_or_else(PoisonError::into_inner) = hash;
        Ok(())
    }

    /// True if this is the token.
    pub(crate) fn is(&self, given: &str) -> bool {
        let hash = self.hash.read().unwrap_or_else(PoisonError::into_inner);
        // Of hashes: the length tells nothing either.
        bool::from(Sha256::digest(given.as_bytes()).as_slice().ct_eq(hash.as_slice()))
    }
}

/// The hash of a file's token.
fn read(path: &Path) -> io::Result<[u8; 32]> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display())));
    let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    // The open of a pipe would wait for its writer, and a stop would wait with it.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(at)?;
    let about = file.metadata().map_err(at)?;
    if !about.is_file() {
        return refused("it is not a regular file");
    }
    if about.permissions().mode() & OTHERS != 0 {
        return refused("others than its owner may read or write it: chmod 600");
    }
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(at)?;
    let token = text.strip_suffix('\n').unwrap_or(&text);
    let token = token.strip_suffix('\r').unwrap_or(token);
    if text.len() as u64 > BYTES_MAX || token.len() < CHARS_MIN {
        return refused("a token has 20 characters or more, and 4 KiB at most");
    }
    // RFC 6750: b64token
    if !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)) {
        return refused("a token is one line of letters, digits and -._~+/=");
    }
    Ok(Sha256::digest(token.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_token_of_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert_eq!(Token::open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let good = "0123456789abcdefABC=";
        for mode in [0o640, 0o604, 0o622] {
            write(&path, good, mode);
            assert!(Token::open(&path).unwrap_err().to_string().contains("chmod 600"), "{mode:o}");
        }
        for bad in
            ["", "0123456789abcdefABC", "0123456789abcdef 0123", "0123456789abcdef\n0123456789", &"x".repeat(5_000)]
        {
            write(&path, bad, 0o600);
            assert!(Token::open(&path).is_err(), "{bad}");
        }
        write(&path, &format!("{good}\n"), 0o600);
        let token = Token::open(&path).unwrap();
        assert!(token.is(good) && !format!("{token:?}").contains(good));
        for wrong in ["", "0123456789abcdefABC", "0123456789abcdefABC==", "0123456789abcdefABD="] {
            assert!(!token.is(wrong), "{wrong}");
        }
        // Nor is a pipe waited for.
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        assert!(Token::open(&pipe).unwrap_err().to_string().contains("not a regular file"));
        // One that cannot be read changes nothing.
        write(&path, "short", 0o600);
        assert!(token.reload().is_err() && token.is(good));
        write(&path, "another-token-of-20-characters", 0o400);
        token.reload().unwrap();
        assert!(!token.is(good) && token.is("another-token-of-20-characters"));
    }
}
