//! Backups of a data folder, running and stopped: a replica made of one goes on without a copy and equals its source.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testkit::server::mysqlbinlog;
use whole_program_tests::replica::{executed, stopped_executed};
use whole_program_tests::{
    Load, Replica, Server, SmallDisk, assert_equal, binary, folder, length, run_with_input, slipstream,
    slipstream_with, wait_for,
};

const TPCC: &str = "tpcc";
/// Many cuts, and files of the relay log that each of them purges.
const OPTIONS: [&str; 4] = ["--memory=128M", "--cut-interval=50ms", "--max-relay-log-size=64K", "--on-stop=stay"];
/// Steps of a backup of a running replica, each of which a test cuts, merges, purges or dies in.
const STEPS: u64 = 8;

/// A server with TPC-C's tables whose log has lost its beginning: a replica without a backup would have to copy it.
fn server(name: &str) -> Server {
    let server = Server::start(name, &[]);
    server.sql("CREATE USER `load` IDENTIFIED BY 'repl'; GRANT ALL ON *.* TO `load`");
    let url = server.url("load");
    let arguments = ["--server", &url, "--database", TPCC, "--warehouses=1", "--scale=0.02"];
    slipstream(&[&["lab", "tpcc", "prepare"][..], &arguments].concat()).expect(0, &[]);
    server.sql("GRANT RELOAD, LOCK TABLES, XA_RECOVER_ADMIN, BACKUP_ADMIN, PROCESS ON *.* TO repl");
    server.purge_binary_logs();
    server
}

/// A replica of a server that has its copy, with a fail point.
fn replica(server: &Server, data: &Path, fail_point: &str) -> Replica {
    let mut replica = Replica::spawn(&server.url("repl"), data, &OPTIONS, |command| {
        command.env("SLIPSTREAM_FAILPOINT", fail_point);
    });
    replica.copied();
    replica
}

fn backup(data: &Path, to: &Path) -> whole_program_tests::Ran {
    slipstream(&["backup", "--data", data.to_str().unwrap(), "--to", to.to_str().unwrap()])
}

fn restore(from: &Path, data: &Path) -> whole_program_tests::Ran {
    slipstream(&["restore-folder", "--from", from.to_str().unwrap(), "--data", data.to_str().unwrap()])
}

fn uuid(data: &Path) -> String {
    std::fs::read_to_string(data.join("auto.cnf")).unwrap()
}

/// Restores a backup, and follows the source with it: no copy, another uuid, equal at the end.
#[track_caller]
fn goes_on(server: &Server, from: &Path, original: &Path, name: &str) -> Replica {
    goes_on_in(server, from, original, &folder(name))
}

#[track_caller]
fn goes_on_in(server: &Server, from: &Path, original: &Path, data: &Path) -> Replica {
    restore(from, data).expect(0, &["GTIDs"]);
    let had = stopped_rows(data);
    let mut restored = Replica::follow(server, data, &OPTIONS);
    assert_equal(server, &mut restored, &[TPCC]);
    let log = restored.log();
    assert!(!log.contains("[SLIP-000025]"), "it copied its source:\n{log}");
    assert!(had > 0 && log.contains("kept store: cut at transaction"), "{log}");
    assert_ne!(uuid(data), uuid(original));
    restored
}

/// Lines that a dump of the stopped folder has.
fn stopped_rows(data: &Path) -> usize {
    let ran = slipstream(&["dump", "--data", data.to_str().unwrap(), "--format=tab", "tpcc.stock"]);
    ran.expect(0, &[]);
    ran.out.lines().count()
}

/// Waits until no links and no holds of a backup are left.
#[track_caller]
fn is_let_go(replica: &mut Replica) {
    let data = replica.data.clone();
    wait_for("the links' end", || (!data.join("backing-up").exists()).then_some(()), || replica.log_end());
}

fn cuts(replica: &Replica) -> usize {
    replica.log().matches("[SLIP-000023]").count()
}

fn relay_files(data: &Path) -> usize {
    std::fs::read_dir(data.join("relay-log")).unwrap().count()
}

