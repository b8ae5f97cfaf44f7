//! Other people's clients read every column type from a replica, and are told what they are told by its source: types,
//! values, NULLs, by text and by prepared statements; several results; errors; an 80 MiB row; a killed statement; a
//! wrong password; with TLS and without.
//!
//! `mysql` and `mariadb` are there where the testbed's servers are. `tests/clients/install DIR` installs the others, and
//! `SLIPSTREAM_TEST_CLIENTS=DIR` names them to this test; without it they are left out.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Ran, run_with_input};
use whole_program_tests::all_types::{Counts, changes, create, settings, types};
use whole_program_tests::{Replica, Server, binary, folder, repository};

const USER: &str = "reader";
const PASSWORD: &str = "a pass?word";

/// A server that clients log in to.
struct At {
    port: u16,
    tls: bool,
}

/// A client, by name, and what it prints of a server.
struct Client {
    name: &'static str,
    run: Box<dyn Fn(&At) -> Ran>,
}

/// The installed programs of tests/clients that can run here.
fn installed() -> Vec<Client> {
    let Some(folder) = std::env::var_os("SLIPSTREAM_TEST_CLIENTS").map(PathBuf::from) else {
        eprintln!(
            "skipped: connectors; tests/clients/install DIR installs them, SLIPSTREAM_TEST_CLIENTS=DIR names them"
        );
        return Vec::new();
    };
    let sources = repository().join("tests/clients");
    let python: Vec<PathBuf> = vec![folder.join("python/bin/python"), sources.join("python/client.py")];
    let node = vec![PathBuf::from("node"), folder.join("node/client.js")];
    let path = format!("{0}:{0}/lib/*", folder.join("java").display());
    let java = ["java", "-Xmx2g", "-cp", &path, "Client"].map(PathBuf::from).to_vec();
    let go = vec![folder.join("go/client")];
    [
        ("pymysql", &python),
        ("connector-pure", &python),
        ("connector-c", &python),
        ("sqlalchemy", &python),
        ("mysql2", &node),
        ("go", &go),
        ("mysql", &java),
        ("mysql-server", &java),
        ("mariadb", &java),
    ]
    .into_iter()
    .filter(|(name, program)| {
        let needed =
            if program[0] == Path::new("java") { folder.join("java/Client.class") } else { program[0].clone() };
        let there = needed.exists() || !needed.is_absolute() && folder.join("node/node_modules").exists();
        if !there {
            println!("{name}: left out, it is not installed");
        }
        there
    })
    .map(|(name, program)| {
        let program = program.clone();
        let run = move |at: &At| {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]).args([name, "127.0.0.1", &at.port.to_string(), USER, PASSWORD]);
            command.arg(if at.tls { "1" } else { "0" });
            Ran::from(command.output().unwrap())
        };
        Client { name, run: Box::new(run) }
    })
    .collect()
}

/// The command line clients: the statements of the others, by text, with the types as they print them.
fn command_line(names: &[String]) -> Vec<Client> {
    let mut sql = String::new();
    for name in names {
        sql.push_str(&format!("SELECT * FROM types.{name} ORDER BY id;\nSELECT * FROM types.{name} WHERE id = 202;\n"));
    }
    sql.push_str(
        "SELECT 1 AS a; SELECT 'two' AS b, 3.50 AS c, NULL AS d;\nSELECT * FROM types.absent;\nDESCRIBE types.t_int;\n\
         SELECT v FROM big.t WHERE id = 2;\nSELECT v FROM big.t WHERE id = 1;\n",
    );
    let client = |name, script: &'static str, program: &'static str, on: &'static [&str], off: &'static [&str]| {
        let sql = sql.clone();
        let run = move |at: &At| {
            let mut command = Command::new(repository().join("testbed").join(script));
            command.args(["run", program, "--no-defaults", "-h", "127.0.0.1", "-P", &at.port.to_string(), "-u", USER]);
            command.args(if at.tls { on } else { off });
            command.args(["--force", "--table", "--binary-as-hex", "--max-allowed-packet=1G", "--column-type-info"]);
            command.arg(format!("--password={PASSWORD}"));
            run_with_input(&mut command, &sql)
        };
        Client { name, run: Box::new(run) }
    };
    vec![
        client("mysql (command line)", "mysql", "mysql", &["--ssl-mode=REQUIRED"], &["--ssl-mode=DISABLED"]),
        client(
            "mariadb (command line)",
            "mariadb",
            "mariadb",
            &["--ssl", "--skip-ssl-verify-server-cert"],
            &["--skip-ssl"],
        ),
    ]
}

