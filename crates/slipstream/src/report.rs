//! The parts of a status report that the process knows by itself; the engine fills the rest.

use std::time::Instant;

use observe::{MemoryReport, ProcessFacts, StatusReport, folder_bytes};

use crate::folder::Folder;

/// Version, identity, memory, disk and CPU of this process as the replica that owns the folder.
#[must_use]
pub fn running(folder: &Folder, server_id: u32, started: Instant) -> StatusReport {
    let facts = ProcessFacts::read();
    let mut report = StatusReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at: observe::utc_text(observe::now_us()),
        running: true,
        pid: Some(std::process::id()),
        uptime_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        data: folder.path().display().to_string(),
        server_id,
        server_uuid: folder.server_uuid().to_string(),
        memory: MemoryReport {
            rss_bytes: facts.rss_bytes,
            rss_peak_bytes: facts.rss_peak_bytes,
            ..MemoryReport::default()
        },
        cpu_us: facts.cpu_us,
        threads: facts.threads,
        ..StatusReport::default()
    };
    report.disk.folder_bytes = folder_bytes(folder.path());
    report.disk.relay_log_bytes = folder_bytes(&folder.relay_log());
    report.disk.free_bytes = folder.free_bytes();
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(dir.path()).unwrap();
        let report = running(&folder, 7, Instant::now());
        assert_eq!((report.pid, report.server_id, report.running), (Some(std::process::id()), 7, true));
        assert!(report.memory.rss_bytes > 0 && report.disk.folder_bytes > 0 && report.disk.free_bytes.is_some());
        assert_eq!(report.server_uuid, folder.server_uuid().to_string());
    }
}
