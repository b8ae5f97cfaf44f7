//! DDL: each statement form of tests/ddl on a real server, rows before and behind it, replayed and compared by rows and by
//! definition. What a form is expected to be stands beside it and is checked: a form may not fall from replayed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::path::Path;

use whole_program_tests::{Replica, Server, assert_equal, folder, repository, slipstream};

/// A statement form of the corpus.
struct Form {
    file: String,
    name: String,
    expected: String,
    before: String,
    statement: String,
    behind: String,
}

/// What a form's table is unless it says otherwise.
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
            let lines: Vec<&str> = body.lines().filter(|line| !line.is_empty() && !line.starts_with("-- ")).collect();
            let mut parts = lines.split(|line| *line == "----").map(|lines| lines.join("\n"));
            let (before, statement) =
                (parts.next().unwrap(), parts.next().unwrap_or_else(|| panic!("no statement: {name}")));
            let before = if before.contains("{t}") { before } else { format!("{before};{TABLE}") };
            forms.push(Form {
                file: file.file_stem().unwrap().to_str().unwrap().to_owned(),
                name: name.to_owned(),
                expected: expected.trim().to_owned(),
                before,
                statement,
                behind: parts.next().unwrap_or_default(),
            });
        }
    }
    assert!(forms.len() > 60, "{} forms", forms.len());
    forms
}

/// Waits until the replica has all of the server, or has ended: true when it follows.
fn follows(server: &Server, replica: &mut Replica) -> bool {
    let goal = server.gtid_executed();
    replica.reaches(&goal)
}

/// Leaves the statement at which replay stopped out, and goes on.
fn skip_and_go_on(server: &Server, mut replica: Replica, data: &Path) -> Replica {
    assert_eq!(replica.wait_exit(), 6, "{}", replica.log_end());
    let log = replica.log();
    let command = log.rsplit("slipstream skip ").next().unwrap();
    let gtid = command.split_whitespace().next().unwrap().to_owned();
    drop(replica);
    slipstream(&["skip", &gtid, "--data", data.to_str().unwrap()]).expect(0, &[]);
    Replica::follow(server, data, &[])
}

#[test]
fn every_form_of_the_corpus() {
    let server = Server::start("corpus", &["--time-zone=+00:00"]);
    let data = folder("corpus");
    let mut replica = Replica::follow(&server, &data, &["--cut-interval=1"]);
    server.sql("CREATE DATABASE ddl");
    let mut table = String::new();
    let mut wrong = Vec::new();
    let only = std::env::var("SLIPSTREAM_DDL_FORM").ok();
    for (number, form) in corpus().iter().enumerate() {
        if only.as_ref().is_some_and(|only| !form.name.contains(only.as_str())) {
            continue;
        }
        let run = |sql: &str| {
            let sql = sql.replace("{t}", &format!("f{number:03}"));
            server.try_sql(&format!("USE ddl; {sql}")).unwrap_or_else(|error| panic!("{}: {error}\n{sql}", form.name))
        };
        run(&form.before);
        assert!(follows(&server, &mut replica), "{}: {}", form.name, replica.log_end());
        run(&form.statement);
        let outcome = if follows(&server, &mut replica) { "replayed" } else { "not known" };
        let outcome = if outcome == "replayed" && form.expected == "recorded" { "recorded" } else { outcome };
        writeln!(table, "{:<16} {:<60} {outcome}", form.file, form.name).unwrap();
        if outcome != form.expected {
            wrong.push(format!("{}: {outcome}, expected {}\n{}", form.name, form.expected, replica.log_end()));
        }
        if outcome == "not known" {
            replica = skip_and_go_on(&server, replica, &data);
            run("DROP TABLE {t}");
            continue;
        }
        run(&form.behind);
        assert!(follows(&server, &mut replica), "behind {}: {}", form.name, replica.log_end());
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_equal(&server, &mut replica, &["ddl"]);
    // The same once more from the folder, and from the log anew.
    replica.kill();
    let mut replica = Replica::follow(&server, &data, &[]);
    assert_equal(&server, &mut replica, &["ddl"]);
    replica.stop();
}
