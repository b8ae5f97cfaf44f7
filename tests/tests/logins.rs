//! A password that changes while replicas run: a stale one must not lock the account for everybody.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use whole_program_tests::replica::{executed, retrieved};
use whole_program_tests::{Replica, Server, assert_equal, folder, slipstream, wait_for};

/// An option file with a password, replaced as an editor does it.
fn password(file: &Path, password: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, format!("[slipstream]\npassword={password}\n")).unwrap();
    std::fs::rename(&new, file).unwrap();
}

fn follow(server: &Server, name: &str, file: &Path) -> Replica {
    let option = format!("--defaults-file={}", file.display());
    let mut replica = Replica::spawn(&server.url("locking"), &folder(name), &["--on-stop=stay", &option], |_| ());
    replica.wait_until("an answer", |_| true);
    replica
}

/// Ends all dumps, so that every replica must log in again.
fn end_dumps(server: &Server) {
    let list = server.sql("SHOW PROCESSLIST");
    let dumps = list.lines().filter(|line| line.contains("Binlog Dump"));
    dumps.filter_map(|line| line.split('\t').next()).for_each(|id| drop(server.sql(&format!("KILL {id}"))));
}

fn refused_logins(server: &Server) -> u64 {
    let answer = server.sql("SHOW GLOBAL STATUS LIKE 'Aborted_connects'");
    answer.trim().rsplit('\t').next().unwrap().parse().unwrap()
}

#[test]
fn a_stale_password_does_not_lock_the_account() {
    let server = Server::start("locking", &[]);
    server.sql(
        "CREATE USER locking@'%' IDENTIFIED BY 'one' FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME UNBOUNDED;
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT, LOCK TABLES, RELOAD, XA_RECOVER_ADMIN ON *.* TO locking@'%';
         CREATE DATABASE l; CREATE TABLE l.t (id INT PRIMARY KEY); INSERT INTO l.t VALUES (1)",
    );
    let files: [PathBuf; 2] = [folder("current.cnf"), folder("stale.cnf")];
    files.iter().for_each(|file| password(file, "one"));
    let mut current = follow(&server, "current", &files[0]);
    let mut stale = follow(&server, "stale", &files[1]);
    current.catch_up(&server);
    stale.catch_up(&server);
    let run = |command: &[&str], replica: &Replica| slipstream(&[command, &["--data", replica.data()]].concat());
    // What is received and not replayed yet is replayed without a connection.
    run(&["stop", "sql"], &stale).expect(0, &[]);
    server.sql("INSERT INTO l.t VALUES (2)");
    let goal = server.gtid_executed();
    stale.wait_until("receiving", |status| goal.is_subset_of(&retrieved(status)));

    let before = refused_logins(&server);
    server.sql("ALTER USER locking@'%' IDENTIFIED BY 'two'");
    password(&files[0], "two");
    end_dumps(&server);
    let status = stale.wait_until("a refusal", |status| status["source"]["next_try"].is_string());
    assert_eq!((&status["source"]["state"], &status["last_io_error"]["number"]), (&"connecting".into(), &1045.into()));
    run(&["status"], &stale).expect(0, &["Replica_IO_Running   Connecting", "next try", "Last_IO_Error", "1045"]);
    run(&["start", "sql"], &stale).expect(0, &[]);
    stale.wait_until("replay", |status| goal.is_subset_of(&executed(status)));
    assert_equal(&server, &mut current, &["l"]);

    // Nothing that connects tries the same password again.
    for _ in 0..4 {
        run(&["verify"], &stale).expect(1, &["1045", "not tried again"]);
        run(&["copy", "l.t"], &stale).expect(1, &["1045"]);
        run(&["reload"], &stale).expect(0, &["the same as before"]);
    }
    stale.signal(Signal::HUP);
    wait_for("SIGHUP", || stale.log().contains("option files read again").then_some(()), || stale.log_end());
    password(&files[1], "one");
    assert_eq!(refused_logins(&server) - before, 1, "{}", stale.log_end());
    // An operator may ask for one more try.
    run(&["start", "io"], &stale).expect(0, &[]);
    wait_for("a try", || (refused_logins(&server) - before == 2).then_some(()), || stale.log_end());
    // The account is not locked: who has the right password can return.
    end_dumps(&server);
    server.sql("INSERT INTO l.t VALUES (3)");
    assert_equal(&server, &mut current, &["l"]);
    // The new password is tried as soon as the file has it.
    password(&files[1], "two");
    assert_equal(&server, &mut stale, &["l"]);
    let status = stale.status().unwrap();
    assert!(status["last_io_error"].is_null() && status["source"]["next_try"].is_null(), "{status}");
    run(&["copy", "l.t"], &stale).expect(0, &[]);
    current.stop();
    stale.stop();
}

#[test]
fn reload_finds_a_new_password_and_keeps_the_old_one_if_the_file_is_wrong() {
    let server = Server::start_unsynced("reload", &[]);
    server.sql(
        "CREATE USER locking@'%' IDENTIFIED BY 'one';
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO locking@'%'; CREATE DATABASE l",
    );
    let file = folder("reload.cnf");
    password(&file, "one");
    let mut replica = follow(&server, "reload", &file);
    replica.catch_up(&server);
    let reload = || slipstream(&["reload", "--data", replica.data()]);
    std::fs::write(&file, "[slipstream]\nno-such-option=1\n").unwrap();
    reload().expect(2, &["no-such-option"]);
    std::fs::write(&file, "[slipstream]\nhost=elsewhere\npassword=one\n").unwrap();
    reload().expect(2, &["another source"]);
    end_dumps(&server);
    server.sql("CREATE DATABASE m");
    replica.catch_up(&server);
    let reload = || slipstream(&["reload", "--data", replica.data()]);
    server.sql("ALTER USER locking@'%' IDENTIFIED BY 'two'");
    password(&file, "two");
    reload().expect(0, &["has changed"]);
    end_dumps(&server);
    server.sql("CREATE DATABASE n");
    replica.catch_up(&server);
    replica.stop();
}
