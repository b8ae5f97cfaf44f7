//! The source's views, routines, triggers, events, users and grants, for the catalog of the initial copy.
//!
//! In: a connection, and the mapping of names. Out: their SHOW CREATE texts with the settings they were created under,
//! and a note for each that could not be read. Never here: an error for a missing privilege.
//!
//! They are read after the snapshots are opened, in their current state. Changes after the copy's GTID set come again
//! from the log, in order.

use catalog::{Definition, DefinitionKind, Recorded, SourceNames};
use client::session::{quoted, quoted_text};
use client::{ClientError, Connection, ResultSet};
use source::NOT_SYSTEM;
use source::copy_check::{Needed, missing_privileges};

pub(crate) const KINDS: [DefinitionKind; 7] = [
    DefinitionKind::View,
    DefinitionKind::Function,
    DefinitionKind::Procedure,
    DefinitionKind::Library,
    DefinitionKind::Trigger,
    DefinitionKind::Event,
    DefinitionKind::User,
];

/// The privilege needed to see all of a kind.
fn needed(kind: DefinitionKind) -> Needed {
    match kind {
        DefinitionKind::View => ("SHOW VIEW", &[]),
        DefinitionKind::Function | DefinitionKind::Procedure | DefinitionKind::Library => ("SHOW_ROUTINE", &["SELECT"]),
        DefinitionKind::Trigger => ("TRIGGER", &[]),
        DefinitionKind::Event => ("EVENT", &[]),
        DefinitionKind::User => ("SELECT", &[]),
    }
}

const ROUTINES: &str = "information_schema.ROUTINES";
const EVENTS: &str = "information_schema.EVENTS";
const VIEWS: &str = "information_schema.VIEWS";
const TRIGGERS: &str = "information_schema.TRIGGERS";
const USERS: &str = "mysql.user";
/// Of a table of information_schema that this server does not have.
const ER_UNKNOWN_TABLE: u16 = 1109;
const LIBRARIES: &str = "information_schema.LIBRARIES";

/// Memory that all definitions of a source may take: each of its answers has a limit, and so has their sum. A million
/// grants take about 300 MiB.
const BYTES_MAX: usize = 512 << 20;

/// Definitions that were read, and notes on those that were not.
#[derive(Default)]
pub(crate) struct Definitions {
    pub all: Vec<Definition>,
    pub notes: Vec<String>,
    bytes: usize,
}

impl Definitions {
    /// # Errors
    /// All of them take more than [`BYTES_MAX`].
    fn add(&mut self, one: Definition) -> client::Result<()> {
        let of = |recorded: &Recorded| size_of::<Recorded>() + recorded.text.len();
        self.bytes += size_of::<Definition>() + one.made.iter().chain(one.later.iter()).map(of).sum::<usize>();
        if self.bytes > BYTES_MAX {
            let to = "SHOW CREATE and SHOW GRANTS, of all objects together".to_owned();
            return Err(ClientError::AnswerTooLarge { to, limit_mib: BYTES_MAX >> 20 });
        }
        self.all.push(one);
        Ok(())
    }
}

/// An object for SHOW CREATE.
struct Shown {
    kind: DefinitionKind,
    db: String,
    name: String,
    table: Option<(String, String)>,
    /// ACTION_ORDER of a trigger.
    order: Option<u32>,
}

/// Which definitions are read, by kind, database and name on this replica.
type Wanted<'a> = &'a dyn Fn(DefinitionKind, &str, &str) -> bool;

/// Reads all definitions. `names` says which databases and tables are replicated.
///
/// # Errors
/// If the connection fails.
pub(crate) fn read(connection: &mut Connection, names: &SourceNames) -> client::Result<Definitions> {
    read_some(connection, names, &KINDS, &|_, _, _| true)
}

