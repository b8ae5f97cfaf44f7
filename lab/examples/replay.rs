//! Replays the logs named on the command line: a quick look without the program.
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let report = lab::replay::replay(&lab::replay::ReplayOptions {
        logs: std::env::args().skip(1).map(PathBuf::from).collect(),
        folder: std::env::temp_dir().join(format!("slipstream-replay-{}", std::process::id())),
        workers: 2,
        decoders: 1,
        memory_bytes: 256 << 20,
        generation_bytes: None,
        check_images: store::CheckImages::All,
        relay_sync: relay_log::SyncPolicy::default(),
        hash: true,
    })?;
    println!("{report}");
    Ok(())
}
