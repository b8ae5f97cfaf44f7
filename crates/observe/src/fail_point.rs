//! Fail points, for tests only: the process kills itself (SIGKILL) in a named phase.
//!
//! In: the variable SLIPSTREAM_FAILPOINT, `die_at=PHASE:NUMBER` or `die_at=PHASE:NUMBER+MICROSECONDS` (other fail points may
//! stand beside it, separated by `;`): at the NUMBER-th time the phase is entered, or so long after. Out: nothing, or the
//! end. Never here: a look at the environment more than once; a call per row. Without the variable a phase costs one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Environment variable with fail points, `name=value` separated by `;`.
pub const VARIABLE: &str = "SLIPSTREAM_FAILPOINT";

/// What the program is doing when it enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Rows of a copy go into the store.
    Copy,
    /// Received bytes are about to be appended to the relay log.
    Receive,
    /// A sealed generation is visible and its cut begins.
    Cut,
    /// The relay log is durable; rows and record of the cut are sorted and ingested.
    Ingest,
    /// A step of compaction begins.
    Compaction,
    /// The relay log is about to be purged behind a cut.
    Purge,
    /// A piece that changes the catalog was sequenced, and no worker has it.
    Ddl,
    /// Rows of a table that is copied again go into the store, or it is about to be put in its place.
    Recopy,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 8] = [
        Phase::Copy,
        Phase::Receive,
        Phase::Cut,
        Phase::Ingest,
        Phase::Compaction,
        Phase::Purge,
        Phase::Ddl,
        Phase::Recopy,
    ];

    /// As the variable names it.
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
        }
    }
}

#[derive(Debug)]
struct Plan {
    phase: Phase,
    /// Entries to come, the last one included.
    left: AtomicU64,
    after: Duration,
}

impl Plan {
    fn parse(text: &str) -> Option<Plan> {
        let value = text.split(';').find_map(|point| point.trim().strip_prefix("die_at="))?;
        let (phase, when) = value.split_once(':')?;
        let (number, after_us) = when.split_once('+').unwrap_or((when, "0"));
        Some(Plan {
            phase: Phase::ALL.into_iter().find(|known| known.name() == phase)?,
            left: AtomicU64::new(number.parse().ok()?),
            after: Duration::from_micros(after_us.parse().ok()?),
        })
    }

    /// Whether this entry is the one.
    fn is_due(&self, phase: Phase) -> bool {
        let less = |left: u64| left.checked_sub(1);
        phase == self.phase && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) == Ok(1)
    }
}

/// The program enters a phase.
pub fn enter(phase: Phase) {
    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    let plan = PLAN.get_or_init(|| Plan::parse(&std::env::var(VARIABLE).ok()?));
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
    // A test that waits for the death says so when there is none.
    let _ = std::thread::Builder::new().name("fail-point".into()).spawn(later);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_entry_that_is_named_is_due() {
        let plan = Plan::parse("relay_sync_delay_ms=5;die_at=purge:2+300").unwrap();
        assert_eq!(plan.after, Duration::from_micros(300));
        let due: Vec<bool> = [Phase::Purge, Phase::Cut, Phase::Purge, Phase::Purge]
            .into_iter()
            .map(|phase| plan.is_due(phase))
            .collect();
        assert_eq!(due, [false, false, true, false]);
        assert_eq!(Plan::parse("die_at=ddl:1").unwrap().after, Duration::ZERO);
        for no_plan in ["", "other=1", "die_at=", "die_at=lunch:1", "die_at=cut", "die_at=cut:x", "die_at=cut:1+x"] {
            assert!(Plan::parse(no_plan).is_none(), "{no_plan}");
        }
    }
}
