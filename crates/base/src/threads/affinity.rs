//! CPU affinity of each stage's threads, and how to start a thread with it.
//!
//! In: lists of CPUs per stage, as an operator writes them. Out: threads that carry their stage's name and have never
//! run on another CPU. Never here: a choice of CPUs; the operator's list is all there is.

use std::fmt;
use std::io;
use std::thread::{Builder, JoinHandle};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Stages whose threads can be bound, in the order data flows. Threads are named after them, with a number appended
/// where a stage has several: `decode-0`.
pub const STAGES: [&str; 8] = ["receive", "relay-sync", "split", "decode", "sequence", "apply", "cut", "compact"];

/// Matches every stage without a list of its own.
const ALL: &str = "all";

/// CPUs per stage. A stage without a list runs wherever the process may.
///
/// Semantics are those of the VCPU attribute of MySQL's resource groups: each thread may run on any CPU of its list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadAffinity {
    /// Sorted CPUs of each bound stage, in the order of [`STAGES`].
    stages: Vec<(&'static str, Vec<usize>)>,
}

/// Why a list of CPUs is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AffinityError {
    /// The name is not a stage.
    #[error("unknown stage '{given}': use {} or {ALL}", STAGES.join(", "))]
    UnknownStage {
        /// The name as given.
        given: String,
    },
    /// The text is not STAGE=CPUS.
    #[error("'{0}' is not STAGE=CPUS, such as apply=0-1 or cut=1")]
    NoList(String),
    /// The text is neither a number nor a range.
    #[error("'{0}' is neither a CPU's number nor a range such as 0-3")]
    NoCpu(String),
    /// One stage has two lists.
    #[error("{0} has two lists of CPUs")]
    Twice(String),
    /// The CPU does not exist, or this process may not run on it.
    #[error("CPU {cpu} of {stage} does not exist or is not allowed for this process, which may run on {allowed}")]
    NotAllowed {
        /// Stage whose list contains the CPU.
        stage: String,
        /// Number of the CPU.
        cpu: usize,
        /// CPUs that are allowed, as a list.
        allowed: String,
    },
    /// The system does not report which CPUs are allowed.
    #[error("cannot ask which CPUs are allowed: {0}")]
    System(String),
}

impl ThreadAffinity {
    /// Parses `STAGE=CPUS[,…]`, where CPUS is a comma-separated list of numbers and ranges, as in
    /// `receive=0,apply=0-1,3,cut=2`. `all` stands for every stage without a list of its own.
    ///
    /// # Errors
    /// If the text is not such a list, or names a CPU that the calling thread may not run on.
    pub fn parse(text: &str) -> Result<ThreadAffinity, AffinityError> {
        let allowed = sched_getaffinity(None).map_err(|error| AffinityError::System(error.to_string()))?;
        ThreadAffinity::parse_within(text, &cpus_of(&allowed))
    }

    fn parse_within(text: &str, allowed: &[usize]) -> Result<ThreadAffinity, AffinityError> {
        let mut lists: Vec<(&str, Vec<usize>)> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let cpus = match part.split_once('=') {
                Some((stage, cpus)) => {
                    let stage = stage.trim();
                    let known = STAGES.iter().find(|known| **known == stage).or((stage == ALL).then_some(&ALL));
                    let known = known.ok_or_else(|| AffinityError::UnknownStage { given: stage.to_owned() })?;
                    if lists.iter().any(|(other, _)| other == known) {
                        return Err(AffinityError::Twice(stage.to_owned()));
                    }
                    lists.push((known, Vec::new()));
                    cpus.trim()
                }
                None => part,
            };
            let Some((stage, list)) = lists.last_mut() else { return Err(AffinityError::NoList(part.to_owned())) };
            let (first, last) = range_of(cpus)?;
            // Fails at the first CPU that is not allowed, so a huge range costs no more than the allowed ones.
            for cpu in first..=last {
                if !allowed.contains(&cpu) {
                    let (stage, allowed) = ((*stage).to_owned(), list_text(allowed));
                    return Err(AffinityError::NotAllowed { stage, cpu, allowed });
                }
                list.push(cpu);
            }
        }
        let find = |name: &str| lists.iter().find(|(stage, _)| *stage == name).map(|(_, cpus)| cpus.clone());
        let bound = |stage: &&'static str| {
            let mut cpus = find(stage).or_else(|| find(ALL))?;
            cpus.sort_unstable();
            cpus.dedup();
            Some((*stage, cpus))
        };
        Ok(ThreadAffinity { stages: STAGES.iter().filter_map(bound).collect() })
    }

    /// True if no stage is bound.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// CPUs of the stage to which a thread of this name belongs; None if the stage is not bound.
    fn cpus(&self, thread: &str) -> Option<&[usize]> {
        let stage = thread.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        self.stages.iter().find(|(name, _)| *name == stage).map(|(_, cpus)| cpus.as_slice())
    }

    /// Starts a thread with this name, of which the system keeps 15 bytes. If its stage is bound, the thread never runs
    /// on another CPU, because it inherits the affinity that the calling thread takes on for the moment of the start.
    ///
    /// # Errors
    /// If no more threads can be started, or the CPUs are no longer allowed. The caller may then keep the affinity
    /// meant for the new thread.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let builder = Builder::new().name(name.to_owned());
        let Some(cpus) = self.cpus(name) else { return builder.spawn(work) };
        let before = sched_getaffinity(None)?;
        let mut wanted = CpuSet::new();
        cpus.iter().for_each(|cpu| wanted.set(*cpu));
        sched_setaffinity(None, &wanted)?;
        let started = builder.spawn(work);
        sched_setaffinity(None, &before)?;
        started
    }
}

