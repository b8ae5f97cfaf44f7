//! A served log on disk after a stop at any moment.

use std::path::Path;
use std::sync::Arc;

use base::{GtidSet, Random, Uuid};
use catalog::Catalog;
use decode::trackers::TrackerKind;
use stamp::{FolderError, Part, ServedFolder, StampError, StampOptions, Stamper, file_name};
use testkit::log::{Author, INT, insert, int};

fn options() -> StampOptions {
    StampOptions { tracking: TrackerKind::Writeset, history_size: 1000, file_bytes: 3000, server_id: 7 }
}

/// Two files, without their magic numbers.
fn log() -> Vec<Vec<u8>> {
    let mut author = Author::new(Uuid([4; 16]));
    author.sql("CREATE DATABASE d");
    author.table("t", &[INT; 2], "id INT PRIMARY KEY, v INT");
    let mut files = Vec::new();
    for id in 0..60 {
        author.rows(&[insert("t", &[int(id), int(0)])]);
        if id == 20 {
            author.sql("ALTER TABLE t COMMENT = 'x'");
        }
        if id == 33 {
            files.push(author.end_file().split_off(4));
        }
    }
    files.push(author.events());
    files
}

/// Stamps into the folder until `parts` parts were put; true if that was all.
fn stamp(dir: &Path, parts: usize) -> bool {
    stamp_with(&options(), dir, parts)
}

fn stamp_with(options: &StampOptions, dir: &Path, parts: usize) -> bool {
    let (mut folder, start) = ServedFolder::open(dir, options).unwrap();
    let mut stamper = match &start {
        Some(start) => Stamper::again(options.clone(), start),
        None => Stamper::new(options.clone(), 1, GtidSet::new(), Catalog::new(0)),
    };
    let mut left = parts;
    let mut put = |part: Part<'_>| {
        if left == 0 {
            return Err("stopped".to_owned());
        }
        left -= 1;
        folder.put(&part).map_err(|error| error.to_string())
    };
    let from = start.as_ref().map_or(0, |start| start.at.file.strip_prefix("log.").unwrap().parse().unwrap());
    for (number, bytes) in log().into_iter().enumerate().skip(from) {
        let name: Arc<str> = format!("log.{number}").into();
        let mut chunks = vec![(4, bytes.clone())];
        if let Some(start) = start.as_ref().filter(|_| number == from) {
            let len = u32::from_le_bytes(bytes[9..13].try_into().unwrap()) as usize;
            let offset = start.at.offset;
            let rest = bytes[usize::try_from(offset).unwrap() - 4..].to_vec();
            chunks = vec![(offset - len as u64, bytes[..len].to_vec()), (offset, rest)];
        }
        for (offset, chunk) in chunks {
            match stamper.step(&name, offset, &Arc::new(chunk.into()), false, &mut put) {
                Ok(()) => {}
                Err(StampError::Output(_)) => return false,
                Err(error) => panic!("{error}"),
            }
        }
        stamper.end_of_file().unwrap();
    }
    folder.sync().unwrap();
    true
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let list = std::fs::read_to_string(dir.join("binlog.index")).unwrap();
    list.lines().map(|name| (name.to_owned(), std::fs::read(dir.join(name)).unwrap())).collect()
}

#[test]
fn the_same_bytes_after_a_stop_at_any_part_and_any_torn_file() {
    let whole = tempfile::tempdir().unwrap();
    assert!(stamp(whole.path(), usize::MAX));
    let wanted = files(whole.path());
    assert!(wanted.len() > 4, "{}", wanted.len());
    let mut random = Random::new(5);
    for parts in (0..90).step_by(2) {
        let dir = tempfile::tempdir().unwrap();
        stamp(dir.path(), parts);
        // The last file lost what was not synced, and holds a hole.
        let last = (1..).take_while(|number| dir.path().join(file_name(*number)).exists()).last();
        if let Some(path) = last.map(|number| dir.path().join(file_name(number)))
            && parts % 6 > 0
        {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.truncate(random.below(bytes.len() + 1));
            let hole = random.below(bytes.len() + 1);
            bytes[hole..].fill(0);
            std::fs::write(&path, bytes).unwrap();
        }
        if parts % 4 == 1 {
            std::fs::write(dir.path().join("binlog.000002.start.new"), "torn").unwrap();
        }
        // A second stop, and then none.
        stamp(dir.path(), random.below(40usize));
        assert!(stamp(dir.path(), usize::MAX));
        assert!(files(dir.path()) == wanted, "after {parts} parts");
        let records = std::fs::read_dir(dir.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".start"));
        assert_eq!(records.count(), 1, "only the last file's record is kept");
    }
}