/// Reads those of these kinds that are wanted.
///
/// # Errors
/// If the connection fails.
pub(crate) fn read_some(
    connection: &mut Connection,
    names: &SourceNames,
    kinds: &[DefinitionKind],
    wanted: Wanted<'_>,
) -> client::Result<Definitions> {
    let mut found = Definitions::default();
    let mut privileges: Vec<Needed> = kinds.iter().map(|kind| needed(*kind)).collect();
    privileges.dedup();
    let (account, missing) = missing_privileges(connection, &privileges)?;
    if !missing.is_empty() {
        found.notes.push(format!(
            "accounts, libraries, routines, views, triggers and events are recorded as far as {account} sees them: it lacks {}",
            missing.join(", ")
        ));
    }
    let listed = list(connection, names)?;
    for shown in listed.into_iter().filter(|one| wanted(one.kind, names.database(&one.db), &one.name)) {
        let what = format!("{} {}.{}", shown.kind.name(), quoted(&shown.db), quoted(&shown.name));
        let sql = format!("SHOW CREATE {what}");
        match connection.query(&sql) {
            Ok(result) => match definition(&result, shown, names)? {
                Some(one) => found.add(one)?,
                None => found.notes.push(format!("the definition of {what} cannot be seen, and is not recorded")),
            },
            Err(error) if error.server_code().is_some() => found.notes.push(format!("{what} is not recorded: {error}")),
            Err(error) => return Err(error),
        }
    }
    if names.filters.is_empty() || names.filters.database_passes("", names.lower_case_table_names) {
        users(connection, &mut found, wanted)?;
    }
    Ok(found)
}

fn list(connection: &mut Connection, names: &SourceNames) -> client::Result<Vec<Shown>> {
    let mut all = Vec::new();
    let here = |db: &str| names.database(db).to_owned();
    let passes = |db: &str| names.filters.database_passes(names.database(db), names.lower_case_table_names);
    let routines = connection.query(&format!(
        "SELECT ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE FROM {ROUTINES} WHERE {}",
        NOT_SYSTEM.replace("TABLE_SCHEMA", "ROUTINE_SCHEMA")
    ))?;
    for row in 0..routines.rows.len() {
        let kind = match routines.told::<String>(row, 2, ROUTINES)?.as_str() {
            "FUNCTION" => DefinitionKind::Function,
            "PROCEDURE" => DefinitionKind::Procedure,
            _ => continue,
        };
        let (db, name) = (routines.told(row, 0, ROUTINES)?, routines.told(row, 1, ROUTINES)?);
        all.push(Shown { kind, db, name, table: None, order: None });
    }
    for (db, name) in libraries(connection)? {
        all.push(Shown { kind: DefinitionKind::Library, db, name, table: None, order: None });
    }
    let events = connection.query(&format!(
        "SELECT EVENT_SCHEMA, EVENT_NAME FROM {EVENTS} WHERE {}",
        NOT_SYSTEM.replace("TABLE_SCHEMA", "EVENT_SCHEMA")
    ))?;
    for row in 0..events.rows.len() {
        let (db, name) = (events.told(row, 0, EVENTS)?, events.told(row, 1, EVENTS)?);
        all.push(Shown { kind: DefinitionKind::Event, db, name, table: None, order: None });
    }
    all.retain(|one| passes(&one.db));
    let views = connection.query(&format!("SELECT TABLE_SCHEMA, TABLE_NAME FROM {VIEWS} WHERE {NOT_SYSTEM}"))?;
    for row in 0..views.rows.len() {
        let (db, name): (String, String) = (views.told(row, 0, VIEWS)?, views.told(row, 1, VIEWS)?);
        if names.replicates(names.database(&db), &name) {
            all.push(Shown { kind: DefinitionKind::View, db, name, table: None, order: None });
        }
    }
    let triggers = connection.query(&format!(
        "SELECT TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_OBJECT_TABLE, ACTION_ORDER FROM {TRIGGERS} WHERE {}",
        NOT_SYSTEM.replace("TABLE_SCHEMA", "TRIGGER_SCHEMA")
    ))?;
    for row in 0..triggers.rows.len() {
        let text = |column| triggers.told::<String>(row, column, TRIGGERS);
        let (db, name, table) = (text(0)?, text(1)?, text(2)?);
        if names.replicates(names.database(&db), &table) {
            let table = Some((here(&db), table));
            let order = Some(triggers.told(row, 3, TRIGGERS)?);
            all.push(Shown { kind: DefinitionKind::Trigger, db, name, table, order });
        }
    }
    Ok(all)
}

/// Servers have them since 9.2.
fn libraries(connection: &mut Connection) -> client::Result<Vec<(String, String)>> {
    let found = connection.query(&format!(
        "SELECT LIBRARY_SCHEMA, LIBRARY_NAME FROM {LIBRARIES} WHERE {}",
        NOT_SYSTEM.replace("TABLE_SCHEMA", "LIBRARY_SCHEMA")
    ));
    match found {
        Err(error) if error.server_code() == Some(ER_UNKNOWN_TABLE) => Ok(Vec::new()),
        found => {
            let found = found?;
            let names = |row| Ok((found.told(row, 0, LIBRARIES)?, found.told(row, 1, LIBRARIES)?));
            (0..found.rows.len()).map(names).collect()
        }
    }
}

