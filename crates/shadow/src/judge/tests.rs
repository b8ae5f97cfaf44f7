use sql::Charsets;
use wire::response::{ColumnDefinition, PrepareOk, status};
use wire::row::{Value, type_code};
use wire::server::{ColumnForm, ServerOk, put_binary_row, put_err, put_rows_end, put_text_row};

use super::*;
use crate::kind::known;

/// Words that once excused every answer to a statement in which they stood.
const WORDS: &[&str] = &[
    "NOW",
    "CURRENT_TIMESTAMP",
    "CURTIME",
    "CURRENT_TIME",
    "SYSDATE",
    "UTC_TIMESTAMP",
    "UTC_TIME",
    "UNIX_TIMESTAMP",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "RAND",
    "UUID",
    "UUID_SHORT",
    "RANDOM_BYTES",
    "CONNECTION_ID",
    "USER",
    "CURRENT_USER",
    "SESSION_USER",
    "SYSTEM_USER",
    "VERSION",
    "LAST_INSERT_ID",
    "ROW_COUNT",
    "FOUND_ROWS",
    "SLEEP",
    "PROCESSLIST",
    "DATABASES",
    "SCHEMAS",
    "SCHEMATA",
    "GLOBAL",
    "REPLICAS",
    "MASTER_POS_WAIT",
    "SOURCE_POS_WAIT",
    "INNODB_CMP",
    "INNODB_CMPMEM",
    "STATUS",
    "VARIABLES",
    "REPLICA",
    "SLAVE",
    "BINARY",
    "GRANTS",
    "PERFORMANCE_SCHEMA",
    "STATISTICS",
    "TABLE_ROWS",
    "ENGINES",
    "PLUGINS",
    "INDEX",
    "INDEXES",
    "KEYS",
];

/// Places of a word in a statement of two columns that differ in nothing by nature.
const PLACES: &[&str] = &[
    "SELECT `{}`, n FROM orders",
    "SELECT o.{}, n FROM orders o WHERE o.{} = 'a' ORDER BY o.`{}`",
    "SELECT c, n FROM `{}`",
    "SELECT * FROM shop.`{}`",
    "SELECT c AS `{}`, n FROM orders AS `{}`",
    "SELECT c '{}', n FROM orders WHERE c <> '{}()' AND c <> \"@@{}\"",
    "SELECT '{}', '@@{}'",
    "SELECT c, n FROM orders /* {}() @@{} */ WHERE n > 1 -- {}() @@{}",
    "SELECT @`{}`, n FROM orders",
    "SHOW COLUMNS FROM `{}`",
];

const FORMS: [Form; 4] = [
    Form { deprecates_eof: true, is_text: true },
    Form { deprecates_eof: true, is_text: false },
    Form { deprecates_eof: false, is_text: true },
    Form { deprecates_eof: false, is_text: false },
];

fn of(sql: &str) -> Known {
    known(sql.as_bytes(), 0, &Charsets::of_login(255).unwrap(), Some("shop"))
}

/// An answer that can be spoilt.
#[derive(Debug, Clone)]
struct Planned {
    /// Name, type and length.
    columns: Vec<(&'static str, u8, u32)>,
    rows: Vec<Vec<Value<'static>>>,
    warnings: u16,
}

impl Planned {
    /// Of texts and numbers.
    fn new(names: [&'static str; 2], rows: &[(&'static str, i64)]) -> Planned {
        let types = [(type_code::VAR_STRING, 80), (type_code::LONGLONG, 20)];
        let columns = names.into_iter().zip(types).map(|(name, (code, length))| (name, code, length)).collect();
        let rows = rows.iter().map(|(text, number)| vec![Value::Bytes(text.as_bytes()), Value::Int(*number)]).collect();
        Planned { columns, rows, warnings: 0 }
    }

