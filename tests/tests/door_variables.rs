//! A SET of any variable to any kind of value ends here as at the source: with the same error, warnings and value.

use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::{Replica, Server, folder};
use wire::handshake::capability::SESSION_TRACK;

const VALUES: &[&str] = &[
    "DEFAULT",
    "1",
    "0",
    "-1",
    "45",
    "ON",
    "''",
    "'x'",
    "NULL",
    "1.5",
    "1e0",
    "18446744073709551615",
    "99999999999999999999",
    "(SELECT 1)",
];
/// Values of which each server has its own.
const OF_THE_SERVER: &[&str] =
    &["connection_memory_limit", "pseudo_thread_id", "rand_seed1", "rand_seed2", "statement_id", "timestamp"];

fn is_refusal(answer: &[Vec<u8>]) -> bool {
    answer.last().is_some_and(|packet| packet.starts_with(&[0xff, 0xd3, 0x04]))
}

fn shown(answer: &[Vec<u8>]) -> String {
    answer.iter().map(|packet| packet.escape_ascii().to_string()).collect::<Vec<_>>().join(" | ")
}

#[test]
fn any_variable_is_set_or_refused_as_at_the_source() {
    let Some(server) = Server::or_skip("door-variables", &[]) else { return };
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-variables"), &[]);
    replica.catch_up(&server);
    let both = || {
        let ours = RawClient::over_socket(&socket, "admin", CAPABILITIES & !SESSION_TRACK);
        (ours, RawClient::over_socket(&server.socket(), "root", CAPABILITIES & !SESSION_TRACK))
    };
    let (mut compared, mut refused, mut different) = (0, 0, Vec::new());
    let listed = "SELECT LOWER(VARIABLE_NAME) FROM performance_schema.variables_metadata ORDER BY 1";
    let listed = server.connect().query(listed).unwrap();
    let names = listed.rows.iter().map(|row| String::from_utf8(row[0].clone().unwrap()).unwrap());
    for name in names.chain(["no_such_variable".to_owned()]) {
        let (mut ours, mut theirs) = both();
        for value in VALUES {
            let set = format!("SET SESSION {name} = {value}");
            let answers = (ours.query(set.as_bytes()), theirs.query(set.as_bytes()));
            if is_refusal(&answers.0) {
                refused += 1;
                // What the source has made of it is not here.
                (ours, theirs) = both();
                continue;
            }
            let is_ok = answers.1.last().is_some_and(|packet| packet.first() == Some(&0));
            let mut asked = vec!["SHOW WARNINGS".to_owned()];
            if is_ok && !OF_THE_SERVER.contains(&name.as_str()) {
                asked.push(format!("SELECT @@session.{name}"));
            }
            let mut all = vec![(set.clone(), answers)];
            all.extend(asked.into_iter().map(|sql| {
                let answers = (ours.query(sql.as_bytes()), theirs.query(sql.as_bytes()));
                (sql, answers)
            }));
            for (sql, (own, other)) in all.into_iter().filter(|(_, (own, _))| !is_refusal(own)) {
                compared += 1;
                if own != other {
                    different.push(format!("{set}: {sql}\n ours   {}\n theirs {}", shown(&own), shown(&other)));
                }
            }
        }
    }
    println!("{compared} compared, {refused} refused");
    assert!(different.is_empty(), "{} of {compared} differ\n{}", different.len(), different.join("\n"));
    assert!(compared > 10_000, "{compared} compared, {refused} refused");
    replica.stop();
}
