//! RSA-OAEP (SHA-1, MGF1) encryption of a password with the server's public key (RFC 8017, section 7.1.1).
//!
//! Only the public operation is implemented, so there is no secret exponent that timing could leak.

use num_bigint::BigUint;
use sha1::{Digest, Sha1};

use crate::{Result, WireError};

const HASH_LEN: usize = 20;
/// Larger keys are refused: one exponentiation would take seconds.
const MODULUS_BITS_MAX: u64 = 16_384;
const MODULUS_BITS_MIN: u64 = 1_024;

/// An RSA public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    modulus: BigUint,
    exponent: BigUint,
    /// Length of the modulus in bytes.
    len: usize,
}

impl PublicKey {
    /// Parses `BEGIN PUBLIC KEY` (the form that MySQL sends and writes) or `BEGIN RSA PUBLIC KEY`.
    pub fn from_pem(pem: &[u8]) -> Result<Self> {
        let bad = |what| WireError::PublicKey { what };
        if pem.len() > 64 * 1024 {
            return Err(bad("the PEM text is too long"));
        }
        let text = std::str::from_utf8(pem).map_err(|_| bad("not PEM text"))?;
        let (label, rest) = ["PUBLIC KEY", "RSA PUBLIC KEY"]
            .into_iter()
            .find_map(|label| Some((label, text.split_once(&format!("-----BEGIN {label}-----"))?.1)))
            .ok_or(bad("no PEM block with a public key"))?;
        let (body, _) = rest.split_once("-----END").ok_or(bad("the PEM block has no end"))?;
        let der = base64(body).ok_or(bad("the PEM block is not base64"))?;
        let key = if label == "PUBLIC KEY" { subject_public_key(&der) } else { Some(&der[..]) };
        let mut key = key.and_then(|key| tagged(&mut { key }, 0x30)).ok_or(bad("not an RSA key"))?;
        let (Some(modulus), Some(exponent)) = (tagged(&mut key, 0x02), tagged(&mut key, 0x02)) else {
            return Err(bad("not an RSA key"));
        };
        PublicKey::new(BigUint::from_bytes_be(modulus), BigUint::from_bytes_be(exponent))
    }

    fn new(modulus: BigUint, exponent: BigUint) -> Result<Self> {
        let bad = |what| WireError::PublicKey { what };
        if !(MODULUS_BITS_MIN..=MODULUS_BITS_MAX).contains(&modulus.bits()) || !modulus.bit(0) {
            return Err(bad("unusable modulus"));
        }
        if !(2..=64).contains(&exponent.bits()) || !exponent.bit(0) {
            return Err(bad("unusable exponent"));
        }
        let len = base::to_usize(modulus.bits().div_ceil(8));
        Ok(PublicKey { modulus, exponent, len })
    }

    /// Encrypts a message; `seed` must be fresh random bytes.
    pub fn encrypt_oaep_sha1(&self, message: &[u8], seed: &[u8; HASH_LEN]) -> Result<Vec<u8>> {
        if message.len() + 2 * HASH_LEN + 2 > self.len {
            return Err(WireError::PublicKey { what: "the password is too long for the key" });
        }
        let mut block = Vec::with_capacity(self.len);
        block.extend_from_slice(&Sha1::digest(b""));
        block.resize(self.len - HASH_LEN - 1 - message.len() - 1, 0);
        block.push(1);
        block.extend_from_slice(message);
        xor_mask(&mut block, seed);
        let mut masked_seed = *seed;
        xor_mask(&mut masked_seed, &block);
        let mut encoded = vec![0];
        encoded.extend_from_slice(&masked_seed);
        encoded.extend_from_slice(&block);
        let cipher = BigUint::from_bytes_be(&encoded).modpow(&self.exponent, &self.modulus).to_bytes_be();
        let mut out = vec![0; self.len.saturating_sub(cipher.len())];
        out.extend_from_slice(&cipher);
        Ok(out)
    }
}

