//! SHA-256 crypt, as caching_sha2_password keeps passwords: with a salt of 20 bytes, where the published scheme allows
//! 16.

use sha2::{Digest, Sha256};

use crate::password::SHA256_LEN;

/// Length of the salt in bytes.
pub(crate) const SALT_LEN: usize = 20;
/// Length of the hash as text.
pub(crate) const HASH_LEN: usize = 43;
/// Digits of the text, in order of their value.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Places of the digest's bytes in the text, three bytes to four digits; the last two are apart.
const ORDER: [[usize; 3]; 10] = [
    [0, 10, 20],
    [21, 1, 11],
    [12, 22, 2],
    [3, 13, 23],
    [24, 4, 14],
    [15, 25, 5],
    [6, 16, 26],
    [27, 7, 17],
    [18, 28, 8],
    [9, 19, 29],
];

type Hash = [u8; SHA256_LEN];

/// Hash of a password as text. 5,000 rounds take milliseconds.
pub(crate) fn crypt(password: &[u8], salt: &[u8; SALT_LEN], rounds: usize) -> [u8; HASH_LEN] {
    let first = first_hash(password, salt);
    let password_bytes = stretched(&repeated_hash(password, password.len()), password.len());
    let salt_bytes = stretched(&repeated_hash(salt, 16 + usize::from(first[0])), SALT_LEN);
    let last = (0..rounds).fold(first, |hash, round| one_round(&hash, round, &password_bytes, &salt_bytes));
    text(&last)
}

/// True for the characters that a hash is written with.
pub(crate) fn is_digit(byte: u8) -> bool {
    DIGITS.contains(&byte)
}

fn first_hash(password: &[u8], salt: &[u8]) -> Hash {
    let inner: Hash = Sha256::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut hasher = Sha256::new().chain_update(password).chain_update(salt);
    hasher.update(stretched(&inner, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        hasher.update(if bits & 1 == 1 { &inner[..] } else { password });
        bits >>= 1;
    }
    hasher.finalize().into()
}

fn repeated_hash(bytes: &[u8], times: usize) -> Hash {
    let mut hasher = Sha256::new();
    (0..times).for_each(|_| hasher.update(bytes));
    hasher.finalize().into()
}

/// The hash repeated to this length.
fn stretched(hash: &Hash, len: usize) -> Vec<u8> {
    hash.iter().copied().cycle().take(len).collect()
}

fn one_round(hash: &Hash, round: usize, password: &[u8], salt: &[u8]) -> Hash {
    let is_odd = round % 2 == 1;
    let mut hasher = Sha256::new();
    hasher.update(if is_odd { password } else { hash });
    if !round.is_multiple_of(3) {
        hasher.update(salt);
    }
    if !round.is_multiple_of(7) {
        hasher.update(password);
    }
    hasher.update(if is_odd { hash } else { password });
    hasher.finalize().into()
}

fn text(hash: &Hash) -> [u8; HASH_LEN] {
    let groups = ORDER.iter().map(|&[a, b, c]| ([hash[a], hash[b], hash[c]], 4));
    let groups = groups.chain([([0, hash[31], hash[30]], 3)]);
    let digits = groups.flat_map(|([a, b, c], count)| {
        let value = u32::from_be_bytes([0, a, b, c]);
        (0..count).map(move |place| DIGITS[(value >> (6 * place) & 0x3f) as usize])
    });
    let mut out = [0; HASH_LEN];
    out.iter_mut().zip(digits).for_each(|(byte, digit)| *byte = digit);
    out
}
