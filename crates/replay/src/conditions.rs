//! Where and when something was measured.
//!
//! In: what Linux tells of its machine. Out: the same as a line and as fields of a report. Never here: a measurement.

use std::fmt;

use serde::Serialize;

/// The machine, and how busy it was.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Conditions {
    pub machine: String,
    /// Load average of the last minute, before and after.
    pub load_average: [String; 2],
}

impl Conditions {
    /// Of this machine, before something is measured.
    #[must_use]
    pub fn begin() -> Conditions {
        Conditions { machine: machine(), load_average: [load_average(), String::new()] }
    }

    /// Notes that it has been measured.
    pub fn end(&mut self) {
        let [_, after] = &mut self.load_average;
        *after = load_average();
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = &self.load_average;
        write!(f, "{}, load {before} to {after}", self.machine)
    }
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name").and_then(|l| l.split(':').nth(1)))
        .map_or("unknown processor", str::trim);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}
