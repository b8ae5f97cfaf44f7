//! What a real server's SHOW GRANTS allow, against what it lets its sessions read.

use accounts::{GrantNames, SourceGrants};
use client::{ConnectOptions, Connection};
use testkit::Server;

const SCHEMAS: [&str; 5] = ["shop", "shop_1", "shopx1", "shop%", "log"];
const TABLES: [&str; 2] = ["a", "b"];

fn session(server: &Server, user: &str) -> Connection {
    let options = ConnectOptions { password: Some("secret".to_owned()), ..server.login(user) };
    Connection::connect(&options).unwrap()
}

fn grants(session: &mut Connection) -> SourceGrants {
    let names = session.query("SELECT @@global.partial_revokes, @@global.lower_case_table_names").unwrap();
    let is_on = |column| names.text(0, column).unwrap() != "0";
    let names = GrantNames { partial_revokes: is_on(0), any_case: is_on(1) };
    let rows = session.query("SHOW GRANTS").unwrap();
    let rows: Vec<String> = (0..rows.rows.len()).map(|row| rows.text(row, 0).unwrap()).collect();
    SourceGrants::read(rows.iter().map(String::as_str), names)
}

/// Compares each table; returns those that may be read. `is_exact`: all others are not readable.
fn compared(session: &mut Connection, who: &str, is_exact: bool) -> Vec<String> {
    let grants = grants(session);
    let mut readable = Vec::new();
    for schema in SCHEMAS {
        for table in TABLES {
            let may = grants.may_read(schema, table);
            let does = session.query(&format!("SELECT * FROM `{schema}`.{table}")).is_ok();
            assert!(does || !may, "{who}: {schema}.{table} is not readable");
            assert!(!is_exact || may == does, "{who}: {schema}.{table} is readable");
            readable.extend(may.then(|| format!("{schema}.{table}")));
        }
    }
    readable
}

/// User and grants; `!`: what may be read there is not all allowed.
const USERS: &[(&str, &str)] = &[
    ("nothing", ""),
    ("everything", "GRANT SELECT ON *.* TO {}"),
    ("all", "GRANT ALL ON *.* TO {} WITH GRANT OPTION"),
    ("schema", "GRANT SELECT, INSERT ON `shop`.* TO {}; GRANT INSERT ON log.* TO {}"),
    ("escaped", r"GRANT SELECT ON `shop\_1`.* TO {}"),
    ("pattern", "GRANT ALL ON `shop_1`.* TO {}"),
    ("wide", "GRANT SELECT ON `shop%`.* TO {}"),
    ("literal", r"GRANT SELECT ON `shop\%`.* TO {}"),
    ("two", r"GRANT SELECT ON `shop%`.* TO {}; GRANT SELECT ON `shop\_1`.* TO {}"),
    ("differing!", r"GRANT SELECT ON `shop%`.* TO {}; GRANT INSERT ON `shop\_1`.* TO {}"),
    ("table", "GRANT SELECT ON shop.a TO {}; GRANT SELECT, UPDATE (id) ON log.b TO {}; GRANT INSERT ON log.a TO {}"),
    ("columns!", "GRANT SELECT (id, v) ON shop.a TO {}; GRANT SELECT (id), INSERT ON shop.b TO {}"),
    ("proxied", "GRANT PROXY ON nothing TO {}; GRANT EXECUTE ON PROCEDURE shop.p TO {}; GRANT SELECT ON log.* TO {}"),
    ("dynamic", "GRANT BACKUP_ADMIN ON *.* TO {}; GRANT SELECT ON log.a TO {}"),
    ("active", "GRANT reader, writer TO {} WITH ADMIN OPTION; SET DEFAULT ROLE reader TO {}"),
    ("inactive", "GRANT reader TO {}; GRANT SELECT ON log.a TO {}"),
    ("nested", "GRANT outer_role TO {}; SET DEFAULT ROLE ALL TO {}; GRANT SELECT ON log.b TO {}"),
];

#[test]
fn what_show_grants_allows_may_be_read() {
    let Some(server) = Server::or_skip("source-grants", &[]) else { return };
    for schema in SCHEMAS {
        server.sql(&format!("CREATE DATABASE `{schema}`"));
        for table in TABLES {
            server.sql(&format!("CREATE TABLE `{schema}`.{table} (id INT PRIMARY KEY, v INT)"));
        }
    }
    server.sql(
        r"CREATE PROCEDURE shop.p() SELECT 1; CREATE ROLE reader, writer, outer_role;
         GRANT SELECT ON `shop\_1`.* TO reader; GRANT SELECT ON shop.b TO reader; GRANT INSERT ON *.* TO writer;
         GRANT reader TO outer_role; GRANT SELECT ON `log`.a TO outer_role",
    );
    for (user, granted) in USERS {
        let name = user.trim_end_matches('!');
        let quoted = format!("'{name}'");
        server.sql(&format!("CREATE USER {quoted} IDENTIFIED BY 'secret'; {}", granted.replace("{}", &quoted)));
        let mut session = session(&server, name);
        let readable = compared(&mut session, user, !user.ends_with('!'));
        let is_any = !matches!(*user, "nothing" | "columns!");
        assert_eq!(is_any, !readable.is_empty(), "{user}: {readable:?}");
        session.exec("SET sql_mode = 'ANSI_QUOTES', sql_quote_show_create = 0").unwrap();
        assert!(compared(&mut session, user, false).len() <= readable.len(), "{user}");
    }
    // Roles are the session's.
    let mut session = session(&server, "active");
    assert_eq!(compared(&mut session, "active", true), ["shop.b", "shop_1.a", "shop_1.b"]);
    session.exec("SET ROLE NONE").unwrap();
    assert!(compared(&mut session, "active without a role", true).is_empty());
    server.sql("REVOKE SELECT ON shop.b FROM reader");
    session.exec("SET ROLE ALL").unwrap();
    assert_eq!(compared(&mut session, "active after REVOKE", true), ["shop_1.a", "shop_1.b"]);
    drop(session);

    server.sql(
        r"SET GLOBAL partial_revokes = ON;
         CREATE USER part IDENTIFIED BY 'secret'; GRANT SELECT, INSERT ON *.* TO part;
         REVOKE SELECT ON `log`.* FROM part; REVOKE INSERT ON shop.* FROM part;
         CREATE USER own IDENTIFIED BY 'secret'; GRANT SELECT ON `shop_1`.* TO own; GRANT SELECT ON `shop%`.* TO own",
    );
    let mut part = self::session(&server, "part");
    let readable = compared(&mut part, "part", true);
    assert!(readable.contains(&"shop.a".to_owned()) && !readable.contains(&"log.a".to_owned()), "{readable:?}");
    let readable = compared(&mut self::session(&server, "own"), "own", true);
    assert_eq!(readable, ["shop_1.a", "shop_1.b", "shop%.a", "shop%.b"], "letters, not patterns");
}
