//! Definitions after statements as logs have them, against what the server (9.7.4) printed of the same objects.

use catalog::{Catalog, Definition, DefinitionKind, Older, Recorded, StatementContext};

fn context(gtid: usize) -> StatementContext {
    let gtid = format!("g:{gtid}");
    StatementContext {
        default_db: "d".into(),
        gtid,
        server_version: Some(90_704),
        timestamp_us: Some(1_700_000_000_000_000),
        ..StatementContext::default()
    }
}

/// A catalog of a source that a copy has read: it has this account.
fn copied() -> Catalog {
    let recorded = |text: &str| Recorded { text: text.into(), ..Recorded::default() };
    let root = "CREATE USER `root`@`localhost` IDENTIFIED WITH 'caching_sha2_password' REQUIRE NONE PASSWORD EXPIRE DEFAULT \
         ACCOUNT UNLOCK PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT DEFAULT";
    Catalog::new(0).with_definitions(
        vec![Definition {
            kind: DefinitionKind::User,
            db: String::new(),
            name: "root@localhost".into(),
            table: None,
            made: Some(recorded(root)),
            later: [recorded("GRANT EXECUTE, ALTER ROUTINE ON *.* TO `root`@`localhost`")].into_iter().collect(),
            order: None,
        }],
        true,
    )
}

fn after(catalog: &Catalog, statements: &[&str]) -> Catalog {
    statements.iter().enumerate().fold(catalog.clone(), |catalog, (index, sql)| {
        catalog.apply(&context(index), sql.as_bytes()).unwrap_or_else(|error| panic!("{error}")).catalog
    })
}

fn find<'a>(catalog: &'a Catalog, called: &str) -> &'a Definition {
    let (kind, name) = called.split_once(' ').unwrap();
    let is_it = |one: &&std::sync::Arc<Definition>| {
        let full = if one.db.is_empty() { one.name.clone() } else { format!("{}.{}", one.db, one.name) };
        one.kind.name() == kind && full == name
    };
    catalog.definitions().find(is_it).unwrap_or_else(|| panic!("no {called}"))
}

/// The statements that make an object, without what CREATE USER says of every account.
fn shown(catalog: &Catalog, called: &str) -> Vec<String> {
    let one = find(catalog, called);
    let text = |recorded: &Recorded| {
        recorded
            .text
            .replace(" PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT DEFAULT", "")
            .replace(" IDENTIFIED WITH 'caching_sha2_password'", "")
    };
    one.made.iter().chain(one.later.iter()).map(text).collect()
}

#[test]
fn whoever_keeps_grants_is_told_of_each_statement_about_accounts() {
    let start = copied();
    let mut seen = vec![start.last_account_statement().to_owned()];
    let mut catalog = start;
    for (number, (sql, is_one)) in [
        ("CREATE TABLE t (a INT)", false),
        ("CREATE USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password' AS 'x'", true),
        ("GRANT SELECT ON *.* TO 'a'@'%'", true),
        ("CREATE VIEW v AS SELECT 1", false),
        ("REVOKE SELECT ON `d`.* FROM 'a'@'%'", true),
        ("CREATE ROLE 'r'@'%'", true),
        ("GRANT 'r'@'%' TO 'a'@'%'", true),
        ("ALTER USER 'a'@'%' DEFAULT ROLE 'r'@'%'", true),
        ("GRANT FROM THE FUTURE TO 'a'@'%'", true),
        ("DROP DATABASE d", false),
        ("DROP USER 'a'@'%'", true),
    ]
    .into_iter()
    .enumerate()
    {
        catalog = catalog.apply(&context(number), sql.as_bytes()).unwrap().catalog;
        let last = catalog.last_account_statement();
        assert_eq!(!seen.iter().any(|before| before == last), is_one, "{sql}");
        seen.push(last.to_owned());
    }
    let answered = catalog.with_definitions(Vec::new(), false);
    assert_eq!(answered.last_account_statement(), catalog.last_account_statement());
}

fn unsettled(catalog: &Catalog) -> Vec<String> {
    catalog.unsettled_definitions().map(|one| format!("{} {} {}", one.kind.name(), one.name, one.gtid)).collect()
}

