//! What another server must be told of a session, and what a session takes back from its answers.
//!
//! In: the session, a mark that was taken of it earlier. Out: typed changes, and statements in ASCII that bring a
//! session that stands at the mark to the same state, whatever its `sql_mode` and character sets are. Never here: who is
//! told, and when; variables of ours.

use base::GtidSet;
use sql::{
    AccessMode, Characteristics, Charsets, Isolation, Mark as VariableMark, Settings, SqlError, UserVariables, Value,
    gtid_set,
};
use values::collation::UTF8MB4_0900_AI_CI;
use wire::response::status;

use super::{Forwarding, Own, Session};
use crate::world::{SchemaState, World};

/// What a session was like.
#[derive(Debug, Clone, Default)]
pub struct Mark {
    /// None: a session that has begun, and set nothing.
    settings: Option<Settings>,
    user_variables: UserVariables,
    /// With the number of its choice.
    schema: Option<(String, u64)>,
    next: Characteristics,
    open: Option<OpenTransaction>,
    locked: Vec<(String, String, String)>,
    /// Number of the last statement that was prepared.
    prepared: u32,
}

impl Mark {
    /// The transaction that was told of was not begun after all.
    pub fn forget_transaction(&mut self) {
        (self.open, self.next) = (None, Characteristics::default());
    }

    /// Nor is its default schema the session's there.
    pub fn forget_schema(&mut self) {
        self.schema = None;
    }
}

/// A transaction that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Which one of the session's: another number is another transaction.
    pub number: u64,
    pub isolation: Isolation,
    pub read_only: bool,
    /// It must say that it is READ WRITE.
    pub says_read_write: bool,
    /// It was begun WITH CONSISTENT SNAPSHOT, or has read here what its view there must have.
    pub consistent: bool,
    /// Begun by a statement under autocommit=0, not by BEGIN.
    pub implicit: bool,
    pub savepoints: Vec<Vec<u8>>,
}

/// Something of a session that another server does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Charsets(Charsets),
    /// A session variable; its value as SQL.
    Variable {
        name: &'static str,
        value: String,
    },
    Schema(String),
    /// A user variable by its name without `@`; its value as SQL, exact in type, collation and scale. One that is NULL
    /// has the type and collation of that value.
    UserVariable {
        name: String,
        value: String,
        is_null: bool,
    },
    /// Schema, table and the name by which statements use it, locked for reading.
    TableLocks(Vec<(String, String, String)>),
    /// SET TRANSACTION for the next one.
    NextTransaction(Characteristics),
    Transaction(OpenTransaction),
    /// The transaction that was open has ended, and nothing is said of the next one.
    NoTransaction,
    /// Of the open transaction: the first one that is no more, and those that are new.
    Savepoints {
        released: Option<Vec<u8>>,
        set: Vec<Vec<u8>>,
    },
    /// A statement that was prepared here.
    Prepared {
        id: u32,
        text: Vec<u8>,
    },
}

