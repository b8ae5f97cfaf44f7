//! Statements about accounts, views, programs, triggers, events and libraries, drawn from a grammar by a seed.
//!
//! In: random numbers. Out: statements, some of which a server refuses. Never here: an expectation.

use testkit::Random;

pub const DATABASES: [&str; 2] = ["dd1", "dd2"];
const USERS: [&str; 5] = ["'a'@'%'", "'b'@'h%'", "`c d`@localhost", "A@'%'", "''@'10.0.0.1'"];
const ROLES: [&str; 3] = ["r1", "r2@H", "`r``3`"];
const TABLES: [&str; 4] = ["t1", "t2", "t3", "`t 4`"];
const VIEWS: [&str; 3] = ["v1", "v2", "`v``3`"];
const NAMES: [&str; 3] = ["n1", "N1", "`n 2`"];
const TRIGGERS: [&str; 3] = ["g1", "g2", "g3"];

/// The tables that statements are about: each database has them at the beginning.
#[must_use]
pub fn tables(db: &str) -> String {
    ["t1", "t2"].map(|table| format!("CREATE TABLE {db}.{table} (a INT, b VARCHAR(20), c INT);")).concat()
}

/// That many statements, each with the session it needs.
#[must_use]
pub fn drawn(seed: u64, count: usize) -> Vec<String> {
    let mut random = Random::new(seed);
    (0..count).map(|_| statement(&mut random)).collect()
}

fn statement(random: &mut Random) -> String {
    let db = random.pick(&DATABASES);
    let session = match random.below(8u64) {
        0 => "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'; ",
        1 => "SET sql_mode = 'NO_BACKSLASH_ESCAPES'; ",
        2 => "SET NAMES latin1; ",
        3 => "SET time_zone = '+03:00'; ",
        _ => "",
    };
    let sql = if random.one_in(2) { of_accounts(random) } else { of_objects(random) };
    format!("USE {db}; {session}{sql}")
}

fn maybe(random: &mut Random, text: &str) -> String {
    if random.one_in(2) { format!(" {text}") } else { String::new() }
}

fn some(random: &mut Random, of: &[&str]) -> String {
    let first = random.pick(of);
    match random.pick(of) {
        second if second != first && random.one_in(3) => format!("{first}, {second}"),
        _ => first.to_owned(),
    }
}

fn any(random: &mut Random) -> &'static str {
    if random.one_in(3) { random.pick(&ROLES) } else { random.pick(&USERS) }
}

fn several(random: &mut Random) -> String {
    let all: Vec<&str> = USERS.iter().chain(&ROLES).copied().collect();
    some(random, &all)
}

fn of_accounts(random: &mut Random) -> String {
    match random.below(20u64) {
        0..=2 => {
            let users = with_passwords(random, false);
            let exists = maybe(random, "IF NOT EXISTS");
            let role = if random.one_in(4) { " DEFAULT ROLE r1" } else { "" };
            format!("CREATE USER{exists} {users}{role}{}", options(random))
        }
        3 => format!("CREATE ROLE{} {}", maybe(random, "IF NOT EXISTS"), some(random, &ROLES)),
        4 | 5 => {
            let users = with_passwords(random, true);
            format!("ALTER USER{} {users}{}", maybe(random, "IF EXISTS"), options(random))
        }
        6 if random.one_in(2) => format!("DROP USER{} {}", maybe(random, "IF EXISTS"), several(random)),
        6 => format!("RENAME USER {} TO {}", any(random), random.pick(&USERS)),
        7 if random.one_in(2) => format!("DROP ROLE{} {}", maybe(random, "IF EXISTS"), some(random, &ROLES)),
        7 | 8 => {
            let verb = random.pick(&["ALTER USER {u} DEFAULT ROLE {r}", "SET DEFAULT ROLE {r} TO {u}"]);
            let roles = match random.below(3u64) {
                0 => "ALL".to_owned(),
                1 => "NONE".to_owned(),
                _ => some(random, &ROLES),
            };
            verb.replace("{u}", random.pick(&USERS)).replace("{r}", &roles)
        }
        9 => format!(
            "SET PASSWORD FOR {} = 'hidden-{}'{}",
            any(random),
            random.below(99u64),
            maybe(random, "RETAIN CURRENT PASSWORD")
        ),
        10 | 11 => {
            let admin = maybe(random, "WITH ADMIN OPTION");
            format!("GRANT {} TO {}{admin}", some(random, &ROLES), several(random))
        }
        12 => format!("REVOKE{} {} FROM {}", maybe(random, "IF EXISTS"), some(random, &ROLES), several(random)),
        13 if random.one_in(2) => {
            let option = maybe(random, "WITH GRANT OPTION");
            format!("GRANT PROXY ON {} TO {}{option}", any(random), any(random))
        }
        13 => format!("REVOKE PROXY ON {} FROM {}", any(random), any(random)),
        14 if random.one_in(3) => format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {}", several(random)),
        14 if random.one_in(3) => format!("REVOKE ALL ON *.* FROM {}", several(random)),
        14..=17 => {
            let (privileges, place) = granted(random);
            let option = if random.one_in(4) { " WITH GRANT OPTION" } else { "" };
            format!("GRANT {privileges} ON {place} TO {}{option}", several(random))
        }
        _ => {
            let (privileges, place) = granted(random);
            let option = if random.one_in(5) { ", GRANT OPTION" } else { "" };
            let unknown = if random.one_in(4) { " IGNORE UNKNOWN USER" } else { "" };
            let exists = maybe(random, "IF EXISTS");
            format!("REVOKE{exists} {privileges}{option} ON {place} FROM {}{unknown}", several(random))
        }
    }
}

