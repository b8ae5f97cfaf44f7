//! What a statement does to definitions.
//!
//! In: a statement with its context. Out: a [`Change`]. Never here: the definitions before it; the meaning of a body.

use std::ops::Range;

use super::{DefinitionKind, Recorded};
use crate::account::{AccountName, AccountStatement, named_accounts, place};
use crate::context::StatementContext;
use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::Parser;
use crate::syntax::TableName;

/// Effect of a statement on definitions.
#[derive(PartialEq)]
pub(crate) enum Change {
    Accounts(AccountStatement),
    /// A statement that is not understood about these; about any, if there are none.
    AccountsUnclear(Vec<AccountName>),
    /// CREATE, and ALTER VIEW, which defines the whole view.
    Made(Located),
    Altered(Located),
    Gone {
        kind: DefinitionKind,
        names: Vec<(String, String)>,
    },
    /// A statement about an object of this kind that is not understood.
    Unclear {
        kind: DefinitionKind,
        db: String,
        name: String,
    },
}

/// The parts of a CREATE or ALTER that the catalog reads or changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) kind: DefinitionKind,
    pub(crate) db: String,
    pub(crate) name: String,
    pub(crate) if_not_exists: bool,
    pub(crate) definer: Option<AccountName>,
    pub(crate) trigger: Option<OfTrigger>,
    /// Of ALTER EVENT … RENAME TO.
    pub(crate) renamed: Option<(String, String)>,
    /// The statement on its own: no IF NOT EXISTS, OR REPLACE, RENAME TO, FOLLOWS, and the object's whole name.
    pub(crate) text: String,
    /// False for an ALTER that only renames.
    pub(crate) says_more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfTrigger {
    pub(crate) table: (String, String),
    /// Such as BEFORE INSERT.
    pub(crate) when: [String; 2],
    /// True for FOLLOWS; name of the other trigger.
    pub(crate) beside: Option<(bool, String)>,
}

impl Change {
    /// Bytes that a statement of this length leaves at most.
    pub(crate) fn kept_bytes(&self, len: usize) -> usize {
        match self {
            Change::Accounts(statement) => statement.kept_bytes(len),
            _ => len,
        }
    }

    /// None if the statement concerns other objects.
    pub(crate) fn of(context: &StatementContext, sql: &[u8]) -> Option<Change> {
        match AccountStatement::read(&mut Parser::new(context, sql), &context.default_db) {
            Ok(Some(statement)) => return Some(Change::Accounts(statement)),
            Ok(None) => {}
            Err(_) => return Some(Change::AccountsUnclear(named_accounts(&mut Parser::new(context, sql)))),
        }
        let text = Recorded::of(context, sql, None).text;
        let context = utf8(context);
        let mut parser = Parser::new(&context, text.as_bytes());
        let Ok(Some(header)) = Header::read(&mut parser) else { return None };
        let mut whole = parser.clone();
        let change = match header.verb.as_str() {
            "DROP" => gone(&mut whole, &context, header.kind),
            _ => Located::read(&mut whole, &context, &text, &header).map(|located| match located {
                Some(located) if header.verb == "ALTER" && header.kind != DefinitionKind::View => {
                    Some(Change::Altered(located))
                }
                located => located.map(Change::Made),
            }),
        };
        change.unwrap_or_else(|_| {
            let _ = parser.eat(&["IF", "NOT", "EXISTS"]);
            let (db, name) = qualified(&mut parser, &context).ok()?;
            Some(Change::Unclear { kind: header.kind, db, name })
        })
    }
}

/// A context for a text that has been converted to UTF-8.
fn utf8(context: &StatementContext) -> StatementContext {
    StatementContext { collation_client: None, ..context.clone() }
}

/// The parts of a statement that is kept; None if it is not understood.
pub(crate) fn located(recorded: &Recorded) -> Option<Located> {
    let context = recorded.context();
    let mut parser = Parser::new(&context, recorded.text.as_bytes());
    let header = Header::read(&mut parser).ok()??;
    Located::read(&mut parser, &context, &recorded.text, &header).ok()?
}

/// The same statement for an object, or a trigger's table, of another name; None if it is not understood.
pub(crate) fn renamed(
    recorded: &Recorded,
    name: &(String, String),
    table: Option<&(String, String)>,
) -> Option<String> {
    let context = recorded.context();
    let mut parser = Parser::new(&context, recorded.text.as_bytes());
    let header = Header::read(&mut parser).ok()??;
    let read = Read::of(&mut parser, &context, &header).ok()??;
    let mut edits = vec![(read.name_at, place(&name.0, &name.1))];
    if let (Some((_, at)), Some((db, table))) = (read.table, table) {
        edits.push((at, place(db, table)));
    }
    edited(&recorded.text, edits)
}

