//! Random schemas and statements of several sessions on a real server, while a replica follows, is killed and
//! restarted: equal at every quiet point. Every fault ever found this way is repeated from tests/regressions.
//!
//! SLIPSTREAM_DIFFERENTIAL_SEED=N runs that seed. SLIPSTREAM_DIFFERENTIAL_SECONDS=N sets the duration.
//! SLIPSTREAM_DIFFERENTIAL_SCRIPT=FILE repeats a script that a failure left (SLIPSTREAM_DIFFERENTIAL_SHRINK=1 minimizes
//! it).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use whole_program_tests::differential::follow::Follower;
use whole_program_tests::differential::run::{Failure, Options, run, server};
use whole_program_tests::differential::schema::DATABASES;
use whole_program_tests::differential::script::{self, Sessions};
use whole_program_tests::differential::shrink::{replay, shrink};
use whole_program_tests::differential::stock::{SAME_AT_STOCK, stock_agrees};
use whole_program_tests::{Replica, assert_equal, folder, length, repository};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Findings after which a run ends before its time.
const MOST_FINDINGS: usize = 6;

/// Writes a failure to a file that can repeat it.
fn kept(name: &str, failure: &Failure, units: &[script::Unit]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("differential-{name}.sql"));
    let what = failure.what.lines().map(|line| format!("-- {line}\n")).collect::<String>();
    let options = failure.server.iter().map(|option| format!("-- server {option}\n")).collect::<String>();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(&file, format!("{what}{options}{}", script::text(units))).unwrap();
    let logs = folder.join(format!("differential-{name}-binlogs"));
    let _ = std::fs::remove_dir_all(&logs);
    for (name, bytes) in &failure.binlogs {
        std::fs::create_dir_all(&logs).unwrap();
        std::fs::write(logs.join(name), bytes).unwrap();
    }
    file
}

/// Makes a finding small, and fails with it.
fn found(seed: u64, failure: &Failure, seconds: u64) -> ! {
    let until = Instant::now()
        + Duration::from_secs(number("SLIPSTREAM_DIFFERENTIAL_SHRINK_SECONDS").unwrap_or(length(120, 900)));
    let small = match shrink(&failure.server, failure.units.clone(), Some(&failure.what), until) {
        Some((units, what)) => {
            let server = failure.server.clone();
            let failure = Failure { what, units: Vec::new(), server, binlogs: Vec::new() };
            let file = kept(&seed.to_string(), &failure, &units);
            format!("made small: {} (keep it in tests/regressions)", file.display())
        }
        None => "its units one after the other do not show it: sessions have to run at once".to_owned(),
    };
    panic!(
        "{}\n{small}\nagain: SLIPSTREAM_DIFFERENTIAL_SEED={seed} SLIPSTREAM_DIFFERENTIAL_SECONDS={seconds} \
         cargo test -p slipstream --test whole_program differential::random -- --nocapture",
        failure.what
    );
}

