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
/// Start of a caching_sha2_password hash; three hexadecimal digits of thousands of rounds follow, then `$`.
const SHA256_PREFIX: &str = "$A$";
/// Thousands of rounds of a new hash, the least that MySQL allows.
const NEW_THOUSANDS: u16 = 5;
/// Thousands of rounds that a hash may have, MySQL's bounds.
const THOUSANDS: std::ops::RangeInclusive<u16> = NEW_THOUSANDS..=0xfff;

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
    CachingSha2 { thousands: u16, salt: [u8; SALT_LEN], hash: [u8; HASH_LEN] },
    Native([u8; SHA1_LEN]),
}

/// Plugin and work of a password: thousands of rounds, or None for mysql_native_password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PasswordKind(Option<u16>);

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
                let hash = sha_crypt::crypt(password.as_bytes(), &salt, rounds(NEW_THOUSANDS));
                Kept::CachingSha2 { thousands: NEW_THOUSANDS, salt, hash }
            }
        }))
    }

    /// Reads an `authentication_string`; None if it is not one.
    #[must_use]
    pub fn from_text(plugin: PasswordPlugin, text: &str) -> Option<StoredPassword> {
        Some(StoredPassword(match plugin {
            PasswordPlugin::CachingSha2 => {
                let (digits, rest) = text.strip_prefix(SHA256_PREFIX)?.split_at_checked(3)?;
                let thousands = u16::from_str_radix(digits, 16).ok().filter(|number| THOUSANDS.contains(number))?;
                let (salt, hash) = rest.strip_prefix('$')?.as_bytes().split_first_chunk::<SALT_LEN>()?;
                let hash: [u8; HASH_LEN] = hash.try_into().ok()?;
                // MySQL's salts have seven bits; others could not be written as text again.
                (salt.is_ascii() && hash.iter().all(|&byte| sha_crypt::is_digit(byte))).then_some(())?;
                Kept::CachingSha2 { thousands, salt: *salt, hash }
            }
            PasswordPlugin::Native => Kept::Native(from_hex(text.strip_prefix('*')?)?),
        }))
    }

    /// The `authentication_string`.
    #[must_use]
    pub fn to_text(&self) -> String {
        match &self.0 {
            Kept::CachingSha2 { thousands, salt, hash } => {
                let (salt, hash) = (String::from_utf8_lossy(salt), String::from_utf8_lossy(hash));
                format!("{SHA256_PREFIX}{thousands:03X}${salt}{hash}")
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

    /// A password that nobody has, the same one for a name each time. It is of one of `kinds`.
    pub(crate) fn decoy(key: &[u8; 32], user: &str, kinds: &[PasswordKind]) -> StoredPassword {
        let bytes: [u8; SHA256_LEN] = Sha256::new().chain_update(key).chain_update(user).finalize().into();
        let [a, b, c, d, rest @ ..] = bytes;
        let number = u32::from_le_bytes([a, b, c, d]) as usize;
        let kind = number.checked_rem(kinds.len()).and_then(|at| kinds.get(at).copied());
        StoredPassword(match kind.unwrap_or(PasswordKind(Some(NEW_THOUSANDS))) {
            PasswordKind(None) => Kept::Native(std::array::from_fn(|at| rest[at])),
            // No hash has a space in it.
            PasswordKind(Some(thousands)) => {
                let salt = std::array::from_fn(|at| salt_character(rest[at]));
                Kept::CachingSha2 { thousands, salt, hash: [b' '; HASH_LEN] }
            }
        })
    }

    /// What checking it looks like from outside.
    pub(crate) fn kind(&self) -> PasswordKind {
        PasswordKind(match self.0 {
            Kept::CachingSha2 { thousands, .. } => Some(thousands),
            Kept::Native(_) => None,
        })
    }

    /// True if this is the password; takes milliseconds for caching_sha2_password.
    #[must_use]
    pub fn is(&self, password: &[u8]) -> bool {
        match &self.0 {
            Kept::CachingSha2 { thousands, salt, hash } => {
                sha_crypt::crypt(password, salt, rounds(*thousands)).ct_eq(hash).into()
            }
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

/// Whether an unknown name is to look as if its password had been seen: always the same for a name.
pub(crate) fn decoy_was_seen(key: &[u8; 32], user: &str) -> bool {
    let hash = Sha256::new().chain_update(key).chain_update(b"seen").chain_update(user).finalize();
    hash.first().is_some_and(|byte| byte & 1 == 1)
}

/// The fast form of a password, from which a client's answer is checked without thousands of rounds.
pub(crate) fn fast_form(password: &[u8]) -> [u8; SHA256_LEN] {
    Sha256::digest(Sha256::digest(password)).into()
}

/// SHA-256 of the password, if a client's caching_sha2_password answer to the nonce is the right one. Without a fast
/// form: None, after the same work.
pub(crate) fn proved_by_fast_answer(
    answer: &[u8],
    nonce: &[u8],
    fast: Option<&[u8; SHA256_LEN]>,
) -> Option<[u8; SHA256_LEN]> {
    let Ok(answer) = <[u8; SHA256_LEN]>::try_from(answer) else { return None };
    let known = Choice::from(u8::from(fast.is_some()));
    let fast = fast.unwrap_or(&[0; SHA256_LEN]);
    let mask: [u8; SHA256_LEN] = Sha256::new().chain_update(fast).chain_update(nonce).finalize().into();
    let once: [u8; SHA256_LEN] = std::array::from_fn(|at| answer[at] ^ mask[at]);
    let twice: [u8; SHA256_LEN] = Sha256::digest(once).into();
    bool::from(twice.ct_eq(fast) & known).then_some(once)
}

fn rounds(thousands: u16) -> usize {
    usize::from(thousands) * 1_000
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a server of 9.7.4 keeps (`SELECT HEX(authentication_string)`): 10,000 rounds are its default, the others
    /// were made with caching_sha2_password_digest_rounds=5000.
    const OF_MYSQL: &[(&str, &str)] = &[
        (
            "secret",
            "2441243030412410664D433001066329012768213A723859287E257166675958325539794A6F652F79742E7148505A4B61\
                    7733676A327964446E484C494C677357425A665A30",
        ),
        (
            "Grüße, Jürgen! 🎉",
            "244124303041247F1070290D0E711D22477E7E79677D3F0B6F0F18662E743456447A4B7A4E495A36674545\
                    682E4A4E492E4B6157646C566B306F51517A66726B38476966452F",
        ),
        (
            "x",
            "24412430304124427279017E50282A3746035B19211E6811580419537477385A5677745A5445617536624F6A75694D4D61694F4F\
               68585A6C325144662E617275576371695A42",
        ),
        (
            "01234567890123456789012345678901",
            "244124303041246D7C7964466A331E18617A2544764421161C5215445A336E7251692F\
               53382E755537476F745357693654427253714A5655426839774C524773794B4E425A31",
        ),
        (
            "secret",
            "244124303035246A317508357B74257B6F570611593D5374697441314D58773636416A745259756631532E4C3878335\
                    54B56624B4F626662492F456576345657324F594E342E",
        ),
        (
            "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
            "244124303035243B0D2664207612697E3161071D7F6C27152F324D626E464E354D6B5275456F33436375656371316B32414F72714D647\
          7736952336236696B70555A476D3334",
        ),
    ];

    fn text_of(hex: &str) -> String {
        let digits = hex.as_bytes().chunks(2);
        digits.map(|two| char::from(u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())).collect()
    }

    #[test]
    fn hashes_of_a_server_are_checked() {
        for (password, hex) in OF_MYSQL {
            let text = text_of(hex);
            let stored = StoredPassword::from_text(PasswordPlugin::CachingSha2, &text).unwrap();
            assert!(stored.is(password.as_bytes()), "{password}");
            assert!(!stored.is(b"wrong") && !stored.is(b"") && !stored.is(format!("{password} ").as_bytes()));
            assert_eq!(stored.to_text(), text);
        }
    }

    #[test]
    fn new_hashes_have_five_thousand_rounds_and_a_salt_each() {
        let make = || StoredPassword::new(PasswordPlugin::CachingSha2, "secret").unwrap();
        let (one, other) = (make(), make());
        assert!(one.is(b"secret") && other.is(b"secret") && !one.is(b"Secret"));
        assert!(one.to_text().starts_with("$A$005$") && one.to_text().len() == 70);
        assert_ne!(one, other);
        assert_eq!(StoredPassword::from_text(PasswordPlugin::CachingSha2, &one.to_text()), Some(one));
    }

    /// The text is what `SELECT CONCAT('*', UPPER(SHA1(UNHEX(SHA1('secret')))))` gives.
    #[test]
    fn native_passwords() {
        let stored = StoredPassword::new(PasswordPlugin::Native, "secret").unwrap();
        assert_eq!(stored.to_text(), "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7");
        assert_eq!(StoredPassword::from_text(PasswordPlugin::Native, &stored.to_text()), Some(stored.clone()));
        assert!(stored.is(b"secret") && !stored.is(b"secreT"));
        let nonce = [7; 20];
        let answer = wire::auth::scramble_native(b"secret", &nonce);
        assert!(stored.native_answer_is_right(&answer, &nonce) && !stored.native_answer_is_right(&answer, &[8; 20]));
        assert!(!stored.native_answer_is_right(&wire::auth::scramble_native(b"other", &nonce), &nonce));
        assert!(!stored.native_answer_is_right(&answer[..19], &nonce) && !stored.native_answer_is_right(b"", &nonce));
    }

    #[test]
    fn fast_answers() {
        let (nonce, fast) = ([9; 20], fast_form(b"secret"));
        let answer = wire::auth::scramble_sha256(b"secret", &nonce);
        let once: [u8; 32] = Sha256::digest(b"secret").into();
        assert_eq!(proved_by_fast_answer(&answer, &nonce, Some(&fast)), Some(once));
        assert_eq!(proved_by_fast_answer(&answer, &[8; 20], Some(&fast)), None);
        assert_eq!(proved_by_fast_answer(&answer, &nonce, Some(&fast_form(b"other"))), None);
        assert_eq!(proved_by_fast_answer(&answer[..31], &nonce, Some(&fast)), None);
        // What an unknown fast form is compared with is no password's.
        assert_eq!(proved_by_fast_answer(&answer, &nonce, None), None);
        let mask: [u8; 32] = Sha256::new().chain_update([0; 32]).chain_update(nonce).finalize().into();
        assert_eq!(proved_by_fast_answer(&mask, &nonce, None), None);
    }

    #[test]
    fn impossible_passwords_and_texts() {
        for password in ["", "a\0b", &"x".repeat(257)] {
            assert!(StoredPassword::new(PasswordPlugin::CachingSha2, password).is_err());
        }
        let longest = "x".repeat(256);
        assert!(StoredPassword::new(PasswordPlugin::CachingSha2, &longest).unwrap().is(longest.as_bytes()));
        let good = StoredPassword::new(PasswordPlugin::CachingSha2, "secret").unwrap().to_text();
        let texts = [&good[1..], &good[..69], &format!("{good}x"), &good.replace("$005$", "$004$"), "", "$A$005$"];
        for text in
            texts.iter().copied().chain([good.replace("$005$", "$0é$").as_str(), &(good[..69].to_owned() + "!")])
        {
            assert!(StoredPassword::from_text(PasswordPlugin::CachingSha2, text).is_none(), "{text}");
        }
        for text in
            ["", "*", "*14E6", "14E65567ABDB5135D0CFD9A70B3032C179A49EE7x", "*14E65567ABDB5135D0CFD9A70B3032C179A49EEé"]
        {
            assert!(StoredPassword::from_text(PasswordPlugin::Native, text).is_none(), "{text}");
        }
    }

    #[test]
    fn decoys_are_nobodys_and_of_the_accounts_kinds() {
        let sha = StoredPassword::new(PasswordPlugin::CachingSha2, "secret").unwrap();
        let native = StoredPassword::new(PasswordPlugin::Native, "secret").unwrap();
        let (sha, native) = (sha.kind(), native.kind());
        let decoy = |user: &str, kinds: &[PasswordKind]| StoredPassword::decoy(&[1; 32], user, kinds);
        assert_eq!(decoy("a", &[]).plugin(), PasswordPlugin::CachingSha2);
        assert!(!decoy("a", &[]).is(b"secret") && !decoy("a", &[native]).is(b"secret"));
        assert_eq!(decoy("a", &[sha, native]), decoy("a", &[sha, native]));
        let count =
            (0..400).filter(|user| decoy(&user.to_string(), &[sha, native]).plugin() == PasswordPlugin::Native).count();
        assert!((100..300).contains(&count), "{count} of 400");
        assert_ne!(decoy("a", &[]), StoredPassword::decoy(&[2; 32], "a", &[]));
    }

    proptest! {
        #[test]
        fn hex_comes_back(bytes: [u8; 20], text in ".{0,50}") {
            prop_assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
            let _ = from_hex::<20>(&text);
        }

        #[test]
        fn any_text_is_a_hash_or_none(text in "(\\$A\\$005\\$)?\\PC{0,80}") {
            for plugin in [PasswordPlugin::CachingSha2, PasswordPlugin::Native] {
                if let Some(stored) = StoredPassword::from_text(plugin, &text) {
                    prop_assert_eq!(stored.to_text().to_ascii_uppercase(), text.to_ascii_uppercase());
                }
            }
        }
    }
}