/// Cuts, merges and purges come at each step of the backup; what it needs stays, and goes afterwards.
#[test]
fn cuts_merges_and_purges_at_each_step() {
    let server = server("backup-steps");
    let data = folder("backup-steps");
    let mut running = replica(&server, &data, "backup_forces_cuts=5");
    let load = Load::start(&server);
    wait_for("some cuts", || (cuts(&running) > 10).then_some(()), || running.log_end());
    let before = cuts(&running);
    let file = folder("backup-steps-file").with_extension("tar");
    backup(&data, &file).expect(0, &["rows", "of relay log, GTIDs"]);
    let during = cuts(&running) - before;
    assert!(during as u64 >= 5 * STEPS, "{during} cuts");
    // Nothing holds the log any more.
    wait_for("a purge", || (relay_files(&data) < 12).then_some(()), || format!("{} files", relay_files(&data)));
    is_let_go(&mut running);
    running.waits_for_log(&["[SLIP-000110]"]);

    // What MySQL's and the system's tools say of the file.
    let unpacked = folder("backup-steps-unpacked");
    std::fs::create_dir_all(&unpacked).unwrap();
    let shell = format!("tar -xf {} && sha256sum -c SHA256SUMS", file.display());
    let ran = Command::new("sh").args(["-c", &shell]).current_dir(&unpacked).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    for absent in [
        "auto.cnf",
        "slipstream.lock",
        "slipstream.sock",
        "server-key.pem",
        "accounts",
        "accounts-proved",
        "scratch",
        "running",
    ] {
        assert!(!unpacked.join(absent).exists(), "{absent}");
    }
    let log = std::fs::read_dir(unpacked.join("relay-log")).unwrap().flatten().map(|entry| entry.path());
    for part in log.filter(|path| path.file_stem().is_some_and(|stem| stem == "relay-bin")) {
        if part.extension().is_some_and(|number| number != "index") {
            mysqlbinlog(&["--verify-binlog-checksum"], &part).expect(0, &[]);
        }
    }

    drop(load);
    let mut restored = goes_on(&server, &file, &data, "backup-steps-restored");
    // It is a replica like any other: a backup of it makes the next one.
    let second = folder("backup-steps-second").with_extension("tar");
    backup(&restored.data, &second).expect(0, &[]);
    assert_equal(&server, &mut restored, &[TPCC]);
    goes_on(&server, &second, &data, "backup-steps-third").stop();
    assert_equal(&server, &mut running, &[TPCC]);
}

/// A relay log that no cut needs any more is not copied, although its file is the last one.
#[test]
fn a_long_log_is_left_behind() {
    let server = server("backup-long");
    let data = folder("backup-long");
    let mut running = Replica::follow(&server, &data, &["--memory=128M", "--cut-interval=50ms"]);
    running.copied();
    server.sql(
        "CREATE TABLE tpcc.filler (id INT PRIMARY KEY, v VARCHAR(4000)); SET cte_max_recursion_depth = 10000;
         INSERT INTO tpcc.filler SELECT n, REPEAT(SHA2(n, 512), 25) FROM
           (WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 8000) SELECT n FROM s) x",
    );
    let load = Load::start(&server);
    let status = running.catch_up(&server);
    assert!(status["disk"]["relay_log_bytes"].as_u64() > Some(24 << 20), "{status}");
    let file = folder("backup-long-file").with_extension("tar");
    backup(&data, &file).expect(0, &[]);
    drop(load);
    let ran = Command::new("tar").arg("-xOf").arg(&file).arg("backup-end.json").output().unwrap();
    let end: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(end["relay_log_bytes"].as_u64() < Some(8 << 20), "{end}");
    goes_on(&server, &file, &data, "backup-long-restored").stop();
}