fn edited(text: &str, mut edits: Vec<(Range<usize>, String)>) -> Option<String> {
    edits.sort_by_key(|(at, _)| at.start);
    let (mut whole, mut from) = (String::new(), 0);
    for (at, with) in edits {
        whole.push_str(text.get(from..at.start)?);
        whole.push_str(&with);
        from = at.end;
    }
    whole.push_str(text.get(from..)?);
    Some(whole)
}

fn qualified(parser: &mut Parser<'_>, context: &StatementContext) -> Result<(String, String), Problem> {
    let TableName { db, name } = parser.table_name()?;
    Ok((db.unwrap_or_else(|| context.default_db.clone()), name))
}

fn gone(parser: &mut Parser<'_>, context: &StatementContext, kind: DefinitionKind) -> Result<Option<Change>, Problem> {
    parser.eat(&["IF", "EXISTS"])?;
    let mut names = vec![qualified(parser, context)?];
    while parser.eat_punct(b',')? {
        names.push(qualified(parser, context)?);
    }
    Ok(Some(Change::Gone { kind, names }))
}

/// CREATE, ALTER or DROP up to the word that names the kind of object.
struct Header {
    verb: String,
    verb_at: Range<usize>,
    kind: DefinitionKind,
    or_replace: Option<Range<usize>>,
    /// None without the clause; an inner None for CURRENT_USER.
    definer: Option<Option<AccountName>>,
}

impl Header {
    /// None for other objects.
    fn read(parser: &mut Parser<'_>) -> Result<Option<Header>, Problem> {
        while parser.eat_punct(b';')? {}
        let verb = parser.word_upper()?;
        if !["CREATE", "ALTER", "DROP"].contains(&verb.as_str()) {
            return Ok(None);
        }
        let start = parser.place()?;
        parser.take()?;
        let verb_at = start..parser.taken_to();
        let (mut or_replace, mut definer) = (None, None);
        loop {
            let start = parser.place()?;
            let word = parser.word_upper()?;
            parser.take()?;
            let kind = match word.as_str() {
                "OR" => {
                    parser.expect_word("REPLACE")?;
                    or_replace = Some(start..parser.taken_to());
                    continue;
                }
                "ALGORITHM" => {
                    parser.eat_punct(b'=')?;
                    parser.take()?;
                    continue;
                }
                "DEFINER" => {
                    parser.eat_punct(b'=')?;
                    definer = Some(read_definer(parser)?);
                    continue;
                }
                "SQL" => {
                    parser.expect_word("SECURITY")?;
                    parser.take()?;
                    continue;
                }
                "JSON" | "RELATIONAL" | "DUALITY" => continue,
                "VIEW" => DefinitionKind::View,
                "PROCEDURE" => DefinitionKind::Procedure,
                "FUNCTION" => DefinitionKind::Function,
                "TRIGGER" => DefinitionKind::Trigger,
                "EVENT" => DefinitionKind::Event,
                "LIBRARY" => DefinitionKind::Library,
                _ => return Ok(None),
            };
            return Ok(Some(Header { verb, verb_at, kind, or_replace, definer }));
        }
    }
}

fn read_definer(parser: &mut Parser<'_>) -> Result<Option<AccountName>, Problem> {
    // The log names an account, but a text may say CURRENT_USER.
    if parser.eat_word("CURRENT_USER")? {
        if parser.eat_punct(b'(')? {
            parser.expect_punct(b')')?;
        }
        return Ok(None);
    }
    AccountName::read(parser).map(Some)
}

/// What stands where, after the header.
struct Read {
    db: String,
    name: String,
    name_at: Range<usize>,
    if_not_exists: Option<Range<usize>>,
    table: Option<((String, String), Range<usize>)>,
    when: [String; 2],
    beside: Option<(bool, String, Range<usize>)>,
    renamed: Option<((String, String), Range<usize>)>,
    says_more: bool,
}

