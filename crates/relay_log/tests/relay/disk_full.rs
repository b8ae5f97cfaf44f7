//! A full disk: the file stays valid, and the error reports it.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relay_log::{
    AppendMeta, DiskOperation, DiskWatch, ReaderOptions, RelayError, RelayFiles, RelayLog, RelayOptions, RelayPosition,
    RelayReader, RelayWriter,
};

use crate::common::*;

#[test]
fn a_full_disk_leaves_whole_transactions() {
    let dir = folder();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(dir.path())
        .output()
        .is_ok_and(|out| out.status.success());
    if !mounted {
        testkit::skipped("a small tmpfs cannot be mounted here");
        return;
    }
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    let mut tail = writer.reader();
    let error = loop {
        let data = source.transaction(70_000);
        let meta = AppendMeta {
            ends_transaction: true,
            gtids: &[gtid(source.author.last)],
            source_position: source.position(),
        };
        if let Err(error) = writer.append(data, meta) {
            break error;
        }
        assert!(source.author.last < 100);
    };
    assert!(matches!(error, RelayError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("disk full"), "{error}");
    // Poisoned: every user of the log gets the error.
    assert!(matches!(writer.append(vec![0], part(&source)), Err(RelayError::DiskFull { .. })));
    assert!(matches!(writer.abort_partial(), Err(RelayError::DiskFull { .. })));
    assert!(matches!(tail.next(LONG), Err(RelayError::DiskFull { .. })));
    assert!(matches!(writer.sync().wait_synced(writer.position(), LONG), Err(RelayError::DiskFull { .. })));
    assert!(matches!(writer.sync().poison(), Some(RelayError::DiskFull { .. })));
    drop(tail);
    assert!(writer.close().is_err());
    let result = read_only(dir.path());
    // With space again it continues; first only a little, for the state file.
    let remounted = Command::new("mount").args(["-o", "remount,size=8m"]).arg(dir.path()).output().unwrap();
    let again = RelayLog::open(options(dir.path())).and_then(|(writer, found)| restart(writer, found.start));
    let unmounted = Command::new("umount").arg(dir.path()).output().unwrap();
    assert!(remounted.status.success() && unmounted.status.success());
    let (_, found) = result.unwrap();
    assert_eq!(found.retrieved, gtids(source.author.last - 1));
    assert_eq!(found.truncated, None, "the writer has cut it back itself");
    assert_eq!(again.unwrap(), expected(1, source.author.last + 4));
}

/// The source sends the missing transactions and five more; returns all that a reader sees.
fn restart(mut writer: RelayWriter, start: relay_log::StartPoint) -> Result<Vec<Option<base::Gtid>>, RelayError> {
    let mut source = Source::new(CRC);
    source.author.last = writer.retrieved().count();
    let last = source.author.last + 5;
    let (rotate, fde) = source.headers();
    writer.note_source_headers(&rotate, &fde)?;
    while source.author.last < last {
        let data = source.transaction(1000);
        let gtids = [gtid(source.author.last)];
        writer
            .append(data, AppendMeta { ends_transaction: true, gtids: &gtids, source_position: source.position() })?;
    }
    let seen = transactions(&mut RelayReader::open_at(writer.shared(), &start, ReaderOptions::REPLAY));
    writer.close()?;
    Ok(seen)
}

/// Appends eight transactions, waits for a sync after every second one, and tells where each ends.
fn eight_transactions(
    writer: &mut RelayWriter,
    source: &mut Source,
    mut each_end: impl FnMut(RelayPosition),
) -> Result<(), RelayError> {
    for i in 0..8 {
        let data = source.transaction(300);
        let gtids = [gtid(source.author.last)];
        let end = writer
            .append(data, AppendMeta { ends_transaction: true, gtids: &gtids, source_position: source.position() })?;
        each_end(end);
        if i % 2 == 1 {
            writer.sync().request_sync();
            writer.sync().wait_synced(end, LONG)?;
        }
    }
    Ok(())
}

#[test]
fn a_disk_full_at_any_operation_is_reported_and_the_log_continues_with_space() {
    let mut n = 0;
    loop {
        let dir = folder();
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        // Deleting and truncating work on a full disk.
        let watch = DiskWatch::new(move |operation, _| {
            let grows = !matches!(operation, DiskOperation::Remove | DiskOperation::Truncate);
            match grows && counted.fetch_add(1, Ordering::SeqCst) >= n {
                true => Err(io::Error::from(io::ErrorKind::StorageFull)),
                false => Ok(()),
            }
        });
        let mut source = Source::new(CRC);
        let run = || -> Result<(), RelayError> {
            let small = RelayOptions { max_file_bytes: 900, ..options(dir.path()) };
            let (mut writer, _) = RelayLog::open(RelayOptions { disk_watch: Some(watch), ..small })?;
            let (rotate, fde) = source.headers();
            writer.note_source_headers(&rotate, &fde)?;
            eight_transactions(&mut writer, &mut source, |_| ())?;
            writer.close()
        };
        let outcome = run();
        let failed = outcome.is_err();
        if let Err(error) = outcome {
            assert!(matches!(error, RelayError::DiskFull { .. }), "operation {n}: {error}");
        }
        let (writer, found) = RelayLog::open(options(dir.path())).unwrap();
        assert_eq!(found.retrieved, executed(found.retrieved.count()));
        let last = found.retrieved.count() + 5;
        assert_eq!(restart(writer, found.start).unwrap(), expected(1, last), "operation {n}");
        assert_eq!(RelayFiles::open_read_only(dir.path()).unwrap().1.retrieved, gtids(last));
        if !failed {
            break;
        }
        n += 1;
    }
    assert!(n > 40, "{n} operations");
}

/// The n-th sync fails once; the system still shows what it should have made durable. What was announced as durable is
/// kept, nothing behind it is, and the log goes on from there.
#[test]
fn a_failed_sync_cuts_the_log_back_to_what_was_announced() {
    let (mut n, mut cut) = (0, 0);
    loop {
        let dir = folder();
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let watch = DiskWatch::new(move |operation, _| {
            let syncs = matches!(operation, DiskOperation::Sync | DiskOperation::SyncFolder);
            match syncs && counted.fetch_add(1, Ordering::SeqCst) == n {
                true => Err(io::Error::from_raw_os_error(5)),
                false => Ok(()),
            }
        });
        let mut source = Source::new(CRC);
        let (rotate, fde) = source.headers();
        let small = RelayOptions { max_file_bytes: 900, disk_watch: Some(watch), ..options(dir.path()) };
        let Ok((mut writer, _)) = RelayLog::open(small) else {
            n += 1;
            continue;
        };
        let sync = writer.sync();
        let mut ends = Vec::new();
        let mut run = || -> Result<(), RelayError> {
            writer.note_source_headers(&rotate, &fde)?;
            eight_transactions(&mut writer, &mut source, |end| ends.push(end))
        };
        let outcome = run();
        let durable = sync.synced_whole();
        drop(writer);
        let Err(error) = outcome else { break };
        assert!(error.is_failed_sync(), "sync {n}: {error}");
        let kept = RelayOptions { keep_up_to: Some(durable), ..options(dir.path()) };
        let (writer, found) = RelayLog::open(kept).unwrap();
        let announced = ends.iter().filter(|end| **end <= durable).count() as u64;
        assert_eq!(found.retrieved, executed(announced), "sync {n}");
        assert_eq!(found.truncated, None, "it is no damage");
        cut += u64::from(announced < ends.len() as u64);
        let last = announced + 5;
        assert_eq!(restart(writer, found.start).unwrap(), expected(1, last), "sync {n}");
        assert_eq!(RelayFiles::open_read_only(dir.path()).unwrap().1.retrieved, gtids(last));
        n += 1;
    }
    assert!(n > 15 && cut > 3, "{n} syncs, {cut} times something was removed");
}
