//! A password that arrives as it is, over TLS, as HTTP brings it.
//!
//! In: a name, a password, who sends them. Out: an identity with the right that is asked for, or no. Never here: a
//! difference between an unknown name, a wrong password and a right one that may not.

use subtle::ConstantTimeEq as _;

use crate::accounts::{Accounts, Identity, Peer};
use crate::guard::LoginGuard;
use crate::password::fast_form;
use crate::rights::{Rights, Transport};

impl Accounts {
    /// Checks a name and a password that came over TLS. The first check of a password takes milliseconds, later ones
    /// microseconds. None if it is wrong, or the account may not do all of `needed`, or may not connect like this.
    #[must_use]
    pub fn check(
        &self,
        guard: &LoginGuard,
        user: &str,
        password: &[u8],
        peer: &Peer,
        needed: Rights,
    ) -> Option<Identity> {
        let candidate = self.candidate(user, peer);
        let fast = fast_form(password);
        let known = candidate.entry.as_ref().and_then(|entry| entry.fast.get());
        let is_right = match known {
            Some(known) if bool::from(known.ct_eq(&fast)) => true,
            _ => !password.is_empty() && candidate.stored.is(password),
        };
        let identity = candidate.entry.filter(|_| is_right).and_then(|entry| {
            self.proves(&entry, fast);
            let transport = Transport { is_secure: true, has_certificate: false };
            let identity = entry.identity(user, peer, transport);
            (identity.rights.contains(needed) && self.still_valid(&identity)).then_some(identity)
        });
        match &identity {
            Some(_) => guard.succeeded(user, peer),
            None => {
                let _ = guard.failed(user, peer);
            }
        }
        identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewAccount, PasswordPlugin, Requirement, StoredPassword};

    #[test]
    fn all_must_be_right() {
        let folder = tempfile::tempdir().unwrap();
        let (accounts, guard) = (Accounts::open(&folder.path().join("accounts")).unwrap(), LoginGuard::default());
        let add = |name: &str, plugin, requirement| {
            let password = StoredPassword::new(plugin, "secret").unwrap();
            let (name, rights) = (name.parse().unwrap(), "monitor".parse().unwrap());
            accounts
                .add(NewAccount {
                    name,
                    rights,
                    schemas: None,
                    requirement,
                    reads: Default::default(),
                    max_connections: None,
                    password,
                })
                .unwrap();
        };
        add("sha@10.0.0.%", PasswordPlugin::CachingSha2, Requirement::Tls);
        add("old", PasswordPlugin::Native, Requirement::None);
        add("cert", PasswordPlugin::CachingSha2, Requirement::Certificate);
        let near = Peer::Tcp("10.0.0.7".parse().unwrap());
        let far = Peer::Tcp("10.0.1.7".parse().unwrap());
        let monitor = "monitor".parse().unwrap();
        let check = |user: &str, password: &str, peer| accounts.check(&guard, user, password.as_bytes(), peer, monitor);
        // The second time by the form that is kept in memory.
        for _ in 0..2 {
            assert_eq!(check("sha", "secret", &near).unwrap().account, "sha@10.0.0.%");
            assert!(check("old", "secret", &far).is_some());
        }
        for (user, password, peer) in
            [("sha", "wrong", &near), ("sha", "", &near), ("sha", "secret", &far), ("none", "secret", &near)]
        {
            assert!(check(user, password, peer).is_none(), "{user} {password}");
        }
        assert!(check("cert", "secret", &near).is_none(), "HTTP clients show no certificate here");
        let read = "monitor,read".parse().unwrap();
        assert!(accounts.check(&guard, "sha", b"secret", &near, read).is_none());
        assert_eq!((guard.failures("none", &near), guard.failures("old", &far)), (1, 0));
    }
}
