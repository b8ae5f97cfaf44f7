//! sysbench as the client: prepares the table, runs one read, and its output as figures.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};

use super::places::{Reach, Running};
use super::{ServeArgs, Shape, Style, Tls, word};
use crate::ourselves;
use crate::servers::check_stop;

/// The reads; sysbench runs it from the scratch folder.
const SCRIPT: &str = include_str!("reads.lua");

pub(super) struct Load {
    pub shape: Shape,
    pub style: Style,
    pub tls: Tls,
    pub connections: u32,
    pub seconds: u32,
}

pub(super) struct Sample {
    pub statements: u64,
    pub per_s: f64,
    pub p99_ms: f64,
}

/// sysbench, bound to the client's CPU.
pub(super) struct Sysbench {
    folder: PathBuf,
    cpu: u32,
    rows: u32,
}

impl Sysbench {
    pub(super) fn new(args: &ServeArgs, folder: &Path) -> Result<Sysbench> {
        std::fs::write(folder.join("reads.lua"), SCRIPT)?;
        Ok(Sysbench { folder: folder.to_owned(), cpu: args.client_cpu, rows: args.rows })
    }

    pub(super) fn version(&self) -> Result<String> {
        Ok(self.output(&["--version".into()])?.trim().to_owned())
    }

    /// Creates and fills the table.
    pub(super) fn prepare(&self, reach: &Reach) -> Result<()> {
        let mut arguments = vec!["oltp_point_select".to_owned(), format!("--table-size={}", self.rows)];
        arguments.extend(reach.arguments());
        arguments.push("prepare".into());
        self.output(&arguments).map(drop)
    }

    /// Runs one read against a server.
    pub(super) fn run(&self, running: &Running, load: &Load, stop: &AtomicBool) -> Result<Sample> {
        check_stop(stop)?;
        let mut arguments = vec![
            "reads.lua".to_owned(),
            format!("--shape={}", word(load.shape)),
            format!("--table_size={}", self.rows),
            format!("--threads={}", load.connections),
            format!("--time={}", load.seconds),
            "--percentile=99".into(),
            format!("--db-ps-mode={}", if load.style == Style::Prepared { "auto" } else { "disable" }),
            format!("--mysql-ssl={}", word(load.tls)),
        ];
        arguments.extend(running.reach().arguments());
        arguments.push("run".into());
        // sysbench looks for the files of --mysql-ssl by name in its folder.
        let certificate = &running.reach().certificate;
        std::fs::copy(certificate, self.folder.join("cacert.pem"))
            .with_context(|| certificate.display().to_string())?;
        let text = self.output(&arguments)?;
        sample(&text).with_context(|| format!("sysbench's output: {text}"))
    }

    /// Runs sysbench in the scratch folder, where it expects certificates, and returns its standard output.
    fn output(&self, arguments: &[String]) -> Result<String> {
        let mut command = Command::new("taskset");
        command.arg("-c").arg(self.cpu.to_string()).arg("sysbench").args(arguments);
        ourselves::output(command.current_dir(&self.folder), "sysbench by taskset")
    }
}

/// The figures in sysbench's report.
fn sample(text: &str) -> Option<Sample> {
    let line = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
    let (statements, rest) = line("queries:")?.split_once(char::is_whitespace)?;
    let per_s = rest.trim().strip_prefix('(')?.split_whitespace().next()?;
    Some(Sample {
        statements: statements.parse().ok()?,
        per_s: per_s.parse().ok()?,
        p99_ms: line("99th percentile:")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_sysbench_is_read() {
        let text = "SQL statistics:\n    queries performed:\n        read:                            24160\n\
                    \x20   queries:                             24160  (12038.61 per sec.)\n\
                    Latency (ms):\n         99th percentile:                        2.86\n";
        let sample = sample(text).unwrap();
        assert_eq!(sample.statements, 24_160);
        assert!((sample.per_s - 12_038.61).abs() < 1e-6 && (sample.p99_ms - 2.86).abs() < 1e-6);
        assert!(super::sample("FATAL: error 1235").is_none());
    }
}
