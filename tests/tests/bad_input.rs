//! Bad input of every kind, tried on the real program: a clear error, the right exit code, no panic; and an equal copy
//! wherever it is possible to continue.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use testkit::log;
use whole_program_tests::{
    Proxy, Replica, Server, assert_equal, copy_folder, folder, length, shop, slipstream, slipstream_with, wait_for,
};

static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());

fn server() -> Arc<Server> {
    Server::shared(&SERVER, "faults", &[])
}

#[test]
fn nobody_there_and_wrong_password() {
    let server = server();
    let data = folder("wrong");
    let arguments = |source: &str| ["replica", "--source", source, "--data", data.to_str().unwrap()].map(str::to_owned);
    let try_with = |source: &str, password: &str| {
        let arguments = arguments(source);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        slipstream_with(&arguments, |command| {
            command.env("MYSQL_PWD", password);
        })
    };
    let wrong = try_with(&server.url("repl"), "Geheim-1");
    wrong.expect(11, &["1045", "access denied", "repl"]);
    assert!(!format!("{}{}", wrong.out, wrong.err).contains("Geheim-1"));
    let checked = slipstream_with(&["check", "--source", &server.url("repl")], |command| {
        command.env("MYSQL_PWD", "Geheim-1");
    });
    checked.expect(1, &["1045", "hint: correct user and password in the option file or at the source"]);
    try_with("mysql://repl@no-such-host.invalid:3306", "repl").expect(11, &["no-such-host.invalid"]);
    try_with("mysql://repl@127.0.0.1:1", "repl").expect(11, &["127.0.0.1:1", "refused"]);
    try_with("mysql://repl@127.0.0.1:notaport", "repl").expect(2, &["port"]);
    try_with("http://127.0.0.1", "repl").expect(2, &["mysql://"]);
    try_with("file:/no/such/file.000001", "repl").expect(8, &["/no/such/file.000001"]);
    // A server that speaks another protocol.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let greeter = std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut client, _) = listener.accept().unwrap();
        let _ = client.write_all(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n");
    });
    try_with(&format!("mysql://repl@127.0.0.1:{port}"), "repl").expect(1, &[]);
    greeter.join().unwrap();
    // The failed attempts left a usable folder.
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.catch_up(&server);
    replica.stop();
}

/// `slipstream check` printed a source's escape sequences and line ends to the terminal.
#[test]
fn words_of_a_source_do_not_steer_the_terminal() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let words = "evil \u{1b}[31m\u{1b}]0;title\u{7}\n2026-11-29T00:00:00Z 0 [System] [SLIP-000001] forged\nslipstream: hint: run it";
    let server = std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut client, _) = listener.accept().unwrap();
        let mut packet = vec![u8::try_from(words.len() + 3).unwrap(), 0, 0, 0, 0xff, 0x51, 0x04];
        packet.extend_from_slice(words.as_bytes());
        client.write_all(&packet).unwrap();
    });
    let ran = slipstream(&["check", "--no-defaults", "--source", &format!("mysql://repl@127.0.0.1:{port}")]);
    server.join().unwrap();
    ran.expect(1, &["evil ?[31m?]0;title? 2026-11-29T00:00:00Z 0 [System]"]);
    assert!(ran.err.lines().all(|line| line.starts_with("slipstream: ")), "{}", ran.err);
    assert!(!ran.err.contains("\nslipstream: hint: run it") && !ran.err.contains(['\u{1b}', '\u{7}']), "{:?}", ran.err);
}

