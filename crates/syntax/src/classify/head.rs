//! A statement's kind, by its first words.

use super::StatementKind;
use crate::keyword::Keyword;
use crate::lexer::{Kind, Token};

/// The word that tells a stored program is among the first tokens, this many at most: DEFINER = user@host, OR REPLACE
/// and the like come before it.
pub(super) const WORDS_MAX: usize = 16;

/// True if these are the first tokens of a stored program, in whose text `;` may stand.
pub(super) fn begins_program(tokens: &[Token]) -> bool {
    use Keyword as K;
    let Some(first) = tokens.first() else { return false };
    let is_object = |keyword| matches!(keyword, K::Procedure | K::Function | K::Trigger | K::Event | K::Library);
    let Some((last, before)) = tokens.split_last() else { return false };
    match first.keyword {
        // What follows the object's word is its name, which may be any of these.
        K::Create => is_object(last.keyword) && before.iter().skip(1).all(|token| may_precede(*token)),
        K::Alter => last.keyword == K::Event && before.iter().skip(1).all(|token| may_precede(*token)),
        _ => false,
    }
}

/// DEFINER = user, OR REPLACE, AGGREGATE.
fn may_precede(token: Token) -> bool {
    use Keyword as K;
    match token.kind {
        Kind::Name | Kind::Text | Kind::UserVariable => true,
        Kind::Byte(byte) => matches!(byte, b'=' | b'(' | b')'),
        Kind::Word => !matches!(
            token.keyword,
            K::Table | K::View | K::Index | K::Database | K::Schema | K::Select | K::User | K::Role | K::Server
        ),
        _ => false,
    }
}

pub(super) fn kind(text: &[u8], tokens: &[Token]) -> StatementKind {
    use Keyword as K;
    use StatementKind as S;
    let at = |place: usize| tokens.get(place).map_or(K::NotOne, |token| token.keyword);
    let Some(first) = tokens.first() else { return S::Empty };
    match first.kind {
        Kind::End => return S::Empty,
        Kind::Byte(b'(') => return of_brackets(tokens),
        _ => {}
    }
    match first.keyword {
        K::Select | K::Table | K::Values => S::Select,
        K::With => after_with(tokens),
        K::Insert => S::Insert,
        K::Replace => S::Replace,
        K::Update => S::Update,
        K::Delete => S::Delete,
        K::Create | K::Alter | K::Drop | K::Rename => of_object(tokens),
        K::Truncate => S::Ddl,
        K::Grant | K::Revoke => S::Account,
        K::Set => of_set(at(1), at(2)),
        K::Call => S::Call,
        K::Begin => S::Begin,
        K::Start if at(1) == K::Transaction => S::Begin,
        K::Commit => S::Commit,
        K::Rollback if matches!(at(1), K::To) || (at(1) == K::Work && at(2) == K::To) => S::RollbackTo,
        K::Rollback => S::Rollback,
        K::Savepoint => S::Savepoint,
        K::Release => S::ReleaseSavepoint,
        K::Xa => S::Xa,
        K::Prepare => S::Prepare,
        K::Execute => S::Execute,
        K::Deallocate => S::Deallocate,
        K::Show => S::Show,
        K::Explain | K::Describe | K::Desc => S::Explain,
        K::Lock if matches!(at(1), K::Table | K::Tables) => S::LockTables,
        K::Unlock if matches!(at(1), K::Table | K::Tables) => S::UnlockTables,
        K::Handler => S::Handler,
        K::Load if matches!(at(1), K::Data | K::Xml) => S::Load,
        K::Load => S::TableMaintenance,
        K::Do => S::Do,
        K::Use => S::Use,
        K::Kill => S::Kill,
        K::Flush => S::Flush,
        K::Analyze | K::Optimize | K::Check | K::Repair | K::Checksum | K::Cache => S::TableMaintenance,
        K::Signal | K::Resignal | K::Get => S::Diagnostics,
        K::Help => S::Help,
        K::Start | K::Stop | K::Change | K::Reset | K::Purge | K::Binlog | K::Clone | K::Shutdown | K::Restart => {
            S::Administration
        }
        K::Install | K::Uninstall | K::Import | K::Lock | K::Unlock => S::Administration,
        _ if first.span.of(text).is_empty() => S::Empty,
        _ => S::Unknown,
    }
}

/// The kind of a statement in brackets.
fn of_brackets(tokens: &[Token]) -> StatementKind {
    let first = tokens.iter().find(|token| token.kind != Kind::Byte(b'('));
    match first.map(|token| token.keyword) {
        Some(Keyword::Select | Keyword::Table | Keyword::Values | Keyword::With) => StatementKind::Select,
        _ => StatementKind::Unknown,
    }
}

/// The verb after the tables of WITH: the first one outside of brackets.
fn after_with(tokens: &[Token]) -> StatementKind {
    let mut depth = 0usize;
    for (place, token) in tokens.iter().enumerate() {
        match (token.kind, token.keyword) {
            (Kind::Byte(b'('), _) => depth += 1,
            (Kind::Byte(b')'), _) => depth = depth.saturating_sub(1),
            (_, Keyword::Update) if depth == 0 => return StatementKind::Update,
            (_, Keyword::Delete) if depth == 0 => return StatementKind::Delete,
            (_, Keyword::Select | Keyword::Table | Keyword::Values) if depth == 0 && place > 0 => {
                return StatementKind::Select;
            }
            _ => {}
        }
    }
    StatementKind::Select
}

fn of_object(tokens: &[Token]) -> StatementKind {
    use Keyword as K;
    for token in tokens.iter().skip(1).take(WORDS_MAX) {
        return match token.keyword {
            K::Procedure | K::Function | K::Trigger | K::Event | K::Library => StatementKind::StoredProgram,
            K::User | K::Role => StatementKind::Account,
            K::Server | K::Instance | K::Resource | K::Logfile | K::Undo => StatementKind::Administration,
            K::Prepare if tokens.first().is_some_and(|first| first.keyword == K::Drop) => StatementKind::Deallocate,
            K::Table | K::Tables | K::View | K::Index | K::Database | K::Schema | K::Tablespace => StatementKind::Ddl,
            _ => continue,
        };
    }
    StatementKind::Ddl
}

fn of_set(second: Keyword, third: Keyword) -> StatementKind {
    use Keyword as K;
    let scoped = matches!(second, K::Global | K::Session | K::Local) && third == K::Transaction;
    match second {
        K::Transaction => StatementKind::SetTransaction,
        _ if scoped => StatementKind::SetTransaction,
        K::Names => StatementKind::SetNames,
        K::Charset => StatementKind::SetNames,
        K::Character | K::Char if third == K::Set => StatementKind::SetNames,
        K::Password => StatementKind::Account,
        K::Default if third == K::Role => StatementKind::Account,
        K::Role => StatementKind::SetRole,
        K::Resource => StatementKind::Administration,
        _ => StatementKind::Set,
    }
}
