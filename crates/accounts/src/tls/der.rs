//! The little of DER that a certificate of our own needs, and that the end of any certificate is read with.
//!
//! In: contents, bytes of a certificate. Out: elements. Never here: a length that was not checked.

use wire::rsa::take_der;

/// Tags of DER.
pub(super) mod tag {
    pub(in crate::tls) const BOOLEAN: u8 = 0x01;
    pub(in crate::tls) const INTEGER: u8 = 0x02;
    pub(in crate::tls) const BIT_STRING: u8 = 0x03;
    pub(in crate::tls) const OCTET_STRING: u8 = 0x04;
    pub(in crate::tls) const OBJECT_ID: u8 = 0x06;
    pub(in crate::tls) const UTF8_STRING: u8 = 0x0c;
    pub(in crate::tls) const UTC_TIME: u8 = 0x17;
    pub(in crate::tls) const GENERALIZED_TIME: u8 = 0x18;
    pub(in crate::tls) const SEQUENCE: u8 = 0x30;
    pub(in crate::tls) const SET: u8 = 0x31;
    /// Version of a certificate.
    pub(in crate::tls) const EXPLICIT_0: u8 = 0xa0;
    /// Extensions of a certificate.
    pub(in crate::tls) const EXPLICIT_3: u8 = 0xa3;
    /// A DNS name among alternative names.
    pub(in crate::tls) const DNS_NAME: u8 = 0x82;
    /// An address among alternative names.
    pub(in crate::tls) const IP_ADDRESS: u8 = 0x87;
}

/// One element with the parts as its content.
pub(super) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut out = vec![tag];
    let len = content.len().to_be_bytes();
    let significant = len.iter().position(|&byte| byte != 0).unwrap_or(len.len() - 1);
    let len = len.get(significant..).unwrap_or_default();
    if let [short @ 0..0x80] = len {
        out.push(*short);
    } else {
        out.push(0x80 | u8::try_from(len.len()).unwrap_or(0x7f));
        out.extend_from_slice(len);
    }
    out.extend_from_slice(&content);
    out
}

/// A SEQUENCE of the parts.
pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(tag::SEQUENCE, parts)
}

/// A BIT STRING of whole bytes.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(tag::BIT_STRING, &[&[0], bytes])
}

/// Content of the next element, which must have this tag.
pub(super) fn take_tagged<'a>(der: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    take_der(der).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}