    fn definitions(&self) -> Vec<ColumnDefinition<'_>> {
        let definition = |(name, type_code, length): &(&'static str, u8, u32)| ColumnDefinition {
            schema: b"shop",
            table: b"orders",
            org_table: b"orders",
            name: name.as_bytes(),
            org_name: name.as_bytes(),
            collation: 255,
            length: *length,
            type_code: *type_code,
            flags: 0,
            decimals: 0,
        };
        self.columns.iter().map(definition).collect()
    }

    fn sent(&self, form: Form) -> Answer {
        let definitions = self.definitions();
        let mut answer = vec![vec![u8::try_from(definitions.len()).unwrap()]];
        for definition in &definitions {
            let mut out = Vec::new();
            definition.write(&mut out);
            answer.push(out);
        }
        let capabilities = if form.deprecates_eof { wire::handshake::capability::DEPRECATE_EOF } else { 0 };
        let mut end = Vec::new();
        let ok = ServerOk { status: status::AUTOCOMMIT, warnings: self.warnings, ..ServerOk::default() };
        put_rows_end(&mut end, &ok, capabilities);
        if !form.deprecates_eof {
            answer.push(end.clone());
        }
        let forms: Vec<ColumnForm> = definitions.iter().map(ColumnForm::of).collect();
        for row in &self.rows {
            let mut out = Vec::new();
            match form.is_text {
                true => put_text_row(&mut out, &forms, row).unwrap(),
                false => put_binary_row(&mut out, &forms, row).unwrap(),
            }
            answer.push(out);
        }
        answer.push(end);
        answer
    }

    /// The same with a fault.
    fn with(&self, spoil: impl FnOnce(&mut Planned)) -> Planned {
        let mut spoilt = self.clone();
        spoil(&mut spoilt);
        spoilt
    }
}

/// What is wrong, and the answer with it.
fn faults(right: &Planned) -> Vec<(&'static str, Planned)> {
    vec![
        ("a value", right.with(|answer| answer.rows[1][0] = Value::Bytes(b"wrong"))),
        ("a number", right.with(|answer| answer.rows[0][1] = Value::Int(-1))),
        ("NULL", right.with(|answer| answer.rows[0][0] = Value::Null)),
        ("a row less", right.with(|answer| drop(answer.rows.pop()))),
        ("a row twice", right.with(|answer| answer.rows[1] = answer.rows[0].clone())),
        ("a name", right.with(|answer| answer.columns[0].0 = "d")),
        ("a type", right.with(|answer| answer.columns[0].1 = type_code::STRING)),
        ("a length", right.with(|answer| answer.columns[1].2 = 21)),
        ("a warning", right.with(|answer| answer.warnings = 1)),
    ]
}

fn refusal(code: u16, text: &str) -> Answer {
    let mut packet = Vec::new();
    put_err(&mut packet, code, "HY000", text);
    vec![packet]
}

#[test]
fn no_word_excuses_a_fault() {
    let right = Planned::new(["c", "n"], &[("a", 1), ("b", 2), ("c", 3)]);
    let mut found_of = 0;
    for place in PLACES {
        for (word, limit) in WORDS.iter().flat_map(|word| ["", " LIMIT 3"].map(|limit| (word, limit))) {
            let mut sql = place.replace("{}", &word.to_lowercase());
            if place.starts_with("SELECT") && !place.contains("--") {
                sql.push_str(limit);
            }
            let known = of(&sql);
            assert_eq!(known.nature.over(&[b"c", b"n"]).why(), None, "{sql}");
            for form in FORMS {
                let theirs = right.sent(form);
                assert_eq!(judged(&known, Some(&theirs), Some(&theirs), form), Found::Equal, "{sql}");
                for (what, wrong) in faults(&right) {
                    let ours = wrong.sent(form);
                    let mut found = judged(&known, Some(&theirs), Some(&ours), form);
                    if may_be_limit(&found, &known) {
                        // The rows that LIMIT chooses from are right; the choice is not among them.
                        assert!(known.limit.is_some(), "{sql}");
                        found = judged_without_limit(&known.nature, &ours, (&theirs, &theirs), form);
                    }
                    assert!(matches!(found, Found::Different(_)), "{what} of {sql}: {found:?}");
                    found_of += 1;
                }
                let ours = refusal(1054, &format!("Unknown column '{word}'"));
                let found = judged(&known, Some(&theirs), Some(&ours), form);
                assert!(matches!(found, Found::Different(_)), "{sql}: {found:?}");
            }
        }
    }
    assert_eq!(found_of, PLACES.len() * WORDS.len() * 2 * FORMS.len() * 9);
}

