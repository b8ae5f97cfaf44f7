//! Backups and dumps in folders where other users may write, and backups that others have written.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use whole_program_tests::{Ran, Replica, Server, binary, folder, run_with_input, slipstream};

/// Another user. Only root can act for it; others test what needs no second user.
const OTHER: u32 = 65534;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
}

/// A stopped replica with a table and an account.
fn stopped(name: &str) -> PathBuf {
    let server = Server::start_unsynced(name, &[]);
    let data = folder(name);
    let mut replica = Replica::follow(&server, &data, &[]);
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1), (2)");
    let mut add = Command::new(binary());
    add.args(["account", "add", "reader@10.0.0.0/8", "--may=read", "--no-defaults", "--data", text(&data)]);
    run_with_input(&mut add, "a password of some length\n").expect(0, &[]);
    replica.catch_up(&server);
    replica.stop();
    data
}

/// A folder where everybody may write, and one of our own with files.
fn shared(name: &str) -> (PathBuf, PathBuf) {
    let (shared, own) = (folder(&format!("{name}-shared")), folder(&format!("{name}-own")));
    fs::create_dir(&shared).unwrap();
    mode(&shared, 0o777);
    fs::create_dir(&own).unwrap();
    mode(&own, 0o700);
    fs::write(own.join("precious"), "precious").unwrap();
    (shared, own)
}

fn backup(data: &Path, to: &Path) -> Ran {
    slipstream(&["backup", "--accounts", "--to", text(to), "--data", text(data)])
}

fn dump(data: &Path, to: &Path) -> Ran {
    slipstream(&["dump", "--to", text(to), "--data", text(data)])
}

#[test]
fn what_others_put_there_is_not_taken_over() {
    let data = stopped("taken-over");
    let (shared, own) = shared("taken-over");
    let at = |name: &str| shared.join(name);

    // A file that others may read, one of another user's, a link, a FIFO, a second name.
    fs::write(at("open.part"), "").unwrap();
    mode(&at("open.part"), 0o666);
    symlink(own.join("precious"), at("link.part")).unwrap();
    fs::hard_link(own.join("precious"), at("twice.part")).unwrap();
    assert!(Command::new("mkfifo").arg(at("fifo.part")).status().unwrap().success());
    mode(&at("fifo.part"), 0o600);
    let mut refused = vec![
        ("open", "others may read or write it"),
        ("link", "a symbolic link"),
        ("twice", "several names"),
        ("fifo", "no regular file"),
    ];
    if is_root() {
        fs::write(at("foreign.part"), "").unwrap();
        mode(&at("foreign.part"), 0o600);
        chown(at("foreign.part"), Some(OTHER), Some(OTHER)).unwrap();
        refused.push(("foreign", "another user's"));
    }
    for (name, why) in refused {
        backup(&data, &at(name)).expect(1, &[&format!("{name}.part"), why, "only you may write"]);
        assert!(!at(name).exists(), "{name}");
        if name != "fifo" && name != "link" {
            assert!(fs::read_to_string(at(&format!("{name}.part"))).unwrap().len() < 10, "{name} has rows");
        }
    }
    // A name that is a link to nowhere is taken.
    symlink("nowhere", at("dangling")).unwrap();
    backup(&data, &at("dangling")).expect(2, &["exists"]);

    // Folders: with the mark, but open to others or theirs; with the mark as a FIFO or a link; a link.
    for name in ["open", "fifo-mark", "link-mark", "foreign"] {
        fs::create_dir(at(&format!("{name}-d.part"))).unwrap();
        mode(&at(&format!("{name}-d.part")), 0o700);
    }
    let mark = |name: &str| at(&format!("{name}-d.part/.unfinished-dump"));
    fs::write(mark("open"), "").unwrap();
    mode(&at("open-d.part"), 0o777);
    assert!(Command::new("mkfifo").arg(mark("fifo-mark")).status().unwrap().success());
    symlink(own.join("precious"), mark("link-mark")).unwrap();
    symlink(&own, at("link-d.part")).unwrap();
    let mut refused = vec![
        ("open-d", "others may read or write it"),
        ("fifo-mark-d", "fifo-mark-d.part"),
        ("link-mark-d", "a symbolic link"),
        ("link-d", "symbolic link"),
    ];
    if is_root() {
        fs::write(mark("foreign"), "").unwrap();
        chown(at("foreign-d.part"), Some(OTHER), Some(OTHER)).unwrap();
        refused.push(("foreign-d", "another user's"));
    }
    for (name, why) in refused {
        dump(&data, &at(name)).expect(1, &[why, "only you may write"]);
        assert!(!at(name).exists(), "{name}");
    }
    assert_eq!(fs::read_to_string(own.join("precious")).unwrap(), "precious");

    // What is our own is used again, and nobody else gets at it.
    fs::write(at("left.part"), "left").unwrap();
    mode(&at("left.part"), 0o600);
    backup(&data, &at("left")).expect(0, &[]);
    fs::create_dir(at("left-d.part")).unwrap();
    mode(&at("left-d.part"), 0o700);
    for name in [".unfinished-dump", "schema.sql"] {
        fs::write(at("left-d.part").join(name), "left").unwrap();
        mode(&at("left-d.part").join(name), 0o600);
    }
    dump(&data, &at("left-d")).expect(0, &["1 tables, 2 rows"]);
    dump(&data, &at("new-d")).expect(0, &["1 tables, 2 rows"]);
    for name in ["left", "left-d", "new-d"] {
        assert_eq!(fs::metadata(at(name)).unwrap().mode() & 0o077, 0, "{name}");
        assert!(!at(&format!("{name}.part")).exists(), "{name}");
    }
    assert!(fs::read_to_string(at("left-d/schema.sql")).unwrap().contains("CREATE TABLE"));
    assert!(!at("left-d/.unfinished-dump").exists());
}