#[test]
fn purged_files_stay_away_and_the_rest_goes_on() {
    let whole = tempfile::tempdir().unwrap();
    assert!(stamp(whole.path(), usize::MAX));
    let wanted = files(whole.path());
    let dir = tempfile::tempdir().unwrap();
    stamp(dir.path(), 40);
    let (mut folder, start) = ServedFolder::open(dir.path(), &options()).unwrap();
    let complete = usize::try_from(start.unwrap().number - 1).unwrap();
    assert!(complete > 1, "{complete}");
    for purged in 1..=complete {
        assert_eq!(folder.oldest(), Some(dir.path().join(&wanted[purged - 1].0)));
        folder.purge_oldest().unwrap();
        assert!(!dir.path().join(&wanted[purged - 1].0).exists());
    }
    assert_eq!(folder.oldest(), None);
    folder.purge_oldest().unwrap();
    drop(folder);
    assert!(stamp(dir.path(), usize::MAX));
    assert!(files(dir.path()) == wanted[complete..]);
}

#[test]
fn what_is_no_served_log_or_another_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(stamp(dir.path(), usize::MAX));
    let open = |options: &StampOptions| ServedFolder::open(dir.path(), options).err();
    let other = StampOptions { tracking: TrackerKind::CommitOrder, ..options() };
    assert!(matches!(open(&other), Some(FolderError::Settings { .. })));
    let last = files(dir.path()).len() as u64;
    let record = dir.path().join(file_name(last) + ".start");
    let kept = std::fs::read(&record).unwrap();
    for cut in [0, 10, 100, kept.len() - 1] {
        std::fs::write(&record, &kept[..cut]).unwrap();
        assert!(open(&options()).is_some(), "cut at {cut}");
    }
    std::fs::remove_file(&record).unwrap();
    assert!(matches!(open(&options()), Some(FolderError::Record { .. })));
    std::fs::write(&record, &kept).unwrap();
    // A file in the middle is gone.
    std::fs::rename(dir.path().join(file_name(2)), dir.path().join("away")).unwrap();
    assert!(matches!(open(&options()), Some(FolderError::Foreign { .. })));
    std::fs::remove_file(dir.path().join("away")).unwrap();
    assert!(matches!(open(&options()), Some(FolderError::Record { .. })));
}

/// max_binlog_size may change: the last file is made again with the bytes that it had, and the next ones have the new
/// size, wherever a stop or a power cut falls.
#[test]
fn another_size_holds_from_the_next_file_on() {
    let whole = tempfile::tempdir().unwrap();
    assert!(stamp(whole.path(), usize::MAX));
    let wanted = files(whole.path());
    let sized = |file_bytes| StampOptions { file_bytes, ..options() };
    let mut random = Random::new(7);
    let mut longer = 0;
    for parts in 3..80 {
        let dir = tempfile::tempdir().unwrap();
        stamp(dir.path(), parts);
        let last = (1..).take_while(|number| dir.path().join(file_name(*number)).exists()).count();
        // Two stops under the new size, the second of which loses what was not synced.
        let new = [1_000, 6_000][parts % 2];
        stamp_with(&sized(new), dir.path(), random.below(30usize));
        let begun = (1..).take_while(|number| dir.path().join(file_name(*number)).exists()).count();
        let torn = dir.path().join(file_name(begun as u64));
        if parts % 3 == 0 && torn.exists() {
            let bytes = std::fs::read(&torn).unwrap();
            std::fs::write(&torn, &bytes[..random.below(bytes.len() + 1)]).unwrap();
        }
        // Complete files are those of a run that was never stopped.
        let once = files(dir.path());
        assert!(stamp_with(&sized(new), dir.path(), usize::MAX));
        let again = files(dir.path());
        let complete = once.len().saturating_sub(1);
        assert!(once[..complete] == again[..complete], "{parts} parts");
        assert!(again[..last] == wanted[..last], "{parts} parts: the files up to {last} have the size of before");
        longer += again[last..].iter().filter(|(_, bytes)| bytes.len() > 3_000).count();
        assert!(new > 3_000 || again[last..].iter().all(|(_, bytes)| bytes.len() <= 1_000), "{parts} parts");
        // And back.
        assert!(stamp(dir.path(), usize::MAX));
        assert!(files(dir.path()) == again, "the last file keeps its size");
    }
    assert!(longer > 20, "{longer} files are longer than before");
}
