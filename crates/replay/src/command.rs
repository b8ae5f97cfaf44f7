//! Command line of `slipstream lab replay`.
//!
//! In: parsed options. Out: a replay's figures, printed. Never here: the replay itself.

use std::io::Write;
use std::path::PathBuf;

use base::units::parse_bytes;
use clap::Args;
use relay_log::SyncPolicy;
use replica::config::PipelineConfig;
use replica::failure::{binlog_exit, relay_exit, stop_failure};
use replica::{Exit, Failure, MemoryPlan};

use super::grain::GrainFlags;
use super::{Grain, OnDisk, Pace, ReplayOptions, replay};

/// Options of `lab replay`, besides [`PipelineOptions`].
#[derive(Debug, Clone, Args)]
pub struct ReplayFlags {
    /// Binlog files, or index files that list them, in order
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Binlog or index file to replay before the measured ones, timed separately (a load phase); may be repeated
    #[arg(long, value_name = "LOG")]
    pub load: Vec<PathBuf>,
    /// Feed the measured logs F times as fast as the source committed, with fresh commit times, and print the lag
    #[arg(long, value_name = "F")]
    pub pace: Option<f64>,
    /// As --pace, but with TPS transactions a second, whatever the source's pace was
    #[arg(long, value_name = "TPS", conflicts_with = "pace")]
    pub rate: Option<f64>,
    /// Add memory, queue and progress of the measured phase, every 100 ms, to the JSON document
    #[arg(long, requires = "json")]
    pub samples: bool,
    /// Also measure reading, outside the timed part: everything, then N random keys; again after full compaction
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_value_t = 0,
          default_missing_value = "1000000")]
    pub reads: u64,
    /// Let N threads read rows of --load beside the measured phase, and print how long they and replay waited for lanes
    #[arg(long, value_name = "N", default_value_t = 0, requires = "load")]
    pub readers: usize,
    /// Keep the store on disk and cut it so that about this much memory is used [default: all rows stay in memory]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// New folder for relay log and store, removed afterwards [default: a temporary one in TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) grain: GrainFlags,
    /// Print the result as one JSON document
    #[arg(long)]
    pub json: bool,
    /// Hash the result (outside the timed part)
    #[arg(long)]
    pub hash: bool,
}

/// The program's options for threads and memory, and for syncing the relay log.
#[derive(Clone, Debug)]
pub struct PipelineOptions {
    pub pipeline: PipelineConfig,
    /// When the relay log is synced.
    pub relay_sync: SyncPolicy,
}

/// Replays recorded files and prints the figures. `no_decoders` is true if `--decoders 0` was given.
///
/// # Errors
/// Code 2 for options that do not go together; otherwise why a file cannot be read or replay stopped.
pub(crate) fn run(
    flags: &ReplayFlags,
    options: PipelineOptions,
    no_decoders: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let PipelineOptions { pipeline, relay_sync } = options;
    for (name, given) in [("--pace", flags.pace), ("--rate", flags.rate)] {
        if given.is_some_and(|number| !(number.is_finite() && number > 0.0)) {
            return Err(Failure::usage(format!("{name}: a number above 0")));
        }
    }
    let grain = flags.grain.grain().map_err(|reason| Failure::usage(reason.to_string()))?;
    if no_decoders && grain == Grain::Rows {
        let reason = "--decoders 0 lets the scheduler decode; it goes with --grain transactions";
        return Err(Failure::usage(reason));
    }
    let memory = flags.memory.as_deref().map(parse_bytes).transpose();
    let memory = memory.map_err(|reason| Failure::usage(format!("--memory: {reason}")))?;
    let scratch = std::env::temp_dir().join(format!("slipstream-lab-replay-{}", std::process::id()));
    let cores = replica::cores();
    let plan = memory.map(|memory| MemoryPlan::of(memory, pipeline.queue_memory));
    if let Some(plan) = plan {
        base::allocator::configure(plan.limit_bytes);
    }
    let report = replay(&ReplayOptions {
        logs: flags.logs.clone(),
        load: flags.load.clone(),
        pace: flags.pace.map(Pace::Factor).or(flags.rate.map(Pace::Transactions)),
        samples: flags.samples,
        reads: flags.reads,
        readers: flags.readers,
        folder: flags.folder.clone().unwrap_or(scratch),
        workers: if pipeline.workers == 0 { cores } else { pipeline.workers },
        decoders: match pipeline.decoders {
            0 if no_decoders => 0,
            0 => (cores / 2).max(1),
            decoders => decoders,
        },
        affinity: pipeline.affinity,
        grain,
        memory_bytes: plan.map_or(pipeline.queue_memory, |plan| plan.queue_bytes),
        hot_bytes_max: plan.map(|plan| plan.hot_bytes),
        on_disk: plan.map(|plan| OnDisk {
            memory_bytes: plan.limit_bytes,
            generation_bytes: plan.generation_bytes,
            cache_bytes: plan.cache_bytes,
        }),
        check_images: pipeline.check_images,
        relay_sync,
        hash: flags.hash,
    })
    .map_err(|error| failure(&error))?;
    let text = if flags.json { serde_json::to_string_pretty(&report).unwrap_or_default() } else { report.to_string() };
    writeln!(out, "{text}").map_err(|error| Failure::output(&error))
}

/// The failure behind a lab command's error, with its exit code.
fn failure(error: &anyhow::Error) -> Failure {
    if let Some(stop) = error.downcast_ref::<decode::Stop>() {
        return stop_failure(stop);
    }
    let exit = error.chain().find_map(|cause| {
        let binlog = cause.downcast_ref().map(binlog_exit);
        binlog.or_else(|| cause.downcast_ref().map(relay_exit))
    });
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Some errors already name their cause.
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    Failure::new(exit.unwrap_or(Exit::Error), text)
}
