//! Who may log in, and how: accounts, passwords, rights, the login itself, and TLS of the server.
//!
//! In: the accounts file, certificates, payloads of a client's packets, the time. Out: payloads to send, an identity
//! with its rights, or MySQL's error. Never here: sockets, threads, clocks, DNS, a password in a text, or in a file but
//! that of the logins at the source.
//!
//! A session begins with [`Login`]. It ends once [`Accounts::still_valid`] says no, which is asked after
//! [`Accounts::generation`] has changed.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)
)]

mod accounts;
mod error;
mod file;
mod grants;
mod guard;
mod host;
mod login;
mod password;
mod plain;
mod proved;
mod reads;
mod refusal;
mod rights;
mod secret_file;
mod sha_crypt;
mod source_grants;
mod source_login;
mod tls;

pub use accounts::{Account, AccountChange, AccountName, Accounts, Identity, NewAccount, Origin, Peer};
pub use error::{AccountsError, TlsError};
pub use guard::LoginGuard;
pub use host::HostPattern;
pub use login::{
    Accepted, FullLogin, FullLoginResult, Login, LoginRules, LoginStep, SessionStart, TlsPeer, USER_CHARS_MAX,
};
pub use password::{PasswordPlugin, StoredPassword};
pub use reads::{Consistency, Reads};
pub use refusal::ServerError;
pub use rights::{Requirement, Rights};
pub use source_grants::{GrantNames, SourceGrants};
pub use source_login::SourceLogin;
pub use tls::{CertificateOwner, ServerTls, TlsFiles};