fn with_passwords(random: &mut Random, alters: bool) -> String {
    let users = several(random);
    let all: Vec<String> = users
        .split(", ")
        .map(|user| {
            let number = random.below(99u64);
            let with = match random.below(6u64) {
                0 => String::new(),
                1 => " IDENTIFIED WITH sha256_password BY 'x'".to_owned(),
                2 if alters => " IDENTIFIED WITH caching_sha2_password".to_owned(),
                3 if alters => format!(" IDENTIFIED BY 'p{number}' RETAIN CURRENT PASSWORD"),
                4 if alters => " DISCARD OLD PASSWORD".to_owned(),
                _ => format!(" IDENTIFIED BY 'p{number}'"),
            };
            format!("{user}{with}")
        })
        .collect();
    all.join(", ")
}

fn options(random: &mut Random) -> String {
    let mut text = String::new();
    if random.one_in(3) {
        text += random.pick(&[
            " REQUIRE SSL",
            " REQUIRE NONE",
            " REQUIRE X509",
            " REQUIRE SUBJECT '/C=x' AND ISSUER '/C=y'",
        ]);
    }
    if random.one_in(4) {
        text += random.pick(&[" WITH MAX_QUERIES_PER_HOUR 5", " WITH MAX_USER_CONNECTIONS 2 MAX_UPDATES_PER_HOUR 0"]);
    }
    let rules = [
        " PASSWORD EXPIRE",
        " PASSWORD EXPIRE NEVER",
        " PASSWORD EXPIRE DEFAULT",
        " PASSWORD EXPIRE INTERVAL 30 DAY",
        " PASSWORD HISTORY 3",
        " PASSWORD HISTORY DEFAULT",
        " PASSWORD REUSE INTERVAL 7 DAY",
        " PASSWORD REQUIRE CURRENT OPTIONAL",
        " PASSWORD REQUIRE CURRENT",
        " FAILED_LOGIN_ATTEMPTS 3",
        " PASSWORD_LOCK_TIME UNBOUNDED",
        " PASSWORD_LOCK_TIME 2",
        " ACCOUNT LOCK",
        " ACCOUNT UNLOCK",
    ];
    for _ in 0..random.below(3u64) {
        text += random.pick(&rules);
    }
    if random.one_in(4) {
        text += random.pick(&[
            " COMMENT 'it''s \"é\"'",
            " COMMENT ''",
            " ATTRIBUTE '{\"b\": 1, \"aa\": {\"x\": [1, null]}}'",
            " ATTRIBUTE '{\"b\": null, \"aa\": {\"y\": true}}'",
        ]);
    }
    text
}