fn name_of(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn characteristics(isolation: Option<Isolation>, access: Option<AccessMode>) -> String {
    let isolation = isolation.map(|level| format!("ISOLATION LEVEL {}", level.name().replace('-', " ")));
    let access = access.map(|access| match access {
        AccessMode::ReadOnly => "READ ONLY".to_owned(),
        AccessMode::ReadWrite => "READ WRITE".to_owned(),
    });
    isolation.into_iter().chain(access).collect::<Vec<_>>().join(", ")
}

impl Change {
    /// The statements that make this change; none where it is no SQL, or begins by itself.
    #[must_use]
    pub fn statements(&self) -> Vec<String> {
        match self {
            Change::Charsets(charsets) => charsets.statements(),
            Change::Variable { name, value } => vec![format!("SET SESSION {name} = {value}")],
            Change::Schema(name) => vec![format!("USE {}", name_of(name))],
            Change::UserVariable { name, value, is_null } => {
                let name = name_of(name);
                let null = if *is_null { format!(", @{name} = NULL") } else { String::new() };
                vec![format!("SET @{name} = {value}{null}")]
            }
            Change::TableLocks(tables) if tables.is_empty() => vec!["UNLOCK TABLES".to_owned()],
            Change::TableLocks(tables) => {
                let one = |(schema, table, alias): &(String, String, String)| {
                    format!("{}.{} AS {} READ", name_of(schema), name_of(table), name_of(alias))
                };
                vec![format!("LOCK TABLES {}", tables.iter().map(one).collect::<Vec<_>>().join(", "))]
            }
            Change::NextTransaction(next) => {
                let text = characteristics(next.isolation, next.access);
                if text.is_empty() { Vec::new() } else { vec![format!("SET TRANSACTION {text}")] }
            }
            Change::Transaction(open) => open.statements(),
            // Whatever completion_type is.
            Change::NoTransaction => vec!["ROLLBACK AND NO CHAIN NO RELEASE".to_owned()],
            Change::Savepoints { released, set } => {
                let released = released.iter().map(|name| format!("RELEASE SAVEPOINT {}", savepoint(name)));
                released.chain(set.iter().map(|name| format!("SAVEPOINT {}", savepoint(name)))).collect()
            }
            Change::Prepared { .. } => Vec::new(),
        }
    }
}

fn savepoint(name: &[u8]) -> String {
    name_of(&String::from_utf8_lossy(name))
}

impl OpenTransaction {
    /// Whether both are the same transaction.
    fn is(&self, other: &OpenTransaction) -> bool {
        (self.number, self.implicit) == (other.number, other.implicit)
    }

    /// What has changed of its savepoints.
    fn savepoints_since(&self, before: &OpenTransaction) -> Option<Change> {
        let same = self.savepoints.iter().zip(&before.savepoints).take_while(|(a, b)| a == b).count();
        let set = self.savepoints.get(same..).unwrap_or_default().to_vec();
        let released = before.savepoints.get(same).cloned();
        (released.is_some() || !set.is_empty()).then_some(Change::Savepoints { released, set })
    }

    fn statements(&self) -> Vec<String> {
        let mut statements = Vec::new();
        // The view of an implicit one is opened by a statement, too.
        if !self.implicit || self.consistent {
            statements.push(format!("SET TRANSACTION {}", characteristics(Some(self.isolation), None)));
            let snapshot = self.consistent.then_some("WITH CONSISTENT SNAPSHOT");
            let access = match (self.read_only, self.says_read_write) {
                (true, _) => Some("READ ONLY"),
                (false, says) => says.then_some("READ WRITE"),
            };
            let options: Vec<&str> = snapshot.into_iter().chain(access).collect();
            statements.push(format!("START TRANSACTION {}", options.join(", ")).trim_end().to_owned());
        }
        statements.extend(self.savepoints.iter().map(|name| format!("SAVEPOINT {}", savepoint(name))));
        statements
    }
}

/// The statements that make these changes, in their order.
#[must_use]
pub fn statements(changes: &[Change]) -> Vec<String> {
    changes.iter().flat_map(Change::statements).collect()
}

/// What an answer of another server says of its session.
#[derive(Debug, Clone, Default)]
pub struct OkFacts {
    /// Bits of its status; None for an error.
    pub status: Option<u16>,
    /// As SESSION_TRACK tells them.
    pub schema: Option<String>,
    pub variables: Vec<(String, String)>,
    /// What it has committed, or shown.
    pub gtids: Option<String>,
    /// It has opened no table: SET TRANSACTION is not used up.
    pub opened_none: bool,
}

impl Session {
    /// What the session is like now.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            settings: Some(self.settings.clone()),
            user_variables: self.user_variables.clone(),
            schema: self.schema_chosen(),
            next: self.transaction.next(),
            open: self.transaction.open(),
            locked: self.locks.names(),
            prepared: self.statements.last_number(),
        }
    }

    /// What has changed since, in the order in which another server must be told of it.
    #[must_use]
    pub fn what_changed(&self, since: &Mark) -> Vec<Change> {
        let mut changes = Vec::new();
        // What was open, or was said of the next one, is no more; that comes before another is begun.
        let is_same = match (self.transaction.open(), &since.open) {
            (Some(open), Some(before)) => open.is(before),
            (_, Some(_)) => false,
            (open, None) => {
                since.next == Characteristics::default() || (open.is_none() && since.next == self.transaction.next())
            }
        };
        let ends = !is_same;
        changes.extend(ends.then_some(Change::NoTransaction));
        if since.settings.as_ref().map(Settings::charsets) != Some(self.settings.charsets()) {
            changes.push(Change::Charsets(*self.settings.charsets()));
        }
        let variables = self.settings.changed_since(since.settings.as_ref());
        changes.extend(variables.into_iter().map(|(name, value)| Change::Variable { name, value }));
        let variables = self.user_variables.changed_since(&since.user_variables);
        changes.extend(variables.map(|(name, value, is_null)| {
            let name = name.to_owned();
            Change::UserVariable { name, value, is_null }
        }));
        let locked = self.locks.names();
        if locked != since.locked {
            changes.push(Change::TableLocks(locked));
        }
        // It alone may fail there.
        let schema = self.schema_chosen().filter(|chosen| since.schema.as_ref() != Some(chosen));
        changes.extend(schema.map(|(name, _)| Change::Schema(name)));
        let (open, next) = (self.transaction.open(), self.transaction.next());
        match (open, &since.open) {
            (Some(open), Some(before)) if open.is(before) => {
                changes.extend(open.savepoints_since(before));
            }
            (open, _) => changes.extend(open.map(|open| Change::Transaction(self.with_access(open)))),
        }
        if next != Characteristics::default() && (next != since.next || ends) {
            changes.push(Change::NextTransaction(next));
        }
        self.tell_names(&mut changes);
        let prepared = self.statements.texts_after(since.prepared);
        changes.extend(prepared.map(|(id, text)| Change::Prepared { id, text: text.to_vec() }));
        changes
    }

    fn schema_chosen(&self) -> Option<(String, u64)> {
        self.schema.as_ref().map(|schema| (schema.name.clone(), schema.chosen))
    }

    /// A transaction that may write says so where the session's next one may not.
    fn with_access(&self, open: OpenTransaction) -> OpenTransaction {
        let may_write = self.elsewhere.forwarding == Forwarding::All && self.settings.typed().read_only;
        OpenTransaction { says_read_write: may_write && !open.read_only, ..open }
    }

    /// Names are told in UTF-8, whatever the client's character set is.
    fn tell_names(&self, changes: &mut Vec<Change>) {
        let own = *self.settings.charsets();
        let Some(utf8) = Charsets::of_login(UTF8MB4_0900_AI_CI) else { return };
        let is_ascii = |change: &Change| change.statements().iter().all(|text| text.is_ascii());
        if own.client_charset() == utf8.client_charset() || changes.iter().all(is_ascii) {
            return;
        }
        let at = usize::from(changes.first() == Some(&Change::NoTransaction));
        changes.insert(at, Change::Charsets(utf8));
        changes.retain(|change| *change != Change::Charsets(own));
        changes.push(Change::Charsets(own));
    }

    /// Takes note of an answer that another server gave to a command of this session.
    pub fn took(&mut self, facts: &OkFacts, world: &dyn World) {
        self.elsewhere.was_any = true;
        self.elsewhere.answered = Some(world.now());
        self.diagnostics = super::Diagnostics { are_elsewhere: true, found_rows: None, ..Default::default() };
        if let Some(name) = &facts.schema {
            let collation = match world.schema(name) {
                SchemaState::There(collation) => collation,
                SchemaState::Missing | SchemaState::Unknown(_) => None,
            };
            // Its default schema may be dropped.
            match name.is_empty() {
                true => self.schema = None,
                false => self.chooses(name.clone(), collation),
            }
        }
        for (name, value) in &facts.variables {
            self.takes_variable(name, value, world);
        }
        if let Some(status) = facts.status {
            self.transaction.is_elsewhere(
                status & status::IN_TRANS != 0,
                status & status::IN_TRANS_READONLY != 0,
                facts.opened_none,
                &self.settings,
            );
        }
        if let Some(set) = facts.gtids.as_deref().and_then(|text| gtid_set(text).ok()) {
            self.needs_at_least(&set, world);
        }
    }

    /// A variable was set elsewhere. One that this server does not work by pins the session there.
    fn takes_variable(&mut self, name: &str, value: &str, world: &dyn World) {
        let variable = sql::variables().iter().find(|variable| variable.name == name);
        let text = match (value, variable) {
            ("ON", Some(variable)) if variable.is_switch => "1",
            ("OFF", Some(variable)) if variable.is_switch => "0",
            _ => value,
        };
        let number = text.parse().map(Value::Int).or_else(|_| text.parse().map(Value::UInt)).ok();
        let value = number.unwrap_or_else(|| Value::Text(text.as_bytes().to_vec()));
        let mut settings = self.settings.clone();
        let set = settings.set(name, Some(&value), &Own { session: self, world }, &mut Vec::new());
        match set {
            Ok(_) => self.settings = settings,
            Err(_) if variable.is_some_and(|variable| variable.is(VariableMark::OfSource)) => {}
            Err(_) => self.elsewhere.pinned = Some(name.to_owned()),
        }
    }

    /// Reads at SESSION wait for these too.
    fn needs_at_least(&mut self, set: &GtidSet, world: &dyn World) {
        let known = self.settings.text("slipstream_read_gtids").unwrap_or_default();
        let Ok(mut known) = known.parse::<GtidSet>() else { return };
        known.union_with(set);
        let text = sql::gtid_text(&known);
        let value = Value::Text(text.into_bytes());
        let set: Result<_, SqlError> =
            self.settings.set("slipstream_read_gtids", Some(&value), world.own_values(), &mut Vec::new());
        debug_assert!(set.is_ok(), "a set is a value of it");
    }
}

#[cfg(test)]
mod tests;
