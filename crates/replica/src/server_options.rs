//! A server that is connected to: its address, its login, and how the connection is secured; or several with the same
//! login.
//!
//! In: a URL and options over it. Out: connection options, a text without the password. Never here: a connection that is
//! kept.

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

    /// Each server that the URL names: `mysql://USER@HOST:PORT,HOST:PORT/?OPTIONS`, all with the same options.
    ///
    /// # Errors
    /// Code 2 for an empty address, or an option that would give all of them the same one.
    pub fn each(&self) -> Result<Vec<ServerOptions>, Failure> {
        let Some((before, addresses, after)) = self.addresses() else { return Ok(vec![self.clone()]) };
        if self.host.is_some() || self.port.is_some() || self.socket.is_some() {
            let text = "the source's URL names several servers, each with its own port: host, source-port and \
                        source-socket are for one";
            return Err(Failure::usage(text));
        }
        let of = |address: &str| match address {
            "" => Err(Failure::usage(format!("the source has an empty address: {}", self.shown()))),
            address => Ok(ServerOptions { url: Secret(format!("{before}{address}{after}")), ..self.clone() }),
        };
        addresses.split(',').map(of).collect()
    }

    /// True if the URL names several servers.
    #[must_use]
    pub fn names_several(&self) -> bool {
        self.addresses().is_some()
    }

    /// The URL's part before its addresses, these, and the part after them; None if it names one server.
    fn addresses(&self) -> Option<(&str, &str, &str)> {
        let url = self.url.0.as_str();
        let scheme = url.find("://")? + 3;
        let end = url[scheme..].find(['/', '?']).map_or(url.len(), |at| scheme + at);
        let begin = url[scheme..end].rfind('@').map_or(scheme, |at| scheme + at + 1);
        let addresses = &url[begin..end];
        addresses.contains(',').then_some((&url[..begin], addresses, &url[end..]))
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