/// Statements about `a`@`%`, and what SHOW CREATE USER and SHOW GRANTS print then.
#[test]
fn accounts_are_what_statements_make_of_them() {
    let hash = "IDENTIFIED WITH 'caching_sha2_password' AS 'h1'";
    let plain = "CREATE USER `a`@`%` REQUIRE NONE PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK";
    let usage = "GRANT USAGE ON *.* TO `a`@`%`";
    let role = "CREATE USER `a`@`%` REQUIRE NONE PASSWORD EXPIRE ACCOUNT LOCK";
    let create = "CREATE USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password'";
    let cases: &[(&[&str], &[&str])] = &[
        (&[create], &[plain, usage]),
        // IF NOT EXISTS of an account that exists changes nothing, several accounts in one statement are several.
        (
            &[
                create,
                "CREATE USER IF NOT EXISTS 'b'@'%' IDENTIFIED WITH 'x','a'@'%' IDENTIFIED WITH 'sha256_password' AS 'x' REQUIRE SSL",
            ],
            &[plain, usage],
        ),
        (&[create, "create role if not exists a, c"], &[plain, usage]),
        (&["create role a"], &[role, usage]),
        (&["create role a", "CREATE USER IF NOT EXISTS 'a'@'%' IDENTIFIED WITH 'x'"], &[role, usage]),
        (&[create, "drop user a", "create role b, A, a"], &[role, usage]),
        (
            &[
                "CREATE USER 'b'@'h%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$0\\'x','a'@'%' IDENTIFIED WITH 'sha256_password' AS 0x4100 \
                 REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 5 MAX_USER_CONNECTIONS 3 PASSWORD EXPIRE INTERVAL 30 DAY ACCOUNT LOCK PASSWORD HISTORY 4 \
                 PASSWORD REUSE INTERVAL 5 DAY PASSWORD REQUIRE CURRENT OPTIONAL FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME UNBOUNDED \
                 COMMENT 'hel\\'lo \\\"q\\\" \\\\ x'",
                "ALTER USER 'a'@'%' ATTRIBUTE '{\\\"y\\\": 2, \\\"x\\\":null}'",
            ],
            &[
                "CREATE USER `a`@`%` IDENTIFIED WITH 'sha256_password' AS 0x4100 REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 5 \
                 MAX_USER_CONNECTIONS 3 PASSWORD EXPIRE INTERVAL 30 DAY ACCOUNT LOCK PASSWORD HISTORY 4 PASSWORD REUSE INTERVAL 5 DAY \
                 PASSWORD REQUIRE CURRENT OPTIONAL FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME UNBOUNDED \
                 ATTRIBUTE '{\"y\": 2, \"comment\": \"hel''lo \\\\\"q\\\\\" \\\\\\\\ x\"}'",
                usage,
            ],
        ),
        // Two passwords; a new one without RETAIN keeps the old one, another plugin does not.
        (
            &[
                &format!("ALTER USER 'a'@'%' {hash}"),
                "ALTER USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password' AS 'h2' RETAIN CURRENT PASSWORD",
                "ALTER USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password' AS 'h3'",
            ],
            &[
                "CREATE USER `a`@`%` AS 0x6831 REQUIRE NONE PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK",
                "ALTER USER `a`@`%` AS 0x6833 RETAIN CURRENT PASSWORD",
                usage,
            ],
        ),
        (
            &[
                &format!("ALTER USER 'a'@'%' {hash}"),
                "ALTER USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password' AS 'h2' RETAIN CURRENT PASSWORD",
                "ALTER USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password'",
            ],
            &["CREATE USER `a`@`%` REQUIRE NONE PASSWORD EXPIRE ACCOUNT UNLOCK", usage],
        ),
        (
            &["ALTER USER 'a'@'%' PASSWORD EXPIRE", "ALTER USER 'a'@'%' PASSWORD EXPIRE INTERVAL 40 DAY"],
            &[
                "CREATE USER `a`@`%` REQUIRE NONE PASSWORD EXPIRE INTERVAL 40 DAY ACCOUNT UNLOCK",
                "ALTER USER `a`@`%` PASSWORD EXPIRE",
                usage,
            ],
        ),
        (
            &[
                "ALTER USER 'a'@'%' PASSWORD EXPIRE NEVER",
                "ALTER USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password' PASSWORD EXPIRE INTERVAL 30 DAY",
            ],
            &[
                "CREATE USER `a`@`%` REQUIRE NONE PASSWORD EXPIRE NEVER ACCOUNT UNLOCK",
                "ALTER USER `a`@`%` PASSWORD EXPIRE",
                usage,
            ],
        ),
        (
            &["ALTER USER 'a'@'%' PASSWORD EXPIRE", "ALTER USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password' AS ''"],
            &[plain, usage],
        ),
        (
            &["ALTER USER 'a'@'%' REQUIRE SUBJECT 'a' ISSUER 'b'", "ALTER USER 'a'@'%' WITH MAX_UPDATES_PER_HOUR 3"],
            &[
                "CREATE USER `a`@`%` REQUIRE SUBJECT 'a' ISSUER 'b' WITH MAX_UPDATES_PER_HOUR 3 PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK",
                usage,
            ],
        ),
        (&[create, "rename user a to b, b to a"], &[plain, usage]),
        // Roles.
        (
            &[
                "create role q1, q2, q3@h",
                "grant q1 to a with admin option",
                "grant q2, q3@H to a",
                "alter user a default role q1, q3@h",
                "drop role q3@h",
            ],
            &[
                plain,
                usage,
                "GRANT `q2`@`%` TO `a`@`%`",
                "GRANT `q1`@`%` TO `a`@`%` WITH ADMIN OPTION",
                "ALTER USER `a`@`%` DEFAULT ROLE `q1`@`%`",
            ],
        ),
        (
            &[
                "create role q1, q2",
                "grant q1 to a with admin option",
                "grant q1, q2 to a",
                "set default role all to a",
                "revoke q2 from a",
            ],
            &[plain, usage, "GRANT `q1`@`%` TO `a`@`%` WITH ADMIN OPTION", "ALTER USER `a`@`%` DEFAULT ROLE `q1`@`%`"],
        ),
        (
            &[
                "drop user a",
                "create role ro",
                "CREATE USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password' DEFAULT ROLE `ro`@`%`",
                "set default role none to a",
            ],
            &[plain, usage, "GRANT `ro`@`%` TO `a`@`%`"],
        ),
        // Grants.
        (
            &[
                "GRANT SELECT, INSERT (`a`, `b`), UPDATE (`b`) ON `d`.`t` TO 'a'@'%' WITH GRANT OPTION",
                "GRANT SELECT (`a`) ON `d`.`t` TO 'a'@'%'",
                "revoke insert(b) on d.t from a",
            ],
            &[
                plain,
                usage,
                "GRANT SELECT, SELECT (`a`), INSERT (`a`), UPDATE (`b`) ON `d`.`t` TO `a`@`%` WITH GRANT OPTION",
            ],
        ),
        (
            &[
                "GRANT SELECT (`a`, `b`), UPDATE (`b`) ON `d`.`t` TO 'a'@'%'",
                "revoke select on t from a",
                "revoke usage on *.* from a",
            ],
            &[plain, usage, "GRANT UPDATE (`b`) ON `d`.`t` TO `a`@`%`"],
        ),
        (
            &[
                "GRANT ALL PRIVILEGES ON `d`.`t` TO 'a'@'%' WITH GRANT OPTION",
                "revoke all on d.t from a",
                "GRANT ALL PRIVILEGES ON `d_\\_%`.* TO 'b'@'%','a'@'%'",
            ],
            &[
                plain,
                usage,
                "GRANT ALL PRIVILEGES ON `d_\\_%`.* TO `a`@`%`",
                "GRANT USAGE ON `d`.`t` TO `a`@`%` WITH GRANT OPTION",
            ],
        ),
        (
            &[
                "GRANT SELECT, REPLICATION SLAVE, CREATE TEMPORARY TABLES ON *.* TO 'a'@'%' WITH GRANT OPTION",
                "GRANT BACKUP_ADMIN, CLONE_ADMIN ON *.* TO 'a'@'%' WITH GRANT OPTION",
                "GRANT CLONE_ADMIN, XA_RECOVER_ADMIN ON *.* TO 'a'@'%'",
                "revoke select, grant option on *.* from a",
                "revoke backup_admin on *.* from a",
            ],
            &[
                plain,
                "GRANT CREATE TEMPORARY TABLES, REPLICATION SLAVE ON *.* TO `a`@`%`",
                "GRANT XA_RECOVER_ADMIN ON *.* TO `a`@`%`",
                "GRANT CLONE_ADMIN ON *.* TO `a`@`%` WITH GRANT OPTION",
            ],
        ),
        (
            &[
                "GRANT SELECT ON `d`.* TO 'a'@'%'",
                "GRANT INSERT ON `d`.`t` TO 'a'@'%'",
                "GRANT SELECT ON *.* TO 'a'@'%' WITH GRANT OPTION",
                "revoke all on *.* from a",
            ],
            &[plain, usage],
        ),
        (
            &[
                "create role q1",
                "grant q1 to a",
                "GRANT PROXY ON 'b'@'%' TO 'a'@'%' WITH GRANT OPTION",
                "GRANT SELECT ON `d`.* TO 'a'@'%'",
                "revoke all, grant option from a",
            ],
            &[
                plain,
                usage,
                "GRANT PROXY ON `b`@`%` TO `a`@`%` WITH GRANT OPTION",
                "REVOKE GRANT OPTION ON *.* FROM `a`@`%`",
                "GRANT `q1`@`%` TO `a`@`%`",
            ],
        ),
        (
            &["GRANT PROXY ON 'b'@'%' TO 'a'@'%' WITH GRANT OPTION", "revoke proxy on b from a"],
            &[plain, "GRANT USAGE ON *.* TO `a`@`%` WITH GRANT OPTION"],
        ),
        (
            &[
                "GRANT EXECUTE ON PROCEDURE `d`.`Pp` TO 'a'@'%'",
                "GRANT ALL PRIVILEGES ON LIBRARY `d`.`l` TO 'a'@'%'",
                "GRANT EXECUTE ON FUNCTION `d`.`f` TO 'a'@'%'",
                "drop function if exists d.F",
                "GRANT EXECUTE ON PROCEDURE `d`.`gone` TO 'a'@'%'",
                "drop procedure gone",
            ],
            &[
                plain,
                usage,
                "GRANT EXECUTE ON PROCEDURE `d`.`pp` TO `a`@`%`",
                "GRANT EXECUTE, ALTER ROUTINE ON LIBRARY `d`.`l` TO `a`@`%`",
            ],
        ),
        // Parts of global privileges.
        (
            &[
                "GRANT SELECT, INSERT ON *.* TO 'a'@'%' AS 'root'@'localhost' WITH ROLE NONE",
                "revoke select on d.* from a",
                "GRANT INSERT, SELECT ON `d`.* TO 'a'@'%'",
            ],
            &[plain, "GRANT SELECT, INSERT ON *.* TO `a`@`%`", "GRANT INSERT ON `d`.* TO `a`@`%`"],
        ),
        (
            &[
                "GRANT SELECT, INSERT ON *.* TO 'a'@'%'",
                "revoke select, insert on d.* from a",
                "GRANT SELECT ON *.* TO 'a'@'%' AS 'root'@'localhost' WITH ROLE NONE",
                "GRANT DELETE ON `d`.* TO 'a'@'%'",
            ],
            &[
                plain,
                "GRANT SELECT, INSERT ON *.* TO `a`@`%`",
                "GRANT DELETE ON `d`.* TO `a`@`%`",
                "REVOKE INSERT ON `d`.* FROM `a`@`%`",
            ],
        ),
    ];
    for (statements, wanted) in cases {
        let begun = if statements.first() == Some(&create)
            || statements[0].contains("'a'@'%' IDENTIFIED WITH 'sha256")
            || statements[0] == "create role a"
        {
            copied()
        } else {
            after(&copied(), &[create, "CREATE USER 'b'@'%' IDENTIFIED WITH 'caching_sha2_password'"])
        };
        let catalog = after(&begun, statements);
        assert!(unsettled(&catalog).is_empty(), "{statements:?}: {:?}", unsettled(&catalog));
        assert_eq!(shown(&catalog, "USER a@%"), *wanted, "{statements:?}");
        let kept = Catalog::from_json(&catalog.to_json().unwrap()).unwrap();
        assert!(kept.definitions().eq(catalog.definitions()), "{statements:?}");
    }
}

