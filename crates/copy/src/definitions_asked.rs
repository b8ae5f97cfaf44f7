//! Definitions that the log alone does not settle, as the source has them now.
//!
//! In: a login, kinds and names. Out: an [`Answer`]. Never here: a guess about what the account may not see.

use std::time::Duration;

use catalog::{Answer, DefinitionKind, SourceNames};
use client::session::{gtid_executed, reading_session};
use client::{ClientError, ConnectOptions};

use crate::error::CopyError;
use crate::recorded;

/// What the source is asked for.
pub struct Question {
    /// Kinds, databases and names of objects, as an [`Answer`] has them.
    pub about: Vec<(DefinitionKind, String, String)>,
    /// Everything else too.
    pub whole: bool,
}

/// Asks the source; `names` are those of the objects on this replica. Returns also what the account could not see, in
/// words: what it was asked about is not in the answer then.
///
/// `later` passes before the source is asked what it has executed: an object can be seen a moment before its transaction
/// is in that set.
///
/// # Errors
/// The source cannot be reached or read, or has no GTIDs.
pub fn ask_definitions(
    options: &ConnectOptions,
    names: &SourceNames,
    question: Question,
    later: Duration,
) -> Result<(Answer, Vec<String>), CopyError> {
    let Question { about: asked, whole } = question;
    let server = options.to_string();
    let at = |error: ClientError| CopyError::Source { server: server.clone(), error };
    let no_gtids = || CopyError::NoGtids { server: server.clone() };
    let mut reader = reading_session(options).map_err(at)?;
    let before = gtid_executed(&mut reader).map_err(at)?.ok_or_else(no_gtids)?;
    let is_asked = |kind: DefinitionKind, db: &str, name: &str| {
        whole || asked.iter().any(|(of, its_db, its_name)| {
            let any_account = kind == DefinitionKind::User && its_name.is_empty();
            // Which names are one, the catalog knows.
            let is_its = its_db.eq_ignore_ascii_case(db) && its_name.to_lowercase() == name.to_lowercase();
            *of == kind && (any_account || is_its)
        })
    };
    let mut kinds: Vec<DefinitionKind> = asked.iter().map(|(kind, ..)| *kind).collect();
    kinds.extend(recorded::KINDS.into_iter().filter(|_| whole));
    kinds.sort_unstable();
    kinds.dedup();
    let found = recorded::read_some(&mut reader, names, &kinds, &is_asked).map_err(at)?;
    std::thread::sleep(later);
    let after = gtid_executed(&mut reader).map_err(at)?.ok_or_else(no_gtids)?;
    let asked = if found.notes.is_empty() { asked } else { Vec::new() };
    let whole = whole && found.notes.is_empty();
    Ok((Answer { asked, whole, definitions: found.all, before, after }, found.notes))
}
