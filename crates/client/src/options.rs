//! Connection options: URL, ssl modes, passwords.

use std::env::VarError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use wire::auth::Secret;

use crate::option_file::OptionFile;
use crate::{ClientError, Result};

/// TLS use and certificate checks, as MySQL's `--ssl-mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SslMode {
    /// No TLS.
    Disabled,
    /// TLS if the server offers it (not over a unix socket); any certificate.
    #[default]
    Preferred,
    /// TLS required; any certificate.
    Required,
    /// TLS with a certificate of a trusted authority.
    VerifyCa,
    /// As `VerifyCa`, and the certificate must name the host.
    VerifyIdentity,
}

impl FromStr for SslMode {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.to_ascii_uppercase().replace('-', "_").as_str() {
            "DISABLED" => SslMode::Disabled,
            "PREFERRED" => SslMode::Preferred,
            "REQUIRED" => SslMode::Required,
            "VERIFY_CA" => SslMode::VerifyCa,
            "VERIFY_IDENTITY" => SslMode::VerifyIdentity,
            _ => {
                return Err(ClientError::usage(format!(
                    "ssl-mode '{text}' is unknown (DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY)"
                )));
            }
        })
    }
}

/// Address of a server, and how to log in.
#[derive(Clone)]
pub struct ConnectOptions {
    /// Host name or address.
    pub host: String,
    /// TCP port, unused with a unix socket.
    pub port: u16,
    /// Path of a unix socket, used instead of host and port.
    pub socket: Option<PathBuf>,
    /// Account name.
    pub user: String,
    /// Password; `None` = not set (logs in without one).
    pub password: Option<String>,
    /// Goes before the password: a client of ours has proved it. The password itself is given only to a server whose
    /// certificate was verified, or over a unix socket.
    pub secret: Option<Arc<Secret>>,
    /// Whether to use TLS, and which certificates to accept.
    pub ssl_mode: SslMode,
    /// PEM file of the trusted authorities (default: the system's).
    pub ssl_ca: Option<PathBuf>,
    /// PEM file of our certificate.
    pub ssl_cert: Option<PathBuf>,
    /// PEM file of our private key.
    pub ssl_key: Option<PathBuf>,
    /// PEM file of the server's RSA key, for caching_sha2_password without TLS.
    pub server_public_key_path: Option<PathBuf>,
    /// Whether to request that key from the server.
    pub get_server_public_key: bool,
    /// Time limit for connecting and logging in.
    pub connect_timeout: Duration,
    /// Time limit for a single read or write; `None` waits for ever.
    pub read_timeout: Option<Duration>,
    /// Default database of the session.
    pub database: Option<String>,
    /// Statement run after the login, as the option of that name of MySQL's client. One that the server refuses counts
    /// as none: not every server knows it.
    pub init_command: Option<&'static str>,
    /// Allow several statements in one query.
    pub multi_statements: bool,
    /// The client whose commands are passed on as they are; None: our own.
    pub on_behalf: Option<OnBehalf>,
}

/// What a client whose commands are passed on has agreed with whoever took them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnBehalf {
    /// Its capabilities.
    pub capabilities: u32,
    /// Number of its collation.
    pub collation: u8,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            host: "127.0.0.1".into(),
            port: 3306,
            socket: None,
            user: "root".into(),
            password: None,
            secret: None,
            ssl_mode: SslMode::default(),
            ssl_ca: None,
            ssl_cert: None,
            ssl_key: None,
            server_public_key_path: None,
            get_server_public_key: false,
            connect_timeout: Duration::from_secs(10),
            read_timeout: None,
            database: None,
            init_command: None,
            multi_statements: false,
            on_behalf: None,
        }
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("url", &self.to_string())
            .field("ssl_mode", &self.ssl_mode)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// The address without the password: `mysql://user@host:port`.
