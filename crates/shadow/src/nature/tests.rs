use super::*;

/// What differs by nature of this statement's answer, with columns of these names, in a session of this schema.
fn excused(sql: &str, schema: Option<&str>, names: &[&str]) -> Excused {
    let parsed = sql::parse(sql.as_bytes(), 0, &sql::Charsets::of_login(255).unwrap())
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert!(!matches!(parsed.statement, Statement::Refused(_)), "{sql}");
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    Nature::of(&parsed.statement, schema).over(&names)
}

#[test]
fn only_the_columns_that_a_value_reaches_are_excused() {
    let none = None;
    for (sql, names, columns) in [
        ("SELECT NOW(), id FROM t", &["NOW()", "id"][..], &[Some(TIME), none][..]),
        ("SELECT id, DATE_FORMAT(current_timestamp, '%Y') x, 1 FROM t", &["id", "x", "1"], &[none, Some(TIME), none]),
        (
            "SELECT *, UTC_DATE(), t.* FROM t",
            &["a", "b", "UTC_DATE()", "a", "b"],
            &[none, none, Some(TIME), none, none],
        ),
        (
            "SELECT UNIX_TIMESTAMP(), UNIX_TIMESTAMP(c), UNIX_TIMESTAMP(NOW(6))",
            &["a", "b", "c"],
            &[Some(TIME), none, Some(TIME)],
        ),
        ("SELECT RAND(), RAND(5), UUID()", &["a", "b", "c"], &[Some(CHANCE), none, Some(CHANCE)]),
        ("SELECT CONNECTION_ID(), DATABASE(), @v", &["a", "b", "c"], &[Some(CONNECTION), none, none]),
        ("SELECT DATABASE(), LEFT(USER(), 3), current_user", &["a", "b", "c"], &[none, Some(HOST), Some(HOST)]),
        (
            "SELECT VERSION(), LAST_INSERT_ID(), LAST_INSERT_ID(7), ROW_COUNT()",
            &["a", "b", "c", "d"],
            &[Some(VERSION), Some(OWN_WRITES), none, Some(OWN_WRITES)],
        ),
        (
            "SELECT @@version, @@global.port + 1, '@@port', @@warning_count",
            &["a", "b", "c", "d"],
            &[Some(SETTINGS), Some(SETTINGS), none, none],
        ),
        ("SELECT SLEEP(0), SOURCE_POS_WAIT('a', 4)", &["a", "b"], &[none, Some(REPLICATION)]),
        ("SHOW INDEX FROM t", &["Table", "Cardinality"], &[none, Some(ESTIMATES)]),
        ("SHOW TABLE STATUS", &["Name", "Engine", "Rows", "Create_time"], &[none, none, Some(FILES), Some(FILES)]),
        ("SHOW FULL COLUMNS FROM t", &["Field", "Privileges"], &[none, Some(ACCOUNTS)]),
        ("SHOW COLUMNS FROM t", &["Field", "Privileges"], &[none, none]),
        ("SELECT * FROM information_schema.TABLES", &["TABLE_NAME", "TABLE_ROWS"], &[none, Some(FILES)]),
        (
            "SELECT table_rows + 1 n, table_name FROM information_schema.tables",
            &["n", "TABLE_NAME"],
            &[Some(FILES), none],
        ),
        ("SELECT * FROM INFORMATION_SCHEMA.STATISTICS", &["TABLE_NAME", "CARDINALITY"], &[none, Some(ESTIMATES)]),
        ("SELECT * FROM information_schema.COLUMNS", &["COLUMN_NAME", "PRIVILEGES"], &[none, Some(ACCOUNTS)]),
        ("SELECT * FROM information_schema.VIEWS", &["TABLE_NAME", "TABLE_ROWS"], &[none, none]),
        ("SHOW CREATE TABLE t", &["Table", "Create Table"], &[none, Some(NEXT_NUMBER)]),
        // Of a view.
        ("SHOW CREATE TABLE t", &["View", "Create View", "character_set_client", "collation_connection"], &[none; 4]),
        ("SELECT @@character_set_database, @@global.collation_database", &["a", "b"], &[none, Some(SETTINGS)]),
        // Of the session: both begin with the source's, and both run each SET.
        (
            "SELECT @@sql_mode, @@session.autocommit, @@global.sql_mode, @@character_set_results, @@timestamp, @@lock_wait_timeout",
            &["a", "b", "c", "d", "e", "f"],
            &[none, none, Some(SETTINGS), none, Some(SETTINGS), Some(SETTINGS)],
        ),
        ("SET @a = NOW()", &[], &[]),
        // Not the columns that it has.
        ("SELECT NOW(), id FROM t", &["id"], &[none]),
        ("SELECT *, NOW(), t.* FROM t", &["a", "b", "c", "d"], &[none; 4]),
    ] {
        assert_eq!(excused(sql, Some("shop"), names), Excused { whole: None, columns: columns.to_vec() }, "{sql}");
    }
}

