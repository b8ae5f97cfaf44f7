//! Every column type, value, change, row image and compression (`whole_program_tests::all_types`): followed from the
//! log, and changed again over rows from the initial copy. Equal by the mysql client's own text and by `slipstream
//! verify`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use whole_program_tests::all_types::{Counts, FORMATS, Keys, Type, changes, create, settings, types};
use whole_program_tests::{Replica, Server, assert_equal, folder, soak};

const DB: &str = "all_types";

/// For use by hand, `SLIPSTREAM_ALL_TYPES_SQL=FILE` keeps the statements.
fn run(server: &Server, sql: &str) {
    if let Some(path) = std::env::var_os("SLIPSTREAM_ALL_TYPES_SQL") {
        use std::io::Write as _;
        let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
        file.write_all(sql.as_bytes()).unwrap();
    }
    server.sql(&format!("USE {DB};\n{sql}"));
}

fn change_all(server: &Server, types: &[Type], formats: std::ops::Range<usize>, counts: &mut BTreeMap<String, Counts>) {
    for format in formats {
        let mut sql = settings(format);
        for ty in types {
            sql.push_str(&changes(ty, format, counts.entry(ty.name.clone()).or_default()));
        }
        run(server, &sql);
    }
}

/// Inserts all characters of every character set, 200 in a row.
fn all_characters(server: &Server, charsets: &[&str]) {
    let mut sql = String::from(
        "SET SESSION cte_max_recursion_depth = 2000000, group_concat_max_len = 100000, sql_mode = '';
         CREATE TABLE chars (code INT PRIMARY KEY, c VARCHAR(1) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin);
         INSERT INTO chars WITH RECURSIVE n (i) AS (SELECT 32 UNION ALL SELECT i + 1 FROM n WHERE i < 0x103ff)
         SELECT i, CONVERT(UNHEX(LPAD(HEX(i), 8, '0')) USING utf32) FROM n WHERE i NOT BETWEEN 0xd800 AND 0xdfff;\n",
    );
    for charset in charsets.iter().filter(|charset| **charset != "binary") {
        let _ = writeln!(
            sql,
            "CREATE TABLE chars_{charset} (page INT PRIMARY KEY, v TEXT CHARACTER SET {charset});
             INSERT INTO chars_{charset} SELECT code DIV 200, GROUP_CONCAT(c ORDER BY code SEPARATOR '') FROM chars
             WHERE c = '?' OR CONVERT(c USING {charset}) <> '?' GROUP BY 1;"
        );
    }
    run(server, &sql);
}

/// Text of the server's character sets, one type for each, with all their characters.
#[test]
fn every_character_set_followed_and_copied() {
    followed_and_copied("charsets", true);
}

#[test]
fn every_type_followed_and_copied() {
    followed_and_copied("types", false);
}

fn followed_and_copied(name: &str, of_charsets: bool) {
    let server = Server::start_unsynced(name, &["--max-allowed-packet=1G", "--gtid-mode=ON"]);
    server.sql(&format!("CREATE DATABASE {DB} CHARACTER SET utf8mb4"));
    let names = server.sql("SELECT CHARACTER_SET_NAME FROM information_schema.character_sets ORDER BY 1");
    let charsets: Vec<&str> = names.lines().collect();
    let mut types = types(&charsets);
    types.retain(|ty| ty.name.starts_with("cs_") == of_charsets);
    assert!(types.len() > 80, "{} types", types.len());
    let mut replica = Replica::follow(&server, &folder(name), &[]);
    let create: String = types.iter().map(create).collect();
    run(&server, &create);
    let mut counts = BTreeMap::new();
    change_all(&server, &types, 0..FORMATS.len(), &mut counts);
    if of_charsets {
        all_characters(&server, &charsets);
    }
    assert_equal(&server, &mut replica, &[DB]);
    replica.stop();

    // The rows exist before the replica starts.
    server.sql("GRANT BACKUP_ADMIN, PROCESS, RELOAD, XA_RECOVER_ADMIN, SELECT ON *.* TO 'repl'@'%'");
    server.purge_binary_logs();
    let mut replica = Replica::follow(&server, &folder("copied"), &[]);
    assert_equal(&server, &mut replica, &[DB]);
    // All changes again, over copied rows, where JSON documents are text.
    run(
        &server,
        &types
            .iter()
            .map(|ty| {
                // Makes room among the rows of earlier rounds.
                let keyless = format!("UPDATE k_{} SET n = n - 1000000;", ty.name);
                format!(
                    "UPDATE t_{} SET id = id - 1000000; {}",
                    ty.name,
                    if ty.keys == Keys::Plain { "" } else { &keyless }
                )
            })
            .collect::<String>(),
    );
    let rounds = if soak() { 2 * FORMATS.len() } else { 3 };
    change_all(&server, &types, 0..rounds, &mut counts);
    assert_equal(&server, &mut replica, &[DB]);
    replica.stop();

    let mut table = format!(
        "{:<24}{:>8}{:>10}{:>10}{:>10}{:>12}\n",
        "type", "values", "inserts", "updates", "deletes", "key changes"
    );
    let mut sum = Counts::default();
    for (name, c) in &counts {
        let _ = writeln!(
            table,
            "{name:<24}{:>8}{:>10}{:>10}{:>10}{:>12}",
            c.values, c.inserts, c.updates, c.deletes, c.key_changes
        );
        sum.values += c.values;
        sum.inserts += c.inserts;
        sum.updates += c.updates;
        sum.deletes += c.deletes;
        sum.key_changes += c.key_changes;
    }
    println!(
        "{table}{} types, {} formats: {} values, {} inserts, {} updates, {} deletes, {} key changes, 0 differences",
        counts.len(),
        FORMATS.len(),
        sum.values,
        sum.inserts,
        sum.updates,
        sum.deletes,
        sum.key_changes
    );
}
