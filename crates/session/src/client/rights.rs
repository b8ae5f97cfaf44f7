//! Tables that a session may read: those of its account here, or where its statements are forwarded, at the source.
//!
//! In: the account, its grants at the source. Out: whether a table is shown here. Never here: a refusal that is the
//! source's to give: what may not be read here, the source is asked for.

use std::sync::Arc;

use accounts::{Identity, SourceGrants};

use super::Session;
use super::elsewhere::Forwarding;

/// What one session may read.
#[derive(Debug, Clone, Copy)]
pub(super) struct MayRead<'a> {
    identity: &'a Identity,
    forwards: bool,
    /// None: not known now.
    at_source: Option<&'a SourceGrants>,
}

impl MayRead<'_> {
    /// True if all tables of a schema may be read.
    pub(super) fn schema(self, schema: &str) -> bool {
        match self.forwards {
            false => self.identity.may_read(schema),
            true => {
                self.identity.may_read(schema) && self.at_source.is_some_and(|grants| grants.may_read_all_of(schema))
            }
        }
    }

    /// True if a list of all tables is as the source would give it.
    pub(super) fn everything(self) -> bool {
        !self.forwards || self.at_source.is_some_and(SourceGrants::may_read_everything)
    }

    /// True if all columns of a table may be read.
    pub(super) fn table(self, schema: &str, table: &str) -> bool {
        match self.forwards {
            false => self.identity.may_read(schema),
            true => {
                self.identity.may_read(schema) && self.at_source.is_some_and(|grants| grants.may_read(schema, table))
            }
        }
    }
}

impl Session {
    /// What its user may read at the source, where its statements are forwarded; None: not known now, so that nothing
    /// is read here.
    pub fn set_source_grants(&mut self, grants: Option<Arc<SourceGrants>>) {
        self.login.at_source = grants;
    }

    pub(super) fn may_read(&self) -> MayRead<'_> {
        let forwards = self.elsewhere.forwarding != Forwarding::Off;
        MayRead { identity: &self.login.identity, forwards, at_source: self.login.at_source.as_deref() }
    }

    /// As [`may_read`](Self::may_read), for a thread of its own.
    pub(super) fn rights(&self) -> Rights {
        let MayRead { identity, forwards, .. } = self.may_read();
        Rights { identity: identity.clone(), forwards, at_source: self.login.at_source.clone() }
    }
}

/// What a session may read, without the session.
pub(super) struct Rights {
    identity: Identity,
    forwards: bool,
    at_source: Option<Arc<SourceGrants>>,
}

impl Rights {
    pub(super) fn may_read(&self) -> MayRead<'_> {
        MayRead { identity: &self.identity, forwards: self.forwards, at_source: self.at_source.as_deref() }
    }
}

#[cfg(test)]
mod tests {
    use accounts::GrantNames;

    use super::super::tests::{Nowhere, admin};
    use super::super::{After, Why};
    use super::*;
    use crate::Output;

    #[test]
    fn a_session_that_forwards_reads_what_its_user_may_at_the_source() {
        let mut session = admin(0);
        assert!(session.may_read().schema("any") && session.may_read().everything());
        session.set_forwarding(Forwarding::All);
        assert!(!session.may_read().schema("shop") && !session.may_read().everything(), "nothing is known");
        let rows = ["GRANT SELECT ON `shop`.* TO `a`@`%`", "GRANT SELECT ON `log`.`t` TO `a`@`%`"];
        let grants = SourceGrants::read(rows.into_iter(), GrantNames::default());
        session.set_source_grants(Some(Arc::new(grants)));
        let rights = session.rights();
        for may in [session.may_read(), rights.may_read()] {
            assert!(may.schema("shop") && may.table("shop", "any") && may.table("log", "t"));
            assert!(!may.schema("log") && !may.table("log", "other") && !may.everything());
        }
        let all = session.login.identity.schemas.replace(Arc::from(["log".to_owned()]));
        assert!(
            !session.may_read().schema("shop") && !session.may_read().table("shop", "t"),
            "nor what its account lacks"
        );
        assert!(session.may_read().table("log", "t"));
        session.login.identity.schemas = all;
        // A list of all tables would lack some: the source has it, whoever asks.
        let mut out = Output::default();
        let list = b"\x03select table_name from information_schema.tables";
        assert_eq!(session.command(list, &Nowhere, &mut out), After::NotHere);
        assert_eq!(session.take_not_here().unwrap().why, Why::OfServer);
    }
}
