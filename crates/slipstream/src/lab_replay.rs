//! `slipstream lab replay`: the lab's replay under the program's options.

use std::io::Write;
use std::path::PathBuf;

use replica::{
    Exit, Failure, MemoryPlan,
    config::PipelineConfig,
    cores,
    failure::{binlog_exit, relay_exit, stop_failure},
};

/// What `slipstream lab replay` replays.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LabReplayOptions {
    /// Binlog files or index files, in order.
    pub logs: Vec<PathBuf>,
    /// Logs replayed before, timed apart.
    pub load: Vec<PathBuf>,
    /// How fast the measured logs are fed; none = full speed.
    pub pace: Option<lab::replay::Pace>,
    /// Samples of memory and progress in the report.
    pub samples: bool,
    /// Reads by key to measure; 0: none.
    pub reads: u64,
    /// Folder for relay log and store; none = a temporary one.
    pub folder: Option<PathBuf>,
    /// Memory of a store on disk; none = a store in memory.
    pub memory: Option<u64>,
    /// Threads and memory.
    pub pipeline: PipelineConfig,
    /// When the relay log is synced.
    pub relay_sync: relay_log::SyncPolicy,
    /// Who applies what.
    pub grain: lab::replay::Grain,
    /// No decoders: the scheduling thread decodes.
    pub scheduler_decodes: bool,
    /// The result as one JSON document.
    pub json: bool,
    /// Hash the result.
    pub hash: bool,
}

/// Replays recorded files and prints the figures.
///
/// # Errors
/// When a file cannot be read or replay stops.
pub(crate) fn lab_replay(options: &LabReplayOptions, out: &mut dyn Write) -> Result<(), Failure> {
    let scratch = std::env::temp_dir().join(format!("slipstream-lab-replay-{}", std::process::id()));
    let cores = cores();
    let plan = options.memory.map(|memory| MemoryPlan::of(memory, options.pipeline.queue_memory));
    if let Some(plan) = plan {
        base::allocator::suit(plan.limit_bytes);
    }
    let report = lab::replay::replay(&lab::replay::ReplayOptions {
        logs: options.logs.clone(),
        load: options.load.clone(),
        pace: options.pace,
        samples: options.samples,
        reads: options.reads,
        folder: options.folder.clone().unwrap_or(scratch),
        workers: if options.pipeline.workers == 0 { cores } else { options.pipeline.workers },
        decoders: match options.pipeline.decoders {
            0 if options.scheduler_decodes => 0,
            0 => (cores / 2).max(1),
            decoders => decoders,
        },
        affinity: options.pipeline.affinity.clone(),
        grain: options.grain,
        memory_bytes: plan.map_or(options.pipeline.queue_memory, |plan| plan.queue_bytes),
        hot_bytes_max: plan.map(|plan| plan.hot_bytes),
        on_disk: plan.map(|plan| lab::replay::OnDisk {
            memory_bytes: plan.limit_bytes,
            generation_bytes: plan.generation_bytes,
            cache_bytes: plan.cache_bytes,
        }),
        check_images: options.pipeline.check_images,
        relay_sync: options.relay_sync,
        hash: options.hash,
    })
    .map_err(|error| lab_failure(&error))?;
    let text =
        if options.json { serde_json::to_string_pretty(&report).unwrap_or_default() } else { report.to_string() };
    writeln!(out, "{text}").map_err(|e| Failure::output(&e))
}

/// The failure behind a lab command's error, with its exit code.
fn lab_failure(error: &anyhow::Error) -> Failure {
    if let Some(stop) = error.downcast_ref::<decode::Stop>() {
        return stop_failure(stop);
    }
    let exit = error.chain().find_map(|cause| {
        let binlog = cause.downcast_ref().map(binlog_exit);
        binlog.or_else(|| cause.downcast_ref().map(relay_exit))
    });
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Some errors name their cause themselves.
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    Failure::new(exit.unwrap_or(Exit::Error), text)
}