/// Names are UTF-8 in what the server writes again; strings are the client's bytes, taken for UTF-8.
#[test]
fn a_clients_character_set_is_that_of_names_alone() {
    let latin1 = StatementContext { collation_client: Some(8), ..context(0) };
    let mut catalog = copied();
    for sql in [
        &b"CREATE USER IF NOT EXISTS 'l\xc3\xa9'@'%' IDENTIFIED WITH 'caching_sha2_password' COMMENT 'caf\xe9 \xc3\xa9'"[..],
        b"create role 'r\xe9'",
        b"grant 'r\xe9' to 'l\xe9'",
    ] {
        catalog = catalog.apply(&latin1, sql).unwrap().catalog;
    }
    let account = shown(&catalog, "USER l\u{e9}@%");
    assert!(account[0].ends_with("ATTRIBUTE '{\"comment\": \"caf? \u{e9}\"}'"), "{account:?}");
    assert_eq!(account[2], "GRANT `r\u{e9}`@`%` TO `l\u{e9}`@`%`");
}

/// What the log alone does not tell is asked of the source.
#[test]
fn what_is_not_understood_is_told() {
    let create = "CREATE USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password'";
    for (statements, wanted) in [
        (&[create, "GRANT ALL PRIVILEGES ON *.* TO 'a'@'%' WITH GRANT OPTION"][..], &["USER a@% g:1"][..]),
        (&[create, "GRANT ALL PRIVILEGES ON *.* TO 'a'@'%'", "DROP USER a"], &[]),
        (&[create, "GRANT ALL PRIVILEGES ON *.* TO 'a'@'%'", "GRANT SELECT ON d.* TO a"], &["USER a@% g:2"]),
        (&["GRANT SELECT ON d.* TO x, y"], &["USER x@% g:0", "USER y@% g:0"]),
        (&["ALTER USER IF EXISTS 'nobody'@'%' ACCOUNT LOCK"], &[]),
        (&["revoke if exists select on d.* from x ignore unknown user"], &[]),
        (&[create, "ALTER USER a IDENTIFIED BY 'in the clear', x"], &["USER a@% g:1", "USER x@% g:1"]),
        (&[create, "ALTER USER a WONDER"], &["USER a@% g:1"]),
        (&["ALTER USER (WONDER)"], &["USER  g:0"]),
        (
            &[
                create,
                "GRANT SELECT, INSERT ON *.* TO a",
                "GRANT SELECT ON d.* TO a",
                "revoke select, insert on d.* from a",
            ],
            &["USER a@% g:3"],
        ),
        (&["ALTER EVENT e DISABLE", "ALTER EVENT e RENAME TO f"], &["EVENT f g:1"]),
        (&["ALTER PROCEDURE p COMMENT 'x'", "DROP PROCEDURE p"], &[]),
        (&["CREATE TRIGGER t WONDER"], &["TRIGGER t g:0"]),
    ] {
        let catalog = after(&copied(), statements);
        assert_eq!(unsettled(&catalog), wanted, "{statements:?}");
        let text = String::from_utf8(catalog.to_json().unwrap()).unwrap();
        assert!(!text.contains("clear"), "{text}");
        let kept = Catalog::from_json(text.as_bytes()).unwrap();
        assert_eq!(unsettled(&kept), wanted, "{statements:?}");
    }
    // Without a copy nothing says that an object is new.
    let statements = ["CREATE USER IF NOT EXISTS 'a'@'%' ACCOUNT LOCK", "CREATE VIEW IF NOT EXISTS v AS SELECT 1"];
    assert_eq!(unsettled(&after(&Catalog::new(0), &statements)), ["USER a@% g:0", "VIEW v g:1"]);
    assert!(unsettled(&after(&copied(), &statements[1..])).is_empty());
}