impl fmt::Display for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mysql://{}@", self.user)?;
        match &self.socket {
            Some(path) => write!(f, "localhost?socket={}", path.display()),
            None if self.host.contains(':') => write!(f, "[{}]:{}", self.host, self.port),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

const URL_OPTIONS: &str = "ssl-mode, ssl-ca, ssl-cert, ssl-key, socket, server-public-key-path, \
get-server-public-key, connect-timeout, read-timeout";

impl ConnectOptions {
    /// Parses `mysql://user[:password]@host[:port][/database][?option=value&…]`; every part may be percent-encoded.
    /// Options: ssl-mode, ssl-ca, ssl-cert, ssl-key, socket, server-public-key-path, get-server-public-key,
    /// connect-timeout, read-timeout (seconds).
    pub fn from_url(url: &str) -> Result<Self> {
        let mut options = ConnectOptions::default();
        let rest = url
            .strip_prefix("mysql://")
            .ok_or_else(|| ClientError::usage("a source is written mysql://user@host:port or file:PATH"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        if !database.is_empty() {
            options.database = Some(decode(database)?);
        }
        if !login.is_empty() {
            let (user, password) = login.split_once(':').map_or((login, None), |(user, pw)| (user, Some(pw)));
            options.user = decode(user)?;
            options.password = password.map(decode).transpose()?;
        }
        options.set_address(address)?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            options.set_option(&decode(key)?, decode(value)?)?;
        }
        Ok(options)
    }

    /// Where the server is: `host:port`, or the path of its socket.
    pub(crate) fn place(&self) -> String {
        match &self.socket {
            Some(path) => path.display().to_string(),
            None => format!("{}:{}", self.host, self.port),
        }
    }

    fn set_address(&mut self, address: &str) -> Result<()> {
        if address.contains(',') {
            return Err(ClientError::usage("the URL names several servers, and one is needed here"));
        }
        let (host, port) = if let Some(rest) = address.strip_prefix('[') {
            let (host, rest) =
                rest.split_once(']').ok_or_else(|| ClientError::usage("an IPv6 address lacks its ']'"))?;
            (host, rest.strip_prefix(':'))
        } else {
            address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port)))
        };
        if !host.is_empty() {
            self.host = decode(host)?;
        }
        if let Some(port) = port.filter(|port| !port.is_empty()) {
            self.port = port.parse().map_err(|_| ClientError::usage(format!("'{port}' is not a port number")))?;
        }
        Ok(())
    }

    fn set_option(&mut self, key: &str, value: String) -> Result<()> {
        let seconds = |value: &str| {
            value
                .parse()
                .map(Duration::from_secs)
                .map_err(|_| ClientError::usage(format!("{key}: '{value}' is not a number of seconds")))
        };
        match key.replace('_', "-").as_str() {
            "ssl-mode" => self.ssl_mode = value.parse()?,
            "ssl-ca" => self.ssl_ca = Some(value.into()),
            "ssl-cert" => self.ssl_cert = Some(value.into()),
            "ssl-key" => self.ssl_key = Some(value.into()),
            "socket" => self.socket = Some(value.into()),
            "server-public-key-path" => self.server_public_key_path = Some(value.into()),
            "get-server-public-key" => {
                self.get_server_public_key = match value.to_ascii_lowercase().as_str() {
                    "" | "1" | "on" | "true" => true,
                    "0" | "off" | "false" => false,
                    _ => return Err(ClientError::usage(format!("{key}: '{value}' is neither on nor off"))),
                }
            }
            "connect-timeout" => self.connect_timeout = seconds(&value)?,
            "read-timeout" => self.read_timeout = Some(seconds(&value)?).filter(|timeout| !timeout.is_zero()),
            _ => {
                return Err(ClientError::usage(format!(
                    "unknown option '{key}' in the source's URL (known: {URL_OPTIONS})"
                )));
            }
        }
        Ok(())
    }

    /// Fills in a missing password: from the groups `[client]` and `[slipstream]` of `defaults_file` (otherwise of
    /// `~/.my.cnf` if it exists), then from the environment variable `MYSQL_PWD`. Returns true if there is a password
    /// now; prompting for one is up to the program.
    ///
    /// # Errors
    /// A file that exists cannot be read, or the variable is not UTF-8.
    pub fn complete_password(&mut self, defaults_file: Option<&Path>) -> Result<bool> {
        if self.password.is_some() {
            return Ok(true);
        }
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".my.cnf"));
        self.password = match password_of_file(defaults_file, home)? {
            None => password_of_variable(std::env::var("MYSQL_PWD"))?,
            password => password,
        };
        Ok(self.password.is_some())
    }
}

