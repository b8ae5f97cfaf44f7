//! Dumps of hostile definitions through the real mysql client; run with SLIPSTREAM_TEST_SERVER=1.
//!
//! Texts by seed hold what a client could take for an end, a comment's end or a command. Its verbose output says what
//! it sends to the server. What 8.0's client does by default, 9.7's does with two options.

use std::collections::BTreeSet;

use base::Random;
use catalog::{Catalog, Definition, DefinitionKind, Recorded};
use compare::{DefinitionsReport, dump_definitions};
use testkit::process::output_with_input;
use testkit::{Server, scratch, seeds};

const OPTIONS: &[&[&str]] = &[
    &[],
    &["--commands", "--system-command=ON"],
    &["--commands", "--system-command=ON", "--skip-comments"],
    &["--commands", "--system-command=ON", "--named-commands"],
    &["--binary-mode", "--commands"],
    &["--commands", "--system-command=ON", "--default-character-set=gbk"],
];
const MODES: &[&str] = &["", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"];
/// Pieces of which texts are made, with bars between.
const PIECES: &str = "a | |\n|'|\"|`|\\|--|-- |#|/*|*/|/*!50000 |/*!99999 |/*+ |;|;;|$$|$1$|//1//|$a$|$é$|//|\\g|\\G|\\c|\
    \\d x|\\N|\\'|\\\"|\\`|\\\\|''|\"\"|``|é|表|名`|--\u{1}|\u{1}|\r\n|\r|\ndelimiter ;\n|delimiter |\nDELIMITER\n|\
    \nclear\n|\ngo\n|\nuse mysql\n|CREATE USER pwned|\0|\u{feff}|\u{a0}|'a'|\"b\"|`c`|/* d */|\\! TOUCH\n|\nsystem TOUCH\n";
/// Encloses each statement in the client's verbose output.
const RULE: &str = "--------------\n";

fn procedure(name: &str, sql_mode: &str, text: &str) -> Definition {
    let recorded = Recorded {
        text: text.to_owned(),
        default_db: "low".into(),
        sql_mode: sql_mode.to_owned(),
        client_charset: "utf8mb4".into(),
        ..Recorded::default()
    };
    Definition {
        kind: DefinitionKind::Procedure,
        db: "low".into(),
        name: name.into(),
        table: None,
        made: Some(recorded),
        later: catalog::Later::default(),
        order: None,
    }
}

fn dumped(definitions: Vec<Definition>) -> (DefinitionsReport, String) {
    let mut out = Vec::new();
    let catalog = Catalog::new(0).with_definitions(definitions, false);
    let report = dump_definitions(&catalog, "", &mut out).unwrap();
    (report, String::from_utf8(out).unwrap())
}

/// The statements that the client sends. It goes on after errors, which most of these texts are.
fn sent(server: &Server, options: &[&str], script: &str) -> Vec<String> {
    let mut command = server.client_command();
    command.args(["--force", "--verbose", "--batch", "--default-character-set=utf8mb4"]).args(options);
    let output = output_with_input(&mut command, script);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut all = Vec::new();
    let mut rest = text.as_str();
    while let Some((_, begun)) = rest.split_once(RULE) {
        let (statement, behind) = begun.split_once(&format!("\n{RULE}")).unwrap_or((begun, ""));
        all.push(statement.to_owned());
        rest = behind;
    }
    all
}

/// A text without what a client may do to it: it changes line ends, drops a backslash at the end of a line in a string,
/// puts blanks behind comments, and takes control characters from the end.
fn normal(text: &str) -> String {
    text.replace("\r\n", "\n").replace("\\\n", "\n").chars().filter(|c| *c > ' ').collect()
}

#[test]
fn texts_by_seed_are_sent_whole_or_not_at_all() {
    let Some(server) = Server::or_skip("client-split", &[]) else { return };
    server.sql("CREATE DATABASE low");
    let planted = scratch().join("planted-by-seed");
    let touch = format!("touch {}", planted.display());
    let pieces: Vec<String> = PIECES.split('|').map(|piece| piece.replace("TOUCH", &touch)).collect();
    let (mut whole, mut left_out) = (0, 0);
    for seed in seeds(30) {
        let mut random = Random::new(seed);
        let mut definitions = Vec::new();
        // Of few kinds of pieces, so that some texts are long and yet no hazard.
        let some: Vec<&str> = (0..10).map(|_| pieces[random.below(pieces.len())].as_str()).collect();
        for number in 0..150 {
            let body: String = (0..random.below(20usize) + 1).map(|_| random.pick(&some)).collect();
            let head = format!("CREATE PROCEDURE low.p{number}() SELECT ");
            definitions.push(procedure(&format!("p{number:03}"), random.pick(MODES), &(head + &body)));
        }
        let (report, script) = dumped(definitions.clone());
        left_out += report.as_comments.len();
        let is_left_out = |one: &Definition| {
            report.as_comments.iter().any(|text| text.starts_with(&format!("PROCEDURE `low`.`{}` ", one.name)))
        };
        let texts: Vec<String> = definitions
            .iter()
            .filter(|one| !is_left_out(one))
            .map(|one| normal(one.made.as_ref().unwrap().text.trim_end().trim_end_matches(';')))
            .collect();
        whole += texts.len();
        for options in OPTIONS {
            let sent: Vec<String> = sent(&server, options, &script);
            let is_setting = |text: &String| {
                ["SET NAMES ", "SET sql_mode = '", "USE `low`"].iter().any(|start| text.starts_with(start))
            };
            let rest: Vec<String> = sent
                .iter()
                .filter(|text| !is_setting(text) && !text.starts_with("--"))
                .map(|text| normal(text))
                .collect();
            if options.contains(&"--skip-comments") {
                // Without them a text is shorter, but still one.
                let heads = |texts: &[String]| -> Vec<String> {
                    texts.iter().map(|text| text.split("SELECT").next().unwrap_or_default().to_owned()).collect()
                };
                assert_eq!(heads(&rest), heads(&texts), "seed {seed}, {options:?}");
            } else {
                assert_eq!(rest, texts, "seed {seed}, {options:?}");
            }
            assert!(!planted.exists(), "seed {seed}, {options:?}");
        }
    }
    assert!(whole > 100 && left_out > 100, "{whole} whole, {left_out} left out");
}

/// Procedures that a server has taken, with things to run hidden in names, strings and comments.
#[test]
fn what_a_server_took_runs_nothing_where_it_is_loaded() {
    let Some(server) = Server::or_skip("client-plant", &[]) else { return };
    let planted = scratch().join("planted-by-a-procedure");
    let shell = format!("\\! touch {}\n", planted.display());
    let named = format!("\nsystem touch {}\n", planted.display());
    let hidden = ["; CREATE USER pwned; ", "// CREATE USER pwned //", "$a$", ";; CREATE USER pwned;;", &shell, &named];
    let endings = ["", "\\", "\\\\", "\\\\\\", "''", "\"\"", " -- ", " /* ", " */ ", "#", "\n", "--\u{1}"];
    let mut connection = server.connect();
    let (mut taken, mut made, mut left_out) = (0, 0, 0);
    for seed in seeds(6) {
        server.sql("DROP DATABASE IF EXISTS low; CREATE DATABASE low");
        let mut random = Random::new(seed);
        let mut definitions = Vec::new();
        for number in 0..120 {
            let mode = random.pick(MODES);
            let part = |random: &mut Random| {
                if random.one_in(2) {
                    return String::new();
                }
                let (open, close) = random.pick(&[
                    ("'", "'"),
                    ("\"", "\""),
                    ("`", "`"),
                    ("/* ", " */"),
                    ("-- ", "\n"),
                    ("--\u{1}", "\n"),
                    ("# ", "\n"),
                    ("/*!99999 ", " */"),
                    ("/*!50000 ", " */"),
                    ("/*+ ", " */"),
                ]);
                format!("{open}{}{}{}{close} ", random.pick(&endings), random.pick(&hidden), random.pick(&endings))
            };
            let text = format!(
                "CREATE PROCEDURE p{number}() BEGIN SELECT 1 {}AS \"a{}\" {}, '{}' {}AS `b`; END",
                part(&mut random),
                random.pick(&endings),
                part(&mut random),
                random.pick(&endings),
                part(&mut random),
            );
            connection.exec(&format!("SET sql_mode = '{mode}'")).unwrap();
            connection.exec("USE low").unwrap();
            if connection.exec(&text).is_ok() {
                definitions.push(procedure(&format!("p{number:03}"), mode, &text));
            }
        }
        taken += definitions.len();
        let (report, script) = dumped(definitions.clone());
        left_out += report.as_comments.len();
        assert_eq!(server.sql("SELECT User FROM mysql.user WHERE User = 'pwned'"), "", "the source itself");
        for options in OPTIONS {
            server.sql("DROP DATABASE low; CREATE DATABASE low");
            let mut command = server.client_command();
            let output = output_with_input(command.args(["--batch"]).args(*options), &script);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "seed {seed}, {options:?}: {said}");
            let users = server.sql("SELECT User FROM mysql.user WHERE User = 'pwned'");
            assert!(users.is_empty() && !planted.exists(), "seed {seed}, {options:?}: {users}");
            let names = server.sql("SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'low'");
            let names: BTreeSet<&str> = names.lines().collect();
            assert_eq!(names.len(), definitions.len() - report.as_comments.len(), "seed {seed}, {options:?}");
            made += names.len();
        }
    }
    assert!(taken > 50 && made > 50 && left_out > 50, "{taken} taken, {made} made, {left_out} left out");
}