#[test]
fn an_excuse_reaches_its_column_only() {
    let right = Planned::new(["t", "n"], &[("2026-01-01", 1), ("2026-01-01", 2)]);
    for sql in ["SELECT NOW(), n FROM t", "SELECT USER() t, n FROM t ORDER BY n", "SELECT @@hostname, n FROM t LIMIT 2"]
    {
        let known = of(sql);
        let why = known.nature.over(&[b"t", b"n"]).why().unwrap();
        for form in FORMS {
            let theirs = right.sent(form);
            let judged = |ours: &Planned| judged(&known, Some(&theirs), Some(&ours.sent(form)), form);
            let later = right.with(|answer| {
                answer.columns[0].2 = 44;
                answer.rows.iter_mut().for_each(|row| row[0] = Value::Bytes(b"2026-01-02"));
            });
            assert_eq!(judged(&later), Found::ByNature(why), "{sql}");
            assert_eq!(judged(&right), Found::Equal, "{sql}");
            for (what, wrong) in [
                ("a number", later.with(|answer| answer.rows[0][1] = Value::Int(7))),
                ("NULL", later.with(|answer| answer.rows[0][1] = Value::Null)),
                ("a row more", later.with(|answer| answer.rows.push(answer.rows[0].clone()))),
                ("a name", later.with(|answer| answer.columns[0].0 = "d")),
                ("a type", later.with(|answer| answer.columns[0].1 = type_code::STRING)),
                ("another column's length", later.with(|answer| answer.columns[1].2 = 21)),
                ("a warning", later.with(|answer| answer.warnings = 1)),
            ] {
                assert!(matches!(judged(&wrong), Found::Different(_)), "{what} of {sql}: {:?}", judged(&wrong));
            }
            let turned = later.with(|answer| answer.rows.reverse());
            match known.ordered {
                true => assert_eq!(judged(&turned), Found::Different(OTHER_ORDER.into()), "{sql}"),
                false => assert_eq!(judged(&turned), Found::ByNature(why), "{sql}"),
            }
        }
    }
}

#[test]
fn whole_answers_are_excused_but_for_what_they_describe() {
    let right = Planned::new(["Variable_name", "Value"], &[("a", 1), ("b", 2)]);
    let form = FORMS[0];
    let theirs = right.sent(form);
    for (sql, is_own) in [
        ("SHOW VARIABLES", true),
        ("SELECT * FROM performance_schema.x", true),
        ("SELECT * FROM t WHERE a < NOW()", false),
    ] {
        let known = of(sql);
        let judged = |ours: &Answer| judged(&known, Some(&theirs), Some(ours), form);
        let other = right.with(|answer| answer.rows = vec![vec![Value::Bytes(b"z"), Value::Int(9)]]);
        assert!(matches!(judged(&other.sent(form)), Found::ByNature(_)), "{sql}");
        for (what, wrong) in [
            ("a name", other.with(|answer| answer.columns[0].0 = "d")),
            ("a type", other.with(|answer| answer.columns[0].1 = type_code::STRING)),
        ] {
            assert!(matches!(judged(&wrong.sent(form)), Found::Different(_)), "{what} of {sql}");
        }
        let longer = judged(&other.with(|answer| answer.columns[1].2 = 21).sent(form));
        assert_eq!(matches!(longer, Found::Different(_)), !is_own, "{sql}: {longer:?}");
        let warned = judged(&other.with(|answer| answer.warnings = 1).sent(form));
        // Rows that a clock chooses have their warnings.
        assert_eq!(matches!(warned, Found::Different(_)), is_own, "{sql}: {warned:?}");
        assert!(matches!(judged(&refusal(1064, "You have an error")), Found::Different(_)), "{sql}");
        let denied = judged(&refusal(1227, "Access denied; you need (at least one of) the SUPER privilege(s)"));
        assert_eq!(matches!(denied, Found::ByNature(_)), is_own, "{sql}: {denied:?}");
    }
    // A grantee in a name, and a spelling that the source does not know any more.
    let grants = right.with(|answer| answer.columns[0].0 = "Grants for admin@%").sent(form);
    assert_eq!(judged(&of("SHOW GRANTS"), Some(&theirs), Some(&grants), form), Found::ByNature("accounts"));
    let listed = right.with(|answer| (answer.columns[0].1, answer.warnings) = (type_code::STRING, 1));
    let of_processlist = |ours: &Planned| judged(&of("SHOW PROCESSLIST"), Some(&theirs), Some(&ours.sent(form)), form);
    assert_eq!(of_processlist(&listed), Found::ByNature("sessions"));
    assert!(matches!(of_processlist(&listed.with(|answer| answer.columns[1].0 = "d")), Found::Different(_)));
    let unknown = refusal(1064, "You have an error");
    for (sql, is_dropped) in [("SHOW SLAVE STATUS", true), ("SHOW MASTER STATUS", true), ("SHOW VARIABLES", false)] {
        let found = judged(&of(sql), Some(&unknown), Some(&theirs), form);
        assert_eq!(matches!(found, Found::ByNature(_)), is_dropped, "{sql}: {found:?}");
        assert!(matches!(judged(&of(sql), Some(&theirs), Some(&unknown), form), Found::Different(_)), "{sql}");
    }
}

