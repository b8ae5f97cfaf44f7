//! A server that is connected to: its address, its login, and how the connection is secured; or several with the same
//! login.
//!
//! In: a URL and options over it. Out: connection options, a text without the password. Never here: a connection that
//! is kept.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use client::SslMode;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Connection options of a MySQL server. Each field overrides the URL. Sent over the control socket for `verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerOptions {
    /// `mysql://user@host:port/?ssl-mode=...`; may contain a password, so only `shown` prints it.
    pub url: Secret,
    /// Host name or address.
    pub host: Option<String>,
    pub port: Option<u16>,
    pub user: Option<String>,
    /// Password of the account.
    pub password: Option<Secret>,
    /// Path of the server's unix socket.
    pub socket: Option<PathBuf>,
    /// Whether to use TLS, and which certificates to accept.
    #[serde(with = "ssl_mode_text")]
    pub ssl_mode: Option<SslMode>,
    /// PEM file with trusted authorities.
    pub ssl_ca: Option<PathBuf>,
    /// PEM file with our certificate.
    pub ssl_cert: Option<PathBuf>,
    /// PEM file with the key of our certificate.
    pub ssl_key: Option<PathBuf>,
    /// PEM file with the server's RSA key.
    pub server_public_key_path: Option<PathBuf>,
    /// Whether to request the server's RSA key.
    pub get_server_public_key: Option<bool>,
    /// Time limit of one connection attempt.
    pub connect_timeout: Option<Duration>,
    /// Which member of a group is followed rather than others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefer: Option<Prefer>,
    /// server_uuid of members of a group, and of each the address to dial, as a URL has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub member_addresses: Vec<(String, String)>,
    /// Transactions that others have, and the followed one lacks, from which on it is left for one that lacks less than
    /// half of them; None: never for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_source_lag: Option<u64>,
    /// SOURCE_CONNECTION_AUTO_FAILOVER: those in `failover` may be followed, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub auto_failover: bool,
    #[serde(skip_serializing_if = "Failover::is_empty")]
    pub failover: Failover,
    /// Weight of one of several, 1 to 100: the heaviest is tried first.
    #[serde(skip)]
    pub weight: Option<u8>,
}

/// Servers that may be followed, by `asynchronous_connection_failover_…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Failover {
    /// By host, port and group, as MySQL's table has them.
    pub sources: Vec<FailoverSource>,
    pub managed: Vec<ManagedGroup>,
}

/// A row of `performance_schema.replication_asynchronous_connection_failover`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailoverSource {
    pub host: String,
    pub port: u16,
    /// 1 to 100.
    pub weight: u8,
    /// The group whose members are found through it; empty for none.
    pub managed_name: String,
}

/// A group whose members are found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagedGroup {
    /// group_replication_group_name.
    pub name: String,
    /// Weight of a member that is PRIMARY, 1 to 100.
    pub primary_weight: u8,
    pub secondary_weight: u8,
}

impl Failover {
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.managed.is_empty()
    }

    fn position(&self, host: &str, port: u16, managed_name: &str) -> Option<usize> {
        // Names of hosts have no case.
        let is = |of: &FailoverSource| of.host.eq_ignore_ascii_case(host) && of.port == port;
        self.sources.iter().position(|of| is(of) && of.managed_name.eq_ignore_ascii_case(managed_name))
    }

    /// False if it is there already.
    #[must_use]
    pub fn add_source(&mut self, source: FailoverSource) -> bool {
        if self.position(&source.host, source.port, &source.managed_name).is_some() {
            return false;
        }
        self.sources.push(source);
        let key = |of: &FailoverSource| (of.host.to_ascii_lowercase(), of.port, of.managed_name.to_ascii_lowercase());
        self.sources.sort_by_key(key);
        true
    }

    /// False if it does not exist.
    #[must_use]
    pub fn delete_source(&mut self, host: &str, port: u16) -> bool {
        self.position(host, port, "").map(|at| self.sources.remove(at)).is_some()
    }

    /// False if it is there already.
    #[must_use]
    pub fn add_managed(&mut self, group: ManagedGroup, host: String, port: u16) -> bool {
        let (weight, managed_name) = (group.secondary_weight, group.name.clone());
        if self.managed.iter().any(|of| of.name.eq_ignore_ascii_case(&group.name)) {
            return false;
        }
        self.managed.push(group);
        self.add_source(FailoverSource { host, port, weight, managed_name })
    }

    /// False if it does not exist.
    #[must_use]
    pub fn delete_managed(&mut self, name: &str) -> bool {
        let before = self.managed.len();
        self.managed.retain(|of| !of.name.eq_ignore_ascii_case(name));
        self.sources.retain(|of| !of.managed_name.eq_ignore_ascii_case(name));
        self.managed.len() < before
    }
}