fn with_account(data: &str) {
    let mut command = Command::new(binary());
    command.args(["account", "add", USER, "--may", "read", "--data", data, "--no-defaults"]);
    run_with_input(&mut command, format!("{PASSWORD}\n")).expect(0, &[]);
}

/// The first line that differs, with those before it.
fn first_difference(ours: &str, theirs: &str) -> String {
    let (ours, theirs): (Vec<&str>, Vec<&str>) = (ours.lines().collect(), theirs.lines().collect());
    let at = ours.iter().zip(&theirs).take_while(|(own, other)| own == other).count();
    let cut = |text: Option<&&str>| text.map_or("(nothing)", |text| text.get(..400).unwrap_or(text)).to_owned();
    let before: Vec<String> = ours[at.saturating_sub(3)..at].iter().map(|line| cut(Some(line))).collect();
    format!(
        "line {}:\n  {}\n  ours   {}\n  source {}",
        at + 1,
        before.join("\n  "),
        cut(ours.get(at)),
        cut(theirs.get(at))
    )
}

#[test]
fn clients_are_told_what_the_source_tells_them() {
    let options = ["--max-allowed-packet=1G", "--log-bin-trust-function-creators=1"];
    let Some(server) = Server::or_skip("clients", &options) else { return };
    let types = types(&["utf8mb4", "latin1", "utf16", "sjis"]);
    let mut sql = format!(
        "CREATE USER {USER}@'%' IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}';
         CREATE DATABASE types CHARACTER SET utf8mb4; GRANT SELECT ON types.* TO {USER}@'%';
         CREATE DATABASE big; GRANT SELECT ON big.* TO {USER}@'%'; USE big;
         CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT);
         INSERT INTO t VALUES (1, REPEAT('0123456789abcdef', 80 * 65536)), (2, 'small'); USE types;\n"
    );
    sql.extend(types.iter().map(create));
    sql.push_str(&settings(0));
    for ty in &types {
        sql.push_str(&changes(ty, 0, &mut Counts::default()));
    }
    server.sql(&sql);
    let mut replica = Replica::follow(&server, &folder("clients"), &[]);
    let status = replica.catch_up(&server);
    with_account(replica.data());
    let address = status["clients"]["address"].as_str().unwrap();
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let names: Vec<String> = types.iter().map(|ty| format!("t_{}", ty.name)).collect();
    let mut failures = String::new();
    for client in command_line(&names).into_iter().chain(installed()) {
        // The first login is over TLS; a password that was never given over it cannot be checked without.
        for tls in [true, false] {
            let theirs = (client.run)(&At { port: server.port(), tls });
            let ours = (client.run)(&At { port, tls });
            let what = format!("{}, TLS {}", client.name, if tls { "on" } else { "off" });
            kept(&what, &ours, &theirs);
            let lines = theirs.out.lines().count();
            if theirs.out.is_empty() && theirs.code != 0 {
                println!(
                    "{what}: left out, it cannot read its source: {}",
                    theirs.err.lines().next().unwrap_or_default()
                );
            } else if (ours.code, &ours.out, &ours.err) == (theirs.code, &theirs.out, &theirs.err) {
                assert!(lines > names.len(), "{what}: {}", theirs.out);
                println!("{what}: {lines} lines, {} bytes, the same", theirs.out.len());
            } else {
                let out = first_difference(&ours.out, &theirs.out);
                let err = first_difference(&ours.err, &theirs.err);
                failures.push_str(&format!("{what}: exit {} and {}\n{out}\n{err}\n", ours.code, theirs.code));
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    replica.stop();
}

/// For use by hand, `SLIPSTREAM_TEST_CLIENTS_OUT=DIR` keeps what each client printed.
fn kept(what: &str, ours: &Ran, theirs: &Ran) {
    if let Some(folder) = std::env::var_os("SLIPSTREAM_TEST_CLIENTS_OUT") {
        let file = |side: &str| Path::new(&folder).join(format!("{what}.{side}"));
        std::fs::write(file("ours"), format!("{}{}", ours.out, ours.err)).unwrap();
        std::fs::write(file("source"), format!("{}{}", theirs.out, theirs.err)).unwrap();
    }
}