/// Schemas of the server itself are left out; any other is compared.
#[test]
fn a_schema_that_is_missing_is_found() {
    let listed = |name: &'static str, columns: usize, schemas: &[&'static str]| {
        let rows: Vec<_> = schemas.iter().map(|schema| (*schema, 1)).collect();
        Planned::new([name, "n"], &rows).with(|answer| {
            answer.columns.truncate(columns);
            answer.rows.iter_mut().for_each(|row| row.truncate(columns));
        })
    };
    let cases = [
        ("SELECT SCHEMA_NAME, n FROM information_schema.SCHEMATA", "SCHEMA_NAME", 2),
        ("SHOW DATABASES", "Database", 1),
        ("SHOW SCHEMAS LIKE 's%'", "Database (s%)", 1),
    ];
    for (form, (sql, name, columns)) in FORMS.into_iter().flat_map(|form| cases.map(|case| (form, case))) {
        let theirs = listed(name, columns, &["information_schema", "mysql", "shop", "sys"]).sent(form);
        let judged = |schemas: &[&'static str]| {
            judged(&of(sql), Some(&theirs), Some(&listed(name, columns, schemas).sent(form)), form)
        };
        assert_eq!(judged(&["information_schema", "shop"]), Found::ByNature("schemas of the server itself"), "{sql}");
        assert!(matches!(judged(&["information_schema", "mysql", "sys"]), Found::Different(_)), "{sql}");
        assert!(matches!(judged(&["information_schema", "shops"]), Found::Different(_)), "{sql}");
    }
}

#[test]
fn limit_excuses_a_choice_of_rows_that_are_the_same() {
    for sql in ["SELECT c, n FROM t LIMIT 2", "SELECT c, n FROM t WHERE n > ? ORDER BY c LIMIT ?"] {
        let known = of(sql);
        for form in FORMS {
            let all = Planned::new(["c", "n"], &[("a", 1), ("b", 2), ("c", 3)]);
            let chosen = |rows: &[usize]| {
                all.with(|answer| answer.rows = rows.iter().map(|row| all.rows[*row].clone()).collect()).sent(form)
            };
            let (theirs, ours) = (chosen(&[0, 1]), chosen(&[1, 2]));
            let found = judged(&known, Some(&theirs), Some(&ours), form);
            assert!(may_be_limit(&found, &known), "{sql}: {found:?}");
            let judged = |ours: &Answer, all_ours: &Planned| {
                judged_without_limit(&known.nature, ours, (&all.sent(form), &all_ours.sent(form)), form)
            };
            assert_eq!(judged(&ours, &all), Found::NotDetermined(LIMIT));
            assert_eq!(judged(&ours, &all.with(|answer| answer.rows.reverse())), Found::NotDetermined(LIMIT));
            let different = Found::Different(OTHER_ROWS.into());
            for (what, wrong) in faults(&all) {
                assert_eq!(judged(&ours, &wrong), different, "{what} of {sql}");
            }
            // Twice a row that is there once, and one that is not there.
            assert_eq!(judged(&chosen(&[1, 1]), &all), different);
            let absent = all.with(|answer| answer.rows = vec![vec![Value::Bytes(b"z"), Value::Int(1)]]);
            assert_eq!(judged(&absent.sent(form), &all), different);
        }
    }
    // Columns that differ by nature do so in all rows too.
    let known = of("SELECT NOW(), n FROM t LIMIT 1");
    let form = FORMS[0];
    let all = Planned::new(["t", "n"], &[("1", 1), ("1", 2)]);
    let later = all.with(|answer| answer.rows.iter_mut().for_each(|row| row[0] = Value::Bytes(b"2")));
    let last = |answer: &Planned| answer.with(|answer| drop(answer.rows.remove(0))).sent(form);
    let found = judged_without_limit(&known.nature, &last(&later), (&all.sent(form), &later.sent(form)), form);
    assert_eq!(found, Found::NotDetermined(LIMIT));
}

