//! Definitions that the log alone does not settle, as the source has them now.
//!
//! In: a login, kinds and names. Out: an [`Answer`]. Never here: a guess about what the account may not see.

use std::time::Duration;

use catalog::{Answer, DefinitionKind, Older, SourceNames};
use client::session::{gtid_executed, reading_session};
use client::{ClientError, ConnectOptions};
use source::KEEPS_NO_TABLES;

use crate::error::CopyError;
use crate::recorded::{self, KINDS};

/// What the source is asked for.
pub struct Question {
    /// Kinds, databases and names of objects, as an [`Answer`] has them.
    pub about: Vec<(DefinitionKind, String, String)>,
    /// Everything else too, because it may be older than the log.
    pub older: bool,
}

/// What came of a question.
pub struct Asked {
    pub answer: Answer,
    /// What the account could not see, in words; what was asked by name is not in the answer then.
    pub unseen: Vec<String>,
    /// True if the source keeps nothing but a log, and so answers nothing.
    pub keeps_none: bool,
}

/// Asks the source; `names` are those of the objects on this replica.
///
/// `later` passes before the source is asked what it has executed: an object can be seen a moment before its
/// transaction is in that set.
///
/// # Errors
/// The source cannot be reached or read, or has no GTIDs.
pub fn ask_definitions(
    options: &ConnectOptions,
    names: &SourceNames,
    question: Question,
    later: Duration,
) -> Result<Asked, CopyError> {
    let Question { about, older } = question;
    let server = options.to_string();
    let at = |error: ClientError| CopyError::Source { server: server.clone(), error };
    let no_gtids = || CopyError::NoGtids { server: server.clone() };
    let mut reader = reading_session(options).map_err(at)?;
    let before = gtid_executed(&mut reader).map_err(at)?.ok_or_else(no_gtids)?;
    let is_asked = |kind: DefinitionKind, db: &str, name: &str| {
        let is_named = about.iter().any(|(of, its_db, its_name)| {
            let any_account = kind == DefinitionKind::User && its_name.is_empty();
            // Which names are one, the catalog knows.
            let is_its = its_db.eq_ignore_ascii_case(db) && its_name.to_lowercase() == name.to_lowercase();
            *of == kind && (any_account || is_its)
        });
        older || is_named
    };
    let mut kinds: Vec<DefinitionKind> = about.iter().map(|(kind, ..)| *kind).collect();
    kinds.extend(KINDS.into_iter().filter(|_| older));
    kinds.sort_unstable();
    kinds.dedup();
    let found = match recorded::read_some(&mut reader, names, &kinds, &is_asked) {
        Err(error) if error.server_code() == Some(KEEPS_NO_TABLES) => {
            return Ok(Asked { answer: Answer::default(), unseen: vec![error.to_string()], keeps_none: true });
        }
        found => found.map_err(at)?,
    };
    std::thread::sleep(later);
    let after = gtid_executed(&mut reader).map_err(at)?.ok_or_else(no_gtids)?;
    let sees_all = found.notes.is_empty();
    let older = match older {
        false => Older::None,
        true if sees_all => Older::All,
        true => Older::Seen,
    };
    let asked = if sees_all { about } else { Vec::new() };
    let answer = Answer { asked, older, definitions: found.all, before, after };
    Ok(Asked { answer, unseen: found.notes, keeps_none: false })
}
