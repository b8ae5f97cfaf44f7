//! Names of accounts: `user`@`host`.
//!
//! In: a parser at an account. Out: its name as the server compares it. Never here: what the account may do.

use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::{Parser, backticked};

/// Hosts are compared without regard to case, and the server keeps them in lower case; users are case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AccountName {
    pub(crate) user: String,
    pub(crate) host: String,
}

impl AccountName {
    pub(crate) fn new(user: &str, host: &str) -> AccountName {
        AccountName { user: user.to_owned(), host: host.to_lowercase() }
    }

    /// As a definition is named: `user@host`. No host contains an `@`.
    pub(crate) fn of_definition(name: &str) -> AccountName {
        let (user, host) = name.rsplit_once('@').unwrap_or((name, "%"));
        AccountName::new(user, host)
    }

    pub(crate) fn plain(&self) -> String {
        format!("{}@{}", self.user, self.host)
    }

    pub(crate) fn quoted(&self) -> String {
        format!("{}@{}", backticked(&self.user), backticked(&self.host))
    }

    pub(crate) fn read(parser: &mut Parser<'_>) -> Result<AccountName, Problem> {
        let current = parser.is_word("CURRENT_USER")?;
        if current || (parser.is_word("USER")? && *parser.peek_at(1)? == Tok::Punct(b'(')) {
            parser.take()?;
            if parser.eat_punct(b'(')? {
                parser.expect_punct(b')')?;
            }
            return match parser.invoker() {
                Some((user, host)) => Ok(AccountName::new(user, host)),
                None => Problem::unsupported("CURRENT_USER, which the event does not name"),
            };
        }
        let user = match parser.peek()? {
            Tok::Str { .. } => {
                let bytes = parser.string()?.bytes;
                parser.utf8(bytes)?
            }
            _ => parser.name()?,
        };
        if *parser.peek()? != Tok::Variable {
            return Ok(AccountName { user, host: "%".to_owned() });
        }
        let at = parser.place()?;
        parser.take()?;
        let host = match parser.text_from(at).trim_start_matches('@') {
            // A blank after the @.
            "" => parser.name_or_string()?,
            host => unquoted(host),
        };
        Ok(AccountName::new(&user, &host))
    }

    /// A list of them.
    pub(crate) fn list(parser: &mut Parser<'_>) -> Result<Vec<AccountName>, Problem> {
        let mut names = vec![AccountName::read(parser)?];
        while parser.eat_punct(b',')? {
            names.push(AccountName::read(parser)?);
        }
        Ok(names)
    }
}

/// Several of them, each in backticks.
pub(crate) fn quoted_list<'a>(names: impl Iterator<Item = &'a AccountName>) -> String {
    names.map(AccountName::quoted).collect::<Vec<_>>().join(",")
}

fn unquoted(text: &str) -> String {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"' | '`'));
    let inner = quote.and_then(|quote| Some((quote, text.strip_prefix(quote)?.strip_suffix(quote)?)));
    inner
        .map_or_else(|| text.to_owned(), |(quote, inner)| inner.replace(&format!("{quote}{quote}"), &quote.to_string()))
}
