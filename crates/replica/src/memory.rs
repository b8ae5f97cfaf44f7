//! Divides `--memory` into shares.
//!
//! In: the limit. Out: the shares. Never here: a share that grows with the size of a transaction or with the backlog.

use std::path::Path;

/// Shares of the memory limit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    pub limit_bytes: u64,
    /// Pieces between split and publish.
    pub queue_bytes: u64,
    /// One generation. One grows while another is cut, and the cut needs sorted references to all keys: less than
    /// half of a generation in addition. Generations are smaller while snapshots use part of this
    /// (`apply::CutOptions`).
    pub generation_bytes: u64,
    /// Rows on disk that stay in memory for snapshots, unless configured otherwise: within the share of the
    /// generations, and enough for the two generations that a snapshot sees.
    pub snapshot_bytes: u64,
    /// Block cache of the tree.
    pub cache_bytes: u64,
    /// Received bytes that replay has not taken yet.
    pub hot_bytes: usize,
    /// What clients of the port send, prepare, set and ask for, and answers that wait to be read.
    pub clients_bytes: u64,
}

/// Clients get this much of the smallest limits too: one of them may hold a third of it, and statements of 1 MB are not
/// rare.
const CLIENTS_LEAST: u64 = 16 << 20;

/// Freed memory that the allocator keeps, and memory outside all shares (code, stacks, filters of the tree): 110 to 130
/// MB were measured with limits of 256 MiB and above. For smaller limits a quarter is reserved instead, and
/// `base::allocator` returns more; the 20 % by which resident memory may exceed the limit cover the rest.
const KEPT_BY_ALLOCATOR: u64 = 96 << 20;

impl MemoryPlan {
    /// The plan for a limit; `memory` 0: a quarter of the machine's memory. The queues get `queue_memory`, but at most
    /// an eighth.
    #[must_use]
    pub fn of(memory: u64, queue_memory: u64) -> MemoryPlan {
        let limit_bytes = if memory == 0 { machine_bytes() / 4 } else { memory };
        let small = limit_bytes < 256 << 20;
        let shared = limit_bytes - if small { limit_bytes / 4 } else { KEPT_BY_ALLOCATOR };
        // A smaller part of small limits, in which fixed costs weigh more.
        let generation_bytes = if small { shared / 5 } else { shared / 40 * 9 };
        MemoryPlan {
            limit_bytes,
            queue_bytes: queue_memory.min(shared / 8),
            generation_bytes,
            snapshot_bytes: generation_bytes * 2,
            cache_bytes: shared / 8,
            hot_bytes: usize::try_from(shared / 16).unwrap_or(usize::MAX).min(64 << 20),
            clients_bytes: (shared / 8).max(CLIENTS_LEAST),
        }
    }
}

/// Memory of the machine, or of this process's control groups if that is less.
fn machine_bytes() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let total = total.and_then(|text| text.trim().strip_suffix("kB")).and_then(|text| text.trim().parse::<u64>().ok());
    let total = total.map_or(4 << 30, |kib| kib * 1024);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    group_limit(Path::new("/sys/fs/cgroup"), &groups).map_or(total, |limit| limit.min(total))
}

/// The smallest memory limit of the control groups that `groups` lists (the form of `/proc/self/cgroup`, both
/// versions), and of those around them, in bytes. A service's own group is below the root, where a container's is.
fn group_limit(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let group = Path::new(group.trim_start_matches('/'));
        let limit = |group: &Path| std::fs::read_to_string(root.join(group).join(file)).ok()?.trim().parse().ok();
        group.ancestors().filter_map(limit).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_of_the_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write("memory.max", "max\n");
        write("system.slice/memory.max", "3000000000\n");
        write("system.slice/slipstream.service/memory.max", "1000000000\n");
        let limit = |groups: &str| group_limit(root.path(), groups);
        assert_eq!(limit("0::/system.slice/slipstream.service\n"), Some(1_000_000_000));
        assert_eq!(limit("0::/system.slice/another.service\n"), Some(3_000_000_000), "the group around it");
        assert_eq!(limit("0::/\n"), None);
        write("memory/a/memory.limit_in_bytes", "2000000000\n");
        assert_eq!(limit("9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n"), Some(2_000_000_000));
    }

    #[test]
    fn the_shares_stay_within_the_limit() {
        for memory in [128u64 << 20, 512 << 20, 16 << 30] {
            let plan = MemoryPlan::of(memory, 256 << 20);
            let most = plan.queue_bytes + plan.generation_bytes * 5 / 2 + plan.cache_bytes + plan.hot_bytes as u64;
            let kept = if memory < 256 << 20 { memory / 4 } else { KEPT_BY_ALLOCATOR };
            assert!(most + plan.clients_bytes <= memory - kept, "{plan:?}");
            assert!(plan.snapshot_bytes <= plan.generation_bytes * 5 / 2, "{plan:?}");
            assert!(plan.queue_bytes >= 12 << 20);
        }
        assert!(MemoryPlan::of(0, 256 << 20).limit_bytes >= 64 << 20);
    }
}
