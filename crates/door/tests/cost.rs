//! What sessions cost: printed, not asserted. `cargo test -p door --test interface cost -- --ignored --nocapture`

use crate::support;

use support::{CAPABILITIES, RawClient, open};

/// CPU time of threads with this name, in microseconds.
fn cpu_us(name: &str) -> u64 {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let comm = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if comm.starts_with(name) {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            sum += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or_default() / 1000;
        }
    }
    sum
}

#[test]
#[ignore = "prints figures"]
fn cpu_of_a_statement() {
    let door = open(|_| ());
    let mut client = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    for _ in 0..1_000 {
        client.query("SELECT 1");
    }
    let (statements, before) = (20_000u64, cpu_us("door-0"));
    for _ in 0..statements {
        client.query("SELECT 1");
    }
    println!("SELECT 1: {:.1} us of server CPU", (cpu_us("door-0") - before) as f64 / statements as f64);
}