/// Privileges and where.
fn granted(random: &mut Random) -> (String, String) {
    let db = random.pick(&DATABASES);
    match random.below(12u64) {
        0 if random.one_in(12) => ("ALL".to_owned(), "*.*".to_owned()),
        0 | 1 => {
            let all = [
                "SELECT",
                "INSERT",
                "RELOAD",
                "CREATE USER",
                "REPLICATION SLAVE",
                "BACKUP_ADMIN",
                "XA_RECOVER_ADMIN",
                "USAGE",
            ];
            (some(random, &all), "*.*".to_owned())
        }
        2..=5 => {
            let all = ["SELECT", "INSERT", "ALL", "CREATE TEMPORARY TABLES", "LOCK TABLES", "EVENT", "CREATE ROUTINE"];
            let place = match random.below(4u64) {
                0 => "`dd\\_%`.*".to_owned(),
                1 => "*".to_owned(),
                _ => format!("{db}.*"),
            };
            (some(random, &all), place)
        }
        6..=9 => {
            let all =
                ["SELECT", "INSERT (a)", "SELECT (a, b)", "UPDATE (b)", "REFERENCES (c)", "ALL", "DELETE, TRIGGER"];
            let asked = some(random, &all);
            // Of a privilege both of the table and of its columns the source logs the table's alone.
            let is_lost = asked.matches("SELECT").count() > 1;
            let asked = if is_lost { "SELECT (a, b)".to_owned() } else { asked };
            (asked, format!("{db}.{}", random.pick(&["t1", "t2"])))
        }
        _ => {
            let kind = random.pick(&["PROCEDURE", "FUNCTION", "LIBRARY"]);
            let all = ["EXECUTE", "ALTER ROUTINE", "ALL"];
            (some(random, &all), format!("{kind} {db}.{}", random.pick(&NAMES)))
        }
    }
}

fn of_objects(random: &mut Random) -> String {
    match random.below(20u64) {
        0..=4 => of_views(random),
        5..=8 => of_routines(random),
        9..=12 => of_triggers(random),
        13..=16 => of_events(random),
        17 | 18 => of_libraries(random),
        _ => {
            let db = random.pick(&DATABASES);
            format!("DROP DATABASE {db}; CREATE DATABASE {db}; {}", tables(db))
        }
    }
}

fn definer(random: &mut Random) -> &'static str {
    random.pick(&["", "", " DEFINER = root@localhost", " DEFINER = 'a'@'%'"])
}

fn of_views(random: &mut Random) -> String {
    let view = random.pick(&VIEWS);
    let number = random.below(99u64);
    let body = match random.below(3u64) {
        0 => format!("SELECT {number} AS x, 'view ''q''' AS y"),
        1 => "SELECT a, b FROM t1".to_owned(),
        _ => format!("SELECT t1.a, t2.c FROM t1 JOIN dd1.t2 ON t1.a = t2.a WHERE t1.a > {number}"),
    };
    let with = random.pick(&["", " ALGORITHM = MERGE", " ALGORITHM = TEMPTABLE"]).to_owned();
    let with = with + definer(random) + random.pick(&["", " SQL SECURITY INVOKER"]);
    match random.below(8u64) {
        0..=2 => format!("CREATE{with} VIEW{} {view} AS {body}", maybe(random, "IF NOT EXISTS")),
        3 => format!("CREATE OR REPLACE{with} VIEW {view} (p, q) AS {body}"),
        4 => format!("ALTER{with} VIEW {view} AS {body}"),
        5 => format!("RENAME TABLE {view} TO {}", random.pick(&VIEWS)),
        6 => format!("RENAME TABLE {view} TO tmp, {} TO {view}", random.pick(&VIEWS)),
        _ => format!("DROP VIEW{} {}", maybe(random, "IF EXISTS"), some(random, &VIEWS)),
    }
}

fn of_routines(random: &mut Random) -> String {
    let name = random.pick(&NAMES);
    let number = random.below(99u64);
    let exists = maybe(random, "IF NOT EXISTS");
    // The source grants a routine to its author: whether it did, replicas cannot know.
    let with = random.pick(&["", " DEFINER = root@localhost"]);
    let about = random.pick(&["", " COMMENT 'it''s'", " SQL SECURITY INVOKER", " READS SQL DATA COMMENT 'event e'"]);
    match random.below(8u64) {
        0 | 1 => format!("CREATE{with} PROCEDURE{exists} {name}(IN p INT){about} SELECT p + {number}"),
        2 => format!(
            "CREATE{with} FUNCTION{exists} {name}(p INT) RETURNS VARCHAR(20) DETERMINISTIC{about} RETURN p + {number}"
        ),
        3 | 4 => {
            format!("ALTER {} {name}{about}{}", random.pick(&["PROCEDURE", "FUNCTION"]), maybe(random, "COMMENT 'x'"))
        }
        5 => format!("CREATE{with} PROCEDURE{exists} {name}() SELECT 'user u', \"view\" AS x"),
        _ => {
            let (exists, kind) = (maybe(random, "IF EXISTS"), random.pick(&["PROCEDURE", "FUNCTION"]));
            format!("DROP {kind}{exists} {name}")
        }
    }
}

