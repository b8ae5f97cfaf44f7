//! `dump --definitions` after statements drawn by a seed: accounts as the source shows them, and everything else made
//! again by the dump on another server.
//!
//! SLIPSTREAM_DEFINITIONS_SEED=N runs that seed, each statement compared by itself.

use client::Connection;
use whole_program_tests::definition_statements::{DATABASES, drawn, tables};
use whole_program_tests::{Random, Replica, Server, all_cases, folder, slipstream};

/// Definitions that the log alone may not settle, of 300 statements.
const ASKED_MAX: u64 = 5;

/// Statements that make an account, as the dump has them.
fn accounts_of(dump: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = dump.lines();
    while let Some(line) = lines.next() {
        let Some(delimiter) = line.strip_prefix("DELIMITER ").filter(|delimiter| *delimiter != ";") else { continue };
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != delimiter).collect();
        let text = text.join("\n");
        // GRANT PROXY would give it too.
        if text.starts_with("REVOKE GRANT OPTION ON *.* ") {
            continue;
        }
        if ["CREATE USER ", "ALTER USER ", "GRANT ", "REVOKE "].iter().any(|verb| text.starts_with(verb)) {
            found.push(in_order(&text));
        }
    }
    found.sort();
    found
}

/// The server has an order of its own in lists of roles and of columns.
fn in_order(text: &str) -> String {
    if !text.starts_with("GRANT ") && !text.contains(" DEFAULT ROLE ") {
        return text.to_owned();
    }
    let mut words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words.join(" ")
}

/// The same from the source: what SHOW CREATE USER and SHOW GRANTS print, and what they hide.
fn accounts_on(connection: &mut Connection) -> Vec<String> {
    // Until it reads its tables again, the server shows limits of 0, and ADMIN OPTION not where it was given before.
    connection.exec("FLUSH LOCAL PRIVILEGES").unwrap();
    let mut rows = |sql: &str| -> Vec<Vec<String>> {
        let found = connection.query(sql).unwrap();
        let text = |row: usize, column: usize| found.text(row, column).unwrap_or_default();
        (0..found.rows.len()).map(|row| (0..found.columns.len()).map(|column| text(row, column)).collect()).collect()
    };
    let mut all = Vec::new();
    for user in rows(
        "SELECT User, Host, plugin, HEX(authentication_string), password_expired, IFNULL(password_lifetime, ''),
         IFNULL(HEX(User_attributes->>'$.additional_password'), '') FROM mysql.user WHERE User NOT LIKE 'mysql.%'",
    ) {
        let name = format!("`{}`@`{}`", user[0].replace('`', "``"), user[1]);
        // The dump doubles a quote, for clients that know no escapes.
        let mut made = rows(&format!("SHOW CREATE USER {name}"))[0][0].replace("\\'", "''");
        if let (Some(from), Some(to)) = (made.find(" DEFAULT ROLE "), made.find(" REQUIRE ")) {
            made.replace_range(from..to, "");
        }
        let (secret, expired, lifetime, old) = (&user[3], user[4] == "Y", &user[5], &user[6]);
        if !old.is_empty() {
            made = made.replace(secret, old);
            all.push(format!("ALTER USER {name} IDENTIFIED WITH '{}' AS 0x{secret} RETAIN CURRENT PASSWORD", user[2]));
        }
        if expired && (!old.is_empty() || !lifetime.is_empty()) {
            let shown = match lifetime.as_str() {
                "" => "DEFAULT".to_owned(),
                "0" => "NEVER".to_owned(),
                days => format!("INTERVAL {days} DAY"),
            };
            made = made.replace(" PASSWORD EXPIRE ACCOUNT", &format!(" PASSWORD EXPIRE {shown} ACCOUNT"));
            all.push(format!("ALTER USER {name} PASSWORD EXPIRE"));
        }
        all.push(made);
        all.extend(rows(&format!("SHOW GRANTS FOR {name}")).into_iter().map(|mut row| row.remove(0)));
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let roles = rows(&format!(
            "SELECT DEFAULT_ROLE_USER, DEFAULT_ROLE_HOST FROM mysql.default_roles WHERE USER = {} AND HOST = {}",
            literal(&user[0]),
            literal(&user[1])
        ));
        if !roles.is_empty() {
            let roles: Vec<String> =
                roles.iter().map(|role| format!("`{}`@`{}`", role[0].replace('`', "``"), role[1])).collect();
            all.push(format!("ALTER USER {name} DEFAULT ROLE {}", roles.join(",")));
        }
    }
    let mut all: Vec<String> = all.iter().map(|text| in_order(text)).collect();
    all.sort();
    all
}