#[test]
fn programs_and_views_are_as_last_stated() {
    let catalog = after(
        &copied(),
        &[
            "CREATE DATABASE d",
            "CREATE DATABASE e",
            "CREATE TABLE t (a INT)",
            "CREATE ALGORITHM=UNDEFINED DEFINER=`trigger`@`view` SQL SECURITY DEFINER VIEW `v` AS select a from t",
            "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW IF NOT EXISTS `v` AS select 3",
            "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW IF NOT EXISTS `t` AS select 3",
            "CREATE OR REPLACE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v2` AS select 5 AS five",
            "ALTER ALGORITHM=TEMPTABLE DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v2` (`c1`) AS select 2",
            "rename table v to tmp, v2 to v, tmp to v2",
            "CREATE DEFINER=`root`@`localhost` trigger tr before insert on t for each row set new.a=1",
            "CREATE DEFINER=`root`@`localhost` trigger tr0 before insert on t for each row precedes tr set new.a=2",
            "CREATE DEFINER=`root`@`localhost` trigger if not exists tr before insert on t for each row set new.a=3",
            "rename table t to `t t`",
            "CREATE DEFINER=`root`@`localhost` PROCEDURE `p`(a int)\n    COMMENT 'x'\nselect a",
            "CREATE DEFINER=`root`@`localhost` PROCEDURE IF NOT EXISTS `p`()\nselect 2",
            "alter procedure P comment 'yy' sql security invoker",
            "CREATE DEFINER=`root`@`localhost` event e on schedule every 1 day do select 1",
            "CREATE DEFINER=`root`@`localhost` event if not exists e on schedule every 2 day do select 3",
            "alter event e disable on slave",
            "alter event e rename to e.w",
            "CREATE DEFINER=`root`@`localhost` event e on schedule every 3 day do select 1",
            "alter event e rename to e2 comment 'rename to x' do select 'rename to y'",
            "CREATE LIBRARY `l`\n    LANGUAGE javascript\nAS $$ export function f(a) { return a } // trigger tr before insert on t $$",
            "CREATE LIBRARY IF NOT EXISTS `l`\n    LANGUAGE javascript\nAS $$ // view v $$",
            "drop view if exists nothing",
            "CREATE FUNCTION f RETURNS STRING SONAME 'x.so'",
        ],
    );
    assert!(unsettled(&catalog).is_empty(), "{:?}", unsettled(&catalog));
    // It was renamed as the table that it is.
    assert!(catalog.table("d", "t t").is_some() && catalog.table("d", "t").is_none());
    for (called, wanted) in [
        (
            "VIEW d.v2",
            &[
                "CREATE ALGORITHM=UNDEFINED DEFINER=`trigger`@`view` SQL SECURITY DEFINER VIEW `d`.`v2` AS select a from t",
            ][..],
        ),
        (
            "VIEW d.v",
            &[
                "CREATE ALGORITHM=TEMPTABLE DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `d`.`v` (`c1`) AS select 2",
            ],
        ),
        (
            "TRIGGER d.tr",
            &["CREATE DEFINER=`root`@`localhost` trigger `d`.`tr` before insert on `d`.`t t` for each row set new.a=1"],
        ),
        (
            "TRIGGER d.tr0",
            &[
                "CREATE DEFINER=`root`@`localhost` trigger `d`.`tr0` before insert on `d`.`t t` for each row  set new.a=2",
            ],
        ),
        (
            "PROCEDURE d.p",
            &[
                "CREATE DEFINER=`root`@`localhost` PROCEDURE `d`.`p`(a int)\n    COMMENT 'x'\nselect a",
                "alter procedure `d`.`p` comment 'yy' sql security invoker",
            ],
        ),
        (
            "EVENT e.w",
            &[
                "CREATE DEFINER=`root`@`localhost` event `e`.`w` on schedule every 1 day do select 1",
                "alter event `e`.`w` disable on slave",
            ],
        ),
        (
            "EVENT d.e2",
            &[
                "CREATE DEFINER=`root`@`localhost` event `d`.`e2` on schedule every 3 day do select 1",
                "alter event `d`.`e2`  comment 'rename to x' do select 'rename to y'",
            ],
        ),
        (
            "LIBRARY d.l",
            &[
                "CREATE LIBRARY `d`.`l`\n    LANGUAGE javascript\nAS $$ export function f(a) { return a } // trigger tr before insert on t $$",
            ],
        ),
    ] {
        assert_eq!(shown(&catalog, called), wanted, "{called}");
    }
    let others = catalog.definitions().filter(|one| one.kind != DefinitionKind::User);
    assert_eq!(others.count(), 8);
    assert_eq!((find(&catalog, "TRIGGER d.tr0").order, find(&catalog, "TRIGGER d.tr").order), (Some(1), Some(2)));
    let gone = after(&catalog, &["drop table `t t`", "drop database e", "drop library l", "drop view v, d.v2"]);
    let left: Vec<String> = gone.definitions().map(|one| format!("{} {}", one.kind.name(), one.name)).collect();
    assert_eq!(left, ["USER root@localhost", "PROCEDURE p", "EVENT e2"]);
}