#[test]
fn what_chooses_rows_excuses_them_all() {
    let schema = Some("information_schema");
    for (sql, whole) in [
        ("SELECT id FROM t WHERE a > NOW()", Whole::Chosen(TIME)),
        ("SELECT id FROM t WHERE a = 1 AND b IN (1, @@server_id)", Whole::Chosen(SETTINGS)),
        ("SELECT id FROM t ORDER BY RAND()", Whole::Chosen(CHANCE)),
        ("SELECT UUID() x, id FROM t ORDER BY id, X", Whole::Chosen(CHANCE)),
        ("SELECT TABLE_NAME, TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_ROWS > 5", Whole::Chosen(FILES)),
        ("SELECT TABLE_NAME, TABLE_SCHEMA FROM information_schema.TABLES ORDER BY DATA_LENGTH", Whole::Chosen(FILES)),
        ("SHOW TABLE STATUS WHERE Data_length > 5", Whole::Chosen(FILES)),
        ("SHOW COLUMNS FROM t WHERE Field = USER()", Whole::Chosen(HOST)),
        ("SHOW DATABASES", Whole::Schemas(SCHEMAS)),
        ("SHOW GLOBAL VARIABLES LIKE 'a%'", Whole::Own(SETTINGS)),
        ("SHOW STATUS", Whole::Own(COUNTERS)),
        ("SHOW GRANTS", Whole::Own(ACCOUNTS)),
        ("SHOW ENGINES", Whole::Own(ENGINES)),
        ("SHOW PLUGINS", Whole::Own(PLUGINS)),
        ("SHOW ENGINE INNODB STATUS", Whole::Own(COUNTERS)),
        ("SHOW FULL PROCESSLIST", Whole::Own(SESSIONS)),
        ("SHOW REPLICA STATUS", Whole::Own(REPLICATION)),
        ("SHOW REPLICAS", Whole::Own(REPLICATION)),
        ("SHOW BINARY LOGS", Whole::Own(LOGS)),
        ("SHOW BINARY LOG STATUS", Whole::Own(LOGS)),
        ("SHOW RELAYLOG EVENTS", Whole::Own(LOGS)),
        ("SELECT * FROM performance_schema.threads", Whole::Own(COUNTERS)),
        ("SELECT a FROM processlist", Whole::Own(SESSIONS)),
        ("SELECT a FROM information_schema.innodb_trx", Whole::Own(COUNTERS)),
        ("SELECT SCHEMA_NAME FROM information_schema.schemata", Whole::Schemas(SCHEMAS)),
        ("SELECT 1, 2 FROM schemata WHERE schema_name <> 'shop'", Whole::Schemas(SCHEMAS)),
        ("SELECT 1, 2 FROM schemata WHERE schema_name IN ('shop', 'Sys')", Whole::Schemas(SCHEMAS)),
        ("SELECT SCHEMA_NAME, 1 FROM information_schema.schemata LIMIT 2", Whole::Own(SCHEMAS)),
        ("SELECT a FROM information_schema.user_privileges", Whole::Own(ACCOUNTS)),
    ] {
        let found = excused(sql, schema, &["a", "b"][..if sql.starts_with("SELECT a ") { 1 } else { 2 }]).whole;
        assert_eq!(found, Some(whole), "{sql}");
    }
    for sql in [
        "SELECT 1, 2 FROM schemata WHERE 1 = 1 AND schema_name = 'shop'",
        "SELECT 1, 2 FROM schemata s WHERE s.schema_name IN ('shop', 'cart')",
    ] {
        assert_eq!(excused(sql, schema, &["1", "2"]).whole, None, "{sql}");
    }
    // By number, as the answer's columns say.
    for (sql, names, whole) in [
        ("SELECT *, UUID() FROM t ORDER BY 3", &["a", "b", "u"], Some(Whole::Chosen(CHANCE))),
        ("SELECT *, UUID() FROM t ORDER BY 1", &["a", "b", "u"], None),
        ("SELECT * FROM information_schema.TABLES ORDER BY 2", &["a", "TABLE_ROWS", "b"], Some(Whole::Chosen(FILES))),
        // An alias goes before a column.
        ("SELECT TABLE_NAME AS TABLE_ROWS, 1, 2 FROM TABLES ORDER BY TABLE_ROWS", &["TABLE_ROWS", "1", "2"], None),
    ] {
        assert_eq!(excused(sql, schema, names).whole, whole, "{sql}");
    }
}

#[test]
fn tables_are_those_of_the_schema_that_is_meant() {
    let own = |sql: &str, schema: Option<&str>| excused(sql, schema, &["TABLE_ROWS"]).why();
    assert_eq!(own("SELECT TABLE_ROWS FROM TABLES", Some("information_schema")), Some(FILES));
    assert_eq!(own("SELECT TABLE_ROWS FROM TABLES", Some("shop")), None);
    assert_eq!(own("SELECT TABLE_ROWS FROM shop.TABLES", Some("information_schema")), None);
    assert_eq!(own("SELECT TABLE_ROWS FROM PROCESSLIST", None), None);
    assert_eq!(own("SELECT TABLE_ROWS FROM threads", Some("performance_schema")), Some(COUNTERS));
}
