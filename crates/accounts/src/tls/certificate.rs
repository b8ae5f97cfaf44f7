//! A certificate of our own, signed by its own key; and when any certificate ends.
//!
//! In: a key, a time. Out: DER (RFC 5280). Never here: files, clocks.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use wire::rsa::take_der;

use super::der::{bit_string, element, sequence, tag, take_tagged};
use crate::error::TlsError;

/// How long our own certificate is valid, in days; MySQL's own ones have as much.
const VALID_DAYS: i64 = 3_650;
const DAY_SECONDS: i64 = 86_400;
/// Name of the certificate. Clients see it; it tells nothing of the machine.
const COMMON_NAME: &[u8] = b"Slipstream replica, self-signed";

// Object identifiers, encoded.
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const CURVE_P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const COMMON_NAME_ID: &[u8] = &[0x55, 0x04, 0x03];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SERVER_AUTHENTICATION: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];

fn library(what: &str) -> TlsError {
    TlsError::Library(what.to_owned())
}

/// A new ECDSA P-256 key as PKCS #8.
pub(super) fn new_key() -> Result<Vec<u8>, TlsError> {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
    key.map(|key| key.as_ref().to_vec()).map_err(|_| library("no key could be made"))
}

/// A certificate for a key, valid from an hour before `now_s` (seconds since 1970).
pub(super) fn self_signed(key: &[u8], now_s: i64) -> Result<Vec<u8>, TlsError> {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key, &random)
        .map_err(|_| library("the key is no ECDSA P-256 key"))?;
    let serial = crate::password::random::<16>().map_err(|_| library("no randomness"))?;
    let algorithm = sequence(&[&object_id(ECDSA_WITH_SHA256)]);
    let body = body(key.public_key().as_ref(), &serial, &algorithm, now_s)?;
    let signature = key.sign(&random, &body).map_err(|_| library("the certificate could not be signed"))?;
    Ok(sequence(&[&body, &algorithm, &bit_string(signature.as_ref())]))
}

/// The signed part.
fn body(public_key: &[u8], serial: &[u8; 16], algorithm: &[u8], now_s: i64) -> Result<Vec<u8>, TlsError> {
    let name = name();
    let valid = sequence(&[&time(now_s - 3_600)?, &time(now_s + VALID_DAYS * DAY_SECONDS)?]);
    let key_kind = sequence(&[&object_id(EC_PUBLIC_KEY), &object_id(CURVE_P256)]);
    Ok(sequence(&[
        &element(tag::EXPLICIT_0, &[&element(tag::INTEGER, &[&[2]])]),
        // The leading 1 makes it positive, whatever follows.
        &element(tag::INTEGER, &[&[1], serial]),
        algorithm,
        &name,
        &valid,
        &name,
        &sequence(&[&key_kind, &bit_string(public_key)]),
        &element(tag::EXPLICIT_3, &[&extensions()]),
    ]))
}

fn name() -> Vec<u8> {
    let value = element(tag::UTF8_STRING, &[COMMON_NAME]);
    sequence(&[&element(tag::SET, &[&sequence(&[&object_id(COMMON_NAME_ID), &value])])])
}

/// A server's certificate, no authority's.
fn extensions() -> Vec<u8> {
    let names = sequence(&[
        &element(tag::DNS_NAME, &[b"localhost"]),
        &element(tag::IP_ADDRESS, &[&[127, 0, 0, 1]]),
        &element(tag::IP_ADDRESS, &[&std::net::Ipv6Addr::LOCALHOST.octets()]),
    ]);
    sequence(&[
        &extension(BASIC_CONSTRAINTS, true, &sequence(&[])),
        // Bit 0, digitalSignature; seven bits are unused.
        &extension(KEY_USAGE, true, &element(tag::BIT_STRING, &[&[7, 0x80]])),
        &extension(EXTENDED_KEY_USAGE, false, &sequence(&[&object_id(SERVER_AUTHENTICATION)])),
        &extension(ALTERNATIVE_NAMES, false, &names),
    ])
}

fn extension(id: &[u8], is_critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if is_critical { element(tag::BOOLEAN, &[&[0xff]]) } else { Vec::new() };
    sequence(&[&object_id(id), &critical, &element(tag::OCTET_STRING, &[value])])
}

fn object_id(id: &[u8]) -> Vec<u8> {
    element(tag::OBJECT_ID, &[id])
}

/// Two digits of the year up to 2049, four from 2050 on.
fn time(at_s: i64) -> Result<Vec<u8>, TlsError> {
    let at = Timestamp::from_second(at_s).map_err(|_| library("the clock is out of range"))?;
    let at = at.to_zoned(TimeZone::UTC);
    let (tag, form) =
        if at.year() < 2050 { (tag::UTC_TIME, "%y%m%d%H%M%SZ") } else { (tag::GENERALIZED_TIME, "%Y%m%d%H%M%SZ") };
    Ok(element(tag, &[at.strftime(form).to_string().as_bytes()]))
}

/// When a certificate ends, in seconds since 1970; None if the bytes are no certificate.
pub(super) fn ends_at(certificate: &[u8]) -> Option<i64> {
    let mut certificate = take_tagged(&mut { certificate }, tag::SEQUENCE)?;
    let mut body = take_tagged(&mut certificate, tag::SEQUENCE)?;
    if body.first() == Some(&tag::EXPLICIT_0) {
        take_der(&mut body)?;
    }
    take_tagged(&mut body, tag::INTEGER)?;
    // Algorithm and issuer.
    take_tagged(&mut body, tag::SEQUENCE)?;
    take_tagged(&mut body, tag::SEQUENCE)?;
    let mut valid = take_tagged(&mut body, tag::SEQUENCE)?;
    take_der(&mut valid)?;
    let (kind, text) = take_der(&mut valid)?;
    seconds(kind, std::str::from_utf8(text).ok()?)
}

fn seconds(kind: u8, text: &str) -> Option<i64> {
    // RFC 5280: two digits of a year mean 1950 to 2049.
    let text = match kind {
        tag::UTC_TIME => format!("{}{text}", if text.get(..2)? < "50" { "20" } else { "19" }),
        tag::GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let digits = text.strip_suffix('Z').filter(|digits| digits.len() == 14)?;
    let at = jiff::civil::DateTime::strptime("%Y%m%d%H%M%S", digits).ok()?;
    Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}