#[test]
fn random_statements() {
    let fixed = number("SLIPSTREAM_DIFFERENTIAL_SEED");
    let seconds = number("SLIPSTREAM_DIFFERENTIAL_SECONDS").unwrap_or_else(|| {
        match std::env::var("SLIPSTREAM_TEST_LENGTH").as_deref() {
            Ok("soak") => 3600,
            Ok("night") => 36,
            Ok("short") => 15,
            _ => 8,
        }
    });
    // Parallel sessions interleave differently each time. The seeds that gate every change are always the same; new
    // faults are found by the soak, and by a seed given by hand.
    let gates = fixed.is_none() && std::env::var("SLIPSTREAM_TEST_LENGTH").as_deref() != Ok("soak");
    let end = Instant::now() + Duration::from_secs(seconds);
    let first = fixed.unwrap_or(1);
    // Another server and another replica now and then.
    let each = match (fixed, gates) {
        (Some(_), _) => seconds,
        // One with little DDL, one with more, one with much.
        (None, true) => seconds.div_ceil(3),
        (None, false) => seconds.min(25.max(seconds / 24)),
    };
    let each = Duration::from_secs(each);
    let (mut seed, mut died) = (first, 0);
    let mut findings = Vec::new();
    loop {
        let options = Options {
            seed,
            // What sessions do to each other, the source gets wrong in places; a fourth of the seeds does without.
            sessions: if gates || seed.is_multiple_of(4) { 1 } else { 3 },
            length: each,
            units: 60,
            any_copies: number("SLIPSTREAM_DIFFERENTIAL_COPIES").is_some(),
        };
        match run(options) {
            Ok(report) => {
                println!("seed {seed}\n{}", report.table());
                if std::env::var_os("SLIPSTREAM_DIFFERENTIAL_ERRORS").is_some() {
                    println!("{:#?}\n{:#?}", report.tally.errors, report.copies);
                }
                died += u64::from(report.source_died.is_some());
                let most = 3.max((seed + 1 - first) / 4);
                assert!(died <= most, "sources that died or damaged a table of theirs leave too little to compare");
                assert!(report.source_died.is_some() || report.accepted_percent() > 60, "too much is refused");
            }
            // The hours go on with the next seed: what one finds hides nothing that others would.
            Err(failure) => {
                let whole = kept(&format!("{seed}-whole"), &failure, &failure.units);
                eprintln!("seed {seed} failed: {}\nits statements: {}", failure.what, whole.display());
                findings.push((seed, failure));
            }
        }
        seed += 1;
        // The gate runs its three seeds however slow the machine is.
        let enough = if gates { seed >= first + 3 } else { Instant::now() > end };
        if enough || fixed.is_some() || findings.len() == MOST_FINDINGS {
            break;
        }
    }
    if let Some((seed, failure)) = findings.first() {
        let seeds: Vec<u64> = findings.iter().map(|(seed, _)| *seed).collect();
        eprintln!("seeds {seeds:?} found something; the first one is made small");
        found(*seed, failure, each.as_secs());
    }
}

/// The source's rows are not those of its log, and a stock replica has ours: not our fault, and said so.
#[test]
fn a_source_that_contradicts_its_log() {
    let server = server(&[]);
    server.sql(
        "CREATE DATABASE diffa; CREATE DATABASE diffb; USE diffa; CREATE TABLE p (a INT PRIMARY KEY);
         CREATE TABLE c (id INT PRIMARY KEY, v INT, a INT, FOREIGN KEY (a) REFERENCES p (a) ON DELETE CASCADE);
         CREATE TABLE heavy (v INT); INSERT INTO heavy VALUES (1),(2),(3),(4),(5),(6),(7);
         INSERT INTO p VALUES (1),(2),(3); INSERT INTO c VALUES (1,0,1),(2,0,2),(12,0,2),(3,0,3)",
    );
    let mut follower = Follower::start(&server).unwrap();
    follower.compare().unwrap();
    let mut other = server.connect();
    for sql in ["USE diffa", "BEGIN", "UPDATE c SET v = 1 WHERE id = 12", "UPDATE heavy SET v = v + 1"] {
        other.exec(sql).unwrap();
    }
    let deleted = std::thread::scope(|scope| {
        let delete = scope.spawn(|| server.sql("USE diffa; DELETE FROM p WHERE a < 9; SELECT ROW_COUNT()"));
        server.wait_for_transactions("trx_state = 'LOCK WAIT'", |count| count > 0);
        other.exec("UPDATE c SET v = 1 WHERE id = 1").unwrap();
        // In the log first: so the update is of a row that is gone, which a stock replica finds too. It would not
        // compare the images of a row that has changed.
        let deleted = delete.join().unwrap();
        other.exec("COMMIT").unwrap();
        deleted
    });
    // It heard of no deadlock: 2 of its 3 rows, of which the source kept one.
    assert_eq!((deleted.trim(), server.sql("SELECT * FROM diffa.p").as_str()), ("2", "1\n2\n"));
    let found = follower.catch_up().and_then(|_| follower.compare()).unwrap_err();
    let agrees = found.contains(SAME_AT_STOCK) || stock_agrees(&server, None, &found).is_some();
    assert!(agrees, "{found}");
}

