//! Tables that are kept nowhere, and SHOW of their rows, compared with a real 9.7 packet by packet.

use crate::support;

use support::{CAPABILITIES, RawClient, different, open, queries};
use testkit::Server;
use wire::handshake::capability;

/// Statements whose rows are the same at every server.
const STATEMENTS: &[&str] = &[
    "show variables like 'sql\\_mode'",
    "show variables like 'AUTOCOMMIT'",
    "show session variables like 'innodb\\_lock\\_wait%'",
    "show global variables where variable_name = 'wait_timeout'",
    "show local variables where Variable_name in ('wait_timeout', 'tx_isolation', 'net_write_timeout') and value > '1'",
    "show variables where Value = 'nothing has it'",
    "show variables like 'aurora_version'",
    "show variables where nonsense = 1",
    "set autocommit = 0",
    "show variables like 'autocommit'",
    "show global variables like 'autocommit'",
    "set autocommit = 1",
    "show global variables like 'gtid\\_owned'",
    "show variables like 'init_connect'",
    "show variables like 5",
    "show status like 'wsrep%'",
    "show global status like 'Innodb_rows_inserted_nothing'",
    "show global status where variable_name = 'Innodb_rows_nothing'",
    "show status like 'Delayed%'",
    "show collation",
    "show collation like 'utf8mb4\\_0900%'",
    "show collation where charset = 'utf8mb4' and id > 300",
    "show character set",
    "show charset like 'utf8%'",
    "show character set where maxlen = 4",
    "select * from information_schema.collations order by collation_name",
    "select collation_name, id from information_schema.COLLATIONS c where c.character_set_name = 'utf8mb4' order by id desc limit 3, 4",
    "select count(*) from information_schema.character_sets where maxlen > 2",
    "select CHARACTER_SET_NAME from INFORMATION_SCHEMA.COLLATION_CHARACTER_SET_APPLICABILITY where COLLATION_NAME='utf8mb4_0900_ai_ci'",
    "select variable_value from performance_schema.global_variables where variable_name = 'gtid_next'",
    "select * from performance_schema.session_variables where variable_name = 'sql_mode'",
    "select x.variable_name as n, 1 from performance_schema.session_variables as x where variable_name like 'net\\_%' order by 1",
    "select * from performance_schema.replication_group_members where member_id = ''",
    "select nonsense from performance_schema.session_variables",
    "select * from performance_schema.nonsense",
    "select * from information_schema.nonsense",
    "use performance_schema",
    "select variable_name from session_variables where variable_name = 'net_read_timeout'",
    "use information_schema",
    "select id from collations where collation_name = 'latin1_bin'",
    "select * from global_variables",
    "select variable_name, variable_value from performance_schema.global_variables limit 0",
    "select word, reserved from information_schema.keywords limit 1",
    "set character_set_results = binary",
    "show collation like 'latin1_bin'",
    "show character set like 'latin1'",
    "select * from information_schema.collations where id = 8",
    "show variables like 'autocommit'",
    "select 'a', 1, null",
    "set names utf8mb4",
    "set autocommit = 0",
    "show variables like 'autocommit'",
    "show collation like 'latin1_bin'",
    "commit",
    "show open tables like 'x'",
    "show open tables where in_use > 7",
    "show open tables where foo = 1",
    "select id from information_schema.collations where id = 8",
    "set autocommit = 1",
];

#[test]
fn what_is_listed_is_mysqls() {
    let Some(server) = Server::or_skip("listings", &[]) else { return };
    let door = open(|_| ());
    for capabilities in [CAPABILITIES, CAPABILITIES & !capability::DEPRECATE_EOF & !capability::SESSION_TRACK] {
        let mut ours = RawClient::over_socket(&door.socket, "admin", capabilities);
        let mut theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
        let mut commands = queries(STATEMENTS);
        for sql in [
            "show variables like 'sql\\_mode'",
            "show collation where id = ?",
            "select sql_no_cache id from information_schema.collations limit 1",
            "select id from information_schema.collations where collation_name = ?",
        ] {
            commands.push((format!("prepare {sql}"), [b"\x16", sql.as_bytes()].concat()));
        }
        // Which statements use an index is MySQL's own affair here.
        let without_index_flag = |packet: &mut Vec<u8>| {
            if let [0xfe, _, _, status, _, ..] = packet.as_mut_slice() {
                *status &= !0x20;
            }
        };
        let found = different(&mut ours, &mut theirs, &commands, without_index_flag);
        assert!(found.is_empty(), "capabilities {capabilities:#x}\n{found}");
    }
}