#[test]
fn a_cursor_excuses_parts_of_its_rows_only() {
    let all = Planned::new(["c", "n"], &[("a", 1), ("b", 2)]);
    let other = all.with(|answer| answer.rows[0][0] = Value::Bytes(b"z"));
    let form = FORMS[1];
    let judged = |sql: &str, has_all| judged_of_cursor(&of(sql), &all.sent(form), &other.sent(form), has_all, form);
    let different = Found::Different(OTHER_ROWS.into());
    assert_eq!(judged("SELECT c, status FROM t", true), different);
    assert_eq!(judged("SELECT c, n FROM t", false), Found::NotDetermined("rows of a cursor without ORDER BY"));
    assert_eq!(judged("SELECT c, n FROM t ORDER BY n", false), different);
    assert_eq!(judged("SELECT c, n FROM t ORDER BY n LIMIT 2", true), Found::NotComparable("LIMIT in a cursor"));
    assert_eq!(judged("SELECT NOW(), n FROM t", true), Found::ByNature("time"));
}

#[test]
fn preparations_are_compared_but_for_what_follows_from_a_value() {
    for deprecates_eof in [true, false] {
        let sent = |answer: &Planned, number| {
            let mut ok = Vec::new();
            PrepareOk { statement_id: number, columns: 2, parameters: 1 }.write(&mut ok, 0);
            let (mut parameter, mut end) = (Vec::new(), Vec::new());
            answer.definitions()[0].write(&mut parameter);
            put_rows_end(&mut end, &ServerOk::default(), 0);
            let form = Form { deprecates_eof, is_text: false };
            let head = answer.with(|answer| answer.rows.clear()).sent(form);
            let described = head[1..head.len() - 1].to_vec();
            let end = if deprecates_eof { vec![] } else { vec![end] };
            [vec![ok, parameter], end, described].concat()
        };
        let right = Planned::new(["t", "n"], &[]);
        let longer = right.with(|answer| answer.columns[0].2 = 90);
        // Only the column's: not the parameter's, which has the same definition here.
        let mut ours = sent(&longer, 8);
        ours[1] = sent(&right, 8)[1].clone();
        let theirs = sent(&right, 7);
        let judged = |sql: &str, ours: &Answer| judged_prepared(&of(sql), &theirs, ours, deprecates_eof);
        assert_eq!(judged("SELECT t, n FROM t WHERE n = ?", &sent(&right, 8)), Found::Equal);
        assert_eq!(judged("SELECT VERSION(), n FROM t WHERE n = ?", &ours), Found::ByNature("the server's version"));
        assert!(matches!(judged("SELECT version, n FROM t WHERE n = ?", &ours), Found::Different(_)));
        assert!(matches!(judged("SELECT t, VERSION() FROM t WHERE n = ?", &ours), Found::Different(_)));
    }
}

#[test]
fn a_state_that_passes_is_told_by_the_replicas_own_words() {
    let form = FORMS[0];
    let known = of("SELECT c, n FROM t");
    let theirs = Planned::new(["c", "n"], &[("a", 1)]).sent(form);
    let judged = |ours: &Answer| judged(&known, Some(&theirs), Some(ours), form);
    for error in [
        sql::passing::recovering(3),
        sql::passing::snapshot_too_old("it was given up"),
        sql::passing::not_readable("shop", "t", "it is being copied"),
        sql::passing::index_is_filled("`shop`.`t`"),
    ] {
        assert!(matches!(judged(&refusal(error.code, &error.message)), Found::NotComparable(_)), "{error}");
    }
    for (code, text) in [
        (1105, "column recovering, 3 transactions missing: not a valid DATE"),
        (1105, "'snapshot too old: x' is no value for a INT column"),
        (1105, "a row does not fit its table: cannot be read now"),
        (1146, "Table 'shop.a' cannot be read now: b' doesn't exist"),
        (1054, "recovering, 3 transactions missing"),
    ] {
        assert!(matches!(judged(&refusal(code, text)), Found::Different(_)), "{text}");
    }
}

