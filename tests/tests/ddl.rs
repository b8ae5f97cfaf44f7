//! DDL: each statement form of tests/ddl on a real server, with rows before and after it, replayed and compared by rows
//! and by definition. Each form's expected outcome is beside it and is checked: a replayed form may not regress.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use whole_program_tests::{Replica, Server, assert_equal, assert_same_definitions, folder, repository, share};

/// A statement form of the corpus.
struct Form {
    file: String,
    name: String,
    /// `replayed`, `refused` by the server, or `not known`: its table is copied again.
    expected: String,
    /// Why it is not known, as the log says it; empty if the form does not name it.
    reason: String,
    before: String,
    statement: String,
    behind: String,
}

/// A form's table, unless it says otherwise.
const TABLE: &str = "CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b VARCHAR(30)); \
                     INSERT INTO {t} VALUES (1, 1, 'one'), (2, 2, NULL), (3, 3, 'three')";

fn corpus() -> Vec<Form> {
    let mut files: Vec<_> =
        std::fs::read_dir(repository().join("tests/ddl")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut forms = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "sql")) {
        let text = std::fs::read_to_string(file).unwrap();
        for part in text.split("\n== ").skip(1) {
            let (head, body) = part.split_once('\n').unwrap();
            let (name, expected) = head.rsplit_once(" : ").unwrap_or_else(|| panic!("no outcome: {head}"));
            let (expected, reason) = expected.split_once(", ").unwrap_or((expected, ""));
            let lines: Vec<&str> = body.lines().filter(|line| !line.is_empty() && !line.starts_with("-- ")).collect();
            let mut parts = lines.split(|line| *line == "----").map(|lines| lines.join("\n"));
            let (before, statement) =
                (parts.next().unwrap(), parts.next().unwrap_or_else(|| panic!("no statement: {name}")));
            let before = if before.contains("{t}") { before } else { format!("{before};{TABLE}") };
            forms.push(Form {
                file: file.file_stem().unwrap().to_str().unwrap().to_owned(),
                name: name.to_owned(),
                expected: expected.trim().to_owned(),
                reason: reason.trim().to_owned(),
                before,
                statement,
                behind: parts.next().unwrap_or_default(),
            });
        }
    }
    assert!(forms.len() > 60, "{} forms", forms.len());
    forms
}

/// Waits until the replica has everything the server has, or has ended; true if it follows.
fn follows(server: &Server, replica: &mut Replica) -> bool {
    let goal = server.gtid_executed();
    replica.reaches(&goal)
}

/// Runs a form's statements at the server, in database `ddl` and under a table name of its own. Comments are sent too.
fn run(server: &Server, number: usize, form: &Form, parts: &[&str]) -> Result<(), String> {
    let sql = parts.join("\n;\n").replace("{t}", &format!("f{number:03}"));
    let ran = server.client(&["--comments"], format!("USE ddl; {sql}"));
    ran.map(drop).map_err(|error| format!("{}: {error}\n{sql}\n", form.name))
}

