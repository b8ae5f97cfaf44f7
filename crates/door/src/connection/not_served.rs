//! What the source answers because this server does not, as it is counted.
//!
//! In: commands on their way to the source, and why they are not answered here. Out: counts by construct and by digest.
//! Never here: a decision, a literal of a statement.

use session::{NotHere, Why};
use sql::SERVER_VERSION;
use syntax::{Settings, digest_text};
use tier::{Sent, statement_of};
use wire::server::ClientCommand;

use super::{Connection, Turn};

/// Bytes of a digest that are kept.
pub(super) const DIGEST_BYTES: usize = 500;

impl Connection {
    /// A command that this session was asked goes to the source.
    pub(super) fn note_not_here(&self, not_here: &NotHere, payload: &[u8], sent: &Sent, turn: &Turn<'_>) {
        if sent.prepares || !sent.is_statement {
            return;
        }
        let construct = match not_here.why {
            Why::Writes => "a statement that writes",
            Why::NotNow => "rows that are not fresh in time",
            Why::Unknown => "a name that is not known here",
            _ => &not_here.construct,
        };
        let digest = if not_here.may_write { None } else { self.digest_of(payload) };
        turn.server.sources.counts.note_not_served(construct, digest);
    }

    /// A command goes to the source of which this session was not asked.
    pub(super) fn note_not_asked(&self, payload: &[u8], sent: &Sent, turn: &Turn<'_>) {
        if sent.prepares || !sent.is_statement {
            return;
        }
        let (Some(forwarding), Some(session)) = (&self.forwarding, &self.session) else { return };
        let is_there_only = statement_of(payload).is_some_and(|number| session.prepared_text(number).is_none());
        let construct = match () {
            _ if forwarding.here.is_none() => "an account that may read nothing here",
            _ if session.is_pinned() || forwarding.is_pinned() => "a session that is kept at the source",
            _ if forwarding.keeps_session() => "a transaction at the source",
            _ if is_there_only => "a statement prepared at the source",
            _ if sent.may_be_here && session.begins_split() && !turn.server.sources.is_late() => {
                "a transaction that is left to the source"
            }
            _ if sent.may_be_here => "rows that are not fresh in time",
            _ => "a kind that is never answered here",
        };
        turn.server.sources.counts.note_not_served(construct, None);
    }

    fn digest_of(&self, payload: &[u8]) -> Option<String> {
        let session = self.session.as_ref()?;
        let text = match ClientCommand::parse(payload, session.start().capabilities).ok()? {
            ClientCommand::Query(query) => query.sql,
            ClientCommand::Execute(execute) => session.prepared_text(execute.statement_id)?,
            _ => return None,
        };
        let (sql_mode, charset) = session.reads_texts_as();
        Some(digest_text(text, Settings::new(sql_mode, SERVER_VERSION, charset), DIGEST_BYTES))
    }
}
