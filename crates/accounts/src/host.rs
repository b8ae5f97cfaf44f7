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

    /// `Less` if this host is more specific than the other, in MySQL's order: addresses, networks in CIDR form,
    /// networks with a mask (the smaller network first), `localhost`, patterns by the place of their first wildcard,
    /// `%`. MySQL leaves the rest to the order in which accounts were created; here the one with more fixed characters
    /// comes first.
    #[must_use]
    pub fn by_specificity(&self, other: &HostPattern) -> Ordering {
        other.rank().cmp(&self.rank()).then_with(|| self.text.cmp(&other.text))
    }

    /// Higher is more specific.
    fn rank(&self) -> (u8, usize, usize) {
        let is_wildcard = |c: char| matches!(c, '%' | '_');
        match self.kind {
            Kind::Address(_) => (5, 0, 0),
            Kind::Network { bits, as_mask, .. } => (if as_mask { 3 } else { 4 }, usize::from(bits), 0),
            Kind::Localhost => (2, 0, 0),
            Kind::Wildcards if self.text == "%" => (0, 0, 0),
            Kind::Wildcards => {
                let first = self.text.find(is_wildcard).unwrap_or(usize::MAX);
                (1, first, self.text.chars().filter(|c| !is_wildcard(*c)).count())
            }
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
    let bad = || format!("'{address}/{net}' is not a network: write 10.0.0.0/8, 10.0.0.0/255.0.0.0 or fd00::/8");
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(text: &str) -> HostPattern {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn matches(pattern: &str, peer: &str) -> bool {
        let peer = match peer {
            "socket" => Peer::Socket { uid: 1 },
            address => Peer::Tcp(address.parse().unwrap()),
        };
        host(pattern).matches(&peer)
    }

    #[test]
    fn addresses_and_networks() {
        for (pattern, inside, outside) in [
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.2.3", "::ffff:10.1.2.3", "::ffff:10.1.2.4"),
            ("::ffff:10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.0/255.255.255.0", "10.1.2.0", "10.1.3.0"),
            ("0.0.0.0/0", "255.1.2.3", "fd00::1"),
            ("192.168.7.4/31", "192.168.7.5", "192.168.7.6"),
            ("192.168.7.4/32", "192.168.7.4", "192.168.7.5"),
            ("fd00:0:0::1", "fd00::1", "fd00::2"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::/0", "1::", "1.2.3.4"),
        ] {
            assert!(matches(pattern, inside), "{pattern} {inside}");
            assert!(!matches(pattern, outside), "{pattern} {outside}");
            assert!(!matches(pattern, "socket"), "{pattern}");
        }
    }

    #[test]
    fn patterns_are_compared_with_the_text_of_an_address() {
        for (pattern, inside, outside) in [
            ("10.%", "10.0.0.1", "110.0.0.1"),
            ("10.0.0._", "10.0.0.7", "10.0.0.77"),
            ("%.7", "10.0.0.7", "10.0.0.77"),
            ("10.%.0.%", "10.200.0.9", "10.200.1.9"),
            ("FD00::%", "fd00::1", "fe00::1"),
            ("%", "::1", "socket"),
        ] {
            assert!(matches(pattern, inside), "{pattern} {inside}");
            assert_eq!(matches(pattern, outside), pattern == "%", "{pattern} {outside}");
        }
    }

    #[test]
    fn localhost_is_the_unix_socket() {
        for pattern in ["localhost", "LOCALHOST", "local%", "%"] {
            assert!(matches(pattern, "socket"), "{pattern}");
        }
        assert!(!matches("localhost", "127.0.0.1") && !matches("127.0.0.1", "socket"));
    }

    #[test]
    fn hosts_that_cannot_be() {
        let long = "1".repeat(256) + "%";
        for text in [
            "",
            "db.example.org",
            "10.0.0.256",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/255.0.255.0",
            "10.0.0.0/x",
            "::/129",
            "fd00::/255.0.0.0",
            "10.0.0.0/8/8",
            "%/8",
            "a b%",
            "'%'",
            "a@%",
            long.as_str(),
        ] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_most_specific_first() {
        let order = [
            "127.0.0.1",
            "127.0.0.0/30",
            "127.0.0.0/8",
            "127.0.0.0/255.255.255.0",
            "127.0.0.0/255.0.0.0",
            "localhost",
            "127.0.0._",
            "127.0.%",
            "127.%.0.1",
            "127.%",
            "%.1",
            "%",
        ];
        let mut hosts: Vec<HostPattern> = order.iter().rev().map(|text| host(text)).collect();
        hosts.sort_by(HostPattern::by_specificity);
        assert_eq!(hosts.iter().map(HostPattern::as_str).collect::<Vec<_>>(), order);
    }

    /// LIKE as it is defined: % tries every length.
    fn slow_like(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, _) => text.is_empty(),
            (Some((b'%', rest)), _) => (0..=text.len()).any(|from| slow_like(rest, &text[from..])),
            (Some((b'_', rest)), Some((_, after))) => slow_like(rest, after),
            (Some((own, rest)), Some((other, after))) => own == other && slow_like(rest, after),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn like_equals_its_definition(pattern in "[ab%_]{0,8}", text in "[ab]{0,8}") {
            prop_assert_eq!(like(pattern.as_bytes(), text.as_bytes()), slow_like(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn any_text_is_a_host_or_an_error(text in "\\PC{0,20}", net in "[0-9a-f.:/%_]{0,24}", ip: u32) {
            for text in [text, net] {
                if let Ok(host) = text.parse::<HostPattern>() {
                    let _ = host.matches(&Peer::Tcp(Ipv4Addr::from_bits(ip).into()));
                    prop_assert_eq!(host.as_str().parse::<HostPattern>(), Ok(host.clone()));
                }
            }
        }
    }
}
