//! Logs that a comparison replays: their content, and their first part.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use base::GtidSet;
use binlog::reader::BinlogFile;
use binlog::{GtidEvent, event_type};
use xxhash_rust::xxh3::Xxh3;

/// What a server must have executed when it has finished.
#[derive(Clone, Debug, Default)]
pub(crate) struct Goal {
    pub gtids: GtidSet,
    pub transactions: u64,
    /// Server ids of the transactions' events; a replica must have none of them.
    pub server_ids: Vec<u32>,
}

/// Reads the transactions' GTIDs.
pub(crate) fn goal(files: &[PathBuf]) -> Result<Goal> {
    let mut goal = Goal::default();
    for path in files {
        each_transaction(path, &mut |event| {
            let at = || format!("{} at offset {}", path.display(), event.offset);
            let gtid = GtidEvent::parse(event.header.event_type, event.body()?)?;
            let Some(gtid) = gtid.gtid else { bail!("{}: a transaction without GTID cannot be awaited", at()) };
            goal.gtids.add(gtid);
            goal.transactions += 1;
            if !goal.server_ids.contains(&event.header.server_id) {
                goal.server_ids.push(event.header.server_id);
            }
            Ok(true)
        })?;
    }
    Ok(goal)
}

/// Calls `take` with each transaction's first event until it returns false.
fn each_transaction(path: &Path, take: &mut dyn FnMut(&binlog::reader::FileEvent<'_>) -> Result<bool>) -> Result<()> {
    let mut file = BinlogFile::open(path)?.without_verification();
    while let Some(event) = file.next_event()? {
        let kind = event.header.event_type;
        let opens = matches!(kind, event_type::GTID | event_type::GTID_TAGGED | event_type::ANONYMOUS_GTID);
        if opens && !take(&event)? {
            break;
        }
    }
    Ok(())
}

/// The first `count` transactions as files: whole files where they are, the last one truncated into `folder`.
pub(crate) fn first_part(files: &[PathBuf], count: u64, folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut part, mut left) = (Vec::new(), count);
    for path in files {
        let mut cut_at = None;
        each_transaction(path, &mut |event| {
            if left == 0 {
                cut_at = Some(event.offset);
                return Ok(false);
            }
            left -= 1;
            Ok(true)
        })?;
        let Some(end) = cut_at else {
            part.push(path.clone());
            continue;
        };
        fs::create_dir_all(folder)?;
        let name = path.file_name().context("a log without a name")?;
        let target = folder.join(name);
        let mut to = File::create(&target).with_context(|| target.display().to_string())?;
        std::io::copy(&mut File::open(path)?.take(end), &mut to)?;
        to.flush()?;
        part.push(target);
        break;
    }
    ensure!(!part.is_empty(), "no log file");
    Ok(part)
}

/// Hash of the files' bytes. Ignores the in-use flag, which describes the file's reader and not its content.
pub(crate) fn bytes_hash(files: &[PathBuf]) -> Result<String> {
    /// Offset of the flags in the first event's header, after the magic.
    const FLAGS_AT: usize = 4 + 17;
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    for path in files {
        let mut file = File::open(path).with_context(|| path.display().to_string())?;
        let mut first = true;
        loop {
            let len = file.read(&mut buffer)?;
            if len == 0 {
                break;
            }
            if let (true, Some(flags)) = (first, buffer.get_mut(FLAGS_AT)) {
                *flags &= !1;
            }
            first = false;
            hasher.update(buffer.get(..len).unwrap_or_default());
        }
    }
    Ok(format!("{:032x}", hasher.digest128()))
}

/// Copies files into a folder as `BASE.000001` and so on, synced, with an index. Returns their paths in the given
/// order.
pub(crate) fn place(files: &[PathBuf], folder: &Path, base: &str) -> Result<Vec<PathBuf>> {
    let (mut names, mut index) = (Vec::new(), String::new());
    for (number, path) in files.iter().enumerate() {
        let name = format!("{base}.{:06}", number + 1);
        let target = folder.join(&name);
        fs::copy(path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        File::open(&target)?.sync_all()?;
        index.push_str(&format!("./{name}\n"));
        names.push(target);
    }
    let index_path = folder.join(format!("{base}.index"));
    fs::write(&index_path, index).with_context(|| index_path.display().to_string())?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Gtid, Tag, Uuid};
    use binlog::writer::BinlogWriter;
    use binlog::{ChecksumAlgorithm, FormatDescription};

    fn write(folder: &Path, name: &str, gnos: std::ops::RangeInclusive<u64>) -> PathBuf {
        let format = FormatDescription::new("9.7.4", ChecksumAlgorithm::Crc32);
        let mut writer = BinlogWriter::start_file(9, 1, &format);
        for gno in gnos {
            let gtid = Gtid { uuid: Uuid([7; 16]), tag: Tag::default(), gno };
            let event = GtidEvent::new(Some(gtid), 0, gno as i64);
            writer.transaction(&event, |writer| writer.xid(gno));
        }
        let path = folder.join(name);
        fs::write(&path, writer.take()).unwrap();
        path
    }

    #[test]
    fn the_first_part_ends_between_two_transactions() {
        let folder = tempfile::tempdir().unwrap();
        let files = [write(folder.path(), "b.000001", 1..=3), write(folder.path(), "b.000002", 4..=9)];
        assert_eq!(goal(&files).unwrap().transactions, 9);
        let cut = folder.path().join("cut");
        for (count, gtids, own) in [(2, "1-2", true), (3, "1-3", true), (5, "1-5", true), (9, "1-9", false)] {
            let part = first_part(&files, count, &cut).unwrap();
            let goal = goal(&part).unwrap();
            assert!(goal.gtids.to_string().ends_with(&format!(":{gtids}")), "{count}: {}", goal.gtids);
            assert_eq!((goal.transactions, goal.server_ids), (count, vec![9]));
            assert_eq!(part.iter().any(|path| path.starts_with(&cut)), own, "{count}");
        }
    }

    #[test]
    fn the_mark_of_use_does_not_count_and_all_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "b.000001", 1..=3);
        let before = bytes_hash(std::slice::from_ref(&path)).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[21] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(bytes_hash(std::slice::from_ref(&path)).unwrap(), before);
        bytes[22] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_ne!(bytes_hash(std::slice::from_ref(&path)).unwrap(), before);
    }
}
