//! The source's views, routines, triggers, events, users and grants, for the catalog of the initial copy.
//!
//! In: a connection, and the mapping of names. Out: their SHOW CREATE texts with the settings they were created under,
//! and a note for each that could not be read. Never here: an error for a missing privilege.
//!
//! They are read after the snapshots are opened, in their current state. Changes after the copy's GTID set come again
//! from the log, in order.

use catalog::{Definition, DefinitionKind, Recorded, SourceNames};
use client::session::quoted;
use client::{Connection, ResultSet};
use source::copy_check::{Needed, missing_privileges};

use crate::definitions::NOT_SYSTEM;

/// Privileges needed to see all of them.
const PRIVILEGES: &[Needed] =
    &[("SHOW VIEW", &[]), ("SHOW_ROUTINE", &["SELECT"]), ("TRIGGER", &[]), ("EVENT", &[]), ("SELECT", &[])];

/// Definitions that were read, and notes on those that were not.
#[derive(Default)]
pub(crate) struct Definitions {
    pub all: Vec<Definition>,
    pub notes: Vec<String>,
}

/// An object for SHOW CREATE.
struct Shown {
    kind: DefinitionKind,
    db: String,
    name: String,
    table: Option<(String, String)>,
}

/// Reads all definitions. `names` says which databases and tables are replicated.
///
/// # Errors
/// If the connection fails.
pub(crate) fn read(connection: &mut Connection, names: &SourceNames) -> client::Result<Definitions> {
    let mut found = Definitions::default();
    let (account, missing) = missing_privileges(connection, PRIVILEGES)?;
    if !missing.is_empty() {
        found.notes.push(format!(
            "views, routines, triggers, events and users are recorded as far as {account} sees them: it misses {}",
            missing.join(", ")
        ));
    }
    for shown in list(connection, names)? {
        let what = format!("{} {}.{}", shown.kind.name(), quoted(&shown.db), quoted(&shown.name));
        let sql = format!("SHOW CREATE {what}");
        match connection.query(&sql) {
            Ok(result) => match definition(&result, shown, names) {
                Some(one) => found.all.push(one),
                None => found.notes.push(format!("the definition of {what} cannot be seen, and is not recorded")),
            },
            Err(error) if error.server_code().is_some() => found.notes.push(format!("{what} is not recorded: {error}")),
            Err(error) => return Err(error),
        }
    }
    if names.filters.is_empty() || names.filters.database_passes("", names.lower_case_table_names) {
        users(connection, &mut found)?;
    }
    Ok(found)
}

fn text(result: &ResultSet, row: usize, column: usize) -> String {
    result.text(row, column).unwrap_or_default()
}

fn list(connection: &mut Connection, names: &SourceNames) -> client::Result<Vec<Shown>> {
    let mut all = Vec::new();
    let here = |db: &str| names.database(db).to_owned();
    let passes = |db: &str| names.filters.database_passes(names.database(db), names.lower_case_table_names);
    let routines = connection.query(&format!(
        "SELECT ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE FROM information_schema.ROUTINES WHERE {}",
        NOT_SYSTEM.replace("TABLE_SCHEMA", "ROUTINE_SCHEMA")
    ))?;
    for row in 0..routines.rows.len() {
        let kind = match text(&routines, row, 2).as_str() {
            "FUNCTION" => DefinitionKind::Function,
            "PROCEDURE" => DefinitionKind::Procedure,
            _ => continue,
        };
        all.push(Shown { kind, db: text(&routines, row, 0), name: text(&routines, row, 1), table: None });
    }
    let events = connection.query(&format!(
        "SELECT EVENT_SCHEMA, EVENT_NAME FROM information_schema.EVENTS WHERE {}",
        NOT_SYSTEM.replace("TABLE_SCHEMA", "EVENT_SCHEMA")
    ))?;
    for row in 0..events.rows.len() {
        let (db, name) = (text(&events, row, 0), text(&events, row, 1));
        all.push(Shown { kind: DefinitionKind::Event, db, name, table: None });
    }
    all.retain(|one| passes(&one.db));
    let views = connection
        .query(&format!("SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.VIEWS WHERE {NOT_SYSTEM}"))?;
    for row in 0..views.rows.len() {
        let (db, name) = (text(&views, row, 0), text(&views, row, 1));
        if names.replicates(names.database(&db), &name) {
            all.push(Shown { kind: DefinitionKind::View, db, name, table: None });
        }
    }
    let triggers = connection.query(&format!(
        "SELECT TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS WHERE {}",
        NOT_SYSTEM.replace("TABLE_SCHEMA", "TRIGGER_SCHEMA")
    ))?;
    for row in 0..triggers.rows.len() {
        let (db, name, table) = (text(&triggers, row, 0), text(&triggers, row, 1), text(&triggers, row, 2));
        if names.replicates(names.database(&db), &table) {
            let table = Some((here(&db), table));
            all.push(Shown { kind: DefinitionKind::Trigger, db, name, table });
        }
    }
    Ok(all)
}