#[test]
fn source_restarted_killed_and_gone() {
    let server = Server::start("mortal", &["--max-binlog-size=256K"]);
    server.sql(&shop::schema("mortal"));
    let mut replica = Replica::follow(&server, &folder("mortal"), &["--source-connect-retry=500ms"]);
    let mut first = 0;
    let mut load = |server: &Server| {
        server.sql(&shop::load("mortal", first, first, 40));
        first += 40;
    };
    for round in 0..length(1, 3) {
        load(&server);
        server.restart(&[]);
        load(&server);
        replica.catch_up(&server);
        // Killed in the middle of a load.
        std::thread::scope(|scope| {
            let goal = server.gtid_executed();
            let writing = scope.spawn(|| {
                let _ = server.try_sql(&shop::load("mortal", 99, 100_000 + round * 10_000, 3000));
            });
            wait_for("some load", || (server.gtid_executed().count() > goal.count() + 50).then_some(()), String::new);
            server.kill();
            writing.join().unwrap();
        });
        server.restart(&[]);
        assert_equal(&server, &mut replica, &["mortal"]);
        // Away for a while: status says so, replay stays up, lag is unknown.
        load(&server);
        server.stop();
        let since = std::time::Instant::now();
        let gone = std::time::Duration::from_secs(length(3, 60));
        let status = replica.wait_until("reconnecting", |status| {
            status["source"]["state"] == "connecting"
                && status["source"]["reconnects"].as_u64() > Some(3)
                && since.elapsed() > gone
        });
        assert!(status["last_error"]["text"].as_str().unwrap().contains("127.0.0.1"), "{}", status["last_error"]);
        slipstream(&["status", "--data", replica.data(), "--max-lag", "1h"]).expect(1, &["lag is not known"]);
        server.restart(&[]);
        load(&server);
        assert_equal(&server, &mut replica, &["mortal"]);
    }
    // Started while the source is away: it knows the source and waits for it.
    let data = replica.data.clone();
    replica.stop();
    server.stop();
    let mut replica = Replica::follow(&server, &data, &["--source-connect-retry=500ms"]);
    replica.wait_until("connecting", |status| status["source"]["state"] == "connecting");
    server.restart(&[]);
    load(&server);
    assert_equal(&server, &mut replica, &["mortal"]);
    replica.stop();
    // With a limit on attempts it gives up.
    server.stop();
    let replica =
        Replica::spawn(&server.url("repl"), &data, &["--source-connect-retry=100ms", "--source-retry-count=3"], |_| ());
    replica.expect_exit(1, &["refused"]);
}

/// One transaction with every kind of event; `n` keeps keys apart, lengths stay the same.
fn transaction(n: u64) -> String {
    format!(
        "BEGIN; INSERT INTO cut.t VALUES ({}, 'inserted', REPEAT('b', 40)), ({}, 'second', NULL); \
         UPDATE cut.t SET v = 'updated' WHERE id = {}; INSERT INTO cut.dup VALUES (1), (1); DELETE FROM cut.dup LIMIT 1; COMMIT;",
        10_000 + 2 * n,
        10_001 + 2 * n,
        10_000 + 2 * n,
    )
}

#[test]
fn the_stream_cut_at_every_byte_of_a_transaction() {
    cut_at_every_byte("OFF");
}

#[test]
fn the_stream_cut_at_every_byte_of_a_compressed_transaction() {
    cut_at_every_byte("ON");
}

fn cut_at_every_byte(compression: &str) {
    // A server of its own: the bytes that pass must be this transaction's.
    let server = Server::start("cut", &[&format!("--binlog-transaction-compression={compression}")]);
    server.sql("CREATE DATABASE cut; CREATE TABLE cut.t (id INT PRIMARY KEY, v VARCHAR(20), b TEXT); CREATE TABLE cut.dup (x INT)");
    let proxy = Proxy::start(server.port());
    let options = [
        "--get-server-public-key",
        "--source-heartbeat-period=1h",
        "--replica-net-timeout=2h",
        "--source-connect-retry=100ms",
    ];
    let mut replica = Replica::start(&proxy.url(), &folder("cut"), &options);
    server.sql(&transaction(0));
    replica.catch_up(&server);
    let before = proxy.dump_bytes();
    server.sql(&transaction(1));
    replica.catch_up(&server);
    let len = proxy.dump_bytes() - before;
    assert!((200..3000).contains(&len), "{len} bytes a transaction");
    // Compressed ones vary by a few bytes.
    let step = length(if compression == "OFF" { 11 } else { 31 }, 1);
    let mut n = 2;
    for cut in (0..len).step_by(step).chain([len - 1, len]) {
        let cuts = proxy.cuts();
        proxy.cut_after(cut);
        server.sql(&transaction(n));
        n += 1;
        replica.catch_up(&server);
        if compression == "OFF" {
            wait_for("the cut", || (proxy.cuts() > cuts).then_some(()), || format!("at {cut} of {len}"));
        }
    }
    // A refused connection is another kind of cut.
    proxy.close(true);
    proxy.cut_after(0);
    server.sql(&transaction(n));
    replica.wait_until("connecting", |status| status["source"]["state"] == "connecting");
    proxy.close(false);
    assert_equal(&server, &mut replica, &["cut"]);
    let data = replica.data.clone();
    replica.stop();
    // The relay log holds everything exactly once too: a fresh process builds the same from it.
    let mut replica = Replica::start(&proxy.url(), &data, &options);
    assert_equal(&server, &mut replica, &["cut"]);
    replica.stop();
}