/// The password in the given option file, or else in that of the home folder, if it is there.
fn password_of_file(given: Option<&Path>, home: Option<PathBuf>) -> Result<Option<String>> {
    let file = match given {
        Some(path) => Some(OptionFile::read(path)?),
        None => home.filter(|path| path.is_file()).map(|path| OptionFile::read(&path)).transpose()?,
    };
    Ok(file.and_then(|file| file.value(&["client", "slipstream"], "password").map(str::to_owned)))
}

fn password_of_variable(value: std::result::Result<String, VarError>) -> Result<Option<String>> {
    match value {
        Ok(password) => Ok(Some(password)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(ClientError::usage("the password in MYSQL_PWD is not UTF-8")),
    }
}

/// Decodes percent-encoding to UTF-8.
fn decode(text: &str) -> Result<String> {
    let bad = || ClientError::usage(format!("'{text}' is not valid percent-encoding"));
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || (bytes.next()? as char).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(bad()) };
        out.push((high << 4 | low) as u8);
    }
    String::from_utf8(out).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_url() {
        let url = "mysql://re%40pl:p%3A%2F%25w@db.example:3307/shop?ssl-mode=verify_ca&ssl_ca=/a%20b.pem\
                   &get-server-public-key&read-timeout=7&socket=/s";
        let options = ConnectOptions::from_url(url).unwrap();
        assert_eq!((options.user.as_str(), options.password.as_deref()), ("re@pl", Some("p:/%w")));
        assert_eq!((options.host.as_str(), options.port), ("db.example", 3307));
        assert_eq!(options.database.as_deref(), Some("shop"));
        assert_eq!(options.ssl_mode, SslMode::VerifyCa);
        assert_eq!(options.ssl_ca, Some("/a b.pem".into()));
        assert!(options.get_server_public_key);
        assert_eq!(options.read_timeout, Some(Duration::from_secs(7)));
        assert_eq!(options.socket, Some("/s".into()));
        assert!(!format!("{options:?}{options}").contains("p:/%w"));
    }

    #[test]
    fn a_password_that_cannot_be_read_is_an_error() {
        use std::os::unix::ffi::OsStringExt as _;
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("slipstream-my-cnf-{}", std::process::id()));
        assert_eq!(password_of_file(None, Some(path.clone())).unwrap(), None);
        std::fs::write(&path, "[client]\npassword=x\n").unwrap();
        assert_eq!(password_of_file(None, Some(path.clone())).unwrap().as_deref(), Some("x"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let refused = password_of_file(None, Some(path.clone()));
        std::fs::remove_file(&path).unwrap();
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");

        assert_eq!(password_of_variable(Err(VarError::NotPresent)).unwrap(), None);
        let odd = VarError::NotUnicode(std::ffi::OsString::from_vec(vec![0xff]));
        assert!(password_of_variable(Err(odd)).unwrap_err().to_string().contains("MYSQL_PWD"));
    }

    #[test]
    fn short_urls_and_addresses() {
        let options = ConnectOptions::from_url("mysql://u@[::1]:3310").unwrap();
        assert_eq!((options.host.as_str(), options.port, options.password), ("::1", 3310, None));
        assert_eq!(ConnectOptions::from_url("mysql://host").unwrap().port, 3306);
        assert_eq!(ConnectOptions::from_url("mysql://u:@h").unwrap().password.as_deref(), Some(""));
        for bad in
            ["", "h:1", "mysql://h:x", "mysql://h?nix=1", "mysql://%zz@h", "mysql://h?ssl-mode=x", "mysql://[::1"]
        {
            assert!(matches!(ConnectOptions::from_url(bad), Err(ClientError::Usage { .. })), "{bad}");
        }
    }
}