/// None if the account may not see the text.
fn definition(result: &ResultSet, shown: Shown, names: &SourceNames) -> Option<Definition> {
    let column = |name: &str| result.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
    let of = |name: &str| column(name).and_then(|at| result.text(0, at)).unwrap_or_default();
    let made = match shown.kind {
        DefinitionKind::View => "Create View",
        DefinitionKind::Function => "Create Function",
        DefinitionKind::Procedure => "Create Procedure",
        DefinitionKind::Trigger => "SQL Original Statement",
        DefinitionKind::Event => "Create Event",
        DefinitionKind::User => return None,
    };
    let sql = of(made);
    let db = names.database(&shown.db).to_owned();
    let recorded = Recorded {
        text: sql,
        gtid: String::new(),
        default_db: db.clone(),
        sql_mode: of("sql_mode"),
        client_charset: of("character_set_client"),
        connection_collation: of("collation_connection"),
        database_collation: of("Database Collation"),
        time_zone: of("time_zone"),
    };
    (!recorded.text.is_empty()).then(|| Definition {
        kind: shown.kind,
        db,
        name: shown.name,
        table: shown.table,
        made: Some(recorded),
        later: Vec::new(),
    })
}

fn users(connection: &mut Connection, found: &mut Definitions) -> client::Result<()> {
    // Password hashes may contain any bytes.
    match connection.exec("SET SESSION print_identified_with_as_hex = ON") {
        Err(error) if error.server_code().is_none() => return Err(error),
        _ => {}
    }
    let own = "'mysql.infoschema', 'mysql.session', 'mysql.sys'";
    let accounts = connection.query(&format!("SELECT User, Host FROM mysql.user WHERE User NOT IN ({own})"));
    let accounts = match accounts {
        Err(error) if error.server_code().is_some() => {
            found.notes.push(format!("users are not recorded: {error}"));
            return Ok(());
        }
        accounts => accounts?,
    };
    for row in 0..accounts.rows.len() {
        let (name, host) = (text(&accounts, row, 0), text(&accounts, row, 1));
        let account = format!("{}@{}", quoted(&name), quoted(&host));
        let mut texts = Vec::new();
        for sql in [format!("SHOW CREATE USER {account}"), format!("SHOW GRANTS FOR {account}")] {
            match connection.query(&sql) {
                Ok(result) => texts.push((0..result.rows.len()).map(|row| text(&result, row, 0)).collect::<Vec<_>>()),
                Err(error) if error.server_code().is_some() => {
                    found.notes.push(format!("{account} is not recorded: {error}"));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let [made, grants] = texts.as_slice() else { continue };
        let recorded = |text: &String| Recorded { text: text.clone(), ..Recorded::default() };
        found.all.push(Definition {
            kind: DefinitionKind::User,
            db: String::new(),
            name: format!("{name}@{host}"),
            table: None,
            made: made.first().map(recorded),
            later: grants.iter().map(recorded).collect(),
        });
    }
    Ok(())
}
