//! Rights of an account, and what it requires of a connection.

use std::fmt;
use std::str::FromStr;

/// Rights of an account. None includes another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights {
    /// Status, variables, SHOW REPLICA STATUS, all threads without their texts; no rows.
    pub monitor: bool,
    /// Rows and definitions, of the account's schemas.
    pub read: bool,
    /// The binary log, as a replica gets it.
    pub replicate: bool,
    /// KILL of others, START and STOP REPLICA, SET GLOBAL.
    pub admin: bool,
    /// Statements go to the source, under the account's login there.
    pub forward: bool,
}

impl Rights {
    /// All rights over this server.
    pub const ALL: Rights = Rights { monitor: true, read: true, replicate: true, admin: true, forward: false };

    /// Each right with its name, in the order of texts.
    fn named(self) -> [(&'static str, bool); 5] {
        let Rights { monitor, read, replicate, admin, forward } = self;
        [("monitor", monitor), ("read", read), ("replicate", replicate), ("admin", admin), ("forward", forward)]
    }

    /// Names of the rights.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.named().into_iter().filter(|(_, has)| *has).map(|(name, _)| name)
    }

    /// True if all of `other` are among these.
    #[must_use]
    pub fn contains(self, other: Rights) -> bool {
        self.named().into_iter().zip(other.named()).all(|((_, has), (_, wanted))| has || !wanted)
    }

    /// Adds a right by its name; false if there is no such right.
    #[must_use]
    pub(crate) fn add(&mut self, name: &str) -> bool {
        match name {
            "monitor" => self.monitor = true,
            "read" => self.read = true,
            "replicate" => self.replicate = true,
            "admin" => self.admin = true,
            "forward" => self.forward = true,
            _ => return false,
        }
        true
    }
}

/// Names with commas; `none` without any.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(",") }.as_str())
    }
}

/// Reads names with commas.
impl FromStr for Rights {
    type Err = String;

    fn from_str(text: &str) -> Result<Rights, String> {
        let mut rights = Rights::default();
        for name in text.split(',').map(str::trim) {
            if !rights.add(name) {
                return Err(format!("unknown right '{name}': use monitor, read, replicate, admin or forward"));
            }
        }
        Ok(rights)
    }
}

/// What an account requires of its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Requirement {
    /// Nothing.
    #[default]
    None,
    /// TLS, or the unix socket.
    Tls,
    /// TLS with a client certificate that was verified (MySQL's REQUIRE X509).
    Certificate,
}

/// What a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transport {
    /// TLS or the unix socket.
    pub is_secure: bool,
    /// A verified client certificate.
    pub has_certificate: bool,
}

impl Requirement {
    pub(crate) fn is_met(self, transport: Transport) -> bool {
        match self {
            Requirement::None => true,
            Requirement::Tls => transport.is_secure,
            Requirement::Certificate => transport.has_certificate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for text in ["monitor", "monitor,read", "monitor,read,replicate,admin", "admin", "read,forward"] {
            assert_eq!(text.parse::<Rights>().unwrap().to_string(), text);
        }
        assert_eq!("read, monitor".parse::<Rights>().unwrap().to_string(), "monitor,read");
        assert_eq!(Rights::default().to_string(), "none");
        for text in ["", "all", "read,", "READ", "none"] {
            assert!(text.parse::<Rights>().is_err(), "{text}");
        }
    }

    #[test]
    fn containing() {
        let some: Rights = "monitor,read".parse().unwrap();
        assert!(Rights::ALL.contains(some) && some.contains(some) && some.contains(Rights::default()));
        assert!(!some.contains(Rights::ALL) && !some.contains("admin".parse().unwrap()));
    }
}