/// A source that falls silent, heartbeats included, without closing the connection.
#[test]
fn a_silent_source_is_left_and_found_again() {
    let server = server();
    server.sql("CREATE DATABASE silent; CREATE TABLE silent.t (id INT PRIMARY KEY)");
    let proxy = Proxy::start(server.port());
    let options = [
        "--get-server-public-key",
        "--source-heartbeat-period=200ms",
        "--replica-net-timeout=1s",
        "--connect-timeout=1s",
    ];
    let mut replica = Replica::start(&proxy.url(), &folder("silent"), &options);
    replica.catch_up(&server);
    proxy.silence(true);
    server.sql("INSERT INTO silent.t VALUES (1)");
    replica.wait_until("a reconnect", |status| {
        status["source"]["reconnects"].as_u64() > Some(0) && status["source"]["state"] == "connecting"
    });
    proxy.silence(false);
    assert_equal(&server, &mut replica, &["silent"]);
    // Asked to stop while it waits for an answer that never comes.
    proxy.silence(true);
    let since = std::time::Instant::now();
    replica.signal(rustix::process::Signal::TERM);
    assert_eq!(replica.wait_exit(), 0, "{}", replica.log());
    assert!(since.elapsed() < std::time::Duration::from_secs(20), "{:?}", since.elapsed());
}

/// Relay log files of a folder, oldest first.
fn relay_files(data: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(data.join("relay-log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        path.extension().is_some_and(|e| e.len() == 6 && e.to_str().unwrap().bytes().all(|b| b.is_ascii_digit()))
    });
    files.sort();
    files
}

#[test]
fn relay_files_torn_flipped_deleted() {
    let server = server();
    server.sql(&shop::schema("relay"));
    let mut replica = Replica::follow(&server, &folder("relay"), &["--max-relay-log-size=20K"]);
    for n in 0..6 {
        server.sql(&shop::load("relay", n, n * 20, 20));
        replica.catch_up(&server);
    }
    let origin = replica.data.clone();
    replica.kill();
    let files = relay_files(&origin);
    assert!(files.len() >= 3, "{files:?}");
    let name = |at: usize| files[at].file_name().unwrap().to_str().unwrap().to_owned();
    let last = files.len() - 1;
    let damaged = |what: &str, damage: &dyn Fn(&Path)| {
        let data = folder(what);
        copy_folder(&origin, &data);
        damage(&data.join("relay-log"));
        data
    };
    let damage_file = |log: &Path, at: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let path = log.join(name(at));
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
    };

    // The tail of the last file torn, cut at places all over its last events, or followed by garbage: fetched again.
    let len = std::fs::metadata(&files[last]).unwrap().len() as usize;
    let mut cuts: Vec<usize> = vec![0, 1, 4, 60, len - 1, len - 4, len - 20, len - 33];
    cuts.extend((0..length(6, 60)).map(|n| 4 + (len - 4) * n / length(6, 60)));
    for cut in cuts {
        let data = damaged("torn", &|log| damage_file(log, last, &|bytes| bytes.truncate(cut)));
        let mut replica = Replica::follow(&server, &data, &[]);
        assert_equal(&server, &mut replica, &["relay"]);
        replica.stop();
    }
    let data = damaged("garbage", &|log| damage_file(log, last, &|bytes| bytes.extend_from_slice(&[0; 5000])));
    let mut replica = Replica::follow(&server, &data, &[]);
    assert_equal(&server, &mut replica, &["relay"]);
    replica.stop();

    // Damage or a gap in complete files is reported with the file's name and fetched again from the source. Commands
    // that only read the stopped folder report it too.
    let mended = |what: &str, file: &str, damage: &dyn Fn(&Path)| {
        let data = damaged(what, damage);
        slipstream(&["dump", "--data", data.to_str().unwrap()]).expect(7, &[file]);
        let mut replica = Replica::follow(&server, &data, &[]);
        assert_equal(&server, &mut replica, &["relay"]);
        eprintln!("{what}");
        replica.waits_for_log(&[file, "the source will send the rest again"]);
        replica.stop();
    };
    for place in [5, 300, 2000, 9000] {
        mended("flipped", &name(1), &|log| damage_file(log, 1, &|bytes| bytes[place] ^= 0x10));
    }
    for gone in [0, 1, last] {
        mended("gone", &name(gone), &|log| std::fs::remove_file(log.join(name(gone))).unwrap());
    }
    let text = "this is a text\n".repeat(900);
    mended("strange", &name(1), &|log| std::fs::write(log.join(name(1)), &text).unwrap());
    // A damaged index is rebuilt from the files.
    let data = damaged("index", &|log| {
        let index = std::fs::read_dir(log)
            .unwrap()
            .map(|e| e.unwrap().path())
            .find(|p| p.extension().is_some_and(|e| e == "index"));
        std::fs::write(index.unwrap(), b"\xff\x00../../../etc/passwd\n\n./nonsense.000009\n").unwrap();
    });
    slipstream(&["dump", "--data", data.to_str().unwrap()]).expect(7, &[".index"]);
    let mut replica = Replica::follow(&server, &data, &[]);
    assert_equal(&server, &mut replica, &["relay"]);
    replica.stop();
    // Format file and identity.
    let data = damaged("format", &|log| std::fs::write(log.parent().unwrap().join("auto.cnf"), "nonsense").unwrap());
    Replica::spawn(&server.url("repl"), &data, &[], |_| ()).expect_exit(7, &["auto.cnf"]);
}