impl Read {
    fn of(parser: &mut Parser<'_>, context: &StatementContext, header: &Header) -> Result<Option<Read>, Problem> {
        let start = parser.place()?;
        let if_not_exists = parser.eat(&["IF", "NOT", "EXISTS"])?.then(|| start..parser.taken_to());
        let start = parser.place()?;
        let (db, name) = qualified(parser, context)?;
        let mut read = Read {
            db,
            name,
            name_at: start..parser.taken_to(),
            if_not_exists,
            table: None,
            when: Default::default(),
            beside: None,
            renamed: None,
            says_more: true,
        };
        match header.kind {
            // A loadable function comes from a file of the server and has no database: nothing here makes it again.
            DefinitionKind::Function if header.verb == "CREATE" && !parser.is_punct(b'(')? => return Ok(None),
            DefinitionKind::Trigger => read.trigger(parser, context)?,
            DefinitionKind::Event if header.verb == "ALTER" => read.event(parser, context)?,
            _ => {}
        }
        Ok(Some(read))
    }

    fn trigger(&mut self, parser: &mut Parser<'_>, context: &StatementContext) -> Result<(), Problem> {
        for word in &mut self.when {
            *word = parser.word_upper()?;
            parser.take()?;
        }
        parser.expect_word("ON")?;
        let start = parser.place()?;
        let table = qualified(parser, context)?;
        // A trigger belongs to its table's database.
        self.db.clone_from(&table.0);
        self.table = Some((table, start..parser.taken_to()));
        for word in ["FOR", "EACH", "ROW"] {
            parser.expect_word(word)?;
        }
        let start = parser.place()?;
        for (word, follows) in [("FOLLOWS", true), ("PRECEDES", false)] {
            // Otherwise a label of the body.
            if parser.is_word(word)? && *parser.peek_at(1)? != Tok::Punct(b':') {
                parser.take()?;
                let (_, other) = qualified(parser, context)?;
                self.beside = Some((follows, other, start..parser.taken_to()));
            }
        }
        Ok(())
    }

    fn event(&mut self, parser: &mut Parser<'_>, context: &StatementContext) -> Result<(), Problem> {
        self.says_more = false;
        while *parser.peek()? != Tok::End {
            let start = parser.place()?;
            if parser.eat(&["RENAME", "TO"])? {
                self.renamed = Some((qualified(parser, context)?, start..parser.taken_to()));
                continue;
            }
            self.says_more |= !parser.is_punct(b';')?;
            if parser.eat_word("DO")? {
                return Ok(());
            }
            parser.take()?;
        }
        Ok(())
    }
}

impl Located {
    fn read(
        parser: &mut Parser<'_>,
        context: &StatementContext,
        text: &str,
        header: &Header,
    ) -> Result<Option<Located>, Problem> {
        let Some(read) = Read::of(parser, context, header)? else { return Ok(None) };
        let mut edits = vec![(read.name_at, place(&read.db, &read.name))];
        edits.extend(read.if_not_exists.iter().chain(&header.or_replace).map(|at| (at.clone(), String::new())));
        match (header.verb.as_str(), header.kind) {
            ("ALTER", DefinitionKind::View) => edits.push((header.verb_at.clone(), "CREATE".to_owned())),
            // It makes whoever runs it the definer.
            ("ALTER", DefinitionKind::Event) if header.definer.is_none() => {
                if let Some((user, host)) = &context.invoker {
                    let definer = format!(" DEFINER={}", AccountName::new(user, host).quoted());
                    edits.push((header.verb_at.end..header.verb_at.end, definer));
                }
            }
            _ => {}
        }
        if let Some(((db, table), at)) = &read.table {
            edits.push((at.clone(), place(db, table)));
        }
        if let Some((_, _, at)) = &read.beside {
            edits.push((at.clone(), String::new()));
        }
        if let Some((_, at)) = &read.renamed {
            edits.push((at.clone(), String::new()));
        }
        let Some(text) = edited(text, edits) else { return parser.wrong("names in another order expected") };
        Ok(Some(Located {
            kind: header.kind,
            db: read.db,
            name: read.name,
            if_not_exists: read.if_not_exists.is_some(),
            definer: header.definer.clone().flatten(),
            trigger: read.table.map(|(table, _)| OfTrigger {
                table,
                when: read.when,
                beside: read.beside.map(|(follows, other, _)| (follows, other)),
            }),
            renamed: read.renamed.map(|(to, _)| to),
            text,
            says_more: read.says_more,
        }))
    }
}

/// When a trigger runs, from its statement.
pub(crate) fn when_of(recorded: &Recorded) -> Option<[String; 2]> {
    let context = recorded.context();
    let mut parser = Parser::new(&context, recorded.text.as_bytes());
    let header = Header::read(&mut parser).ok()??;
    Some(Read::of(&mut parser, &context, &header).ok()??.when)
}