/// Tables that are in quarantine or were copied again, as named in the log.
fn copied_again(replica: &Replica) -> String {
    let log = replica.log();
    log.lines().filter(|line| line.contains("cop") && line.contains("again")).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_form_of_the_corpus() {
    every_form("corpus", |file| !file.starts_with("alter_") && !COMPUTED.contains(&file));
}

#[test]
fn every_form_of_alter_table() {
    every_form("alter", |file| file.starts_with("alter_"));
}

/// The files whose forms are about values that must be computed here.
const COMPUTED: [&str; 2] = ["conversions", "partition_expressions"];

#[test]
fn every_form_of_computed_values() {
    every_form("computed", |file| COMPUTED.contains(&file));
}

#[test]
fn few_forms_end_in_a_copy() {
    let forms = corpus();
    for (of, computed) in [("computed values", true), ("all other forms", false)] {
        let chosen = || forms.iter().filter(|form| COMPUTED.contains(&form.file.as_str()) == computed);
        let copied: Vec<&Form> = chosen().filter(|form| form.expected == "not known").collect();
        let count = chosen().count();
        println!("{of}: {} of {count} forms end in a copy", copied.len());
        for form in &copied {
            println!("  {:<24} {}: {}", form.file, form.name, form.reason);
        }
        if computed {
            assert!(count >= 60 && copied.len() * 20 <= count, "{} of {count} forms end in a copy", copied.len());
            assert!(copied.iter().all(|form| !form.reason.is_empty()), "a copy without a reason");
        }
    }
}

/// Runs the forms of the chosen files.
fn every_form(name: &str, file: impl Fn(&str) -> bool) {
    let server = Server::start_unsynced(name, &["--default-time-zone=+00:00"]);
    let data = folder(name);
    // For tables that are copied again.
    server.sql("GRANT LOCK TABLES, RELOAD, BACKUP_ADMIN, XA_RECOVER_ADMIN ON *.* TO 'repl'@'%'");
    let mut replica = Replica::hurried(&server, &data, &["--cut-interval=1s"]);
    server.sql("CREATE DATABASE ddl");
    let only = std::env::var("SLIPSTREAM_DDL_FORM").ok();
    let forms = corpus();
    let chosen = || {
        forms
            .iter()
            .enumerate()
            .filter(|(_, form)| file(&form.file) && only.as_ref().is_none_or(|only| form.name.contains(only.as_str())))
    };
    // Those of `shown` build on each other.
    let in_gate: BTreeSet<usize> = share(forms.iter().enumerate(), if only.is_some() { 1 } else { 3 })
        .map(|(number, _)| number)
        .chain(forms.iter().enumerate().filter(|(_, form)| form.file == "shown").map(|(number, _)| number))
        .collect();
    let chosen = || chosen().filter(|(number, _)| in_gate.contains(number));
    let (mut table, mut wrong) = (String::new(), String::new());
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for (_, form) in chosen() {
        writeln!(table, "{:<16} {:<76} {}", form.file, form.name, form.expected).unwrap();
        *counts.entry(form.expected.as_str()).or_default() += 1;
    }
    // First everything that can be replayed, without waiting: a stop names its statement.
    for (number, form) in chosen().filter(|(_, form)| form.expected != "not known") {
        let refused = form.expected == "refused";
        if refused {
            run(&server, number, form, &[&form.before]).unwrap_or_else(|error| wrong.push_str(&error));
        }
        let all: &[&str] = if refused { &[&form.statement] } else { &[&form.before, &form.statement, &form.behind] };
        match run(&server, number, form, all) {
            Ok(()) if refused => writeln!(wrong, "{}: the server takes it", form.name).unwrap(),
            Err(error) if !refused => wrong.push_str(&error),
            _ => {}
        }
    }
    let followed = follows(&server, &mut replica);
    assert!(wrong.is_empty(), "forms that the server does not take as expected:\n{wrong}");
    assert!(followed, "a form fell from replayed:\n{}", replica.log_end());
    let copied = |status: &serde_json::Value| status["replay"]["tables_copied_by_itself"].as_u64().unwrap_or(u64::MAX);
    let status = replica.catch_up(&server);
    assert_eq!(copied(&status), 0, "a form fell from replayed:\n{}", copied_again(&replica));
    assert_equal(&server, &mut replica, &["ddl"]);
    // Only the table of an unknown form is copied again, and nothing else stops.
    let unknown = chosen().filter(|(_, form)| form.expected == "not known");
    for (copies, (number, form)) in (1..).zip(unknown) {
        run(&server, number, form, &[&form.before, &form.statement]).unwrap();
        replica.wait_until(&form.name, |status| copied(status) == copies);
        replica.waits_for_log(&[&form.reason]);
    }
    println!("{table}{counts:?}");
    assert_equal(&server, &mut replica, &["ddl"]);
    // The same again, from the data on disk.
    replica.kill();
    let mut replica = Replica::hurried(&server, &data, &[]);
    assert_equal(&server, &mut replica, &["ddl"]);
    replica.stop();
    println!("{} definitions are those of SHOW CREATE TABLE", assert_same_definitions(&server, &data, &["ddl"]));
}

#[test]
fn statements_of_several_tables_one_of_them_quarantined() {
    let server = Server::start_unsynced("several", &[]);
    let data = folder("several");
    // No copy is possible yet.
    server.sql("GRANT RELOAD, BACKUP_ADMIN, XA_RECOVER_ADMIN ON *.* TO 'repl'@'%'");
    let mut replica = Replica::hurried(&server, &data, &["--cut-interval=100ms"]);
    let parted = "(id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 \
                  VALUES LESS THAN (20))";
    server.sql(&format!(
        "CREATE DATABASE ddl; USE ddl; CREATE TABLE a (id INT PRIMARY KEY, a INT); CREATE TABLE b LIKE a; CREATE TABLE c LIKE a; \
         CREATE TABLE d LIKE a; CREATE TABLE parts {parted}; CREATE TABLE whole LIKE a; INSERT INTO a VALUES (1, 1), (2, 2); \
         INSERT INTO b VALUES (3, 3); INSERT INTO c VALUES (4, 4); INSERT INTO d VALUES (5, 5); INSERT INTO parts VALUES (1, 1), (11, 11); \
         INSERT INTO whole VALUES (2, 2)"
    ));
    replica.catch_up(&server);
    // What is unknown of a, c and whole then applies to other names, and to parts.
    server.sql(
        "USE ddl; ALTER TABLE a ADD g INT AS (a + 1) STORED; ALTER TABLE c ADD g INT AS (a + 1) STORED, RENAME TO moved; \
         RENAME TABLE a TO tmp, b TO a, tmp TO b, d TO dd; ALTER TABLE moved RENAME TO again, ADD h INT; \
         INSERT INTO a VALUES (30, 30); INSERT INTO b (id, a) VALUES (31, 31); INSERT INTO again (id, a) VALUES (32, 32); \
         INSERT INTO dd VALUES (33, 33); UPDATE a SET a = 7 WHERE id = 3; \
         ALTER TABLE parts PARTITION BY KEY ALGORITHM = 1 (id) PARTITIONS 2; \
         ALTER TABLE parts EXCHANGE PARTITION p1 WITH TABLE whole; INSERT INTO whole VALUES (50, 50); DELETE FROM parts WHERE id = 2; \
         ALTER TABLE whole DROP a; ALTER TABLE parts TRUNCATE PARTITION p0; INSERT INTO whole VALUES (51)",
    );
    let status = replica.catch_up(&server);
    let mut waiting: Vec<&str> =
        status["replay"]["quarantined"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    waiting.sort_unstable();
    assert_eq!(waiting.len(), 4, "{waiting:?}");
    for (name, there) in ["again", "b", "parts", "whole"].iter().zip(&waiting) {
        assert!(there.contains(name), "{waiting:?}");
    }
    replica.kill();
    server.sql("GRANT LOCK TABLES ON *.* TO repl");
    let mut replica = Replica::hurried(&server, &data, &[]);
    // What the kill undid is replayed again: names that are in quarantine meanwhile may be copied too.
    replica.catch_up(&server);
    replica.copied();
    replica.wait_until("their copies", |status| status["replay"]["tables_copied_by_itself"].as_u64() >= Some(4));
    assert_equal(&server, &mut replica, &["ddl"]);
    replica.stop();
    assert_same_definitions(&server, &data, &["ddl"]);
}

/// TIMESTAMP defaults in the source's own time zone, which is not in the log: the table's copy asks the source. Nothing
/// else is held up, and nothing is guessed, in summer or in winter.
#[test]
fn timestamp_defaults_in_the_system_time_zone() {
    let server = Server::start_in_zone("zone", "EET-2EEST,M3.5.0/3,M10.5.0/4");
    assert_eq!(
        server.sql("SELECT @@time_zone, TIMESTAMPDIFF(HOUR, UTC_TIMESTAMP, NOW()) IN (2, 3)").trim(),
        "SYSTEM\t1"
    );
    server.sql(
        "GRANT XA_RECOVER_ADMIN, LOCK TABLES ON *.* TO repl; CREATE DATABASE zone; USE zone;
         CREATE TABLE added (id INT PRIMARY KEY); INSERT INTO added VALUES (1), (2); CREATE TABLE other (id INT PRIMARY KEY)",
    );
    let mut replica = Replica::hurried(&server, &folder("zone"), &["--cut-interval=200ms"]);
    let defaults = "w TIMESTAMP NULL DEFAULT '2020-01-01 00:00:00', s TIMESTAMP(3) NULL DEFAULT '2020-07-01 00:00:00.5', n INT DEFAULT 7";
    let columns = defaults.replace(", ", ", ADD ");
    server.sql(&format!("USE zone; ALTER TABLE added ADD {columns}; INSERT INTO added (id) VALUES (3)"));
    // Full images contain what the source made of the default.
    server.sql(&format!(
        "USE zone; CREATE TABLE made (id INT PRIMARY KEY, {defaults}); INSERT INTO made (id) VALUES (1)"
    ));
    // Minimal ones do not.
    server.sql(
        "USE zone; SET SESSION binlog_row_image = MINIMAL; BEGIN; INSERT INTO other VALUES (1); INSERT INTO made (id) VALUES (2);
         INSERT INTO made (id, n) VALUES (3, 3); INSERT INTO other VALUES (2); COMMIT; INSERT INTO made (id, w) VALUES (4, NULL)",
    );
    let status = replica.catch_up(&server);
    let waiting = status["replay"]["quarantined"].to_string();
    assert!(
        waiting.contains("`zone`.`made`: the row event leaves out column") && !waiting.contains("`other`"),
        "{status}"
    );
    let copied = |status: &serde_json::Value| status["replay"]["tables_copied_by_itself"] == 2;
    replica.wait_until("the copies of both", copied);
    // The definitions from the copies know their defaults: no more copies.
    server.sql(
        "USE zone; SET SESSION binlog_row_image = MINIMAL; INSERT INTO made (id) VALUES (5); INSERT INTO added (id) VALUES (4);
         UPDATE made SET n = 1 WHERE id = 2; DELETE FROM made WHERE id = 3",
    );
    let status = replica.catch_up(&server);
    assert!(copied(&status) && status["replay"]["quarantined"].as_array().is_none_or(Vec::is_empty), "{status}");
    assert_equal(&server, &mut replica, &["zone"]);
    replica.stop();
}

/// Expressions of as many terms as the source takes.
#[test]
fn definitions_of_many_terms_are_followed() {
    let server = Server::start_unsynced("many-terms-ddl", &["--thread-stack=16M"]);
    let data = folder("many-terms-ddl");
    let mut replica = Replica::hurried(&server, &data, &["--cut-interval=1s"]);
    server.sql("CREATE DATABASE ddl");
    let mut most = 0;
    let terms = [" + 1", " OR a = 1", " AND a = 1", " XOR a", " | a", " IS NULL", " = 1"];
    for (number, term) in share(terms.iter().enumerate(), 3) {
        for (place, definition) in [
            "a INT PRIMARY KEY, b BIGINT AS ({})",
            "a INT PRIMARY KEY, CHECK (0 = ({}) OR 1)",
            "a INT PRIMARY KEY, KEY ((({}) + 1))",
            "a INT PRIMARY KEY, b INT DEFAULT (3 + 0 * ({}))",
        ]
        .iter()
        .enumerate()
        {
            let create = |terms: usize| {
                let chain = format!("a{}", term.repeat(terms));
                let chain = if place == 3 { chain.replace('a', "1") } else { chain };
                format!("CREATE TABLE ddl.t{number}_{place} ({})", definition.replace("{}", &chain))
            };
            let terms =
                [100_000, 5_000, 1_000, 200, 20].into_iter().find(|terms| server.try_sql(&create(*terms)).is_ok());
            let terms = terms.unwrap_or_else(|| panic!("{term}: {:?}", server.try_sql(&create(20))));
            println!("{term} in {definition}: {terms} terms");
            most = most.max(terms);
            server.sql(&format!("INSERT INTO ddl.t{number}_{place} (a) VALUES (1), (2), (3)"));
        }
    }
    assert!(most >= 1_000, "{most}");
    assert_equal(&server, &mut replica, &["ddl"]);
    replica.stop();
    assert_same_definitions(&server, &data, &["ddl"]);
}