/// A folder of an earlier version kept statements as they came; also those that did nothing.
#[test]
fn what_earlier_versions_kept_is_read() {
    let kept = |gtid: &str, text: &str| Recorded { text: text.into(), gtid: gtid.into(), ..Recorded::default() };
    let user = |name: &str, made: Option<Recorded>, later: Vec<Recorded>| Definition {
        kind: DefinitionKind::User,
        db: String::new(),
        name: name.into(),
        table: None,
        made,
        later: later.into_iter().collect(),
        order: None,
    };
    let both = "CREATE USER 'a'@'H',\"a@b\"@'%' IDENTIFIED WITH 'sha256_password' AS 'x' ACCOUNT LOCK";
    let before = Catalog::new(0).with_definitions(
        vec![
            user("a@H", Some(kept("g:1", both)), vec![kept("g:2", "GRANT SELECT ON d.* TO a@h, z")]),
            user("a@b@%", Some(kept("g:1", both)), vec![kept("g:3", "rename user \"a@b\" to c")]),
            user("c@%", Some(kept("g:1", "CREATE USER IF NOT EXISTS 'c'@'%' IDENTIFIED WITH 'x' AS 'y'")), Vec::new()),
            user("old@%", None, vec![kept("g:4", "GRANT SELECT ON d.* TO old")]),
            user("clear@%", Some(kept("g:5", "CREATE USER clear IDENTIFIED BY 'x'")), Vec::new()),
        ],
        false,
    );
    assert_eq!(
        shown(&before, "USER a@h"),
        [
            "CREATE USER `a`@`h` REQUIRE NONE PASSWORD EXPIRE DEFAULT ACCOUNT LOCK",
            "GRANT USAGE ON *.* TO `a`@`h`",
            "GRANT SELECT ON `d`.* TO `a`@`h`"
        ]
    );
    let open = unsettled(&before);
    for name in ["USER c@% g:1", "USER old@% g:4", "USER clear@% g:5"] {
        assert!(open.contains(&name.to_owned()), "{open:?}");
    }
}

