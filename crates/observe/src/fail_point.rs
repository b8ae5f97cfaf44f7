//! Fail points, for tests only: the process kills itself (SIGKILL) in a named phase.
//!
//! In: the fail point `die_at`, `PHASE:NUMBER` or `PHASE:NUMBER+MICROSECONDS`. Kills when the phase is entered for the
//! NUMBER-th time, or that long after. Out: nothing, or the end. Never here: more than one look at the environment; a
//! call per row. Without the fail point, a phase costs one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Phase of the program at which it can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Rows of a copy are written to the store.
    Copy,
    /// Received bytes are about to be appended to the relay log.
    Receive,
    /// A sealed generation is visible and its cut starts.
    Cut,
    /// The relay log is durable; the rows and the record of the cut are sorted and ingested.
    Ingest,
    /// A compaction step starts.
    Compaction,
    /// The relay log is about to be purged after a cut.
    Purge,
    /// A piece that changes the catalog has been sequenced, and no worker has received it yet.
    Ddl,
    /// Rows of a table that is copied again are written to the store, or the copy is about to replace the table.
    Recopy,
    /// A backup has come to one of its steps.
    Backup,
    /// Bytes of a backup are about to be written to its file.
    Save,
    /// A file of a backup is about to be written into a new data folder.
    Restore,
    /// A small file of the data folder is about to replace the one before it, or has just done so.
    Keep,
}

impl Phase {
    pub const ALL: [Phase; 12] = [
        Phase::Copy,
        Phase::Receive,
        Phase::Cut,
        Phase::Ingest,
        Phase::Compaction,
        Phase::Purge,
        Phase::Ddl,
        Phase::Recopy,
        Phase::Backup,
        Phase::Save,
        Phase::Restore,
        Phase::Keep,
    ];

    /// Name in the variable.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Copy => "copy",
            Phase::Receive => "receive",
            Phase::Cut => "cut",
            Phase::Ingest => "ingest",
            Phase::Compaction => "compaction",
            Phase::Purge => "purge",
            Phase::Ddl => "ddl",
            Phase::Recopy => "recopy",
            Phase::Backup => "backup",
            Phase::Save => "save",
            Phase::Restore => "restore",
            Phase::Keep => "keep",
        }
    }
}

#[derive(Debug)]
struct Plan {
    phase: Phase,
    /// Entries left until death, the fatal one included.
    left: AtomicU64,
    after: Duration,
}

impl Plan {
    fn parse(value: &str) -> Option<Plan> {
        let (phase, when) = value.split_once(':')?;
        let (number, after_us) = when.split_once('+').unwrap_or((when, "0"));
        Some(Plan {
            phase: Phase::ALL.into_iter().find(|known| known.name() == phase)?,
            left: AtomicU64::new(number.parse().ok()?),
            after: Duration::from_micros(after_us.parse().ok()?),
        })
    }

    /// Counts an entry; true if it is the fatal one.
    fn is_due(&self, phase: Phase) -> bool {
        let less = |left: u64| left.checked_sub(1);
        phase == self.phase && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) == Ok(1)
    }
}

/// Announces that the program enters a phase. May not return.
pub fn enter(phase: Phase) {
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    let plan = PLAN.get_or_init(|| Plan::parse(&base::fail_points::value("die_at")?));
    if let Some(plan) = plan.as_ref().filter(|plan| plan.is_due(phase)) {
        die(plan);
    }
}

#[cold]
fn die(plan: &Plan) {
    eprintln!("fail point: killed in {} after {} us", plan.phase.name(), plan.after.as_micros());
    let kill = || {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    };
    if plan.after.is_zero() {
        kill();
    }
    let after = plan.after;
    let later = move || {
        std::thread::sleep(after);
        kill();
    };
    // If the thread cannot be started, the test that waits for the death reports it.
    let _ = std::thread::Builder::new().name("fail-point".into()).spawn(later);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_entry_that_is_named_is_due() {
        let plan = Plan::parse("purge:2+300").unwrap();
        assert_eq!(plan.after, Duration::from_micros(300));
        let due: Vec<bool> = [Phase::Purge, Phase::Cut, Phase::Purge, Phase::Purge]
            .into_iter()
            .map(|phase| plan.is_due(phase))
            .collect();
        assert_eq!(due, [false, false, true, false]);
        assert_eq!(Plan::parse("ddl:1").unwrap().after, Duration::ZERO);
        for no_plan in ["", ":", "lunch:1", "cut", "cut:x", "cut:1+x"] {
            assert!(Plan::parse(no_plan).is_none(), "{no_plan}");
        }
    }
}
