//! Facts of statements that are not parsed, by a walk over their tokens.
//!
//! Tables stand after words that can have tables after them, where such a clause can be: outside of brackets, or in
//! brackets with a query in them. What looks like a call is one, unless it stands where a table or an index is named.

use super::tree_facts::add_once;
use super::{Access, Classified, Inexact, State, StatementKind, SystemVariable, TableUse};
use crate::function::Function;
use crate::keyword::Keyword;
use crate::lexer::{Kind, Settings, Sign, Span, Token, resolved};

pub(super) fn add(text: &[u8], settings: Settings, tokens: &[Token], one: &mut Classified) {
    let mut walk = Walk { text, settings, tokens, at: 0, one, brackets: Vec::new(), list: None };
    walk.head();
    if walk.has_body() {
        walk.tokens();
    }
    walk.end();
}

/// The bracket around a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// A query is in it.
    Query,
    Call,
    Other,
}

struct Walk<'a> {
    text: &'a [u8],
    settings: Settings,
    tokens: &'a [Token],
    at: usize,
    one: &'a mut Classified,
    brackets: Vec<Bracket>,
    /// Tables go on after a comma, at this depth.
    list: Option<(usize, Access)>,
}

impl Walk<'_> {
    fn token(&self, ahead: usize) -> Option<Token> {
        self.tokens.get(self.at + ahead).copied().filter(|token| token.kind != Kind::End)
    }

    fn keyword(&self, ahead: usize) -> Keyword {
        self.token(ahead).map_or(Keyword::NotOne, |token| token.keyword)
    }

    fn is_byte(&self, ahead: usize, byte: u8) -> bool {
        self.token(ahead).is_some_and(|token| token.kind == Kind::Byte(byte))
    }

    fn is_ident(&self, ahead: usize) -> bool {
        self.token(ahead)
            .is_some_and(|token| token.kind == Kind::Name || (token.kind == Kind::Word && !token.keyword.is_reserved()))
    }

    fn text_of(&self, span: Span) -> Vec<u8> {
        resolved(span.of(self.text), self.settings)
    }

    fn has_word(&self, keyword: Keyword) -> bool {
        self.tokens.iter().any(|token| token.keyword == keyword)
    }

    /// What follows from the kind alone.
    fn head(&mut self) {
        use Keyword as K;
        use StatementKind as S;
        let second = self.keyword(1);
        match self.one.kind {
            S::Ddl | S::StoredProgram | S::Account | S::Administration | S::TableMaintenance => {
                self.one.state.add(State::IMPLICIT_COMMIT);
            }
            S::SetTransaction if second == K::Transaction => self.one.state.add(State::NEXT_TRANSACTION),
            S::SetTransaction if second != K::Global => self.one.state.add(State::VARIABLES),
            S::SetNames => self.one.state.add(State::CHARACTER_SET),
            S::SetRole => self.one.state.add(State::ROLES),
            S::Call | S::Execute => self.one.state.add(State::STORED_CODE),
            S::Begin | S::Commit | S::Rollback | S::Savepoint | S::RollbackTo | S::ReleaseSavepoint | S::Xa => {
                self.one.state.add(State::TRANSACTION);
            }
            S::Prepare | S::Deallocate => self.one.state.add(State::PREPARED),
            S::LockTables => {
                self.one.state.add(State::TABLE_LOCKS);
                self.one.state.add(State::IMPLICIT_COMMIT);
            }
            S::UnlockTables => self.one.state.add(State::TABLE_LOCKS),
            S::Handler => self.one.state.add(State::HANDLERS),
            S::Use => self.one.state.add(State::SCHEMA),
            S::Insert | S::Replace | S::Load => self.one.state.add(State::LAST_INSERT_ID),
            S::Flush if self.has_word(K::With) && self.has_word(K::Read) => self.one.state.add(State::TABLE_LOCKS),
            _ => {}
        }
        if self.one.kind == S::Ddl && self.has_word(K::Temporary) {
            self.one.state.add(State::TEMPORARY_TABLES);
        }
        if self.one.kind == S::Prepare {
            self.one.inexact.add(Inexact::LATER);
        }
    }

    /// Of a stored program's text and of accounts nothing is looked at.
    fn has_body(&self) -> bool {
        !matches!(self.one.kind, StatementKind::StoredProgram | StatementKind::Account | StatementKind::Empty)
    }

    fn tokens(&mut self) {
        if self.one.kind == StatementKind::Set {
            self.set_head();
        }
        while let Some(token) = self.token(0) {
            self.step(token);
            self.at += 1;
        }
    }

    fn step(&mut self, token: Token) {
        match token.kind {
            Kind::Byte(b'(') => {
                let bracket = match self.keyword(1) {
                    Keyword::Select | Keyword::With | Keyword::Table | Keyword::Values => Bracket::Query,
                    _ if self.is_call_bracket() => Bracket::Call,
                    _ => Bracket::Other,
                };
                // A bracket around tables continues their list.
                if let Some((depth, access)) = self.list
                    && depth == self.brackets.len()
                    && bracket == Bracket::Other
                    && self.at > 0
                    && self.table_may_follow(self.at - 1)
                {
                    self.list = Some((depth + 1, access));
                    self.brackets.push(Bracket::Query);
                    self.name_after(access);
                    return;
                }
                self.brackets.push(bracket);
            }
            Kind::Byte(b')') => {
                self.brackets.pop();
                if let Some((depth, access)) = self.list
                    && depth > self.brackets.len()
                {
                    self.list = Some((self.brackets.len(), access)).filter(|_| self.may_have_tables());
                }
            }
            Kind::Byte(b',') => {
                if let Some((depth, access)) = self.list
                    && depth == self.brackets.len()
                {
                    self.name_after(access);
                }
            }
            Kind::UserVariable => self.user_variable(token),
            Kind::System => self.system_variable(),
            Kind::Word => self.word(token),
            Kind::Name if self.is_byte(1, b'(') && self.is_call(self.at) => self.call(token),
            _ => {}
        }
    }

    /// True if the token before may have a table after it.
    fn table_may_follow(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| {
            token.kind == Kind::Byte(b',') || matches!(token.keyword, Keyword::From | Keyword::Join | Keyword::Update)
        })
    }

    /// Outside of brackets, or in a query's.
    fn may_have_tables(&self) -> bool {
        self.brackets.last().is_none_or(|bracket| *bracket == Bracket::Query)
    }

    fn is_call_bracket(&self) -> bool {
        self.at > 0
            && self.tokens.get(self.at - 1).is_some_and(|before| {
                (before.kind == Kind::Name && self.is_call(self.at - 1))
                    || (before.kind == Kind::Word
                        && (Function::of(before.span.of(self.text)).is_some()
                            || (before.keyword == Keyword::NotOne && self.is_call(self.at - 1))))
            })
    }

    /// True unless the name there is a table's, an index's or a list's.
    fn is_call(&self, at: usize) -> bool {
        use Keyword as K;
        if self.one.kind == StatementKind::Ddl {
            return false;
        }
        let before = |back: usize| at.checked_sub(back).and_then(|place| self.tokens.get(place));
        let mut back = 1;
        while before(back).is_some_and(|token| token.kind == Kind::Byte(b'.')) {
            back += 2;
        }
        let Some(before) = before(back) else { return false };
        if before.kind == Kind::Byte(b',') && self.list.is_some_and(|(depth, _)| depth == self.brackets.len()) {
            return false;
        }
        !matches!(
            before.keyword,
            K::Into
                | K::Table
                | K::From
                | K::Join
                | K::Update
                | K::As
                | K::Index
                | K::Key
                | K::References
                | K::With
                | K::Recursive
                | K::Insert
                | K::Replace
                | K::Ignore
                | K::Partition
                | K::LowPriority
                | K::HighPriority
                | K::Tables
        )
    }

    fn word(&mut self, token: Token) {
        use Keyword as K;
        let write = if self.writes() { Access::Write } else { Access::Read };
        match token.keyword {
            K::From if self.may_have_tables() => self.from(),
            K::Join => self.joined(),
            K::StraightJoin if self.list.is_some() => self.joined(),
            K::Truncate if self.at == 0 && self.keyword(1) != K::Table => self.name_after(Access::Write),
            K::Into if !matches!(self.keyword(1), K::Outfile | K::Dumpfile) => self.into(),
            K::Into => self.one.into_file = true,
            K::Insert | K::Replace if self.at == 0 => self.insert_head(),
            K::Update if self.at == 0 || self.is_verb_after_with() => {
                self.skip_words(&[K::LowPriority, K::Ignore]);
                self.list = Some((self.brackets.len(), Access::Write));
                self.name_after(Access::Write);
            }
            K::Update | K::Share if self.at > 0 && self.before_is(K::For) => self.one.locks_rows = true,
            K::Mode if self.before_is(K::Share) => self.one.locks_rows = true,
            K::Delete if self.at == 0 || self.is_verb_after_with() => {
                self.skip_words(&[K::LowPriority, K::Quick, K::Ignore]);
                if self.keyword(1) != K::From {
                    self.list = Some((self.brackets.len(), Access::Write));
                    self.name_after(Access::Write);
                }
            }
            K::Using if self.one.kind == StatementKind::Delete && self.brackets.is_empty() => {
                self.list = Some((0, Access::Write));
                self.name_after(Access::Write);
            }
            K::Table | K::Tables => self.table_word(write),
            K::Index | K::Key if self.one.kind == StatementKind::Ddl && self.on_follows() => {}
            K::On if self.one.kind == StatementKind::Ddl && self.list.is_none() => self.name_after(Access::Write),
            K::References | K::Like if self.one.kind == StatementKind::Ddl => self.name_after(Access::Read),
            K::View if self.one.kind == StatementKind::Ddl => self.object_names(),
            K::Handler if self.at == 0 => self.name_after(Access::Read),
            K::Call if self.at == 0 => self.called_procedure(),
            K::Explain | K::Describe | K::Desc if self.at == 0 => self.described(),
            K::Where | K::Set | K::Order | K::Group | K::Having | K::Limit | K::Values | K::Value => self.end_list(),
            K::SqlCalcFoundRows => self.one.state.add(State::FOUND_ROWS),
            _ => {}
        }
        if token.kind == Kind::Word && self.is_byte(1, b'(') && self.token(0) == Some(token) {
            self.maybe_call(token);
        }
    }

    fn maybe_call(&mut self, token: Token) {
        let function = Function::of(token.span.of(self.text));
        if token.keyword == Keyword::NotOne {
            if self.is_call(self.at) {
                self.call(token);
            }
        } else if let Some(function) = function
            && !matches!(token.keyword, Keyword::Values | Keyword::Insert | Keyword::Replace)
            && self.one.kind != StatementKind::Ddl
        {
            self.add_function(function);
        }
    }

    /// A joined table is used as the first one is: UPDATE may change any of them.
    fn joined(&mut self) {
        let access = self.list.filter(|(depth, _)| *depth == self.brackets.len()).map(|(_, access)| access);
        self.name_after(access.unwrap_or(Access::Read));
    }

    fn end_list(&mut self) {
        if self.list.is_some_and(|(depth, _)| depth == self.brackets.len()) {
            self.list = None;
        }
    }

    fn before_is(&self, keyword: Keyword) -> bool {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).is_some_and(|token| token.keyword == keyword)
    }

    fn is_verb_after_with(&self) -> bool {
        self.brackets.is_empty()
            && self.tokens.first().is_some_and(|first| first.keyword == Keyword::With)
            && !self.before_is(Keyword::For)
            && !self.before_is(Keyword::Key)
    }

    fn writes(&self) -> bool {
        !matches!(
            self.one.kind,
            StatementKind::Select
                | StatementKind::Show
                | StatementKind::Explain
                | StatementKind::Set
                | StatementKind::Do
        )
    }

    /// Words between a verb and its table.
    fn skip_words(&mut self, words: &[Keyword]) {
        while words.contains(&self.keyword(1)) {
            self.at += 1;
        }
    }

    fn from(&mut self) {
        use StatementKind as S;
        if matches!(self.one.kind, S::Show | S::Prepare | S::Flush | S::TableMaintenance) {
            if self.one.kind == S::Show {
                self.shown_table();
            }
            return;
        }
        // All tables of a DELETE count as written.
        let access = if self.one.kind == S::Delete && self.brackets.is_empty() { Access::Write } else { Access::Read };
        self.list = Some((self.brackets.len(), access));
        self.name_after(access);
    }

    /// SHOW COLUMNS FROM t FROM d; after other words FROM names a schema or a file.
    fn shown_table(&mut self) {
        use Keyword as K;
        if !matches!(
            self.tokens.get(self.at.saturating_sub(1)).map(|token| token.keyword),
            Some(K::Columns | K::Fields | K::Index | K::Indexes | K::Keys)
        ) {
            return;
        }
        self.name_after(Access::Read);
        if matches!(self.keyword(1), K::From | K::In)
            && self.is_ident(2)
            && let (Some(schema), Some(table)) = (self.token(2), self.one.tables.last_mut())
        {
            table.schema = Some(resolved(schema.span.of(self.text), self.settings));
            self.at += 2;
        }
    }

    fn insert_head(&mut self) {
        use Keyword as K;
        self.skip_words(&[K::LowPriority, K::HighPriority, K::Delayed, K::Ignore]);
        if self.keyword(1) != K::Into {
            self.name_after(Access::Write);
        }
    }

    fn into(&mut self) {
        if self.token(1).is_some_and(|token| token.kind == Kind::UserVariable) {
            self.one.into_variables = true;
            while let Some(token) = self.token(1).filter(|token| token.kind == Kind::UserVariable) {
                let name = self.text_of(token.span);
                self.set_variable(name);
                self.at += 1;
                if !self.is_byte(1, b',') {
                    return;
                }
                self.at += 1;
            }
            return;
        }
        if matches!(self.one.kind, StatementKind::Insert | StatementKind::Replace) && self.brackets.is_empty() {
            self.name_after(Access::Write);
        } else if self.one.kind == StatementKind::Load {
            self.skip_words(&[Keyword::Table]);
            self.name_after(Access::Write);
        }
    }

    fn table_word(&mut self, access: Access) {
        use StatementKind as S;
        match self.one.kind {
            S::Ddl => self.object_names(),
            S::LockTables | S::TableMaintenance | S::Flush => {
                self.list = Some((self.brackets.len(), access));
                self.name_after(access);
            }
            S::Show if self.before_is(Keyword::Create) => self.name_after(Access::Read),
            S::Show | S::UnlockTables => {}
            S::Load | S::Administration => {}
            _ if self.may_have_tables() => self.name_after(Access::Read),
            _ => {}
        }
    }

    /// Names after TABLE or VIEW of a DDL statement.
    fn object_names(&mut self) {
        use Keyword as K;
        self.skip_words(&[K::If, K::Not, K::Exists]);
        let drops = self.tokens.first().is_some_and(|first| matches!(first.keyword, K::Drop | K::Rename | K::Truncate));
        if drops {
            self.list = Some((self.brackets.len(), Access::Write));
        }
        self.name_after(Access::Write);
        while drops && self.keyword(1) == K::To {
            self.at += 1;
            self.name_after(Access::Write);
        }
    }

    fn on_follows(&self) -> bool {
        self.keyword(2) == Keyword::On
    }

    fn called_procedure(&mut self) {
        if !self.is_ident(1) {
            return;
        }
        let name = self.written_name();
        add_once(&mut self.one.unknown_functions, name);
    }

    /// DESCRIBE t; otherwise a statement follows.
    fn described(&mut self) {
        if self.is_ident(1) && !matches!(self.keyword(1), Keyword::Format) {
            self.name_after(Access::Read);
        }
    }

    /// Adds the table that is named next, if one is.
    fn name_after(&mut self, access: Access) {
        let Some(first) = self.token(1) else { return };
        if !self.is_ident(1) || self.keyword(1) == Keyword::Dual {
            return;
        }
        let first = self.text_of(first.span);
        self.at += 1;
        let mut table = TableUse { schema: None, table: first, access };
        if self.is_byte(1, b'.') {
            if self.is_byte(2, b'*') {
                self.at += 2;
            } else if let Some(own) = self.token(2) {
                table.schema = Some(std::mem::replace(&mut table.table, self.text_of(own.span)));
                self.at += 2;
                if self.is_byte(1, b'.') && self.is_byte(2, b'*') {
                    self.at += 2;
                }
            }
        }
        add_once(&mut self.one.tables, table);
        // RENAME TABLE a TO b.
        if self.one.kind == StatementKind::Ddl && self.keyword(1) == Keyword::To {
            self.at += 1;
            self.name_after(access);
        }
    }

    fn call(&mut self, token: Token) {
        let own = self.text_of(token.span);
        let is_quoted = token.span.of(self.text).first() == Some(&b'`');
        let back = |places: usize| self.at.checked_sub(places).and_then(|at| self.tokens.get(at)).copied();
        let schema = match (back(1), back(2)) {
            (Some(dot), Some(schema)) if dot.kind == Kind::Byte(b'.') => Some(schema),
            _ => None,
        };
        match (schema, Function::of(&own)) {
            (None, Some(function)) if !is_quoted => self.add_function(function),
            (schema, _) => {
                let mut name = schema.map(|schema| self.text_of(schema.span)).unwrap_or_default();
                if !name.is_empty() {
                    name.push(b'.');
                }
                name.extend(own);
                add_once(&mut self.one.unknown_functions, name);
                self.one.state.add(State::STORED_CODE);
            }
        }
    }

    fn add_function(&mut self, function: Function) {
        if !self.one.functions.contains(&function) {
            self.one.functions.push(function);
        }
        match function {
            Function::GetLock | Function::ReleaseLock | Function::ReleaseAllLocks => {
                self.one.state.add(State::NAMED_LOCKS);
            }
            Function::LastInsertId if !self.is_byte(2, b')') => self.one.state.add(State::LAST_INSERT_ID),
            _ => {}
        }
    }

    fn set_variable(&mut self, name: Vec<u8>) {
        add_once(&mut self.one.user_variables_set, name);
        self.one.state.add(State::USER_VARIABLES);
    }

    fn user_variable(&mut self, token: Token) {
        let name = self.text_of(token.span);
        let assigned = self.token(1).is_some_and(|next| next.kind == Kind::Sign(Sign::Assign));
        // Arguments of a procedure may be its results; columns of a file go into variables.
        let is_argument = self.one.kind == StatementKind::Call;
        let is_column = self.one.kind == StatementKind::Load && !self.brackets.is_empty();
        if assigned || is_argument || is_column {
            self.set_variable(name.clone());
        }
        if !assigned && !is_column {
            add_once(&mut self.one.user_variables_read, name);
        }
    }

    fn system_variable(&mut self) {
        let scoped = self.is_byte(2, b'.');
        let scope = self.token(1).map(|token| Keyword::of(token.span.of(self.text)));
        let scope = scope.filter(|scope| scoped && is_scope(*scope));
        if scope.is_some() {
            self.at += 2;
        }
        let name = self.dotted_name();
        let assigned = self.token(1).is_some_and(|next| next.kind == Kind::Sign(Sign::Assign));
        self.add_system(scope, name, assigned);
    }

    /// The name that is next, with what stands before its dot, in lower case.
    fn dotted_name(&mut self) -> Vec<u8> {
        self.written_name().to_ascii_lowercase()
    }

    fn written_name(&mut self) -> Vec<u8> {
        let Some(first) = self.token(1) else { return Vec::new() };
        let mut name = self.text_of(first.span);
        self.at += 1;
        if self.is_byte(1, b'.')
            && let Some(own) = self.token(2)
        {
            name.push(b'.');
            name.extend(self.text_of(own.span));
            self.at += 2;
        }
        name
    }

    fn add_system(&mut self, scope: Option<Keyword>, name: Vec<u8>, set: bool) {
        if set {
            match scope {
                Some(Keyword::Global | Keyword::Persist | Keyword::PersistOnly) => {}
                _ => self.one.state.add(State::VARIABLES),
            }
            let state = match name.as_slice() {
                b"autocommit" | b"completion_type" => State::TRANSACTION,
                b"sql_mode" => State::SQL_MODE,
                b"character_set_client" | b"character_set_connection" | b"character_set_results" => {
                    State::CHARACTER_SET
                }
                b"collation_connection" => State::CHARACTER_SET,
                b"transaction_isolation" | b"transaction_read_only" if scope.is_none() => State::NEXT_TRANSACTION,
                _ => State::default(),
            };
            self.one.state.add(state);
        }
        add_once(&mut self.one.system_variables, SystemVariable { scope, name, set });
    }

    /// Left sides of SET; right sides are walked as all else.
    fn set_head(&mut self) {
        let mut depth = 0usize;
        let mut left = true;
        while let Some(token) = self.token(1) {
            if left {
                self.assigned();
                left = false;
                continue;
            }
            self.at += 1;
            match token.kind {
                Kind::Byte(b'(') => depth += 1,
                Kind::Byte(b')') => depth = depth.saturating_sub(1),
                Kind::Byte(b',') if depth == 0 => left = true,
                _ => {}
            }
            self.step(token);
        }
        self.at = self.tokens.len();
    }

    fn assigned(&mut self) {
        let Some(token) = self.token(1) else { return };
        match token.kind {
            Kind::UserVariable => {
                self.at += 1;
                let name = self.text_of(token.span);
                self.set_variable(name);
            }
            Kind::System => {
                self.at += 1;
                let scoped = self.is_byte(2, b'.');
                let scope = self.token(1).map(|token| Keyword::of(token.span.of(self.text)));
                let scope = scope.filter(|scope| scoped && is_scope(*scope));
                if scope.is_some() {
                    self.at += 2;
                }
                let name = self.dotted_name();
                self.add_system(scope, name, true);
            }
            _ => {
                let scope = Some(token.keyword).filter(|scope| is_scope(*scope));
                if scope.is_some() {
                    self.at += 1;
                }
                let name = self.dotted_name();
                self.add_system(scope, name, true);
            }
        }
    }

    /// Whether it may write, by all that was found.
    fn end(&mut self) {
        use StatementKind as S;
        let one = &mut *self.one;
        let sets_server = one.system_variables.iter().any(|variable| {
            variable.set && matches!(variable.scope, Some(Keyword::Global | Keyword::Persist | Keyword::PersistOnly))
        });
        let is_certain = one.unknown_functions.is_empty()
            && !one.inexact.has(Inexact::CHARACTER_SET)
            && !one.inexact.has(Inexact::NO_END)
            && !one.inexact.has(Inexact::SYNTAX)
            && !one.inexact.has(Inexact::TOO_LARGE);
        let may_read_only = match one.kind {
            S::Empty | S::Begin | S::Commit | S::Rollback | S::Savepoint | S::RollbackTo | S::ReleaseSavepoint => true,
            S::Prepare | S::Deallocate | S::Show | S::Use | S::Help | S::SetNames | S::SetRole => true,
            S::UnlockTables | S::Handler => true,
            S::SetTransaction => self.tokens.get(1).is_none_or(|token| token.keyword != Keyword::Global),
            S::Set => !sets_server,
            S::Explain => !self.tokens.iter().any(|token| token.keyword == Keyword::Analyze),
            S::LockTables => !self.tokens.iter().any(|token| token.keyword == Keyword::Write),
            _ => false,
        };
        one.may_write = !(is_certain && may_read_only);
    }
}

fn is_scope(keyword: Keyword) -> bool {
    matches!(keyword, Keyword::Global | Keyword::Session | Keyword::Local | Keyword::Persist | Keyword::PersistOnly)
}
