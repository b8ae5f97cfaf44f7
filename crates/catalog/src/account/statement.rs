//! Statements about accounts: users, roles and grants.
//!
//! In: a parser at the first token. Out: an [`AccountStatement`], or the problem. Never here: an account's state; a
//! password in the clear. The log holds most of these statements as the server has written them again, with hashes;
//! DROP, RENAME, REVOKE, and all about roles, are as the client sent them.

use super::attribute::Attribute;
use super::grants::{Asked, Level, RoutineKind};
use super::name::AccountName;
use super::privileges::Privileges;
use super::{LIMITS, Tls};
use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::Parser;

/// Plugins whose accounts without a hash must set a password first, when ALTER USER makes them so.
const PLUGINS_WITH_HASHES: [&str; 3] = ["caching_sha2_password", "sha256_password", "mysql_native_password"];
/// Most words of a privilege's name: CREATE TEMPORARY TABLES.
const PRIVILEGE_WORDS_MAX: usize = 3;

#[derive(Clone, PartialEq)]
pub(crate) enum Authentication {
    Unchanged,
    DiscardOld,
    With {
        plugin: String,
        /// None: no clause AS.
        secret: Option<Vec<u8>>,
        retain: bool,
    },
}

impl Authentication {
    /// True if ALTER USER leaves the account without a password by it, so that it must set one first.
    pub(crate) fn leaves_no_password(&self) -> bool {
        matches!(self, Authentication::With { plugin, secret: None, .. } if PLUGINS_WITH_HASHES.contains(&plugin.as_str()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expire {
    Now,
    /// Days; None for the default, 0 for never.
    After(Option<u64>),
}

/// Options of CREATE USER and ALTER USER, for all accounts of the statement. The outer None: not given.
#[derive(Clone, PartialEq, Default)]
pub(crate) struct Options {
    pub(crate) tls: Option<Tls>,
    pub(crate) limits: [Option<u64>; 4],
    pub(crate) expire: Option<Expire>,
    pub(crate) locked: Option<bool>,
    pub(crate) history: Option<Option<u64>>,
    pub(crate) reuse: Option<Option<u64>>,
    pub(crate) require_current: Option<Option<bool>>,
    pub(crate) attempts: Option<u64>,
    pub(crate) lock_time: Option<Option<u64>>,
    pub(crate) attribute: Option<Attribute>,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Roles {
    None,
    All,
    These(Vec<AccountName>),
}

/// The accounts of a REVOKE.
#[derive(Clone, PartialEq)]
pub(crate) struct From {
    pub(crate) accounts: Vec<AccountName>,
    pub(crate) ignore_unknown: bool,
}

/// Bytes of an entry of an account, a role or a column that it holds, with its places in the maps.
const ENTRY_BYTES: usize = 256;

#[derive(Clone, PartialEq)]
pub(crate) enum AccountStatement {
    Create {
        if_not_exists: bool,
        users: Vec<(AccountName, Authentication)>,
        default_roles: Vec<AccountName>,
        options: Box<Options>,
    },
    CreateRoles {
        if_not_exists: bool,
        roles: Vec<AccountName>,
    },
    Alter {
        if_exists: bool,
        users: Vec<(AccountName, Authentication)>,
        default_roles: Option<Roles>,
        options: Box<Options>,
    },
    Drop(Vec<AccountName>),
    Rename(Vec<(AccountName, AccountName)>),
    Grant {
        asked: Asked,
        level: Level,
        to: Vec<AccountName>,
        /// AS, the account as which it is granted, which only a source with `partial_revokes` logs; true with
        /// ROLE NONE, or no role at all.
        granted_as: Option<(AccountName, bool)>,
    },
    Revoke {
        asked: Asked,
        level: Level,
        from: From,
        if_exists: bool,
    },
    RevokeAll {
        from: From,
    },
    GrantProxy {
        on: AccountName,
        to: Vec<AccountName>,
        option: bool,
    },
    RevokeProxy {
        on: AccountName,
        from: From,
    },
    GrantRoles {
        roles: Vec<AccountName>,
        to: Vec<AccountName>,
        admin: bool,
    },
    RevokeRoles {
        roles: Vec<AccountName>,
        from: From,
    },
    SetDefaultRoles {
        roles: Roles,
        to: Vec<AccountName>,
    },
}

impl AccountStatement {
    /// Bytes that its effect takes at most, as a statement of this length: what each account holds then.
    pub(crate) fn kept_bytes(&self, len: usize) -> usize {
        let roles = |roles: &Option<Roles>| match roles {
            Some(Roles::These(names)) => names.len(),
            _ => 0,
        };
        let asked = |asked: &Asked| {
            let columns: usize = asked.columns.iter().map(|(_, columns)| columns.len()).sum();
            1 + columns + asked.dynamic.len()
        };
        // Options are kept with each account.
        let of_options = |users: usize, entries: usize| users.saturating_mul(len + entries * ENTRY_BYTES);
        let entries = match self {
            AccountStatement::Create { users, default_roles, .. } => {
                return of_options(users.len(), default_roles.len());
            }
            AccountStatement::Alter { users, default_roles, .. } => {
                return of_options(users.len(), roles(default_roles));
            }
            AccountStatement::Grant { to: names, asked: of, .. }
            | AccountStatement::Revoke { from: From { accounts: names, .. }, asked: of, .. } => {
                names.len().saturating_mul(asked(of))
            }
            AccountStatement::GrantRoles { to: names, roles, .. }
            | AccountStatement::RevokeRoles { from: From { accounts: names, .. }, roles } => {
                names.len().saturating_mul(roles.len())
            }
            AccountStatement::SetDefaultRoles { to: names, roles: Roles::These(roles) } => {
                names.len().saturating_mul(roles.len())
            }
            AccountStatement::CreateRoles { roles: names, .. }
            | AccountStatement::Drop(names)
            | AccountStatement::GrantProxy { to: names, .. }
            | AccountStatement::SetDefaultRoles { to: names, .. }
            | AccountStatement::RevokeAll { from: From { accounts: names, .. } }
            | AccountStatement::RevokeProxy { from: From { accounts: names, .. }, .. } => names.len(),
            AccountStatement::Rename(pairs) => pairs.len(),
        };
        entries.saturating_mul(ENTRY_BYTES)
    }

    /// None if the statement is about other objects.
    ///
    /// # Errors
    /// It is about accounts, and something in it is not understood. No literal of the statement is in the error.
    pub(crate) fn read(parser: &mut Parser<'_>, default_db: &str) -> Result<Option<AccountStatement>, Problem> {
        let verb = parser.word_upper()?;
        let object = match parser.peek_at(1)? {
            Tok::Word(word) => String::from_utf8_lossy(word).to_ascii_uppercase(),
            _ => String::new(),
        };
        let statement = match (verb.as_str(), object.as_str()) {
            ("CREATE" | "ALTER" | "DROP" | "RENAME", "USER" | "ROLE") => {
                parser.take()?;
                parser.take()?;
                of_accounts(parser, &verb, object == "ROLE")?
            }
            ("GRANT", _) => {
                parser.take()?;
                grant(parser, default_db)?
            }
            ("REVOKE", _) => {
                parser.take()?;
                revoke(parser, default_db)?
            }
            ("SET", "DEFAULT") => {
                parser.take()?;
                parser.take()?;
                parser.expect_word("ROLE")?;
                let roles = roles(parser)?;
                parser.expect_word("TO")?;
                AccountStatement::SetDefaultRoles { roles, to: AccountName::list(parser)? }
            }
            ("SET", "PASSWORD") => return Problem::unsupported("SET PASSWORD, which servers since 8.0 do not log"),
            _ => return Ok(None),
        };
        parser.expect_end()?;
        Ok(Some(statement))
    }
}

fn of_accounts(parser: &mut Parser<'_>, verb: &str, role: bool) -> Result<AccountStatement, Problem> {
    let if_not_exists = parser.eat(&["IF", "NOT", "EXISTS"])?;
    let if_exists = parser.eat(&["IF", "EXISTS"])?;
    Ok(match (verb, role) {
        ("CREATE", true) => AccountStatement::CreateRoles { if_not_exists, roles: AccountName::list(parser)? },
        ("CREATE", false) => {
            let users = users(parser)?;
            let default_roles = match default_roles(parser)? {
                None | Some(Roles::None) => Vec::new(),
                Some(Roles::These(roles)) => roles,
                Some(Roles::All) => return parser.wrong("roles expected"),
            };
            AccountStatement::Create { if_not_exists, users, default_roles, options: Box::new(options(parser)?) }
        }
        ("ALTER", false) => {
            let users = users(parser)?;
            let default_roles = default_roles(parser)?;
            AccountStatement::Alter { if_exists, users, default_roles, options: Box::new(options(parser)?) }
        }
        ("DROP", _) => AccountStatement::Drop(AccountName::list(parser)?),
        ("RENAME", false) => {
            let mut pairs = Vec::new();
            loop {
                let from = AccountName::read(parser)?;
                parser.expect_word("TO")?;
                pairs.push((from, AccountName::read(parser)?));
                if !parser.eat_punct(b',')? {
                    break;
                }
            }
            AccountStatement::Rename(pairs)
        }
        _ => return parser.wrong("USER expected"),
    })
}

fn users(parser: &mut Parser<'_>) -> Result<Vec<(AccountName, Authentication)>, Problem> {
    let mut users = Vec::new();
    loop {
        let name = AccountName::read(parser)?;
        users.push((name, authentication(parser)?));
        if !parser.eat_punct(b',')? {
            return Ok(users);
        }
    }
}

fn authentication(parser: &mut Parser<'_>) -> Result<Authentication, Problem> {
    if parser.eat(&["DISCARD", "OLD", "PASSWORD"])? {
        return Ok(Authentication::DiscardOld);
    }
    if !parser.eat_word("IDENTIFIED")? {
        return Ok(Authentication::Unchanged);
    }
    if !parser.eat_word("WITH")? {
        return Problem::unsupported("a password in the clear");
    }
    let plugin = parser.name_or_string()?;
    let secret = if parser.eat_word("AS")? { Some(parser.string()?.bytes) } else { None };
    if parser.is_any_word(&["BY", "AND", "INITIAL"])? {
        return Problem::unsupported("a password in the clear, or a second factor");
    }
    Ok(Authentication::With { plugin, secret, retain: parser.eat(&["RETAIN", "CURRENT", "PASSWORD"])? })
}

fn default_roles(parser: &mut Parser<'_>) -> Result<Option<Roles>, Problem> {
    if parser.eat(&["DEFAULT", "ROLE"])? { roles(parser).map(Some) } else { Ok(None) }
}

fn roles(parser: &mut Parser<'_>) -> Result<Roles, Problem> {
    if parser.eat_word("NONE")? {
        return Ok(Roles::None);
    }
    if parser.eat_word("ALL")? {
        return if parser.is_word("EXCEPT")? { parser.wrong("roles expected") } else { Ok(Roles::All) };
    }
    AccountName::list(parser).map(Roles::These)
}

fn options(parser: &mut Parser<'_>) -> Result<Options, Problem> {
    let mut options = Options::default();
    if parser.eat_word("REQUIRE")? {
        options.tls = Some(tls(parser)?);
    }
    if parser.eat_word("WITH")? {
        while let Some(which) = limit(parser)? {
            if let Some(limit) = options.limits.get_mut(which) {
                *limit = Some(parser.unsigned()?);
            }
        }
    }
    loop {
        if parser.eat_word("PASSWORD")? {
            password_option(parser, &mut options)?;
        } else if parser.eat(&["ACCOUNT", "LOCK"])? {
            options.locked = Some(true);
        } else if parser.eat(&["ACCOUNT", "UNLOCK"])? {
            options.locked = Some(false);
        } else if parser.eat_word("FAILED_LOGIN_ATTEMPTS")? {
            options.attempts = Some(parser.unsigned()?);
        } else if parser.eat_word("PASSWORD_LOCK_TIME")? {
            options.lock_time = Some(if parser.eat_word("UNBOUNDED")? { None } else { Some(parser.unsigned()?) });
        } else if parser.eat_word("COMMENT")? {
            options.attribute = Some(Attribute::of_comment(&option_text(parser)?));
        } else if parser.eat_word("ATTRIBUTE")? {
            match Attribute::of(&option_text(parser)?) {
                Some(attribute) => options.attribute = Some(attribute),
                None => return parser.wrong("a JSON object expected"),
            }
        } else {
            return Ok(options);
        }
    }
}

/// The server takes such a string for UTF-8, whatever the client's character set, and shows other bytes as question
/// marks (seen on 9.7).
fn option_text(parser: &mut Parser<'_>) -> Result<String, Problem> {
    let bytes = parser.string()?.bytes;
    Ok(String::from_utf8_lossy(&bytes).replace(char::REPLACEMENT_CHARACTER, "?"))
}

fn limit(parser: &mut Parser<'_>) -> Result<Option<usize>, Problem> {
    for (index, word) in LIMITS.iter().enumerate() {
        if parser.eat_word(word)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

fn tls(parser: &mut Parser<'_>) -> Result<Tls, Problem> {
    for (word, tls) in [("NONE", Tls::None), ("SSL", Tls::Any), ("X509", Tls::X509)] {
        if parser.eat_word(word)? {
            return Ok(tls);
        }
    }
    let (mut subject, mut issuer, mut cipher) = (None, None, None);
    loop {
        let to = if parser.eat_word("SUBJECT")? {
            &mut subject
        } else if parser.eat_word("ISSUER")? {
            &mut issuer
        } else if parser.eat_word("CIPHER")? {
            &mut cipher
        } else if (&subject, &issuer, &cipher) == (&None, &None, &None) {
            return parser.wrong("a requirement expected");
        } else {
            return Ok(Tls::Specified { subject, issuer, cipher });
        };
        *to = Some(option_text(parser)?);
        parser.eat_word("AND")?;
    }
}

/// After the word PASSWORD.
fn password_option(parser: &mut Parser<'_>, options: &mut Options) -> Result<(), Problem> {
    let days = |parser: &mut Parser<'_>| {
        let days = parser.unsigned()?;
        parser.expect_word("DAY")?;
        Ok::<_, Problem>(days)
    };
    if parser.eat_word("EXPIRE")? {
        options.expire = Some(if parser.eat_word("DEFAULT")? {
            Expire::After(None)
        } else if parser.eat_word("NEVER")? {
            Expire::After(Some(0))
        } else if parser.eat_word("INTERVAL")? {
            Expire::After(Some(days(parser)?))
        } else {
            Expire::Now
        });
    } else if parser.eat_word("HISTORY")? {
        options.history = Some(if parser.eat_word("DEFAULT")? { None } else { Some(parser.unsigned()?) });
    } else if parser.eat(&["REUSE", "INTERVAL"])? {
        options.reuse = Some(if parser.eat_word("DEFAULT")? { None } else { Some(days(parser)?) });
    } else if parser.eat(&["REQUIRE", "CURRENT"])? {
        options.require_current = Some(if parser.eat_word("DEFAULT")? {
            None
        } else if parser.eat_word("OPTIONAL")? {
            Some(false)
        } else {
            Some(true)
        });
    } else {
        return parser.wrong("a rule for passwords expected");
    }
    Ok(())
}

/// True if the words before TO or FROM name a place, so that they are privileges and no roles.
fn has_place(parser: &Parser<'_>, end: &str) -> Result<bool, Problem> {
    let mut ahead = parser.clone();
    let mut depth = 0usize;
    loop {
        if depth == 0 && ahead.is_word("ON")? {
            return Ok(true);
        }
        if depth == 0 && ahead.is_word(end)? {
            return Ok(false);
        }
        match ahead.take()? {
            Tok::Punct(b'(') => depth += 1,
            Tok::Punct(b')') => depth = depth.saturating_sub(1),
            Tok::End => return ahead.wrong(format!("{end} expected")),
            _ => {}
        }
    }
}

fn grant(parser: &mut Parser<'_>, default_db: &str) -> Result<AccountStatement, Problem> {
    if parser.eat(&["PROXY", "ON"])? {
        let on = AccountName::read(parser)?;
        parser.expect_word("TO")?;
        let to = AccountName::list(parser)?;
        return Ok(AccountStatement::GrantProxy { on, to, option: parser.eat(&["WITH", "GRANT", "OPTION"])? });
    }
    if !has_place(parser, "TO")? {
        let roles = AccountName::list(parser)?;
        parser.expect_word("TO")?;
        let to = AccountName::list(parser)?;
        return Ok(AccountStatement::GrantRoles { roles, to, admin: parser.eat(&["WITH", "ADMIN", "OPTION"])? });
    }
    let mut asked = asked(parser)?;
    let level = level(parser, default_db)?;
    parser.expect_word("TO")?;
    let to = AccountName::list(parser)?;
    asked.grant_option |= parser.eat(&["WITH", "GRANT", "OPTION"])?;
    let mut granted_as = None;
    if parser.eat_word("AS")? {
        let account = AccountName::read(parser)?;
        let without_roles = if parser.eat(&["WITH", "ROLE"])? { roles(parser)? == Roles::None } else { true };
        granted_as = Some((account, without_roles));
    }
    Ok(AccountStatement::Grant { asked, level, to, granted_as })
}

fn revoke(parser: &mut Parser<'_>, default_db: &str) -> Result<AccountStatement, Problem> {
    let if_exists = parser.eat(&["IF", "EXISTS"])?;
    let from = |parser: &mut Parser<'_>| {
        parser.expect_word("FROM")?;
        let accounts = AccountName::list(parser)?;
        Ok::<_, Problem>(From { accounts, ignore_unknown: parser.eat(&["IGNORE", "UNKNOWN", "USER"])? })
    };
    if parser.eat(&["PROXY", "ON"])? {
        let on = AccountName::read(parser)?;
        return Ok(AccountStatement::RevokeProxy { on, from: from(parser)? });
    }
    if has_place(parser, "FROM")? {
        let asked = asked(parser)?;
        let level = level(parser, default_db)?;
        return Ok(AccountStatement::Revoke { asked, level, from: from(parser)?, if_exists });
    }
    if parser.is_word("ALL")? && (parser.is_word_at(1, "PRIVILEGES")? || *parser.peek_at(1)? == Tok::Punct(b',')) {
        parser.take()?;
        parser.eat_word("PRIVILEGES")?;
        parser.expect_punct(b',')?;
        parser.expect_word("GRANT")?;
        parser.expect_word("OPTION")?;
        return Ok(AccountStatement::RevokeAll { from: from(parser)? });
    }
    let roles = AccountName::list(parser)?;
    Ok(AccountStatement::RevokeRoles { roles, from: from(parser)? })
}

/// Privileges up to the word ON, which is taken.
fn asked(parser: &mut Parser<'_>) -> Result<Asked, Problem> {
    let mut asked = Asked::default();
    loop {
        let name = privilege_name(parser)?;
        if parser.is_punct(b'(')? {
            let Some(privilege) = Privileges::named(&name) else { return parser.wrong("ON expected") };
            asked.columns.push((privilege, columns(parser)?));
        } else if let Some(privilege) = Privileges::named(&name) {
            asked.privileges = asked.privileges.with(privilege);
        } else {
            match name.as_str() {
                "ALL" | "ALL PRIVILEGES" => asked.all = true,
                "USAGE" => asked.usage = true,
                "GRANT OPTION" => asked.grant_option = true,
                _ if !name.contains(' ') => asked.dynamic.push(name),
                _ => return Problem::unsupported("a privilege of several words that is not known"),
            }
        }
        if !parser.eat_punct(b',')? {
            parser.expect_word("ON")?;
            return Ok(asked);
        }
    }
}

fn privilege_name(parser: &mut Parser<'_>) -> Result<String, Problem> {
    if matches!(parser.peek()?, Tok::Quoted(_) | Tok::Str { .. }) {
        return Ok(parser.name_or_string()?.to_ascii_uppercase());
    }
    let mut words = Vec::new();
    while words.len() < PRIVILEGE_WORDS_MAX && (words.is_empty() || !parser.is_word("ON")?) {
        match parser.word_upper()? {
            word if word.is_empty() => break,
            word => words.push(word),
        }
        parser.take()?;
    }
    if words.is_empty() { parser.wrong("a privilege expected") } else { Ok(words.join(" ")) }
}

fn columns(parser: &mut Parser<'_>) -> Result<Vec<String>, Problem> {
    parser.expect_punct(b'(')?;
    let mut columns = vec![parser.name()?];
    while parser.eat_punct(b',')? {
        columns.push(parser.name()?);
    }
    parser.expect_punct(b')')?;
    Ok(columns)
}

fn level(parser: &mut Parser<'_>, default_db: &str) -> Result<Level, Problem> {
    let kinds = [
        ("TABLE", None),
        ("FUNCTION", Some(RoutineKind::Function)),
        ("PROCEDURE", Some(RoutineKind::Procedure)),
        ("LIBRARY", Some(RoutineKind::Library)),
    ];
    let mut routine = None;
    for (word, kind) in kinds {
        // Without a dot after it: with one it is a database.
        if parser.is_word(word)? && *parser.peek_at(1)? != Tok::Punct(b'.') {
            parser.take()?;
            routine = kind;
            break;
        }
    }
    if parser.eat_punct(b'*')? {
        if !parser.eat_punct(b'.')? {
            return Ok(Level::Database(default_db.to_owned()));
        }
        parser.expect_punct(b'*')?;
        return Ok(Level::Global);
    }
    let first = parser.name()?;
    let (db, name) = if !parser.eat_punct(b'.')? {
        (default_db.to_owned(), first)
    } else if parser.eat_punct(b'*')? {
        return Ok(Level::Database(first));
    } else {
        (first, parser.name()?)
    };
    Ok(match routine {
        Some(kind) => Level::Routine(kind, db, name.to_lowercase()),
        None => Level::Table(db, name),
    })
}

/// The accounts that a statement changes, where the statement is not understood otherwise: those after USER or ROLE, TO
/// or FROM. Empty where none can be found.
pub(crate) fn named_accounts(parser: &mut Parser<'_>) -> Vec<AccountName> {
    found_accounts(parser).unwrap_or_default()
}

fn found_accounts(parser: &mut Parser<'_>) -> Result<Vec<AccountName>, Problem> {
    let verb = parser.word_upper()?;
    let end: &[&str] = match verb.as_str() {
        "GRANT" => &["TO"],
        "REVOKE" => &["FROM"],
        "SET" if parser.is_word_at(1, "PASSWORD")? => &["FOR"],
        "SET" => &["TO"],
        _ => &["USER", "ROLE"],
    };
    while !parser.is_any_word(end)? {
        if parser.take()? == Tok::End {
            return Ok(Vec::new());
        }
    }
    parser.take()?;
    let _ = parser.eat(&["IF", "NOT", "EXISTS"])? || parser.eat(&["IF", "EXISTS"])?;
    let mut names = vec![AccountName::read(parser)?];
    loop {
        // Up to the next comma: options of the whole statement have commas in strings only.
        while !parser.is_punct(b',')? {
            if parser.eat(&["IDENTIFIED", "WITH"])? {
                continue;
            }
            if parser.is_any_word(&["REQUIRE", "WITH", "DEFAULT", "ATTRIBUTE", "COMMENT", "ACCOUNT"])?
                || parser.take()? == Tok::End
            {
                return Ok(names);
            }
        }
        parser.take()?;
        match AccountName::read(parser) {
            Ok(name) => names.push(name),
            Err(_) => return Ok(names),
        }
    }
}