fn of_triggers(random: &mut Random) -> String {
    let (name, table) = (random.pick(&TRIGGERS), random.pick(&["t1", "t1", "t2"]));
    let beside = match random.below(4u64) {
        0 => format!(" FOLLOWS {}", random.pick(&TRIGGERS)),
        1 => format!(" PRECEDES {}", random.pick(&TRIGGERS)),
        _ => String::new(),
    };
    match random.below(8u64) {
        0..=4 => {
            let when = random.pick(&["BEFORE INSERT", "BEFORE INSERT", "AFTER DELETE"]);
            let body = random.pick(&["SET @x = 1", "BEGIN SET @x = 'event e'; END", "SET @y = 2"]);
            let exists = maybe(random, "IF NOT EXISTS");
            format!("CREATE{} TRIGGER{exists} {name} {when} ON {table} FOR EACH ROW{beside} {body}", definer(random))
        }
        5 => format!("RENAME TABLE {} TO {}", random.pick(&TABLES), random.pick(&TABLES)),
        6 => format!("ALTER TABLE {} RENAME TO {}", random.pick(&TABLES), random.pick(&TABLES)),
        _ => format!("DROP TRIGGER{} {name}", maybe(random, "IF EXISTS")),
    }
}

fn of_events(random: &mut Random) -> String {
    let name = random.pick(&NAMES);
    let schedule = random.pick(&[
        " ON SCHEDULE EVERY 1 DAY",
        " ON SCHEDULE EVERY '1:30' HOUR_MINUTE STARTS '2035-01-01 00:00:00' ENDS '2036-01-01'",
        " ON SCHEDULE AT CURRENT_TIMESTAMP + INTERVAL 9 DAY",
    ]);
    let status = random.pick(&["", " ENABLE", " DISABLE", " DISABLE ON SLAVE", " ON COMPLETION PRESERVE"]);
    let comment = maybe(random, "COMMENT 'do it'");
    let body = random.pick(&["SELECT 1", "BEGIN SELECT 'rename to x'; END", "SELECT 2"]);
    let with = definer(random);
    match random.below(8u64) {
        0..=2 => {
            let exists = maybe(random, "IF NOT EXISTS");
            // The status comes after ON COMPLETION, which is one of them.
            format!("CREATE{with} EVENT{exists} {name}{schedule}{status}{comment} DO {body}")
        }
        3 => format!("ALTER{with} EVENT {name}{schedule}"),
        4 => {
            let db = random.pick(&DATABASES);
            format!(
                "ALTER{with} EVENT {name} RENAME TO {db}.{}{}",
                random.pick(&NAMES),
                if status.contains("ON COMP") { "" } else { status }
            )
        }
        5 => format!("ALTER{with} EVENT {name}{comment} DO {body}"),
        6 => format!("ALTER EVENT {name}{}", if status.is_empty() { " ENABLE" } else { status }),
        _ => format!("DROP EVENT{} {name}", maybe(random, "IF EXISTS")),
    }
}

fn of_libraries(random: &mut Random) -> String {
    let name = random.pick(&NAMES);
    let number = random.below(99u64);
    match random.below(4u64) {
        0 | 1 => format!(
            "CREATE LIBRARY{} {name}{} LANGUAGE JAVASCRIPT AS $$ export function f(a) {{ return a + {number} }} // view v $$",
            maybe(random, "IF NOT EXISTS"),
            maybe(random, "COMMENT 'trigger t'")
        ),
        2 => format!("ALTER LIBRARY {name} COMMENT 'c{number}'"),
        _ => format!("DROP LIBRARY{} {name}", maybe(random, "IF EXISTS")),
    }
}
