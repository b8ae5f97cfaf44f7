//! Threads of stages run on the CPUs assigned to them.

use whole_program_tests::{allowed_cpus, binary, cpus_of_thread, folder, slipstream, wait_for};

/// Replays a log made from a seed; its threads run where `--thread-affinity` says, and a CPU that does not exist is
/// refused before anything starts.
#[test]
fn replay_of_a_made_log_on_given_cpus() {
    let work = folder("affinity");
    let log = work.join("log").display().to_string();
    slipstream(&["lab", "synthesize", "--out", &log, "--warehouses=1", "--items=100", "--customers=10"])
        .expect(0, &["row changes"]);
    let (load, run) = (format!("{log}/binlog.000001"), format!("{log}/binlog.000002"));
    let replay = |options: &[&str]| slipstream(&[&["lab", "replay", "--load", &load, &run], options].concat());
    replay(&["--thread-affinity=apply=100000"]).expect(2, &["CPU 100000 of apply does not exist or is not allowed"]);
    replay(&["--thread-affinity=aply=0"]).expect(2, &["unknown stage 'aply'"]);
    let (last, list) = allowed_cpus();
    let affinity = format!("--cpu-affinity=all={last},apply={list}");
    replay(&[&affinity]).expect(0, &[&format!("bound to receive={last},relay-sync={last},split={last}")]);
    // At a hundredth of the source's speed, so that it still runs when its threads are examined.
    let child = std::process::Command::new(binary())
        .args(["lab", "replay", "--pace=0.01", &affinity, "--load", &load, &run, "--folder"])
        .arg(work.join("paced"))
        .stdout(std::process::Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    let stages = ["receive", "relay-sync", "split", "decode-0", "sequence", "apply-0"];
    let seen = wait_for(
        "the stages' threads",
        || stages.map(|stage| cpus_of_thread(child.id(), stage)).into_iter().collect::<Option<Vec<_>>>(),
        String::new,
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let mut wanted = vec![last; stages.len() - 1];
    wanted.push(list);
    assert_eq!(seen, wanted);
}
