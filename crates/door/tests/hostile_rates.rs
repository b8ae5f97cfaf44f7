//! What hostile clients cost a good one: printed, not asserted.
//! `cargo test --release -p door --test interface hostile_rates -- --ignored --nocapture`
//!
//! For each kind of hostile clients: how often a second they did it, the server's CPU meanwhile, and how long a good
//! client's statements took, beside what they took just before without them. Clients and server share the machine; the
//! hostile ones have one of its cores, as if the rest of their work were done elsewhere.

use crate::support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use client::{ConnectOptions, Connection, SslMode};
use rustix::thread::{CpuSet, sched_setaffinity};
use support::{CAPABILITIES, RawClient, TestDoor, open, unread};

/// Time of each measurement.
const SPAN: Duration = Duration::from_secs(5);

/// CPU time of the server's threads, in microseconds.
fn server_cpu_us() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of_server = tasks
        .filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("door-")));
    let cpu_us = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or_default() / 1000
    };
    of_server.map(cpu_us).sum()
}

/// Median and 99th percentile of the good client's statements while `SPAN` passes, in microseconds.
fn good(door: &TestDoor) -> (f64, f64, usize) {
    let mut client = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let until = Instant::now() + SPAN;
    let mut times = Vec::new();
    while Instant::now() < until {
        let begun = Instant::now();
        client.query("SELECT 1");
        times.push(begun.elapsed().as_secs_f64() * 1e6);
        // As an application that thinks: the server is not kept busy by the good one.
        std::thread::sleep(Duration::from_micros(200));
    }
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)];
    (at(50), at(99), times.len())
}

/// Measures a good client alone, then beside threads that do `hostile` again and again, at most `rate` times a second
/// all together.
fn measure(door: &TestDoor, what: &str, threads: u64, rate: f64, hostile: impl Fn(u64) + Sync) {
    let (alone_p50, alone_p99, _) = good(door);
    let (ended, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut line = String::new();
    std::thread::scope(|scope| {
        let begun = Instant::now();
        for number in 0..threads {
            let (ended, done, hostile) = (&ended, &done, &hostile);
            scope.spawn(move || {
                let mut core = CpuSet::new();
                core.set(0);
                sched_setaffinity(None, &core).unwrap();
                let mut own = 0.0;
                while !ended.load(Relaxed) {
                    hostile(number);
                    done.fetch_add(1, Relaxed);
                    own += 1.0;
                    let due = begun + Duration::from_secs_f64(own * threads as f64 / rate);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            });
        }
        let before = server_cpu_us();
        let started = Instant::now();
        let (p50, p99, count) = good(door);
        let passed = started.elapsed().as_secs_f64();
        let rate = done.load(Relaxed) as f64 / begun.elapsed().as_secs_f64();
        let cpu = (server_cpu_us() - before) as f64 / 1e4 / passed;
        ended.store(true, Relaxed);
        line = format!(
            "| {what} | {rate:.0} | {cpu:.0} % | {alone_p50:.0} / {alone_p99:.0} | {p50:.0} / {p99:.0} | {:.1} | {count} |",
            p99 / alone_p99
        );
    });
    println!("{line}");
}

fn options(door: &TestDoor, password: &str) -> ConnectOptions {
    ConnectOptions {
        host: "127.0.0.1".to_owned(),
        port: door.address.port(),
        user: "reader".to_owned(),
        password: Some(password.to_owned()),
        ssl_mode: SslMode::Required,
        ..ConnectOptions::default()
    }
}

/// Sends bytes over a connection of its own and reads until it is closed.
fn send_and_wait(door: &TestDoor, bytes: &[u8]) {
    let mut stream = unread(door.address);
    let _ = stream.write_all(bytes);
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
#[ignore = "prints figures"]
fn a_good_client_beside_hostile_ones() {
    let door = open(|_| ());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{cores} cores, load {}; µs, p50 / p99 of SELECT 1", load.trim());
    println!("| Hostile clients | Times a second | Server's CPU | Alone | Beside | p99, times | Statements |");
    println!("|---|---|---|---|---|---|---|");
    let many = f64::INFINITY;
    measure(&door, "none", 1, 1.0, |_| ());
    measure(&door, "connect and close", 4, 5_000.0, |_| drop(TcpStream::connect(door.address)));
    measure(&door, "a wrong password over TLS", 4, 1_000.0, |_| {
        assert!(Connection::connect(&options(&door, "wrong")).is_err());
    });
    let half: Vec<TcpStream> = (0..1_000).map(|_| unread(door.address)).collect();
    measure(&door, "1,000 half handshakes, one more each time", 1, 200.0, |_| drop(unread(door.address)));
    drop(half);
    measure(&door, "a packet of 1 GiB announced at the login", 2, 1_000.0, |_| {
        send_and_wait(&door, &[0xff, 0xff, 0xff, 1, 0]);
    });
    let mut random = base::Random::new(7);
    let garbage: Vec<u8> = (0..300).map(|_| random.below(u8::MAX)).collect();
    measure(&door, "garbage instead of a login", 2, 1_000.0, |_| {
        let mut stream = unread(door.address);
        let _ = stream.write_all(&garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let brackets = format!("SELECT {}1", "(".repeat(65_535));
    measure(&door, "65,535 brackets", 2, many, |_| {
        let mut client = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
        for _ in 0..20 {
            assert_eq!(client.query(&brackets)[0][0], 0xff);
        }
    });
    let long = format!("SELECT {}1", "1,".repeat(190_000));
    measure(&door, "a statement of 190,000 expressions", 2, many, |_| {
        let mut client = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
        client.query(&long);
    });
    let statement = format!("select '{}'", "x".repeat(4_000));
    let sql = vec![statement.as_str(); 1_000].join(";");
    let mut packet = Vec::new();
    wire::packet::write(&mut packet, &mut 0, &[b"\x03", sql.as_bytes()].concat());
    measure(&door, "4 MB of answers that are never read", 2, 100.0, |_| {
        let mut deaf = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
        deaf.send(&packet);
    });
}