#[test]
fn a_transaction_that_only_the_source_has_excuses_its_flag_alone() {
    let form = FORMS[0];
    let ok = |status: u16, warnings: u16| {
        let mut out = Vec::new();
        wire::server::put_ok(&mut out, &ServerOk { status, warnings, ..ServerOk::default() }, 0);
        vec![out]
    };
    let (statements, writes) = (Alone { statements: true, writes: false }, Alone { statements: true, writes: true });
    let own = Found::ByNature(OWN_TRANSACTION);
    let judged = |sql: &str, theirs: &Answer, ours: &Answer, alone| {
        judged_in_transaction(&of(sql), Some(theirs), Some(ours), alone, form)
    };
    let (within, without) = (ok(status::IN_TRANS, 0), ok(0, 0));
    for sql in ["SAVEPOINT s1", "SET foreign_key_checks = 1", "ROLLBACK TO SAVEPOINT s1", "RELEASE SAVEPOINT s1"] {
        assert_eq!(judged(sql, &within, &without, statements), own, "{sql}");
        let refused = |found: Found| assert!(matches!(found, Found::Different(_)), "{sql}: {found:?}");
        // Where nothing ran alone; a transaction that only the replica has; another flag; a warning; an error.
        refused(judged(sql, &within, &without, Alone::default()));
        refused(judged(sql, &without, &within, writes));
        refused(judged(sql, &within, &ok(status::AUTOCOMMIT, 0), statements));
        refused(judged(sql, &within, &ok(0, 1), writes));
        refused(judged(sql, &within, &refusal(1305, "SAVEPOINT s1 does not exist"), writes));
    }
    // What begins or ends a transaction leaves both in the same state.
    for sql in ["BEGIN", "COMMIT", "ROLLBACK", "START TRANSACTION WITH CONSISTENT SNAPSHOT"] {
        assert!(matches!(judged(sql, &within, &without, writes), Found::Different(_)), "{sql}");
    }
    let rows = |bits: u16, rows: &[(&'static str, i64)]| {
        let mut answer = Planned::new(["c", "n"], rows).sent(form);
        let mut end = Vec::new();
        let ok = ServerOk { status: bits, ..ServerOk::default() };
        put_rows_end(&mut end, &ok, wire::handshake::capability::DEPRECATE_EOF);
        *answer.last_mut().unwrap() = end;
        answer
    };
    let (theirs, ours) = (rows(status::IN_TRANS, &[("a", 1)]), rows(0, &[("a", 1)]));
    assert_eq!(judged("SELECT 'a', 1", &theirs, &ours, statements), own);
    assert!(matches!(judged("SELECT c, n FROM t", &theirs, &ours, statements), Found::Different(_)));
    let other = rows(0, &[("b", 1)]);
    assert_eq!(judged("SELECT 'a', 1", &theirs, &other, statements), Found::Different(OTHER_ROWS.into()));
    // ROLLBACK tells of writes that it cannot take back.
    assert_eq!(judged("ROLLBACK", &ok(0, 1), &without, writes), own);
    for (theirs, ours, alone) in [(1, 0, statements), (2, 0, writes), (0, 1, writes)] {
        assert!(matches!(judged("ROLLBACK", &ok(0, theirs), &ok(0, ours), alone), Found::Different(_)));
    }
    assert!(matches!(judged("SET @a = 1", &ok(0, 1), &without, writes), Found::Different(_)));
}

#[test]
fn of_a_definition_only_the_next_number_is_excused() {
    let next = Found::ByNature("a table's next AUTO_INCREMENT");
    let text =
        |options: &str| format!("CREATE TABLE `a` (\n  `id` int NOT NULL AUTO_INCREMENT\n) ENGINE=InnoDB{options}");
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    for form in FORMS {
        let answer = |options: &str| {
            let text = leak(text(options));
            let mut answer = Planned::new(["Table", "Create Table"], &[]);
            answer.columns[1] = ("Create Table", type_code::VAR_STRING, 4096);
            answer.rows.push(vec![Value::Bytes(b"a"), Value::Bytes(text.as_bytes())]);
            answer.sent(form)
        };
        let judged = |theirs: &str, ours: &str| {
            judged(&of("SHOW CREATE TABLE a"), Some(&answer(theirs)), Some(&answer(ours)), form)
        };
        for ours in [" DEFAULT CHARSET=utf8mb4", " AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4"] {
            assert_eq!(judged(" AUTO_INCREMENT=1024 DEFAULT CHARSET=utf8mb4", ours), next, "{ours}");
        }
        let partitioned = " DEFAULT CHARSET=utf8mb4\n/*!50100 PARTITION BY KEY (id)\nPARTITIONS 4 */";
        assert_eq!(judged(&format!(" AUTO_INCREMENT=3{partitioned}"), partitioned), next);
        for (theirs, ours) in [
            (" AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4", " AUTO_INCREMENT=3 DEFAULT CHARSET=latin1"),
            (" AUTO_INCREMENT=3 COMMENT='b'", " COMMENT='a'"),
            (" COMMENT=' AUTO_INCREMENT=3'", " COMMENT=' AUTO_INCREMENT=4'"),
            (" COMMENT=' AUTO_INCREMENT=3'", " COMMENT=''"),
        ] {
            assert_eq!(judged(theirs, ours), Found::Different(OTHER_ROWS.into()), "{theirs} {ours}");
        }
    }
}