/// The replica is killed at each step: there is no file, and the replica goes on as after any kill.
#[test]
fn the_replica_is_killed_at_each_step() {
    let server = server("backup-killed");
    let data = folder("backup-killed");
    let _load = Load::start(&server);
    let file = folder("backup-killed-file").with_extension("tar");
    for step in 1..=length(STEPS, 3 * STEPS) {
        let point = format!("die_at=backup:{}", 1 + (step - 1) % STEPS);
        let mut running = replica(&server, &data, &point);
        let ran = backup(&data, &file);
        assert_ne!(ran.code, 0, "{point}: {}", ran.out);
        assert_eq!(running.wait_exit(), 128 + 9, "{point}");
        assert!(!file.exists() && !file.with_extension("tar.part").exists(), "{point}");
        drop(running);
    }
    let mut running = replica(&server, &data, "");
    assert!(!data.join("backing-up").exists(), "a start removes what the killed one left");
    backup(&data, &file).expect(0, &[]);
    drop(_load);
    goes_on(&server, &file, &data, "backup-killed-restored").stop();
    assert_equal(&server, &mut running, &[TPCC]);
}

/// The process that writes the file is killed, and the one that restores it.
#[test]
fn the_backup_and_the_restore_are_killed() {
    let server = server("backup-client");
    let data = folder("backup-client");
    let mut running = replica(&server, &data, "");
    let load = Load::start(&server);
    wait_for("some cuts", || (cuts(&running) > 10).then_some(()), || running.log_end());
    let file = folder("backup-client-file").with_extension("tar");
    let (from, to) = (data.to_str().unwrap(), file.to_str().unwrap());
    for frame in [1, 2, 7, 20] {
        let ran = slipstream_with(&["backup", "--data", from, "--to", to], |command| {
            command.env("SLIPSTREAM_FAILPOINT", format!("die_at=save:{frame}"));
        });
        assert_eq!(ran.code, 128 + 9, "frame {frame}: {}", ran.err);
        assert!(!file.exists(), "frame {frame}");
        is_let_go(&mut running);
        wait_for("the log's line", || running.log().contains("[SLIP-000111]").then_some(()), || running.log_end());
    }
    backup(&data, &file).expect(0, &[]);
    backup(&data, &file).expect(2, &["exists"]);
    drop(load);

    let restored = folder("backup-client-restored");
    let into = restored.to_str().unwrap();
    let members = String::from_utf8(Command::new("tar").arg("-tf").arg(&file).output().unwrap().stdout).unwrap();
    let last = members.lines().count() as u64 - 1;
    for member in [1, 2, last / 2, last] {
        let ran = slipstream_with(&["restore-folder", "--from", to, "--data", into], |command| {
            command.env("SLIPSTREAM_FAILPOINT", format!("die_at=restore:{member}"));
        });
        assert_eq!(ran.code, 128 + 9, "member {member}: {}", ran.err);
        let refused = Replica::spawn(&server.url("repl"), &restored, &[], |_| ());
        refused.expect_exit(7, &["a restore from a backup runs here, or was interrupted", "restore-folder"]);
        slipstream(&["status", "--data", into]).expect(7, &["was interrupted"]);
    }
    // Over what the killed ones left.
    goes_on_in(&server, &file, &data, &restored).stop();
    restore(&file, &restored).expect(2, &["is not empty"]);
    running.stop();
}