/// None if the account may not see the text, which is NULL then.
fn definition(result: &ResultSet, shown: Shown, names: &SourceNames) -> client::Result<Option<Definition>> {
    const WHAT: &str = "SHOW CREATE";
    // Not every kind of object has each of them.
    let of = |name: &str| result.column(name).map_or(Ok(String::new()), |column| result.told(0, column, WHAT));
    let made = match shown.kind {
        DefinitionKind::View => "Create View",
        DefinitionKind::Function => "Create Function",
        DefinitionKind::Procedure => "Create Procedure",
        DefinitionKind::Trigger => "SQL Original Statement",
        DefinitionKind::Event => "Create Event",
        DefinitionKind::Library => "Create Library",
        DefinitionKind::User => return Ok(None),
    };
    let at = result.column(made).ok_or_else(|| ClientError::unexpected_value(WHAT, made, None))?;
    let Some(text) = result.text(0, at).filter(|text| !text.is_empty()) else { return Ok(None) };
    let db = names.database(&shown.db).to_owned();
    let recorded = Recorded {
        text,
        gtid: String::new(),
        default_db: db.clone(),
        sql_mode: of("sql_mode")?,
        client_charset: of("character_set_client")?,
        connection_collation: of("collation_connection")?,
        database_collation: of("Database Collation")?,
        time_zone: of("time_zone")?,
        timestamp_us: None,
    };
    let Shown { kind, name, table, order, .. } = shown;
    Ok(Some(Definition { kind, db, name, table, made: Some(recorded), later: catalog::Later::default(), order }))
}