/// XORs MGF1(seed) into `target`.
fn xor_mask(target: &mut [u8], seed: &[u8]) {
    for (counter, chunk) in (0u32..).zip(target.chunks_mut(HASH_LEN)) {
        let mask = Sha1::new().chain_update(seed).chain_update(counter.to_be_bytes()).finalize();
        chunk.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// SubjectPublicKeyInfo: SEQUENCE { algorithm, BIT STRING { RSAPublicKey } }.
fn subject_public_key(der: &[u8]) -> Option<&[u8]> {
    const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
    let mut info = tagged(&mut { der }, 0x30)?;
    let mut algorithm = tagged(&mut info, 0x30)?;
    if tagged(&mut algorithm, 0x06)? != RSA_ENCRYPTION {
        return None;
    }
    tagged(&mut info, 0x03)?.strip_prefix(&[0])
}

/// Content of the next DER element, which must have this tag.
fn tagged<'a>(der: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    take_der(der).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}

/// Takes the next DER element: tag and content. None, with `der` as it was, if it is cut short or longer than 16 MiB.
pub fn take_der<'a>(der: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    *der = rest;
    Some((found, content))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A key generated for this test and used nowhere else.
    pub(crate) const PEM: &str = "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCoHWNMRRe7pVCPS3F9vKN780RG
CvHTf8bC/dqQzUEibLKVcTRJBhJsQD5cS4cbAJBk8LMg1x8uwyhK4qk6TPnio1mG
WHwpj2f+V/3mGYUMGu2OTWzzSmB9FDxngxR/5Cb4i/j8SkbAD/+5VEylz8AyLe6S
D/kNq/dponnNNKsD3wIDAQAB
-----END PUBLIC KEY-----
";
    const PEM_PKCS1: &str = "-----BEGIN RSA PUBLIC KEY-----
MIGJAoGBAKgdY0xFF7ulUI9LcX28o3vzREYK8dN/xsL92pDNQSJsspVxNEkGEmxA
PlxLhxsAkGTwsyDXHy7DKEriqTpM+eKjWYZYfCmPZ/5X/eYZhQwa7Y5NbPNKYH0U
PGeDFH/kJviL+PxKRsAP/7lUTKXPwDIt7pIP+Q2r92miec00qwPfAgMBAAE=
-----END RSA PUBLIC KEY-----
";
    /// "secret\0" under the key above with the seed 100..120, from an independent implementation; OpenSSL decrypts it.
    const CIPHER: &str = "2621e7b54e120634ee314c78ab78187190b722d93261414666dc20112a7f304bd36153186431e9eb41f833087ec3ae14\
cdb61076a135ecd957502509ca54df962b46be60094077f2d031815bc92699925af0ab94cc850ac250d62ae8c3bf7911446ffc08c187a7042d21e7549b3615\
829938cdaeadf6389f2e3511f963b5a340";

    fn seed() -> [u8; HASH_LEN] {
        std::array::from_fn(|index| 100 + index as u8)
    }

    #[test]
    fn known_answer() {
        let key = PublicKey::from_pem(PEM.as_bytes()).unwrap();
        assert_eq!(key, PublicKey::from_pem(PEM_PKCS1.as_bytes()).unwrap());
        let cipher = key.encrypt_oaep_sha1(b"secret\0", &seed()).unwrap();
        let hex: String = cipher.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, CIPHER);
    }

    #[test]
    fn limits() {
        let key = PublicKey::from_pem(PEM.as_bytes()).unwrap();
        assert!(key.encrypt_oaep_sha1(&[1; 86], &seed()).is_ok());
        assert!(key.encrypt_oaep_sha1(&[1; 87], &seed()).is_err());
        for bits in [0u64, 1, 512, 17_000] {
            assert!(PublicKey::new(BigUint::from(1u8) << bits, BigUint::from(65_537u32)).is_err());
        }
        assert!(PublicKey::from_pem(PEM.replace("MIGf", "MIGe").as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn hostile_keys_never_panic(at in 27usize..260, with in "[A-Za-z0-9+/=\n]", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut pem = PEM.to_owned();
            pem.replace_range(at..at + 1, &with);
            if let Ok(key) = PublicKey::from_pem(pem.as_bytes()) {
                let _ = key.encrypt_oaep_sha1(b"x", &seed());
            }
            let _ = PublicKey::from_pem(&bytes);
            let _ = subject_public_key(&bytes);
            let _ = tagged(&mut &bytes[..], 0x30);
        }
    }
}
