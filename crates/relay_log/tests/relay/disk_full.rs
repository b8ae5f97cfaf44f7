//! A full disk: the file stays valid, the error says so.

use std::process::Command;

use relay_log::{AppendMeta, RelayError, RelayLog};

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
        eprintln!("skipped: a small tmpfs cannot be mounted here");
        return;
    }
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    let mut tail = writer.tail();
    let error = loop {
        let data = source.transaction(70_000);
        let meta =
            AppendMeta { ends_transaction: true, gtids: &[gtid(source.last)], source_position: source.position() };
        if let Err(error) = writer.append(data, meta) {
            break error;
        }
        assert!(source.last < 100);
    };
    assert!(matches!(error, RelayError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("disk full"), "{error}");
    // Poisoned: all who share it hear of it.
    assert!(matches!(writer.append(vec![0], part(&source)), Err(RelayError::DiskFull { .. })));
    assert!(matches!(writer.abort_partial(), Err(RelayError::DiskFull { .. })));
    assert!(matches!(tail.next(LONG), Err(RelayError::DiskFull { .. })));
    assert!(matches!(writer.sync().wait_synced(writer.position(), LONG), Err(RelayError::DiskFull { .. })));
    assert!(matches!(writer.sync().poison(), Some(RelayError::DiskFull { .. })));
    drop(tail);
    assert!(writer.close().is_err());
    let result = read_only(dir.path());
    // With room again it goes on; first a little of it, for the state file.
    let remounted = Command::new("mount").args(["-o", "remount,size=8m"]).arg(dir.path()).output().unwrap();
    let again = RelayLog::open(options(dir.path())).map(|(_, recovery)| recovery);
    let unmounted = Command::new("umount").arg(dir.path()).output().unwrap();
    assert!(remounted.status.success() && unmounted.status.success());
    let (_, found) = result.unwrap();
    assert_eq!(found.retrieved, gtids(source.last - 1));
    assert_eq!(found.cut, None, "the writer has cut it back itself");
    assert_eq!(again.unwrap().retrieved, gtids(source.last - 1));
}