/// A stopped folder and a killed one, through a pipe; with filters, a skip list and accounts.
#[test]
fn of_a_stopped_folder() {
    let server = server("backup-stopped");
    let data = folder("backup-stopped");
    let text = data.to_str().unwrap();
    let mut running = replica(&server, &data, "");
    let mut add = Command::new(binary());
    add.args(["account", "add", "reader", "--may=read", "--no-defaults", "--data", text]);
    run_with_input(&mut add, "a password of some length\n").expect(0, &[]);
    let skipped = format!("{}:1000000", server.sql("SELECT @@server_uuid").trim());
    slipstream(&["skip", "--data", text, &skipped]).expect(0, &[]);
    server.sql("UPDATE tpcc.stock SET s_ytd = s_ytd + 1");
    running.catch_up(&server);
    running.stop();
    let stopped = folder("backup-stopped-file").with_extension("tar");
    backup(&data, &stopped).expect(0, &[]);
    let mut killed = Replica::follow(&server, &data, &["--cut-interval=1h"]);
    server.sql("UPDATE tpcc.stock SET s_ytd = s_ytd + 1");
    let status = killed.catch_up(&server);
    killed.kill();

    // Through a pipe, as to another machine.
    let piped = folder("backup-piped");
    let shell = format!(
        "{0} backup --no-defaults --accounts --to - --data {text} | {0} restore-folder --no-defaults --from - --data {1}",
        binary().display(),
        piped.display()
    );
    let ran = Command::new("sh").args(["-ec", &shell]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(std::fs::read(piped.join("accounts")).unwrap(), std::fs::read(data.join("accounts")).unwrap());
    assert_eq!(std::fs::read_to_string(piped.join("skipped")).unwrap().trim(), skipped);
    // The whole log of the killed one, which no cut has.
    let mut restored = Replica::spawn("mysql://repl@127.0.0.1:1", &piped, &OPTIONS, |_| ());
    let goal = executed(&status);
    restored.wait_until("the log's end", |status| goal.is_subset_of(&executed(status)));
    restored.stop();
    assert_eq!(stopped_executed(&piped), goal);

    let restored = goes_on(&server, &stopped, &data, "backup-stopped-restored");
    let accounts = slipstream(&["account", "list", "--data", restored.data()]).out;
    assert!(!accounts.contains("reader"), "{accounts}");
    restored.stop();
}

/// A file that was changed or cut off is refused by the member's name, and leaves nothing.
#[test]
fn a_damaged_backup_is_refused() {
    let server = server("backup-damaged");
    let data = folder("backup-damaged");
    let running = replica(&server, &data, "");
    let file = folder("backup-damaged-file").with_extension("tar");
    backup(&data, &file).expect(0, &[]);
    running.stop();
    let whole = std::fs::read(&file).unwrap();
    let to = folder("backup-damaged-restored");
    let tried = file.with_extension("tried");
    let refused = |bytes: &[u8], texts: &[&str]| {
        std::fs::write(&tried, bytes).unwrap();
        restore(&tried, &to).expect(7, texts);
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0, "something is left");
    };
    let place = |name: &str| {
        let name = [name.as_bytes(), b"\0"].concat();
        whole.windows(name.len()).position(|part| part == name).unwrap()
    };
    let table = String::from_utf8(Command::new("tar").arg("-tf").arg(&file).output().unwrap().stdout).unwrap();
    let table = table.lines().find(|name| name.starts_with("store/tables/")).unwrap();
    for name in ["backup-begin.json", "store/current", table, "relay-log/relay-log.state", "backup-end.json"] {
        let at = place(name);
        let mut changed = whole.clone();
        changed[at + 512 + 3] ^= 1;
        refused(&changed, &[name]);
        refused(&whole[..at + 512 + 3], &["incomplete", name]);
    }
    refused(&whole[..place("SHA256SUMS")], &["incomplete", "ends after backup-end.json"]);
    refused(&whole[..0], &["not a backup"]);
    let mut newer = whole.clone();
    let at = place("backup-begin.json") + 512;
    let format = newer[at..].windows(2).position(|part| part == b"1,").unwrap();
    newer[at + format] = b'2';
    refused(&newer, &["format 2", "this program reads format 1"]);
    restore(&file, &to).expect(0, &[]);
}

