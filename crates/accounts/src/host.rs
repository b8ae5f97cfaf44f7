//! Host part of an account: which peers it matches, and which of two hosts is more specific.
//!
//! Never here: DNS. A name other than `localhost` without a wildcard is refused.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use crate::accounts::Peer;

/// Longest host part in characters, MySQL's limit.
const HOST_CHARS_MAX: usize = 255;

/// Host part of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// As given, lower case.
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One address.
    Address(IpAddr),
    /// The addresses whose first `bits` bits are those of `network`.
    Network { network: IpAddr, bits: u8, as_mask: bool },
    /// The unix socket.
    Localhost,
    /// `%` stands for any characters, `_` for one; compared with the address as text.
    Wildcards,
}

impl HostPattern {
    /// The text as stored and shown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True if a peer may use an account of this host.
    #[must_use]
    pub fn matches(&self, peer: &Peer) -> bool {
        match (self.kind, peer.ip()) {
            (Kind::Localhost, ip) => ip.is_none(),
            (Kind::Wildcards, _) => like(self.text.as_bytes(), peer.host().as_bytes()),
            (_, None) => false,
            (Kind::Address(own), Some(ip)) => own == ip,
            (Kind::Network { network, bits, .. }, Some(ip)) => first_bits(ip, bits) == Some(network),
        }
    }

    /// `Less` if this host is more specific than the other, in MySQL's order: addresses, networks in CIDR form, networks
    /// with a mask (the smaller network first), `localhost`, then patterns by the place of their first wildcard.
    #[must_use]
    pub fn by_specificity(&self, other: &HostPattern) -> Ordering {
        other.rank().cmp(&self.rank()).then_with(|| self.text.cmp(&other.text))
    }

    /// Higher is more specific.
    fn rank(&self) -> (u8, usize) {
        match self.kind {
            Kind::Address(_) => (4, 0),
            Kind::Network { bits, as_mask, .. } => (if as_mask { 2 } else { 3 }, usize::from(bits)),
            Kind::Localhost => (1, 0),
            Kind::Wildcards => (0, self.text.find(['%', '_']).unwrap_or(usize::MAX)),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<HostPattern, String> {
        let text = text.to_ascii_lowercase();
        if text.is_empty() || text.chars().count() > HOST_CHARS_MAX || text.chars().any(unprintable) {
            return Err(format!("a host has 1 to {HOST_CHARS_MAX} characters without blanks and quotes"));
        }
        let kind = if let Some((address, net)) = text.split_once('/') {
            network(address, net)?
        } else if let Ok(address) = text.parse::<IpAddr>() {
            Kind::Address(address.to_canonical())
        } else if text == "localhost" {
            Kind::Localhost
        } else if text.contains(['%', '_']) {
            Kind::Wildcards
        } else {
            return Err(format!(
                "host '{text}' is a name, and names are not looked up: give an address, a network (10.0.0.0/8), a \
                 pattern ('10.%'), or localhost for the unix socket"
            ));
        };
        Ok(HostPattern { text, kind })
    }
}

fn unprintable(c: char) -> bool {
    c.is_control() || c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '@')
}

/// A network as address and prefix length or IPv4 mask.
fn network(address: &str, net: &str) -> Result<Kind, String> {
    let bad = || format!("'{address}/{net}' is no network: write 10.0.0.0/8, 10.0.0.0/255.0.0.0 or fd00::/8");
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    let (bits, as_mask) = match net.parse::<Ipv4Addr>() {
        Ok(mask) if address.is_ipv4() => (prefix_length(mask).ok_or_else(bad)?, true),
        Ok(_) => return Err(bad()),
        Err(_) => (net.parse::<u8>().map_err(|_| bad())?, false),
    };
    match first_bits(address, bits) {
        Some(network) if network == address => Ok(Kind::Network { network, bits, as_mask }),
        Some(network) => Err(format!("'{address}' has bits outside its mask; the network begins at {network}")),
        None => Err(bad()),
    }
}

/// Number of leading ones, if only zeros follow.
fn prefix_length(mask: Ipv4Addr) -> Option<u8> {
    let mask = mask.to_bits();
    let ones = mask.leading_ones();
    (mask.count_ones() == ones).then_some(u8::try_from(ones).ok()?)
}

/// The address with all bits after the first `bits` cleared; None if it has fewer.
fn first_bits(address: IpAddr, bits: u8) -> Option<IpAddr> {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(ip) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            Some(Ipv4Addr::from_bits(ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            Some(std::net::Ipv6Addr::from_bits(ip.to_bits() & mask).into())
        }
        _ => None,
    }
}

/// Pattern comparison with `%` and `_`, in time linear to the product of both lengths.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'%') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&byte) if byte == b'_' || Some(&byte) == text.get(t) => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((after, from)) = retry else { return false };
                retry = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|&byte| byte == b'%')
}
