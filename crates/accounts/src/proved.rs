//! What accounts have proved, kept over a restart: without TLS a login can be checked only against the unsalted form of
//! a password, which is known once the password itself was seen.
//!
//! In: accounts with their stored passwords, unsalted forms. Out: the same forms at the next start, of passwords that
//! are still the same. Never here: an account that needs TLS; an error, because a login over TLS brings everything
//! back.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::password::{SHA256_LEN, from_hex, to_hex};
use crate::secret_file::write_secret;

/// Line that begins the file.
const FORMAT: &str = "slipstream proved 1";
/// Largest accepted file in bytes: of as many accounts as there may be, in 130 bytes each.
const FILE_BYTES_MAX: u64 = 2 << 20;

type Hash = [u8; SHA256_LEN];

/// The file next to that of the accounts.
#[derive(Debug)]
pub(crate) struct Proved {
    path: PathBuf,
    /// Content of the file.
    written: String,
}

impl Proved {
    /// Reads the file: unsalted forms by the passwords they belong to.
    pub(crate) fn open(accounts: &Path) -> (Proved, HashMap<Hash, Hash>) {
        let mut path = accounts.as_os_str().to_owned();
        path.push("-proved");
        let path = PathBuf::from(path);
        let written = base::own_files::read_within(&path, FILE_BYTES_MAX).ok();
        let written = written.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let known = parse(&written);
        (Proved { path, written }, known)
    }

    /// Writes these forms, each with the password it belongs to, if the file holds others. A form that must not be kept
    /// any more is gone, also from a disk that takes nothing.
    pub(crate) fn keep(&mut self, forms: impl Iterator<Item = (Hash, Hash)>) {
        let mut lines: Vec<String> = forms.map(|(of, fast)| format!("{} {}\n", to_hex(&of), to_hex(&fast))).collect();
        lines.sort_unstable();
        let text = if lines.is_empty() { String::new() } else { format!("{FORMAT}\n{}", lines.concat()) };
        if text == self.written {
            return;
        }
        if text.is_empty() || write_secret(&self.path, text.as_bytes()).is_err() {
            let _ = fs::remove_file(&self.path);
            self.written.clear();
        } else {
            self.written = text;
        }
    }
}