/// Everything else as SHOW CREATE shows it, and in which order triggers run.
fn others_on(server: &Server) -> String {
    let here = DATABASES.map(|db| format!("'{db}'")).join(", ");
    let all = server.sql(&format!(
        "SELECT CONCAT('SHOW CREATE VIEW `', TABLE_SCHEMA, '`.`', REPLACE(TABLE_NAME, '`', '``'), '`;') FROM information_schema.VIEWS
         WHERE TABLE_SCHEMA IN ({here}) ORDER BY 1;
         SELECT CONCAT('SHOW CREATE ', ROUTINE_TYPE, ' `', ROUTINE_SCHEMA, '`.`', ROUTINE_NAME, '`;') FROM information_schema.ROUTINES
         WHERE ROUTINE_SCHEMA IN ({here}) AND ROUTINE_TYPE <> 'LIBRARY' ORDER BY 1;
         SELECT CONCAT('SHOW CREATE LIBRARY `', LIBRARY_SCHEMA, '`.`', LIBRARY_NAME, '`;') FROM information_schema.LIBRARIES
         WHERE LIBRARY_SCHEMA IN ({here}) ORDER BY 1;
         SELECT CONCAT('SHOW CREATE EVENT `', EVENT_SCHEMA, '`.`', EVENT_NAME, '`;') FROM information_schema.EVENTS
         WHERE EVENT_SCHEMA IN ({here}) ORDER BY 1;
         SELECT CONCAT('SHOW CREATE TRIGGER `', TRIGGER_SCHEMA, '`.`', TRIGGER_NAME, '`;') FROM information_schema.TRIGGERS
         WHERE TRIGGER_SCHEMA IN ({here}) ORDER BY 1"
    ));
    let order = "SELECT TRIGGER_SCHEMA, EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, TRIGGER_NAME
         FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA LIKE 'dd_' ORDER BY 1, 2, 3, 4, ACTION_ORDER";
    // A view of a table that is gone is an error, after it is shown.
    let shown = server.client(&["--force"], format!("{all}{order}")).unwrap_or_else(|error| panic!("{error}\n{all}"));
    shown.lines().map(without_moment).collect()
}

/// SHOW CREATE TRIGGER ends with the time at which it was made.
fn without_moment(line: &str) -> String {
    match line.rsplit_once('\t') {
        Some((head, last)) if last.starts_with("20") && last.contains(':') => format!("{head}\n"),
        _ => format!("{line}\n"),
    }
}

/// Makes everything but accounts on another server, which has all tables that there may be.
fn made_again(other: &Server, dump: &str) -> String {
    let fresh = DATABASES.map(|db| {
        let more = ["t3", "`t 4`"].map(|table| format!("CREATE TABLE {db}.{table} LIKE {db}.t1;")).concat();
        format!("DROP DATABASE IF EXISTS {db}; CREATE DATABASE {db}; {}{more}", tables(db))
    });
    other.sql(&fresh.concat());
    let parts: Vec<&str> = dump.split("\n\n").filter(|part| !part.starts_with("-- USER ")).collect();
    if let Err(error) = other.try_sql(&parts.join("\n\n")) {
        panic!("{error}\n{dump}");
    }
    others_on(other)
}

#[track_caller]
fn assert_same(what: &str, here: &[String], there: &[String], last: &[String]) {
    let only = |of: &[String], other: &[String]| {
        of.iter().filter(|line| !other.contains(line)).map(|line| format!("  {line}\n")).collect::<String>()
    };
    assert!(
        here == there,
        "{what}\nonly here:\n{}only on the source:\n{}after:\n{}",
        only(here, there),
        only(there, here),
        last.join(";\n")
    );
}

fn run(name: &str, seed: u64, statements: &[String], every: usize) {
    let options = ["--event-scheduler=OFF", "--log-bin-trust-function-creators=ON"];
    let source = Server::start_unsynced(name, &options);
    let other = Server::start_unsynced(&format!("{name}-again"), &options);
    for db in DATABASES {
        source.sql(&format!("CREATE DATABASE {db}; {}", tables(db)));
    }
    source.sql("CREATE USER copier@'%' IDENTIFIED BY 'repl'; GRANT ALL ON *.* TO copier@'%'; CREATE ROLE r1");
    source.purge_binary_logs();
    let mut replica = Replica::start(&source.url("copier"), &folder(name), &[]);
    replica.copied();
    let mut connection = source.connect();
    connection.exec("SET SESSION print_identified_with_as_hex = ON").unwrap();
    let mut since = Vec::new();
    let mut taken = 0u64;
    let mut status = replica.settled(&source);
    for (index, sql) in statements.iter().enumerate() {
        if source.try_sql(sql).is_ok() {
            since.push(sql.clone());
            taken += 1;
        }
        if since.len() < every && index + 1 < statements.len() {
            continue;
        }
        status = replica.settled(&source);
        let dump = slipstream(&["dump", "--definitions", "--data", replica.data()]).expect(0, &[]).out.clone();
        let what = format!("seed {seed}, statement {index}");
        assert_same(&what, &accounts_of(&dump), &accounts_on(&mut connection), &since);
        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_same(&what, &lines(made_again(&other, &dump)), &lines(others_on(&source)), &since);
        since.clear();
    }
    let asked = status["replay"]["definitions_asked"].as_u64().unwrap();
    println!("seed {seed}: {taken} of {} statements taken, asked about {asked}", statements.len());
    assert!(taken * 4 > statements.len() as u64, "{taken} of {}", statements.len());
    assert!(asked * 300 <= ASKED_MAX * (statements.len() as u64).max(300), "asked about {asked}");
    for secret in ["hidden-", "$A$", "2441243030"] {
        assert!(!replica.log().contains(secret), "{}", replica.log());
    }
    replica.stop();
}

#[test]
fn they_are_what_the_source_has() {
    let (seed, every) = match std::env::var("SLIPSTREAM_DEFINITIONS_SEED") {
        Ok(seed) => (seed.parse().unwrap(), 1),
        Err(_) => (1, if all_cases() { 1 } else { 10 }),
    };
    let mut statements = drawn(seed, if all_cases() || every == 1 { 300 } else { 120 });
    run("drawn", seed, &statements, every);
    if !all_cases() {
        return;
    }
    // In another order.
    let mut random = Random::new(seed);
    for at in (1..statements.len()).rev() {
        statements.swap(at, random.below(at + 1));
    }
    run("drawn-otherwise", seed, &statements, every);
}