const SOURCE: &str = "aaaaaaaa-0000-0000-0000-000000000001";

/// Applies statements under GTIDs from this number on.
fn replayed(catalog: &Catalog, first: usize, statements: &[&str]) -> Catalog {
    statements.iter().enumerate().fold(catalog.clone(), |catalog, (index, sql)| {
        let context = StatementContext { gtid: format!("{SOURCE}:{}", first + index), ..context(0) };
        let next = catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
        // A restart forgets nothing.
        Catalog::from_json(&next.to_json().unwrap()).unwrap()
    })
}

fn names(catalog: &Catalog) -> Vec<String> {
    catalog.unsettled_definitions().map(|one| format!("{} {}", one.kind.name(), one.name)).collect()
}

/// An answer is ahead of replay: statements in it are not applied again, those that may be are asked about again.
#[test]
fn an_answer_counts_from_the_moment_at_which_it_was_read() {
    let catalog = replayed(
        &copied(),
        1,
        &[
            "CREATE DATABASE d",
            "CREATE USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password','b'@'%' IDENTIFIED WITH 'caching_sha2_password'",
            "GRANT ALL PRIVILEGES ON *.* TO 'a'@'%','b'@'%'",
            "ALTER EVENT old DISABLE",
            "ALTER EVENT gone DISABLE",
        ],
    );
    assert_eq!(names(&catalog), ["USER a@%", "USER b@%", "EVENT gone", "EVENT old"]);
    let recorded = |text: &str| Recorded { text: text.into(), default_db: "d".into(), ..Recorded::default() };
    let user = |name: &str| Definition {
        kind: DefinitionKind::User,
        db: String::new(),
        name: format!("{name}@%"),
        table: None,
        made: Some(recorded(&format!("CREATE USER `{name}`@`%` IDENTIFIED WITH 'caching_sha2_password'"))),
        later: [recorded(&format!("GRANT SELECT, PROCESS ON *.* TO `{name}`@`%`"))].into_iter().collect(),
        order: None,
    };
    let event = Definition {
        kind: DefinitionKind::Event,
        db: "d".into(),
        name: "old".into(),
        table: None,
        made: Some(recorded(
            "CREATE DEFINER=`root`@`localhost` EVENT `old` ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1",
        )),
        later: catalog::Later::default(),
        order: None,
    };
    let asked = |catalog: &Catalog| {
        catalog.unsettled_definitions().map(|one| (one.kind, one.db.clone(), one.name.clone())).collect()
    };
    let answer = catalog::Answer {
        asked: asked(&catalog),
        older: Older::None,
        definitions: vec![user("a"), user("b"), event, user("not_asked")],
        before: format!("{SOURCE}:1-6").parse().unwrap(),
        after: format!("{SOURCE}:1-8").parse().unwrap(),
    };
    // One that a statement has changed since is asked again.
    let stale = catalog::Answer { before: format!("{SOURCE}:1-4").parse().unwrap(), ..answer.clone() };
    assert_eq!(names(&catalog.with_answer(&stale)), ["EVENT gone"]);
    let catalog = catalog.with_answer(&answer);
    assert!(names(&catalog).is_empty(), "{:?}", names(&catalog));
    let of = |catalog: &Catalog, name: &str| {
        find(catalog, &format!("USER {name}@%")).later.iter().next().unwrap().text.clone()
    };
    assert_eq!(of(&catalog, "a"), "GRANT SELECT, PROCESS ON *.* TO `a`@`%`");
    assert_eq!(catalog.definitions().count(), 4);
    // The source had executed these before.
    let catalog = replayed(&catalog, 6, &["revoke select on *.* from a"]);
    assert_eq!(of(&catalog, "a"), "GRANT SELECT, PROCESS ON *.* TO `a`@`%`");
    // And these while it was asked.
    let during = replayed(&catalog, 7, &["revoke select on *.* from a", "ALTER EVENT old ENABLE"]);
    assert_eq!(names(&during), ["USER a@%", "EVENT old"]);
    // And these since, of which nothing was in the answer.
    let later = replayed(&catalog, 9, &["revoke select on *.* from a, b", "ALTER EVENT old ENABLE", "DROP USER b"]);
    assert!(names(&later).is_empty(), "{:?}", names(&later));
    assert_eq!(of(&later, "a"), "GRANT PROCESS ON *.* TO `a`@`%`");
    assert_eq!(find(&later, "EVENT d.old").later.len(), 1);
    assert_eq!(later.definitions().count(), 3);
}