/// A table file that the disk changed is found by the backup, and mended as any other damage.
#[test]
fn damage_is_not_backed_up() {
    let server = server("backup-damage");
    let data = folder("backup-damage");
    let mut running = replica(&server, &data, "");
    running.catch_up(&server);
    let tables = data.join("store/tables");
    let files = std::fs::read_dir(&tables).unwrap().flatten();
    let path = files.max_by_key(|file| file.metadata().map_or(0, |facts| facts.len())).unwrap().path();
    let bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    // In place: the tree has it open.
    let open = File::options().write(true).open(&path).unwrap();
    open.write_all_at(&[bytes[middle] ^ 1], middle as u64).unwrap();
    let file = folder("backup-damage-file").with_extension("tar");
    let number = path.file_name().unwrap().to_str().unwrap().to_owned();
    backup(&data, &file).expect(7, &[&format!("store/tables/{number} is damaged"), "no backup was made"]);
    assert!(!file.exists());
    running.wait_until("the damage mended", |status| {
        let damaged = status["replay"]["damaged"].as_array().unwrap();
        !damaged.is_empty()
            && damaged.iter().all(|file| file.as_str().unwrap().contains("gone, its tables"))
            && status["replay"]["quarantined"].as_array().is_some_and(Vec::is_empty)
    });
    // A cut that knows of the copy.
    for _ in 0..2 {
        let before = cuts(&running);
        server.sql("UPDATE tpcc.stock SET s_ytd = s_ytd + 1");
        wait_for("a cut", || (cuts(&running) > before).then_some(()), || running.log_end());
    }
    backup(&data, &file).expect(0, &[]);
    goes_on(&server, &file, &data, "backup-damage-restored").stop();
}

/// Starts a backup of which only a few bytes are read.
fn unread(data: &Path, stalled_after: &str) -> Child {
    let mut command = Command::new(binary());
    command.args(["backup", "--no-defaults", "--to=-", "--stalled-after", stalled_after, "--data"]).arg(data);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 512]).unwrap();
    child
}

fn purged(replica: &Replica) -> usize {
    replica.log().lines().filter(|line| line.contains("files purged: relay-bin")).count()
}

/// A reader that stalls ends the backup, and replay does not notice.
#[test]
fn a_stalled_reader_ends_it() {
    let server = server("backup-stalled");
    let data = folder("backup-stalled");
    let mut running = replica(&server, &data, "");
    let _load = Load::start(&server);
    wait_for("some cuts", || (cuts(&running) > 10).then_some(()), || running.log_end());
    let before = cuts(&running);
    let child = unread(&data, "2s");
    wait_for("the end", || running.log().contains("[SLIP-000111]").then_some(()), || running.log_end());
    let log = running.log();
    assert!(log.contains("nobody has read the backup for 2 s"), "{log}");
    assert!(cuts(&running) > before, "replay stood still");
    is_let_go(&mut running);
    let before = purged(&running);
    wait_for("a purge", || (purged(&running) > before).then_some(()), || running.log_end());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("SLIP-000111"));
}

/// The disk's reserve ends it: what it holds is free again, and replay goes on.
#[test]
fn the_disk_reserve_ends_it() {
    let Some(disk) = SmallDisk::new("backup-disk", 300) else { return };
    let server = server("backup-reserve");
    let data = disk.path().join("data");
    let source = server.url("repl");
    let options = [&OPTIONS[..], &["--disk-reserve=100M"]].concat();
    let mut running = Replica::spawn(&source, &data, &options, |_| ());
    running.copied();
    let load = Load::start(&server);
    wait_for("some cuts", || (cuts(&running) > 10).then_some(()), || running.log_end());
    let child = unread(&data, "1h");
    let status = running.wait_until("its progress", |status| status["backups"][0]["total_bytes"].is_u64());
    let [written, total] = ["written_bytes", "total_bytes"].map(|name| status["backups"][0][name].as_u64().unwrap());
    assert!(written > 0 && total > 0, "{status}");
    // Below the reserve, and never full: a full disk would start the engine again, which ends a backup too.
    let ballast = disk.path().join("ballast");
    let file = File::create(&ballast).unwrap();
    let bytes = disk.free() - (60 << 20);
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).unwrap();
    wait_for("the end", || running.log().contains("[SLIP-000111]").then_some(()), || running.log_end());
    running.waits_for_log(&["--disk-reserve is 100"]);
    is_let_go(&mut running);
    running.wait_until("no backup", |status| status["backups"].as_array().is_some_and(Vec::is_empty));
    // Refused at once, too.
    let never = folder("never");
    backup(&data, &never).expect(8, &["--disk-reserve"]);
    assert!(!never.exists());
    std::fs::remove_file(&ballast).unwrap();
    drop((file, load));
    assert_equal(&server, &mut running, &[TPCC]);
    drop(child);
    running.stop();
}