fn parse(text: &str) -> HashMap<Hash, Hash> {
    let Some((FORMAT, lines)) = text.split_once('\n') else { return HashMap::new() };
    let line = |line: &str| {
        let (of, fast) = line.split_once(' ')?;
        Some((from_hex(of)?, from_hex(fast)?))
    };
    lines.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use super::*;
    use crate::{
        AccountChange, Accounts, LoginGuard, NewAccount, PasswordPlugin, Peer, Reads, Requirement, Rights,
        StoredPassword,
    };

    fn add(accounts: &Accounts, name: &str, plugin: PasswordPlugin, requirement: Requirement) {
        accounts
            .add(NewAccount {
                name: name.parse().unwrap(),
                rights: Rights::ALL,
                schemas: None,
                requirement,
                reads: Reads::default(),
                max_connections: None,
                password: StoredPassword::new(plugin, "secret").unwrap(),
            })
            .unwrap();
    }

    /// Names whose passwords the accounts of this file have seen.
    fn seen(path: &Path) -> Vec<String> {
        let accounts = Accounts::open(path).unwrap();
        let peer = Peer::Tcp([10, 0, 0, 1].into());
        let names = ["app", "agent", "tls", "native"].into_iter();
        let seen = names.filter(|name| accounts.candidate(name, &peer).entry.is_some_and(|of| of.fast.get().is_some()));
        seen.map(str::to_owned).collect()
    }

    fn logs_in(accounts: &Arc<Accounts>, name: &str) {
        let peer = Peer::Tcp([10, 0, 0, 1].into());
        let in_it = accounts.check(&LoginGuard::default(), name, b"secret", &peer, Rights::default());
        assert!(in_it.is_some(), "{name}");
    }

    #[test]
    fn what_was_proved_survives_a_restart_and_no_other_password() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("accounts");
        let file = folder.path().join("accounts-proved");
        let text = || std::fs::read_to_string(&file).unwrap_or_default();
        let accounts = Accounts::open(&path).unwrap();
        for name in ["app", "agent"] {
            add(&accounts, name, PasswordPlugin::CachingSha2, Requirement::None);
        }
        add(&accounts, "tls", PasswordPlugin::CachingSha2, Requirement::Tls);
        add(&accounts, "native", PasswordPlugin::Native, Requirement::None);
        assert!(!file.exists());
        for name in ["tls", "native", "app", "agent"] {
            logs_in(&accounts, name);
        }
        assert_eq!(seen(&path), ["app", "agent"]);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(text().lines().count(), 3);
        // Neither a name nor the salted hash is in it, nor the form in the accounts' own file.
        let fast = to_hex(&crate::password::fast_form(b"secret"));
        assert!(text().contains(&fast) && !text().contains("app"));
        assert!(!std::fs::read_to_string(&path).unwrap().contains(&fast));
        // It goes with the password, also the same one with another salt; with the leave to come without TLS; with the
        // account.
        let other = StoredPassword::new(PasswordPlugin::CachingSha2, "secret").unwrap();
        accounts.set_password(&"app".parse().unwrap(), other).unwrap();
        assert_eq!((seen(&path), text().lines().count()), (vec!["agent".to_owned()], 2));
        logs_in(&accounts, "app");
        assert_eq!(seen(&path), ["app", "agent"]);
        let app = "app".parse().unwrap();
        let change = AccountChange { rights: Rights::ALL, requirement: Requirement::Tls, ..AccountChange::default() };
        accounts.change(&app, change).unwrap();
        assert_eq!(seen(&path), ["agent"]);
        accounts.remove(&"agent".parse().unwrap()).unwrap();
        assert!(!file.exists());
    }

    /// One of another installation, a torn one, or one for another accounts file gives nobody anything.
    #[test]
    fn a_foreign_file_proves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, file) = (folder.path().join("accounts"), folder.path().join("accounts-proved"));
        let accounts = Accounts::open(&path).unwrap();
        add(&accounts, "app", PasswordPlugin::CachingSha2, Requirement::None);
        logs_in(&accounts, "app");
        let text = std::fs::read_to_string(&file).unwrap();
        for len in 0..text.len() - 1 {
            std::fs::write(&file, &text[..len]).unwrap();
            assert!(seen(&path).is_empty(), "{len}");
        }
        for other in ["\u{0}".repeat(200), text.replace("proved 1", "proved 2"), text.replace(' ', "  ")] {
            std::fs::write(&file, other).unwrap();
            assert!(seen(&path).is_empty());
        }
        std::fs::write(&file, &text).unwrap();
        assert_eq!(seen(&path), ["app"]);
        // The same name and password under another salt.
        let elsewhere = tempfile::tempdir().unwrap();
        let accounts = Accounts::open(&elsewhere.path().join("accounts")).unwrap();
        add(&accounts, "app", PasswordPlugin::CachingSha2, Requirement::None);
        std::fs::write(elsewhere.path().join("accounts-proved"), &text).unwrap();
        assert!(seen(&elsewhere.path().join("accounts")).is_empty());
    }

    /// A disk that takes nothing keeps no form that is to be gone.
    #[test]
    fn a_form_goes_where_the_file_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let (path, file) = (folder.path().join("accounts"), folder.path().join("accounts-proved"));
        let accounts = Accounts::open(&path).unwrap();
        for name in ["app", "agent"] {
            add(&accounts, name, PasswordPlugin::CachingSha2, Requirement::None);
            logs_in(&accounts, name);
        }
        // In the way of the file to be written.
        std::fs::create_dir(folder.path().join("accounts-proved.tmp")).unwrap();
        accounts.remove(&"app".parse().unwrap()).unwrap();
        assert!(!file.exists());
    }
}
