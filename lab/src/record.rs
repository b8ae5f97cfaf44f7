//! `lab record`: copies a primary's binary log, from its first statement on, into files for later replay.
//!
//! In: a source. Out: its log files, byte for byte, and an index file. Never here: a log that does not reach back to
//! the first statement, an event at another position in the copy than on the source.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base::GtidSet;
use binlog::{EventHeader, event_type};
use client::{ConnectOptions, Connection};
use source::{DumpRequest, start_dump};

/// Index file in the folder: one log file name a line, as `lab replay` and `--source file:` read it.
pub const INDEX: &str = "binlog.index";
/// First bytes of every log file.
const MAGIC: &[u8; 4] = b"\xfebin";
/// Created for us by the server or by the dump itself; not in the server's file.
const FLAG_ARTIFICIAL: u16 = 0x20;

#[derive(Clone, Debug)]
pub struct RecordOptions {
    pub source: ConnectOptions,
    /// Destination of the files; must not hold a recording.
    pub folder: PathBuf,
    /// Server id to present to the primary.
    pub server_id: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordReport {
    /// Number of log files.
    pub files: u64,
    pub events: u64,
    /// Total bytes.
    pub bytes: u64,
    /// The source's gtid_executed when the recording began. The recording contains at least this.
    pub gtid_executed: String,
}

impl fmt::Display for RecordReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordReport { files, events, bytes, gtid_executed } = self;
        write!(f, "recorded {files} files, {events} events, {bytes} bytes, up to {gtid_executed}")
    }
}

/// Copies the whole log up to its end at the time of the call.
pub fn record(options: &RecordOptions) -> Result<RecordReport> {
    let folder = &options.folder;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    ensure!(!folder.join(INDEX).exists(), "{} already holds a recording", folder.display());
    let mut connection = Connection::connect(&options.source).context("connecting to the source")?;
    let text = |value: Option<String>| value.unwrap_or_default().replace('\n', "");
    let purged = text(connection.query_value("SELECT @@GLOBAL.gtid_purged")?);
    if !purged.is_empty() {
        bail!("the source's log no longer reaches back to its first statement: gtid_purged is {purged}");
    }
    let gtid_executed = text(connection.query_value("SELECT @@GLOBAL.gtid_executed")?);
    let executed = GtidSet::new();
    let request = DumpRequest {
        heartbeat_period: Duration::ZERO,
        non_block: true,
        ..DumpRequest::new(options.server_id, &executed)
    };
    let mut stream = start_dump(connection, &request)?;
    let mut recording = Recording { folder, file: None, report: RecordReport { gtid_executed, ..Default::default() } };
    while let Some(event) = stream.next_event()? {
        recording.take(event.event)?;
    }
    recording.finish()
}

struct Recording<'a> {
    folder: &'a Path,
    file: Option<Copy>,
    report: RecordReport,
}

/// A log file being written.
struct Copy {
    name: String,
    writer: BufWriter<File>,
    position: u64,
}

impl Recording<'_> {
    fn take(&mut self, event: &[u8]) -> Result<()> {
        let header = EventHeader::parse(event)?;
        match header.event_type {
            // The dump announces each file by a rotate event that is not in any file.
            event_type::ROTATE if header.log_pos == 0 || header.flags & FLAG_ARTIFICIAL != 0 => self.open(event),
            event_type::HEARTBEAT | event_type::HEARTBEAT_V2 => Ok(()),
            _ => self.write(event, &header),
        }
    }

    fn open(&mut self, event: &[u8]) -> Result<()> {
        // Position (8 bytes), name, and possibly a checksum. Only the checksum itself shows that it is one: the format
        // description, which says whether there are checksums, comes after this event.
        let end = if binlog::verify_checksum(event) { event.len() - 4 } else { event.len() };
        let name = event.get(EventHeader::LEN + 8..end).unwrap_or_default();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let name = String::from_utf8_lossy(name).into_owned();
        ensure!(
            name.bytes().all(|byte| plain(&byte)) && !name.starts_with('.') && !name.is_empty(),
            "the source named a log file {name:?}"
        );
        if self.file.as_ref().is_some_and(|file| file.name == name) {
            return Ok(());
        }
        self.close()?;
        let path = self.folder.join(&name);
        let file = File::create_new(&path).with_context(|| path.display().to_string())?;
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        writer.write_all(MAGIC)?;
        self.report.files += 1;
        self.file = Some(Copy { name, writer, position: MAGIC.len() as u64 });
        Ok(())
    }

    fn write(&mut self, event: &[u8], header: &EventHeader) -> Result<()> {
        let Some(file) = &mut self.file else { bail!("the source sent an event before naming its file") };
        file.writer.write_all(event)?;
        file.position += event.len() as u64;
        // log_pos has 32 bits; a file may be longer.
        ensure!(
            header.log_pos == 0 || header.log_pos == file.position as u32,
            "{} {} ends at {} here and at {} on the source",
            event_type::name(header.event_type),
            file.name,
            file.position,
            header.log_pos
        );
        self.report.events += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if let Some(mut file) = self.file.take() {
            file.writer.flush()?;
            file.writer.get_ref().sync_all()?;
            self.report.bytes += file.position;
            let path = self.folder.join(INDEX);
            let mut index = File::options().create(true).append(true).open(&path).context(INDEX)?;
            writeln!(index, "{}", file.name)?;
            index.sync_all()?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<RecordReport> {
        self.close()?;
        ensure!(self.report.files > 0, "the source sent no log");
        Ok(self.report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_out_of_place_is_refused() {
        let folder = std::env::temp_dir().join(format!("slipstream-record-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut recording = Recording { folder: &folder, file: None, report: RecordReport::default() };
        let event = |kind: u8, log_pos: u32, body: &[u8]| {
            let mut event = vec![0, 0, 0, 0, kind, 1, 0, 0, 0];
            event.extend_from_slice(&(19 + body.len() as u32).to_le_bytes());
            event.extend_from_slice(&log_pos.to_le_bytes());
            event.extend_from_slice(&[0, 0]);
            event.extend_from_slice(body);
            event
        };
        assert!(recording.take(&event(event_type::QUERY, 40, b"ab")).is_err());
        recording.take(&event(event_type::ROTATE, 0, b"\x04\0\0\0\0\0\0\0binlog.000001")).unwrap();
        recording.take(&event(event_type::QUERY, 25, b"ab")).unwrap();
        assert!(recording.take(&event(event_type::QUERY, 99, b"ab")).is_err());
        for name in ["../x.000001", "", ".000001"] {
            let body = [b"\x04\0\0\0\0\0\0\0", name.as_bytes()].concat();
            assert!(recording.take(&event(event_type::ROTATE, 0, &body)).is_err(), "{name}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