#[test]
fn a_second_process_on_the_folder() {
    let server = server();
    let mut replica = Replica::follow(&server, &folder("twice"), &[]);
    let url = server.url("repl");
    slipstream(&["replica", "--source", &url, "--data", replica.data()])
        .expect(3, &["in use", &replica.pid().to_string()]);
    replica.catch_up(&server);
    let data = replica.data.clone();
    replica.kill();
    // A killed process's lock does not count.
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.catch_up(&server);
    replica.stop();
    // Folders of others are left alone.
    let foreign = folder("foreign");
    std::fs::create_dir_all(&foreign).unwrap();
    std::fs::write(foreign.join("ibdata1"), "x").unwrap();
    slipstream(&["replica", "--source", &url, "--data", foreign.to_str().unwrap()]).expect(7, &["ibdata1"]);
    slipstream(&["status", "--data", foreign.to_str().unwrap()]).expect(7, &[]);
    slipstream(&["status", "--data", "/no/such/folder"]).expect(1, &["/no/such/folder"]);
    for command in ["stop", "pause", "resume"] {
        slipstream(&[command, "--data", data.to_str().unwrap()]).expect(1, &["no replica runs"]);
    }
}

#[test]
fn configuration() {
    let file = folder("my.cnf");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let run = || {
        let path = file.to_str().unwrap().to_owned();
        let arguments = ["status".to_owned(), format!("--defaults-file={path}")];
        let mut command = std::process::Command::new(whole_program_tests::binary());
        whole_program_tests::Ran::from(command.args(&arguments).output().unwrap())
    };
    let path = file.to_str().unwrap();
    write("[mysqld]\nwhatever=1\n[slipstream]\n# a comment\nreplica_parallel_worker = 3\n");
    run().expect(2, &[path, "replica-parallel-workers"]);
    write("[slipstream]\nqueue-memory = 3X\n");
    run().expect(2, &[path, "3X"]);
    write("[slipstream]\nssl-mode = SOMETIMES\n");
    run().expect(2, &["SOMETIMES", "VERIFY_CA"]);
    write("[slipstream]\ndatadir = /no/such/folder\nloose-never-heard = 1\n");
    run().expect(1, &["/no/such/folder"]);
    write("[slipstream]\nsource = mysql://u:Geheim-2@h\nrelay_sync = sometimes\n");
    let ran = run();
    ran.expect(2, &["sometimes"]);
    assert!(!format!("{}{}", ran.out, ran.err).contains("Geheim-2"));
    slipstream(&["replica", "--dat", "x"]).expect(2, &["--data"]);
    slipstream(&["replicate"]).expect(2, &["replica"]);
    slipstream(&["replica", "--data", "/tmp/x"]).expect(2, &["source"]);
    slipstream(&["replica", "--source", "mysql://u@h", "--data", "/tmp/x", "--relay-sync=never", "--semi-sync"])
        .expect(2, &["semi-sync"]);
    let set = |value: &str| slipstream(&["replica", "--source", "mysql://u@h", "--data", "/tmp/x", "--set", value]);
    set("time_zone").expect(2, &["'time_zone' is not NAME=VALUE"]);
    set("time_zone=Europe/Berlin").expect(2, &["Unknown or incorrect time zone: 'Europe/Berlin'"]);
    set("version=1").expect(2, &["'version' cannot be set here; these can: autocommit, "]);
    slipstream(&["skip", "nonsense", "--data", "/tmp/x"]).expect(2, &["nonsense"]);
}