impl fmt::Display for ThreadAffinity {
    /// Writes the form that [`ThreadAffinity::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (stage, cpus)) in self.stages.iter().enumerate() {
            write!(f, "{}{stage}={}", if n == 0 { "" } else { "," }, list_text(cpus))?;
        }
        Ok(())
    }
}

fn range_of(text: &str) -> Result<(usize, usize), AffinityError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<usize>().ok();
    match number(first).zip(number(last)) {
        Some((first, last)) if first <= last => Ok((first, last)),
        _ => Err(AffinityError::NoCpu(text.to_owned())),
    }
}

fn cpus_of(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Sorted numbers as the kernel prints them: `0-2,5`.
fn list_text(cpus: &[usize]) -> String {
    let mut text = String::new();
    for run in cpus.chunk_by(|a, b| a + 1 == *b) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let comma = if text.is_empty() { "" } else { "," };
        text += &if first == last { format!("{comma}{first}") } else { format!("{comma}{first}-{last}") };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ThreadAffinity, AffinityError> {
        ThreadAffinity::parse_within(text, &[0, 1, 2, 3, 6])
    }

    #[test]
    fn lists_by_stage() {
        let affinity = parse("receive=0,decode=0, apply=0-1,3,cut = 6").unwrap();
        assert_eq!(affinity.to_string(), "receive=0,decode=0,apply=0-1,3,cut=6");
        assert_eq!(affinity.cpus("apply-12"), Some(&[0, 1, 3][..]));
        assert_eq!(affinity.cpus("receive"), Some(&[0][..]));
        assert_eq!((affinity.cpus("relay-sync"), affinity.cpus("split")), (None, None));
        assert_eq!(parse(&affinity.to_string()).unwrap(), affinity);
        let all = parse("apply=2-3,2,all=0-1").unwrap();
        let wanted = "receive=0-1,relay-sync=0-1,split=0-1,decode=0-1,sequence=0-1,apply=2-3,cut=0-1,compact=0-1";
        assert_eq!(all.to_string(), wanted);
    }

    #[test]
    fn wrong_lists_are_refused_with_their_reason() {
        let reason = |text: &str| parse(text).unwrap_err().to_string();
        assert!(reason("aply=0").starts_with("unknown stage 'aply': use receive, relay-sync, split,"));
        assert!(reason("0-1").contains("is not STAGE=CPUS"));
        assert!(reason("").contains("is not STAGE=CPUS"));
        for wrong in ["apply=", "apply=x", "apply=1-", "apply=3-1", "apply=-1", "apply=0,", "apply=0-1-2"] {
            assert!(reason(wrong).contains("is neither a CPU's number nor a range"), "{wrong}");
        }
        assert_eq!(reason("cut=0,cut=1"), "cut has two lists of CPUs");
        assert_eq!(
            reason("apply=0-18446744073709551615"),
            "CPU 4 of apply does not exist or is not allowed for this process, which may run on 0-3,6"
        );
    }

    #[test]
    fn a_bound_thread_runs_where_it_may_and_its_starter_everywhere() {
        let before = cpus_of(&sched_getaffinity(None).unwrap());
        let last = *before.last().unwrap();
        let affinity = ThreadAffinity::parse(&format!("apply={last}")).unwrap();
        let seen = |name: &str| {
            let look = || {
                let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
                (comm.trim().to_owned(), cpus_of(&sched_getaffinity(None).unwrap()))
            };
            affinity.spawn(name, look).unwrap().join().unwrap()
        };
        assert_eq!(seen("apply-3"), ("apply-3".to_owned(), vec![last]));
        assert_eq!(seen("cut"), ("cut".to_owned(), before.clone()));
        assert_eq!(cpus_of(&sched_getaffinity(None).unwrap()), before);
    }
}