/// Which member of a group is followed rather than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prefer {
    /// One that takes writes; another one is left for it.
    Primary,
    Secondary,
    /// The one with the fewest transactions to certify and to apply.
    LowestLag,
}

impl Prefer {
    /// The values of `--prefer`.
    pub const ALL: [(&'static str, Prefer); 3] =
        [("primary", Prefer::Primary), ("secondary", Prefer::Secondary), ("lowest-lag", Prefer::LowestLag)];
}

/// The value of `--member-address`: `UUID=HOST:PORT`.
///
/// # Errors
/// The text has another form.
pub fn parse_member_address(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("'{text}' is not UUID=HOST:PORT");
    let (uuid, address) = text.split_once('=').ok_or_else(wrong)?;
    let options = client::ConnectOptions::from_url(&format!("mysql://{address}")).map_err(|_| wrong())?;
    if address.is_empty() || address.contains(['@', '/', '?']) || options.host.is_empty() {
        return Err(wrong());
    }
    let uuid: base::Uuid = uuid.trim().parse().map_err(|_| wrong())?;
    Ok((uuid.to_string(), address.to_owned()))
}

impl ServerOptions {
    /// Options from a URL alone.
    #[must_use]
    pub fn from_url(url: &str) -> ServerOptions {
        ServerOptions { url: Secret(url.to_owned()), ..ServerOptions::default() }
    }

    /// Converts to the client's connection options.
    ///
    /// # Errors
    /// Code 2 if the URL is invalid.
    pub fn connect_options(&self) -> Result<client::ConnectOptions, Failure> {
        let mut options = if self.url.0.is_empty() {
            client::ConnectOptions::default()
        } else {
            client::ConnectOptions::from_url(&self.url.0)
                .map_err(|error| Failure::usage(mask_passwords(&error.to_string())))?
        };
        fn set<T: Clone>(to: &mut T, from: Option<&T>) {
            if let Some(from) = from {
                *to = from.clone();
            }
        }
        set(&mut options.host, self.host.as_ref());
        set(&mut options.port, self.port.as_ref());
        set(&mut options.user, self.user.as_ref());
        set(&mut options.get_server_public_key, self.get_server_public_key.as_ref());
        set(&mut options.connect_timeout, self.connect_timeout.as_ref());
        options.password = self.password.as_ref().map(|password| password.0.clone()).or(options.password);
        options.socket = self.socket.clone().or(options.socket);
        options.ssl_ca = self.ssl_ca.clone().or(options.ssl_ca);
        options.ssl_cert = self.ssl_cert.clone().or(options.ssl_cert);
        options.ssl_key = self.ssl_key.clone().or(options.ssl_key);
        options.server_public_key_path = self.server_public_key_path.clone().or(options.server_public_key_path);
        set(&mut options.ssl_mode, self.ssl_mode.as_ref());
        options.init_command = Some(source::group::WAIT_FOR_NOTHING);
        Ok(options)
    }

    /// Each server that may be followed, all with the same options, in the order in which they are tried: those that
    /// the URL names (`mysql://USER@HOST:PORT,HOST:PORT/?OPTIONS`), the heaviest first, then those given by SQL.
    ///
    /// # Errors
    /// Code 2 for an empty address, a wrong weight, or an option that would give all of them the same address.
    pub fn each(&self) -> Result<Vec<ServerOptions>, Failure> {
        let mut all = self.each_named()?;
        let mut more: Vec<&FailoverSource> = self.failover.sources.iter().filter(|_| self.auto_failover).collect();
        more.sort_by_key(|source| std::cmp::Reverse(source.weight));
        for source in more {
            let mut places = all.iter().map(|of| of.connect_options().map(|of| (of.host, of.port)));
            let is_it = |(host, port): (String, u16)| host.eq_ignore_ascii_case(&source.host) && port == source.port;
            let known = places.position(|place| place.is_ok_and(is_it));
            match known.and_then(|at| all.get_mut(at)) {
                Some(known) => known.weight = known.weight.max(Some(source.weight)),
                None => {
                    let host = encoded_host(&source.host);
                    let weight = Some(source.weight);
                    all.push(ServerOptions { weight, ..self.at(&format!("{host}:{}", source.port))? });
                }
            }
        }
        Ok(all)
    }

    fn each_named(&self) -> Result<Vec<ServerOptions>, Failure> {
        let Some(parts) = self.parts().filter(|_| self.names_several_in_url()) else {
            return Ok(vec![self.alone()]);
        };
        if self.host.is_some() || self.port.is_some() || self.socket.is_some() {
            let text = "the source's URL names several servers, each with its own port: host, source-port and \
                        source-socket are for one";
            return Err(Failure::usage(text));
        }
        let mut all: Vec<ServerOptions> =
            parts.addresses.split(',').map(|address| self.at(address)).collect::<Result<_, _>>()?;
        let Some(text) = self.option("weights") else { return Ok(all) };
        let weights: Vec<Option<u8>> = text.split(',').map(weight).collect();
        if weights.len() != all.len() || weights.contains(&None) {
            let text = format!(
                "weights={text} in the source's URL: one weight from 1 to 100 is needed for each of its {} servers",
                all.len()
            );
            return Err(Failure::usage(text));
        }
        all.iter_mut().zip(weights).for_each(|(server, weight)| server.weight = weight);
        all.sort_by_key(|server| std::cmp::Reverse(server.weight));
        Ok(all)
    }

    /// The same options without others that may be followed.
    fn alone(&self) -> ServerOptions {
        ServerOptions { auto_failover: false, failover: Failover::default(), ..self.clone() }
    }

    /// The value of an option in the URL.
    fn option(&self, name: &str) -> Option<&str> {
        let pairs = self.parts()?.query.split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Weights of members of the group that are PRIMARY, and of the others.
    ///
    /// # Errors
    /// Code 2 for a wrong weight, or only one of the two.
    pub(crate) fn group_weights(&self) -> Result<Option<(u8, u8)>, Failure> {
        if let Some(group) = self.failover.managed.first().filter(|_| self.auto_failover) {
            return Ok(Some((group.primary_weight, group.secondary_weight)));
        }
        match (self.option("primary-weight"), self.option("secondary-weight")) {
            (None, None) => Ok(None),
            (primary, secondary) => {
                primary.and_then(weight).zip(secondary.and_then(weight)).map(Some).ok_or_else(|| {
                    let text = "the source's URL needs both primary-weight and secondary-weight, each from 1 to 100";
                    Failure::usage(text)
                })
            }
        }
    }

    /// The same options for the server at this address, in the URL's form.
    ///
    /// # Errors
    /// Code 2 for an empty address.
    pub(crate) fn at(&self, address: &str) -> Result<ServerOptions, Failure> {
        if address.is_empty() {
            return Err(Failure::usage(format!("the source has an empty address: {}", self.shown())));
        }
        // It would end here, and options of its own would follow.
        if address.contains(|c: char| "/?@#&".contains(c) || c.is_whitespace() || c.is_control()) {
            return Err(Failure::usage(format!("the source has a malformed address: {}", self.shown())));
        }
        let Some(parts) = self.parts() else {
            let of = client::ConnectOptions::from_url(&format!("mysql://{address}"))
                .map_err(|error| Failure::usage(error.to_string()))?;
            return Ok(ServerOptions { host: Some(of.host), port: Some(of.port), socket: None, ..self.alone() });
        };
        let kept: Vec<&str> = parts.query.split('&').filter(|pair| !is_of_several(pair) && !pair.is_empty()).collect();
        let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
        let url = Secret(format!("{}{address}{}{query}", parts.before, parts.path));
        Ok(ServerOptions { url, host: None, port: None, socket: None, ..self.alone() })
    }

    /// True if one of several servers is followed: they are named, or the group of one is asked for them.
    #[must_use]
    pub fn names_several(&self) -> bool {
        self.auto_failover || self.names_several_in_url()
    }

    fn names_several_in_url(&self) -> bool {
        let parts = self.parts();
        parts.is_some_and(|parts| parts.addresses.contains(',') || parts.query.split('&').any(is_group))
    }

    /// True if the members of the source's group may be followed, too: `?group`, or a managed group by SQL.
    #[must_use]
    pub fn finds_members(&self) -> bool {
        self.auto_failover && !self.failover.managed.is_empty()
            || self.parts().is_some_and(|parts| parts.query.split('&').any(is_group))
    }

    fn parts(&self) -> Option<Parts<'_>> {
        let url = self.url.0.as_str();
        let scheme = url.find("://")? + 3;
        let (url, query) = url.split_once('?').unwrap_or((url, ""));
        let end = url.get(scheme..)?.find('/').map_or(url.len(), |at| scheme + at);
        let begin = url.get(scheme..end)?.rfind('@').map_or(scheme, |at| scheme + at + 1);
        Some(Parts { before: url.get(..begin)?, addresses: url.get(begin..end)?, path: url.get(end..)?, query })
    }

    /// The connection options of the first of its servers that answers; of the only one without asking it.
    ///
    /// # Errors
    /// Code 2 if the options are invalid; why none of several answers.
    pub fn that_answers(&self) -> Result<client::ConnectOptions, Failure> {
        let each = self.each()?;
        if let [one] = &each[..] {
            return one.connect_options();
        }
        let mut reasons = Vec::new();
        for server in each {
            let options = server.connect_options()?;
            match client::Connection::connect(&options) {
                Ok(_) => return Ok(options),
                Err(error) => reasons.push(format!("{}: {error}", server.shown())),
            }
        }
        Err(Failure::error(format!("none of the source's servers answers:\n{}", reasons.join("\n"))))
    }

    /// The URL without its password, for messages.
    #[must_use]
    pub fn shown(&self) -> String {
        if self.url.0.is_empty() {
            let user = self.user.as_deref().map(|user| format!("{user}@")).unwrap_or_default();
            return format!(
                "mysql://{user}{}:{}",
                self.host.as_deref().unwrap_or("localhost"),
                self.port.unwrap_or(3306)
            );
        }
        mask_passwords(&self.url.0)
    }
}

/// Parts of a URL.
struct Parts<'a> {
    /// Everything up to the addresses.
    before: &'a str,
    addresses: &'a str,
    path: &'a str,
    query: &'a str,
}

fn is_group(pair: &str) -> bool {
    matches!(pair, "group" | "group=1" | "group=ON" | "group=on")
}

/// An option of the URL for several servers together.
fn is_of_several(pair: &str) -> bool {
    let key = pair.split('=').next().unwrap_or_default();
    is_group(pair) || matches!(key, "weights" | "primary-weight" | "secondary-weight")
}

/// A weight, as MySQL's asynchronous connection failover has it.
fn weight(text: &str) -> Option<u8> {
    text.parse().ok().filter(|weight| (1..=100).contains(weight))
}

/// A host as a URL has it: whatever it holds, it does not end there.
fn encoded_host(host: &str) -> String {
    if host.contains(':') {
        return format!("[{host}]");
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    host.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Serialises `client::SslMode` in MySQL's spelling.
mod ssl_mode_text {
    use client::SslMode;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[allow(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(mode: &Option<SslMode>, to: S) -> Result<S::Ok, S::Error> {
        let text = mode.map(|mode| match mode {
            SslMode::Disabled => "DISABLED",
            SslMode::Preferred => "PREFERRED",
            SslMode::Required => "REQUIRED",
            SslMode::VerifyCa => "VERIFY_CA",
            SslMode::VerifyIdentity => "VERIFY_IDENTITY",
        });
        text.serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<SslMode>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

/// True if a URL contains a password.
#[must_use]
pub fn url_has_password(url: &str) -> bool {
    mask_passwords(url) != url
}

/// The text with the password of every URL in it replaced by `***`. If the end of a password is ambiguous, it hides
/// more.
#[must_use]
pub fn mask_passwords(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        masked.push_str(before);
        masked.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '<' | '>')).unwrap_or(after.len());
        let (url, tail) = after.split_at(end);
        match url.rsplit_once('@').and_then(|(login, host)| Some((login.split_once(':')?.0, host))) {
            Some((user, host)) => {
                masked.push_str(user);
                masked.push_str(":***@");
                masked.push_str(host);
            }
            None => masked.push_str(url),
        }
        rest = tail;
    }
    masked.push_str(rest);
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_no_option_of_its_members() {
        let server = ServerOptions::from_url("mysql://u:p@a:1/?ssl-mode=REQUIRED&group&ssl-ca=/c");
        assert!(server.finds_members() && server.names_several());
        let [one] = &server.each().unwrap()[..] else { panic!() };
        assert_eq!(one.url.0, "mysql://u:p@a:1/?ssl-mode=REQUIRED&ssl-ca=/c");
        assert!(!one.names_several() && one.connect_options().is_ok());
        assert_eq!(server.at("b:2").unwrap().url.0, "mysql://u:p@b:2/?ssl-mode=REQUIRED&ssl-ca=/c");
        let plain = ServerOptions::from_url("mysql://u@a,b?group");
        let urls: Vec<String> = plain.each().unwrap().into_iter().map(|server| server.url.0).collect();
        assert_eq!(urls, ["mysql://u@a", "mysql://u@b"]);
        assert!(!ServerOptions::from_url("mysql://u@a/?ssl-ca=group").finds_members());
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        assert_eq!(parse_member_address(&format!("{uuid}=h:7")), Ok((uuid.to_owned(), "h:7".to_owned())));
        for wrong in ["h:7", "x=h:7", &format!("{uuid}="), &format!("{uuid}=u@h"), &format!("{uuid}=h:x")] {
            assert!(parse_member_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_heaviest_is_first() {
        let hosts = |server: &ServerOptions| -> Vec<(String, Option<u8>)> {
            let each = server.each().unwrap().into_iter();
            each.map(|one| (one.connect_options().unwrap().to_string(), one.weight)).collect()
        };
        let list = ServerOptions::from_url("mysql://u@a,b:1,c/?weights=60,80,60&ssl-mode=REQUIRED");
        let shown: Vec<String> = hosts(&list).into_iter().map(|(shown, _)| shown).collect();
        assert_eq!(shown, ["mysql://u@b:1", "mysql://u@a:3306", "mysql://u@c:3306"]);
        for wrong in ["weights=1", "weights=1,2,101", "weights=1,2,0", "weights=1,2,x", "weights=1,2,3,4"] {
            let refused = ServerOptions::from_url(&format!("mysql://u@a,b,c/?{wrong}")).each().unwrap_err().text;
            assert!(refused.contains("one weight from 1 to 100 is needed for each of its 3 servers"), "{refused}");
        }
        let group = |options: &str| ServerOptions::from_url(&format!("mysql://u@a/?group{options}")).group_weights();
        assert_eq!(group("").unwrap(), None);
        assert_eq!(group("&primary-weight=80&secondary-weight=60").unwrap(), Some((80, 60)));
        assert!(group("&primary-weight=80").is_err() && group("&primary-weight=0&secondary-weight=1").is_err());
        // By SQL: the source of now, then the others by weight, each once.
        let mut failover = Failover::default();
        let source =
            |host: &str, weight| FailoverSource { host: host.into(), port: 7, weight, managed_name: "".into() };
        assert!(failover.add_source(source("::1", 50)) && failover.add_source(source("we/ird,@", 70)));
        assert!(failover.add_source(source("A", 1)) && !failover.add_source(source("a", 2)));
        let at = ServerOptions { host: Some("a".into()), port: Some(7), user: Some("u".into()), ..Default::default() };
        let on = ServerOptions { auto_failover: true, failover, ..at };
        let places: Vec<_> = on.each().unwrap().iter().map(|one| one.connect_options().unwrap().host).collect();
        assert_eq!(places, ["a", "we/ird,@", "::1"]);
        assert_eq!(hosts(&on)[0].1, Some(1));
        assert_eq!(ServerOptions { auto_failover: false, ..on }.each().unwrap().len(), 1);
    }

    #[test]
    fn passwords_are_masked_in_any_text() {
        for (text, wanted) in [
            ("to mysql://u:p@h:1/d failed", "to mysql://u:***@h:1/d failed"),
            ("mysql://u:a@b:c/d@h", "mysql://u:***@h"),
            ("mysql://u@h:3306 and mysql://v:x@g", "mysql://u@h:3306 and mysql://v:***@g"),
            ("no url: a@b", "no url: a@b"),
            ("'mysql://u:p@h'", "'mysql://u:***@h'"),
        ] {
            assert_eq!(mask_passwords(text), wanted);
        }
        assert!(url_has_password("mysql://u:p@h") && !url_has_password("mysql://u@h:3306"));
    }
}