/// Recorded logs of many servers, old and new, whole and broken: each is replayed, or refused with the right code.
#[test]
fn recorded_files_of_every_kind() {
    let recorded = |name: &str| std::fs::read(log::recorded(name)).unwrap();
    let folder_of_broken = folder("broken");
    std::fs::create_dir_all(&folder_of_broken).unwrap();
    let broken = |name: &str, bytes: &[u8]| {
        let path = folder_of_broken.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let (types, mut flipped) = (recorded("types"), recorded("types"));
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let (_, development, _) = log::old_logs().into_iter().find(|(name, ..)| name.starts_with("5.1")).unwrap();
    let mut files = log::recorded_logs();
    files.push(broken("cut_in_the_first_event", &types[..14]));
    files.push(broken("cut_in_a_header", &types[..types.len() / 2]));
    files.push(broken("flipped", &flipped));
    files.push(broken("5.1", &development));
    files.sort();
    let known: &[(&str, i32, &[&str])] = &[
        ("mariadb.binlog", 6, &["MariaDB"]),
        ("5.1", 6, &["5.1"]),
        ("cut_in_the_first_event", 7, &["ends inside an event"]),
        ("cut_in_a_header", 7, &[]),
        ("flipped", 7, &[]),
        ("as_statements.binlog", 6, &["a statement changes rows as text"]),
    ];
    let mut replayed = 0;
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let data = folder("recorded");
        let ran = slipstream(&[
            "replica",
            "--source",
            &format!("file:{}", path.display()),
            "--data",
            data.to_str().unwrap(),
            "--check-images=all",
        ]);
        let said = format!("{}{}", ran.out, ran.err);
        eprintln!(
            "{name}: {} {}",
            ran.code,
            said.lines().filter(|line| line.contains("[ERROR]")).collect::<Vec<_>>().join("\n")
        );
        assert!(!said.contains("panicked"), "{name}: {said}");
        // 9: a log that begins in the middle, after the rows it changes were inserted.
        assert!([0, 6, 7, 9].contains(&ran.code), "{name}: code {}: {said}", ran.code);
        if ran.code == 0 {
            replayed += 1;
            slipstream(&["dump", "--data", data.to_str().unwrap(), "--format", "tab"]).expect(0, &[]);
        } else {
            assert!(said.contains("[ERROR]"), "{name}: no message: {said}");
        }
        if let Some((_, code, texts)) = known.iter().find(|(file, ..)| *file == name) {
            ran.expect(*code, texts);
        }
    }
    assert!(replayed >= 6, "{replayed} replayed to their end");
    let encrypted = folder("encrypted");
    std::fs::write(&encrypted, b"\xfdbin\x01\x01\x00\x00 and then nothing readable").unwrap();
    let text = folder("text");
    std::fs::write(&text, "SELECT 1;\n").unwrap();
    let empty = folder("empty");
    std::fs::write(&empty, "").unwrap();
    for (path, code, words) in [(&encrypted, 6, "encrypted"), (&text, 7, "not a"), (&empty, 7, "")] {
        let source = format!("file:{}", path.display());
        let data = folder("strange");
        slipstream(&["replica", "--source", &source, "--data", data.to_str().unwrap()]).expect(code, &[words]);
        slipstream(&["check", "--source", &source]).expect(code, &[words]);
        slipstream(&["lab", "replay", path.to_str().unwrap()]).expect(code, &[words]);
    }
}

#[test]
fn lag_above_the_limit() {
    let server = server();
    server.sql("CREATE DATABASE late; CREATE TABLE late.t (id INT PRIMARY KEY)");
    let mut replica = Replica::follow(&server, &folder("lag"), &[]);
    replica.catch_up(&server);
    slipstream(&["pause", "--data", replica.data()]).expect(0, &[]);
    server.sql("INSERT INTO late.t VALUES (1)");
    replica.wait_until("lag", |status| {
        status["backlog"]["transactions"].as_u64() > Some(0) && status["lag"]["current_us"].as_u64() > Some(50_000)
    });
    slipstream(&["status", "--data", replica.data(), "--max-lag", "10ms"]).expect(1, &["lag", "is above 10"]);
    slipstream(&["status", "--data", replica.data(), "--max-lag", "1d"]).expect(0, &["paused"]);
    slipstream(&["resume", "--data", replica.data()]).expect(0, &[]);
    replica.catch_up(&server);
    let data = replica.data().to_owned();
    let fresh = || (slipstream(&["status", "--data", &data, "--max-lag", "1s"]).code == 0).then_some(());
    wait_for("fresh rows", fresh, String::new);
    replica.stop();
}