/// Runs each script of tests/regressions, named after what broke, in databases of its own beside all others. A script
/// in which tables are copied again states how many.
#[test]
fn regressions() {
    let only = std::env::var("SLIPSTREAM_DIFFERENTIAL_ONLY").unwrap_or_default();
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository().join("tests/regressions"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "sql"))
        .filter(|path| path.to_str().unwrap().contains(&only))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    // For some, the replica must find the cascades itself; that source also has a log without checksums.
    let sources: [(&str, &[&str]); 2] =
        [("OFF", &[]), ("ON", &["--innodb-native-foreign-keys=ON", "--binlog-checksum=NONE"])];
    for (native, options) in sources {
        let chosen = files.iter().filter(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            text.contains("-- server --innodb-native-foreign-keys=ON") == (native == "ON")
        });
        let chosen: Vec<&PathBuf> = chosen.collect();
        if !chosen.is_empty() {
            replay_all(&chosen, options);
        }
    }
}

fn replay_all(files: &[&PathBuf], options: &[&str]) {
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    let server = server(&options);
    let data = folder("regressions");
    let follow = || Replica::hurried(&server, &data, &["--cut-interval=100ms"]);
    let mut replica = follow();
    let mut databases: Vec<String> = Vec::new();
    let mut copies = 0;
    for file in files {
        let stem: String = file.file_stem().unwrap().to_str().unwrap().chars().take(50).collect();
        let mut text = std::fs::read_to_string(file).unwrap();
        let expected = text.lines().find_map(|line| line.strip_prefix("-- tables copied again: "));
        copies += expected.map_or(0, |count| count.parse::<u64>().unwrap());
        for database in DATABASES {
            let own = format!("{database}_{stem}");
            server.sql(&format!("CREATE DATABASE `{own}`"));
            text = text.replace(database, &own);
            databases.push(own);
        }
        let mut sessions = Sessions::new(server.url("root"), databases[databases.len() - DATABASES.len()].clone());
        let refused = sessions.run_all(&script::units(&text));
        assert_eq!(refused, 0, "{stem}: statements were refused that were accepted once");
    }
    let names: Vec<&str> = databases.iter().map(String::as_str).chain(["after_all"]).collect();
    let mut status = replica.catch_up(&server);
    let end = Instant::now() + Duration::from_secs(60);
    let copied = |status: &serde_json::Value| status["replay"]["tables_copied_by_itself"].as_u64().unwrap();
    while copied(&status) < copies && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
        status = replica.catch_up(&server);
    }
    assert_eq!(copied(&status), copies, "{}", replica.log());
    assert_eq!(status["replay"]["quarantined"].as_array().map(Vec::len), Some(0), "{}", replica.log());
    replica.kill();
    let mut replica = follow();
    server.sql("CREATE DATABASE after_all; CREATE TABLE after_all.t (a INT); INSERT INTO after_all.t VALUES (1), (2)");
    assert_equal(&server, &mut replica, &names);
    replica.stop();
}

/// For use by hand: a script that a failure left.
#[test]
fn script_again() {
    let Some(path) = std::env::var_os("SLIPSTREAM_DIFFERENTIAL_SCRIPT") else {
        println!("skipped: no SLIPSTREAM_DIFFERENTIAL_SCRIPT");
        return;
    };
    let text = std::fs::read_to_string(&path).unwrap();
    let options: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix("-- server ")).map(str::to_owned).collect();
    let units = script::units(&text);
    if number("SLIPSTREAM_DIFFERENTIAL_SHRINK").is_some() {
        let until =
            Instant::now() + Duration::from_secs(number("SLIPSTREAM_DIFFERENTIAL_SHRINK_SECONDS").unwrap_or(600));
        let (units, what) = shrink(&options, units, None, until).expect("it fails");
        let failure = Failure { what: what.clone(), units: Vec::new(), server: options, binlogs: Vec::new() };
        let file = kept("small", &failure, &units);
        panic!("{what}\nmade small: {}", file.display());
    }
    if let Some(what) = replay(&server(&options), &units) {
        panic!("{what}");
    }
}