fn users(connection: &mut Connection, found: &mut Definitions, wanted: Wanted<'_>) -> client::Result<()> {
    // Password hashes may contain any bytes.
    match connection.exec("SET SESSION print_identified_with_as_hex = ON") {
        Err(error) if error.server_code().is_none() => return Err(error),
        _ => {}
    }
    let accounts = match account_names(connection) {
        Err(error) if error.server_code().is_some() => {
            found.notes.push(format!("users are not recorded: {error}"));
            return Ok(());
        }
        accounts => accounts?,
    };
    for (name, host) in accounts {
        if !wanted(DefinitionKind::User, "", &format!("{name}@{host}")) {
            continue;
        }
        let account = format!("{}@{}", quoted(&name), quoted(&host));
        match user(connection, &account, &name, &host) {
            Ok(texts) => {
                let recorded = |text: &String| Recorded { text: text.clone(), ..Recorded::default() };
                found.add(Definition {
                    kind: DefinitionKind::User,
                    db: String::new(),
                    name: format!("{name}@{host}"),
                    table: None,
                    made: texts.first().map(recorded),
                    later: texts.iter().skip(1).map(recorded).collect(),
                    order: None,
                })?;
            }
            Err(error) if error.server_code().is_some() => {
                found.notes.push(format!("{account} is not recorded: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn account_names(connection: &mut Connection) -> client::Result<Vec<(String, String)>> {
    let own = "'mysql.infoschema', 'mysql.session', 'mysql.sys'";
    let accounts = connection.query(&format!("SELECT User, Host FROM {USERS} WHERE User NOT IN ({own})"))?;
    (0..accounts.rows.len()).map(|row| Ok((accounts.told(row, 0, USERS)?, accounts.told(row, 1, USERS)?))).collect()
}

/// The statements that make an account.
fn user(connection: &mut Connection, account: &str, name: &str, host: &str) -> client::Result<Vec<String>> {
    let mut texts = Vec::new();
    let created = connection.query(&format!("SHOW CREATE USER {account}"))?;
    texts.push(created.told::<String>(0, 0, "SHOW CREATE USER")?);
    texts.extend(hidden(connection, account, name, host)?);
    let grants = connection.query(&format!("SHOW GRANTS FOR {account}"))?;
    for row in 0..grants.rows.len() {
        texts.push(grants.told(row, 0, "SHOW GRANTS")?);
    }
    Ok(texts)
}

/// What SHOW CREATE USER does not show: the old one of two passwords, and how long the password of an account lasts
/// whose password has expired.
fn hidden(connection: &mut Connection, account: &str, name: &str, host: &str) -> client::Result<Vec<String>> {
    // Servers have the column since 8.0.14.
    let old = "HEX(User_attributes->>'$.additional_password')";
    let columns = "plugin, HEX(authentication_string), password_expired, password_lifetime";
    let place = format!("FROM {USERS} WHERE User = {} AND Host = {}", quoted_text(name), quoted_text(host));
    let row = match connection.query(&format!("SELECT {columns}, {old} {place}")) {
        Err(error) if error.server_code().is_some() => connection.query(&format!("SELECT {columns}, NULL {place}"))?,
        row => row?,
    };
    let mut texts = Vec::new();
    let Some(plugin) = row.text(0, 0) else { return Ok(texts) };
    let expired = row.text(0, 2).as_deref() == Some("Y");
    if let (Some(secret), Some(old)) = (row.text(0, 1), row.text(0, 4).filter(|old| !old.is_empty())) {
        let with = format!("ALTER USER {account} IDENTIFIED WITH {} AS", quoted_text(&plugin));
        texts.push(format!("{with} 0x{old}"));
        texts.push(format!("{with} 0x{secret} RETAIN CURRENT PASSWORD"));
        if expired {
            texts.push(format!("ALTER USER {account} PASSWORD EXPIRE"));
        }
    }
    match row.text(0, 3).as_deref() {
        Some("0") if expired => texts.push(format!("ALTER USER {account} PASSWORD EXPIRE NEVER")),
        Some(days) if expired => texts.push(format!("ALTER USER {account} PASSWORD EXPIRE INTERVAL {days} DAY")),
        _ => {}
    }
    texts.extend(hidden_admin(connection, account, name, host)?);
    Ok(texts)
}

/// ADMIN OPTION that was given once: after a GRANT without it SHOW GRANTS does not show it until the server has read
/// its tables again.
fn hidden_admin(connection: &mut Connection, account: &str, name: &str, host: &str) -> client::Result<Vec<String>> {
    const EDGES: &str = "mysql.role_edges";
    let (name, host) = (quoted_text(name), quoted_text(host));
    let with = format!("WHERE TO_USER = {name} AND TO_HOST = {host} AND WITH_ADMIN_OPTION = 'Y'");
    let roles = match connection.query(&format!("SELECT FROM_USER, FROM_HOST FROM {EDGES} {with}")) {
        // Servers have roles since 8.0.
        Err(error) if error.server_code().is_some() => return Ok(Vec::new()),
        roles => roles?,
    };
    let text = |row| {
        let (role, host): (String, String) = (roles.told(row, 0, EDGES)?, roles.told(row, 1, EDGES)?);
        Ok(format!("GRANT {}@{} TO {account} WITH ADMIN OPTION", quoted(&role), quoted(&host)))
    };
    (0..roles.rows.len()).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(of: &[(&str, Option<&str>)]) -> client::Result<Option<Definition>> {
        let column = |(name, _): &(&str, _)| client::Column { name: (*name).to_owned(), ..Default::default() };
        let row = of.iter().map(|(_, text)| text.map(|text| text.into())).collect();
        let result = ResultSet { columns: of.iter().map(column).collect(), rows: vec![row], ..ResultSet::default() };
        let shown = Shown { kind: DefinitionKind::View, db: "d".into(), name: "v".into(), table: None, order: None };
        definition(&result, shown, &SourceNames::default())
    }

    #[test]
    fn all_definitions_together_have_a_limit() {
        let mut found = Definitions::default();
        let recorded = Recorded { text: "x".repeat(100 << 20), ..Recorded::default() };
        let shown = Shown { kind: DefinitionKind::View, db: "d".into(), name: "v".into(), table: None, order: None };
        let one = || Definition {
            kind: shown.kind,
            db: shown.db.clone(),
            name: shown.name.clone(),
            table: None,
            made: Some(recorded.clone()),
            later: catalog::Later::default(),
            order: None,
        };
        let added = (0..20).take_while(|_| found.add(one()).is_ok()).count();
        assert_eq!((added, found.all.len()), (5, 5));
    }

    #[test]
    fn a_definition_is_recorded_whole_or_not_at_all() {
        let view = [("View", Some("v")), ("Create View", Some("CREATE …")), ("character_set_client", Some("latin1"))];
        let recorded = shown(&view).unwrap().unwrap().made.unwrap();
        assert_eq!((recorded.text.as_str(), recorded.client_charset.as_str()), ("CREATE …", "latin1"));
        // As of a routine whose text the account may not see.
        assert_eq!(shown(&[("Create View", None), ("character_set_client", None)]).unwrap(), None);
        for (answer, named) in [
            (&[("Create View", Some("CREATE …")), ("character_set_client", None)][..], "character_set_client is NULL"),
            (&[("Create Table", Some("CREATE …"))][..], "Create View is NULL or missing"),
        ] {
            let error = shown(answer).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
