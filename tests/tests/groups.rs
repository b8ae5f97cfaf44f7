//! A replica of a group: it follows one member while members are killed, cut off and expelled.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use whole_program_tests::{Group, Proxy, Replica, assert_equal, folder};

/// The tests of this module have it one after the other: three members take 1.5 GiB.
static GROUP: Mutex<Option<Group>> = Mutex::new(None);

/// A row to read.
const TABLES: &str = "DROP DATABASE IF EXISTS t; CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, n INT); \
    INSERT INTO t.a VALUES (1, 0), (2, 0)";

fn group() -> Option<MutexGuard<'static, Option<Group>>> {
    Group::borrowed(&GROUP, || Group::or_skip("groups", 3, &["--multi-primary"]))
}

/// A replica of a source, with a socket for clients.
fn follow(url: &str, name: &str) -> (Replica, PathBuf) {
    let data = folder(name);
    let socket = data.with_extension("sock");
    let option = format!("--socket={}", socket.display());
    (Replica::start(url, &data, &["--on-stop=stay", &option]), socket)
}

#[test]
fn a_member_is_followed_while_members_are_killed_cut_off_and_expelled() {
    let Some(group) = group() else { return };
    let group = group.as_ref().unwrap();
    let [followed, writer, _] = group.members() else { panic!() };
    assert!(group.primary().is_none(), "{:?}", group.view());
    writer.sql(TABLES);
    let proxy = Proxy::start(followed.port());
    let source = format!("{}&get-server-public-key=1", proxy.url());
    let (mut replica, _) = follow(&source, "groups");
    let writes = || writer.sql("UPDATE t.a SET n = n + 1 WHERE id = 1");
    group.kill(2);
    writes();
    replica.catch_up(writer);
    proxy.cut();
    writes();
    replica.catch_up(writer);
    group.expel(0);
    assert_eq!(group.view_of(1).len(), 1, "{:?}", group.view_of(1));
    writes();
    group.mend();
    proxy.delay(Duration::from_millis(20));
    writes();
    assert_equal(followed, &mut replica, &["t"]);
    replica.stop();
}