/// An answer about everything brings what the log does not hold, and nothing that has been removed since.
#[test]
fn what_is_older_than_the_log_comes_with_an_answer() {
    let begun =
        ["CREATE DATABASE d", "CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)", "CREATE PROCEDURE p() SELECT 1"];
    let catalog = replayed(&Catalog::new(0), 1, &begun);
    let one = |kind, name: &str, table: Option<&str>, text: &str| Definition {
        kind,
        db: "d".into(),
        name: name.into(),
        table: table.map(|table| ("d".into(), table.into())),
        made: Some(Recorded { text: text.into(), default_db: "d".into(), ..Recorded::default() }),
        later: catalog::Later::default(),
        order: table.map(|_| 1),
    };
    let answer = catalog::Answer {
        older: Older::All,
        definitions: vec![
            one(DefinitionKind::Procedure, "p", None, "CREATE PROCEDURE p() SELECT 2"),
            one(DefinitionKind::Procedure, "old", None, "CREATE PROCEDURE old() SELECT 3"),
            one(DefinitionKind::View, "v", None, "CREATE VIEW v AS SELECT 4"),
            one(
                DefinitionKind::Trigger,
                "on_t",
                Some("t"),
                "CREATE TRIGGER on_t BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
            ),
            one(
                DefinitionKind::Trigger,
                "gone",
                Some("u"),
                "CREATE TRIGGER gone BEFORE INSERT ON u FOR EACH ROW SET @a = 1",
            ),
        ],
        before: format!("{SOURCE}:1-5").parse().unwrap(),
        after: format!("{SOURCE}:1-6").parse().unwrap(),
        ..catalog::Answer::default()
    };
    for removing in ["DROP PROCEDURE old", "DROP USER u", "DROP DATABASE e", "RENAME TABLE t TO t2"] {
        let later = replayed(&replayed(&catalog, 4, &["CREATE DATABASE e"]), 5, &[removing]);
        assert!(later.takes(&answer), "{removing}");
        let context = StatementContext { gtid: format!("{SOURCE}:6"), ..context(0) };
        let later = replayed(&catalog, 5, &["CREATE DATABASE e"]).apply(&context, removing.as_bytes()).unwrap().catalog;
        let refused = later.with_answer(&answer);
        assert!(!later.takes(&answer) && !refused.knows_definitions(), "{removing}");
        assert_eq!(refused.definitions().count(), 1, "{removing}");
    }
    let context = StatementContext { gtid: format!("{SOURCE}:6"), ..context(0) };
    let catalog = catalog.apply(&context, b"DROP TABLE u").unwrap().catalog;
    let catalog = catalog.with_answer(&answer);
    assert!(catalog.knows_definitions());
    let all: Vec<&str> = catalog.definitions().map(|one| one.name.as_str()).collect();
    assert_eq!(all, ["old", "p", "v", "on_t"]);
    assert_eq!(shown(&catalog, "PROCEDURE d.p"), ["CREATE PROCEDURE `d`.`p`() SELECT 1"]);
    // The first two are in the answer, which replay has not reached yet.
    let catalog = replayed(
        &catalog,
        4,
        &[
            "DROP PROCEDURE old",
            "CREATE PROCEDURE old() SELECT 3",
            "RENAME TABLE v TO w",
            "ALTER PROCEDURE old COMMENT 'c'",
        ],
    );
    assert_eq!(
        shown(&catalog, "PROCEDURE d.old"),
        ["CREATE PROCEDURE `d`.`old`() SELECT 3", "ALTER PROCEDURE `d`.`old` COMMENT 'c'"]
    );
    assert!(catalog.is_view("d", "w") && !catalog.is_view("d", "v"));
}
