//! Facts about this process from /proc: memory, CPU time per thread name, folder sizes.
//!
//! In: files of /proc and of a folder. Out: bytes and microseconds. Never here: an error; whatever cannot be read is
//! zero.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Linux reports process times to user space in 1/100 s, whatever the kernel's own tick (USER_HZ).
const US_PER_TICK: u64 = 10_000;

/// Maximum depth of a folder walk; the data folder has two levels.
const FOLDER_DEPTH_MAX: u32 = 16;

/// CPU time of all threads with the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCpu {
    /// Thread name, at most 15 bytes; a trailing number (`apply-3`) is removed, so that threads of one stage are
    /// summed.
    #[serde(rename = "name")]
    pub name: String,
    /// Number of live threads with this name.
    #[serde(rename = "threads")]
    pub threads: u32,
    /// CPU time, µs.
    #[serde(rename = "cpu_us")]
    pub cpu_us: u64,
    /// Time spent runnable without a free core, µs; 0 if the kernel does not report it.
    #[serde(rename = "core_wait_us", default)]
    pub core_wait_us: u64,
}

/// Memory and CPU time of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessFacts {
    /// Resident memory, bytes.
    #[serde(rename = "rss_bytes")]
    pub rss_bytes: u64,
    /// Highest resident memory so far, bytes.
    #[serde(rename = "rss_peak_bytes")]
    pub rss_peak_bytes: u64,
    /// CPU time of the whole process, including threads that have ended, µs.
    #[serde(rename = "cpu_us")]
    pub cpu_us: u64,
    /// CPU time per thread name, largest first.
    #[serde(rename = "threads")]
    pub threads: Vec<ThreadCpu>,
}

impl ProcessFacts {
    /// Reads the current values.
    #[must_use]
    pub fn read() -> ProcessFacts {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        ProcessFacts {
            rss_bytes: status_bytes(&status, "VmRSS:"),
            rss_peak_bytes: status_bytes(&status, "VmHWM:"),
            cpu_us: fs::read_to_string("/proc/self/stat").ok().and_then(|text| parse_stat(&text)).map_or(0, |s| s.1),
            threads: thread_times(),
        }
    }
}

fn status_bytes(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024)
}

/// Name, and user plus system time in µs, from a `stat` line. The name is in parentheses and may contain any byte, so
/// the last closing one ends it.
fn parse_stat(text: &str) -> Option<(String, u64)> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((name.to_owned(), user.saturating_add(system).saturating_mul(US_PER_TICK)))
}

fn thread_times() -> Vec<ThreadCpu> {
    let mut by_name: Vec<ThreadCpu> = Vec::new();
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return by_name };
    for task in tasks.flatten() {
        // A thread may end between the listing and the read.
        let Some((name, ticks_us)) =
            fs::read_to_string(task.path().join("stat")).ok().and_then(|text| parse_stat(&text))
        else {
            continue;
        };
        // schedstat, if the kernel provides it, counts nanoseconds; stat only hundredths of a second.
        let schedstat = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let mut exact_us = schedstat.split_whitespace().map(|ns| ns.parse::<u64>().map_or(0, |ns| ns / 1000));
        let cpu_us = exact_us.next().filter(|us| *us > 0).unwrap_or(ticks_us);
        let core_wait_us = exact_us.next().unwrap_or(0);
        let name =
            name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', '_', ' ', '#']).to_owned();
        match by_name.iter_mut().find(|known| known.name == name) {
            Some(known) => {
                known.threads += 1;
                known.cpu_us = known.cpu_us.saturating_add(cpu_us);
                known.core_wait_us = known.core_wait_us.saturating_add(core_wait_us);
            }
            None => by_name.push(ThreadCpu { name, threads: 1, cpu_us, core_wait_us }),
        }
    }
    by_name.sort_by(|a, b| b.cpu_us.cmp(&a.cpu_us).then_with(|| a.name.cmp(&b.name)));
    by_name
}

/// Bytes of all files below a folder. A file with several names counts once. Does not follow symbolic links; files that
/// vanish during the walk count as zero.
#[must_use]
pub fn folder_bytes(folder: &Path) -> u64 {
    folder_bytes_below(folder, 0, &mut BTreeSet::new())
}

/// `linked` has the inodes of files with several names that were counted.
fn folder_bytes_below(folder: &Path, depth: u32, linked: &mut BTreeSet<u64>) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let mut bytes = 0u64;
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            if metadata.nlink() > 1 && !linked.insert(metadata.ino()) {
                continue;
            }
            bytes = bytes.saturating_add(metadata.len());
        } else if metadata.is_dir() && depth < FOLDER_DEPTH_MAX {
            bytes = bytes.saturating_add(folder_bytes_below(&entry.path(), depth + 1, linked));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_with_parentheses_in_the_name() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194304 10 0 0 0 12 30 0 0 20 0 1 0 5";
        assert_eq!(parse_stat(line), Some(("a) b (c".to_owned(), 420_000)));
        assert_eq!(parse_stat("7 nothing"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_process_has_memory_and_named_threads() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("apply-12".to_owned()).spawn(move || receiver.recv()).unwrap();
        // The thread sets its name itself, so poll for it.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        let facts = loop {
            let facts = ProcessFacts::read();
            if facts.threads.iter().any(|t| t.name == "apply") || std::time::Instant::now() > deadline {
                break facts;
            }
        };
        assert!(facts.rss_bytes > 100_000 && facts.rss_peak_bytes >= facts.rss_bytes);
        assert!(facts.threads.iter().any(|t| t.name == "apply" && t.threads == 1), "{:?}", facts.threads);
        drop(sender);
        let _ = thread.join();
    }

    #[test]
    fn folder_size_counts_files_below() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("relay")).unwrap();
        fs::write(dir.path().join("a"), [0; 10]).unwrap();
        fs::write(dir.path().join("relay/b"), [0; 32]).unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        assert_eq!(folder_bytes(dir.path()), 42);
        fs::hard_link(dir.path().join("relay/b"), dir.path().join("again")).unwrap();
        assert_eq!(folder_bytes(dir.path()), 42);
        assert_eq!(folder_bytes(Path::new("/no/such/folder")), 0);
    }
}
