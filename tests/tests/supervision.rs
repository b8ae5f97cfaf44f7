//! As a service: what systemd is told, and the files in packaging/.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use whole_program_tests::{Ran, Replica, Server, assert_equal, binary, folder, repository, slipstream, wait_for};

fn made(name: &str) -> PathBuf {
    let at = folder(name);
    std::fs::create_dir_all(&at).unwrap();
    at
}

/// Plays the service manager: keeps what it is told.
struct Manager {
    path: String,
    told: Arc<Mutex<Vec<String>>>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Manager {
    fn new(folder: &Path) -> Manager {
        let path = folder.join("notify").display().to_string();
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (told, end) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (into, until) = (Arc::clone(&told), Arc::clone(&end));
        let listen = move || {
            let mut bytes = [0; 4096];
            while !until.load(SeqCst) {
                if let Ok(len) = socket.recv(&mut bytes) {
                    let text = String::from_utf8(bytes[..len].to_vec()).unwrap();
                    into.lock().unwrap().extend(text.lines().map(str::to_owned));
                }
            }
        };
        Manager { path, told, end, thread: Some(std::thread::spawn(listen)) }
    }

    fn listens(&self, command: &mut Command) {
        // A sign of life is wanted every 2 s; the process looks four times as often.
        command.env("NOTIFY_SOCKET", &self.path).env("WATCHDOG_USEC", "2000000").env_remove("WATCHDOG_PID");
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    fn waits_for(&self, what: &str, is_it: impl Fn(&str) -> bool) {
        let look = || self.told().iter().any(|line| is_it(line)).then_some(());
        wait_for(what, look, || format!("{:#?}", self.told()));
    }

    /// Waits for new signs of life.
    fn sees_life(&self, when: &str) {
        let seen = || self.told().iter().filter(|line| *line == "WATCHDOG=1").count();
        let before = seen();
        wait_for(when, || (seen() >= before + 2).then_some(()), || format!("{:#?}", self.told()));
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.end.store(true, SeqCst);
        let _ = self.thread.take().unwrap().join();
    }
}

#[test]
fn the_service_manager_is_told_what_goes_on() {
    let server = Server::start("supervision", &[]);
    server.sql(
        "CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200));
         INSERT INTO s.t (v) VALUES ('a'), ('b')",
    );
    let at = made("supervision");
    let manager = Manager::new(&at);
    let data = at.join("data");
    let mut replica = Replica::spawn(&server.url("repl"), &data, &[], |command| manager.listens(command));
    manager.waits_for("READY", |line| line == "READY=1");
    // What READY promises.
    slipstream(&["status", "--data", replica.data()]).expect(0, &["Replica_IO_Running"]);
    replica.catch_up(&server);
    manager.waits_for("a line about rest", |line| line.starts_with("STATUS=caught up"));
    manager.sees_life("signs of life at rest");

    slipstream(&["stop", "sql", "--data", replica.data()]).expect(0, &[]);
    server.sql("INSERT INTO s.t (v) VALUES ('c')");
    manager.waits_for("a line about the pause", |line| {
        line.starts_with("STATUS=replay paused; 1 transactions, ") && line.contains(" to replay")
    });
    manager.sees_life("signs of life in a pause");
    slipstream(&["start", "sql", "--data", replica.data()]).expect(0, &[]);

    // One transaction for several looks: the watermark stands while it is replayed.
    server.sql("INSERT INTO s.t (v) SELECT REPEAT('x', 190) FROM s.t");
    for _ in 0..15 {
        server.sql("INSERT INTO s.t (v) SELECT v FROM s.t LIMIT 20000");
    }
    server.sql("UPDATE s.t SET v = CONCAT('y', v)");
    manager.sees_life("signs of life under load");
    assert_equal(&server, &mut replica, &["s"]);

    replica.stop();
    let told = manager.told();
    assert_eq!(told.last().map(String::as_str), Some("STOPPING=1"), "{told:#?}");
    assert_eq!(told.iter().filter(|line| *line == "READY=1").count(), 1, "{told:#?}");
}

/// A process that is there and does nothing is given no sign of life.
#[test]
fn a_stopped_process_gives_no_sign_of_life() {
    let server = Server::start("supervision-stopped", &[]);
    let at = made("supervision-stopped");
    let manager = Manager::new(&at);
    let replica = Replica::spawn(&server.url("repl"), &at.join("data"), &[], |command| manager.listens(command));
    manager.waits_for("READY", |line| line == "READY=1");
    manager.sees_life("signs of life at first");
    replica.signal(rustix::process::Signal::STOP);
    std::thread::sleep(Duration::from_millis(200));
    let before = manager.told().len();
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(manager.told().len(), before);
    replica.signal(rustix::process::Signal::CONT);
    manager.sees_life("signs of life again");
    replica.stop();
}

#[test]
fn the_unit_is_one() {
    let unit = std::fs::read_to_string(repository().join("packaging/slipstream.service")).unwrap();
    let at = made("supervision-unit").join("slipstream.service");
    let program = binary().display().to_string();
    assert!(unit.contains("ExecStart=/usr/bin/slipstream "));
    for kept in ["LimitCORE=0", "ProtectProc=invisible", "RemoveIPC=yes", "SystemCallFilter=~@privileged"] {
        assert!(unit.lines().any(|line| line == kept), "{kept}");
    }
    let rotated = std::fs::read_to_string(repository().join("packaging/slipstream.logrotate")).unwrap();
    assert!(rotated.lines().any(|line| line.trim() == "su slipstream slipstream"));
    std::fs::write(&at, unit.replace("/usr/bin/slipstream", &program)).unwrap();
    let Ok(ran) = Command::new("systemd-analyze").arg("verify").arg(&at).output() else {
        testkit::skipped("no systemd-analyze");
        return;
    };
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.is_empty(), "{said}");
}

/// Every option of the sample is one, those too that are commented out.
#[test]
fn the_sample_of_the_option_file_is_read() {
    let sample = std::fs::read_to_string(repository().join("packaging/slipstream.cnf")).unwrap();
    let is_option = |line: &str| line.split_once(" = ").is_some_and(|(name, _)| !name.contains([' ', '.']));
    let whole: Vec<&str> =
        sample.lines().map(|line| line.strip_prefix('#').filter(|rest| is_option(rest)).unwrap_or(line)).collect();
    assert!(whole.contains(&"memory = 4G"), "{whole:#?}");
    let at = made("supervision-sample");
    let data = at.join("data").display().to_string();
    let file = at.join("slipstream.cnf");
    std::fs::write(&file, whole.join("\n").replace("/var/lib/slipstream", &data)).unwrap();
    let ran = slipstream(&["status", &format!("--defaults-file={}", file.display())]);
    // Read whole: it only says that nothing is in that folder.
    assert!(ran.code == 1 && ran.err.contains(&data), "{} {}", ran.out, ran.err);
}

fn run(program: &str, arguments: &[&str]) -> String {
    let ran = Ran::from(Command::new(program).args(arguments).output().unwrap());
    assert_eq!(ran.code, 0, "{program} {arguments:?}: {ran:?}");
    ran.out
}

/// A package of the program in this folder; None, with a message, where none can be made.
fn package(folder: &Path) -> Option<String> {
    let program = binary().display().to_string();
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if !(has("dpkg-deb") && has("objdump") && has("strip")) {
        testkit::skipped("no dpkg-deb, objdump or strip");
        return None;
    }
    let script = repository().join("packaging/package").display().to_string();
    Some(run(&script, &[&program, folder.to_str().unwrap()]).trim().to_owned())
}

#[test]
fn the_package_has_what_the_service_needs() {
    let at = made("supervision-package");
    let Some(package) = package(&at) else { return };
    let root = at.join("root");
    run("dpkg-deb", &["--extract", &package, root.to_str().unwrap()]);
    let unit = std::fs::read_to_string(root.join("lib/systemd/system/slipstream.service")).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/")).unwrap();
    let (installed, rest) = start.split_once(' ').unwrap();
    let file = rest.split_once("--defaults-file=/").unwrap().1;
    let version = run(root.join(installed).to_str().unwrap(), &["--version"]);
    assert!(version.starts_with("slipstream 0."), "{version}");
    for page in ["slipstream.1.gz", "slipstream-replica.1.gz", "slipstream-account-add.1.gz"] {
        assert!(root.join("usr/share/man/man1").join(page).exists(), "{page}");
    }
    let completions = root.join("usr/share/bash-completion/completions/slipstream");
    run("bash", &["-n", completions.to_str().unwrap()]);
    assert_eq!(std::fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o755);
    let licences = std::fs::read_to_string(root.join("usr/share/doc/slipstream/third-party-licences")).unwrap();
    // Of the list, of a patched crate, and of C sources that a crate brings along.
    for part in ["\nrustls ", "\nlsm-tree ", "\nring ", "Apache License", "Copyright (c) Meta Platforms"] {
        assert!(licences.contains(part), "{part:?} is not among the licences");
    }
    assert!(!licences.contains("\nstore "), "our own crates are no third party's");
    let control = at.join("control");
    run("dpkg-deb", &["--control", &package, control.to_str().unwrap()]);
    let files = std::fs::read_to_string(control.join("conffiles")).unwrap();
    // The option file is to hold a password, and no upgrade asks about it: it is made once.
    assert!(root.join("usr/share/slipstream/slipstream.cnf").exists() && !root.join(file).exists());
    assert!(!files.contains(file), "{files}");
    let postinst = std::fs::read_to_string(control.join("postinst")).unwrap();
    assert!(postinst.contains(&format!("install -m 600 /usr/share/slipstream/slipstream.cnf /{file}")), "{postinst}");
    for script in ["postinst", "prerm", "postrm"] {
        run("sh", &["-n", control.join(script).to_str().unwrap()]);
    }
}