/// A folder that another user has laid out where a replica's shall be: its owner could exchange what is in it.
#[test]
fn a_folder_of_somebody_elses_is_no_data_folder() {
    if !is_root() {
        testkit::skipped("only root can lay out a folder of another user's");
        return;
    }
    let data = stopped("laid-out");
    let (shared, own) = shared("laid-out");
    let file = own.join("backup.tar");
    backup(&data, &file).expect(0, &[]);
    let laid_out = shared.join("data");
    fs::create_dir(&laid_out).unwrap();
    chown(&laid_out, Some(OTHER), Some(OTHER)).unwrap();
    let restore = |to: &Path| slipstream(&["restore-folder", "--from", text(&file), "--data", text(to)]);
    restore(&laid_out).expect(2, &["another user's", "chown"]);
    let replica = ["replica", "--source", "mysql://repl@127.0.0.1:1", "--no-defaults", "--data", text(&laid_out)];
    slipstream(&replica).expect(2, &["another user's"]);
    // One that an administrator gave to a service stands where only you may write.
    let given = own.join("data");
    fs::create_dir(&given).unwrap();
    chown(&given, Some(OTHER), Some(OTHER)).unwrap();
    restore(&given).expect(0, &["reader@10.0.0.0/8 (read)"]);
    assert_eq!(fs::metadata(given.join("store/current")).unwrap().mode() & 0o077, 0);
}

/// Writes a backup again, with another content of one of its files and the right checksums. `member` is a shell command
/// that changes the unpacked files.
fn forged(file: &Path, change: &str) -> PathBuf {
    let unpacked = folder("forged");
    fs::create_dir(&unpacked).unwrap();
    let to = unpacked.with_extension("tar");
    let shell = format!(
        r##"tar -xf {0}; tar -tf {0} | grep -v '^SHA256SUMS$' > ../names.$$; {1}
        xargs sha256sum < ../names.$$ > SHA256SUMS
        echo "# the lines above: $(sha256sum < SHA256SUMS | cut -d' ' -f1)" >> SHA256SUMS
        echo SHA256SUMS >> ../names.$$
        tar --format=ustar --no-recursion -cf {2} -T ../names.$$; rm ../names.$$"##,
        file.display(),
        change,
        to.display()
    );
    let mut sh = Command::new("sh");
    sh.args(["-e"]).current_dir(&unpacked).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut running = sh.spawn().unwrap();
    running.stdin.take().unwrap().write_all(shell.as_bytes()).unwrap();
    let ended = running.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    to
}

#[test]
fn a_backup_that_somebody_else_wrote_says_whom_it_lets_in_and_names_no_other_files() {
    let data = stopped("forged");
    let (_, own) = shared("forged");
    let file = own.join("backup.tar");
    backup(&data, &file).expect(0, &[]);
    let restore = |from: &Path| {
        let to = folder("forged-restored");
        (slipstream(&["restore-folder", "--from", text(from), "--data", text(&to)]), to)
    };
    let (same, to) = restore(&forged(&file, "true"));
    same.expect(0, &["its accounts may log in", "reader@10.0.0.0/8 (read)"]);
    assert!(to.join("accounts").exists());
    for line in ["/etc/passwd", "../relay-bin.000001", "./store/current", "./relay-bin.000001x"] {
        let (refused, to) = restore(&forged(&file, &format!("echo {line} >> relay-log/relay-bin.index")));
        refused.expect(7, &["relay-bin.index in the backup", "is not ./relay-bin.NNNNNN"]);
        assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
    }
    let escape = r#"sed -i 's/"ends_at": *"/&\\u001b[31m/' backup-end.json; grep -q u001b backup-end.json"#;
    restore(&forged(&file, escape)).0.expect(7, &["backup-end.json in the backup"]);
    // Without accounts nobody gets in, and nothing is said.
    let bare = own.join("bare.tar");
    slipstream(&["backup", "--to", text(&bare), "--data", text(&data)]).expect(0, &[]);
    let (ran, to) = restore(&bare);
    assert!(ran.code == 0 && !ran.out.contains("log in") && !to.join("accounts").exists(), "{}", ran.out);
}
